"""Joint feature maps, as the coefficients they give to the documents of a ranking.

Every map of the papers is linear in the document features: Ψ(x, y) = Σ_i a(y)_i x_i. So w·Ψ(x, y) = a(y)·s for the
scores s_i = w·x_i, and a map is the vector a(y), one number per document. Ranks r start at 0.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Final, Literal, TypeAlias, cast

import numpy as np
import numpy.typing as npt

from marginrank.measures import Measure
from marginrank.runtime.option_objects import OptionObject, parse_spelling
from marginrank.typing import FloatArray, IntArray

Scale: TypeAlias = Literal["pairs", "all"]


@dataclass(frozen=True)
class FeatureMap(OptionObject, ABC):
    """Coefficients a(y) of documents, given as a profile over ranks times a scale per query.

    φpo and φdorm are positional: a(y)_i = scale · A(rank of i), up to terms that no ranking of the documents changes.
    """

    family = "feature map"
    example = "po or dorm(shape=log)"

    @abstractmethod
    def profile(self, n: int, measure: Measure | None) -> FloatArray:
        """Return A at the first n ranks, nonincreasing."""

    @abstractmethod
    def scales(self, lengths: IntArray, n_pairs: IntArray) -> FloatArray:
        """Return the scale of each query, given its numbers of documents and of pairs of different level."""

    @property
    def fixed_ideal(self) -> bool:
        """Whether coefficients depend on the order inside a level, so that y* has to be fixed beforehand."""
        return True


@dataclass(frozen=True)
class PartialOrder(FeatureMap):
    """φpo: the mean over pairs of different level of x_better − x_worse, with the sign of their order in the ranking.

    Yue et al. (SIGIR 2007) §3, Chakrabarti et al. (KDD 2008) eq. (3), with a(y)_i = (#documents of other levels after
    i − #before i) / #pairs. With p_i the rank of i and r_i its rank inside its level, that is
    (n − n_level − 2(p_i − r_i)) / #pairs: inside a level the best order is by score, so r_i is given and φpo is a
    positional map with the linear profile A(r) = −2r. ``scale="all"`` divides by all n(n − 1)/2 pairs, as Riezler and
    De Bona (2009) §2 do.
    """

    name = "po"
    scale: Scale = "pairs"

    def profile(self, n: int, measure: Measure | None) -> FloatArray:  # noqa: ARG002
        """Return −2r: each document of another level that comes before subtracts 1 and does not add 1."""
        return -2.0 * np.arange(float(n))

    def scales(self, lengths: IntArray, n_pairs: IntArray) -> FloatArray:
        """Return 1 over the number of pairs."""
        counts = n_pairs if self.scale == "pairs" else lengths * (lengths - 1) // 2
        return np.reciprocal(np.maximum(counts, 1).astype(np.float64))

    @property
    def fixed_ideal(self) -> bool:
        """The order inside a level does not matter to φpo."""
        return False


def _power(n: int, d: float) -> FloatArray:
    return np.asarray(np.arange(1.0, n + 1.0) ** -d)


#: Profiles A(r) by name; d and c are the parameters of `Positional`.
PROFILES: Final[Mapping[str, Callable[[int, float, float], FloatArray]]] = {
    "sqrt": lambda n, d, c: _power(n, 0.5),  # noqa: ARG005
    "power": lambda n, d, c: _power(n, d),  # noqa: ARG005
    "log": lambda n, d, c: np.asarray(1.0 / np.log(np.arange(2.0, n + 2.0))),  # noqa: ARG005
    "loglog": lambda n, d, c: np.asarray(1.0 / np.log(np.log(np.arange(n) + c))),  # noqa: ARG005
    "linear": lambda n, d, c: -np.arange(float(n)),  # noqa: ARG005
}


@dataclass(frozen=True)
class Positional(FeatureMap):
    """φdorm: Σ_i A(rank of i) x_i for a nonincreasing profile A.

    Chapelle, Le and Smola (2007) eq. (3), Le and Smola (2008) eq. (18). Profiles are ``sqrt`` (1/√(r + 1)), ``power``
    ((r + 1)^−d), ``log`` (1/log(r + 2)), ``loglog`` (1/log log(r + c), c > e to be defined), ``linear`` (−r/n),
    ``truncated`` (max(k − r, 0) for the cutoff k of the measure; with 1-based ranks the papers' max(k + 1 − r, 0)),
    ``discount`` (the discount of the measure), or a tuple of nonincreasing numbers, continued with its last.
    """

    name = "dorm"
    shape: str | tuple[float, ...] = "sqrt"
    d: float = 0.5
    c: float = 3.0

    def __post_init__(self) -> None:
        super().__post_init__()
        if isinstance(self.shape, str):
            known = (*PROFILES, "truncated", "discount")
            if self.shape not in known:
                raise ValueError(f"unknown profile {self.shape!r}; known: {', '.join(known)}, or a tuple of numbers")
            if self.shape == "loglog" and not self.c > np.e:
                raise ValueError(f"c is {self.c}; log log(r + c) needs c above e = 2.718...")
            if self.shape == "power" and not self.d > 0:
                raise ValueError(f"d is {self.d}; (r + 1)^-d falls only for d above 0")
        elif len(self.shape) == 0 or not np.isfinite(self.shape).all() or np.any(np.diff(self.shape) > 0):
            raise ValueError("a profile is a sequence of at least one number that does not rise")

    def profile(self, n: int, measure: Measure | None) -> FloatArray:
        """Return A at the first n ranks."""
        if not isinstance(self.shape, str):
            return np.array([float(self.shape[min(rank, len(self.shape) - 1)]) for rank in range(n)])
        if self.shape == "truncated":
            k = None if measure is None else measure.depth
            if k is None:
                raise ValueError(f"profile 'truncated' needs a measure with a cutoff, not {measure}")
            return np.maximum(float(k) - np.arange(float(n)), 0.0)
        if self.shape == "discount":
            discounts = None if measure is None else measure.discounts(n)
            if discounts is None:
                raise ValueError(f"profile 'discount' needs a measure with a discount, not {measure}")
            return discounts
        return PROFILES[self.shape](n, self.d, self.c)

    def scales(self, lengths: IntArray, n_pairs: IntArray) -> FloatArray:  # noqa: ARG002
        """Return 1, or 1/n for the linear profile."""
        return np.asarray(1.0 / np.maximum(lengths, 1)) if self.shape == "linear" else np.ones(len(lengths))


@dataclass(frozen=True)
class FirstRelevant(FeatureMap):
    """φmrr: Σ over the irrelevant documents b before the first relevant one g of x_b − x_g.

    Chakrabarti et al. (KDD 2008) eq. (5). For reciprocal rank only. The best ranking under it is not the sort by score.
    """

    name = "mrr"

    def profile(self, n: int, measure: Measure | None) -> FloatArray:  # noqa: ARG002
        """Refuse: there is none."""
        raise TypeError("φmrr has no profile over ranks")

    def scales(self, lengths: IntArray, n_pairs: IntArray) -> FloatArray:  # noqa: ARG002
        """Return 1."""
        return np.ones(len(lengths))

    @property
    def fixed_ideal(self) -> bool:
        """No irrelevant document comes before the first relevant one of y*, so a(y*) = 0."""
        return False


def parse_map(spec: str | FeatureMap | npt.NDArray[np.float64]) -> FeatureMap:
    """Read the spelling of a feature map: ``po``, ``dorm``, ``mrr``, ``dorm(shape=power,d=0.25)``.

    >>> str(parse_map("dorm(shape=log)"))
    'dorm(shape=log)'
    """
    if isinstance(spec, np.ndarray):
        return Positional(tuple(spec.tolist()))
    return cast("FeatureMap", parse_spelling(FeatureMap, spec))
