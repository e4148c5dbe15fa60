"""Accuracy of every scorer beside LightGBM, XGBoost and CatBoost, everything chosen on validation queries.

    python benchmarks/peers.py [--data mq2008 --data ohsumed ...] [--system linear ...] [--fold 1] [--threads 1]
    python benchmarks/peers.py --table

A cell is one setting of one system on one fold. Finished cells are lines of a JSON file (``--results``), and a run
computes those that are missing, so it may be interrupted, and several may share the work. ``--table`` chooses the
setting of each system, fold by fold, by NDCG@10 on the validation queries, and prints means over the test folds.
``best of ours`` chooses among all settings of all of our scorers in the same way; ``blend of ours``, which ``--blend``
computes once all others are there, adds up the scores of the models chosen for our scorers, standardized by query. It
leaves out those that are more than a standard error of the difference behind the best on the validation queries.

MQ2008 and OHSUMED have the publisher's five folds, read from ../shared/data. pydocs has one test set; its other queries
are split five times, 75% to train on and 25% to choose by. The generated set is that of ``boosting.py`` with more
documents and features: ten features that interact and 126 that mean nothing, split once into 60, 20 and 20%.

The libraries train 500 rounds at most, with early stopping after 50 by NDCG@10, for two sizes of trees and two learning
rates, among them the defaults of LightGBM and XGBoost. Ours try two to four losses; C comes from ``DEFAULT_CS``.
"""

from __future__ import annotations

import argparse
import json
import statistics
import time
import warnings
from collections import defaultdict
from collections.abc import Callable, Iterator, Mapping
from functools import cache, partial
from itertools import product
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from boosting import interactions

from marginrank import Queries, Ranker, evaluate, tune
from marginrank.data import read_letor
from marginrank.datasets import pydocs
from marginrank.integrations.gradient_boosting import metric
from marginrank.losses import Loss, PairwiseHinge, SoftmaxCrossEntropy, SumLoss
from marginrank.scorers import Boosted, Kernel, Neural
from marginrank.training import CollapseWarning
from marginrank.typing import FloatArray

DATA = Path(__file__).resolve().parents[2] / "shared" / "data"
RESULTS = Path(__file__).with_suffix(".jsonl")
CRITERION, MEASURES = "ndcg@10", ("ndcg@10", "ap")
ROUNDS, PATIENCE = 500, 50
FOLDERS = {"mq2008": "letor4-mq2008", "ohsumed": "letor3-ohsumed/QueryLevelNorm"}
FOLDS = {"mq2008": 5, "ohsumed": 5, "pydocs": 5, "generated": 1}
BOTH = SumLoss((SoftmaxCrossEntropy("exp2", target="share"), PairwiseHinge(power=2)))
LOSSES: dict[str, str | Loss] = {
    "softmax + squared": BOTH,
    **{name: name for name in ("softmax", "ranksvm-squared", "svmmap", "svmndcg@10")},
}


class Fold(NamedTuple):
    """Queries to train on, to choose by and to test on."""

    train: Queries
    valid: Queries
    test: Queries


#: Scores of the validation and the test queries, given a fold and a number of threads.
Method = Callable[[Fold, int], tuple[FloatArray, FloatArray]]


@cache
def parts(data: str) -> list[Queries]:
    return [read_letor(DATA / FOLDERS[data] / f"S{number}.txt.xz", dtype="float64") for number in range(1, 6)]


@cache
def fold(data: str, number: int) -> Fold:
    if data == "generated":
        return Fold(*interactions(2000, 100, 136, seed=2).split(0.6, 0.2, 0.2, random_state=0))
    if data == "pydocs":
        docs = pydocs()
        train, valid = docs.train.split(0.75, 0.25, random_state=number)
        return Fold(train, valid, docs.test)
    five = [parts(data)[(number - 1 + step) % 5] for step in range(5)]
    return Fold(Queries.concatenate(five[:3]), five[3], five[4])


class Judged(Ranker):
    """A ranker that stops early by NDCG@10, whatever its loss."""

    @property
    def criterion(self) -> str:
        """The measure that training is stopped by."""
        return CRITERION


def with_C(data: Fold, threads: int, *, loss: str, **parameters: Any) -> tuple[FloatArray, FloatArray]:
    """Train for ten values of C, and keep the best."""
    ranker = Ranker(LOSSES[loss], n_jobs=threads, **parameters)
    chosen = tune(ranker, data.train, valid=data.valid, criterion=CRITERION, n_jobs=1).ranker
    return chosen.predict(data.valid), chosen.predict(data.test)


def in_stages(data: Fold, threads: int, *, loss: str, **parameters: Any) -> tuple[FloatArray, FloatArray]:
    """Train with early stopping."""
    ranker = Judged(LOSSES[loss], n_jobs=threads, **parameters).fit(data.train, validation=data.valid)
    return ranker.predict(data.valid), ranker.predict(data.test)


def kernel(data: Fold, threads: int, *, loss: str, width: float) -> tuple[FloatArray, FloatArray]:
    """Train an RBF kernel of 500 landmarks; features have variance 1."""
    scorer = Kernel(gamma=width / data.train.n_features)
    return with_C(data, threads, loss=loss, scorer=scorer, scaling="standard")


def lightgbm(data: Fold, threads: int, *, objective: str, leaves: int, rate: float) -> tuple[FloatArray, FloatArray]:
    import lightgbm

    settings = {
        "objective": objective,
        "metric": "none",
        "num_leaves": leaves,
        "learning_rate": rate,
        "num_threads": threads,
        "verbosity": -1,
    }
    train, valid = (lightgbm.Dataset(part.X, part.grades, group=part.lengths) for part in data[:2])
    stop = lightgbm.early_stopping(PATIENCE, verbose=False)
    valid.reference = train
    booster = lightgbm.train(settings, train, ROUNDS, [valid], feval=metric(CRITERION), callbacks=[stop])
    return booster.predict(data.valid.X), booster.predict(data.test.X)


def xgboost(data: Fold, threads: int, *, depth: int, rate: float) -> tuple[FloatArray, FloatArray]:
    import xgboost

    settings = {
        "objective": "rank:ndcg",
        "max_depth": depth,
        "learning_rate": rate,
        "nthread": threads,
        "disable_default_eval_metric": 1,
    }
    train, valid, test = (xgboost.DMatrix(part.X, part.grades, group=part.lengths) for part in data)
    stop = xgboost.callback.EarlyStopping(rounds=PATIENCE, maximize=True, save_best=True)
    watched = {"evals": [(valid, "valid")], "custom_metric": metric(CRITERION), "verbose_eval": False}
    booster = xgboost.train(settings, train, ROUNDS, callbacks=[stop], **watched)
    return booster.predict(valid), booster.predict(test)


def catboost(data: Fold, threads: int, *, depth: int, rate: float) -> tuple[FloatArray, FloatArray]:
    import catboost

    train, valid, test = (
        catboost.Pool(part.X, part.grades, group_id=np.repeat(np.arange(len(part)), part.lengths)) for part in data
    )
    model = catboost.CatBoost(
        {
            "loss_function": "YetiRank",
            "eval_metric": "NDCG:top=10;type=Exp",
            "iterations": ROUNDS,
            "depth": depth,
            "learning_rate": rate,
            "thread_count": threads,
            "od_type": "Iter",
            "od_wait": PATIENCE,
            "random_seed": 0,
            "verbose": False,
            "allow_writing_files": False,
        }
    )
    model.fit(train, eval_set=valid, use_best_model=True)
    return model.predict(valid), model.predict(test)


OURS = ("linear", "additive", "kernel", "neural", "boosted")
BLEND = "blend of ours"


def settings(data: str) -> Iterator[tuple[str, str, Method]]:
    """Yield the system, the setting and how to train it."""
    yield from theirs()
    yield from convex()
    yield from staged(data)


def theirs() -> Iterator[tuple[str, str, Method]]:
    for objective, leaves, rate in product(("lambdarank", "rank_xendcg"), (8, 31), (0.05, 0.1)):
        train = partial(lightgbm, objective=objective, leaves=leaves, rate=rate)
        yield f"LightGBM {objective}", f"{leaves} leaves, rate {rate}", train
    for depth, rate in product((4, 6), (0.1, 0.3)):
        yield "XGBoost rank:ndcg", f"depth {depth}, rate {rate}", partial(xgboost, depth=depth, rate=rate)
    for depth, rate in product((4, 6), (0.05, 0.1)):
        yield "CatBoost YetiRank", f"depth {depth}, rate {rate}", partial(catboost, depth=depth, rate=rate)


def convex() -> Iterator[tuple[str, str, Method]]:
    for loss in ("softmax", "ranksvm-squared", "softmax + squared", "svmmap"):
        yield "linear", loss, partial(with_C, loss=loss)
        if loss != "svmmap":
            yield "additive", loss, partial(with_C, loss=loss, scorer="additive")
    for loss, width in product(("softmax", "ranksvm-squared"), (0.2, 1.0)):
        yield "kernel", f"{loss}, width {width}", partial(kernel, loss=loss, width=width)


def staged(data: str) -> Iterator[tuple[str, str, Method]]:
    wide = (("64", 0.01), ("128x64", 0.01), ("128x64", 1.0)) if data == "generated" else (("32", 0.01), ("64x32", 0.01))
    losses = ("softmax + squared", "softmax") if data == "generated" else ("softmax + squared", "softmax", "svmndcg@10")
    for loss, (hidden, decay) in product(losses, wide):
        neural = partial(in_stages, loss=loss, scorer=Neural(hidden, learning_rate=0.003, weight_decay=decay))
        yield "neural", f"{loss}, {hidden} units, decay {decay}", neural
    bagged = partial(Boosted, ROUNDS, learning_rate=0.05, queries=0.7, bags=4)
    for loss in ("softmax + squared", "ranksvm-squared"):
        yield "boosted", f"{loss}, 8 leaves", partial(in_stages, loss=loss, scorer=bagged(8))
        started = bagged(8, start="additive")
        yield "boosted", f"{loss}, 8 leaves, start additive", partial(in_stages, loss=loss, scorer=started)
    for strongest in (10, 20):
        scorer = bagged(16, strongest=strongest)
        train = partial(in_stages, loss="softmax + squared", scorer=scorer)
        yield "boosted", f"softmax + squared, 16 leaves, strongest {strongest}", train


def compute(data: str, number: int, train: Method, threads: int) -> dict[str, Any]:
    """Train a setting on a fold."""
    began = time.process_time()
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", CollapseWarning)
        valid, test = train(fold(data, number), threads)
    seconds = time.process_time() - began
    return {
        "valid": evaluate(fold(data, number).valid, valid, CRITERION).mean[CRITERION],
        **evaluate(fold(data, number).test, test, MEASURES).mean,
        "cpu_seconds": round(seconds, 2),
    }


def standardized(queries: Queries, scores: FloatArray) -> FloatArray:
    """Return scores with mean 0 and deviation 1 in every query."""
    query = np.repeat(np.arange(len(queries)), queries.lengths)
    centered = scores - (np.bincount(query, scores) / queries.lengths)[query]
    deviation = np.sqrt(np.bincount(query, centered**2) / queries.lengths)[query]
    return centered / np.where(deviation > 0, deviation, 1.0)


def blend(data: str, number: int, cells: list[dict[str, Any]]) -> Method:
    """Return how to train the chosen setting of each of our scorers, and to add up the scores of the good ones."""
    known = {(system, setting): train for system, setting, train in settings(data)}
    chosen = [known[name, chosen_cells(cells)[name, data, number]["setting"]] for name in OURS]

    def train(data: Fold, threads: int) -> tuple[FloatArray, FloatArray]:
        scored = [method(data, threads) for method in chosen]
        values = [evaluate(data.valid, valid, CRITERION).values[CRITERION] for valid, _ in scored]
        best = max(values, key=np.nanmean)
        # A query without relevant documents has no value.
        behind = [(best - one)[~np.isnan(best - one)] for one in values]
        near = [one.mean() <= one.std(ddof=1) / np.sqrt(len(one)) for one in behind]
        valid, test = zip(*(scores for scores, kept in zip(scored, near, strict=True) if kept), strict=True)
        sums = [
            np.sum([standardized(part, scores) for scores in several], axis=0)
            for part, several in ((data.valid, valid), (data.test, test))
        ]
        return sums[0], sums[1]

    return train


def read(path: Path) -> list[dict[str, Any]]:
    lines = path.read_text(encoding="utf-8").splitlines() if path.exists() else []
    return [json.loads(line) for line in lines]


def key(cell: Mapping[str, Any]) -> tuple[Any, ...]:
    return tuple(cell[name] for name in ("data", "fold", "system", "setting"))


def run(path: Path, options: argparse.Namespace) -> None:
    """Compute the cells that are missing, fold by fold."""
    for data in options.data or FOLDS:
        for number in options.fold or range(1, FOLDS[data] + 1):
            blended = [(BLEND, "within a standard error", blend(data, number, read(path)))] if options.blend else []
            for system, setting, train in blended or settings(data):
                cell = {"data": data, "fold": number, "system": system, "setting": setting}
                left_out = (options.system and system not in options.system) or options.setting not in setting
                if left_out or key(cell) in set(map(key, read(path))):
                    continue
                cell |= compute(data, number, train, options.threads)
                with path.open("a", encoding="utf-8") as out:
                    out.write(json.dumps(cell) + "\n")
                print(*cell.values(), flush=True)


def chosen_cells(cells: list[dict[str, Any]]) -> dict[tuple[str, str, int], dict[str, Any]]:
    """Choose the setting of each system, data set and fold that is best on the validation queries."""
    best: dict[tuple[str, str, int], dict[str, Any]] = {}
    for cell in cells:
        for system in (cell["system"], "best of ours") if cell["system"] in OURS else (cell["system"],):
            at = system, cell["data"], cell["fold"]
            if at not in best or cell["valid"] > best[at]["valid"]:
                best[at] = cell
    return best


def table(cells: list[dict[str, Any]]) -> str:
    """Average the chosen settings over folds."""
    best = chosen_cells(cells)
    folds: dict[tuple[str, str], list[dict[str, Any]]] = defaultdict(list)
    for (system, data, _), cell in best.items():
        folds[system, data].append(cell)

    def shown(system: str, data: str, measure: str) -> str:
        chosen = folds.get((system, data), [])
        return f"{statistics.fmean(cell[measure] for cell in chosen):.4f}" if len(chosen) == FOLDS[data] else ""

    columns = [(data, measure) for data in FOLDS for measure in MEASURES]
    order = sorted({system for system, _ in folds}, key=lambda name: (name.endswith("of ours"), name in OURS, name))
    lines = ["| system | " + " | ".join(f"{data}, {measure}" for data, measure in columns) + " |"]
    lines += ["| --- |" + " --- |" * len(columns)]
    lines += [f"| {system} | " + " | ".join(shown(system, *column) for column in columns) + " |" for system in order]
    return "\n".join(lines)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--data", choices=list(FOLDS), action="append", help="one data set; all by default")
    parser.add_argument("--system", action="append", help="one system; all by default")
    parser.add_argument("--setting", default="", help="settings whose names have this in them; all by default")
    parser.add_argument("--fold", type=int, action="append", default=[], help="one fold; all by default")
    parser.add_argument("--threads", type=int, default=1)
    parser.add_argument("--results", type=Path, default=RESULTS, help="file of finished cells")
    parser.add_argument("--blend", action="store_true", help="compute the blend of ours, and nothing else")
    parser.add_argument("--table", action="store_true", help="print the table, and compute nothing")
    options = parser.parse_args()
    if not options.table:
        run(options.results, options)
    print(table(read(options.results)))


if __name__ == "__main__":
    main()
