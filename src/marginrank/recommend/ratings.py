"""Ratings of items by users, from frames, arrays, queries or sparse matrices."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from numbers import Integral, Real
from typing import Any, Final, TypedDict

import narwhals as nw
import numpy as np
import numpy.typing as npt

from marginrank.data.grouping import offsets_from_sizes, rows_of
from marginrank.data.queries import Queries
from marginrank.data.text_arrays import label_array, text_array
from marginrank.errors import DataError, Parameter
from marginrank.runtime.lazy_imports import sp
from marginrank.runtime.text import count, did_you_mean
from marginrank.typing import AnyArray, BoolArray, FloatArray, IntArray


def id_column(values: npt.ArrayLike, what: str) -> AnyArray:
    """Return ids as an array of whole numbers or of text.

    Args:
        values: One id for each rating.
        what: ``user`` or ``item``, for errors.

    >>> id_column(["b", "a"], "user").tolist(), id_column([3.0, 1.0], "item").tolist()
    (['b', 'a'], [3, 1])
    >>> id_column(["b", 7], "user")
    Traceback (most recent call last):
    marginrank.errors.DataError: user ids are text ('b') and numbers (7); make all of them text, or all numbers
    """
    ids = label_array(_objects_if_mixed(values))
    if ids.ndim != 1:
        raise DataError(f"{what} ids have {ids.ndim} dimensions, not 1; give one id per rating")
    if ids.dtype.kind in "OT":
        return _from_objects(ids, what)
    if ids.dtype.kind == "f":
        if not np.isfinite(ids).all():
            at = int(np.argmin(np.isfinite(ids)))
            raise DataError(f"the {what} id of rating {at} is missing; every rating needs one")
        if np.any(ids != np.rint(ids)) or np.any(np.abs(ids) >= 2**53):
            at = int(np.argmax((ids != np.rint(ids)) | (np.abs(ids) >= 2**53)))
            raise DataError(f"the {what} id of rating {at} is {ids[at]}; ids are whole numbers or text")
        return ids.astype(np.int64)
    if ids.dtype.kind not in "iuU":
        raise DataError(f"{what} ids have the type {ids.dtype}; ids are whole numbers or text")
    if ids.dtype.kind == "u" and ids.size and int(ids.max()) > np.iinfo(np.int64).max:
        raise DataError(f"the {what} id {ids.max()} is beyond 64 bits; make the ids text")
    return ids.astype(np.int64) if ids.dtype.kind in "iu" else ids


def _objects_if_mixed(values: Any) -> Any:
    """Keep lists of several types as they are: NumPy would turn numbers among text into text."""
    if isinstance(values, list | tuple) and len({type(value) for value in values}) > 1:
        array = np.empty(len(values), dtype=object)
        array[:] = values
        return array
    return values


def _from_objects(ids: AnyArray, what: str) -> AnyArray:
    values = ids.tolist()
    texts = [isinstance(value, str) for value in values]
    for at, value in enumerate(values):
        if value is None or (not texts[at] and str(value) in ("nan", "NaT", "<NA>")):
            raise DataError(f"the {what} id of rating {at} is missing; every rating needs one")
    if all(texts):
        return text_array(values)
    if any(texts):
        word, number = values[texts.index(True)], values[texts.index(False)]
        raise DataError(
            f"{what} ids are text ({word!r}) and numbers ({number!r}); make all of them text, or all numbers"
        )
    if not all(isinstance(value, Real) for value in values):
        odd = next(value for value in values if not isinstance(value, Real))
        raise DataError(f"{what} ids have the type {type(odd).__name__}; ids are whole numbers or text")
    whole = all(isinstance(value, Integral) for value in values)
    try:
        return id_column(np.array(values, dtype=np.int64 if whole else np.float64), what)
    except OverflowError:
        raise DataError(f"{what} ids are beyond 64 bits; make the ids text") from None


def locate(known: AnyArray, ids: AnyArray, what: str) -> IntArray:
    """Return the position of each id among known ones, which are sorted; −1 for those that are new.

    >>> locate(np.array([2, 5, 9]), np.array([9, 3, 2]), "item").tolist()
    [2, -1, 0]
    """
    if len(known) and len(ids) and (known.dtype.kind in "UO") != (ids.dtype.kind in "UO"):
        kinds = ("text", "numbers") if known.dtype.kind in "UO" else ("numbers", "text")
        raise DataError(
            f"{what} ids were {kinds[0]} in training and are {kinds[1]} here ({ids[:1].tolist()[0]!r}); convert them"
        )
    if not len(known):
        return np.full(len(ids), -1)
    at = np.minimum(np.searchsorted(known, ids), len(known) - 1)
    return np.where(known[at] == ids, at, -1)


#: Column names that are recognized if none is given, first match first.
USUAL_COLUMNS: Final = {
    "user": ("user", "user_id", "userid", "userId", "qid"),
    "item": ("item", "item_id", "itemid", "itemId", "movie_id", "movieId", "document_id"),
    "rating": ("rating", "grade", "label", "score"),
    "weight": ("weight",),
}


class ColumnNames(TypedDict, total=False):
    """Columns of a frame of ratings; those that are not given, or None, are found by their usual names."""

    #: By default ``user``, ``user_id`` and the like.
    user: str | None
    #: By default ``item``, ``item_id`` and the like.
    item: str | None
    #: By default ``rating``, ``grade``, ``label`` or ``score``.
    rating: str | None
    #: The weight of the user, the same in all rows of a user; by default ``weight``.
    weight: str | None


@dataclass(frozen=True, eq=False, repr=False)
class Ratings:
    """Ratings of items by users: those of a user next to each other, users and items in the order of their ids.

    The order does not depend on that of the source, and so neither does what is learned.

    >>> Ratings.of((["ann", "bob", "ann"], ["x", "x", "a"], [4, 2, 5]))
    Ratings(3 ratings of 2 items by 2 users, 2..5)
    """

    users: AnyArray
    items: AnyArray
    #: Position of the item of each rating.
    item: IntArray
    values: FloatArray
    #: Offsets of the ratings of each user.
    offsets: IntArray
    #: One weight per user; None if all count the same.
    weights: FloatArray | None = None

    @classmethod
    def of(
        cls,
        ratings: Any,
        *,
        user: str | None = None,
        item: str | None = None,
        rating: str | None = None,
        weight: str | None = None,
        shift: float = 0.0,
        rated: bool = True,
    ) -> Ratings:
        """Make ratings from a frame, arrays, queries or a sparse matrix.

        Args:
            ratings: A frame; arrays (users, items, ratings) or (users, items, ratings, weights); `Queries` with
                document ids, whose queries are the users; a sparse matrix with a row per user and a column per item,
                whose stored entries are the ratings; or `Ratings`.
            user: Column of a frame; by default ``user``, ``user_id`` and the like.
            item: Column of a frame.
            rating: Column of a frame.
            weight: Column of a frame: the weight of the user, the same in all rows of a user.
            shift: Added to each rating, for ratings below 0.
            rated: Whether ratings are needed; without, every pair counts as rated 1.
        """
        if isinstance(ratings, Ratings):
            return ratings
        columns = {"user": user, "item": item, "rating": rating, "weight": weight}
        users, items, values, weights = _columns_of(ratings, columns, rated)
        if values is None:
            values = np.ones(len(np.asarray(users, dtype=object)))
        return _sorted(id_column(users, "user"), id_column(items, "item"), _as_values(values, shift), weights)

    @property
    def n_ratings(self) -> int:
        """Number of ratings."""
        return len(self.values)

    @cached_property
    def user(self) -> IntArray:
        """Position of the user of each rating."""
        return np.repeat(np.arange(len(self.users)), np.diff(self.offsets))

    @cached_property
    def by_item(self) -> IntArray:
        """The ratings in the order of their items, those of an item in the order of the users."""
        return np.argsort(self.item, kind="stable")

    @cached_property
    def item_offsets(self) -> IntArray:
        """Offsets of the ratings of each item in ``by_item``."""
        return offsets_from_sizes(self.item_counts)

    @property
    def item_counts(self) -> IntArray:
        """Number of ratings of each item."""
        return np.bincount(self.item, minlength=len(self.items))

    def select(self, chosen: BoolArray | IntArray) -> Ratings:
        """Return some ratings, with all items, and the users that have any of them."""
        rows = np.flatnonzero(chosen) if np.asarray(chosen).dtype == np.bool_ else np.sort(chosen)
        sizes = np.bincount(self.user[rows], minlength=len(self.users))
        kept = sizes > 0
        return replace(
            self,
            users=self.users[kept],
            item=self.item[rows],
            values=self.values[rows],
            offsets=offsets_from_sizes(sizes[kept]),
            weights=None if self.weights is None else self.weights[kept],
        )

    def of_users(self, chosen: IntArray) -> Ratings:
        """Return the ratings of some users, given by position, with all items."""
        rows = rows_of(self.offsets, chosen)
        return replace(
            self,
            users=self.users[chosen],
            item=self.item[rows],
            values=self.values[rows],
            offsets=offsets_from_sizes(np.diff(self.offsets)[chosen]),
            weights=None if self.weights is None else self.weights[chosen],
        )

    def widened(self, users: AnyArray, items: AnyArray) -> Ratings:
        """Return the same ratings with more users and items, which may have no ratings."""
        all_users, all_items = _union(self.users, users, "user"), _union(self.items, items, "item")
        sizes = np.zeros(len(all_users), dtype=np.int64)
        places = np.searchsorted(all_users, self.users)
        sizes[places] = np.diff(self.offsets)
        weights = None
        if self.weights is not None:
            weights = np.full(len(all_users), self.weights.mean())
            weights[places] = self.weights
        return Ratings(
            all_users,
            all_items,
            np.searchsorted(all_items, self.items)[self.item],
            self.values,
            offsets_from_sizes(sizes),
            weights,
        )

    def updated(self, new: Ratings) -> Ratings:
        """Return these ratings and new ones; if a pair is rated in both, the new rating counts."""
        old, new = self.widened(new.users, new.items), new.widened(self.users, self.items)
        n = len(old.items)
        old_keys, new_keys = old.user * n + old.item, new.user * n + new.item
        kept = ~np.isin(old_keys, new_keys)
        keys = np.concatenate([old_keys[kept], new_keys])
        order = np.argsort(keys, kind="stable")
        return replace(
            old,
            item=keys[order] % n,
            values=np.concatenate([old.values[kept], new.values])[order],
            offsets=offsets_from_sizes(np.bincount(keys // n, minlength=len(old.users))),
            weights=_merged(old, new),
        )

    def queries(self) -> Queries:
        """Return the ratings as queries without features: users are queries, items documents."""
        return Queries(
            X=np.empty((self.n_ratings, 0), dtype=np.float32),
            judgements=self.values,
            query_offsets=self.offsets,
            query_ids=self.users,
            document_ids=self.items[self.item],
            query_weights=self.weights,
            keys=self.item.astype(np.uint64),
        )

    def __repr__(self) -> str:
        span = f", {self.values.min():g}..{self.values.max():g}" if self.n_ratings else ""
        parts = count(self.n_ratings, "rating"), count(len(self.items), "item"), count(len(self.users), "user")
        return f"Ratings({parts[0]} of {parts[1]} by {parts[2]}{span})"


def _merged(old: Ratings, new: Ratings) -> FloatArray | None:
    """Merge the weights of users: the new one if a user has new ratings; 1 if there is none."""
    if old.weights is None and new.weights is None:
        return None
    weights = [np.ones(len(ratings.users)) if ratings.weights is None else ratings.weights for ratings in (old, new)]
    known = np.diff(old.offsets) > 0
    told = (np.diff(new.offsets) > 0) & (~known if new.weights is None else True)
    return np.where(told, weights[1], weights[0])


def _union(known: AnyArray, more: AnyArray, what: str) -> AnyArray:
    """Return the ids of both, sorted; refuse ids of different kinds."""
    locate(known, more, what)
    return np.union1d(known, more) if len(more) else known


def _columns_of(ratings: Any, columns: dict[str, str | None], rated: bool) -> tuple[Any, Any, Any, Any]:
    """Return users, items, ratings and weights as given."""
    if isinstance(ratings, Queries):
        if ratings.document_ids is None:
            raise DataError("these queries have no document_ids, which are the items; give them to Queries")
        weights = None if ratings.query_weights is None else ratings.query_weights[ratings.query_of_row]
        values = ratings.grades if rated or ratings.has_grades else None
        return ratings.query_ids[ratings.query_of_row], ratings.document_ids, values, weights
    if sp.issparse(ratings):
        matrix: Any = ratings
        table = matrix.tocoo()
        return table.row.astype(np.int64), table.col.astype(np.int64), table.data, None
    if isinstance(ratings, list) and ratings and all(isinstance(row, tuple) for row in ratings):
        raise TypeError("ratings are a list of rows; give columns: tuple(zip(*rows))")
    if isinstance(ratings, tuple | list) and len(ratings) in ((3, 4) if rated else (2, 3, 4)):
        _check_arrays(ratings)
        users, items, *rest = ratings
        values, weights = (*rest, None, None)[:2]
        return users, items, values, weights
    return _frame_columns(ratings, columns, rated)


def _check_arrays(columns: Sequence[Any]) -> None:
    names = ("users", "items", "ratings", "weights")
    for name, column in zip(names, columns, strict=False):
        if column is not None and (isinstance(column, str) or not hasattr(column, "__len__")):
            raise TypeError(f"{name} are a {type(column).__name__}; give a list or an array of them")
    sizes = [len(column) for column in columns if column is not None]
    if len(set(sizes)) > 1:
        told = ", ".join(f"{size} {name}" for name, size in zip(names, sizes, strict=False))
        raise DataError(f"there are {told}; give one of each per rating")


def find_column(what: str, given: str | None, known: Sequence[str], *, rated: bool) -> str | None:
    """Return the name of the column of users, items, ratings or weights; None if it is absent and not needed.

    Args:
        what: ``user``, ``item``, ``rating`` or ``weight``.
        given: Its name, if it is given.
        known: All columns.
        rated: Whether ratings are needed.
    """
    name = given or next((column for column in USUAL_COLUMNS[what] if column in known), None)
    if name in known:
        return name
    if given is None and (what == "weight" or (what == "rating" and not rated)):
        return None
    near = did_you_mean(given, known) if given else ""
    missing = f"no column {given!r}" if given else f"no column of {what}s"
    raise DataError(
        f"{missing}; {near}name it with ", Parameter(what, ...), f"; the columns are {', '.join(map(repr, known[:8]))}"
    )


def _frame_columns(frame: Any, columns: dict[str, str | None], rated: bool) -> tuple[Any, Any, Any, Any]:
    """Return the columns of users, items, ratings and weights of a frame; None for absent ones."""
    try:
        table = nw.from_native(frame)
    except nw.exceptions.DuplicateError:
        raise DataError("two columns of the frame have the same name; rename or drop one") from None
    except TypeError:
        raise TypeError(
            f"ratings are a {type(frame).__name__}; give a frame, arrays (users, items, ratings), Queries with "
            "document_ids, or a sparse matrix of users × items"
        ) from None
    rows = table.collect() if isinstance(table, nw.LazyFrame) else table
    names = [find_column(what, given, rows.columns, rated=rated) for what, given in columns.items()]
    users, items, values, weights = (None if name is None else rows[name].to_numpy() for name in names)
    return users, items, values, weights


def _as_values(values: npt.ArrayLike, shift: float) -> FloatArray:
    try:
        numbers = np.asarray(values, dtype=np.float64)
    except (TypeError, ValueError):
        raise DataError("ratings are not numbers; map words to grades, for example {'dislike': 0, 'like': 1}") from None
    if numbers.ndim != 1:
        raise DataError(f"ratings have {numbers.ndim} dimensions, not 1; give one per user and item")
    if not np.isfinite(numbers).all():
        at = int(np.argmin(np.isfinite(numbers)))
        raise DataError(f"rating {at} is {numbers[at]}; leave out the pairs without a rating")
    shifted = numbers + shift
    if shifted.min(initial=0.0) < 0:
        at = int(np.argmin(shifted))
        raise DataError(
            f"rating {at} is {numbers[at]:g}, and ratings must not be negative; pass ",
            Parameter("shift", -float(numbers.min())),
            " to add to all of them",
        )
    return shifted


def _sorted(users: AnyArray, items: AnyArray, values: FloatArray, weights: Any) -> Ratings:
    """Order ratings by user and item; refuse pairs that are rated twice."""
    if not len(users) == len(items) == len(values):
        raise DataError(f"there are {len(users)} users, {len(items)} items, {len(values)} ratings; give one of each")
    if not len(values):
        raise DataError("there are no ratings")
    user_ids, user = np.unique(users, return_inverse=True)
    item_ids, item = np.unique(items, return_inverse=True)
    order = np.lexsort((item, user))
    user, item = user[order], item[order]
    again = np.flatnonzero((np.diff(user) == 0) & (np.diff(item) == 0))
    if len(again):
        who, what = user_ids[user[again[0]]], item_ids[item[again[0]]]
        raise DataError(
            f"user {who} rated item {what} more than once; keep one rating of each pair, for example the last or the "
            "mean"
        )
    offsets = offsets_from_sizes(np.bincount(user, minlength=len(user_ids)))
    per_user = None if weights is None else _user_weights(np.asarray(weights)[order], user_ids, offsets)
    return Ratings(user_ids, item_ids, item.astype(np.int64), values[order], offsets, per_user)


def _user_weights(weights: AnyArray, users: AnyArray, offsets: IntArray) -> FloatArray:
    """Return the weight of each user, which has to be the same for all ratings of the user."""
    try:
        numbers = np.asarray(weights, dtype=np.float64)
    except (TypeError, ValueError):
        raise DataError("weights are not numbers; give one per rating, the same for all ratings of a user") from None
    if not (np.isfinite(numbers).all() and (numbers >= 0).all()):
        raise DataError("weights must be finite and not negative")
    first = numbers[offsets[:-1]]
    differs = numbers != np.repeat(first, np.diff(offsets))
    if differs.any():
        at = int(np.searchsorted(offsets, np.argmax(differs), side="right")) - 1
        raise DataError(
            f"user {users[at]} has ratings of different weight; losses weight users and not single ratings, so give "
            "all ratings of a user the same weight"
        )
    if not first.any():
        raise DataError("all weights are 0; give at least one user a positive weight")
    return np.asarray(first)


def pair_ids(pairs: Any, user: str | None = None, item: str | None = None) -> tuple[AnyArray, AnyArray]:
    """Return the ids of users and items, in the order given.

    Args:
        pairs: As in `Ratings.of`; ratings are not needed.
        user: Column of a frame.
        item: Column of a frame.
    """
    if isinstance(pairs, Ratings):
        return pairs.users[pairs.user], pairs.items[pairs.item]
    columns = {"user": user, "item": item, "rating": None, "weight": None}
    users, items, *_ = _columns_of(pairs, columns, rated=False)
    return id_column(users, "user"), id_column(items, "item")
