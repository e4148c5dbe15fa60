"""
Hybrid search inside SQLite
===========================

SQLite finds documents by their words (FTS5, BM25) and by their vectors. Judged queries teach how much to trust each,
the learned weights go back into the database as SQL, and the gain is measured there, by SQL.
"""

import re
import sqlite3

import numpy as np
from sklearn.decomposition import TruncatedSVD
from sklearn.feature_extraction.text import TfidfVectorizer
from sklearn.preprocessing import normalize

from marginrank import Fusion, Queries, evaluate
from marginrank.datasets import pydocs
from marginrank.datasets.docstrings import read_pages

# %%
# Documents are the docstrings of NumPy, SciPy and scikit-learn; queries describe what they are about. Vectors are made
# by latent semantic analysis; any embedding model would do.
docs = pydocs()
pages = read_pages(["numpy", "scipy", "sklearn"]).documents
names = list(pages)
titles = [f"{name.replace('.', ' ').replace('_', ' ')} {page.summary}" for name, page in pages.items()]
texts = [page.text for page in pages.values()]
queries = list(docs.train.query_ids[:150]) + list(docs.test.query_ids[:150])
tfidf = TfidfVectorizer(sublinear_tf=True)
lsa = TruncatedSVD(150, random_state=0)
vectors = normalize(lsa.fit_transform(tfidf.fit_transform(texts)))
query_vectors = normalize(lsa.transform(tfidf.transform([docs.texts[query] for query in queries])))

# %%
# The database: full text, vectors, and a function for their cosine, as extensions such as sqlite-vec have one.
db = sqlite3.connect(":memory:")
db.create_function("cosine", 2, lambda a, b: float(np.frombuffer(a) @ np.frombuffer(b)), deterministic=True)
db.executescript(
    """
    CREATE VIRTUAL TABLE documents USING fts5(id UNINDEXED, title, body, tokenize = 'porter');
    CREATE TABLE vectors (id TEXT, embedding BLOB);
    CREATE TABLE candidates (query_id TEXT, document_id TEXT, title REAL, body REAL, vector REAL);
    CREATE TABLE judgements (query_id TEXT, document_id TEXT, grade REAL);
    """
)
db.executemany("INSERT INTO documents VALUES (?, ?, ?)", zip(names, titles, texts, strict=True))
db.executemany("INSERT INTO vectors VALUES (?, ?)", ((n, v.tobytes()) for n, v in zip(names, vectors, strict=True)))
for part in (docs.train, docs.test):
    qid = np.repeat(part.query_ids, part.lengths).tolist()
    rows = zip(qid, part.document_ids.tolist(), part.grades.tolist(), strict=True)
    db.executemany("INSERT INTO judgements VALUES (?, ?, ?)", (row for row in rows if row[2] > 0))

# %%
# Three retrievers return 30 documents each: BM25 on titles, BM25 on bodies, and vectors. SQLite's bm25() is lower for
# better documents.
FIND = """
    INSERT INTO candidates
    WITH titles AS (
      SELECT id, -bm25(documents) AS score FROM documents WHERE title MATCH :words ORDER BY score DESC LIMIT 30
    ), bodies AS (
      SELECT id, -bm25(documents) AS score FROM documents WHERE body MATCH :words ORDER BY score DESC LIMIT 30
    ), nearest AS (
      SELECT id, cosine(embedding, :vector) AS score FROM vectors ORDER BY score DESC LIMIT 30
    )
    SELECT :query, id, MAX(title), MAX(body), MAX(vector)
    FROM (
      SELECT id, score AS title, NULL AS body, NULL AS vector FROM titles
      UNION ALL SELECT id, NULL, score, NULL FROM bodies
      UNION ALL SELECT id, NULL, NULL, score FROM nearest
    )
    GROUP BY id
"""
for query, vector in zip(queries, query_vectors, strict=True):
    found = " OR ".join(re.findall(r"[a-z0-9]+", docs.texts[query].lower()))
    db.execute(FIND, {"query": query, "words": found, "vector": vector.tobytes()})

# %%
# Read the candidates of the judged queries, with their grades, and learn the weights.
READ = """
    SELECT candidates.query_id, candidates.document_id, title, body, vector, COALESCE(grade, 0)
    FROM candidates LEFT JOIN judgements USING (query_id, document_id)
    ORDER BY query_id, document_id
"""


RUNS = ["title", "body", "vector"]


def read(chosen):
    """Return the candidates of some queries from the database."""
    rows = [row for row in db.execute(READ) if row[0] in chosen]
    qid, ids, *scores, grades = zip(*rows, strict=True)
    X = np.array(scores, dtype=np.float64).T
    return Queries.from_arrays(X, grades, qid=qid, document_ids=ids, feature_names=RUNS, allow_nan=True)


judged, later = read(set(queries[:150])), read(set(queries[150:]))
fusion = Fusion("minmax").fit(judged)
print(fusion.weights())

# %%
# Bring the weights into the database: one statement that scales, weighs and ranks.
fusion.export("sql(dialect=sqlite)", "hybrid.sql")
with open("hybrid.sql", encoding="utf-8") as file:  # noqa: PTH123
    statement = file.read()
db.execute(f"CREATE TABLE learned AS {statement}")

# %%
# Measure NDCG@10 inside the database, ties counted by their average over all orders.
MEASURE = """
    WITH ranked AS (
      SELECT query_id, POWER(2, COALESCE(grade, 0)) - 1 AS gain,
        RANK() OVER (PARTITION BY query_id ORDER BY {score} DESC) AS place,
        COUNT(*) OVER (PARTITION BY query_id, {score}) AS ties,
        ROW_NUMBER() OVER (PARTITION BY query_id ORDER BY COALESCE(grade, 0) DESC) AS ideal_place
      FROM candidates JOIN learned USING (query_id, document_id) LEFT JOIN judgements USING (query_id, document_id)
    ), summed AS (
      SELECT query_id,
        SUM(gain * (last.total - first.total) / ties) AS dcg, SUM(gain * (i.total - before.total)) AS ideal
      FROM ranked JOIN discounts AS first ON first.place = ranked.place - 1
        JOIN discounts AS last ON last.place = ranked.place + ties - 1
        JOIN discounts AS i ON i.place = ideal_place JOIN discounts AS before ON before.place = ideal_place - 1
      GROUP BY query_id
    )
    SELECT AVG(dcg / ideal) FROM summed WHERE ideal > 0 AND query_id IN (SELECT query_id FROM later)
"""
db.execute("CREATE TABLE discounts (place INTEGER PRIMARY KEY, total REAL)")
discounts = np.cumsum([0.0, *(1 / np.log2(1 + place) if place <= 10 else 0.0 for place in range(1, 100))])
db.executemany("INSERT INTO discounts VALUES (?, ?)", enumerate(discounts.tolist()))
db.execute("CREATE TABLE later (query_id TEXT)")
db.executemany("INSERT INTO later VALUES (?)", ((query,) for query in queries[150:]))
columns = {**{run: f"COALESCE({run}, -1e9)" for run in RUNS}, "learned": "score"}
inside = {name: db.execute(MEASURE.format(score=score)).fetchone()[0] for name, score in columns.items()}

# %%
# Outside the database, marginrank gets the same figures.
missing = {run: np.nan_to_num(later.feature(run), nan=-1e9) for run in RUNS}
systems = {**missing, "learned": fusion.predict(later)}
outside = {name: evaluate(later, scores, "ndcg@10").mean["ndcg@10"] for name, scores in systems.items()}
for name, value in inside.items():
    print(f"{name:8} NDCG@10 {value:.4f} in SQLite, {outside[name]:.4f} here")
