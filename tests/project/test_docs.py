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
INTEGRATIONS = DOCS.parent / "src" / "marginrank" / "integrations"
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


def public_names(module):
    """Return what a module exports: what ``__all__`` lists, or its functions and classes without ``_``."""
    definitions = (ast.FunctionDef, ast.ClassDef)
    tree = ast.parse(module.read_text(encoding="utf-8"))
    named = [node.value for node in tree.body if isinstance(node, ast.Assign) and node.targets[0].id == "__all__"]
    names = ast.literal_eval(named[0]) if named else [one.name for one in tree.body if isinstance(one, definitions)]
    return [name for name in names if not name.startswith("_")]


def test_everything_public_of_integrations_is_in_the_reference():
    modules = {path.stem: path for path in INTEGRATIONS.glob("*.py") if path.stem != "__init__"}
    sources = "\n".join(path.read_text(encoding="utf-8") for path in modules.values())
    # What other integrations import is shared code, not public.
    public = [name for name in modules if f"from marginrank.integrations.{name} import" not in sources]
    assert {"sqlite", "elasticsearch", "pyterrier", "beir"} <= set(public)
    named = {f"{module}.{name}" for module in public for name in public_names(modules[module])}
    listed = re.findall(r"auto\w+:: marginrank\.integrations\.([\w.]+)", (DOCS / "api.md").read_text(encoding="utf-8"))
    assert named - set(listed) == set()


def test_every_page_is_in_one_table_of_contents():
    texts = {path: path.read_text(encoding="utf-8") for path in [*DOCS.glob("*.md"), *METHODS]}
    listed = [entry for text in texts.values() for entry in toctree_of(text)]
    pages = {path.relative_to(DOCS).with_suffix("").as_posix() for path in texts}
    assert pages - {"index"} <= set(listed)
    assert len(listed) == len(set(listed))


def toctree_of(text):
    trees = re.findall(r"^```{toctree}\n(.*?)^```$", text, re.MULTILINE | re.DOTALL)
    return [line for tree in trees for line in tree.splitlines() if re.fullmatch(r"[\w/-]+", line)]


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
@pytest.mark.parametrize("name", ["quickstart", "start-judged", "start-clicks", "start-runs"])
def test_python_and_commands_of_a_page_print_what_it_shows(name, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("COLUMNS", "120")
    page = (DOCS / f"{name}.md").read_text(encoding="utf-8")
    python, n_commands = {}, 0
    for language, block in re.findall(r"^```(python|console)\n(.*?)^```$", page, re.MULTILINE | re.DOTALL):
        if language == "python":
            test = doctest.DocTestParser().get_doctest(block, python, name, None, 0)
            doctest.DebugRunner(optionflags=doctest.ELLIPSIS).run(test, clear_globs=False)
            python = test.globs
            continue
        shown = re.split(r"^\$ (marginrank .*)\n", block, flags=re.MULTILINE)[1:]
        for line, output in zip(shown[::2], shown[1::2], strict=True):
            done = CliRunner().invoke(app, shlex.split(line)[1:], catch_exceptions=False)
            assert done.exit_code == 0, done.stderr
            assert doctest.OutputChecker().check_output(shape_of(output), shape_of(done.stdout), doctest.ELLIPSIS), (
                done.stdout
            )
            n_commands += 1
    assert n_commands > 2
