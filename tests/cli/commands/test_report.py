"""`marginrank report`: the page, its facts as JSON, and commands that give its numbers again."""

from __future__ import annotations

import shlex
from pathlib import Path

import numpy as np
import pytest

from marginrank import load
from marginrank.data import read_queries, write_run
from tests.reporting.pages import commands_of, tables_of


@pytest.fixture
def systems(run, folder):
    """A tuned model, an additive one, scores and a run, in files that a shell has to quote."""
    options = ["train.txt", "--valid", "valid.txt", "--quiet"]
    assert run("train", *options, "--Cs", "0.1,1,10", "-o", "tuned.safetensors").code == 0
    assert run("train", *options, "-C", "1", "--scorer", "additive", "-o", "step's.safetensors").code == 0
    queries = read_queries("test.txt")
    (folder / "first one.txt").write_text("\n".join(map(repr, queries.X[:, 0].astype(float).tolist())))
    write_run("second.run", queries, queries.X[:, 1])
    return ["tuned.safetensors", "step's.safetensors", "first one.txt", "second.run"]


def words_of(line):
    program, *words = shlex.split(line)
    assert program == "marginrank"
    return words


@pytest.mark.slow
def test_the_commands_of_a_page_give_its_numbers_again(run, systems):
    chosen = ["-m", "ap", "-m", "ndcg@3", "--policy", "letor4", "--depth", "6", "--k", "4", "--baseline", "first one"]
    assert run("report", "test.txt", *systems, *chosen).code == 0
    page = Path("report.html").read_text(encoding="utf-8")
    tables, lines = tables_of(page), commands_of(page)
    means, compared, curve = (words_of(line) for line in lines[:3])
    each = next(words_of(line) for line in lines if "--per-query" in line)
    of_data = words_of(lines[-1])

    found = run(*means, "--json").json["systems"]
    for row in tables["Means over 20 queries"][1]:
        own = found[row[0][0]]
        assert [row[2][1], row[4][1]] == [own["mean"]["ap"], own["mean"]["ndcg@3"]]
        low, high = own["interval"]["ap"]
        assert row[3][0] == f"{low:.4f} to {high:.4f}"

    found = run(*compared, "--json").json["comparisons"]
    for measure, records in found.items():
        heads, rows = tables[f"{measure}: difference from first one over 20 queries"]
        for row, record in zip(rows, records, strict=True):
            cells = dict(zip(heads, row, strict=True))
            assert cells["system"][0] == record["system"]
            assert cells["difference"][1] == record["difference"]
            assert [cells[name][1] for name in ("won", "lost", "tied")] == [
                record[name] for name in ("wins", "losses", "ties")
            ]
            assert cells["p t-test"][1] == record["p_t"]
            assert cells["p randomization"][1] == record["p_randomization"]

    found = run(*curve, "--json").json["systems"]
    for row in tables["NDCG@k"][1]:
        assert [key for _, key in row[1:]] == [found[row[0][0]]["mean"][f"ndcg@{k}"] for k in range(1, 5)]

    found = run(*each, "--json").json["systems"]
    heads, rows = tables["ap of each query"]
    for row in rows:
        for name, (_, key) in zip(heads[3:], row[3:], strict=True):
            assert key == found[name]["per_query"]["ap"][row[0][0]]

    found = run(*of_data, "--json").json
    grades = {row[0][0]: row[1][1] for row in tables["Documents of each grade"][1]}
    assert grades == found["grades"]


def test_the_commands_of_models_give_their_weights_gaps_and_rankings_again(run, systems):
    facts = run("report", "test.txt", *systems, "--k", "3", "--baseline", "tuned", "--json").json
    page = Path("report.html").read_text(encoding="utf-8")
    lines = commands_of(page)
    inspected = [run(*words_of(line)).json for line in lines if line.endswith("--json")]
    assert [record["path"] for record in inspected] == systems[:2]
    for model, record in zip(facts["models"], inspected, strict=True):
        assert model["features"] == record["features"]
        assert model["trace"] == record["trace"]
        assert model["selection"] == record["selection"]
        assert model["record"]["gap"] == record["gap"]
    ranked = next(line for line in lines if line.startswith("marginrank rank") and "tuned" in line)
    rows = [line.split("\t") for line in run(*words_of(ranked)).out.splitlines()[1:]]
    duels = [duel for contest in facts["contests"] for duel in (*contest["won"], *contest["lost"])]
    assert duels
    for duel in duels:
        wanted = [(int(rank), name, float(score)) for query, rank, name, score in rows if query == duel["query"]]
        shown = [(place["rank"], place["document"], place["score"]) for place in duel["other_documents"]]
        assert shown == wanted


def test_queries_won_and_lost_are_explained_by_models(run, systems):
    facts = run("report", "test.txt", *systems, "--k", "20", "--baseline", "tuned", "--json").json
    page = Path("report.html").read_text(encoding="utf-8")
    lines = [line for line in commands_of(page) if line.startswith("marginrank explain")]
    contest = facts["contests"][0]
    assert (contest["system"], contest["other"]) == ("step's", "tuned")
    duel = contest["won"][0]
    assert list(duel["reasons"]) == ["step's", "tuned"]
    for name, documents in (("step's", duel["documents"]), ("tuned", duel["other_documents"])):
        explained = duel["reasons"][name]
        pair = ["--query", duel["query"], "--documents", explained["document"], explained["other"]]
        words = ["explain", f"{name}.safetensors", "test.txt", *pair]
        assert words in [words_of(line) for line in lines]
        again = run(*words, "--json").json
        assert {key: again[key] for key in explained} == explained
        first = next(place for place in documents if place["other_rank"] != place["rank"])
        assert (explained["document"], explained["score"]) == (first["document"], pytest.approx(first["score"]))
        total = sum(reason["contribution"] for reason in explained["reasons"])
        assert explained["base"] + total == pytest.approx(explained["score"])
    # Scores have no features: only the model is explained.
    assert {tuple(one["reasons"]) for one in facts["contests"][1]["won"]} <= {("tuned",), ()}
    captions = tables_of(page)
    explained = duel["reasons"]["tuned"]
    assert f"tuned: why {explained['document']} is above {explained['other']}" in captions


def test_options_for_reading_are_in_the_commands(run, folder):
    lines = (folder / "test.txt").read_text().splitlines()
    (folder / "gaps.txt").write_text("\n".join([lines[0].replace(" 2:", " 2:NULL #", 1).split("#")[0], *lines[1:]]))
    options = ["--missing", "zero", "--n-features", "5"]
    assert run("report", "gaps.txt", "model.safetensors", *options).code == 0
    found = commands_of(Path("report.html").read_text(encoding="utf-8"))
    data = [words_of(line) for line in found if "gaps.txt" in line]
    assert len(data) == 4
    for words in data:
        assert words[-4:] == options
        assert run(*words).code == 0


@pytest.mark.parametrize("name", ["texts.tsv", "texts.jsonl"])
def test_texts_of_queries_are_shown(run, folder, name):
    ids = [str(query) for query in read_queries("test.txt").query_ids.tolist()]
    line = '{{"id": "{0}", "text": "about <{0}>"}}' if name.endswith("jsonl") else "{0}\tabout <{0}>"
    (folder / name).write_text("\n".join(line.format(query) for query in ids[1:]))
    done = run("report", "test.txt", "model.safetensors", "scores.txt", "-m", "ap", "--query-text", name, "--json")
    assert {row["query"]: row["text"] for row in done.json["queries"]["rows"]}[ids[1]] == f"about <{ids[1]}>"
    assert None in [row["text"] for row in done.json["queries"]["rows"]]
    heads, rows = tables_of(Path("report.html").read_text(encoding="utf-8"))["ap of each query"]
    assert heads[:2] == ["query", "text"]
    assert [row[1][0] for row in rows] == [f"about <{row[0][0]}>" if row[0][0] != ids[0] else "–" for row in rows]


def test_texts_of_other_queries_are_refused(fails, folder):
    (folder / "texts.tsv").write_text("x\tone\n")
    said = fails("report", "test.txt", "model.safetensors", "--query-text", "texts.tsv", code=1)
    assert "none of the queries has a text: ids of the queries are such as '2000', ids there are such as 'x'" in said


def test_a_page_does_not_say_where_its_files_are(run, folder, tmp_path_factory):
    elsewhere = tmp_path_factory.mktemp("secret")
    for name in ("one", "two"):
        (elsewhere / name).mkdir()
        (elsewhere / name / "model.safetensors").write_bytes((folder / "model.safetensors").read_bytes())
    files = [folder / "test.txt", elsewhere / "one" / "model.safetensors", elsewhere / "two" / "model.safetensors"]
    done = run("report", *files, folder / "scores.txt", "-o", folder / "page.html", "--json")
    assert done.code == 0
    names = ["one/model.safetensors", "two/model.safetensors", "scores.txt"]
    assert [system["name"] for system in done.json["systems"]] == names
    page = (folder / "page.html").read_text(encoding="utf-8")
    assert str(folder) not in page
    assert elsewhere.name not in page
    assert commands_of(page)[0].startswith(
        "marginrank evaluate test.txt one/model.safetensors two/model.safetensors scores.txt -m "
    )


def test_a_report_on_training_data_warns_before_its_verdict(run, folder):
    done = run("report", "train.txt", "model.safetensors", "--dtype", "float64", "--json")
    assert done.json["trained_on_these"] == ["model"]
    page = Path("report.html").read_text(encoding="utf-8")
    warned, verdict = (
        page.index('<p class="warning">These are the queries that model was'),
        page.index('<p class="lead">'),
    )
    assert warned < verdict, "the warning comes first"


def test_judgements_go_with_runs(run):
    done = run("report", "judged.qrels", "bm25.run", "dense.run", "-o", "runs.html", "--json")
    assert done.code == 0
    assert [system["kind"] for system in done.json["systems"]] == ["run", "run"]
    assert done.json["models"] == []
    for line in commands_of(Path("runs.html").read_text(encoding="utf-8")):
        assert run(*words_of(line)).code == 0


def test_raters_have_a_section_whose_command_gives_its_numbers_again(run):
    rows = Path("raters.csv").read_text().splitlines()
    copies = [row.replace(",ann,", ",<b>eve</b>,") for row in rows if ",ann," in row]
    Path("three.csv").write_text("\n".join([*rows, *copies]) + "\n")
    words = ("report", "judged.qrels", "bm25.run", "dense.run", "-o", "runs.html")
    done = run(*words, "--raters", "three.csv", "--json")
    assert done.code == 0, done.err
    page = Path("runs.html").read_text(encoding="utf-8")
    (line,) = [line for line in commands_of(page) if "judge agreement" in line]
    assert line == "marginrank judge agreement three.csv"
    found = run(*words_of(line), "--json").json
    tables = tables_of(page)
    _, rows = tables["Agreement: 1 if raters agree on everything, 0 at chance level"]
    assert [row[1][1] for row in rows] == [found["alpha"]["value"], *(one["value"] for one in found["kappa"])]
    heads, rows = tables["Raters; bias is the mean difference from the others on the same documents"]
    assert [row[0][0] for row in rows] == ["<b>eve</b>", "ann", "bob"]
    assert [row[heads.index("bias")][1] for row in rows] == [one["bias"]["value"] for one in found["raters"]]
    assert "<b>eve" not in page
    assert done.json["raters"]["agreement"]["alpha"] == found["alpha"]
    assert [flag["message"] for flag in done.json["raters"]["flags"]] == [flag["message"] for flag in found["flags"]]
    assert run(*words, "--force", "--json").json["raters"] is None


def test_what_was_written_is_said(run):
    done = run("report", "test.txt", "model.safetensors", "-o", "page.html", "--title", "Mine")
    verdict, wrote = done.out.splitlines()
    assert wrote == f"wrote page.html ({Path('page.html').stat().st_size / 1e6:.1f} MB): 1 system on 18 queries"
    page = Path("page.html").read_text(encoding="utf-8")
    assert "<h1>Mine</h1>" in page
    assert f'<p class="lead">{verdict}</p>' in page
    assert verdict.startswith("model has a mean ndcg@10 of ")
    assert run("report", "test.txt", "model.safetensors", "-o", "page.html", "--force", "--quiet").out == ""


@pytest.mark.parametrize(
    ("words", "said", "code"),
    [
        (["test.txt", "model.safetensors", "-m", "ndgc@5"], "did you mean 'ndcg@5'?", 2),
        (["test.txt", "model.safetensors", "--policy", "lettor"], "unknown policy", 2),
        (["test.txt", "model.safetensors", "--baseline", "bm25"], "bm25: no such file, and no column 'bm25'", 1),
        (["test.txt", "model.safetensors", "--k", "0"], "--k", 2),
        (["test.txt", "model.safetensors", "-o", "train.txt"], "train.txt: already exists", 1),
        (["test.txt", "model.safetensors", "-o", "nowhere/report.html"], "no such folder", 1),
        (["train.txt", "scores.txt"], "scores.txt: scores", 1),
        (["bm25.run", "bm25.run"], "not judgements", 1),
        (["judged.qrels", "model.safetensors"], "model.safetensors: TREC judgements have no features", 1),
    ],
)
def test_reports_refuse_what_makes_no_sense(fails, words, said, code):
    assert said in fails("report", *words, code=code)


def test_the_baseline_of_a_report_may_be_a_column_that_is_no_system(run):
    facts = run("report", "test.txt", "model.safetensors", "--baseline", "1", "--json").json
    both = run("report", "test.txt", "1", "model.safetensors", "--baseline", "1", "--json", "-o", "both.html").json
    assert facts["settings"]["baseline"] == "1"
    assert facts["comparisons"] == both["comparisons"]


def test_a_model_that_was_saved_scores_as_in_the_page(run):
    facts = run("report", "test.txt", "model.safetensors", "-m", "ap", "--json").json
    queries, model = read_queries("test.txt"), load("model.safetensors")
    assert facts["models"][0]["features"][2]["size"] == model.coef_[2]
    assert facts["profile"]["documents"] == queries.n_documents
    assert np.isfinite(facts["means"][0]["low"])
