"""Rankers read from model files."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from marginrank.errors import DataError
from marginrank.methods.estimator import BaseRanker
from marginrank.methods.presets import all_presets
from marginrank.model.file_format import reading_model
from marginrank.model.model import Model
from marginrank.ranker.ranker import Ranker
from marginrank.ranker.resolution import NotInFile
from marginrank.runtime.option_objects import from_spec


def load(path: str | Path) -> BaseRanker:
    """Read a ranker written by `save`; its scores are the same, bit for bit, and it can be fitted again.

    Raises:
        FileNotFoundError: There is no such file.
        DataError: The file is not a model, damaged, cut short, or of a newer version.
    """
    model = Model.load(path)
    with reading_model(path):
        return ranker_of(model)


def ranker_of(model: Model) -> BaseRanker:
    """Return the fitted estimator that a model came from, with its parameters."""
    all_presets()  # loads the baselines
    kinds = {kind.__name__: kind for kind in _subclasses(BaseRanker)}  # type: ignore[type-abstract]
    estimator = model.method.estimator
    if estimator not in kinds:
        raise DataError(f"this is the model of a {estimator}; import the module that defines it before loading")
    ranker = kinds[estimator](**{name: _parameter(name, spec) for name, spec in model.method.parameters.items()})
    if isinstance(ranker, Ranker):
        ranker._check_spellings()
    ranker._adopt(model)
    return ranker


def _parameter(name: str, spec: Any) -> Any:
    if isinstance(spec, dict) and spec.get("kind") == "unknown":
        return NotInFile(str(spec.get("reason")))
    try:
        return from_spec(spec)
    except KeyError:
        raise
    except LookupError as error:
        return NotInFile(f"{name}: {error.args[0]}")


def _subclasses(kind: type[BaseRanker]) -> list[type[BaseRanker]]:
    own = kind.__subclasses__()
    return [*own, *(below for one in own for below in _subclasses(one))]
