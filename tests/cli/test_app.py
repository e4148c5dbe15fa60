"""The command line as a whole: help, exit codes, errors, completion."""

from __future__ import annotations

import json
import os
import re
import shutil
import subprocess
import sys
from dataclasses import fields
from functools import partial
from inspect import signature
from pathlib import Path
from typing import get_args, get_type_hints

import pytest
from typer.testing import CliRunner

from marginrank import Ranker, __version__
from marginrank.cli import exit_codes as failures
from marginrank.cli.app import COMMANDS, app
from marginrank.cli.options import shared_options as completion
from marginrank.cli.options.method_options import MethodOptions
from marginrank.cli.options.reading_options import ReadingOptions
from marginrank.cli.train_and_tune import TuneOptions

HEAVY = ("numba", "sklearn", "scipy", "numpy", "pandas", "pyarrow", "matplotlib")


def examples_of(help_text):
    """The lines that help closes with, as they are printed."""
    return [line.strip() for line in help_text.splitlines() if line.strip().startswith("$ ")]


@pytest.mark.slow
@pytest.mark.usefixtures("few_Cs")
def test_examples_of_help_work_as_they_are_printed(run, folder, monkeypatch, help_of):
    pytest.importorskip("fastapi", reason="FastAPI is not installed: pip install 'marginrank[serve]'")
    monkeypatch.setattr("uvicorn.Server.run", lambda *_, **__: None)  # which ends at a signal
    monkeypatch.setattr("marginrank.judging.JudgingServer.serve_forever", lambda *_, **__: None)
    for name in ("model.safetensors", "scores.txt"):
        (folder / name).unlink()  # made by the examples themselves
    for command in sorted(COMMANDS, key=lambda name: name not in ("train", "rank")):
        shown = help_of[command]
        examples = examples_of(shown)
        assert 1 <= len(examples) <= 2
        assert shown.rstrip().endswith(examples[-1])
        for example in examples:
            program, *words = example.removeprefix("$ ").split()
            assert program == "marginrank"
            done = run(*words)
            assert done.code == 0, (example, done.err)


def test_every_command_is_in_the_help_with_a_summary(help_of):
    for command in COMMANDS:
        group, _, name = command.rpartition(" ")
        assert re.search(rf"^│ {name} +\w", help_of[group], re.MULTILINE)
        assert not group or re.search(rf"^│ {group} +\w", help_of[""], re.MULTILINE)
    text = help_of[""]
    assert "0 success, 1 bad input, 2 bad usage, 130 interrupted" in text


def test_the_help_lists_groups_among_commands_in_the_order_of_use(help_of):
    listed = re.findall(r"^│ (\w+)  ", help_of[""], re.MULTILINE)
    steps = ["inspect", "split", "train", "evaluate", "export", "serve", "clicks", "judge", "verify", "warmup"]
    assert [name for name in listed if name in steps] == steps
    assert help_of["clicks"].index("│ propensities") < help_of["clicks"].index("│ train")


def test_help_loads_nothing_heavy():
    code = (
        "import sys; from typer import testing; from marginrank.cli.app import COMMANDS, app\n"
        "command = testing._get_command(app); testing._get_command = lambda _: command  # built once\n"
        "for words in ([], *(name.split() for name in COMMANDS)):\n"
        "    assert testing.CliRunner().invoke(app, [*words, '--help']).exit_code == 0\n"
        f"print(sorted(set({HEAVY}) & set(sys.modules)))"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout == "[]\n"


def test_python_m_marginrank_and_the_installed_command_are_the_command_line():
    # The command of this installation comes first.
    path = os.pathsep.join([str(Path(sys.executable).parent), os.environ["PATH"]])
    for words in ([sys.executable, "-m", "marginrank"], [shutil.which("marginrank", path=path)]):
        done = subprocess.run([*words, "--version"], capture_output=True, text=True, check=True)
        assert done.stdout == f"marginrank {__version__}\n"


def test_the_exit_code_leaves_the_process():
    words = [sys.executable, "-m", "marginrank", "inspect", "nowhere.txt"]
    done = subprocess.run(words, capture_output=True, text=True, check=False)
    assert (done.returncode, done.stdout, done.stderr) == (
        1,
        "",
        "error: nowhere.txt: no such file; check the name and the folder\n",
    )


def test_without_a_command_the_help_is_shown(run):
    done = run()
    assert done.code == failures.MISUSED
    assert "Usage: marginrank" in done.out


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (["trian"], "Did you mean 'train'"),
        (["train", "train.txt"], "--out"),
        (["train", "train.txt", "--prest", "svmmap", "-o", "a"], "--preset"),
        (["train", "train.txt", "--folds", "x", "-o", "a"], "--folds"),
        (["evaluate", "test.txt", "model.safetensors", "--missing", "none"], "--missing"),
    ],
)
def test_wrong_usage_is_one_line_that_names_the_option_and_the_help(fails, words, said):
    error = fails(*words, code=2)
    assert said in error
    assert "--help" in error


@pytest.fixture(scope="module")
def help_of():
    """Return the help of all commands, by name, and of none, by an empty name."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("COLUMNS", "120")
        invoke = partial(CliRunner().invoke, app, catch_exceptions=False)
        groups = {name.rpartition(" ")[0] for name in COMMANDS}
        return {name: invoke([*name.split(), "--help"]).stdout for name in (*groups, *COMMANDS)}


@pytest.mark.parametrize("command", COMMANDS)
def test_every_command_knows_json_quiet_and_traceback(help_of, command):
    text = help_of[command]
    assert all(option in text for option in ("--json", "--quiet", "--traceback"))


def test_tracebacks_are_shown_on_request(run, fails):
    fails("inspect", "nowhere.txt", code=1)
    for done in (
        run("inspect", "nowhere.txt", "--traceback"),
        run("inspect", "nowhere.txt", env={failures.TRACEBACK_VARIABLE: "1"}),
    ):
        assert done.code == 1
        assert "Traceback (most recent call last)" in done.err
        assert done.err.endswith("error: nowhere.txt: no such file; check the name and the folder\n")
    assert "Traceback" not in run("inspect", "nowhere.txt", env={failures.TRACEBACK_VARIABLE: "0"}).err


def test_what_nobody_foresaw_is_one_line_too(fails, monkeypatch):
    monkeypatch.setattr("marginrank.model.file_format.is_model", lambda _: {}["lost"])
    assert fails("inspect", "train.txt", code=1) == "error: KeyError: 'lost'; --traceback shows where it comes from\n"


@pytest.mark.parametrize(
    ("error", "code"),
    [
        (OSError(28, "No space left", "a"), 1),
        (MemoryError(), 1),
        (ImportError("needs pyarrow"), 1),
        (ValueError("C"), 2),
    ],
)
def test_kinds_of_errors_have_exit_codes(error, code):
    message, found = failures.describe(error)
    assert found == code
    assert message


def test_options_are_spelled_and_chosen_as_in_the_library():
    from marginrank.data.arrays import Missing
    from marginrank.losses.base import Bound
    from marginrank.losses.structured import StructuredLoss
    from marginrank.preparation import SCALINGS
    from marginrank.preparation.binning import Spacing
    from marginrank.ranker.selection import Rule
    from marginrank.ranker.tuning import tune
    from marginrank.runtime.option_objects import registered
    from marginrank.scorers import Additive, Linear
    from marginrank.solvers import Auto, Solver
    from marginrank.training import Tight
    from marginrank.training.query_weighting import Weighting

    ranker = {name: parameter.default for name, parameter in signature(Ranker).parameters.items()}
    own = {field.name: field for field in fields(MethodOptions)}
    inner = {field.name: field for kind in (StructuredLoss, Tight, Linear, Additive, Auto) for field in fields(kind)}
    assert set(own) - set(ranker) - set(inner) == {"preset", "nonnegative_feature"}
    assert set(ranker) - set(own) == {"method", "loss", "C", "warm_start", "verbose"}
    different = {name for name in set(own) & set(ranker) if own[name].default != ranker[name]}
    # None, so that they can be refused where they mean nothing, or differ between training and evaluation.
    assert different == {"solver", "random_state", "unjudged"}
    for name in ("groups", "nonnegative"):
        assert own[name].default == inner[name].default, name
    assert {field.name for field in fields(TuneOptions)} <= set(signature(tune).parameters)
    hints = get_type_hints(Tight)
    for group, name, choices in (
        (MethodOptions, "bound", {*get_args(Bound), "auto"}),
        (MethodOptions, "scaling", {"auto", "none", *SCALINGS}),
        (MethodOptions, "spacing", set(get_args(Spacing))),
        (MethodOptions, "shape", set(get_args(get_type_hints(Additive)["shape"]))),
        (MethodOptions, "start", set(get_args(get_args(hints["start"])[0]))),
        (MethodOptions, "weighting", set(get_args(Weighting))),
        (TuneOptions, "rule", set(get_args(Rule))),
        (ReadingOptions, "missing", set(get_args(Missing))),
    ):
        assert _choices(get_type_hints(group)[name]) == choices, name
    offered = next(field for field in fields(MethodOptions) if field.name == "solver")
    text = get_type_hints(MethodOptions, include_extras=True)[offered.name].__metadata__[0].help
    assert all(name in text for name in registered(Solver))


def test_the_help_shows_no_types_of_python(help_of):
    for command in COMMANDS:
        assert not re.search(r"[{}]|list\[|<[\w ]+>", help_of[command]), command
    assert "Usage: marginrank train [OPTIONS] DATA..." in help_of["train"]
    assert "Usage: marginrank presets [OPTIONS] [NAME]" in help_of["presets"]


def test_a_model_before_the_data_is_answered_with_the_right_command(run):
    for command in ("evaluate", "report"):
        result = run(command, "model.safetensors", "test.txt", "scores.txt")
        right = f"marginrank {command} test.txt model.safetensors scores.txt"
        assert (result.code, result.err) == (
            2,
            f"error: model.safetensors is a model, and the judged data comes first: {right}\n",
        )
        assert run(*right.split()[1:]).code == 0


def test_flags_take_no_value_in_the_help(help_of):
    for text in help_of.values():
        assert "bool" not in text.lower()
    assert re.search(r"--json +Print one JSON", help_of["train"])


COMMAND = """
from pathlib import Path
from typing import Annotated

import typer

from marginrank.cli.output import Output
from marginrank.cli.options.reading_options import ReadingOptions

EXAMPLES = ("marginrank count-lines train.txt",)


def command(data: Annotated[Path, typer.Argument()], reading: ReadingOptions, output: Output) -> None:
    \"\"\"Count documents.\"\"\"
    n = reading.read_queries([data]).n_documents
    output.result({"documents": n}, f"{n} documents")
"""
#: Runs the lines that are its arguments, and prints the exit code, the output and the errors of each.
RUN_WITH = """
import json, sys
import marginrank.cli.commands
marginrank.cli.commands.__path__.append("more")
from typer import testing
from marginrank.cli.app import app
command = testing._get_command(app)
testing._get_command = lambda _: command  # built once
for line in sys.argv[1:]:
    done = testing.CliRunner().invoke(app, line.split())
    print(json.dumps([done.exit_code, done.stdout, done.stderr]))
"""


def test_a_new_command_is_one_new_file(folder):
    (folder / "more").mkdir()
    (folder / "more" / "count_lines.py").write_text(COMMAND)

    calls = (
        "--help",
        "count-lines --help",
        *(f"count-lines {words}" for words in ("train.txt", "train.txt --json", "nowhere.txt")),
    )
    done = subprocess.run([sys.executable, "-c", RUN_WITH, *calls], capture_output=True, text=True, check=True)
    help_of_all, help_of_one, text, record, failed = map(json.loads, done.stdout.splitlines())
    assert re.search(r"count-lines +Count documents\.", help_of_all[1])
    assert "$ marginrank count-lines train.txt" in help_of_one[1]
    assert text == [0, "240 documents\n", ""]
    assert json.loads(record[1]) == {"documents": 240}
    assert failed == [1, "", "error: nowhere.txt: no such file; check the name and the folder\n"]


def _choices(hint):
    inner = [choice for part in get_args(hint) for choice in (get_args(part) or [part])]
    return {choice for choice in inner if isinstance(choice, str)}


def test_completion_offers_presets_measures_policies_and_targets():
    assert [name for name, _ in completion.preset_names("svmm")] == ["svmmap", "svmmrr"]
    assert [name for name, _ in completion.measure_names("n")] == ["ndcg", "ndcg@10"]
    assert [name for name, _ in completion.measure_names("p")] == ["p@10"]  # it needs a cutoff
    assert [name for name, _ in completion.policy_names("letor")] == ["letor3", "letor4"]
    assert [name for name, _ in completion.target_names("s")] == ["solr", "sql"]


@pytest.mark.parametrize(
    ("line", "offered"),
    [("train --preset svmn", ["svmndcg", "svmndcg-nc"]), ("export --to so", ["solr"])],
)
def test_the_shell_is_offered_presets_and_targets(line, offered):
    words = {"_MARGINRANK_COMPLETE": "complete_bash", "COMP_WORDS": f"marginrank {line}", "COMP_CWORD": "3"}
    done = subprocess.run(
        [sys.executable, "-m", "marginrank"], env=os.environ | words, capture_output=True, text=True, check=False
    )
    assert done.stdout.split() == offered
