"""The stochastic subgradient method."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from marginrank.solvers.base import Solver
from marginrank.solvers.problem import Problem
from marginrank.solvers.solution import Solution
from marginrank.solvers.stopping import SolverProgress, evaluate
from marginrank.typing import FloatArray


@dataclass(frozen=True)
class Stochastic(Solver):
    """Subgradient steps on batches of blocks, projected and averaged.

    Pegasos, Shalev-Shwartz, Singer, Srebro and Cotter (2011): step t has length 1/t, and is projected onto the ball
    about the center that the optimum lies in, ½‖θ − center‖² ≤ C·risk(center). A step ends where the plane of its
    blocks is 0, since blocks are never negative; Asi and Duchi (2019). The average counts step t with weight t,
    Lacoste-Julien, Schmidt and Bach (2012). An iteration goes through all blocks once, in random order, and evaluates
    the risk at the average, which takes two passes. From a start, steps are as short as after a first iteration.

    The planes of the blocks in an iteration, as far as steps went down them, add up to a plane below the risk, and so
    do averages of such planes: that is the lower bound. The gap decreases like 1/t: to about 1% in a few
    passes, but not much further. For a small gap use ``bundle`` or ``frank-wolfe``.

    Args:
        tol: Gap between objective and lower bound at which the solver stops, as a share of the objective and of the
            most that it can fall from the center, whichever is smaller.
        max_iter: Maximum number of iterations, of two passes each.
        time_limit: Maximum number of seconds.
        callback: Called after every iteration with the `Step` and the best θ so far; True stops.
        batch: Number of blocks in a step.
        random_state: Seed of the order of the blocks; by default that of the ranker, and 0 without one.

    >>> from marginrank import Queries
    >>> from marginrank.losses import StructuredLoss
    >>> from marginrank.training.partitioned_risk import empirical_risk
    >>> queries = Queries.from_arrays([[1.0], [0.0]] * 8, [1, 0] * 8, group=[2] * 8)
    >>> solution = Stochastic().minimize(empirical_risk(queries, StructuredLoss("auc")), C=0.1)
    >>> solution.theta.round(2).tolist(), round(solution.primal, 3), solution.converged     # 2C, and C − 2C²
    ([0.2], 0.08, True)
    """

    name = "stochastic"
    needs = ("blocks",)
    supports = ("signs", "center")
    tol: float = 1e-2
    max_iter: int = 50
    batch: int = 1
    random_state: int | None = None

    def __post_init__(self) -> None:
        super().__post_init__()
        if not self.batch >= 1:
            raise ValueError(f"batch is {self.batch}; a step needs at least one block")

    def minimize(self, problem: Problem, C: float, start: FloatArray | None = None) -> Solution:
        """Minimize ½‖θ − center‖² + C·risk(θ), to within about 1%."""
        progress = SolverProgress(self, problem, C)
        rng = np.random.default_rng(self.random_state or 0)
        n_steps = -(-problem.n_blocks // self.batch)
        with progress.interruptible():
            center = problem.inside(problem.origin)
            at_center = float(evaluate(problem, center)[0].sum())
            progress.offer(center, at_center)
            # The optimum is no higher than the center, and a risk is never negative.
            radius = float(np.sqrt(2.0 * problem.objective(center, at_center, C)))
            theta = center if start is None else problem.inside(start)
            walk = _Walk(problem, C, radius, theta, 0 if start is None else n_steps)
            bound, passes = -np.inf, 1.0
            while True:
                for blocks in np.array_split(rng.permutation(problem.n_blocks), n_steps):
                    walk.step(blocks.tolist())
                    passes += len(blocks) / problem.n_blocks
                    if progress.late:
                        break
                else:
                    bound = walk.bound()
                progress.offer(walk.mean, float(evaluate(problem, walk.mean)[0].sum()))
                passes += 1.0
                if progress.note(bound, passes):
                    break
        return progress.solution()


class _Walk:
    """Steps, their average, and the sum of their planes."""

    def __init__(self, problem: Problem, C: float, radius: float, theta: FloatArray, before: int) -> None:
        self.problem, self.C, self.radius, self.before = problem, C, radius, before
        self.theta = self.mean = theta
        #: Steps so far; sum of the planes of this iteration, as gradient and offset; average over all iterations.
        self.n_steps = self.n_rounds = 0
        self._gradient, self._offset = np.zeros_like(theta), 0.0
        self._average = np.zeros_like(theta), 0.0

    def step(self, blocks: list[int]) -> None:
        """Step down some blocks, as far as their plane is above 0."""
        value, gradient = 0.0, np.zeros_like(self.theta)
        for block in blocks:
            block_value, block_gradient = self.problem.block(block, self.theta)
            value += block_value
            gradient += block_gradient
        self.n_steps += 1
        length = 1.0 / (self.before + self.n_steps)
        shrunk = self.theta - length * (self.theta - self.problem.origin)
        longest = length * self.C * self.problem.n_blocks / len(blocks)
        height = value + float(gradient @ (shrunk - self.theta))
        decrease = longest * float(gradient @ gradient)
        taken = max(0.0, height / decrease) if height < decrease else float(decrease > 0)
        self._gradient += taken * gradient
        self._offset += taken * (value - float(gradient @ self.theta))
        self.theta = self._projected(shrunk - taken * longest * gradient)
        share = 2.0 / (self.n_steps + 1)
        self.mean = (1.0 - share) * self.mean + share * self.theta

    def _projected(self, theta: FloatArray) -> FloatArray:
        v = theta - self.problem.origin
        norm = float(np.linalg.norm(v))
        return self.problem.inside(theta if norm <= self.radius else self.problem.origin + v * (self.radius / norm))

    def bound(self) -> float:
        """Return the lower bound of the planes of all iterations, the later ones with more weight."""
        self.n_rounds += 1
        share = 2.0 / (self.n_rounds + 1)
        gradient = (1.0 - share) * self._average[0] + share * self._gradient
        offset = (1.0 - share) * self._average[1] + share * self._offset
        self._average, self._gradient, self._offset = (gradient, offset), np.zeros_like(gradient), 0.0
        minimizer = self.problem.inside(self.problem.origin - self.C * gradient)
        # A risk is never negative, so 0 is a bound too.
        return max(self.problem.objective(minimizer, offset + float(gradient @ minimizer), self.C), 0.0)
