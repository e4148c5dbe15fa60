"""The measures that rankings are judged by if none is named, in Python and on the command line."""

from __future__ import annotations

from typing import Final

#: The measure to choose and to compare by.
DEFAULT_MEASURE: Final = "ndcg@10"
#: The measures that evaluations and reports show, that one first.
DEFAULT_MEASURES: Final = (DEFAULT_MEASURE, "ap")
