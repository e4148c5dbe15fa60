"""Rankers to files and back, without running anything that a file says."""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any, Final

import numpy as np

from marginrank.errors import DataError
from marginrank.methods.baselines.gaussian_process import Expansion
from marginrank.methods.baselines.trees import Trees
from marginrank.methods.training import Health
from marginrank.model_file import read_model, write_model
from marginrank.preparation import SCALINGS
from marginrank.scorers.bins import Bins
from marginrank.scorers.forms import Form
from marginrank.scorers.linear import Linear
from marginrank.solvers.solution import Solution, Step
from marginrank.typing import AnyArray

_REASONS: Final = ("converged", "max_iter", "time_limit", "callback", "interrupted")
_SCALER_ARRAYS: Final = ("mean_", "scale_")
_FORMS: Final[Mapping[str, type[Form]]] = {form.kind: form for form in (Linear, Bins, Trees, Expansion)}


def save_ranker(ranker: Any, path: str | Path, *, overwrite: bool = True) -> None:
    """Write a fitted ranker: what it is for, how it was trained, its certificate, and its parameters."""
    solution = ranker.solution_
    names = getattr(ranker, "feature_names_in_", None)
    header = {
        "kind": "ranker",
        "parameters": {name: _plain(value) for name, value in ranker.get_params(deep=False).items()},
        "measure": ranker.measure_,
        "loss": ranker.loss_,
        "form": ranker.form_.kind,
        "scaling": ranker.scaling_,
        "bound": ranker.bound_,
        "solver": ranker.solver_,
        "C": solution.C,
        "objective": _number(solution.primal),
        "lower_bound": _number(solution.dual),
        "gap": _number(solution.gap),
        "average_slack": _number(solution.risk),
        "stopped": solution.reason,
        "iterations": solution.n_iter,
        "passes": solution.passes,
        "health": None if ranker.health_ is None else _numbers(dataclasses.asdict(ranker.health_)),
        "trained_on": ranker.trained_on_,
        "n_features": ranker.n_features_in_,
        "feature_names": None if names is None else [str(name) for name in names],
        "selection": getattr(ranker, "selection_", None),
    }
    trace = [(step.primal, step.dual, step.seconds, step.passes) for step in solution.trace]
    arrays: dict[str, AnyArray] = {"coef": ranker.coef_, "trace": np.array(trace, dtype=np.float64).reshape(-1, 4)}
    arrays |= ranker.form_.arrays()
    if ranker.scaler_ is not None:
        arrays |= {f"scaler_{name}": getattr(ranker.scaler_, name) for name in _SCALER_ARRAYS if _has(ranker, name)}
    write_model(path, header, arrays, overwrite=overwrite)


def load_ranker(make: Callable[..., Any], path: str | Path) -> Any:
    """Read what `save_ranker` wrote into a ranker made by ``make`` from the parameters in the file."""
    header, arrays = read_model(path)
    try:
        return _restore(make, header, arrays)
    except (KeyError, IndexError, TypeError, ValueError, AttributeError) as error:
        raise DataError(
            f"this model lacks or contradicts something ({error}); save it again", path=Path(path)
        ) from None


def _restore(make: Callable[..., Any], header: dict[str, Any], arrays: dict[str, AnyArray]) -> Any:
    if header["kind"] != "ranker":
        raise ValueError(f"it holds a {header['kind']}, not a ranker")
    parameters = dict(header["parameters"])
    if isinstance(parameters.get("monotone"), list):
        parameters["monotone"] = dict(parameters["monotone"])
    ranker = make(**parameters)
    ranker.n_features_in_ = int(header["n_features"])
    if header["feature_names"] is not None:
        ranker.feature_names_in_ = np.array([str(name) for name in header["feature_names"]], dtype=object)
        if len(ranker.feature_names_in_) != ranker.n_features_in_:
            raise ValueError(f"{len(ranker.feature_names_in_)} feature names for {ranker.n_features_in_} features")
    ranker.measure_, ranker.bound_, ranker.solver_ = header["measure"], header["bound"], header["solver"]
    ranker.loss_ = str(header["loss"])
    health = header["health"]
    ranker.health_ = None if health is None else Health(**{name: _value(value) for name, value in health.items()})
    ranker.trained_on_ = dict(header["trained_on"])
    if not {"queries", "documents", "features", "fingerprint"} <= set(ranker.trained_on_):
        raise ValueError("what it was trained on is not said")
    if header.get("selection") is not None:
        ranker.selection_ = header["selection"]
    if header["form"] not in _FORMS:
        raise ValueError(f"unknown form {header['form']!r}")
    ranker.form_ = _FORMS[header["form"]].from_arrays(arrays, ranker.n_features_in_)
    ranker.scaling_ = header["scaling"]
    ranker.scaler_ = None if ranker.scaling_ is None else _scaler(ranker, arrays)
    ranker.coef_ = np.asarray(arrays["coef"], dtype=np.float64)
    if ranker.coef_.shape != (ranker.form_.n_parameters,):
        raise ValueError(f"{ranker.coef_.shape} weights for {ranker.form_.n_parameters} parameters")
    steps = tuple(Step(*row) for row in arrays["trace"].tolist())
    if header["stopped"] not in _REASONS:
        raise ValueError(f"unknown reason to stop {header['stopped']!r}")
    ranker.solution_ = Solution(
        ranker.coef_,
        float(header["C"]),
        _value(header["objective"]),
        _value(header["lower_bound"]),
        _value(header["average_slack"]),
        header["stopped"],
        steps,
    )
    return ranker


def _scaler(ranker: Any, arrays: dict[str, AnyArray]) -> Any:
    scaler = SCALINGS[str(ranker.scaling_)]()
    scaler.n_features_in_ = ranker.n_features_in_
    if hasattr(ranker, "feature_names_in_"):
        scaler.feature_names_in_ = ranker.feature_names_in_
    for name in _SCALER_ARRAYS:
        if f"scaler_{name}" in arrays:
            learned = arrays[f"scaler_{name}"]
            if learned.shape != (ranker.n_features_in_,):
                raise ValueError(f"{learned.shape} numbers of the scaling for {ranker.n_features_in_} features")
            setattr(scaler, name, learned)
    return scaler


def _has(ranker: Any, name: str) -> bool:
    return hasattr(ranker.scaler_, name)


def _plain(value: object) -> Any:
    """A parameter as JSON has it; what is an object becomes its spelling."""
    if value is None or isinstance(value, bool | int | str):
        return value
    if isinstance(value, float):
        return _number(value)
    if isinstance(value, Mapping):
        # JSON has only text for keys, and a feature may be a number.
        return [[_plain(key), _plain(entry)] for key, entry in value.items()]
    if isinstance(value, np.ndarray | np.generic):
        return value.tolist()
    if isinstance(value, list | tuple):
        return [_plain(entry) for entry in value]
    return str(value)


def _number(value: float | bool) -> float | bool | str:
    return value if isinstance(value, bool) or math.isfinite(value) else str(value)


def _numbers(values: Mapping[str, Any]) -> dict[str, Any]:
    return {name: _number(value) for name, value in values.items()}


def _value(value: float | bool | str) -> Any:
    return float(value) if isinstance(value, str) else value
