"""Files of named arrays with a header, for models and data, in the safetensors layout.

A file begins with eight bytes of length and a JSON object with the offsets of the arrays; the arrays follow without
gaps, largest items first, so that each is aligned. One entry of the metadata, named by the family of files, is a JSON
object with the kind of content, its header, and type, shape and digest of every array; it ends with its own digest.
Equal contents give equal bytes.

The package safetensors reads these files. It is not used here because it can neither map arrays into memory for NumPy
nor write them without a second copy.
"""

from __future__ import annotations

import hashlib
import json
import math
import re
from collections.abc import Mapping
from contextlib import nullcontext
from dataclasses import dataclass
from pathlib import Path
from typing import IO, Any, BinaryIO, Final

import numpy as np

from marginrank.errors import DataError
from marginrank.runtime.files import atomic_path, no_such_file, open_input
from marginrank.runtime.mapped_arrays import blocks, map_file
from marginrank.runtime.threads import for_each
from marginrank.typing import AnyArray
from marginrank.version import __version__

_FORMAT_VERSION: Final = 1
_MAX_HEADER_BYTES: Final = 100_000_000
_BLOCK: Final = 1 << 24
_TYPES: Final[Mapping[str, str]] = {
    "F64": "float64", "F32": "float32", "I64": "int64", "I32": "int32", "I16": "int16", "I8": "int8",
    "U64": "uint64", "U32": "uint32", "U16": "uint16", "U8": "uint8", "BOOL": "bool",
}  # fmt: skip
_CODES: Final = {name: code for code, name in _TYPES.items()}
#: First bytes of files that are mistaken for ours.
_OTHER_KINDS: Final = (
    (rb"\x80[\x02-\x05]", "a Python pickle"),
    (rb"PK\x03\x04", "a ZIP archive"),
    (rb"\x1f\x8b|BZh|\xfd7zXZ\x00|\x28\xb5\x2f\xfd", "compressed data"),
    (rb"\x93NUMPY", "a NumPy array"),
    (rb"tree\r?\nversion=", "a LightGBM model"),
    (rb"\s*\{\s*\"learner\"", "an XGBoost model"),
    (rb"SVM-light Version", "an SVM-light or SVM-rank model"),
    (rb"## \w+\r?\n##", "a RankLib model"),
    (rb"[^\x00-\x08\x0e-\x1a\x1c-\x1f]+\Z", "text"),
    (rb"", "data of an unknown kind"),
)


@dataclass(frozen=True)
class Family:
    """Files that are written and read together.

    Args:
        entry: Name of the entry in the metadata.
        title: What to call such a file in messages.
        remedy: How to get a new one.
    """

    entry: str
    title: str
    remedy: str

    def begins(self, start: bytes) -> bool:
        """Return whether a file begins with these bytes: a length, then JSON that names the entry."""
        return int.from_bytes(start[:8], "little") < _MAX_HEADER_BYTES and f'"{self.entry}":'.encode() in start[8:208]


@dataclass(frozen=True)
class Content:
    """The content of a file.

    Args:
        kind: Kind of content, such as ``ranker``.
        header: Plain JSON values.
        arrays: Arrays by name, mapped into memory, read-only.
        digests: The digest of each array, as it was written.
    """

    kind: str
    header: dict[str, Any]
    arrays: dict[str, AnyArray]
    digests: dict[str, str]

    def damaged(self) -> list[str]:
        """Return the names of arrays that do not match their digest; reads all of them."""
        is_damaged: dict[str, bool] = {}

        def check(name: str) -> None:
            is_damaged[name] = array_digest(self.arrays[name]) != self.digests[name]

        for_each(check, [(name,) for name in self.arrays])
        return sorted(name for name, damaged in is_damaged.items() if damaged)


def write_array_file(
    path: str | Path,
    family: Family,
    kind: str,
    header: Mapping[str, Any],
    arrays: Mapping[str, AnyArray],
    *,
    overwrite: bool = True,
    private: bool = False,
) -> None:
    """Write a file atomically; a new private one is for its owner alone."""
    for name, array in arrays.items():
        if array.dtype.name not in _CODES:
            raise TypeError(f"array {name!r} has dtype {array.dtype}; a {family.title} holds {', '.join(_CODES)}")
    ordered = dict(sorted(arrays.items(), key=lambda item: (-item[1].itemsize, item[0])))
    tensors = {name: _little_endian(array) for name, array in ordered.items()}
    document = {
        "format_version": _FORMAT_VERSION,
        "package_version": __version__,
        "kind": kind,
        "header": header,
        "arrays": {name: _description(array) for name, array in tensors.items()},
    }
    text = _dumps({**document, "digest": _digest(document)})
    layout: dict[str, Any] = {"__metadata__": {family.entry: text}}
    end = 0
    for name, array in tensors.items():
        start, end = end, end + array.nbytes
        layout[name] = {"dtype": _CODES[array.dtype.name], "shape": list(array.shape), "data_offsets": [start, end]}
    head = json.dumps(layout, ensure_ascii=False, separators=(",", ":")).encode()
    head += b" " * (-len(head) % 8)
    with atomic_path(path, overwrite=overwrite, private=private) as place, place.open("wb") as file:
        file.write(len(head).to_bytes(8, "little") + head)
        for array in tensors.values():
            _write_bytes(file, array)


def _write_bytes(file: IO[bytes], array: AnyArray) -> None:
    for _, block in blocks(_bytes_of(array), _BLOCK):
        file.write(block.data)


def read_array_file(path: str | Path, family: Family, *, mapped: bool = True, file: BinaryIO | None = None) -> Content:
    """Open a file: its header and layout are checked, its arrays mapped into memory and not read.

    Without ``mapped``, all of the file is read at once, so that later changes of the file do no harm: the system kills
    a process that reads a mapped file which was truncated. A ``file`` that is open already is not opened again.

    Raises:
        FileNotFoundError: There is no such file.
        DataError: It is not such a file, it is damaged, or a newer marginrank wrote it.
    """
    place = Path(path)
    with _opened(place) if file is None else nullcontext(file) as opened:
        start = opened.read(256)
        if not start:
            raise DataError("an empty file; give the file that marginrank wrote", path=place)
        try:
            layout, position, size = _read_layout(opened)
            metadata = layout.pop("__metadata__", {})
            if not isinstance(metadata, dict):
                raise ValueError("the metadata is not a table")
        except (OSError, ValueError, RecursionError, MemoryError) as error:
            raise DataError(_wrong_file(start, family, error), path=place) from None
        document = _parse(metadata.get(family.entry), family, place)
        try:
            specs = _check_layout(layout, document["arrays"], position, size)
            content = map_file(opened, np.uint8, "r") if mapped else _all_bytes(opened, size)
        except (OSError, TypeError, ValueError, KeyError) as error:
            raise DataError(f"damaged {family.title} ({error}); {family.remedy}", path=place) from None
    arrays = {
        name: content[first:end].view(dtype).reshape(shape) if end > first else np.empty(shape, dtype=dtype)
        for name, (dtype, shape, first, end) in specs.items()
    }
    digests = {name: description["digest"] for name, description in document["arrays"].items()}
    return Content(document["kind"], document["header"], arrays, digests)


def _opened(place: Path) -> BinaryIO:
    if place.is_dir():
        raise DataError("not a file; give the file that marginrank wrote", path=place)
    if not place.exists():
        raise FileNotFoundError(f"{place}: {no_such_file(place)}")
    return open_input(place)


def _read_layout(file: IO[bytes]) -> tuple[dict[str, Any], int, int]:
    """Read the JSON object at the beginning; return it, the offset of the arrays, and the size of the file."""
    size = file.seek(0, 2)
    file.seek(0)
    length = int.from_bytes(file.read(8), "little")
    if length > min(size - 8, _MAX_HEADER_BYTES):
        raise ValueError("the file is shorter than its header")
    layout = json.loads(file.read(length).decode(), object_pairs_hook=_unique_names)
    if not isinstance(layout, dict):
        raise ValueError("the layout is not a table")
    return layout, 8 + length, size


def _all_bytes(file: IO[bytes], size: int) -> AnyArray:
    file.seek(0)
    content = np.frombuffer(file.read(), dtype=np.uint8)
    if len(content) != size:
        raise ValueError("the file changed while it was read")
    return content


def _unique_names(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    entries = dict(pairs)
    if len(entries) < len(pairs):
        raise ValueError("a name appears twice in the header")
    return entries


def _check_layout(
    layout: Mapping[str, Any], described: Mapping[str, Any], position: int, size: int
) -> dict[str, tuple[np.dtype[Any], tuple[int, ...], int, int]]:
    """Check the layout against the descriptions and the size of the file; return type, shape, start and end."""
    if set(layout) != set(described):
        raise ValueError("the arrays are not those of the header")
    specs = {}
    expected = position
    for name, entry in layout.items():
        if not isinstance(entry, dict) or set(entry) != {"dtype", "shape", "data_offsets"}:
            raise ValueError(f"array {name!r} is not described")
        description = described[name]
        type_name = _TYPES.get(str(entry["dtype"]))
        if type_name is None or not _is_shape(entry["shape"]):
            raise ValueError(f"array {name!r} has no known type and shape")
        if description["dtype"] != type_name or description["shape"] != entry["shape"]:
            raise ValueError(f"array {name!r} is not the one of the header")
        dtype = np.dtype(type_name).newbyteorder("<")
        end = expected + dtype.itemsize * math.prod(entry["shape"])
        if entry["data_offsets"] != [expected - position, end - position] or end > size or expected % dtype.itemsize:
            raise ValueError(f"array {name!r} is not where it should be")
        specs[name] = (dtype, tuple(entry["shape"]), expected, end)
        expected = end
    if expected != size:
        raise ValueError("the file is longer than its arrays")
    return specs


def _is_shape(shape: Any) -> bool:
    return isinstance(shape, list) and len(shape) <= 8 and all(type(n) is int and 0 <= n < 1 << 48 for n in shape)


def _parse(text: Any, family: Family, place: Path) -> dict[str, Any]:
    """Parse the JSON entry, and refuse it if it is incomplete."""
    if not isinstance(text, str):
        raise DataError(
            f"a safetensors file, but not a {family.title}; give the file that marginrank wrote", path=place
        )
    try:
        document = json.loads(text, parse_float=_finite, parse_constant=_finite)
    except (RecursionError, ValueError) as error:
        raise DataError(f"the header does not parse ({error}); {family.remedy}", path=place) from None
    version = document.get("format_version") if isinstance(document, dict) else None
    if type(version) is not int:
        raise DataError(f"the header has no format_version; {family.remedy}", path=place)
    if version != _FORMAT_VERSION:
        writer = str(document.get("package_version"))[:32]
        raise DataError(
            f"format version {version}, written by marginrank {writer}; this is {__version__} and reads version "
            f"{_FORMAT_VERSION}; update marginrank, or {family.remedy}",
            path=place,
        )
    # Other text with the same meaning, such as 1E-6 for 1e-6, is damage too.
    written, digest = _dumps(document), document.pop("digest", None)
    if not _is_complete(document) or written != text or digest != _digest(document):
        raise DataError(f"damaged {family.title} (the header does not match its digest); {family.remedy}", path=place)
    return dict(document)


def _is_complete(document: Mapping[str, Any]) -> bool:
    expected = {"kind": str, "header": dict, "arrays": dict}
    if not all(isinstance(document.get(name), kind) for name, kind in expected.items()):
        return False
    described = {"dtype", "shape", "digest"}
    return all(isinstance(array, dict) and set(array) == described for array in document["arrays"].values())


def _dumps(document: Mapping[str, Any]) -> str:
    return json.dumps(document, ensure_ascii=False, allow_nan=False, sort_keys=True)


def _digest(document: Mapping[str, Any]) -> str:
    return hashlib.sha256(_dumps(document).encode()).hexdigest()


def _description(array: AnyArray) -> dict[str, Any]:
    return {"dtype": array.dtype.name, "shape": list(array.shape), "digest": array_digest(array)}


def array_digest(array: AnyArray) -> str:
    """Return the SHA-256 of type, shape and bytes of an array.

    >>> array_digest(np.zeros(0)) == hashlib.sha256(b"<f8 (0,) ").hexdigest()
    True
    """
    total = hashlib.sha256(f"{array.dtype.str} {array.shape} ".encode())
    for _, block in blocks(_bytes_of(array), _BLOCK):
        total.update(block.data)
    return total.hexdigest()


def _bytes_of(array: AnyArray) -> AnyArray:
    return np.asarray(array, order="C").reshape(-1).view(np.uint8)


def _little_endian(array: AnyArray) -> AnyArray:
    return np.asarray(array, dtype=array.dtype.newbyteorder("<"), order="C")


def _finite(text: str) -> float:
    number = float(text)
    if not math.isfinite(number):
        raise ValueError(f"{text[:20]} is not a finite number")
    return number


def _wrong_file(start: bytes, family: Family, error: BaseException) -> str:
    """Return the error message for a file that is not one of the family."""
    if f'"{family.entry}"'.encode() in start:
        return f"damaged {family.title} ({' '.join(str(error).split())}); {family.remedy}"
    kind = next(name for pattern, name in _OTHER_KINDS if re.match(pattern, start))
    return f"this is {kind}, not a marginrank {family.title}; give the file that marginrank wrote"
