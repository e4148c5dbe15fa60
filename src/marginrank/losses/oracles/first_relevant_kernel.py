"""Reciprocal rank under φmrr, and rankings sorted by what a loss with few values can be."""

from __future__ import annotations

from numba import njit


@njit(nogil=True, cache=True)
def _best_count(bads, worst_good, weight, k):  # type: ignore[no-untyped-def]
    """How many bads to put before the first good: most of weight·Δ(r) + Σ_{b<r} s_b − r·s_good.

    Only the good with the lowest score is worth putting first. From k bads on Δ is 1, and as many bads go before as
    score higher.
    """
    best, best_value, value = 0, 0.0, 0.0
    for r in range(1, len(bads) + 1):
        value += bads[r - 1] - worst_good
        delta = weight * (1.0 - 1.0 / (1.0 + r)) if r < k else weight
        if delta + value > best_value:
            best, best_value = r, delta + value
    return best, best_value


@njit(nogil=True, cache=True)
def first_relevant_loss(  # type: ignore[no-untyped-def]
    scores, documents, queries, level_offsets, of_query, active, k, tight, xi, gradient, first, end
):
    """Slack and gradient of reciprocal rank under φmrr: +1 for each bad before the first good, −1 for the good itself.

    With y* the map is 0, so the hinge takes off nothing; the tight bound takes off the best without the loss.
    """
    for query in range(first, end):
        start, stop = queries[query], queries[query + 1]
        for place in range(start, stop):
            gradient[documents[place]] = 0.0
        xi[query] = 0.0
        if not active[query]:
            continue
        end_rel = level_offsets[of_query[query] + 1]
        worst = documents[end_rel - 1]
        count, xi[query] = _best_count(scores[end_rel:stop], scores[end_rel - 1], 1.0, k)
        for bad in range(count):
            gradient[documents[end_rel + bad]] += 1.0
        gradient[worst] -= count
        if tight:
            count, value = _best_count(scores[end_rel:stop], scores[end_rel - 1], 0.0, k)
            xi[query] -= value
            for bad in range(count):
                gradient[documents[end_rel + bad]] -= 1.0
            gradient[worst] += count


@njit(nogil=True, cache=True)
def _rank_cluster(by_score, end_rel, begin, chosen_goods, chosen_bads, by_bads_first, ranks):  # type: ignore[no-untyped-def]
    """Put the chosen documents first, in score order or the bads before the goods, and the others behind by score."""
    rank = 0
    if by_bads_first:
        for bad in range(chosen_bads):
            ranks[end_rel + bad] = rank
            rank += 1
        for good in range(chosen_goods):
            ranks[begin + good] = rank
            rank += 1
    for behind in range(by_bads_first, 2):
        for place in by_score:
            chosen = place < begin + chosen_goods if place < end_rel else place < end_rel + chosen_bads
            if chosen != (behind == 1):
                ranks[place] = rank
                rank += 1


@njit(nogil=True, cache=True)
def _advantage(scores, begin, stop, profile, scale, ranks, fixed, documents):  # type: ignore[no-untyped-def]
    """(a(y) − a(y*))·s of a ranking."""
    total = 0.0
    for place in range(begin, stop):
        ideal = fixed[documents[place]] if len(fixed) > 0 else place - begin
        total += (profile[ranks[place]] - profile[ideal]) * scores[place]
    return scale * total


@njit(nogil=True, cache=True)
def rescaled_clusters(  # type: ignore[no-untyped-def]
    scores, by_score, documents, queries, level_offsets, of_query, active, profile, scales, fixed, worth, k, reciprocal,
    ranks, xi, gradient, first, end,
):  # fmt: skip
    """Slack rescaling for a loss with few values: the best ranking for each of them, and the best of these.

    For reciprocal rank the loss says how many bads come before the first good; otherwise it says how many goods are
    among the first k, each of them worth ``worth``.
    """
    for query in range(first, end):
        begin, stop = queries[query], queries[query + 1]
        for place in range(begin, stop):
            gradient[documents[place]] = 0.0
        xi[query] = 0.0
        if not active[query]:
            continue
        end_rel = level_offsets[of_query[query] + 1]
        n_rel, n_irr = end_rel - begin, stop - end_rel
        places = by_score[begin:stop]
        for count in range(1, min(k, n_irr) + 1):
            if reciprocal:
                delta = 1.0 if count >= k else 1.0 - 1.0 / (1.0 + count)
                bads = count
                while count == k and bads < n_irr and scores[end_rel + bads] > scores[begin]:
                    bads += 1
                _rank_cluster(places, end_rel, begin, 1, bads, 1, ranks)
            else:
                goods = max(min(k, n_rel + n_irr) - count, 0)
                if goods > n_rel:
                    continue
                delta = worth[query] * (min(k, n_rel) - goods)
                _rank_cluster(places, end_rel, begin, goods, count, 0, ranks)
            advantage = _advantage(scores, begin, stop, profile, scales[query], ranks, fixed, documents)
            if delta * (1.0 + advantage) > xi[query]:
                xi[query] = delta * (1.0 + advantage)
                for place in range(begin, stop):
                    ideal = fixed[documents[place]] if len(fixed) > 0 else place - begin
                    gradient[documents[place]] = delta * scales[query] * (profile[ranks[place]] - profile[ideal])
