"""The value of clicks: NDCG@10 on true grades after training on 10³ to 10⁶ clicks.

    python benchmarks/clicks_training.py [--sizes 1000 10000 100000 1000000] [--draws 3] [--only generated mq2008]

Users of the position-based model (p = 1/rank, irrelevant documents clicked with 0.1 of the probability of the best) see
the rankings of one production system. ``generated`` has 600 training queries with 40 candidates, of which the top 20
are shown, and the production score is one of the nine features: a ranker that believes the clicks learns to repeat it.
``mq2008`` has the five folds of LETOR 4.0; production is a RankSVM trained on five judged queries.

Everything that is chosen is chosen by DCG@10 from the clicks of held-out queries: C of ten values; for LightGBM with
``position=`` and XGBoost with ``lambdarank_unbiased`` 4, 8 or 31 leaves and 10 to 100 rounds, for XGBoost also its two
ways to sample pairs. The criterion has the correction 1/p, except for the rankers called naive, which know nothing of
it. The skyline has the grades of the same training queries, and chooses by NDCG@10 on grades. Both trees see each
session as a query, without those that have no click. They are trained on up to ``--most-events`` clicks, and beyond
10,000 on the first ``--tree-draws`` draws only, since each click is some thirty rows for them. Test queries are used
once, for the values.

Results go to docs/pictures: JSON and tables.
"""

from __future__ import annotations

import argparse
import importlib
import json
import platform
import statistics
import time
import warnings
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import product
from pathlib import Path
from typing import Any

import numpy as np

from marginrank import Queries, Ranker, compare, evaluate, tune
from marginrank.clicks import ClickLog, PositionUser, Propensities, simulate_clicks
from marginrank.data import read_letor
from marginrank.losses import PairwiseHinge, StructuredLoss
from marginrank.typing import FloatArray

ROOT = Path(__file__).resolve().parents[1]
DATA = ROOT.parent / "shared" / "data"
OUT = ROOT / "docs" / "pictures" / "clicks-training.json"
MEASURE = "ndcg@10"
SIZES = (1_000, 10_000, 100_000, 1_000_000)
LEAVES, ROUNDS, RATE = (4, 8, 31), (10, 20, 50, 100), 0.1
CS = tuple(np.logspace(-4, 3, 10).tolist())


@dataclass(frozen=True)
class Setting:
    """Model of users' clicks, and number of rankers that share the traffic."""

    eta: float = 1.0
    noise: float = 0.1
    depth: int = 20
    rankers: int = 1


USUAL = Setting()


@dataclass(frozen=True)
class Case:
    """Queries to learn from, to choose by and to test on, and scores of the production system."""

    train: Queries
    held_out: Queries
    test: Queries
    production: Callable[[Queries], FloatArray]
    setting: Setting

    @property
    def user(self) -> PositionUser:
        """The user of the setting."""
        return PositionUser(eta=self.setting.eta, irrelevant=self.setting.noise)

    def logs(self, clicks: int, seed: int, *, aggregate: bool) -> tuple[ClickLog, ClickLog]:
        """Simulate about so many clicks: four fifths to learn from, one fifth to choose by."""
        shares = ((self.train, 0.8), (self.held_out, 0.2))
        train, held_out = (self._log(part, max(20, int(share * clicks)), seed, aggregate) for part, share in shares)
        return train, held_out

    def _log(self, queries: Queries, clicks: int, seed: int, aggregate: bool) -> ClickLog:
        systems = {"production": self.production(queries)}
        rng = np.random.default_rng(99)
        for number in range(1, self.setting.rankers):
            systems[f"variant {number}"] = systems["production"] + rng.normal(size=queries.n_documents)
        settings: dict[str, Any] = {"user": self.user, "depth": self.setting.depth, "random_state": seed}
        sample = simulate_clicks(queries, systems, 2000, aggregate=True, **settings)
        rate = float(sample.clicks.sum()) / 2000
        log = simulate_clicks(queries, systems, max(1, round(clicks / rate)), aggregate=aggregate, **settings)
        return log.with_propensities(Propensities.power(self.setting.eta, depth=self.setting.depth))


def generated(seed: int, setting: Setting = USUAL) -> Case:
    """750 training queries, of which 150 choose, and 300 test queries with 40 candidates each."""
    rng = np.random.default_rng(seed)
    n = 1050 * 40
    X, weights = rng.normal(size=(n, 8)), rng.normal(size=8)
    relevance = X @ weights / np.linalg.norm(weights) + rng.normal(size=n)
    production = 0.1 * relevance + rng.normal(size=n)
    grades = np.searchsorted(np.quantile(relevance, [0.5, 0.75, 0.9, 0.97]), relevance).astype(float)
    names = [*(f"x{number}" for number in range(8)), "production"]
    queries = Queries.from_arrays(np.column_stack([X, production]), grades, qid=np.arange(n) // 40, feature_names=names)
    parts = queries[:600], queries[600:750], queries[750:]
    return Case(*parts, lambda part: part.feature("production"), setting)


def mq2008(fold: int) -> Case:
    """Three of the five parts to learn from, one to choose by, one to test on, as in LETOR's folds."""
    parts = [read_letor(DATA / "letor4-mq2008" / f"S{number}.txt.xz") for number in range(1, 6)]
    parts = parts[fold:] + parts[:fold]
    train, held_out, test = Queries.concatenate(parts[:3]), parts[3], parts[4]
    few = np.random.default_rng(fold).permutation(len(train))[:5]
    production = Ranker("ranksvm", C=0.01).fit(train[np.sort(few)])
    return Case(train, held_out, test, production.predict, USUAL)


def naive(log: ClickLog) -> ClickLog:
    return log.with_propensities(Propensities.power(0.0, depth=log.depth))


def with_candidates(log: ClickLog, candidates: Queries) -> Queries:
    """Return the clicks of a log against all candidates, documents that were never shown too."""
    clicks = log.to_queries()
    weight = dict(zip(clicks.document_names.tolist(), clicks.relevant_weights().tolist(), strict=True))
    weights = np.array([weight.get(name, 0.0) for name in candidates.document_names.tolist()])
    return replace(candidates, judgements=(weights > 0).astype(float), document_weights=weights)


#: Scores of the test queries, given the case, logs to learn from and to choose by.
Method = Callable[[Case, ClickLog, ClickLog], FloatArray]


def ours(method: Any, view: Callable[[ClickLog], Any] = lambda log: log, **parameters: Any) -> Method:
    def train(case: Case, log: ClickLog, held_out: ClickLog) -> FloatArray:
        ranker = Ranker(method, n_jobs=1, **parameters)
        selection = tune(ranker, view(log), valid=view(held_out), Cs=CS, criterion="dcg@10", n_jobs=1)
        return selection.ranker.predict(case.test)

    return train


def against_all(view: Callable[[ClickLog], ClickLog]) -> Method:
    def train(case: Case, log: ClickLog, held_out: ClickLog) -> FloatArray:
        queries = with_candidates(view(log), case.train)
        ranker = Ranker(SQUARED, n_jobs=1)
        selection = tune(ranker, queries, valid=view(held_out), Cs=CS, criterion="dcg@10", n_jobs=1)
        return selection.ranker.predict(case.test)

    return train


def skyline(case: Case, _: ClickLog, __: ClickLog) -> FloatArray:
    selection = tune(Ranker(SQUARED, n_jobs=1), case.train, valid=case.held_out, Cs=CS, criterion=MEASURE, n_jobs=1)
    return selection.ranker.predict(case.test)


def production(case: Case, _: ClickLog, __: ClickLog) -> FloatArray:
    return case.production(case.test)


@dataclass(frozen=True)
class Sessions:
    """Rows of sessions with a click, session after session, by position."""

    X: Any
    clicked: FloatArray
    position: Any
    sizes: Any

    @classmethod
    def of(cls, log: ClickLog) -> Sessions:
        """Take the sessions of a log of events."""
        assert log.impression is not None
        order = np.lexsort((log.position, log.impression))
        session = log.impression[order]
        kept = order[np.bincount(session, log.clicks[order])[session] > 0]
        _, sizes = np.unique(log.impression[kept], return_counts=True)
        X = np.asarray(log.documents.dense()[log.pair[kept]], dtype=np.float32)
        return cls(X, log.clicks[kept], log.position[kept] - 1, sizes)


def chosen_trees(
    case: Case, held_out: ClickLog, boost: Callable[..., Callable[[Any, int], FloatArray]], *options: Sequence[Any]
) -> FloatArray:
    """Return the scores of the test queries by the options and rounds that are best on held-out clicks."""
    queries = held_out.to_queries()
    best: tuple[float, FloatArray] | None = None
    for setting in product(*options):
        predict = boost(*setting)
        for rounds in ROUNDS:
            value = evaluate(queries, predict(queries.dense(), rounds), "dcg@10").mean["dcg@10"]
            if best is None or value > best[0]:
                best = value, predict(case.test.dense(), rounds)
    assert best is not None
    return best[1]


def lightgbm_positions(case: Case, log: ClickLog, held_out: ClickLog) -> FloatArray:
    import lightgbm

    rows = Sessions.of(log)
    quiet = {"verbosity": -1}

    def boost(leaves: int) -> Callable[[Any, int], FloatArray]:
        data = lightgbm.Dataset(rows.X, rows.clicked, group=rows.sizes, position=rows.position, params=quiet)
        settings = {"objective": "lambdarank", "num_leaves": leaves, "learning_rate": RATE, "num_threads": 1, **quiet}
        booster = lightgbm.train({**settings, "deterministic": True, "force_row_wise": True}, data, max(ROUNDS))
        return lambda X, rounds: np.asarray(booster.predict(X, num_iteration=rounds, num_threads=1))

    return chosen_trees(case, held_out, boost, LEAVES)


def xgboost_unbiased(case: Case, log: ClickLog, held_out: ClickLog) -> FloatArray:
    import xgboost

    # Positions are those in the group: rows of a session come by position.
    rows = Sessions.of(log)
    data = xgboost.DMatrix(rows.X, rows.clicked, nthread=1)
    data.set_group(rows.sizes)

    def boost(leaves: int, pairs: str) -> Callable[[Any, int], FloatArray]:
        settings = {
            "objective": "rank:ndcg",
            "lambdarank_unbiased": True,
            "lambdarank_pair_method": pairs,
            "max_leaves": leaves,
            "max_depth": 0,
            "grow_policy": "lossguide",
            "tree_method": "hist",
            "eta": RATE,
            "nthread": 1,
        }
        booster = xgboost.train(settings, data, max(ROUNDS))

        def predict(X: Any, rounds: int) -> FloatArray:
            scores = booster.predict(xgboost.DMatrix(X, nthread=1), iteration_range=(0, rounds))
            return np.asarray(scores, dtype=np.float64)

        return predict

    return chosen_trees(case, held_out, boost, LEAVES, ("topk", "mean"))


SQUARED = PairwiseHinge(power=2, normalize="none")
METHODS: dict[str, Method] = {
    "production": production,
    "naive, against all candidates": against_all(naive),
    "naive, against shown": ours(SQUARED, naive),
    "1/p, against all candidates": against_all(lambda log: log),
    "1/p, against shown: squared hinges": ours(SQUARED),
    "1/p, Propensity SVM-rank": ours(PairwiseHinge(normalize="none")),
    "1/p, softmax": ours("softmax"),
    "1/p, hinge of DCG@10": ours(StructuredLoss("dcg@10"), bound="hinge"),
    "1/p, tight bound of DCG@10": ours(StructuredLoss("dcg@10"), bound="tight"),
    "grades (skyline)": skyline,
    "LightGBM position=": lightgbm_positions,
    "XGBoost lambdarank_unbiased": xgboost_unbiased,
}
OURS = "1/p, against shown: squared hinges"
TREES = ("LightGBM position=", "XGBoost lambdarank_unbiased")
#: The lists of MQ2008 are shown as a whole.
ALL_SHOWN = ("naive, against all candidates", "1/p, against all candidates")
COLLECTIONS: dict[str, tuple[Callable[[int], Case], int]] = {"generated": (generated, 3), "mq2008": (mq2008, 5)}
#: Where correction pays: what is changed, on generated queries with 10,000 clicks.
SETTINGS: dict[str, Setting] = {
    "as above": USUAL,
    "5 shown": Setting(depth=5),
    "10 shown": Setting(depth=10),
    "40 shown": Setting(depth=40),
    "η = 0": Setting(eta=0.0),
    "η = 0.5": Setting(eta=0.5),
    "η = 1.5": Setting(eta=1.5),
    "η = 2": Setting(eta=2.0),
    "no noise": Setting(noise=0.0),
    "noise 0.3": Setting(noise=0.3),
    "3 rankers": Setting(rankers=3),
}


def values(case: Case, scores: FloatArray) -> FloatArray:
    return evaluate(case.test, scores, MEASURE)[MEASURE]


class Runs:
    """Finished runs, kept in a file beside the results, so that an interrupted benchmark can continue."""

    def __init__(self, path: Path) -> None:
        self.path = path
        lines = path.read_text("utf-8").splitlines() if path.exists() else []
        self.finished = {tuple(row["run"]): row for row in map(json.loads, lines)}

    def __call__(self, key: tuple[str, str, int, int], case: Case, logs: tuple[ClickLog, ClickLog]) -> None:
        """Train unless it was done; keep the values of the test queries and the CPU seconds."""
        if key in self.finished:
            return
        began = time.process_time()
        result = values(case, METHODS[key[1]](case, *logs))
        row = {"run": key, "values": result.round(6).tolist(), "cpu": time.process_time() - began}
        print(*key, f"{np.nanmean(result):.4f} {row['cpu']:.1f} CPU s", flush=True)
        self.finished[key] = row
        with self.path.open("a", encoding="utf-8") as file:
            file.write(json.dumps(row) + "\n")


@dataclass(frozen=True)
class Trees:
    """Limits of training trees: number of clicks, and number of draws beyond 10,000."""

    most_events: int
    draws: int

    def train(self, size: int, draw: int) -> bool:
        """Return whether to train them."""
        return size <= self.most_events and (size <= 10_000 or draw < self.draws)


def trained(name: str, method: str, size: int, sizes: Sequence[int], draw: int, trees: Trees) -> bool:
    """Return whether a method is trained with so many clicks: those that use none are trained once."""
    if method in ("production", "grades (skyline)"):
        return size == sizes[0]
    if method in TREES:
        return trees.train(size, draw)
    return name != "mq2008" or method not in ALL_SHOWN


def measure(name: str, draws: int, sizes: Sequence[int], trees: Trees, runs: Runs) -> dict[str, Any]:
    for draw in range(draws):
        case = COLLECTIONS[name][0](draw)
        for size in sizes:
            keys = [(name, method, size, draw) for method in METHODS if trained(name, method, size, sizes, draw, trees)]
            if not runs.finished.keys() >= set(keys):
                logs = case.logs(size, draw, aggregate=not trees.train(size, draw))
                for key in keys:
                    runs(key, case, logs)
    rows = {
        (method, size, draw): row
        for (case_name, method, size, draw), row in runs.finished.items()
        if case_name == name and size in sizes and draw < draws and trained(name, method, size, sizes, draw, trees)
    }
    per_query: dict[str, dict[int, dict[int, FloatArray]]] = {}
    cpu: dict[str, dict[str, list[float]]] = {}
    for method in METHODS:
        for size, draw in sorted((size, draw) for kind, size, draw in rows if kind == method):
            row = rows[method, size, draw]
            per_query.setdefault(method, {}).setdefault(size, {})[draw] = np.array(row["values"])
            cpu.setdefault(method, {}).setdefault(str(size), []).append(row["cpu"])
    means = {
        method: {str(size): [float(np.nanmean(v)) for v in by_draw.values()] for size, by_draw in by_size.items()}
        for method, by_size in per_query.items()
    }
    return {
        "draws": draws,
        "test queries": int(sum(len(result) for result in per_query[OURS][sizes[0]].values())),
        "values": means,
        "cpu": cpu,
        "differences": differences(per_query),
    }


def differences(per_query: Mapping[str, Mapping[int, Mapping[int, FloatArray]]]) -> dict[str, dict[str, Any]]:
    """Compare ours with both trees, query by query: by size, difference, interval and p of the paired t-test."""
    found: dict[str, dict[str, Any]] = {}
    for other in TREES:
        for size, by_draw in per_query.get(other, {}).items():
            mine = np.concatenate([per_query[OURS][size][draw] for draw in by_draw])
            row = compare({OURS: mine, other: np.concatenate([*by_draw.values()])}, baseline=other).rows[0]
            ends = [float(end) for end in row.interval]
            found.setdefault(other, {})[str(size)] = {"difference": row.difference, "interval": ends, "p": row.p_t}
    return found


def where_it_pays(draws: int, clicks: int) -> dict[str, dict[str, list[float]]]:
    rows: dict[str, dict[str, list[float]]] = {}
    for name, setting in SETTINGS.items():
        for draw in range(draws):
            case = generated(draw, setting)
            logs = case.logs(clicks, draw, aggregate=True)
            for method in ("naive, against shown", OURS):
                mean = float(np.nanmean(values(case, METHODS[method](case, *logs))))
                rows.setdefault(name, {}).setdefault(method, []).append(mean)
        print(f"{name:<12}", {method: round(statistics.fmean(v), 4) for method, v in rows[name].items()}, flush=True)
    return rows


def table(results: Mapping[str, Any]) -> str:
    lines: list[str] = []
    for name, about in (("generated", "Generated queries"), ("mq2008", "MQ2008")):
        if name in results:
            lines += [*_curve(about, results[name]), ""]
    if "settings" in results:
        lines += _settings(results["settings"])
    versions = ", ".join(f"{package} {number}" for package, number in results["versions"].items())
    return "\n".join([*lines, "", f"Made by `{results['command']}` with {versions}.", ""])


def _curve(about: str, result: Mapping[str, Any]) -> list[str]:
    sizes = list(dict.fromkeys(size for by_size in result["values"].values() for size in by_size))
    lines = [
        f"{about}: NDCG@10 on the grades of {result['test queries']:,} test queries in {result['draws']} draws, mean ± "
        "standard deviation over draws, and median CPU seconds to train and choose with the most clicks of the row.",
        "",
        "| clicks | " + " | ".join(f"{int(size):,}" for size in sizes) + " | CPU s |",
        "| --- |" + " --- |" * (len(sizes) + 1),
    ]
    for method, by_size in result["values"].items():
        fixed = method in ("production", "grades (skyline)")
        cells = [_mean(by_size[sizes[0] if fixed else size]) if fixed or size in by_size else "" for size in sizes]
        spent = [statistics.median(seconds) for seconds in result["cpu"][method].values()]
        lines.append(f"| {method} | " + " | ".join(cells) + f" | {spent[-1]:.1f} |")
    lines += [
        "",
        "| ours (squared hinges) minus | clicks | difference | 95% interval | p |",
        "| --- | --- | --- | --- | --- |",
    ]
    for other, by_size in result["differences"].items():
        for size, row in by_size.items():
            low, high = row["interval"]
            lines.append(
                f"| {other} | {int(size):,} | {row['difference']:+.4f} | {low:+.4f} to {high:+.4f} | {row['p']:.2g} |"
            )
    return lines


def _settings(rows: Mapping[str, Any]) -> list[str]:
    lines = [
        f"Generated queries, {rows['clicks']:,} clicks, {rows['draws']} draws: one thing changed at a time.",
        "",
        "| | naive, against shown | 1/p, against shown | gain |",
        "| --- | --- | --- | --- |",
    ]
    for name, by_method in rows["values"].items():
        plain, corrected = by_method["naive, against shown"], by_method[OURS]
        gain = statistics.fmean(corrected) - statistics.fmean(plain)
        lines.append(f"| {name} | {_mean(plain)} | {_mean(corrected)} | {gain:+.3f} |")
    return lines


def _mean(numbers: Sequence[float]) -> str:
    spread = f" ± {statistics.stdev(numbers):.3f}" if len(numbers) > 1 else ""
    return f"{statistics.fmean(numbers):.3f}{spread}"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--sizes", type=int, nargs="+", default=SIZES, help="numbers of clicks")
    parser.add_argument("--draws", type=int, help="draws of each collection (by default 3, and 5 folds)")
    parser.add_argument("--only", nargs="+", default=[*COLLECTIONS, "settings"], help="what to run")
    parser.add_argument("--most-events", type=int, default=100_000, help="clicks up to which trees are trained")
    parser.add_argument("--tree-draws", type=int, default=1, help="draws that trees see more than 10,000 clicks of")
    parser.add_argument("--runs", type=Path, help="file of finished runs; by default beside the JSON file")
    parser.add_argument("--out", type=Path, default=OUT, help="JSON file to write, and the text file beside it")
    parser.add_argument("--table-only", action="store_true", help="write the table of the JSON that is there")
    options = parser.parse_args()
    results: dict[str, Any] = json.loads(options.out.read_text("utf-8")) if options.out.exists() else {}
    packages = ("numpy", "scipy", "lightgbm", "xgboost", "marginrank")
    results["command"] = "python benchmarks/clicks_training.py"
    modules = {name: importlib.import_module(name).__version__ for name in packages}
    results["versions"] = {"python": platform.python_version(), **modules}
    if not options.table_only:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            for name in options.only:
                if name == "settings":
                    draws = options.draws or 3
                    results[name] = {"clicks": 10_000, "draws": draws, "values": where_it_pays(draws, 10_000)}
                else:
                    draws = options.draws or COLLECTIONS[name][1]
                    runs = Runs(options.runs or options.out.with_suffix(".runs"))
                    trees = Trees(options.most_events, options.tree_draws)
                    results[name] = measure(name, draws, options.sizes, trees, runs)
                options.out.write_text(json.dumps(results, indent=1) + "\n", encoding="utf-8")
    options.out.with_suffix(".txt").write_text(table(results), encoding="utf-8")
    print("\n" + table(results))


if __name__ == "__main__":
    main()
