"""`marginrank drift`."""

from __future__ import annotations

import numpy as np

from marginrank.fusion import Fusion
from tests.cli.conftest import judged


def write_csv(path, X, names, n_documents=8):
    lines = [",".join(["query", "document", *names])]
    lines += [f"q{row // n_documents},d {row},{','.join(map(str, values))}" for row, values in enumerate(X.tolist())]
    path.write_text("\n".join(lines) + "\n")


def test_data_like_the_training_data_has_not_moved(run):
    done = run("drift", "model.safetensors", "test.txt")
    assert done.code == 0
    assert "drift     0 of 5 features moved" in done.out
    assert "model     model.safetensors, trained on 30 queries" in done.out


def test_features_that_moved_are_shown_and_fail_if_asked(run, folder):
    later = judged(25, 7)
    np.savez(folder / "later.npz", X=later.X - [0, -3.0, 0, 0, 0], group=[8] * 25)
    done = run("drift", "model.safetensors", "later.npz", "--top", "2")
    assert done.code == 0
    assert "drift     1 of 5 features moved" in done.out
    assert done.out.count("\n          ") == 2
    record = run("drift", "model.safetensors", "later.npz", "--json").json
    first = record["features"][0]
    assert (first["feature"], first["moved"], first["change"]) == ("2", True, "larger")
    assert run("drift", "model.safetensors", "later.npz", "--fail", "--quiet").code == 3
    assert run("drift", "model.safetensors", "test.txt", "--fail").code == 0
    assert run("drift", "model.safetensors", "later.npz", "--fail", "--threshold", "0.99", "--quiet").code == 0


def test_columns_of_a_table_go_by_name(run, fails, folder):
    names = ["bm25", "clicks", "age", "length", "freshness"]
    lines = (folder / "train.txt").read_text().splitlines()
    rows = [[value.partition(":")[2] for value in line.partition("#")[0].split()[2:]] for line in lines]
    grades = [line.split()[0] for line in lines]
    with (folder / "train.csv").open("w") as file:
        file.write(",".join(["query", "grade", *names]) + "\n")
        file.writelines(f"q{n // 8},{g},{','.join(r)}\n" for n, (g, r) in enumerate(zip(grades, rows, strict=True)))
    assert run("train", "train.csv", "-C", "1", "-o", "named.safetensors").code == 0
    X, order = judged(25, 7).X, [4, 2, 0, 1, 3]
    write_csv(folder / "later.csv", X[:, order], [names[at] for at in order])
    assert "0 of 5 features moved" in run("drift", "named.safetensors", "later.csv").out
    write_csv(folder / "short.csv", X[:, :4], names[:4])
    assert "freshness" in fails("drift", "named.safetensors", "short.csv", code=1)


def test_few_queries_are_not_an_alarm(run, folder):
    np.savez(folder / "later.npz", X=judged(1, 7).X[:1] + 100.0, group=[1])
    done = run("drift", "model.safetensors", "later.npz", "--fail")
    assert done.code == 0
    assert "1 query: too few to tell a move from noise; give at least 20" in done.out


def test_drift_refuses_what_makes_no_sense(fails, folder):
    Fusion("minmax", Cs=[1.0]).fit(judged(10, 0), folds=2).save(folder / "fusion.safetensors")
    assert "fusion.safetensors: this model combines runs" in fails("drift", "fusion.safetensors", "test.txt", code=1)
    assert "no features in this file" in fails("drift", "model.safetensors", "bm25.run", code=1)
    assert "nowhere.txt: no such file" in fails("drift", "model.safetensors", "nowhere.txt", code=1)
    assert "--threshold" in fails("drift", "model.safetensors", "test.txt", "--threshold", "2", code=2)
    np.savez(folder / "narrow.npz", X=np.zeros((40, 2)), group=[2] * 20)
    assert "narrow.npz: the data has 2 features" in fails("drift", "model.safetensors", "narrow.npz", code=1)
