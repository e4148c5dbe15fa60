from .presets import PRESETS as PRESETS
from .presets import Preset as Preset
from .presets import parse_preset as parse_preset
from .training import CollapseWarning as CollapseWarning
from .training import Health as Health
