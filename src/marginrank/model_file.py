"""The model file: safetensors with a JSON header; reading one runs no code.

The arrays are the tensors of the file. Its metadata has one entry, ``marginrank``: a JSON object with the kind of
model, everything that is known of it, and a digest of every array and of itself, so that a damaged file is refused. The
same content gives the same bytes.
"""

from __future__ import annotations

import hashlib
import json
import math
import re
from collections.abc import Mapping
from pathlib import Path
from typing import Any, Final

import numpy as np
from safetensors import SafetensorError, safe_open
from safetensors.numpy import save

from marginrank.atomic import atomic_path
from marginrank.errors import DataError
from marginrank.typing import AnyArray
from marginrank.version import __version__

#: How a file name of a model ends.
SUFFIX: Final = ".safetensors"
_ENTRY: Final = "marginrank"
_FORMAT_VERSION: Final = 1
_TYPES: Final = ("float64", "float32", "int64", "int32", "uint8", "bool")
_ARRAY_BLOCK: Final = 1 << 24

#: How files begin that are mistaken for models.
_KINDS: Final = (
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


def write_model(
    path: str | Path, kind: str, header: Mapping[str, Any], arrays: Mapping[str, AnyArray], *, overwrite: bool = True
) -> None:
    """Write a model file, whole or not at all.

    Args:
        path: The file to write; its folder has to exist.
        kind: What the file holds, such as ``ranker``.
        header: Plain JSON values; numbers are finite.
        arrays: Arrays by name.
        overwrite: Replace a file of that name instead of refusing it.

    >>> import tempfile
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     write_model(f"{folder}/a.safetensors", "ranker", {"C": 2.0}, {"theta": np.array([0.5, -1.0])})
    ...     kind, header, arrays = read_model(f"{folder}/a.safetensors")
    >>> kind, header["C"], arrays["theta"].tolist()
    ('ranker', 2.0, [0.5, -1.0])
    """
    tensors = {name: _little_endian(array) for name, array in sorted(arrays.items())}
    for name, array in tensors.items():
        if array.dtype.name not in _TYPES:
            raise TypeError(f"array {name!r} has dtype {array.dtype}; a model file holds {', '.join(_TYPES)}")
    document = {
        "format_version": _FORMAT_VERSION,
        "package_version": __version__,
        "kind": kind,
        "header": header,
        "arrays": {name: _array_digest(array) for name, array in tensors.items()},
    }
    text = _dumps({**document, "digest": _digest(document)})
    with atomic_path(path, overwrite=overwrite) as place:
        # Not by save_file, whose files only their owner can read.
        place.write_bytes(save(tensors, metadata={_ENTRY: text}))


def is_model(path: Path) -> bool:
    """Tell a model file by how it begins: eight bytes of length, then JSON that names our entry."""
    if not path.is_file():
        return False
    with path.open("rb") as file:
        length = int.from_bytes(file.read(8), "little")
        return length < 100_000_000 and f'"{_ENTRY}":'.encode() in file.read(min(length, 200))


def read_model(path: str | Path) -> tuple[str, dict[str, Any], dict[str, AnyArray]]:
    """Read a model file: what kind it is of, its header, and its arrays by name.

    Raises:
        FileNotFoundError: There is no such file.
        DataError: It is not a model file, it is damaged, or a newer marginrank wrote it.
    """
    place = Path(path)
    if place.exists() and not place.is_file():
        raise DataError("not a file; give the file that marginrank wrote", path=place)
    if not place.exists():
        raise FileNotFoundError(f"{place}: no such file")
    try:
        with safe_open(place, "numpy") as file:
            document = _parse((file.metadata() or {}).get(_ENTRY), place)
            arrays = {name: file.get_tensor(name) for name in file.keys()}  # noqa: SIM118
        _refuse_repeated_keys(place)
    except (SafetensorError, OSError, TypeError, ValueError, OverflowError, RecursionError, MemoryError) as error:
        if isinstance(error, DataError):
            raise
        raise DataError(_describe(place, error), path=place) from None
    if {name: _array_digest(array) for name, array in arrays.items()} != document["arrays"]:
        raise DataError("damaged model file (an array does not match its digest); copy it again", path=place)
    return document["kind"], document["header"], arrays


def _parse(text: str | None, place: Path) -> dict[str, Any]:
    """Read the JSON entry, and refuse what is not whole."""
    if text is None:
        raise DataError("a safetensors file of another program; give the file that marginrank wrote", path=place)
    try:
        document = json.loads(text, parse_float=_finite, parse_constant=_finite)
    except (RecursionError, ValueError) as error:
        raise DataError(f"the header does not parse ({error}); save the model again", path=place) from None
    version = document.get("format_version") if isinstance(document, dict) else None
    if not isinstance(version, int) or isinstance(version, bool):
        raise DataError("the header has no format_version; save the model again", path=place)
    if version != _FORMAT_VERSION:
        writer = str(document.get("package_version"))[:32]
        raise DataError(
            f"format version {version}, written by marginrank {writer}; this is {__version__} and reads version "
            f"{_FORMAT_VERSION}; update marginrank or save the model again",
            path=place,
        )
    # Text that reads the same but is not what was written, such as 1E-6 for 1e-6, is damage too.
    written, digest = _dumps(document), document.pop("digest", None)
    expected = {"kind": str, "header": dict, "arrays": dict}
    whole = all(isinstance(document.get(name), kind) for name, kind in expected.items())
    if not whole or written != text or digest != _digest(document):
        raise DataError("damaged model file (the header does not match its digest); copy it again", path=place)
    return dict(document)


def _dumps(document: Mapping[str, Any]) -> str:
    return json.dumps(document, ensure_ascii=False, allow_nan=False, sort_keys=True)


def _digest(document: Mapping[str, Any]) -> str:
    return hashlib.sha256(_dumps(document).encode()).hexdigest()


def _little_endian(array: AnyArray) -> AnyArray:
    return np.asarray(array, dtype=array.dtype.newbyteorder("<"), order="C")


def _array_digest(array: AnyArray) -> str:
    total = hashlib.sha256(f"{array.dtype.str} {array.shape} ".encode())
    flat = np.asarray(array, order="C").reshape(-1).view(np.uint8)
    for start in range(0, len(flat), _ARRAY_BLOCK):
        total.update(flat[start : start + _ARRAY_BLOCK].data)
    return total.hexdigest()


def _finite(text: str) -> float:
    number = float(text)
    if not math.isfinite(number):
        raise ValueError(f"{text[:20]} is not a finite number")
    return number


def _refuse_repeated_keys(place: Path) -> None:
    """Refuse a container that names something twice: readers differ in which of the two they take."""

    def once(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
        if len({name for name, _ in pairs}) < len(pairs):
            raise DataError("damaged model file (a name occurs twice in its header); save the model again", path=place)
        return dict(pairs)

    with place.open("rb") as file:
        json.loads(file.read(int.from_bytes(file.read(8), "little")), object_pairs_hook=once)


def _describe(place: Path, error: Exception) -> str:
    """Say what a file is that safetensors cannot read."""
    with place.open("rb") as file:
        start = file.read(256)
    if not start:
        return "an empty file; give the file that marginrank wrote"
    if f'"{_ENTRY}"'.encode() in start:
        return f"damaged model file ({error}); copy it again or save the model again"
    kind = next(name for pattern, name in _KINDS if re.match(pattern, start))
    return f"this is {kind}, not a marginrank model; give the file that marginrank wrote"
