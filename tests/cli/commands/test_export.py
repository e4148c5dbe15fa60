"""`marginrank export`."""

from __future__ import annotations

import json

import pytest


def test_a_model_is_exported_and_checked(run, folder):
    done = run("export", "model.safetensors", "--to", "python", "-o", "ranker.py", "--check")
    assert done.code == 0
    assert "check  ok, 200 documents of 20 queries agree" in done.out
    assert (folder / "ranker.py").exists()
    assert len(json.loads((folder / "ranker.check.json").read_text())["documents"]) == 200
    record = run("export", "model.safetensors", "--to", "sql(dialect=sqlite)", "--check", "--json").json
    assert record["target"] == "sql(dialect=sqlite)"
    assert record["files"] == ["model.sql", "model.expression.sql", "model.check.json"]
    assert record["check"].startswith("ok")


def test_what_cannot_run_here_is_said(run):
    done = run("export", "model.safetensors", "--to", "solr", "--check")
    assert done.code == 0
    assert "check  not run: solr does not run here" in done.out


@pytest.mark.usefixtures("few_Cs")
def test_a_fusion_is_exported(run, folder):
    words = ("fuse", "bm25.run", "dense.run", "--qrels", "judged.qrels", "--model", "fusion.safetensors")
    assert run(*words, "--kinds", "minmax").code == 0
    done = run("export", "fusion.safetensors", "--to", "sql(dialect=sqlite)", "--check")
    assert "check  ok, 180 documents of 15 queries agree" in done.out
    assert run("export", "fusion.safetensors", "--to", "opensearch-hybrid", "-o", "pipeline.json").code == 0
    assert (folder / "pipeline.query.json").exists()


@pytest.mark.parametrize(
    ("words", "said", "code"),
    [
        (["model.safetensors", "--to", "onx"], "unknown target 'onx'; did you mean 'onnx'?", 2),
        (["model.safetensors"], "give a model and a target", 2),
        (["--list", "--to", "onnx"], "--list takes no model", 2),
        (["model.safetensors", "--to", "xgboost"], "it is a linear model; targets for this model: ", 1),
        (["train.txt", "--to", "python"], "not a marginrank model file", 1),
        (["missing.safetensors", "--to", "python"], "no such file", 1),
    ],
)
def test_exporting_refuses_what_makes_no_sense(fails, words, said, code):
    assert said in fails("export", *words, code=code)


def test_files_are_not_replaced_without_being_asked(run, fails, folder):
    assert run("export", "model.safetensors", "--to", "python").code == 0
    assert "model.py: already exists" in fails("export", "model.safetensors", "--to", "python", code=1)
    (folder / "model.py").unlink()
    assert "model.check.json: already exists" in fails("export", "model.safetensors", "--to", "python", code=1)
    assert run("export", "model.safetensors", "--to", "python", "--force").code == 0


def test_targets_are_listed(run):
    done = run("export", "--list")
    assert "elasticsearch-ltr" in done.out
    names = [target["name"] for target in run("export", "--list", "--json").json["targets"]]
    assert names == sorted(names)
