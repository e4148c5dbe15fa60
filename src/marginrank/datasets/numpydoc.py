"""Docstrings in numpydoc format: their summary, their *See Also* section, and their text."""

from __future__ import annotations

import inspect
import re
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Final

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
    """A docstring taken apart.

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
    """Take a docstring apart.

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
    """Return the line after the ``seealso`` directive that starts here; None where none does."""
    directive = _DIRECTIVE.match(lines[at])
    if not directive:
        return None
    depth = len(directive["indent"])
    outside = (
        number for number in range(at + 1, len(lines)) if lines[number].strip() and _indent(lines[number]) <= depth
    )
    return next(outside, len(lines))


def _end_of_section(lines: list[str], at: int) -> int | None:
    """Return the line after the section to remove that starts here; None where none does."""
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
    r"""Read the entries of a *See Also* section; lines that are no entry are left out.

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
        names = tuple(one["name"].rstrip(".") for one in _ONE_NAME.finditer(entry["names"])) if entry else ()
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
