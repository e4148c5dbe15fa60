"""The binary form, one file that is mapped into memory, and NumPy archives."""

from __future__ import annotations

import zipfile
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any, Final

import numpy as np

from marginrank.data.formats.base import Format
from marginrank.data.formats.text_files import Paths, list_paths
from marginrank.data.grouping import check_offsets
from marginrank.data.queries import Queries
from marginrank.data.text_arrays import as_text, text_array
from marginrank.data.validation import check_queries, check_width
from marginrank.errors import DataError, Parameter, ParameterError
from marginrank.runtime.array_file import Content, Family, read_array_file, write_array_file
from marginrank.runtime.files import open_input
from marginrank.runtime.lazy_imports import sp
from marginrank.runtime.memory import check_memory
from marginrank.runtime.memory import max_memory as memory_budget
from marginrank.typing import AnyArray

QUERY_SETS: Final = Family("marginrank-queries", "binary query set", "convert the source again")
_KIND: Final = "queries"
_SPARSE_PARTS: Final = ("X.data", "X.indices", "X.indptr")
_LABELS: Final = ("query_ids", "document_ids", "document_groups")
#: Arrays of the file, and what `Queries` call them.
_NUMBERS: Final = {
    "grades": "judgements",
    "offsets": "query_offsets",
    "order": "order",
    "query_weights": "query_weights",
    "document_weights": "document_weights",
}
_LARGEST_CHARACTER: Final = 0x10FFFF


def write_binary(path: str | Path, queries: Queries, *, overwrite: bool = True) -> None:
    """Write queries in the binary format, rows in their order; an existing file is replaced by the complete new one.

    Args:
        path: The file to write.
        queries: What to write.
        overwrite: Replace a file of that name instead of refusing it.
    """
    target = Path(path)
    target.parent.mkdir(parents=True, exist_ok=True)
    header = {
        "queries": len(queries),
        "documents": queries.n_documents,
        "features": queries.n_features,
        "judged": queries.has_grades,
        "feature_names": None if queries.feature_names is None else list(queries.feature_names),
        "first_feature": queries.first_feature,
    }
    write_array_file(target, QUERY_SETS, _KIND, header, _arrays_of(queries), overwrite=overwrite)


def read_binary(path: str | Path) -> Queries:
    """Open a file in the binary format; features are memory-mapped.

    Sizes, types and structure are checked, digests are not, as that would read everything: `marginrank verify` does.
    """
    return _queries_of(read_array_file(path, QUERY_SETS), path)


def verify_binary(path: str | Path) -> Queries:
    """Open the binary form and check the digest of every array."""
    content = read_array_file(path, QUERY_SETS)
    damaged = content.damaged()
    if damaged:
        raise DataError(f"array {damaged[0]!r} does not match its digest; {QUERY_SETS.remedy}", path=path)
    return _queries_of(content, path)


def _queries_of(content: Content, path: str | Path) -> Queries:
    try:
        queries = _assemble(content)
    except (KeyError, TypeError, ValueError) as error:
        problem = error.problem if isinstance(error, DataError) else str(error)
        raise DataError(f"damaged {QUERY_SETS.title} ({problem}); {QUERY_SETS.remedy}", path=path) from None
    return queries


def _assemble(content: Content) -> Queries:
    header, arrays = content.header, dict(content.arrays)
    names, n_features = header["feature_names"], header["features"]
    if type(n_features) is not int or not 0 <= n_features < 1 << 31:
        raise TypeError("'features' is not a number of features")
    if names is not None and not isinstance(names, list):
        raise TypeError("'feature_names' is not a list of names")
    if type(header["first_feature"]) is not int or header["first_feature"] not in (0, 1):
        raise TypeError("'first_feature' is not 0 or 1")
    X: Any = arrays.pop("X") if "X" in arrays else _sparse_from(arrays, n_features)
    columns: dict[str, Any] = {attribute: arrays.pop(name, None) for name, attribute in _NUMBERS.items()}
    columns |= {name: labels_from(arrays, name) for name in _LABELS}
    unknown = sorted(set(arrays) - set(_SPARSE_PARTS if sp.issparse(X) else ()))
    missing = [name for name in ("query_offsets", "query_ids") if columns[name] is None]
    if header["judged"] and columns["judgements"] is None:
        missing.append("grades")
    if unknown or missing:
        raise TypeError(f"unknown array {unknown[0]!r}" if unknown else f"no array {missing[0]!r}")
    columns |= {"feature_names": None if names is None else tuple(names), "first_feature": header["first_feature"]}
    queries = check_queries(Queries(X=X, **columns))
    sizes = {"queries": len(queries), "documents": queries.n_documents, "features": queries.n_features}
    for name, size in sizes.items():
        if header.get(name) != size:
            raise ValueError(f"{size} {name}, but the header says {header.get(name)}")
    return queries


def _arrays_of(queries: Queries) -> dict[str, AnyArray]:
    X = queries.X
    features = dict(zip(_SPARSE_PARTS, (X.data, X.indices, X.indptr), strict=True)) if sp.issparse(X) else {"X": X}
    numbers = {name: getattr(queries, attribute) for name, attribute in _NUMBERS.items()}
    arrays = features | {name: column for name, column in numbers.items() if column is not None}
    for name in _LABELS:
        labels = getattr(queries, name)
        if labels is not None:
            arrays |= stored_labels(name, labels)
    return arrays


def stored_labels(name: str, labels: AnyArray) -> dict[str, AnyArray]:
    """Numbers as they are; text as code points, a row per word, or as bytes and the end of each word."""
    if labels.dtype.kind in "iub" or labels.dtype in (np.float32, np.float64):
        return {name: labels}
    words = as_text(labels)
    if words.dtype.kind == "U":
        width = max(1, words.dtype.itemsize // 4)
        native = np.ascontiguousarray(words, dtype=f"=U{width}")
        return {f"{name}.codes": native.view(np.uint32).reshape(len(words), width)}
    encoded = [word.encode(errors="surrogatepass") for word in words.tolist()]
    ends = np.cumsum([len(word) for word in encoded], dtype=np.int64)
    return {f"{name}.bytes": np.frombuffer(b"".join(encoded), dtype=np.uint8), f"{name}.ends": ends}


def labels_from(arrays: dict[str, AnyArray], name: str) -> AnyArray | None:
    """Take the labels that `stored_labels` made out of arrays; None where there are none."""
    codes, data, ends = (arrays.pop(f"{name}.{part}", None) for part in ("codes", "bytes", "ends"))
    if codes is not None:
        if codes.ndim != 2 or codes.dtype != np.uint32 or codes.shape[1] == 0:
            raise TypeError(f"{name} are not text")
        if codes.max(initial=0) > _LARGEST_CHARACTER:
            raise ValueError(f"{name} hold something that is not a character")
        return codes.view(f"<U{codes.shape[1]}").reshape(len(codes))
    if data is not None and ends is not None:
        return _decoded(name, data, ends)
    labels = arrays.pop(name, None)
    if labels is not None and labels.dtype == np.bool_ and labels.view(np.uint8).max(initial=0) > 1:
        raise ValueError(f"{name} are neither true nor false")
    return labels


def _decoded(name: str, data: AnyArray, ends: AnyArray) -> AnyArray:
    if data.dtype != np.uint8 or ends.dtype != np.int64 or data.ndim != 1 or ends.ndim != 1:
        raise TypeError(f"{name} are not text")
    starts = np.concatenate([np.zeros(min(1, len(ends)), dtype=np.int64), ends[:-1]])
    if np.any(ends < starts) or (int(ends[-1]) if len(ends) else 0) != len(data):
        raise ValueError(f"the words of {name} must follow one another")
    text = data.tobytes()
    spans = zip(starts.tolist(), ends.tolist(), strict=True)
    return text_array([text[start:end].decode(errors="surrogatepass") for start, end in spans])


def read_npz(path: str | Path, *, allow_nan: bool = False, max_memory: int | str | None = None) -> Queries:
    """Read a NumPy archive with ``X``, ``qid`` or ``group``, and ``y`` or ``grades`` if it is judged.

    Args:
        path: The archive.
        allow_nan: Keep NaN features as missing values instead of refusing them.
        max_memory: Budget of memory, in bytes or as ``"8GB"``; see `marginrank.runtime.memory.max_memory`.
    """
    try:
        return _queries_from_archive(_read_archive(Path(path), memory_budget(max_memory)), allow_nan)
    except DataError as error:
        raise error.at(path) from None


def _read_archive(path: Path, budget: int) -> dict[str, AnyArray]:
    with open_input(path) as file:
        try:
            with zipfile.ZipFile(file) as members:
                unpacked = sum(member.file_size for member in members.infolist())
            check_memory(unpacked, "the arrays of this archive", budget)
            file.seek(0)
            with np.load(file, allow_pickle=False) as archive:
                return {name: archive[name] for name in archive.files}
        except DataError:
            raise
        except Exception as error:
            raise DataError(f"not a readable .npz file: {error}") from None


def _queries_from_archive(arrays: Mapping[str, AnyArray], allow_nan: bool) -> Queries:
    for names in (("X", "X.data"), ("qid", "group", "offsets")):
        if not any(name in arrays for name in names):
            raise DataError(f"no array {' or '.join(names)} among {', '.join(sorted(arrays)) or 'none'}")
    X: Any = arrays["X"] if "X" in arrays else _checked_sparse(arrays)
    queries = Queries.from_arrays(
        X,
        arrays.get("grades", arrays.get("y")),
        qid=arrays.get("qid"),
        group=None if "qid" in arrays else _group_of(arrays, X.shape[0] if X.ndim else 0),
        document_ids=arrays.get("document_ids"),
        query_weights=arrays.get("query_weights"),
        document_groups=arrays.get("document_groups"),
        document_weights=arrays.get("document_weights"),
        feature_names=None if "feature_names" not in arrays else arrays["feature_names"].ravel().tolist(),
        allow_nan=allow_nan,
    )
    ids = arrays.get("query_ids")
    if ids is None or "qid" in arrays:
        return queries
    if ids.shape != (len(queries),):
        raise DataError(f"{ids.size} query_ids for {len(queries)} queries")
    return check_queries(replace(queries, query_ids=ids))


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
        check_width(matrix.shape[1], matrix.nnz, None)
    except KeyError as error:
        raise DataError(f"no array {error.args[0]}; sparse features are {', '.join(_SPARSE_PARTS)}") from None
    except DataError:
        raise
    except (TypeError, ValueError) as error:
        raise DataError(f"{', '.join(_SPARSE_PARTS)} do not make a CSR matrix: {error}") from None
    return matrix


def _sparse_from(arrays: Mapping[str, AnyArray], n_features: int | None) -> sp.csr_array:
    data, indices, indptr = (arrays[name] for name in _SPARSE_PARTS)
    if not all(part.ndim == 1 and np.issubdtype(part.dtype, np.integer) for part in (indices, indptr)):
        raise ValueError("X.indices and X.indptr must be lists of whole numbers")
    if np.any(indptr[1:] < indptr[:-1]):
        raise ValueError("X.indptr must not decrease")
    width = n_features if n_features is not None else int(indices.max()) + 1 if indices.size else 0
    return sp.csr_array((data, indices, indptr), shape=(len(indptr) - 1, width), copy=False)


def _read_sets(paths: Paths) -> Queries:
    return Queries.concatenate([read_binary(path) for path in list_paths(paths)])


def _read_archives(
    paths: Paths, *, missing: str = "error", allow_nan: bool = False, max_memory: int | str | None = None
) -> Queries:
    if missing not in ("error", "nan"):
        raise ParameterError(Parameter("missing"), f" is {missing!r}; a NumPy archive takes 'error' or 'nan'")
    keep = allow_nan or missing == "nan"
    return Queries.concatenate([read_npz(path, allow_nan=keep, max_memory=max_memory) for path in list_paths(paths)])


FORMATS = (
    Format(
        "binary",
        "a binary query set",
        _read_sets,
        suffixes=(".queries",),
        begins=QUERY_SETS.begins,
        write=write_binary,
        writes=(".queries",),
    ),
    Format(
        "npz",
        "a NumPy archive",
        _read_archives,
        ("missing",),
        (".npz",),
        begins=lambda start: start.startswith(b"PK\x03\x04"),
    ),
)
