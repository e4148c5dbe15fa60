"""The best path through a grid: argmax for credits of two levels."""

from __future__ import annotations

import numpy as np

from marginrank.kernels import njit
from marginrank.losses.oracles.grade_lattice import CreditSum
from marginrank.losses.oracles.levels import Layout
from marginrank.losses.oracles.problem import Violations


@njit(nogil=True, cache=True)
def most_violated_path(scores, layout, total, weights, violations, first, end):  # type: ignore[no-untyped-def]
    """Two levels, any credits: the best path through the grid of (i relevant, j irrelevant documents placed)."""
    layout, total, violations = Layout(*layout), CreditSum(*total), Violations(*violations)
    profile, ranks = total.profile, violations.ranks
    for query in range(first, end):
        if not layout.active[query]:
            continue
        start, stop = layout.queries[query], layout.queries[query + 1]
        end_rel = layout.offsets[layout.of_query[query] + 1]
        n_rel, n_irr = end_rel - start, stop - end_rel
        begin = total.starts[query]
        table = total.table[begin : begin + n_rel * (n_irr + 1)].reshape(n_rel, n_irr + 1)
        scale, weight = total.scales[query], weights[query]
        relevant_last = np.empty((n_rel + 1, n_irr + 1), dtype=np.bool_)
        row = np.empty(n_irr + 1)
        row[0] = 0.0
        for j in range(1, n_irr + 1):
            row[j] = row[j - 1] + scale * profile[j - 1] * scores[end_rel + j - 1]
            relevant_last[0, j] = False
        for i in range(1, n_rel + 1):
            for j in range(n_irr + 1):
                a = scale * profile[i + j - 1]
                with_relevant = row[j] + a * scores[start + i - 1] - weight * table[i - 1, j]
                with_irrelevant = row[j - 1] + a * scores[end_rel + j - 1] if j > 0 else -np.inf
                relevant_last[i, j] = with_relevant > with_irrelevant
                row[j] = max(with_relevant, with_irrelevant)
        i, j = n_rel, n_irr
        delta = 0.0
        for placed in range(n_rel):
            delta += table[placed, 0]
        while i + j > 0:
            if i > 0 and relevant_last[i, j]:
                delta -= table[i - 1, j]
                i -= 1
                ranks[start + i] = i + j
            else:
                j -= 1
                ranks[end_rel + j] = i + j
        violations.deltas[query] = weight * delta
