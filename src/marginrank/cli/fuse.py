"""``marginrank fuse``: learn how to combine retrieval runs."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Final, Literal

import typer

from marginrank.cli.completion import measure_names, policy_names
from marginrank.cli.failures import Misuse
from marginrank.cli.files import Force, check_inputs, check_outputs, whole
from marginrank.cli.output import Output
from marginrank.cli.ranked import check_fields
from marginrank.cli.reading import Reading
from marginrank.errors import DataError
from marginrank.words import printable, table

if TYPE_CHECKING:
    from marginrank.data.queries import Queries
    from marginrank.fusion import Fusion

EXAMPLES: Final = (
    "marginrank fuse bm25.run dense.run --qrels judged.qrels --measure ap -o fused.run",
    "marginrank fuse bm25.run dense.run --qrels judged.qrels --trials 2 --sizes 10,5,10",
)
_LEARNED: Final = "learned"


def command(
    sources: Annotated[
        list[Path],
        typer.Argument(metavar="RUN", help="TREC runs; or, without --qrels, judged data with a column per retriever."),
    ],
    reading: Reading,
    output: Output,
    qrels: Annotated[Path | None, typer.Option(metavar="FILE", help="TREC judgements for the runs.")] = None,
    measure: Annotated[
        str, typer.Option("--measure", "-m", help="The measure to train for.", autocompletion=measure_names)
    ] = "ap",
    preset: Annotated[
        str | None, typer.Option(help="Train with this method; C is still chosen by the measure.")
    ] = None,
    kinds: Annotated[
        str | None,
        typer.Option(
            "--kinds",
            metavar="KIND,...",
            help="Features made of the scores: minmax, percentile, rrf, borda, retrieved, score; the best is chosen.",
            show_default="minmax,percentile,rrf",
        ),
    ] = None,
    scorer: Annotated[
        Literal["linear", "additive"], typer.Option(help="One weight, or one curve, per run.")
    ] = "linear",
    negative: Annotated[bool, typer.Option("--negative", help="Allow negative weights.")] = False,
    ranks: Annotated[bool, typer.Option("--ranks", help="The columns are ranks, 1 is best.")] = False,
    policy: Annotated[
        str,
        typer.Option(help="How to score ties, and queries without relevant documents.", autocompletion=policy_names),
    ] = "standard",
    trials: Annotated[
        int | None,
        typer.Option(min=1, help="Only compare, over this many random splits.", show_default=False),
    ] = None,
    sizes: Annotated[
        str | None,
        typer.Option(
            help="With --trials, the number of training, validation and test queries.", show_default="10,5,35"
        ),
    ] = None,
    n_jobs: Annotated[int | None, typer.Option(help="Number of threads.", show_default="all cores")] = None,
    apply: Annotated[
        Path | None,
        typer.Option(metavar="MODEL", help="Apply this model, written by --model, to runs without judgements."),
    ] = None,
    out: Annotated[
        Path | None,
        typer.Option("--out", "-o", metavar="FILE", help="Write the fused run to this file.", rich_help_panel="Output"),
    ] = None,
    model: Annotated[
        Path | None, typer.Option(metavar="FILE", help="Write the model to this file.", rich_help_panel="Output")
    ] = None,
    force: Force = False,
) -> None:
    """Learn to combine retrieval runs, and compare with unsupervised fusions.

    C and the kind of features are chosen by cross-validation. The learned fusion is compared with RRF, CombSUM,
    CombMNZ, Borda and the best single run on queries that were not used for training.
    """
    from marginrank.fusion import DEFAULT_FEATURES, Fusion  # noqa: PLC0415

    learns = [model, trials, qrels, preset, kinds, sizes, negative or None, ranks or None]
    learns += [None if measure == "ap" else measure, None if scorer == "linear" else scorer]
    if apply is not None and (out is None or any(one is not None for one in learns)):
        raise Misuse("--apply only applies a model: give -o, and leave out all options for learning and comparing")
    if sizes is not None and trials is None:
        raise Misuse("--sizes goes with --trials")
    if trials is not None and (out is not None or model is not None):
        raise Misuse("--trials only compares; leave out --out and --model, or --trials")
    check_inputs([*sources, *(path for path in (qrels, apply) if path is not None)])
    check_outputs([out, model], inputs=sources, force=force)
    if apply is not None:
        fusion = Fusion.load(apply)
        queries = _read_unjudged(sources, reading)
        try:
            output.summary({"queries": len(queries), "run": out}, _write(fusion, queries, out, None, force).strip())
        except DataError as error:
            raise DataError(error.problem, path=error.path or apply) from error
        return
    queries = _read(sources, qrels, reading)
    fusion = Fusion(
        DEFAULT_FEATURES if kinds is None else tuple(kinds.split(",")),
        measure=measure,
        preset=preset,
        scorer=scorer,
        nonnegative=not negative,
        ranks=ranks,
        policy=policy,
        n_jobs=n_jobs,
    )
    contest = _contest(queries, fusion, ranks, measure, policy, trials, sizes or "10,5,35", n_jobs)
    record: dict[str, Any] = {"queries": len(queries), "documents": queries.n_documents, **contest.to_dict()}
    comparison = contest.compare(_LEARNED).turned()
    record["comparison"] = comparison.to_dicts()
    text = f"{contest}\n\nlearned fusion minus the others, {measure} by query:\n{comparison}"
    if trials is None:
        fusion.fit(queries)
        learned, said = _learned(fusion, len(queries))
        record, text = record | learned, text + said + _write(fusion, queries, out, model, force)
    output.result(record | {"run": out, "model": model}, text)


def _learned(fusion: Fusion, n_queries: int) -> tuple[dict[str, Any], str]:
    """Describe what was chosen and learned on all queries, as values and as text."""
    record: dict[str, Any] = {"features": fusion.features_, "C": fusion.ranker_.C}
    text = f"\n\ntrained on all {n_queries:,} queries: {fusion.features_}, C = {fusion.ranker_.C:g}"
    if fusion.ranker_.form_.kind == "linear":
        # Only the order of scores counts, so that weights may be shown as shares.
        total = sum(map(abs, fusion.weights().values())) or 1.0
        shares = {name: weight / total for name, weight in fusion.weights().items()}
        weights = sorted(shares.items(), key=lambda item: -abs(item[1]))
        record["weights"] = dict(weights)
        text += "\n" + table([["column", "weight"], *([name, f"{w:.4f}"] for name, w in weights)], right=[1])
    return record, text


def _read(sources: list[Path], qrels: Path | None, reading: Reading) -> Queries:
    from marginrank.data.formats import recognize  # noqa: PLC0415
    from marginrank.data.queries import Queries  # noqa: PLC0415
    from marginrank.data.trec import read_qrels  # noqa: PLC0415
    from marginrank.fusion import gather, read_runs  # noqa: PLC0415

    if qrels is not None:
        return gather(read_runs(sources), read_qrels(qrels))
    if any(recognize(path) == "run" for path in sources):
        raise Misuse("learning from runs needs judgements: give --qrels FILE")
    data = reading.read(sources, missing=reading.missing or "nan")
    if not isinstance(data, Queries):
        raise Misuse("give TREC runs with --qrels, or judged data with a column per retriever")
    return data


def _read_unjudged(sources: list[Path], reading: Reading) -> Queries:
    from marginrank.data.formats import recognize  # noqa: PLC0415
    from marginrank.fusion import gather, read_runs  # noqa: PLC0415

    if all(recognize(path) == "run" for path in sources):
        return gather(read_runs(sources))
    return reading.read_queries(sources, missing=reading.missing or "nan", judged=False)


def _contest(
    queries: Queries,
    fusion: Fusion,
    ranks: bool,
    measure: str,
    policy: str,
    n_trials: int | None,
    sizes: str,
    n_jobs: int | None,
) -> Any:
    import numpy as np  # noqa: PLC0415

    from marginrank.fusion import FIXED, BestRun, FixedFusion, contest, trials  # noqa: PLC0415

    methods = {_LEARNED: fusion, **{name: FixedFusion(name, ranks=ranks) for name in FIXED}}
    methods["best single run"] = BestRun(measure=measure, ranks=ranks)
    options: dict[str, Any] = {"measure": measure, "policy": policy, "n_jobs": n_jobs}
    if n_trials is not None:
        return trials(queries, methods, n_trials=n_trials, sizes=_sizes(sizes), **options)
    n_folds = min(5, len(queries))
    part = np.random.default_rng(0).permutation(np.arange(len(queries)) % n_folds)
    nothing = np.zeros(0, dtype=np.int64)
    folds = [(np.flatnonzero(part != number), nothing, np.flatnonzero(part == number)) for number in range(n_folds)]
    return contest(queries, methods, folds, **options)


def _sizes(text: str) -> tuple[int, int, int]:
    words = text.split(",")
    if len(words) != 3 or not all(word.strip().isdigit() for word in words):
        raise Misuse(f"--sizes is {text!r}; give three numbers, such as 10,5,35")
    train, valid, test = map(int, words)
    return train, valid, test


def _write(fusion: Fusion, queries: Queries, out: Path | None, model: Path | None, force: bool) -> str:
    from marginrank.data.trec import write_run  # noqa: PLC0415

    lines = ""
    if model is not None:
        fusion.save(model, overwrite=force)
        lines += f"\nwrote {printable(str(model))}"
    if out is not None:
        run = fusion.run(queries)
        check_fields("a TREC run", topic=run.topics, document=run.document_ids)
        with whole(out, force=force) as place:
            write_run(place, run)
        lines += f"\nwrote {printable(str(out))}"
    return lines
