"""`marginrank serve`: what it refuses before it starts. What it answers is tested in tests/serving."""

from __future__ import annotations

import json
import subprocess
import sys
from inspect import signature

import pytest

from marginrank.cli.commands.serve import command as serve_command

pytest.importorskip("fastapi", reason="FastAPI is not installed: pip install 'marginrank[serve]'")


@pytest.mark.parametrize(
    ("words", "said", "code"),
    [
        (["nowhere.safetensors"], "nowhere.safetensors: no such file", 1),
        (["train.txt"], "train.txt: this is text, not a marginrank model file", 1),
        (["model.safetensors", "--host", "no.such.host.invalid"], "there is no host 'no.such.host.invalid'", 1),
        (
            ["model.safetensors", "--host", "203.0.113.9", "--port", "0"],
            "203.0.113.9 is not an address",
            1,
        ),
        (["model.safetensors", "--port", "65536"], "--port", 2),
        (["model.safetensors", "--timeout", "0"], "--timeout", 2),
        (["model.safetensors", "--max-documents", "0"], "--max-documents", 2),
    ],
)
def test_serving_refuses_what_makes_no_sense(fails, words, said, code):
    assert said in fails("serve", *words, code=code)


def test_the_defaults_are_those_of_the_function():
    from marginrank.serving import serve

    command, function = signature(serve_command).parameters, signature(serve).parameters
    for name in ("host", "port", "reload_every"):
        assert command[name].default == function[name].default, name


def test_a_recommender_is_refused(run, fails):
    assert run("recommend", "train", "ratings.csv", "-o", "recommender.safetensors").code == 0
    assert "this file holds a recommender, not a ranker" in fails("serve", "recommender.safetensors", code=1)


def test_the_address_is_printed_once_the_port_is_open(run, monkeypatch):
    monkeypatch.setattr("uvicorn.Server.run", lambda *_, **__: None)
    monkeypatch.setattr("gc.set_threshold", lambda _: None)  # of this process
    done = run("serve", "model.safetensors", "--port", "0")
    assert done.code == 0
    assert done.out.startswith("model    model.safetensors\naddress  http://127.0.0.1:")
    record = json.loads(run("serve", "model.safetensors", "--port", "0", "--json").out)
    assert record["docs"] == f"{record['address']}/docs"
    assert run("serve", "model.safetensors", "--port", "0", "--quiet").out == ""


def test_without_fastapi_the_extra_is_named(folder):
    code = (
        "import sys; sys.modules['fastapi'] = None; sys.argv = ['marginrank', 'serve', 'model.safetensors']\n"
        "from marginrank.__main__ import main; main()"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=60, check=False)
    assert done.returncode == 1
    assert done.stderr == "error: marginrank.serving needs FastAPI and uvicorn: pip install 'marginrank[serve]'\n"
