"""Documents of other frameworks whose fields hold the features of a model, or the scores of its runs."""

from __future__ import annotations

from collections.abc import Callable, Hashable, Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any, TypeVar

import numpy as np

from marginrank.errors import DataError
from marginrank.integrations.candidates import scores_of
from marginrank.model import scoring
from marginrank.runtime.text import listed
from marginrank.scorers.scoring_function import FusedFunction, Ranking, ScoringFunction

Item = TypeVar("Item")


def as_function(model: str | Path | ScoringFunction) -> ScoringFunction:
    """Return the scoring function of a model file, of a ranker or a fusion."""
    if isinstance(model, ScoringFunction):
        return model
    if isinstance(model, str | Path):
        return scoring.load(model)
    raise TypeError(
        f"this is a {type(model).__name__}; give the path of a model file, which save writes, or what "
        "marginrank.model.scoring.load returns"
    )


def rerank_fields(model: ScoringFunction, documents: Sequence[Mapping[str, Any]], k: int | None, place: str) -> Ranking:
    """Rank the documents of one query by fields that hold the inputs of the model; None and NaN are missing values.

    Args:
        model: The model.
        documents: The fields of each document, of which the model takes its inputs.
        k: Number of documents; all by default.
        place: What the fields of a document are called, for errors.

    Raises:
        DataError: A document has no such field, or it is not a number.
    """
    what = "run" if isinstance(model, FusedFunction) else "feature"
    table = np.empty((len(documents), len(model.inputs)))
    for row, document in enumerate(documents):
        for column, name in enumerate(model.inputs):
            at = f"document {row}: {place}[{name!r}]"
            if name not in document:
                optional = model.takes_missing and name not in getattr(model, "context", ())
                advice = "set it to None if it is missing" if optional else "set it"
                raise DataError(f"{at} is not there, which the model needs ({listed(model.inputs, 5)}); {advice}")
            value = document[name]
            if value is not None and not isinstance(value, int | float | np.number | np.bool_):
                raise DataError(f"{at} is {value!r}; give a number")
            table[row, column] = np.nan if value is None else value
            if np.isnan(table[row, column]) and not model.takes_missing:
                advice = "this model needs all runs to score a document" if what == "run" else model.nan_advice
                raise DataError(f"{at} is {value}; {advice}")
    return model.rerank(table, k)


def merge_runs(
    runs: Mapping[str, Iterable[Item]], key: Callable[[Item], Hashable], score: Callable[[Item], float | None]
) -> list[tuple[Item, dict[str, float | None]]]:
    """Merge what several retrievers returned: each document once, with its score in each run.

    >>> runs = {"bm25": [("a", 7.0), ("b", 5.0)], "dense": [("c", 0.9), ("b", 0.8)]}
    >>> [(name, scores) for (name, _), scores in merge_runs(runs, lambda pair: pair[0], lambda pair: pair[1])]
    [('a', {'bm25': 7.0, 'dense': None}), ('b', {'bm25': 5.0, 'dense': 0.8}), ('c', {'bm25': None, 'dense': 0.9})]
    """
    items: dict[Hashable, Item] = {}
    scores: dict[str, dict[Hashable, float]] = {}
    for name, run in runs.items():
        keyed = [(key(item), item) for item in run]
        scores[name] = scores_of(((at, score(item)) for at, item in keyed), f"run {name!r}")
        for at, item in keyed:
            items.setdefault(at, item)
    return [(item, {name: scores[name].get(at) for name in runs}) for at, item in items.items()]
