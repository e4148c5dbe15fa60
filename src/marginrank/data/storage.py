"""The binary form: a folder of plain ``.npy`` arrays under a JSON header, memory-mapped when opened."""

from __future__ import annotations

import json
import shutil
import tempfile
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np
import scipy.sparse as sp

from marginrank.data.queries import Queries
from marginrank.errors import DataError
from marginrank.typing import AnyArray

HEADER = "header.json"
FORMAT = "marginrank-queries"
VERSION = 1
_SPARSE_PARTS = ("X.data", "X.indices", "X.indptr")


def write_binary(path: str | Path, queries: Queries) -> None:
    """Write the binary form, a folder; what stood there before is replaced once all is written."""
    target = Path(path)
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
        if target.exists():
            shutil.rmtree(target)
        unfinished.rename(target)
    except BaseException:
        shutil.rmtree(unfinished, ignore_errors=True)
        raise


def read_binary(path: str | Path) -> Queries:
    """Open the binary form; its arrays stay on disk until they are used."""
    folder = Path(path)
    header = _read_header(folder)
    arrays = {name: _open_array(folder, name, spec) for name, spec in header["arrays"].items()}
    try:
        return _queries_from(arrays, header["feature_names"], header["features"])
    except (KeyError, ValueError) as error:
        raise DataError(f"damaged binary query set ({error}); convert the source again", path=folder) from None


def is_binary(path: Path) -> bool:
    """Whether a path is a folder that `write_binary` made."""
    return (path / HEADER).is_file()


def queries_from_mapping(arrays: Mapping[str, AnyArray], feature_names: Any = None) -> Queries:
    """Build queries from named arrays: ``X``, ``y`` or ``grades``, ``qid`` or ``group`` or ``offsets``, and options."""
    known = dict(arrays)
    X: Any = known["X"] if "X" in known else _sparse_from(known, None)
    grades = known["grades"] if "grades" in known else known["y"]
    group = known["group"] if "group" in known else np.diff(known["offsets"]) if "offsets" in known else None
    queries = Queries.from_arrays(
        X,
        grades,
        qid=known.get("qid"),
        group=None if "qid" in known else group,
        document_ids=known.get("document_ids"),
        query_weights=known.get("query_weights"),
        document_groups=known.get("document_groups"),
        feature_names=feature_names if feature_names is not None else known.get("feature_names"),
    )
    ids = known.get("query_ids")
    if ids is None or "qid" in known:
        return queries
    if len(ids) != len(queries):
        raise DataError(f"{len(ids)} query_ids for {len(queries)} queries")
    return Queries(**{**vars(queries), "query_ids": ids})


def read_npz(path: str | Path) -> Queries:
    """Read a NumPy archive with ``X``, ``y`` (or ``grades``) and ``qid`` (or ``group``)."""
    try:
        with np.load(path, allow_pickle=False) as archive:
            arrays = {name: archive[name] for name in archive.files}
    except FileNotFoundError:
        raise
    except Exception as error:
        raise DataError(f"not a readable .npz file: {error}", path=path) from None
    for names in (("X", "X.data"), ("y", "grades"), ("qid", "group", "offsets")):
        if not any(name in arrays for name in names):
            raise DataError(f"no array {' or '.join(names)} among {', '.join(sorted(arrays)) or 'none'}", path=path)
    try:
        return queries_from_mapping(arrays)
    except DataError as error:
        raise DataError(error.problem, path=path) from None


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
    try:
        header: dict[str, Any] = json.loads((folder / HEADER).read_text(encoding="utf-8"))
        found, version = header["format"], header["version"]
    except (json.JSONDecodeError, KeyError, TypeError, UnicodeDecodeError) as error:
        raise DataError(f"damaged header ({error}); convert the source again", path=folder / HEADER) from None
    if found != FORMAT:
        raise DataError(f"format {found!r} is not {FORMAT!r}", path=folder / HEADER)
    if version != VERSION:
        raise DataError(f"format version {version}; this marginrank reads version {VERSION}", path=folder / HEADER)
    return header


def _open_array(folder: Path, name: str, spec: Mapping[str, Any]) -> AnyArray:
    file = folder / f"{name}.npy"
    try:
        size = int(np.prod(spec["shape"]))
        array: AnyArray = np.load(file, mmap_mode="r" if size else None, allow_pickle=False)
    except (OSError, ValueError, EOFError, KeyError) as error:
        raise DataError(f"missing or damaged array ({error}); convert the source again", path=file) from None
    if array.dtype.str != spec["dtype"] or list(array.shape) != spec["shape"]:
        raise DataError(
            f"holds {array.dtype} {array.shape}, but the header says {spec['dtype']} {tuple(spec['shape'])}; "
            "convert the source again",
            path=file,
        )
    return array


def _queries_from(arrays: dict[str, AnyArray], names: list[str] | None, n_features: int) -> Queries:
    X: Any = arrays.pop("X") if "X" in arrays else _sparse_from(arrays, n_features)
    columns = {name: array for name, array in arrays.items() if name not in _SPARSE_PARTS}
    queries = Queries(X=X, feature_names=None if names is None else tuple(names), **columns)
    ends = (queries.offsets[0], queries.offsets[-1]) if len(queries.offsets) else (0, -1)
    if ends != (0, len(queries.grades)) or X.shape != (len(queries.grades), n_features):
        raise ValueError("the arrays do not fit each other")
    return queries


def _sparse_from(arrays: Mapping[str, AnyArray], n_features: int | None) -> sp.csr_array:
    data, indices, indptr = (arrays[name] for name in _SPARSE_PARTS)
    width = n_features if n_features is not None else int(indices.max(initial=-1)) + 1
    return sp.csr_array((data, indices, indptr), shape=(len(indptr) - 1, width), copy=False)
