"""Mistakes that people make, and what they are told."""

from __future__ import annotations

import re
import subprocess
import sys

import numpy as np
import pytest

import marginrank as mr
from marginrank import losses
from marginrank.data import Run, write_letor, write_run
from marginrank.evaluation import Policy
from marginrank.evaluation.policies import parse_policy
from marginrank.losses import MaxLoss, PairwiseHinge, SquaredError, StructuredLoss, SumLoss
from marginrank.training.partitioned_risk import empirical_risk


@pytest.fixture
def queries():
    return mr.Queries.from_arrays([[3.0], [1.0], [2.0], [0.0]], [2, 1, 0, 0], qid=list("abab")).grouped


@pytest.mark.parametrize(
    ("package", "name", "meant"),
    [(mr, "Rankr", "Ranker"), (mr, "queries", "Queries"), (losses, "StructuralLoss", "StructuredLoss")],
)
def test_a_misspelled_name_is_answered_with_the_right_one(package, name, meant):
    said = f"module {package.__name__!r} has no attribute {name!r}; did you mean {meant!r}?"
    with pytest.raises(AttributeError, match=f"^{re.escape(said)}$"):
        getattr(package, name)


def test_a_name_like_no_other_is_only_refused():
    with pytest.raises(AttributeError, match=r"^module 'marginrank' has no attribute 'xyzzy'$"):
        _ = mr.xyzzy
    assert not hasattr(mr, "__wrapped__")


def test_modules_are_there_without_importing_them():
    code = "import marginrank as mr; print(mr.losses.PairwiseHinge(), mr.data.reader.read.__name__)"
    printed = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True).stdout
    assert printed == f"{PairwiseHinge()} read\n"


@pytest.mark.parametrize(
    ("w", "message"),
    [
        (np.ones(2), r"w has shape \(2,\) for 1 features; give one weight per feature"),
        (np.float64(1.0), r"w has shape \(\) for 1 features"),
        (np.ones((1, 1)), r"w has shape \(1, 1\) for 1 features"),
        (np.array([np.nan]), r"w\[0\] is not finite"),
    ],
)
def test_weights_must_fit_the_features(queries, w, message):
    risk = empirical_risk(queries, StructuredLoss("ap"))
    with pytest.raises(mr.DataError, match=message):
        risk(w)
    with pytest.raises(mr.DataError, match=message):
        risk.scores(w)


def test_scores_of_weights_come_in_the_order_of_the_queries(queries):
    scores = empirical_risk(queries, StructuredLoss("ap")).scores(np.array([2.0]))
    assert scores.tolist() == (2.0 * queries.X[:, 0]).tolist()
    assert mr.evaluate(queries, scores, "rr").mean["rr"] == 1.0


@pytest.mark.parametrize(
    ("grades", "scores", "offsets", "message"),
    [
        ([1, 0], [1.0, np.nan], None, "score 1 is nan; the scores of a loss must be finite"),
        ([1, 0], [1.0, np.inf], None, "score 1 is inf"),
        ([1, np.nan], [1.0, 2.0], None, "some documents are unjudged; leave them out"),
        ([1, -2], [1.0, 2.0], None, r"y\[1\] is -2; grades must not be negative"),
        ([1, 0], [1.0, 2.0, 3.0], None, r"scores have shape \(3,\) for 2 documents"),
        ([1, 0, 0], [1.0, 2.0, 3.0], [0, 2, 5], "offsets must increase from 0 to the number of rows, 3"),
        ([1, 0, 0], [1.0, 2.0, 3.0], [0, 3, 2, 3], "offsets must increase"),
        ([1, 0, 0], [1.0, 2.0, 3.0], [2, 1], "offsets must increase"),
    ],
)
@pytest.mark.parametrize(
    "loss", [StructuredLoss("ap"), PairwiseHinge(), SquaredError(), SumLoss([StructuredLoss("auc")])]
)
def test_losses_check_what_they_are_given(loss, grades, scores, offsets, message):
    with pytest.raises(mr.DataError, match=message):
        loss(grades, scores, offsets)


def test_a_loss_is_prepared_for_queries_or_lists(queries):
    loss = StructuredLoss("ap")
    prepared = loss.prepare(queries)
    assert (
        prepared([1.0, 2.0, 3.0, 4.0])[0].tolist()
        == loss.prepare([2, 0, 1, 0], [0, 2, 4])([1.0, 2.0, 3.0, 4.0])[0].tolist()
    )


@pytest.mark.parametrize(
    ("call", "error", "message"),
    [
        (lambda q: empirical_risk(q, "ap"), TypeError, r"takes Queries and a Loss, such as StructuredLoss"),
        (
            lambda _: SumLoss(StructuredLoss("ap"), StructuredLoss("auc")),
            TypeError,
            "give the losses as a list",
        ),
        (lambda _: MaxLoss([]), ValueError, "MaxLoss needs at least one loss"),
        (lambda _: StructuredLoss("ap", None), ValueError, "feature_map is None; give a string or a FeatureMap"),
        (lambda _: mr.parse_measure(None), TypeError, "measure is None; give a Measure or its spelling, such as"),
        (lambda _: mr.parse_measure("ap(rel=0)"), ValueError, "rel is above 0"),
        (
            lambda q: mr.evaluate([1, 2, 3, 4], q),
            TypeError,
            "or .grades, scores. with qid or group",
        ),
        (lambda q: mr.evaluate(q, [1, 2, 3, 4], None), ValueError, "no measure given"),
        (lambda q: mr.evaluate(q, [1, 2, 3, 4], depth=1.5), ValueError, "depth is 1.5"),
        (lambda q: mr.evaluate(q, [1, 2, 3, 4], missing_topics="skp"), ValueError, "missing_topics is 'skp'"),
        (lambda q: mr.evaluate(q, [1, 2, 3, 4], n_jobs=1.5), ValueError, "n_jobs is 1.5"),
        (lambda _: Policy("mine", "", ties="best"), ValueError, "ties is 'best'; choose 'average', 'input'"),
        (lambda _: Policy("mine", "", empty="two"), ValueError, "empty is 'two'; choose 'skip', 'zero' or 'one'"),
        (lambda _: parse_policy(3), TypeError, "policy is 3; give a Policy or the name of one: standard"),
        (lambda _: mr.compare([[1.0], [2.0]]), TypeError, "compare takes the systems by name"),
    ],
)
def test_mistakes_are_explained(queries, call, error, message):
    with pytest.raises(error, match=message):
        call(queries)


def test_measures_are_spelled_in_any_case():
    assert repr(mr.parse_measure("NDCG@10")) == "ndcg@10"


@pytest.mark.parametrize("suffix", ["", ".gz", ".xz", ".bz2", ".zst"])
def test_text_is_compressed_by_its_suffix(tmp_path, queries, suffix):
    write_letor(tmp_path / f"q.txt{suffix}", queries)
    assert mr.read(tmp_path / f"q.txt{suffix}").grades.tolist() == [2.0, 0.0, 1.0, 0.0]
    write_run(tmp_path / f"a.run{suffix}", queries, [4, 3, 2, 1])
    assert len(mr.read_run(tmp_path / f"a.run{suffix}")) == 2
    if suffix:
        assert (tmp_path / f"q.txt{suffix}").read_bytes()[:2] in (b"\x1f\x8b", b"\xfd7", b"BZ", b"\x28\xb5")


def test_converting_text_to_text_rounds_nothing_and_spares_the_source(tmp_path):
    (tmp_path / "a.txt").write_text("1 qid:1 1:0.123456789012345\n")
    mr.convert(tmp_path / "a.txt", tmp_path / "b.txt")
    assert (tmp_path / "b.txt").read_text() == "1 qid:1 1:0.123456789012345\n"
    with pytest.raises(mr.DataError, match="both source and target"):
        mr.convert(tmp_path / "a.txt", tmp_path / "a.txt")


def test_a_run_keeps_its_own_scores(tmp_path, queries):
    run = Run.from_scores(queries, [4, 3, 2, 1])
    with pytest.raises(TypeError, match="a Run has its own scores"):
        write_run(tmp_path / "a.run", run, [1, 2, 3, 4])
    with pytest.raises(ValueError, match="depth is 0"):
        write_run(tmp_path / "a.run", run, depth=0)
