"""The claims of Chakrabarti et al. (KDD 2008) §4.5 about Figure 9, put to the test."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Final, TypeAlias

import numpy as np

from experiments.base import Finding, Verdict
from experiments.chk import CLEANINGS, MEASURES, Difference, consistent, differences, shown, title, unpack
from experiments.letor import SETS
from marginrank.typing import FloatArray

#: Figure 9 as its text was read back: MRR10, NDCG10 and MAP of each set; McRank has no TREC columns.
PAPER_SETS: Final = ("OHSUMED", "TD2003", "TD2004", "TREC2000", "TREC2001")
PAPER: Final[Mapping[str, Sequence[float]]] = {
    "AUC": (0.799, 0.635, 0.582, 0.510, 0.349, 0.256, 0.639, 0.501, 0.420, 0.607, 0.448, 0.267, 0.632, 0.441, 0.264),
    "MAP": (0.808, 0.642, 0.586, 0.618, 0.411, 0.314, 0.614, 0.496, 0.412, 0.696, 0.469, 0.277, 0.636, 0.450, 0.272),
    "NDCG": (0.790, 0.636, 0.581, 0.587, 0.372, 0.302, 0.631, 0.457, 0.374, 0.517, 0.323, 0.175, 0.608, 0.356, 0.171),
    "NDCG-NC": (
        *(0.818, 0.640, 0.582, 0.595, 0.404, 0.306, 0.611, 0.486, 0.404),
        *(0.685, 0.455, 0.265, 0.624, 0.443, 0.264),
    ),
    "MRR": (0.795, 0.623, 0.570, 0.628, 0.405, 0.330, 0.629, 0.441, 0.383, 0.670, 0.410, 0.244, 0.643, 0.426, 0.230),
    "COMBO": (0.813, 0.635, 0.578, 0.667, 0.434, 0.345, 0.647, 0.458, 0.384, 0.695, 0.465, 0.277, 0.647, 0.449, 0.272),
    "DORM": (0.807, 0.637, 0.583, 0.587, 0.362, 0.290, 0.474, 0.340, 0.297, 0.662, 0.413, 0.243, 0.621, 0.435, 0.250),
    "McRank": (0.701, 0.565, 0.527, 0.650, 0.403, 0.232, 0.588, 0.529, 0.453),
}
#: The rows of the paper, with the hinge as it has them, and with the tight bound where the hinge can collapse.
LINEUPS: Final[Mapping[str, Mapping[str, str]]] = {
    "hinge": {name: name for name in PAPER},
    "hinge, COMBO with φpo": {name: "COMBO φpo" if name == "COMBO" else name for name in PAPER},
    "tight bound": {name: f"{name} tight" if name in ("NDCG", "MRR", "COMBO", "DORM") else name for name in PAPER},
}
_SECTION: Final = "Chakrabarti et al. (2008), §4.5"
#: How often McRank leads in the paper: two of the nine columns it was run on.
_PAPER_SHARE: Final = 2 / 9


#: A set, whether it was cleaned, and a measure.
Column: TypeAlias = tuple[str, str, str]


class Matrix:
    """Values by query of every method, set and measure."""

    def __init__(self, results: Mapping[str, Any]) -> None:
        self.results = results
        self.data = list(dict.fromkeys(_data(name) for name in results))
        self.columns = [(*data, measure) for data in self.data for measure in MEASURES]

    def result(self, column: Sequence[str], method: str) -> Any:
        """Give what was found for a method on the data of a column; None where it was not trained."""
        return self.results.get(f"{column[0]}/{column[1]}/{method}")

    def mean(self, column: Sequence[str], method: str) -> float:
        """Give a number of the table."""
        return float(self.result(column, method)["mean"][column[2]])

    def values(self, column: Sequence[str], method: str) -> FloatArray:
        """Give the values that it is the mean of."""
        return unpack(self.result(column, method)["values"][column[2]])

    def ranking(self, column: Sequence[str], lineup: Mapping[str, str]) -> list[str]:
        """Give the rows of a line-up that were trained, best first, by the names of the paper."""
        there = [name for name, method in lineup.items() if self.result(column, method) is not None]
        return sorted(there, key=lambda name: -self.mean(column, lineup[name]))

    def against(self, lineup: Mapping[str, str], pairs: Mapping[Column, tuple[str, str]]) -> list[Difference]:
        """Test pairs of rows, each in its own column."""
        return differences(
            {
                f"{label(column)}: {one} − {other}": (
                    self.values(column, lineup[one]),
                    self.values(column, lineup[other]),
                )
                for column, (one, other) in pairs.items()
            }
        )


def _data(name: str) -> tuple[str, str]:
    data, cleaning, _ = name.split("/")
    return data, cleaning


def label(column: Sequence[str]) -> str:
    """Name a column."""
    return f"{title(column[0], column[1])}, {column[2]}"


def _seldom_best(matrix: Matrix, bound: str, row: str, measures: Sequence[str], claim: str, most: float = 0) -> Finding:
    """Whether a row leads at most a share of the columns; if so, it has to be below the leader for certain in one."""
    lineup = LINEUPS[bound]
    columns = [column for column in matrix.columns if column[2] in measures]
    leaders = {column: matrix.ranking(column, lineup)[0] for column in columns}
    led = [label(column) for column, leader in leaders.items() if leader == row]
    behind = matrix.against(lineup, {column: (row, leader) for column, leader in leaders.items() if leader != row})
    certain = [one for one in behind if one.significant]
    verdict: Verdict = "does not hold" if len(led) > most * len(columns) else "holds" if certain else "undecided"
    ratios = [ratio for data in matrix.data for ratio in matrix.result(data, lineup[row])["objective_ratio"]]
    text = f"{row} leads {len(led)} of {len(columns)} columns{': ' if led else ''}{'; '.join(led)}"
    return Finding(
        f"{claim} ({bound})",
        _SECTION,
        verdict,
        f"{text}; certainly behind the leader in {len(certain)}; its objective is {min(ratios):.4f} to "
        f"{max(ratios):.4f} of that at w = 0. {shown(behind)}",
    )


def _clipped(matrix: Matrix, bound: str) -> Finding:
    lineup = LINEUPS[bound]
    columns = [column for column in matrix.columns if column[2] == "NDCG10"]
    found = matrix.against(lineup, dict.fromkeys(columns, ("NDCG-NC", "NDCG")))
    claim = f"SVMndcg consistently loses to SVMndcg-nc on NDCG10 ({bound})"
    return Finding(claim, _SECTION, consistent(found), shown(found))


def _top_two(matrix: Matrix, bound: str) -> Finding:
    lineup = LINEUPS[bound]
    rankings = {column: matrix.ranking(column, lineup) for column in matrix.columns}
    counts = {row: sum(row in ranking[:2] for ranking in rankings.values()) for row in lineup}
    behind = matrix.against(
        lineup, {column: ("COMBO", order[0]) for column, order in rankings.items() if order[0] != "COMBO"}
    )
    certain = [one for one in behind if one.significant]
    best = counts["COMBO"] == max(counts.values())
    verdict: Verdict = "holds" if best else "does not hold" if certain else "undecided"
    counted = ", ".join(f"{row} {count}" for row, count in sorted(counts.items(), key=lambda item: -item[1]))
    return Finding(
        f"SVMcombo is most consistently among the top two of each column ({bound})",
        _SECTION,
        verdict,
        f"among the top two of {len(rankings)} columns: {counted}; "
        f"COMBO certainly behind the leader in {len(certain)}. {shown(behind)}",
    )


def _mcrank(matrix: Matrix, bound: str) -> Finding:
    lineup = LINEUPS[bound]
    leading = [column for column in matrix.columns if matrix.ranking(column, lineup)[0] == "McRank"]
    others = {
        column: next(row for row in matrix.ranking(column, lineup) if row != "McRank") for column in matrix.columns
    }
    found = matrix.against(lineup, {column: ("McRank", row) for column, row in others.items()})
    share = len(leading) / len(matrix.columns)
    verdict: Verdict = "holds" if share <= _PAPER_SHARE else "does not hold" if share > 0.5 else "undecided"
    certain = sum(one.significant and one.mean > 0 for one in found)
    return Finding(
        f"McRank leads two of nine columns; in the others a structured learner does ({bound})",
        "Chakrabarti et al. (2008), §4.6",
        verdict,
        f"McRank leads {len(leading)} of {len(matrix.columns)} columns, {certain} for certain. {shown(found)}",
    )


def _slacks(matrix: Matrix, combo: str) -> Finding:
    columns = [column for column in matrix.columns if matrix.result(column, f"{combo} shared") is not None]
    pairs = dict.fromkeys(columns, (combo, f"{combo} shared"))
    found = matrix.against({name: name for name in (combo, f"{combo} shared")}, pairs)
    return Finding(
        f"SVMcombo is better with separate slacks than with shared ones ({combo})",
        "Chakrabarti et al. (2008), §3.7",
        consistent(found),
        f"better in {sum(one.mean > 0 for one in found)} of {len(found)} columns. {shown(found)}",
    )


def _cleaning(matrix: Matrix) -> list[Finding]:
    """How far paired differences scatter, cleaned and not."""
    lineup = list(LINEUPS["tight bound"].values())
    findings = []
    for name in dict.fromkeys(data for data, _ in matrix.data):
        errors = {
            cleaning: float(np.mean([_error(matrix, (name, cleaning, measure), lineup) for measure in MEASURES]))
            for cleaning in CLEANINGS
            if (name, cleaning) in matrix.data
        }
        if len(errors) == len(CLEANINGS):
            published, cleaned = errors.values()
            findings.append(
                Finding(
                    f"Comparisons become much more reliable by cleaning ({SETS[name].title})",
                    "Chakrabarti et al. (2008), §4.1",
                    "holds" if cleaned < 0.9 * published else "does not hold" if cleaned > published else "undecided",
                    f"mean standard error of the difference of two rows: {cleaned:.4f} cleaned, {published:.4f} not",
                )
            )
    return findings


def _error(matrix: Matrix, column: Sequence[str], methods: Sequence[str]) -> float:
    there = [matrix.values(column, method) for method in methods if matrix.result(column, method) is not None]
    gaps = [a - b for at, a in enumerate(there) for b in there[:at]]
    return float(np.mean([gap.std() / np.sqrt(len(gap)) for gap in gaps]))


def claims(matrix: Matrix) -> list[Finding]:
    """Test every claim, with the hinge and with the tight bound."""
    findings = []
    for bound in ("hinge", "tight bound"):
        findings += [
            _seldom_best(matrix, bound, "MRR", ("MRR10",), "Training for MRR is never best for test MRR"),
            _seldom_best(matrix, bound, "MAP", ("MAP",), "SVMmap often does not give the best test MAP", 0.5),
            _seldom_best(matrix, bound, "DORM", tuple(MEASURES), "DORM never tops a column"),
            _clipped(matrix, bound),
            _mcrank(matrix, bound),
        ]
    findings += [_top_two(matrix, bound) for bound in LINEUPS]
    findings += [_slacks(matrix, combo) for combo in ("COMBO", "COMBO φpo")]
    return findings + _cleaning(matrix)
