"""A new solver is one new file, and so is a new scorer."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from marginrank.runtime.option_objects import from_spec, registered, to_spec
from marginrank.scorers.base import Scorer, parse_scorer
from marginrank.solvers.base import Solver, parse_solver

AVERAGED = '''
"""Subgradient steps with averaging."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from marginrank.solvers.base import Solver
from marginrank.solvers.problem import Problem
from marginrank.solvers.stopping import SolverProgress
from marginrank.solvers.solution import Solution
from marginrank.typing import FloatArray


@dataclass(frozen=True)
class Averaged(Solver):
    """Subgradient steps with averaging, Shalev-Shwartz et al. (2007)."""

    name = "averaged"
    needs = ("blocks",)
    epochs: int = 10

    def minimize(self, problem: Problem, C: float, start: FloatArray | None = None) -> Solution:
        """Step down block by block; an epoch is an iteration."""
        progress, rng = SolverProgress(self, problem, C), np.random.default_rng(0)
        theta = np.zeros(problem.n_parameters) if start is None else np.array(start, dtype=np.float64)
        mean, steps = theta.copy(), 0
        with progress.interruptible():
            for epoch in range(1, self.epochs + 1):
                for block in rng.permutation(problem.n_blocks).tolist():
                    steps += 1
                    slope = theta + C * problem.n_blocks * problem.block(block, theta)[1]
                    theta = theta - slope / steps
                    mean += (theta - mean) / steps
                progress.offer(mean.copy(), problem(mean)[0])
                if progress.note(-np.inf, 2.0 * epoch, settled=epoch == self.epochs):
                    break
        return progress.solution()
'''

SQUARES = '''
"""Weights of features and of their squares."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from marginrank.data.queries import Queries
from marginrank.scorers.base import PreparedScorer, Scorer
from marginrank.scorers.form import Form
from marginrank.scorers.terms import Term


@dataclass(frozen=True)
class Squares(Scorer):
    """Score by x and power times x squared."""

    name = "squares"
    power: float = 1.0

    def prepare(self, queries: Queries, n_jobs: int | None = None) -> PreparedSquares:
        """Prepare for scoring."""
        return PreparedSquares(queries, self.power)


@dataclass(frozen=True, eq=False)
class SquareTerm(Term):
    """Weights of both, and the power."""

    kind = "squares"
    form: SquareWeights
    theta: np.ndarray

    def score(self, X):
        return self.form.features(np.asarray(X, dtype=np.float64)) @ self.theta


@dataclass(frozen=True)
class SquareWeights(Form):
    """Weights of both."""

    kind = "squares"
    sized_by = "weight"
    n_features: int
    power: float

    @property
    def n_parameters(self):
        return 2 * self.n_features

    def features(self, X):
        return np.hstack([X, self.power * np.square(X)])

    def terms(self, theta):
        return (SquareTerm(self, theta),)

    def sizes(self, theta):
        return np.abs(theta.reshape(2, -1)).sum(axis=0)

    def arrays(self):
        return {"power": np.array([self.power])}

    @classmethod
    def from_arrays(cls, arrays, n_features):
        return cls(n_features, float(arrays["power"][0]))


class PreparedSquares(PreparedScorer):
    def __init__(self, queries, power):
        self.queries, self.form = queries, SquareWeights(queries.n_features, power)
        self.n_parameters, self._X = self.form.n_parameters, self.form.features(queries.X.astype(np.float64))
        self.n_bytes = self._X.nbytes

    def weights(self, theta):
        return theta

    def score(self, weights, scores, start, stop):
        scores[start:stop] = self._X[start:stop] @ weights

    def pull_back(self, gradient, gradient_sums, start, stop):
        gradient_sums += gradient[start:stop] @ self._X[start:stop]

    def gradient(self, gradient_sums):
        return gradient_sums
'''

#: Puts one more folder on the path of each package: as good as a copy of the file in the first.
EXTEND = """
import importlib.util, sys
for name in ("solvers", "scorers"):
    spec = importlib.util.find_spec(f"marginrank.{name}")
    spec.submodule_search_locations.append(name)
    sys.modules[spec.name] = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(sys.modules[spec.name])
"""
DATA = """
import numpy as np
from marginrank import Queries, Ranker, load
rng = np.random.default_rng(0)
X = rng.standard_normal((60, 3))
grades = (X[:, 0] - X[:, 1] ** 2 + 0.3 * rng.standard_normal(60) > 0).astype(float)
queries = Queries.from_arrays(X, grades, group=[6] * 10)
"""
USE_SOLVER = """
from marginrank.solvers import parse_solver
solver = parse_solver("averaged(epochs=30)")
assert solver.epochs == 30 and str(solver) == "averaged(epochs=30)", solver
best = Ranker("svmmap", C=1.0, solver="bundle").fit(queries)
for given in ("averaged(epochs=30)", solver):
    ranker = Ranker("svmmap", C=1.0, solver=given).fit(queries)
    assert best.objective_ <= ranker.objective_ < 1.2 * best.objective_, (best.objective_, ranker.objective_)
    assert ranker.n_iter_ == 30 and ranker.solution_.reason == "stationary" and ranker.gap_ == np.inf
    ranker.save("solver.safetensors", overwrite=True)
from marginrank.solvers import FrankWolfe
Ranker("svmmap", solver=FrankWolfe(idle=3)).fit(queries).save("known.safetensors")
ranker.set_params(solver__epochs=2)
assert ranker.fit(queries).n_iter_ == 2
try:
    Ranker("svmmap", bound="tight", solver="averaged").fit(queries)
except ValueError as error:
    assert "solver 'averaged' needs a convex risk" in str(error), error
else:
    raise AssertionError("a risk that is not convex was taken")
"""
LOAD_SOLVER = """
assert str(load("known.safetensors").solver) == "frank-wolfe(idle=3)"
ranker = load("solver.safetensors")
assert str(ranker.solver) == "averaged(epochs=30)", ranker.solver
assert ranker.fit(queries).n_iter_ == 30
"""
USE_SCORER = """
from marginrank.scorers import parse_scorer
assert parse_scorer("squares(power=2)").power == 2
for given in ("squares(power=2)", parse_scorer("squares(power=2)")):
    ranker = Ranker("svmmap", C=100.0, scorer=given, scaling=None).fit(queries)
    assert ranker.solution_.converged
    scores = np.hstack([X, 2 * X**2]) @ ranker.model_.theta
    assert np.allclose(ranker.predict(queries), scores, rtol=1e-12)
    ranker.save("scorer.safetensors", overwrite=True)
linear = Ranker("svmmap", C=100.0, scaling=None).fit(queries)
assert ranker.objective_ < 0.9 * linear.objective_, "the squares matter here"
np.save("scores.npy", scores)
"""
LOAD_SCORER = """
ranker = load("scorer.safetensors")
assert np.array_equal(ranker.predict(queries), np.load("scores.npy"))
assert str(ranker.scorer) == "squares(power=2)", ranker.scorer
assert np.allclose(ranker.fit(queries).predict(queries), np.load("scores.npy"), atol=1e-6)
"""
WRITE = "from marginrank.data import write_letor\nwrite_letor('train.txt', queries)\n"
COMMANDS = """
from marginrank.cli.app import app
app(sys.argv[1:], standalone_mode=False)
app(["inspect", "new.safetensors"])
"""


def run_python(program: str, folder: Path, *arguments: str) -> str:
    command = [sys.executable, "-c", EXTEND + program, *arguments]
    done = subprocess.run(command, capture_output=True, text=True, check=False, cwd=folder)
    assert done.returncode == 0, done.stderr + done.stdout
    return done.stdout


def test_a_file_in_the_folder_is_all_there_is_to_it(tmp_path):
    """It is spelled, trained with, saved, loaded and fitted again by another process, and an option of the command."""
    for package, source in (("solvers", AVERAGED), ("scorers", SQUARES)):
        (tmp_path / package).mkdir()
        (tmp_path / package / "dropped.py").write_text(source)
    run_python(DATA + WRITE + USE_SOLVER + USE_SCORER, tmp_path)
    options = ("--solver", "averaged(epochs=5)", "--scorer", "squares(power=2)")
    words = ["train", "train.txt", "-C", "1", *options, "-o", "new.safetensors"]
    shown = run_python(DATA + LOAD_SOLVER + LOAD_SCORER + COMMANDS, tmp_path, *words).rpartition("new.safetensors")[2]
    assert "averaged" in shown
    assert "squares" in shown


def test_names_that_are_unknown_are_explained():
    with pytest.raises(ValueError, match=r"unknown solver 'bundel'; did you mean 'bundle'\?"):
        parse_solver("bundel")
    known = "known: auto, bundle, cccp, descent, frank-wolfe, n-slack"
    with pytest.raises(ValueError, match=rf"unknown solver 'simplex'; {known}"):
        parse_solver("simplex")
    with pytest.raises(ValueError, match=rf"cannot read solver '\?'; give one, spelled like auto .*; {known}"):
        parse_solver("?")
    with pytest.raises(
        ValueError, match=r"bundle has no parameter 'bins'; it has tol, max_iter, time_limit, step, idle"
    ):
        parse_solver("bundle(bins=3)")
    with pytest.raises(ValueError, match=r"'tol' is not name=value"):
        parse_solver("bundle(tol)")
    with pytest.raises(TypeError, match="solver is 3; give a Solver or its spelling"):
        parse_solver(3)
    with pytest.raises(ValueError, match=r"unknown scorer 'linaer'; did you mean 'linear'\?"):
        parse_scorer("linaer")
    assert list(registered(Scorer)) == ["adaptive", "additive", "boosted", "kernel", "linear", "neural"]
    solvers = ["auto", "bundle", "cccp", "descent", "frank-wolfe", "n-slack", "newton", "stochastic", "subgradient"]
    assert list(registered(Solver)) == solvers


def test_two_classes_cannot_share_a_name_in_files():
    registered(Scorer)  # loads the others
    with pytest.raises(
        TypeError, match=r"marginrank\.scorers\.linear\.scorer has a class Linear already; give yours another"
    ):

        class Linear(Scorer):
            """Another one, which files would be read with."""

    assert parse_scorer("linear").__module__ == "marginrank.scorers.linear.scorer"
    assert from_spec(to_spec(parse_scorer("linear"))) == parse_scorer("linear")
