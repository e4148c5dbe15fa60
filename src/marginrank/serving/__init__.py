"""The HTTP service of a model: features or runs in, rankings out.

`create_app` makes an ASGI application of a model file, and `serve` runs it, as ``marginrank serve`` does. Documents are
scored with `marginrank.model.scoring`, which needs NumPy alone.
"""

from importlib.util import find_spec

if not all(map(find_spec, ("fastapi", "prometheus_client", "uvicorn"))):
    raise ImportError("marginrank.serving needs FastAPI and uvicorn: pip install 'marginrank[serve]'")

from marginrank.serving.requests import RequestLimits
from marginrank.serving.routes import create_app
from marginrank.serving.server import serve

__all__ = ["RequestLimits", "create_app", "serve"]
