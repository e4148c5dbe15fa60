"""`marginrank verify`."""

from __future__ import annotations

import numpy as np
import pytest


def flip(path, at):
    data = bytearray(path.read_bytes())
    data[at] ^= 1
    path.write_bytes(data)


def test_a_line_says_what_each_file_is_and_what_was_checked(run, folder):
    assert run("convert", "train.txt", "train.queries").code == 0
    done = run("verify", "train.queries", "model.safetensors", "train.txt", "bm25.run", "judged.qrels")
    assert (done.code, done.err) == (0, "")
    sizes = "30 queries, 240 documents, 5 features, grades 0 to 2"
    assert done.out.splitlines() == [
        f"train.queries: ok, a binary query set, {sizes}; checked header, structure, values and digests",
        "model.safetensors: ok, a model (ranker); checked header, structure and digests",
        f"train.txt: ok, text, {sizes}; checked structure and values",
        "bm25.run: ok, a TREC run, 30 topics; checked structure and values",
        "judged.qrels: ok, TREC judgements, 30 topics; checked structure and values",
    ]


@pytest.mark.parametrize(("at", "array"), [(-1, "document_ids.codes"), (-10_000, "X")])
def test_a_flipped_bit_of_an_array_is_found_by_its_digest(run, folder, at, array):
    assert run("convert", "train.txt", "train.queries", "--dtype", "float64").code == 0
    flip(folder / "train.queries", at)
    done = run("verify", "train.txt", "train.queries")
    assert done.code == 1
    good, bad = done.out.splitlines()
    assert good.startswith("train.txt: ok, ")
    assert bad == f"train.queries: FAILED, array {array!r} does not match its digest; convert the source again"


def test_damaged_models_and_text_are_named(run, folder):
    flip(folder / "model.safetensors", -1)
    (folder / "bad.txt").write_text("1 qid:1 1:1\n1 qid:1 1:x\n")
    record = run("verify", "model.safetensors", "bad.txt", "nowhere", "--json")
    assert record.code == 1
    assert [one["ok"] for one in record.json["files"]] == [False, False, False]
    model, text, nowhere = (one["found"] for one in record.json["files"])
    assert model == "damaged model file (an array does not match its digest); copy it again"
    assert text == "bad.txt:2:11: 'x' is not a number"
    assert nowhere == "no such file; check the name and the folder"


def test_features_that_are_infinite_are_found(run, folder):
    from marginrank.data import Queries, write_binary

    queries = Queries.from_arrays([[1.0], [2.0]], [0, 1], group=[2])
    queries.X[1, 0] = np.inf
    write_binary("bad.queries", queries)
    done = run("verify", "bad.queries")
    assert (done.code, done.out) == (1, "bad.queries: FAILED, feature 0 of document 1 (query 0) is inf; replace it\n")


def test_options_for_reading_are_used_and_refused(run, fails, folder):
    (folder / "from0.txt").write_text("1 qid:1 0:1\n")
    assert run("verify", "from0.txt").code == 1
    assert run("verify", "from0.txt", "--first-index", "0").code == 0
    assert "--regroup does not apply" in fails("verify", "bm25.run", "--regroup", code=2)
