"""``marginrank clicks``: from a search log to a ranking. One module per command."""

from __future__ import annotations

from typing import Final

HELP: Final = "Train and evaluate rankers from click logs, corrected for position bias."
