"""Joint learning of the weights and the profile A of φdorm; Chapelle, Le and Smola (2007) §6."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import partial
from typing import Any, Final, cast

import numpy as np
import numpy.typing as npt
from sklearn.base import clone

from marginrank.data.inputs import Validation, as_queries
from marginrank.data.partitions import in_memory
from marginrank.data.queries import Queries, in_canonical_order
from marginrank.errors import DataError, Parameter, ParameterError
from marginrank.losses.feature_maps import Positional, parse_map
from marginrank.losses.structured import PreparedStructured, StructuredLoss
from marginrank.measures import parse_measure
from marginrank.model.model import Model
from marginrank.ranker.input_queries import validation_queries
from marginrank.ranker.ranker import Ranker
from marginrank.ranker.resolution import resolve
from marginrank.training.plan import Plan
from marginrank.training.query_weighting import weighted
from marginrank.typing import FloatArray

#: Relative decrease of the objective below which learning ends.
_MIN_DECREASE: Final = 1e-3
#: Length of the last subgradient step relative to the first.
_LAST_STEP: Final = 1e-3


@dataclass(frozen=True, eq=False)
class LearnedProfile:
    """A ranker with its learned profile, and the history of learning.

    Args:
        ranker: The fitted ranker; its loss has the profile, and so has its model file.
        profile: A at the first ranks, down to 0.
        objectives: The objective after each round of training the weights: ½‖w − w0‖² + C·risk.
        validation: With validation queries, the measure on them after each round; the best round is the result.
    """

    ranker: Ranker
    profile: FloatArray
    objectives: tuple[float, ...]
    validation: tuple[float, ...] = ()


def learn_profile(
    ranker: Ranker,
    X: Queries | npt.ArrayLike,
    y: npt.ArrayLike | None = None,
    *,
    qid: npt.ArrayLike | None = None,
    group: npt.ArrayLike | None = None,
    valid: Validation | None = None,
    rounds: int = 10,
    steps: int = 50,
) -> LearnedProfile:
    """Train weights and profile in turn, starting from the profile of the ranker's loss.

    The risk is a function of the products A(r)·w alone. Given A, training w is the usual problem. Given w, and so the
    scores s, the slack of a query is

        ξ(A) = max_y [Δ(y) + Σ_r A(r)·s_y(r)] − Σ_r A(r)·s_y*(r)

    with s_y(r) the score at rank r of ranking y: a maximum of affine functions of A, so the risk is convex and
    piecewise linear in A. Under the tight bound, y* is the ranking by score, which has the largest a(y)·s for every A
    that does not rise, so the same holds there. A moves along negative subgradients, and is projected onto the profiles
    that do not rise, end at 0, and have at most the norm ‖A‖ of the first: A times c and w over c have the
    same risk, so without a limit A would grow and w vanish. A constant added to A changes nothing.

    Both steps never raise the objective ½‖w − w0‖² + C·risk(w, A), which is convex in each but not in both: learning
    ends at a point that neither step improves by a thousandth. With validation queries, A lowers their risk instead of
    that of the training queries, like a kernel parameter, and the result is the round with the best measure on them.

    Args:
        ranker: A `Ranker` with a `StructuredLoss` under ``dorm``, whose profile is the first; it is not changed. If it
            is fitted, that was the first round.
        X: Training queries, or features with one row per document.
        y: Grades of the rows.
        qid: The query of each row, in any order.
        group: Instead of ``qid``, the number of consecutive rows of each query.
        valid: Validation queries, or (X, y, qid).
        rounds: Maximum number of rounds: of training w, and then A.
        steps: Number of subgradient steps for A in a round.

    >>> from marginrank import Ranker
    >>> queries = Queries.from_arrays([[1.0], [0.0], [0.5], [0.2]], [1, 0, 0, 1], group=[2, 2])
    >>> learned = learn_profile(Ranker(loss=StructuredLoss("ndcg@2", "dorm"), scaling=None), queries)
    >>> bool((np.diff(learned.profile) <= 0).all()), learned.ranker.loss.feature_map.shape == tuple(learned.profile)
    (True, True)
    >>> learned.objectives[-1] <= learned.objectives[0]
    True
    """
    if rounds < 1 or steps < 1:
        raise ValueError(f"rounds is {rounds} and steps {steps}; at least one of each is needed")
    plan = resolve(ranker)
    loss, capabilities = _loss_of(plan), plan.capabilities
    sort = partial(in_canonical_order, keep_rows=loss.depends_on_rows)
    given = as_queries(X, y, qid, group, None, allow_nan=capabilities.takes_nan, nan_advice=capabilities.nan_advice)
    queries = held_out = sort(given.with_unjudged(plan.unjudged))
    if valid is not None:
        validation = in_memory(validation_queries(plan, queries, valid), "a profile")
        held_out = sort(validation.with_unjudged(plan.unjudged))
    _check_queries(loss, queries, held_out)
    profile = _first_profile(loss, [queries, held_out])
    radius = float(np.linalg.norm(profile))
    history: list[_Round] = []
    for _ in range(rounds):
        fitted = _fitted(ranker, profile, queries, history[-1].ranker.model_ if history else None)
        history.append(_Round(fitted, profile, None if valid is None else fitted.score(held_out)))
        if len(history) > 1 and history[-1].objective > (1.0 - _MIN_DECREASE) * history[-2].objective and valid is None:
            break
        targets = weighted(held_out, ranker.weighting)
        risk = ProfileRisk(replace(loss, bound=_trained_bound(fitted)), targets, fitted.predict(targets), ranker.n_jobs)
        moved = lower(risk, profile, radius, steps)
        if np.array_equal(moved, profile):
            break
        profile = moved
    best = history[-1] if valid is None else max(history, key=lambda entry: cast("float", entry.value))
    values = tuple(entry.value for entry in history if entry.value is not None)
    learned = np.array(_shape_of(best.profile))
    return LearnedProfile(best.ranker, learned, tuple(entry.objective for entry in history), values)


@dataclass(frozen=True, eq=False)
class _Round:
    ranker: Ranker
    profile: FloatArray
    value: float | None

    @property
    def objective(self) -> float:
        return self.ranker.objective_


class ProfileRisk:
    """The mean loss of documents with given scores, as a function of the profile.

    >>> queries = Queries.from_arrays([[0.0], [0.5]], [1, 0], group=[2])
    >>> risk = ProfileRisk(StructuredLoss("p@1", "dorm"), queries, np.array([0.0, 0.5]))
    >>> value, gradient = risk(np.array([3.0, 1.0]))                                  # 1 + (3 − 1)·0.5
    >>> value, gradient.tolist()
    (2.0, [0.5, -0.5])
    """

    def __init__(self, loss: StructuredLoss, queries: Queries, scores: FloatArray, n_jobs: int | None = None) -> None:
        self._loss, self._queries, self._scores, self._n_jobs = loss, queries, scores, n_jobs

    def __call__(self, profile: FloatArray) -> tuple[float, FloatArray]:
        """Return the risk and a subgradient by A, at a profile that does not rise."""
        loss = replace(self._loss, feature_map=Positional(_shape_of(profile)))
        prepared = loss.prepare(self._queries, n_jobs=self._n_jobs)
        if not isinstance(prepared, PreparedStructured):
            raise TypeError(f"{loss} has no profile")
        shares = prepared.shares(self._queries.query_weights)
        xi, _ = prepared(self._scores, self._n_jobs)
        by_rank = prepared.profile_gradient(shares)
        gradient = np.zeros_like(profile)
        gradient[: len(by_rank)] = by_rank
        return float(shares @ xi), gradient


def lower(
    risk: Callable[[FloatArray], tuple[float, FloatArray]], profile: FloatArray, radius: float, steps: int
) -> FloatArray:
    """Minimize a convex function of the profile by projected subgradient steps; return the best profile.

    Steps shrink geometrically, from the radius to a thousandth of it, which suits functions that are piecewise linear.
    """
    value, gradient = risk(profile)
    best, point = (value, profile), profile
    for length in np.geomspace(radius, _LAST_STEP * radius, steps).tolist():
        norm = float(np.linalg.norm(gradient))
        if norm == 0.0:
            break
        point = project(point - length / norm * gradient, radius)
        value, gradient = risk(point)
        if value < best[0]:
            best = value, point
    return best[1]


def project(profile: FloatArray, radius: float) -> FloatArray:
    """Return the nearest profile that does not rise, is not negative, and has at most the norm ``radius``.

    >>> project(np.array([3.0, 5.0, -1.0]), radius=10.0).tolist()
    [4.0, 4.0, 0.0]
    >>> project(np.array([3.0, 4.0, 0.0]) * 2.0, radius=np.sqrt(98.0) / 2.0).tolist()
    [3.5, 3.5, 0.0]
    """
    from scipy.optimize import isotonic_regression  # noqa: PLC0415

    falling = np.maximum(isotonic_regression(profile, increasing=False).x, 0.0)
    norm = float(np.linalg.norm(falling))
    return np.asarray(falling if norm <= radius else falling * (radius / norm))


def _loss_of(plan: Plan) -> StructuredLoss:
    """Return the loss whose profile is learned, and refuse plans without one."""
    loss = plan.loss
    if not isinstance(loss, StructuredLoss) or not isinstance(parse_map(loss.feature_map), Positional):
        what = f"{plan.label} is a baseline" if loss is None else f"this is {loss}"
        raise ValueError(f"only StructuredLoss(..., 'dorm') has a profile to learn; {what}")
    if not plan.capabilities.continues:
        raise ValueError(f"profiles are learned with a scorer that a solver trains, and {plan.scorer.name} is not")
    return loss


def _check_queries(loss: StructuredLoss, queries: Queries, held_out: Queries) -> None:
    """Refuse document groups and weights, and validation queries with a single grade each."""
    if queries.has_document_weights or held_out.has_document_weights:
        raise DataError("profiles are learned from grades, and these queries have document weights; leave them out")
    if any(loss.uses_groups(part.document_groups) for part in (queries, held_out)):
        raise ParameterError("profiles are learned without document groups; use ", Parameter("groups", "ignore"))
    if held_out is not queries and not loss.prepare(held_out).active.any():
        raise DataError("every validation query has a single grade; give queries with documents of different grades")


def _first_profile(loss: StructuredLoss, parts: list[Queries]) -> FloatArray:
    """Return the profile of the loss over all ranks that occur, 0 at the last."""
    longest = max(int(part.lengths.max(initial=1)) for part in parts)
    profile = parse_map(loss.feature_map).profile(longest + 1, parse_measure(loss.measure))
    return np.asarray((profile - profile[-1])[:longest])


def _shape_of(profile: FloatArray) -> tuple[float, ...]:
    """Return the profile as a shape: up to its first 0."""
    n_positive = int(np.count_nonzero(profile > 0))
    return (*profile[:n_positive].tolist(), 0.0)


def _fitted(ranker: Ranker, profile: FloatArray, queries: Queries, start: Model | None) -> Ranker:
    """Train the weights for a profile, from a model; without one, a fitted ranker is returned as it is."""
    if start is None and hasattr(ranker, "model_"):
        return ranker
    next_ranker: Ranker = clone(ranker).set_params(loss__feature_map=Positional(_shape_of(profile)))
    return next_ranker.fit(queries, start=start)


def _trained_bound(ranker: Ranker) -> Any:
    return ranker.model_.method.bound
