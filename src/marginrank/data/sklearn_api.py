"""Estimators with scikit-learn's API that do not import scikit-learn until one of its tools asks for it.

A class need not inherit from `sklearn.base.BaseEstimator` to be an estimator, and importing it takes a second.
`Estimator` has the parameters, clones and texts of one; what only scikit-learn asks for is looked up there.
"""

from __future__ import annotations

import copy
import inspect
import sys
from collections.abc import Callable, Mapping
from functools import cache
from typing import TYPE_CHECKING, Any, Final, Literal, Self, TypeVar

import numpy as np
import numpy.typing as npt

from marginrank.data.column_roles import column_names
from marginrank.runtime.text import suggest
from marginrank.typing import AnyArray

_T = TypeVar("_T", bound="Estimator")
#: What is asked for by people and notebooks too, so that scikit-learn may not be loaded yet.
_ASKED_BY_PEOPLE: Final = ("get_metadata_routing", "_repr_html_", "_repr_mimebundle_")
#: Says of metadata that a method has no use for it, as scikit-learn's constant of the same name.
UNUSED: Final = "unused"
#: Methods whose arguments scikit-learn routes.
_ROUTED: Final = ("fit", "partial_fit", "predict", "score", "transform")
#: What `set_fit_request` and `set_output` leave in an estimator, and clones keep.
_SETTINGS: Final = ("_metadata_request", "_sklearn_output_config")


class Estimator:
    """An object whose parameters are the arguments of ``__init__``, each an attribute of the same name."""

    n_features_in_: int
    feature_names_in_: AnyArray

    @classmethod
    def _get_param_names(cls) -> list[str]:
        return sorted(_defaults(cls))

    def get_params(self, deep: bool = True) -> dict[str, Any]:
        """Return the parameters by name; if ``deep``, those of parameters that have some too, as ``scorer__bins``."""
        parameters: dict[str, Any] = {}
        for name in self._get_param_names():
            value = parameters[name] = getattr(self, name)
            if deep and hasattr(value, "get_params") and not isinstance(value, type):
                parameters.update((f"{name}__{inner}", one) for inner, one in value.get_params().items())
        return parameters

    def set_params(self, **parameters: Any) -> Self:
        """Set parameters; ``ranker__C`` sets the parameter ``C`` of the parameter ``ranker``."""
        known = self._get_param_names()
        inner: dict[str, dict[str, Any]] = {}
        for name, value in parameters.items():
            outer, nested, rest = name.partition("__")
            if outer not in known:
                raise ValueError(f"{type(self).__name__} has no parameter {outer!r}; {suggest(outer, known)}")
            if nested:
                inner.setdefault(outer, {})[rest] = value
            else:
                setattr(self, name, value)
        for outer, values in inner.items():
            getattr(self, outer).set_params(**values)
        return self

    def __sklearn_clone__(self) -> Self:
        """Return an estimator with the same parameters that is not fitted."""
        other = type(self)(**{name: _copied(value) for name, value in self.get_params(deep=False).items()})
        for name in _SETTINGS:
            if name in vars(self):
                setattr(other, name, _copied(vars(self)[name]))
        return other

    def __sklearn_tags__(self) -> Any:
        from sklearn.base import BaseEstimator  # noqa: PLC0415

        return BaseEstimator.__sklearn_tags__(self)

    def __repr__(self) -> str:
        """Name the parameters that differ from their defaults."""
        chosen = ((name, getattr(self, name), default) for name, default in _defaults(type(self)).items())
        changed = (f"{name}={value!r}" for name, value, default in chosen if repr(value) != repr(default))
        return f"{type(self).__name__}({', '.join(changed)})"

    if not TYPE_CHECKING:

        def __getattr__(self, name: str) -> Any:
            """Look up in `sklearn.base.BaseEstimator` what only scikit-learn asks for."""
            if _is_asked_by_sklearn(name) and hasattr(_requesting(type(self)), name):
                kind = _requesting(type(self))
                attribute = inspect.getattr_static(kind, name)
                return attribute.__get__(self, kind) if hasattr(attribute, "__get__") else attribute
            # Raises AttributeError, with the words of the property where it comes from one.
            return object.__getattribute__(self, name)


def _is_asked_by_sklearn(name: str) -> bool:
    if name in _ASKED_BY_PEOPLE or (name.startswith("set_") and name.endswith("_request")):
        return True
    return name.startswith("_") and not name.startswith("__") and "sklearn.base" in sys.modules


@cache
def _requesting(kind: type) -> type:
    """Return an estimator class of scikit-learn's own that knows what metadata the methods of a class request."""
    from sklearn.base import BaseEstimator  # noqa: PLC0415
    from sklearn.utils import metadata_routing  # noqa: PLC0415

    members: dict[str, Any] = {}
    for name, value in (member for one in reversed(kind.__mro__[:-1]) for member in vars(one).items()):
        if name in _ROUTED:
            members[name] = value
        elif "__metadata_request__" in name:
            members[name] = {key: metadata_routing.UNUSED if use == UNUSED else use for key, use in value.items()}
    return type(kind.__name__, (BaseEstimator,), members)


def _defaults(kind: Any) -> Mapping[str, Any]:
    """Return the arguments of ``__init__`` with their defaults."""
    return {} if kind.__init__ is object.__init__ else _arguments(kind.__init__)


@cache
def _arguments(init: Callable[..., None]) -> Mapping[str, Any]:
    arguments = list(inspect.signature(init).parameters.values())[1:]
    return {one.name: one.default for one in arguments}


def _copied(value: Any) -> Any:
    if hasattr(value, "__sklearn_clone__") and not isinstance(value, type):
        return value.__sklearn_clone__()
    return copy.deepcopy(value)


def clone(estimator: _T) -> _T:
    """Return an estimator with the same parameters that is not fitted."""
    return estimator.__sklearn_clone__()


def check_is_fitted(estimator: Estimator) -> None:
    """Raise scikit-learn's ``NotFittedError`` unless an attribute that is learned, whose name ends with _, is there."""
    if any(name.endswith("_") and not name.startswith("__") for name in vars(estimator)):
        return
    from sklearn.exceptions import NotFittedError  # noqa: PLC0415

    raise NotFittedError(f"this {type(estimator).__name__} is not fitted yet; call fit first")


def check_rows(
    estimator: Estimator,
    X: Any,
    y: npt.ArrayLike | None = None,
    *,
    reset: bool,
    finite: Literal["allow-nan"] | bool,
    order: Literal["C"] | None = None,
    sparse: bool = False,
    least: int = 1,
) -> Any:
    """Check the rows of features that an estimator is given, and the grades; return them as arrays.

    Plain arrays of numbers are checked here; everything else is left to scikit-learn's `validate_data`.

    Args:
        estimator: The estimator, which learns the number and names of features where ``reset`` says so.
        X: Rows of features, of which float32 stays and all else becomes float64.
        y: One number for each row; if given, it is returned too.
        reset: Whether to learn the columns instead of comparing them with those learned.
        finite: False for no look at the values, ``allow-nan`` for refusing what is infinite.
        order: ``C`` for rows that are contiguous.
        sparse: Whether X may be sparse.
        least: The least number of rows.
    """
    rows, column = _plain_rows(X, finite), None if y is None else _plain_column(y)
    if (
        rows is None
        or len(rows) < least
        or not (reset or _has_columns(estimator, rows))
        or (y is not None and (column is None or len(column) != len(rows)))
    ):
        from sklearn.utils.validation import validate_data  # noqa: PLC0415

        checked = validate_data(
            estimator,
            X,
            **({} if y is None else {"y": y, "y_numeric": True}),
            reset=reset,
            accept_sparse="csr" if sparse else False,
            dtype=[np.float64, np.float32],
            order=order,
            ensure_all_finite=finite,
            ensure_min_samples=least,
        )
        names = column_names(X)
        if reset and names is not None:
            # Old versions of scikit-learn do not see the names of new versions of Polars.
            estimator.feature_names_in_ = np.array(names, dtype=object)
        return checked
    if reset:
        vars(estimator).pop("feature_names_in_", None)
        estimator.n_features_in_ = rows.shape[1]
    rows = np.asarray(rows, order=order)
    return rows if y is None else (rows, column)


def _plain_rows(X: Any, finite: Literal["allow-nan"] | bool) -> AnyArray | None:
    """Return rows of numbers in an array or in lists as an array; None for all else."""
    array = _plain_array(X)
    if array is None or array.ndim != 2 or array.shape[1] == 0:
        return None
    if array.dtype not in (np.float64, np.float32):
        array = array.astype(np.float64)
    return None if finite and np.isinf(array).any() else array


def _plain_column(y: Any) -> AnyArray | None:
    array = _plain_array(y)
    return None if array is None or array.ndim != 1 or not np.isfinite(array).all() else array


def _plain_array(values: Any) -> AnyArray | None:
    if type(values) in (list, tuple):
        try:
            values = np.array(values)
        except ValueError:  # rows of different length
            return None
    return values if type(values) in (np.ndarray, np.memmap) and values.dtype.kind in "fiub" else None


def _has_columns(estimator: Estimator, rows: AnyArray) -> bool:
    """Tell whether an estimator was fitted on as many columns, none of which has a name."""
    return rows.shape[1] == getattr(estimator, "n_features_in_", None) and not hasattr(estimator, "feature_names_in_")
