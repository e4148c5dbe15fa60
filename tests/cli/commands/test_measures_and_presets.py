"""`marginrank measures` and `marginrank presets`."""

from __future__ import annotations

import re
from dataclasses import fields

import pytest

from marginrank import parse_measure
from marginrank.cli.options.shared_options import POLICY_HELP
from marginrank.evaluation.policies import POLICIES
from marginrank.measures import all_measures
from marginrank.methods import all_presets, parse_preset

PRESETS = all_presets()


def test_help_lists_the_policies():
    names = POLICY_HELP.rpartition(": ")[2].rstrip(".").replace(" or ", ", ").split(", ")
    assert names == list(POLICIES)


@pytest.mark.parametrize(
    "words", [("presets", name) for name in PRESETS] + [("measures", name) for name in all_measures()]
)
def test_descriptions_have_no_markup_and_fit_the_terminal(run, words, monkeypatch):
    monkeypatch.setenv("COLUMNS", "80")
    text = run(*words).out
    assert not re.search(r"`|>>>|:\w+:`|^Args:", text)
    assert max(map(len, text.splitlines())) <= 80


def test_all_measures_are_listed(run):
    record = run("measures", "--json").json["measures"]
    assert [one["name"] for one in record] == list(all_measures())
    lines = run("measures").out.splitlines()
    assert [line.split()[0] for line in lines[1:]] == [one["spelling"] for one in record]


def test_all_presets_are_listed(run):
    record = run("presets", "--json").json["presets"]
    assert [one["name"] for one in record] == list(PRESETS)
    lines = run("presets").out.splitlines()
    assert [line.split()[0].removesuffix("@k") for line in lines[1:]] == list(PRESETS)


@pytest.mark.parametrize("name", sorted(all_measures()))
def test_every_measure_is_described(run, name):
    kind = all_measures()[name]
    done = run("measures", name, "--json")
    assert done.json["name"] == name
    assert set(done.json["parameters"]) == {field.name for field in fields(kind)}
    assert (kind.__doc__ or "").splitlines()[0].replace("``", "") in run("measures", name).out


def test_a_spelling_with_a_cutoff_is_its_measure(run):
    assert run("measures", "ndcg@10", "--json").json["name"] == parse_measure("ndcg@10").name


@pytest.mark.parametrize("name", sorted(PRESETS))
def test_every_preset_is_described(run, name):
    record = run("presets", name, "--json").json
    assert record[PRESETS[name].kind] == str(parse_preset(name).trained)
    assert record["measure"] == parse_preset(name).criterion
    assert PRESETS[name].summary in run("presets", name).out


def test_a_cutoff_of_a_preset_is_taken(run):
    assert run("presets", "svmndcg@3", "--json").json["measure"] == "ndcg@3"


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (["measures", "ndgc"], "did you mean 'ndcg'?"),
        (["measures", "ndgc@10"], "did you mean 'ndcg@10'?"),
        (["presets", "svmmpa"], "did you mean 'svmmap'?"),
        (["presets", "svmmap@3"], "no cutoff"),
    ],
)
def test_unknown_names_are_refused_with_the_nearest(fails, words, said):
    assert said in fails(*words, code=2)
