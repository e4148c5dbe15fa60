"""Messages of the library in the words of the command line."""

from __future__ import annotations

import ast
import re
from dataclasses import fields
from pathlib import Path

import pytest
import typer.main

import marginrank
from marginrank.cli.app import app
from marginrank.cli.exit_codes import describe
from marginrank.cli.options.evaluation_options import EvaluationOptions
from marginrank.cli.options.method_options import MethodOptions
from marginrank.cli.options.reading_options import ReadingOptions
from marginrank.cli.options.training_options import CheckpointOptions
from marginrank.cli.train_and_tune import TuneOptions
from marginrank.cli.vocabulary import in_options, options
from marginrank.errors import DataError

ROOT = Path(marginrank.__file__).parent
#: Rooms whose errors commands can meet.
ROOMS = ("data", "preparation", "measures", "evaluation", "losses", "scorers", "solvers", "methods", "fusion")
MODULES = [
    *(path for path in ROOT.glob("*.py") if path.name != "notebooks.py"),
    *(path for room in ROOMS for path in (ROOT / room).rglob("*.py")),
]
#: Parameters that no command passes on, so that their errors cannot come up there.
PYTHON_ONLY = {
    "group": "files have their sizes beside them",
    "sparse": "commands choose it",
    "ids": "commands write ids always",
    "ranks": "spelled --ranks in `fuse` alone",
    "ideal": "losses are made by presets",
    "power": "losses are made by presets",
    "confidence": "not an option",
    "resamples": "not an option",
    "tie_tolerance": "not an option",
    "validation": "the arguments of other libraries",
    "query_weights": "files have no weights",
    "curvature": "objectives are for other libraries",
    "kernel": "a function cannot be given on the command line",
    "callback": "the arguments of other libraries",
    "patience": "the arguments of other libraries",
    "weighting": "the arguments of other libraries",
    "enable_metadata_routing": "scikit-learn",
    "cv": "scikit-learn",
    "groups": "scikit-learn",
    "name": "a word for any parameter",
    "index": "pandas, which wrote the file",
    "lines": "pandas, which wrote the file",
    "shape": "in the words of scikit-learn, of arrays",
    "max_grade": "a parameter of a measure, which is spelled so",
}
TRANSLATED = {"allow_nan", "overwrite", "regroup"}


def messages():
    """All texts of the library that are sentences, without docstrings."""
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
                yield path, text


def test_every_parameter_in_a_message_has_an_option_or_is_for_python_alone():
    named = set()
    for path, text in messages():
        for name in re.findall(r"(?<![\w(.,])(?<!, )([a-z]\w*)=(?!=)", re.sub(r"\w+\([^()]*\)?", "", text)):
            named.add(name)
            assert name in options() or name in PYTHON_ONLY or name in TRANSLATED, f"{path.name}: {text!r}"
    assert {"missing", "dtype", "bound", "scorer", "first_index"} <= named


def test_options_are_those_that_commands_have():
    commands = typer.main.get_command(app).commands.values()
    declared = {name for command in commands for option in command.params for name in option.opts}
    assert set(options().values()) <= declared
    for group in (MethodOptions, TuneOptions, CheckpointOptions, ReadingOptions, EvaluationOptions):
        assert {field.name for field in fields(group)} <= set(options())


@pytest.mark.parametrize(
    ("said", "shown"),
    [
        ("fill it, or pass allow_nan=True to keep it", "fill it, or give --missing nan to keep it"),
        ("use scaling='standard', or divide the feature", "use --scaling standard, or divide the feature"),
        ("name it with qid= (recognised: qid, query)", "name it with --qid (recognised: qid, query)"),
        ("pass n_features=46 if the missing ones are zero", "give --n-features 46 if the missing ones are zero"),
        ("pass missing_topics='skip' or 'zero'", "give --missing-topics skip or zero"),
        ("use ndcg@10(gain=linear)", "use ndcg@10(gain=linear)"),
        ("folds is 9 for 5 queries", "--folds is 9 for 5 queries"),
        ("time_limit is -1; give a number of seconds, or None", "--time-limit is -1; give a number of seconds"),
        ("X holds 'a', which is not a number", "the data holds 'a', which is not a number"),
        ("array 'document_ids.codes' does not match", "array 'document_ids.codes' does not match"),
    ],
)
def test_parameters_become_options(said, shown):
    assert in_options(said) == shown


def test_paths_stay_as_they_are():
    message, code = describe(DataError("use missing='nan'", path="missing=1.txt"))
    assert (message, code) == ("missing=1.txt: use --missing nan", 1)
