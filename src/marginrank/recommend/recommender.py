"""The recommender: ranking matrix factorization as an estimator."""

from __future__ import annotations

import copy
import warnings
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any, Final, Literal, NamedTuple, Self, Unpack, cast

import numpy as np
from sklearn.base import BaseEstimator
from sklearn.utils.validation import check_is_fitted

from marginrank.errors import DataError, Parameter, ParameterError, TrainingDataWarning
from marginrank.evaluation.criterion import Criterion
from marginrank.evaluation.diversity import Diversify
from marginrank.evaluation.evaluation import Evaluation, evaluate
from marginrank.evaluation.systems import best_first
from marginrank.evaluation.topics import Diversifier, Topics, topic_weights
from marginrank.losses.base import Loss
from marginrank.losses.squared_error import SquaredDifferences
from marginrank.losses.threshold_hinge import ThresholdHinge
from marginrank.measures.base import parse_mix
from marginrank.measures.dcg import DCG
from marginrank.measures.gains import gains_of
from marginrank.methods.presets import loss_for, parse_method
from marginrank.model.file_format import check_values, read_model, reading_model, write_model
from marginrank.recommend.factor_model import FactorAttributes, FactorModel, describe
from marginrank.recommend.factorization import Factorization, Factors, HalfStep, user_weights
from marginrank.recommend.implicit_feedback import among_unseen, with_negatives
from marginrank.recommend.ratings import ColumnNames, Ratings, id_column, locate, pair_ids
from marginrank.recommend.side_features import FixedColumns, SideFeatures
from marginrank.recommend.user_step import UserProblem
from marginrank.runtime.default_measures import DEFAULT_MEASURE
from marginrank.runtime.option_objects import check_C, check_seed, from_spec, seconds, to_spec
from marginrank.runtime.text import count
from marginrank.solvers.auto import Auto
from marginrank.solvers.base import Solver, parse_solver
from marginrank.typing import FloatArray

#: Losses that only recommenders have a name for: that of maximum-margin matrix factorization.
_LOSSES: Final[Mapping[str, Loss]] = {"mmmf": ThresholdHinge()}


def loss_to_train(measure: str, requested: str | Loss | None, values: FloatArray) -> Loss:
    """Return the requested loss, or the default for the measure.

    Args:
        measure: The measure, or mix of measures.
        requested: A convex loss, a preset that has one, or ``mmmf``; None for what follows from the measure.
        values: The ratings, whose gains the default loss takes as its unit.

    >>> loss_to_train("ndcg@10(gain=linear)", None, np.array([1.0, 2.0, 3.0, 2.0]))
    SquaredDifferences(unit=0.707107)
    """
    if requested is not None:
        loss = _LOSSES.get(requested) if isinstance(requested, str) else None
        loss = loss or parse_method(requested).loss
        if loss is None or not loss.convex:
            raise ValueError(
                f"loss is {requested!r}, which is not a convex loss; see docs/recommend for those that are"
            )
        return loss
    parts = parse_mix(measure)
    first = parts[0][1]
    if len(parts) > 1 or not isinstance(first, DCG):
        return loss_for(measure)
    with np.errstate(over="ignore", invalid="ignore"):
        unit = float(gains_of(first.gain, values).std())
    if not np.isfinite(unit):
        raise DataError(
            f"gains 2^r - 1 of ratings up to {values.max():g} are too large; use linear gains, ndcg@10(gain=linear), "
            "or ratings on a smaller scale"
        )
    # Six digits are enough, and can be read.
    return SquaredDifferences(first.gain, float(f"{unit:.6g}") or 1.0)


_KIND: Final = "recommender"


class Recommendation(NamedTuple):
    """An item and its score for a user; compare scores of the same user only."""

    item: Any
    score: float


class Recommender(FactorAttributes, BaseEstimator):
    """Recommend items to users: matrix factorization that is trained for a ranking measure.

    Users are queries, items are documents, and the score of item i for user u is b_i + U_u·V_i and what fixed columns
    add: the popularity of the item, what the user rated before, whatever the rating, and side features. Any convex loss
    can be trained; see `Factorization` for the objective and how it is minimized.

    >>> users, items = np.repeat(np.arange(20), 6), np.tile(np.arange(6), 20)
    >>> likes = np.where((users % 2 == 0) == (items < 3), 5, 1)         # even users like items 0 to 2, odd ones 3 to 5
    >>> shown = (users + items) % 5 > 0
    >>> recommender = Recommender(factors=2, C=2.0).fit((users[shown], items[shown], likes[shown]))
    >>> [entry.item for entry in recommender.recommend(0, k=2)]             # user 0 has not rated items 0 and 5
    [0, 5]

    Args:
        measure: The measure, or mix of measures, to train for and to be judged by.
        loss: Train this convex `Loss`, preset such as ``dorm-ndcg``, or ``mmmf`` for the `ThresholdHinge` of
            maximum-margin matrix factorization, instead of the one that follows from the measure: `SquaredDifferences`
            of the gains of a measure with gains, the structured hinge of any other.
        factors: Number of factors of each user and item.
        C: Weight of the loss, for each rating of a user.
        item_bias: Whether items have biases, or the length of the constant column that they are weights of: the larger,
            the less they are regularized.
        popularity: Whether the number of ratings of an item is one of its fixed columns.
        history: Number of fixed columns made of who rated what, whatever the rating, for users and for items.
        column_length: Length of the columns of popularity, history and side features; the larger, the less their
            weights are regularized.
        negatives: For implicit feedback: the number of items to draw as irrelevant for each that a user chose, or
            ``all``. Ratings are then not needed, and every pair given is relevant. None for ratings.
        shift: Added to all ratings, for ratings below 0.
        solver: How the problem of the items is solved; its tolerance holds for the users too.
        max_iter: Maximum number of rounds; a round improves all users, then all items.
        tol: Relative fall of the objective in a round at which training stops.
        time_limit: Maximum number of seconds; None for no limit.
        random_state: Seed of the start and of drawn negatives.
        n_jobs: Number of threads; all cores by default. Results do not depend on it.

    Attributes:
        model_: What training left.
        trace_: The objective after every half step, with the gap to the optimum of the half step.
        objective_: The objective reached.
        loss_: The loss that was trained.
        C_: The weight of the loss, for each rating.
        user_ids_, item_ids_: Ids of the users and items trained on, sorted.
        user_factors_, item_factors_: A row for each of them.
        item_bias_: The bias of each item.
    """

    loss_: Loss
    C_: float

    def __init__(
        self,
        measure: str = DEFAULT_MEASURE,
        *,
        loss: str | Loss | None = None,
        factors: int = 16,
        C: float = 1 / 12,
        item_bias: bool | float = True,
        popularity: bool = True,
        history: int = 8,
        column_length: float = 0.3,
        negatives: int | Literal["all"] | None = None,
        shift: float = 0.0,
        solver: str | Solver = Auto(tol=1e-3, max_iter=30),  # noqa: B008
        max_iter: int = 30,
        tol: float = 1e-3,
        time_limit: float | None = None,
        random_state: int | None = 0,
        n_jobs: int | None = None,
    ) -> None:
        self.measure = measure
        self.loss = loss
        self.factors = factors
        self.C = C
        self.item_bias = item_bias
        self.popularity = popularity
        self.history = history
        self.column_length = column_length
        self.negatives = negatives
        self.shift = shift
        self.solver = solver
        self.max_iter = max_iter
        self.tol = tol
        self.time_limit = time_limit
        self.random_state = random_state
        self.n_jobs = n_jobs

    def fit(
        self,
        ratings: Any,
        *,
        user_features: Any = None,
        item_features: Any = None,
        callback: Callable[[HalfStep], bool | None] | None = None,
        **columns: Unpack[ColumnNames],
    ) -> Self:
        """Train on ratings.

        Ctrl-C, a time limit or a callback that returns True ends training with the factors reached.

        Args:
            ratings: A frame; arrays (users, items, ratings) or (users, items, ratings, weights); `Queries` with
                document ids; or a sparse matrix with a row per user and a column per item. In any order.
            user_features: Side features of users: a frame with a column of user ids, or a pair (ids, features). Users
                with features need no ratings.
            item_features: Side features of items, likewise.
            callback: Called after every half step with the objective and its gap; True stops.
            columns: Columns of a frame that have other names than usual: ``user``, ``item``, ``rating`` and ``weight``,
                the weight of the user, the same in all rows of a user.
        """
        seen = self._ratings(ratings, **columns)
        sides = (
            self._side(user_features, "user", columns.get("user")),
            self._side(item_features, "item", columns.get("item")),
        )
        more = [
            seen.users[:0] if sides[0] is None else sides[0].ids,
            seen.items[:0] if sides[1] is None else sides[1].ids,
        ]
        if len(more[0]) or len(more[1]):
            seen = seen.widened(*more)
        self._check_parameters()
        fixed = FixedColumns.learn(
            seen,
            bias=float(self.item_bias),
            history=self.history,
            popularity=self.popularity,
            length=self.column_length,
            sides=sides,
            seed=self.random_state,
        )
        start = Factors.zero(fixed.of_users(seen), fixed.of_items(seen), self.factors)
        return self._train(seen, fixed, start, warm=False, callback=callback)

    def _side(self, given: Any, what: str, name: str | None) -> SideFeatures | None:
        return None if given is None else SideFeatures.of(given, what, self.column_length, name)

    def partial_fit(self, ratings: Any, **columns: Unpack[ColumnNames]) -> Self:
        """Continue training with new ratings, of known or new users and items, from the current factors.

        If a pair was rated before, the new rating counts. Fixed columns of history stay as they were learned; a
        recommender that is not fitted is fitted. Arguments are as in `fit`.
        """
        if "model_" not in vars(self):
            return self.fit(ratings, **columns)
        before = self.model_
        new = self._ratings(ratings, **columns)
        seen = before.seen.updated(new)
        users, items = np.searchsorted(seen.users, before.seen.users), np.searchsorted(seen.items, before.seen.items)
        fixed = before.columns.extended(len(seen.items), items)
        old = before.factors
        start = Factors.zero(fixed.of_users(seen), fixed.of_items(seen), self.factors)
        start.users[users], start.items[items] = old.users, old.items
        return self._train(seen, fixed, replace(start, shared=old.shared), warm=True)

    def _train(
        self,
        seen: Ratings,
        columns: FixedColumns,
        start: Factors,
        *,
        warm: bool,
        callback: Callable[[HalfStep], bool | None] | None = None,
    ) -> Self:
        judged = seen if self.negatives is None else with_negatives(seen, self.negatives, self.random_state)
        loss = self.loss_ if warm else loss_to_train(self.measure, self.loss, judged.values)
        C = check_C(self.C)
        task = Factorization(
            judged,
            loss,
            C,
            parse_solver(self.solver),
            self.max_iter,
            self.tol,
            seconds(self.time_limit),
            self.random_state,
            self.n_jobs,
            callback,
        )
        if not loss.prepare(judged.values, judged.offsets).active.any():
            raise DataError(
                "every user gives the same rating to all items, so there is nothing to learn; for data without "
                "ratings use ",
                Parameter("negatives", "all"),
            )
        factors, trace, stopped = task.run(start, warm=warm)
        self.loss_, self.C_ = loss, C
        self.model_ = FactorModel(seen, factors, columns, trace, stopped)
        return self

    def _ratings(self, ratings: Any, **columns: Unpack[ColumnNames]) -> Ratings:
        taken = Ratings.of(ratings, **columns, shift=self.shift, rated=self.negatives is None)
        if len(taken.items) < 2 and "model_" not in vars(self):
            raise DataError(f"there is only one item, {taken.items[0]}, so there is nothing to rank; give more items")
        return taken

    def _check_parameters(self) -> None:
        for name, least in (("factors", 1), ("history", 0), ("max_iter", 1)):
            value = getattr(self, name)
            if isinstance(value, bool) or not isinstance(value, int | np.integer) or value < least:
                raise ValueError(f"{name} is {value!r}; give a whole number of at least {least}")
        if isinstance(self.item_bias, str) or not 0 <= self.item_bias < np.inf:
            problem = f" is {self.item_bias!r}; give True, False or a length of at least 0"
            raise ParameterError(Parameter("item_bias"), problem)
        if not isinstance(self.popularity, bool | np.bool_):
            raise ParameterError(Parameter("popularity"), f" is {self.popularity!r}; give True or False")
        if not self.tol >= 0:
            raise ParameterError(Parameter("tol"), f" is {self.tol!r}; give a number of at least 0")
        if not 0 < self.column_length < np.inf:
            raise ValueError(f"column_length is {self.column_length!r}; give a positive number")
        if not np.isfinite(self.shift):
            raise ParameterError(Parameter("shift"), f" is {self.shift}; give a finite number")
        check_seed(self.random_state)
        parse_mix(self.measure)

    def predict(self, pairs: Any, *, user: str | None = None, item: str | None = None) -> FloatArray:
        """Return the score of each pair of user and item, in the order given; compare scores of the same user only.

        Args:
            pairs: Arrays (users, items), or anything that `fit` takes; ratings are ignored. Ids may be new.
            user: Column of a frame.
            item: Column of a frame.
        """
        check_is_fitted(self)
        users, items = pair_ids(pairs, user, item)
        return self.model_.score(users, items)

    def recommend(
        self,
        user: Any,
        k: int = 10,
        *,
        exclude_seen: bool = True,
        topics: Topics | None = None,
        diversify: Diversifier | None = None,
    ) -> list[Recommendation]:
        """Return the best items for a user, best first; fewer than ``k`` if there are no more.

        A new user gets what is best for everybody.

        Args:
            user: Id of the user.
            k: Number of items.
            exclude_seen: Whether to leave out what the user has rated.
            topics: Rank by topics too: a dict from item id to topics, ``{7: ["drama"], 8: {"drama": 0.5}}``, or weights
                with a row for each of ``item_ids_`` and a column per topic.
            diversify: How topics count: `Diversify`, by default, limits the weight of each topic in the list, and
                `Cover` rewards lists of many topics. Both are in `marginrank.evaluation`.
        """
        (recommended,) = self.recommend_to([user], k, exclude_seen=exclude_seen, topics=topics, diversify=diversify)
        return recommended

    def recommend_to(
        self,
        users: Iterable[Any] | None = None,
        k: int = 10,
        *,
        exclude_seen: bool = True,
        topics: Topics | None = None,
        diversify: Diversifier | None = None,
    ) -> list[list[Recommendation]]:
        """Return the best items for each of many users; for all known users by default. See `recommend`."""
        check_is_fitted(self)
        model = self.model_
        if topics is None and diversify is not None:
            raise DataError("diversify needs the topics of the items; give topics")
        weights = None if topics is None else topic_weights(topics, model.seen.items, len(model.seen.items))
        ids = model.seen.users if users is None else id_column(cast("Sequence[Any]", list(users)), "user")
        items = model.seen.items
        lists = []
        for start in range(0, len(ids), 256):
            part = ids[start : start + 256]
            # Not by BLAS, whose last digits depend on how many users are asked for together.
            scores = np.einsum("uk,ik->ui", model.rows_of_users(part), model.item_rows)
            for row, seen in zip(scores, model.seen_by(part), strict=True):
                if exclude_seen:
                    row[seen] = -np.inf
                if weights is None:
                    best = best_first(row, k)
                    best = best[np.isfinite(row[best])]
                else:
                    left = np.flatnonzero(np.isfinite(row))
                    best = left[(diversify or Diversify()).order(row[left], weights[left], k).order]
                lists.append([Recommendation(items[at].item(), float(row[at])) for at in best.tolist()])
        return lists

    def similar(self, item: Any, k: int = 10) -> list[Recommendation]:
        """Return the items most similar to an item, by the cosine of their factors and history, best first."""
        check_is_fitted(self)
        at = int(locate(self.model_.seen.items, id_column([item], "item"), "item")[0])
        if at < 0:
            raise KeyError(f"item {item!r} was not trained on, so nothing is known to be like it")
        tastes = self.model_.tastes
        lengths = np.linalg.norm(tastes, axis=1)
        cosines = tastes @ tastes[at] / np.maximum(lengths * lengths[at], 1e-300)
        cosines[at] = -np.inf
        best = best_first(cosines, min(k, len(cosines) - 1))
        return [Recommendation(self.model_.seen.items[row].item(), float(cosines[row])) for row in best.tolist()]

    def fold_in(self, ratings: Any, **columns: Unpack[ColumnNames]) -> Self:
        """Return a recommender with more users, fitted to their ratings; items are unchanged.

        Each new user is one small convex problem, solved as in training. A user that is known is replaced. Ratings of
        items that were not trained on are left out. Arguments are as in `fit`.
        """
        check_is_fitted(self)
        new = self._known_items(self._ratings(ratings, **columns))
        judged = new if self.negatives is None else with_negatives(new, self.negatives, self.random_state)
        before = self.model_
        fixed = before.columns.of_users(new)
        factors = replace(before.factors, user_columns=fixed, users=np.zeros((len(new.users), 0)))
        loss = self.loss_.prepare(judged.values, judged.offsets)
        known = before.seen.weights
        weights = user_weights(self.C_, judged, loss.active, 1.0 if known is None else float(known.mean()))
        problem = UserProblem(judged, loss, weights, factors.features, factors.base(judged), self.n_jobs)
        solution = problem.solve(tol=parse_solver(self.solver).tol)
        extended = copy.copy(self)
        extended.model_ = before.with_users(new, fixed, solution.factors)
        return extended

    def _known_items(self, new: Ratings) -> Ratings:
        """Number the items as in training; leave out those that are new."""
        known = self.model_.seen.items
        locate(self.model_.seen.users, new.users, "user")  # refuses ids of another kind
        at = locate(known, new.items, "item")
        kept = at[new.item] >= 0
        if not kept.any():
            raise DataError("none of the items was trained on, so nothing is known of these users")
        chosen = new.select(kept)
        return replace(chosen, items=known, item=at[chosen.item])

    def evaluate(
        self,
        ratings: Any,
        measures: str | Sequence[str] | None = None,
        *,
        among: Literal["rated", "unseen"] | None = None,
        policy: str = "standard",
        **columns: Unpack[ColumnNames],
    ) -> Evaluation:
        """Evaluate rankings of held-out ratings, user by user; users without any are not in the mean.

        Args:
            ratings: Held-out ratings, as in `fit`.
            measures: By default the measure that the recommender is trained for.
            among: What is ranked for a user: the items ``rated`` in the held-out ratings, or all that were ``unseen``
                in training, where those not held out count as irrelevant. The second is the default for implicit
                feedback.
            policy: How ties and users without relevant items are scored.
            columns: Names of columns, as in `fit`.

        Warns:
            TrainingDataWarning: Some of the ratings were trained on.
        """
        check_is_fitted(self)
        held_out = Ratings.of(ratings, **columns, shift=self.shift, rated=self.negatives is None)
        n_known = self.model_.n_trained_on(held_out)
        if n_known:
            warnings.warn(
                f"{n_known:,} of {held_out.n_ratings:,} ratings are among those trained on, so that the values say "
                "little about new ones; evaluate on ratings that were held out",
                TrainingDataWarning,
                stacklevel=2,
            )
        ranked = among or ("rated" if self.negatives is None else "unseen")
        if ranked not in ("rated", "unseen"):
            raise ParameterError(Parameter("among"), f" is {among!r}; choose 'rated' or 'unseen'")
        if ranked == "unseen":
            held_out = among_unseen(held_out, self.model_.seen)
        names = [str(part) for _, part in parse_mix(self.measure)] if measures is None else measures
        return evaluate(held_out.queries(), self.predict(held_out), names, policy=policy, n_jobs=self.n_jobs)

    def score(self, ratings: Any, **columns: Unpack[ColumnNames]) -> float:
        """Return the mean of the measure over the users of held-out ratings; for a mix, the weighted mean."""
        return Criterion.parse(self.measure).mean_of(self.evaluate(ratings, **columns))

    def save(self, path: str | Path, *, overwrite: bool = True) -> None:
        """Write the recommender to a file that `Recommender.load` reads.

        It holds who rated what, so a new file can be read by its owner alone; a file that is replaced keeps its
        permissions.
        """
        check_is_fitted(self)
        parameters = {name: to_spec(value) for name, value in self.get_params(deep=False).items() if name != "n_jobs"}
        header = {"parameters": parameters, "loss": to_spec(self.loss_), "C": self.C_, **describe(self.model_)}
        write_model(path, _KIND, header, self.model_.arrays(), overwrite=overwrite, private=True)

    @classmethod
    def load(cls, path: str | Path) -> Self:
        """Read a recommender written by `save`.

        Raises:
            FileNotFoundError: There is no such file.
            DataError: The file is not a model, damaged, or the model of something else.
        """
        kind, header, arrays = read_model(path)
        with reading_model(path):
            if kind != _KIND:
                raise DataError("this model is not a recommender; give one that was trained on ratings")
            check_values(header)
            recommender = cls(**{name: from_spec(spec) for name, spec in header["parameters"].items()})
            recommender._check_parameters()
            recommender.model_ = FactorModel.of_arrays(arrays, header["stopped"])
            recommender.loss_, recommender.C_ = from_spec(header["loss"]), check_C(header["C"])
            if not isinstance(recommender.loss_, Loss) or not recommender.loss_.convex:
                raise ValueError(f"{recommender.loss_!r} is not a convex loss")
            counts = describe(recommender.model_)
            for name in ("users", "items", "ratings"):
                if header[name] != counts[name]:
                    raise ValueError(f"{counts[name]} {name}, but the header says {header[name]}")
        return recommender

    def __sklearn_is_fitted__(self) -> bool:
        return "model_" in vars(self)

    def __str__(self) -> str:
        if "model_" not in vars(self):
            return repr(self)
        seen = self.model_.seen
        sizes = f"{count(len(seen.users), 'user')}, {count(len(seen.items), 'item')}, {count(seen.n_ratings, 'rating')}"
        return f"{self!r}, trained on {sizes}"
