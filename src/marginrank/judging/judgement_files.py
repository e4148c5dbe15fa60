"""Files of judgements, as this and other tools write them."""

from __future__ import annotations

import csv
from pathlib import Path

from marginrank.judging.judgements import Judgements


def write_judgements(path: str | Path, judgements: Judgements) -> None:
    """Write judgements as CSV, one per row: query_id, document_id, rater, grade."""
    with Path(path).open("w", encoding="utf-8", newline="") as file:
        table = csv.writer(file, lineterminator="\n")
        table.writerow(["query_id", "document_id", "rater", "grade"])
        table.writerows((*ids, _number(grade)) for *ids, grade in judgements.rows())


def _number(grade: float) -> str:
    """Write a grade with the fewest digits that are read back as the same number.

    >>> _number(2.0), _number(0.5)
    ('2', '0.5')
    """
    return repr(int(grade)) if grade.is_integer() else repr(grade)


__all__ = ["write_judgements"]
