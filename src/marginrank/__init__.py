"""Train rankers for the measure they are judged by.

Names are loaded when they are first used, so that importing the package costs next to nothing.
"""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, Any

from marginrank.version import __version__ as __version__

if TYPE_CHECKING:
    from marginrank.bounds import argmax_bound, lipschitz_constants, stability_bound
    from marginrank.data.formats import convert, read, read_queries
    from marginrank.data.letor import read_letor
    from marginrank.data.letor_writer import write_letor
    from marginrank.data.queries import Queries
    from marginrank.data.storage import read_binary, read_npz, write_binary
    from marginrank.data.tables import from_frame, read_table, write_parquet
    from marginrank.data.trec import Qrels, Run, read_qrels, read_run, write_run
    from marginrank.errors import DataError
    from marginrank.estimators import Ranker, load
    from marginrank.evaluation.evaluate import Evaluation, evaluate
    from marginrank.evaluation.policies import POLICIES, Policy
    from marginrank.evaluation.significance import Comparison, compare
    from marginrank.feature_maps import FirstRelevant, PartialOrder, Positional, parse_map
    from marginrank.fusion import BestRun, FixedFusion, Fusion, Trials, gather, read_runs, trials
    from marginrank.losses.assigned import CostLoss, GroupedLoss
    from marginrank.losses.base import Loss
    from marginrank.losses.combine import MaxLoss, SumLoss
    from marginrank.losses.pairwise import ListHinge, PairwiseHinge, PositionHinge
    from marginrank.losses.per_query import ModifiedWTA
    from marginrank.losses.pointwise import SquaredError
    from marginrank.losses.slack import SlackLoss
    from marginrank.losses.smooth import SoftmaxCrossEntropy
    from marginrank.losses.smoothed import SmoothedHinge
    from marginrank.losses.structured import StructuredLoss
    from marginrank.measures import BinaryMeasure, Measure, PositionMeasure, all_measures, parse_measure
    from marginrank.oracles.choice import oracle_for
    from marginrank.preparation import (
        QueryMinMax,
        QueryPercentile,
        QueryStandardize,
        Standardize,
        ThresholdBins,
        clean,
    )
    from marginrank.presets import PRESETS, Preset, parse_preset
    from marginrank.reporting.report import write_report
    from marginrank.scorers.additive import AdditiveRisk
    from marginrank.scorers.bins import Bins, Shape
    from marginrank.scorers.linear import LinearRisk
    from marginrank.selection import DEFAULT_CS, Selection, tune
    from marginrank.solvers.bundle import Bundle
    from marginrank.solvers.concave_convex import ConcaveConvex
    from marginrank.solvers.frank_wolfe import FrankWolfe
    from marginrank.solvers.n_slack import NSlack
    from marginrank.solvers.newton import Newton
    from marginrank.solvers.solution import Solution, Step
    from marginrank.solvers.subgradient import Subgradient
    from marginrank.training import CollapseWarning, Health


_HOMES = {
    "bounds": ("argmax_bound", "lipschitz_constants", "stability_bound"),
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
    "feature_maps": ("FirstRelevant", "PartialOrder", "Positional", "parse_map"),
    "losses.assigned": ("CostLoss", "GroupedLoss"),
    "losses.base": ("Loss",),
    "losses.combine": ("MaxLoss", "SumLoss"),
    "losses.pairwise": ("ListHinge", "PairwiseHinge", "PositionHinge"),
    "losses.per_query": ("ModifiedWTA",),
    "losses.pointwise": ("SquaredError",),
    "losses.slack": ("SlackLoss",),
    "losses.smooth": ("SoftmaxCrossEntropy",),
    "losses.smoothed": ("SmoothedHinge",),
    "losses.structured": ("StructuredLoss",),
    "oracles.choice": ("oracle_for",),
    "scorers.linear": ("LinearRisk",),
    "estimators": (
        "Ranker",
        "load",
    ),
    "presets": (
        "PRESETS",
        "Preset",
        "parse_preset",
    ),
    "reporting.report": ("write_report",),
    "scorers.additive": ("AdditiveRisk",),
    "scorers.bins": (
        "Bins",
        "Shape",
    ),
    "selection": (
        "DEFAULT_CS",
        "Selection",
        "tune",
    ),
    "solvers.bundle": ("Bundle",),
    "solvers.concave_convex": ("ConcaveConvex",),
    "solvers.frank_wolfe": ("FrankWolfe",),
    "solvers.n_slack": ("NSlack",),
    "solvers.newton": ("Newton",),
    "solvers.solution": (
        "Solution",
        "Step",
    ),
    "solvers.subgradient": ("Subgradient",),
    "training": (
        "CollapseWarning",
        "Health",
    ),
    "fusion": ("BestRun", "FixedFusion", "Fusion", "Trials", "gather", "read_runs", "trials"),
    "measures": ("BinaryMeasure", "Measure", "PositionMeasure", "all_measures", "parse_measure"),
    "preparation": ("QueryMinMax", "QueryPercentile", "QueryStandardize", "Standardize", "ThresholdBins", "clean"),
}
_HOME_OF = {name: home for home, names in _HOMES.items() for name in names}

__all__ = [
    "DEFAULT_CS",
    "POLICIES",
    "PRESETS",
    "AdditiveRisk",
    "BestRun",
    "BinaryMeasure",
    "Bins",
    "Bundle",
    "CollapseWarning",
    "Comparison",
    "ConcaveConvex",
    "CostLoss",
    "DataError",
    "Evaluation",
    "FirstRelevant",
    "FixedFusion",
    "FrankWolfe",
    "Fusion",
    "GroupedLoss",
    "Health",
    "LinearRisk",
    "ListHinge",
    "Loss",
    "MaxLoss",
    "Measure",
    "ModifiedWTA",
    "NSlack",
    "Newton",
    "PairwiseHinge",
    "PartialOrder",
    "Policy",
    "PositionHinge",
    "PositionMeasure",
    "Positional",
    "Preset",
    "Qrels",
    "Queries",
    "QueryMinMax",
    "QueryPercentile",
    "QueryStandardize",
    "Ranker",
    "Run",
    "Selection",
    "Shape",
    "SlackLoss",
    "SmoothedHinge",
    "SoftmaxCrossEntropy",
    "Solution",
    "SquaredError",
    "Standardize",
    "Step",
    "StructuredLoss",
    "Subgradient",
    "SumLoss",
    "ThresholdBins",
    "Trials",
    "all_measures",
    "argmax_bound",
    "clean",
    "compare",
    "convert",
    "evaluate",
    "from_frame",
    "gather",
    "lipschitz_constants",
    "load",
    "oracle_for",
    "parse_map",
    "parse_measure",
    "parse_preset",
    "read",
    "read_binary",
    "read_letor",
    "read_npz",
    "read_qrels",
    "read_queries",
    "read_run",
    "read_runs",
    "read_table",
    "stability_bound",
    "trials",
    "tune",
    "write_binary",
    "write_letor",
    "write_parquet",
    "write_report",
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
