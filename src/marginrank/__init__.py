"""Train rankers for the measure they are judged by."""

from marginrank.runtime.lazy_imports import attach
from marginrank.version import __version__ as __version__

# __init__.pyi names what is exported; modules are loaded when their names are first used.
__getattr__, __dir__, __all__ = attach(__name__, __file__)
