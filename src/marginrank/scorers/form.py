"""The form of a scorer after training: arrays that turn parameters into the terms of a score."""

from __future__ import annotations

import importlib
from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import reduce
from typing import Any, ClassVar, Final, Self, TypeAlias

import numpy as np
import numpy.typing as npt

from marginrank.errors import DataError
from marginrank.runtime.lazy_imports import sp
from marginrank.runtime.option_objects import load_modules
from marginrank.runtime.text import feature_labels
from marginrank.scorers.terms import Term, add_terms, score_blocks
from marginrank.typing import AnyArray, Features, FloatArray, IntArray

#: Advice if a scorer takes no missing values.
NAN_ADVICE: Final = "fill it, or train with the scorer linear(missing=mean) or additive"
#: Modules of the forms of this package, so that reading a model does not load every scorer; others are searched for.
_MODULES: Final[Mapping[str, str]] = {
    "linear": "linear.form",
    "adaptive": "adaptive.form",
    "additive": "additive.form",
    "trees": "boosted.form",
    "neural": "neural.form",
    "kernel": "kernel.form",
    "sum": "form",
}


class Form(ABC):
    """A form: how parameters θ score documents, by weights, curves, trees, or a sum over training documents.

    Its terms compute the scores. A form is made of arrays, so that a model file can hold it and reading one runs no
    code.
    """

    #: Name in model files.
    kind: ClassVar[str]
    #: Whether features may be NaN.
    takes_nan: ClassVar[bool] = False
    #: Advice if they may not.
    nan_advice: ClassVar[str] = "fill it, as this model takes no missing values"
    #: Whether features may be CSR.
    takes_sparse: ClassVar[bool] = False
    #: Whether scores are weighted sums of the features themselves, so that weights can be scaled instead of features.
    weights_features: ClassVar[bool] = False
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
    def terms(self, theta: FloatArray) -> tuple[Term, ...]:
        """Return the terms that add up to the score."""

    def score(self, theta: FloatArray, X: npt.ArrayLike | Features, n_jobs: int | None = None) -> FloatArray:
        """Return the scores of documents."""
        values = self.dense(X)
        add = add_terms(self.terms(theta), values, compiled=True)
        return score_blocks(lambda _, rows: add(rows), values, n_jobs)

    def dense(self, X: npt.ArrayLike | Features) -> AnyArray:
        """Return features as an array, and refuse sparse ones."""
        if sp.issparse(X):
            raise DataError(f"a {self.kind} model takes no sparse X; pass X.toarray()")
        return np.asarray(X)

    @abstractmethod
    def sizes(self, theta: FloatArray) -> FloatArray:
        """Return the size of each feature in the model, as named by ``sized_by``; empty if features have none."""

    @abstractmethod
    def arrays(self) -> dict[str, AnyArray]:
        """Return the arrays of the form, without θ."""

    @classmethod
    @abstractmethod
    def from_arrays(cls, arrays: Mapping[str, AnyArray], n_features: int) -> Self:
        """Build a form from what `arrays` returned."""


def stored(arrays: Mapping[str, AnyArray], name: str, dtype: npt.DTypeLike, ndim: int = 1) -> AnyArray:
    """Return an array of a file, and refuse another type or number of dimensions.

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
    """Return the form of a kind, or None; forms of this package load only the module that defines them.

    >>> find_form("linear").__name__, find_form("oblique")
    ('LinearForm', None)
    """
    if kind in _MODULES:
        importlib.import_module(f"{__name__.rpartition('.')[0]}.{_MODULES[kind]}")
        return Form.registry[kind]
    return all_forms().get(kind)


def all_forms() -> dict[str, type[Form]]:
    """Return all forms by kind, after loading every module of this package."""
    load_modules(__name__.rpartition(".")[0])
    return dict(Form.registry)


#: ``increasing`` or ``decreasing`` for all features, or by number or name of a feature.
Monotone: TypeAlias = str | Mapping[Any, str]

_SIGNS: Final = {"increasing": 1, "decreasing": -1}


def monotone_signs(monotone: Monotone, n_features: int, names: Sequence[str] | None = None) -> IntArray:
    """Return 1 for features that may only raise the score, −1 for those that may only lower it, 0 for all others.

    >>> monotone_signs({"price": "decreasing"}, 2, ["clicks", "price"]).tolist()
    [0, -1]
    """
    from marginrank.data.queries import feature_number  # noqa: PLC0415

    signs = np.zeros(n_features, dtype=np.int64)
    if isinstance(monotone, Mapping):
        for feature, direction in monotone.items():
            signs[feature_number(feature, feature_labels(names, n_features))] = _sign(direction)
    else:
        signs[:] = _sign(monotone)
    return signs


def _sign(direction: str) -> int:
    if direction not in _SIGNS:
        raise ValueError(f"unknown direction {direction!r}; known: {', '.join(_SIGNS)}")
    return _SIGNS[direction]


_KINDS = "sum.kinds"


@dataclass(frozen=True, eq=False)
class SumForm(Form):
    """A sum of forms of different kinds; θ has the parameters of one form after the other.

    >>> from marginrank.scorers.linear.form import LinearForm
    >>> SumForm((LinearForm(2),)).score(np.array([2.0, -1.0]), np.array([[1.0, 0.5]])).tolist()
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
            raise ValueError(f"a sum needs forms of different kinds, not {kinds}")

    @property
    def takes_nan(self) -> bool:  # type: ignore[override]
        """Whether features may be NaN."""
        return all(part.takes_nan for part in self.parts)

    @property
    def nan_advice(self) -> str:  # type: ignore[override]
        """Advice if features may not be NaN."""
        return next((part.nan_advice for part in self.parts if not part.takes_nan), Form.nan_advice)

    @property
    def n_parameters(self) -> int:
        """Length of θ."""
        return sum(part.n_parameters for part in self.parts)

    def _split(self, theta: FloatArray) -> list[tuple[Form, FloatArray]]:
        ends = np.cumsum([part.n_parameters for part in self.parts])[:-1]
        return list(zip(self.parts, np.split(theta, ends), strict=True))

    def before_scaling(self, X: Features) -> Features:
        """Return the features to scale."""
        return reduce(lambda features, part: part.before_scaling(features), self.parts, X)

    def terms(self, theta: FloatArray) -> tuple[Term, ...]:
        """Return the terms of all parts."""
        return tuple(term for part, parameters in self._split(theta) for term in part.terms(parameters))

    def sizes(self, theta: FloatArray) -> FloatArray:
        """Return the share of each feature in the sizes of a part, averaged over the parts."""
        sizes = [np.abs(part.sizes(parameters)) for part, parameters in self._split(theta)]
        return np.asarray(np.mean([size / (size.sum() or 1.0) for size in sizes], axis=0))

    def arrays(self) -> dict[str, AnyArray]:
        """Return the arrays and the kinds of the parts."""
        kinds = ",".join(part.kind for part in self.parts).encode()
        return {_KINDS: np.frombuffer(kinds, dtype=np.uint8)} | {
            name: array for part in self.parts for name, array in part.arrays().items()
        }

    @classmethod
    def from_arrays(cls, arrays: Mapping[str, AnyArray], n_features: int) -> Self:
        """Build the parts from what `arrays` returned."""
        kinds = bytes(stored(arrays, _KINDS, np.uint8)).decode("ascii").split(",")
        forms = []
        for kind in kinds:
            form = find_form(kind)
            if form is None or form is cls:
                raise ValueError(f"unknown form {kind!r} in a sum")
            forms.append(form.from_arrays(arrays, n_features))
        return cls(tuple(forms))
