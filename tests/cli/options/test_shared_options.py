"""An option means the same in every command, and its default is that of the library."""

from __future__ import annotations

import inspect
from dataclasses import fields
from fractions import Fraction
from functools import reduce

import pytest
import typer.main
from typer.core import TyperOption

from marginrank import Ranker, Recommender, evaluate, tune
from marginrank.cli.app import COMMANDS, app
from marginrank.clicks import (
    ClickLog,
    PositionUser,
    compare_clicks,
    compare_interleaved,
    estimate_propensities,
    interleave,
    read_clicks,
    read_ubi,
    simulate_clicks,
)
from marginrank.fusion import Fusion
from marginrank.methods.presets import DEFAULT
from marginrank.scorers.additive.scorer import Additive
from marginrank.solvers.auto import Auto
from marginrank.training.tight_bound import Tight

GROUP = typer.main.get_command(app)
#: Options that stand for different things: files and numbers that each command describes, and parameters of `Ranker`,
#: `Fusion` and `Recommender` that have one name and different values.
OF_EACH_COMMAND = {
    "--out",
    "--plot",
    "--k",
    "--depth",
    "--method",
    "--top",
    "--baseline",
    "--format",
    "--port",
    "--measure",
    "--preset",
    "--scorer",
    "--max-iter",
    "-C",
}


def named(command):
    """The command of a name, which may be that of a group and of a command in it."""
    return reduce(lambda group, name: group.commands[name], command.split(), GROUP)


def options(command):
    """The options of a command by parameter."""
    return {option.name: option for option in named(command).params if isinstance(option, TyperOption)}


def default_of(option):
    """The default as the help shows it; None if nothing is shown."""
    return option.show_default if isinstance(option.show_default, str) else option.default


def test_an_option_has_one_default_and_one_help_text():
    declared = {}
    for command in COMMANDS:
        for option in options(command).values():
            meaning = (str(default_of(option)), option.help)
            declared.setdefault(max(option.opts, key=len), {}).setdefault(meaning, []).append(command)
    assert {name for name, meanings in declared.items() if len(meanings) > 1} == OF_EACH_COMMAND


def parameters(callable_or_class):
    return {name: one.default for name, one in inspect.signature(callable_or_class).parameters.items()}


@pytest.mark.parametrize(
    ("command", "names", "library"),
    [
        ("train", ("bins", "spacing", "shape"), Additive),
        ("train", ("start_C", "start", "anneal"), Tight),
        ("train", ("tol",), Auto),
        ("train", ("scorer", "scaling", "weighting", "random_state", "time_limit", "n_jobs"), Ranker),
        ("tune", ("folds", "policy", "rule", "criterion"), tune),
        ("evaluate", ("policy", "depth", "missing_topics"), evaluate),
        ("fuse", ("measure", "scorer", "preset", "ranks", "policy", "n_jobs"), Fusion),
        ("clicks propensities", ("method", "clip", "confidence", "resamples", "random_state"), estimate_propensities),
        ("clicks propensities", ("positions_from", "merge", "aggregate"), read_clicks),
        ("clicks propensities", ("application", "impressions", "unmatched"), read_ubi),
        ("clicks evaluate", ("measure", "estimator", "baseline"), compare_clicks),
        ("clicks train", ("unknown",), ClickLog.with_features),
        ("clicks train", ("negative",), ClickLog.to_queries),
        ("clicks interleave", ("method", "k"), interleave),
        ("clicks preference", ("confidence", "rankings"), compare_interleaved),
        ("clicks simulate", ("depth", "random_state"), simulate_clicks),
        ("clicks simulate", ("eta", "relevant", "irrelevant"), PositionUser),
        ("recommend", ("factors", "history", "shift", "max_iter", "random_state", "negatives", "C"), Recommender),
    ],
)
def test_defaults_are_those_of_the_library(command, names, library):
    known = parameters(library)
    for name in names:
        shown, default = default_of(options(command)[name]), known[name]
        if shown is None or isinstance(shown, str):
            stated = str(shown).split(" ")[-1] if " else " in str(shown) else str(shown).split(" ")[0]
            same = default is None or stated == str(default) or _number(stated) == default
        else:
            same = shown == default
        assert same, (name, shown, default)


def _number(word):
    try:
        return float(Fraction(word))
    except ValueError:
        return None


def test_the_default_method_is_that_of_the_library():
    assert default_of(options("train")["preset"]) == DEFAULT
    assert {field.name for field in fields(Tight)} <= set(options("train"))
