"""Run the Python blocks of the README and the documentation, each page in an empty folder of its own."""

from __future__ import annotations

import gc
import importlib.util
import os
import pickle
import signal
from collections.abc import Iterator
from contextlib import contextmanager
from doctest import ELLIPSIS
from functools import cache
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import pytest
from sybil import Sybil
from sybil.parsers.markdown import PythonCodeBlockParser, SkipParser

from marginrank.datasets import python_docs
from marginrank.runtime.option_objects import OptionObject
from marginrank.scorers.form import Form

#: Modules of extras that are not installed, whose doctests cannot run.
collect_ignore = []
if not importlib.util.find_spec("torch"):
    collect_ignore += ["src/marginrank/integrations/pytorch.py"]
if not importlib.util.find_spec("jax"):
    collect_ignore += ["src/marginrank/integrations/jax.py"]
if not importlib.util.find_spec("lancedb"):
    collect_ignore += ["src/marginrank/integrations/lancedb.py"]
if not importlib.util.find_spec("qdrant_client"):
    collect_ignore += ["src/marginrank/integrations/qdrant.py"]
for module, library in (
    ("pyterrier", "pyterrier"),
    ("langchain", "langchain_core"),
    ("llama_index", "llama_index"),
    ("haystack", "haystack"),
):
    if not importlib.util.find_spec(library):
        collect_ignore += [f"src/marginrank/integrations/{module}.py"]
if not importlib.util.find_spec("distributed"):
    collect_ignore += ["src/marginrank/distributed/cluster_partitions.py"]
#: These train models when they are imported, which is for forks alone.
collect_ignore += [f"tests/{name}/ready.py" for name in ("cli", "distributed")]
#: What `make quick` leaves out besides tests that are marked slow: whole pages, experiments and exhaustive laws.
SLOW_PLACES = (
    "README.md",
    "docs",
    "tests/bounds",
    "tests/experiments",
    "tests/fusion",
    "tests/preparation",
    "tests/project/test_examples.py",
    "tests/laws/test_order_law.py",
    "tests/data/test_reader.py",
    "tests/data/formats/test_letor_fuzz.py",
    "tests/data/formats/test_number_kernel.py",
    "tests/evaluation/test_comparison.py",
    "tests/losses/test_laws.py",
    "tests/losses/test_pairwise.py",
    "tests/losses/test_slack_rescaling.py",
    "tests/losses/test_structured.py",
    "tests/solvers/test_agreement.py",
    "tests/solvers/test_certificates.py",
    "tests/solvers/test_contract.py",
    "tests/solvers/test_registry.py",
)


def pytest_addoption(parser: pytest.Parser) -> None:
    """Add the setting of how long a test may take."""
    parser.addini("time_limit", "seconds after which a test fails", default="0")


@pytest.hookimpl(wrapper=True)
def pytest_runtest_setup(item: pytest.Item) -> Iterator[None]:
    """Fail where a fixture hangs."""
    with _time_limit(item):
        yield


@pytest.hookimpl(wrapper=True)
def pytest_runtest_call(item: pytest.Item) -> Iterator[None]:
    """Fail where a test or a block of a page hangs."""
    with _time_limit(item):
        yield


@contextmanager
def _time_limit(item: pytest.Item) -> Iterator[None]:
    """Raise in the main thread when the time is over; where there is no such signal, faulthandler ends the process."""
    seconds = float(item.config.getini("time_limit"))
    if not seconds or not hasattr(signal, "SIGALRM"):
        yield
        return

    def fail(*_: object) -> None:
        pytest.fail(f"no end after {seconds:g} s")

    before = signal.signal(signal.SIGALRM, fail)
    signal.setitimer(signal.ITIMER_REAL, seconds)
    try:
        yield
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0)
        signal.signal(signal.SIGALRM, before)


def pytest_configure() -> None:
    """Give each process of pytest-xdist its share of the cores: threads of two processes on one hold up each other.

    Ctrl-C is heard in all of them.
    """
    if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
        # As in what a shell runs in the background, where tests of Ctrl-C would fail.
        signal.signal(signal.SIGINT, signal.default_int_handler)
    worker, count = os.environ.get("PYTEST_XDIST_WORKER", ""), int(os.environ.get("PYTEST_XDIST_WORKER_COUNT", "1"))
    if count > 1 and hasattr(os, "sched_setaffinity"):
        cores = sorted(os.sched_getaffinity(0))
        own = int(worker.removeprefix("gw")) % count
        os.sched_setaffinity(0, cores[own::count] or cores)


@pytest.fixture(scope="session", autouse=True)
def docstrings_are_searched_once(tmp_path_factory: pytest.TempPathFactory) -> Iterator[None]:
    """Build `pydocs()`, which takes seconds, once for all processes of pytest-xdist: the first writes it to a file."""
    own = tmp_path_factory.getbasetemp()
    build, path = python_docs._build, (own.parent if "PYTEST_XDIST_WORKER" in os.environ else own) / "pydocs.pickle"

    @cache
    def shared(*arguments: Any) -> python_docs.Collection:
        if arguments != (30, 0.5, 0):
            return build(*arguments)
        if not path.exists():
            unfinished = path.with_suffix(f".{os.getpid()}")
            unfinished.write_bytes(pickle.dumps(build(*arguments)))
            unfinished.replace(path)
        collection: python_docs.Collection = pickle.loads(path.read_bytes())
        return collection

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(python_docs, "_build", shared)
        yield


# Ten thousand tests are objects that stay to the end. Looking through them for garbage, again and again, took an eighth
# of the time: none is looked for while they are collected, later they are left out, and the search is rarer.
gc.disable()


def pytest_collection_finish() -> None:
    """Look for garbage from here on, in what the tests themselves make."""
    gc.freeze()
    gc.set_threshold(10_000, 20, 50)
    gc.enable()


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Mark all tests of slow places, and run these first, so that no core waits for a long file at the end."""
    places = [Path(__file__).parent / place for place in SLOW_PLACES]
    in_slow_place = {
        path: any(path.is_relative_to(place) for place in places) for path in {item.path for item in items}
    }
    for item in items:
        if in_slow_place[item.path]:
            item.add_marker(pytest.mark.slow)
    slow_files = {item.path for item in items if item.get_closest_marker("slow")}
    items.sort(key=lambda item: item.path not in slow_files)


def _registries() -> tuple[dict[str, Any], ...]:
    """Return the registries, into which the classes of a page would otherwise stay for the tests after it."""
    return OptionObject.registry, Form.registry


def _enter(namespace: dict[str, Any]) -> None:
    namespace["_registered"] = [dict(registry) for registry in _registries()]
    namespace["_home"], namespace["_folder"] = Path.cwd(), TemporaryDirectory()
    os.chdir(namespace["_folder"].name)


def _leave(namespace: dict[str, Any]) -> None:
    os.chdir(namespace["_home"])
    namespace["_folder"].cleanup()
    for registry, before in zip(_registries(), namespace["_registered"], strict=True):
        for name in set(registry) - set(before):
            if not registry[name].__module__.startswith("marginrank."):
                del registry[name]


pytest_collect_file = Sybil(
    parsers=[PythonCodeBlockParser(doctest_optionflags=ELLIPSIS), SkipParser()],
    patterns=["*.md"],
    # The quickstart and three others are run together with their commands in tests/project/test_docs.py.
    excludes=[
        "CHANGELOG.md",
        *(f"docs/{page}.md" for page in ("quickstart", "start-judged", "start-clicks", "start-runs")),
    ],
    setup=_enter,
    teardown=_leave,
).pytest()
