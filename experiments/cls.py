"""Shared by the experiments of Chapelle, Le and Smola (2007): data, the loss, how models are chosen, paired tests."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any, Final

import numpy as np
import numpy.typing as npt

from experiments.letor import SETS, Fold, choose, fold, pooled, values
from experiments.rankers import ranker
from experiments.verdicts import Difference, differences
from marginrank.losses.structured import StructuredLoss
from marginrank.preparation import QueryStandardize
from marginrank.ranker.ranker import Ranker
from marginrank.typing import FloatArray

PAPER: Final = "Chapelle, Le and Smola (2007)"
NAMES: Final = ("ohsumed2", "mq2008")
FOLDERS: Final = tuple(SETS[name].folder for name in NAMES)
CUTS: Final = tuple(range(1, 11))
NDCGS: Final = tuple(f"ndcg@{k}" for k in CUTS)
CS: Final = (0.01, 0.1, 1.0, 10.0, 100.0, 1000.0, 10000.0)
#: Profiles A by their name in `Positional`, as the paper writes them, with ranks from 1.
PROFILES: Final[Mapping[str, str]] = {"truncated": "max(k+1−r, 0)", "sqrt": "1/√r", "discount": "D(r)"}
#: What the notes of these experiments say.
DATA_NOTE: Final = (
    "The two web search sets are private; MQ2008 (784 queries, 46 features, 3 grades) is used instead. OHSUMED is "
    "that of LETOR 2.0, with the 25 features and the folds of the paper."
)
SCALING_NOTE: Final = (
    "The features of OHSUMED are raw, and the paper does not say how it scales them. Here features are standardized "
    "within each query, on both sets; a regression then needs no intercept."
)
MODEL_NOTE: Final = (
    "C is chosen from 10⁻² to 10⁴, a power of ten apart, by NDCG@10 on the validation queries; λ of the paper is the "
    "number of training queries over C. The tight bound is minimized by the concave-convex procedure instead of "
    "gradient descent, from a regression w0 whose own C is chosen in the same way."
)


def scaled_fold(data: Path, name: str, number: int, most: int | None = None) -> Fold:
    """Return a fold of the publisher, with features of mean 0 and standard deviation 1 in each query."""
    return Fold(*(QueryStandardize().fit_transform(part) for part in fold(data, name, number, most)))


def ndcg_loss(k: int = 10, shape: str = "truncated") -> StructuredLoss:
    """Return the hinge of eq. (12): NDCG@k, and φdorm with the profile A(r) = max(k + 1 − r, 0) of §2 or another."""
    return StructuredLoss(f"ndcg@{k}", f"dorm(shape={shape})")


def regression(data: Fold, criterion: str = "ndcg@10", Cs: Sequence[float] = CS) -> Ranker:
    """Train w0 of §5.3, a regression on the grades."""
    return choose(ranker("regression"), data, Cs=Cs, criterion=criterion).ranker


def tight(start: Ranker, k: int = 10, shape: str = "truncated") -> Ranker:
    """Return an untrained ranker for the bound of eq. (14), which begins at the weights of another and stays near."""
    return ranker(ndcg_loss(k, shape), bound="tight", start=start.coef_)


def rounded(numbers: npt.ArrayLike) -> list[float]:
    """Return numbers with five digits after the point, without those that are NaN."""
    array = np.asarray(numbers, dtype=np.float64)
    return [round(value, 5) for value in array[~np.isnan(array)].tolist()]


def measured(scores: Mapping[int, FloatArray], data: Fold, name: str) -> dict[str, Any]:
    """Measure scores of the test queries, one array for each cutoff k that NDCG@k is measured with.

    ``values`` has the mean of NDCG@1 to NDCG@10 by query, a tenth of the sum of §5.1, for queries with a relevant
    document. ``plain`` and ``official`` are means over queries by cutoff, of eq. (1) and of the publisher's script.
    """
    plain = [values(data.test, of_cutoff, [f"ndcg@{k}"])[f"ndcg@{k}"] for k, of_cutoff in scores.items()]
    official = [
        values(data.test, of_cutoff, [f"ndcg@{k}"], SETS[name].policy)[f"ndcg@{k}"] for k, of_cutoff in scores.items()
    ]
    return {
        "values": {"ndcg": rounded(np.mean(plain, axis=0)), "ndcg@10": rounded(plain[-1])},
        "plain": rounded(np.nanmean(plain, axis=1)),
        "official": rounded(np.mean(official, axis=1)),
    }


def compared(results: Mapping[str, Any], name: str, pairs: Iterable[tuple[str, str]], key: str) -> list[Difference]:
    """Compare pairs of methods on one set, as one claim; results are named ``NAME/METHOD/fold N``."""
    return differences(
        {
            f"{method} − {other}": (
                pooled(results, f"{name}/{method}", key),
                pooled(results, f"{name}/{other}", key),
            )
            for method, other in pairs
        }
    )
