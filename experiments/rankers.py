"""The rankers that the experiments train; all are built here."""

from __future__ import annotations

from typing import Any, Final

from marginrank.losses.base import Bound, Loss
from marginrank.methods.presets import parse_preset
from marginrank.ranker.ranker import Ranker
from marginrank.scorers.additive.scorer import Additive
from marginrank.solvers.auto import Auto
from marginrank.training.tight_bound import Tight
from marginrank.typing import FloatArray

#: Training stops at this gap, as a share of the objective, unless an experiment says otherwise.
TOLERANCE: Final = 1e-5


def ranker(
    method: str | Loss,
    *,
    bound: Bound | None = None,
    C: float = 1.0,
    tol: float = TOLERANCE,
    scaling: str | None = None,
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
    (10.0, Additive(bins=16, spacing='quantile', shape='steps', monotone=None, device=None))
    """
    if bins is not None:
        options["scorer"] = Additive(bins=bins, spacing="quantile", shape="steps")
    preset = isinstance(method, str) and parse_preset(method)
    if not preset or preset.loss is not None:
        options["solver"] = Auto(tol=tol)
    return Ranker(
        method,
        bound=bound if start is None else Tight(start=start),
        C=C,
        scaling=scaling,
        random_state=0,
        n_jobs=1,
        **options,
    )
