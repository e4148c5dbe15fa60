from .bundle import Bundle as Bundle
from .concave_convex import ConcaveConvex as ConcaveConvex
from .frank_wolfe import FrankWolfe as FrankWolfe
from .n_slack import NSlack as NSlack
from .newton import Newton as Newton
from .solution import Solution as Solution
from .solution import Step as Step
from .subgradient import Subgradient as Subgradient
