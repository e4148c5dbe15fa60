"""SciPy's sparse arrays, whose module is loaded when the first of them is made.

    from marginrank.sparse import sp

Then ``sp`` stands for `scipy.sparse`, which takes an eighth of a second to import, and which dense features never need.
"""

from __future__ import annotations

import importlib
import sys
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    import scipy.sparse as sp
else:

    class _Sparse:
        """Stand in for `scipy.sparse`."""

        def __getattr__(self, name: str) -> Any:
            return getattr(importlib.import_module("scipy.sparse"), name)

        @staticmethod
        def issparse(X: object) -> bool:
            """Tell whether X is sparse; if the module is not loaded, nothing is."""
            return "scipy.sparse" in sys.modules and importlib.import_module("scipy.sparse").issparse(X)

    sp = _Sparse()

__all__ = ["sp"]
