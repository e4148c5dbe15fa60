"""The rankers that the experiments train; all are built here."""

from __future__ import annotations

from typing import Any, Final

from marginrank.losses.base import Bound, Loss
from marginrank.ranker import Ranker, Scaling
from marginrank.typing import FloatArray

#: Training stops at this gap, as a share of the objective, unless an experiment needs a smaller one.
TOLERANCE: Final = 1e-3


def ranker(
    method: str | Loss,
    *,
    bound: Bound | None = None,
    C: float = 1.0,
    tol: float = TOLERANCE,
    scaling: Scaling | None = None,
    start: FloatArray | None = None,
    bins: int | None = None,
    **options: Any,
) -> Ranker:
    """Return an untrained ranker that uses one thread.

    Args:
        method: The name of a preset, or a loss.
        bound: Hinge or tight bound of a loss; that of the preset by default.
        C: Weight of the risk.
        tol: Gap at which training stops, as a share of the objective.
        scaling: How features are scaled; by default they are used as they are.
        start: Weights at which training under the tight bound begins.
        bins: Number of quantile bins of an additive scorer; a linear scorer by default.
        options: Other parameters of `Ranker`.

    >>> ranker("ranksvm", C=10.0).C, ranker("svmmap", bins=16).scorer
    (10.0, 'additive')
    """
    learned: dict[str, Any] = {"preset": method} if isinstance(method, str) else {"loss": method}
    if bins is not None:
        learned |= {"scorer": "additive", "bins": bins, "spacing": "quantile"}
    return Ranker(
        **learned, bound=bound, C=C, tol=tol, scaling=scaling, start=start, random_state=0, n_jobs=1, **options
    )
