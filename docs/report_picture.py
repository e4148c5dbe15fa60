"""Draw the picture of a report in the README: ``python docs/report_picture.py``; needs Chromium."""

from __future__ import annotations

import shutil
import subprocess
import sys
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Final

from PIL import Image

from marginrank import Ranker, tune, write_report
from marginrank.datasets import pydocs
from marginrank.evaluation.systems import System
from marginrank.fusion import rrf

PICTURE: Final = Path(__file__).parent / "pictures" / "report.png"
BROWSERS: Final = ("chromium", "chromium-browser", "google-chrome", "google-chrome-stable")
#: Size of the window, in pixels.
WIDTH, HEIGHT = 960, 824


def write_example(path: Path) -> None:
    """Write a report about a learned ranker, rank fusion and the best retriever of `pydocs`."""
    docs = pydocs()
    ranker = tune(Ranker("ndcg@10"), docs.train).ranker
    systems: dict[str, System] = {"rrf": rrf(docs.test), "ngrams": docs.test.feature("ngrams"), "learned": ranker}
    write_report(
        path,
        docs.test,
        systems,
        ["ndcg@10", "ap"],
        baseline="rrf",
        title="Search in documentation",
        query_text=docs.texts,
    )


def photograph(page: Path, picture: Path) -> None:
    """Write the top of a page to a PNG file of 64 colors."""
    program = next(filter(None, map(shutil.which, BROWSERS)), None)
    if program is None:
        sys.exit(f"no browser: none of {', '.join(BROWSERS)} is installed")
    shot = page.with_suffix(".png")
    options = ["--headless", "--no-sandbox", "--disable-gpu", "--hide-scrollbars", "--force-device-scale-factor=1.5"]
    options += [f"--window-size={WIDTH},{HEIGHT}", "--virtual-time-budget=10000", f"--screenshot={shot}"]
    subprocess.run([program, *options, page.as_uri()], check=True, capture_output=True)
    Image.open(shot).convert("RGB").quantize(64).save(picture, optimize=True)


if __name__ == "__main__":
    with TemporaryDirectory() as folder:
        report = Path(folder) / "report.html"
        write_example(report)
        photograph(report, PICTURE)
    print(f"wrote {PICTURE}: {PICTURE.stat().st_size / 1000:.0f} kB")
