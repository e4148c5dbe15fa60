"""Size and shape of the package: lines, rooms, layers, and what one row passes from CSV to evaluation.

python benchmarks/code_size.py              # of this checkout
python benchmarks/code_size.py OTHER/src    # of another one, to compare with
"""

from __future__ import annotations

import argparse
import ast
import os
import re
import subprocess
import sys
from collections import Counter, defaultdict
from collections.abc import Iterator
from pathlib import Path

PACKAGE = "marginrank"
MOST_PARAMETERS = 8
#: Trains on a CSV file and evaluates, and prints how many functions and files of the package that takes, and how often
#: functions that read spellings are called in `fit` with a string.
TRACED = """
import csv, os, sys, tempfile
import numpy as np
rng = np.random.default_rng(0)
X = rng.standard_normal((400, 4)).round(3)
y = np.digitize(X.sum(axis=1), [0.5, 2.0])
folder = tempfile.mkdtemp()
with open(os.path.join(folder, "judged.csv"), "w", newline="") as file:
    rows = csv.writer(file)
    rows.writerow(["query", "grade", "a", "b", "c", "d"])
    rows.writerows([i // 10, y[i], *X[i]] for i in range(400))
import marginrank
from marginrank import Ranker, evaluate, read
seen, parses, inside = set(), 0, 0
def trace(frame, event, _):
    global parses
    path = frame.f_code.co_filename
    if event == "call" and os.sep + "marginrank" + os.sep in path and not frame.f_code.co_name.startswith("<"):
        seen.add((path, frame.f_code.co_qualname if hasattr(frame.f_code, "co_qualname") else frame.f_code.co_name))
        spelled = any(isinstance(value, str) for value in frame.f_locals.values())
        if inside and spelled and frame.f_code.co_name.startswith("parse_"):
            parses += 1
def run():
    global inside
    queries = read(os.path.join(folder, "judged.csv"))
    inside = 1
    ranker = Ranker("ndcg@10", n_jobs=1).fit(queries)
    inside = 0
    fit = set(seen)
    evaluate(queries, ranker.predict(queries), "ndcg@10")
    return fit
run()                       # imports and compiles
seen.clear(); parses = 0
sys.setprofile(trace)
fit = run()
sys.setprofile(None)
print(len(seen), len({path for path, _ in seen}), len(fit), len({path for path, _ in fit}), parses)
"""


def main() -> None:
    """Print the figures of a source tree."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("source", nargs="?", type=Path, default=Path(__file__).parents[1] / "src")
    source = parser.parse_args().source.resolve()
    root = source / PACKAGE
    files = {path.relative_to(root): path.read_text(encoding="utf-8") for path in sorted(root.rglob("*.py"))}
    trees = {path: ast.parse(text) for path, text in files.items()}
    importers = importers_of(trees)
    text = "\n".join(files.values())
    for name, lines in sorted(lines_by_room(files).items()):
        print(f"{name:24} {lines:6,} lines")
    figures = {
        "lines": text.count("\n"),
        "files": len(files),
        "loose modules": sum(len(path.parts) == 1 for path in files),
        "layers": count_layers(source.parent / "pyproject.toml"),
        "classes": sum(isinstance(node, ast.ClassDef) for tree in trees.values() for node in ast.walk(tree)),
        "modules with a single importer": sum(len(users) == 1 for users in importers.values()),
        f"functions with more than {MOST_PARAMETERS} parameters": sum(map(has_many_parameters, functions(trees))),
        "noqa": len(re.findall(r"# noqa", text)),
        "type: ignore": len(re.findall(r"# type: ignore", text)),
        "function-local imports": sum(local_imports(node) for node in functions(trees)),
    }
    passed = subprocess.run(
        [sys.executable, "-c", TRACED],
        env={**os.environ, "PYTHONPATH": str(source)},
        capture_output=True,
        text=True,
        check=True,
    )
    numbers = map(int, passed.stdout.split())
    names = ("functions from CSV to evaluation", "files from CSV to evaluation", "functions of read and fit")
    figures |= dict(zip((*names, "files of read and fit", "spellings parsed in a fit"), numbers, strict=True))
    for name, figure in figures.items():
        print(f"{name:40} {figure:7,}")


def lines_by_room(files: dict[Path, str]) -> Counter[str]:
    """Count the lines of each room."""
    lines: Counter[str] = Counter()
    for path, text in files.items():
        lines[path.parts[0] if len(path.parts) > 1 else "(loose)"] += text.count("\n")
    return lines


def functions(trees: dict[Path, ast.Module]) -> Iterator[ast.FunctionDef | ast.AsyncFunctionDef]:
    """Yield every function."""
    for tree in trees.values():
        for node in ast.walk(tree):
            if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
                yield node


def has_many_parameters(node: ast.FunctionDef | ast.AsyncFunctionDef) -> bool:
    """Whether a function has more parameters than anybody remembers."""
    names = [argument.arg for argument in (*node.args.posonlyargs, *node.args.args, *node.args.kwonlyargs)]
    return len([name for name in names if name not in ("self", "cls")]) > MOST_PARAMETERS


def local_imports(node: ast.FunctionDef | ast.AsyncFunctionDef) -> int:
    """Count the imports in the body of a function."""
    return sum(isinstance(statement, ast.Import | ast.ImportFrom) for statement in ast.walk(node))


def importers_of(trees: dict[Path, ast.Module]) -> dict[str, set[Path]]:
    """Return who imports each module of the package."""
    known = {module_of(path): path for path in trees if path.name not in ("__init__.py", "__main__.py")}
    users: dict[str, set[Path]] = defaultdict(set)
    for path, tree in trees.items():
        for node in ast.walk(tree):
            if isinstance(node, ast.ImportFrom) and (node.module or "").startswith(f"{PACKAGE}"):
                inner = [f"{node.module}.{alias.name}" for alias in node.names]
                for name in (node.module or "", *inner):
                    if name in known and known[name] != path:
                        users[name].add(path)
    return users


def module_of(path: Path) -> str:
    """Return the dotted name of a module."""
    return ".".join((PACKAGE, *path.with_suffix("").parts))


def count_layers(project: Path) -> int:
    """Count the rows of the import contract."""
    if not project.exists():
        return 0
    match = re.search(r"^layers = \[\n(.*?)^\]", project.read_text(encoding="utf-8"), re.MULTILINE | re.DOTALL)
    return match[1].count("\n") if match else 0


if __name__ == "__main__":
    main()
