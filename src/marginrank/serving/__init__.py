"""The HTTP service of a model: features or runs in, rankings out.

`create_app` makes an ASGI application of a model file, and `serve` runs it, as ``marginrank serve`` does. Documents are
scored with `marginrank.model.scoring`, which needs NumPy alone.
"""

from importlib.util import find_spec
from typing import Any

from marginrank.runtime.lazy_imports import attach

# __init__.pyi names what is exported; modules are loaded when their names are first used.
_find, __dir__, __all__ = attach(__name__, __file__)


def __getattr__(name: str) -> Any:
    if not all(map(find_spec, ("fastapi", "prometheus_client", "uvicorn"))):
        raise ImportError("marginrank.serving needs FastAPI and uvicorn: pip install 'marginrank[serve]'")
    return _find(name)
