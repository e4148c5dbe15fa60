"""The pages: presets have theirs, and the commands of the quickstart print what it shows."""

from __future__ import annotations

import ast
import doctest
import importlib.util
import re
import shlex
import sys
from pathlib import Path

import pytest
from typer.testing import CliRunner

from marginrank.cli.app import app
from marginrank.methods import all_presets

DOCS = Path(__file__).parents[2] / "docs"
METHODS = sorted((DOCS / "methods").glob("*.md"))


def module_of_docs(name):
    spec = importlib.util.spec_from_file_location(name, DOCS / f"{name}.py")
    module = sys.modules[name] = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


@pytest.fixture(scope="module")
def registry_pages():
    return module_of_docs("registry_pages")


@pytest.fixture(scope="module")
def gallery():
    return module_of_docs("gallery_page")


def test_methods_name_presets_that_exist(registry_pages):
    pages = registry_pages.method_pages()
    assert set(pages) <= set(all_presets())
    assert set(pages) >= {name for name, preset in all_presets().items() if preset.kind == "loss"}


def test_every_preset_is_listed_once(registry_pages):
    listed = re.findall(r"^\| \[?`([\w-]+)(?:@k)?`", registry_pages.presets_page(), re.MULTILINE)
    assert sorted(listed) == sorted(all_presets())


@pytest.mark.parametrize("page", METHODS, ids=lambda path: path.stem)
def test_a_page_of_a_method_has_an_example_and_says_where_it_is_from(page):
    text = page.read_text(encoding="utf-8")
    assert "```python\n>>> " in text
    assert re.search(r"^(## Citation|\*[A-Z]\. )", text, re.MULTILINE)


def test_every_page_is_in_the_table_of_contents():
    listed = re.findall(r"^[\w/-]+$", (DOCS / "index.md").read_text(encoding="utf-8"), re.MULTILINE)
    pages = {path.relative_to(DOCS).with_suffix("").as_posix() for path in [*DOCS.glob("*.md"), *METHODS]}
    assert pages - {"index"} <= set(listed)


def test_the_gallery_has_every_example_with_all_of_its_code(gallery):
    scripts = {path.name: path for path in gallery.EXAMPLES.glob("*.py")}
    assert {example.name for example in gallery.examples()} == set(scripts)
    for example in gallery.examples():
        page = gallery.section(example, "printed", ["drawn.png"])
        assert page.startswith(f"## {example.title}\n\n{example.summary}\n\n")
        assert page.endswith(f"printed\n```\n\n![Plot of {example.name}](gallery/drawn.png)")
        shown = ast.parse("".join(blocks_of(page, "python")))
        assert ast.dump(shown) == ast.dump(ast.Module(ast.parse(scripts[example.name].read_text()).body[1:], []))


def blocks_of(text, language):
    return re.findall(rf"^```{language}\n(.*?)^```$", text, re.MULTILINE | re.DOTALL)


def shape_of(text):
    """What is printed, whatever the numbers are."""
    return re.sub(r"█+", "█", re.sub(r"[+-]?[\d.,]*\d(e[+-]\d+)?", "#", re.sub(r"[ \t]+", " ", text)))


@pytest.mark.slow
def test_python_and_commands_of_the_quickstart_print_what_it_shows(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("COLUMNS", "120")
    page = (DOCS / "quickstart.md").read_text(encoding="utf-8")
    test = doctest.DocTestParser().get_doctest("".join(blocks_of(page, "python")), {}, "quickstart", None, 0)
    doctest.DebugRunner(optionflags=doctest.ELLIPSIS).run(test)
    (tmp_path / "model.safetensors").unlink()
    shown = re.split(r"^\$ (marginrank .*)\n", "".join(blocks_of(page, "console")), flags=re.MULTILINE)[1:]
    assert len(shown) > 8
    for line, output in zip(shown[::2], shown[1::2], strict=True):
        done = CliRunner().invoke(app, shlex.split(line)[1:], catch_exceptions=False)
        assert done.exit_code == 0, done.stderr
        assert doctest.OutputChecker().check_output(shape_of(output), shape_of(done.stdout), doctest.ELLIPSIS), (
            done.stdout
        )
