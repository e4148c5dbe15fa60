"""Draw how training works, for the README: ``python docs/how_it_works.py``."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Final

PICTURE: Final = Path(__file__).parent / "pictures" / "how-it-works.svg"
WIDTH, HEIGHT = 780, 350
#: Scores of five documents, best first, and which of them are relevant.
SCORES: Final = (0.92, 0.74, 0.55, 0.42, 0.2)
RELEVANT: Final = (True, False, True, False, False)
#: The ranking that hurts most: the places of the documents above.
WORST: Final = (2, 0, 3, 1, 4)
#: Where the planes touch the objective, in a unit square.
TOUCHED: Final = (0.08, 0.28, 0.86)
_STYLE: Final = """
text { font: 13px system-ui, -apple-system, "Segoe UI", Helvetica, Arial, sans-serif; fill: #1c2024; }
.title { font-size: 15px; font-weight: 600; }
.soft { fill: #5b6470; font-size: 12px; }
.paper { fill: #ffffff; } .panel { fill: #f4f6f8; } .bar { fill: #b9c3cd; }
.good { fill: #0a6bb0; } .bad { fill: none; stroke: #7c8792; stroke-width: 1.6; }
.line { fill: none; stroke: #7c8792; stroke-width: 1.4; } .dash { stroke-dasharray: 4 4; }
.strong { fill: none; stroke: #0a6bb0; stroke-width: 2.4; }
.gap { stroke: #c4500a; stroke-width: 2.4; } .note { fill: #c4500a; font-weight: 600; font-size: 12px; }
.head { fill: #7c8792; }
@media (prefers-color-scheme: dark) {
text { fill: #e6e9ec; } .soft { fill: #9aa4af; } .paper { fill: #14171a; } .panel { fill: #1e2328; }
.bar { fill: #47515b; } .good { fill: #5ab4ec; } .strong { stroke: #5ab4ec; } .gap { stroke: #f2935c; }
.note { fill: #f2935c; }
}
"""


def picture() -> str:
    """Return the picture as SVG."""
    panels = [_score(20), _worst(272), _bound(524)]
    arrows = [_arrow("M254 150H268"), _arrow("M506 150H520"), _arrow("M640 262V292H138V266")]
    texts = [
        _text(389, 286, "new weights, until no weights are better by more than the gap", "soft", "middle"),
        _text(
            20, 330, "Then C is chosen on held-out queries, the gain is tested, and the weights move to your engine."
        ),
    ]
    title = "How training works: score, find the worst ranking, bound, repeat"
    return "\n".join(
        [
            f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {WIDTH} {HEIGHT}" width="{WIDTH}" height="{HEIGHT}"',
            ' role="img">',
            f"<title>{title}</title><style>{_STYLE}</style>",
            f'<rect class="paper" width="{WIDTH}" height="{HEIGHT}" rx="6"/>',
            *panels,
            *arrows,
            *texts,
            "</svg>\n",
        ]
    )


def _text(x: float, y: float, words: str, kind: str = "", anchor: str = "start") -> str:
    return f'<text class="{kind}" x="{x:g}" y="{y:g}" text-anchor="{anchor}">{words}</text>'


def _arrow(path: str) -> str:
    """Draw a line with a head at its end, which goes right or up."""
    end = path.rsplit("H", 1)
    if "V" in end[-1]:
        x, y = end[-1].split("V")
        head = f"M{x} {float(y) - 4:g}l-5 8h10z"
    else:
        head = f"M{float(end[-1]) + 4:g} 150l-8 -5v10z"
    return f'<path class="line" d="{path}"/><path class="head" d="{head}"/>'


def _panel(x: float, number: int, title: str, *notes: str) -> list[str]:
    return [
        f'<rect class="panel" x="{x}" y="20" width="234" height="242" rx="8"/>',
        _text(x + 14, 46, f"{number}. {title}", "title"),
        *[_text(x + 14, 228 + 18 * line, words, "soft") for line, words in enumerate(notes)],
    ]


def _document(x: float, y: float, relevant: bool) -> str:
    return f'<circle class="{"good" if relevant else "bad"}" cx="{x}" cy="{y}" r="6"/>'


def _score(x: float) -> str:
    """Draw the documents of a query with their scores."""
    rows = [
        _document(x + 26, 80 + 28 * place, relevant)
        + f'<rect class="bar" x="{x + 44}" y="{72 + 28 * place}" width="{170 * score:g}" height="16" rx="3"/>'
        for place, (score, relevant) in enumerate(zip(SCORES, RELEVANT, strict=True))
    ]
    return "\n".join(
        [*_panel(x, 1, "Score the documents", "weights × features, for all queries;", "filled: relevant"), *rows]
    )


def _worst(x: float) -> str:
    """Draw the ranking by score, and the one that hurts most."""
    left, right = x + 52, x + 182
    rows = [
        f'<path class="line dash" d="M{left + 12} {80 + 28 * place}L{right - 12} {80 + 28 * goal}"/>'
        + _document(left, 80 + 28 * place, relevant)
        + _document(right, 80 + 28 * goal, relevant)
        for place, (goal, relevant) in enumerate(zip(WORST, RELEVANT, strict=True))
    ]
    notes = ("bad, and yet close by score;", "found exactly, not by sampling")
    return "\n".join([*_panel(x, 2, "Find the worst ranking", *notes), *rows])


def _bound(x: float) -> str:
    """Draw the planes below the objective, and the gap."""
    across, down, size = x + 20, 208, 140.0
    ends = [_ends(touched) for touched in TOUCHED]
    planes = [
        f'<path class="line dash" d="M{across + 195 * a:g} {down - size * p:g}'
        f'L{across + 195 * b:g} {down - size * q:g}"/>'
        for a, p, b, q in ends
    ]
    grid = [step / 40 for step in range(41)]
    curve = [(one, _objective(one)) for one in grid]
    lowest = min(grid, key=_lower)
    points = " ".join(f"{across + 195 * a:.1f},{down - size * b:.1f}" for a, b in curve if b <= 1)
    low, high = down - size * _lower(lowest), down - size * _objective(lowest)
    gap = f'<path class="gap" d="M{across + 195 * lowest:g} {low:g}V{high:g}"/>'
    notes = ("each plane is below the objective,", "so the gap proves how good it is")
    return "\n".join(
        [
            *_panel(x, 3, "Bound, and step", *notes),
            *planes,
            f'<polyline class="strong" points="{points}"/>',
            gap,
            _text(across + 195 * lowest - 34, (low + high) / 2 + 4, "gap", "note"),
        ]
    )


def _objective(x: float) -> float:
    """Return a convex function."""
    return 0.3 + 2.6 * (x - 0.55) ** 2


def _plane(touched: float, x: float) -> float:
    """Return the tangent of the objective at a point."""
    return _objective(touched) + 5.2 * (touched - 0.55) * (x - touched)


def _lower(x: float) -> float:
    return max(_plane(touched, x) for touched in TOUCHED)


def _ends(touched: float) -> Sequence[float]:
    """Return the points where a plane enters and leaves the unit square."""
    inside = [step / 200 for step in range(201) if 0 <= _plane(touched, step / 200) <= 1]
    return inside[0], _plane(touched, inside[0]), inside[-1], _plane(touched, inside[-1])


if __name__ == "__main__":
    PICTURE.write_text(picture(), encoding="utf-8")
    print(f"wrote {PICTURE}")
