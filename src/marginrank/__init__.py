"""Train rankers for the measure they are judged by.

Names are loaded when they are first used, so that importing the package costs next to nothing.
"""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from marginrank.data.formats import convert, read, read_queries
    from marginrank.data.letor import read_letor
    from marginrank.data.letor_writer import write_letor
    from marginrank.data.queries import Queries
    from marginrank.data.storage import read_binary, read_npz, write_binary
    from marginrank.data.tables import from_frame, read_table, write_parquet
    from marginrank.data.trec import Qrels, Run, read_qrels, read_run, write_run
    from marginrank.errors import DataError
    from marginrank.evaluation.evaluate import Evaluation, evaluate
    from marginrank.evaluation.policies import POLICIES, Policy
    from marginrank.evaluation.significance import Comparison, compare
    from marginrank.measures import BinaryMeasure, Measure, PositionMeasure, all_measures, parse_measure
    from marginrank.preparation import (
        QueryMinMax,
        QueryPercentile,
        QueryStandardize,
        Standardize,
        ThresholdBins,
        clean,
    )

__version__ = "0.1.0"

_HOMES = {
    "data.formats": ("convert", "read", "read_queries"),
    "data.letor": ("read_letor",),
    "data.letor_writer": ("write_letor",),
    "data.queries": ("Queries",),
    "data.storage": ("read_binary", "read_npz", "write_binary"),
    "data.tables": ("from_frame", "read_table", "write_parquet"),
    "data.trec": ("Qrels", "Run", "read_qrels", "read_run", "write_run"),
    "errors": ("DataError",),
    "evaluation.evaluate": ("Evaluation", "evaluate"),
    "evaluation.policies": ("POLICIES", "Policy"),
    "evaluation.significance": ("Comparison", "compare"),
    "measures": ("BinaryMeasure", "Measure", "PositionMeasure", "all_measures", "parse_measure"),
    "preparation": ("QueryMinMax", "QueryPercentile", "QueryStandardize", "Standardize", "ThresholdBins", "clean"),
}
_HOME_OF = {name: home for home, names in _HOMES.items() for name in names}

__all__ = [
    "POLICIES",
    "BinaryMeasure",
    "Comparison",
    "DataError",
    "Evaluation",
    "Measure",
    "Policy",
    "PositionMeasure",
    "Qrels",
    "Queries",
    "QueryMinMax",
    "QueryPercentile",
    "QueryStandardize",
    "Run",
    "Standardize",
    "ThresholdBins",
    "all_measures",
    "clean",
    "compare",
    "convert",
    "evaluate",
    "from_frame",
    "parse_measure",
    "read",
    "read_binary",
    "read_letor",
    "read_npz",
    "read_qrels",
    "read_queries",
    "read_run",
    "read_table",
    "write_binary",
    "write_letor",
    "write_parquet",
    "write_run",
]


def __getattr__(name: str) -> Any:
    if name not in _HOME_OF:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    value = getattr(importlib.import_module(f"{__name__}.{_HOME_OF[name]}"), name)
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})
