"""``marginrank recommend``: train, recommend, evaluate."""

from __future__ import annotations

import csv
import json
from pathlib import Path

import numpy as np
import pandas as pd
import pytest

from marginrank import Recommender
from marginrank.evaluation import Diversify
from marginrank.losses import ThresholdHinge
from marginrank.recommend import item_coverage, read_ratings

TRAIN = ("recommend", "train", "ratings.csv", "-o", "films.safetensors", "--factors", "2", "-C", "0.5")


@pytest.fixture
def trained(run):
    done = run(*TRAIN)
    assert done.code == 0, done.err
    return Recommender.load("films.safetensors")


def test_training_says_what_was_done(run):
    done = run(*TRAIN)
    assert done.out.startswith("ratings    ")
    assert "of 12 items by 30 users" in done.out
    assert "wrote      films.safetensors" in done.out
    record = run(*TRAIN, "--force", "--json").json
    assert record["users"] == 30
    assert record["C"] == 0.5
    assert record["loss"].startswith("SquaredDifferences(gain='exp2'")
    assert run(*TRAIN, "--force", "--quiet").out == ""


def test_it_trains_what_python_trains(run, trained):
    ratings = read_ratings("ratings.csv")
    again = Recommender(factors=2, C=0.5).fit(ratings)
    pairs = again.user_ids_[:12], again.item_ids_
    assert np.array_equal(trained.predict(pairs), again.predict(pairs))


def test_lists_are_printed_and_written(run, trained):
    done = run("recommend", "recommend", "films.safetensors", "--user", "3", "--user", "99", "--k", "2")
    assert done.err == "user 99 is not in the training data, and gets the items that are best for all users\n"
    text = done.out
    best = [one.item for user in (3, 99) for one in trained.recommend(user, k=2)]
    assert [line.split("  ")[-2].strip() for line in text.splitlines()[1:]] == best
    record = run("recommend", "recommend", "films.safetensors", "--user", "3", "--json").json
    assert record["lists"][0]["items"] == [{"item": i, "score": s} for i, s in trained.recommend(3)]
    done = run("recommend", "recommend", "films.safetensors", "-o", "lists.csv", "--k", "3", "--seen")
    assert "30 lists written to lists.csv" in done.out
    with Path("lists.csv").open(newline="", encoding="utf-8") as file:
        rows = list(csv.DictReader(file))
    assert len(rows) == 90
    first = trained.recommend(0, k=3, exclude_seen=False)
    assert [(row["item"], float(row["score"])) for row in rows[:3]] == [tuple(one) for one in first]


def test_evaluation_shows_measures_coverage_and_popularity(run, trained):
    done = run("recommend", "evaluate", "films.safetensors", "held_out.csv", "-m", "ndcg@5", "-m", "auc", "--k", "3")
    found, reach = trained.evaluate(read_ratings("held_out.csv"), ["ndcg@5", "auc"]), item_coverage(trained, 3)
    assert f"{found.mean['ndcg@5']:.4f}" in done.out
    assert f"coverage         {reach.coverage:.1%} of 12 items" in done.out
    assert f"popularity bias  {reach.popularity_bias:.2f}" in done.out
    record = run("recommend", "evaluate", "films.safetensors", "held_out.csv", "--json").json
    assert record["mean"]["ndcg@10"] == trained.score(read_ratings("held_out.csv")) > 0.9
    assert record["catalog"]["coverage"] == item_coverage(trained, 10).coverage


def test_implicit_feedback(run):
    table = pd.read_csv("ratings.csv").query("rating >= 4")[["user", "item"]]
    table.to_csv("chosen.csv", index=False)
    held_out = pd.read_csv("held_out.csv").query("rating >= 4")[["user", "item"]]
    held_out.to_csv("held_out_chosen.csv", index=False)
    small = ("-C", "0.3", "--factors", "2", "--history", "2", "--max-iter", "2")
    done = run("recommend", "train", "chosen.csv", "-o", "m.safetensors", "-m", "auc", "--negatives", "all", *small)
    assert done.code == 0, done.err
    record = run("recommend", "evaluate", "m.safetensors", "held_out_chosen.csv", "--json").json
    assert record["mean"]["auc"] > 0.6


@pytest.mark.parametrize("name", ["r.tsv", "r.jsonl", "r.parquet", "r.feather", "r.csv.gz", "r.tsv.xz"])
def test_every_format_is_read(folder, name):
    table = pd.read_csv("ratings.csv")
    if ".tsv" in name:
        table.to_csv(name, sep="\t", index=False)
    elif "jsonl" in name:
        table.to_json(name, orient="records", lines=True)
    elif "parquet" in name:
        table.to_parquet(name)
    elif "feather" in name:
        table.to_feather(name)
    else:
        table.to_csv(name, index=False)
    one, other = read_ratings("ratings.csv"), read_ratings(name)
    for left, right in zip(vars(one).values(), vars(other).values(), strict=True):
        assert np.array_equal(left, right)


@pytest.mark.parametrize(
    ("content", "message"),
    [
        ("user,item,rating\n1,a,3\n1,a,4\n", "user 1 rated item a more than once"),
        ("user,item,rating\n1,a,3\n1,b,good\n", ":3: column 'rating' is 'good', which is not a number"),
        ("user,item,rating\n1,a,3\n1,,4\n", ":3: column 'item' is empty"),
        ("user,item,rating\n1,a,3\n1,b\n", ":3: 2 columns, and 3 in the first line"),
        ("user,item,rating\n1,a,-3\n1,b,2\n", "pass --shift 3"),
        ("who,item,rating\n1,a,3\n", "no column of users; name it with --user-column"),
        ("user,item,rating\n", "there are no ratings"),
        ("user,item,rating\n1,a,3\n2,a,4\n", "there is only one item, a"),
    ],
)
def test_bad_ratings_get_one_line(fails, folder, content, message):
    (folder / "bad.csv").write_text(content)
    assert message in fails("recommend", "train", "bad.csv", "-o", "m.safetensors", code=1)


@pytest.mark.parametrize(
    ("user", "message"),
    [
        ("guest", "bad.jsonl: user ids are text ('guest') and numbers (1)"),
        (1.5, "bad.jsonl:2: column 'user' is 1.5; ids are whole numbers or text"),
        (True, "bad.jsonl:2: column 'user' is True; ids are whole numbers or text"),
    ],
)
def test_ids_of_json_have_one_type(fails, folder, user, message):
    rows = [{"user": 1, "item": 2, "rating": 3}, {"user": user, "item": 3, "rating": 4}]
    (folder / "bad.jsonl").write_text("\n".join(map(json.dumps, rows)))
    assert message in fails("recommend", "train", "bad.jsonl", "-o", "m.safetensors", code=1)


def test_bad_json_lines_get_one_line(fails, folder):
    (folder / "bad.jsonl").write_text(json.dumps({"user": 1, "item": 2, "rating": 3}) + "\n[1]\n")
    message = fails("recommend", "train", "bad.jsonl", "-o", "m.safetensors", code=1)
    assert "bad.jsonl:2: not a JSON object" in message


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (("train", "ratings.csv"), "give -o FILE"),
        (("train", "ratings.csv", "held_out.csv", "-o", "x"), "train takes RATINGS; give 1 file"),
        (("evaluate", "model.safetensors"), "evaluate takes MODEL RATINGS; give 2 files"),
        (("recommend", "model.safetensors", "--factors", "3"), "--factors is for train"),
        (("recommend", "model.safetensors", "-m", "ap"), "--measure is for train and evaluate"),
        (("evaluate", "model.safetensors", "held_out.csv", "--user", "3"), "--user is for recommend"),
        (("train", "ratings.csv", "-o", "x", "--k", "2"), "--k is for recommend and evaluate"),
        (("train", "ratings.csv", "-o", "x", "--policy", "trec"), "--policy is for evaluate"),
        (("recommend", "model.safetensors", "--among", "rated"), "--among is for evaluate"),
        (("recommend", "model.safetensors", "--item-column", "x"), "--item-column is for train and evaluate"),
        (("evaluate", "model.safetensors", "held_out.csv", "--seen"), "--seen is for recommend"),
        (("evaluate", "model.safetensors", "held_out.csv", "-o", "x"), "leave out -o"),
        (("train", "ratings.csv", "-o", "x", "-m", "ap", "-m", "auc"), "give -m once"),
        (("train", "ratings.csv", "-o", "x", "--negatives", "many"), "--negatives is 'many'"),
        (("train", "ratings.csv", "-o", "x", "--preset", "lambdarank"), "not a convex loss"),
        (("train", "ratings.csv", "-o", "x", "-m", "ndgc"), "unknown measure 'ndgc'"),
    ],
)
def test_wrong_usage_gets_one_line(fails, words, message):
    assert message in fails("recommend", *words, code=2)


def test_a_model_of_something_else_is_refused(fails):
    message = fails("recommend", "recommend", "model.safetensors", code=1)
    assert "not a recommender; give one that was trained on ratings" in message


def test_inspect_and_verify_know_recommenders(run, trained):
    text = run("inspect", "films.safetensors").out
    assert text.startswith("model      films.safetensors, a recommender")
    assert "of 12 items by 30 users" in text
    assert run("inspect", "films.safetensors", "--json").json["holds"] == "recommender"
    assert "a model (recommender)" in run("verify", "films.safetensors").out


def test_other_commands_say_what_the_file_holds(fails, trained):
    assert "this file holds a recommender, not a ranker" in fails("rank", "films.safetensors", "test.txt", code=1)


def test_topics_of_items_are_limited(run, fails, trained, folder):
    topics = {one: ["even" if at % 2 == 0 else "odd"] for at, one in enumerate(trained.item_ids_.tolist())}
    (folder / "topics.csv").write_text("id,topic\n" + "".join(f"{one},{given[0]}\n" for one, given in topics.items()))
    words = ("recommend", "recommend", "films.safetensors", "--user", "3", "--k", "5", "--seen")
    record = run(*words, "--topics", "topics.csv", "--topic-limit", "2", "--json").json
    expected = trained.recommend(3, 5, exclude_seen=False, topics=topics, diversify=Diversify(2.0))
    assert [one["item"] for one in record["lists"][0]["items"]] == [one.item for one in expected]
    assert len(expected) == 4
    assert "--topics is for recommend; leave it out" in fails(
        "recommend", "evaluate", "films.safetensors", "ratings.csv", "--topics", "topics.csv", code=2
    )


def test_maximum_margin_matrix_factorization(run, fails):
    words = ("--preset", "mmmf", "--no-item-bias", "--no-popularity", "--history", "0", "--factors", "2")
    assert run("recommend", "train", "ratings.csv", "-o", "mmmf.safetensors", *words, "-C", "0.5").code == 0
    ratings, trained = read_ratings("ratings.csv"), Recommender.load("mmmf.safetensors")
    again = Recommender(loss=ThresholdHinge(), factors=2, C=0.5, item_bias=False, popularity=False, history=0)
    pairs = trained.user_ids_[:12], trained.item_ids_
    assert np.array_equal(trained.predict(pairs), again.fit(ratings).predict(pairs))
    assert np.abs(trained.predict(pairs)).max() > 0.1
    message = fails("recommend", "recommend", "mmmf.safetensors", "--no-item-bias", code=2)
    assert "--no-item-bias is for train; leave it out" in message
