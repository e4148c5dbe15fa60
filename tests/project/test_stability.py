"""The promises of docs/stability.md: public names and options change on purpose; the file format is the stated one."""

from __future__ import annotations

import importlib
import pkgutil
import re
from pathlib import Path

import pytest
import typer

import marginrank
from marginrank.cli.app import app
from marginrank.errors import DataError
from marginrank.runtime.array_file import Family, read_array_file, write_array_file

HERE = Path(__file__).parent
ROOT = HERE.parents[1]
PAGES = [ROOT / "README.md", *sorted((ROOT / "docs").rglob("*.md"))]
IMPORT = re.compile(r"^(?:>>> )? *from (marginrank[\w.]*) import (\([^)]*\)|.+)$", re.MULTILINE)
#: Pages built from records, and what git does not keep.
BUILT = ("results", "gallery", "_build")


def exported():
    """The names in ``__all__`` of the packages."""
    packages = [f"marginrank.{module.name}" for module in pkgutil.iter_modules(marginrank.__path__) if module.ispkg]
    for package in ["marginrank", *packages]:
        yield from (f"{package}.{name}" for name in getattr(importlib.import_module(package), "__all__", ()))


def on_the_page_of_the_api():
    text = (ROOT / "docs" / "api.md").read_text(encoding="utf-8")
    return re.findall(r"^\.\. auto(?:class|function|exception|data):: (\S+)$", text, re.MULTILINE)


def imported_by_the_documentation():
    """The names of marginrank that pages and examples import; of modules, the pages name what they use."""
    for path in [*PAGES, *(ROOT / "examples").glob("*.py")]:
        text = "" if path.parent.name in BUILT else path.read_text(encoding="utf-8")
        for place, names in IMPORT.findall(text):
            for name in re.findall(r"(\w+)(?: as \w+)?", names.partition("#")[0]):
                if not is_module(f"{place}.{name}"):
                    yield f"{place}.{name}"


def is_module(name):
    place = Path(marginrank.__file__).parent.joinpath(*name.split(".")[1:])
    return place.is_dir() or place.with_suffix(".py").exists()


def public_options():
    """Every command with each of its options and arguments."""
    return sorted(options_of(typer.main.get_command(app), "marginrank"))


def options_of(command, path):
    for inner_name, inner in getattr(command, "commands", {}).items():
        yield from options_of(inner, f"{path} {inner_name}")
    for parameter in command.params:
        is_option = parameter.param_type_name == "option"
        yield f"{path} {', '.join(parameter.opts + parameter.secondary_opts) if is_option else parameter.name.upper()}"


@pytest.mark.parametrize(
    ("file", "names"),
    [
        ("public_names.txt", lambda: {*exported(), *on_the_page_of_the_api(), *imported_by_the_documentation()}),
        ("public_options.txt", public_options),
    ],
)
def test_what_is_public_changes_on_purpose(file, names):
    listed, actual = (HERE / file).read_text(encoding="utf-8").splitlines(), sorted(names())
    gone, new = sorted(set(listed) - set(actual)), sorted(set(actual) - set(listed))
    assert not gone, (
        f"public, and gone: {gone}; docs/stability.md says how to deprecate, tests/project/{file} lists them"
    )
    assert not new, f"public without a decision: {new}; add them to tests/project/{file}, or do not document them"
    assert listed == sorted(set(listed)), f"tests/project/{file} has one name per line, in order"


def test_every_public_name_exists():
    for name in (HERE / "public_names.txt").read_text(encoding="utf-8").splitlines():
        place, _, attribute = name.rpartition(".")
        try:
            module = importlib.import_module(place)
        except ImportError as error:
            if "pip install" not in str(error):  # otherwise what the module needs is not installed
                raise
        else:
            assert hasattr(module, attribute), name


def test_the_page_names_the_format_version_that_is_written(tmp_path):
    write_array_file(tmp_path / "file", Family("test", "test file", "write it again"), "kind", {}, {})
    written = re.search(rb'\\"format_version\\": ?(\d+)', (tmp_path / "file").read_bytes())[1].decode()
    page = (ROOT / "docs" / "stability.md").read_text(encoding="utf-8")
    assert f"format version, which is {written} now" in page


def test_a_file_of_a_later_format_is_refused_with_its_writer(tmp_path, monkeypatch):
    family = Family("test", "test file", "write it again")
    monkeypatch.setattr("marginrank.runtime.array_file._FORMAT_VERSION", 2)
    monkeypatch.setattr("marginrank.runtime.array_file.__version__", "0.9.0")
    write_array_file(tmp_path / "file", family, "kind", {}, {})
    monkeypatch.undo()
    with pytest.raises(DataError, match=r"format version 2, written by marginrank 0\.9\.0; .* update marginrank"):
        read_array_file(tmp_path / "file", family)
