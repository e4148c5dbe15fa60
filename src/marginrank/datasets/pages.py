"""Pages of documentation: the docstrings of public functions and classes, and what they refer to."""

from __future__ import annotations

import importlib
import inspect
import pkgutil
import warnings
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from functools import cached_property
from types import ModuleType
from typing import Any, Final

from marginrank.datasets.numpydoc import Docstring, parse_docstring

#: Modules that are not imported: tests, builds, what changes the package when imported, and duplicates for Cython.
_SKIPPED: Final = frozenset(
    {
        *("conftest", "core", "cython_special", "distutils", "estimator_checks", "experimental", "externals", "f2py"),
        *("matlib", "overrides", "print_coercion_tables", "setup", "tests", "testutils", "typing"),
    }
)
#: What scikit-learn writes about estimators that a module exports only once they are enabled somewhere in the process.
_HIDDEN: Final = "is still **experimental**"


@dataclass(frozen=True)
class Pages:
    """Docstrings by the name of what they describe, and the name that stands for each alias."""

    documents: Mapping[str, Docstring]
    aliases: Mapping[str, str]

    @cached_property
    def packages(self) -> list[str]:
        """The packages that the names are in."""
        return sorted({alias.partition(".")[0] for alias in self.aliases})

    def resolve(self, name: str, page: str) -> str | None:
        """Find what a name on a page refers to: in the module of the page, then further out, then in any package.

        >>> pages = Pages({}, {"numpy.fft.fft": "numpy.fft.fft", "numpy.abs": "numpy.absolute"})
        >>> [pages.resolve(name, "numpy.fft.ifft") for name in ("fft", "abs", "unknown")]
        ['numpy.fft.fft', 'numpy.absolute', None]
        """
        name = f"numpy.{name[3:]}" if name.startswith("np.") else name
        modules = page.split(".")[:-1]
        around = [".".join(modules[:depth]) for depth in range(len(modules), 0, -1)]
        places = ["", *(f"{module}." for module in (*around, *self.packages))]
        return next((self.aliases[place + name] for place in places if place + name in self.aliases), None)

    def references(self, page: str) -> list[str]:
        """Return what a page refers to in its *See Also* section, each once."""
        names = (name for entry in self.documents[page].references for name in entry.names)
        found = dict.fromkeys(self.resolve(name, page) for name in names)
        return [target for target in found if target is not None and target != page]


def read_pages(packages: Iterable[str]) -> Pages:
    """Read the docstrings of the public functions, classes and other callables of packages.

    What has several public names, or the same docstring as something else, is one page under the name with the fewest
    dots.
    """
    names: dict[str, list[tuple[int, bool, int, str]]] = {}
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        # All of them first: importing some changes the docstrings of others.
        modules = [(module, package) for package in packages for module in _modules(package)]
        for module, package in modules:
            for name, value in _public(module, package):
                depth, renamed = name.count("."), name.rpartition(".")[2] != getattr(value, "__name__", "")
                names.setdefault(inspect.cleandoc(value.__doc__), []).append((depth, renamed, len(name), name))
    named = {min(candidates)[-1]: (docstring, candidates) for docstring, candidates in names.items()}
    if not named:
        raise RuntimeError("there are no docstrings to read; run Python without -OO")
    return Pages(
        {name: parse_docstring(named[name][0]) for name in sorted(named)},
        {candidate[-1]: name for name, (_, candidates) in named.items() for candidate in candidates},
    )


def _modules(name: str) -> Iterator[ModuleType]:
    """Import a package and its public modules; what cannot be imported is left out."""
    try:
        module = importlib.import_module(name)
    except ImportError:
        return
    yield module
    for inner in pkgutil.iter_modules(getattr(module, "__path__", [])):
        if not inner.name.startswith("_") and inner.name not in _SKIPPED:
            yield from _modules(f"{name}.{inner.name}")


def _public(module: ModuleType, package: str) -> Iterator[tuple[str, Any]]:
    """The documented callables that a module exports; without ``__all__``, those that it defines."""
    exported = getattr(module, "__all__", None)
    # vars, not getattr: modules that are kept for old names warn when they are asked for one.
    for name, value in list(vars(module).items()):
        if name.startswith("_") or name == "test" or inspect.ismodule(value) or not callable(value):
            continue
        home = getattr(value, "__module__", None) or package
        shown = home == module.__name__ if exported is None else name in exported and home.partition(".")[0] == package
        if shown and isinstance(value.__doc__, str) and value.__doc__.strip() and _HIDDEN not in value.__doc__:
            yield f"{module.__name__}.{name}", value
