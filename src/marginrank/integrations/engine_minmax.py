"""Min-max scaling as search engines compute it, which differs from ours for equal scores and single hits."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

from marginrank.data.queries import Queries
from marginrank.errors import warn
from marginrank.fusion.fusion import Fusion
from marginrank.fusion.run_pool import RunScores
from marginrank.integrations.candidates import runs_of
from marginrank.preparation.run_features import RRF_K
from marginrank.typing import BoolArray, FloatArray


def check_depth(fusion: Fusion, k: int) -> None:
    """Warn if retrievers return fewer documents than in training, over which scores are scaled."""
    depth = fusion.trained_on_["depth"]
    if fusion.kinds_ == "minmax" and k < depth:
        warn(
            f"k is {k}, and in training retrievers returned up to {depth} documents, over which min-max scales scores; "
            f"give k={depth}, and take the first hits"
        )


@dataclass(frozen=True)
class EngineMinMax:
    """The min-max scaling of an engine for the hits of one retriever.

    Args:
        engine: Name of the engine.
        equal: What equal scores become, in words.
        are_equal: Returns whether the engine takes all scores of a retriever for equal, by document and retriever.
        unit: Returns the scaled scores, by document and retriever.
    """

    engine: str
    equal: str
    are_equal: Callable[[RunScores], BoolArray]
    unit: Callable[[RunScores], FloatArray]

    def check(self, candidates: Queries) -> Queries:
        """Warn if a retriever returned a single hit or equal scores; return the candidates."""
        rows = np.arange(len(candidates.X)) if candidates.order is None else candidates.order
        equal = self.are_equal(RunScores(candidates))[rows[candidates.query_offsets[:-1]]]
        if equal.any():
            query, run = np.argwhere(equal)[0].tolist()
            names = candidates.feature_names or ()
            warn(
                f"{np.count_nonzero(equal)} of {equal.size} lists of hits are a single hit or have equal scores, such "
                f"as that of retriever {names[run]!r} for query {str(candidates.query_ids[query])!r}; min-max scaling "
                f"of {self.engine} gives these hits {self.equal}, and training gives them 0: train Fusion('rrf'), or "
                "let the retriever return more hits"
            )
        return candidates

    def fused_scores(self, fusion: Fusion, candidates: Queries) -> FloatArray:
        """Return the scores of hybrid searches with a fusion, whose weights become shares of their sum."""
        if fusion.kinds_ == "minmax":
            scores, unit = self._minmax_scores(fusion, self.check(candidates)), 1
        else:
            scores, unit = fusion.predict(candidates), RRF_K + 1
        return np.asarray(scores / (unit * sum(fusion.weights().values())))

    def _minmax_scores(self, fusion: Fusion, candidates: Queries) -> FloatArray:
        """Return the scores of a min-max fusion with the scaling of the engine."""
        runs = RunScores(candidates)
        order = [(candidates.feature_names or ()).index(run) for run in runs_of(fusion)]
        difference = np.nan_to_num(self.unit(runs) - runs.unit)[:, order]
        return np.asarray(fusion.predict(candidates) + difference @ np.array(list(fusion.weights().values())))
