"""Files of tables, read one after the other, each a block of rows at a time."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from marginrank.data.arrays import feature_dtype
from marginrank.data.assembling import Assembly, Join
from marginrank.data.files import Paths, list_paths
from marginrank.data.missing import Missing, check_missing
from marginrank.data.pieces import Store
from marginrank.data.queries import Queries
from marginrank.errors import DataError
from marginrank.memory import max_memory as memory_budget
from marginrank.threads import thread_count


class Reading(NamedTuple):
    """What readers of tables are given beside the options of `from_frame`."""

    n_jobs: int | None
    max_memory: int | str | None
    on_disk: bool


@dataclass(frozen=True)
class How:
    """How a table is to be read.

    Args:
        named: Names of columns, by what they are for, as `choose_columns` takes them.
        dtype: Type of the features, if one is asked for.
        missing: What missing features become.
        n_threads: Threads to use.
        budget: Budget of memory, in bytes.
        on_disk: Whether what takes much of it goes to disk.
    """

    named: Mapping[str, Any]
    dtype: np.dtype[Any] | None
    missing: Missing
    n_threads: int
    budget: int
    on_disk: bool

    @classmethod
    def of(cls, reading: Reading, options: Mapping[str, Any]) -> How:
        """Check the options of a reader."""
        named = dict(options)
        dtype, missing = named.pop("dtype", None), named.pop("missing", "error")
        check_missing(missing)
        return cls(
            named,
            None if dtype is None else feature_dtype(dtype),
            missing,
            thread_count(reading.n_jobs),
            memory_budget(reading.max_memory),
            reading.on_disk,
        )


def read_files(
    paths: Paths,
    read_one: Callable[[Path, How, Assembly], None],
    join: Join,
    reading: Reading,
    options: Mapping[str, Any],
) -> Queries:
    """Read tables and put them one after the other; errors name the file.

    Args:
        paths: One file or several.
        read_one: Reads a file, and adds its rows to an assembly.
        join: Makes one array of ids of several.
        reading: How to read.
        options: Those of `from_frame`.
    """
    files, how = list_paths(paths), How.of(reading, options)
    store = Store(how.budget, how.on_disk)
    assemblies = [Assembly(store, path, join) for path in files]
    for path, assembly in zip(files, assemblies, strict=True):
        assembly.clear()
        with _named(path):
            read_one(path, how, assembly)
        if assembly.n_features != assemblies[0].n_features:
            raise DataError(
                f"{assembly.n_features} features, but {files[0].name} has {assemblies[0].n_features}; "
                "name the columns to use with features=",
                path=path,
            )
    store.close()
    parts: list[tuple[Path, Queries]] = []
    for path, assembly in zip(files, assemblies, strict=True):
        with _named(path):
            parts.append((path, assembly.queries(how.missing)))
    _check_parts(parts)
    return Queries.concatenate(part for _, part in parts)


def _check_parts(parts: Sequence[tuple[Path, Queries]]) -> None:
    """Refuse files that do not go together, by name."""
    first_path, first = parts[0]
    for path, part in parts[1:]:
        if part.feature_names != first.feature_names:
            raise DataError(
                f"other features than in {first_path.name}, or in another order; name them with "
                f"features={list(first.feature_names or ())}",
                path=path,
            )
        for column, name in (("judgements", "grades"), ("document_ids", "document ids")):
            has, first_has = (getattr(one, column) is not None for one in (part, first))
            if has != first_has:
                problem = f"{name}, but {first_path.name} has none" if has else f"no {name}, but {first_path.name} has"
                raise DataError(f"{problem}; give them to all files or to none", path=path)


@contextmanager
def _named(path: Path) -> Iterator[None]:
    """Name the file in errors."""
    try:
        yield
    except DataError as error:
        raise DataError(error.problem, path=path, line=error.line, column=error.column) from None
