"""A folder as a user has it, and the command line to run in it."""

from __future__ import annotations

import json
import shutil

import numpy as np
import pytest
from typer.testing import CliRunner

from marginrank import Queries, Ranker, read
from marginrank.cli.app import app
from marginrank.cli.commands.fuse import FuseOptions
from marginrank.data import write_letor
from marginrank.fusion import Fusion


def judged(n_queries, seed, n_documents=8, **columns):
    """Five features, of which three matter, and grades 0 to 2."""
    rng = np.random.default_rng(seed)
    X = rng.standard_normal((n_queries * n_documents, 5)).round(3)
    hidden = X @ [1.0, -0.5, 0.0, 0.0, 0.2] + rng.standard_normal(len(X))
    return Queries.from_arrays(
        X,
        np.digitize(hidden, [1.0, 2.0]),
        qid=np.repeat(np.arange(n_queries) + 1000 * seed, n_documents),
        document_ids=[f"d{seed}-{row}" for row in range(len(X))],
        **columns,
    )


@pytest.fixture(scope="session")
def prepared(tmp_path_factory):
    """Training, validation and test queries, and a model with its scores."""
    folder = tmp_path_factory.mktemp("prepared")
    for name, n_queries, seed in (("train", 30, 0), ("valid", 20, 1), ("test", 20, 2)):
        write_letor(folder / f"{name}.txt", judged(n_queries, seed))
    ranker = Ranker("svmmap", C=10.0).fit(read(folder / "train.txt", dtype="float64"))
    ranker.save(folder / "model.safetensors")
    scores = ranker.predict(judged(20, 2))
    (folder / "scores.txt").write_text("".join(f"{score!r}\n" for score in scores.tolist()))
    write_runs(folder)
    write_ratings(folder)
    write_judged_by_raters(folder)
    write_clicks_of_products(folder)
    return folder


def write_runs(folder):
    """Two runs of 30 topics that see different sides of what is relevant, each without some of the documents."""
    rng = np.random.default_rng(3)
    sides = rng.standard_normal((600, 2))
    relevant = sides.sum(axis=1) + 0.5 * rng.standard_normal(600) > 1.5
    topics, documents = np.repeat(np.arange(1, 31), 20), [f"doc{number}" for number in range(600)]
    lines = [f"{topic} 0 {name} {int(own)}" for topic, name, own in zip(topics, documents, relevant, strict=True)]
    (folder / "judged.qrels").write_text("\n".join(lines) + "\n")
    for number, tag in enumerate(("bm25", "dense")):
        kept = rng.random(600) < 0.9
        rows = [
            f"{topics[row]} Q0 {documents[row]} 0 {sides[row, number]:.4f} {tag}"
            for row in np.flatnonzero(kept).tolist()
        ]
        (folder / f"{tag}.run").write_text("\n".join(rows) + "\n")


def write_ratings(folder):
    """Ratings of 12 items by 30 users, who like even or odd items; a quarter is held out."""
    rng = np.random.default_rng(4)
    lines = {"ratings": ["user,item,rating"], "held_out": ["user,item,rating"]}
    for user, item in rng.permutation(np.argwhere(rng.random((30, 12)) < 0.7)).tolist():
        rating = 4 + rng.integers(0, 2) if user % 2 == item % 2 else rng.integers(1, 4)
        lines["held_out" if rng.random() < 0.25 else "ratings"].append(f"{user},film {item:02d},{rating}")
    for name, rows in lines.items():
        (folder / f"{name}.csv").write_text("\n".join(rows) + "\n")


def write_judged_by_raters(folder):
    """Grades of 40 documents of 8 queries by ann and bob, who agree on most, and documents to judge, of two topics."""
    rng = np.random.default_rng(5)
    lines = ["query,document,rater,grade"]
    for document in range(40):
        grade = int(rng.integers(0, 4))
        for rater, change in (("ann", 0), ("bob", int(rng.random() < 0.3))):
            lines.append(f"{document // 5 + 1},doc{document},{rater},{abs(grade - change)}")
    (folder / "raters.csv").write_text("\n".join(lines) + "\n")
    lines = ["query,a,b,preferred,rater"]
    for _ in range(60):
        topic, pair = int(rng.integers(1, 4)), rng.permutation(20)[:2]
        for rater in ("ann", "bob"):
            a, b = (f"doc{20 * (topic - 1) + number}" for number in pair.tolist())
            lines.append(f"{topic},{a},{b},{rng.choice(['a', 'b', 'a', 'tie'])},{rater}")
    (folder / "preferences.csv").write_text("\n".join(lines) + "\n")
    titles = [f"{document // 20 + 1},doc{document},Title {document},Text of it" for document in range(40)]
    (folder / "documents.csv").write_text("\n".join(["query,document_id,title,text", *titles]) + "\n")


def write_clicks_of_products(folder):
    """Products, a log of 2,000 sessions on rankings by price or stars, and one of 300 interleaved sessions."""
    rng = np.random.default_rng(6)
    quality = rng.random(200)
    scores = {"price": quality + rng.normal(0, 0.5, 200), "stars": quality + rng.normal(0, 0.3, 200)}
    lines = [f"p{row:03d},{scores['price'][row]:.4f},{scores['stars'][row]:.4f}" for row in range(200)]
    (folder / "products.csv").write_text("\n".join(["document_id,price,stars", *lines]) + "\n")
    logs = {"clicks": ["query,doc_id,position,clicked,impression_id,system"]}
    logs["interleaved"] = [logs["clicks"][0].replace("system", "team")]
    for session in range(2300):
        query = int(rng.integers(20))
        ranked = {
            name: (10 * query + np.argsort(-column[10 * query :][:10])).tolist() for name, column in scores.items()
        }
        teams = dict.fromkeys(ranked[name := list(scores)[session % 2]][:6], name)
        if session >= 2000:
            teams = {}
            while len(teams) < 6:
                for name in rng.permutation(list(scores)).tolist():
                    teams[next(row for row in ranked[name] if row not in teams)] = name
        for place, (row, team) in enumerate(teams.items(), 1):
            clicked = int(rng.random() < quality[row] / place)
            line = f"q{query},p{row:03d},{place},{clicked},{session},{team}"
            logs["interleaved" if session >= 2000 else "clicks"].append(line)
    for name, rows in logs.items():
        (folder / f"{name}.csv").write_text("\n".join(rows) + "\n")


@pytest.fixture
def folder(prepared, tmp_path, monkeypatch):
    """A copy of that folder, which is where commands run."""
    shutil.copytree(prepared, tmp_path, dirs_exist_ok=True)
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("COLUMNS", "120")
    return tmp_path


class Finished:
    """What a command printed, and its exit code."""

    def __init__(self, result):
        self.code, self.out, self.err = result.exit_code, result.stdout, result.stderr

    @property
    def json(self):
        """The one JSON document on standard output, in which no number may be NaN or infinite."""
        assert self.out, f"exit code {self.code}: {self.err}"
        return json.loads(self.out, parse_constant=pytest.fail)


@pytest.fixture
def run(folder):
    """Run a command in the folder: ``run("train", "train.txt", ...)``."""

    def call(*words, env=None):
        return Finished(CliRunner().invoke(app, [str(word) for word in words], env=env, catch_exceptions=False))

    return call


@pytest.fixture
def few_Cs(monkeypatch):
    """Let ``fuse`` choose from two values of C on two folds, where it does not matter which is chosen, nor how."""
    fusion, fit = FuseOptions.fusion, Fusion.fit

    def fit_on_two(self, train, valid=None, **options):
        return fit(self, train, valid, folds=2 if valid is None else None, **options)

    monkeypatch.setattr(FuseOptions, "fusion", lambda self: fusion(self).set_params(Cs=[1.0, 10.0]))
    monkeypatch.setattr(Fusion, "fit", fit_on_two)


@pytest.fixture
def fails(run):
    """Run a command that is to fail with an exit code, one line of error, and nothing on standard output."""

    def call(*words, code):
        before = _content()
        done = run(*words)
        assert done.code == code, done.err
        assert done.out == ""
        assert done.err.startswith("error: ")
        assert done.err.count("\n") == 1
        assert "Traceback" not in done.err
        assert _content() == before, "a command that failed changed files"
        return done.err

    return call


def _content():
    from pathlib import Path

    return {path: path.read_bytes() for path in Path().rglob("*") if path.is_file()}
