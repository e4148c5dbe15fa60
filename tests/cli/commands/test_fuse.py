"""``marginrank fuse``."""

from __future__ import annotations

import numpy as np
import pandas as pd
import pytest

from marginrank import evaluate, read_qrels, read_run
from marginrank.cli.commands.fuse import _contest
from marginrank.fusion import Fusion, pool_runs, read_runs
from marginrank.ranker.grid_search import DEFAULT_CS

RUNS = ("fuse", "bm25.run", "dense.run", "--qrels", "judged.qrels")


@pytest.mark.slow
def test_the_fused_run_is_what_the_library_makes_and_better_than_its_parts(run, folder):
    done = run(*RUNS, "--kinds", "minmax", "-o", "fused.run", "--model", "fused.safetensors", "--json")
    assert done.code == 0
    assert set(done.json["mean"]) == {"learned", "rrf", "combsum", "combmnz", "borda", "best single run"}
    qrels, fused = read_qrels(folder / "judged.qrels"), read_run(folder / "fused.run")
    value = evaluate(qrels, fused, "ap").mean["ap"]
    assert value > max(evaluate(qrels, read_run(folder / name), "ap").mean["ap"] for name in ("bm25.run", "dense.run"))
    queries = pool_runs(read_runs([folder / "bm25.run", folder / "dense.run"]), qrels)
    again = Fusion.load(folder / "fused.safetensors")
    assert tuple(again.Cs) == DEFAULT_CS
    weights = again.weights()
    assert sum(done.json["weights"].values()) == pytest.approx(1.0)
    assert {name: weight / sum(weights.values()) for name, weight in weights.items()} == pytest.approx(
        done.json["weights"]
    )
    mean = done.json["mean"]
    rrf = next(row for row in done.json["comparison"] if row["other"] == "rrf")
    assert (rrf["system"], rrf["difference"]) == ("learned", pytest.approx(mean["learned"] - mean["rrf"], abs=0.02))
    assert evaluate(qrels, again.run(queries), "ap").mean["ap"] == pytest.approx(value, abs=1e-6)


@pytest.mark.usefixtures("few_Cs")
def test_the_text_has_the_table_the_tests_and_the_weights(run):
    done = run(*RUNS, "--kinds", "rrf", "--measure", "auc")
    assert done.code == 0
    for word in ("combmnz", "best single run", "p Wilcoxon", "weight", "trained on all 30 queries"):
        assert word in done.out
    assert "health: average slack" in done.out
    assert "slack is what is minimized instead of 1 - auc; training lowered it by" in done.out
    assert "unjudged" not in done.out


@pytest.mark.usefixtures("few_Cs")
def test_queries_with_blanks_are_written_as_a_table(run, fails, folder):
    rows = [f"red shoe {n // 4},d{n},{n % 4},{n % 4 + n % 3},{n % 5}" for n in range(48)]
    (folder / "table.csv").write_text("\n".join(["query,document_id,grade,bm25,dense", *rows]) + "\n")
    said = fails("fuse", "table.csv", "-q", "-o", "fused.run", "--model", "new.safetensors", code=1)
    assert "table.csv: topic 'red shoe 0' cannot be in a TREC run" in said
    assert "write a table, such as .csv, instead" in said
    assert not (folder / "new.safetensors").exists()
    done = run("fuse", "table.csv", "-q", "--kinds", "rrf", "-o", "fused.csv", "--model", "new.safetensors")
    assert done.code == 0, done.err
    heads, first, *others = (folder / "fused.csv").read_text().splitlines()
    assert (heads, len(others)) == ("query,rank,document,score", 47)
    assert first.startswith("red shoe 0,1,d")
    assert run("fuse", "table.csv", "-q", "--apply", "new.safetensors", "-o", "again.csv").code == 0
    assert (folder / "again.csv").read_text() == (folder / "fused.csv").read_text()
    more = [f"{row},{number % 7}" for number, row in enumerate(rows)]
    (folder / "more.csv").write_text("\n".join(["query,document_id,grade,bm25,dense,price", *more]) + "\n")
    assert run("fuse", "more.csv", "-q", "--apply", "new.safetensors", "-o", "more_fused.csv").code == 0
    assert (folder / "more_fused.csv").read_text() == (folder / "fused.csv").read_text()


@pytest.mark.usefixtures("few_Cs")
@pytest.mark.parametrize("gain", [0.02, -0.02])
def test_kinds_that_engines_cannot_compute_are_advised_if_they_are_better(run, monkeypatch, gain):
    monkeypatch.setattr(Fusion, "cost_of_engines", property(lambda _: ("percentile", gain)))
    shown = run(*RUNS, "--measure", "auc").out
    assert f"would change auc by {gain:+.4f} on held-out queries" in shown
    assert ("take it with --kinds percentile" in shown) == (gain > 0)


@pytest.mark.usefixtures("few_Cs")
def test_quiet_is_silent_where_files_are_written(run, folder):
    words = [*RUNS, "--kinds", "rrf", "--quiet"]
    done = run(*words, "-o", "quiet.run")
    assert (done.code, done.out, done.err) == (0, "", "")
    assert (folder / "quiet.run").exists()
    # Where nothing is written, the comparison is what was asked for.
    assert "combmnz" in run(*words, "--trials", "1", "--sizes", "10,5,10").out


@pytest.mark.slow
@pytest.mark.usefixtures("few_Cs")
def test_the_scorer_is_chosen_and_said(run, folder):
    words = ["--kinds", "rrf", "--scorer", "auto", "--model", "blend.safetensors"]
    done = run(*RUNS, *words)
    queries = pool_runs(read_runs([folder / "bm25.run", folder / "dense.run"]), read_qrels(folder / "judged.qrels"))
    chosen = Fusion(["rrf"], scorer="auto", Cs=[1.0, 10.0]).fit(queries)
    kind, C = chosen.ranker_.form_.kind, chosen.ranker_.C
    assert f"trained on all 30 queries: {kind}, rrf, C = {C:g}; ndcg@10 by scorer: " in done.out
    assert run(*RUNS, *words, "--force", "--json").json["scorer"] == kind
    assert Fusion.load(folder / "blend.safetensors").ranker_.form_.kind == kind


def test_the_order_of_queries_changes_no_fold(folder, monkeypatch):
    queries = pool_runs(read_runs([folder / "bm25.run", folder / "dense.run"]), read_qrels(folder / "judged.qrels"))
    found = []

    def watched(queries, methods, folds, **_):
        found.append([sorted(queries.query_ids[test].tolist()) for _, _, test in folds])

    monkeypatch.setattr("marginrank.fusion.compare_on_splits", watched)
    for own in (queries, queries[np.arange(len(queries))[::-1]]):
        _contest(own, Fusion(["rrf"]), None, None)
    assert found[0] == found[1]
    assert [len(fold) for fold in found[0]] == [6] * 5


@pytest.mark.usefixtures("few_Cs")
def test_unjudged_documents_of_runs_are_counted(run, folder):
    lines = (folder / "judged.qrels").read_text().splitlines()
    (folder / "some.qrels").write_text("\n".join(line for line in lines if not line.endswith("7 0")) + "\n")
    words = ["fuse", "bm25.run", "dense.run", "--qrels", "some.qrels", "--trials", "1", "--sizes", "10,5,10"]
    done = run(*words, "--kinds", "rrf", "--json").json["unjudged"]
    alone = run("evaluate", "some.qrels", "bm25.run", "--json").json["systems"]["bm25"]["unjudged"]
    assert done["bm25"] == alone
    assert alone["documents"] > 0
    said = run(*words, "--kinds", "rrf").out
    assert f"{100 * alone['documents'] / alone['out_of']:.1f}% of the first 10 documents of bm25" in said


@pytest.mark.usefixtures("few_Cs")
def test_unjudged_documents_of_columns_are_counted_among_those_that_were_returned(run, folder):
    rng = np.random.default_rng(0)
    scores = pd.DataFrame(rng.random((240, 2)).round(6), columns=["bm25", "dense"]).where(rng.random((240, 2)) < 0.6)
    grades = pd.Series(rng.integers(0, 3, 240).astype(float)).where(rng.random(240) < 0.7)
    table = scores.assign(qid=np.arange(240) // 12, document_id=np.arange(240), grade=grades)
    table.to_csv(folder / "table.csv", index=False)
    done = run("fuse", "table.csv", "--kinds", "rrf", "--json").json["unjudged"]
    for name in scores:
        first = table.dropna(subset=name).sort_values(name, ascending=False).groupby("qid").head(10)
        assert done[name] == {"k": 10, "documents": int(first.grade.isna().sum()), "out_of": len(first)}


def test_options_that_mean_nothing_for_runs_are_refused(fails):
    assert "--ranks is for data with a column of ranks" in fails(*RUNS, "--ranks", code=2)
    assert "options for reading data do not apply to TREC runs" in fails(*RUNS, "--missing", "zero", code=2)
    assert "unknown kind of features 'rfr'; did you mean 'rrf'?" in fails(*RUNS, "--kinds", "rfr", code=2)
    assert "did you mean 'svmmap'?" in fails(*RUNS, "--preset", "svmmpa", code=2)


def test_trials_only_compare(run, fails, folder):
    done = run(*RUNS, "--trials", "3", "--sizes", "10,5,10", "--kinds", "rrf", "--json")
    assert len(done.json["per_trial"]["learned"]) == 3
    assert "weights" not in done.json
    assert "leave out --out" in fails(*RUNS, "--trials", "3", "-o", "x.run", code=2)
    assert "--sizes requires --trials" in fails(*RUNS, "--sizes", "10,5,10", code=2)
    assert "give three numbers" in fails(*RUNS, "--trials", "3", "--sizes", "10", code=2)


@pytest.mark.usefixtures("few_Cs")
def test_a_table_of_scores_needs_no_judgements_of_its_own(run):
    done = run("fuse", "train.txt", "--negative", "--kinds", "score", "--json").json
    assert done["queries"] == 30
    # The second feature of five counts against a document, unless that is ruled out.
    assert min(done["weights"].values()) < 0
    assert min(run("fuse", "train.txt", "--kinds", "score", "--json").json["weights"].values()) == 0


def write_runs(path, n_queries):
    """Write runs of which BM25 is right about queries with a high best score, and vectors about the others."""
    rng = np.random.default_rng(0)
    rows = ["query,bm25,dense,relevance"]
    for query in range(n_queries):
        exact = query % 2
        words, meaning = rng.standard_normal((2, 12))
        relevant = (words if exact else meaning) > 0.8
        bm25 = words + (20.0 if exact else 8.0)
        rows += [f"q{query},{a:.4f},{b:.4f},{int(c)}" for a, b, c in zip(bm25, meaning, relevant, strict=True)]
    path.write_text("\n".join(rows) + "\n")


@pytest.mark.usefixtures("few_Cs")
def test_weights_that_depend_on_the_query_are_shown_and_compared(run, folder):
    write_runs(folder / "mixed.csv", 60)
    done = run("fuse", "mixed.csv", "--adaptive", "--kinds", "minmax", "--json").json
    assert (done["scorer"], done["kinds"]) == ("adaptive", "minmax+best")
    # Half of the queries are for one run, and half for the other.
    for shares in done["weights"].values():
        assert shares["10%"] < 0.35
        assert shares["90%"] > 0.65
    assert done["mean"]["learned"] > done["mean"]["same weights for all queries"] + 0.03
    text = run("fuse", "mixed.csv", "--adaptive", "--kinds", "minmax").out
    assert "same weights for all queries" in text
    assert "weight by query" in text
    assert "in q0, minmax(" in text
    assert "--kinds" not in run("fuse", "mixed.csv", "--adaptive").out
    write_runs(folder / "few.csv", 25)
    few = run("fuse", "few.csv", "--adaptive", "--kinds", "minmax")
    assert few.err.count("weights that depend on the query need 30 training queries") == 1
    assert "and there are 25;" in few.err
    assert "same weights for all queries" not in few.out
    assert "weight by query" not in few.out


@pytest.mark.usefixtures("few_Cs")
def test_weights_that_depend_on_texts_and_columns(run, fails, folder):
    """The column is not a run: neither for the fusion nor for what it is compared with."""
    write_runs(folder / "mixed.csv", 60)
    heads, *rows = (folder / "mixed.csv").read_text().splitlines()
    described = [f"{row},{int(row[1 : row.index(',')]) % 2}" for row in rows]
    (folder / "described.csv").write_text("\n".join([f"{heads},has_code", *described]) + "\n")
    plain = run("fuse", "mixed.csv", "--kinds", "minmax", "--json").json["mean"]
    by_column = ("fuse", "described.csv", "--adaptive", "--context", "has_code", "--kinds", "minmax")
    done = run(*by_column, "--json", "--model", "column.safetensors").json
    assert done["scorer"] == "adaptive"
    for name in ("rrf", "combsum", "combmnz", "borda", "best single run"):
        assert done["mean"][name] == plain[name]
    assert done["mean"]["same weights for all queries"] == plain["learned"]
    texts = [f"q{query}\t{'bolt m8x40' if query % 2 else 'hold boards'}" for query in range(60)]
    (folder / "texts.tsv").write_text("\n".join(texts) + "\n")
    by_text = ("fuse", "mixed.csv", "--adaptive", "--context", "has_code", "--kinds", "minmax")
    other = run(*by_text, "--query-text", "texts.tsv", "--json", "--model", "text.safetensors").json
    assert other["mean"] == done["mean"]
    assert other["weights"] == done["weights"]
    assert run("fuse", "described.csv", "--apply", "column.safetensors", "-o", "one.csv").code == 0
    apply = ("fuse", "mixed.csv", "--apply", "text.safetensors", "-o", "two.csv")
    assert run(*apply, "--query-text", "texts.tsv").code == 0
    assert (folder / "one.csv").read_text() == (folder / "two.csv").read_text()
    (folder / "two.csv").unlink()
    said = fails(*apply, code=1)
    assert "no column 'has_code'; the columns are" in said
    assert "; --query-text FILE gives has_code" in said
    (folder / "texts.tsv").write_text("\n".join(texts[:-1]) + "\n")
    assert "texts.tsv: there is no text of query 'q59'; add it" in run(*apply, "--query-text", "texts.tsv").err
    adaptive = ("fuse", "mixed.csv", "--adaptive", "--context")
    assert "neither a column nor a kind; --query-text FILE gives has_code" in run(*adaptive, "has_code").err
    said = run(*adaptive, "best,n_word", "--query-text", "texts.tsv").err
    assert "--context names 'n_word', neither a column nor a kind; did you mean 'n_words'?" in said
    assert "--context requires --adaptive" in fails("fuse", "mixed.csv", "--context", "best", code=2)
    twice = run("fuse", "described.csv", *adaptive[2:], "has_code", "--query-text", "texts.tsv").err
    assert "the data have a column 'has_code', too; rename it, or leave out --query-text" in twice
    assert run("fuse", "mixed.csv", "--adaptive", "--kinds", "minmax", "--query-text", "texts.tsv").code == 1


def test_bad_input_is_one_line(fails, folder):
    assert "give --qrels" in fails("fuse", "bm25.run", "dense.run", code=2)
    assert "no such file" in fails("fuse", "bm25.run", "sparse.run", "--qrels", "judged.qrels", code=1)
    (folder / "kept.run").write_text("mine")
    assert "exists" in fails(*RUNS, "-o", "kept.run", code=1)
    assert "did you mean" in fails(*RUNS, "--measure", "app", code=2)


PAIR = ("fuse", "bm25.run", "dense.run")


@pytest.mark.usefixtures("few_Cs")
def test_a_model_combines_runs_without_judgements(run, folder):
    run(*PAIR, "--qrels", "judged.qrels", "--kinds", "rrf", "-o", "fused.run", "--model", "blend.safetensors")
    done = run(*PAIR, "--apply", "blend.safetensors", "-o", "again.run")
    assert done.out.strip() == "wrote again.run"
    judged, again = (
        run("evaluate", "judged.qrels", name, "-m", "ap", "--json").json["systems"]
        for name in ("fused.run", "again.run")
    )
    assert judged["fused"]["mean"] == pytest.approx(again["again"]["mean"])
    swapped = ["fuse", "dense.run", "bm25.run", "--apply", "blend.safetensors"]
    assert run(*swapped, "-o", "swapped.run").code == 0
    assert (folder / "swapped.run").read_text() == (folder / "again.run").read_text()
    (folder / "other.run").write_text((folder / "dense.run").read_text().replace(" dense\n", " sparse\n"))
    refused = run("fuse", "bm25.run", "other.run", "--apply", "blend.safetensors", "-o", "x.run")
    assert "this model combines the runs bm25, dense, and these are bm25, sparse; give the same runs" in refused.err


@pytest.mark.usefixtures("few_Cs")
def test_a_model_of_runs_is_no_ranker(run, fails, folder):
    run(*PAIR, "--qrels", "judged.qrels", "--kinds", "rrf", "--model", "blend.safetensors")
    for words in (("rank", "blend.safetensors", "test.txt"), ("evaluate", "test.txt", "blend.safetensors")):
        assert "blend.safetensors: this model combines runs; use `marginrank fuse" in fails(*words, code=1)


@pytest.mark.parametrize(
    "extra",
    [
        (),
        ("-o", "x.run", "--qrels", "judged.qrels"),
        ("-o", "x.run", "--trials", "2"),
        ("-o", "x.run", "--kinds", "rrf"),
        ("-o", "x.run", "--preset", "svmauc"),
        ("-o", "x.run", "--measure", "ndcg@10"),
        ("-o", "x.run", "--scorer", "additive"),
        ("-o", "x.run", "--negative"),
        ("-o", "x.run", "--ranks"),
    ],
)
def test_apply_goes_with_an_output_alone(fails, folder, extra):
    assert "--apply only applies a model" in fails(*PAIR, "--apply", "model.safetensors", *extra, code=2)


def test_a_ranker_is_no_fusion(fails):
    assert "this model is not a fusion" in fails(*PAIR, "--apply", "model.safetensors", "-o", "x.run", code=1)
