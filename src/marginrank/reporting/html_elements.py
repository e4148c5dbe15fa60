"""HTML elements. Whatever comes from files or users is escaped here, and only here."""

from __future__ import annotations

import html
import json
import math
import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from importlib import resources
from string import Template
from typing import Any, Final

from marginrank.reporting.charts import Spec, color
from marginrank.reporting.recompute_commands import Commands
from marginrank.version import __version__

ABSENT: Final = "–"
#: Most names in a list.
_MOST_NAMES: Final = 40


@dataclass(frozen=True)
class Cell:
    """Cell of a table: its text, sort key and style."""

    text: str
    key: float | None = None
    look: str = ""


@dataclass(frozen=True)
class TableColumn:
    """The head of a column; numbers are aligned and sorted as such, the largest first."""

    title: str
    number: bool = False


def escape(text: object) -> str:
    """Make text fit for a page.

    >>> escape('<b> & "c"')
    '&lt;b&gt; &amp; &quot;c&quot;'
    """
    return html.escape(str(text))


def breakable(name: object) -> str:
    """Make a name fit for a page, and let lines break after its separators.

    >>> breakable("numpy.ma/<1>")
    'numpy.<wbr>ma/<wbr>&lt;1&gt;'
    """
    return "<wbr>".join(map(escape, re.split(r"(?<=[._/:-])(?=[^._/:-])", str(name))))


def number(value: float | None, form: str = ".4f", look: str = "") -> Cell:
    """Make a cell of a number; what is not finite is absent, and sorted last.

    >>> number(-0.25, "+.2f").text, number(math.nan).text
    ('−0.25', '–')
    """
    if value is None or not math.isfinite(value):
        return Cell(ABSENT, None, look)
    return Cell(f"{value:{form}}".replace("-", "−"), float(value), look)


def table(
    caption: str, columns: Sequence[TableColumn], rows: Sequence[Sequence[Cell]], *, sortable: bool = True
) -> str:
    """Make a table in a box that scrolls if the table is too wide."""
    head = "".join(_head(column, sortable and len(rows) > 1) for column in columns)
    body = "\n".join(f"<tr>{''.join(map(_cell, range(len(row)), row, columns))}</tr>" for row in rows)
    return (
        f'<div class="scroll" role="region" tabindex="0" aria-label="{escape(caption)}"><table>'
        f"<caption>{breakable(caption)}</caption><thead><tr>{head}</tr></thead><tbody>{body}</tbody></table></div>"
    )


def _head(column: TableColumn, sortable: bool) -> str:
    look = ' class="number"' if column.number else ""
    if not sortable:
        return f'<th scope="col"{look}>{breakable(column.title)}</th>'
    return f'<th scope="col" aria-sort="none"{look}><button type="button">{escape(column.title)}</button></th>'


def _cell(at: int, cell: Cell, column: TableColumn) -> str:
    looks = " ".join(filter(None, ["number" if column.number else "", cell.look]))
    look = f' class="{looks}"' if looks else ""
    key = "" if cell.key is None else f' data-key="{cell.key!r}"'
    tag, scope = ("th", ' scope="row"') if at == 0 else ("td", "")
    text = breakable(cell.text) if cell.look == "name" else escape(cell.text)
    return f"<{tag}{scope}{look}{key}>{text}</{tag}>"


def facts_list(entries: Sequence[tuple[str, str]]) -> str:
    """Make a list of names and their values."""
    rows = "".join(f"<div><dt>{escape(name)}</dt><dd>{escape(text)}</dd></div>" for name, text in entries)
    return f'<dl class="facts">{rows}</dl>'


def command(commands: Commands | None, line: Callable[[Commands], str], what: str = "Recompute") -> str:
    """Show one of the commands, with a button that copies it; nothing if there are no commands."""
    if commands is None:
        return ""
    # Lines break between words, not inside an option.
    words = " ".join(f"<span>{escape(word)}</span>" for word in line(commands).split(" "))
    return (
        f'<div class="command"><span class="what">{escape(what)}</span><code>{words}</code>'
        f'<button type="button" class="copy" aria-label="Copy this command">Copy</button></div>'
    )


def listed(names: list[str]) -> str:
    """Name what there is, shortened.

    >>> listed([]), listed(["a", "b"])
    ('none', '2: a, b')
    """
    if not names:
        return "none"
    more = f" and {len(names) - _MOST_NAMES:,} more" if len(names) > _MOST_NAMES else ""
    return f"{len(names):,}: {', '.join(names[:_MOST_NAMES])}{more}"


def paragraph(text: str, look: str = "") -> str:
    """Make a paragraph of plain text."""
    return f"<p{_class(look)}>{escape(text)}</p>"


def chart(spec: Spec, caption: str = "") -> str:
    """Embed a chart, which the browser draws from its specification."""
    below = f"<figcaption>{escape(caption)}</figcaption>" if caption else ""
    return f'<figure class="chart"><div class="plot"></div>{data(spec)}{below}</figure>'


def data(value: Mapping[str, Any], name: str = "") -> str:
    r"""Embed data for scripts; nothing in it can end the element that holds it.

    >>> data({"feature": "</script>"})
    '<script type="application/json">{"feature":"\\u003c/script>"}</script>'
    """
    identity = f' id="{name}"' if name else ""
    text = json.dumps(value, ensure_ascii=False, allow_nan=False, separators=(",", ":")).replace("<", "\\u003c")
    return f'<script type="application/json"{identity}>{text}</script>'


def legend(names: Sequence[str]) -> str:
    """Make a legend: names of systems beside their colors."""
    items = "".join(
        f'<li><span class="swatch" style="background: {color(at)}"></span>{escape(name)}</li>'
        for at, name in enumerate(names)
    )
    return f'<ul class="legend">{items}</ul>'


def details(summary: str, content: str, look: str = "") -> str:
    """Make an element to open; the summary is markup."""
    return f"<details{_class(look)}><summary>{summary}</summary>{content}</details>"


def section(name: str, title: str, *parts: str) -> str:
    """Make a section with a heading that can be linked to."""
    return f'<section id="{name}" aria-labelledby="{name}-title"><h2 id="{name}-title">{escape(title)}</h2>\n' + (
        "\n".join(filter(None, parts)) + "\n</section>"
    )


def _class(look: str) -> str:
    return f' class="{look}"' if look else ""


_POLICY: Final = "default-src 'none'; script-src 'unsafe-inline'{}; style-src 'unsafe-inline'{}"


def whole_page(
    title: str,
    intro: str,
    sections: Sequence[str],
    footer: str,
    *,
    styles: Sequence[str] = ("page.css",),
    library: str = "",
    config: Mapping[str, Any] | None = None,
) -> str:
    """Put a page together.

    Args:
        title: The title, as text.
        intro: What stands below the title, as HTML.
        sections: The sections, as HTML.
        footer: What stands at the end, as HTML.
        styles: Names of the style sheets.
        library: The script that draws charts; without it the page may run less.
        config: The configuration of the charts.
    """
    scripts = [script for script in (library, file_text("page.js")) if script]
    return Template(file_text("page.html")).substitute(
        title=escape(title),
        version=escape(__version__),
        policy=_POLICY.format(*(" 'unsafe-eval'", "; img-src data:") if library else ("", "")),
        style="".join(map(file_text, styles)),
        intro=intro,
        sections="\n".join(sections),
        footer=footer,
        config=data(config or {}, "chart-config"),
        scripts="\n".join(f'<script type="module">\n{script}\n</script>' for script in scripts),
    )


def file_text(name: str) -> str:
    """Read a file of this folder."""
    return resources.files("marginrank.reporting").joinpath(name).read_text(encoding="utf-8")
