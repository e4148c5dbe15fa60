"""Scores and rankings of documents, and the forms they are written in."""

from __future__ import annotations

import csv
import io
import json
import shutil
import tempfile
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, Literal, TextIO, TypeAlias

from marginrank.errors import DataError
from marginrank.runtime.text import printable

if TYPE_CHECKING:
    from marginrank.data.formats.trec import Run
    from marginrank.data.queries import Queries
    from marginrank.typing import AnyArray, FloatArray

Format: TypeAlias = Literal["scores", "trec", "csv", "tsv", "jsonl", "parquet"]

_COLUMNS: Final = ("query", "rank", "document", "score")
_BY_SUFFIX: Final[Mapping[str, Format]] = {
    ".run": "trec",
    ".trec": "trec",
    ".csv": "csv",
    ".tsv": "tsv",
    ".jsonl": "jsonl",
    ".ndjson": "jsonl",
    ".parquet": "parquet",
}


def format_of(out: Path | None, *, ranked: bool) -> Format:
    """The default format.

    >>> format_of(Path("a.run"), ranked=False), format_of(Path("a.tsv.gz"), ranked=False), format_of(None, ranked=True)
    ('trec', 'tsv', 'tsv')
    """
    named = [_BY_SUFFIX[suffix] for suffix in ([] if out is None else out.suffixes) if suffix in _BY_SUFFIX]
    return named[-1] if named else "tsv" if ranked else "scores"


@dataclass(frozen=True)
class RankingWriter:
    """Scores of documents, and how they are to be ranked.

    Args:
        queries: The documents; with document groups, only the best of each group is ranked.
        scores: One per row.
        k: How many of each query are ranked; all for None.
        tag: Name of the run in a TREC file.
        topics: Weights by document id and topic, of which a ranking has at most ``topic_limit`` in each topic.
        topic_limit: The limit.
    """

    queries: Queries
    scores: FloatArray
    k: int | None = None
    tag: str | None = None
    topics: Mapping[str, Mapping[str, float]] | None = None
    topic_limit: float = 1.0

    def columns(self) -> dict[str, list[Any]]:
        """Query, rank, document and score of all that is ranked, as columns."""
        from marginrank.data.validation import distinct_names  # noqa: PLC0415

        sizes, places = self._places()
        return {
            "query": [query for query, n in zip(self.queries.query_ids.tolist(), sizes, strict=True) for _ in range(n)],
            "rank": [rank for n in sizes for rank in range(1, n + 1)],
            "document": distinct_names(self.queries)[places].tolist(),
            "score": self.scores[places].tolist(),
        }

    def records(self) -> list[dict[str, Any]]:
        """The same, one record per document."""
        return [dict(zip(_COLUMNS, row, strict=True)) for row in zip(*self.columns().values(), strict=True)]

    def run(self) -> Run:
        """All that is ranked as a TREC run."""
        import numpy as np  # noqa: PLC0415

        from marginrank.data.formats.trec import Run  # noqa: PLC0415
        from marginrank.data.text_arrays import as_text  # noqa: PLC0415
        from marginrank.data.validation import distinct_names  # noqa: PLC0415

        if self.queries.document_groups is None and self.topics is None:
            return Run.from_scores(self.queries, self.scores)
        sizes, places = self._places()
        offsets, names = np.cumsum([0, *sizes]), distinct_names(self.queries)[places]
        return Run(as_text(self.queries.query_ids), offsets, names, self.scores[places])

    def write(self, kind: Format, place: Path) -> None:
        """Write a file; text is compressed by its suffix."""
        _WRITERS[kind](place, self)

    def print(self, kind: Format, file: TextIO) -> None:
        """Print what would be written."""
        if kind in _LINES:
            file.writelines(_LINES[kind](self))
            return
        with tempfile.TemporaryDirectory() as folder:
            self.write(kind, Path(folder, "text"))
            with Path(folder, "text").open(encoding="utf-8", errors="surrogateescape") as text:
                shutil.copyfileobj(text, file)

    def scores_by_row(self) -> FloatArray:
        """Return the scores in the order of the file."""
        return self.scores

    def _places(self) -> tuple[list[int], AnyArray]:
        """Count the documents of each query that are ranked, and find their places in the queries."""
        import numpy as np  # noqa: PLC0415

        from marginrank.evaluation.systems import orderings  # noqa: PLC0415

        queries = self.queries
        if self.topics is None:
            orders = orderings(self.scores, queries.query_offsets, queries.order, self.k, queries.document_groups)
        else:
            from marginrank.data.validation import distinct_names  # noqa: PLC0415
            from marginrank.evaluation.diversity import Diversify  # noqa: PLC0415
            from marginrank.evaluation.topics import diverse_orderings, topic_weights  # noqa: PLC0415

            weights = topic_weights(self.topics, distinct_names(queries), queries.n_documents)
            limits = Diversify(self.topic_limit)
            orders = diverse_orderings(self.scores, queries.query_offsets, queries.order, self.k, weights, limits)
        return [len(order) for order in orders], np.concatenate([np.empty(0, dtype=np.int64), *orders])


def check_fields(form: str, **columns: AnyArray) -> None:
    """Refuse ids that would be more than one field of a line, or that steer the terminal they are shown on."""
    for what, ids in columns.items():
        words = [str(one) for one in ids.tolist()]
        if "".join(words).isprintable():
            continue
        for word in words:
            if printable(word) != word:
                raise DataError(
                    f"{what} '{printable(word)}' cannot be in {form}: it has a control character; use JSON or "
                    "Parquet, or rename it"
                )


def check_run_fields(**columns: AnyArray) -> None:
    """Refuse ids that a TREC run cannot hold, as its fields are separated by blanks."""
    check_fields("a TREC run", **columns)
    for what, ids in columns.items():
        for word in map(str, ids.tolist()):
            if word.split() != [word]:
                raise DataError(
                    f"{what} {word!r} cannot be in a TREC run: it is empty, or holds a blank; write a table, such as "
                    ".csv, instead"
                )


def _score_lines(ranked: RankingWriter) -> Iterator[str]:
    return (f"{score!r}\n" for score in ranked.scores_by_row().tolist())


def _tsv_lines(ranked: RankingWriter) -> Iterator[str]:
    check_fields("TSV", query=ranked.queries.query_ids, document=ranked.queries.document_names)
    columns = ranked.columns()
    yield "\t".join(_COLUMNS) + "\n"
    yield from (f"{q}\t{r}\t{d}\t{s!r}\n" for q, r, d, s in zip(*columns.values(), strict=True))


def _csv_lines(ranked: RankingWriter) -> Iterator[str]:
    check_fields("CSV", query=ranked.queries.query_ids, document=ranked.queries.document_names)
    columns = ranked.columns()
    yield ",".join(_COLUMNS) + "\n"
    for row in zip(*columns.values(), strict=True):
        line = io.StringIO()
        csv.writer(line, lineterminator="\n").writerow(row)
        yield line.getvalue()


def _json_lines(ranked: RankingWriter) -> Iterator[str]:
    return (json.dumps(record) + "\n" for record in ranked.records())


_LINES: Final[Mapping[Format, Callable[[RankingWriter], Iterator[str]]]] = {
    "scores": _score_lines,
    "csv": _csv_lines,
    "tsv": _tsv_lines,
    "jsonl": _json_lines,
}


def _line_writer(lines: Callable[[RankingWriter], Iterator[str]]) -> Callable[[Path, RankingWriter], None]:
    def write(place: Path, ranked: RankingWriter) -> None:
        from marginrank.data.formats.text_files import create_text  # noqa: PLC0415

        with create_text(place) as file:
            file.writelines(lines(ranked))

    return write


def _write_trec(place: Path, ranked: RankingWriter) -> None:
    from marginrank.data.formats.trec import write_run  # noqa: PLC0415

    run = ranked.run()
    check_run_fields(topic=run.topics, document=run.document_ids)
    write_run(place, run, depth=ranked.k, tag=ranked.tag)


def _write_parquet(place: Path, ranked: RankingWriter) -> None:
    import pyarrow as pa  # noqa: PLC0415
    from pyarrow import parquet  # noqa: PLC0415

    with place.open("wb") as file:  # a path need not be UTF-8
        parquet.write_table(pa.table(ranked.columns()), file)


_WRITERS: Final[Mapping[Format, Callable[[Path, RankingWriter], None]]] = {
    **{kind: _line_writer(lines) for kind, lines in _LINES.items()},
    "trec": _write_trec,
    "parquet": _write_parquet,
}
