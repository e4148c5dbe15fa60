"""Statistics of judged queries, in one pass over the features."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Final

import numpy as np

from marginrank.data.queries import Queries
from marginrank.data.validation import count_repeated
from marginrank.runtime.lazy_imports import sp
from marginrank.runtime.memory import check_memory, max_memory
from marginrank.runtime.threads import for_each, thread_count
from marginrank.typing import AnyArray, BoolArray, Features, FloatArray, IntArray

#: Values that are looked at together: few enough to stay in a core's cache between looks.
_BLOCK_BYTES: Final = 1 << 18
#: Rows of a block, for statistics that need more memory than the rows.
_ROWS: Final = 1 << 14
#: What a name and the counts of a feature take, about.
_BYTES_PER_FEATURE: Final = 200
#: Most grades that are counted one by one.
_MOST_GRADES: Final = 1000


@dataclass(frozen=True, eq=False)
class FeatureStatistics:
    """Statistics of the features over all documents.

    Args:
        least: The least value of each feature, NaN if it has none.
        greatest: The greatest.
        missing: How many values are NaN.
        alike: A number of each feature that is the same for features with the same values.
        zero_documents: Documents with all features 0.
    """

    least: FloatArray
    greatest: FloatArray
    missing: IntArray
    alike: AnyArray
    zero_documents: int

    @property
    def constant(self) -> IntArray:
        """Features with the same value everywhere, or with none at all."""
        return np.flatnonzero((self.least == self.greatest) & (self.missing == 0) | np.isnan(self.least))


def profile(queries: Queries, n_jobs: int | None = None) -> dict[str, Any]:
    """Count what a set of judged queries is made of.

    >>> queries = Queries.from_arrays([[1, 0, 1], [2, 0, 2], [0, 0, 0]], [1, 1, 0], qid=[7, 7, 8])
    >>> record = profile(queries)
    >>> record["queries_of_one_grade"], record["constant_features"], record["duplicated_features"]
    (2, ['1'], [['0', '2']])
    >>> record["zero_documents"], record["grades"], record["list_lengths"]
    (1, {'0': 1, '1': 2}, {'min': 1, 'median': 1.5, 'max': 2})
    """
    check_memory(_BYTES_PER_FEATURE * queries.n_features, f"counts of {queries.n_features:,} features", max_memory())
    columns = columns_of(queries.X, n_jobs)
    names = queries.feature_labels
    with_missing = np.flatnonzero(columns.missing)
    return {
        "queries": len(queries),
        "documents": queries.n_documents,
        "features": queries.n_features,
        "feature_type": str(queries.X.dtype) + (", sparse" if queries.is_sparse else ""),
        "grades": histogram(queries.grades) if queries.has_grades else {},
        "unjudged": queries.n_unjudged,
        "list_lengths": list_lengths(queries.lengths),
        "queries_of_one_grade": queries_of_one_grade(queries) if queries.has_grades else None,
        "constant_features": [names[number] for number in columns.constant],
        "duplicated_features": [[names[number] for number in group] for group in duplicates(queries.X, columns)],
        "zero_documents": columns.zero_documents,
        "repeated_documents": count_repeated(queries),
        "missing_values": {names[number]: int(columns.missing[number]) for number in with_missing},
    }


def histogram(grades: FloatArray) -> dict[str, int] | None:
    """Return the number of documents of each grade, None if there are too many grades; unjudged ones do not count."""
    grades = grades[~np.isnan(grades)]
    if not len(grades):
        return {}
    most = float(grades.max())
    if most < _MOST_GRADES:
        whole = grades.astype(np.int64)
        if np.array_equal(whole, grades):
            counts = np.bincount(whole)
            return {str(grade): int(counts[grade]) for grade in np.flatnonzero(counts)}
    values, counts = np.unique(grades, return_counts=True)
    return {f"{v:g}": int(n) for v, n in zip(values, counts, strict=True)} if len(values) <= _MOST_GRADES else None


def list_lengths(lengths: IntArray) -> dict[str, float]:
    """Documents per query."""
    if not len(lengths):
        return {"min": 0, "median": 0.0, "max": 0}
    return {"min": int(lengths.min()), "median": float(np.median(lengths)), "max": int(lengths.max())}


def queries_of_one_grade(queries: Queries) -> int:
    """Count the queries without two documents of different grade, which teach nothing."""
    starts = queries.query_offsets[:-1][queries.lengths > 0]
    if not len(starts):
        return len(queries)
    grades = queries.to_grouped(queries.grades)
    varied = np.fmin.reduceat(grades, starts) < np.fmax.reduceat(grades, starts)
    return len(queries) - int(np.count_nonzero(varied))


class _ThreadStatistics:
    """Statistics of the columns in the chunk of one thread."""

    def __init__(self, width: int, bits: np.dtype[Any]) -> None:
        self.least, self.greatest = np.full(width, np.nan), np.full(width, np.nan)
        self.missing = np.zeros(width, dtype=np.int64)
        self.alike = np.zeros(width, dtype=bits)
        self.zero_documents = 0

    def add(self, block: AnyArray, multipliers: AnyArray, weights: AnyArray) -> None:
        """Look at a block of rows."""
        values = block + block.dtype.type(0)  # so that −0 and 0 have the same bits
        least, greatest = values.min(axis=0), values.max(axis=0)
        broken = np.flatnonzero(np.isnan(least))
        if broken.size:
            column = values[:, broken]
            least[broken], greatest[broken] = np.fmin.reduce(column), np.fmax.reduce(column)
            self.missing[broken] += np.isnan(column).sum(axis=0)
        self.least, self.greatest = np.fmin(self.least, least), np.fmax(self.greatest, greatest)
        self.alike += np.einsum("i,ij->j", multipliers, values.view(self.alike.dtype))
        # A row of zeros has the product 0; a row with another value hardly ever has.
        maybe = np.flatnonzero(values @ weights == 0)
        if maybe.size:
            self.zero_documents += int(np.count_nonzero(~values[maybe].any(axis=1)))


def columns_of(X: Features, n_jobs: int | None = None) -> FeatureStatistics:
    """Look at all values of each feature once."""
    return _sparse_columns(X) if sp.issparse(X) else _dense_columns(X, n_jobs)


def _dense_columns(X: AnyArray, n_jobs: int | None) -> FeatureStatistics:
    """One pass over the rows, a block at a time, blocks dealt out to threads.

    Columns are told apart by Σ_i m_i·u_i mod 2^b, with u_i the b bits of the value in row i and m_i odd and random.
    """
    n, width = X.shape
    step = max(1, _BLOCK_BYTES // max(1, width * X.itemsize))
    bits = np.dtype(f"u{X.itemsize}")
    multipliers = np.random.default_rng(0).integers(0, np.iinfo(bits).max, n, dtype=bits) | bits.type(1)
    weights = np.asarray(np.random.default_rng(1).uniform(1.0, 2.0, width), dtype=X.dtype)
    n_parts = thread_count(n_jobs)
    parts = [_ThreadStatistics(width, bits) for _ in range(n_parts)]

    def look(number: int, part: _ThreadStatistics) -> None:
        for start in range(number * step, n, n_parts * step):
            rows = slice(start, start + step)
            part.add(X[rows], multipliers[rows], weights)

    for_each(look, list(enumerate(parts)), n_jobs)
    return FeatureStatistics(
        np.fmin.reduce([part.least for part in parts]),
        np.fmax.reduce([part.greatest for part in parts]),
        np.add.reduce([part.missing for part in parts]),
        np.add.reduce([part.alike for part in parts]),
        sum(part.zero_documents for part in parts),
    )


def _sparse_columns(X: Any) -> FeatureStatistics:
    """One pass over the stored values; what is not stored is 0."""
    n, width = X.shape
    least, greatest, alike = np.full(width, np.nan), np.full(width, np.nan), np.zeros(width)
    missing, stored, zero_documents = np.zeros(width, dtype=np.int64), np.zeros(width, dtype=np.int64), 0
    multipliers = np.random.default_rng(0).uniform(1.0, 2.0, n)
    for start in range(0, n, _ROWS):
        block = X[start : start + _ROWS]
        rows, columns, values = np.repeat(np.arange(block.shape[0]), np.diff(block.indptr)), block.indices, block.data
        absent = np.isnan(values)
        np.fmin.at(least, columns, values)
        np.fmax.at(greatest, columns, values)
        missing += np.bincount(columns, absent, minlength=width).astype(np.int64)
        stored += np.bincount(columns, minlength=width)
        # Entries of a column are added one after the other, so that the same values give the same sum.
        alike += np.bincount(columns, np.where(absent, 1.0, values) * multipliers[start + rows], minlength=width)
        zero_documents += int(np.count_nonzero(np.bincount(rows, values != 0, minlength=block.shape[0]) == 0))
    partly = stored < n
    least[partly], greatest[partly] = np.fmin(least[partly], 0.0), np.fmax(greatest[partly], 0.0)
    return FeatureStatistics(least, greatest, missing, alike, zero_documents)


def duplicates(X: Features, columns: FeatureStatistics) -> list[list[int]]:
    """Groups of features with the same values, constant ones left out."""
    constant = set(columns.constant.tolist())
    keys: dict[tuple[Any, ...], list[int]] = {}
    marks = zip(columns.alike.tolist(), columns.least.tolist(), columns.greatest.tolist(), strict=True)
    for number, key in enumerate(marks):
        if number not in constant:
            keys.setdefault(key, []).append(number)
    pairs = [(group[0], other) for group in keys.values() for other in group[1:]]
    groups: dict[int, list[int]] = {}
    for (first, other), same in zip(pairs, _confirmed(X, pairs).tolist(), strict=True):
        if same:
            groups.setdefault(first, [first]).append(other)
    return list(groups.values())


def _confirmed(X: Features, pairs: list[tuple[int, int]]) -> BoolArray:
    """Whether both columns of each pair hold the same values, which equal marks only make likely."""
    same = np.ones(len(pairs), dtype=np.bool_)
    if not pairs:
        return same
    ones, others = np.transpose(pairs)
    for start in range(0, X.shape[0], _ROWS):
        block = X[start : start + _ROWS]
        left, right = _dense(block[:, ones]), _dense(block[:, others])
        same &= ((left == right) | (np.isnan(left) & np.isnan(right))).all(axis=0)
    return same


def _dense(block: Features) -> AnyArray:
    return block.toarray() if sp.issparse(block) else np.asarray(block)
