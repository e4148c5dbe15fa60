"""Every mistake of `tests.mistakes` is answered in our own words, with what to do."""

from __future__ import annotations

import re
import traceback
from pathlib import Path

import pytest
from sklearn.exceptions import NotFittedError

import marginrank
from tests.mistakes import IN_PYTHON, ON_THE_COMMAND_LINE, Desk, desk_folder

PACKAGE = Path(marginrank.__file__).parent
#: Words of NumPy, pandas, Arrow, narwhals, scikit-learn, pydantic and of Python's own errors.
FOREIGN = re.compile(
    r"could not convert|inhomogeneous|ufunc|broadcast|dtype\('|Expected 2D array|inconsistent numbers of samples|"
    r"Found array with|Input (X|y) contains|ArrowInvalid|pyarrow|narwhals|Input should be|Errno 2\] No such file|"
    r"takes from \d+ to \d+ positional|unexpected keyword argument|object has no attribute|invalid literal"
)


@pytest.fixture(scope="module")
def desk():
    return Desk()


@pytest.fixture(autouse=True)
def folder():
    with desk_folder() as path:
        yield path


def test_there_are_forty_mistakes_and_half_are_commands():
    assert len(IN_PYTHON) + len(ON_THE_COMMAND_LINE) >= 40
    assert min(len(IN_PYTHON), len(ON_THE_COMMAND_LINE)) >= 20
    for mistakes in (IN_PYTHON, ON_THE_COMMAND_LINE):
        assert len({mistake.what for mistake in mistakes}) == len(mistakes)


@pytest.mark.parametrize("mistake", IN_PYTHON, ids=lambda mistake: mistake.what)
def test_a_mistake_in_python_is_explained(desk, mistake):
    error = mistake.message(desk)
    assert isinstance(error, mistake.error), repr(error)
    for words in mistake.said:
        assert words in str(error)
    assert FOREIGN.search(str(error)) is None, str(error)
    assert "\n" not in str(error)
    last = Path(traceback.extract_tb(error.__traceback__)[-1].filename)
    assert PACKAGE in last.parents or type(error) is NotFittedError, f"{last}: {error!r}"


@pytest.mark.parametrize("mistake", ON_THE_COMMAND_LINE, ids=lambda mistake: mistake.command)
def test_a_mistake_on_the_command_line_is_explained(mistake, folder):
    before = {path: path.read_bytes() for path in folder.rglob("*")}
    done = mistake.run()
    assert done.exit_code == mistake.code, done.stderr
    assert done.stdout == ""
    *notes, error = done.stderr.strip().split("\n")
    assert set(notes) <= {"reading data", "training"}, notes
    assert error.startswith("error: ")
    for words in mistake.said:
        assert words in error
    assert FOREIGN.search(error) is None, error
    assert "Traceback" not in done.stderr
    # Parameters of Python are called by their options.
    assert re.search(r"\b(?!FEATURE)\w+=['\w]", re.sub(r"\([^()]*\)", "", error.replace(mistake.command, ""))) is None
    assert {path: path.read_bytes() for path in folder.rglob("*")} == before
