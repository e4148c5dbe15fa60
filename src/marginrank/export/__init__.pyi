from .base import CannotRunError as CannotRunError
from .base import Export as Export
from .base import Target as Target
from .base import all_targets as all_targets
from .base import parse_target as parse_target
from .checks import Check as Check
from .exporting import export as export
from .exporting import verify as verify
