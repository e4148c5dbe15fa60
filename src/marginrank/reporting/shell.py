"""What all pages share: one template, which needs nothing from the network."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from importlib import resources
from string import Template
from typing import Any, Final

from marginrank.reporting.markup import data, escape
from marginrank.version import __version__

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
