"""``marginrank warmup``: compile kernels before they are needed, as when the image of a container is built."""

from __future__ import annotations

import tempfile
import time
import warnings
from collections.abc import Iterable
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Final

import typer

from marginrank.cli.exit_codes import UsageError
from marginrank.cli.options.shared_options import preset_names
from marginrank.cli.output import Output
from marginrank.errors import DataError
from marginrank.runtime.text import facts

if TYPE_CHECKING:
    from marginrank import Queries

EXAMPLES: Final = ("marginrank warmup", "marginrank warmup --preset svmndcg --preset ranksvm")
#: Scorers with kernels; others use those of the linear scorer, or none.
_SCORERS: Final = ("linear", "additive", "boosted")
#: Numbers of features: programs with more than 64 weights are solved by other kernels.
_WIDTHS: Final = (5, 80)


def command(
    output: Output,
    preset: Annotated[
        list[str] | None,
        typer.Option(
            metavar="NAME",
            help="A method to train; repeat for more. `marginrank presets` lists all.",
            show_default="svmmap",
            autocompletion=preset_names,
        ),
    ] = None,
    scorer: Annotated[
        list[str] | None,
        typer.Option(
            metavar="NAME", help=f"A scorer to train: {', '.join(_SCORERS)}; repeat for more.", show_default="linear"
        ),
    ] = None,
) -> None:
    """Compile the kernels that reading, training, prediction and evaluation need, and print where they are cached.

    Kernels are compiled on first use, once per user and version. Run this when the image of a container is built, as
    the user who runs the container. It reads, trains and evaluates on small generated data; kernels that are cached
    already are not compiled again.
    """
    from marginrank.methods.presets import parse_preset  # noqa: PLC0415
    from marginrank.runtime.kernels import cache_folder  # noqa: PLC0415

    names, scorers = preset or ["svmmap"], scorer or ["linear"]
    for name in names:
        parse_preset(name)
    for name in scorers:
        if name not in _SCORERS:
            raise UsageError(f"--scorer: {name!r} is none of {', '.join(_SCORERS)}")
    folder = cache_folder()
    if folder is None:
        raise DataError("no folder for compiled kernels; set NUMBA_CACHE_DIR to a folder that only you can write to")
    before, start = _compiled(folder), time.perf_counter()
    _run(names, scorers)
    compiled = _compiled(folder)
    new, seconds = len(compiled - before), time.perf_counter() - start
    megabytes = sum(path.stat().st_size for path in compiled) / 1e6
    record = {"folder": folder, "compiled": new, "cached": len(before), "seconds": seconds}
    entries: list[tuple[str, str | list[str]]] = [
        ("presets", ", ".join(names)),
        ("scorers", ", ".join(scorers)),
        ("kernels", f"{new} compiled, {len(before)} were cached, {megabytes:.1f} MB, after {seconds:.1f} s"),
        ("folder", str(folder)),
    ]
    output.summary(record, facts(entries))


def _compiled(folder: Path) -> set[Path]:
    return set(folder.rglob("*.nbc"))


def _run(presets: Iterable[str], scorers: Iterable[str]) -> None:
    """Read, train and evaluate, on features of float32, as files are read, and of float64."""
    from marginrank import Ranker, evaluate  # noqa: PLC0415
    from marginrank.data import read_letor, write_letor  # noqa: PLC0415

    with warnings.catch_warnings(), tempfile.TemporaryDirectory() as folder:
        warnings.simplefilter("ignore")  # what is wrong with generated data does not matter
        for width in _WIDTHS:
            judged = _generated(width)
            path = Path(folder, f"{width}.txt")
            write_letor(path, judged)
            for queries in (judged, read_letor(path)):
                for preset in presets:
                    for scorer in scorers:
                        ranker = Ranker(preset, scorer=scorer, C=10.0).fit(queries)
                        evaluate(queries, ranker.predict(queries))


def _generated(n_features: int) -> Queries:
    """Return lists of 2 to 400 documents with grades 0 to 2."""
    import numpy as np  # noqa: PLC0415

    from marginrank import Queries  # noqa: PLC0415

    rng: Any = np.random.default_rng(0)
    lengths = [2, 400, *[10] * 160]
    X = rng.standard_normal((sum(lengths), n_features)).round(3)
    grades = np.digitize(X[:, :3].sum(axis=1) + rng.standard_normal(len(X)), [0.8, 1.8])
    names = [f"d{row}" for row in range(len(X))]
    return Queries.from_arrays(X, grades, group=lengths, document_ids=names)
