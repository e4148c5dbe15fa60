"""The experiment "Which loss should I train?": its parts of queries, and what its report concludes."""

from __future__ import annotations

import numpy as np
import pytest

from experiments import which_loss_report as page
from experiments.chk import pack
from experiments.letor import arranged
from experiments.which_loss import _drawn, _fewer, _parts
from marginrank.data.queries import Queries


@pytest.mark.parametrize("name", ["scifact", "cranfield"])
def test_every_query_is_tested_once_and_never_trained_on_in_its_fold(name, data):
    parts = _parts(data, name, None)
    every = [query for part in parts for query in part.query_ids.tolist()]
    assert len(every) == len(set(every)) == 30
    for number in range(1, 6):
        split = arranged(parts, number)
        train, valid, test = (set(one.query_ids.tolist()) for one in split)
        assert train | valid | test == set(every)
        assert not train & valid
        assert not (train | valid) & test


def test_fewer_queries_are_drawn_among_those_with_several_grades(data):
    split = arranged(_parts(data, "mq2008", None), 1)
    fewer = _fewer(split, 6, 1)
    assert (len(fewer.train), len(fewer.valid)) == (6, 3)
    assert fewer.test is split.test
    flat = Queries.from_arrays(np.zeros((6, 1)), [0, 0, 1, 0, 1, 1], group=[2, 2, 2])
    assert _drawn(flat, 3, np.random.default_rng(0)).query_ids.tolist() == flat.query_ids[1:2].tolist()


def _results(means):
    """Results of made-up losses with a mean by collection, and noise that is the same for all losses."""
    noise = np.random.default_rng(0).uniform(-0.2, 0.2, 80)
    jitter = np.random.default_rng(1).uniform(-0.05, 0.05, 80)
    return {
        f"{name}/{loss}/all": {
            "values": {"ndcg@10": pack(0.5 + noise + means.get((loss, name), 0.0) + sign * jitter)},
            "objective_ratio": [0.5] * 5,
        }
        for name in page.COLLECTIONS
        for loss, sign in zip(page.LOSSES, np.linspace(-1, 1, len(page.LOSSES)), strict=True)
    }


def test_a_loss_that_is_clearly_behind_somewhere_is_not_safe():
    results = _results({("softmax", "cranfield"): -0.1, ("ranksvm", "mq2008"): 0.002})
    safe = page.safe_losses(results)
    assert "softmax" not in safe
    assert "svmmap" in safe
    behind = page.shortfalls(results)
    assert behind["softmax"] == pytest.approx(0.1, abs=0.02)
    assert safe == sorted(safe, key=behind.__getitem__)


def test_a_loss_that_stayed_at_zero_is_not_safe():
    results = _results({})
    assert "svmmap" in page.safe_losses(results)
    results["scifact/svmmap/all"]["objective_ratio"] = [1.0, 1.0, 0.9995, 0.5, 0.5]
    assert page.collections_behind(results, "svmmap") == ["SciFact"]
    assert "svmmap" not in page.safe_losses(results)
