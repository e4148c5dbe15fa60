"""Collaborative filtering from few ratings of a user: Le and Smola (2008), Tables 3 and 4, on Jester."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, Final

import numpy as np

from experiments.base import Experiment, Finding, Report, Size, Table, Task
from experiments.collaborative import DORM_FACTORS, DORM_LOSS, FACTORIZATIONS, MMMF, factorized, rated, rated_by_others
from experiments.dorm import PAPER, advantage, best
from experiments.jester import Panel, View, panel, queries, split
from experiments.rankers import ranker
from marginrank.evaluation.evaluation import evaluate
from marginrank.losses.structured import StructuredLoss
from marginrank.ranker.ranker import Ranker
from marginrank.typing import FloatArray, IntArray

RANK: Final = 10
COUNTS: Final = (10, 20, 50)
ERU: Final = "eru(neutral=2,normalized=True)"
MEASURES: Final = {ERU: "ERU", "ndcg": "NDCG", "ndcg@10": "NDCG@10"}
_MAP: Final = str(DORM_LOSS.feature_map)
DORM_CS: Final = (3.0, 10.0, 30.0, 100.0, 300.0)
OTHER_CS: Final = (300.0, 1000.0, 3000.0, 10000.0)
#: Untrained ranker, features, and values of C, none for methods without.
METHODS: Final[Mapping[str, tuple[Ranker, View, Sequence[float]]]] = {
    "PRank": (ranker("prank"), "separate", ()),
    "JRank": (ranker("prank"), "joint", ()),
    "GPR": (ranker("gp-regression"), "pair", ()),
    "regression": (ranker("regression"), "joint", OTHER_CS),
    "ranking SVM": (ranker("ranksvm"), "joint", OTHER_CS),
    "DORM for NDCG": (ranker(DORM_LOSS, bound="hinge"), "joint", DORM_CS),
    "DORM for ERU": (ranker(StructuredLoss(ERU, _MAP), bound="hinge"), "joint", DORM_CS),
}
MEAN: Final = "mean of other users"
#: Tables 3 (experiments 1 and 2) and 4 (NDCG and NDCG@10 by number of ratings), on EachMovie.
PRINTED_ERU: Final = {"PRank": "70.8, 73.4", "JRank": "75.3, 76.2", "DORM for ERU": "76.5 ± 0.43, 76.7 ± 0.32"}
PRINTED: Final[Mapping[int, Mapping[str, tuple[str, str]]]] = {
    10: {
        "GPR": ("83.41 ± 0.22", "45.58 ± 1.51"),
        "CGPR": ("86.39 ± 0.24", "57.34 ± 1.44"),
        "GPOR": ("80.59 ± 0.03", "36.92 ± 0.25"),
        "CGPOR": ("80.83 ± 0.11", "37.89 ± 1.05"),
        "MMMF": ("84.34 ± 0.48", "47.46 ± 3.42"),
        "DORM for NDCG": ("87.17 ± 0.24", "61.75 ± 1.83"),
    },
    20: {
        "GPR": ("84.12 ± 0.15", "48.49 ± 0.66"),
        "CGPR": ("86.98 ± 0.16", "59.89 ± 1.18"),
        "GPOR": ("80.48 ± 0.05", "36.78 ± 0.30"),
        "CGPOR": ("80.78 ± 0.13", "37.81 ± 0.56"),
        "MMMF": ("84.85 ± 0.28", "47.86 ± 1.39"),
        "DORM for NDCG": ("87.63 ± 0.37", "62.82 ± 1.9"),
    },
    50: {
        "GPR": ("85.15 ± 0.23", "53.75 ± 0.89"),
        "CGPR": ("87.82 ± 0.21", "63.41 ± 1.14"),
        "GPOR": ("80.10 ± 0.04", "36.63 ± 0.24"),
        "CGPOR": ("80.45 ± 0.06", "37.74 ± 0.41"),
        "MMMF": ("86.13 ± 0.38", "54.78 ± 2.11"),
        "DORM for NDCG": ("87.84 ± 0.32", "65.05 ± 1.27"),
    },
}
#: Methods of Table 4 that are not run here, only quoted.
QUOTED: Final = ("CGPR", "GPOR", "CGPOR")


def quoted_rows(n: int, width: int) -> list[tuple[str | None, ...]]:
    """Rows of the quoted methods, marked as printed, with ``width`` empty cells before the paper's columns.

    >>> quoted_rows(10, 1)[0]
    ('CGPR (printed in the paper, not run)', None, '86.39 ± 0.24', '57.34 ± 1.44')
    """
    return [(f"{method} (printed in the paper, not run)", *[None] * width, *PRINTED[n][method]) for method in QUOTED]


def _panel(data: Path, users: int) -> Panel:
    """As many users to test as to choose by, and twenty times as many to describe items; all rated every joke."""
    return panel(data, users, 20 * users, RANK, least=100 if users >= 100 else 60)


def _values(judged: Any, scores: FloatArray) -> FloatArray:
    evaluation = evaluate(judged, scores, list(MEASURES), n_jobs=1)
    return np.asarray(np.nan_to_num([evaluation[measure] for measure in MEASURES]))


def _chosen_C(data: Path, method: str, n: int, users: int) -> float:
    """The C that is best for other users, from as many ratings of each; by ERU for DORM for ERU, else by NDCG@10."""
    untrained, view, Cs = METHODS[method]
    if len(Cs) < 2:
        return 1.0
    users_drawn = _panel(data, users)
    known, unknown = split(users_drawn.valid, n, seed=1000)
    models = untrained.fit_path(queries(users_drawn.valid, known, users_drawn.items, view, known), Cs=Cs)
    judged = queries(users_drawn.valid, unknown, users_drawn.items, view, known)
    return float(best(models, judged, ERU if method == "DORM for ERU" else "ndcg@10").C)


def _method(data: Path, *, method: str, n: int, users: int, trials: int) -> dict[str, Any]:
    """Means of the users over trials, and of the trials over users, for each measure."""
    untrained, view, _ = METHODS[method]
    users_drawn, C = _panel(data, users), _chosen_C(data, method, n, users)
    by_trial = []
    for trial in range(trials):
        known, unknown = split(users_drawn.test, n, seed=trial)
        (trained,) = untrained.fit_path(queries(users_drawn.test, known, users_drawn.items, view, known), Cs=[C])
        judged = queries(users_drawn.test, unknown, users_drawn.items, view, known)
        by_trial.append(_values(judged, trained.predict(judged)))
    return _means(np.array(by_trial), C)


def _factorized(data: Path, *, method: str, n: int, users: int, trials: int) -> dict[str, Any]:
    """Train on ratings of others and n of each test user; C is chosen on as many of other users."""
    drawn = _panel(data, users)
    others = rated_by_others(drawn.others, method, n, users)

    def values(table: FloatArray, known: list[IntArray], unknown: list[IntArray], ratings_per_C: float) -> FloatArray:
        train = others.updated(rated(table, known, 0))
        judged = rated(table, unknown, 0)
        judged = judged.widened(judged.users[:0], train.items)
        return _values(judged.queries(), factorized(method, ratings_per_C)(train)(judged))

    known, unknown = split(drawn.valid, n, seed=1000)
    choices = FACTORIZATIONS[method][1]
    chosen = choices[int(np.argmax([values(drawn.valid, known, unknown, one)[-1].mean() for one in choices]))]
    dealt = [split(drawn.test, n, seed=trial) for trial in range(trials)]
    return _means(np.array([values(drawn.test, *parts, chosen) for parts in dealt]), 1.0 / chosen)


def _mean_of_others(data: Path, *, n: int, users: int, trials: int) -> dict[str, Any]:
    """Items in the order of their mean rating by the users who describe them, which takes no rating of the user."""
    users_drawn = _panel(data, users)
    by_trial = []
    for trial in range(trials):
        known, unknown = split(users_drawn.test, n, seed=trial)
        judged = queries(users_drawn.test, unknown, users_drawn.items, "separate", known)
        by_trial.append(_values(judged, users_drawn.items[np.concatenate(unknown), 1]))
    return _means(np.array(by_trial), None)


def _means(values: FloatArray, C: float | None) -> dict[str, Any]:
    """Of values by trial, measure and user."""
    return {
        "C": C,
        "users": {m: values[:, at].mean(axis=0).round(5).tolist() for at, m in enumerate(MEASURES)},
        "trials": {m: values[:, at].mean(axis=1).round(5).tolist() for at, m in enumerate(MEASURES)},
    }


def _plan(size: Size) -> list[Task]:
    users, trials, counts = (100, 10, COUNTS) if size == "full" else (5, 2, (10,))
    tasks = []
    for n in counts:
        options = {"n": n, "users": users, "trials": trials}
        tasks.append(Task(f"{n}/{MEAN}", _mean_of_others, options))
        tasks += [Task(f"{n}/{method}", _method, {**options, "method": method}) for method in METHODS]
        tasks += [Task(f"{n}/{method}", _factorized, {**options, "method": method}) for method in FACTORIZATIONS]
    return tasks


def _counts(results: Mapping[str, Any]) -> list[int]:
    return [n for n in COUNTS if f"{n}/{MEAN}" in results]


def _methods(results: Mapping[str, Any], n: int) -> list[str]:
    return [method for method in (MEAN, *METHODS, *FACTORIZATIONS) if f"{n}/{method}" in results]


def _cell(results: Mapping[str, Any], n: int, method: str, measure: str) -> str:
    trials = np.asarray(results[f"{n}/{method}"]["trials"][measure])
    return f"{100 * trials.mean():.2f} ± {100 * trials.std(ddof=1) / np.sqrt(len(trials)):.2f}"


def _table(results: Mapping[str, Any], n: int) -> Table:
    columns = ("method", *MEASURES.values(), "C", "paper: ERU", "paper: NDCG", "paper: NDCG@10")
    rows: list[tuple[Any, ...]] = []
    for method in _methods(results, n):
        ours = [_cell(results, n, method, measure) for measure in MEASURES]
        C = None if method in METHODS and not METHODS[method][2] else results[f"{n}/{method}"]["C"]
        printed = PRINTED[n].get(method, (None, None))
        rows.append((method, *ours, None if C is None else f"{C:g}", PRINTED_ERU.get(method), *printed))
    rows += quoted_rows(n, len(columns) - 3)
    return Table(f"From {n} ratings of each user, in per cent; ± is a standard error over trials", columns, rows)


def _claim(
    results: Mapping[str, Any], n: int, method_claimed: str, measure: str, others: Sequence[str], source: str
) -> Finding:
    values = {method: np.asarray(results[f"{n}/{method}"]["users"][measure]) for method in (method_claimed, *others)}
    verdict, evidence = advantage(values, method_claimed)
    claim = (
        f"{method_claimed} has a higher {MEASURES[measure]} than {' and '.join(others)}, from {n} ratings of a user."
    )
    fact = f"{method_claimed} has a higher {MEASURES[measure]} than {' and '.join(others)}"
    return Finding(claim, f"{PAPER}, {source}", verdict, evidence, fact)


def _report(results: Mapping[str, Any]) -> Report:
    findings = []
    for n in _counts(results):
        findings.append(_claim(results, n, "DORM for ERU", ERU, ("PRank", "JRank"), "Table 3"))
        findings.append(_claim(results, n, "DORM for NDCG", "ndcg@10", ("GPR",), "Table 4"))
        if MMMF in _methods(results, n):
            findings.append(_claim(results, n, "DORM for NDCG", "ndcg@10", (MMMF,), "Table 4"))
            findings.append(_claim(results, n, DORM_FACTORS, "ndcg@10", (MMMF,), "§5.2 and Table 4"))
        source = "§6.1: the gain is due to the loss and not to the kernel, which is the same here"
        findings.append(_claim(results, n, "DORM for NDCG", "ndcg@10", ("regression", "ranking SVM"), source))
    return Report(
        [_table(results, n) for n in _counts(results)],
        findings=findings,
        notes=[
            "EachMovie was withdrawn; Jester is used instead. Its 100 jokes, rated from −10 to 10, get six grades of "
            "equal width, as EachMovie has. Users who rated all jokes take part: 100 to test, 100 others to "
            "choose C by, and 2,000 further ones who describe the jokes. Every trial deals the ratings of the test "
            "users again; there are 10 trials, as in Table 4; Table 3 has 100.",
            f"A joke has 12 features: a constant, its mean rating, and {RANK} factors of the correlations between "
            "jokes, all from the 2,000 users. A query is a user. Each method but PRank and GPR has weights that all "
            "users share and weights of each user, the kernel (1 + [same user])·φ·φ' over pairs of user and joke. The "
            "kernels of Basilico and Hofmann (2004) and Yu et al. (2006) use features of users and movies that "
            "Jester has not.",
            "JRank is the perceptron with that kernel, PRank the one with the weights of each user alone, both with "
            "shared thresholds. The preset `jrank` keeps shared weights only, to rank queries that were not trained "
            "on, and is not used here. GPR has a Gaussian kernel over the features of the joke and the weights of a "
            "ridge regression on the known ratings of the user. Regression is the mean of a Gaussian process with "
            "the joint kernel.",
            f"{MMMF} is maximum-margin matrix factorization with the smooth hinge of Rennie and Srebro (2005), trained "
            f"on all ratings of the 2,000 users and N of each test user. “{DORM_FACTORS}” (§5.2) is `Recommender` with "
            "DORM's hinge, trained on N ratings of every user: on long lists the minimum of the hinge of NDCG@10 is at "
            "scores that hardly differ. Their C is the weight of the loss for each rating, chosen as that of DORM.",
            "ERU has a half-life of 5 and the neutral vote 2, so that ratings below 0 count nothing, over the best "
            "value that a user allows; the paper gives neither. A user without a rating that counts has 0. "
            "The numbers of the paper are of EachMovie, its ERU from 800 training items.",
            "DORM is the hinge with c_i = (i + 1)^−0.25, as the paper has it. The paper fixes C at 0.01; here C is "
            "chosen on other users, by NDCG@10 (by ERU for DORM for ERU). p values are Wilcoxon's, paired by user.",
        ],
    )


EXPERIMENT: Final = Experiment(
    "dorm-jester",
    "Ranking jokes from few ratings of a user",
    "Le and Smola (2008), Tables 3 and 4",
    "For each of 100 users, a ranker is trained on 10, 20 or 50 rated jokes and tested on the others that the user "
    "rated. Users are queries and jokes are documents.",
    ("jester-1",),
    _plan,
    _report,
)
