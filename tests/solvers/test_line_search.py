"""Where an objective is least between two points."""

from __future__ import annotations

import numpy as np
import pytest

from marginrank.solvers.bundle import line_search
from marginrank.solvers.problem import Segment


class Kinked(Segment):
    """The largest of lines value + slope·t on the way from 0 to a number."""

    def __init__(self, *lines, end=1.0):
        super().__init__(np.zeros(1), np.array([end]))
        self.lines, self.asked = lines, []

    def __call__(self, t):
        self.asked.append(t)
        return max((value + slope * t, slope) for value, slope in self.lines)

    def parts(self, t):
        raise NotImplementedError

    def then(self, t, end):
        raise NotImplementedError


@pytest.mark.parametrize(
    ("lines", "C", "expected"),
    [
        # Falls to a kink: 3 − 3t meets 2t at .6, where the regularizer t²/2 is small.
        ([(3.0, -3.0), (0.0, 2.0)], 10.0, 0.6),
        # Falls all the way.
        ([(3.0, -2.0)], 10.0, 1.0),
        # Least between kinks, where t = C·slope: t²/2 + (3 − 4t)/10.
        ([(0.3 * 10, -4.0), (-10.0, 1.0)], 0.1, 0.4),
    ],
)
@pytest.mark.parametrize("first", [1.0, 0.2])
def test_the_least_is_found(lines, C, expected, first):
    line = Kinked(*lines)
    t, risk = line_search(line, C, np.zeros(1), first)
    assert t == pytest.approx(expected)
    assert risk == pytest.approx(max(value + slope * expected for value, slope in lines))
    assert len(line.asked) <= 4


def test_it_ends_where_little_is_left_to_gain():
    # At .5 and 1 the objectives are 1.125 and 2.5; the tangents meet at .6, at .18 + 1.2.
    lines = [(3.0, -3.0), (0.0, 2.0)]
    far, near = Kinked(*lines), Kinked(*lines)
    line_search(far, 1.0, np.zeros(1), 1.0, max_gain=0.0)
    line_search(near, 1.0, np.zeros(1), 1.0, max_gain=1.0)
    assert far.asked[:2] == near.asked == [1.0, 0.5]
    assert far.asked[2] == pytest.approx(0.6)


def test_a_way_that_only_rises_gives_the_nearest_point_tried():
    t, risk = line_search(Kinked((0.0, 1.0)), 1.0, np.zeros(1), 1.0)
    assert (t, risk) == (0.125, 0.125)


def test_a_way_to_itself_is_a_point():
    assert line_search(Kinked((2.0, 0.0), end=0.0), 1.0, np.zeros(1), 0.5) == (0.5, 2.0)
