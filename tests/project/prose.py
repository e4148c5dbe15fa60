"""Check prose against the vocabulary: ``python -m tests.project.prose`` prints each place and what to write."""

from __future__ import annotations

import ast
import re
import subprocess
import sys
import tomllib
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import NamedTuple

ROOT = Path(__file__).parents[2]
VOCABULARY = tomllib.loads(Path(__file__).with_name("vocabulary.toml").read_text("utf-8"))
#: Where prose is: documentation, and the docstrings and messages of code.
PLACES = ("*.md", "examples/*.py", "src/*.py", "experiments/*.py", "benchmarks/*.py")
#: The changelog quotes what was; the results are written by the experiments, whose code is checked.
EXCEPT = re.compile(r"CHANGELOG\.md|experiments/results/")

_PHRASES = [(re.compile(pattern, re.IGNORECASE), use) for pattern, use in VOCABULARY["phrases"].items()]
_CODE = re.compile(r"^```.*?^```|`[^`\n]*`|<!--.*?-->|\]\([^)]*\)", re.MULTILINE | re.DOTALL)
_LITERAL = re.compile(r"``.*?``|`[^`\n]*`|^ *(>>>|\.\.\.).*$", re.MULTILINE)


class Problem(NamedTuple):
    """A phrase to replace."""

    line: int
    phrase: str
    use: str


def in_markdown(text: str) -> Iterator[Problem]:
    """Find phrases outside of code.

    >>> list(in_markdown("The gap is 5 %.\\n`5 %` is code."))
    [Problem(line=1, phrase='5 %', use='a percent sign without a space')]
    """
    blank = _CODE.sub(lambda code: re.sub(r"[^\n]", " ", code[0]), text)
    yield from _in_text(blank, 1)


def in_python(source: str) -> Iterator[Problem]:
    """Find phrases in docstrings and messages, and docstrings that begin with the wrong word.

    >>> list(in_python('def f():\\n    \\"\\"\\"Give a number.\\"\\"\\"'))
    [Problem(line=2, phrase='Give', use='a verb such as Return for a function, a noun phrase for a class or module')]
    """
    tree = ast.parse(source)
    for node in ast.walk(tree):
        if isinstance(node, ast.Module | ast.ClassDef | ast.FunctionDef | ast.AsyncFunctionDef):
            yield from _first_word(node)
        if isinstance(node, ast.Constant) and isinstance(node.value, str) and " " in node.value:
            yield from _in_text(_LITERAL.sub(lambda code: " " * len(code[0]), node.value), node.lineno)


def _first_word(node: ast.Module | ast.ClassDef | ast.FunctionDef | ast.AsyncFunctionDef) -> Iterator[Problem]:
    words = (ast.get_docstring(node) or "").split(maxsplit=1)
    if words and words[0] in VOCABULARY["docstrings"]["never"]:
        use = "a verb such as Return for a function, a noun phrase for a class or module"
        yield Problem(node.body[0].lineno, words[0], use)


def _in_text(text: str, first_line: int) -> Iterator[Problem]:
    for pattern, use in _PHRASES:
        for match in pattern.finditer(text):
            yield Problem(first_line + text.count("\n", 0, match.start()), match[0], use)


def main(paths: Sequence[str]) -> int:
    """Print the problems of files, of all by default; return how many there are."""
    files = paths or subprocess.check_output(["git", "ls-files", "--", *PLACES], cwd=ROOT, text=True).splitlines()
    n_problems = 0
    for name in sorted(name for name in files if not EXCEPT.match(name)):
        text = (ROOT / name).read_text("utf-8")
        for problem in sorted(in_python(text) if name.endswith(".py") else in_markdown(text)):
            print(f"{name}:{problem.line}: {problem.phrase!r}: write {problem.use}")
            n_problems += 1
    return n_problems


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]) > 0)
