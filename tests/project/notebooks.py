"""Run notebooks and store their outputs: ``python -m tests.project.notebooks`` writes those of all examples.

Code runs in this process, cell by cell: a kernel, and the thirty packages that talk to one, would add nothing here.
"""

from __future__ import annotations

import ast
import base64
import contextlib
import io
import json
import os
import re
import sys
import tempfile
from collections.abc import Iterator, Sequence
from importlib.metadata import version
from pathlib import Path
from typing import Any

FOLDER = Path(__file__).parents[2] / "examples" / "notebooks"
#: How far a figure may be from the stored one: the last bits of sums differ between processors.
RELATIVE, ABSOLUTE, COUNTS = 0.02, 0.003, 3
#: Packages whose documentation is searched: with other versions there are other figures.
SEARCHED = ("numpy", "scipy", "scikit-learn")

_NUMBER = re.compile(r"(?<![\w.])[-+−]?(?:\d[\d,]*)?\.?\d+(?:e[-+]?\d+)?(?![\w])")


def read(path: Path) -> dict[str, Any]:
    """Read a notebook."""
    notebook: dict[str, Any] = json.loads(path.read_text("utf-8"))
    return notebook


def write(path: Path, notebook: dict[str, Any]) -> None:
    """Write a notebook as Jupyter does."""
    path.write_text(json.dumps(notebook, indent=1, ensure_ascii=False) + "\n", "utf-8")


def executed(notebook: dict[str, Any]) -> dict[str, Any]:
    """Run the code of a notebook in an empty folder, and return it with the outputs.

    >>> cell = {"cell_type": "code", "source": ["print(1)\\n", "'a' + 'b'"], "metadata": {}}
    >>> [output.get("text", output.get("data")) for output in executed({"cells": [cell]})["cells"][0]["outputs"]]
    [['1\\n'], {'text/plain': ["'ab'"]}]
    """
    namespace: dict[str, Any] = {"__name__": "__main__"}
    cells, count = [], 0
    list(_figures())  # other code of this process may have left some open
    with tempfile.TemporaryDirectory() as folder, contextlib.chdir(folder):
        for cell in notebook["cells"]:
            if cell["cell_type"] == "code":
                count += 1
                outputs = list(_outputs("".join(cell["source"]), namespace, count))
                cells.append({**cell, "execution_count": count, "outputs": outputs})
            else:
                cells.append(cell)
    metadata = {**notebook.get("metadata", {}), "versions": {name: version(name) for name in SEARCHED}}
    return {**notebook, "cells": cells, "metadata": metadata}


def _outputs(source: str, namespace: dict[str, Any], count: int) -> Iterator[dict[str, Any]]:
    """Run a cell; yield what it prints, its figures, and the value of an expression at its end."""
    tree = ast.parse(source)
    last = tree.body.pop() if tree.body and isinstance(tree.body[-1], ast.Expr) else None
    value = None
    with contextlib.redirect_stdout(io.StringIO()) as printed:
        exec(compile(tree, "<cell>", "exec"), namespace)
        if last is not None:
            value = eval(compile(ast.Expression(last.value), "<cell>", "eval"), namespace)
    if printed.getvalue():
        yield {"name": "stdout", "output_type": "stream", "text": _lines(printed.getvalue())}
    if value is not None:
        data = {"text/plain": _lines(repr(value))}
        if hasattr(value, "_repr_html_"):
            data["text/html"] = _lines(value._repr_html_())
        yield {"data": data, "execution_count": count, "metadata": {}, "output_type": "execute_result"}
    yield from _figures()


def _figures() -> Iterator[dict[str, Any]]:
    """Yield the open figures of matplotlib as PNG, and close them."""
    if "matplotlib.pyplot" not in sys.modules:
        return
    from matplotlib import pyplot as plt

    for number in plt.get_fignums():
        picture = io.BytesIO()
        figure = plt.figure(number)
        figure.savefig(picture, format="png", dpi=90, bbox_inches="tight", metadata={"Software": None})
        data = {"image/png": base64.b64encode(picture.getvalue()).decode() + "\n", "text/plain": ["<Figure>"]}
        yield {"data": data, "metadata": {}, "output_type": "display_data"}
    plt.close("all")


def _lines(text: str) -> list[str]:
    return text.splitlines(keepends=True)


def differences(stored: dict[str, Any], run: dict[str, Any]) -> list[str]:
    """Compare the outputs of two notebooks: the same kinds and, with the same versions, words and close figures.

    >>> old, new = ({"cells": [{"outputs": [{"text": [f"NDCG@10 {value} of d1\\n"]}]}]} for value in ("0.71", "0.72"))
    >>> differences(old, new)
    []
    >>> old["cells"][0]["outputs"][0]["text"] = ["NDCG@10 0.9 of d1\\n"]
    >>> differences(old, new)
    ["cell 1: 'NDCG@10 0.9 of d1' is now 'NDCG@10 0.72 of d1'"]
    """
    told = []
    same_versions = stored.get("metadata", {}).get("versions") == run.get("metadata", {}).get("versions")
    for number, (old, new) in enumerate(zip(stored["cells"], run["cells"], strict=True), start=1):
        before, now = old.get("outputs", []), new.get("outputs", [])
        if [_kinds(output) for output in before] != [_kinds(output) for output in now]:
            told.append(f"cell {number}: other outputs")
            continue
        if not same_versions:
            continue
        lines = zip(_text(before), _text(now), strict=False)
        told += [f"cell {number}: {a!r} is now {b!r}" for a, b in lines if not _close(a, b)]
        if len(_text(before)) != len(_text(now)):
            told.append(f"cell {number}: {len(_text(now))} lines instead of {len(_text(before))}")
    return told


def _kinds(output: dict[str, Any]) -> tuple[Any, ...]:
    return output.get("output_type"), *sorted(output.get("data", {}))


def _text(outputs: Sequence[dict[str, Any]]) -> list[str]:
    """Return what is to be read: printed lines, rows of tables, and values."""
    data = [one.get("data", {"text/plain": one.get("text", [])}) for one in outputs]
    texts = ["".join(one.get("text/html", one.get("text/plain", []))) for one in data]
    rows = [re.sub(r"</tr>|</p>", "\n", re.sub(r"<style.*?</style>", "", text, flags=re.DOTALL)) for text in texts]
    return [" ".join(re.sub("<[^>]*>", " ", line).split()) for text in rows for line in text.splitlines()]


def _close(a: str, b: str) -> bool:
    """Return whether two lines have the same words, and numbers that are close."""
    numbers = [[float(word.replace(",", "").replace("−", "-")) for word in _NUMBER.findall(line)] for line in (a, b)]
    words = [" ".join(_NUMBER.sub("#", line).split()) for line in (a, b)]
    if words[0] != words[1] or len(numbers[0]) != len(numbers[1]):
        return False
    # A count, as of passes, may be off by a few.
    least = [ABSOLUTE if "." in word else COUNTS for word in _NUMBER.findall(b)]
    pairs = zip(*numbers, least, strict=True)
    return all(abs(x - y) <= max(atol, RELATIVE * max(abs(x), abs(y))) for x, y, atol in pairs)


def main(names: Sequence[str]) -> None:
    """Run notebooks, all by default, and write their outputs into them."""
    os.environ["MPLBACKEND"] = "agg"
    for path in [Path(name) for name in names] or sorted(FOLDER.glob("*.ipynb")):
        write(path, executed(read(path)))
        print(path)


if __name__ == "__main__":
    main(sys.argv[1:])
