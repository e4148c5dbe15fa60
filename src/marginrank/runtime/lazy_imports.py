"""Packages whose exported names are imported on first use."""

from __future__ import annotations

import importlib
import importlib.util
import sys
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

import lazy_loader

if TYPE_CHECKING:
    import scipy.sparse as sp
else:

    class _Sparse:
        """A proxy of `scipy.sparse`, which is imported on first use."""

        def __getattr__(self, name: str) -> Any:
            return getattr(importlib.import_module("scipy.sparse"), name)

        @staticmethod
        def issparse(X: object) -> bool:
            """Return whether X is sparse; without loading the module, since no sparse X exists before."""
            return "scipy.sparse" in sys.modules and importlib.import_module("scipy.sparse").issparse(X)

    sp = _Sparse()


def attach(package: str, file: str) -> tuple[Callable[[str], Any], Callable[[], list[str]], list[str]]:
    """Return ``__getattr__``, ``__dir__`` and ``__all__`` of a package, whose ``__init__.pyi`` names what is exported.

    Its modules need not be imported before use, and the error for an unknown name suggests a similar one.

    >>> import marginrank
    >>> marginrank.losses.StructuredLoss("ap").criterion
    'ap'
    >>> marginrank.Rankr
    Traceback (most recent call last):
    AttributeError: module 'marginrank' has no attribute 'Rankr'; did you mean 'Ranker'?

    Args:
        package: ``__name__`` of the package.
        file: ``__file__`` of the package.
    """
    load, names, exported = lazy_loader.attach_stub(package, file)

    def find(name: str) -> Any:
        if name in exported:
            return load(name)
        if not name.startswith("_") and importlib.util.find_spec(f"{package}.{name}") is not None:
            return importlib.import_module(f"{package}.{name}")
        from marginrank.runtime.text import did_you_mean  # noqa: PLC0415

        hint = did_you_mean(name, exported).strip()
        raise AttributeError(f"module {package!r} has no attribute {name!r}{hint and f'; {hint}'}")

    return find, names, exported


__all__ = ["sp"]
