"""Every measure once more, slowly and straight from its definition, for one ranked list of grades."""

from __future__ import annotations

from collections.abc import Callable, Collection, Sequence
from math import isnan, log2

Grades = Sequence[float]


def dcg(grades: Grades, k: int | None = None, gain: str | Grades = "exp2", discount: str = "log2") -> float:
    gains = {"exp2": lambda g: 2**g - 1, "linear": lambda g: g, "binary": lambda g: float(g >= 1)}
    discounts = {"log2": lambda r: 1 / log2(r + 2), "letor": lambda r: 1 if r < 2 else 1 / log2(r + 1)}
    worth = gains[gain] if isinstance(gain, str) else lambda g: gain[int(g)]
    return sum(worth(g) * discounts[discount](r) for r, g in enumerate(grades[:k]))


def ndcg(grades: Grades, k: int | None = None, **options: str) -> float:
    best = dcg(sorted(grades, reverse=True), k, **options)
    return dcg(grades, k, **options) / best if best else 0.0


def ap(grades: Grades, k: int | None = None, rel: float = 1) -> float:
    n_rel = sum(g >= rel for g in grades)
    precisions = [sum(g >= rel for g in grades[: r + 1]) / (r + 1) for r, g in enumerate(grades[:k]) if g >= rel]
    return sum(precisions) / n_rel if n_rel else 0.0


def auc(grades: Grades, rel: float = 1) -> float:
    relevant = [r for r, grade in enumerate(grades) if grade >= rel]
    irrelevant = [r for r, grade in enumerate(grades) if grade < rel]
    pairs = len(relevant) * len(irrelevant)
    return sum(r < other for r in relevant for other in irrelevant) / pairs if pairs else 0.0


def rr(grades: Grades, k: int | None = None, rel: float = 1) -> float:
    return next((1 / (r + 1) for r, g in enumerate(grades[:k]) if g >= rel), 0.0)


def success(grades: Grades, k: int, rel: float = 1) -> float:
    return float(any(g >= rel for g in grades[:k]))


def precision(grades: Grades, k: int, rel: float = 1) -> float:
    return sum(g >= rel for g in grades[:k]) / k


def recall(grades: Grades, k: int | None = None, rel: float = 1) -> float:
    n_rel = sum(g >= rel for g in grades)
    return sum(g >= rel for g in grades[:k]) / n_rel if n_rel else 0.0


def wta(grades: Grades) -> float:
    return float(bool(grades) and grades[0] == max(grades) > 0)


def eru(grades: Grades, halflife: float = 5, neutral: float = 0, normalized: bool = False) -> float:
    def total(order: Grades) -> float:
        return sum(2 ** (-r / (halflife - 1)) * max(g - neutral, 0) for r, g in enumerate(order))

    best = total(sorted(grades, reverse=True))
    return (total(grades) / best if best else 0.0) if normalized else total(grades)


def rbp(grades: Grades, k: int | None = None, p: float = 0.8, rel: float = 1) -> float:
    return (1 - p) * sum(p**r for r, g in enumerate(grades[:k]) if g >= rel)


def err(grades: Grades, k: int | None = None, max_grade: float = 4) -> float:
    total, reached = 0.0, 1.0
    for r, g in enumerate(grades[:k]):
        stop = (2**g - 1) / 2**max_grade
        total += reached * stop / (r + 1)
        reached *= 1 - stop
    return total


def judged(grades: Grades, k: int | None = None) -> float:
    """Every document of a list of grades is judged."""
    return 1.0 if grades[:k] else 0.0


def bpref(grades: Grades, rel: float = 1) -> float:
    """For each relevant document, the share of the first irrelevant ones, as many as are relevant, that come after."""
    judged = [g for g in grades if not isnan(g)]
    n_rel, n_irr = sum(g >= rel for g in judged), sum(g < rel for g in judged)
    total = 0.0
    for r, g in enumerate(judged):
        if g >= rel:
            before = sum(other < rel for other in judged[:r])
            total += 1 - min(before, n_rel) / min(n_irr, n_rel) if before else 1.0
    return total / n_rel if n_rel else 0.0


def infap(grades: Grades, rel: float = 1, outside: Collection[int] = ()) -> float:
    """The loop of trec_eval's m_infap.c; ``outside`` are ranks of documents outside the pool."""
    total, n_rel, n_irr, n_unjudged = 0.0, 0, 0, 0
    for r, g in enumerate(grades):
        if r in outside:
            continue
        if isnan(g):
            n_unjudged += 1
        elif g < rel:
            n_irr += 1
        else:
            share = (n_rel + 1e-5) / (n_rel + n_irr + 2e-5)
            pooled = (n_rel + n_irr + n_unjudged) / r if r else 0.0
            total += 1 / (r + 1) + r / (r + 1) * pooled * share
            n_rel += 1
    return total / n_rel if n_rel else 0.0


def rbp_residual(grades: Grades, p: float = 0.8) -> float:
    return (1 - p) * sum(p**r for r, g in enumerate(grades) if isnan(g)) + (p ** len(grades) if grades else 0.0)


REFERENCE: dict[str, Callable[..., float]] = {
    "judged": judged,
    "dcg": dcg,
    "ndcg": ndcg,
    "ap": ap,
    "auc": auc,
    "rr": rr,
    "success": success,
    "p": precision,
    "recall": recall,
    "wta": wta,
    "eru": eru,
    "rbp": rbp,
    "err": err,
    "bpref": bpref,
    "infap": infap,
    "rbp_residual": rbp_residual,
}

#: Spellings that between them use every parameter of every measure.
SPELLINGS = [
    "dcg", "dcg@2", "dcg@10(gain=linear)", "dcg(gain=binary,discount=letor)", "dcg@3(gain=0|1|1|2.5)",
    "ndcg", "ndcg@1", "ndcg@3", "ndcg@10", "ndcg@3(gain=linear,discount=letor)", "ndcg@4(gain=binary)",
    "ndcg@10(gain=0|0|3|10)",
    "ap", "ap@3", "ap(rel=2)", "auc", "auc(rel=2)",
    "rr", "rr@2", "rr@10(rel=2)", "success@1", "success@3(rel=2)",
    "p@1", "p@3", "p@10(rel=2)", "recall", "recall@2", "recall@3(rel=2)",
    "wta", "eru", "eru(halflife=2,neutral=1)", "eru(halflife=3,normalized=true)",
    "rbp", "rbp@2(p=0.5)", "rbp(p=0.9,rel=2)", "err", "err@2", "err@10(max_grade=3)",
    "judged", "judged@2", "bpref", "bpref(rel=2)", "infap", "infap(rel=2)", "rbp_residual", "rbp_residual(p=0.5)",
]  # fmt: skip
