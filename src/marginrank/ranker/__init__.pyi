from .learned_profile import LearnedProfile as LearnedProfile
from .learned_profile import learn_profile as learn_profile
from .loader import load as load
from .ranker import Ranker as Ranker
from .selection import Candidate as Candidate
from .selection import Selection as Selection
from .tuning import tune as tune
