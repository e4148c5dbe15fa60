"""`marginrank measures` and `marginrank presets`."""

from __future__ import annotations

import re
from dataclasses import fields

import pytest

from marginrank import parse_measure
from marginrank.cli.options.method_options import PRESET_HELP
from marginrank.cli.options.shared_options import POLICY_HELP
from marginrank.evaluation.policies import POLICIES
from marginrank.measures import all_measures
from marginrank.methods import all_presets, parse_preset
from marginrank.methods.presets import GROUPS

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


def test_presets_are_listed_by_group(run):
    sections = re.split(r"^(\w+): .*\n\n", run("presets").out, flags=re.MULTILINE)[1:]
    listed = {
        title.lower(): [line.split()[0].removesuffix("@k") for line in rows.strip().splitlines()[1:]]
        for title, rows in zip(sections[::2], sections[1::2], strict=True)
    }
    assert list(listed) == list(GROUPS)
    assert [name for names in listed.values() for name in names] == list(PRESETS)
    assert all(PRESETS[name].group == group for group, names in listed.items() for name in names)


def test_help_names_the_recommended_presets():
    names = re.search(r"Recommended: (.*);", PRESET_HELP)[1].replace(" or ", ", ").split(", ")
    assert names == [name for name, preset in PRESETS.items() if preset.group == "recommended"]


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
