"""What is left of a scorer after training: arrays, and a way from features to scores."""

from __future__ import annotations

import importlib
import pkgutil
from abc import ABC, abstractmethod
from collections.abc import Mapping
from typing import TYPE_CHECKING, ClassVar, Final, Self

import numpy as np
import numpy.typing as npt

from marginrank.typing import AnyArray, Features, FloatArray

if TYPE_CHECKING:
    from marginrank.scorers.formula import Term

#: The way out where a scorer takes no missing values.
NAN_ADVICE: Final = "fill it, or train with the scorer linear(missing=mean) or additive"
#: Where the forms of this package are, so that reading a model need not load every scorer; others are searched for.
_MODULES: Final[Mapping[str, str]] = {
    "linear": "weights",
    "additive": "bins",
    "trees": "trees",
    "neural": "layers",
    "kernel": "expansion",
    "sum": "sums",
}


class Form(ABC):
    """How parameters θ score documents: weights, curves, trees, or a sum over training documents.

    A form is made of arrays, so that a model file can hold it and reading one runs no code.
    """

    #: What a model file calls it.
    kind: ClassVar[str]
    #: Whether features may be NaN.
    takes_nan: ClassVar[bool] = False
    #: The way out where features may not.
    nan_advice: ClassVar[str] = "fill it, as this model takes no missing values"
    #: Whether features may be CSR.
    takes_sparse: ClassVar[bool] = False
    #: What `sizes` counts.
    sized_by: ClassVar[str]
    registry: ClassVar[dict[str, type[Form]]] = {}

    def __init_subclass__(cls) -> None:
        super().__init_subclass__()
        if "kind" in vars(cls):
            Form.registry[cls.kind] = cls

    @property
    @abstractmethod
    def n_parameters(self) -> int:
        """Length of θ."""

    def before_scaling(self, X: Features) -> Features:
        """Return the features to scale."""
        return X

    @abstractmethod
    def score(self, theta: FloatArray, X: Features, n_jobs: int | None = None) -> FloatArray:
        """Score documents."""

    def terms(self, theta: FloatArray) -> tuple[Term, ...]:  # noqa: ARG002
        """Return what adds up to the score in plain numbers, for light scoring and exports."""
        raise TypeError(f"a {self.kind} model is not made of known terms; score it with marginrank.load")

    def contributions(self, theta: FloatArray, X: Features, references: Features) -> FloatArray:  # noqa: ARG002
        """Return the contribution of each feature to the score of each row, relative to the mean of the references.

        The rows of the result sum to these differences.
        """
        raise TypeError(f"the scores of a {self.kind} model are not made of features, so they cannot be explained")

    @abstractmethod
    def sizes(self, theta: FloatArray) -> FloatArray:
        """Return the size of each feature's part, as named by ``sized_by``; empty if there is none."""

    @abstractmethod
    def arrays(self) -> dict[str, AnyArray]:
        """Return the arrays of the form, without θ."""

    @classmethod
    @abstractmethod
    def from_arrays(cls, arrays: Mapping[str, AnyArray], n_features: int) -> Self:
        """Build a form from what `arrays` returned."""


def stored(arrays: Mapping[str, AnyArray], name: str, dtype: npt.DTypeLike, ndim: int = 1) -> AnyArray:
    """Return an array of a file, and refuse one of another type or number of dimensions.

    >>> stored({"starts": np.zeros(2, dtype=np.int64)}, "starts", np.float64)
    Traceback (most recent call last):
    ...
    ValueError: starts has type int64 and 1 dimensions; it needs float64 and 1
    """
    array = arrays[name]
    if array.dtype != dtype or array.ndim != ndim:
        needed = f"it needs {np.dtype(dtype)} and {ndim}"
        raise ValueError(f"{name} has type {array.dtype} and {array.ndim} dimensions; {needed}")
    return array


def find_form(kind: str) -> type[Form] | None:
    """Return the form of a kind, or None; of this folder, only its own module is loaded.

    >>> find_form("linear").__name__, find_form("oblique")
    ('Weights', None)
    """
    if kind in _MODULES:
        importlib.import_module(f"{__name__.rpartition('.')[0]}.{_MODULES[kind]}")
        return Form.registry[kind]
    return all_forms().get(kind)


def all_forms() -> dict[str, type[Form]]:
    """Return every form by kind, after loading every module of this folder."""
    package = importlib.import_module(__name__.rpartition(".")[0])
    for module in pkgutil.iter_modules(package.__path__):
        if not module.name.endswith("_kernel"):
            importlib.import_module(f"{package.__name__}.{module.name}")
    return dict(Form.registry)
