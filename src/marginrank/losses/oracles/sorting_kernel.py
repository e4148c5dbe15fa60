"""Sorting inside levels, merging levels, and turning rankings into losses and gradients."""

from __future__ import annotations

from marginrank.losses.oracles.base import Coefficients, ScoreOrder, SlackTable, SortedDocuments, Violations
from marginrank.losses.oracles.grade_levels import Layout
from marginrank.runtime.kernels import njit

#: Insertion sort gives up, for a merge sort, after this many moves per document.
MOVES_PER_DOCUMENT = 3
#: Length of the blocks that are merged then.
BLOCK = 16


@njit()
def _comes_first(document, other, levels):  # type: ignore[no-untyped-def]
    """Order documents of the same score: the worse level comes first, then the document with the lower number."""
    if levels[document] != levels[other]:
        return levels[document] > levels[other]
    return document < other


@njit()
def _is_far_from_sorted(keys):  # type: ignore[no-untyped-def]
    """Return whether more than one in eight neighbors are in the wrong order."""
    wrong = 0
    for place in range(len(keys) - 1):
        wrong += keys[place] < keys[place + 1]
    return 8 * wrong > len(keys)


@njit()
def _sort_blocks(keys, documents, levels):  # type: ignore[no-untyped-def]
    """Sort the whole list by insertion or, if that takes too many moves, blocks of it; return their length."""
    n, moves, first = len(keys), 0, 0
    width = BLOCK if _is_far_from_sorted(keys) else n
    for place in range(1, n):
        if place - first == width:
            first = place
        key, document = keys[place], documents[place]
        to = place
        while to > first and key >= keys[to - 1]:
            if key == keys[to - 1] and not _comes_first(document, documents[to - 1], levels):
                break
            keys[to], documents[to] = keys[to - 1], documents[to - 1]
            to -= 1
        keys[to], documents[to] = key, document
        moves += place - to
        if width > BLOCK and moves > MOVES_PER_DOCUMENT * n:
            # What is sorted so far consists of sorted blocks.
            width, first = BLOCK, place // BLOCK * BLOCK
    return min(width, n)


@njit()
def _merge_runs(keys, documents, levels, width, to_keys, to_documents):  # type: ignore[no-untyped-def]
    """Merge neighboring sorted blocks of a width, from one pair of arrays into another.

    The inner loop chooses without branching: which of two random numbers is larger cannot be predicted.
    """
    n = len(keys)
    for left in range(0, n, 2 * width):
        middle, right = min(left + width, n), min(left + 2 * width, n)
        a, b, to = left, middle, left
        while a < middle and b < right:
            second = keys[b] > keys[a]
            if keys[b] == keys[a]:
                second = _comes_first(documents[b], documents[a], levels)
            to_keys[to] = keys[b] if second else keys[a]
            to_documents[to] = documents[b] if second else documents[a]
            b += second
            a += not second
            to += 1
        for rest in range(a, middle):
            to_keys[to], to_documents[to] = keys[rest], documents[rest]
            to += 1
        for rest in range(b, right):
            to_keys[to], to_documents[to] = keys[rest], documents[rest]
            to += 1


@njit()
def _sort(keys, documents, levels, buffers):  # type: ignore[no-untyped-def]
    """Sort in place, from an order that is often nearly right; blocks are merged between two pairs of arrays."""
    n = len(keys)
    width, away = _sort_blocks(keys, documents, levels), False
    other_keys, other_documents = buffers[1][:n], buffers[2][:n]
    while width < n:
        _merge_runs(keys, documents, levels, width, other_keys, other_documents)
        keys, other_keys = other_keys, keys
        documents, other_documents = other_documents, documents
        width, away = 2 * width, not away
    if away:
        for place in range(n):
            other_keys[place], other_documents[place] = keys[place], documents[place]


@njit()
def _sort_level(scores, start, stop, levels, buffers, out):  # type: ignore[no-untyped-def]
    """Sort the documents at the places of one level by score."""
    keys, documents = out.scores[start:stop], out.documents[start:stop]
    for place in range(stop - start):
        keys[place] = scores[documents[place]]
    _sort(keys, documents, levels, buffers)


@njit()
def sort_levels(scores, layout, order, buffers, out, first, end):  # type: ignore[no-untyped-def]
    """Sort the documents of queries ``first`` to ``end`` by score inside their levels.

    The arguments are those of `sort_queries`, but for the documents by score.
    """
    layout, order, out = Layout(*layout), ScoreOrder(*order), SortedDocuments(*out)
    offsets, levels = layout.offsets, order.levels
    for level in range(layout.of_query[first], layout.of_query[end]):
        _sort_level(scores, offsets[level], offsets[level + 1], levels, buffers, out)


@njit()
def sort_queries(scores, layout, order, buffers, out, first, end):  # type: ignore[no-untyped-def]
    """Sort the documents of queries ``first`` to ``end`` by score, all together and inside their levels.

    Args:
        scores: By document.
        layout: Offsets of queries and levels.
        order: Level of each document, and documents by score, in and out: the last order is often nearly right.
        buffers: Work arrays for the longest query: two of scores, two of documents.
        out: The sorted documents.
        first: First query.
        end: The query after the last.
    """
    layout, order, out = Layout(*layout), ScoreOrder(*order), SortedDocuments(*out)
    queries, of_query, offsets, levels = layout.queries, layout.of_query, layout.offsets, order.levels
    sorted_scores, sorted_documents, predicted, places = out.scores, out.documents, out.predicted, out.places
    buffer, heads = buffers[0], buffers[3]
    for query in range(first, end):
        start, n = queries[query], queries[query + 1] - queries[query]
        keys, documents = buffer[:n], order.documents[start : start + n]
        for rank in range(n):
            keys[rank] = scores[documents[rank]]
        _sort(keys, documents, levels, buffers)
        low = of_query[query]
        for level in range(of_query[query + 1] - low):
            heads[level] = offsets[low + level]
        for rank in range(n):
            document = documents[rank]
            place = heads[levels[document]]
            heads[levels[document]] += 1
            sorted_documents[place] = document
            sorted_scores[place] = keys[rank]
            predicted[place] = rank
            places[start + rank] = place


@njit()
def losses_and_gradients(ordered, layout, coefficients, violations, tight, slacks, first, end):  # type: ignore[no-untyped-def]
    """Turn rankings into slacks and gradients: ∂ξ/∂s_i = scale·(A(rank) − A(reference rank)), ξ = Δ + ∂ξ/∂s·s.

    The reference ranking is the sort by score if ``tight``, else y*.
    """
    ordered, layout, coefficients = SortedDocuments(*ordered), Layout(*layout), Coefficients(*coefficients)
    violations, slacks = Violations(*violations), SlackTable(*slacks)
    profile, ideal = coefficients.profile, coefficients.ideal
    for query in range(first, end):
        start, stop = layout.queries[query], layout.queries[query + 1]
        if not layout.active[query]:
            for document in range(start, stop):
                slacks.gradient[document] = 0.0
            slacks.xi[query] = 0.0
            continue
        total, scale = violations.deltas[query], coefficients.scales[query]
        for place in range(start, stop):
            document = ordered.documents[place]
            reference = place - start
            if tight:
                reference = ordered.predicted[place]
            elif len(ideal) > 0:
                reference = ideal[document]
            coefficient = scale * (profile[violations.ranks[place]] - profile[reference])
            slacks.gradient[document] = coefficient
            total += coefficient * ordered.scores[place]
        slacks.xi[query] = max(total, 0.0)
