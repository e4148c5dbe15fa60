"""A transformer of PyTerrier that ranks with a saved model or fusion."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np

from marginrank.errors import DataError
from marginrank.integrations.document_fields import as_function
from marginrank.runtime.text import count, listed
from marginrank.scorers.scoring_function import ScoringFunction

try:
    import pandas as pd
    import pyterrier as pt
except ImportError:
    raise ImportError("marginrank.integrations.pyterrier needs PyTerrier: pip install python-terrier") from None


class Reranker(pt.Transformer):
    """Ranks the documents of each query by a model whose features are columns, or in ``features``.

    A frame of results has ``qid`` and ``docno``. The inputs of the model are columns of their names, or those given,
    where ``score`` is the score of the transformer before. Without such columns, they are the arrays in ``features``
    that ``**`` makes, in the order of the model. NaN is a missing value, if the model takes them, or a run that did not
    return the document.

    >>> pipeline = bm25 >> (pt.Transformer.identity() ** dense) >> Reranker("model.safetensors")  # doctest: +SKIP

    Args:
        model: A model file, of a ranker or a fusion, or what `marginrank.model.scoring.load` returns.
        columns: Columns with the inputs of the model, in its order; by default those of their names.
    """

    def __init__(self, model: str | Path | ScoringFunction, columns: Sequence[str] | None = None) -> None:
        self.model, self.columns = model, columns
        self._function = as_function(model)

    def transform(self, inp: pd.DataFrame) -> pd.DataFrame:
        """Return the frame with the scores of the model, and ranks by them."""
        pt.validate.result_frame(inp, extra_columns=self._needed(list(inp.columns)), context=self)
        frame = inp.reset_index(drop=True)
        table = self._table(frame)
        scores = np.empty(len(frame))
        for rows in frame.groupby("qid", sort=False).indices.values():
            scores[rows] = self._function.score(table[rows])
        return pt.model.add_ranks(frame.assign(score=scores))

    def _needed(self, given: Sequence[str]) -> list[str]:
        """Return the columns that hold the inputs of the model."""
        names = list(self._function.inputs if self.columns is None else self.columns)
        return ["features"] if self.columns is None and "features" in given and not set(names) <= set(given) else names

    def _table(self, frame: pd.DataFrame) -> Any:
        inputs, names = self._function.inputs, self._needed(list(frame.columns))
        model = f"the model has {len(inputs)} inputs: {listed(inputs, 5)}"
        if len(names) != len(inputs) and names != ["features"]:
            raise DataError(f"columns has {count(len(names), 'name')}; {model}")
        if not len(frame):
            return np.empty((0, len(inputs)))
        try:
            table = np.stack(frame["features"].tolist()) if names == ["features"] else frame[names].to_numpy(float)
        except (TypeError, ValueError) as error:
            raise DataError(f"{listed(names, 5)}: {error}; give numbers, as many for each document") from None
        if table.shape[1] != len(inputs):
            raise DataError(f"features has {count(table.shape[1], 'value')} for a document; {model}")
        if not self._function.takes_missing and np.isnan(table).any():
            row, column = np.argwhere(np.isnan(table))[0].tolist()
            place = f"qid {frame['qid'][row]!r}, docno {frame['docno'][row]!r}"
            raise DataError(f"{place}: {inputs[column]} is NaN, and the model needs a number; fill it")
        return table
