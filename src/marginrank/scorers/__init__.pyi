from .additive import Additive as Additive
from .base import PreparedScorer as PreparedScorer, Scorer as Scorer, parse_scorer as parse_scorer
from .bins import Bins as Bins, Shape as Shape
from .forms import Form as Form
from .linear import Linear as Linear, Weights as Weights
