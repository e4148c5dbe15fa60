"""Totally corrective refits: the leaves of all grown trees fitted at once by a convex solver."""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from marginrank.losses.score_risk import ScoreRisk
from marginrank.risk import RankingRisk
from marginrank.scorers.leaves import PreparedLeaves
from marginrank.scorers.staged import Stage, Towards
from marginrank.scorers.sums import Sum
from marginrank.scorers.trees import Trees
from marginrank.solvers.base import Solver
from marginrank.solvers.solution import Solution


class Refit:
    """Minimise ½‖θ − θ₀‖² + C·risk over the values θ of the leaves of all trees of a stage.

    θ₀ are the values that the leaves were grown with, or 0. What the trees were added to stays as it is. The parameters
    of the problem are θ − θ₀, so that solvers which want the regulariser to be minimal at 0 take it too.

    Args:
        stage: The grown trees, alone or on top of another model.
        risk: The risk that they were grown on.
        towards: ``grown`` or ``zero``.
        n_jobs: Number of threads.
    """

    def __init__(self, stage: Stage, risk: ScoreRisk, towards: Towards, n_jobs: int | None = None) -> None:
        trees = _trees(stage)
        if trees is None:
            raise TypeError(f"a {stage.form.kind} model has no leaves")
        prepared = PreparedLeaves(risk.queries, trees, n_jobs)
        self._stage = stage
        self._fixed, grown = np.split(stage.theta, [len(stage.theta) - trees.n_parameters])
        self._origin = grown if towards == "grown" else np.zeros_like(grown)
        self._start = grown - self._origin
        base = prepared.scores(self._origin)
        if isinstance(stage.form, Sum):
            below = stage.form.parts[0]
            base = base + below.score(self._fixed, risk.queries.X, n_jobs)
        #: The problem, in θ − θ₀.
        self.problem = RankingRisk(prepared, risk.loss.definition, n_jobs, base=base)

    def minimize(self, C: float, solver: Solver) -> tuple[Stage, Solution]:
        """Return the stage with refitted leaves, and the solution with its certificate."""
        solution = solver.minimize(self.problem, C, self._start)
        theta = np.concatenate([self._fixed, self._origin + solution.theta])
        return Stage(self._stage.form, theta, solution.risk), replace(solution, theta=theta)


def has_leaves(stage: Stage) -> bool:
    """Return whether there is a tree; a model that trees were to be added to may be kept without any."""
    return _trees(stage) is not None


def _trees(stage: Stage) -> Trees | None:
    last = stage.form.parts[-1] if isinstance(stage.form, Sum) else stage.form
    return last if isinstance(last, Trees) else None
