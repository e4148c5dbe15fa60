"""One pass of a ranking perceptron over documents, rows of a CSR matrix."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from marginrank.runtime.kernels import njit
from marginrank.typing import AnyArray, FloatArray, IntArray


class Documents(NamedTuple):
    """Rows of a CSR matrix, with the class and the query of each."""

    data: AnyArray
    indices: AnyArray
    indptr: AnyArray
    classes: IntArray
    query: IntArray


class Learned(NamedTuple):
    """The state of a perceptron."""

    #: Weights of the features.
    w: FloatArray
    #: Additional weights of each query; no rows if there are none.
    by_query: FloatArray
    #: Thresholds between the classes.
    b: FloatArray
    #: Changes of w times the documents seen before, so that w − late / clock is the mean of w over all documents seen.
    late: FloatArray


@njit()
def perceptron_epoch(documents, learned, order, clock):  # type: ignore[no-untyped-def]
    """Go through the documents in the given order; sum up by how many grades they were missed."""
    data, indices, indptr, classes, query = documents
    w, by_query, b, late = learned
    missed = 0
    for document in order:
        start, stop = indptr[document], indptr[document + 1]
        score = 0.0
        for at in range(start, stop):
            weight = w[indices[at]]
            if len(by_query) > 0:
                weight += by_query[query[document], indices[at]]
            score += np.float64(data[at]) * weight
        change = 0
        for r in range(len(b)):
            side = 1 if classes[document] > r else -1
            if (score - b[r]) * side <= 0.0:
                change += side
                b[r] -= side
        if change != 0:
            missed += abs(change)
            for at in range(start, stop):
                step = change * np.float64(data[at])
                w[indices[at]] += step
                late[indices[at]] += clock * step
                if len(by_query) > 0:
                    by_query[query[document], indices[at]] += step
        clock += 1
    return missed, clock
