from .presets import Method as Method, Preset as Preset, all_presets as all_presets, parse_method as parse_method
from .presets import parse_preset as parse_preset
from .tight import Tight as Tight
from .training import CollapseWarning as CollapseWarning, Training as Training
