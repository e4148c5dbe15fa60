"""Agreement with trec_eval through ir-measures, and with scikit-learn, on random graded data with ties."""

from __future__ import annotations

import ir_measures
import numpy as np
import pytest
from sklearn.metrics import average_precision_score, ndcg_score, roc_auc_score

from marginrank import Queries, evaluate
from marginrank.data import Qrels, Run

SEEDS = range(4)

#: Ours and theirs, where the definitions coincide.
IR_MEASURES = {
    "ap": "AP", "ap(rel=2)": "AP(rel=2)", "ap@10": "AP@10", "rr": "RR", "rr(rel=2)": "RR(rel=2)",
    "success@5": "Success@5", "success@1(rel=2)": "Success(rel=2)@1",
    "p@5": "P@5", "p@50": "P@50", "p@5(rel=2)": "P(rel=2)@5", "recall@10": "R@10",
    "ndcg": "nDCG", "ndcg@5": "nDCG@5", "ndcg@10": "nDCG@10",
    "bpref": "Bpref", "bpref(rel=3)": "Bpref(rel=3)", "infap": "infAP", "infap(rel=3)": "infAP(rel=3)",
}  # fmt: skip


def random_lists(seed: int, n_queries: int = 30) -> list[tuple[list[int], list[float]]]:
    rng = np.random.default_rng(seed)
    sizes = rng.integers(1, 40, n_queries)
    return [(rng.integers(0, 5, n).tolist(), (rng.integers(0, 12, n) / 4).tolist()) for n in sizes]


@pytest.mark.parametrize("seed", SEEDS)
def test_agrees_with_trec_eval(seed):
    lists = random_lists(seed)
    rng = np.random.default_rng(seed)
    judged: list[ir_measures.Qrel] = []
    retrieved: list[ir_measures.ScoredDoc] = []
    for q, (grades, scores) in enumerate(lists):
        names = [f"d{k}" for k in rng.permutation(1000)[: len(grades)]]
        seen = rng.random(len(grades)) < 0.8
        seen[0] = True
        judged += [ir_measures.Qrel(f"q{q}", name, g) for name, g in zip(names, grades, strict=True)]
        retrieved += [ir_measures.ScoredDoc(f"q{q}", n, s) for n, s, r in zip(names, scores, seen, strict=True) if r]
        retrieved += [ir_measures.ScoredDoc(f"q{q}", f"unjudged{k}", float(k)) for k in range(3)]
    theirs = {
        ours: {m.query_id: m.value for m in ir_measures.iter_calc([ir_measures.parse_measure(name)], judged, retrieved)}
        for ours, name in IR_MEASURES.items()
    }
    qrels, run = as_qrels(judged), as_run(retrieved)
    result = evaluate(qrels, run, list(IR_MEASURES), policy="trec")
    for ours, values in theirs.items():
        expected = [values[topic] for topic in result.query_ids.tolist()]
        assert result[ours].tolist() == pytest.approx(expected, abs=1e-12), ours
    condensed = {"ap": "AP(judged_only=True)", "p@5": "P(judged_only=True)@5", "ndcg@5": "nDCG(judged_only=True)@5"}
    condensed |= {"recall@10": "R(judged_only=True)@10", "rr": "RR(judged_only=True)"}
    skipped = evaluate(qrels, run, list(condensed), policy="trec", unjudged="skip")
    for ours, name in condensed.items():
        metrics = ir_measures.iter_calc([ir_measures.parse_measure(name)], judged, retrieved)
        theirs_of_topic = {metric.query_id: metric.value for metric in metrics}
        expected = [theirs_of_topic[topic] for topic in skipped.query_ids.tolist()]
        assert skipped[ours].tolist() == pytest.approx(expected, abs=1e-12), name
        assert not np.array_equal(skipped[ours], result[ours])


@pytest.mark.parametrize("seed", SEEDS)
def test_the_share_of_judged_documents_is_that_of_ir_measures(seed):
    """Without ties, which ir-measures orders by document id from a to z here, and trec_eval from z to a."""
    rng = np.random.default_rng(seed)
    judged: list[ir_measures.Qrel] = []
    retrieved: list[ir_measures.ScoredDoc] = []
    for q in range(20):
        for k, score in enumerate(rng.permutation(int(rng.integers(1, 30))).tolist()):
            retrieved.append(ir_measures.ScoredDoc(f"q{q}", f"d{k}", float(score)))
        names = [f"d{k}" for k in rng.permutation(40)[: rng.integers(1, 30)]]
        judged += [ir_measures.Qrel(f"q{q}", name, int(rng.integers(0, 3))) for name in names]
    spellings = {"judged": "Judged", "judged@1": "Judged@1", "judged@5": "Judged@5", "judged@50": "Judged@50"}
    for policy in ("standard", "trec", "letor4"):
        result = evaluate(as_qrels(judged), as_run(retrieved), list(spellings), policy=policy)
        for ours, name in spellings.items():
            metrics = ir_measures.iter_calc([ir_measures.parse_measure(name)], judged, retrieved)
            theirs = {metric.query_id: metric.value for metric in metrics}
            expected = [theirs[topic] for topic in result.query_ids.tolist()]
            assert result[ours].tolist() == pytest.approx(expected, abs=1e-12), ours


def as_qrels(judged) -> Qrels:
    topics = list(dict.fromkeys(row.query_id for row in judged))
    sizes = [sum(row.query_id == topic for row in judged) for topic in topics]
    ids = np.array([row.doc_id for row in judged])
    grades = np.array([float(row.relevance) for row in judged])
    return Qrels(np.array(topics), np.concatenate([[0], np.cumsum(sizes)]), ids, grades)


def as_run(retrieved) -> Run:
    topics = list(dict.fromkeys(row.query_id for row in retrieved))
    sizes = [sum(row.query_id == topic for row in retrieved) for topic in topics]
    ids = np.array([row.doc_id for row in retrieved])
    scores = np.array([row.score for row in retrieved])
    return Run(np.array(topics), np.concatenate([[0], np.cumsum(sizes)]), ids, scores)


def as_queries(lists) -> tuple[Queries, np.ndarray]:
    grades = np.concatenate([grades for grades, _ in lists])
    scores = np.concatenate([scores for _, scores in lists])
    return Queries.from_arrays(np.zeros((len(grades), 1)), grades, group=[len(g) for g, _ in lists]), scores


@pytest.mark.parametrize("k", [1, 3, 10, None])
@pytest.mark.parametrize("seed", SEEDS)
def test_ndcg_with_ties_is_scikit_learns(seed, k):
    """ndcg_score takes the mean over tied documents, as our standard policy does."""
    lists = [(grades, scores) for grades, scores in random_lists(seed) if len(grades) > 1 and max(grades) > 0]
    queries, scores = as_queries(lists)
    cutoff = "" if k is None else f"@{k}"
    linear, exponential = f"ndcg{cutoff}(gain=linear)", f"ndcg{cutoff}"
    result = evaluate(queries, scores, [linear, exponential])
    expected = [ndcg_score([g], [s], k=k) for g, s in lists]
    assert result[linear].tolist() == pytest.approx(expected, abs=1e-12)
    expected = [ndcg_score([np.exp2(g) - 1], [s], k=k) for g, s in lists]
    assert result[exponential].tolist() == pytest.approx(expected, abs=1e-12)


@pytest.mark.parametrize("seed", SEEDS)
def test_auc_with_ties_is_scikit_learns(seed):
    lists = [(g, s) for g, s in random_lists(seed) if 0 < sum(grade >= 2 for grade in g) < len(g)]
    queries, scores = as_queries(lists)
    expected = [roc_auc_score(np.array(g) >= 2, s) for g, s in lists]
    assert evaluate(queries, scores, "auc(rel=2)")["auc(rel=2)"].tolist() == pytest.approx(expected, abs=1e-12)


@pytest.mark.parametrize("seed", SEEDS)
def test_ap_without_ties_is_scikit_learns(seed):
    """average_precision_score takes tied documents as one step of the curve, which is another measure."""
    rng = np.random.default_rng(seed)
    lists = [(g, rng.permutation(len(g)).tolist()) for g, _ in random_lists(seed) if max(g) >= 1]
    queries, scores = as_queries(lists)
    expected = [average_precision_score(np.array(g) >= 1, s) for g, s in lists]
    assert evaluate(queries, scores, "ap")["ap"].tolist() == pytest.approx(expected, abs=1e-12)
