"""Inputs that once gave wrong numbers, crashes or no answer without a word, and what they give now.

    python benchmarks/silent_errors.py [OTHER/src]

Each case runs in a process of its own, with another version of the package beside it if its folder is given. A case
prints one line; a traceback is shown as its last line.
"""

from __future__ import annotations

import os
import subprocess
import sys
import tempfile
import textwrap
from pathlib import Path

#: What all cases begin with: a shop's data, with missing values in a column, and its rows shuffled.
SETUP = """
import io, os, sqlite3, sys, time, warnings
from pathlib import Path
import numpy as np, pandas as pd
warnings.simplefilter("ignore")
from marginrank import Queries, Ranker, compare, evaluate, from_frame, read, tune
rng = np.random.default_rng(0)
n = 2000
X = rng.standard_normal((n, 3)).round(4)
frame = pd.DataFrame(X, columns=["bm25", "dense", "clicks"])
frame["qid"] = np.arange(n) // 20
frame["grade"] = np.digitize(X @ [1.0, 0.5, 0.5] + rng.standard_normal(n), [0.5, 1.5])
shuffled = frame.sample(frac=1, random_state=0)
FEATURES = ["bm25", "dense", "clicks"]
ranker = Ranker("svmmap").fit(frame[FEATURES], frame["grade"], qid=frame["qid"])
def ndcg(*arguments, **named):
    return f"NDCG@10 {evaluate(*arguments, **named).mean['ndcg@10']:.3f}"
def cli(*words):
    import subprocess
    done = subprocess.run([sys.executable, "-m", "marginrank", *words], capture_output=True, text=True)
    return done.returncode, done.stdout, done.stderr
"""

CASES = {
    "shuffled frame, scores of the frame (right: .84)": """
        print(ndcg(from_frame(shuffled), ranker.predict(shuffled[FEATURES])))
    """,
    "shuffled frame, a pandas Series of scores": """
        print(ndcg(from_frame(shuffled), pd.Series(ranker.predict(shuffled[FEATURES]), index=shuffled.index)))
    """,
    "scores with another index than the grades": """
        scores = pd.Series(ranker.predict(frame[FEATURES]), index=frame.index)
        print(ndcg(shuffled["grade"], scores, qid=shuffled["qid"]))
    """,
    "compare with grades and ids": """
        systems = {"learned": ranker.predict(shuffled[FEATURES]), "bm25": shuffled["bm25"]}
        print(f"difference {compare(systems, shuffled['grade'], qid=shuffled['qid']).rows[0].difference:+.3f}")
    """,
    "the index of a Parquet file": """
        frame.sort_values("grade").reset_index(drop=True).sample(frac=1, random_state=0).to_parquet("a.parquet")
        print("features", *read("a.parquet").feature_names)
    """,
    "the index of a CSV file": """
        shuffled.to_csv("a.csv")
        print("features", *read("a.csv").feature_names)
    """,
    "a model that fills missing values with the mean, to Elasticsearch": """
        holes = np.where(rng.random(X.shape) < 0.3, np.nan, X)
        model = Ranker("svmmap", scorer="linear(missing=mean)").fit(holes, frame["grade"], qid=frame["qid"])
        model.export("elasticsearch-ltr", "es.json")
        print("exported without a word")
    """,
    "exported SQL without one of its columns, in SQLite": """
        ranker.export("sql", "model.sql")
        database = sqlite3.connect(":memory:")
        table = frame.drop(columns="clicks").rename(columns={"qid": "query_id"}).reset_index(names="document_id")
        table.to_sql("candidates", database)
        text = Path("model.sql").read_text()
        print(database.execute(text.replace(";", "")).fetchone())
    """,
    "exported Python with an absent feature": """
        ranker.export("python", "exported.py")
        sys.path.insert(0, ".")
        import exported
        print(exported.rank([{"bm25": 1.0, "dense": 2.0}, {"bm25": 3.0, "dense": 2.0}]))
    """,
    "ids a and a-NUL": """
        print(len(Queries.from_arrays(X[:3], qid=["a", "a\\0", "b"])), "queries of 3")
    """,
    "ids -1 and 2^63 + k": """
        print(len(Queries.from_arrays(X[:20], qid=[-1, *(2**63 + k for k in range(19))])), "queries of 20")
    """,
    "ids with NaT": """
        print(len(Queries.from_arrays(X[:3], qid=np.array(["2024-01-01", "NaT", "NaT"], dtype="M8[D]"))), "queries")
    """,
    "a masked grade": """
        print(Queries.from_arrays(X[:2], np.ma.array([1, 2], mask=[False, True]), qid=[1, 1]).grades)
    """,
    "dates as grades": """
        print(Queries.from_arrays(X[:2], np.array(["2024-01-01", "2024-01-02"], dtype="M8[D]"), qid=[1, 1]).grades)
    """,
    "text as grades": """
        print(Queries.from_arrays(X[:2], ["1", "2"], qid=[1, 1]).grades)
    """,
    "scores 2^60 and 2^60 + 1 (right: 1.0)": """
        queries = Queries.from_arrays(X[:2], [0, 1], qid=[1, 1])
        print(evaluate(queries, [2**60, 2**60 + 1], "rr").mean["rr"])
    """,
    "the same document twice in a query": """
        with warnings.catch_warnings(record=True) as caught:
            warnings.simplefilter("always")
            from_frame(frame.assign(document_id=np.arange(n) // 2))
        print(caught[0].message if caught else "no word")
    """,
    "additive scorer on constant features": """
        Ranker(scorer="additive").fit(np.ones((20, 2)), np.arange(20) % 2, qid=np.arange(20) // 5)
        print("trained")
    """,
    "a name with a backslash, for BigQuery": """
        names = ["a\\\\", "b"]
        model = Ranker("svmmap").fit(pd.DataFrame(X[:, :2], columns=names), frame["grade"], qid=frame["qid"])
        model.export("sql(dialect=bigquery)", "a.sql")
        print([line.strip() for line in Path("a.sql").read_text().splitlines() if "`a" in line][:1])
    """,
    "a private file, overwritten": """
        ranker.save("model.safetensors")
        os.chmod("model.safetensors", 0o600)
        ranker.save("model.safetensors")
        print(oct(os.stat("model.safetensors").st_mode & 0o777))
    """,
    "columns of a shop: query, sku, relevance": """
        shop = frame.rename(columns={"qid": "query", "grade": "relevance"}).assign(sku=[f"s{k}" for k in range(n)])
        queries = from_frame(shop)
        print("features", *queries.feature_names, "| documents", queries.document_ids is not None)
    """,
    "tune on 2,000 rows of 2,000 features, for at most two minutes": """
        wide = np.random.default_rng(1).standard_normal((2000, 2000))
        began = time.process_time()
        tune(Ranker("ndcg@10"), wide, frame["grade"], qid=frame["qid"], time_limit=120)
        print(f"{time.process_time() - began:.1f} CPU s")
    """,
}


def run(code: str, source: Path) -> str:
    """Return what a case prints, or the last line of its error."""
    with tempfile.TemporaryDirectory() as folder:
        environment = {**os.environ, "PYTHONPATH": str(source.resolve())}
        words = [sys.executable, "-c", SETUP + textwrap.dedent(code)]
        try:
            done = subprocess.run(
                words, cwd=folder, env=environment, capture_output=True, text=True, timeout=300, check=False
            )
        except subprocess.TimeoutExpired:
            return "no answer in 300 s"
    lines = (done.stdout.strip() or done.stderr.strip() or "nothing").splitlines()
    return (lines[-1] if done.returncode == 0 else f"error: {lines[-1]}")[:230]


def main() -> None:
    """Print the outcome of each case."""
    ours = Path(__file__).parents[1] / "src"
    sources = {"before": Path(sys.argv[1]), "now": ours} if len(sys.argv) > 1 else {"now": ours}
    for case, code in CASES.items():
        print(case)
        for version, source in sources.items():
            print(f"    {version:6}  {run(code, source)}", flush=True)


if __name__ == "__main__":
    main()
