"""What a result depends on: the digest changes with the code that a task reaches, and with no other."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from experiments import all_experiments, sources
from experiments.sources import code_digests, report_digest

PACKAGE = {
    "__init__.py": "from marginrank.runtime import attach\n__getattr__ = attach(__name__)\n",
    "__init__.pyi": "from .ranker import Ranker as Ranker\nfrom .plots import plot as plot\n",
    "runtime.py": "def attach(name): return None\ndef load_modules(package): return []\n",
    "ranker.py": "class Ranker:\n  def fit(self):\n    from marginrank.losses import hinge\n    return hinge()\n",
    "plots.py": "def plot(): return 1\n",
    "losses/__init__.py": "def hinge():\n    from marginrank.measures.base import parse\n    return parse('ap')\n",
    "measures/__init__.py": "",
    "measures/base.py": (
        "from typing import TYPE_CHECKING\nfrom marginrank.runtime import load_modules\n"
        "if TYPE_CHECKING:\n    from marginrank.typing import Name\n"
        "def parse(name):\n    load_modules(__name__)\n    return name\n"
    ),
    "measures/ap.py": "VALUE = 1\n",
    "typing.py": "Name = str\n",
    "cli/app.py": "from marginrank.ranker import Ranker\n",
}
EXPERIMENTS = {
    "__init__.py": "",
    "verdicts.py": "def decide(): return 'holds'\n",
    "helpers.py": "LIMIT = 3\nUNUSED = 4\ndef build():\n    return LIMIT\ndef draw():\n    return UNUSED\n",
    "one.py": (
        '"""One."""\nfrom experiments import helpers\nfrom experiments.verdicts import decide\n'
        "from marginrank import Ranker, plot\n"
        "def _task(data) -> plot:\n    return _fit(helpers.build())\n"
        "def _fit(n):\n    return Ranker().fit() + n\n"
        "def _report(results):\n    return decide(), plot(), helpers.draw()\n"
    ),
}


@pytest.fixture
def tree(tmp_path, monkeypatch):
    """Two small packages in place of the real ones; returns functions that change a file and take the digest."""
    for name, files in (("marginrank", PACKAGE), ("experiments", EXPERIMENTS)):
        for path, text in files.items():
            (tmp_path / name / path).parent.mkdir(parents=True, exist_ok=True)
            (tmp_path / name / path).write_text(text)
    monkeypatch.setattr(sources, "_FOLDERS", {name: tmp_path / name for name in ("marginrank", "experiments")})

    def task(): ...

    def report(): ...

    for function, name in ((task, "_task"), (report, "_report")):
        function.__module__, function.__qualname__ = "experiments.one", name

    def digests(kind):
        forget()
        return dict(code_digests([task])) if kind == "task" else report_digest(report)

    def change(file, old, new):
        path = tmp_path / file
        assert old in path.read_text()
        path.write_text(path.read_text().replace(old, new))

    yield digests, change
    monkeypatch.undo()
    forget()


def forget():
    for function in vars(sources).values():
        if hasattr(function, "cache_clear"):
            function.cache_clear()


def test_the_modules_that_a_task_reaches(tree):
    digests, _ = tree
    assert set(digests("task")) == {
        "experiments.one",
        "experiments.helpers",
        *("marginrank", "marginrank.runtime", "marginrank.ranker", "marginrank.losses"),
        *("marginrank.measures", "marginrank.measures.base", "marginrank.measures.ap"),
    }


@pytest.mark.parametrize(
    ("file", "old", "new", "stale"),
    [
        ("marginrank/ranker.py", "class Ranker", "class Ranker(object)", {"task"}),  # through the stub
        ("marginrank/losses/__init__.py", "'ap'", "'rr'", {"task"}),  # imported inside a function
        ("marginrank/measures/ap.py", "1", "2", {"task"}),  # chosen by a spelling
        ("marginrank/plots.py", "return 1", "return 2", set()),  # only in the report and in an annotation
        ("marginrank/typing.py", "str", "bytes", set()),  # for type checkers
        ("marginrank/cli/app.py", "ranker", "ranker.ranker", set()),
        ("marginrank/ranker.py", "class Ranker:", 'class Ranker:\n  """A ranker."""  # of documents', set()),
        ("experiments/one.py", "+ n", "- n", {"task"}),
        ("experiments/one.py", "decide(), plot()", "plot()", {"report"}),
        ("experiments/one.py", "One.", "Two.", set()),
        ("experiments/helpers.py", "LIMIT = 3", "LIMIT = 4", {"task"}),
        ("experiments/helpers.py", "UNUSED = 4", "UNUSED = 5", {"report"}),
        ("experiments/verdicts.py", "holds", "undecided", {"report"}),
    ],
)
def test_a_change_makes_stale_what_it_reaches(tree, file, old, new, stale):
    digests, change = tree
    before = {kind: digests(kind) for kind in ("task", "report")}
    change(file, old, new)
    assert {kind for kind in before if digests(kind) != before[kind]} == stale


def test_releases_exports_and_commands_make_no_result_stale():
    for experiment in all_experiments().values():
        rooms = {".".join(name.split(".")[:2]) for name in code_digests(task.call for task in experiment.plan("full"))}
        unrelated = ("cli", "serving", "clicks", "judging", "export", "reporting", "distributed", "version")
        assert not rooms & {f"marginrank.{room}" for room in unrelated}
        assert "experiments.verdicts" not in rooms


def test_results_depend_on_the_reader_they_call_and_on_no_other():
    for name in ("yue-fusion", "which-loss"):
        reached = code_digests(task.call for task in all_experiments()[name].plan("full"))
        assert "marginrank.data.formats.letor" in reached
        assert "marginrank.data.formats.parquet" not in reached


LOADED = """
import importlib, sys
from pathlib import Path
from experiments.sources import code_digests, _UNRELATED
experiment = importlib.import_module("experiments." + sys.argv[1]).EXPERIMENT
seen, before = set(), set(sys.modules)
for task in experiment.plan("miniature"):
    if task.call not in seen:
        seen.add(task.call)
        task.call(Path(sys.argv[2]), **task.options)
loaded = {name for name in set(sys.modules) - before if name.startswith("marginrank.")}
print(*sorted(name for name in loaded - set(code_digests(seen)) if not name.startswith(_UNRELATED)))
print(len(loaded), file=sys.stderr)
"""


@pytest.mark.slow
@pytest.mark.parametrize("name", ["cls_ndcg", "yue_fusion", "dorm_recommend"])
def test_modules_that_tasks_load_are_among_those_found_without_running_them(name, data):
    done = subprocess.run(
        [sys.executable, "-W", "ignore", "-c", LOADED, name, str(data)],
        capture_output=True, text=True, check=True, cwd=Path(__file__).parents[2],
    )  # fmt: skip
    assert done.stdout.split() == []
    assert int(done.stderr.split()[-1]) > 0
