"""Rows in, rows out: whatever takes or returns rows speaks of them in the order of the caller.

Expected values are worked out here, document by document, from rows sorted by query.
"""

from __future__ import annotations

import json
import math

import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pytest
from pyarrow import parquet
from typer.testing import CliRunner

from marginrank import Fusion, Queries, Ranker, compare, evaluate, from_frame, read, tune, write_report
from marginrank.cli.app import app
from marginrank.data import Run
from marginrank.errors import DataError
from marginrank.fusion import BestRun, UnsupervisedFusion, rrf
from marginrank.preparation import QueryMinMax
from marginrank.solvers import Auto

N_QUERIES, N_DOCUMENTS = 12, 7
NAMES = ["bm25", "dense", "clicks"]


class Collection:
    """Judged documents, sorted by query, and the same rows in random order."""

    def __init__(self):
        rng = np.random.default_rng(11)
        n = N_QUERIES * N_DOCUMENTS
        self.X = rng.standard_normal((n, 3)).round(4)
        self.grades = np.digitize(self.X @ [1.0, 0.5, -0.5] + rng.standard_normal(n), [0.5, 1.5])
        number = np.arange(n) // N_DOCUMENTS
        # Queries do not come in alphabetical order, so neither sorting nor numbering can stand in for looking.
        self.qid = np.array([f"q{(7 * q) % N_QUERIES:02d}" for q in number])
        self.ids = np.array([f"{q}-{row}" for row, q in enumerate(self.qid)])
        self.shuffled = rng.permutation(n)
        self.ranker = Ranker("svmmap", C=5.0).fit(self.X, self.grades, qid=self.qid)
        frame = pd.DataFrame(self.X, columns=NAMES)
        self.named = Ranker("svmmap", C=5.0).fit(frame, self.grades, qid=self.qid)
        self.scores = dict(zip(self.ids.tolist(), self.ranker.predict(self.X).tolist(), strict=True))
        self.bm25 = dict(zip(self.ids.tolist(), self.X[:, 0].tolist(), strict=True))
        self.grade = dict(zip(self.ids.tolist(), self.grades.tolist(), strict=True))

    def columns(self):
        rows = self.shuffled
        features = {name: self.X[rows, column] for column, name in enumerate(NAMES)}
        return {"qid": self.qid[rows], "grade": self.grades[rows], "document_id": self.ids[rows], **features}

    def ranked(self, scores):
        """Documents of each query, best first."""
        return {
            query: sorted(self.ids[self.qid == query].tolist(), key=lambda document: -scores[document])
            for query in np.unique(self.qid).tolist()
        }

    def ndcg(self, scores, k=10):
        """NDCG@k of each query: gain 2^grade − 1, discount 1 / log2(1 + rank)."""

        def dcg(grades):
            return sum((2**grade - 1) / math.log2(rank + 1) for rank, grade in enumerate(grades[:k], 1))

        values = {}
        for query, documents in self.ranked(scores).items():
            grades = [self.grade[document] for document in documents]
            values[query] = dcg(grades) / dcg(sorted(grades, reverse=True))
        return values


@pytest.fixture(scope="module")
def data():
    return Collection()


def letor_lines(data):
    for row in data.shuffled.tolist():
        features = " ".join(f"{column}:{value!r}" for column, value in enumerate(data.X[row].tolist(), 1))
        yield f"{data.grades[row]} qid:{data.qid[row]} {features} #docid = {data.ids[row]}\n"


def from_arrays(data, folder):
    rows = data.shuffled
    return Queries.from_arrays(
        data.X[rows], data.grades[rows], qid=data.qid[rows], document_ids=data.ids[rows], feature_names=NAMES
    )


def from_letor(data, folder):
    (folder / "shuffled.txt").write_text("".join(letor_lines(data)))
    return read(folder / "shuffled.txt", regroup=True, dtype="float64")


def from_parquet(data, folder):
    parquet.write_table(pa.table(data.columns()), folder / "shuffled.parquet")
    return read(folder / "shuffled.parquet")


def from_two_files(data, folder):
    """Whole queries in each file, in random order within it."""
    table = pd.DataFrame(data.columns())
    paths = [folder / "one.parquet", folder / "two.parquet"]
    late = table["qid"] > "q05"
    for path, part in zip(paths, (table[~late], table[late]), strict=True):
        parquet.write_table(pa.Table.from_pandas(part, preserve_index=False), path)
    return read(paths)


DOORS = {
    "arrays": from_arrays,
    "pandas": lambda data, _: from_frame(pd.DataFrame(data.columns())),
    "polars": lambda data, _: from_frame(pl.DataFrame(data.columns())),
    "arrow": lambda data, _: from_frame(pa.table(data.columns())),
    "text": from_letor,
    "parquet": from_parquet,
    "two files": from_two_files,
}


@pytest.fixture(params=list(DOORS))
def queries(request, data, tmp_path):
    return DOORS[request.param](data, tmp_path)


def by_query(evaluation, measure="ndcg@10"):
    return dict(zip(evaluation.query_ids.tolist(), evaluation[measure].tolist(), strict=True))


def test_columns_are_scores(queries, data):
    expected = data.ndcg(data.bm25)
    assert queries.order is not None
    assert by_query(evaluate(queries, queries.X[:, 0])) == pytest.approx(expected)


def test_a_ranker_scores_in_the_order_of_the_queries(queries, data):
    scores = data.ranker.predict(queries)
    assert scores.tolist() == pytest.approx([data.scores[one] for one in queries.document_ids.tolist()])
    assert by_query(evaluate(queries, scores)) == pytest.approx(data.ndcg(data.scores))


def test_rankings_are_positions_in_the_queries(queries, data):
    expected, names = data.ranked(data.scores), queries.document_ids
    orders = data.ranker.rank(queries)
    assert {q: names[order].tolist() for q, order in zip(queries.query_ids.tolist(), orders, strict=True)} == expected
    tops = data.ranker.rank(queries, k=3, ids=True)
    assert dict(zip(queries.query_ids.tolist(), tops, strict=True)) == {q: own[:3] for q, own in expected.items()}


def test_groups_are_those_of_the_queries(queries, data):
    """Of documents with the same label only the best is ranked; labels are given in the order of the queries."""
    labels = [document[-1] for document in queries.document_ids.tolist()]
    expected = {}
    for query, documents in data.ranked(data.scores).items():
        seen = set()
        expected[query] = [one for one in documents if not (one[-1] in seen or seen.add(one[-1]))]
    ranked = data.ranker.rank(queries, document_groups=labels, ids=True)
    assert dict(zip(queries.query_ids.tolist(), ranked, strict=True)) == expected


def test_runs_name_their_documents(queries, data):
    run = Run.from_scores(queries, data.ranker.predict(queries)).ranked()
    parts = np.split(run.document_ids, run.offsets[1:-1])
    assert {q: own.tolist() for q, own in zip(run.topics.tolist(), parts, strict=True)} == data.ranked(data.scores)


@pytest.mark.parametrize("door", [door for door in DOORS if door != "two files"])
def test_every_door_keeps_the_rows_of_the_caller(data, door, tmp_path):
    queries, rows = DOORS[door](data, tmp_path), data.shuffled
    assert queries.document_ids.tolist() == data.ids[rows].tolist()
    assert queries.grades.tolist() == data.grades[rows].tolist()
    assert queries.X.tolist() == data.X[rows].tolist()
    assert queries.query_ids[queries.query_of_row].tolist() == data.qid[rows].tolist()


def test_rows_of_several_files_follow_one_another(data, tmp_path):
    queries, rows = from_two_files(data, tmp_path), data.shuffled
    early = [document for document in data.ids[rows].tolist() if document < "q06"]
    late = [document for document in data.ids[rows].tolist() if document >= "q06"]
    assert queries.document_ids.tolist() == early + late


def shuffled_frame(data):
    """A frame as ``frame.sample(frac=1)`` returns it: shuffled, with the index of the rows before."""
    return pd.DataFrame(data.columns(), index=data.shuffled)


def test_scores_of_a_frame_are_scores_of_its_queries(data):
    frame, ndcg = shuffled_frame(data), data.ndcg(data.scores)
    queries, scores = from_frame(frame), data.named.predict(frame[NAMES])
    assert scores.tolist() == data.named.predict(queries).tolist()
    for ranked in (scores, pd.Series(scores, index=frame.index), scores.tolist()):
        assert by_query(evaluate(queries, ranked)) == pytest.approx(ndcg)
    np.testing.assert_array_equal(data.named.explain(frame[NAMES], qid=frame["qid"]), data.named.explain(queries))
    comparison = compare({"learned": scores, "bm25": frame["bm25"]}, queries)
    means = [np.mean(list(values.values())) for values in (ndcg, data.ndcg(data.bm25))]
    assert comparison.rows[0].difference == pytest.approx(means[0] - means[1])


def test_grades_with_ids_are_compared_and_reported(data, tmp_path):
    frame = shuffled_frame(data)
    systems = {"learned": data.named.predict(frame[NAMES]), "bm25": frame["bm25"]}
    means = [np.mean(list(data.ndcg(scores).values())) for scores in (data.scores, data.bm25)]
    comparison = compare(systems, frame["grade"], qid=frame["qid"])
    assert comparison.rows[0].difference == pytest.approx(means[0] - means[1])
    facts = write_report(tmp_path / "report.html", frame["grade"], systems, ["ndcg@10"], qid=frame["qid"])
    assert [one.mean for one in facts.means] == pytest.approx(means)
    with pytest.raises(TypeError, match="grades with qid or group"):
        compare(systems, frame["grade"])


def test_parts_of_the_queries_are_parts_of_the_frame(data):
    """Splitting the queries and filtering the frame lead to the same rows."""
    frame = shuffled_frame(data)
    train, test = from_frame(frame).split(0.5, 0.5, random_state=1)
    for part in (train, test, from_frame(frame)[3:7]):
        rows = frame[frame["qid"].isin(part.query_ids)]
        assert part.document_ids.tolist() == rows["document_id"].tolist()
        ndcg = data.ndcg(data.scores)
        expected = {query: ndcg[query] for query in part.query_ids.tolist()}
        assert by_query(evaluate(part, data.named.predict(rows[NAMES]))) == pytest.approx(expected)


def test_other_pandas_indexes_are_refused(data):
    frame = shuffled_frame(data)
    X, y, qid, queries = frame[NAMES], frame["grade"], frame["qid"], from_frame(frame)
    scores = pd.Series(data.named.predict(X), index=frame.index)
    calls = [
        lambda: Ranker().fit(X, y.sort_index(), qid=qid),
        lambda: Ranker().fit(X, y, qid=qid.sort_index()),
        lambda: Ranker().partial_fit(X, y, qid=qid.sort_index()),
        lambda: tune(Ranker(), X, y, qid=qid.sort_index()),
        lambda: data.named.score(X, y.sort_index(), qid=qid),
        lambda: data.named.predict(X, qid=qid.sort_index()),
        lambda: data.named.rank(X, qid=qid.sort_index()),
        lambda: data.named.explain(X, qid=qid.sort_index()),
        lambda: Queries.from_arrays(X, y.sort_index(), qid=qid),
        lambda: QueryMinMax().fit(X, qid=qid).transform(X, qid=qid.sort_index()),
        lambda: evaluate(queries, scores.sort_index()),
        lambda: evaluate(queries[2:5], scores[qid.isin(queries.query_ids[2:5])].sort_index()),
        lambda: evaluate(y, scores.sort_index(), qid=qid),
        lambda: evaluate(y, scores, qid=qid.sort_index()),
        lambda: compare({"a": scores, "b": scores.sort_index()}, queries),
    ]
    for call in calls:
        with pytest.raises(
            DataError, match=r"has a different pandas index than .*; align them, for example \w+\.loc\["
        ):
            call()
    assert by_query(evaluate(y.to_numpy(), scores, qid=qid)) == pytest.approx(data.ndcg(data.scores))


@pytest.mark.parametrize("column", [np.asarray, list, pd.Series, pl.Series], ids=["numpy", "list", "pandas", "polars"])
def test_arrays_come_back_in_the_rows_of_the_caller(data, column):
    rows = data.shuffled
    X, qid, ids = data.X[rows], column(data.qid[rows]), data.ids[rows]
    scores = data.ranker.predict(X, qid=qid)
    assert scores.tolist() == pytest.approx([data.scores[one] for one in ids.tolist()])
    result = evaluate(column(data.grades[rows]), column(scores), qid=qid)
    assert by_query(result) == pytest.approx(data.ndcg(data.scores))
    assert result.query_ids.tolist() == list(dict.fromkeys(data.qid[rows].tolist()))
    expected = data.ranked(data.scores)
    assert [ids[order].tolist() for order in data.ranker.rank(X, qid=qid)] == [expected[q] for q in result.query_ids]
    assert data.ranker.score(X, data.grades[rows], qid=qid) == pytest.approx(
        data.ranker.score(data.X, data.grades, qid=data.qid)
    )


def test_shuffled_rows_train_the_same_ranker(queries, data):
    trained = Ranker("svmmap", C=5.0, solver=Auto(tol=1e-9)).fit(queries)
    sorted_rows = Ranker("svmmap", C=5.0, solver=Auto(tol=1e-9)).fit(data.X, data.grades, qid=data.qid)
    np.testing.assert_allclose(trained.predict(queries), sorted_rows.predict(queries), atol=1e-4)


def test_fusions_score_in_the_order_of_the_queries(queries, data):
    expected = {}
    for query in np.unique(data.qid).tolist():
        own = data.qid == query
        ranks = np.argsort(np.argsort(-data.X[own], axis=0), axis=0) + 1
        expected |= dict(zip(data.ids[own].tolist(), (1 / (60 + ranks)).sum(axis=1).tolist(), strict=True))
    assert dict(zip(queries.document_ids.tolist(), rrf(queries).tolist(), strict=True)) == pytest.approx(expected)
    found = by_query(evaluate(queries, UnsupervisedFusion("rrf").fit(queries).predict(queries)))
    assert found == pytest.approx(data.ndcg(expected))
    best = BestRun("ndcg@10").fit(queries)
    means = [
        np.mean(list(data.ndcg(dict(zip(data.ids.tolist(), column.tolist(), strict=True))).values()))
        for column in data.X.T
    ]
    assert best.means_.tolist() == pytest.approx(means)
    fusion = Fusion("percentile", Cs=[1.0]).fit(queries, queries)
    run = fusion.run(queries)
    scores = dict(zip(run.document_ids.tolist(), run.scores.tolist(), strict=True))
    assert by_query(evaluate(queries, fusion.predict(queries))) == pytest.approx(data.ndcg(scores))


def test_a_report_shows_the_documents_of_each_query(queries, data, tmp_path):
    systems = {"bm25": queries.X[:, 0], "learned": data.ranker}
    facts = write_report(tmp_path / "report.html", queries, systems, ["ndcg@10"], k=N_DOCUMENTS)
    means = {one.system: one.mean for one in facts.means}
    for name, scores in (("bm25", data.bm25), ("learned", data.scores)):
        assert means[name] == pytest.approx(np.mean(list(data.ndcg(scores).values())))
    (contest,) = facts.contests
    learned, bm25 = data.ranked(data.scores), data.ranked(data.bm25)
    assert contest.won
    for duel in (*contest.won, *contest.lost):
        assert [place.document for place in duel.documents] == learned[duel.query]
        assert [place.document for place in duel.other_documents] == bm25[duel.query]


def test_rows_without_ids_are_called_by_their_place_in_the_source(data):
    rows = data.shuffled
    queries = Queries.from_arrays(data.X[rows], data.grades[rows], qid=data.qid[rows])
    run = Run.from_scores(queries, data.ranker.predict(queries)).ranked()
    names = data.ids[rows][run.document_ids.astype(int)]
    assert names.tolist() == [one for q in run.topics.tolist() for one in data.ranked(data.scores)[q]]
    with pytest.raises(DataError, match="no document_ids"):
        data.ranker.rank(queries, ids=True)
    with pytest.raises(DataError, match="rows of an array have none"):
        data.ranker.rank(data.X, qid=data.qid, ids=True)


@pytest.fixture
def run(data, tmp_path, monkeypatch):
    """A folder with a model and shuffled data, and the command line in it."""
    monkeypatch.chdir(tmp_path)
    data.ranker.save("model.marginrank")
    (tmp_path / "data.txt").write_text("".join(letor_lines(data)))
    parquet.write_table(pa.table(data.columns()), "data.parquet")
    bm25 = data.X[data.shuffled, 0].tolist()
    (tmp_path / "bm25.txt").write_text("".join(f"{score!r}\n" for score in bm25))

    def call(*words):
        done = CliRunner().invoke(app, [str(word) for word in words], catch_exceptions=False)
        assert done.exit_code == 0, done.stderr
        return done.stdout

    return call


FILES = {"text": ("data.txt", "--regroup", "--dtype", "float64"), "parquet": ("data.parquet",)}


@pytest.mark.parametrize("file", FILES.values(), ids=list(FILES))
def test_the_command_line_keeps_the_order_of_the_file(run, data, file):
    name, *options = file
    lines = run("rank", "model.marginrank", name, *options).splitlines()
    expected = [data.scores[one] for one in data.ids[data.shuffled].tolist()]
    assert [float(line) for line in lines] == pytest.approx(expected)
    assert json.loads(run("rank", "model.marginrank", name, *options, "--json"))["scores"] == pytest.approx(expected)
    ranking = json.loads(run("rank", "model.marginrank", name, *options, "--k", 100, "--json"))["ranking"]
    for query, documents in data.ranked(data.scores).items():
        assert [row["document"] for row in ranking if row["query"] == query] == documents
    run("rank", "model.marginrank", name, *options, "-o", "out.run")
    run("rank", "model.marginrank", name, *options, "-o", "scores.txt")
    systems = ("model.marginrank", "bm25.txt", "out.run", "scores.txt")
    found = json.loads(run("evaluate", name, *systems, *options, "--per-query", "--json"))["systems"]
    for system, scores in (("model", data.scores), ("bm25", data.bm25), ("out", data.scores), ("scores", data.scores)):
        assert found[system]["per_query"]["ndcg@10"] == pytest.approx(data.ndcg(scores))
    facts = json.loads(run("report", name, *systems, *options, "-m", "ndcg@10", "--json", "--baseline", "bm25"))
    won = next(one for one in facts["contests"] if one["system"] == "model")["won"]
    for duel in won:
        assert [place["document"] for place in duel["documents"]] == data.ranked(data.scores)[duel["query"]]
        assert [place["document"] for place in duel["other_documents"]] == data.ranked(data.bm25)[duel["query"]]
