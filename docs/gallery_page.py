"""The gallery: the scripts of ``examples/`` as pages of prose and code, with what they print and draw."""

from __future__ import annotations

import ast
import os
import re
import shutil
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Final

HERE: Final = Path(__file__).parent
EXAMPLES: Final = HERE.parent / "examples"
#: Where pictures go, below the documentation.
PICTURES: Final = "gallery"
_CELL: Final = re.compile(r"^# %%\n", re.MULTILINE)


@dataclass(frozen=True)
class Example:
    """A script: its title, what its docstring says, and its cells of prose and code."""

    name: str
    title: str
    summary: str
    cells: tuple[tuple[str, str], ...]


def examples() -> list[Example]:
    """Return the Python scripts in the order of the table in their README."""
    listed = re.findall(r"^\| `(\w+\.py)` \|", (EXAMPLES / "README.md").read_text(encoding="utf-8"), re.MULTILINE)
    return [parse_example(EXAMPLES / name) for name in listed]


def parse_example(path: Path) -> Example:
    """Split a script at its ``# %%`` lines; the comment after such a line is prose."""
    source = path.read_text(encoding="utf-8")
    tree = ast.parse(source)
    title, _, summary = (ast.get_docstring(tree) or "").partition("\n")
    body = "\n".join(source.splitlines()[tree.body[0].end_lineno :]) + "\n"
    cells = tuple(_cell(text) for text in _CELL.split(body) if text.strip())
    return Example(path.name, title, summary.lstrip("=\n"), cells)


def _cell(text: str) -> tuple[str, str]:
    lines = text.strip("\n").splitlines()
    n_prose = next((number for number, line in enumerate(lines) if not line.startswith("#")), len(lines))
    prose = " ".join(line.removeprefix("#").strip() for line in lines[:n_prose])
    return prose, "\n".join(lines[n_prose:]).strip("\n")


def gallery_page() -> str:
    """Run all examples, and return a section for each."""
    (HERE / PICTURES).mkdir(exist_ok=True)
    with ThreadPoolExecutor(2) as pool:
        return "\n\n".join(pool.map(lambda example: section(example, *run(example)), examples())) + "\n"


def run(example: Example) -> tuple[str, list[str]]:
    """Run a script in an empty folder; return what it prints, and the pictures it draws."""
    with TemporaryDirectory() as folder:
        done = subprocess.run(
            [sys.executable, str(EXAMPLES / example.name)],
            cwd=folder,
            env=os.environ | {"MPLBACKEND": "agg"},
            stdout=subprocess.PIPE,
            text=True,
            check=True,
        )
        pictures = sorted(Path(folder).glob("*.png"))
        for picture in pictures:
            shutil.copy(picture, HERE / PICTURES / picture.name)
        return done.stdout, [picture.name for picture in pictures]


def section(example: Example, printed: str, pictures: list[str]) -> str:
    """Return the section of an example."""
    parts = [f"## {example.title}", example.summary]
    for prose, code in example.cells:
        parts += [prose] * bool(prose) + [f"```python\n{code}\n```"] * bool(code)
    parts += [f"It prints\n\n```text\n{printed.rstrip()}\n```"] * bool(printed)
    parts += [f"![Plot of {example.name}]({PICTURES}/{picture})" for picture in pictures]
    return "\n\n".join(parts)
