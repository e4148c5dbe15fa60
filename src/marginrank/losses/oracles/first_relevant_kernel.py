"""Measures of the first relevant document under φmrr, and slack rescaling for losses with few values."""

from __future__ import annotations

from marginrank.losses.oracles.base import Coefficients, FirstRelevantTable, SlackTable, SortedDocuments
from marginrank.losses.oracles.grade_levels import Layout
from marginrank.runtime.kernels import njit


@njit()
def _best_count(irrelevant, lowest_relevant, weight, discounts):  # type: ignore[no-untyped-def]
    """Find how many irrelevant documents to put before the first relevant one.

    That is the r for which weight·(D(0) − D(r)) + Σ_{j<r} s_j − r·s_relevant is largest. Only the relevant document
    with the lowest score is worth putting first.
    """
    best, best_value, value = 0, 0.0, 0.0
    for r in range(1, len(irrelevant) + 1):
        value += irrelevant[r - 1] - lowest_relevant
        delta = weight * (discounts[0] - discounts[r])
        if delta + value > best_value:
            best, best_value = r, delta + value
    return best, best_value


@njit()
def first_relevant_loss(ordered, layout, discounts, tight, slacks, first, end):  # type: ignore[no-untyped-def]
    """Compute the slack under φmrr, and its gradient: +1 for each irrelevant document before the first relevant one.

    The relevant document gets −1 for each of them. With y* the map is 0, so the hinge subtracts nothing; the tight
    bound subtracts the largest value without the loss.
    """
    ordered, layout, slacks = SortedDocuments(*ordered), Layout(*layout), SlackTable(*slacks)
    documents, scores, gradient = ordered.documents, ordered.scores, slacks.gradient
    for query in range(first, end):
        start, stop = layout.queries[query], layout.queries[query + 1]
        gradient[start:stop] = 0.0
        slacks.xi[query] = 0.0
        if not layout.active[query]:
            continue
        end_rel = layout.offsets[layout.of_query[query] + 1]
        lowest = documents[end_rel - 1]
        count, slack = _best_count(scores[end_rel:stop], scores[end_rel - 1], 1.0, discounts)
        for j in range(count):
            gradient[documents[end_rel + j]] += 1.0
        gradient[lowest] -= count
        if tight:
            count, value = _best_count(scores[end_rel:stop], scores[end_rel - 1], 0.0, discounts)
            slack -= value
            for j in range(count):
                gradient[documents[end_rel + j]] -= 1.0
            gradient[lowest] += count
        slacks.xi[query] = slack


@njit()
def _rank_cluster(by_score, begin, end_rel, n_relevant, n_irrelevant, irrelevant_first, ranks):  # type: ignore[no-untyped-def]
    """Put some documents first, in score order or the irrelevant ones before the relevant, and the rest by score."""
    rank = 0
    if irrelevant_first:
        for j in range(n_irrelevant):
            ranks[end_rel + j] = rank
            rank += 1
        for i in range(n_relevant):
            ranks[begin + i] = rank
            rank += 1
    for behind in range(irrelevant_first, 2):
        for place in by_score:
            chosen = place < begin + n_relevant if place < end_rel else place < end_rel + n_irrelevant
            if chosen != (behind == 1):
                ranks[place] = rank
                rank += 1


@njit()
def _ideal_rank(place, begin, documents, ideal):  # type: ignore[no-untyped-def]
    return ideal[documents[place]] if len(ideal) > 0 else place - begin


@njit()
def _advantage(query, ordered, layout, coefficients, ranks):  # type: ignore[no-untyped-def]
    """Compute (a(y) − a(y*))·s of a ranking."""
    total, begin, profile = 0.0, layout.queries[query], coefficients.profile
    for place in range(begin, layout.queries[query + 1]):
        reference = _ideal_rank(place, begin, ordered.documents, coefficients.ideal)
        total += (profile[ranks[place]] - profile[reference]) * ordered.scores[place]
    return coefficients.scales[query] * total


@njit()
def rescaled_clusters(ordered, layout, coefficients, clusters, ranks, slacks, first, end):  # type: ignore[no-untyped-def]
    """Rescale the slack of a loss with few values: take the best ranking for each of them, and the best of these.

    If only the first relevant document counts, the loss says how many irrelevant ones come before it; otherwise it
    says how many relevant documents are among the first k, each of them worth ``clusters.worth``.
    """
    ordered, layout, slacks = SortedDocuments(*ordered), Layout(*layout), SlackTable(*slacks)
    coefficients, clusters = Coefficients(*coefficients), FirstRelevantTable(*clusters)
    scores, profile, k, discounts = ordered.scores, coefficients.profile, clusters.k, clusters.discounts
    for query in range(first, end):
        begin, stop = layout.queries[query], layout.queries[query + 1]
        slacks.gradient[begin:stop] = 0.0
        slacks.xi[query] = 0.0
        if not layout.active[query]:
            continue
        end_rel = layout.offsets[layout.of_query[query] + 1]
        n_rel, n_irr = end_rel - begin, stop - end_rel
        by_score = ordered.places[begin:stop]
        for count in range(1, min(k, n_irr) + 1):
            if clusters.first_only:
                delta = discounts[0] - discounts[count]
                n_irrelevant = count
                while count == k and n_irrelevant < n_irr and scores[end_rel + n_irrelevant] > scores[begin]:
                    n_irrelevant += 1
                _rank_cluster(by_score, begin, end_rel, 1, n_irrelevant, 1, ranks)
            else:
                n_relevant = max(min(k, n_rel + n_irr) - count, 0)
                if n_relevant > n_rel:
                    continue
                delta = clusters.worth[query] * (min(k, n_rel) - n_relevant)
                _rank_cluster(by_score, begin, end_rel, n_relevant, count, 0, ranks)
            slack = delta * (1.0 + _advantage(query, ordered, layout, coefficients, ranks))
            if slack > slacks.xi[query]:
                slacks.xi[query] = slack
                for place in range(begin, stop):
                    reference = _ideal_rank(place, begin, ordered.documents, coefficients.ideal)
                    coefficient = coefficients.scales[query] * (profile[ranks[place]] - profile[reference])
                    slacks.gradient[ordered.documents[place]] = delta * coefficient


@njit()
def rescaled_first_relevant(ordered, layout, discounts, form, slacks, first, end):  # type: ignore[no-untyped-def]
    """Rescale the slack under φmrr, where a(y*) = 0; see `marginrank.losses.slack_rescaling.SlackLoss`.

    With r irrelevant documents before the first relevant one, the best ranking has those of the highest score and the
    relevant one of the lowest, and m(r) = a(y)·s; P = max_r m(r). ``form`` is 0 for the hinge max_r Δ(r)·(1 + m(r)), 1
    for the tight bound max_r Δ(r)·(1 + m(r) − P), and 2 for its majorant max_r Δ(r)·(1 + m(r)) + (Δ_max − Δ(r))·P.
    """
    ordered, layout, slacks = SortedDocuments(*ordered), Layout(*layout), SlackTable(*slacks)
    documents, scores, gradient = ordered.documents, ordered.scores, slacks.gradient
    for query in range(first, end):
        start, stop = layout.queries[query], layout.queries[query + 1]
        gradient[start:stop] = 0.0
        slacks.xi[query] = 0.0
        if not layout.active[query]:
            continue
        end_rel = layout.offsets[layout.of_query[query] + 1]
        relevant, lowest, n_irr = documents[end_rel - 1], scores[end_rel - 1], stop - end_rel
        predicted, largest = 0, 0.0
        if form > 0:
            predicted, largest = _best_count(scores[end_rel:stop], lowest, 0.0, discounts)
        most = discounts[0] - discounts[n_irr] if form == 2 else 0.0
        best, slack, margin = 0, most * largest, 0.0
        for r in range(1, n_irr + 1):
            margin += scores[end_rel + r - 1] - lowest
            delta = discounts[0] - discounts[r]
            value = delta * (1.0 + margin) + (most - delta if form > 0 else 0.0) * largest
            if value > slack:
                best, slack = r, value
        delta = discounts[0] - discounts[best]
        for count, weight in ((best, delta), (predicted, most - delta if form > 0 else 0.0)):
            for j in range(count):
                gradient[documents[end_rel + j]] += weight
            gradient[relevant] -= weight * count
        slacks.xi[query] = slack
