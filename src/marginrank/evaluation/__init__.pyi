from .comparing import Comparison as Comparison
from .comparing import compare as compare
from .comparing import mean_interval as mean_interval
from .evaluating import Evaluation as Evaluation
from .evaluating import evaluate as evaluate
from .policies import POLICIES as POLICIES
from .policies import Policy as Policy
from .policies import parse_policy as parse_policy
