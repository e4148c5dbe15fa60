"""Figures in prose: sentences of hand-written pages are what the records of the experiments say.

If an experiment is run again and a sentence changes, the failure prints the sentence that the page should have.
"""

from __future__ import annotations

import json
from functools import cache
from pathlib import Path

import pytest

from experiments.cls_collapse import LENGTHS
from experiments.letor_baselines_report import METHODS as BASELINES
from experiments.which_loss_report import safe_losses
from experiments.writing import RESULTS
from marginrank.cli.preset_advice import advice
from marginrank.methods.presets import all_presets

LETOR = ("OHSUMED (LETOR 2.0)", "MQ2008")
ROOT = Path(__file__).parents[2]


@cache
def record(name):
    return json.loads((RESULTS / f"{name}.json").read_text(encoding="utf-8"))


def table(name, caption):
    """Return the rows of the first table of a record whose caption contains a text, as dictionaries."""
    found = next(one for one in record(name)["tables"] if caption in one["caption"])
    return [dict(zip(found["columns"], row, strict=True)) for row in found["rows"]]


def number(value, digits=4, *, signed=False):
    """Write a number as the pages do: no zero before the point, and a true minus.

    >>> number(-0.00423, signed=True), number(0.0035, signed=True), number(0.553, 3)
    ('−.0042', '+.0035', '.553')
    """
    text = f"{abs(value):.{digits}f}".removeprefix("0" if abs(value) < 1 else "")
    return ("−" if value < 0 else "+" if signed else "") + text


def baselines():
    """The largest difference of MAP from a published one."""
    claims = [one for one in record("letor-baselines")["findings"] if "of the published MAP" in one["claim"]]
    assert {one["claim"].split()[0] for one in claims} <= set(BASELINES.values())
    differences = [abs(float(one["evidence"].split("difference ")[1].split(";")[0])) for one in claims]
    assert len(differences) >= 6
    return f"RankSVM and RankBoost are within {number(max(differences))} MAP of all published figures."


def bounds_of_lists():
    (claim,) = [one for one in record("rdb")["findings"] if one["claim"].startswith("Corollary 3 and Theorem 4")]
    exponent = claim["evidence"].split("at least 10^")[1].split()[0]
    return f"The printed bounds for lists are astronomical, 10^{exponent} and more"


def along_a_line():
    fold = record("cls-collapse")["results"]["ohsumed2/along/fold 1"]
    at = [LENGTHS.index(length) for length in (1.0, 10.0, 100.0)]
    hinge, tight = ([fold[kind][place] for place in at] for kind in ("hinge", "tight"))
    return (
        f"both bounds are {fold['at zero']:.0f} at 0. The hinge is {hinge[0]:,.0f} at w, {hinge[1]:,.0f} at 10w and "
        f"{hinge[2]:,.0f} at 100w; the tight bound is {', '.join(number(one, 3) for one in tight[:2])} and "
        f"{number(tight[2], 3)}, and the loss itself is {number(fold['loss'][at[0]], 3)}."
    )


def learned_objectives():
    shares = [
        row["objective / first"]
        for row in table("cls-learned", "Means of the folds")
        if row["A(r)"] == "learned with w"
    ]
    ohsumed, mq2008 = (f"{100 * (1 - share):.0f} %" for share in shares)
    return f"the training objective decreases by {ohsumed} on OHSUMED and {mq2008} on MQ2008."


def learned_differences():
    rows = table("cls-learned", "NDCG@10 by test query")
    with_w, validated = (
        [row for row in rows if row["A(r)"] == f"learned {how}"] for how in ("with w", "on validation queries")
    )
    ends = ("difference", "from", "to")
    first, second = ("{} [{}, {}]".format(*(number(row[end], signed=True) for end in ends)) for row in with_w)
    third, fourth = (number(row["difference"], signed=True) for row in validated)
    return (
        f"NDCG@10 on test queries changes by {first} and {second}, and with A learned on validation queries by "
        f"{third} and {fourth}"
    )


def cut_or_not():
    sets = [
        {row["trained for"]: row["NDCG10"] for row in table("chk-matrix", f"{name}, as published")} for name in LETOR
    ]
    (ohsumed, no_cut), (mq2008, without) = ((number(by["NDCG tight"]), number(by["NDCG-NC"])) for by in sets)
    return (
        f"With the tight bound, the cutoff gives an NDCG@10 of {ohsumed} on OHSUMED and {mq2008} on MQ2008, and `-nc` "
        f"one of {no_cut} and {without}"
    )


@pytest.mark.parametrize(
    ("page", "sentence"),
    [
        ("experiments/results/index.md", baselines),
        ("experiments/results/index.md", bounds_of_lists),
        ("docs/methods/chapelle.md", along_a_line),
        ("docs/methods/chapelle.md", learned_objectives),
        ("docs/methods/chapelle.md", learned_differences),
        ("docs/methods/svmndcg.md", cut_or_not),
    ],
    ids=lambda one: getattr(one, "__name__", None),
)
def test_figures_in_prose_are_those_of_the_records(page, sentence):
    text = " ".join((ROOT / page).read_text(encoding="utf-8").split())
    assert sentence() in text


def test_the_advice_of_presets_follows_the_experiment():
    results = record("which-loss")["results"]
    safe = set(safe_losses(results))
    said = {name: advice(name) for name in all_presets() if advice(name)}
    assert {name for name, advice in said.items() if "never significantly behind" in advice} == safe & said.keys()
    assert {"softmax", "svmmap", "svmndcg", "ranksvm", "dorm-ndcg"} <= said.keys()


def test_no_page_states_the_time_of_all_experiments_by_hand():
    total = sum(float(json.loads(path.read_text())["seconds of computing"]) for path in RESULTS.glob("*.json"))
    assert f"took {total / 60:.0f} minutes of computing" in (RESULTS / "costs.md").read_text(encoding="utf-8")
    for page in ("experiments/README.md", "Makefile", "experiments/results/index.md"):
        lines = [line for line in (ROOT / page).read_text(encoding="utf-8").splitlines() if "experiment" in line]
        assert not [line for line in lines if "minutes" in line]
