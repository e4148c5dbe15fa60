"""Model files: what is written is read back, and nothing else is ever taken for a model."""

from __future__ import annotations

import errno
import gzip
import io
import itertools
import json
import multiprocessing
import os
import pickle
import shutil
import signal
import stat
import struct
import subprocess
import tempfile
import time
import zipfile
from contextlib import suppress
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
import scipy.sparse as sp
from hypothesis import example, given, settings
from hypothesis import strategies as st
from hypothesis.extra import numpy as hnp

import marginrank as mr
from marginrank import atomic, model_file
from marginrank.atomic import atomic_write
from marginrank.data import read_binary, write_binary
from marginrank.data.fingerprint import fingerprint
from marginrank.errors import DataError
from marginrank.model_file import FORMAT_VERSION, HEADER, read_model, write_model

OWN = {"format", "format_version", "package_version", "arrays"}
NUMBERS = ["i1", "i2", "i4", "i8", "u1", "u2", "u4", "u8", "f2", "f4", "f8"]
TYPES = ["?", *(order + kind for order in "<>" for kind in NUMBERS)]

json_values = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False, allow_infinity=False) | st.text(),
    lambda inner: st.lists(inner) | st.dictionaries(st.text(), inner),
    max_leaves=8,
)
headers = st.dictionaries(st.text().filter(lambda name: name not in OWN), json_values, max_size=4)
array_names = st.from_regex(r"[a-zé変_][a-z0-9_]{0,5}(\.[a-z]{1,3})?", fullmatch=True)
some_arrays = st.dictionaries(
    array_names,
    hnp.arrays(st.sampled_from(TYPES).map(np.dtype), hnp.array_shapes(min_dims=0, max_dims=3, min_side=0, max_side=4)),
    max_size=3,
)
forks = pytest.mark.skipif("fork" not in multiprocessing.get_all_start_methods(), reason="this system does not fork")


@pytest.fixture(autouse=True)
def synced(monkeypatch):
    """Count what is put on the disk instead of waiting for the disk."""
    descriptors = []
    monkeypatch.setattr(os, "fsync", descriptors.append)
    return descriptors


@pytest.fixture(params=["unnamed", "named"])
def way(request, monkeypatch):
    """Write by way of a file without a name, or as where the file system has no such files."""
    if request.param == "unnamed" and not hasattr(os, "O_TMPFILE"):
        pytest.skip("this system has no files without a name")
    if request.param == "named" and hasattr(os, "O_TMPFILE"):
        really_open = os.open

        def refusing_open(path, flags, *more, **options):
            if flags & os.O_TMPFILE == os.O_TMPFILE:
                raise OSError(errno.EOPNOTSUPP, os.strerror(errno.EOPNOTSUPP))
            return really_open(path, flags, *more, **options)

        monkeypatch.setattr(os, "open", refusing_open)
    return request.param


@pytest.fixture
def path(tmp_path):
    return tmp_path / "m.marginrank"


def write_small(path, **header):
    write_model(path, header, {"coef": np.array([0.5, -1.0]), "größe": np.array([True, False])})


def names_in(folder):
    return sorted(entry.name for entry in Path(folder).iterdir())


def members_of(path):
    with zipfile.ZipFile(path) as archive:
        return {name: archive.read(name) for name in archive.namelist()}


def pack(path, members, compression=zipfile.ZIP_STORED):
    with zipfile.ZipFile(path, "w", compression) as archive:
        for name, data in members.items():
            archive.writestr(name, data)


def rewrite(path, **fields):
    """Change fields of the header, and nothing else."""
    members = members_of(path)
    header = {**json.loads(members[HEADER]), **fields}
    members[HEADER] = json.dumps({name: value for name, value in header.items() if value is not ...}).encode()
    pack(path, members)


def assert_same_arrays(found, expected):
    assert list(found) == sorted(expected)
    for name, array in expected.items():
        assert found[name].dtype == array.dtype.newbyteorder("=")
        assert found[name].shape == array.shape
        np.testing.assert_array_equal(found[name], array)


# What is written is read back.


@settings(max_examples=60)
@given(headers, some_arrays)
@example({"text": "a\n\0\x7f\u2028😀", "zero": -0.0, "big": 10**40, "": {"b": 1, "a": [[]]}}, {})
def test_a_model_is_read_back_as_it_was(header, arrays):
    with tempfile.TemporaryDirectory() as folder:
        write_model(f"{folder}/m", header, arrays)
        found, found_arrays = read_model(f"{folder}/m")
        assert names_in(folder) == ["m"]
    assert {name: value for name, value in found.items() if name not in OWN} == header
    assert repr(found.get("zero")) == repr(header.get("zero"))
    assert found["format_version"] == FORMAT_VERSION
    assert found["package_version"] == mr.__version__
    assert_same_arrays(found_arrays, arrays)


def test_infinity_and_nan_are_kept_in_arrays_and_noted_in_the_header(path):
    write_model(path, {}, {"a": np.array([np.nan, -np.inf, 1.0]), "b": np.ones(2, dtype=np.float32)})
    header, arrays = read_model(path)
    np.testing.assert_array_equal(arrays["a"], [np.nan, -np.inf, 1.0])
    assert {name: entry["finite"] for name, entry in header["arrays"].items()} == {"a": False, "b": True}


def test_arrays_read_can_be_changed(path):
    write_small(path)
    arrays = read_model(path)[1]
    arrays["coef"] += 1
    assert arrays["coef"].tolist() == [1.5, 0.0]


def test_numpy_numbers_and_tuples_become_plain(path):
    write_model(path, {"C": np.float32(0.5), "n": np.int64(3), "ok": np.bool_(True), "t": ("a", np.str_("b"))}, {})
    header = read_model(path)[0]
    assert [header[name] for name in ("C", "n", "ok", "t")] == [0.5, 3, True, ["a", "b"]]
    assert type(header["n"]) is int


def test_the_same_content_gives_the_same_bytes(tmp_path):
    grid = np.arange(12.0).reshape(3, 4)
    write_model(tmp_path / "a", {"x": 1, "y": {"p": 1, "q": 2}}, {"g": grid, "h": grid[0]})
    write_model(
        tmp_path / "b", {"y": {"q": 2, "p": 1}, "x": 1}, {"h": grid[0].astype(">f8"), "g": np.asfortranarray(grid)}
    )
    assert (tmp_path / "a").read_bytes() == (tmp_path / "b").read_bytes()
    with zipfile.ZipFile(tmp_path / "a") as archive:
        assert {info.date_time for info in archive.infolist()} == {(1980, 1, 1, 0, 0, 0)}


def test_other_tools_read_the_file(path):
    write_small(path, measure="ndcg@10", feature_names=["größe"])
    members = members_of(path)
    assert members[HEADER].decode().startswith('{\n  "format": "marginrank model",\n  "format_version": 1,\n')
    assert '"größe"' in members[HEADER].decode()
    assert np.load(io.BytesIO(members["coef.npy"]), allow_pickle=False).tolist() == [0.5, -1.0]
    if shutil.which("unzip"):
        shown = subprocess.run(["unzip", "-p", str(path), HEADER], capture_output=True, check=True).stdout
        assert json.loads(shown)["measure"] == "ndcg@10"


def test_arrays_longer_than_a_block_are_read_back(path, monkeypatch):
    monkeypatch.setattr(model_file, "_BLOCK_BYTES", 64)
    long = np.arange(1001, dtype=np.float32)
    write_model(path, {}, {"long": long})
    np.testing.assert_array_equal(read_model(path)[1]["long"], long)
    long[777] = np.inf
    write_model(path, {}, {"long": long})
    assert not read_model(path)[0]["arrays"]["long"]["finite"]


def test_what_needs_64_bit_sizes_is_read_back(path, monkeypatch):
    monkeypatch.setattr(zipfile, "ZIP64_LIMIT", 100)  # in place of 2 GiB
    write_small(path)
    assert b"PK\x06\x06" in path.read_bytes()
    assert read_model(path)[1]["coef"].tolist() == [0.5, -1.0]


# What cannot be stored is refused before anything is written.


@pytest.mark.parametrize(
    ("header", "arrays", "error", "message"),
    [
        ({"gap": float("nan")}, {}, ValueError, r"header\['gap'\] is nan; numbers in a header are finite"),
        ({"a": [1, {"b": np.float64("inf")}]}, {}, ValueError, r"header\['a'\]\[1\]\['b'\] is inf;"),
        ({"measure": object()}, {}, TypeError, r"header\['measure'\] is of type object; a header holds text"),
        ({"coef": np.ones(2)}, {}, TypeError, r"header\['coef'\] is of type ndarray"),
        ({"a": {1: 2}}, {}, TypeError, r"header\['a'\] has the key 1; keys are text"),
        ({"a": ["\ud800"]}, {}, ValueError, r"header\['a'\]\[0\] is '\\ud800', which no UTF-8 file can hold"),
        ({"format": "mine"}, {}, ValueError, "header field 'format' is written by marginrank; leave it out"),
        ({}, {"coef": np.array([object()])}, TypeError, "array 'coef' is of type object; models hold bool, int8"),
        ({}, {"names": np.array(["a"])}, TypeError, "array 'names' is of type <U1; .* text is for the header"),
        ({}, {"z": np.array([1j])}, TypeError, "array 'z' is of type complex128"),
        ({}, {"x": np.zeros(2, dtype=[("a", "f8")])}, TypeError, "array 'x' is of type"),
        ({}, {"../x": np.ones(1)}, ValueError, "array name '../x'; names are words joined by dots"),
        ({}, {"": np.ones(1)}, ValueError, "array name ''"),
        ({}, {"a" * 101: np.ones(1)}, ValueError, "100 characters at most"),
    ],
)
def test_what_cannot_be_stored_is_refused(path, header, arrays, error, message):
    write_small(path)
    before = path.read_bytes()
    with pytest.raises(error, match=message):
        write_model(path, header, arrays)
    assert path.read_bytes() == before
    assert names_in(path.parent) == [path.name]


def test_a_header_that_could_not_be_read_back_is_refused(path, monkeypatch):
    monkeypatch.setattr(model_file, "_MAX_HEADER_BYTES", 1000)
    with pytest.raises(ValueError, match="the most is 1,000; put numbers in arrays"):
        write_model(path, {"a": "x" * 1000}, {})


# What is not a whole model is refused, in one line that names the file.


def refusal(path):
    with pytest.raises(DataError) as caught:
        read_model(path)
    assert "\n" not in str(caught.value)
    assert str(caught.value).startswith(f"{path}: ")
    return caught.value.problem


def test_a_cut_file_is_refused_wherever_it_is_cut(path):
    write_small(path, C=1.0)
    for length in reversed(range(path.stat().st_size)):
        os.truncate(path, length)
        problem = refusal(path)
        if length >= 4:
            assert problem.startswith("damaged or cut short (")
            assert problem.endswith("); copy it again or save the model again")


@pytest.mark.parametrize("flip", [0x01, 0x20, 0xFF])
def test_a_damaged_byte_is_found_or_does_not_matter(path, flip):
    write_small(path, C=1.0)
    whole, (header, arrays) = path.read_bytes(), read_model(path)
    n_content = sum(map(len, members_of(path).values()))
    n_found = 0
    with path.open("r+b", buffering=0) as file:
        for at, byte in enumerate(whole):
            file.seek(at)
            file.write(bytes([byte ^ flip]))
            try:
                other, other_arrays = read_model(path)
            except DataError:
                n_found += 1
            else:
                assert other == header
                assert_same_arrays(other_arrays, arrays)
            file.seek(at)
            file.write(bytes([byte]))
    assert n_content < n_found < len(whole)


def test_a_damaged_model_is_not_called_something_else(path):
    write_small(path)
    path.write_bytes(b"Q" + path.read_bytes()[1:])
    assert refusal(path).startswith("damaged or cut short (Bad magic number")


@given(st.binary(max_size=200), st.sampled_from([b"", b"PK\x03\x04", b"PK\x05\x06"]))
def test_no_bytes_raise_another_error(data, start):
    with tempfile.NamedTemporaryFile() as file:
        file.write(start + data)
        file.flush()
        refusal(file.name)


def bytes_of(write, *values):
    file = io.BytesIO()
    write(file, *values)
    return file.getvalue()


def zip_of(**members):
    file = io.BytesIO()
    pack(file, {name.replace("__", "/").replace("_", "."): data for name, data in members.items()})
    return file.getvalue()


@pytest.mark.parametrize(
    ("data", "kind"),
    [
        (b"", "an empty file"),
        (b"1 qid:1 1:0.5\n", "text"),
        ("größe\n".encode(), "text"),
        (b"tree\nversion=v4\nnum_class=1\n", "a LightGBM model"),
        (b'{"learner":{"attributes":{}}}', "an XGBoost model"),
        (b'{"coef": [1, 2]}', "JSON text"),
        (b"SVM-light Version V6.20\n0 # kernel type\n", "an SVM-light or SVM-rank model"),
        (b"## LambdaMART\n## No. of trees = 1000\n", "a RankLib model"),
        (pickle.dumps({"coef": [1.0]}), "a Python pickle"),
        (gzip.compress(b"model", mtime=0), "gzip-compressed data"),
        (b"\xfd7zXZ\x00\x00", "compressed data"),
        (b"\x89HDF\r\n\x1a\n", "an HDF5 file"),
        (bytes_of(np.save, np.ones(2)), "a NumPy array"),
        (bytes_of(np.savez, np.ones(2)), f"a NumPy archive without {HEADER}"),
        (zip_of(archive__data_pkl=b"\x80\x02"), f"a PyTorch file without {HEADER}"),
        (zip_of(a_txt=b"a"), f"a ZIP archive without {HEADER}"),
        (zip_of(), f"a ZIP archive without {HEADER}"),
        (bytes(range(256)), "data of an unknown kind"),
    ],
)
def test_other_files_are_named(path, data, kind):
    path.write_bytes(data)
    assert refusal(path) == f"this is {kind}, not a marginrank model; give the file that marginrank wrote"


def test_what_is_no_file_is_named(tmp_path):
    assert refusal(tmp_path).startswith("this is a folder, not a marginrank model")
    write_binary(tmp_path / "q", mr.Queries.from_arrays([[1.0]], [1], group=[1]))
    assert refusal(tmp_path / "q").startswith("this is a query set in binary form, not a marginrank model")
    with pytest.raises(FileNotFoundError, match=r"No such file.*absent"):
        read_model(tmp_path / "absent")
    if hasattr(os, "mkfifo"):
        os.mkfifo(tmp_path / "pipe")
        assert refusal(tmp_path / "pipe").startswith("not a regular file;")
        with pytest.raises(OSError, match="not a regular file; give another name"):
            write_small(tmp_path / "pipe")


@pytest.mark.parametrize(
    ("fields", "problem"),
    [
        ({"format": "marginrank-queries"}, "is not that of a marginrank model; give the file that marginrank wrote"),
        ({"format": ...}, "is not that of a marginrank model"),
        ({"format_version": ...}, "has no format_version; save the model again"),
        ({"format_version": True}, "has no format_version"),
        ({"format_version": 0}, "has no format_version"),
        ({"package_version": ...}, "has no package_version; save the model again"),
        ({"package_version": "\x1b[2J"}, "has no package_version"),
        ({"arrays": ...}, "has no list of arrays; save the model again"),
        ({"arrays": {"../x": {}}}, "has no list of arrays"),
        ({"arrays": {}}, "the archive holds 'coef.npy', which its header does not name; save the model again"),
    ],
)
def test_headers_that_make_no_sense_are_refused(path, fields, problem):
    write_small(path)
    rewrite(path, **fields)
    assert problem in refusal(path)


@pytest.mark.parametrize(
    ("fields", "problem"),
    [
        ({"dtype": "object"}, "has the dtype 'object'; models hold bool, int8"),
        ({"dtype": "|O"}, "has the dtype '|O'"),
        ({"dtype": "float128"}, "has the dtype 'float128'"),
        ({"dtype": ["float64"]}, "has the dtype ['float64']"),
        ({"dtype": ...}, "has the dtype None"),
        ({"dtype": "int64"}, "is not the int64 array of shape (2,) that the header describes; save the model again"),
        ({"dtype": "float32"}, "has 144 bytes; as float32 array of shape (2,) it needs 136; save the model again"),
        ({"shape": [1, 2]}, "is not the float64 array of shape (1, 2) that the header describes"),
        ({"shape": [1 << 50]}, "has 144 bytes; as float64 array of shape (1125899906842624,) it needs"),
        ({"shape": [-2]}, f"has no possible shape in {HEADER}; save the model again"),
        ({"shape": [2.0]}, "has no possible shape"),
        ({"shape": [0, 1 << 62]}, "has no possible shape"),
        ({"shape": [1] * 33}, "has no possible shape"),
        ({"shape": ...}, "has no possible shape"),
        ({"finite": 1}, "is finite; save the model again"),
        ({"finite": ...}, "is finite; save the model again"),
    ],
)
def test_arrays_other_than_the_header_says_are_refused(path, fields, problem):
    write_small(path)
    described = json.loads(members_of(path)[HEADER])["arrays"]
    coef = {name: value for name, value in {**described["coef"], **fields}.items() if value is not ...}
    rewrite(path, arrays={**described, "coef": coef})
    assert f"array 'coef' {problem}" in refusal(path)


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        (b"", "Expecting value: line 1 column 1 (char 0)"),
        (b'{"format": }', "Expecting value: line 1 column 12 (char 11)"),
        (b'{"gap": NaN}', "NaN is not a finite number"),
        (b'{"gap": -Infinity}', "-Infinity is not a finite number"),
        (b'{"gap": 1e999}', "1e999 is not a finite number"),
        (b'{"n": ' + b"1" * 5000 + b"}", "Exceeds the limit"),
        (b"\xff\xfe", "'utf-8' codec can't decode byte 0xff"),
        (b"[" * 100_000, "recursion"),
    ],
)
def test_headers_that_do_not_parse_are_refused(path, text, reason):
    pack(path, {HEADER: text})
    problem = refusal(path)
    assert problem.startswith(f"{HEADER} does not parse (")
    assert problem.endswith("); save the model again")
    assert reason in problem


@settings(max_examples=60)
@given(st.sampled_from([*sorted(OWN), "coef", "dtype", "shape", "finite"]), json_values)
def test_no_header_raises_another_error_or_changes_an_array(field, value):
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder, "m")
        write_model(path, {}, {"coef": np.array([0.5, -1.0])})
        header = json.loads(members_of(path)[HEADER])
        inner = header if field in OWN else header["arrays"] if field == "coef" else header["arrays"]["coef"]
        inner[field] = value
        pack(path, {**members_of(path), HEADER: json.dumps(header)})
        with suppress(DataError):
            assert read_model(path)[1]["coef"].tolist() == [0.5, -1.0]


def test_a_newer_format_names_the_version_to_install(path):
    write_small(path)
    rewrite(path, format_version=FORMAT_VERSION + 1, package_version="7.1.0", arrays="elsewhere")
    assert refusal(path) == (
        f"this is model format 2, written by marginrank 7.1.0; marginrank {mr.__version__} reads formats up to 1; "
        "install marginrank >= 7.1.0"
    )
    rewrite(path, package_version=...)
    assert refusal(path).endswith("; install marginrank of a later version")


def test_values_against_the_header_are_refused(path):
    write_model(path, {}, {"coef": np.array([0.5, np.nan]), "flags": np.array([True, False])})
    described = read_model(path)[0]["arrays"]
    rewrite(path, arrays={**described, "coef": {**described["coef"], "finite": True}})
    assert refusal(path) == "array 'coef' holds NaN or infinity, but the header calls it finite; save the model again"
    write_model(path, {}, {"flags": np.array([True, False])})
    members = members_of(path)
    pack(path, {**members, "flags.npy": members["flags.npy"][:-1] + b"\x02"})
    assert refusal(path) == "array 'flags' holds bytes that are no booleans; save the model again"


class Trap:
    def __init__(self, path):
        self.path = path

    def __reduce__(self):
        return Path.touch, (self.path,)


def test_no_pickle_is_opened(path):
    sprung = path.with_name("sprung")
    pickled = bytes_of(lambda file: np.save(file, np.array([Trap(sprung)]), allow_pickle=True))
    np.load(io.BytesIO(pickled), allow_pickle=True)
    assert sprung.exists()  # the trap works
    sprung.unlink()
    write_small(path)
    members = members_of(path)
    for size in (len(pickled), len(members["coef.npy"])):
        pack(path, {**members, "coef.npy": pickled[:size].ljust(size, b"\0")})
        assert refusal(path).startswith("array 'coef' ")
    pack(path, {HEADER: pickle.dumps(Trap(sprung))})
    assert refusal(path).startswith(f"{HEADER} does not parse")
    path.write_bytes(pickle.dumps(Trap(sprung)))
    assert refusal(path).startswith("this is a Python pickle")
    assert not sprung.exists()


def test_missing_extra_and_repeated_members_are_refused(path):
    write_small(path)
    members = members_of(path)
    pack(path, {name: data for name, data in members.items() if name != "coef.npy"})
    assert refusal(path) == "array 'coef' is missing; save the model again"
    for extra in ("more.npy", "coef", "notes.txt"):
        pack(path, {**members, extra: b""})
        assert refusal(path) == f"the archive holds '{extra}', which its header does not name; save the model again"
    pack(path, members)
    with zipfile.ZipFile(path, "a") as archive, pytest.warns(UserWarning, match="Duplicate name"):
        archive.writestr("coef.npy", members["coef.npy"])
    assert refusal(path).startswith("damaged model file (its list of members is inconsistent)")


def test_sizes_are_checked_before_anything_is_read(path, monkeypatch):
    write_small(path)
    members, whole = members_of(path), path.read_bytes()
    monkeypatch.setattr(model_file, "_bytes_of", lambda *_: pytest.fail("read"))
    pack(path, {**members, "coef.npy": bytes(10_000_000)}, zipfile.ZIP_DEFLATED)
    assert path.stat().st_size < 100_000
    assert refusal(path) == f"'{HEADER}' is compressed; models are stored plainly, pack it again with zip -0"
    at = whole.index(b"PK\x01\x02") + 20
    path.write_bytes(whole[:at] + struct.pack("<II", 1 << 31, 1 << 31) + whole[at + 8 :])
    assert refusal(path).startswith("claims 2,147,483,9")
    path.write_bytes(whole[:at] + struct.pack("<II", 100, 101) + whole[at + 8 :])
    assert refusal(path).startswith("damaged model file (its list of members is inconsistent)")
    monkeypatch.setattr(model_file, "_MAX_HEADER_BYTES", 100)
    path.write_bytes(whole)
    assert refusal(path).endswith("; the most is 100")


def test_an_encrypted_archive_is_refused(path):
    write_small(path)
    data = bytearray(path.read_bytes())
    data[data.index(b"PK\x01\x02") + 8] |= 1
    path.write_bytes(data)
    assert "is encrypted" in refusal(path)


# Files are written whole or not at all.


def test_a_file_has_no_name_before_it_is_whole_and_on_the_disk(path, way, monkeypatch, synced):
    monkeypatch.setattr(os, "fsync", lambda descriptor: synced.append((descriptor, path.exists())))
    with atomic_write(path) as file:
        descriptor = file.fileno()
        file.write(b"half")
        file.flush()
        assert not path.exists()
        assert len(names_in(path.parent)) == (way == "named")
    assert path.read_bytes() == b"half"
    assert synced[0] == (descriptor, False)
    assert [named for _, named in synced[1:]] == [True]  # the folder, once it has the name
    assert names_in(path.parent) == [path.name]


@pytest.mark.parametrize("error", [ValueError, KeyboardInterrupt, SystemExit, OSError])
def test_an_error_leaves_what_was_there(path, way, error):
    path.write_bytes(b"old")

    def write():
        with atomic_write(path) as file:
            file.write(b"new")
            raise error

    with pytest.raises(error):
        write()
    assert path.read_bytes() == b"old"
    assert names_in(path.parent) == [path.name]


@pytest.mark.parametrize("step", [(os, "fsync"), (atomic, "_give_name"), (atomic, "_put_in_place"), (Path, "replace")])
def test_an_interrupt_at_any_step_leaves_what_was_there(path, way, monkeypatch, step):
    write_small(path, round=1)

    def interrupt(*_):
        raise KeyboardInterrupt

    monkeypatch.setattr(*step, interrupt)
    with pytest.raises(KeyboardInterrupt):
        write_small(path, round=2)
    assert read_model(path)[0]["round"] == 1
    assert names_in(path.parent) == [path.name]


def test_an_interrupt_while_arrays_are_written_stays_an_interrupt(path, monkeypatch):
    def interrupt(*_):
        raise KeyboardInterrupt

    monkeypatch.setattr(zipfile._ZipWriteFile, "write", interrupt)
    with pytest.raises(KeyboardInterrupt):
        write_small(path)
    assert names_in(path.parent) == []


def write_rounds(path, ready):
    interrupts = []

    def interrupt(*_):
        interrupts.append(1)  # Python drops an exception that is raised while it removes an object
        raise KeyboardInterrupt

    signal.signal(signal.SIGINT, interrupt)
    ready.set()
    with suppress(KeyboardInterrupt):
        for number in itertools.takewhile(lambda _: not interrupts, itertools.count()):
            write_model(path, {"round": number}, {"w": np.full(300_000, float(number))})


def assert_whole(path):
    header, arrays = read_model(path)
    assert arrays["w"].shape == (300_000,)
    assert (arrays["w"] == header["round"]).all()


@forks
@pytest.mark.filterwarnings("ignore::DeprecationWarning")
@pytest.mark.parametrize("name", ["SIGINT", "SIGTERM", "SIGKILL"])
def test_a_killed_writer_leaves_a_whole_file_or_none(path, way, name):
    fork = multiprocessing.get_context("fork")
    delays = np.random.default_rng(0).uniform(0.0, 0.05, size=12).tolist()
    for delay in delays:
        ready = fork.Event()
        writer = fork.Process(target=write_rounds, args=(path, ready), daemon=True)
        writer.start()
        assert ready.wait(timeout=20)
        time.sleep(delay)
        os.kill(writer.pid, getattr(signal, name))
        writer.join(timeout=20)
        assert writer.exitcode is not None
        if path.exists():
            assert_whole(path)
        others = [other for other in path.parent.iterdir() if other != path]
        assert all(other.name.startswith(f".{path.name}.") and other.suffix == ".unfinished" for other in others)
        if way == "unnamed":
            for other in others:
                assert_whole(other)
        if name == "SIGINT":
            assert not others
    assert path.exists()
    write_small(path)
    assert names_in(path.parent) == [path.name]


def test_only_what_dead_writers_left_is_removed(path):
    kept = ["m", ".other.0123456789abcdef.unfinished", f".{path.name}.x.0123456789abcdef.unfinished"]
    kept += [f".{path.name}.unfinished", f"{path.name}.0123456789abcdef.unfinished"]
    for name in [*kept, f".{path.name}.0123456789abcdef.unfinished"]:
        path.with_name(name).write_bytes(b"x")
    write_small(path)
    assert names_in(path.parent) == sorted([*kept, path.name])


def test_writers_of_one_name_do_not_disturb_each_other(path, way):
    with atomic_write(path) as first:
        first.write(b"first")
        with atomic_write(path) as second:
            second.write(b"second")
        assert path.read_bytes() == b"second"
        assert len(names_in(path.parent)) == 1 + (way == "named")
    assert path.read_bytes() == b"first"
    assert names_in(path.parent) == [path.name]


def test_where_links_are_refused_the_file_is_copied(path, monkeypatch):
    def refuse(*_, **__):
        raise PermissionError(errno.EPERM, "Operation not permitted")

    monkeypatch.setattr(os, "link", refuse)
    for number, overwrite in enumerate([False, True]):
        write_model(path, {"round": number}, {}, overwrite=overwrite)
        assert read_model(path)[0]["round"] == number
    with pytest.raises(FileExistsError):
        write_model(path, {}, {}, overwrite=False)
    assert names_in(path.parent) == [path.name]


def test_an_existing_file_is_replaced_only_where_asked(path, way):
    write_model(path, {"round": 1}, {}, overwrite=False)
    with pytest.raises(FileExistsError, match=r"exists; choose another name or pass overwrite=True: '.*m\.marginrank'"):
        write_model(path, {"round": 2}, {}, overwrite=False)
    assert read_model(path)[0]["round"] == 1
    write_model(path, {"round": 3}, {})
    assert read_model(path)[0]["round"] == 3


def test_a_name_taken_while_writing_is_not_replaced(path, way):
    def write():
        with atomic_write(path, overwrite=False) as file:
            file.write(b"mine")
            path.write_bytes(b"theirs")

    with pytest.raises(FileExistsError, match="choose another name"):
        write()
    assert path.read_bytes() == b"theirs"
    assert names_in(path.parent) == [path.name]


@pytest.mark.skipif(os.name == "nt", reason="Windows has no umask")
@pytest.mark.parametrize("mask", [0o022, 0o077, 0o002])
def test_permissions_follow_the_umask(path, way, mask):
    before = os.umask(mask)
    try:
        write_small(path)
        write_small(path)
    finally:
        os.umask(before)
    assert stat.S_IMODE(path.stat().st_mode) == 0o666 & ~mask


def test_a_symbolic_link_stays(path):
    path.symlink_to("target.marginrank")
    for number in range(2):
        write_small(path, round=number)
        assert path.is_symlink()
        assert read_model(path.with_name("target.marginrank"))[0]["round"] == number


def test_places_that_cannot_be_written_to_are_named(tmp_path):
    with pytest.raises(FileNotFoundError, match=r"no such folder; make it first or choose another: '.*absent'"):
        write_small(tmp_path / "absent" / "m")
    (tmp_path / "file").write_bytes(b"")
    with pytest.raises(NotADirectoryError, match=r"no such folder.*file'"):
        write_small(tmp_path / "file" / "m")
    with pytest.raises(IsADirectoryError, match="this is a folder; give the name of a file"):
        write_small(tmp_path)


@pytest.fixture
def locked_folder():
    """A folder without the right to write; root becomes nobody, whom the right is denied."""
    folder = Path(tempfile.mkdtemp())
    folder.chmod(0o555)
    root = os.geteuid() == 0
    if root:
        os.seteuid(65534)
    yield folder
    if root:
        os.seteuid(0)
    folder.chmod(0o755)
    folder.rmdir()


@pytest.mark.skipif(not hasattr(os, "seteuid"), reason="this system has no such rights")
def test_a_folder_without_the_right_to_write_is_named(locked_folder):
    with pytest.raises(PermissionError, match="cannot write in this folder: Permission denied") as caught:
        write_small(locked_folder / "m")
    assert caught.value.filename == str(locked_folder)


def test_a_full_disk_names_the_file(path, monkeypatch):
    def full(_):
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    monkeypatch.setattr(os, "fsync", full)
    with pytest.raises(OSError, match=rf"No space left on device: '.*{path.name}'"):
        write_small(path)


# The same data has the same fingerprint, other data another.


def some_queries(**changes):
    X = np.arange(1.0, 13.0).reshape(6, 2)
    queries = mr.Queries.from_arrays(X, [0, 1, 2, 0, 1, 0], group=[2, 1, 3], query_weights=[1.0, 2.0, 0.5])
    return replace(queries, **changes)


def sparse_features(index_type=np.int32):
    X = sp.csr_array(np.array([[1.0, 0.0], [0.0, 2.0], [0.0, 0.0], [3.0, 4.0], [0.0, 5.0], [6.0, 0.0]]))
    X.indices, X.indptr = X.indices.astype(index_type), X.indptr.astype(index_type)
    return X


@pytest.fixture(params=[1, 16, 4 << 20], ids="block={}".format)
def block(request, monkeypatch):
    monkeypatch.setattr("marginrank.data.fingerprint._BLOCK_BYTES", request.param)


def test_fingerprints_stay_the_same_from_version_to_version():
    assert fingerprint(some_queries()) == "120d23453ad8fa36"
    assert fingerprint(some_queries(X=sparse_features())) == "3c10170f7ebd0f65"


@pytest.mark.usefixtures("block")
@pytest.mark.parametrize("X", [np.arange(1.0, 13.0).reshape(6, 2), sparse_features()], ids=["dense", "sparse"])
def test_every_number_counts(X):
    def changed(array, at):
        array = array.copy()
        array[at] += 1
        return array

    queries = some_queries(X=X)
    parts = ["grades", "offsets", "query_weights"]
    others = [queries, replace(queries, query_weights=None)]
    others += [
        replace(queries, **{part: changed(getattr(queries, part), at)})
        for part in parts
        for at in range(len(getattr(queries, part)))
    ]
    if sp.issparse(X):
        others += [
            replace(queries, X=sp.csr_array((changed(X.data, at), X.indices, X.indptr), shape=X.shape))
            for at in range(X.nnz)
        ]
        others += [replace(queries, X=sp.csr_array((X.data, 1 - X.indices, X.indptr), shape=X.shape))]
        others += [replace(queries, X=sp.csr_array(X, shape=(6, 3)))]
        others += [replace(queries, X=X[::-1])]
    else:
        others += [replace(queries, X=changed(X, at)) for at in np.ndindex(X.shape)]
        others += [replace(queries, X=X[::-1]), replace(queries, X=X.reshape(3, 4)), replace(queries, X=X[:, ::-1])]
    others += [replace(queries, X=X.astype(np.float32))]
    digests = [fingerprint(other) for other in others]
    assert len(set(digests)) == len(others)
    assert all(len(digest) == 16 and int(digest, 16) >= 0 for digest in digests)


@pytest.mark.usefixtures("block")
def test_memory_layout_does_not_count(tmp_path):
    queries = some_queries()
    X = queries.X
    wide = np.zeros((6, 4))
    wide[:, ::2] = X
    expected = fingerprint(queries, n_jobs=1)
    for other in (np.asfortranarray(X), wide[:, ::2], X.astype(">f8"), X[::-1].copy()[::-1]):
        assert fingerprint(replace(queries, X=other)) == expected
    write_binary(tmp_path / "q", queries)
    mapped = read_binary(tmp_path / "q")
    assert isinstance(mapped.X, np.memmap)
    assert fingerprint(mapped) == expected
    assert fingerprint(queries, n_jobs=3) == expected
    assert fingerprint(replace(queries, query_ids=np.array(["a", "b", "c"]), feature_names=("p", "q"))) == expected


@pytest.mark.usefixtures("block")
def test_sparse_storage_does_not_count(tmp_path):
    queries = some_queries(X=sparse_features())
    expected = fingerprint(queries)
    assert fingerprint(some_queries(X=sparse_features(np.int64))) == expected
    roomy = sparse_features()
    roomy.data, roomy.indices = np.append(roomy.data, 9.0), np.append(roomy.indices, 1)
    assert fingerprint(some_queries(X=roomy)) == expected
    write_binary(tmp_path / "q", queries)
    assert fingerprint(read_binary(tmp_path / "q")) == expected


def test_empty_data_has_a_fingerprint():
    def empty(rows, columns):
        return mr.Queries(np.empty((rows, columns)), np.zeros(rows), np.array([0, rows]), np.array([1]))

    assert len({fingerprint(empty(*shape)) for shape in [(0, 0), (0, 3), (3, 0)]}) == 3
