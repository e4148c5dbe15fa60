"""Sums of two forms: trees on top of a linear or additive model."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from functools import reduce
from typing import ClassVar, Self

import numpy as np

from marginrank.scorers.forms import Form, find_form, stored
from marginrank.scorers.formula import Term
from marginrank.typing import AnyArray, Features, FloatArray

_KINDS = "sum.kinds"


@dataclass(frozen=True, eq=False)
class Sum(Form):
    """Forms of different kinds that add up; θ has the parameters of one after the other.

    >>> from marginrank.scorers.weights import Weights
    >>> Sum((Weights(2),)).score(np.array([2.0, -1.0]), np.array([[1.0, 0.5]])).tolist()
    [1.5]

    Args:
        parts: The forms.
    """

    kind: ClassVar[str] = "sum"
    sized_by: ClassVar[str] = "share"
    parts: tuple[Form, ...]

    def __post_init__(self) -> None:
        kinds = [part.kind for part in self.parts]
        if not kinds or self.kind in kinds or len(set(kinds)) < len(kinds):
            raise ValueError(f"{kinds} are no forms of different kinds to add up")

    @property
    def takes_nan(self) -> bool:  # type: ignore[override]
        """Whether features may be NaN."""
        return all(part.takes_nan for part in self.parts)

    @property
    def nan_advice(self) -> str:  # type: ignore[override]
        """The way out where features may not."""
        return next((part.nan_advice for part in self.parts if not part.takes_nan), Form.nan_advice)

    @property
    def n_parameters(self) -> int:
        """Those of all parts."""
        return sum(part.n_parameters for part in self.parts)

    def _split(self, theta: FloatArray) -> list[tuple[Form, FloatArray]]:
        ends = np.cumsum([part.n_parameters for part in self.parts])[:-1]
        return list(zip(self.parts, np.split(theta, ends), strict=True))

    def before_scaling(self, X: Features) -> Features:
        """Return the features to scale."""
        return reduce(lambda features, part: part.before_scaling(features), self.parts, X)

    def score(self, theta: FloatArray, X: Features, n_jobs: int | None = None) -> FloatArray:
        """Add up the scores of the parts."""
        return np.asarray(sum(part.score(own, X, n_jobs) for part, own in self._split(theta)))

    def terms(self, theta: FloatArray) -> tuple[Term, ...]:
        """Return the terms of all parts."""
        return tuple(term for part, own in self._split(theta) for term in part.terms(own))

    def contributions(self, theta: FloatArray, X: Features, references: Features) -> FloatArray:
        """Add up the contributions of the features to the parts."""
        return np.asarray(sum(part.contributions(own, X, references) for part, own in self._split(theta)))

    def sizes(self, theta: FloatArray) -> FloatArray:
        """Return the share of each feature in the sizes of a part, averaged over the parts."""
        sizes = [np.abs(part.sizes(own)) for part, own in self._split(theta)]
        return np.asarray(np.mean([size / (size.sum() or 1.0) for size in sizes], axis=0))

    def arrays(self) -> dict[str, AnyArray]:
        """Return the arrays of the parts, and which kinds they are."""
        kinds = ",".join(part.kind for part in self.parts).encode()
        return {_KINDS: np.frombuffer(kinds, dtype=np.uint8)} | {
            name: array for part in self.parts for name, array in part.arrays().items()
        }

    @classmethod
    def from_arrays(cls, arrays: Mapping[str, AnyArray], n_features: int) -> Self:
        """Make the parts of what `arrays` gave."""
        kinds = bytes(stored(arrays, _KINDS, np.uint8)).decode("ascii").split(",")
        forms = []
        for kind in kinds:
            form = find_form(kind)
            if form is None or form is cls:
                raise ValueError(f"unknown form {kind!r} in a sum")
            forms.append(form.from_arrays(arrays, n_features))
        return cls(tuple(forms))
