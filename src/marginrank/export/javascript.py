"""A JavaScript module without dependencies."""

from __future__ import annotations

import json
import shutil
import subprocess
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import ClassVar, Final

import numpy as np

from marginrank.errors import Message
from marginrank.export.base import CannotRunError, Target
from marginrank.export.export_files import Check
from marginrank.export.json_terms import plan_of, refuse_plan
from marginrank.scorers.scoring_function import ScoringFunction
from marginrank.typing import FloatArray

RUNTIME: Final = Path(__file__).with_name("javascript_runtime.js")
_RUN: Final = """
const model = require(process.argv[1]);
let text = "";
process.stdin.on("data", (part) => { text += part; }).on("end", () => {
  const input = JSON.parse(text);
  process.stdout.write(JSON.stringify(model.score(input.documents, input.group)));
});
"""


@dataclass(frozen=True)
class JavaScript(Target):
    """Write a JavaScript module for Node.js or the browser: ``score`` and ``rank``."""

    name = "javascript"
    takes: ClassVar[str] = "all rankers but those with a kernel given as a function"
    suffix: ClassVar[str] = ".js"

    def refusal(self, function: ScoringFunction) -> Message | None:
        """Return the reason why a function is not taken, or None."""
        return refuse_plan(function)

    def write(self, function: ScoringFunction) -> Mapping[str, str | bytes]:
        """Return the module."""
        code = RUNTIME.read_text("utf-8")
        return {"": code.replace("const MODEL = {};\n", f"const MODEL = {plan_of(function)};\n")}

    def next_steps(self, path: Path) -> str:
        """Return what to do with the file."""
        return (
            f'const {{ rank }} = require("./{path.name}") and call rank(documents, 10) with the documents of one query'
        )

    def run(self, path: Path, check: Check) -> FloatArray:
        """Run the module in Node.js."""
        node = shutil.which("node")
        if node is None:
            raise CannotRunError("javascript needs node, which is not installed here")
        text = json.dumps({"documents": check.rows, "group": list(check.group)})
        done = subprocess.run(
            [node, "-e", _RUN, str(path.resolve())], input=text, capture_output=True, text=True, check=False
        )
        if done.returncode:
            raise CannotRunError(f"node failed: {done.stderr.strip().splitlines()[-1:]}")
        return np.array(json.loads(done.stdout), dtype=np.float64)
