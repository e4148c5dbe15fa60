"""Results in notebooks and as frames: short, complete and escaped."""

from __future__ import annotations

import re
import sys
from functools import cache
from html.parser import HTMLParser

import numpy as np
import pandas as pd
import pytest

from marginrank import Queries, Ranker, compare, evaluate, tune
from marginrank.fusion import BestRun, UnsupervisedFusion, compare_on_splits
from marginrank.runtime.text import ResultTable
from marginrank.scorers import Additive

EVIL = "<script>alert('x')</script>&\x1b[2J"


def queries(seed=0, n_queries=8, names=("bm25", EVIL)):
    rng = np.random.default_rng(seed)
    X = rng.random((6 * n_queries, 2))
    y = (X[:, 0] + 0.3 * rng.standard_normal(len(X)) > 0.6).astype(int)
    y[::6], y[1::6] = 1, 0
    return Queries.from_arrays(X, y, qid=[f"{EVIL}{row // 6}" for row in range(len(X))], feature_names=names)


QUERIES = queries()


@cache
def results():
    selection = tune(Ranker("svmmap"), QUERIES, folds=2, Cs=[0.1, 1.0])
    both = {EVIL: QUERIES.feature(0), "b": QUERIES.feature(1)}
    splits = [(np.arange(4), np.arange(0), np.arange(4, 8))]
    return {
        "evaluation": evaluate(QUERIES, QUERIES.feature(0), ["ndcg@10", "ap"]),
        "comparison": compare(both, QUERIES, resamples=99),
        "comparisons": compare({**both, "c": -QUERIES.feature(0)}, QUERIES, resamples=99),
        "selection": selection,
        "linear": selection.ranker.model_,
        "additive": Ranker("svmmap", scorer=Additive(bins=4)).fit(QUERIES).model_,
        "trees": Ranker("mcrank").fit(QUERIES).model_,
        "process": Ranker("gp-regression").fit(QUERIES).model_,
        "trials": compare_on_splits(QUERIES, {EVIL: UnsupervisedFusion("rrf"), "best": BestRun()}, splits),
    }


NAMES = ("evaluation", "comparison", "comparisons", "selection", "linear", "additive", "trees", "process", "trials")
every_result = pytest.mark.parametrize("name", NAMES)


class Tags(HTMLParser):
    """Collects tags and text."""

    def __init__(self):
        super().__init__()
        self.tags, self.words = [], []

    def handle_starttag(self, tag, attrs):
        self.tags.append((tag, dict(attrs)))

    def handle_data(self, data):
        self.words.append(data)


def test_every_result_has_a_name():
    assert tuple(results()) == NAMES


@every_result
def test_markup_is_small_plain_and_escaped(name):
    markup = results()[name]._repr_html_()
    page = Tags()
    page.feed(markup)
    assert {tag for tag, _ in page.tags} <= {"div", "table", "thead", "tbody", "tr", "th", "td", "p"}
    # Without colors, those of the notebook hold, light or dark.
    assert {style for _, attributes in page.tags for style in attributes.values()} <= {
        "text-align: left",
        "text-align: right",
    }
    assert "\x1b" not in markup
    assert len(markup) < 5000


@every_result
def test_a_repr_is_a_line(name):
    text = repr(results()[name])
    assert "\n" not in text
    assert len(text) < 250
    assert "array" not in text
    assert re.match(r"(Evaluation|Comparison|Selection|Model|SplitComparison)\(.*\)\Z", text)


def test_reprs_say_what_matters():
    assert repr(results()["selection"]) == (
        f"Selection(C={results()['selection'].best.parameters['C']:g}: ap {results()['selection'].best.mean:.4f} ± "
        f"{results()['selection'].best.standard_error:.4f}, of 2 settings on 8 queries in 2 folds)"
    )
    assert re.fullmatch(
        r"Model\(svmmap, linear, 2 features, C=[0-9.]+, gap [0-9.e-]+, trained on 8 queries\)",
        repr(results()["linear"]),
    )
    assert repr(results()["trees"]) == "Model(mcrank, trees, 2 features, trained on 8 queries)"
    assert repr(results()["comparisons"]) == "Comparison(3 pairs of systems on 8 queries)"
    assert repr(compare({"a": [0.5, 1.0, 0.25, 0.5], "b": [0.25, 0.75, 0.0, 0.25]}, resamples=99)) == (
        "Comparison(a minus b: +0.2500 [+0.2500, +0.2500], p = 0.1250, 4 queries)"
    )
    assert repr(QUERIES) == "Queries(8 queries, 48 documents, 2 features, grades 0..1)"
    assert repr(results()["selection"].ranker).startswith("Ranker(")
    assert repr(results()["selection"].ranker.solution_).startswith("Solution(C=")


def test_an_evaluation_is_a_row_per_query():
    weighted = Queries.from_arrays([[0.0]] * 4, [1, 0, 0, 2], qid=["b", "a", "b", "a"], query_weights=[1.0, 3.0])
    frame = evaluate(weighted, [0.1, 0.7, 0.9, 0.3], ["rr", "p@1"]).to_frame()
    expected = pd.DataFrame({"query": ["b", "a"], "weight": [1.0, 3.0], "rr": [0.5, 0.5], "p@1": [0.0, 0.0]})
    pd.testing.assert_frame_equal(frame, expected, check_dtype=False)
    skipped = evaluate([0, 1], [1.0, 2.0], "rr", qid=["empty", "full"]).to_frame()
    assert skipped["rr"].isna().tolist() == [True, False]


def test_a_comparison_is_a_row_per_pair():
    frame = compare({"a": [0.5, 1.0, 0.2], "b": [0.4, 0.4, 0.2], "c": [0.0, 0.0, 0.0]}, resamples=99).to_frame()
    assert frame[["system", "other", "wins", "losses", "ties"]].to_numpy().tolist() == [
        ["a", "b", 2, 0, 1], ["a", "c", 3, 0, 0], ["b", "c", 3, 0, 0],
    ]  # fmt: skip
    np.testing.assert_allclose(frame["difference"], [0.7 / 3, 1.7 / 3, 1.0 / 3])


def test_a_selection_is_a_row_per_setting():
    selection = results()["selection"]
    frame = selection.to_frame()
    assert frame["C"].tolist() == [0.1, 1.0]
    assert frame["mean"].tolist() == [one.mean for one in selection.candidates]
    assert frame["chosen"].tolist() == [number == selection.chosen for number in range(2)]


def test_a_model_is_a_row_per_feature():
    model = results()["linear"]
    frame = model.to_frame()
    assert frame["feature"].tolist() == ["bm25", EVIL]
    np.testing.assert_array_equal(frame["weight"], model.theta)
    assert results()["additive"].to_frame().columns.tolist() == ["feature", "spread"]
    assert results()["trees"].to_frame()["splits"].sum() > 0
    with pytest.raises(TypeError, match="are not made of features"):
        results()["process"].to_frame()


def test_trials_are_a_row_per_method():
    frame = results()["trials"].to_frame()
    assert frame.columns.tolist() == ["method", "mean_ndcg@10", "sd"]
    np.testing.assert_allclose(frame["mean_ndcg@10"], list(results()["trials"].mean.values()))


def test_only_to_frame_needs_pandas(monkeypatch):
    shown = results()
    monkeypatch.setitem(sys.modules, "pandas", None)
    for result in shown.values():
        assert result._repr_html_()
    with pytest.raises(ImportError, match="to_frame needs pandas: pip install pandas"):
        shown["evaluation"].to_frame()


def test_long_tables_are_cut():
    markup = ResultTable([["n"], *([str(row)] for row in range(100))], note="policy").html()
    assert markup.count("<tr>") == 31
    assert "<p>70 more rows; policy</p>" in markup
