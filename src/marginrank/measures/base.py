"""The base classes of measures, the parser of their spellings, and mixes of measures."""

from __future__ import annotations

import re
import sys
from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import ClassVar, Final, Literal, NamedTuple, TypeAlias, cast

import numpy as np
import numpy.typing as npt

from marginrank.measures.ranked_grades import RankedGrades, discounted_sums
from marginrank.runtime.option_objects import OptionObject, literal, parse_spelling
from marginrank.typing import AnyArray, BoolArray, FloatArray, IntArray

#: What a sum over ranks is divided by: a number, its value for the best ranking, or the gains of all judged documents.
Normalizer: TypeAlias = float | Literal["ideal", "total"]

#: Names that other tools have for the same measures.
_ALIASES = {
    "map": "ap",
    "mrr": "rr",
    "recip_rank": "rr",
    "hit": "success",
    "hits": "success",
    "hit_rate": "success",
    "precision": "p",
    "infap": "infap",
    "bpref": "bpref",
    "rbp_resid": "rbp_residual",
}

#: trec_eval's names with a cutoff.
_TREC_NAME = re.compile(r"(?P<name>ndcg_cut|p|recall|success|recip_rank|judged)_(?P<k>[0-9]+)(?P<rest>\(.*)?\Z")


class TwoLevels(NamedTuple):
    """Queries whose documents have two levels: how many documents each level has, and what one of them is worth."""

    n_rel: IntArray
    n_irr: IntArray
    better: FloatArray
    worse: FloatArray

    def take(self, queries: IntArray) -> TwoLevels:
        """Return the levels of the given queries, which may be repeated and in any order."""
        return TwoLevels(self.n_rel[queries], self.n_irr[queries], self.better[queries], self.worse[queries])


@dataclass(frozen=True, repr=False)
class Measure(OptionObject, ABC):
    """The value of a ranking; larger is better.

    A subclass with a ``name`` is registered under it, and its fields are its parameters: ``k`` is spelled ``@k``,
    the others in parentheses. The repr of a measure is its spelling.

    ``values`` and ``defined`` are enough for evaluation. Training needs to know the structure of the measure: what
    documents are worth (``worth``, ``scales``), the discounts of ranks, the credits of relevant documents, and the
    three claims below. The defaults claim nothing; the more a measure declares, the faster the oracle it gets.
    """

    family = "measure"
    example = "ap, ndcg@10 or rbp(p=0.8)"
    cutoff = "k"
    mistaken_names: ClassVar[Mapping[str, str]] = {"prec": "p", "r": "recall", "roc": "auc", "mean": "ap"}

    #: Whether the value is Σ_r discount(r) · worth of the document at r / scale, for any number of levels.
    sums_over_ranks: ClassVar[bool] = False
    #: Whether, with two levels, every (relevant, irrelevant) pair in the wrong order costs the same.
    sums_over_pairs: ClassVar[bool] = False
    #: Whether, with two levels, only the first relevant document has a credit.
    first_only: ClassVar[bool] = False
    #: Whether the value is a sum over relevant documents of something that depends on their ranks alone, so that
    #: clicks weighted by 1/p estimate it without bias.
    sums_over_relevant: ClassVar[bool] = False
    #: Whether the value depends on the order of judged documents, so that it can be trained for.
    trainable: ClassVar[bool] = True
    #: Whether the measure has a rule of its own for unjudged documents; it then sees NaN for their grades.
    sees_unjudged: ClassVar[bool] = False

    @abstractmethod
    def values(self, rankings: RankedGrades) -> FloatArray:
        """Compute the value of each query's ranking."""

    @abstractmethod
    def defined(self, rankings: RankedGrades) -> BoolArray:
        """Tell which queries have a ranking with a value above 0."""

    @property
    def depth(self) -> int | None:
        """Number of ranks that count; None for all."""
        k: int | None = getattr(self, "k", None)
        return k

    @property
    def threshold(self) -> float | None:
        """The lowest grade that is relevant; None if the measure does not divide grades into two kinds."""
        rel: float | None = getattr(self, "rel", None)
        return rel

    def worth(self, rankings: RankedGrades) -> FloatArray:
        """Return what each ranked document is worth; documents of equal worth form a level."""
        return rankings.grades

    def scales(self, rankings: RankedGrades) -> FloatArray:
        """Return what the worth of each query's documents is divided by; 0 if no ranking has a value above 0."""
        return np.ones(len(rankings))

    def divisor(self, *, ideal: float, total: float) -> float:  # noqa: ARG002
        """Return the scale of one query, given the discounted worth of its best ranking and the sum of all worth."""
        return 1.0

    def discounts(self, n: int) -> FloatArray | None:  # noqa: ARG002
        """Return the discounts of the first n ranks, non-increasing; None if the measure has no discount."""
        return None

    def shares(self, i: AnyArray, levels: TwoLevels) -> FloatArray | None:  # noqa: ARG002
        """Return the credit of the i-th relevant document (from 1) over the discount of its rank; None if unknown."""
        return None

    def credits(self, i: AnyArray, j: AnyArray, levels: TwoLevels) -> FloatArray | None:
        """Return the credit of the i-th relevant document (from 1) with j irrelevant ones before it; None if unknown.

        The value of a ranking of two levels is the sum of the credits, up to a constant.
        """
        shares, discounts = self.shares(i, levels), self.discounts(int((i + j).max(initial=0)))
        return None if shares is None or discounts is None else shares * discounts[i + j - 1]

    def value(self, grades: npt.ArrayLike) -> float:
        """Compute the value of one ranking from the grades of its documents, first rank first."""
        return float(self.values(RankedGrades.of_list(grades))[0])

    def ideal(self, grades: npt.ArrayLike) -> float:
        """Compute the value of the best ranking of documents with these grades."""
        return self.value(np.sort(np.asarray(grades, dtype=np.float64))[::-1])

    def delta(self, grades: npt.ArrayLike) -> float:
        """Compute the loss Δ of one ranking: the value of the best ranking minus its own."""
        return self.ideal(grades) - self.value(grades)

    __repr__ = OptionObject.__str__

    def _check(self, ok: bool, rule: str) -> None:
        """Raise an error that states a rule, unless it holds."""
        if not ok:
            raise ValueError(f"{self!r}: {rule}")

    def __post_init__(self) -> None:
        super().__post_init__()
        k, rel = getattr(self, "k", None), getattr(self, "rel", 1)
        self._check(k is None or 1 <= k < 2**31, "the cutoff @k is a whole number of at least 1")
        self._check(rel > 0, "rel is above 0, or every document would be relevant")
        for name, value in self.get_params().items():
            self._check(not isinstance(value, float) or np.isfinite(value), f"{name} is a finite number")


def parse_measure(spec: str | Measure, defaults: Mapping[str, object] | None = None) -> Measure:
    """Read the spelling of a measure.

    Args:
        spec: For example ``ap``, ``ndcg@10``, ``rbp(p=0.8)``, ``ndcg@10(gain=linear,discount=letor)``, or a name that
            other tools use, such as ``map``, ``mrr@10``, ``hit@5`` and trec_eval's ``ndcg_cut_10``; a measure is
            returned as it is.
        defaults: Parameters to use if the measure has them and the spelling does not name them.

    >>> parse_measure("ndcg@10( gain = linear )")
    ndcg@10(gain=linear)
    >>> parse_measure("ndcg@10", {"discount": "letor", "rel": 2})
    ndcg@10(discount=letor)
    >>> [parse_measure(name) for name in ("map", "mrr@10", "P_10", "ndcg_cut_10", "hit@5")]
    [ap, rr@10, p@10, ndcg@10, success@5]
    """
    respelled = respell(spec) if isinstance(spec, str) else spec
    return cast("Measure", parse_spelling(Measure, respelled, defaults=defaults))


def parse_trainable(spec: str | Measure) -> Measure:
    """Read the spelling of a measure to train for or to select by; refuse one that cannot be trained for.

    >>> parse_trainable("judged@10")
    Traceback (most recent call last):
    ValueError: judged@10 does not depend on the order of judged documents; choose another measure, such as ndcg@10
    """
    measure = parse_measure(spec)
    if not measure.trainable:
        raise ValueError(
            f"{measure} does not depend on the order of judged documents; choose another measure, such as ndcg@10"
        )
    return measure


def respell(spec: str) -> str:
    """Replace a name that other tools use by ours; leave everything else as it is.

    >>> [respell(spec) for spec in ("ndcg_cut_10(gain=linear)", "MRR@5", "ndcg@10")]
    ['ndcg@10(gain=linear)', 'rr@5', 'ndcg@10']
    """
    text = spec.strip().lower()
    match = _TREC_NAME.match(text)
    if match is not None:
        text = f"{match['name'].removesuffix('_cut')}@{match['k']}{match['rest'] or ''}"
    name = re.split(r"[@(]", text, maxsplit=1)[0].strip()
    if name in _ALIASES:
        return _ALIASES[name] + text[len(name) :]
    return spec if match is None else text


@dataclass(frozen=True, repr=False)
class PositionMeasure(Measure):
    """A sum over ranks of discount times gain: Σ_r D(r)·G(grade at r), divided by a normalizer.

    A subclass defines ``gains`` and ``discounts``; evaluation and training need nothing else.
    """

    sums_over_ranks = True

    @abstractmethod
    def gains(self, grades: FloatArray, best: FloatArray) -> FloatArray:
        """Return the gain of each grade, non-decreasing in the grade; ``best`` is the highest grade of the query."""

    @abstractmethod
    def discounts(self, n: int) -> FloatArray:
        """Return the discounts of the first n ranks, non-increasing, 0 for ranks that do not count."""

    @property
    def normalizer(self) -> Normalizer:
        """The divisor of the sum."""
        return 1.0

    def values(self, rankings: RankedGrades) -> FloatArray:
        """Compute the discounted sum of each query; 0 if the normalizer is 0."""
        gains = rankings.mean_over_ties(self.worth(rankings))
        sums = discounted_sums(gains, rankings.offsets, cut(self.discounts(rankings.longest), rankings.depth))
        scale = self.scales(rankings)
        return np.divide(sums, scale, out=np.zeros_like(sums), where=scale > 0)

    def defined(self, rankings: RankedGrades) -> BoolArray:
        """Tell which queries have a document with a gain."""
        return self.gains(rankings.best, rankings.best) > 0

    def worth(self, rankings: RankedGrades) -> FloatArray:
        """Return the gains."""
        return self.gains(rankings.grades, rankings.best_per_document)

    def shares(self, i: AnyArray, levels: TwoLevels) -> FloatArray:
        """Return the difference of the two gains, the same for every i."""
        return np.asarray((levels.better - levels.worse) * np.ones_like(i, dtype=np.float64))

    def scales(self, rankings: RankedGrades) -> FloatArray:
        """Return the normalizer of each query."""
        if isinstance(self.normalizer, int | float):
            return np.full(len(rankings), float(self.normalizer))
        return self._total(rankings) if self.normalizer == "total" else self._ideal(rankings)

    def divisor(self, *, ideal: float, total: float) -> float:
        """Return the normalizer, given the sum of the best ranking and of all gains."""
        if isinstance(self.normalizer, int | float):
            return float(self.normalizer)
        return total if self.normalizer == "total" else ideal

    def _ideal(self, rankings: RankedGrades) -> FloatArray:
        grades, offsets = rankings.ideal(self.depth)
        gains = self.gains(grades, np.repeat(rankings.best, np.diff(offsets)))
        return discounted_sums(gains, offsets, self.discounts(int(np.diff(offsets).max(initial=0))))

    def _total(self, rankings: RankedGrades) -> FloatArray:
        best = np.repeat(rankings.best, np.diff(rankings.pool_offsets))
        ones = np.ones(int(np.diff(rankings.pool_offsets).max(initial=0)))
        return discounted_sums(self.gains(rankings.pool, best), rankings.pool_offsets, ones)


@dataclass(frozen=True, repr=False)
class BinaryMeasure(Measure):
    """A sum over relevant documents of a credit that depends on how many of each kind come before.

    A subclass defines ``credit``, and a ``normalizer`` if it has one; documents with grade ``rel`` or higher are
    relevant. Four optional claims save time: ``linear_at_rank`` and ``first_only`` if scores tie,
    ``sums_over_pairs``, or ``share`` with ``discounts``, in training.
    """

    #: Whether the credit at a given rank is linear in i.
    linear_at_rank: ClassVar[bool] = False

    @abstractmethod
    def credit(self, i: AnyArray, j: AnyArray, n_rel: IntArray, n_irr: IntArray) -> FloatArray:
        """Return the credit of the i-th relevant document (from 1) with j irrelevant ones before it."""

    def share(self, i: AnyArray, n_rel: IntArray) -> FloatArray | None:  # noqa: ARG002
        """Return s(i) if the credit is s(i) · discounts[rank]; None if it is not such a product."""
        return None

    def normalizer(self, n_rel: IntArray, n_irr: IntArray) -> FloatArray | IntArray:  # noqa: ARG002
        """Return what the sum of credits is divided by, unless it is 0."""
        return np.ones_like(n_rel)

    @property
    def threshold(self) -> float:
        """The lowest grade that is relevant."""
        rel: float = getattr(self, "rel", 1)
        return rel

    def values(self, rankings: RankedGrades) -> FloatArray:
        """Sum the credits of each query, averaged over the orders of documents with equal scores."""
        n_rel = rankings.count_relevant(self.threshold)
        n_irr = np.diff(rankings.pool_offsets) - n_rel
        out = np.zeros(len(n_rel))
        for query, i, j, weight in rankings.hits(self.threshold, self.linear_at_rank, self.first_only):
            credit = self.credit(i, j, n_rel[query], n_irr[query])
            if rankings.depth is not None:
                credit = np.where(i + j <= rankings.depth, credit, 0.0)
            out += np.bincount(query, credit * weight, minlength=len(out))
        return out / np.maximum(self.normalizer(n_rel, n_irr), 1)

    def defined(self, rankings: RankedGrades) -> BoolArray:
        """Tell which queries have a relevant document."""
        return rankings.best >= self.threshold

    def worth(self, rankings: RankedGrades) -> FloatArray:
        """Return 1 for relevant and 0 for irrelevant documents."""
        return (rankings.grades >= self.threshold).astype(np.float64)

    def shares(self, i: AnyArray, levels: TwoLevels) -> FloatArray | None:
        """Return the normalized shares, if the measure claims them."""
        share = self.share(i, levels.n_rel)
        return None if share is None else np.asarray(share / self.normalizer(levels.n_rel, levels.n_irr))

    def credits(self, i: AnyArray, j: AnyArray, levels: TwoLevels) -> FloatArray:
        """Return the normalized credits."""
        credit = self.credit(i, j, levels.n_rel, levels.n_irr)
        return np.asarray(credit / self.normalizer(levels.n_rel, levels.n_irr))


def cut(discounts: FloatArray, k: int | None) -> FloatArray:
    """Set the discounts of the ranks after k to 0.

    >>> cut(np.ones(3), 2).tolist()
    [1.0, 1.0, 0.0]
    """
    if k is not None:
        discounts[k:] = 0.0
    return discounts


_PLUS: Final = re.compile(r"\+(?![^(]*\))")
_WEIGHTED: Final = re.compile(r"\s*(?:(?P<weight>[0-9.]+(?:[eE]-?[0-9]+)?)\s*\*)?(?P<measure>.*)\Z", re.DOTALL)


def parse_mix(spec: str | Measure) -> list[tuple[float, Measure]]:
    """Read what to train for or to select by: one measure, or several with weights.

    >>> parse_mix("ndcg@10 + 0.5*ap")
    [(1.0, ndcg@10), (0.5, ap)]
    """
    if not isinstance(spec, str):
        return [(1.0, parse_trainable(spec))]
    return [_parse_weighted(part, spec) for part in _PLUS.split(spec)]


def _parse_weighted(part: str, spec: str) -> tuple[float, Measure]:
    match = _WEIGHTED.match(part)
    if match is None or not match["measure"].strip():
        raise ValueError(f"{spec!r} is not a measure or mix of measures; write 'ndcg@10' or 'ndcg@10 + 0.5*ap'")
    weight = literal(match["weight"] or "1")
    if isinstance(weight, str) or weight is None or weight > sys.float_info.max:
        raise ValueError(f"{spec!r}: the weight {match['weight']} is not a finite number")
    return float(weight), parse_trainable(match["measure"])


def spell_mix(mix: Sequence[tuple[float, str | Measure]]) -> str:
    """Spell a mix so that `parse_mix` reads it.

    >>> spell_mix([(1.0, "ndcg@10"), (0.5, "ap"), (1e-20, "auc")])
    'ndcg@10 + 0.5*ap + 0.00000000000000000001*auc'
    """
    return " + ".join(
        str(measure) if weight == 1 else f"{np.format_float_positional(weight, trim='-')}*{measure}"
        for weight, measure in mix
    )
