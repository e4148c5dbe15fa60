"""Hints in the messages of commands can be run as they are."""

from __future__ import annotations

import re
import shlex
from pathlib import Path

import numpy as np
import pytest
import typer.main

from marginrank import Queries
from marginrank.cli.app import app
from marginrank.data import write_letor

OPTION = re.compile(r"(?<!\S)(--[A-Za-z][\w-]*(?: (?!or\b)(?:'[^']*'|[^\s,;]+))?)((?:, \S+)* or [^\s,;)]+)?")


FLAGS = {
    words
    for command in typer.main.get_command(app).commands.values()
    for option in command.params
    if getattr(option, "is_flag", False)
    for words in option.opts
}


def hints(said):
    """All ways to follow the hints of a message: each option with each of its values."""
    for option, others in OPTION.findall(said):
        name, *value = shlex.split(option)
        yield [name] if name in FLAGS else [name, *value]
        yield from ([name, word] for word in re.findall(r"[^\s,]+", others.replace(" or ", " ")))


def write(path, *lines):
    Path(path).write_text("".join(f"{line}\n" for line in lines))


def missing():
    write(
        "data.csv",
        "qid,grade,a,b",
        *(f"{row // 4},{row % 2},{row % 3},{'' if row == 5 else row % 4}" for row in range(40)),
    )


def text_column():
    """Its first value is a number; a column of nothing but text is left out."""
    titles = ["7", *(39 * ["word"])]
    write("data.csv", "qid,grade,a,title", *(f"{row // 4},{row % 2},{row % 3},{titles[row]}" for row in range(40)))


def two_grades():
    write("data.csv", "qid,label,relevance,a", *(f"{row // 4},{row % 2},{row % 2},{row % 3}" for row in range(40)))


def counted_from_0():
    write("data.txt", *(f"{row % 2} qid:{row // 4} 0:{row % 3} 1:{row % 5}" for row in range(40)))


def scattered():
    write("data.txt", *(f"{row % 3} qid:{row % 4} 1:{row % 3} 2:{row % 5}" for row in range(40)))


def unnamed_grades():
    rows = (f"{row // 8},{'' if row == 3 else row % 3},{row % 5}" for row in range(80))
    write("data.csv", "qid,verdict,bm25", *rows)


def missing_in_products():
    lines = Path("products.csv").read_text().splitlines()
    write("products.csv", lines[0], lines[1].rpartition(",")[0] + ",", *lines[2:])


def other_topics():
    lines = Path("bm25.run").read_text().splitlines()
    write("short.run", *(line for line in lines if not line.startswith("1 ")))


def collapsing():
    """Many irrelevant documents with useless features, so that the hinge of AP is minimal at 0."""
    rng = np.random.default_rng(0)
    queries = Queries.from_arrays(
        rng.standard_normal((1200, 2)).round(3), np.tile([1] + [0] * 59, 20), qid=np.repeat(np.arange(20), 60)
    )
    write_letor("data.txt", queries)


@pytest.mark.parametrize(
    ("prepare", "words", "expected"),
    [
        (missing, "train data.csv -C 1 -o new.safetensors --force", {"--scorer", "--missing"}),
        (
            missing_in_products,
            "clicks train clicks.csv --table products.csv --propensities eta=1 -C 1 -o new.safetensors --force",
            {"--scorer", "--missing"},
        ),
        (missing, "convert data.csv new.queries --force", {"--missing"}),
        (text_column, "train data.csv -C 1 -o new.safetensors --force", {"--feature"}),
        (text_column, "inspect data.csv", {"--feature"}),
        (two_grades, "train data.csv -C 1 -o new.safetensors --force", {"--grade"}),
        (counted_from_0, "train data.txt -C 1 -o new.safetensors --force", {"--first-index"}),
        (scattered, "train data.txt -C 1 -o new.safetensors --force", {"--regroup"}),
        (scattered, "inspect data.txt", {"--regroup"}),
        (other_topics, "evaluate judged.qrels short.run -m ap", {"--missing-topics"}),
        (collapsing, "train data.txt --preset svmmap -C 1 -o new.safetensors --force", {"--bound"}),
        (collapsing, "fuse data.txt --preset svmmap --kinds minmax --force", {"--bound"}),
    ],
    ids=lambda value: value.split()[0] if isinstance(value, str) else getattr(value, "__name__", ""),
)
@pytest.mark.usefixtures("few_Cs")
def test_hints_run_as_they_are(run, prepare, words, expected):
    prepare()
    said = run(*shlex.split(words)).err
    found = list(hints(said))
    assert expected <= {hint[0] for hint in found}, said
    for hint in found:
        done = run(*shlex.split(words), *hint)
        assert done.code == 0, (hint, done.err)


@pytest.mark.usefixtures("few_Cs")
def test_the_hint_of_an_export_runs_in_the_command_it_names(run):
    fuse = ["fuse", "bm25.run", "dense.run", "--qrels", "judged.qrels", "--model", "fused.safetensors", "--force"]
    run(*fuse, "--kinds", "percentile")
    export = ["export", "fused.safetensors", "--to", "opensearch-hybrid", "-o", "pipeline.json"]
    done = run(*export)
    assert done.code == 1
    assert "--kinds minmax or rrf (of marginrank fuse)" in done.err
    for hint in hints(done.err):
        assert run(*fuse, *hint).code == 0
        assert run(*export, "--force").code == 0


def test_grades_that_nobody_named_are_asked_for_before_missing_values(run):
    unnamed_grades()
    done = run("train", "data.csv", "-C", "1", "-o", "new.safetensors")
    assert "no grades in this data, and they are needed here; name their column with --grade" in done.err
    assert "--missing" not in done.err
    assert run("train", "data.csv", "-C", "1", "-o", "new.safetensors", "--grade", "verdict").code == 0


def test_what_a_command_cannot_set_is_said_in_words(run):
    write("two.qrels", "1 0 doc1 1", "1 0 doc2 0")
    done = run("fuse", "bm25.run", "dense.run", "--qrels", "two.qrels")
    assert done.code == 1
    assert "--folds" not in done.err
