"""The model file: a ZIP archive of a readable header and plain arrays; reading one runs no code.

``unzip -p MODEL header.json`` shows the header. Members are stored, not compressed, so that reading never yields more
bytes than the file has. The same content gives the same bytes.
"""

from __future__ import annotations

import json
import math
import os
import re
import struct
import zipfile
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from itertools import chain
from pathlib import Path
from typing import Any, BinaryIO

import numpy as np

from marginrank.atomic import atomic_write
from marginrank.data.storage import is_binary
from marginrank.errors import DataError
from marginrank.typing import AnyArray
from marginrank.version import __version__

HEADER = "header.json"
FORMAT = "marginrank model"
FORMAT_VERSION = 1

_OWN_FIELDS = ("format", "format_version", "package_version", "arrays")
_WIDTHS = {"int": (8, 16, 32, 64), "uint": (8, 16, 32, 64), "float": (16, 32, 64)}
_TYPE_NAMES = ("bool", *(f"{kind}{bits}" for kind, widths in _WIDTHS.items() for bits in widths))
_TYPES: dict[str, np.dtype[Any]] = {name: np.dtype(name).newbyteorder("<") for name in _TYPE_NAMES}
_MAX_NAME = 100
_MAX_DIMENSIONS = 32
_MAX_HEADER_BYTES = 64 << 20
_BLOCK_BYTES = 4 << 20

#: What `zipfile` raises on archives that are damaged, cut short, encrypted or made to mislead.
_DAMAGE = (
    EOFError,
    LookupError,
    OSError,
    OverflowError,
    RuntimeError,
    ValueError,
    struct.error,
    zipfile.BadZipFile,
)

#: How files begin that are mistaken for models.
_KINDS = (
    (rb"\x80[\x02-\x05]", "a Python pickle"),
    (rb"\x1f\x8b", "gzip-compressed data"),
    (rb"BZh[1-9]1AY&SY|\xfd7zXZ\x00|\x28\xb5\x2f\xfd", "compressed data"),
    (rb"\x93NUMPY", "a NumPy array"),
    (rb"\x89HDF\r\n", "an HDF5 file"),
    (rb"tree\r?\nversion=", "a LightGBM model"),
    (rb"\s*\{\s*\"learner\"", "an XGBoost model"),
    (rb"SVM-light Version", "an SVM-light or SVM-rank model"),
    (rb"## \w+\r?\n##", "a RankLib model"),
    (rb"\s*\{", "JSON text"),
    (rb"[^\x00-\x08\x0e-\x1a\x1c-\x1f]*\Z", "text"),
    (rb"", "data of an unknown kind"),
)


@dataclass(frozen=True)
class _Spec:
    """What the header says of an array."""

    dtype: np.dtype[Any]
    shape: tuple[int, ...]
    finite: bool

    @classmethod
    def of(cls, array: AnyArray) -> _Spec:
        return cls(array.dtype, array.shape, _is_finite(array))

    @classmethod
    def from_json(cls, name: str, value: Any) -> _Spec:
        fields: dict[str, Any] = value if isinstance(value, dict) else {}
        dtype, shape, finite = fields.get("dtype"), fields.get("shape"), fields.get("finite")
        if not isinstance(dtype, str) or dtype not in _TYPES:
            raise DataError(f"array {name!r} has the dtype {dtype!r:.40}; models hold {', '.join(_TYPES)}")
        if not _is_shape(shape):
            raise DataError(f"array {name!r} has no possible shape in {HEADER}; save the model again")
        if not isinstance(finite, bool):
            raise DataError(f"{HEADER} does not say whether array {name!r} is finite; save the model again")
        return cls(_TYPES[dtype], tuple(shape or ()), finite)

    def as_json(self) -> dict[str, Any]:
        return {"dtype": self.dtype.name, "shape": list(self.shape), "finite": self.finite}

    @property
    def prefix(self) -> bytes:
        """The bytes of a ``.npy`` file, version 1.0, before its data.

        Written here and compared when reading, so that no text from a file is ever parsed as Python.
        """
        text = f"{{'descr': '{self.dtype.str}', 'fortran_order': False, 'shape': {self.shape!r}, }}"
        length = -(-(10 + len(text) + 1) // 64) * 64 - 10
        return b"\x93NUMPY\x01\x00" + struct.pack("<H", length) + text.ljust(length - 1).encode() + b"\n"

    @property
    def n_bytes(self) -> int:
        return len(self.prefix) + math.prod(self.shape) * self.dtype.itemsize

    def __str__(self) -> str:
        return f"{self.dtype.name} array of shape {self.shape}"


def write_model(
    path: str | Path, header: Mapping[str, Any], arrays: Mapping[str, AnyArray], *, overwrite: bool = True
) -> None:
    """Write a model file, whole or not at all.

    The header says ``format``, ``format_version`` and ``package_version``, then the caller's fields in alphabetical
    order, then the type, shape and finiteness of the ``arrays``. Nothing is written if anything cannot be stored.

    Args:
        path: The file to write; its folder has to exist.
        header: Fields of text, finite numbers, booleans, None, lists and mappings of these. Tuples are read back as
            lists, NumPy numbers as Python's.
        arrays: Arrays of booleans, whole numbers or floats under names like ``coef`` or ``X.data``; read back
            C-ordered and in the byte order of the machine.
        overwrite: Replace a file of that name instead of refusing it.

    Raises:
        FileExistsError: The file exists and ``overwrite`` is false.
        OSError: The file cannot be written.
        TypeError: A header field or an array is of a kind that a model file does not hold.
        ValueError: A number in the header is not finite, or a name cannot be used.

    >>> import tempfile
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     write_model(f"{folder}/a.marginrank", {"C": 2.0}, {"coef": np.array([0.5, -1.0])})
    ...     header, arrays = read_model(f"{folder}/a.marginrank")
    >>> header["C"], arrays["coef"].tolist()
    (2.0, [0.5, -1.0])
    """
    plain = {name: _as_plain(name, array) for name, array in sorted(arrays.items())}
    specs = {name: _Spec.of(array) for name, array in plain.items()}
    text = _header_text(header, specs)
    with atomic_write(path, overwrite=overwrite) as file:
        _write_archive(file, _members(text, plain, specs))


def read_model(path: str | Path) -> tuple[dict[str, Any], dict[str, AnyArray]]:
    """Read a model file: its whole header, and its arrays by name.

    Nothing from the file is executed or unpickled, and every byte that matters is checked.

    Raises:
        FileNotFoundError: There is no such file.
        DataError: It is no model file, it is damaged, or a newer marginrank wrote it.
    """
    place = Path(path)
    if place.is_dir():
        kind = "a query set in binary form" if is_binary(place) else "a folder"
        raise DataError(f"this is {kind}, not a marginrank model; give the file that marginrank wrote", path=place)
    if place.exists() and not place.is_file():
        raise DataError("not a regular file; copy the model to one and read that", path=place)
    with place.open("rb") as file:
        try:
            return _read_archive(file)
        except DataError as error:
            raise DataError(error.problem, path=place) from None
        except _DAMAGE as error:
            raise DataError(_describe(file, error), path=place) from None


def _is_array_name(name: object) -> bool:
    return isinstance(name, str) and len(name) <= _MAX_NAME and all(word.isidentifier() for word in name.split("."))


def _as_plain(name: str, values: AnyArray) -> AnyArray:
    if not _is_array_name(name):
        raise ValueError(f"array name {name!r}; names are words joined by dots, {_MAX_NAME} characters at most")
    array = np.asarray(values)
    if array.dtype.name not in _TYPES:
        raise TypeError(
            f"array {name!r} is of type {array.dtype}; models hold {', '.join(_TYPES)}; text is for the header"
        )
    return np.asarray(array, dtype=_TYPES[array.dtype.name], order="C")


def _blocks(array: AnyArray) -> Iterator[AnyArray]:
    flat = array.reshape(-1)
    step = _BLOCK_BYTES // array.itemsize
    return (flat[start : start + step] for start in range(0, flat.size, step))


def _is_finite(array: AnyArray) -> bool:
    return array.dtype.kind != "f" or all(np.isfinite(block).all() for block in _blocks(array))


def _header_text(header: Mapping[str, Any], specs: Mapping[str, _Spec]) -> bytes:
    if taken := [field for field in _OWN_FIELDS if field in header]:
        raise ValueError(f"header field {taken[0]!r} is written by marginrank; leave it out")
    fields = {
        "format": FORMAT,
        "format_version": FORMAT_VERSION,
        "package_version": __version__,
        **_as_json(header, "header"),
        "arrays": {name: spec.as_json() for name, spec in specs.items()},
    }
    text = (json.dumps(fields, indent=2, ensure_ascii=False, allow_nan=False) + "\n").encode("utf-8")
    if len(text) > _MAX_HEADER_BYTES:
        raise ValueError(
            f"the header has {len(text):,} bytes, the most is {_MAX_HEADER_BYTES:,}; put numbers in arrays"
        )
    return text


def _as_json(value: Any, place: str) -> Any:
    """Give a value as JSON has it, mappings sorted; refuse one that would not be read back as it was."""
    match value.item() if isinstance(value, np.generic) else value:
        case None | bool() | int() as plain:
            return plain
        case float() as number if math.isfinite(number):
            return number
        case str() as text:
            return _checked_text(text, place)
        case list() | tuple() as items:
            return [_as_json(item, f"{place}[{at}]") for at, item in enumerate(items)]
        case Mapping() as fields:
            return {key: _as_json(fields[key], f"{place}[{key!r}]") for key in sorted(_checked_keys(fields, place))}
        case float() as number:
            raise ValueError(f"{place} is {number}; numbers in a header are finite, None stands for no number")
    raise TypeError(
        f"{place} is of type {type(value).__name__}; a header holds text, numbers, booleans, None, lists, mappings"
    )


def _checked_keys(fields: Mapping[Any, Any], place: str) -> list[str]:
    for key in fields:
        if not isinstance(key, str):
            raise TypeError(f"{place} has the key {key!r}; keys are text")
        _checked_text(key, f"a key of {place}")
    return list(fields)


def _checked_text(text: str, place: str) -> str:
    try:
        text.encode("utf-8")
    except UnicodeEncodeError:
        raise ValueError(f"{place} is {text!r}, which no UTF-8 file can hold; rename it") from None
    return text


def _members(
    header: bytes, arrays: Mapping[str, AnyArray], specs: Mapping[str, _Spec]
) -> Iterator[tuple[str, int, Iterable[bytes | memoryview]]]:
    yield HEADER, len(header), [header]
    for name, array in arrays.items():
        data = (block.view(np.uint8).data for block in _blocks(array))
        yield f"{name}.npy", specs[name].n_bytes, chain([specs[name].prefix], data)


def _write_archive(file: BinaryIO, members: Iterable[tuple[str, int, Iterable[bytes | memoryview]]]) -> None:
    archive = zipfile.ZipFile(file, "w")
    try:
        for name, n_bytes, blocks in members:
            with archive.open(_member_info(name, n_bytes), "w") as member:
                for block in blocks:
                    member.write(block)
    except BaseException:
        archive.fp = None  # closing it would write to a file that is thrown away, and could hide the reason
        raise
    archive.close()


def _member_info(name: str, n_bytes: int) -> zipfile.ZipInfo:
    """Describe a member by nothing but its content: no clock, no operating system."""
    info = zipfile.ZipInfo(name)
    info.create_system = 3
    info.external_attr = 0o644 << 16
    info.file_size = n_bytes
    return info


def _read_archive(file: BinaryIO) -> tuple[dict[str, Any], dict[str, AnyArray]]:
    with zipfile.ZipFile(file) as archive:
        members = _checked_members(archive, os.fstat(file.fileno()).st_size)
        header = _parse_header(_bytes_of(archive, members.pop(HEADER)))
        specs = _parse_specs(header)
        for name in members:
            if name.removesuffix(".npy") not in specs or not name.endswith(".npy"):
                raise DataError(f"the archive holds {name!r:.80}, which its header does not name; save the model again")
        return header, {name: _read_array(archive, members, name, spec) for name, spec in specs.items()}


def _checked_members(archive: zipfile.ZipFile, file_bytes: int) -> dict[str, zipfile.ZipInfo]:
    """List the members, and refuse sizes that cannot be true before anything of that size is read."""
    infos = archive.infolist()
    members = {info.filename: info for info in infos}
    if HEADER not in members:
        kind = "a PyTorch file" if any(name.endswith("/data.pkl") for name in members) else "a ZIP archive"
        kind = "a NumPy archive" if members and all(name.endswith(".npy") for name in members) else kind
        raise DataError(f"this is {kind} without {HEADER}, not a marginrank model; give the file that marginrank wrote")
    for info in infos:
        if info.compress_type != zipfile.ZIP_STORED:
            raise DataError(
                f"{info.filename!r:.80} is compressed; models are stored plainly, pack it again with zip -0"
            )
    if len(members) < len(infos) or any(info.file_size != info.compress_size for info in infos):
        raise DataError("damaged model file (its list of members is inconsistent); copy it or save the model again")
    if (claimed := sum(info.file_size for info in infos)) > file_bytes:
        raise DataError(f"claims {claimed:,} bytes of content in a file of {file_bytes:,}; save the model again")
    if members[HEADER].file_size > _MAX_HEADER_BYTES:
        raise DataError(f"{HEADER} has {members[HEADER].file_size:,} bytes; the most is {_MAX_HEADER_BYTES:,}")
    return members


def _bytes_of(archive: zipfile.ZipFile, info: zipfile.ZipInfo) -> bytearray:
    """Read a member whole; its CRC has been checked when this returns."""
    data = bytearray(info.file_size)
    at = 0
    with archive.open(info) as member:
        while block := member.read(_BLOCK_BYTES):
            data[at : at + len(block)] = block
            at += len(block)
    return data


def _parse_header(data: bytearray) -> dict[str, Any]:
    try:
        header = json.loads(data.decode("utf-8"), parse_float=_finite, parse_constant=_finite)
    except (RecursionError, ValueError) as error:
        raise DataError(f"{HEADER} does not parse ({error}); save the model again") from None
    if not isinstance(header, dict) or header.get("format") != FORMAT:
        raise DataError(f"{HEADER} is not that of a {FORMAT}; give the file that marginrank wrote")
    _check_version(header.get("format_version"), header.get("package_version"))
    return header


def _finite(text: str) -> float:
    number = float(text)
    if not math.isfinite(number):
        raise ValueError(f"{text[:20]} is not a finite number")
    return number


def _check_version(version: object, package: object) -> None:
    named = isinstance(package, str) and re.fullmatch(r"[0-9][0-9A-Za-z.+!-]{0,63}", package)
    if isinstance(version, bool) or not isinstance(version, int) or version < 1:
        raise DataError(f"{HEADER} has no format_version; save the model again")
    if version > FORMAT_VERSION:
        writer, needed = (
            (f", written by marginrank {package}", f">= {package}") if named else ("", "of a later version")
        )
        raise DataError(
            f"this is model format {version!s:.20}{writer}; marginrank {__version__} reads formats "
            f"up to {FORMAT_VERSION}; install marginrank {needed}"
        )
    if not named:
        raise DataError(f"{HEADER} has no package_version; save the model again")


def _parse_specs(header: Mapping[str, Any]) -> dict[str, _Spec]:
    arrays = header.get("arrays")
    if not isinstance(arrays, dict) or not all(map(_is_array_name, arrays)):
        raise DataError(f"{HEADER} has no list of arrays; save the model again")
    return {name: _Spec.from_json(name, value) for name, value in arrays.items()}


def _is_shape(shape: object) -> bool:
    return (
        isinstance(shape, list)
        and len(shape) <= _MAX_DIMENSIONS
        and all(isinstance(n, int) and not isinstance(n, bool) and n >= 0 for n in shape)
        and math.prod(n or 1 for n in shape) < 1 << 60  # NumPy counts bytes in 63 bits, even of an empty array
    )


def _read_array(archive: zipfile.ZipFile, members: Mapping[str, zipfile.ZipInfo], name: str, spec: _Spec) -> AnyArray:
    info = members.get(f"{name}.npy")
    if info is None:
        raise DataError(f"array {name!r} is missing; save the model again")
    if info.file_size != spec.n_bytes:
        raise DataError(
            f"array {name!r} has {info.file_size:,} bytes; as {spec} it needs {spec.n_bytes:,}; save the model again"
        )
    data = _bytes_of(archive, info)
    if not data.startswith(spec.prefix):
        raise DataError(f"array {name!r} is not the {spec} that the header describes; save the model again")
    array = np.frombuffer(data, spec.dtype, offset=len(spec.prefix)).reshape(spec.shape)
    _check_values(name, array, spec)
    return array.astype(spec.dtype.newbyteorder("="), copy=False)


def _check_values(name: str, array: AnyArray, spec: _Spec) -> None:
    if spec.finite and not _is_finite(array):
        raise DataError(f"array {name!r} holds NaN or infinity, but the header calls it finite; save the model again")
    if spec.dtype.kind == "b" and array.view(np.uint8).max(initial=0) > 1:
        raise DataError(f"array {name!r} holds bytes that are no booleans; save the model again")


def _describe(file: BinaryIO, error: Exception) -> str:
    """Say what a file is that does not read as a model."""
    file.seek(0)
    head = file.read(512)
    if head.startswith(b"PK\x03\x04") or zipfile.is_zipfile(file):
        return f"damaged or cut short ({str(error) or type(error).__name__}); copy it again or save the model again"
    kind = next(kind for start, kind in _KINDS if re.match(start, head)) if head else "an empty file"
    return f"this is {kind}, not a marginrank model; give the file that marginrank wrote"
