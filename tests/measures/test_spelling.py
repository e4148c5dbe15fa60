"""Measures are spelled the same everywhere."""

from __future__ import annotations

import numpy as np
import pytest
from typer.testing import CliRunner

from marginrank import Queries, Ranker, evaluate, parse_measure
from marginrank.cli.app import app
from marginrank.errors import DataError
from marginrank.losses.softmax_cross_entropy import SoftmaxCrossEntropy
from marginrank.losses.structured import StructuredLoss
from tests.measures.reference import SPELLINGS


@pytest.mark.parametrize("spelling", SPELLINGS)
def test_the_repr_is_the_spelling(spelling):
    measure = parse_measure(spelling)
    assert parse_measure(repr(measure)) == measure
    assert parse_measure(measure) is measure


@pytest.mark.parametrize(
    ("spelling", "normal"),
    [
        ("ndcg@10( gain = linear , discount=letor )", "ndcg@10(gain=linear,discount=letor)"),
        ("ndcg(k=10)", "ndcg@10"),
        ("ndcg@1000", "ndcg@1000"),
        ("ap(rel=1)", "ap"),
        ("ap(rel=0.5)", "ap(rel=0.5)"),
        (" rbp(p=0.80) ", "rbp"),
        ("eru(halflife=5,neutral=0)", "eru"),
        ("eru(normalized=true)", "eru(normalized=true)"),
        ("eru(normalized=false)", "eru"),
        ("err(max_grade=4)", "err"),
        ("auc(rel=1)", "auc"),
        ("rr(rel=1)", "rr"),
        ("p@3(rel=1)", "p@3"),
        ("recall(rel=1)", "recall"),
        ("rbp(p=0.8,rel=1)", "rbp"),
        ("ndcg(gain=exp2,discount=log2)", "ndcg"),
        ("ndcg@10( gain = 0 | 1.0 | 2.50 )", "ndcg@10(gain=0|1|2.5)"),
    ],
)
def test_odd_spellings_are_understood(spelling, normal):
    assert repr(parse_measure(spelling)) == normal


@pytest.mark.parametrize(
    ("spelling", "message"),
    [
        ("mpa", "unknown measure 'mpa'"),
        ("prec@10", "unknown measure 'prec@10'; did you mean 'p@10'? known: ap, auc, bpref"),
        ("success", "'success': success needs a cutoff, for example success@10"),
        ("ndgc@10", "did you mean 'ndcg@10'?"),
        ("xyzzy", "unknown measure 'xyzzy'; known: ap,"),
        ("ndcg@", "cannot read measure 'ndcg@'; give one, spelled like ap, ndcg@10 or rbp(p=0.8)"),
        ("", "cannot read measure ''"),
        ("map@10,ndcg", "cannot read measure 'ap@10,ndcg'; give one, spelled like ap"),
        ("ndcg@0", "ndcg@0: the cutoff @k is a whole number of at least 1"),
        ("ndcg@2147483648", "ndcg@2147483648: the cutoff @k is a whole number of at least 1"),
        ("p", "'p': p needs a cutoff, for example p@10"),
        ("wta@3", "'wta@3': wta has no parameter 'k'; it has none"),
        ("ap(grade=2)", "'ap(grade=2)': ap has no parameter 'grade'; it has @k, rel"),
        ("ap(rel)", "'ap(rel)': 'rel' is not name=value"),
        ("ap(rel=1,rel=2)", "'ap(rel=1,rel=2)': rel is given twice"),
        (
            "ndcg(gain=quadratic)",
            "ndcg: gain is 'quadratic'; choose 'exp2', 'linear', 'binary' or a tuple, spelled 0|1|3",
        ),
        ("ndcg(gain=0|one)", "ndcg: gain is (0, 'one'); choose 'exp2', 'linear', 'binary' or a tuple"),
        (
            "ndcg(gain=1|2)",
            "gain is (1, 2); give the gains of grades 0, 1, 2, ...: finite, at least 0, never decreasing",
        ),
        ("ndcg(gain=0|2|1)", "never decreasing"),
        ("ndcg(gain=0|0)", "never decreasing"),
        ("ndcg(gain=0|1e999)", "never decreasing"),
        ("ndcg(discount=none)", "discount is None; choose 'log2' or 'letor'"),
        ("ndcg@10(k=5)", "'ndcg@10(k=5)': k is given twice"),
        ("ndcg@10(k=10)", "'ndcg@10(k=10)': k is given twice"),
        ("p(k=2.5)", "p: k is 2.5; give a whole number"),
        ("p(k=10.0)", "p: k is 10.0; give a whole number"),
        ("p(k=true)", "p: k is True; give a whole number"),
        ("p(k=ten)", "p: k is 'ten'; give a whole number"),
        ("ndcg(k=2.5)", "ndcg: k is 2.5; give a whole number or None"),
        ("ap(rel=true)", "ap: rel is True; give a number"),
        ("ap(rel=nan)", "ap: rel is nan; give a number"),
        ("ap(rel=1e999)", "ap(rel=inf): rel is a finite number"),
        (f"ap(rel=1{'0' * 400})", "give a number"),
        ("eru(normalized=1)", "eru: normalized is 1; give True or False"),
        ("rbp(p=1)", "rbp(p=1): p is above 0 and below 1"),
        ("rbp(p=0)", "rbp(p=0): p is above 0 and below 1"),
        ("eru(halflife=1)", "the half-life is above 1"),
        ("err(max_grade=0)", "max_grade is above 0"),
    ],
)
def test_errors_name_the_way_out(spelling, message):
    with pytest.raises(ValueError, match=r".") as error:
        parse_measure(spelling)
    assert message in str(error.value)


@pytest.mark.parametrize("spelling", ["ap(rel=high)", "rbp(p=half)", "eru(halflife=long)", "err(max_grade=top)"])
def test_words_are_no_numbers(spelling):
    with pytest.raises(ValueError, match="a number"):
        parse_measure(spelling)


@pytest.mark.parametrize("grade", [3, 0.5])
def test_grades_without_a_gain_are_refused(grade):
    message = rf"grade {grade} has no gain; the table 0\|1\|5 is for the grades 0 to 2: give a gain for every grade"
    with pytest.raises(DataError, match=message):
        parse_measure("ndcg(gain=0|1|5)").value([grade, 0])
    with pytest.raises(DataError, match=message):
        StructuredLoss("ndcg(gain=0|1|5)", "po").prepare(np.array([grade, 0.0]))
    with pytest.raises(DataError, match=message):
        SoftmaxCrossEntropy(gain=(0, 1, 5)).prepare(np.array([grade, 0.0]))


def test_a_table_of_gains_wins_over_the_policy():
    judged, run = {"q": {"a": 0, "b": 1, "c": 2, "d": 3}}, {"q": {"a": 0.4, "b": 0.1, "c": 0.3, "d": 0.2}}
    names = ["ndcg", "ndcg(gain=0|1|2|3)", "ndcg(gain=exp2)", "ndcg(gain=0|1|3|7)"]
    linear, as_linear, exp2, as_exp2 = evaluate(judged, run, names, policy="trec").mean.values()
    assert (linear, exp2) == (as_linear, as_exp2)
    assert linear != exp2


def test_grades_too_large_for_the_measure_are_refused():
    with pytest.raises(ValueError, match=r"grade 5 is above max_grade=4; raise it"):
        parse_measure("err").value([5, 0])
    with pytest.raises(ValueError, match=r"of grade 2000 is too large to sum; use linear gains"):
        parse_measure("ndcg").value([2000, 0])
    assert parse_measure("ndcg(gain=linear)").value([2000, 0]) == 1.0


@pytest.mark.parametrize(
    ("name", "canonical"),
    [
        ("map", "ap"),
        ("MAP", "ap"),
        ("map(rel=2)", "ap(rel=2)"),
        ("mrr", "rr"),
        ("mrr@10", "rr@10"),
        ("recip_rank", "rr"),
        ("ndcg_cut_10", "ndcg@10"),
        ("ndcg_cut_5(gain=linear)", "ndcg@5(gain=linear)"),
        ("P_10", "p@10"),
        ("precision@5", "p@5"),
        ("recall_100", "recall@100"),
        ("success_1", "success@1"),
        ("hit@3", "success@3"),
        ("hits@3", "success@3"),
    ],
)
def test_names_of_other_tools_are_understood(name, canonical):
    assert str(parse_measure(name)) == canonical


def test_outputs_show_our_names():
    # Query a has its relevant document second, b first.
    queries = Queries.from_arrays([[2.0], [3.0], [1.0], [4.0]], [1, 1, 0, 0], qid=["a", "b", "b", "a"])
    result = evaluate(queries, queries.feature(0), ["mrr", "hit@1", "success_2", "P_1"])
    assert result.mean == {"rr": 0.75, "success@1": 0.5, "success@2": 1.0, "p@1": 0.5}
    done = CliRunner().invoke(app, ["measures", "map"], catch_exceptions=False)
    assert done.exit_code == 0


@pytest.mark.parametrize("name", ["ndcg@10", "ndcg_cut_10", "map", "mrr", "hit@1"])
def test_a_ranker_takes_the_measure_by_any_name(name):
    queries = Queries.from_arrays([[2.0], [3.0], [1.0], [0.0]], [1, 1, 0, 0], qid=["a", "b", "b", "a"])
    ranker = Ranker(name, C=10.0).fit(queries)
    assert ranker.measure_ == str(parse_measure(name))
    assert ranker.score(queries) == 1.0


@pytest.mark.parametrize(
    ("name", "instead"),
    [
        ("eval_set", "validation="),
        ("sample_weight", "query_weights="),
        ("early_stopping_rounds", "patience="),
    ],
)
def test_arguments_of_other_libraries_are_answered(name, instead):
    with pytest.raises(TypeError, match=f"Ranker has no {name}; use .*{instead}"):
        Ranker(**{name: 1})
    with pytest.raises(TypeError, match=f"fit has no {name}; use .*{instead}"):
        Ranker().fit([[1.0], [2.0]], [0, 1], group=[2], **{name: 1})
    with pytest.raises(TypeError, match="fit has no parameter 'speed'"):
        Ranker().fit([[1.0], [2.0]], [0, 1], group=[2], speed=1)
