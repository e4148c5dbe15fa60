"""What commands import, build and compile, done once for all forks of a process that imports this: see `forks`."""

from __future__ import annotations

import tempfile
from contextlib import suppress
from functools import cache
from pathlib import Path

import typer.main

from marginrank.cli.app import app

with suppress(ImportError):  # which is an extra
    import marginrank.serving  # noqa: F401

typer.main.get_command = cache(typer.main.get_command)

# Training needs nearly all that other commands need, and makes no thread that would stay.
with tempfile.TemporaryDirectory() as folder:
    data, model = Path(folder, "train.txt"), Path(folder, "model.safetensors")
    data.write_text("".join(f"{row % 3} qid:{row // 4} 1:{row % 5} 2:{row % 7}\n" for row in range(24)))
    for own in (("--preset", "svmmap"), ("--preset", "svmndcg"), ("--solver", "subgradient")):
        words = ["train", str(data), *own, "-C", "1", "--n-jobs", "1", "-o", str(model), "--force", "--quiet"]
        try:
            app(words, prog_name="marginrank")
        except SystemExit as end:
            assert end.code == 0  # noqa: PT017
