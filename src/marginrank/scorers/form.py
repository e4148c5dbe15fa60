"""What is left of a scorer after training: arrays, and a way from features to scores."""

from __future__ import annotations

import importlib
from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import reduce
from typing import Any, ClassVar, Final, Self, TypeAlias

import numpy as np
import numpy.typing as npt

from marginrank.runtime.option_objects import load_modules
from marginrank.runtime.text import feature_labels
from marginrank.runtime.threads import for_each
from marginrank.scorers.terms import Term
from marginrank.typing import AnyArray, Features, FloatArray, IntArray

#: The way out where a scorer takes no missing values.
NAN_ADVICE: Final = "fill it, or train with the scorer linear(missing=mean) or additive"
#: Where the forms of this package are, so that reading a model need not load every scorer; others are searched for.
_MODULES: Final[Mapping[str, str]] = {
    "linear": "linear.form",
    "additive": "additive.form",
    "trees": "boosted.form",
    "neural": "neural.form",
    "kernel": "kernel.form",
    "sum": "form",
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
    ('LinearForm', None)
    """
    if kind in _MODULES:
        importlib.import_module(f"{__name__.rpartition('.')[0]}.{_MODULES[kind]}")
        return Form.registry[kind]
    return all_forms().get(kind)


def all_forms() -> dict[str, type[Form]]:
    """Return every form by kind, after loading every module of this folder."""
    load_modules(__name__.rpartition(".")[0])
    return dict(Form.registry)


#: Rows that are multiplied together; a multiple of what BLAS works on at a time, on any processor.
ROWS: Final = 384
#: The least number of rows that is such a multiple.
LEAST_ROWS: Final = 48


def score_in_blocks(
    score: Callable[[FloatArray], FloatArray], X: AnyArray, n_jobs: int | None = None, n_rows: int = ROWS
) -> FloatArray:
    """Score rows in blocks of one height, the last of them padded with copies of its first row.

    In a product of another height, or one that is not a multiple of what BLAS works on at a time, a row is rounded
    differently, and equal documents would no longer be tied.

    >>> score_in_blocks(lambda rows: rows.sum(axis=1), np.array([[1.0, 2.0], [3.0, 4.0]])).tolist()
    [3.0, 7.0]

    Args:
        score: What returns the scores of a block.
        X: The rows.
        n_jobs: Number of threads; all cores by default.
        n_rows: Number of rows of a block.
    """
    scores = np.empty(len(X))

    def work(start: int) -> None:
        rows = X[start : start + n_rows]
        block = np.empty((n_rows, X.shape[1]))
        block[: len(rows)], block[len(rows) :] = rows, rows[0]
        scores[start : start + len(rows)] = score(block)[: len(rows)]

    for_each(work, [(start,) for start in range(0, len(scores), n_rows)], n_jobs)
    return scores


#: ``increasing`` or ``decreasing`` for all features, or by number or name of a feature.
Monotone: TypeAlias = str | Mapping[Any, str]

_SIGNS: Final = {"increasing": 1, "decreasing": -1}


def monotone_signs(monotone: Monotone, n_features: int, names: Sequence[str] | None = None) -> IntArray:
    """Return 1 for features that may only raise the score, −1 for those that may only lower it, 0 for the others.

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
    """Forms of different kinds that add up; θ has the parameters of one after the other.

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
