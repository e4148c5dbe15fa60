"""Rankers read from model files."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

from marginrank.methods.presets import all_presets
from marginrank.model.file_format import reading_model
from marginrank.model.model import Model
from marginrank.ranker.ranker import Ranker
from marginrank.ranker.resolution import NotInFile
from marginrank.runtime.option_objects import from_spec
from marginrank.scorers.base import parse_scorer
from marginrank.solvers.base import parse_solver
from marginrank.training.tight_bound import parse_bound


def load(path: str | Path) -> Ranker:
    """Read a ranker written by `save`; its scores are the same, bit for bit, and it can be fitted again.

    Raises:
        FileNotFoundError: There is no such file.
        DataError: The file is not a model, damaged, cut short, or of a newer version.
    """
    model = Model.load(path)
    with reading_model(path):
        return ranker_of(model)


def ranker_of(model: Model) -> Ranker:
    """Return the fitted ranker that a model came from, with its parameters."""
    all_presets()  # registers the baselines
    ranker = Ranker(**{name: _parameter(name, spec) for name, spec in model.method.parameters.items()})
    _check_spellings(ranker)
    return ranker.with_model(model)


def _parameter(name: str, spec: Any) -> Any:
    if isinstance(spec, dict) and spec.get("kind") == "unknown":
        return NotInFile(str(spec.get("reason")))
    try:
        return from_spec(spec)
    except KeyError:
        raise
    except LookupError as error:
        return NotInFile(f"{name}: {error.args[0]}")


def _check_spellings(ranker: Ranker) -> None:
    """Refuse scorers, solvers and bounds that do not exist; what a file could not hold is left alone."""
    bound = "auto" if ranker.bound is None else ranker.bound
    parsers: tuple[tuple[Any, Callable[[Any], object]], ...] = (
        (ranker.scorer, parse_scorer),
        (ranker.solver, parse_solver),
        (bound, parse_bound),
    )
    for value, parse in parsers:
        if not isinstance(value, NotInFile):
            parse(value)
