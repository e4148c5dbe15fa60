"""Names and ids cannot forge what is printed or written."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest

from marginrank import Queries, Ranker
from marginrank.data import write_parquet
from marginrank.model.file_format import read_model, write_model
from marginrank.runtime.text import facts, printable, table

#: A title of the terminal, red, a row of its own, another column, text from right to left, and what C1 makes of it.
ODD = {
    "osc": "a\x1b]0;owned\x07b",
    "color": "a\x1b[31mb",
    "line": "a\nap  1.0000",
    "return": "a\rb",
    "tab": "a\tb",
    "bidi": "a\u202eb",
    "isolate": "a\u2066b",
    "c1": "a\x9b31mb",
    "separator": "a\u2028b",
    "null": "a\x00b",
    "delete": "a\x7fb",
}
#: What none of these characters may stand in.
STEERING = {character for name in ODD.values() for character in name if not character.isprintable()} - {"\n"}


@pytest.mark.parametrize("name", ODD.values(), ids=ODD)
def test_odd_characters_are_escaped(name):
    assert printable(name).isprintable()
    assert printable(name).startswith("a\\")
    assert "\n" not in table([[name]])
    assert facts([("name", name)]).count("\n") == 0
    assert facts([("name", [name, name])]).count("\n") == 1


@pytest.mark.parametrize("name", ["größe", "日本語", "a b", "non\u00a0breaking", "नमस्\u200dते", "👩\u200d🔬", "\\n"])
def test_other_characters_stay(name):
    assert printable(name) == name


def judged(name):
    rng = np.random.default_rng(0)
    ids = [f"{name}{row}" for row in range(40)]
    return Queries.from_arrays(
        rng.standard_normal((40, 2)),
        rng.integers(0, 2, 40),
        qid=[f"q{name}{row // 8}" for row in range(40)],
        document_ids=ids,
        feature_names=[f"f{name}", "other"],
    )


@pytest.fixture(params=[name for name in ODD if name != "null"])
def odd(request, folder):
    """A table with odd ids and names, and a model trained on it."""
    queries = judged(ODD[request.param])
    write_parquet(folder / "odd.parquet", queries)
    Ranker("svmmap").fit(queries).save(folder / "odd.safetensors")
    return ODD[request.param]


def check_shown(done, odd):
    assert done.code == 0, done.err
    assert not STEERING & set(done.out + done.err)
    assert odd not in done.out
    assert printable(odd) in done.out


def test_ids_and_names_are_escaped_on_the_terminal(run, odd):
    check_shown(run("inspect", "odd.safetensors"), odd)
    check_shown(run("evaluate", "odd.parquet", "odd.safetensors", "-m", "ap", "--per-query"), odd)
    shown = run("inspect", "odd.safetensors", "--json")
    assert not STEERING & set(shown.out)
    assert json.loads(shown.out)["feature_names"] == [f"f{odd}", "other"]


def test_ids_are_refused_in_tsv_and_runs(fails, odd):
    for words in (["--k", "2"], ["-o", "new.tsv"], ["--format", "trec"], ["-o", "new.run"]):
        error = fails("rank", "odd.safetensors", "odd.parquet", *words, code=1)
        assert "cannot be in" in error
        assert not STEERING & set(error)
    Path("scores.txt").write_text("1\n" * 40)
    error = fails("evaluate", "odd.parquet", "scores.txt", "--per-query", "-o", "new.tsv", code=1)
    assert f"query 'q{' '.join(printable(odd).split())}0' cannot be in TSV" in error


@pytest.mark.usefixtures("few_Cs")
@pytest.mark.parametrize("name", [ODD["line"], ODD["osc"], ODD["bidi"]], ids=["line", "osc", "bidi"])
def test_paths_are_escaped_on_the_terminal(run, fails, folder, name):
    (folder / f"{name}.txt").write_bytes((folder / "train.txt").read_bytes())
    check_shown(run("train", f"{name}.txt", "-C", "1", "-o", f"{name}.safetensors"), name)
    check_shown(run("rank", f"{name}.safetensors", f"{name}.txt", "-o", f"{name}.tsv"), name)
    check_shown(run("convert", f"{name}.txt", f"{name}.parquet"), name)
    check_shown(run("inspect", f"{name}.txt"), name)
    check_shown(run("verify", f"{name}.txt"), name)
    check_shown(run("evaluate", "test.txt", "model.safetensors", f"{name}.safetensors", "-m", "ap"), name)
    check_shown(run("report", "test.txt", f"{name}.safetensors", "-o", f"{name}.html"), name)
    words = ["bm25.run", "dense.run", "--qrels", "judged.qrels", "--kinds", "minmax", "-o", f"{name}.run"]
    check_shown(run("fuse", *words), name)
    error = fails("inspect", f"absent{name}", code=1)
    assert not STEERING & set(error)


@pytest.mark.parametrize("field", ["measure", "trained", "preset", "solver", "weighting", "scaling"])
def test_texts_of_a_model_are_escaped(run, folder, field):
    kind, header, arrays = read_model("model.safetensors")
    if field == "scaling":
        header["trained_on"]["fingerprint"] = ODD["osc"] + ODD["line"]
    else:
        header[field] = ODD["osc"] + ODD["line"]
    write_model("new.safetensors", kind, header, arrays)
    done = run("inspect", "new.safetensors")
    check_shown(done, ODD["osc"] + ODD["line"])
    assert not any(line.startswith("ap ") for line in done.out.splitlines())
