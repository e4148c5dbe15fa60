from .convex import CollapseWarning as CollapseWarning
from .convex import ConvexTrainer as ConvexTrainer
from .partitioned_risk import PartitionedRisk as PartitionedRisk
from .partitioned_risk import empirical_risk as empirical_risk
from .partitioned_risk import ranking_risk as ranking_risk
from .risk import RankingRisk as RankingRisk
from .tight_bound import Tight as Tight
