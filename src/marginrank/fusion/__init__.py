"""Fusion of retrieval runs: pooled runs, learned weights, and unsupervised fusions as baselines."""

from __future__ import annotations

from marginrank.fusion.fusion import ENGINE_KINDS, Fusion
from marginrank.fusion.random_splits import (
    SplitComparison,
    balanced_splits,
    compare_on_random_splits,
    compare_on_splits,
)
from marginrank.fusion.run_pool import RunScores, fusion_features, pool_runs, read_runs
from marginrank.fusion.unsupervised import UNSUPERVISED, BestRun, UnsupervisedFusion, borda, comb_mnz, comb_sum, rrf
from marginrank.preparation.run_features import KINDS

__all__ = [
    "ENGINE_KINDS",
    "KINDS",
    "UNSUPERVISED",
    "BestRun",
    "Fusion",
    "RunScores",
    "SplitComparison",
    "UnsupervisedFusion",
    "balanced_splits",
    "borda",
    "comb_mnz",
    "comb_sum",
    "compare_on_random_splits",
    "compare_on_splits",
    "fusion_features",
    "pool_runs",
    "read_runs",
    "rrf",
]
