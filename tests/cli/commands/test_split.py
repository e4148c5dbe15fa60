"""`marginrank split`."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from marginrank.data import Queries, read_queries
from marginrank.data.query_splits import hashed_quantiles, random_quantiles, split_queries, time_quantiles


def ids(path):
    return set(read_queries(path).query_ids.tolist())


def test_parts_have_whole_queries_and_all_of_them(run):
    done = run("split", "train.txt", "--share", "a=0.7,b=0.2,c=0.1", "--json").json["parts"]
    assert {name: part["queries"] for name, part in done.items()} == {"a": 21, "b": 6, "c": 3}
    parts = [read_queries(f"{name}.txt", dtype="float64") for name in done]
    whole = read_queries("train.txt", dtype="float64")
    again = whole.select(np.concatenate([part.query_ids for part in parts]).tolist())
    assert len(again) == len(whole)
    assert np.array_equal(np.concatenate([part.X for part in parts]), again.X)
    assert np.array_equal(np.concatenate([part.grades for part in parts]), again.grades)


def test_random_parts_depend_on_the_seed_alone(run, folder):
    for name, words in (("one", []), ("same", []), ("other", ["--random-state", "7"])):
        (folder / name).mkdir()
        assert run("split", "train.txt", "-o", name, *words).code == 0
    assert ids("one/test.txt") == ids("same/test.txt") != ids("other/test.txt")
    assert run("split", "train.txt", "-o", "one").code == 1
    assert run("split", "train.txt", "-o", "one", "--force").code == 0


def test_a_hashed_query_stays_in_its_part(run, folder):
    for name, files in (("one", ["train.txt"]), ("more", ["train.txt", "valid.txt"])):
        (folder / name).mkdir()
        assert run("split", *files, "--hash", "-o", name).code == 0
    assert ids("one/test.txt") < ids("more/test.txt")
    assert ids("one/train.txt") < ids("more/train.txt")


SHOP = "query_id,sku,day,relevance,bm25\n" + "".join(
    f"q{query},{row},2026-0{1 + query // 2}-0{1 + row},{row},{query}.{row}\n" for row in (0, 1) for query in range(6)
)


@pytest.mark.parametrize("suffix", ["csv", "jsonl", "parquet"])
def test_the_last_part_is_the_latest(run, folder, suffix):
    (folder / "shop.csv").write_text(SHOP)
    words = ["--time", "day", "--share", "train=4,test=2"]
    done = run("split", "shop.csv", *words, "--suffix", f".{suffix}")
    assert (ids(f"train.{suffix}"), ids(f"test.{suffix}")) == ({"q0", "q1", "q2", "q3"}, {"q4", "q5"})
    assert read_queries(f"test.{suffix}").feature_names == ("bm25",)
    assert done.out == (
        "data   shop.csv: 6 queries, 12 documents, 1 feature, grades 0 to 1\n"
        f"wrote  train.{suffix}: 4 queries, 8 documents, 1 feature, grades 0 to 1\n"
        f"       test.{suffix}: 2 queries, 4 documents, 1 feature, grades 0 to 1\n"
    )


def test_a_file_keeps_its_suffixes(run, folder):
    (folder / "shop.2026.csv").write_text(SHOP)
    assert run("convert", "shop.2026.csv", "shop.2026.csv.gz", "--feature", "bm25").code == 0
    assert run("split", "shop.2026.csv.gz").code == 0
    assert {"train.csv.gz", "test.csv.gz"} <= {path.name for path in folder.iterdir()}


@pytest.mark.parametrize(
    ("words", "said", "code"),
    [
        (["train.txt", "--share", "a=1"], "a split has two parts or more", 2),
        (["train.txt", "--share", "a=1,a=2"], "write distinct names and sizes", 2),
        (["train.txt", "--share", "a=1,b=0"], "write distinct names and sizes", 2),
        (["train.txt", "--share", "../a=1,b=1"], "write distinct names and sizes", 2),
        (["train.txt", "--share", "a=1,b=1.2.3"], "write distinct names and sizes", 2),
        (["train.txt", "--share", "a=1,b=0.001"], "train.txt: no query is left for 'b'; give it a larger share", 1),
        (["train.txt", "--share", "train=1,b=1"], "train.txt: this is both input and output", 1),
        (
            ["train.txt", "--time", "day", "--share", "a=1,b=1"],
            "--time day: train.txt is text, which has no column of times",
            2,
        ),
        (["train.txt", "--time", "day", "--hash"], "give --hash or --time, not both", 2),
        (["train.txt", "-o", "nowhere"], "nowhere: no such folder", 1),
        (["train.txt", "--share", "a=1,b=1", "--suffix", ".xyz"], "unknown suffix '.xyz'; write one of", 1),
    ],
)
def test_splits_refuse_what_makes_no_sense(fails, words, said, code):
    assert said in fails("split", *words, code=code)


def test_times_that_cannot_be_sorted_are_refused(fails):
    Path("shop.csv").write_text("qid,day,bm25\n1,3/1/2026,2\n2,12/1/2025,3\n")
    said = fails("split", "shop.csv", "--time", "day", "--quiet", code=1)
    assert "'12/1/2025' is not a time that can be sorted; write numbers or dates such as 2026-01-31" in said


def test_quantiles_do_not_depend_on_the_order_of_queries():
    queries = Queries.from_arrays(np.zeros((9, 1)), qid=[f"q{row}" for row in range(9)])
    for quantiles in (random_quantiles, hashed_quantiles):
        placed = dict(zip(queries.query_ids.tolist(), quantiles(queries, 3).tolist(), strict=True))
        turned = queries[::-1]
        assert dict(zip(turned.query_ids.tolist(), quantiles(turned, 3).tolist(), strict=True)) == placed


def test_queries_whose_rows_are_apart_stay_whole():
    rng = np.random.default_rng(0)
    qid = rng.permutation(np.repeat(np.arange(20), 5))
    queries = Queries.from_arrays(np.arange(100.0)[:, None], qid=qid)
    parts = split_queries(queries, {"a": 1, "b": 1}, time_quantiles(queries, qid.astype(float)))
    assert sorted(parts["a"].query_ids.tolist()) == list(range(10))
    for part in parts.values():
        rows = part.X[:, 0].astype(int)
        assert np.array_equal(part.query_ids[part.query_of_row], qid[rows])


def test_times_may_be_numbers_in_text():
    queries = Queries.from_arrays(np.zeros((4, 1)), qid=["a", "b", "c", "d"])
    assert time_quantiles(queries, np.array(["-1.5", "10", "-0.0", "9"])).tolist() == [0.0, 0.75, 0.25, 0.5]
