"""Errors and warnings of the library name the options of the command that meets them."""

from __future__ import annotations

import ast
import pickle
import re
import shlex
from functools import reduce
from itertools import product
from pathlib import Path

import numpy as np
import pytest
import typer.main

import marginrank
from marginrank import Queries
from marginrank.cli.app import COMMANDS, _options_by_parameter, app
from marginrank.cli.exit_codes import write_option
from marginrank.data import write_letor
from marginrank.errors import DataError, Parameter, ParameterError

ROOT = Path(marginrank.__file__).parent
#: Rooms whose errors commands can meet.
ROOMS = (
    *("data", "preparation", "measures", "evaluation", "losses", "scorers", "solvers", "training", "methods", "model"),
    *("ranker", "fusion", "recommend", "reporting", "runtime", "export", "clicks"),
)
MODULES = [*ROOT.glob("*.py"), *(path for room in ROOMS for path in (ROOT / room).rglob("*.py"))]
GROUP = typer.main.get_command(app)


def options_of(command):
    """The options by parameter that errors of a command name."""
    context = typer.Context(GROUP)
    for name in command.split():
        context = typer.Context(context.command.commands[name], parent=context)
    return _options_by_parameter(context)


def texts():
    """All texts of the library that are sentences, without docstrings, with where they are."""
    for path in MODULES:
        tree = ast.parse(path.read_text(encoding="utf-8"))
        documented = {
            id(node.body[0].value)
            for node in ast.walk(tree)
            if isinstance(node, ast.Module | ast.ClassDef | ast.FunctionDef)
            and node.body
            and isinstance(node.body[0], ast.Expr)
        }
        for node in ast.walk(tree):
            text = node.value if isinstance(node, ast.Constant) and id(node) not in documented else None
            if isinstance(text, str) and " " in text:
                yield f"{path.relative_to(ROOT)}:{node.lineno}", text


#: Texts about parameters that commands do not pass on, check themselves, or name as part of a spelling.
PYTHON_ONLY = {
    ("data/grouping.py", "qid"): "files have no arguments group and qid",
    ("data/grouping.py", "group"): "files have no arguments group and qid",
    ("data/formats/letor.py", "group"): "files have their sizes beside them",
    ("data/inputs.py", "weighting"): "files have no weights",
    ("scorers/scoring_function.py", "group"): "arrays",
    ("scorers/kernel/scorer.py", "time_limit"): "spelled in --scorer",
    ("scorers/adaptive/scorer.py", "context"): "spelled in --scorer",
    ("scorers/boosted/scorer.py", "start"): "spelled in --scorer",
    ("evaluation/policies.py", "policy"): "not a string",
    ("training/early_stopping.py", "patience"): "not a number, which the parser refuses",
    ("runtime/option_objects.py", "random_state"): "not a number, which the parser refuses",
    ("runtime/option_objects.py", "time_limit"): "not a number, which the parser refuses",
    ("ranker/grid_search.py", "Cs"): "not a list",
    ("training/checkpoint.py", "resume"): "checked by CheckpointOptions",
    ("training/checkpoint.py", "checkpoint"): "checked by CheckpointOptions",
    ("ranker/argument_checks.py", "weighting"): "the arguments of other libraries",
    ("ranker/argument_checks.py", "qid"): "the arguments of other libraries",
    ("ranker/argument_checks.py", "group"): "the arguments of other libraries",
    ("ranker/argument_checks.py", "groups"): "scikit-learn",
    ("model/file_format.py", "C"): "a damaged model file",
    ("export/eland.py", "model"): "a written program",
    ("export/solr.py", "model"): "a query of Solr",
}


def test_texts_leave_parameters_that_are_options_to_each_interface():
    options = options_of("train") | options_of("recommend") | options_of("fuse")
    spelled = re.compile(r"^([A-Za-z]\w*)(?= is )|(?<![\w(.,])(?<!, )([A-Za-z]\w*)(?==(?!=))")
    excepted = set()
    for place, text in texts():
        for names in spelled.findall(re.sub(r"\w+\([^()]*\)?", "", text)):
            name = "".join(names)
            known = (place.partition(":")[0], name)
            excepted |= {known} & PYTHON_ONLY.keys()
            assert name not in options or known in PYTHON_ONLY, f"{place}: {text!r}"
    assert excepted == PYTHON_ONLY.keys()


def test_parameters_of_messages_have_options():
    named = {
        ast.literal_eval(node.args[0])
        for path in MODULES
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8")))
        if isinstance(node, ast.Call)
        and getattr(node.func, "id", "") == "Parameter"
        and isinstance(node.args[0], ast.Constant)
    }
    assert {"missing", "dtype", "bound", "scorer", "first_index", "folds"} <= named
    for command, name in product(COMMANDS, named - {"X", "allow_nan"}):
        written = write_option(Parameter(name, "tight"), options_of(command))
        option, _, place = written.removesuffix(")").partition(" (of marginrank ")
        if written.startswith("-"):
            assert option.removesuffix(" tight") in words_of(place or command), written
            assert not place or "--preset" not in words_of(command), written
        else:
            assert written == f"the {name.replace('_', ' ')} tight"
    # Arguments of simulated users, and of corrections that are read from files.
    for name in named - {"X", "systems", "curve", "trust"}:
        assert any(write_option(Parameter(name, True), options_of(one)).startswith("-") for one in COMMANDS), name


def words_of(command):
    """All options of a command."""
    found = reduce(lambda group, name: group.commands[name], command.split(), GROUP)
    return {words for parameter in found.params for words in parameter.opts}


@pytest.mark.parametrize(
    ("command", "parameter", "shown"),
    [
        ("train", Parameter("C"), "-C"),
        ("train", Parameter("random_state"), "--random-state"),
        ("recommend", Parameter("user", ...), "--user-column"),
        (
            "explain",
            Parameter("scorer", "additive(shape=steps)"),
            "--scorer 'additive(shape=steps)' (of marginrank train)",
        ),
        ("export", Parameter("kinds", "minmax", "rrf"), "--kinds minmax or rrf (of marginrank fuse)"),
        ("fuse", Parameter("scaling", "standard"), "the scaling standard"),
        ("fuse", Parameter("bound", "tight"), "--bound tight"),
        ("train", Parameter("n_bins"), "--bins"),
        ("train", Parameter("allow_nan", True), "--missing nan"),
        ("train", Parameter("overwrite", True), "--force"),
        ("evaluate", Parameter("missing_topics", "skip"), "--missing-topics skip"),
        ("train", Parameter("cv", 5), "the cv 5"),
    ],
)
def test_a_parameter_is_written_as_the_option_of_the_command(command, parameter, shown):
    assert write_option(parameter, options_of(command)) == shown


@pytest.mark.parametrize("error", [DataError, ParameterError])
def test_errors_cross_process_borders_with_their_parameters(error):
    said = error("fill it, or use ", (Parameter("missing", "zero"), " or scale it"))
    copied = pickle.loads(pickle.dumps(said))
    assert type(copied) is error
    assert str(copied) == str(said) == "fill it, or use missing='zero' or scale it"
    assert copied.written(lambda parameter: f"--{parameter.name}") == "fill it, or use --missing or scale it"


def test_what_stands_in_a_file_is_shown_as_it_is(folder, fails):
    Path("odd.csv").write_text("qid,grade,measure=ap,missing='zero'\n1,1,1,2\n1,0,good,3\n")
    said = fails("train", "odd.csv", "-C", "1", "-o", "new.safetensors", "--feature", "m*", code=1)
    assert "column 'measure=ap' holds 'good'" in said
    assert shlex.split(said)[-2:] == ["--feature", "missing='zero'"]


def test_the_features_that_an_error_names_can_be_pasted(folder, fails, run):
    Path("titles.csv").write_text("qid,grade,title,days old\n1,1,3,2\n1,0,bad,3\n2,1,a,4\n2,0,b,5\n")
    said = fails("train", "titles.csv", "-C", "1", "-o", "new.safetensors", code=1)
    assert "name the feature columns with --feature 'days old'" in said
    assert run("train", "titles.csv", "-C", "1", "-o", "new.safetensors", "--feature", "days old").code == 0


def test_a_warning_names_the_option(folder, run):
    rng = np.random.default_rng(0)
    grades = (rng.random((20, 40)) < 0.1).ravel().astype(float)
    write_letor(
        "noise.txt", Queries.from_arrays(rng.standard_normal((800, 3)), grades, qid=np.repeat(np.arange(20), 40))
    )
    words = ("train", "noise.txt", "--measure", "ndcg@5", "-C", "1", "-o", "new.safetensors", "--force")
    assert "; use --bound tight or auto\n" in run(*words, "--bound", "hinge").err
    assert "; --bound tight does so without this warning\n" in run(*words).err
