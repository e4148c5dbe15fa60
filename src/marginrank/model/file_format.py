"""The model file: a header of plain values and the arrays of the model, in safetensors layout."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import fields
from pathlib import Path
from types import NoneType
from typing import TYPE_CHECKING, Any, BinaryIO, Final

import numpy as np

from marginrank.errors import DataError
from marginrank.runtime.array_file import Family, read_array_file, write_array_file
from marginrank.runtime.files import open_input
from marginrank.typing import AnyArray, FloatArray

if TYPE_CHECKING:
    from marginrank.solvers.solution import Solution

#: Suffix of model files.
SUFFIX: Final = ".safetensors"
_MODELS: Final = Family("marginrank", "model file", "copy it again or save the model again")


def write_model(
    path: str | Path,
    kind: str,
    header: Mapping[str, Any],
    arrays: Mapping[str, AnyArray],
    *,
    overwrite: bool = True,
    private: bool = False,
) -> None:
    """Write a model file atomically.

    Args:
        path: The file to write; its folder has to exist.
        kind: Kind of the model, such as ``ranker``.
        header: Plain JSON values; numbers are finite.
        arrays: Arrays by name.
        overwrite: Whether to replace an existing file.
        private: Let only its owner read and write a new file.

    >>> import tempfile
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     write_model(f"{folder}/a.safetensors", "ranker", {"C": 2.0}, {"theta": np.array([0.5, -1.0])})
    ...     kind, header, arrays = read_model(f"{folder}/a.safetensors")
    >>> kind, header["C"], arrays["theta"].tolist()
    ('ranker', 2.0, [0.5, -1.0])
    """
    write_array_file(path, _MODELS, kind, header, arrays, overwrite=overwrite, private=private)


def is_model(path: Path) -> bool:
    """Return whether a file begins like a model file."""
    if path.is_dir() or not path.exists():
        return False
    with open_input(path) as file:
        return _MODELS.begins(file.read(208))


def model_kind(path: str | Path) -> str:
    """Return the kind of the model in a file, such as ``ranker``, from its header alone."""
    return read_array_file(path, _MODELS).kind


def read_model(path: str | Path, file: BinaryIO | None = None) -> tuple[str, dict[str, Any], dict[str, AnyArray]]:
    """Read a model file, which may be open already: its kind, its header, and its arrays by name.

    Raises:
        FileNotFoundError: There is no such file.
        DataError: It is not a model file, it is damaged, or a newer marginrank wrote it.
    """
    content = read_array_file(path, _MODELS, mapped=False, file=file)
    if content.damaged():
        raise DataError("damaged model file (an array does not match its digest); copy it again", path=path)
    return content.kind, content.header, {name: np.array(array) for name, array in content.arrays.items()}


class reading_model:  # noqa: N801
    """Turn errors about the content of a file into a `DataError` with its path."""

    def __init__(self, path: str | Path) -> None:
        self.path = Path(path)

    def __enter__(self) -> None:
        """Enter the context."""

    def __exit__(self, kind: Any, error: BaseException | None, trace: Any) -> None:
        """Add the path of the file to an error."""
        if isinstance(error, DataError):
            raise error.at(self.path) from None
        if isinstance(error, ArithmeticError | AttributeError | LookupError | RecursionError | TypeError | ValueError):
            why = ascii(str(error))[1:-1]
            raise DataError(f"this model is incomplete or contradicts itself ({why}); save it again", path=self.path)


#: Maximum depth of a header; those that marginrank writes have fewer than ten levels.
_MAX_DEPTH: Final = 50
#: Relative rounding error by which a lower bound may exceed the objective.
_ROUNDING: Final = 1e-6
#: Types of the fields of a dataclass, by their annotation.
_TYPES: Final[Mapping[str, tuple[type, ...]]] = {
    "str": (str,),
    "str | None": (str, NoneType),
    "int": (int,),
    "float": (int, float),
    "bool": (bool,),
    "Mapping[str, Any]": (dict,),
}

_TEXTS: Final = ("criterion", "policy", "rule", "held_out")
_FIGURES: Final = ("C", "mean", "standard_error", "objective", "average_slack", "norm", "passes")


def check_values(header: Any) -> None:
    """Refuse numbers that no float holds, and values nested so deep that describing them would fail.

    >>> check_values({"C": 10**400})
    Traceback (most recent call last):
    ...
    ValueError: the header has a number beyond 1.8e308
    """
    level = [header]
    for _ in range(_MAX_DEPTH):
        for value in level:
            if isinstance(value, int) and abs(value) > _LARGEST:
                raise ValueError("the header has a number beyond 1.8e308")
        level = [
            inner
            for value in level
            if isinstance(value, dict | list)
            for inner in (value.values() if isinstance(value, dict) else value)
        ]
    if level:
        raise ValueError(f"the header is nested more than {_MAX_DEPTH} deep")


_LARGEST: Final = int(np.finfo(np.float64).max)


def check_record(record: Any) -> None:
    """Refuse fields of a dataclass that do not have the declared type."""
    for field in fields(record):
        value, types = getattr(record, field.name), _TYPES[str(field.type)]
        if not isinstance(value, types) or (isinstance(value, bool) and bool not in types):
            raise ValueError(f"{field.name} is {value!r}; it has to be {field.type}")


def check_counts(**counts: int) -> None:
    """Refuse negative counts."""
    for name, n in counts.items():
        if n < 0:
            raise ValueError(f"{n} {name}")


def check_first_feature(number: Any) -> None:
    """Refuse a number of the first feature other than 0 and 1."""
    if type(number) is not int or number not in (0, 1):
        raise ValueError(f"{number!r} is not the number of a first feature")


def check_theta(theta: AnyArray, n_parameters: int) -> None:
    """Refuse parameters of another type or number than the form has, and values that are not finite."""
    if theta.dtype != np.float64:
        raise ValueError(f"parameters are of type {theta.dtype}, not float64")
    if theta.shape != (n_parameters,):
        raise ValueError(f"{theta.shape} parameters for a form of {n_parameters}")
    if not np.isfinite(theta).all():
        raise ValueError(f"parameter {int(np.argmin(np.isfinite(theta)))} is not finite")


def check_certificate(solution: Solution) -> None:
    """Refuse a lower bound above the objective, convergence without a bound, and a C that is not above 0."""
    if not (math.isnan(solution.C) or solution.C > 0):
        raise ValueError(f"C is {solution.C:g}; it has to be above 0")
    if solution.converged and not math.isfinite(solution.gap):
        raise ValueError("it says converged but has no lower bound that proves it")
    steps = np.array([(step.primal, step.dual) for step in solution.trace])
    if not _bounded(np.array([solution.primal, *steps[:, 0]]), np.array([solution.dual, *steps[:, 1]])):
        raise ValueError("a lower bound is above its objective")
    costs = np.array([(step.seconds, step.passes) for step in solution.trace])
    if not (np.isfinite(costs).all() and (costs >= 0).all()):
        raise ValueError("the trace has times or passes that are negative or not numbers")


def _bounded(primal: FloatArray, dual: FloatArray) -> bool:
    # The only bound of an objective that is not finite is -inf.
    with np.errstate(invalid="ignore"):
        above = dual > primal + _ROUNDING * (1.0 + np.abs(primal))
    return bool(((dual == -np.inf) | (np.isfinite(primal) & ~above)).all())


def check_scale(scale: FloatArray, weights: AnyArray | None) -> None:
    """Refuse negative scales, and scale 0 for all features with a weight: all scores would be equal."""
    if (scale < 0).any():
        raise ValueError(f"the scale of column {int(np.argmax(scale < 0))} is below 0")
    if weights is not None and weights.any() and not (scale * (weights != 0)).any():
        raise ValueError("every feature with a weight has scale 0")


def check_selection(selection: Any) -> None:
    """Refuse anything but the table of a `tune`."""
    if not isinstance(selection, dict):
        raise ValueError("the selection is not a table")
    candidates, chosen = selection["candidates"], selection["chosen"]
    texts = all(isinstance(selection[name], str) for name in _TEXTS)
    if not (texts and isinstance(selection["complete"], bool) and isinstance(candidates, list)):
        raise ValueError("the selection is not a table")
    if type(chosen) is not int or not 0 <= chosen < len(candidates):
        raise ValueError(f"the selection chose candidate {chosen!r} of {len(candidates)}")
    _check_candidates(candidates)
    compared = selection.get("by_softmax", {})
    if not (isinstance(compared, dict) and all(isinstance(mean, float) for mean in compared.values())):
        raise ValueError("the comparison of scorers in the selection is not a table of numbers")


def _check_candidates(candidates: Sequence[Any]) -> None:
    for number, candidate in enumerate(candidates):
        if not isinstance(candidate, dict) or candidate.keys() != candidates[0].keys():
            raise ValueError(f"candidate {number} of the selection has different entries than the first")
        for name in _FIGURES:
            if isinstance(candidate[name], bool) or not isinstance(candidate[name], int | float):
                raise ValueError(f"{name} of candidate {number} is {candidate[name]!r}, which is not a number")
