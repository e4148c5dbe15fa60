"""McRank: boosted trees that classify grades, and the expected grade as the score."""

from __future__ import annotations

import time
from collections.abc import Iterator
from dataclasses import dataclass, replace
from typing import Any, ClassVar, Final

import numpy as np

from marginrank.data.queries import Queries
from marginrank.methods.baselines.base import Baseline, check_rounds, document_weights, grade_classes
from marginrank.methods.presets import Preset
from marginrank.scorers.boosted.form import BoostedForm, Tree
from marginrank.scorers.staged_scorer import Stage, StageLimits
from marginrank.training.plan import Plan
from marginrank.typing import AnyArray, FloatArray


@dataclass(frozen=True)
class McRank(Baseline):
    """McRank of Li, Burges and Wu (NIPS 2007) as in Chakrabarti et al. (KDD 2008) §3.8: score Σ_z z · Pr(z | x).

    Pr(z | x) is a softmax of boosted regression trees, by scikit-learn's ``GradientBoostingClassifier`` from outputs 0.
    Chakrabarti et al. take 30 rounds of WEKA's REPTree, which prunes; trees here have at most ``leaves`` leaves
    instead. The objective is the deviance that scikit-learn reports.

    Args:
        rounds: Number of trees for each grade; with validation queries, the maximum.
        leaves: Maximum number of leaves of a tree.
        shrinkage: Factor of each tree.
    """

    name = "mcrank"
    at_once: ClassVar[bool] = True
    takes_weights: ClassVar[bool] = True
    draws: ClassVar[bool] = True
    scale_matters: ClassVar[bool] = False
    rounds: int = 30
    leaves: int = 10
    shrinkage: float = 0.1

    def __post_init__(self) -> None:
        super().__post_init__()
        check_rounds(self.rounds)

    def stages(self, plan: Plan, queries: Queries, limits: StageLimits) -> Iterator[Stage]:  # noqa: ARG002
        """Train all rounds, then yield the stage after each."""
        grades, classes = grade_classes(queries)
        weights = queries.n_documents * document_weights(queries)
        fitted = self._boost().set_params(random_state=limits.random_state)
        units = _units(np.asarray(queries.X))
        fitted.fit(
            np.asarray(queries.X) / units,
            classes,
            sample_weight=weights,
            monitor=lambda *_: time.perf_counter() > limits.deadline,
        )
        rounds = len(fitted.estimators_)
        per_round = fitted.estimators_.shape[1]
        # If there are two grades, only the higher has trees: the output of the lower is 0.
        outputs = [number if per_round > 1 else 1 for _ in range(rounds) for number in range(per_round)]
        trees = [self._tree(estimator.tree_, units) for estimator in fitted.estimators_.ravel()]
        form, theta = BoostedForm.collect(trees, outputs, queries.n_features, grades)
        form = replace(form, single=bool((units == 1.0).all()))
        for n_rounds in range(1, rounds + 1):
            stage = form.first(n_rounds * per_round)
            yield Stage(stage, theta[: stage.n_parameters], float(fitted.train_score_[n_rounds - 1]))

    def _boost(self) -> Any:
        from sklearn.ensemble import GradientBoostingClassifier  # noqa: PLC0415

        return GradientBoostingClassifier(
            init="zero",
            n_estimators=self.rounds,
            learning_rate=self.shrinkage,
            max_depth=None,
            max_leaf_nodes=self.leaves,
        )

    def _tree(self, tree: Any, units: FloatArray) -> Tree:
        leaf = tree.children_left < 0
        left, right = np.where(leaf, 0, tree.children_left), np.where(leaf, 0, tree.children_right)
        feature = np.where(leaf, -1, tree.feature)
        threshold = tree.threshold * np.where(leaf, 1.0, units[feature])
        return Tree(feature, threshold, left, right, self.shrinkage * tree.value[:, 0, 0])


def _units(X: AnyArray) -> FloatArray:
    """Return divisors that bring columns into the range of float32, which scikit-learn's trees use; mostly 1.

    >>> _units(np.array([[1e60, 0.5], [-1e59, 0.0]])).tolist()
    [1e+60, 1.0]
    """
    largest = np.abs(X).max(axis=0).astype(np.float64)
    return np.where((largest > 0) & ((largest < 1e-30) | (largest > 1e30)), largest, 1.0)


PRESETS: Final = (Preset("mcrank", "expected grade by boosted trees", "Li, Burges, Wu (NIPS 2007)", McRank, 30),)
