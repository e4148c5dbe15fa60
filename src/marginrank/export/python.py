"""A Python module without dependencies."""

from __future__ import annotations

import runpy
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import ClassVar, Final

import numpy as np

from marginrank.errors import Message
from marginrank.export.base import Target, identifier
from marginrank.export.export_files import Check
from marginrank.export.json_terms import plan_of, refuse_plan
from marginrank.scorers.scoring_function import ScoringFunction
from marginrank.typing import FloatArray

RUNTIME: Final = Path(__file__).with_name("python_runtime.txt")


@dataclass(frozen=True)
class PythonCode(Target):
    """Write a Python module that needs nothing but Python 3.7 or newer: ``score`` and ``rank``."""

    name = "python"
    takes: ClassVar[str] = "all rankers but those with a kernel given as a function"
    suffix: ClassVar[str] = ".py"

    def refusal(self, function: ScoringFunction) -> Message | None:
        """Return the reason why a function is not taken, or None."""
        return refuse_plan(function)

    def write(self, function: ScoringFunction) -> Mapping[str, str | bytes]:
        """Return the module."""
        code = RUNTIME.read_text("utf-8")
        plan = plan_of(function)
        # JSON has other names for three constants.
        return {"": code.replace("MODEL = {}\n", f"null, true, false = None, True, False\nMODEL = {plan}\n")}

    def next_steps(self, path: Path) -> str:
        """Return what to do with the file."""
        module = identifier(path.stem)
        first = "" if module == path.stem else f"rename {path.name} to {module}.py; "
        return f"{first}import {module} and call {module}.rank(documents, k=10) with the documents of one query"

    def run(self, path: Path, check: Check) -> FloatArray:
        """Run the module."""
        score = runpy.run_path(str(path))["score"]
        return np.asarray(score(check.rows, list(check.group)))
