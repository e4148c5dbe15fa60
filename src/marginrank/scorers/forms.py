"""What a trained ranker is: arrays, and a way from features to scores."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Mapping
from typing import ClassVar, Self

from marginrank.typing import AnyArray, Features, FloatArray


class Form(ABC):
    """How parameters θ score documents: weights, step functions, trees, or a sum over training documents.

    A form is made of arrays, so that a model file can hold it and reading one runs no code.
    """

    #: What a model file calls it.
    kind: ClassVar[str]
    #: Whether features may be NaN.
    takes_nan: ClassVar[bool] = False
    #: What `sizes` counts.
    sized_by: ClassVar[str]

    @property
    @abstractmethod
    def n_parameters(self) -> int:
        """Length of θ."""

    @abstractmethod
    def score(self, theta: FloatArray, X: Features, n_jobs: int | None = None) -> FloatArray:
        """Score documents."""

    @abstractmethod
    def sizes(self, theta: FloatArray) -> FloatArray:
        """How much each feature matters, as ``sized_by`` says; empty where features cannot be told apart."""

    @abstractmethod
    def arrays(self) -> dict[str, AnyArray]:
        """All that the form is made of, but θ."""

    @classmethod
    @abstractmethod
    def from_arrays(cls, arrays: Mapping[str, AnyArray], n_features: int) -> Self:
        """Make a form of what `arrays` gave."""
