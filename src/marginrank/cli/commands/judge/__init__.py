"""``marginrank judge``: judgements, from the page they are made in to the files they end in. One module per command."""

from __future__ import annotations

from typing import Final

HELP: Final = (
    "Judge documents, and work with the judgements of several raters.\n\n"
    "marginrank judge DATA opens the judging page, like marginrank judge page DATA."
)
#: The command that is meant by ``marginrank judge DATA``.
DEFAULT: Final = "page"
