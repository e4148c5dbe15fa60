"""Ranking measures, one module each; all modules of this folder are loaded and register their measures.

Measures of other packages are found through the entry point group ``marginrank.measures``.
"""

from __future__ import annotations

from typing import cast

from marginrank.measures.base import BinaryMeasure, Measure, PositionMeasure, TwoLevels, parse_measure
from marginrank.measures.ranked_grades import RankedGrades
from marginrank.runtime.option_objects import registered

__all__ = ["BinaryMeasure", "Measure", "PositionMeasure", "RankedGrades", "TwoLevels", "all_measures", "parse_measure"]


def all_measures() -> dict[str, type[Measure]]:
    """Return every registered measure by name, in alphabetical order."""
    return cast("dict[str, type[Measure]]", registered(Measure))


# A measure of another module cannot take the name of one of these, whichever is used first.
all_measures()
