"""Fixed columns of users and items: biases, popularity, who rated what, and side features."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any, Final

import narwhals as nw
import numpy as np
import numpy.typing as npt

from marginrank.errors import DataError
from marginrank.recommend.factorization import leading_singular
from marginrank.recommend.ratings import USUAL_COLUMNS, Ratings, id_column, locate
from marginrank.runtime.lazy_imports import sp
from marginrank.typing import AnyArray, FloatArray

#: Pseudo-count of ratings added to every item when users are compared by what they rated.
_MORE_RATINGS: Final = 5.0


@dataclass(frozen=True, eq=False)
class SideFeatures:
    """Features of users or items, each column with mean 0 and the same length; ids are sorted."""

    ids: AnyArray
    values: FloatArray

    @classmethod
    def of(cls, given: Any, what: str, length: float = 1.0, name: str | None = None) -> SideFeatures:
        """Take features from a frame with a column of ids, or from a pair (ids, features).

        Args:
            given: The frame or the pair.
            what: ``user`` or ``item``.
            length: Standard deviation of each column.
            name: Column of ids; by default ``user``, ``item`` and the like.
        """
        ids, table = _ids_and_table(given, what, name)
        column = id_column(ids, what)
        try:
            features = np.asarray(table, dtype=np.float64)
        except (TypeError, ValueError):
            raise DataError(f"{what} features are not numbers; encode them, for example one column per genre") from None
        if features.ndim != 2 or len(features) != len(column):
            raise DataError(f"{what} features have shape {features.shape} for {len(column)} ids; give a row for each")
        if not len(features):
            raise DataError(f"{what} features have no rows; leave them out")
        if not np.isfinite(features).all():
            raise DataError(f"{what} features are not all finite; fill in what is missing")
        known, order = np.unique(column, return_index=True)
        if len(known) < len(column):
            repeated = np.setdiff1d(np.arange(len(column)), order)[0]
            raise DataError(f"{what} {column[repeated]} has more than one row of features; keep one")
        spread = features.std(axis=0)
        scaled = (features - features.mean(axis=0)) / np.where(spread > 0, spread, 1.0)
        return cls(known, length * scaled[order])

    def rows(self, ids: AnyArray, what: str) -> FloatArray:
        """Return a row for each id, 0 for those without features."""
        at = locate(self.ids, ids, what)
        return np.where(at[:, None] >= 0, self.values[at], 0.0)


@dataclass(frozen=True, eq=False)
class FixedColumns:
    """Recipe for the fixed columns of users and items.

    A user has a constant, whose weights are the item biases, ``history`` columns of what the user rated, whatever the
    rating, and side features. An item has its popularity, as many columns of who rated it, and side features. The
    columns of history are leading singular vectors of the matrix of who rated what, each row and column over the square
    root of its sum.
    """

    bias: float
    #: What an item adds to the columns of the users who rated it.
    history: FloatArray
    item_history: FloatArray
    #: Mean and standard deviation of log(1 + number of ratings), and the length of the column; length 0 for none.
    popularity: tuple[float, float, float]
    user_side: SideFeatures | None = None
    item_side: SideFeatures | None = None

    @classmethod
    def learn(
        cls,
        ratings: Ratings,
        *,
        bias: float,
        history: int,
        popularity: bool,
        length: float,
        sides: tuple[SideFeatures | None, SideFeatures | None] = (None, None),
        seed: int | None = 0,
    ) -> FixedColumns:
        """Learn the columns from the ratings to train on."""
        logs = np.log1p(ratings.item_counts)
        spread = float(logs.std())
        scale = length if popularity and spread > 0 else 0.0
        n_users, n_items = len(ratings.users), len(ratings.items)
        rank = min(history, n_users, n_items)
        history_columns, item_history = np.zeros((n_items, rank)), np.zeros((n_items, rank))
        if rank:
            each = 1.0 / np.sqrt(ratings.item_counts + _MORE_RATINGS)
            scaled = each[ratings.item] / np.sqrt(np.diff(ratings.offsets))[ratings.user]
            matrix = sp.csr_array((scaled, ratings.item, ratings.offsets), shape=(n_users, n_items))
            _, values, right = leading_singular(matrix, rank, seed)
            strength = np.where(values > 1e-9 * values.max(), 1.0 / np.maximum(values, 1e-300), 0.0)
            history_columns = length * np.sqrt(n_users) * each[:, None] * right * strength
            item_history = length * np.sqrt(n_items) * right
        return cls(bias, history_columns, item_history, (float(logs.mean()), spread or 1.0, scale), *sides)

    def extended(self, n_items: int, places: npt.NDArray[np.int64]) -> FixedColumns:
        """Return columns for more items; known ones move to the given places, the others have no history yet."""
        history, item_history = (np.zeros((n_items, self.history.shape[1])) for _ in range(2))
        history[places], item_history[places] = self.history, self.item_history
        return replace(self, history=history, item_history=item_history)

    def of_users(self, ratings: Ratings) -> FloatArray:
        """Return the columns of the users of ratings."""
        from marginrank.recommend.factors_kernel import add_factors  # noqa: PLC0415

        n = len(ratings.users)
        constant = np.full((n, 1 if self.bias else 0), self.bias)
        history, rows = np.zeros((n, self.history.shape[1])), np.arange(ratings.n_ratings)
        each = np.repeat(1.0 / np.sqrt(np.maximum(np.diff(ratings.offsets), 1)), np.diff(ratings.offsets))
        add_factors(each, rows, ratings.item, self.history, ratings.offsets, history, 0, n)
        return np.hstack([constant, history, _side(self.user_side, ratings.users, "user")])

    def of_items(self, ratings: Ratings) -> FloatArray:
        """Return the columns of the items of ratings."""
        popularity = self._popularity(ratings.item_counts.astype(np.float64))
        return np.hstack([popularity, self.item_history, _side(self.item_side, ratings.items, "item")])

    def of_nobody(self, ids: AnyArray) -> FloatArray:
        """Return the columns of users without ratings."""
        constant = np.full((len(ids), 1 if self.bias else 0), self.bias)
        history = np.zeros((len(ids), self.history.shape[1]))
        return np.hstack([constant, history, _side(self.user_side, ids, "user")])

    def of_nothing(self, ids: AnyArray) -> FloatArray:
        """Return the columns of items without ratings."""
        popularity, history = self._popularity(np.zeros(len(ids))), np.zeros((len(ids), self.item_history.shape[1]))
        return np.hstack([popularity, history, _side(self.item_side, ids, "item")])

    def _popularity(self, counts: FloatArray) -> FloatArray:
        mean, spread, scale = self.popularity
        column = scale * (np.log1p(counts) - mean) / spread
        return column[:, None] if scale else np.zeros((len(counts), 0))


def _side(side: SideFeatures | None, ids: AnyArray, what: str) -> FloatArray:
    return np.zeros((len(ids), 0)) if side is None else side.rows(ids, what)


def _ids_and_table(given: Any, what: str, name: str | None) -> tuple[Any, Any]:
    if isinstance(given, tuple) and len(given) == 2:
        return given
    try:
        table = nw.from_native(given)
    except TypeError:
        raise TypeError(f"{what} features are a frame with a column of {what} ids, or a pair (ids, features)") from None
    rows = table.collect() if isinstance(table, nw.LazyFrame) else table
    usual = USUAL_COLUMNS[what] if name is None else (name, *USUAL_COLUMNS[what])
    ids = next((column for column in usual if column in rows.columns), None)
    if ids is None:
        known = ", ".join(map(repr, rows.columns[:8]))
        raise DataError(f"no column of {what} ids; call it {usual[0]!r}, the columns are {known}")
    return rows[ids].to_numpy(), rows.drop(ids).to_numpy()
