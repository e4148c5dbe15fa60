from .auto import Auto as Auto
from .base import Callback as Callback, Solver as Solver, parse_solver as parse_solver
from .bundle import Bundle as Bundle
from .concave_convex import ConcaveConvex as ConcaveConvex
from .frank_wolfe import FrankWolfe as FrankWolfe
from .n_slack import NSlack as NSlack
from .newton import Newton as Newton
from .problem import Function as Function, Problem as Problem
from .solution import Solution as Solution, Step as Step
from .subgradient import Subgradient as Subgradient
