"""A bound for the largest hinge and for a soft maximum, which Riezler and De Bona (2009) §5 leave open."""

from __future__ import annotations

from functools import singledispatch
from math import log, sqrt

import numpy as np

from marginrank.bounds.dominating_loss import check_queries, losses_of
from marginrank.bounds.population import BoundTerms, by_grade, check_delta, check_norm, pair_distances
from marginrank.bounds.stability import largest_loss_at_zero
from marginrank.data.queries import Queries
from marginrank.losses.base import Loss
from marginrank.losses.feature_maps import PartialOrder, parse_map
from marginrank.losses.oracles.grade_levels import by_level
from marginrank.losses.pairwise import PairwiseHinge, PositionHinge
from marginrank.losses.smoothed_hinge import SmoothedHinge
from marginrank.losses.structured import StructuredLoss
from marginrank.measures import parse_measure
from marginrank.typing import FloatArray


def argmax_bound(
    queries: Queries,
    loss: Loss,
    w: FloatArray,
    *,
    B: float | None = None,
    delta: float = 0.05,
    reach: float | None = None,
    at_zero: float | None = None,
) -> BoundTerms:
    """Bound the risk of a loss over pairs of documents, for all weights of norm at most B at once.

    With probability 1 − δ over n queries drawn alike and independently,

        risk ≤ empirical risk + 2√2·B·K/√n + (at_zero + B·K)·√(ln(1/δ)/(2n)),

    with K of `pair_reach`. It needs no sum over rankings: ξ is a function of the differences of score of the pairs of a
    query, and changes by at most c times their Euclidean change, c = 2/√#pairs for a structured hinge under φpo,
    smoothed or not, and 1/√#pairs for a mean of pairwise hinges. The contraction inequality for vectors of Maurer
    (2016) then gives a Rademacher average of at most √2·B·K/√n. Neither term grows with the length of the lists, but
    for at_zero of a smoothed hinge, by `softmax_gap`. It is larger than `stability_bound` for small C and smaller for
    large C, as B grows no faster than √C, and it holds for any w.

    Args:
        queries: The queries that w was learned from.
        loss: A `StructuredLoss` or `SmoothedHinge` under φpo, or a `PairwiseHinge` or `PositionHinge` with
            ``normalize="pairs"``.
        w: Weights.
        B: A norm fixed beforehand, such as `norm_bound` gives; ‖w‖ by default.
        delta: Probability that the bound may fail.
        reach: K of all queries that can be drawn; by default the largest of ``queries``.
        at_zero: The largest ξ at w = 0; by default that of ``queries``.

    >>> import numpy as np
    >>> queries = Queries.from_arrays([[0.5], [0.0]] * 2, [1, 0] * 2, group=[2, 2])
    >>> bound = argmax_bound(queries, StructuredLoss("auc"), np.array([0.25]), delta=np.exp(-4))
    >>> bound.empirical, round(bound.complexity, 9), bound.confidence      # 2√2·¼·1/√2; (1 + ¼·1)·√1
    (0.75, 0.5, 1.25)
    """
    xi, active = losses_of(check_queries(queries), loss, w)
    n, radius = int(active.sum()), check_norm(w, B)
    K = float(pair_reach(loss, queries).max()) if reach is None else reach
    zero = largest_loss_at_zero(queries, loss) if at_zero is None else at_zero
    return BoundTerms(
        empirical=float(xi[active].mean()),
        complexity=2.0 * sqrt(2.0) * radius * K / sqrt(n),
        confidence=(zero + radius * K) * sqrt(log(1.0 / check_delta(delta)) / (2.0 * n)),
    )


@singledispatch
def pair_reach(loss: Loss, queries: Queries) -> FloatArray:
    """Return K of each query: c·√Σ‖x_i − x_j‖² over the pairs that the loss is a function of."""
    raise TypeError(
        f"{type(loss).__name__} of {len(queries)} queries is not a function of pairs; use a StructuredLoss or "
        "SmoothedHinge under φpo, PairwiseHinge() or PositionHinge(normalize='pairs')"
    )


@pair_reach.register(StructuredLoss)
@pair_reach.register(SmoothedHinge)
def _structured(loss: StructuredLoss | SmoothedHinge, queries: Queries) -> FloatArray:
    if not isinstance(parse_map(loss.feature_map), PartialOrder) or not loss.convex:
        raise ValueError(f"{loss} is not a convex function of pairs; use the feature map po and bound='hinge'")
    levels = by_level(parse_measure(loss.measure), queries.grades, queries.offsets)
    return 2.0 * pair_distances(queries, levels).root_mean_square


def softmax_gap(loss: SmoothedHinge, queries: Queries) -> FloatArray:
    """Return how much a smoothed hinge can exceed the hinge: μ·log(n! / Π n_l!) for n_l documents of level l.

    The hinge is a maximum of so many numbers, C(n, P) for two levels, and the smoothed one their soft maximum, which is
    at least the maximum and at most this much more. So the smoothed hinge also bounds the loss of the measure; and if
    the loss of the measure is at most 1, ξ(0) of the smoothed one is at most 1 plus this, for any query of these sizes.

    >>> queries = Queries.from_arrays([[0.0]] * 5, [1, 1, 0, 0, 0], group=[5])
    >>> (np.exp(softmax_gap(SmoothedHinge("ap", temperature=0.1), queries) / 0.1)).round(6).tolist()    # 5·4/2 rankings
    [10.0]
    >>> queries = Queries.from_arrays([[0.0]] * 5, [2, 1, 1, 0, 0], group=[5])
    >>> (np.exp(softmax_gap(SmoothedHinge("ndcg", temperature=0.1), queries) / 0.1)).round(6).tolist()  # 5!/(1!·2!·2!)
    [30.0]
    """
    from scipy.special import gammaln  # noqa: PLC0415

    levels = by_level(parse_measure(loss.measure), queries.grades, queries.offsets)
    query = np.repeat(np.arange(len(levels.counts)), levels.counts)
    logs = gammaln(queries.lengths + 1) - np.bincount(
        query, gammaln(np.diff(levels.offsets) + 1), minlength=len(levels.counts)
    )
    return np.asarray(loss.temperature * np.where(levels.ordered, logs, 0.0))


@pair_reach.register(PairwiseHinge)
@pair_reach.register(PositionHinge)
def _mean_of_hinges(loss: PairwiseHinge | PositionHinge, queries: Queries) -> FloatArray:
    plain = not isinstance(loss, PairwiseHinge) or (loss.power == 1 and loss.rank_weights is None)
    if loss.normalize != "pairs" or not plain:
        raise ValueError(f"{loss} is not a plain mean of hinges; use power=1, normalize='pairs' and no rank_weights")
    return pair_distances(queries, by_grade(queries)).root_mean_square
