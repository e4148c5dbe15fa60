"""Items ranked from few ratings of a user: one half of the users chooses everything, the other half tests it."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from itertools import product
from typing import Any, Final, TypeAlias

import numpy as np

from experiments.base import Finding, Report, Size, Table, Task
from experiments.collaborative import (
    DORM_FACTORS,
    DORM_LOSS,
    FACTORIZATIONS,
    MMMF,
    Scorer,
    biased_als,
    deal,
    factorized,
    item_mean,
)
from experiments.dorm import PAPER, advantage
from marginrank.evaluation.evaluation import evaluate
from marginrank.losses import SoftmaxCrossEntropy, SquaredDifferences
from marginrank.recommend import Ratings, Recommender, item_coverage
from marginrank.typing import FloatArray

Parameters: TypeAlias = Mapping[str, Any]
COUNTS: Final = (10, 20, 50)
#: Least number of ratings of a user beyond those to train on.
MORE: Final = 10
#: Parts of the users that are folded in in turn.
FOLDS: Final = 5
#: How many of all combinations of parameters are drawn where everything is chosen.
DRAWS: Final = 16
LOSSES: Final = {
    "gains": None,
    "ratings": SquaredDifferences("linear"),
    "softmax": SoftmaxCrossEntropy("exp2", target="share"),
    "DORM": DORM_LOSS,
}
#: DORM's loss of a user is at most about 1, whatever the gains, and takes C as much smaller.
_DORM_RATINGS: Final = 40.0
SPACE: Final[Mapping[str, Sequence[Any]]] = {
    "loss": tuple(LOSSES),
    "factors": (8, 16, 32),
    "ratings per C": (6.0, 12.0, 24.0, 48.0),
    "history": (0, 4, 8, 16),
    "column_length": (0.1, 0.3, 1.0),
    "popularity": (True, False),
}
CHOSEN: Final = "factorization, all chosen"
DEFAULT: Final = "factorization, defaults"
FOLDED: Final = "factorization, defaults, users folded in"
MEAN: Final = "item mean"
ALS: Final = "biases + ALS"
_REACH: Final = ("coverage", "gini", "popularity bias")


def measures(neutral: int) -> dict[str, str]:
    """Measures and what they are called; ratings up to the neutral one count nothing in ERU."""
    return {"ndcg@10": "NDCG@10", "ndcg": "NDCG", f"eru(neutral={neutral},normalized=True)": "ERU"}


def _grid(**values: Sequence[Any]) -> list[dict[str, Any]]:
    return [dict(zip(values, chosen, strict=True)) for chosen in product(*values.values())]


def _drawn(seed: int) -> list[dict[str, Any]]:
    every = _grid(**SPACE)
    return [every[at] for at in np.random.default_rng(seed).choice(len(every), DRAWS, replace=False)]


def _recommender(train: Ratings, parameters: Parameters) -> Recommender:
    others = {name: value for name, value in parameters.items() if name not in ("loss", "ratings per C")}
    loss = parameters.get("loss", "gains")
    unit = _DORM_RATINGS if loss == "DORM" else 1.0
    C = {"C": 1.0 / (unit * parameters["ratings per C"])} if "ratings per C" in parameters else {}
    return Recommender(loss=LOSSES[loss], **others, **C, n_jobs=1).fit(train)


def _fit(method: str, train: Ratings, parameters: Parameters) -> Scorer:
    if method == MEAN:
        return item_mean(train, **parameters)
    if method == ALS:
        return biased_als(train, **parameters)
    if method in FACTORIZATIONS:
        return factorized(method, parameters["ratings per C"])(train)
    return _recommender(train, parameters).predict


def methods(seed: int) -> dict[str, list[dict[str, Any]]]:
    """Each method with the parameters that it chooses from."""
    Cs = SPACE["ratings per C"]
    return {
        MEAN: _grid(damping=(1.0, 2.0, 5.0, 10.0, 20.0, 50.0)),
        ALS: _grid(rank=(4, 16), regularization=(4.0, 6.0, 8.0, 10.0, 12.0, 16.0)),
        CHOSEN: _drawn(seed),
        DEFAULT: [{}],
        "factorization, C chosen": _grid(**{"ratings per C": Cs}),
        "factorization, C chosen, no fixed columns but biases": _grid(
            **{"ratings per C": Cs, "history": [0], "popularity": [False]}
        ),
        **{method: _grid(**{"ratings per C": ratings}) for method, (_, ratings) in FACTORIZATIONS.items()},
    }


def _values(test: Ratings, scores: FloatArray, names: Sequence[str]) -> dict[str, list[float]]:
    found = evaluate(test.queries(), scores, list(names), n_jobs=1)
    return {name: np.nan_to_num(found[name]).round(5).tolist() for name in names}


def _fewer(source: Ratings, n: int, users: int | None, seed: int) -> tuple[Ratings, Ratings]:
    train, test = deal(source, n, MORE, seed)
    chosen = np.arange(len(train.users))[:users]
    return train.of_users(chosen), test.of_users(chosen)


def trial(
    source: Ratings, *, method: str, n: int, seed: int, users: int | None, most: int | None, neutral: int
) -> dict[str, Any]:
    """Train on n ratings of each user; for each half of the users, choose parameters by the other half, and test."""
    train, test = _fewer(source, n, users, seed)
    options, names = methods(seed)[method][:most], list(measures(neutral))
    every = [_values(test, _fit(method, train, one)(test), names) for one in options]
    first = np.random.default_rng(seed).permutation(len(test.users)) < len(test.users) // 2
    values, chosen = {name: np.zeros(len(first)) for name in names}, []
    for half in (first, ~first):
        best = int(np.argmax([np.mean(np.array(one["ndcg@10"])[~half]) for one in every]))
        chosen.append(options[best])
        for name in names:
            values[name][half] = np.array(every[best][name])[half]
    return {"chosen": chosen, "values": {name: row.tolist() for name, row in values.items()}}


def folded(source: Ratings, *, n: int, seed: int, users: int | None, neutral: int) -> dict[str, Any]:
    """Fold in a fifth of the users at a time, by the ratings to train on, into what the others trained."""
    train, test = _fewer(source, n, users, seed)
    fold = np.random.default_rng(seed).permutation(len(train.users)) % FOLDS
    rows: dict[str, FloatArray] = {name: np.zeros(len(train.users)) for name in measures(neutral)}
    for number in range(FOLDS):
        known, new = (np.flatnonzero((fold == number) == is_new) for is_new in (False, True))
        model = _recommender(train.of_users(known), {}).fold_in(train.of_users(new))
        tested = test.of_users(new)
        for name, values in _values(tested, model.predict(tested), list(rows)).items():
            rows[name][new] = values
    return {"chosen": [{}], "values": {name: row.tolist() for name, row in rows.items()}}


def reach(source: Ratings, *, n: int, seed: int, users: int | None) -> dict[str, float]:
    """Coverage and popularity bias of the first ten recommendations."""
    figures = item_coverage(_recommender(_fewer(source, n, users, seed)[0], {}))
    return {"coverage": figures.coverage, "gini": figures.gini, "popularity bias": figures.popularity_bias}


def plan(size: Size, seeds: Sequence[int], neutral: int, calls: tuple[Callable[..., Any], ...]) -> list[Task]:
    """Tasks of a data set, given its functions for `trial`, `folded` and `reach`."""
    full = size == "full"
    dealt, counts = (seeds, COUNTS) if full else (seeds[:1], COUNTS[:1])
    names = list(methods(0)) if full else [MEAN, ALS, CHOSEN, DEFAULT, *FACTORIZATIONS]
    sizes = {"users": None if full else 30, "most": None if full else 2}
    tried, folding, reaching = calls
    tasks = [
        Task(f"{n}/{method}/{seed}", tried, {"method": method, "n": n, "seed": seed, **sizes, "neutral": neutral})
        for n in counts
        for method in names
        for seed in dealt
    ]
    some = {"users": sizes["users"]}
    for n in counts:
        tasks += [Task(f"{n}/{FOLDED}/{s}", folding, {"n": n, "seed": s, **some, "neutral": neutral}) for s in dealt]
        tasks.append(Task(f"{n}/reach", reaching, {"n": n, "seed": dealt[0], **some}))
    return tasks


def _seeds(results: Mapping[str, Any], n: int, method: str) -> dict[str, Any]:
    split = {name.rpartition("/")[2]: name for name in results if name.rpartition("/")[0] == f"{n}/{method}"}
    return {seed: results[name] for seed, name in split.items()}


def _by_seed(results: Mapping[str, Any], n: int, method: str, measure: str) -> FloatArray:
    """Values by seed and user."""
    return np.array([one["values"][measure] for one in _seeds(results, n, method).values()])


def _mean(values: FloatArray) -> str:
    """The mean over users and seeds, and its standard deviation between seeds."""
    means = values.mean(axis=1)
    return f"{means.mean():.4f}" + (f" ± {means.std(ddof=1):.4f}" if len(means) > 1 else "")


def _tables(results: Mapping[str, Any], counts: Sequence[int], neutral: int) -> list[Table]:
    rows = [method for method in (*methods(0), FOLDED) if _seeds(results, counts[0], method)]
    tables = []
    for measure, title in measures(neutral).items():
        lines: list[tuple[Any, ...]] = [
            (method, *(_mean(_by_seed(results, n, method, measure)) for n in counts)) for method in rows
        ]
        heads = [f"N = {n}, {_by_seed(results, n, MEAN, measure).shape[1]} users" for n in counts]
        tables.append(Table(f"{title}; ± is the standard deviation between splits", ("method", *heads), lines))
    return tables


def _choices(results: Mapping[str, Any], counts: Sequence[int]) -> Table:
    """Return the choices of validation, if everything was chosen."""
    rows = [
        (str(n), str(seed), *(_word(chosen[name]) for name in SPACE))
        for n in counts
        for seed, one in _seeds(results, n, CHOSEN).items()
        for chosen in one["chosen"]
    ]
    return Table(f"What validation chose for “{CHOSEN}”", ("N", "split", *SPACE), rows)


def _word(value: bool | float | str) -> str:
    if isinstance(value, bool):
        return "yes" if value else "no"
    return value if isinstance(value, str) else f"{value:g}"


def _reach_table(results: Mapping[str, Any], counts: Sequence[int]) -> Table:
    rows: list[tuple[Any, ...]] = [(str(n), *(float(results[f"{n}/reach"][name]) for name in _REACH)) for n in counts]
    return Table(f"First ten recommendations of “{DEFAULT}”", ("ratings of a user", *_REACH), rows)


def report(results: Mapping[str, Any], what: str, neutral: int, notes: Sequence[str]) -> Report:
    """Tables and findings of a data set; ``what`` its items are."""
    counts = [n for n in COUNTS if f"{n}/reach" in results]
    findings = []
    for n in counts:
        values = {one: _by_seed(results, n, one, "ndcg@10").mean(axis=0) for one in (CHOSEN, DEFAULT, MEAN, ALS)}
        for method in (CHOSEN, DEFAULT):
            verdict, evidence = advantage({one: values[one] for one in (method, MEAN, ALS)}, method)
            fact = f"{method[0].upper()}{method[1:]} has a higher NDCG@10 than regression on ratings, for {what}"
            findings.append(Finding(f"{fact} from {n} of a user.", f"{PAPER}, §5.2", verdict, evidence, fact))
        if not _seeds(results, n, MMMF):
            continue
        rivals = {one: _by_seed(results, n, one, "ndcg@10").mean(axis=0) for one in (DORM_FACTORS, MMMF)}
        verdict, evidence = advantage(rivals, DORM_FACTORS)
        fact = f"{DORM_FACTORS[0].upper()}{DORM_FACTORS[1:]} has a higher NDCG@10 than {MMMF}, for {what}"
        findings.append(Finding(f"{fact} from {n} of a user.", f"{PAPER}, §5.2 and Table 4", verdict, evidence, fact))
    every = ", ".join(f"{name} ({', '.join(_word(one) for one in values)})" for name, values in SPACE.items())
    return Report(
        [*_tables(results, counts, neutral), _choices(results, counts), _reach_table(results, counts)],
        findings=findings,
        notes=[
            f"Users have at least N + {MORE} ratings. N are drawn to train on, and all others of the user are ranked; "
            "gains are 2^r − 1. p values are Wilcoxon's, paired by user, of means over splits.",
            "All choices are made by NDCG@10 on the test ratings of one half of the users, and reported on those of "
            "the other half; then the halves change places. So no rating that is reported has chosen anything. All "
            "users train together, on N ratings each.",
            f"“{CHOSEN}” chooses among {DRAWS} combinations, drawn for each split, of {every}. “ratings per C” is the "
            f"number of ratings that have the weight 1 together, times {_DORM_RATINGS:g} for DORM; “gains” is the loss "
            f"that `Recommender` takes by itself. “{DEFAULT}” is `Recommender()` and chooses nothing.",
            "The item mean chooses its damping, biases + ALS rank and regularization.",
            f"“{DORM_FACTORS}” is `Recommender` with the hinge of NDCG@10 and c_i = (i + 1)^−0.25, as in the paper, "
            "and the same fixed columns as the defaults. MMMF is maximum-margin matrix factorization with the smooth "
            "hinge of Rennie and Srebro (2005) and without biases: `Recommender(loss=ThresholdHinge(), "
            "item_bias=False, popularity=False, history=0)`. Both choose C: of "
            + " and ".join(
                f"1 / ({', '.join(f'{one:g}' for one in ratings)}) for {method}"
                for method, (_, ratings) in FACTORIZATIONS.items()
            )
            + ".",
            "Users folded in are a fifth at a time, by N ratings, into what the other users trained: strong "
            "generalization. All other rows are weak generalization.",
            *notes,
        ],
    )
