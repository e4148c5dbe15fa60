"""Splits of queries into parts: at random, by a hash of the query id, or by time."""

from __future__ import annotations

import hashlib
import re
from collections.abc import Mapping
from contextlib import suppress
from typing import Final

import numpy as np

from marginrank.data.queries import Queries
from marginrank.data.text_arrays import as_text
from marginrank.errors import DataError
from marginrank.typing import AnyArray, FloatArray

#: Dates and times whose order as text is their order in time.
_ISO: Final = re.compile(r"\d{4}(-\d\d(-\d\d([T ].*)?)?)?")


def split_queries(queries: Queries, shares: Mapping[str, float], quantiles: FloatArray) -> dict[str, Queries]:
    """Split queries into parts; every query goes into one of them as a whole.

    Args:
        queries: The queries.
        shares: The size of each part, relative to the others.
        quantiles: A number from 0 to 1 for each query; the first part has the queries with the smallest numbers.

    >>> queries = Queries.from_arrays(np.zeros((5, 1)), qid=list("abcde"))
    >>> parts = split_queries(queries, {"train": 3, "test": 2}, np.array([0.9, 0.1, 0.3, 0.5, 0.7]))
    >>> {name: part.query_ids.tolist() for name, part in parts.items()}
    {'train': ['b', 'c', 'd'], 'test': ['a', 'e']}
    """
    sizes = np.array(list(shares.values()), dtype=np.float64)
    # Rounded, so that 0.7 + 0.1 is 0.8 and 4 of 6 are two thirds.
    ends = np.round(np.cumsum(sizes)[:-1] / sizes.sum(), 12)
    part = np.searchsorted(ends, np.round(quantiles, 12), side="right")
    parts = {name: np.flatnonzero(part == number) for number, name in enumerate(shares)}
    empty = next((name for name, chosen in parts.items() if not len(chosen)), None)
    if empty is not None:
        raise DataError(f"no query is left for {empty!r}; give it a larger share, or more queries")
    return {name: queries[chosen] for name, chosen in parts.items()}


def random_quantiles(queries: Queries, random_state: int) -> FloatArray:
    """Draw the quantiles of queries; they depend on the set of ids and not on their order.

    >>> random_quantiles(Queries.from_arrays(np.zeros((4, 1)), qid=list("abcd")), 0).tolist()
    [0.5, 0.0, 0.25, 0.75]
    """
    quantiles = np.empty(len(queries))
    by_id = np.argsort(as_text(queries.query_ids), kind="stable")
    quantiles[by_id] = np.random.default_rng(random_state).permutation(len(queries)) / len(queries)
    return quantiles


def hashed_quantiles(queries: Queries, random_state: int) -> FloatArray:
    """Hash query ids; a query keeps its quantile, and its part, whatever other queries there are."""
    salt = str(random_state).encode()
    words = as_text(queries.query_ids).tolist()
    digests = (hashlib.blake2b(word.encode("utf-8", "surrogatepass"), digest_size=6, key=salt) for word in words)
    return np.array([int.from_bytes(digest.digest()) / 2**48 for digest in digests], dtype=np.float64)


def time_quantiles(queries: Queries, times: AnyArray) -> FloatArray:
    """Order queries by their latest row; those of the same time have the same quantile.

    Args:
        queries: The queries.
        times: A number, or a date such as ``2026-01-31``, for each row.

    >>> queries = Queries.from_arrays(np.zeros((4, 1)), qid=["a", "a", "b", "c"])
    >>> time_quantiles(queries, np.array(["2026-01-01", "2026-03-01", "2026-02-01", "2026-03-01"])).tolist()
    [0.3333333333333333, 0.0, 0.3333333333333333]
    """
    with suppress(ValueError):  # a column of text may hold numbers
        times = times.astype(np.float64)
    if times.dtype.kind != "f":
        odd = next((word for word in np.unique(times).tolist() if not _ISO.fullmatch(str(word))), None)
        if odd is not None:
            raise DataError(f"{str(odd)!r} is not a time that can be sorted; write numbers or dates such as 2026-01-31")
    distinct, codes = np.unique(times, return_inverse=True)
    latest = np.zeros(len(queries), dtype=np.int64)
    np.maximum.at(latest, queries.query_of_row, codes)
    earlier = np.cumsum(np.bincount(latest, minlength=len(distinct))) - np.bincount(latest, minlength=len(distinct))
    return np.asarray(earlier[latest] / len(queries))
