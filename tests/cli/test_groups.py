"""Groups of commands: a folder is a group, and one of its commands may be called without its name."""

from __future__ import annotations

import json
import subprocess
import sys

from tests.cli.test_app import RUN_WITH

COMMAND = """
from typing import Annotated
import typer
from marginrank.cli.output import Output

EXAMPLES = ("marginrank tell NAME a",)

def command(word: Annotated[str, typer.Argument()], output: Output, often: Annotated[int, typer.Option()] = 1) -> None:
    \"\"\"NAME a word.\"\"\"
    output.result({"NAME": word}, f"NAME {word} {often}")
"""
GROUP = 'HELP = "Tell words."\nDEFAULT = "whisper"\n'


def test_a_new_group_is_one_new_folder_with_a_command_that_needs_no_name(tmp_path):
    place = tmp_path / "more" / "tell"
    place.mkdir(parents=True)
    (place / "__init__.py").write_text(GROUP)
    for name in ("shout", "whisper"):
        (place / f"{name}.py").write_text(COMMAND.replace("NAME", name))
    (tmp_path / "shot").touch()
    calls = {
        "tell whisper a --often 2": [0, "whisper a 2\n"],
        "tell shout a": [0, "shout a 1\n"],
        "tell a": [0, "whisper a 1\n"],
        "tell --often 3 a": [0, "whisper a 3\n"],
        "tell shot": [0, "whisper shot 1\n"],  # a file, not a misspelled command
        "tell shuot a": [2, ""],
        "tell a b": [2, ""],
    }
    words = [sys.executable, "-c", RUN_WITH, "--help", "tell --help", "tell", *calls]
    done = subprocess.run(words, cwd=tmp_path, capture_output=True, text=True, check=True)
    help_of_all, help_of_group, without, *others = map(json.loads, done.stdout.splitlines())
    assert "tell" in help_of_all[1]
    assert "Tell words." in help_of_group[1]
    assert "shout a word." in help_of_group[1]
    assert [without[0], without[1].rstrip()] == [2, help_of_group[1].rstrip()]
    assert [one[:2] for one in others] == list(calls.values())
    assert "Did you mean 'shout'?" in others[-2][2]


def test_an_option_of_a_command_in_a_group_is_named_in_errors(fails):
    assert "(see marginrank judge import --help)" in fails("judge", "import", "raters.csv", "--outt", "a", code=2)
