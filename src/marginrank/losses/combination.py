"""Sums and maxima of losses."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np

from marginrank.losses.base import Bound, Judgements, Loss, PreparedLoss
from marginrank.measures.base import spell_mix
from marginrank.typing import FloatArray


@dataclass(frozen=True, repr=False)
class _Combination(Loss):
    """Losses of the same queries, combined into one."""

    losses: Sequence[Loss]

    def __post_init__(self) -> None:
        name = type(self).__name__
        if isinstance(self.losses, Loss) or not all(isinstance(loss, Loss) for loss in self.losses):
            raise TypeError(f"give the losses as a list: {name}([StructuredLoss('ap'), StructuredLoss('ndcg@10')])")
        if not self.losses:
            raise ValueError(f"{name} needs at least one loss")
        super().__post_init__()

    @property
    def convex(self) -> bool:
        """Whether every part is."""
        return all(loss.convex for loss in self.losses)

    @property
    def exact(self) -> bool:
        """Whether every part is."""
        return all(loss.exact for loss in self.losses)

    @property
    def depends_on_rows(self) -> bool:
        """Whether some part does."""
        return any(loss.depends_on_rows for loss in self.losses)

    @property
    def criterion(self) -> str:
        """The measures of the parts, those of a sum with its weights and those of a maximum once."""
        return _criterion(_terms(self))

    @property
    def bounds(self) -> tuple[Bound, ...]:
        """The bounds that every part has."""
        return ("hinge", "tight") if all("tight" in loss.bounds for loss in self.losses) else ("hinge",)

    def bounded(self, bound: Bound) -> Loss:
        """Return the same combination with another bound of every part."""
        return replace(self, losses=tuple(loss.bounded(bound) for loss in self.losses))


@dataclass(frozen=True, repr=False)
class SumLoss(_Combination):
    """Weighted sum of losses, each with its own slack: ξ = Σ_l c_l ξ_l.

    SVMcombo with separate slacks, Chakrabarti et al. (KDD 2008) §3.7; each part has its own feature map.

    >>> from marginrank.losses.structured import StructuredLoss
    >>> parts = (StructuredLoss("auc"), StructuredLoss("ap"))
    >>> SumLoss(parts, (1.0, 2.0))([1, 0], [0.0, 0.0])[0].tolist()            # 1·1 + 2·½
    [2.0]
    """

    weights: Sequence[float] | None = None

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.weights is not None and (len(self.weights) != len(self.losses) or min(self.weights) < 0):
            raise ValueError(
                f"{self.weights} are not weights for {len(self.losses)} losses; give one per loss, not negative"
            )

    @property
    def smooth(self) -> bool:
        """Whether every part is."""
        return all(loss.smooth for loss in self.losses)

    @property
    def majorant(self) -> Loss | None:
        """The sum of the majorants of the parts; a convex part is its own."""
        return None if self.convex else replace(self, losses=tuple(loss.majorant or loss for loss in self.losses))

    @property
    def sums_relevant(self) -> bool:
        """Whether every part is."""
        return all(loss.sums_relevant for loss in self.losses)

    def _prepare(self, judged: Judgements) -> PreparedLoss:
        """Prepare every part."""
        weights = np.ones(len(self.losses)) if self.weights is None else np.asarray(self.weights, dtype=np.float64)
        return _PreparedSum([loss._of(judged) for loss in self.losses], weights)


@dataclass(frozen=True, repr=False)
class MaxLoss(_Combination):
    """Largest of several losses, query by query, with one slack: ξ = max_l ξ_l.

    SVMcombo with shared slacks, Chakrabarti et al. (KDD 2008) §3.7: the constraints of all parts bound one ξ.

    The maximum of tight bounds t_l = h_l − e_l, with h_l the hinge and e_l = max_y a(y)·s − a(y*)·s convex, is a
    difference of convex functions too: max_l t_l = max_l (h_l + Σ_{m≠l} e_m) − Σ_m e_m.

    >>> from marginrank.losses.structured import StructuredLoss
    >>> MaxLoss((StructuredLoss("auc"), StructuredLoss("ap")))([1, 0], [0.0, 0.0])[0].tolist()        # max(1, ½)
    [1.0]
    """

    @property
    def majorant(self) -> Loss | None:
        """The maximum plus by how much the majorants of all parts exceed them: max_l (h_l + Σ_{m≠l} e_m)."""
        return None if self.convex else _MaxMajorant(self.losses)

    def _prepare(self, judged: Judgements) -> PreparedLoss:
        """Prepare every part."""
        return _PreparedMax([loss._of(judged) for loss in self.losses])


@dataclass(frozen=True, repr=False)
class _MaxMajorant(MaxLoss):
    """The convex majorant of a maximum of losses that are not convex: max_l t_l + Σ_m (h_m − t_m)."""

    @property
    def convex(self) -> bool:
        """True: it is max_l (h_l + Σ_{m≠l} (h_m − t_m)), a maximum of sums of convex functions."""
        return True

    def _prepare(self, judged: Judgements) -> PreparedLoss:
        """Prepare every part and its majorant."""
        above = [None if loss.majorant is None else loss.majorant._of(judged) for loss in self.losses]
        return _PreparedMaxMajorant([loss._of(judged) for loss in self.losses], above)


def _terms(loss: Loss) -> list[tuple[float, str]]:
    """Weights and measures of a loss, those of a sum or maximum multiplied out."""
    if isinstance(loss, SumLoss):
        weights = [1.0] * len(loss.losses) if loss.weights is None else [float(weight) for weight in loss.weights]
        parts = zip(weights, loss.losses, strict=True)
        return [(weight * inside, measure) for weight, part in parts for inside, measure in _terms(part)]
    if isinstance(loss, MaxLoss):
        return list(dict.fromkeys(term for part in loss.losses for term in _terms(part)))
    return [(1.0, loss.criterion)]


def _criterion(terms: Sequence[tuple[float, str]]) -> str:
    """Spell a mix of measures, each once; one measure alone needs no weight.

    >>> _criterion([(1.0, "ndcg@10"), (0.25, "ap"), (0.25, "ap")])
    'ndcg@10 + 0.5*ap'
    """
    weights: dict[str, float] = {}
    for weight, measure in terms:
        weights[measure] = weights.get(measure, 0.0) + weight
    counted = {measure: weight for measure, weight in weights.items() if weight > 0} or weights
    if len(counted) == 1:
        return next(iter(counted))
    return spell_mix([(weight, measure) for measure, weight in counted.items()])


class _PreparedParts(PreparedLoss):
    def __init__(self, parts: list[PreparedLoss]) -> None:
        self.parts = parts
        self.offsets = parts[0].offsets
        self.active = np.logical_or.reduce([part.active for part in parts])
        self._xi = np.zeros(len(self.active))
        self._gradient = np.zeros(self.offsets[-1])

    @property
    def exact(self) -> bool:
        """Whether every part is."""
        return all(part.exact for part in self.parts)


class _PreparedSum(_PreparedParts):
    def __init__(self, parts: list[PreparedLoss], weights: FloatArray) -> None:
        super().__init__(parts)
        self.weights = weights

    @property
    def constant_terms(self) -> tuple[FloatArray, FloatArray] | None:
        """The weighted sum of those of the parts."""
        weighted = zip(self.weights.tolist(), (part.constant_terms for part in self.parts), strict=True)
        terms = [(weight * pair[0], weight * pair[1]) for weight, pair in weighted if pair is not None]
        return (sum(c for c, _ in terms), sum(t for _, t in terms)) if terms else None

    def evaluate(self, scores: FloatArray, xi: FloatArray, gradient: FloatArray, first: int, end: int) -> None:
        documents = slice(self.offsets[first], self.offsets[end])
        xi[first:end], gradient[documents] = 0.0, 0.0
        for part, weight in zip(self.parts, self.weights.tolist(), strict=True):
            part.evaluate(scores, self._xi, self._gradient, first, end)
            xi[first:end] += weight * self._xi[first:end]
            gradient[documents] += weight * self._gradient[documents]

    def curve(self, scores: FloatArray, direction: FloatArray, product: FloatArray, first: int, end: int) -> None:
        documents = slice(self.offsets[first], self.offsets[end])
        product[documents] = 0.0
        for part, weight in zip(self.parts, self.weights.tolist(), strict=True):
            part.curve(scores, direction, self._gradient, first, end)
            product[documents] += weight * self._gradient[documents]

    def diagonal(self, scores: FloatArray) -> FloatArray:
        parts = [weight * part.diagonal(scores) for part, weight in zip(self.parts, self.weights, strict=True)]
        return np.asarray(np.sum(parts, axis=0))


class _PreparedMax(_PreparedParts):
    def evaluate(self, scores: FloatArray, xi: FloatArray, gradient: FloatArray, first: int, end: int) -> None:
        documents = slice(self.offsets[first], self.offsets[end])
        sizes = np.diff(self.offsets[first : end + 1])
        self.parts[0].evaluate(scores, xi, gradient, first, end)
        for part in self.parts[1:]:
            part.evaluate(scores, self._xi, self._gradient, first, end)
            larger = self._xi[first:end] > xi[first:end]
            np.copyto(xi[first:end], self._xi[first:end], where=larger)
            np.copyto(gradient[documents], self._gradient[documents], where=np.repeat(larger, sizes))


class _PreparedMaxMajorant(_PreparedMax):
    def __init__(self, parts: list[PreparedLoss], above: list[PreparedLoss | None]) -> None:
        super().__init__(parts)
        self._above = above

    def evaluate(self, scores: FloatArray, xi: FloatArray, gradient: FloatArray, first: int, end: int) -> None:
        documents = slice(self.offsets[first], self.offsets[end])
        super().evaluate(scores, xi, gradient, first, end)
        for part, above in zip(self.parts, self._above, strict=True):
            for loss, sign in () if above is None else ((above, 1.0), (part, -1.0)):
                loss.evaluate(scores, self._xi, self._gradient, first, end)
                xi[first:end] += sign * self._xi[first:end]
                gradient[documents] += sign * self._gradient[documents]
