"""Hybrid search end to end in one database: the gain of learned weights is the same there as here."""

from __future__ import annotations

import runpy
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from marginrank import Fusion, Queries, evaluate
from tests.export.conftest import Postgres

EXAMPLE = Path(__file__).parents[2] / "examples" / "hybrid_in_sqlite.py"
#: Few queries, short vectors and a share of the documents, as PostgreSQL without pgvector compares arrays.
N, DIMENSIONS, SHARE = 50, 24, 8
RUNS = ["text", "vector"]


@pytest.fixture(scope="module")
def example(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Any]:
    """Run the example with half the queries and half the dimensions, which is all that takes long."""
    source = EXAMPLE.read_text(encoding="utf-8")
    assert source.count("150") == 6
    script = tmp_path_factory.mktemp("hybrid") / EXAMPLE.name
    script.write_text(source.replace("150", "75"), encoding="utf-8")
    with pytest.MonkeyPatch.context() as patch:
        patch.chdir(script.parent)
        return runpy.run_path(str(script))


@pytest.mark.slow
def test_sqlite_reproduces_the_gain(example: dict[str, Any]) -> None:
    inside, outside = example["inside"], example["outside"]
    assert inside == pytest.approx(outside, abs=1e-9)
    assert inside["learned"] > max(value for name, value in inside.items() if name != "learned") + 0.01


def quoted(text: str) -> str:
    return "'" + text.replace("'", "''") + "'"


def array(vector: np.ndarray) -> str:
    return f"ARRAY[{','.join(map(repr, vector.tolist()))}]::float8[]"


def fill(postgres: Postgres, example: dict[str, Any], queries: list[str], vectors: np.ndarray) -> None:
    """Make documents, judgements and the candidates of both retrievers inside PostgreSQL."""
    short = example["vectors"][:, :DIMENSIONS]
    short = short / np.maximum(np.linalg.norm(short, axis=1, keepdims=True), 1e-9)
    bodies = [f"{title} {text}" for title, text in zip(example["titles"], example["texts"], strict=True)]
    judged = example["db"].execute("SELECT * FROM judgements").fetchall()
    asked = set(queries)
    relevant = {name for query, name, _ in judged if query in asked}
    rows = ",\n".join(
        f"({quoted(name)}, {quoted(body)}, {array(vector)})"
        for place, (name, body, vector) in enumerate(zip(example["names"], bodies, short, strict=True))
        if name in relevant or place % SHARE == 0
    )
    grades = ",\n".join(f"({quoted(query)}, {quoted(name)}, {grade})" for query, name, grade in judged)
    product = " + ".join(f"a[{at}] * b[{at}]" for at in range(1, DIMENSIONS + 1))  # a sum over unnest takes much longer
    script = f"""
CREATE FUNCTION distance(a float8[], b float8[]) RETURNS float8 LANGUAGE sql IMMUTABLE AS 'SELECT 1 - ({product})';
CREATE OPERATOR <=> (LEFTARG = float8[], RIGHTARG = float8[], FUNCTION = distance);
CREATE TABLE documents (id text, body text, embedding float8[], words tsvector);
INSERT INTO documents (id, body, embedding) VALUES {rows};
UPDATE documents SET words = to_tsvector('english', body);
CREATE TABLE judgements (query_id text, document_id text, grade float8);
INSERT INTO judgements VALUES {grades};
CREATE TABLE candidates (query_id text, document_id text, text float8, vector float8);
PREPARE find(text, text, float8[]) AS INSERT INTO candidates
WITH words AS (
  SELECT id, ts_rank_cd(words, to_tsquery('english', $2), 1)::float8 AS score FROM documents
  WHERE words @@ to_tsquery('english', $2) ORDER BY score DESC, id LIMIT 30
), nearest AS (SELECT id, 1 - (embedding <=> $3) AS score FROM documents ORDER BY score DESC, id LIMIT 30)
SELECT $1, COALESCE(words.id, nearest.id), words.score, nearest.score FROM words FULL JOIN nearest USING (id);
"""
    for query, vector in zip(queries, vectors, strict=True):
        words = " | ".join(dict.fromkeys(word for word in example["docs"].texts[query].split() if word.isalnum()))
        own = vector[:DIMENSIONS] / max(np.linalg.norm(vector[:DIMENSIONS]), 1e-9)
        script += f"EXECUTE find({quoted(query)}, {quoted(words)}, {array(own)});\n"
    postgres.run(f"CREATE SCHEMA search; SET search_path TO search, public;\n{script}")


def read(postgres: Postgres, queries: list[str]) -> Queries:
    rows = postgres.run(
        "SET search_path TO search; SELECT c.query_id, c.document_id, COALESCE(text, 'nan'), COALESCE(vector, 'nan'), "
        "COALESCE(grade, 0) FROM candidates c LEFT JOIN judgements USING (query_id, document_id) ORDER BY 1, 2;"
    )
    chosen = set(queries)
    qid, ids, *columns = zip(*(row for row in rows if row[0] in chosen), strict=True)
    text, vector, grades = (np.array(column, dtype=np.float64) for column in columns)
    X = np.column_stack([text, vector])
    return Queries.from_arrays(X, grades, qid=qid, document_ids=ids, feature_names=RUNS, allow_nan=True)


@pytest.mark.slow
def test_postgresql_reproduces_the_gain(example: dict[str, Any], postgres: Postgres, tmp_path: Path) -> None:
    half = len(example["queries"]) // 2
    places = [*range(N), *range(half, half + N)]
    queries = [example["queries"][place] for place in places]
    fill(postgres, example, queries, example["query_vectors"][places])
    judged, later = read(postgres, queries[:N]), read(postgres, queries[N:])
    fusion = Fusion("minmax", Cs=[1.0, 10.0, 100.0]).fit(judged)
    fusion.export("sql(dialect=postgresql)", tmp_path / "m.sql")
    discounts = ", ".join(f"({place}, {total!r})" for place, total in enumerate(example["discounts"].tolist()))
    chosen = ", ".join(f"({quoted(query)})" for query in queries[N:])
    columns = {**{run: f"COALESCE({run}, -1e9)" for run in RUNS}, "learned": "score"}
    measures = "".join(example["MEASURE"].format(score=score) + ";\n" for score in columns.values())
    figures = postgres.run(
        f"SET search_path TO search; CREATE TABLE learned AS {(tmp_path / 'm.sql').read_text()};\n"
        f"CREATE TABLE discounts (place int, total float8); INSERT INTO discounts VALUES {discounts};\n"
        f"CREATE TABLE later (query_id text); INSERT INTO later VALUES {chosen};\n{measures}"
    )
    inside = {name: float(value) for name, (value,) in zip(columns, figures, strict=True)}
    systems = {run: np.nan_to_num(later.feature(run), nan=-1e9) for run in RUNS} | {"learned": fusion.predict(later)}
    outside = {name: evaluate(later, scores, "ndcg@10").mean["ndcg@10"] for name, scores in systems.items()}
    assert inside == pytest.approx(outside, abs=1e-9)
    assert inside["learned"] > inside["text"]
    assert inside["learned"] > inside["vector"]
