"""Model files: what is written is read back, and nothing else is ever taken for a model."""

from __future__ import annotations

import errno
import gzip
import hashlib
import io
import itertools
import json
import os
import pickle
import signal
import stat
import struct
import subprocess
import sys
import tempfile
import threading
import time
from pathlib import Path

import numpy as np
import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st
from hypothesis.extra import numpy as hnp
from safetensors import safe_open
from safetensors.numpy import save_file

from marginrank import DataError, __version__
from marginrank.model.file_format import is_model, read_model, write_model
from marginrank.runtime import array_file as container
from marginrank.runtime.files import atomic_path
from tests import stepping

json_values = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False, allow_infinity=False) | st.text('aé\n"\\'),
    lambda inner: st.lists(inner) | st.dictionaries(st.text("abé"), inner),
    max_leaves=8,
)
some_arrays = st.dictionaries(
    st.from_regex(r"[a-zé_]{1,5}(\.[a-z]{1,3})?", fullmatch=True),
    hnp.arrays(
        st.sampled_from(["?", "u1", "<f4", ">f8", "<f8", ">i4", "<i8"]).map(np.dtype),
        hnp.array_shapes(min_dims=0, max_dims=3, min_side=0, max_side=4),
    ),
    max_size=3,
)


@pytest.fixture
def path(tmp_path):
    return tmp_path / "m.safetensors"


def write_small(path, **header):
    write_model(path, "ranker", header, {"theta": np.array([0.5, -1.0]), "größe": np.array([True, False])})


def names_in(folder):
    return sorted(entry.name for entry in Path(folder).iterdir())


def refusal(path):
    with pytest.raises(DataError) as caught:
        read_model(path)
    assert "\n" not in str(caught.value)
    assert str(caught.value).startswith(f"{path}: ")
    return caught.value.problem


# What is written is read back.


@settings(max_examples=60)
@given(st.dictionaries(st.text("abé"), json_values, max_size=4), some_arrays)
@example({"text": "a\n\0\x7f\u2028😀", "zero": -0.0, "big": 10**40, "": {"b": 1, "a": [[]]}}, {})
def test_a_model_is_read_back_bit_for_bit(header, arrays):
    with tempfile.TemporaryDirectory() as folder:
        write_model(f"{folder}/m", "ranker", header, arrays)
        kind, read, found = read_model(f"{folder}/m")
        assert names_in(folder) == ["m"]
        assert is_model(Path(folder, "m"))
    assert (kind, read) == ("ranker", header)
    assert repr(read.get("zero")) == repr(header.get("zero"))
    assert set(found) == set(arrays)
    for name, array in arrays.items():
        expected = array.astype(array.dtype.newbyteorder("<"))
        assert (found[name].dtype, found[name].shape) == (expected.dtype, expected.shape)
        assert found[name].tobytes() == expected.tobytes()


def test_the_same_content_gives_the_same_bytes(tmp_path):
    grid = np.arange(12.0).reshape(3, 4)
    for name, header, arrays in (
        ("a", {"x": 1, "y": {"p": 1, "q": 2}}, {"g": grid, "h": grid[0]}),
        ("b", {"y": {"q": 2, "p": 1}, "x": 1}, {"h": grid[0].astype(">f8"), "g": np.asfortranarray(grid)}),
    ):
        write_model(tmp_path / name, "ranker", header, arrays)
    assert (tmp_path / "a").read_bytes() == (tmp_path / "b").read_bytes()


def test_other_tools_read_the_file(path):
    write_small(path, measure="ndcg@10", feature_names=["größe"])
    with safe_open(path, "numpy") as file:
        document = json.loads(file.metadata()["marginrank"])
        assert file.get_tensor("theta").tolist() == [0.5, -1.0]
    assert document["header"] == {"measure": "ndcg@10", "feature_names": ["größe"]}
    assert (document["format_version"], document["package_version"]) == (1, __version__)
    # By the documented rule: type and shape, then the bytes.
    digest = hashlib.sha256(b"<f8 (2,) " + np.array([0.5, -1.0]).tobytes()).hexdigest()
    assert document["arrays"]["theta"] == {"dtype": "float64", "shape": [2], "digest": digest}


@pytest.mark.parametrize(
    ("header", "arrays", "error", "message"),
    [
        ({"gap": float("nan")}, {}, ValueError, "JSON"),
        ({"a": [1, {"b": float("inf")}]}, {}, ValueError, "JSON"),
        ({"measure": object()}, {}, TypeError, "object"),
        ({"a": "\ud800"}, {}, ValueError, "surrogates not allowed"),
        ({}, {"x": np.array([object()])}, TypeError, "array 'x' has dtype object; a model file holds float64, float32"),
        ({}, {"x": np.array(["a"])}, TypeError, "array 'x' has dtype <U1"),
        ({}, {"x": np.array([1j])}, TypeError, "array 'x' has dtype complex128"),
    ],
)
def test_what_cannot_be_stored_is_refused_and_the_old_file_stays(path, header, arrays, error, message):
    write_small(path)
    before = path.read_bytes()
    with pytest.raises(error, match=message):
        write_model(path, "ranker", header, arrays)
    assert path.read_bytes() == before
    assert names_in(path.parent) == [path.name]


# What is not a whole model is refused, in one line that names the file.


def test_a_file_that_is_cut_while_it_is_read_is_refused(path, monkeypatch):
    """A mapped file would end the process, by SIGBUS, where it is read beyond its end."""
    write_model(path, "ranker", {}, {"theta": np.zeros(100_000)})
    check_digest, cut = container.Content.damaged, []

    def after_the_cut(content):
        os.truncate(path, 1000)
        cut.append(True)
        return check_digest(content)

    monkeypatch.setattr(container.Content, "damaged", after_the_cut)
    assert read_model(path)[2]["theta"].shape == (100_000,)
    assert cut == [True]
    with pytest.raises(DataError, match="damaged model file"):
        read_model(path)


def test_a_cut_file_is_refused_wherever_it_is_cut(path):
    write_small(path, C=1.0)
    for length in reversed(range(path.stat().st_size)):
        os.truncate(path, length)
        problem = refusal(path)
        assert (problem.startswith("an empty file")) == (length == 0)


def test_a_longer_file_is_refused(path):
    write_small(path)
    path.write_bytes(path.read_bytes() + b"\0" * 8)
    assert "damaged model file" in refusal(path)


def test_every_flipped_bit_is_found(path):
    # 1e-06 and 1E-06 are the same number, and so are many neighbors of 0.1's last digit; both are damage.
    write_small(path, tol=1e-6, share=0.1 + 0.2, name="e", ids=["größe", "a/b"])
    whole, taken = path.read_bytes(), []
    with path.open("r+b", buffering=0) as file:
        for at, bit in itertools.product(range(len(whole)), range(8)):
            file.seek(at)
            file.write(bytes([whole[at] ^ (1 << bit)]))
            try:
                read_model(path)
            except DataError as error:
                named = error.path
            else:
                taken.append((at, bit))
            file.seek(at)
            file.write(whole[at : at + 1])
    assert (taken, named) == ([], str(path))
    assert read_model(path)[1]["tol"] == 1e-6


@settings(max_examples=100)
@given(st.binary(max_size=200), st.sampled_from([b"", b'\x40\0\0\0\0\0\0\0{"__metadata__":{"marginrank":"']))
def test_no_bytes_raise_another_error(data, start):
    with tempfile.NamedTemporaryFile() as file:
        file.write(start + data)
        file.flush()
        refusal(file.name)


def bytes_of(write, *values):
    file = io.BytesIO()
    write(file, *values)
    return file.getvalue()


@pytest.mark.parametrize(
    ("data", "kind"),
    [
        (b"1 qid:1 1:0.5\n", "text"),
        ("größe\n".encode(), "text"),
        (b"tree\nversion=v4\nnum_class=1\n", "a LightGBM model"),
        (b'{"learner":{"attributes":{}}}', "an XGBoost model"),
        (b"SVM-light Version V6.20\n0 # kernel type\n", "an SVM-light or SVM-rank model"),
        (b"## LambdaMART\n## No. of trees = 1000\n", "a RankLib model"),
        (pickle.dumps({"coef": [1.0]}), "a Python pickle"),
        (gzip.compress(b"model", mtime=0), "compressed data"),
        (b"\xfd7zXZ\x00\x00", "compressed data"),
        (bytes_of(np.save, np.ones(2)), "a NumPy array"),
        (bytes_of(np.savez, np.ones(2)), "a ZIP archive"),
        (bytes(range(256)), "data of an unknown kind"),
    ],
)
def test_other_files_are_named(path, data, kind):
    path.write_bytes(data)
    assert not is_model(path)
    assert refusal(path) == f"this is {kind}, not a marginrank model file; give the file that marginrank wrote"


def test_what_is_no_model_file_is_named(tmp_path):
    assert refusal(tmp_path) == "not a file; give the file that marginrank wrote"
    with pytest.raises(FileNotFoundError, match="absent: no such file"):
        read_model(tmp_path / "absent")
    assert not is_model(tmp_path / "absent")
    save_file({"theta": np.ones(2)}, tmp_path / "theirs", metadata={"format": "pt"})
    assert refusal(tmp_path / "theirs") == (
        "a safetensors file, but not a model file; give the file that marginrank wrote"
    )


# Headers made by hand, with digests that are right.


def forge(path, document, tensors=b"", **entries):
    """Write a safetensors file with a marginrank entry and tensors as they are described."""
    text = document if isinstance(document, str) else json.dumps(document, sort_keys=True)
    header = json.dumps({"__metadata__": {"marginrank": text}, **entries}).encode()
    header += b" " * (-len(header) % 8)
    path.write_bytes(struct.pack("<Q", len(header)) + header + tensors)


def document_of(**changes):
    parts = {"format_version": 1, "package_version": "9", "kind": "ranker", "header": {}, "arrays": {}, **changes}
    parts = {name: value for name, value in parts.items() if value is not ...}
    return {**parts, "digest": hashlib.sha256(json.dumps(parts, sort_keys=True).encode()).hexdigest()}


def described(*shape, digest="0" * 64):
    return {"dtype": "float64", "shape": list(shape), "digest": digest}


@pytest.mark.parametrize(
    ("document", "problem"),
    [
        ("{", "the header does not parse"),
        ("[" * 100_000, "the header does not parse"),
        ('{"a": ' * 100_000 + "1" + "}" * 100_000, "the header does not parse"),
        ('{"format_version": 1, "C": 1e999}', "1e999 is not a finite number"),
        ('{"format_version": 1, "C": NaN}', "NaN is not a finite number"),
        ("[]", "has no format_version"),
        (document_of(format_version=...), "has no format_version"),
        (document_of(format_version=True), "has no format_version"),
        (document_of(format_version=2), f"format version 2, written by marginrank 9; this is {__version__} and reads"),
        (document_of(kind=3), "does not match its digest"),
        (document_of(header=[]), "does not match its digest"),
        (document_of(arrays=...), "does not match its digest"),
        (document_of() | {"digest": "0"}, "does not match its digest"),
        (document_of() | {"kind": "fusion"}, "does not match its digest"),
        (json.dumps(document_of(), indent=1), "does not match its digest"),
        (document_of(arrays={"theta": "0"}), "does not match its digest"),
        (document_of(arrays={"theta": described(0)}), "the arrays are not those of the header"),
    ],
)
def test_headers_that_make_no_sense_are_refused(path, document, problem):
    forge(path, document)
    assert problem in refusal(path)


def test_a_forged_file_is_whole_otherwise(path):
    forge(path, document_of())
    assert read_model(path) == ("ranker", {}, {})


@pytest.mark.parametrize(
    "entry",
    [
        {"dtype": "F64", "shape": [2**60], "data_offsets": [0, 8]},
        {"dtype": "F64", "shape": [2**62, 2**62, 0], "data_offsets": [0, 8]},
        {"dtype": "F64", "shape": [-1], "data_offsets": [0, 8]},
        {"dtype": "F64", "shape": [1], "data_offsets": [0, 2**63]},
        {"dtype": "F64", "shape": [1], "data_offsets": [8, 0]},
        {"dtype": "BF16", "shape": [4], "data_offsets": [0, 8]},
        {"dtype": "O", "shape": [1], "data_offsets": [0, 8]},
        {"dtype": "F64", "shape": [1], "data_offsets": [0, 8]},
    ],
)
def test_tensors_that_lie_about_themselves_are_refused(path, entry):
    forge(path, document_of(arrays={"theta": described(*entry["shape"])}), b"\0" * 8, theta=entry)
    refusal(path)


@pytest.mark.parametrize(
    ("name", "before"),
    [
        ('"theta":', '"theta":{"dtype":"F64","shape":[0],"data_offsets":[0,0]},'),
        ('"marginrank":', '"marginrank":"{}",'),
        (r"\"kind\":", r"\"kind\": \"fusion\", "),
    ],
)
def test_names_that_occur_twice_are_refused(path, name, before):
    write_small(path)
    whole = path.read_bytes()
    size = int.from_bytes(whole[:8], "little")
    header = whole[8 : 8 + size].decode()
    assert name in header
    changed = header.replace(name, before + name).encode()
    path.write_bytes(struct.pack("<Q", len(changed)) + changed + whole[8 + size :])
    assert "damaged model file" in refusal(path)


def test_an_array_that_does_not_match_its_digest_is_refused(path):
    entry = {"dtype": "F64", "shape": [1], "data_offsets": [0, 8]}
    digest = hashlib.sha256(b"<f8 (1,) " + b"\0" * 8).hexdigest()
    for stored, whole in ((digest, True), ("0" * 64, False)):
        forge(path, document_of(arrays={"theta": described(1, digest=stored)}), b"\0" * 8, theta=entry)
        if whole:
            assert read_model(path)[2]["theta"].tolist() == [0.0]
        else:
            assert "an array does not match its digest" in refusal(path)


# A file appears whole or not at all.


def test_an_existing_file_is_replaced_only_where_asked(path):
    write_model(path, "ranker", {"round": 1}, {}, overwrite=False)
    with pytest.raises(FileExistsError, match=r"^.*m\.safetensors: exists; choose another name or pass"):
        write_model(path, "ranker", {"round": 2}, {}, overwrite=False)
    assert read_model(path)[1]["round"] == 1
    write_model(path, "ranker", {"round": 3}, {})
    assert read_model(path)[1]["round"] == 3
    assert names_in(path.parent) == [path.name]


@pytest.mark.parametrize("links", [True, False])
def test_a_name_taken_while_writing_is_not_replaced(path, links, monkeypatch):
    if not links:
        monkeypatch.setattr(Path, "hardlink_to", lambda *_: (_ for _ in ()).throw(OSError(errno.EPERM, "no links")))
        write_model(path.with_name("free"), "ranker", {"a": 1}, {}, overwrite=False)
        assert read_model(path.with_name("free"))[1] == {"a": 1}
        path.with_name("free").unlink()

    def write():
        with atomic_path(path, overwrite=False) as place:
            place.write_bytes(b"mine")
            path.write_bytes(b"theirs")

    with pytest.raises(FileExistsError, match="choose another name"):
        write()
    assert path.read_bytes() == b"theirs"
    assert names_in(path.parent) == [path.name]


def test_a_writer_that_fails_leaves_the_old_file(path, monkeypatch):
    write_small(path, round=1)

    def full(_):
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    monkeypatch.setattr(os, "fsync", full)
    with pytest.raises(OSError, match="No space left on device"):
        write_small(path, round=2)
    assert read_model(path)[1]["round"] == 1
    assert names_in(path.parent) == [path.name]


def test_the_file_is_on_the_disk_before_it_has_its_name(path, monkeypatch):
    write_small(path, round=1)
    seen = []

    def sync(descriptor):
        # The folder is put on the disk too, once the name is there.
        seen.append((stat.S_ISDIR(os.fstat(descriptor).st_mode), read_model(path)[1]["round"]))

    monkeypatch.setattr(os, "fsync", sync)
    write_small(path, round=2)
    assert seen == [(False, 1), (True, 2)]


@pytest.mark.skipif(os.name == "nt", reason="Windows has no umask")
@pytest.mark.parametrize("mask", [0o022, 0o077])
def test_permissions_follow_the_umask(path, mask):
    before = os.umask(mask)
    try:
        write_small(path)
        write_small(path)
    finally:
        os.umask(before)
    assert stat.S_IMODE(path.stat().st_mode) == 0o666 & ~mask


def test_a_symbolic_link_stays(path):
    path.symlink_to("target.safetensors")
    for number in range(2):
        write_small(path, round=number)
        assert path.is_symlink()
        assert read_model(path.with_name("target.safetensors"))[1]["round"] == number


def test_places_that_cannot_be_written_to_are_named(tmp_path):
    with pytest.raises(FileNotFoundError, match=r"^.*absent: no such folder; create it first, or choose another$"):
        write_small(tmp_path / "absent" / "m")
    (tmp_path / "file").write_bytes(b"")
    with pytest.raises(NotADirectoryError, match=r"^.*file: no such folder"):
        write_small(tmp_path / "file" / "m")
    with pytest.raises(IsADirectoryError, match=r"^.*: this is a folder; give the name of a file$"):
        write_small(tmp_path)
    if hasattr(os, "mkfifo"):
        os.mkfifo(tmp_path / "pipe")
        with pytest.raises(OSError, match=r"^.*pipe: not a regular file; give another name$"):
            write_small(tmp_path / "pipe")


@pytest.mark.skipif(not hasattr(os, "mkfifo"), reason="no named pipes")
def test_a_model_comes_through_a_pipe(path, tmp_path):
    write_small(path, C=1.0)
    os.mkfifo(tmp_path / "pipe")
    writer = threading.Thread(target=(tmp_path / "pipe").write_bytes, args=(path.read_bytes(),))
    writer.start()
    assert read_model(tmp_path / "pipe")[1] == {"C": 1.0}
    writer.join()


SCRIPT = """
import sys, numpy as np
from marginrank.model.file_format import write_model
for number in range(10**9):
    write_model(sys.argv[1], "ranker", {"round": number}, {"theta": np.full(10_000, float(number))})
    if number == 0:
        print("ready", flush=True)
"""


@pytest.mark.parametrize("how", [signal.SIGINT, signal.SIGTERM, signal.SIGKILL])
def test_a_killed_writer_leaves_a_whole_model(how, tmp_path):
    model = tmp_path / "model"
    with subprocess.Popen(
        [sys.executable, "-c", SCRIPT, str(model)], stdout=subprocess.PIPE, stderr=subprocess.DEVNULL
    ) as child:
        child.stdout.readline()
        time.sleep(float(np.random.default_rng(int(how)).uniform(0.0, 0.1)))
        child.send_signal(how)
        time.sleep(0.05)
        child.kill()
    others = [file for file in tmp_path.iterdir() if file != model]
    assert all(other.name.startswith(".model.") and other.suffix == ".unfinished" for other in others)
    _, header, arrays = read_model(model)
    assert arrays["theta"].tolist() == [float(header["round"])] * 10_000


@stepping.supported
def test_a_save_killed_at_any_system_call_leaves_a_whole_model(path):
    write_small(path, round=0)
    before, rounds = path.read_bytes(), set()
    for _ in stepping.kills(lambda: write_small(path, round=1)):
        rounds.add(read_model(path)[1]["round"])
        path.write_bytes(before)
    assert rounds == {0, 1}
    assert names_in(path.parent) == [path.name]


@stepping.supported
def test_a_save_whose_system_calls_fail_says_so_or_is_done(path):
    write_small(path, round=0)
    before, noticed = path.read_bytes(), set()
    for refused in stepping.failures(lambda: write_small(path, round=1)):
        assert read_model(path)[1]["round"] == (0 if refused else 1)
        assert names_in(path.parent) == [path.name]
        noticed.add(refused)
        path.write_bytes(before)
    assert noticed == {True, False}
