from .base import CannotRunError as CannotRunError
from .base import Export as Export
from .base import Target as Target
from .base import all_targets as all_targets
from .base import parse_target as parse_target
from .export_files import Check as Check
from .export_files import export as export
from .export_files import verify as verify
