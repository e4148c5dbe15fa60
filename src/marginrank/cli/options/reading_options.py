"""Options of reading data files, those of `marginrank.read`."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, ClassVar, Literal, TypeVar, cast

import typer

from marginrank.cli.exit_codes import UsageError
from marginrank.cli.output import check_inputs
from marginrank.errors import DataError

if TYPE_CHECKING:
    from marginrank.data.formats.trec import Qrels, Run
    from marginrank.data.partitions import PartitionedQueries
    from marginrank.data.queries import Queries
    from marginrank.model.model import Model
    from marginrank.ranker.ranker import Ranker


@dataclass(frozen=True)
class ReadingOptions:
    """Options of reading files."""

    panel: ClassVar = "Input"

    missing: Annotated[
        Literal["error", "nan", "zero", "min"] | None,
        typer.Option(
            help="How to treat NULL, NA and NaN; min is the smallest value in the query.",
            show_default="error; nan if the command or the model takes missing values",
        ),
    ] = None
    dtype: Annotated[
        Literal["float32", "float64"] | None, typer.Option(help="Data type of the features.", show_default="by format")
    ] = None
    first_index: Annotated[
        int | None,
        typer.Option(min=0, max=1, metavar="0|1", help="Index of the first feature in text files.", show_default="1"),
    ] = None
    n_features: Annotated[
        int | None, typer.Option(min=1, help="Number of features in text files, if the last ones may be absent.")
    ] = None
    regroup: Annotated[
        bool, typer.Option("--regroup", help="Accept text files in which the rows of a query are not contiguous.")
    ] = False
    qid: Annotated[str | None, typer.Option(metavar="COLUMN", help="Column of query ids in a table.")] = None
    grade: Annotated[str | None, typer.Option(metavar="COLUMN", help="Column of grades in a table.")] = None
    document_id: Annotated[str | None, typer.Option(metavar="COLUMN", help="Column of document ids in a table.")] = None
    document_group: Annotated[
        str | None, typer.Option(metavar="COLUMN", help="Column of document groups in a table.")
    ] = None
    document_weight: Annotated[
        str | None, typer.Option(metavar="COLUMN", help="Column of document weights in a table.")
    ] = None
    features: Annotated[
        list[str],
        typer.Option(
            "--feature",
            metavar="COLUMN,...",
            help="Columns of features in a table, such as bm25,age or 'bm25_*'; repeat for more.",
            show_default="those of the model, or all others",
        ),
    ] = field(default_factory=list)

    def read(
        self,
        paths: Sequence[Path],
        *,
        missing: str | None = None,
        features: Sequence[str] | None = None,
        judged: bool = True,
    ) -> Queries | Qrels | Run:
        """Read files of any format.

        Args:
            paths: The files.
            missing: The default of ``--missing``.
            features: The default of ``--feature``.
            judged: Whether grades are needed.
        """
        check_inputs(paths)
        from marginrank.data.formats.base import all_formats  # noqa: PLC0415
        from marginrank.data.queries import Queries  # noqa: PLC0415
        from marginrank.data.reader import read, recognize  # noqa: PLC0415

        options, no_value = self.options_of(paths[0], missing, features), None
        try:
            content = read(list(paths), **options)
        except DataError as error:
            if not judged or "has no value" not in error.problem:
                raise
            # It may be a column of grades, read as a feature because nobody named it.
            content, no_value = read(list(paths), **{**options, "missing": "nan"}), error
        if judged and isinstance(content, Queries) and not content.has_grades:
            named = "grade" in all_formats()[recognize(paths[0])].options
            way_out = "; name their column with --grade" if named else ""
            raise DataError(f"no grades in this data, and they are needed here{way_out}", path=paths[0]) from None
        if no_value is not None:
            raise no_value
        return content

    def read_queries(
        self,
        paths: Sequence[Path],
        missing: str | None = None,
        features: Sequence[str] | None = None,
        *,
        judged: bool = True,
    ) -> Queries:
        """Read documents with features; the arguments are those of `read`."""
        from marginrank.data.queries import Queries  # noqa: PLC0415

        content = self.read(paths, missing=missing, features=features, judged=judged)
        if isinstance(content, Queries):
            return content
        raise DataError("no features in this file; give documents with features", path=paths[0])

    def read_labeled(
        self,
        paths: Sequence[Path],
        column: str,
        missing: str | None = None,
        features: Sequence[str] | None = None,
        *,
        judged: bool = True,
    ) -> Queries:
        """Read documents with a column of labels, such as times, as `Queries.document_groups`."""
        try:
            return replace(self, document_group=column).read_queries(paths, missing, features, judged=judged)
        except DataError as error:
            if "no document group" not in error.problem:
                raise
            message = f"column {column!r} has no value; every row needs one"
            raise DataError(message, path=error.path, line=error.line) from None

    def read_for(self, model: Model, paths: Sequence[Path], *, judged: bool = False) -> Queries:
        """Read documents for a model: its own features, and missing values if it takes them."""
        missing = "nan" if model.form.takes_nan else None
        queries = self.read_queries(paths, missing, model.feature_names, judged=judged)
        return queries if model.takes_sparse else dense(queries)

    def options_of(
        self, path: Path, missing: str | None = None, features: Sequence[str] | None = None
    ) -> dict[str, Any]:
        """Return the options for the reader of a file, with defaults; refuse those that it does not have."""
        from marginrank.data.formats.base import all_formats  # noqa: PLC0415
        from marginrank.data.reader import recognize  # noqa: PLC0415

        kind = all_formats()[recognize(path)]
        given = {key: value for key, value in vars(self).items() if value or (value is not False and value == 0)}
        for key in given:
            if key not in kind.options:
                option = "--feature" if key == "features" else f"--{key.replace('_', '-')}"
                raise UsageError(f"{option} does not apply: {path.name} is {kind.title}; leave it out")
        if missing is not None and "missing" in kind.options:
            given.setdefault("missing", missing)
        if features is not None and "features" in kind.options:
            given.setdefault("features", list(features))
        return given


Content = TypeVar("Content", bound="Queries | PartitionedQueries | Qrels")


def dense(content: Content) -> Content:
    """Return the same with dense features, where they are sparse."""
    from marginrank.data.partitions import PartitionedQueries  # noqa: PLC0415
    from marginrank.data.queries import Queries  # noqa: PLC0415

    if isinstance(content, PartitionedQueries) and content.is_sparse:
        return cast("Content", content.derive(dense))
    if isinstance(content, Queries) and content.is_sparse:
        return cast("Content", replace(content, X=content.dense()))
    return content


def load_ranker(path: Path) -> Ranker:
    """Read a model that scores documents by their own features."""
    from marginrank.ranker.loader import load  # noqa: PLC0415

    return load(path)
