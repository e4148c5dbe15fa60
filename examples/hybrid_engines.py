"""
Learned weights in search engines
=================================

The same collection in SQLite, PostgreSQL, DuckDB, tantivy, LanceDB and Qdrant, whichever are there: collect candidates
with the scores of all retrievers, learn the weights from 150 judged queries, rank by them in the engine, and compare
with its RRF. The collection can be a folder of BEIR: ``BEIR=scifact python hybrid_engines.py``.
"""

import os
import sqlite3
import tempfile
from importlib import import_module
from importlib.metadata import version
from importlib.util import find_spec

import numpy as np
from sklearn.decomposition import TruncatedSVD
from sklearn.feature_extraction.text import CountVectorizer, TfidfVectorizer
from sklearn.preprocessing import normalize

from marginrank import Fusion, evaluate
from marginrank.datasets import pydocs
from marginrank.datasets.docstrings import read_pages
from marginrank.fusion import UnsupervisedFusion
from marginrank.integrations import sqlite
from marginrank.integrations.beir import read_beir
from marginrank.integrations.words import words_of

# %%
# Documents are those of BEIR, or the docstrings of NumPy, SciPy and scikit-learn; vectors are made by latent semantic
# analysis. Each retriever returns 30 documents.
K, N_TRAIN, N_TEST, DIMENSIONS = 30, 150, 300, 150
qrels, asked, parts = {}, [], {}
if "BEIR" in os.environ:
    for split, n in (("train", N_TRAIN), ("test", N_TEST)):
        collection = read_beir(os.environ["BEIR"], split)
        judged = collection.qrels.to_dict()
        parts[split] = list(judged)[:n]
        qrels |= {f"{split} {query}": judged[query] for query in parts[split]}
        asked += [collection.queries[query] for query in parts[split]]
    names, texts = list(collection.documents), list(collection.documents.values())
else:
    docs = pydocs()
    pages = read_pages(["numpy", "scipy", "sklearn"]).documents
    names, texts = list(pages), [page.text for page in pages.values()]
    for split, queries, n in (("train", docs.train, N_TRAIN), ("test", docs.test, N_TEST)):
        parts[split] = list(queries.query_ids[:n])
        for number, query in enumerate(parts[split]):
            one = queries[number]
            qrels[f"{split} {query}"] = dict(
                zip(one.document_ids[one.grades > 0], one.grades[one.grades > 0], strict=True)
            )
            asked.append(docs.texts[query])
train, test = ([f"{split} {query}" for query in parts[split]] for split in ("train", "test"))
tfidf = TfidfVectorizer(sublinear_tf=True)
lsa = TruncatedSVD(DIMENSIONS, random_state=0)
vectors = normalize(lsa.fit_transform(tfidf.fit_transform(texts))).astype(np.float32)
query_vectors = normalize(lsa.transform(tfidf.transform(asked))).astype(np.float32)

# %%
# NDCG@10 of a ranking that is given by the scores of documents, as an engine returns them, or by a system here.
figures = {}


def ndcg(run):
    """Return NDCG@10 of the test queries."""
    return evaluate({query: qrels[query] for query in test}, run, "ndcg@10").mean["ndcg@10"]


def report(engine, fusion, candidates, inside, rrf=None):
    """Print NDCG@10 of the learned weights in the engine and here, and of RRF."""
    later = candidates[len(train) :]
    rrf = UnsupervisedFusion("rrf").predict(later) if rrf is None else rrf
    by_rrf = ndcg(rrf if isinstance(rrf, dict) else by_query(later, rrf))
    figures[engine] = {"inside": ndcg(inside), "here": ndcg(by_query(later, fusion.predict(later))), "rrf": by_rrf}
    print(f"{engine:10} " + "  ".join(f"{name} {value:.4f}" for name, value in figures[engine].items()))


def by_query(queries, scores):
    """Return scores as ``{query: {document: score}}``."""
    run = {query: {} for query in queries.query_ids.tolist()}
    qid = np.repeat(queries.query_ids, queries.lengths).tolist()
    for query, name, score in zip(qid, queries.document_ids.tolist(), scores.tolist(), strict=True):
        run[query][name] = score
    return run


# %%
# SQLite: retrievers are SELECT statements. The learned weights become one statement that runs them and ranks.
db = sqlite3.connect(":memory:")
db.create_function("cosine", 2, lambda a, b: float(np.frombuffer(a, "f4") @ np.frombuffer(b, "f4")), deterministic=True)
db.execute("CREATE VIRTUAL TABLE pages USING fts5(id UNINDEXED, body, tokenize = 'porter')")
db.execute("CREATE TABLE vectors (id TEXT, embedding BLOB)")
db.executemany("INSERT INTO pages VALUES (?, ?)", zip(names, texts, strict=True))
db.executemany("INSERT INTO vectors VALUES (?, ?)", ((n, v.tobytes()) for n, v in zip(names, vectors, strict=True)))
retrievers = {
    "words": f"SELECT id, -bm25(pages) FROM pages WHERE pages MATCH :words ORDER BY rank LIMIT {K}",
    "vector": f"SELECT id, cosine(embedding, :vector) AS score FROM vectors ORDER BY score DESC LIMIT {K}",
}
queries = {
    query: {"words": sqlite.match_any(text), "vector": vector.tobytes()}
    for query, text, vector in zip(train + test, asked, query_vectors, strict=True)
}
candidates = sqlite.collect(db, queries, retrievers, qrels)
fusion = Fusion().fit(candidates[: len(train)])
print(fusion.weights())
search = sqlite.statement(fusion, retrievers)
report("SQLite", fusion, candidates, {query: dict(db.execute(search, queries[query]).fetchall()) for query in test})

# %%
# PostgreSQL, where the variables of its client name a server (PGHOST and the like). Vectors are arrays here, of which
# 24 components are compared; with the extension pgvector, write ``embedding <=> %(vector)s``.
if find_spec("psycopg") and "PGHOST" in os.environ:
    import psycopg

    from marginrank.integrations import postgresql

    short, short_queries = vectors[:, :24].tolist(), query_vectors[:, :24].tolist()
    product = " + ".join(f"a[{at}] * b[{at}]" for at in range(1, 25))
    db = psycopg.connect()
    db.execute("CREATE TEMPORARY TABLE pages (id text, words tsvector, embedding float8[])")
    db.execute(f"CREATE FUNCTION pg_temp.dot(a float8[], b float8[]) RETURNS float8 LANGUAGE sql AS 'SELECT {product}'")
    with db.cursor() as cursor:
        rows = list(zip(names, texts, short, strict=True))
        cursor.executemany("INSERT INTO pages VALUES (%s, to_tsvector('english', %s), %s)", rows)
    db.execute("CREATE INDEX ON pages USING gin (words)")
    wanted = "to_tsquery('english', %(words)s)"
    retrievers = {
        "words": f"SELECT id, ts_rank(words, {wanted}, 1) AS score FROM pages WHERE words @@ {wanted} "
        f"ORDER BY score DESC, id LIMIT {K}",
        "vector": "SELECT id, pg_temp.dot(embedding, %(vector)s) AS score FROM pages "
        f"ORDER BY score DESC, id LIMIT {K}",
    }
    queries = {
        query: {"words": postgresql.match_any(text), "vector": vector}
        for query, text, vector in zip(train + test, asked, short_queries, strict=True)
    }
    candidates = postgresql.collect(db, queries, retrievers, qrels)
    fusion = Fusion().fit(candidates[: len(train)])
    search = postgresql.statement(fusion, retrievers)
    inside = {query: dict(db.execute(search, queries[query]).fetchall()) for query in test}
    report("PostgreSQL", fusion, candidates, inside)
    db.close()


# %%
# DuckDB, where its extension for full text can be loaded.
def duckdb_with_full_text():
    """Return a connection, or None where the extension is neither here nor can be downloaded."""
    # pip install duckdb-extensions duckdb-extension-fts, if they exist for this version of DuckDB
    if find_spec("duckdb_extensions") and version("duckdb-extensions") == duckdb.__version__:
        import_module("duckdb_extensions").import_extension("fts")
    connection = duckdb.connect()
    try:
        connection.execute("INSTALL fts; LOAD fts")
    except duckdb.Error as error:
        print("DuckDB     skipped:", str(error).splitlines()[0])
        return None
    return connection


if find_spec("duckdb"):
    import duckdb

    from marginrank.integrations import duckdb as in_duckdb

    db = duckdb_with_full_text()
    if db is not None:
        db.execute(f"CREATE TABLE pages (id VARCHAR, body VARCHAR, embedding FLOAT[{DIMENSIONS}])")
        rows = [list(row) for row in zip(names, texts, vectors.tolist(), strict=True)]
        db.executemany("INSERT INTO pages VALUES (?, ?, ?)", rows)
        db.execute("PRAGMA create_fts_index('pages', 'id', 'body')")
        found = "SELECT id, fts_main_pages.match_bm25(id, $words) AS score FROM pages"
        cosine = f"array_cosine_similarity(embedding, $vector::FLOAT[{DIMENSIONS}])"
        retrievers = {
            "words": f"SELECT * FROM ({found}) WHERE score IS NOT NULL ORDER BY score DESC, id LIMIT {K}",
            "vector": f"SELECT id, {cosine} AS score FROM pages ORDER BY score DESC, id LIMIT {K}",
        }
        queries = {
            query: {"words": text, "vector": vector.tolist()}
            for query, text, vector in zip(train + test, asked, query_vectors, strict=True)
        }
        candidates = in_duckdb.collect(db, queries, retrievers, qrels)
        fusion = Fusion().fit(candidates[: len(train)])
        search = in_duckdb.statement(fusion, retrievers)
        inside = {query: dict(db.execute(search, queries[query]).fetchall()) for query in test}
        report("DuckDB", fusion, candidates, inside)

# %%
# tantivy finds words; vectors come from elsewhere, here from NumPy. Its hits are rescored.
if find_spec("tantivy"):
    import tantivy as engine

    from marginrank.integrations import tantivy

    schema = engine.SchemaBuilder().add_text_field("id", stored=True, tokenizer_name="raw")
    index = engine.Index(schema.add_text_field("body", tokenizer_name="en_stem").build())
    writer = index.writer()
    for name, text in zip(names, texts, strict=True):
        writer.add_document(engine.Document(id=name, body=text))
    writer.commit()
    index.reload()

    def nearest(vector):
        """Return the documents with the largest cosines."""
        cosines = vectors @ vector
        return [(names[at], float(cosines[at])) for at in np.argsort(-cosines)[:K]]

    retrievers = {"words": tantivy.field_retriever(index, "body", k=K), "vector": nearest}
    queries = {
        query: {"words": text, "vector": vector}
        for query, text, vector in zip(train + test, asked, query_vectors, strict=True)
    }
    candidates = tantivy.collect(queries, retrievers, qrels)
    fusion = Fusion().fit(candidates[: len(train)])
    inside = {query: dict(tantivy.search(fusion, queries[query], retrievers)) for query in test}
    report("tantivy", fusion, candidates, inside)

# %%
# LanceDB has hybrid search and rerankers; the fusion is one.
if find_spec("lancedb"):
    import lancedb as engine
    from lancedb.index import FTS
    from lancedb.rerankers import RRFReranker

    from marginrank.integrations import lancedb

    rows = [{"id": n, "body": t, "vector": v.tolist()} for n, t, v in zip(names, texts, vectors, strict=True)]
    folder = tempfile.TemporaryDirectory()
    table = engine.connect(folder.name).create_table("pages", rows)
    table.create_index("body", config=FTS())
    queries = {
        query: (" ".join(words_of(text)), vector)
        for query, text, vector in zip(train + test, asked, query_vectors, strict=True)
    }

    def hybrid(query, reranker):
        """Search in LanceDB."""
        text, vector = queries[query]
        found = table.search(query_type="hybrid").text(text).vector(vector).limit(K).rerank(reranker).to_list()
        return {row["id"]: row["_relevance_score"] for row in found}

    candidates = lancedb.collect(table, queries, qrels, k=K)
    fusion = Fusion().fit(candidates[: len(train)])
    reranker = lancedb.FusionReranker(fusion)
    inside = {query: hybrid(query, reranker) for query in test}
    report("LanceDB", fusion, candidates, inside, {query: hybrid(query, RRFReranker()) for query in test})
    folder.cleanup()

# %%
# Qdrant ranks sparse and dense vectors; the weights become a formula over the reciprocal ranks of both.
if find_spec("qdrant_client"):
    from qdrant_client import QdrantClient, models

    from marginrank.integrations import qdrant

    client = QdrantClient(":memory:")
    client.create_collection(
        "pages",
        vectors_config={"vector": models.VectorParams(size=vectors.shape[1], distance=models.Distance.COSINE)},
        sparse_vectors_config={"words": models.SparseVectorParams(modifier=models.Modifier.IDF)},
    )
    counts = CountVectorizer()
    lengths = np.asarray(counts.fit_transform(texts).sum(axis=1)).ravel()

    def sparse(text, length=None):
        """Return the part of BM25 that depends on one document; Qdrant multiplies by IDF. Queries have ones."""
        row = counts.transform([text])
        found = row.data.astype(float)
        scale = 1.2 * (0.25 + 0.75 * length / lengths.mean()) if length is not None else 0.0
        return models.SparseVector(indices=row.indices.tolist(), values=(found / (found + scale)).tolist())

    points = [
        models.PointStruct(id=at, vector={"words": sparse(text, lengths[at]), "vector": vectors[at].tolist()})
        for at, text in enumerate(texts)
    ]
    client.upsert("pages", [point for point in points if point.vector["words"].indices])
    ids = {name: str(at) for at, name in enumerate(names)}
    qrels = {
        query: {ids[name]: grade for name, grade in grades.items() if name in ids} for query, grades in qrels.items()
    }
    queries = {
        query: {"words": sparse(text), "vector": vector.tolist()}
        for query, text, vector in zip(train + test, asked, query_vectors, strict=True)
    }

    def ranked(arguments):
        """Search in Qdrant."""
        return {str(point.id): point.score for point in client.query_points("pages", limit=2 * K, **arguments).points}

    candidates = qdrant.collect(client, "pages", queries, qrels, k=K)
    fusion = Fusion("rrf").fit(candidates[: len(train)])
    own = {
        query: ranked(
            {
                "prefetch": [
                    models.Prefetch(query=vector, using=run, limit=K) for run, vector in queries[query].items()
                ],
                "query": models.RrfQuery(rrf=models.Rrf(k=61)),
            }
        )
        for query in test
    }
    inside = {query: ranked(qdrant.hybrid_query(fusion, queries[query], k=K)) for query in test}
    report("Qdrant", fusion, candidates, inside, own)
