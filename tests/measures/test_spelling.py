"""Measures are spelled the same everywhere."""

from __future__ import annotations

import pytest

from marginrank import parse_measure
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
    ],
)
def test_odd_spellings_are_understood(spelling, normal):
    assert repr(parse_measure(spelling)) == normal


@pytest.mark.parametrize(
    ("spelling", "message"),
    [
        ("map", "unknown measure 'map'; did you mean 'ap'? known: ap, auc, dcg"),
        ("mrr@10", "unknown measure 'mrr@10'; did you mean 'rr@10'?"),
        ("ndgc@10", "did you mean 'ndcg@10'?"),
        ("xyzzy", "unknown measure 'xyzzy'; known: ap,"),
        ("ndcg@", "cannot read measure 'ndcg@'; spell it like ap, ndcg@10 or rbp(p=0.8)"),
        ("", "cannot read measure ''"),
        ("ndcg@0", "ndcg@0: the cutoff @k is a whole number from 1 on"),
        ("ndcg@2147483648", "ndcg@2147483648: the cutoff @k is a whole number from 1 on"),
        ("p", "'p': p needs a cutoff, for example p@10"),
        ("wta@3", "'wta@3': wta has no parameter 'k'; it has none"),
        ("ap(grade=2)", "'ap(grade=2)': ap has no parameter 'grade'; it has @k, rel"),
        ("ap(rel)", "'ap(rel)': 'rel' is not name=value"),
        ("ap(rel=1,rel=2)", "'ap(rel=1,rel=2)': rel is given twice"),
        ("ndcg(gain=quadratic)", "ndcg(gain=quadratic): gain is one of exp2, linear, binary"),
        ("ndcg(discount=none)", "discount is one of log2, letor"),
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


def test_grades_too_large_for_the_measure_are_refused():
    with pytest.raises(ValueError, match=r"grade 5 is above max_grade=4; raise it"):
        parse_measure("err").value([5, 0])
    with pytest.raises(ValueError, match=r"of grade 2000 is too large to sum; use gain=linear"):
        parse_measure("ndcg").value([2000, 0])
    assert parse_measure("ndcg(gain=linear)").value([2000, 0]) == 1.0
