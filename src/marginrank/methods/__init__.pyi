from .presets import Preset as Preset
from .presets import ResolvedMethod as ResolvedMethod
from .presets import all_presets as all_presets
from .presets import parse_method as parse_method
from .presets import parse_preset as parse_preset
