"""A page shows the facts, escapes what comes from files, and loads nothing."""

from __future__ import annotations

import builtins
import html
import json
import re
from pathlib import Path

import numpy as np
import pytest
import vl_convert

from marginrank import Queries, Ranker, tune, write_report
from marginrank.reporting import page as page_module
from marginrank.reporting.charts import CONFIG, N_COLORS, convergence
from marginrank.reporting.page import render
from marginrank.reporting.report_builder import gather_facts
from marginrank.scorers import Additive
from marginrank.solvers import Auto
from tests.reporting.pages import charts_of, tables_of, without_scripts
from tests.reporting.test_report_builder import judged

ODD = """<img src=x onerror=alert(1)> & "d" 'e' </script> $title {{"""


@pytest.fixture(scope="module")
def queries():
    return judged(40, 6, feature_names=[ODD, "b", "b"])


@pytest.fixture(scope="module")
def systems(queries):
    """Every kind of system and model, one of them with a name that is markup."""
    return {
        "tuned": tune(
            Ranker("svmmap"), queries[:-1], folds=2, Cs=[0.1, 1.0], grid={"scaling": [None, "standard"]}
        ).ranker,
        "additive": Ranker("svmmap", scorer=Additive(bins=4)).fit(queries[:-1]),
        "tight": Ranker(measure="ap", bound="tight", solver=Auto(max_iter=5)).fit(queries[:-1]),
        ODD: queries.X[:, 1].copy(),
    }


@pytest.fixture(scope="module")
def facts(queries, systems):
    texts = dict.fromkeys(range(40), ODD)
    return gather_facts(queries, systems, ["ndcg@5", "ap"], k=5, baseline="tuned", title=ODD, query_text=texts)


@pytest.fixture(scope="module")
def page(facts):
    return render(facts)


def test_every_chart_is_one_that_vega_lite_draws(page):
    specs = charts_of(page)
    described = {re.split(r" with | at | in |\d", spec["description"])[0].strip() for spec in specs}
    assert len(described) > 6
    for spec in specs:
        drawn = vl_convert.vegalite_to_svg({**spec, "width": 300, "config": CONFIG})
        assert drawn.count("<path") > 2, spec["description"]


def test_tables_hold_the_facts(facts, page):
    tables = tables_of(page)
    heads, rows = tables[f"Means over {facts.queries.counted} queries"]
    assert heads == ["system", "kind", "ndcg@5", "95% interval", "ap", "95% interval"]
    by_name = {(one.system, one.measure): one for one in facts.means}
    assert [row[0][0] for row in rows] == ["tuned", "additive", "tight", ODD]
    assert [row[1][0] for row in rows] == ["model", "model", "model", "scores"]
    for row in rows:
        one = by_name[row[0][0], "ap"]
        assert row[4] == (f"{one.mean:.4f}", one.mean)
        assert row[5] == (f"{one.low:.4f} to {one.high:.4f}", one.low)
    found = tables[f"ap: difference from tuned over {facts.queries.counted} queries"][1]
    assert [row[1][0] for row in found] == [row.verdict for row in facts.comparisons["ap"].rows]
    assert [row[2][1] for row in found] == [row.difference for row in facts.comparisons["ap"].rows]
    assert [row[0] for row in tables["NDCG@k"][1][0]][1:] == [f"{one.ndcg:.4f}" for one in facts.curve[:5]]
    weights = tables["tuned: weight of each feature"][1]
    assert sorted(row[1][1] for row in weights) == sorted(one["size"] for one in facts.models[0].features)
    assert len(tables["ndcg@5 of each query"][1]) == facts.queries.counted


def test_a_mean_is_in_bold_only_where_it_is_significantly_the_highest():
    queries = judged(60, 8)
    clear = {"good": queries.X[:, 0].copy(), "bad": -queries.X[:, 0]}
    alike = {"one": queries.X[:, 1].copy(), "two": queries.X[:, 2].copy()}
    bold = re.compile(r'<td class="number best"[^>]*>([^<]*)<')
    facts = gather_facts(queries, clear, ["ap"])
    assert facts.best == {"ap": "good"}
    assert bold.findall(render(facts)) == [f"{facts.means[0].mean:.4f}"]
    facts = gather_facts(queries, alike, ["ap"])
    assert facts.leaders["ap"].rivals
    page = render(facts)
    assert bold.findall(page) == []
    assert "No mean is in bold" in page


def test_what_comes_from_files_is_text(page):
    shown = without_scripts(page)
    assert "onerror" in shown
    assert "<img" not in shown
    assert "&lt;img src=x onerror=alert(1)&gt; &amp; &quot;d&quot; &#x27;e&#x27; &lt;/script&gt; $title {{" in shown
    assert page.count("<script") == page.count("</script>")
    names = {row.get("feature") for spec in charts_of(page) for row in spec["data"]["values"]}
    assert ODD in names
    assert {"b (1)", "b (2)"} <= names, "features of the same name share a bar"


LICENSES = html.escape(Path(page_module.__file__).with_name("licenses.txt").read_text("utf-8"))


def test_the_licenses_of_the_scripts_are_in_the_page(page):
    assert LICENSES in page
    for package in ("vega", "vega-lite", "vega-embed", "d3-scale", "topojson-client", "semver"):
        assert re.search(rf"(^|, ){package}(,| \()", LICENSES, re.MULTILINE), package
    assert "Redistribution and use in source and binary forms" in LICENSES


def test_nothing_is_loaded(page):
    own = page.replace(page_module.library(), "").replace(LICENSES, "")
    assert "http://" not in own
    assert "https://" not in own
    assert re.findall(r"<(?:link|img|iframe|object|embed|base)\b", own) == []
    assert [link for link in re.findall(r'(?:src|href|action)="([^"]*)"', own) if not link.startswith("#")] == []
    assert "url(" not in own
    assert "@import" not in own
    assert "default-src 'none'" in own


def test_links_lead_to_sections_and_ids_are_unique(page):
    ids = re.findall(r'\sid="([^"]*)"', without_scripts(page))
    assert len(ids) == len(set(ids))
    links = re.findall(r'href="#([^"]*)"', without_scripts(page))
    assert links == ["measures", "differences", "cutoffs", "queries", "models", "data"]
    assert set(links) <= set(ids)


def test_one_system_has_no_comparison_and_scores_have_no_model(queries):
    page = render(gather_facts(queries, {"only": queries.X[:, 0].copy()}))
    links = re.findall(r'href="#([^"]*)"', without_scripts(page))
    assert links == ["measures", "cutoffs", "queries", "data"]
    assert 'class="command"' not in page, "without files there is no command"


def test_a_model_without_a_path_or_a_certificate_says_so(facts, page):
    tuned, additive, tight = facts.models
    assert tuned.selection is not None
    assert additive.selection is tight.selection is None
    assert "without a certificate: the tight bound is not convex" in page
    titles = [spec.get("title") for spec in charts_of(page)]
    assert (titles.count("gap / objective"), titles.count("objective")) == (2, 1)
    assert titles.count("ap on held-out queries") == 1


def test_steps_without_a_bound_yet_are_left_out():
    steps = [
        {"passes": 1.0, "seconds": 0.0, "objective": 2.0, "gap": np.inf},
        {"passes": 2.0, "seconds": 0.1, "objective": 1.0, "gap": 0.5},
        {"passes": 3.0, "seconds": 0.2, "objective": 1.0, "gap": -1e-18},
    ]
    spec = convergence(steps)
    assert [row["share"] for row in spec["data"]["values"]] == [0.5, 1e-16]


def test_many_features_are_in_the_table_and_the_largest_in_the_chart():
    rng = np.random.default_rng(0)
    X = rng.standard_normal((100, 700))
    queries = Queries.from_arrays(X, (X[:, 3] > 0.5).astype(int), qid=np.arange(100) // 10)
    linear = Ranker("svmmap", solver=Auto(max_iter=3)).fit(queries[:-1])
    additive = Ranker("svmmap", scorer=Additive(bins=3), solver=Auto(max_iter=3)).fit(queries[:-1])
    page = render(gather_facts(queries, {"linear": linear, "additive": additive}, ["ap"]))
    assert len(page.encode()) < 5e6
    assert len(tables_of(page)["linear: weight of each feature"][1]) == 700
    bars = next(spec for spec in charts_of(page) if "largest weight" in spec["description"])
    largest = np.argsort(-np.abs(linear.coef_), kind="stable")[:40]
    assert [row["feature"] for row in bars["data"]["values"]] == [str(number) for number in largest]
    shapes = [spec["description"] for spec in charts_of(page) if spec["description"].startswith("Score of feature")]
    moving = [one for one in additive.shapes() if np.ptp(one.values) > 0]
    assert len(shapes) == len(moving) > 100


def test_the_style_has_a_color_for_every_system(page):
    for mode in ("--s{}: #", "var(--s{})"):
        assert mode.format(0) in page
    assert len(re.findall(r"--s\d: #", page)) == 2 * N_COLORS


def test_the_missing_library_is_named_before_any_work(monkeypatch, tmp_path, queries):
    def without(name, *rest, **options):
        if name == "vl_convert":
            raise ImportError(name)
        return real(name, *rest, **options)

    real = builtins.__import__
    monkeypatch.setattr(builtins, "__import__", without)
    monkeypatch.setattr("marginrank.reporting.report_builder.gather_facts", lambda *_, **__: pytest.fail("worked"))
    monkeypatch.setattr("marginrank.reporting.report_builder.library", page_module.library.__wrapped__)
    with pytest.raises(ImportError, match=r"pip install 'marginrank\[report\]'"):
        write_report(tmp_path / "a.html", queries, {"a": queries.X[:, 0]})


def test_the_page_is_written_and_its_facts_are_returned(tmp_path, queries):
    found = write_report(tmp_path / "a.html", queries, {"a": queries.X[:, 0].copy()}, ["ap"], title="A & B")
    text = (tmp_path / "a.html").read_text(encoding="utf-8")
    assert "<h1>A &amp; B</h1>" in text
    assert json.dumps(found.means[0].mean) in text


def test_a_backslash_in_a_name_is_shown_as_it_is(queries, systems):
    names = dict(zip(["C:\\users\\new", "end\\"], list(systems.values())[:2], strict=False))
    for chart in charts_of(render(gather_facts(queries, names, ["ndcg@5"], k=3))):
        vl_convert.vegalite_to_svg({**chart, "config": CONFIG, "width": 300})
