"""A parser of docstrings in numpydoc format: summary, *See Also* section and text."""

from __future__ import annotations

import importlib
import inspect
import pkgutil
import re
import warnings
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from functools import cached_property
from types import ModuleType
from typing import Any, Final

#: Titles of the sections that are not part of the text.
_TITLE: Final = re.compile(r"^[ \t]*(see also|examples?):?[ \t]*$", re.IGNORECASE)
_UNDERLINE: Final = re.compile(r"^[ \t]*[-=~]{3,}[ \t]*$")
_DIRECTIVE: Final = re.compile(r"^(?P<indent>[ \t]*)\.\. seealso::[ \t]*(?P<rest>.*)$", re.IGNORECASE)
#: A name as numpydoc takes it: plain, in backticks, or with a role such as :func:`~numpy.fft.fft`.
_NAME: Final = r"(?::[\w:+]+:)?`+~?\.?[\w.]+(?:\(\))?`+_?|~?\.?[A-Za-z_][\w.]*(?:\(\))?"
_ENTRY: Final = re.compile(
    rf"^(?P<names>(?:{_NAME})(?:\s*,\s*(?:{_NAME}))*)\s*,?\s*(?:(?::|--|-)(?:\s+(?P<text>.*)|$)|$)"
)

_ONE_NAME: Final = re.compile(r"(?::[\w:+]+:)?`*~?\.?(?P<name>[A-Za-z_][\w.]*)")
_ROLE: Final = re.compile(r":[\w:+]+:`~?\.?([^`<]+?)(?:\s*<[^`>]*>)?`")
_BACKTICKS: Final = re.compile(r"`+([^`]*)`+_{0,2}")


@dataclass(frozen=True)
class Reference:
    """An entry of a *See Also* section: the names it refers to, and its description, which may be empty."""

    names: tuple[str, ...]
    text: str


@dataclass(frozen=True)
class Docstring:
    """The parts of a docstring.

    >>> doc = parse_docstring('''Unravel.
    ...
    ... See Also
    ... --------
    ... ravel, flat : Go back.
    ...
    ... Notes
    ... -----
    ... Rows first.
    ... ''')
    >>> doc.summary, doc.references
    ('Unravel.', (Reference(names=('ravel', 'flat'), text='Go back.'),))
    >>> doc.text.split()
    ['Unravel.', 'Notes', '-----', 'Rows', 'first.']
    """

    summary: str
    text: str
    references: tuple[Reference, ...]


def parse_docstring(docstring: str) -> Docstring:
    """Split a docstring into its parts.

    The text has neither *See Also* nor *Examples*; what examples print may differ from one import to the next, as SciPy
    fills in some of it with random numbers.
    """
    kept: list[str] = []
    references: list[Reference] = []
    lines = inspect.cleandoc(docstring).splitlines()
    at = 0
    while at < len(lines):
        end = _end_of_directive(lines, at) or _end_of_section(lines, at)
        if end is None:
            kept.append(lines[at])
        elif not lines[at].strip().lower().startswith("example"):
            references += parse_see_also(_content(lines[at:end]))
        at = end or at + 1
    text = "\n".join(kept).strip()
    return Docstring(_summary(text), text, tuple(references))


def _end_of_directive(lines: list[str], at: int) -> int | None:
    """Return the line after the ``seealso`` directive that starts here, or None."""
    directive = _DIRECTIVE.match(lines[at])
    if not directive:
        return None
    depth = len(directive["indent"])
    outside = (
        number for number in range(at + 1, len(lines)) if lines[number].strip() and _indent(lines[number]) <= depth
    )
    return next(outside, len(lines))


def _end_of_section(lines: list[str], at: int) -> int | None:
    """Return the line after the section to remove that starts here, or None."""
    if not (_TITLE.match(lines[at]) and at + 1 < len(lines) and _UNDERLINE.match(lines[at + 1])):
        return None
    for number in range(at + 2, len(lines) - 1):
        is_title = lines[number].strip() and _UNDERLINE.match(lines[number + 1])
        if is_title and _indent(lines[number]) <= _indent(lines[at]):
            return number
    return len(lines)


def _content(section: list[str]) -> str:
    directive = _DIRECTIVE.match(section[0])
    if directive and directive["rest"]:
        return "\n".join([directive["rest"], *section[1:]])
    return inspect.cleandoc("\n".join(["", *section[1 if directive else 2 :]]))


def _indent(line: str) -> int:
    return len(line) - len(line.lstrip())


def parse_see_also(section: str) -> Iterator[Reference]:
    r"""Read the entries of a *See Also* section; skip lines that are not entries.

    >>> for entry in parse_see_also("fft\n    The transform,\n    in 1-D.\n:func:`~scipy.fft.ifft`: Its inverse."):
    ...     print(entry.names, entry.text)
    ('fft',) The transform, in 1-D.
    ('scipy.fft.ifft',) Its inverse.
    """
    names: tuple[str, ...] = ()
    words: list[str] = []
    for line in [*section.splitlines(), "end"]:
        if not line.strip():
            continue
        if line[0].isspace():
            words += [] if line.strip().startswith("..") else [line.strip()]
            continue
        if names:
            yield Reference(names, plain_text(" ".join(words)))
        entry = _ENTRY.match(line.strip().removeprefix("- ").removeprefix("* "))
        names = tuple(match["name"].rstrip(".") for match in _ONE_NAME.finditer(entry["names"])) if entry else ()
        words = [entry["text"]] if entry and entry["text"] else []


def plain_text(text: str) -> str:
    """Remove roles and backticks.

    >>> plain_text("Like :func:`~numpy.fft.fft`, but ``real``.")
    'Like numpy.fft.fft, but real.'
    """
    return " ".join(_BACKTICKS.sub(r"\1", _ROLE.sub(r"\1", text)).split())


def _summary(text: str) -> str:
    """Return the first paragraph after the signature that compiled functions start with."""
    for paragraph in re.split(r"\n\s*\n", text):
        if not re.match(r"^[\w.]+\(.*\)(\s*->.*)?$", " ".join(paragraph.split())):
            return plain_text(paragraph)
    return plain_text(text)


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
        """Resolve a name on a page: in the module of the page, then in its parents, then in any package.

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
        """Return the pages in the *See Also* section of a page, each once."""
        names = (name for entry in self.documents[page].references for name in entry.names)
        targets = dict.fromkeys(self.resolve(name, page) for name in names)
        return [target for target in targets if target is not None and target != page]


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
    """Import a package and its public modules; skip those that cannot be imported."""
    try:
        module = importlib.import_module(name)
    except ImportError:
        return
    yield module
    for inner in pkgutil.iter_modules(getattr(module, "__path__", [])):
        if not inner.name.startswith("_") and inner.name not in _SKIPPED:
            yield from _modules(f"{name}.{inner.name}")


def _public(module: ModuleType, package: str) -> Iterator[tuple[str, Any]]:
    """Return the documented callables that a module exports; without ``__all__``, those that it defines."""
    exported = getattr(module, "__all__", None)
    # vars, not getattr: modules that are kept for old names warn when they are asked for one.
    for name, value in list(vars(module).items()):
        if name.startswith("_") or name == "test" or inspect.ismodule(value) or not callable(value):
            continue
        home = getattr(value, "__module__", None) or package
        shown = home == module.__name__ if exported is None else name in exported and home.partition(".")[0] == package
        if shown and isinstance(value.__doc__, str) and value.__doc__.strip() and _HIDDEN not in value.__doc__:
            yield f"{module.__name__}.{name}", value
