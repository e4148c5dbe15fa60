"""A hinge of NDCG that is minimal at w = 0, and a bound that is not: Chapelle, Le and Smola (2007), §4 and Fig. 1."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any, Final

import numpy as np
from threadpoolctl import threadpool_limits

from experiments.base import Experiment, Size, Task
from experiments.cls import (
    CS,
    CUTS,
    FOLDERS,
    NAMES,
    PAPER,
    measured,
    ndcg_loss,
    regression,
    rounded,
    scaled_fold,
    tight,
)
from experiments.cls_collapse_report import LENGTHS, MAPS, report
from experiments.letor import FOLDS, Fold, choose, values
from experiments.rankers import TOLERANCE, ranker
from marginrank.data.queries import Queries
from marginrank.losses.structured import StructuredLoss
from marginrank.scorers.linear.scorer import PreparedLinear
from marginrank.solvers.bundle import Bundle
from marginrank.training.risk import RankingRisk
from marginrank.typing import FloatArray

#: For the hinge alone, until λ is below 10⁻⁴ on the training queries of OHSUMED.
HINGE_CS: Final = (*CS, 100000.0, 1000000.0)


def _path(data: Path, *, name: str, shape: str, number: int, most: int | None, Cs: Sequence[float]) -> dict[str, Any]:
    """Minimize the hinge of a feature map for every C, and compare it with its value at w = 0."""
    loss = StructuredLoss("ndcg@10", "po") if shape == "po" else ndcg_loss(shape=shape)
    risk = RankingRisk(PreparedLinear(scaled_fold(data, name, number, most).train), loss, n_jobs=1)
    at_zero, _ = risk(np.zeros(risk.n_parameters))
    with threadpool_limits(1, "blas"):
        path = Bundle(tol=TOLERANCE).path(risk, Cs)
    return {
        "Cs": Cs,
        "objective": rounded([one.primal / (one.C * at_zero) for one in path]),
        "lower bound": rounded([one.dual / (one.C * at_zero) for one in path]),
        "norm": rounded([np.linalg.norm(one.theta) for one in path]),
    }


def bounds_of(queries: Queries, scores: FloatArray) -> dict[str, FloatArray]:
    """Return both bounds and the loss of each query with several grades, and how the rankings of Fig. 1 compare.

    With y the ideal ranking, ŷ the one by score and ỹ that of the bounds' maximum: ``above`` and ``worst above`` are
    w·Ψ(ŷ) − w·Ψ(y) and w·Ψ(ỹ) − w·Ψ(y), ``worst loss`` is Δ(ỹ). The slope of the hinge is a(ỹ) − a(y) and that of
    the tight bound a(ỹ) − a(ŷ), which tell all of them.

    >>> queries = Queries.from_arrays([[0.0], [0.0]], [0, 1], group=[2])
    >>> bounds = bounds_of(queries, np.array([0.1, 0.0]))     # profile 10, 9, ...: ŷ and ỹ are the wrong order
    >>> {name: by_query.round(4).tolist() for name, by_query in bounds.items() if name != "loss"}
    {'hinge': [0.4691], 'tight': [0.3691], 'worst loss': [0.3691], 'above': [0.1], 'worst above': [0.1]}
    """
    loss = ndcg_loss()
    hinge, tight_bound = (loss.bounded(kind).prepare(queries) for kind in ("hinge", "tight"))
    (xi, slope), (tight_xi, tight_slope) = hinge(scores), tight_bound(scores)
    worst = np.add.reduceat(slope * scores, queries.offsets[:-1])
    from_predicted = np.add.reduceat(tight_slope * scores, queries.offsets[:-1])
    bounds = {
        "hinge": xi,
        "tight": tight_xi,
        "loss": 1.0 - np.asarray(values(queries, scores, ["ndcg@10"])["ndcg@10"]),
        "worst loss": xi - worst,
        "above": worst - from_predicted,
        "worst above": worst,
    }
    return {name: by_query[hinge.active] for name, by_query in bounds.items()}


def _along(data: Path, *, name: str, number: int, most: int | None, Cs: Sequence[float]) -> dict[str, Any]:
    """Means of both bounds and of the loss at multiples of a RankSVM's weights."""
    split = scaled_fold(data, name, number, most)
    scores = _ranksvm_scores(split, Cs)
    bounds = [bounds_of(split.train, length * scores) for length in LENGTHS]
    return {
        "at zero": float(bounds_of(split.train, 0.0 * scores)["tight"].mean()),
        **{kind: rounded([one[kind].mean() for one in bounds]) for kind in ("hinge", "tight", "loss")},
        "least of hinge − tight": min(float((one["hinge"] - one["tight"]).min()) for one in bounds),
        "least of tight − loss": min(float((one["tight"] - one["loss"]).min()) for one in bounds),
    }


def _figure(data: Path, *, name: str, number: int, most: int | None, Cs: Sequence[float]) -> dict[str, list[float]]:
    """Fig. 1 with the training queries at the weights of a RankSVM, and the loss of a random order of each."""
    split = scaled_fold(data, name, number, most)
    bounds = bounds_of(split.train, _ranksvm_scores(split, Cs))
    shuffled = bounds_of(split.train, np.zeros(split.train.n_documents))["loss"]
    kept = {kind: rounded(bounds[kind]) for kind in ("loss", "above", "worst loss", "worst above")}
    return {**kept, "random loss": rounded(shuffled)}


def _ranksvm_scores(data: Fold, Cs: Sequence[float]) -> FloatArray:
    return choose(ranker("ranksvm"), data, Cs=Cs, criterion="ndcg@10").ranker.predict(data.train)


def _test(data: Path, *, name: str, number: int, most: int | None, Cs: Sequence[float], bound: str) -> dict[str, Any]:
    """NDCG on the test queries of what a bound leads to."""
    split = scaled_fold(data, name, number, most)
    untrained = ranker(ndcg_loss(), bound="hinge") if bound == "hinge" else tight(regression(split, Cs=Cs))
    model = choose(untrained, split, Cs=Cs, criterion="ndcg@10").ranker
    return measured(dict.fromkeys(CUTS, model.predict(split.test)), split, name)


def _plan(size: Size) -> list[Task]:
    full = size == "full"
    folds, most, Cs = (FOLDS, None, CS) if full else (FOLDS[:1], 6, (1.0, 100.0))
    tasks = [Task("figure 1", _figure, {"name": "ohsumed2", "number": 1, "most": most, "Cs": Cs})]
    for name in NAMES:
        for number in folds:
            shared = {"name": name, "number": number, "most": most, "Cs": Cs}
            paths = {**shared, "Cs": HINGE_CS if full else Cs}
            tasks += [
                Task(f"{name}/{shape}/fold {number}", _path, {**paths, "shape": shape})
                for shape in (MAPS if full else ("truncated",))
            ]
            tasks.append(Task(f"{name}/along/fold {number}", _along, shared))
            tasks += [
                Task(f"{name}/test {bound}/fold {number}", _test, {**shared, "bound": bound})
                for bound in ("hinge", "tight")
            ]
    return tasks


EXPERIMENT: Final = Experiment(
    "cls-collapse",
    "A hinge of NDCG that is minimal at w = 0, and a bound that is not",
    f"{PAPER}, §4 and Fig. 1",
    "The hinge of eq. (12) is minimized for larger and larger C, with the gap as a certificate, and compared with its "
    "value at w = 0. Then both bounds, the hinge and that of eq. (14), and the loss 1 − NDCG@10 are followed along "
    "the weights of a RankSVM, w = t·w_RankSVM.",
    FOLDERS,
    _plan,
    report,
)
