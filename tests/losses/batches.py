"""A batch of queries for losses in models of other libraries, and batches that are refused."""

from __future__ import annotations

import numpy as np

from .every import needs_groups

LENGTHS = [4, 1, 7, 5, 3]
#: Two documents make a group, for the loss that cannot do without.
GROUPS = np.arange(20) // 2


def groups_for(loss, rows=slice(None)):
    return {"groups": GROUPS[rows]} if needs_groups(loss) else {}


def arrays(seed=0):
    """Return scores, grades and offsets of five queries, of which one has a single document and one a single grade."""
    rng = np.random.default_rng(seed)
    offsets = np.concatenate([[0], np.cumsum(LENGTHS)])
    grades = rng.integers(0, 3, offsets[-1]).astype(float)
    grades[offsets[3] : offsets[4]] = 1.0
    grades[[0, 1, 5, 6, 17, 18]] = [2, 0, 1, 0, 2, 0]
    return rng.standard_normal(offsets[-1]), grades, offsets


def bad_batches(scores):
    """Return what an error says, arguments and options, given four scores of the library."""
    return [
        ("grades have shape \\(3,\\) and scores \\(4,\\)", (scores, [1, 0, 0]), {}),
        ("groups have shape \\(1,\\)", (scores, [1, 0, 0, 0]), {"groups": [1]}),
        ("offsets must increase from 0", (scores, [1, 0, 0, 0], [0, 3]), {}),
        ("both given", (scores, [1, 0, 0, 0], [0, 4]), {"qid": [1, 1, 1, 1]}),
        ("a mask is for padded", (scores, [1, 0, 0, 0]), {"mask": [True] * 4}),
        ("leave out offsets and qid", (scores[None], [[1, 0, 0, 0]], [0, 4]), {}),
        ("mask has shape", (scores[None], [[1, 0, 0, 0]]), {"mask": [True] * 4}),
        ("give one per document, or queries × documents", (scores[None, None], [[[1, 0, 0, 0]]]), {}),
    ]
