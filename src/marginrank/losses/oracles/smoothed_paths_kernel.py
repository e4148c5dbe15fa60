"""Sums over all interleavings of two sorted lists, in the log domain."""

from __future__ import annotations

import numpy as np

from marginrank.losses.oracles.base import Coefficients, SlackTable, SortedDocuments
from marginrank.losses.oracles.grade_levels import Layout
from marginrank.losses.oracles.rank_sums import Credits
from marginrank.runtime.kernels import njit


@njit()
def _log_add(a, b):  # type: ignore[no-untyped-def]
    high, low = max(a, b), min(a, b)
    return high if low == -np.inf else high + np.log1p(np.exp(low - high))


@njit()
def smoothed_paths(ordered, layout, coefficients, tables, temperature, slacks, first, end):  # type: ignore[no-untyped-def]
    """Compute μ·log of the sum over interleavings of exp((Δ + a·s)/μ), less a(y*)·s, and its gradient.

    Forward and backward sums over the grid of (i relevant, j irrelevant documents placed) give the probability of every
    step, and with it the mean of the coefficient of each document.
    """
    ordered, layout, slacks = SortedDocuments(*ordered), Layout(*layout), SlackTable(*slacks)
    coefficients, tables = Coefficients(*coefficients), Credits(*tables)
    scores, documents, gradient = ordered.scores, ordered.documents, slacks.gradient
    profile, fixed = coefficients.profile, coefficients.ideal
    for query in range(first, end):
        begin, stop = layout.queries[query], layout.queries[query + 1]
        gradient[begin:stop] = 0.0
        slacks.xi[query] = 0.0
        if not layout.active[query]:
            continue
        end_rel = layout.offsets[layout.of_query[query] + 1]
        n_rel, n_irr = end_rel - begin, stop - end_rel
        cells = tables.table[tables.starts[query] : tables.starts[query] + n_rel * (n_irr + 1)]
        table = cells.reshape(n_rel, n_irr + 1)
        forward = np.full((n_rel + 1, n_irr + 1), -np.inf)
        backward = np.full((n_rel + 1, n_irr + 1), -np.inf)
        forward[0, 0], backward[n_rel, n_irr] = 0.0, 0.0
        scale = coefficients.scales[query]
        for i in range(n_rel + 1):
            for j in range(n_irr + 1):
                a = scale * profile[i + j - 1] if i + j > 0 else 0.0
                if i > 0:
                    step = (a * scores[begin + i - 1] - table[i - 1, j]) / temperature
                    forward[i, j] = _log_add(forward[i, j], forward[i - 1, j] + step)
                if j > 0:
                    step = a * scores[end_rel + j - 1] / temperature
                    forward[i, j] = _log_add(forward[i, j], forward[i, j - 1] + step)
        for i in range(n_rel, -1, -1):
            for j in range(n_irr, -1, -1):
                a = scale * profile[i + j] if i + j < n_rel + n_irr else 0.0
                if i < n_rel:
                    step = (a * scores[begin + i] - table[i, j]) / temperature
                    backward[i, j] = _log_add(backward[i, j], backward[i + 1, j] + step)
                if j < n_irr:
                    step = a * scores[end_rel + j] / temperature
                    backward[i, j] = _log_add(backward[i, j], backward[i, j + 1] + step)
        total = forward[n_rel, n_irr]
        ideal, reference = 0.0, 0.0
        for i in range(n_rel):
            ideal += table[i, 0]
        for i in range(n_rel + 1):
            for j in range(n_irr + 1):
                if i + j == n_rel + n_irr:
                    continue
                a = scale * profile[i + j]
                if i < n_rel:
                    step = (a * scores[begin + i] - table[i, j]) / temperature
                    gradient[documents[begin + i]] += a * np.exp(forward[i, j] + step + backward[i + 1, j] - total)
                if j < n_irr:
                    step = a * scores[end_rel + j] / temperature
                    gradient[documents[end_rel + j]] += a * np.exp(forward[i, j] + step + backward[i, j + 1] - total)
        for place in range(begin, stop):
            rank = fixed[documents[place]] if len(fixed) > 0 else place - begin
            gradient[documents[place]] -= scale * profile[rank]
            reference += scale * profile[rank] * scores[place]
        slacks.xi[query] = temperature * total + ideal - reference


@njit()
def _steps(state, counts, parts, temperature, steps):  # type: ignore[no-untyped-def]
    """Write what the next document of each level adds to the exponent in a state, −inf if there is none.

    Returns the number of documents of the state, whose numbers by level are written to ``counts``.
    """
    scores, starts, gains, strides, a, discounts = parts
    rank, rest, n_levels = 0, state, len(starts) - 1
    for back in range(n_levels):
        level = n_levels - 1 - back
        counts[level] = rest // strides[level]
        rest -= counts[level] * strides[level]
        rank += counts[level]
    for level in range(n_levels):
        place = starts[level] + counts[level]
        steps[level] = -np.inf
        if place < starts[level + 1]:
            steps[level] = (a[rank] * scores[place] - discounts[rank] * gains[level]) / temperature
    return rank


@njit()
def smoothed_merges(ordered, layout, coefficients, total, temperature, slacks, first, end):  # type: ignore[no-untyped-def]
    """Do what `smoothed_paths` does for a sum over ranks with any number of levels.

    A state is the number of documents of each level that are placed, as one number: those with one more document come
    later, so one pass over all numbers sums forward, and one in reverse order sums backward.

    ``total`` has the discounts of the ranks and the gains of the levels.
    """
    ordered, layout, slacks = SortedDocuments(*ordered), Layout(*layout), SlackTable(*slacks)
    coefficients, (discounts, all_gains) = Coefficients(*coefficients), total
    scores, documents, gradient, fixed = ordered.scores, ordered.documents, slacks.gradient, coefficients.ideal
    for query in range(first, end):
        begin, stop = layout.queries[query], layout.queries[query + 1]
        gradient[begin:stop] = 0.0
        slacks.xi[query] = 0.0
        if not layout.active[query]:
            continue
        low, high = layout.of_query[query], layout.of_query[query + 1]
        n_levels, starts, gains = high - low, layout.offsets[low : high + 1], all_gains[low:high]
        profile = coefficients.scales[query] * coefficients.profile[: stop - begin + 1]
        strides, n_states = np.ones(n_levels, np.int64), 1
        for level in range(n_levels):
            strides[level] = n_states
            n_states *= starts[level + 1] - starts[level] + 1
        forward, backward = np.full(n_states, -np.inf), np.full(n_states, -np.inf)
        forward[0], backward[n_states - 1] = 0.0, 0.0
        counts, steps = np.zeros(n_levels, np.int64), np.zeros(n_levels)
        parts = scores, starts, gains, strides, profile, discounts
        for state in range(n_states - 1):
            _steps(state, counts, parts, temperature, steps)
            for level in range(n_levels):
                if steps[level] > -np.inf:
                    to = state + strides[level]
                    forward[to] = _log_add(forward[to], forward[state] + steps[level])
        total_log = forward[n_states - 1]
        for state in range(n_states - 2, -1, -1):
            rank = _steps(state, counts, parts, temperature, steps)
            for level in range(n_levels):
                if steps[level] > -np.inf:
                    to = state + strides[level]
                    backward[state] = _log_add(backward[state], backward[to] + steps[level])
                    share = np.exp(forward[state] + steps[level] + backward[to] - total_log)
                    gradient[documents[starts[level] + counts[level]]] += profile[rank] * share
        slack = temperature * total_log
        for level in range(n_levels):
            for place in range(starts[level], starts[level + 1]):
                rank = fixed[documents[place]] if len(fixed) > 0 else place - begin
                gradient[documents[place]] -= profile[rank]
                slack += discounts[place - begin] * gains[level] - profile[rank] * scores[place]
        slacks.xi[query] = slack
