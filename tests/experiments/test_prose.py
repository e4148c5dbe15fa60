"""Figures in prose: sentences of hand-written pages are what the records of the experiments say.

If an experiment is run again and a sentence changes, the failure prints the sentence that the page should have.
"""

from __future__ import annotations

import json
from collections import Counter
from functools import cache
from pathlib import Path

import pytest

from experiments.cls_collapse import LENGTHS
from experiments.letor_baselines_report import METHODS as BASELINES
from experiments.which_loss_report import COLLECTIONS, collections_behind, safe_losses, shortfalls
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
    ohsumed, mq2008 = (f"{100 * (1 - share):.0f}%" for share in shares)
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


#: Methods of the experiments on few ratings, as docs/recommend.md names them.
RECOMMENDERS = {
    "item mean": "item mean, damping chosen",
    "biases + ALS": "biases + ALS, rank and regularization chosen",
    "factorization, all chosen": "`Recommender`, all of loss, factors, `C` and columns chosen",
    "factorization, C chosen": "`Recommender`, `C` chosen",
    "factorization, C chosen, no fixed columns but biases": "`Recommender`, `C` chosen, only biases as fixed columns",
    "factorization, defaults": "`Recommender()`",
    "factorization, defaults, users folded in": "`Recommender()`, users folded in",
    "factorization by DORM's loss": "`Recommender`, loss of DORM, `C` chosen",
    "MMMF": "maximum-margin matrix factorization, `C` chosen",
}


def few_ratings(name):
    """Return the table of NDCG@10 of an experiment on few ratings."""
    rows = {row.pop("method"): list(row.values()) for row in table(name, "NDCG@10;")}
    assert set(rows) == set(RECOMMENDERS)
    lines = [" | ".join([label, *rows[method]]).replace("0.", ".") for method, label in RECOMMENDERS.items()]
    return " | | N = 10 | N = 20 | N = 50 | | --- | --- | --- | --- | | ".lstrip() + " | | ".join(lines) + " |"


def films():
    return few_ratings("recommend-movielens")


def jokes():
    return few_ratings("recommend-jester")


def where_better(name, method):
    """Return for which numbers of ratings a method is better than regression on ratings."""
    found = {
        claim["claim"].split(" from ")[1].split()[0]: claim["verdict"]
        for claim in record(name)["findings"]
        if claim["claim"].lower().startswith(f"{method} has a higher ndcg@10 than regression on ratings")
    }
    assert list(found) == ["10", "20", "50"]
    better = [number for number, verdict in found.items() if verdict == "holds"]
    return "N = " + " and ".join([", ".join(better[:-1]), better[-1]]) if len(better) > 1 else f"N = {better[0]} only"


def films_better():
    defaults, chosen = (
        where_better("recommend-movielens", f"factorization, {how}") for how in ("defaults", "all chosen")
    )
    return (
        f"The defaults are significantly better than the item mean and than biases + ALS for {defaults}, and so is "
        f"the recommender with everything chosen for {chosen}"
    )


def jokes_better():
    chosen = where_better("recommend-jester", "factorization, all chosen")
    return f"With all parameters chosen, the recommender is significantly better than item means and ALS for {chosen}"


def dorm_Cs(name, *sizes):
    """Return the range of C that validation chose for the loss of DORM."""
    chosen = [
        one["ratings per C"]
        for key, result in record(name)["results"].items()
        if "/factorization by DORM's loss/" in key and key.split("/")[0] in sizes
        for one in result["chosen"]
    ]
    assert len(chosen) == 6 * len(sizes)
    return " to ".join(f"1/{ratings:.0f}" for ratings in sorted({min(chosen), max(chosen)}))


def small_C():
    few, many = (dorm_Cs("recommend-movielens", size) for size in ("10", "50"))
    return (
        f"validation preferred {few} with 10 ratings of each MovieLens user, {many} with 50, and "
        f"{dorm_Cs('recommend-jester', '10', '20', '50')} on Jester."
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
        ("docs/recommend.md", films),
        ("docs/recommend.md", films_better),
        ("docs/recommend.md", jokes),
        ("docs/recommend.md", jokes_better),
        ("docs/recommend.md", small_C),
    ],
    ids=lambda one: getattr(one, "__name__", None),
)
def test_figures_in_prose_are_those_of_the_records(page, sentence):
    text = " ".join((ROOT / page).read_text(encoding="utf-8").split())
    assert sentence() in text


def test_changed_verdicts_are_those_of_the_records():
    text = (RESULTS / "changed-verdicts.md").read_text(encoding="utf-8")
    rows = [line.strip("| ").split(" | ") for line in text.splitlines() if line.startswith("| [")]
    for name, claim, before, now, why in rows:
        verdicts = {one["claim"]: one["verdict"] for one in record(name[1:].split("]")[0])["findings"]}
        assert (claim, verdicts.get(claim)) == (claim, now)
        assert before != now
        assert why
    counts = Counter((before, now) for _, _, before, now, _ in rows)
    listed = [f"{n} from *{before}* to *{now}*" for (before, now), n in counts.most_common()]
    assert f"{len(rows)} verdicts differ" in text
    assert set(text.split("run again: ")[1].split(".\n")[0].split(", ")) == set(listed)


def test_the_advice_of_presets_follows_the_experiment():
    results = record("which-loss")["results"]
    safe = set(safe_losses(results))
    said = {name: advice(name) for name in all_presets() if advice(name)}
    assert {name for name, advice in said.items() if "never significantly behind" in advice} == safe & said.keys()
    assert {"softmax", "svmmap", "svmndcg", "ranksvm", "dorm-ndcg"} <= said.keys()
    named = {name: line.split("best loss on ")[1] for name, line in said.items() if "best loss on " in line}
    assert {"softmax", "listnet", "regression"} - safe <= named.keys() - safe
    for name, where in named.items():
        if name not in safe:
            assert {one for one in COLLECTIONS.values() if one in where} == set(collections_behind(results, name))


def test_recommended_presets_are_few_and_follow_the_experiment():
    results = record("which-loss")["results"]
    recommended = {name for name, preset in all_presets().items() if preset.group == "recommended"}
    assert len(recommended) <= 5
    assert set(safe_losses(results)) <= recommended
    assert all(advice(name) for name in recommended)
    behind = shortfalls(results)
    assert all(behind[name] <= 0.015 for name in recommended)


def test_no_page_states_the_time_of_all_experiments_by_hand():
    total = sum(float(json.loads(path.read_text())["seconds of computing"]) for path in RESULTS.glob("*.json"))
    assert f"took {total / 60:.0f} minutes of computing" in (RESULTS / "costs.md").read_text(encoding="utf-8")
    for page in ("experiments/README.md", "Makefile", "experiments/results/index.md"):
        lines = [line for line in (ROOT / page).read_text(encoding="utf-8").splitlines() if "experiment" in line]
        assert not [line for line in lines if "minutes" in line]
