"""The description of the package: README.md, with links that work outside the repository."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any, Final

from hatchling.metadata.plugin.interface import MetadataHookInterface

_REPOSITORY: Final = "https://github.com/marginrank/marginrank"
#: A link or a picture with a path of the repository, in Markdown and in HTML.
_MARKDOWN: Final = re.compile(r"(!?)(\[[^\]]*\]\()(?![a-z]+:|#)")
_HTML: Final = re.compile(r'(srcset|src|href)="(?![a-z]+:|#)')
_VERSION: Final = re.compile(r'^__version__: Final = "(.+)"$', re.MULTILINE)


def with_absolute_links(text: str, tag: str) -> str:
    """Return Markdown whose links lead to the files of a tag.

    >>> with_absolute_links("[a](docs/a.md#b) [d](https://d.org) [e](#e)", "v1")
    '[a](https://github.com/marginrank/marginrank/blob/v1/docs/a.md#b) [d](https://d.org) [e](#e)'
    >>> with_absolute_links('<img src="c.png">', "v1")
    '<img src="https://github.com/marginrank/marginrank/raw/v1/c.png">'
    """
    text = _MARKDOWN.sub(lambda link: f"{link[1]}{link[2]}{_REPOSITORY}/{'raw' if link[1] else 'blob'}/{tag}/", text)
    return _HTML.sub(lambda link: f'{link[1]}="{_REPOSITORY}/{"blob" if link[1] == "href" else "raw"}/{tag}/', text)


class ReadmeHook(MetadataHookInterface):
    """Sets ``readme`` when the package is built."""

    def update(self, metadata: dict[str, Any]) -> None:
        """Add the description to the metadata."""
        root = Path(self.root)
        version = _VERSION.search((root / "src/marginrank/version.py").read_text(encoding="utf-8"))
        if version is None:
            raise ValueError("src/marginrank/version.py has no version")
        text = (root / "README.md").read_text(encoding="utf-8")
        metadata["readme"] = {"content-type": "text/markdown", "text": with_absolute_links(text, f"v{version[1]}")}
