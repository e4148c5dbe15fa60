"""Queries to LETOR text."""

from __future__ import annotations

import re
from itertools import pairwise
from pathlib import Path

import numpy as np

from marginrank.data.files import create_text
from marginrank.data.queries import Queries
from marginrank.data.row_text import feature_rows, number_words, row_slices, short_number
from marginrank.data.text import as_text
from marginrank.errors import DataError
from marginrank.sparse import sp
from marginrank.typing import Features

_BLANK_OR_CONTROL = re.compile(r"[\x00-\x20\ud800-\udc7f\udd00-\udfff]")


def write_letor(path: str | Path, queries: Queries) -> None:
    """Write LETOR text; numbers have enough digits to be read back exactly.

    Dense features are all written; of sparse ones, those that are stored. Weights, document groups and feature names
    are left out: the text has no place for them.
    """
    _check_names(queries)
    if not queries.has_grades:
        raise DataError(
            "text has a grade on every line, and these queries have none; write .queries, .parquet, .csv or .jsonl"
        )
    names = as_text(queries.query_ids).tolist()
    query_of_row = np.repeat(np.arange(len(queries)), queries.lengths)
    with create_text(path) as file:
        for rows, X in feature_rows(queries):
            heads = (
                f"{short_number(g)} qid:{names[q]}"
                for g, q in zip(queries.grades[rows].tolist(), query_of_row[rows].tolist(), strict=True)
            )
            lines = (
                f"{head}{body}{tail}\n"
                for head, body, tail in zip(heads, _bodies(X), _tails(queries, rows), strict=True)
            )
            file.writelines(lines)


def _check_names(queries: Queries) -> None:
    for name in as_text(queries.query_ids).tolist():
        if not name or "#" in name or _BLANK_OR_CONTROL.search(name):
            raise DataError(
                f"query id {name!r} cannot stand in LETOR text: "
                "it is empty, or holds a blank, a control character or '#'"
            )
    if queries.document_ids is None:
        return
    for rows in row_slices(queries.n_documents):
        for name in as_text(queries.document_ids[rows]).tolist():
            if _BLANK_OR_CONTROL.search(name):
                raise DataError(
                    f"document id {name!r} cannot stand in LETOR text: it holds a blank or a control character"
                )


def _bodies(X: Features) -> list[str]:
    if sp.issparse(X):
        pairs = [f" {index + 1}:{word}" for index, word in zip(X.indices.tolist(), number_words(X.data), strict=True)]
        return ["".join(pairs[start:end]) for start, end in pairwise(X.indptr.tolist())]
    words, width = number_words(X.ravel()), X.shape[1]
    labels = [f" {k + 1}:" for k in range(width)]
    return [
        "".join([part for pair in zip(labels, words[r * width : (r + 1) * width], strict=True) for part in pair])
        for r in range(X.shape[0])
    ]


def _tails(queries: Queries, rows: slice) -> list[str]:
    if queries.document_ids is None:
        return [""] * (rows.stop - rows.start)
    names = as_text(queries.document_ids[rows]).tolist()
    return [f" #docid = {name}" if name else "" for name in names]
