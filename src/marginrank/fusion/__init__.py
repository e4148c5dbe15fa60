"""Combine retrieval runs: gather them, learn their weights, and compare with unsupervised fusions."""

from __future__ import annotations

from marginrank.fusion.fusion import DEFAULT_FEATURES, Fusion
from marginrank.fusion.random_splits import Trials, balanced_splits, contest, trials
from marginrank.fusion.run_pool import Columns, fusion_features, gather, read_runs
from marginrank.fusion.unsupervised import FIXED, BestRun, FixedFusion, borda, comb_mnz, comb_sum, rrf
from marginrank.preparation.run_features import KINDS

__all__ = [
    "DEFAULT_FEATURES",
    "FIXED",
    "KINDS",
    "BestRun",
    "Columns",
    "FixedFusion",
    "Fusion",
    "Trials",
    "balanced_splits",
    "borda",
    "comb_mnz",
    "comb_sum",
    "contest",
    "fusion_features",
    "gather",
    "read_runs",
    "rrf",
    "trials",
]
