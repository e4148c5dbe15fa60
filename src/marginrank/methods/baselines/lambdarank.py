"""LambdaRank with boosted trees, by LightGBM."""

from __future__ import annotations

import time
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any, ClassVar, Final

import numpy as np

from marginrank.data.queries import Queries
from marginrank.measures.gains import exp2
from marginrank.methods.baselines.base import Baseline, check_rounds, grade_classes
from marginrank.methods.presets import Preset
from marginrank.runtime.threads import thread_count
from marginrank.scorers.boosted.form import BoostedForm
from marginrank.scorers.boosted.scorer import backend_module, lightgbm_tree
from marginrank.scorers.staged_scorer import Stage, StageLimits
from marginrank.training.plan import Plan

#: Cutoff of the NDCG that LightGBM reports.
_CUT: Final = 10


@dataclass(frozen=True)
class LambdaRank(Baseline):
    """LightGBM's ``lambdarank``: LambdaRank of Burges, Ragno and Le (NIPS 2006) with boosted trees.

    A current baseline, which the papers do not have. Gains are 2^grade − 1; other options have LightGBM's defaults. The
    trees are converted, so that scoring and model files do not need LightGBM. The objective is 1 − NDCG@10 of the
    training queries, as LightGBM computes it.

    Args:
        rounds: Number of trees; with validation queries, the maximum.
        leaves: Maximum number of leaves of a tree.
        shrinkage: Factor of each tree.
    """

    name = "lambdarank"
    takes_nan: ClassVar[bool] = True
    at_once: ClassVar[bool] = True
    takes_weights: ClassVar[bool] = True
    draws: ClassVar[bool] = True
    scale_matters: ClassVar[bool] = False
    rounds: int = 100
    leaves: int = 31
    shrinkage: float = 0.1

    def __post_init__(self) -> None:
        super().__post_init__()
        check_rounds(self.rounds)

    def stages(self, plan: Plan, queries: Queries, limits: StageLimits) -> Iterator[Stage]:  # noqa: ARG002
        """Train all rounds, then yield the stage after each."""
        values, dumped = self._boost(queries, limits)
        trees = [lightgbm_tree(tree["tree_structure"]) for tree in dumped["tree_info"]]
        form, theta = BoostedForm.collect(trees, [0] * len(trees), queries.n_features)
        for n_trees in range(1, len(trees) + 1):
            stage = form.first(n_trees)
            yield Stage(stage, theta[: stage.n_parameters], 1.0 - values[n_trees - 1])

    def _boost(self, queries: Queries, limits: StageLimits) -> tuple[list[float], dict[str, Any]]:
        """Return NDCG@10 after each round, and the model as LightGBM dumps it."""
        lightgbm = backend_module("lightgbm")
        grades, classes = grade_classes(queries)
        parameters = {
            "objective": "lambdarank",
            "learning_rate": self.shrinkage,
            "num_leaves": self.leaves,
            "label_gain": exp2(grades).tolist(),
            "metric": "ndcg",
            "eval_at": [_CUT],
            "num_threads": thread_count(limits.n_jobs),
            "seed": limits.random_state or 0,
            "deterministic": True,
            "force_row_wise": True,
            "verbosity": -1,
        }

        def stop_at_deadline(state: Any) -> None:
            if time.perf_counter() > limits.deadline:
                raise lightgbm.callback.EarlyStopException(state.iteration, state.evaluation_result_list)

        stop_at_deadline.order = 99  # type: ignore[attr-defined]  # after the round has been recorded
        lengths = queries.lengths[queries.lengths > 0]
        weights = None if queries.query_weights is None else np.repeat(queries.query_weights, queries.lengths)
        data = lightgbm.Dataset(queries.X, classes, group=lengths, weight=weights, params={"verbosity": -1})
        history: dict[str, Any] = {}
        booster = lightgbm.train(
            parameters,
            data,
            self.rounds,
            valid_sets=[data],
            valid_names=["train"],
            callbacks=[lightgbm.record_evaluation(history), stop_at_deadline],
        )
        return list(history["train"][f"ndcg@{_CUT}"]), booster.dump_model()


PRESETS: Final = (Preset("lambdarank", "LightGBM's boosted trees", "Burges, Ragno, Le (NIPS 2006)", LambdaRank, 100),)
