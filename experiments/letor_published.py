"""Tables that the publisher of LETOR gave out with its data sets: what its baselines reached on each fold."""

from __future__ import annotations

import re
import zipfile
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any, Final
from xml.etree import ElementTree as ET

_TABLE: Final = "{urn:oasis:names:tc:opendocument:xmlns:table:1.0}"
#: A row repeated more often than this is the empty rest of a sheet.
_MOST_REPEATS: Final = 50
#: By set and method, where the tables are: LETOR 4.0 has a text for each, LETOR 2.0 a sheet of one file.
_TEXTS: Final = {"ranksvm": "RankSVM-Struct", "rankboost": "RankBoost"}
_SHEETS: Final = {"ranksvm": "RankSVM", "rankboost": "RankBoost"}
#: OHSUMED of LETOR 3.0, means over the folds.
_LETOR3: Final = {
    "ranksvm": {"ndcg@1": 0.4958, "ndcg@3": 0.4207, "ndcg@5": 0.4164, "ndcg@10": 0.4140, "ap": 0.4334},
    "rankboost": {"ndcg@1": 0.4632, "ndcg@3": 0.4555, "ndcg@5": 0.4494, "ndcg@10": 0.4302, "ap": 0.4411},
    "svmmap": {"ndcg@1": 0.5229, "ndcg@3": 0.4663, "ndcg@5": 0.4516, "ndcg@10": 0.4319, "ap": 0.4453},
}


def published(data: Path) -> dict[str, dict[str, dict[str, list[float]]]]:
    """Return, by set, method and measure, the values of the folds, or one mean where folds are not known.

    Sets whose tables do not lie beside the data are left out, but for LETOR 3.0, whose numbers are written down here.
    """
    tables = {"ohsumed": {method: {name: [value] for name, value in of.items()} for method, of in _LETOR3.items()}}
    sheets = data / "letor2-ohsumed" / "ReferenceAlgs_OHSUMED.ods"
    if sheets.exists():
        tables["ohsumed2"] = {method: fold_values(read_sheet(sheets, name)) for method, name in _SHEETS.items()}
    texts = {method: data / "letor4-baselines" / f"{name}.MQ2008.txt" for method, name in _TEXTS.items()}
    if all(path.exists() for path in texts.values()):
        lines = {method: path.read_text(encoding="utf-8").splitlines() for method, path in texts.items()}
        tables["mq2008"] = {method: fold_values([line.split("\t") for line in of]) for method, of in lines.items()}
    return tables


def fold_values(rows: Iterable[Sequence[str]]) -> dict[str, list[float]]:
    """Take the values of the folds on the test sets out of a table; the first block of rows is about them.

    >>> test = [["Performance on the test set"], ["Trials", "NDCG@1", "MAP"], ["1", "0,5", "0,25"], ["Average", "0"]]
    >>> fold_values([*test, ["Performance on the training set"], ["1", "0,9", "0,9"]])
    {'ndcg@1': [0.5], 'ap': [0.25]}
    """
    folds: dict[str, list[float]] = {}
    names: list[str] = []
    blocks = 0
    for row in rows:
        first, *cells = [cell.strip() for cell in row] or [""]
        blocks += first.startswith("Performance")
        if blocks > 1:
            break
        if first in ("Para", "Folds", "Trials"):
            names = [_measure(cell) for cell in cells if cell]
            folds.update({name: [] for name in names})
        elif names and re.match(r"(Fold)?[0-9]", first):
            for name, cell in zip(names, cells, strict=False):
                folds[name].append(float(cell.replace(",", ".")))
    return folds


def read_sheet(path: Path, name: str) -> list[list[str]]:
    """Read the texts of the cells of one sheet of an OpenDocument file, row by row."""
    with zipfile.ZipFile(path) as file:
        root = ET.fromstring(file.read("content.xml"))
    sheets = {sheet.get(f"{_TABLE}name"): sheet for sheet in root.iter(f"{_TABLE}table")}
    return [_texts(row) for row in sheets[name].iter(f"{_TABLE}table-row")]


def _texts(row: ET.Element) -> list[str]:
    texts = []
    for cell in row:
        repeats = int(cell.get(f"{_TABLE}number-columns-repeated", "1"))
        texts += ["".join(cell.itertext())] * (repeats if repeats <= _MOST_REPEATS else 1)
    return texts


def _measure(heading: str) -> str:
    """Spell a measure as it is spelled everywhere here.

    >>> _measure("NDCG@10"), _measure("Pre@1"), _measure("MAP")
    ('ndcg@10', 'p@1', 'ap')
    """
    return "ap" if heading == "MAP" else heading.lower().replace("pre@", "p@")


def mean_of(tables: Mapping[str, Any], name: str, method: str, measure: str) -> float | None:
    """Return the mean over the folds of a published value; None where there is none."""
    values = tables.get(name, {}).get(method, {}).get(measure)
    return None if not values else float(sum(values) / len(values))
