"""Shared by the experiments of Chakrabarti et al. (KDD 2008): data, methods, and paired tests."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import replace
from functools import cache
from itertools import pairwise
from pathlib import Path
from typing import Final, cast

import numpy as np

from experiments import rankers, verdicts
from experiments.letor import SETS, Fold, arranged, parts
from experiments.verdicts import Difference
from marginrank.data.queries import Queries
from marginrank.losses.base import Bound, Loss
from marginrank.losses.combination import MaxLoss, SumLoss
from marginrank.losses.structured import StructuredLoss
from marginrank.preparation.cleaning import clean
from marginrank.preparation.query_scaling import QueryMinMax
from marginrank.ranker.ranker import Ranker
from marginrank.typing import BoolArray, FloatArray

#: §2.2 of the paper: binary relevance, cutoff 10, and the discount 1, 1, 1/log2(1 + r).
MEASURES: Final = {"MRR10": "rr@10", "NDCG10": "ndcg@10(discount=letor)", "MAP": "ap"}
NDCG_NC: Final = "ndcg(discount=letor)"
#: One model has to do for all three columns, so all three choose C.
CRITERION: Final = " + ".join(MEASURES.values())
DATA: Final = ("ohsumed2", "mq2008")
FOLDERS: Final = tuple(SETS[name].folder for name in DATA)
CLEANINGS: Final = ("as published", "cleaned")
#: The other reading of §4.1: of a relevant and an irrelevant document that are alike, only the latter is dropped.
ONLY_IRRELEVANT: Final = "cleaned of irrelevant documents"
#: Values of queries are stored with three digits; smaller differences are ties.
_ROUNDING: Final = 1e-3


def mrr_loss(feature_map: str, k: int = 10) -> StructuredLoss:
    """Reciprocal rank under a feature map."""
    return StructuredLoss(f"rr@{k}", feature_map)


def _combined(feature_map: str) -> tuple[Loss, ...]:
    return StructuredLoss(MEASURES["MAP"]), StructuredLoss(NDCG_NC), mrr_loss(feature_map)


#: The losses by the names of Figure 9, and those that tell its ambiguities apart.
LOSSES: Final[Mapping[str, Loss]] = {
    "AUC": StructuredLoss("auc"),
    "MAP": StructuredLoss(MEASURES["MAP"]),
    "NDCG": StructuredLoss(MEASURES["NDCG10"]),
    "NDCG-NC": StructuredLoss(NDCG_NC),
    "MRR": mrr_loss("mrr"),
    "MRR φpo": mrr_loss("po"),
    "COMBO": SumLoss(_combined("mrr")),
    "COMBO shared": MaxLoss(_combined("mrr")),
    "COMBO φpo": SumLoss(_combined("po")),
    "COMBO φpo shared": MaxLoss(_combined("po")),
    "DORM": StructuredLoss(MEASURES["NDCG10"], "dorm"),
}


def ranker(method: str) -> Ranker:
    """Return an untrained ranker by the name of its row; a loss has the hinge unless ``tight`` is said.

    >>> ranker("DORM tight").bound
    'tight'
    """
    if method in ("McRank", "RankSVM"):
        return rankers.ranker(method.lower())
    bound: Bound = "tight" if method.endswith(" tight") else "hinge"
    return rankers.ranker(LOSSES[method.removesuffix(" tight")], bound=bound)


def title(name: str, cleaning: str) -> str:
    """Return the name of a set in tables."""
    return f"{SETS[name].title}, {cleaning}"


def binary(queries: Queries) -> Queries:
    """Scale features to [0, 1] within each query, and make grades binary: 1 and above is relevant, as in §4.1."""
    relevant = (queries.grades >= 1).astype(np.float64)
    return cast("Queries", QueryMinMax().fit_transform(replace(queries, judgements=relevant)))


@cache
def prepared(data: Path, name: str, cleaning: str, most: int | None = None) -> tuple[Queries, ...]:
    """Return the five parts of a set with binary grades, as published or cleaned one way or the other."""
    prepared_parts = [binary(part) for part in parts(data, name, most)]
    if cleaning == ONLY_IRRELEVANT:
        return tuple(map(drop_irrelevant_alike, prepared_parts))
    return tuple(clean(part)[0] if cleaning == "cleaned" else part for part in prepared_parts)


def drop_irrelevant_alike(queries: Queries, cosine: float = 0.99) -> Queries:
    """Drop all-zero documents, and irrelevant ones that point the same way as a relevant one of their query.

    >>> queries = Queries.from_arrays([[1.0, 0.0], [2.0, 0.0], [0.0, 1.0]], [1, 0, 0], group=[3])
    >>> drop_irrelevant_alike(queries).X.tolist()
    [[1.0, 0.0], [0.0, 1.0]]
    """
    X, relevant = np.asarray(queries.X), queries.grades >= 1
    norms = np.linalg.norm(X, axis=1)
    units = X / np.maximum(norms, 1e-300)[:, None]
    keep = norms > 0
    for start, end in pairwise(queries.offsets.tolist()):
        vectors, is_relevant = units[start:end], relevant[start:end]
        alike = (vectors @ vectors[is_relevant].T > cosine).any(axis=1)
        keep[start:end] &= is_relevant | ~alike
    return documents(queries, keep)


def documents(queries: Queries, keep: BoolArray) -> Queries:
    """Keep some documents; queries may be left without any."""
    return replace(
        queries,
        X=queries.X[keep],
        judgements=queries.grades[keep],
        query_offsets=np.r_[0, np.cumsum(keep)][queries.offsets],
        document_ids=None,
        rows=None,
        keyed_by=None,
        keys=queries.document_keys[keep],
    )


def fold(data: Path, name: str, cleaning: str, number: int, most: int | None = None) -> Fold:
    """Return a fold of the publisher, prepared."""
    return arranged(prepared(data, name, cleaning, most), number)


def pack(values: Iterable[float]) -> str:
    """Write the values of queries in thousandths, leaving out queries that do not count.

    >>> pack([0.5, float("nan"), 1 / 3])
    '500 333'
    """
    return " ".join(f"{1000 * value:.0f}" for value in values if value == value)  # noqa: PLR0124


def unpack(text: str) -> FloatArray:
    """Read what `pack` wrote.

    >>> unpack("500 333").tolist()
    [0.5, 0.333]
    """
    return np.array(text.split(), dtype=np.float64) / 1000


def differences(pairs: Mapping[str, tuple[FloatArray, FloatArray]]) -> list[Difference]:
    """Test the comparisons of one claim, with values of three digits."""
    return verdicts.differences(pairs, grid=_ROUNDING)
