"""Choose C, and anything else, on queries that were not trained on."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from itertools import product
from pathlib import Path
from typing import Any, Final, Literal, TypeAlias

import numpy as np
from sklearn.base import clone
from threadpoolctl import threadpool_limits

from marginrank.data.queries import Queries
from marginrank.errors import DataError
from marginrank.evaluation.evaluating import Evaluation, evaluate
from marginrank.evaluation.policies import Policy, parse_policy
from marginrank.methods.presets import parse_mix
from marginrank.ranker import Ranker
from marginrank.threads import thread_count
from marginrank.typing import FloatArray
from marginrank.words import plain

#: Ten values of C over six decades: raw features in [0, 1] want large ones, standardised features small ones.
DEFAULT_CS: Final = tuple(float(f"{C:.3g}") for C in np.logspace(-2, 4, 10))
Rule: TypeAlias = Literal["best", "one-se"]


@dataclass(frozen=True, eq=False)
class Candidate:
    """One setting of the parameters, and what it reached on the queries held out."""

    parameters: Mapping[str, Any]
    mean: float
    standard_error: float
    objective: float
    average_slack: float
    norm: float
    passes: float


@dataclass(frozen=True, eq=False)
class Selection:
    """All settings that were tried, which was chosen, and a ranker trained with it.

    Args:
        candidates: The settings, in the order they were tried.
        chosen: Number of the setting chosen.
        ranker: Trained with it: on the training queries where there were validation queries, on all otherwise.
        criterion: What decided.
        policy: How ties and queries without relevant documents counted.
        rule: ``best``, or ``one-se``.
        held_out: What the criterion was measured on.
    """

    candidates: tuple[Candidate, ...]
    chosen: int
    ranker: Ranker
    criterion: str
    policy: str
    rule: Rule
    held_out: str

    @property
    def best(self) -> Candidate:
        """The setting chosen."""
        return self.candidates[self.chosen]

    def to_dict(self) -> dict[str, Any]:
        """Everything but the ranker, as plain Python values."""
        return {
            "criterion": self.criterion,
            "policy": self.policy,
            "rule": self.rule,
            "held_out": self.held_out,
            "chosen": self.chosen,
            "candidates": [
                {**{name: plain(value) for name, value in one.parameters.items()}, **_figures(one)}
                for one in self.candidates
            ],
        }

    def plot(self, path: str | Path | None = None) -> Any:
        """Draw the criterion against C, with standard errors; needs matplotlib.

        Args:
            path: Where to write the picture; its suffix says the format.

        Returns:
            A matplotlib figure.
        """
        from marginrank.plots import plot_selection  # noqa: PLC0415

        return plot_selection(self.to_dict(), path)

    def __str__(self) -> str:
        others = [name for name in self.best.parameters if name != "C"]
        rows = [[*others, "C", self.criterion, "± s.e.", "slack", "‖w‖", "passes", ""]]
        for number, one in enumerate(self.candidates):
            rows.append(
                [
                    *(str(one.parameters[name]) for name in others),
                    f"{one.parameters['C']:g}",
                    f"{one.mean:.4f}",
                    f"{one.standard_error:.4f}",
                    f"{one.average_slack:.4g}",
                    f"{one.norm:.3g}",
                    f"{one.passes:.0f}",
                    "chosen" if number == self.chosen else "",
                ]
            )
        widths = [max(len(row[column]) for row in rows) for column in range(len(rows[0]))]
        lines = ["  ".join(cell.rjust(width) for cell, width in zip(row, widths, strict=True)).rstrip() for row in rows]
        return "\n".join([*lines, f"{self.held_out}, policy {self.policy}, rule {self.rule}"])


def tune(
    ranker: Ranker,
    queries: Queries,
    *,
    valid: Queries | None = None,
    folds: int | None = None,
    Cs: Iterable[float] = DEFAULT_CS,
    grid: Mapping[str, Sequence[Any]] | None = None,
    criterion: str | None = None,
    policy: str | Policy = "standard",
    rule: Rule = "best",
    random_state: int | None = 0,
    n_jobs: int | None = None,
) -> Selection:
    """Choose C, and other parameters of a ranker, by a measure on queries that were not trained on.

    Every setting of the other parameters takes one path of C, so ten values cost little more than the hardest. A
    baseline without C is one setting: its own C, which means nothing, is the only one.

    Args:
        ranker: What to train; its C does not matter.
        queries: The training queries.
        valid: Queries that decide. Without them ``folds`` parts of the training queries do so in turn, and the ranker
            is trained on all of them at the end.
        folds: Number of parts; 5 where there are no validation queries.
        Cs: Values of C.
        grid: Other parameters of `Ranker` to try, each with its values, for example
            ``{"feature_map": ["dorm", "dorm(shape=log)", "dorm(shape=truncated)"]}``, the choice of A by validation of
            Chapelle, Le and Smola (2007) §6.
        criterion: The measure that decides, or a mix; by default the one that the ranker is for.
        policy: How ties and queries without relevant documents count.
        rule: ``best`` takes the highest mean; ``one-se`` the smallest C whose mean is at most one standard error below
            it, among settings that are otherwise as the best.
        random_state: Seed of the parts.
        n_jobs: Folds that are trained at the same time; all cores by default.

    >>> rng = np.random.default_rng(0)
    >>> X = rng.standard_normal((600, 3))
    >>> y = (X @ [1.0, -1.0, 0.0] + rng.standard_normal(600) > 1).astype(int)
    >>> train = Queries.from_arrays(X, y, qid=np.arange(600) // 10)
    >>> chosen = tune(Ranker("svmmap"), train, folds=3, Cs=[0.1, 1.0, 10.0])
    >>> chosen.best.mean > 0.6, chosen.ranker.C == chosen.best.parameters["C"]
    (True, True)
    """
    if rule not in ("best", "one-se"):
        raise ValueError(f"rule is {rule!r}; choose 'best' or 'one-se'")
    if valid is not None and folds is not None:
        raise ValueError("give validation queries or a number of folds, not both")
    rules, wanted = parse_policy(policy), sorted({float(C) for C in Cs})
    if not wanted:
        raise ValueError("Cs is empty; give at least one C")
    mix = criterion or ranker._method().measure
    splits = [(queries, valid)] if valid is not None else _folds(queries, 5 if folds is None else folds, random_state)
    settings = [dict(zip(grid or {}, values, strict=True)) for values in product(*(grid or {}).values())]
    models = [clone(ranker).set_params(**setting) for setting in settings]
    # A method without C is the same for all.
    paths = [wanted if model._method().takes_C else [ranker.C] for model in models]
    tasks = [(clone(model), *split, Cs) for model, Cs in zip(models, paths, strict=True) for split in splits]
    threads = min(thread_count(n_jobs), len(tasks))

    def work(task: tuple[Ranker, Queries, Queries, list[float]]) -> list[tuple[Ranker, FloatArray]]:
        model, train, held_out, Cs = task
        if threads > 1:
            model.set_params(n_jobs=1)
        return [(one, _criterion(one, held_out, mix, rules)) for one in model.fit_path(train, Cs=Cs)]

    # Threads that limit BLAS one by one would undo each other's limits.
    with threadpool_limits(1, "blas"), ThreadPoolExecutor(threads) as pool:
        trained = list(pool.map(work, tasks))
    candidates, rankers = [], []
    for number, setting in enumerate(settings):
        of_folds = trained[number * len(splits) : (number + 1) * len(splits)]
        for at, C in enumerate(paths[number]):
            candidates.append(_candidate({**setting, "C": C}, [path[at] for path in of_folds]))
            rankers.append(of_folds[0][at][0])
    chosen = _choose(candidates, rule)
    held_out = (
        f"{len(splits[0][1]):,} validation queries" if valid is not None else f"{len(splits)} folds of the queries"
    )
    final = rankers[chosen].set_params(n_jobs=ranker.n_jobs)
    if valid is None:
        final = clone(ranker).set_params(**candidates[chosen].parameters).fit(queries)
    selection = Selection(tuple(candidates), chosen, final, mix, rules.name, rule, held_out)
    final.selection_ = selection.to_dict()
    return selection


def _folds(queries: Queries, k: int, random_state: int | None) -> list[tuple[Queries, Queries]]:
    if len(queries) < 2:
        raise DataError("one query cannot be cut into folds; give validation queries, or one value of C")
    if not 2 <= k <= len(queries):
        raise DataError(f"folds is {k} for {len(queries)} queries; give 2 or more, and at most one per query")
    part = np.random.default_rng(random_state).permutation(np.arange(len(queries)) % k)
    return [(queries[np.flatnonzero(part != number)], queries[np.flatnonzero(part == number)]) for number in range(k)]


def _criterion(ranker: Ranker, held_out: Queries, mix: str, policy: Policy) -> FloatArray:
    """Value of the criterion for each query, NaN where the policy leaves it out."""
    parts = parse_mix(mix)
    found: Evaluation = evaluate(
        held_out, ranker.predict(held_out), [str(measure) for _, measure in parts], policy=policy, n_jobs=ranker.n_jobs
    )
    total = sum(weight for weight, _ in parts)
    return np.asarray(sum(weight * found[str(measure)] for weight, measure in parts) / total)


def _candidate(parameters: Mapping[str, Any], folds: Sequence[tuple[Ranker, FloatArray]]) -> Candidate:
    values = np.concatenate([own for _, own in folds])
    counted = values[~np.isnan(values)]
    if not len(counted):
        raise DataError("no query that was held out has a relevant document; give more queries, or fewer folds")
    models = [model for model, _ in folds]
    return Candidate(
        parameters,
        float(counted.mean()),
        float(counted.std(ddof=1) / np.sqrt(len(counted))) if len(counted) > 1 else 0.0,
        float(np.mean([model.objective_ for model in models])),
        float(np.mean([model.solution_.risk for model in models])),
        float(np.mean([np.linalg.norm(model.coef_) for model in models])),
        float(np.mean([model.solution_.passes for model in models])),
    )


def _choose(candidates: Sequence[Candidate], rule: Rule) -> int:
    best = max(range(len(candidates)), key=lambda number: candidates[number].mean)
    if rule == "best":
        return best
    top = candidates[best]
    others = {name: value for name, value in top.parameters.items() if name != "C"}
    for number, one in enumerate(candidates):
        same = {name: value for name, value in one.parameters.items() if name != "C"} == others
        if same and one.mean >= top.mean - top.standard_error:
            return number
    return best


def _figures(one: Candidate) -> dict[str, float]:
    names = ("mean", "standard_error", "objective", "average_slack", "norm", "passes")
    return {name: getattr(one, name) for name in names}
