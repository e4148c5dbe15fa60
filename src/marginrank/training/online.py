"""Training that goes on: the next batch of a stream, and the model after it."""

from __future__ import annotations

import hashlib
import time
from dataclasses import replace

import numpy as np

from marginrank.losses.base import Bound
from marginrank.model.model import Health, Model, Provenance
from marginrank.runtime.threads import single_blas
from marginrank.scorers.base import Prepared
from marginrank.solvers.solution import Reason, Solution, Step
from marginrank.solvers.stream_state import StreamState
from marginrank.training.convex import ConvexTrainer, Fit, bound_of
from marginrank.training.partitioned_risk import ranking_risk
from marginrank.training.tight_bound import Tight
from marginrank.typing import FloatArray


def fit_batch(
    training: ConvexTrainer, scorer: Prepared, C: float, theta: FloatArray, stream: StreamState
) -> Fit | None:
    """Take the step of a batch and return the parameters after it; None if no query has an order.

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
    with single_blas():
        step = training.solve(risk, stream.share(risk.weight) * C, theta if stream.last is None else stream.last)
    mean, after = stream.after(step.theta, theta, risk.weight)
    value, at_zero = float(risk(mean)[0]), float(risk(np.zeros_like(mean))[0])
    origin = np.zeros_like(mean) if stream.origin is None else stream.origin
    primal, primal_at_zero = (
        0.5 * float(away @ away) + C * xi for away, xi in ((mean - origin, value), (origin, at_zero))
    )
    reason: Reason = "stationary" if step.reason == "converged" else step.reason
    trace = (Step(primal, -np.inf, time.perf_counter() - began, step.passes + 2.0),)
    ratio = primal / primal_at_zero if primal_at_zero > 0 else 1.0
    return Fit(
        Solution(mean, C, primal, -np.inf, value, reason, trace),
        training.loss,
        bound_of(training.loss),
        training.chosen(risk).name,
        Health(value, at_zero, ratio, float(np.linalg.norm(mean)), collapsed=False),
        origin,
        after,
    )


def add_provenance(before: Provenance, batch: Provenance) -> Provenance:
    """Return what a model was trained on after a batch; the fingerprint depends on all batches and their order."""
    digest = hashlib.sha256(f"{before.fingerprint} {batch.fingerprint}".encode()).hexdigest()[:16]
    return replace(
        before,
        queries=before.queries + batch.queries,
        documents=before.documents + batch.documents,
        fingerprint=digest,
    )


def with_bound_of(model: Model, training: ConvexTrainer) -> ConvexTrainer:
    """Return the training of the bound that a model was trained with; refuse another."""
    bound: Bound = "tight" if model.method.bound == "tight" else "hinge"
    asked = "tight" if isinstance(training.bound, Tight) else training.bound
    if asked not in ("auto", bound):
        raise ValueError(f"the model was trained with the {bound} bound and bound={asked!r}; leave it out, or use fit")
    return replace(training, loss=training.loss.bounded(bound))
