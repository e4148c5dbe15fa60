"""Evaluation: policies, weights, order of rows, errors."""

from __future__ import annotations

from math import log2

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from marginrank import DataError, Queries, compare, evaluate
from marginrank.data import Qrels, Run
from marginrank.evaluation import POLICIES, Policy
from marginrank.evaluation.evaluation import Unjudged, count_unjudged
from tests.measures.reference import SPELLINGS

query_lists = st.lists(
    st.lists(st.tuples(st.integers(0, 2), st.sampled_from([0.0, 0.5, 1.0, 2.0])), min_size=1, max_size=14),
    min_size=1,
    max_size=6,
)


def queries_of(lists, **options):
    grades = [grade for rows in lists for grade, _ in rows]
    scores = np.array([score for rows in lists for _, score in rows])
    return Queries.from_arrays(np.zeros((len(grades), 1)), grades, group=[len(r) for r in lists], **options), scores


class LetorScript:
    """What the LETOR scripts do with one query, written from their behavior."""

    def __init__(self, rows, rel=1):
        ranked = sorted(rows, key=lambda row: -row[1])
        self.grades = [grade for grade, _ in ranked]
        self.relevant = [grade >= rel for grade in self.grades]

    def dcg(self, grades):
        total, out = 0.0, []
        for rank, grade in enumerate(grades):
            total += (2**grade - 1) * (1.0 if rank < 2 else 1 / log2(rank + 1))
            out.append(total)
        return out

    def ndcg(self, k):
        if k > len(self.grades):
            return 0.0
        at = min(k, len(self.grades)) - 1
        best = self.dcg(sorted(self.grades, reverse=True))[at]
        return self.dcg(self.grades)[at] / best if best else 0.0

    def precision(self, k, short_is_zero):
        return 0.0 if short_is_zero and k > len(self.grades) else sum(self.relevant[:k]) / k

    def average_precision(self):
        hits = [sum(self.relevant[: r + 1]) / (r + 1) for r, good in enumerate(self.relevant) if good]
        return sum(hits) / len(hits) if hits else 0.0


@given(lists=query_lists)
@pytest.mark.parametrize(("policy", "rel"), [("letor3", 1), ("letor4", 1), ("mslr", 2)])
def test_letor_policies_are_the_scripts(policy, rel, lists):
    queries, scores = queries_of(lists)
    names = ["ndcg@1", "ndcg@2", "ndcg@5", "ndcg@10", "p@1", "p@10", "ap"]
    result = evaluate(queries, scores, names, policy=policy)
    scripts = [LetorScript(rows, rel) for rows in lists]
    for k in (1, 2, 5, 10):
        expected = [script.ndcg(k) for script in scripts]
        assert result[f"ndcg@{k}"].tolist() == pytest.approx(expected, abs=1e-12)
    for k in (1, 10):
        assert result[f"p@{k}"].tolist() == pytest.approx([s.precision(k, policy == "letor3") for s in scripts])
    assert result["ap"].tolist() == pytest.approx([script.average_precision() for script in scripts])
    assert result.mean["ap"] == pytest.approx(np.mean([script.average_precision() for script in scripts]))


@given(lists=query_lists, data=st.data())
def test_standard_does_not_depend_on_the_order_of_rows(lists, data):
    queries, scores = queries_of(lists)
    spellings = ["ndcg@3", "ap", "rr@2", "err@3", "auc"]
    order = np.array(data.draw(st.permutations(range(queries.n_documents))))
    qid = np.repeat(queries.query_ids, queries.lengths)
    shuffled = Queries.from_arrays(np.zeros((len(order), 1)), queries.grades[order], qid=qid[order])
    found = evaluate(shuffled, scores[order], spellings)
    expected = evaluate(queries, scores, spellings)
    for spelling in spellings:
        by_query = dict(zip(found.query_ids.tolist(), found[spelling].tolist(), strict=True))
        values = [by_query[q] for q in queries.query_ids.tolist()]
        assert values == pytest.approx(expected[spelling].tolist(), abs=1e-12, nan_ok=True), spelling


@given(lists=query_lists)
def test_worst_order_of_ties_is_a_lower_bound(lists):
    queries, scores = queries_of(lists)
    worst = evaluate(queries, scores, SPELLINGS, policy=Policy("worst", "", ties="worst", empty="skip"))
    mean = evaluate(queries, scores, SPELLINGS)
    first = evaluate(queries, scores, SPELLINGS, policy=Policy("input", "", ties="input", empty="skip"))
    for spelling in SPELLINGS:
        least = worst[spelling]
        assert np.all((least <= mean[spelling] + 1e-12) | np.isnan(least)), spelling
        assert np.all((least <= first[spelling] + 1e-12) | np.isnan(least)), spelling


@given(lists=query_lists, depth=st.integers(1, 5))
@pytest.mark.parametrize("ties", ["average", "input"])
def test_depth_counts_only_the_first_documents(ties, lists, depth):
    """A cutoff in the measure and one on the list are the same, where the measure has a cutoff."""
    queries, scores = queries_of(lists)
    policy = Policy("test", "", ties=ties, empty="zero")
    for name in ("ap", "rr", "recall", "dcg", "rbp", "err"):
        by_depth = evaluate(queries, scores, name, policy=policy, depth=depth)[name]
        by_cutoff = evaluate(queries, scores, f"{name}@{depth}", policy=policy)[f"{name}@{depth}"]
        assert by_depth.tolist() == pytest.approx(by_cutoff.tolist(), abs=1e-12), name


@given(lists=query_lists)
@pytest.mark.parametrize("ties", ["average", "input", "worst"])
def test_the_other_measures_do_not_change_how_ties_are_ranked(ties, lists):
    """Measures with a cutoff alone need only the first ranks; together with AP they see whole rankings."""
    queries, scores = queries_of(lists)
    policy = Policy("test", "", ties=ties, empty="zero")
    for name in ("ndcg@1", "rr@2", "p@3"):
        alone = evaluate(queries, scores, name, policy=policy)[name]
        assert alone.tolist() == evaluate(queries, scores, [name, "ap"], policy=policy)[name].tolist()


def test_document_ids_break_ties_descending():
    queries = Queries.from_arrays(np.zeros((3, 1)), [1, 0, 0], group=[3], document_ids=["a", "c", "b"])
    assert evaluate(queries, [1, 1, 1], "rr", policy="trec").mean["rr"] == pytest.approx(1 / 3)
    without = Queries.from_arrays(np.zeros((3, 1)), [1, 0, 0], group=[3])
    with pytest.raises(DataError, match="breaks ties by document id, but the documents have none; give document ids"):
        evaluate(without, [1, 1, 1], "rr", policy="trec")


@pytest.mark.parametrize(
    ("policy", "value", "counted"), [("standard", 1.0, 1), ("letor3", 0.5, 2), ("lightgbm", 1.0, 2)]
)
def test_queries_without_relevant_documents(policy, value, counted):
    queries, scores = queries_of([[(1, 2.0), (0, 1.0)], [(0, 1.0), (0, 0.5)]])
    result = evaluate(queries, scores, ["ndcg@1", "ap"], policy=policy)
    assert result.mean == {"ndcg@1": value, "ap": value}
    assert result.counted("ap") == counted


def test_policies_set_parameters_that_a_spelling_can_override():
    queries, scores = queries_of([[(0, 3.0), (2, 2.0), (1, 1.0)]])
    names = ["ndcg", "ndcg(gain=linear)", "ndcg(gain=exp2)"]
    trec = evaluate(queries_with_ids(queries), scores, names, policy="trec").mean
    assert trec["ndcg"] == trec["ndcg(gain=linear)"] != trec["ndcg(gain=exp2)"]


def queries_with_ids(queries):
    ids = np.arange(queries.n_documents).astype(str)
    return Queries.from_arrays(queries.X, queries.grades, group=queries.lengths, document_ids=ids)


def test_weights_count():
    queries, scores = queries_of([[(1, 2.0), (0, 1.0)], [(1, 1.0), (0, 2.0)]], query_weights=[3, 1])
    assert evaluate(queries, scores, "rr").mean["rr"] == pytest.approx((3 * 1 + 1 * 0.5) / 4)


def test_scores_are_in_the_callers_order():
    queries = Queries.from_arrays(np.zeros((4, 1)), [1, 0, 0, 1], qid=["b", "a", "b", "a"])
    assert evaluate(queries, [9, 1, 0, 5], "rr").mean["rr"] == 1.0


@pytest.mark.parametrize("n_jobs", [1, 2, 7])
def test_threads_do_not_change_a_bit(n_jobs):
    rng = np.random.default_rng(0)
    sizes = rng.integers(1, 200, 300)
    grades, scores = rng.integers(0, 4, sizes.sum()), rng.integers(0, 50, sizes.sum()).astype(float)
    queries = Queries.from_arrays(np.zeros((sizes.sum(), 1)), grades, group=sizes)
    one = evaluate(queries, scores, SPELLINGS, n_jobs=1)
    many = evaluate(queries, scores, SPELLINGS, n_jobs=n_jobs)
    for name in SPELLINGS:
        np.testing.assert_array_equal(one[name], many[name])


@pytest.mark.parametrize("depth", [None, 1, 5, 64, 65])
@given(rows=st.lists(st.tuples(st.integers(0, 3), st.integers(0, 5)), min_size=1, max_size=200))
def test_ranking_is_a_stable_sort(depth, rows):
    from marginrank.measures.ranked_grades import rank_by

    scores = np.array([float(score) for score, _ in rows])
    prefer = np.array([float(p) for _, p in rows])
    plain = sorted(range(len(rows)), key=lambda d: -scores[d])[:depth]
    with_preference = sorted(range(len(rows)), key=lambda d: (-scores[d], -prefer[d]))[:depth]
    offsets = np.array([0, len(rows)])
    assert rank_by(scores, offsets, depth=depth)[0].tolist() == plain
    assert rank_by(scores, offsets, depth=depth, prefer=prefer)[0].tolist() == with_preference


def test_infinite_scores_are_ranks_too():
    queries, _ = queries_of([[(0, 0.0), (1, 0.0), (0, 0.0)]])
    assert evaluate(queries, [-np.inf, np.inf, 0.0], "rr").mean["rr"] == 1.0


def qrels_and_run():
    qrels = Qrels(np.array(["1", "2"]), np.array([0, 2, 3]), np.array(["a", "b", "a"]), np.array([1.0, 0.0, 2.0]))
    run = Run(np.array(["1", "9"]), np.array([0, 2, 3]), np.array(["b", "a", "x"]), np.array([2.0, 1.0, 3.0]), "mine")
    return qrels, run


def test_a_topic_without_documents_must_be_decided():
    qrels, run = qrels_and_run()
    with pytest.raises(DataError) as error:
        evaluate(qrels, run, "rr", policy="trec")
    assert str(error.value) == (
        "topic 2 has judgements but no documents in run 'mine'; pass missing_topics='skip' to leave them out "
        "(trec_eval's habit) or missing_topics='zero' to count them as 0 (trec_eval -c)"
    )
    assert evaluate(qrels, run, "rr", policy="trec", missing_topics="skip").mean["rr"] == 0.5
    assert evaluate(qrels, run, "rr", policy="trec", missing_topics="zero").mean["rr"] == 0.25
    with pytest.raises(ValueError, match="missing_topics is 'no'; choose 'error', 'skip' or 'zero'"):
        evaluate(qrels, run, "rr", missing_topics="no")


def test_a_run_of_other_topics_is_refused():
    qrels, _run = qrels_and_run()
    other = Run(np.array(["7"]), np.array([0, 1]), np.array(["a"]), np.array([1.0]), "other")
    with pytest.raises(DataError, match=r"no topic of run 'other' \(7, ...\) has judgements \(1, 2, ...\)"):
        evaluate(qrels, other)


@pytest.mark.parametrize(
    ("scores", "message"),
    [
        ([1.0, 2.0], r"scores have shape \(2,\) for 3 documents; give one number for each"),
        ([1.0, np.nan, 0.0], r"score 1 \(query 0\) is NaN; every document needs a score; use -inf to rank it last"),
        ([[1.0], [2.0], [3.0]], r"scores have shape \(3, 1\) for 3 documents; give one number for each"),
    ],
)
def test_bad_scores_are_refused(scores, message):
    queries, _ = queries_of([[(0, 0.0), (1, 0.0), (0, 0.0)]])
    with pytest.raises(DataError, match=message):
        evaluate(queries, scores)


def test_wrong_combinations_are_refused():
    queries, scores = queries_of([[(0, 0.0), (1, 0.0)]])
    with pytest.raises(ValueError, match=r"unknown policy 'trek'; did you mean 'trec'\? known: standard, letor3"):
        evaluate(queries, scores, policy="trek")
    with pytest.raises(ValueError, match="no measure given"):
        evaluate(queries, scores, [])
    with pytest.raises(ValueError, match="depth is 0"):
        evaluate(queries, scores, depth=0)
    with pytest.raises(KeyError, match="'rr' was not evaluated; there are ap"):
        evaluate(queries, scores, "ap")["rr"]


def test_arrays_are_grouped_by_query():
    """AP by hand: query b ranks its relevant document second, query a first."""
    y, scores, qid = [0, 1, 1, 0], [3.0, 2.0, 1.0, 0.0], ["b", "a", "b", "a"]
    result = evaluate(y, scores, "ap", qid=qid)
    assert (result.query_ids.tolist(), result["ap"].tolist()) == (["b", "a"], [0.5, 1.0])
    by_size = evaluate(y, scores, "ap", group=[1, 3], policy="letor4")
    assert (by_size.query_ids.tolist(), by_size["ap"].tolist()) == ([0, 1], [0.0, 1.0])


@pytest.mark.parametrize(
    ("call", "kind", "message"),
    [
        (lambda: evaluate([1, 0], [1.0, 2.0]), TypeError, "with qid or group"),
        (lambda: evaluate([1, 0], qrels_and_run()[1], qid=[1, 1]), TypeError, "with qid or group"),
        (lambda: evaluate(qrels_and_run()[0], [1.0], qid=[1]), TypeError, "leave out qid and group"),
        (lambda: evaluate([1, 0], [1.0], qid=[1, 1]), DataError, "scores have shape \\(1,\\) for 2 documents"),
        (lambda: evaluate([1, -2], [1.0, 2.0], qid=[1, 1]), DataError, r"y\[1\] is -2"),
        # Row 2 is stored second, next to the other document of its query.
        (
            lambda: evaluate([1, 0, 1], [1.0, 2.0, np.nan], qid=["b", "a", "b"]),
            DataError,
            r"score 2 \(query b\) is NaN",
        ),
    ],
)
def test_arrays_that_make_no_sense_are_refused(call, kind, message):
    with pytest.raises(kind, match=message):
        call()


def test_results_for_people_and_machines():
    queries, scores = queries_of([[(1, 2.0), (0, 1.0)], [(0, 1.0), (0, 2.0)]])
    result = evaluate(queries, scores, ["ndcg@10", "ap"])
    assert (
        str(result) == "measure    mean  queries\nndcg@10  1.0000        1\nap       1.0000        1\npolicy: standard"
    )
    assert repr(result) == "Evaluation(ndcg@10=1.0000, ap=1.0000; 2 queries, policy standard)"
    assert result.to_dict()["per_query"]["ap"] == {"0": 1.0, "1": None}


def test_a_set_without_any_defined_query_has_no_mean():
    queries, scores = queries_of([[(0, 1.0), (0, 2.0)]])
    assert np.isnan(evaluate(queries, scores, "ap").mean["ap"])


def test_evaluations_are_compared_on_one_measure():
    queries, scores = queries_of([[(1, 2.0), (0, 1.0)], [(1, 1.0), (0, 2.0)], [(0, 1.0), (0, 2.0)]])
    results = {"up": evaluate(queries, scores), "down": evaluate(queries, -scores)}
    row = compare(results, measure="ap").rows[0]
    assert (row.difference, row.wins, row.losses) == (0.0, 1, 1)
    with pytest.raises(ValueError, match="name the measure to compare: ndcg@10 or ap"):
        compare(results)
    other = evaluate(queries, scores, policy="letor4")
    with pytest.raises(DataError, match="'down' was evaluated under policy letor4, 'up' under standard"):
        compare({"up": results["up"], "down": other}, measure="ap")
    fewer = evaluate(queries[:2], scores[:4])
    with pytest.raises(DataError, match="'down' was evaluated on different queries than 'up'"):
        compare({"up": results["up"], "down": fewer}, measure="ap")


def test_every_policy_says_what_it_is():
    assert all(policy.summary and policy.name == name for name, policy in POLICIES.items())


def test_a_mean_over_no_queries_says_why():
    text = str(evaluate([0, 0, 0], [1.0, 2.0, 3.0], "ndcg@5", qid=[1, 1, 1]))
    assert text.endswith("policy: standard; no query has a relevant document")
    assert "nan        0" in text
    assert "no query" not in str(evaluate([0, 1], [1.0, 2.0], "ndcg@5", qid=[1, 1]))


def test_unjudged_documents_are_counted_among_the_first_ten():
    names = np.array([f"d{rank}" for rank in range(12)])
    run = Run(np.array(["1"]), np.array([0, 12]), names, np.arange(12.0, 0.0, -1.0))
    qrels = Qrels(np.array(["1"]), np.array([0, 1]), names[:1], np.array([1.0]))
    assert count_unjudged(qrels, run) == Unjudged(10, 9, 10)
