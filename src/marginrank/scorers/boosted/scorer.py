"""The boosted scorer: trees that LightGBM or XGBoost grow on the gradients of a loss."""

from __future__ import annotations

import importlib
import json
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, replace
from types import MappingProxyType
from typing import Any, Final, Literal, TypeAlias

import numpy as np

from marginrank.data.queries import Queries
from marginrank.errors import DataError, Parameter, ParameterError
from marginrank.losses.score_risk import Curvature, ScoreRisk, check_curvature, derivatives
from marginrank.runtime.threads import thread_count
from marginrank.scorers.base import Scorer, parse_scorer
from marginrank.scorers.boosted.form import BoostedForm, Tree
from marginrank.scorers.form import Monotone, monotone_signs
from marginrank.scorers.staged_scorer import GrownStage, Stage, StagedScorer, StageLimits, Towards
from marginrank.typing import Features, FloatArray, IntArray

Backend: TypeAlias = Literal["lightgbm", "xgboost"]
_INSTALL: Final = {"lightgbm": "'marginrank[boosted]'", "xgboost": "xgboost"}
#: Minimum curvature of a leaf, far below that of a document that matters.
_MIN_CURVATURE: Final = 1e-6
#: Number of trees that rank the features by gain.
_SCREENING_TREES: Final = 100


@dataclass(frozen=True)
class Boosted(StagedScorer):
    """Boosted trees, grown by LightGBM or XGBoost on the gradients of any loss; the model scores without them.

    Each tree is a step down the risk, the mean of ξ over the queries. The size and number of trees, the learning rate
    and ``l2`` regularize; C is that of the model in ``start`` and of ``refit``, and has no effect without one of them.

    Args:
        trees: Number of trees; with validation queries, the maximum.
        leaves: Maximum number of leaves of a tree.
        depth: Maximum depth of a tree; no limit by default.
        learning_rate: Factor of each tree.
        min_documents: Minimum number of documents in a leaf; for LightGBM only.
        l2: Added to the curvature of each leaf, which with ``curvature="gradient"`` is the sum of the absolute
            gradients; each query counts 1 on average.
        features: Share of the features that a tree may split, redrawn for each tree.
        queries: Share of the queries that a tree is grown on, redrawn for each tree.
        bags: Number of forests to average, each with up to ``trees`` trees and its own samples of queries and features.
            Needs ``queries`` or ``features`` below 1; training and scoring take that many times as long.
        strongest: Number of features to keep: those with the largest total gain in a first forest of up to 100 trees.
            The other features are never split. All are kept by default.
        curvature: See `marginrank.integrations.gradient_boosting.objective`.
        monotone: ``increasing`` or ``decreasing`` for all features, or a mapping from feature (name or number) to one
            of them.
        start: ``linear``, ``additive`` or another scorer, whose model is trained first; the trees are added to it.
        backend: ``lightgbm`` or ``xgboost``, which has to be installed for training.
        refit: ``grown`` or ``zero`` to fit the leaves of all trees again at the end, all at once: a convex solver
            minimizes ½‖θ − θ₀‖² + C·risk over their values θ, with a certificate. θ₀ are the values they were grown
            with, or 0. With validation queries, the new values are kept if they are better there.
    """

    name = "boosted"
    tuned_options = MappingProxyType({"leaves": (8, 31), "learning_rate": (0.03, 0.1)})
    stages_option = "trees"
    trees: int = 300
    leaves: int = 31
    depth: int | None = None
    learning_rate: float = 0.1
    min_documents: int = 20
    l2: float = 0.0
    features: float = 1.0
    queries: float = 1.0
    bags: int = 1
    strongest: int | None = None
    curvature: Curvature = "gradient"
    monotone: Monotone | None = None
    start: str | Scorer | None = None
    backend: Backend = "lightgbm"
    refit: Towards | None = None

    def __post_init__(self) -> None:
        super().__post_init__()
        if isinstance(self.start_scorer, StagedScorer):
            raise ValueError(f"start is {self.start!r}; give a scorer that a solver trains, such as 'linear'")
        minimum = {"trees": 1, "leaves": 2, "depth": 1, "min_documents": 1, "bags": 1, "strongest": 1}
        for name, bound in minimum.items():
            value = getattr(self, name)
            if value is not None and value < bound:
                raise ValueError(f"{name} is {value}; give a whole number, at least {bound}")
        self._check_numbers()
        if self.backend == "xgboost" and self.min_documents != type(self).min_documents:
            raise ValueError("XGBoost does not count the documents of a leaf; leave out min_documents")
        if self.refit is not None and self.monotone is not None:
            raise ValueError("refitted leaves need not be monotone; leave out refit or monotone")

    def _check_numbers(self) -> None:
        if not (self.learning_rate > 0 and np.isfinite(self.learning_rate)):
            raise ValueError(f"learning_rate is {self.learning_rate}; give a number above 0")
        if not (self.l2 >= 0 and np.isfinite(self.l2)):
            raise ValueError(f"l2 is {self.l2}; give a number of at least 0")
        for name in ("features", "queries"):
            share = getattr(self, name)
            if not 0 < share <= 1:
                raise ValueError(f"the share of {name} is {share!r}; give a number above 0, at most 1")
        if self.bags > 1 and self.features == self.queries == 1:
            raise ValueError(f"all {self.bags} bags would be identical; set queries or features below 1, or use one")

    @property
    def start_scorer(self) -> Scorer | None:
        """The scorer to start from."""
        return None if self.start is None else parse_scorer(self.start)

    def on_top_of(self, start: Scorer) -> Boosted:
        """Return the scorer with another one to start from, unless it has one."""
        return replace(self, start=start) if self.start is None else self

    @property
    def max_stages(self) -> int | None:
        """The number of trees, plus one for the model that they are added to."""
        return self.trees + (self.start is not None)

    @property
    def refits(self) -> Towards | None:
        """The values that refitted leaves are regularized towards."""
        return self.refit

    @property
    def takes_C(self) -> bool:  # type: ignore[override]
        """Whether there is a start or a refit, which have a C."""
        return self.start is not None or self.refit is not None

    @property
    def draws(self) -> bool:  # type: ignore[override]
        """Whether the seed matters: LightGBM places the bins of large data by a sample of the documents."""
        return self.backend == "lightgbm" or min(self.features, self.queries) < 1

    @property
    def takes_nan(self) -> bool:  # type: ignore[override]
        """Whether features may be NaN."""
        return self.start_scorer is None or self.start_scorer.takes_nan

    @property
    def scale_matters(self) -> bool:  # type: ignore[override]
        """Whether scores change with the scale of the features."""
        return self.start_scorer is not None and self.start_scorer.scale_matters

    def before_scaling(self, X: Features) -> Features:
        """Return the features to scale."""
        return X if self.start_scorer is None else self.start_scorer.before_scaling(X)

    def stages(self, risk: ScoreRisk, limits: StageLimits) -> Iterator[Stage]:
        """Grow trees, each on the gradient at the current scores."""
        queries, loss = risk.queries, risk.loss.definition
        check_curvature(loss, self.curvature)
        if not loss.convex and not risk.start.any():
            raise ParameterError(
                "the gradient of the tight bound is 0 at scores 0, where boosted trees start; use ",
                Parameter("bound", "hinge"),
                ", or a start: ",
                Parameter("scorer", "boosted(start=linear)"),
            )
        grower = self._grower(risk, limits)
        forests = [_Forest(risk, self.curvature, limits.n_jobs) for _ in range(self.bags)]
        rng = np.random.default_rng(limits.random_state or 0)
        grown: list[Tree] = []
        leaves: list[FloatArray] = []
        for _ in range(self.trees):
            trees = [forest.grow(grower, bag, self._draw(risk, rng)) for bag, forest in enumerate(forests)]
            new = [tree._replace(value=tree.value / self.bags) for tree in trees if tree is not None]
            if not new:
                if self.queries < 1:
                    continue
                break
            form, theta = _form(new, queries.n_features, grower.single)
            grown += new
            leaves.append(theta)
            until = tuple(grown)
            yield GrownStage(
                lambda until=until: _form(until, queries.n_features, grower.single)[0],  # type: ignore[misc]
                np.concatenate(leaves),
                forests[0].risk if self.bags == 1 else risk(np.mean([forest.scores for forest in forests], axis=0))[0],
                (form, theta),
            )
        if not grown and self.start is None:
            raise DataError(grower.no_split)

    def _grower(self, risk: ScoreRisk, limits: StageLimits) -> _Grower:
        """Return the grower of trees, restricted to the strongest features."""
        queries, make = risk.queries, _GROWERS[self.backend]
        if self.strongest is None or self.strongest >= queries.n_features:
            return make(self, queries, limits)
        first = make(replace(self, bags=1), queries, limits)
        forest = _Forest(risk, self.curvature, limits.n_jobs)
        rng = np.random.default_rng(limits.random_state or 0)
        for _ in range(min(self.trees, _SCREENING_TREES)):
            exhausted = forest.grow(first, 0, self._draw(risk, rng)) is None and self.queries == 1
            if exhausted or limits.late:
                break
        strongest = np.argsort(-first.gains(), kind="stable")[: self.strongest]
        return make(self, queries, limits, np.sort(strongest))

    def _draw(self, risk: ScoreRisk, rng: np.random.Generator) -> FloatArray:
        """Return the weight of each document for the next tree: that of its query, or 0 if it is not drawn."""
        queries, active = risk.queries, risk.active
        weights = risk.weights * len(active)
        if self.queries < 1:
            drawn = np.zeros(len(queries), dtype=np.bool_)
            drawn[rng.choice(active, max(1, round(self.queries * len(active))), replace=False)] = True
            weights = weights * drawn
        return np.repeat(weights, queries.lengths)

    def constraints(self, queries: Queries) -> IntArray | None:
        """Return 1 for features that raise the score, −1 for those that lower it, 0 if free; None if all are free."""
        if self.monotone is None:
            return None
        return monotone_signs(self.monotone, queries.n_features, queries.feature_names)


def _form(trees: Any, n_features: int, single: bool) -> tuple[BoostedForm, FloatArray]:
    form, theta = BoostedForm.collect(trees, [0] * len(trees), n_features)
    return replace(form, single=True) if single else form, theta


class _Forest:
    """A growing forest: the sum of its trees, and the derivatives of the loss there."""

    def __init__(self, risk: ScoreRisk, curvature: Curvature, n_jobs: int | None) -> None:
        self._risk, self._curvature, self._n_jobs = risk, curvature, n_jobs
        self._move(risk.start)

    def _move(self, scores: FloatArray) -> None:
        self.scores = scores
        self._xi, *self._derivatives = derivatives(self._risk.loss, scores, self._curvature, self._n_jobs)

    @property
    def risk(self) -> float:
        """The risk of the scores."""
        return float(self._risk.weights @ self._xi)

    def grow(self, grower: _Grower, bag: int, weights: FloatArray) -> Tree | None:
        """Add a tree and return it; None if no split lowers the loss."""
        gradient, curvature = self._derivatives
        tree = grower.grow(bag, weights * gradient, weights * curvature)
        if tree is not None:
            queries = self._risk.queries
            form, theta = _form([tree], queries.n_features, grower.single)
            self._move(self.scores + form.score(theta, queries.X, self._n_jobs))
        return tree


class _Grower(ABC):
    """Grows trees with a library, one at a time for each bag; ``single`` if it compares features as float32.

    Args:
        options: Options of the trees.
        queries: Training queries.
        limits: Seed and threads.
        features: The features that may be split; all by default.
    """

    single: bool
    #: Message if there is no split at all.
    no_split: str = "no split of any feature lowers the loss; look at the features with `marginrank inspect`"

    def __init__(
        self, options: Boosted, queries: Queries, limits: StageLimits, features: IntArray | None = None
    ) -> None:
        self._features = np.arange(queries.n_features) if features is None else features
        signs = options.constraints(queries)
        X = queries.X if features is None else queries.X[:, features]
        self._start(options, X, queries.grades, limits, None if signs is None else signs[self._features].tolist())

    @abstractmethod
    def _start(
        self, options: Boosted, X: Features, grades: FloatArray, limits: StageLimits, signs: list[int] | None
    ) -> None:
        """Make a booster for each bag."""

    @abstractmethod
    def _grow(self, bag: int, gradient: FloatArray, curvature: FloatArray) -> Tree | None:
        """Return the next tree, with features numbered among those that may be split."""

    @abstractmethod
    def gains(self) -> FloatArray:
        """Return the total gain of the splits of each feature, in the first bag."""

    def grow(self, bag: int, gradient: FloatArray, curvature: FloatArray) -> Tree | None:
        """Return the next tree of a bag; None if no split lowers the loss."""
        tree = self._grow(bag, gradient, curvature)
        if tree is None:
            return None
        features = np.asarray(tree.feature, dtype=np.int64)
        return tree._replace(feature=np.where(features < 0, -1, self._features[features]))


class _LightGBM(_Grower):
    single = False

    def _start(
        self, options: Boosted, X: Features, grades: FloatArray, limits: StageLimits, signs: list[int] | None
    ) -> None:
        lightgbm = backend_module("lightgbm")
        seed = limits.random_state or 0
        settings = {
            "objective": "none",
            "learning_rate": options.learning_rate,
            "num_leaves": options.leaves,
            "max_depth": options.depth or -1,
            "min_data_in_leaf": options.min_documents,
            "min_sum_hessian_in_leaf": _MIN_CURVATURE,
            "lambda_l2": options.l2,
            "feature_fraction": options.features,
            "num_threads": thread_count(limits.n_jobs),
            "seed": seed,
            "deterministic": True,
            "force_row_wise": True,
            "verbosity": -1,
        }
        if signs is not None:
            settings["monotone_constraints"] = signs
        data = lightgbm.Dataset(X, grades, params=settings).construct()
        # LightGBM fails if no feature has a split with enough documents on both sides.
        splits = any(data.feature_num_bin(feature) > 1 for feature in range(len(self._features)))
        if not splits:
            self.no_split = (
                f"no feature splits the {len(grades):,} documents into parts of at least "
                f"{options.min_documents}; lower min_documents, or look at the features with `marginrank inspect`"
            )
        # Consecutive seeds draw similar samples.
        seeds = np.random.default_rng(seed).integers(1 << 30, size=options.bags).tolist() if splits else []
        self._boosters = [lightgbm.Booster(settings | {"feature_fraction_seed": seed}, data) for seed in seeds]

    def _grow(self, bag: int, gradient: FloatArray, curvature: FloatArray) -> Tree | None:
        if not self._boosters or self._boosters[bag].update(fobj=lambda *_: (gradient, curvature)):
            return None
        booster = self._boosters[bag]
        dumped = booster.dump_model(num_iteration=1, start_iteration=booster.num_trees() - 1)
        return lightgbm_tree(dumped["tree_info"][0]["tree_structure"])

    def gains(self) -> FloatArray:
        """Return the total gain of the splits of each feature, in the first bag."""
        if not self._boosters:
            return np.zeros(len(self._features))
        return np.asarray(self._boosters[0].feature_importance("gain"), dtype=np.float64)


class _XGBoost(_Grower):
    single = True

    def _start(
        self, options: Boosted, X: Features, grades: FloatArray, limits: StageLimits, signs: list[int] | None
    ) -> None:
        xgboost = backend_module("xgboost")
        settings = {
            "tree_method": "hist",
            "grow_policy": "lossguide",
            "learning_rate": options.learning_rate,
            "max_leaves": options.leaves,
            "max_depth": options.depth or 0,
            "min_child_weight": _MIN_CURVATURE,
            "lambda": options.l2,
            "colsample_bytree": options.features,
            "nthread": thread_count(limits.n_jobs),
            "base_score": 0.0,
            "verbosity": 0,
        }
        if signs is not None:
            settings["monotone_constraints"] = f"({','.join(map(str, signs))})"
        self._data = xgboost.QuantileDMatrix(np.asarray(X), grades)
        seeds = range(limits.random_state or 0, (limits.random_state or 0) + options.bags)
        self._boosters = [xgboost.Booster(settings | {"seed": seed}, [self._data]) for seed in seeds]
        self._rounds = [0] * options.bags

    def _grow(self, bag: int, gradient: FloatArray, curvature: FloatArray) -> Tree | None:
        booster, number = self._boosters[bag], self._rounds[bag]
        booster.boost(self._data, number, grad=gradient, hess=curvature)
        newest = json.loads(booster[number:].save_raw("json"))
        self._rounds[bag] += 1
        tree = newest["learner"]["gradient_booster"]["model"]["trees"][0]
        return xgboost_tree(tree) if len(tree["left_children"]) > 1 else None

    def gains(self) -> FloatArray:
        """Return the total gain of the splits of each feature, in the first bag."""
        by_name = self._boosters[0].get_score(importance_type="total_gain")
        return np.array([by_name.get(f"f{feature}", 0.0) for feature in range(len(self._features))])


_GROWERS: Final[Mapping[str, type[_LightGBM | _XGBoost]]] = {"lightgbm": _LightGBM, "xgboost": _XGBoost}


def backend_module(name: Backend) -> Any:
    """Import a library of boosted trees, or raise an error that says how to install it."""
    try:
        return importlib.import_module(name)
    except ImportError:
        library = {"lightgbm": "LightGBM", "xgboost": "XGBoost"}[name]
        raise ImportError(f"training boosted trees needs {library}: pip install {_INSTALL[name]}") from None


#: A node as columns of `Tree`, and its children with the columns that refer to them.
_Node: TypeAlias = tuple[list[float], tuple[tuple[Any, int], ...]]


def lightgbm_tree(node: Mapping[str, Any]) -> Tree:
    """Read a tree of LightGBM, as a list of nodes with parents first.

    If a feature had no missing value in training, LightGBM treats a missing value as 0.

    >>> node = {"split_feature": 2, "threshold": 0.5, "left_child": {"leaf_value": 1}, "right_child": {"leaf_value": 3},
    ...     "missing_type": "NaN", "default_left": False}
    >>> [column.tolist() for column in lightgbm_tree(node)]
    [[2.0, -1.0, -1.0], [0.5, 0.0, 0.0], [1.0, 0.0, 0.0], [2.0, 0.0, 0.0], [0.0, 1.0, 3.0], [0.0, 0.0, 0.0]]
    """

    def read(node: Mapping[str, Any]) -> _Node:
        if "leaf_value" in node:
            return [-1, 0.0, 0, 0, node["leaf_value"], 0], ()
        missing_left = node["default_left"] if node["missing_type"] == "NaN" else node["threshold"] >= 0
        row = [node["split_feature"], node["threshold"], 0, 0, 0.0, missing_left]
        return row, ((node["right_child"], 3), (node["left_child"], 2))

    return _flatten(node, read)


def xgboost_tree(tree: Mapping[str, Any]) -> Tree:
    """Read a tree of XGBoost's model files: a feature below the threshold, in float32, goes left.

    >>> tree = {"left_children": [1, -1, -1], "right_children": [2, -1, -1], "split_indices": [2, 0, 0],
    ...     "split_conditions": [0.5, 1.0, 3.0], "default_left": [1, 0, 0]}
    >>> stump = xgboost_tree(tree)
    >>> stump.feature.tolist(), stump.value.tolist(), bool(stump.threshold[0] < 0.5), stump.missing_left.tolist()
    ([2.0, -1.0, -1.0], [0.0, 1.0, 3.0], True, [1.0, 0.0, 0.0])
    """
    left, right, feature, condition, default = (
        tree[name] for name in ("left_children", "right_children", "split_indices", "split_conditions", "default_left")
    )

    def read(node: int) -> _Node:
        if left[node] < 0:
            return [-1, 0.0, 0, 0, condition[node], 0], ()
        below = np.nextafter(np.float32(condition[node]), np.float32(-np.inf))
        return [feature[node], float(below), 0, 0, 0.0, default[node]], ((right[node], 3), (left[node], 2))

    return _flatten(0, read)


def _flatten(root: Any, read: Callable[[Any], _Node]) -> Tree:
    """Return a tree as arrays, parents first; ``read`` reads a node."""
    rows: list[list[float]] = []
    waiting: list[tuple[Any, int, int]] = [(root, -1, 0)]
    while waiting:
        node, parent, column = waiting.pop()
        if parent >= 0:
            rows[parent][column] = len(rows)
        row, children = read(node)
        waiting += [(child, len(rows), column) for child, column in children]
        rows.append(row)
    return Tree(*np.array(rows, dtype=np.float64).T)
