"""Ranking measures: every module of this folder is loaded, and every measure in it registered.

Measures of other packages are found through the entry point group ``marginrank.measures``.
"""

from __future__ import annotations

import importlib
import pkgutil
from importlib.metadata import entry_points

from marginrank.measures.base import BinaryMeasure, Measure, PositionMeasure, TwoLevels, parse_measure
from marginrank.measures.ranked_grades import RankedGrades

__all__ = ["BinaryMeasure", "Measure", "PositionMeasure", "RankedGrades", "TwoLevels", "all_measures", "parse_measure"]

ENTRY_POINTS = "marginrank.measures"


def all_measures() -> dict[str, type[Measure]]:
    """Return every registered measure by name, in alphabetical order."""
    return dict(sorted(Measure.registry.items()))


def _load() -> None:
    for module in pkgutil.iter_modules(__path__):
        if not module.name.endswith("_kernel"):
            importlib.import_module(f"{__name__}.{module.name}")
    for entry in entry_points(group=ENTRY_POINTS):
        entry.load()


_load()
