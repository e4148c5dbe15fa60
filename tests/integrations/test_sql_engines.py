"""Hybrid search in SQLite, DuckDB and PostgreSQL: what is collected, and the learned weights as one statement."""

from __future__ import annotations

import sqlite3
from collections.abc import Iterator
from importlib import import_module
from importlib.metadata import version
from importlib.util import find_spec
from types import ModuleType
from typing import Any

import numpy as np
import pytest
from sklearn.exceptions import NotFittedError

from marginrank import Fusion, Queries, evaluate
from marginrank.data.formats.trec import Run
from marginrank.errors import DataError
from marginrank.integrations import duckdb as in_duckdb
from marginrank.integrations import postgresql, sqlite
from marginrank.preparation.run_features import CONTEXT_KINDS
from marginrank.ranker.selection import Candidate
from tests.export.conftest import Postgres, postgres
from tests.integrations.collection import DIMENSIONS, Collection, K, check_candidates, check_scores, ndcg

__all__ = ["postgres"]


class Engine:
    """A filled database: its module, a connection, the statements of retrievers and the parameters of queries."""

    def __init__(self, module: ModuleType, db: Any, retrievers: dict[str, str], queries: dict[str, Any]) -> None:
        self.module, self.db, self.retrievers, self.queries = module, db, retrievers, queries

    def collect(self, collection: Collection) -> Queries:
        return self.module.collect(self.db, self.queries, self.retrievers, collection.qrels)

    def search(self, fusion: Fusion, query: str) -> list[tuple[str, float]]:
        statement = self.module.statement(fusion, self.retrievers)
        return self.db.execute(statement, self.queries[query]).fetchall()


@pytest.fixture(scope="module")
def collection() -> Collection:
    return Collection()


def in_sqlite(collection: Collection) -> Engine:
    db = sqlite3.connect(":memory:")
    db.create_function("cosine", 2, lambda a, b: float(np.frombuffer(a) @ np.frombuffer(b)), deterministic=True)
    db.execute("CREATE VIRTUAL TABLE pages USING fts5(id UNINDEXED, body)")
    db.execute("CREATE TABLE vectors (id TEXT, embedding BLOB)")
    db.executemany("INSERT INTO pages VALUES (?, ?)", zip(collection.ids, collection.texts, strict=True))
    stored = [vector.astype(np.float64).tobytes() for vector in collection.vectors]
    db.executemany("INSERT INTO vectors VALUES (?, ?)", zip(collection.ids, stored, strict=True))
    retrievers = {
        "words": f"SELECT id, -bm25(pages) FROM pages WHERE pages MATCH :words ORDER BY rank, id LIMIT {K};",
        "vector": f"SELECT id, cosine(embedding, :vector) AS s FROM vectors ORDER BY s DESC LIMIT {K}",
    }
    queries = {
        query: {"words": sqlite.match_any(text), "vector": vector.astype(np.float64).tobytes()}
        for query, text, vector in asked(collection)
    }
    return Engine(sqlite, db, retrievers, queries)


def asked(collection: Collection) -> Iterator[tuple[str, str, np.ndarray]]:
    return zip(collection.query_ids, collection.query_texts, collection.query_vectors, strict=True)


def in_duck(collection: Collection) -> Engine:
    duckdb = pytest.importorskip("duckdb")
    if find_spec("duckdb_extensions") and version("duckdb-extensions") == duckdb.__version__:
        import_module("duckdb_extensions").import_extension("fts")
    db = duckdb.connect()
    try:
        db.execute("INSTALL fts; LOAD fts")
    except duckdb.Error:
        pytest.skip("DuckDB's extension fts cannot be downloaded; pip install duckdb-extension-fts")
    db.execute(f"CREATE TABLE pages (id VARCHAR, body VARCHAR, embedding FLOAT[{DIMENSIONS}])")
    rows = zip(collection.ids, collection.texts, collection.vectors.tolist(), strict=True)
    db.executemany("INSERT INTO pages VALUES (?, ?, ?)", list(map(list, rows)))
    db.execute(
        "PRAGMA create_fts_index('pages', 'id', 'body', stemmer = 'none', stopwords = 'none', ignore = '[^a-z0-9]+')"
    )
    found = "SELECT id, fts_main_pages.match_bm25(id, $words) AS score FROM pages"
    cosine = f"array_cosine_similarity(embedding, $vector::FLOAT[{DIMENSIONS}])"
    retrievers = {
        "words": f"SELECT * FROM ({found}) WHERE score IS NOT NULL ORDER BY score DESC, id LIMIT {K}",
        "vector": f"SELECT id, {cosine} AS score FROM pages ORDER BY score DESC LIMIT {K}",
    }
    queries = {query: {"words": text, "vector": vector.tolist()} for query, text, vector in asked(collection)}
    return Engine(in_duckdb, db, retrievers, queries)


def in_postgres(collection: Collection, server: Postgres) -> Engine:
    psycopg = pytest.importorskip("psycopg")
    db = psycopg.connect(host=str(server.folder), user="tests", dbname="postgres")
    product = " + ".join(f"a[{at}] * b[{at}]" for at in range(1, DIMENSIONS + 1))
    db.execute("CREATE SCHEMA engine")
    db.execute("SET search_path TO engine")
    db.execute(f"CREATE FUNCTION cosine(a float8[], b float8[]) RETURNS float8 LANGUAGE sql AS 'SELECT {product}'")
    db.execute("CREATE TABLE pages (id text, words tsvector, embedding float8[])")
    with db.cursor() as cursor:
        rows = list(zip(collection.ids, collection.texts, collection.vectors.tolist(), strict=True))
        cursor.executemany("INSERT INTO pages VALUES (%s, to_tsvector('simple', %s), %s)", rows)
    wanted = "to_tsquery('simple', %(words)s)"
    retrievers = {
        "words": f"SELECT id, ts_rank_cd(words, {wanted}) AS score FROM pages WHERE words @@ {wanted} "
        f"ORDER BY score DESC, id LIMIT {K}",
        "vector": f"SELECT id, cosine(embedding, %(vector)s) AS score FROM pages ORDER BY score DESC LIMIT {K}",
    }
    queries = {
        query: {"words": postgresql.match_any(text), "vector": vector.tolist()}
        for query, text, vector in asked(collection)
    }
    return Engine(postgresql, db, retrievers, queries)


@pytest.fixture(params=["sqlite", "duckdb", "postgresql"])
def engine(request: pytest.FixtureRequest, collection: Collection) -> Iterator[Engine]:
    if request.param == "postgresql":
        made = in_postgres(collection, request.getfixturevalue("postgres"))
    else:
        made = {"sqlite": in_sqlite, "duckdb": in_duck}[request.param](collection)
    yield made
    made.db.close()


def test_the_weights_give_the_same_figures_in_the_database(engine: Engine, collection: Collection) -> None:
    found = engine.collect(collection)
    check_candidates(found, collection)
    judged, later = found[:40], found[40:]
    for fusion in (
        Fusion("minmax", Cs=[1.0, 10.0]),
        Fusion("rrf", Cs=[10.0]),
        Fusion("minmax", adaptive=True, Cs=[1.0]),
    ):
        fusion.fit(judged)
        inside = {query: dict(engine.search(fusion, query)) for query in collection.query_ids[40:]}
        check_scores(fusion, later, inside, collection)
    best = engine.search(fusion, "q41")
    assert best == sorted(best, key=lambda hit: (-hit[1], hit[0]))
    page = engine.db.execute(engine.module.statement(fusion, engine.retrievers) + " LIMIT 10", engine.queries["q41"])
    assert page.fetchall() == best[:10]
    single = {query: collection.nearest(40 + at) for at, query in enumerate(collection.query_ids[40:])}
    assert ndcg(collection, inside) > ndcg(collection, single)


def test_all_contexts_are_computed_in_the_database(
    engine: Engine, collection: Collection, monkeypatch: pytest.MonkeyPatch
) -> None:
    # Weights that depend on the query, whether or not that is better.
    monkeypatch.setattr(Candidate, "clearly_better", lambda *_: True)
    found = engine.collect(collection)
    fusion = Fusion("minmax", adaptive=True, context=CONTEXT_KINDS, Cs=[10.0]).fit(found[:40])
    assert fusion.kinds_ == "minmax+best+gap+peak+overlap+count"
    inside = {query: dict(engine.search(fusion, query)) for query in collection.query_ids[40:]}
    check_scores(fusion, found[40:], inside, collection)


def test_a_query_that_words_do_not_match_has_the_documents_of_the_others(collection: Collection) -> None:
    engine = in_sqlite(collection)
    queries = {"odd": engine.queries["q0"] | {"words": sqlite.match_any("?!")}, "q0": engine.queries["q0"]}
    found = sqlite.collect(engine.db, queries, engine.retrievers)
    assert np.isnan(found[0].X[:, 0]).all()
    assert set(found[0].document_ids.tolist()) == set(collection.nearest(0))
    assert not np.isnan(found[1].X[:, 0]).all()


def test_judged_queries_without_candidates_are_told(collection: Collection) -> None:
    engine = in_sqlite(collection)
    queries = {"odd": {"words": sqlite.match_any("?!")}, **engine.queries}
    words, judgements = {"words": engine.retrievers["words"]}, {"odd": {"a": 1}, **collection.qrels}
    with pytest.warns(UserWarning, match="no retriever returned a document for 1 of 61 judged queries, such as 'odd';"):
        found = sqlite.collect(engine.db, queries, words, judgements)
    assert found.query_ids.tolist() == collection.query_ids
    run = Run.from_scores(found, found.X[:, 0])
    both = [evaluate(judgements, run, "ndcg@10", missing_topics="zero"), evaluate(collection.qrels, run, "ndcg@10")]
    assert both[0].mean["ndcg@10"] == pytest.approx(both[1].mean["ndcg@10"] * 60 / 61)


def test_a_fusion_that_is_not_trained_is_refused() -> None:
    with pytest.raises(NotFittedError, match="This Fusion instance is not fitted yet"):
        sqlite.statement(Fusion(), {"words": "SELECT 'a', 1.0"})


@pytest.mark.parametrize(
    ("select", "message"),
    [
        ("SELECT id FROM vectors", "retriever 'words', query 'q0': a row has 1 column; select id and score"),
        ("SELECT 'a', NULL", "retriever 'words', query 'q0': document 'a' has no score"),
        ("SELECT 'a', 1.0 UNION ALL SELECT 'a', 2.0", "retriever 'words', query 'q0': document 'a' appears twice"),
        ("SELECT NULL, 1.0", "retriever 'words', query 'q0': a document has no id; leave it out"),
        ("SELECT 'a', 'high'", "retriever 'words', query 'q0': the score of document 'a' is 'high'; return a number"),
        ("SELECT 'a', 1.0 WHERE 0", "no run returned a document"),
    ],
)
def test_rows_of_another_form_are_refused(collection: Collection, select: str, message: str) -> None:
    engine = in_sqlite(collection)
    with pytest.raises(DataError, match=message):
        sqlite.collect(engine.db, {"q0": engine.queries["q0"]}, {"words": select})


def test_statements_of_other_retrievers_are_refused(collection: Collection) -> None:
    engine = in_sqlite(collection)
    fusion = Fusion("minmax", Cs=[1.0]).fit(engine.collect(collection))
    with pytest.raises(DataError, match="combines words, vector, and the retrievers are words; give the same ones"):
        sqlite.statement(fusion, {"words": engine.retrievers["words"]})
    turned = dict(reversed(engine.retrievers.items()))
    values = engine.queries["q3"]
    assert engine.db.execute(sqlite.statement(fusion, turned), values).fetchall() == engine.search(fusion, "q3")


def test_retrievers_have_any_name(engine: Engine, collection: Collection) -> None:
    names = {"words": 'words, 100% "BM25" (:a $b)', "vector": "nearest?"}
    engine.retrievers = {names[name]: select for name, select in engine.retrievers.items()}
    found = engine.collect(collection)
    fusion = Fusion("minmax", Cs=[1.0]).fit(found)
    check_scores(fusion, found[40:], {q: dict(engine.search(fusion, q)) for q in collection.query_ids[40:]}, collection)


def test_duckdb_gets_the_parameters_that_a_statement_has() -> None:
    duckdb = pytest.importorskip("duckdb")
    retrievers = {"a": "SELECT 'd', $x::DOUBLE", "b": "SELECT 'e', $y::DOUBLE"}
    with duckdb.connect() as db:
        found = in_duckdb.collect(db, {"q": {"x": 1.0, "y": 2.0}}, retrievers)
        np.testing.assert_array_equal(found.X, [[1.0, np.nan], [np.nan, 2.0]])
        with pytest.raises(duckdb.InvalidInputException, match="y"):
            in_duckdb.collect(db, {"q": {"x": 1.0}}, retrievers)
