"""Training continued with the next batch of a stream."""

from __future__ import annotations

import hashlib
import time
from dataclasses import replace

import numpy as np

from marginrank.data.queries import Queries
from marginrank.model.model import Model, Provenance
from marginrank.runtime.threads import one_blas_thread
from marginrank.scorers.base import Prepared
from marginrank.solvers.base import Callback
from marginrank.solvers.solution import Reason, Solution, Step
from marginrank.solvers.stream_state import StreamState
from marginrank.training.convex import bind_scorer, loss_minimizer
from marginrank.training.loss_minimizer import Fit, LossMinimizer, bound_of, health
from marginrank.training.partitioned_risk import ranking_risk
from marginrank.training.plan import Deadline, Plan, Start
from marginrank.training.trainer import make_models
from marginrank.typing import FloatArray


def train_batch(plan: Plan, model: Model, batch: Queries, callback: Callback | None = None) -> Model:
    """Return the model after one more batch; the same model if no query of the batch has two grades."""
    if batch.n_documents and batch.n_unjudged == batch.n_documents:
        return model
    if model.stream is None:
        raise ValueError(f"this model cannot be trained further, as it is one of {model.method.trained}; use fit")
    minimizer = loss_minimizer(plan, Deadline.after(plan.time_limit), callback).with_bound_of(model)
    scaling, scorer = bind_scorer(plan, batch, Start(model.theta, model))
    fit = fit_batch(minimizer, scorer, plan.C, model.theta, model.stream)
    if fit is None:
        return model
    (after,) = make_models(plan, batch, scaling, [(scorer.form, fit)])
    provenance = add_provenance(model.provenance, after.provenance)
    return replace(after, provenance=provenance, first_feature=model.first_feature, quantiles=model.quantiles)


def fit_batch(
    training: LossMinimizer, scorer: Prepared, C: float, theta: FloatArray, stream: StreamState
) -> Fit | None:
    """Take the step of a batch and return the parameters after it; None if every query has a single grade.

    The objective is that of the batch at these parameters: what it is for all batches together is not known, and there
    is no lower bound.

    Args:
        training: The loss, with the bound that is trained, and the solver.
        scorer: A scorer prepared for the batch.
        C: Weight of the risk of all batches.
        theta: The parameters before the batch.
        stream: What was remembered of the batches before.
    """
    began = time.perf_counter()
    risk = ranking_risk(scorer, training.loss, training.n_jobs)
    if not risk.weight:
        return None
    risk.center = stream.center(theta, risk.weight)
    with one_blas_thread():
        solver = training.solver.choose(risk)
        step = solver.minimize(risk, stream.share(risk.weight) * C, theta if stream.last is None else stream.last)
    mean, after = stream.after(step.theta, theta, risk.weight)
    value, at_zero = float(risk(mean)[0]), float(risk(np.zeros_like(mean))[0])
    origin = np.zeros_like(mean) if stream.origin is None else stream.origin
    primal, primal_at_zero = (
        0.5 * float(away @ away) + C * xi for away, xi in ((mean - origin, value), (origin, at_zero))
    )
    reason: Reason = "stationary" if step.reason == "converged" else step.reason
    trace = (Step(primal, -np.inf, time.perf_counter() - began, step.passes + 2.0),)
    solution = Solution(mean, C, primal, -np.inf, value, reason, trace)
    compared = health(solution, at_zero, primal_at_zero)
    return Fit(solution, training.loss, bound_of(training.loss), solver.name, compared, origin, after)


def add_provenance(before: Provenance, batch: Provenance) -> Provenance:
    """Return what a model was trained on after a batch; the fingerprint depends on all batches and their order."""
    digest = hashlib.sha256(f"{before.fingerprint} {batch.fingerprint}".encode()).hexdigest()[:16]
    return replace(
        before,
        queries=before.queries + batch.queries,
        documents=before.documents + batch.documents,
        fingerprint=digest,
    )
