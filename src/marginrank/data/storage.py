"""The binary form: a folder of plain ``.npy`` arrays under a JSON header, memory-mapped when opened."""

from __future__ import annotations

import json
import shutil
import tempfile
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import scipy.sparse as sp

from marginrank.data.files import Paths, list_paths
from marginrank.data.grouping import check_offsets
from marginrank.data.queries import Queries
from marginrank.data.registry import Format
from marginrank.errors import DataError
from marginrank.typing import AnyArray

HEADER = "header.json"
FORMAT = "marginrank-queries"
VERSION = 1
_SPARSE_PARTS = ("X.data", "X.indices", "X.indptr")
_PER_DOCUMENT = ("grades", "document_ids", "document_groups")
_PER_QUERY = ("query_ids", "query_weights")
_ARRAYS = {"X", *_SPARSE_PARTS, "offsets", *_PER_DOCUMENT, *_PER_QUERY}


def write_binary(path: str | Path, queries: Queries) -> None:
    """Write the binary form, a folder; what stood there before is replaced once all is written.

    Documents are written in the order of the queries; the rows of the source are not kept.
    """
    target = Path(path).resolve() if Path(path).is_symlink() else Path(path)
    if target.exists() and not is_binary(target):
        raise DataError("exists and is not a binary query set; choose another name or remove it", path=target)
    arrays = _arrays_of(queries)
    header = {
        "format": FORMAT,
        "version": VERSION,
        "queries": len(queries),
        "documents": queries.n_documents,
        "features": queries.n_features,
        "feature_names": None if queries.feature_names is None else list(queries.feature_names),
        "arrays": {name: {"dtype": array.dtype.str, "shape": list(array.shape)} for name, array in arrays.items()},
    }
    target.parent.mkdir(parents=True, exist_ok=True)
    unfinished = Path(tempfile.mkdtemp(prefix=f".{target.name}-", dir=target.parent))
    try:
        for name, array in arrays.items():
            np.save(unfinished / f"{name}.npy", array, allow_pickle=False)
        (unfinished / HEADER).write_text(json.dumps(header, indent=1) + "\n", encoding="utf-8")
        unfinished.chmod(0o755)
        _put_in_place(unfinished, target)
    except BaseException:
        shutil.rmtree(unfinished, ignore_errors=True)
        raise


def _put_in_place(finished: Path, target: Path) -> None:
    """Rename a folder to its target; what stands there is moved aside, and comes back if that fails."""
    if not target.exists():
        finished.rename(target)
        return
    aside = finished.with_name(f".old{finished.name}")
    try:
        target.rename(aside)
        finished.rename(target)
    except BaseException:
        if aside.exists() and not target.exists():
            aside.rename(target)
        raise
    shutil.rmtree(aside)


def read_binary(path: str | Path) -> Queries:
    """Open the binary form; its arrays stay on disk until they are used."""
    folder = Path(path)
    header = _read_header(folder)
    arrays = {name: _open_array(folder, name, spec) for name, spec in header["arrays"].items()}
    try:
        return _queries_from(arrays, header["feature_names"], header["features"])
    except (KeyError, TypeError, ValueError) as error:
        raise DataError(f"damaged binary query set ({error}); convert the source again", path=folder) from None


def is_binary(path: Path) -> bool:
    """Whether a path is a folder that `write_binary` made."""
    try:
        header = json.loads((path / HEADER).read_text(encoding="utf-8"))
    except (OSError, ValueError):
        return False
    return isinstance(header, dict) and header.get("format") == FORMAT


def read_npz(path: str | Path, *, allow_nan: bool = False) -> Queries:
    """Read a NumPy archive with ``X``, ``y`` (or ``grades``) and ``qid`` (or ``group``).

    Args:
        path: The archive.
        allow_nan: Keep NaN features as missing values instead of refusing them.
    """
    try:
        return _queries_from_archive(_read_archive(Path(path)), allow_nan)
    except DataError as error:
        raise DataError(error.problem, path=path) from None


def _read_archive(path: Path) -> dict[str, AnyArray]:
    with path.open("rb") as file:
        try:
            with np.load(file, allow_pickle=False) as archive:
                return {name: archive[name] for name in archive.files}
        except Exception as error:
            raise DataError(f"not a readable .npz file: {error}") from None


def _queries_from_archive(arrays: Mapping[str, AnyArray], allow_nan: bool) -> Queries:
    for names in (("X", "X.data"), ("y", "grades"), ("qid", "group", "offsets")):
        if not any(name in arrays for name in names):
            raise DataError(f"no array {' or '.join(names)} among {', '.join(sorted(arrays)) or 'none'}")
    X: Any = arrays["X"] if "X" in arrays else _checked_sparse(arrays)
    grades = arrays["grades"] if "grades" in arrays else arrays["y"]
    queries = Queries.from_arrays(
        X,
        grades,
        qid=arrays.get("qid"),
        group=None if "qid" in arrays else _group_of(arrays, X.shape[0] if X.ndim else 0),
        document_ids=arrays.get("document_ids"),
        query_weights=arrays.get("query_weights"),
        document_groups=arrays.get("document_groups"),
        feature_names=None if "feature_names" not in arrays else arrays["feature_names"].ravel().tolist(),
        allow_nan=allow_nan,
    )
    ids = arrays.get("query_ids")
    if ids is None or "qid" in arrays:
        return queries
    if ids.shape != (len(queries),):
        raise DataError(f"{ids.size} query_ids for {len(queries)} queries")
    return replace(queries, query_ids=ids)


def _group_of(arrays: Mapping[str, AnyArray], n: int) -> AnyArray:
    if "group" in arrays:
        return arrays["group"]
    check_offsets(arrays["offsets"], n)
    return np.diff(arrays["offsets"])


def _checked_sparse(arrays: Mapping[str, AnyArray]) -> sp.csr_array:
    """Make CSR of parts that anyone may have written."""
    try:
        matrix = _sparse_from(arrays, None)
        matrix.check_format(full_check=True)
    except KeyError as error:
        raise DataError(f"no array {error.args[0]}; sparse features are {', '.join(_SPARSE_PARTS)}") from None
    except (TypeError, ValueError) as error:
        raise DataError(f"{', '.join(_SPARSE_PARTS)} do not make a CSR matrix: {error}") from None
    return matrix


def _arrays_of(queries: Queries) -> dict[str, AnyArray]:
    X = queries.X
    features = dict(zip(_SPARSE_PARTS, (X.data, X.indices, X.indptr), strict=True)) if sp.issparse(X) else {"X": X}
    columns = {
        "grades": queries.grades,
        "offsets": queries.offsets,
        "query_ids": queries.query_ids,
        "document_ids": queries.document_ids,
        "query_weights": queries.query_weights,
        "document_groups": queries.document_groups,
    }
    return features | {name: column for name, column in columns.items() if column is not None}


def _read_header(folder: Path) -> dict[str, Any]:
    path = folder / HEADER
    try:
        header: dict[str, Any] = json.loads(path.read_text(encoding="utf-8"))
        if header["format"] != FORMAT:
            raise DataError(f"format {header['format']!r} is not {FORMAT!r}", path=path)
        if header["version"] != VERSION:
            raise DataError(f"format version {header['version']}; this marginrank reads version {VERSION}", path=path)
        _check_header(header)
    except (json.JSONDecodeError, KeyError, TypeError, UnicodeDecodeError) as error:
        raise DataError(f"damaged header ({error}); convert the source again", path=path) from None
    return header


def _check_header(header: Mapping[str, Any]) -> None:
    arrays, names, width = header["arrays"], header["feature_names"], header["features"]
    if not isinstance(arrays, dict) or not all(map(_is_spec, arrays.values())):
        raise TypeError("'arrays' does not describe arrays")
    if unknown := sorted(set(arrays) - _ARRAYS):
        raise TypeError(f"unknown array {unknown[0]!r}")
    if not isinstance(width, int):
        raise TypeError("'features' is not a number")
    if names is not None and not (isinstance(names, list) and all(isinstance(name, str) for name in names)):
        raise TypeError("'feature_names' is not a list of names")


def _is_spec(spec: Any) -> bool:
    return isinstance(spec, dict) and isinstance(spec.get("dtype"), str) and isinstance(spec.get("shape"), list)


def _open_array(folder: Path, name: str, spec: Mapping[str, Any]) -> AnyArray:
    file = folder / f"{name}.npy"
    try:
        size = int(np.prod(spec["shape"]))
        array: AnyArray = np.load(file, mmap_mode="r" if size else None, allow_pickle=False)
    except (OSError, TypeError, ValueError, EOFError) as error:
        raise DataError(f"missing or damaged array ({error}); convert the source again", path=file) from None
    if array.dtype.str != spec["dtype"] or list(array.shape) != spec["shape"]:
        raise DataError(
            f"holds {array.dtype} {array.shape}, but the header says {spec['dtype']} {tuple(spec['shape'])}; "
            "convert the source again",
            path=file,
        )
    return array


def _queries_from(arrays: dict[str, AnyArray], names: list[str] | None, n_features: int) -> Queries:
    X: Any = arrays["X"] if "X" in arrays else _sparse_from(arrays, n_features)
    columns: dict[str, Any] = {name: array for name, array in arrays.items() if name not in ("X", *_SPARSE_PARTS)}
    n_documents, n_queries = columns["grades"].size, columns["offsets"].size - 1
    check_offsets(columns["offsets"], n_documents)
    shapes = dict.fromkeys(_PER_DOCUMENT, (n_documents,)) | dict.fromkeys(_PER_QUERY, (n_queries,))
    for name, array in [("X", X), *columns.items()]:
        expected = {"X": (n_documents, n_features), "offsets": (n_queries + 1,), **shapes}[name]
        if array.shape != expected:
            raise ValueError(f"{name} has the shape {array.shape}, not {expected}")
    if names is not None and len(names) != n_features:
        raise ValueError(f"{len(names)} feature_names for {n_features} features")
    return Queries(X=X, feature_names=None if names is None else tuple(names), **columns)


def _sparse_from(arrays: Mapping[str, AnyArray], n_features: int | None) -> sp.csr_array:
    data, indices, indptr = (arrays[name] for name in _SPARSE_PARTS)
    if not all(part.ndim == 1 and np.issubdtype(part.dtype, np.integer) for part in (indices, indptr)):
        raise ValueError("X.indices and X.indptr must be lists of whole numbers")
    if np.any(indptr[1:] < indptr[:-1]):
        raise ValueError("X.indptr must not fall")
    width = n_features if n_features is not None else int(indices.max()) + 1 if indices.size else 0
    return sp.csr_array((data, indices, indptr), shape=(len(indptr) - 1, width), copy=False)


def _read_folders(paths: Paths) -> Queries:
    return Queries.concatenate([read_binary(path) for path in list_paths(paths)])


def _read_archives(paths: Paths, *, missing: str = "error", allow_nan: bool = False) -> Queries:
    if missing not in ("error", "nan"):
        raise ValueError(f"missing is {missing!r}; a NumPy archive takes 'error' or 'nan'")
    keep = allow_nan or missing == "nan"
    return Queries.concatenate([read_npz(path, allow_nan=keep) for path in list_paths(paths)])


FORMATS = (
    Format(
        "binary",
        "a binary query set",
        _read_folders,
        is_folder=lambda path: (path / HEADER).is_file(),
        write=write_binary,
        writes=(".queries",),
    ),
    Format("npz", "a NumPy archive", _read_archives, ("missing",), (".npz",)),
)
