"""The model of a recommender: factors of users and items, and the ratings seen in training."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from functools import cached_property
from itertools import pairwise
from typing import Any, get_args

import numpy as np

from marginrank.data.formats.binary import labels_from, stored_labels
from marginrank.data.grouping import check_offsets
from marginrank.recommend.factorization import Factors, HalfStep
from marginrank.recommend.ratings import Ratings, locate
from marginrank.recommend.side_features import FixedColumns, SideFeatures
from marginrank.solvers.solution import Reason
from marginrank.typing import AnyArray, FloatArray, IntArray

_SIDES = ("start", "users", "items")


@dataclass(frozen=True, eq=False)
class FactorModel:
    """Scores of items for users.

    Users and items that were not trained on have a defined score: a new user has no factors and no history, which
    leaves item biases and what all users share; a new item has no bias and no factors, and the popularity of an item
    that nobody rated. Both have their side features, if these were given.
    """

    #: Who rated what, which `recommend` leaves out.
    seen: Ratings
    factors: Factors
    columns: FixedColumns
    trace: tuple[HalfStep, ...]
    #: Why training ended.
    stopped: Reason

    @cached_property
    def user_rows(self) -> FloatArray:
        """A row for each user; its product with the row of an item is the score."""
        return self.factors.user_rows

    @cached_property
    def item_rows(self) -> FloatArray:
        """A row for each item."""
        return self.factors.item_rows

    def rows_of_users(self, ids: AnyArray) -> FloatArray:
        """Return the rows of users by id, those of new users included."""
        at = locate(self.seen.users, ids, "user")
        rows, new = self.user_rows[at], at < 0
        if new.any():
            parameters = np.zeros((int(new.sum()), self.factors.users.shape[1]))
            parameters[:, : len(self.factors.shared)] += self.factors.shared
            rows[new] = np.hstack([self.columns.of_nobody(ids[new]), parameters])
        return rows

    def rows_of_items(self, ids: AnyArray) -> FloatArray:
        """Return the rows of items by id, those of new items included."""
        at = locate(self.seen.items, ids, "item")
        rows, new = self.item_rows[at], at < 0
        if new.any():
            n_new, n_x = int(new.sum()), self.factors.user_columns.shape[1]
            n_factors = self.factors.items.shape[1] - n_x
            fixed = self.columns.of_nothing(ids[new])
            rows[new] = np.hstack([np.zeros((n_new, n_x)), fixed, np.zeros((n_new, n_factors))])
        return rows

    def score(self, users: AnyArray, items: AnyArray) -> FloatArray:
        """Return the score of each pair of ids."""
        user_ids, user = np.unique(users, return_inverse=True)
        item_ids, item = np.unique(items, return_inverse=True)
        rows, columns = self.rows_of_users(user_ids), self.rows_of_items(item_ids)
        scores = np.empty(len(user))
        for start in range(0, len(scores), 1 << 16):
            part = slice(start, start + (1 << 16))
            scores[part] = np.einsum("rk,rk->r", rows[user[part]], columns[item[part]])
        return scores

    def seen_by(self, ids: AnyArray) -> list[IntArray]:
        """Return the positions of the items that each user rated."""
        at, bounds = locate(self.seen.users, ids, "user"), list(pairwise(self.seen.offsets.tolist()))
        return [self.seen.item[slice(*bounds[user])] if user >= 0 else self.seen.item[:0] for user in at.tolist()]

    def n_trained_on(self, ratings: Ratings) -> int:
        """Count the pairs of users and items that were trained on."""
        users, items = (
            locate(known, ids, what)[at]
            for known, ids, at, what in (
                (self.seen.users, ratings.users, ratings.user, "user"),
                (self.seen.items, ratings.items, ratings.item, "item"),
            )
        )
        keys, known = users * len(self.seen.items) + items, self.seen.user * len(self.seen.items) + self.seen.item
        return int(np.count_nonzero(np.isin(keys, known) & (users >= 0) & (items >= 0)))

    @property
    def tastes(self) -> FloatArray:
        """Rows to compare items by: their history, factors, and weights of fixed columns of users."""
        constants = 1 if self.columns.bias else 0
        popularity = 1 if self.columns.popularity[2] else 0
        return np.hstack([self.factors.item_columns[:, popularity:], self.factors.items[:, constants:]])

    def with_users(self, new: Ratings, columns: FloatArray, parameters: FloatArray) -> FactorModel:
        """Return the model with new users; they replace known users with the same ids.

        Args:
            new: Their ratings, of the same items.
            columns: Their fixed columns.
            parameters: Their parameters.
        """
        old = locate(new.users, self.seen.users, "user") < 0
        kept = self.seen.of_users(np.flatnonzero(old))
        seen = kept.updated(new)
        places = np.searchsorted(seen.users, kept.users), np.searchsorted(seen.users, new.users)
        tables = []
        for theirs, ours in ((self.factors.user_columns[old], columns), (self.factors.users[old], parameters)):
            table = np.empty((len(seen.users), theirs.shape[1]))
            table[places[0]], table[places[1]] = theirs, ours
            tables.append(table)
        factors = replace(self.factors, user_columns=tables[0], users=tables[1])
        return FactorModel(seen, factors, self.columns, self.trace, self.stopped)

    def arrays(self) -> dict[str, AnyArray]:
        """Return everything as arrays, for a file."""
        seen, factors, columns = self.seen, self.factors, self.columns
        arrays: dict[str, AnyArray] = {
            "seen.item": seen.item,
            "seen.values": seen.values,
            "seen.offsets": seen.offsets,
            **({} if seen.weights is None else {"seen.weights": seen.weights}),
            **stored_labels("users", seen.users),
            **stored_labels("items", seen.items),
            **{f"factors.{name}": np.ascontiguousarray(array) for name, array in vars(factors).items()},
            "columns.history": columns.history,
            "columns.item_history": columns.item_history,
            "columns.figures": np.array([columns.bias, *columns.popularity]),
            "trace": np.array([(_SIDES.index(s.side), s.objective, s.gap, s.seconds) for s in self.trace]),
        }
        for name, side in (("user", columns.user_side), ("item", columns.item_side)):
            if side is not None:
                arrays |= {f"{name}_side.values": side.values, **stored_labels(f"{name}_side", side.ids)}
        return arrays

    @classmethod
    def of_arrays(cls, arrays: Mapping[str, AnyArray], stopped: Reason) -> FactorModel:
        """Make a model from `arrays`; refuse arrays that contradict each other."""
        if stopped not in get_args(Reason):
            raise ValueError(f"unknown reason to stop {stopped!r}")
        parts = dict(arrays)
        users, items = _ids(parts, "users"), _ids(parts, "items")
        offsets = check_offsets(parts["seen.offsets"], len(parts["seen.item"]))
        seen = Ratings(users, items, parts["seen.item"], parts["seen.values"], offsets, parts.get("seen.weights"))
        figures = _numbers(parts["columns.figures"], (4,)).tolist()
        sides = [_side(parts, name) for name in ("user", "item")]
        history, item_history = parts["columns.history"], parts["columns.item_history"]
        columns = FixedColumns(figures[0], history, item_history, (figures[1], figures[2], figures[3]), *sides)
        names = ("user_columns", "item_columns", "users", "items", "shared")
        factors = Factors(*(parts[f"factors.{name}"] for name in names))
        trace = parts["trace"]
        if trace.ndim != 2 or trace.shape[1] != 4 or not np.isin(trace[:, 0], (0, 1, 2)).all():
            raise ValueError("the trace is not one")
        steps = tuple(HalfStep(_SIDES[int(side)], *rest) for side, *rest in trace.tolist())  # type: ignore[arg-type]
        _check(seen, factors, columns)
        return cls(seen, factors, columns, steps, stopped)


def _ids(parts: dict[str, AnyArray], name: str) -> AnyArray:
    ids = labels_from(parts, name)
    if ids is None or ids.ndim != 1 or ids.dtype.kind not in "iUO":
        raise ValueError(f"the ids of {name} are missing")
    if np.any(ids[1:] <= ids[:-1]):
        raise ValueError(f"the ids of {name} are not sorted")
    return ids


def _side(parts: dict[str, AnyArray], name: str) -> SideFeatures | None:
    if f"{name}_side.values" not in parts:
        return None
    ids = _ids(parts, f"{name}_side")
    values = parts[f"{name}_side.values"]
    return SideFeatures(ids, _numbers(values, (len(ids), values.shape[-1])))


def _numbers(array: AnyArray, shape: tuple[int, ...]) -> FloatArray:
    if array.dtype != np.float64 or array.shape != shape or not np.isfinite(array).all():
        raise ValueError(f"an array has shape {array.shape} and type {array.dtype}; finite float64 {shape} is needed")
    return array


def _check(seen: Ratings, factors: Factors, columns: FixedColumns) -> None:
    """Refuse shapes and numbers that scores cannot be made of."""
    n_users, n_items = len(seen.users), len(seen.items)
    if seen.item.dtype != np.int64 or seen.item.ndim != 1 or np.any((seen.item < 0) | (seen.item >= n_items)):
        raise ValueError("ratings of items that are not there")
    if len(seen.offsets) != n_users + 1:
        raise ValueError(f"ratings of {len(seen.offsets) - 1} users for {n_users}")
    _numbers(seen.values, (len(seen.item),))
    if seen.weights is not None:
        _numbers(seen.weights, (n_users,))
    n_history = columns.history.shape[-1]
    _numbers(columns.history, (n_items, n_history))
    _numbers(columns.item_history, (n_items, n_history))
    side = [0 if features is None else features.values.shape[1] for features in (columns.user_side, columns.item_side)]
    n_x = (1 if columns.bias else 0) + n_history + side[0]
    n_z = (1 if columns.popularity[2] else 0) + n_history + side[1]
    n_factors = factors.users.shape[-1] - n_z
    if n_factors < 0 or columns.popularity[1] <= 0:
        raise ValueError("fewer factors than columns")
    _numbers(factors.user_columns, (n_users, n_x))
    _numbers(factors.item_columns, (n_items, n_z))
    _numbers(factors.users, (n_users, n_z + n_factors))
    _numbers(factors.items, (n_items, n_x + n_factors))
    _numbers(factors.shared, (n_z,))


def describe(model: FactorModel) -> dict[str, Any]:
    """Return what a file says about a model beside its arrays."""
    last = model.trace[-1]
    return {
        "users": len(model.seen.users),
        "items": len(model.seen.items),
        "ratings": model.seen.n_ratings,
        "objective": last.objective,
        "rounds": sum(step.side == "users" for step in model.trace),
        "stopped": model.stopped,
    }


class FactorAttributes:
    """Attributes of an estimator that are read from its model."""

    model_: FactorModel

    @property
    def trace_(self) -> tuple[HalfStep, ...]:
        """The objective after every half step."""
        return self._fitted.trace

    @property
    def objective_(self) -> float:
        """The objective reached."""
        return self._fitted.trace[-1].objective

    @property
    def user_ids_(self) -> AnyArray:
        """Ids of the users, sorted."""
        return self._fitted.seen.users

    @property
    def item_ids_(self) -> AnyArray:
        """Ids of the items, sorted."""
        return self._fitted.seen.items

    @property
    def user_factors_(self) -> FloatArray:
        """The factors of each user."""
        return self._fitted.factors.users[:, len(self._fitted.factors.shared) :]

    @property
    def item_factors_(self) -> FloatArray:
        """The factors of each item."""
        return self._fitted.factors.items[:, self._fitted.factors.user_columns.shape[1] :]

    @property
    def item_bias_(self) -> FloatArray:
        """The score of each item for unknown users."""
        fitted = self._fitted
        biases = fitted.columns.bias * fitted.factors.items[:, 0] if fitted.columns.bias else 0.0
        return np.asarray(biases + fitted.factors.item_columns @ fitted.factors.shared)

    @property
    def _fitted(self) -> FactorModel:
        # scikit-learn asks for attributes that end with _ before fitting, and expects AttributeError.
        if "model_" not in vars(self):
            raise AttributeError(f"this {type(self).__name__} is not fitted yet; call fit first")
        return self.model_
