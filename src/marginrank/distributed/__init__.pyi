from .queries import DistributedQueries as DistributedQueries
