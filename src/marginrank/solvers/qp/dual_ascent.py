"""The dual of the program of planes, raised from multipliers that are near its maximum."""

from __future__ import annotations

import time
from collections.abc import Iterator
from typing import Final, NamedTuple

import numpy as np

from marginrank.solvers.qp.plane_program import GramMatrix, PlaneProgram, maximize_dual
from marginrank.typing import FloatArray

#: Moves of multiplier for each plane before the program is solved at once: many in a small program, where they are
#: cheap, unless there are few entries of θ, which makes solving at once quick.
_MOST_MOVES: Final = 1000
_MOVES: Final = 5
_SMALL: Final = 256
#: Changes of heights that take no longer than solving the smallest program at once; each move changes all heights.
_CHEAP: Final = 3_000_000
#: Share of the gap asked for that moves aim at where there are few entries of θ; a better point saves iterations.
_CLOSER: Final = 0.5
#: Share of the gap asked for that is left to each quadratic, where the dual has several.
_WORKED_OUT: Final = 0.3
#: Most quadratics, each good where the same entries of θ are 0.
_MOST_PIECES: Final = 12
#: Depth below the highest plane of its part, as a share of the range of heights, from which a plane is left out.
_DEEP: Final = 0.005
#: Share of C that is next to nothing.
_LITTLE: Final = 1e-3


class AscentResult(NamedTuple):
    """Multipliers, those of the planes that hold something up, and the planes where the first two lead.

    Args:
        alpha: The multipliers.
        sharp: Multipliers of the planes that hold something up, which may be a little worse.
        pull: The sum of α times the slopes, where it is known.
        heights: The planes at the point that goes with α.
    """

    alpha: FloatArray
    sharp: FloatArray
    pull: FloatArray | None
    heights: FloatArray


def ascend(
    program: PlaneProgram, products: GramMatrix, alpha: FloatArray, target: float, deadline: float
) -> Iterator[AscentResult]:
    """Yield better and better multipliers; the caller ends that where the gap is at most ``target``.

    The dual is quadratic in α as long as the same entries of θ are 0 by their sign. Each quadratic is raised by itself,
    and then the dual along the way that led there.
    """
    if program.all_free:
        gram = products.over(program.free, program.slopes)
        there, sharp = _raised(program, gram, alpha, program.heights - gram @ alpha, target)
        alpha = program.balanced(there)
        yield AscentResult(alpha, alpha if sharp is there else sharp, None, program.heights - gram @ alpha)
        return
    # Each product with all slopes is a look at all planes, and these take most of the time.
    pull = alpha @ program.slopes
    away = program.inside(-pull)
    heights = program.heights + program.slopes @ away
    for _ in range(_MOST_PIECES):
        gram = products.over(program.free | (away == -pull), program.slopes)
        there, sharp = _raised(program, gram, alpha, heights, _WORKED_OUT * target)
        change = there - alpha
        pull_change = change @ program.slopes
        length = program.longest_rise(pull, pull_change, float(program.heights @ change))
        if length <= 0.0 or not change.any():
            # They may be near enough from the start.
            yield AscentResult(alpha, alpha, pull, heights)
            return
        alpha, pull = program.balanced(alpha + length * change), pull + length * pull_change
        away = program.inside(-pull)
        heights = program.heights + program.slopes @ away
        yield AscentResult(alpha, alpha if sharp is there or length < 1.0 else sharp, pull, heights)
        if time.perf_counter() > deadline:
            return


def _raised(
    program: PlaneProgram, gram: FloatArray, alpha: FloatArray, heights: FloatArray, target: float
) -> tuple[FloatArray, FloatArray]:
    """Raise one quadratic: by moves between two planes (Platt, 1998), and where these are slow, at once.

    Returns the multipliers, and those without the little that interior points leave on every plane. Planes far below
    the highest of their part have no share in the maximum; where they turn out to have one, they are taken in. With
    fewer entries of θ than planes, the primal is the smaller program, and is left to others.
    """
    from marginrank.solvers.qp.dual_ascent_kernel import ascend_dual  # noqa: PLC0415

    members, starts = program.by_part
    there, reached, bounds = alpha.copy(), heights.copy(), np.append(starts, len(members))
    flat = program.slopes.shape[1] <= len(alpha)
    small = flat or len(alpha) <= _SMALL
    moves = len(alpha) * (_MOST_MOVES if small and not flat else _MOVES)
    moves, aim = max(moves, _CHEAP // len(alpha)), _CLOSER * target if flat else target
    left = ascend_dual(gram, members, bounds, program.C, aim, moves, there, reached)
    if left <= target:
        return there, there
    for share in (_DEEP,) if small else (_DEEP, _DEEP, 1.0):
        depth = program.tops(reached)[program.owners] - reached
        near = np.flatnonzero((there > 0) | (depth <= share * float(np.ptp(reached))))
        if program.slopes.shape[1] < len(near):
            return there, there
        chosen, owners = gram[np.ix_(near, near)], program.owners[near]
        higher = maximize_dual(chosen, reached[near], owners, program.C, there[near], 0.5 * target)
        if higher is None:
            return there, there
        there = np.zeros_like(there)
        there[near] = higher
        reached = heights - gram @ (there - alpha)
        if program.C * float(program.tops(reached).sum()) - float(there @ reached) <= target:
            break
    # What interior points leave everywhere is given to the planes that hold something up.
    sharp = program.balanced(np.where(there > _LITTLE * program.C, there, 0.0))
    reached = heights - gram @ (sharp - alpha)
    left = ascend_dual(gram, members, bounds, program.C, target, moves, sharp, reached)
    # A small program is cheap to solve to the end by the caller, at a point that is worth more.
    return (sharp if small or left <= target else there), sharp
