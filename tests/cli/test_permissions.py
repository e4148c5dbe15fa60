"""Files that commands replace keep their permissions, and a recommender is private from the start."""

from __future__ import annotations

import os
import stat

import pytest

COMMANDS = (
    "train train.txt -C 1 -o out.safetensors",
    "rank model.safetensors test.txt -o out.txt",
    "evaluate test.txt model.safetensors --per-query -o out.tsv",
    "convert train.txt out.queries",
    "convert train.txt out.csv",
    "export model.safetensors --to python -o out.py",
    "fuse bm25.run dense.run --qrels judged.qrels -o out.run",
    "recommend train ratings.csv -o out.safetensors",
)


@pytest.fixture(autouse=True)
def open_umask():
    """New files can be read by everybody, unless something else is said."""
    before = os.umask(0o022)
    yield
    os.umask(before)


def mode_of(path):
    return stat.S_IMODE(path.stat().st_mode)


@pytest.mark.usefixtures("few_Cs")
@pytest.mark.parametrize("command", COMMANDS)
def test_a_private_file_that_is_replaced_stays_private(command, run, folder):
    out = folder / next(word for word in command.split() if word.startswith("out."))
    out.write_text("old")
    out.chmod(0o600)
    done = run(*command.split(), "--force")
    assert done.code == 0, done.err
    assert out.read_bytes() != b"old"
    assert mode_of(out) == 0o600


def test_only_its_owner_reads_a_recommender(run, folder):
    assert run("recommend", "train", "ratings.csv", "-o", "recommender.safetensors").code == 0
    assert mode_of(folder / "recommender.safetensors") == 0o600
