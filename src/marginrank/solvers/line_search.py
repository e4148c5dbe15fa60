"""Where an objective is least between two points."""

from __future__ import annotations

from typing import Final, NamedTuple

from marginrank.solvers.problem import Line
from marginrank.typing import FloatArray

#: Points at which the risk is evaluated.
_TRIES: Final = 4
#: Share of the way between two points that is left on either side.
_APART: Final = 0.1


class _Tangent(NamedTuple):
    """The risk and its slope at a share of the way."""

    t: float
    risk: float
    slope: float


def least_along(line: Line, C: float, center: FloatArray, first: float, enough: float = 0.0) -> tuple[float, float]:
    """Return about where ½‖θ − center‖² + C·risk(θ) is least on the way, and the risk there.

    The objective is convex, so it is least between a point where it falls and one where it rises. The risk is taken for
    the larger of its tangents at these two, and evaluated next where the objective would then be least.

    Args:
        line: The way.
        C: Weight of the risk.
        center: Where the regulariser is least.
        first: Share of the way to begin with.
        enough: How much lower the objective need not become.
    """
    change = line.end - line.start
    linear, square = float((line.start - center) @ change), float(change @ change)

    def value(at: _Tangent) -> float:
        return linear * at.t + 0.5 * square * at.t**2 + C * at.risk

    def lowest(slope: float) -> float:
        """Where the objective is least if the risk has this slope everywhere."""
        return -(linear + C * slope) / square

    low: _Tangent | None = None
    high: _Tangent | None = None
    best, t = None, first
    for _ in range(_TRIES):
        here = _Tangent(t, *line(t))
        best = here if best is None or value(here) < value(best) else best
        if linear + square * t + C * here.slope > 0.0:
            high = here
        else:
            low = here
        if high is None:
            if t >= 1.0:
                break
            t = min(1.0, 2.0 * t)
        elif low is None:
            t = 0.5 * high.t
        else:
            t = min(max(_meeting(low, high), lowest(high.slope)), lowest(low.slope))
            if value(best) - value(_Tangent(t, low.risk + low.slope * (t - low.t), low.slope)) <= enough:
                break
            apart = _APART * (high.t - low.t)
            t = min(max(t, low.t + apart), high.t - apart)
    assert best is not None
    return best.t, best.risk


def _meeting(low: _Tangent, high: _Tangent) -> float:
    """Return where two tangents meet; half-way where they are parallel."""
    bend = high.slope - low.slope
    if bend <= 0.0:
        return 0.5 * (low.t + high.t)
    return (low.risk - high.risk + high.slope * high.t - low.slope * low.t) / bend
