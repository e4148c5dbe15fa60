"""The tight bound: its starting point and its options."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Final, Literal, TypeAlias, cast

import numpy as np

from marginrank.errors import DataError
from marginrank.losses.base import Loss
from marginrank.losses.pairwise import PairwiseHinge
from marginrank.losses.squared_error import SquaredError
from marginrank.runtime.option_objects import OptionObject, check_C, parse_spelling
from marginrank.scorers.base import Prepared
from marginrank.solvers.auto import Auto
from marginrank.solvers.base import Solver
from marginrank.training.checkpoint import Log, checkpointed
from marginrank.training.partitioned_risk import ranking_risk
from marginrank.typing import FloatArray

_STARTS: Final[Mapping[str, Loss]] = {"ranksvm": PairwiseHinge(power=2), "regression": SquaredError()}


@dataclass(frozen=True)
class Tight(OptionObject):
    """The tight bound, which is closer to the measure than the hinge, but not convex.

    The regularizer is ½‖w − w0‖², and training starts at w0; Chapelle, Le and Smola (2007) §4.

    Args:
        start: w0: that of ``ranksvm`` or ``regression``, which is trained first, or the weights themselves.
        start_C: C of the method that gives w0.
        anneal: Number of iterations over which the tight bound replaces the hinge; 0 for none.
    """

    family = "bound"
    example = "tight or tight(start=regression)"
    name = "tight"
    start: Literal["ranksvm", "regression"] | Sequence[float] | FloatArray = "ranksvm"
    start_C: float = 100.0  # noqa: N815
    anneal: int = 0

    def __post_init__(self) -> None:
        check_C(self.start_C, "start_C")
        super().__post_init__()

    def center(self, scorer: Prepared, limits: Solver, n_jobs: int | None = None, log: Log | None = None) -> FloatArray:
        """Return w0 for given queries, within the limits of a solver."""
        if isinstance(self.start, str):
            risk = ranking_risk(scorer, _STARTS[self.start], n_jobs)
            solver = Auto(tol=1e-3, max_iter=limits.max_iter, time_limit=limits.time_limit)
            return solver.minimize(checkpointed(risk, log, f"start {self.start}"), self.start_C).theta
        weights = np.asarray(self.start, dtype=np.float64)
        if weights.shape != (scorer.n_parameters,):
            raise DataError(
                f"start has shape {weights.shape} for {scorer.n_parameters} parameters; give one number each"
            )
        return weights


#: What is minimized: the hinge, the tight bound, or the hinge unless it is minimal at 0.
BoundChoice: TypeAlias = Literal["auto", "hinge"] | Tight


def parse_bound(spec: str | Tight) -> BoundChoice:
    """Read ``auto``, ``hinge``, or the spelling of a `Tight`, such as ``tight`` or ``tight(anneal=10)``.

    >>> parse_bound("tight(start=regression)").start
    'regression'
    """
    return cast("BoundChoice", parse_spelling(Tight, spec, words=("auto", "hinge")))
