"""``marginrank fuse``: learn how to combine retrieval runs."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, fields, replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, ClassVar, Final, Literal, Self

import typer

from marginrank.cli.exit_codes import Interrupted, UsageError, naming_option
from marginrank.cli.options.reading_options import ReadingOptions
from marginrank.cli.options.shared_options import (
    QueryText,
    bound_option,
    jobs_option,
    measure_names,
    out_option,
    policy_option,
    preset_names,
)
from marginrank.cli.output import Force, Output, atomic_output, check_inputs, check_outputs
from marginrank.cli.progress import TrainingProgress
from marginrank.cli.ranking_files import Format, RankingWriter, check_run_fields, format_of
from marginrank.cli.summary import health_lines, unjudged_line
from marginrank.errors import DataError
from marginrank.runtime.default_measures import DEFAULT_MEASURE
from marginrank.runtime.text import printable, suggest, table

if TYPE_CHECKING:
    from marginrank.data.queries import Queries
    from marginrank.evaluation.evaluation import Unjudged
    from marginrank.fusion import Fusion
    from marginrank.scorers.adaptive.query_weights import QueryWeights

EXAMPLES: Final = (
    "marginrank fuse bm25.run dense.run --qrels judged.qrels --measure ap -o fused.run",
    "marginrank fuse bm25.run dense.run --qrels judged.qrels --trials 2 --sizes 10,5,10",
)
_LEARNED: Final = "learned"
#: With ``--adaptive``, the fusion with the same weights for all queries.
_STATIC: Final = "same weights for all queries"


@dataclass(frozen=True)
class FuseOptions:
    """Options of training a fusion."""

    panel: ClassVar = "Training"

    measure: Annotated[
        str | None,
        typer.Option(
            "--measure",
            "-m",
            metavar="MEASURE",
            help="The measure to train for and to choose by.",
            show_default=f"train svmmap, choose by {DEFAULT_MEASURE}",
            autocompletion=measure_names,
        ),
    ] = None
    preset: Annotated[
        str | None,
        typer.Option(
            metavar="NAME",
            help="Train with this method; C is still chosen by the measure.",
            autocompletion=preset_names,
        ),
    ] = None
    bound: Annotated[Literal["hinge", "tight", "auto"] | None, bound_option()] = None
    kinds: Annotated[
        str | None,
        typer.Option(
            metavar="KIND,...",
            help="Kinds of features to choose from: minmax, percentile, rrf, borda, retrieved, score.",
            show_default="minmax,rrf, which search engines compute",
        ),
    ] = None
    scorer: Annotated[
        Literal["linear", "additive", "auto"], typer.Option(help="One weight, or one curve, per run; auto tries both.")
    ] = "linear"
    adaptive: Annotated[
        bool, typer.Option("--adaptive", help="Let weights depend on the query, if that is better.")
    ] = False
    context: Annotated[
        str | None,
        typer.Option(
            metavar="NAME,...",
            help="With --adaptive, what weights depend on: best, gap, peak, overlap, count of each run; columns of the "
            "data that describe the query; features of its text.",
            show_default="best; with --query-text also all its features",
        ),
    ] = None
    negative: Annotated[bool, typer.Option("--negative", help="Allow negative weights.")] = False
    ranks: Annotated[bool, typer.Option("--ranks", help="The columns hold ranks, 1 is best; not with --qrels.")] = False
    policy: Annotated[str, policy_option()] = "standard"
    n_jobs: Annotated[int | None, jobs_option()] = None

    @property
    def given(self) -> list[str]:
        """The options that are not the default ones."""
        changed = [field.name for field in fields(self) if getattr(self, field.name) != field.default]
        return [f"--{name.replace('_', '-')}" for name in changed]

    def check(self) -> None:
        """Refuse what is unknown, before any data is read."""
        from marginrank.evaluation.policies import parse_policy  # noqa: PLC0415
        from marginrank.measures.base import parse_mix  # noqa: PLC0415
        from marginrank.methods.presets import parse_preset  # noqa: PLC0415
        from marginrank.preparation.run_features import parse_features  # noqa: PLC0415

        with naming_option("measure"):
            parse_mix(self.measure or DEFAULT_MEASURE)
        with naming_option("policy"):
            parse_policy(self.policy)
        with naming_option("preset"):
            parse_preset(self.preset or "svmmap")
        with naming_option("kinds"):
            for kind in (self.kinds or "rrf").split(","):
                parse_features(kind)

    def fusion(self) -> Fusion:
        """Return the fusion to train."""
        from marginrank.fusion import Fusion  # noqa: PLC0415

        return Fusion(
            None if self.kinds is None else tuple(self.kinds.split(",")),
            measure=self.measure,
            preset=self.preset,
            bound=self.bound,
            scorer=self.scorer,
            adaptive=self.adaptive,
            context=tuple(name.strip() for name in (self.context or "best").split(",")),
            nonnegative=not self.negative,
            ranks=self.ranks,
            policy=self.policy,
            n_jobs=self.n_jobs,
        )


def command(
    sources: Annotated[
        list[Path],
        typer.Argument(metavar="RUN", help="TREC runs; or, without --qrels, judged data with a column per retriever."),
    ],
    learning: FuseOptions,
    reading: ReadingOptions,
    output: Output,
    qrels: Annotated[Path | None, typer.Option(metavar="FILE", help="TREC judgements for the runs.")] = None,
    query_text: QueryText = None,
    trials: Annotated[
        int | None, typer.Option(min=1, help="Only compare methods, over this many random splits.")
    ] = None,
    sizes: Annotated[
        str | None,
        typer.Option(
            metavar="N,N,N",
            help="With --trials, the number of training, validation and test queries.",
            show_default="10,5,35",
        ),
    ] = None,
    apply: Annotated[
        Path | None,
        typer.Option(metavar="MODEL", help="Apply this model, written by --model, to runs without judgements."),
    ] = None,
    out: Annotated[
        Path | None,
        out_option("Write the fused rankings: a TREC run or, by the suffix, a .csv, .tsv, .jsonl or .parquet table."),
    ] = None,
    model: Annotated[
        Path | None, typer.Option(metavar="FILE", help="Write the model to this file.", rich_help_panel="Output")
    ] = None,
    force: Force = False,
) -> None:
    """Learn to combine retrieval runs, and compare with unsupervised fusions.

    C, the kind of features and, with --scorer auto, the scorer are chosen by cross-validation. The learned fusion is
    compared with RRF, CombSUM, CombMNZ, Borda and the best single run on queries that were not used for training.
    With --adaptive, the weights may depend on the best scores of the runs or on --context, and with --query-text on
    n_words, mean_word_length, has_digit, has_code and is_question of each query.
    Ctrl-C stops training and writes the best fusion so far, or nothing if the comparison has not finished.
    """
    from marginrank.fusion.context import columns_of  # noqa: PLC0415
    from marginrank.preparation import QUERY_TEXT_FEATURES  # noqa: PLC0415

    _check_usage(learning, reading, qrels=qrels, trials=trials, sizes=sizes, apply=apply, out=out, model=model)
    if apply is None and not learning.adaptive and (query_text is not None or learning.context is not None):
        raise UsageError(f"{'--context' if query_text is None else '--query-text'} requires --adaptive")
    check_inputs([*sources, *(path for path in (qrels, apply, query_text) if path is not None)])
    check_outputs([out, model], inputs=sources, force=force)
    if apply is not None:
        output.summary(*_apply(apply, sources, reading, query_text, out, force))
        return
    fusion = learning.fusion()
    if query_text is not None and learning.context is None:
        fusion.set_params(context=("best", *QUERY_TEXT_FEATURES))
    queries, unjudged = _read(sources, qrels, reading, ranks=learning.ranks)
    _check_context(fusion.context, queries, query_text)
    queries = _with_texts(queries, query_text, columns_of(fusion.context))
    unjudged = {name: one for name, one in unjudged.items() if name not in columns_of(fusion.context)}
    _check_names(queries, out, sources[0])
    with TrainingProgress(quiet=output.quiet) as progress:
        fusion = _watched(fusion, progress)
        contest = _contest(queries, fusion, trials, sizes)
        if progress.stopping:
            # Part of a comparison says nothing.
            raise KeyboardInterrupt
        if trials is None:
            fusion.fit(queries)
        if progress.stopping:
            fusion.ranker_.model_ = fusion.ranker_.model_.as_interrupted()
    record, text = _compared(contest, queries, unjudged, fusion.criterion)
    if trials is None:
        learned, said = _learned(fusion, queries)
        record, text = record | learned, text + said + _write(fusion, queries, out, model, force)
    # Without a file, the comparison is what was asked for.
    show = output.result if out is None and model is None else output.summary
    show(record | {"run": out, "model": model}, text)
    if progress.stopping:
        raise Interrupted("the fusion is the best so far")


def _watched(fusion: Fusion, progress: TrainingProgress) -> Fusion:
    """Return a fusion, and with it its clones, that shows progress and that a signal stops."""
    from marginrank.fusion import Fusion  # noqa: PLC0415

    class Watched(Fusion):
        def fit(self, train: Queries, valid: Queries | None = None, **options: Any) -> Self:
            return super().fit(train, valid, **options, callback=progress)

    return Watched(**fusion.get_params(deep=False))


def _check_usage(
    learning: FuseOptions,
    reading: ReadingOptions,
    *,
    qrels: Path | None,
    trials: int | None,
    sizes: str | None,
    apply: Path | None,
    out: Path | None,
    model: Path | None,
) -> None:
    """Refuse options that are wrong, or mean nothing beside the others."""
    learns = {"--model": model, "--trials": trials, "--sizes": sizes, "--qrels": qrels}
    given = [option for option, value in learns.items() if value is not None] + learning.given
    if apply is not None and given:
        raise UsageError(f"--apply only applies a model; leave out {given[0]}")
    if apply is not None and out is None:
        raise UsageError("--apply only applies a model; give -o FILE for the fused run")
    if sizes is not None and trials is None:
        raise UsageError("--sizes requires --trials")
    if trials is not None and (out is not None or model is not None):
        raise UsageError("--trials only compares; leave out --out and --model, or --trials")
    if qrels is not None and reading != ReadingOptions():
        raise UsageError("options for reading data do not apply to TREC runs; leave them out, or --qrels")
    if qrels is not None and learning.ranks:
        raise UsageError(
            "--ranks is for data with a column of ranks per retriever; TREC runs have scores, leave it out"
        )
    _sizes(sizes)
    learning.check()


def _apply(
    apply: Path,
    sources: list[Path],
    reading: ReadingOptions,
    query_text: Path | None,
    out: Path | None,
    force: bool,
) -> tuple[dict[str, Any], str]:
    from marginrank.fusion import Fusion  # noqa: PLC0415
    from marginrank.preparation import QUERY_TEXT_FEATURES  # noqa: PLC0415

    fusion = Fusion.load(apply)
    of_text = [name for name in fusion.context_ if name in QUERY_TEXT_FEATURES]
    given = [name for name in fusion.context_ if query_text is None or name not in of_text]
    runs = fusion.run_names
    try:
        queries = _read_unjudged(sources, reading, None if runs is None else [*runs, *given])
    except DataError as error:
        absent = [name for name in of_text if repr(name) in str(error)]
        raise error if query_text is not None or not absent else DataError(f"{error}; {_text_of(of_text)}") from None
    if query_text is None and set(of_text).difference(queries.feature_names or ()):
        raise UsageError(f"the weights depend on the texts of queries: {_text_of(of_text)}")
    queries = _with_texts(queries, query_text, fusion.context_)
    _check_names(queries, out, sources[0])
    try:
        return {"queries": len(queries), "run": out}, _write(fusion, queries, out, None, force).strip()
    except DataError as error:
        raise error.at(apply) from error


def _learned(fusion: Fusion, queries: Queries) -> tuple[dict[str, Any], str]:
    """Describe what was chosen and learned on all queries, as values and as text."""
    from marginrank.fusion import ENGINE_KINDS  # noqa: PLC0415
    from marginrank.ranker.selection import scorers_compared  # noqa: PLC0415

    health = fusion.ranker_.health_
    form, compared = fusion.ranker_.form_.kind, scorers_compared(fusion.selection_.to_dict())
    record: dict[str, Any] = {"kinds": fusion.kinds_, "scorer": form, "C": fusion.ranker_.C}
    if fusion.context_:
        record["context"] = list(fusion.context_)
    made_of = ", ".join([fusion.kinds_, *(["by " + ", ".join(fusion.context_)] if fusion.context_ else [])])
    text = f"\n\ntrained on all {len(queries):,} queries: {form}, {made_of}, C = {fusion.ranker_.C:g}{compared}"
    if fusion.cost_of_engines is not None:
        other, gain = fusion.cost_of_engines
        record["forgone"] = {"kinds": other, "gain": gain}
        text += (
            f"\n{' and '.join(ENGINE_KINDS)} can be computed by search engines; {other}, which cannot, would change "
            f"{fusion.criterion} by {gain:+.4f} on held-out queries"
            + (f"; take it with --kinds {other}" if gain > 0 else "")
        )
    if health is not None:
        record["health"] = asdict(health)
        text += "".join(f"\n{line}" for line in health_lines(health, fusion.ranker_.measure_))
    if form == "linear":
        # Only the order of scores counts, so that weights may be shown as shares.
        total = sum(map(abs, fusion.weights().values())) or 1.0
        shares = {name: weight / total for name, weight in fusion.weights().items()}
        weights = sorted(shares.items(), key=lambda item: -abs(item[1]))
        record["weights"] = dict(weights)
        text += "\n" + table([["column", "weight"], *([name, f"{w:.4f}"] for name, w in weights)], right=[1])
    elif form == "adaptive":
        record["weights"], lines = _shares(fusion.query_weights(queries))
        text += f"\n{lines}"
    return record, text


def _shares(by_query: QueryWeights) -> tuple[dict[str, dict[str, float]], str]:
    """Return the median share of each weight in the training queries, and between which shares four of five are."""
    import numpy as np  # noqa: PLC0415

    totals = np.abs(by_query.weights).sum(axis=1, keepdims=True)
    shares = by_query.weights / np.where(totals > 0, totals, 1.0)
    quantiles = np.quantile(shares, [0.5, 0.1, 0.9], axis=0).T.tolist()
    named = ("median", "10%", "90%")
    record = {name: dict(zip(named, row, strict=True)) for name, row in zip(by_query.features, quantiles, strict=True)}
    rows = [[name, *(f"{share:.4f}" for share in row)] for name, row in zip(by_query.features, quantiles, strict=True)]
    note = f"shares of the weights in the training queries; in {printable(by_query.queries[0])}, {by_query.reasons[0]}"
    return record, table([["weight by query", *named], *rows], right=[1, 2, 3]) + f"\n{note}"


def _read(
    sources: list[Path], qrels: Path | None, reading: ReadingOptions, *, ranks: bool
) -> tuple[Queries, Mapping[str, Unjudged]]:
    """Read judged data, or runs and judgements, and count what nobody judged."""
    import numpy as np  # noqa: PLC0415

    from marginrank.data.formats.trec import read_qrels  # noqa: PLC0415
    from marginrank.data.queries import Queries  # noqa: PLC0415
    from marginrank.data.reader import recognize  # noqa: PLC0415
    from marginrank.evaluation.evaluation import count_unjudged  # noqa: PLC0415
    from marginrank.fusion import pool_runs, read_runs  # noqa: PLC0415

    if qrels is not None:
        runs, judged = read_runs(sources), read_qrels(qrels)
        return pool_runs(runs, judged), {name: count_unjudged(judged, run) for name, run in runs.items()}
    if any(recognize(path) == "run" for path in sources):
        raise UsageError("learning from runs needs judgements: give --qrels FILE")
    data = reading.read(sources, missing=reading.missing or "nan")
    if not isinstance(data, Queries):
        raise UsageError("give TREC runs with --qrels, or judged data with a column per retriever")
    if not data.n_unjudged:
        return data, {}
    returned = {name: data.feature(name) * (-1 if ranks else 1) for name in data.feature_names or ()}
    scores = {name: np.where(np.isnan(column), -np.inf, column) for name, column in returned.items()}
    return data, {name: count_unjudged(data, column) for name, column in scores.items()}


def _text_of(names: Sequence[str]) -> str:
    return f"--query-text FILE gives {', '.join(names)}"


def _check_context(names: Sequence[str], queries: Queries, query_text: Path | None) -> None:
    """Refuse names that are unknown with the texts that there are."""
    from marginrank.preparation import QUERY_TEXT_FEATURES  # noqa: PLC0415
    from marginrank.preparation.run_features import CONTEXT_KINDS  # noqa: PLC0415

    known, of_texts = [*CONTEXT_KINDS, *(queries.feature_names or ())], list(QUERY_TEXT_FEATURES)
    for name in names:
        if name not in known and (query_text is None or name not in of_texts):
            advice = (
                _text_of([name]) if name in of_texts else suggest(name, known + of_texts * (query_text is not None))
            )
            raise DataError(f"--context names {name!r}, neither a column nor a kind; {advice}")


def _with_texts(queries: Queries, query_text: Path | None, names: Sequence[str]) -> Queries:
    """Add features of texts to queries, those that are named."""
    from marginrank.data.formats.query_texts import read_query_texts  # noqa: PLC0415
    from marginrank.preparation import QUERY_TEXT_FEATURES, add_query_features, query_text_features  # noqa: PLC0415

    chosen = [name for name in QUERY_TEXT_FEATURES if name in names]
    if query_text is None or not chosen:
        return queries
    twice = next((name for name in chosen if name in (queries.feature_names or ())), None)
    if twice is not None:
        raise DataError(f"the data have a column {twice!r}, too; rename it, or leave out --query-text")
    texts, ids = read_query_texts(query_text), [str(query) for query in queries.query_ids]
    absent = next((query for query in ids if query not in texts), None)
    if absent is not None:
        raise DataError(f"there is no text of query {absent!r}; add it", path=query_text)
    features = query_text_features(texts[query] for query in ids)
    columns = [QUERY_TEXT_FEATURES.index(name) for name in chosen]
    return add_query_features(queries, features[:, columns], chosen)


def _read_unjudged(sources: list[Path], reading: ReadingOptions, names: list[str] | None) -> Queries:
    from marginrank.data.reader import recognize  # noqa: PLC0415
    from marginrank.fusion import pool_runs, read_runs  # noqa: PLC0415

    if all(recognize(path) == "run" for path in sources):
        return pool_runs(read_runs(sources))
    return reading.read_queries(sources, missing=reading.missing or "nan", features=names, judged=False)


def _contest(queries: Queries, fusion: Fusion, n_trials: int | None, sizes: str | None) -> Any:
    """Compare the learned fusion with unsupervised ones on queries that were not used for training."""
    import numpy as np  # noqa: PLC0415
    from sklearn.base import clone  # noqa: PLC0415

    from marginrank.fusion import UNSUPERVISED, BestRun, UnsupervisedFusion, compare_on_random_splits, compare_on_splits  # noqa: PLC0415
    from marginrank.fusion.context import FEWEST_ADAPTIVE  # noqa: PLC0415

    if n_trials is None and len(queries) < FEWEST_ADAPTIVE:
        # The fit to all queries warns of it.
        fusion = clone(fusion).set_params(adaptive=False)
    no_runs: dict[str, Any] = {"ranks": fusion.ranks, "context": fusion.context}
    methods: dict[str, Any] = {_LEARNED: fusion}
    methods |= {name: UnsupervisedFusion(name, **no_runs) for name in UNSUPERVISED}
    if fusion.adaptive:
        methods[_STATIC] = clone(fusion).set_params(adaptive=False)
    methods["best single run"] = BestRun(measure=fusion.criterion, **no_runs)
    options: dict[str, Any] = {"measure": fusion.criterion, "policy": fusion.policy, "n_jobs": fusion.n_jobs}
    if n_trials is not None:
        return compare_on_random_splits(queries, methods, n_trials=n_trials, sizes=_sizes(sizes), **options)
    n_folds = min(5, len(queries))
    # By the order of ids, so that the folds are the same however the rows are sorted.
    part = np.empty(len(queries), dtype=np.int64)
    part[np.argsort(queries.query_ids, kind="stable")] = np.random.default_rng(0).permutation(
        np.arange(len(queries)) % n_folds
    )
    nothing = np.zeros(0, dtype=np.int64)
    folds = [(np.flatnonzero(part != number), nothing, np.flatnonzero(part == number)) for number in range(n_folds)]
    return compare_on_splits(queries, methods, folds, **options)


def _compared(
    contest: Any, queries: Queries, unjudged: Mapping[str, Unjudged], measure: str
) -> tuple[dict[str, Any], str]:
    """Return the result of a comparison as values and as text."""
    comparison = contest.compare(_LEARNED).turned()
    record = {
        "queries": len(queries),
        "documents": queries.n_documents,
        **contest.to_dict(),
        "unjudged": {name: asdict(one) for name, one in unjudged.items()},
        "comparison": comparison.to_dicts(),
    }
    text = f"{contest}\n\nlearned fusion minus the others, {measure} by query:\n{comparison}{unjudged_line(unjudged)}"
    return record, text


def _sizes(text: str | None) -> tuple[int, int, int]:
    words = (text or "10,5,35").split(",")
    if len(words) != 3 or not all(word.strip().isdigit() for word in words):
        raise UsageError(f"--sizes is {text!r}; give three numbers, such as 10,5,35")
    train, valid, test = map(int, words)
    return train, valid, test


def _format(out: Path) -> Format:
    """Return the format of the fused rankings: a TREC run, unless the suffix is that of a table."""
    kind = format_of(out, ranked=False)
    return "trec" if kind == "scores" else kind


def _check_names(queries: Queries, out: Path | None, path: Path) -> None:
    """Refuse ids that a TREC run cannot hold before anything is computed."""
    if out is None or _format(out) != "trec":
        return
    try:
        check_run_fields(topic=queries.query_ids, document=queries.document_names)
    except DataError as error:
        raise error.at(path) from None


def _write(fusion: Fusion, queries: Queries, out: Path | None, model: Path | None, force: bool) -> str:
    lines = ""
    if model is not None:
        fusion.save(model, overwrite=force)
        lines += f"\nwrote {printable(str(model))}"
    if out is not None:
        documents = replace(queries, document_groups=None)
        with atomic_output(out, force=force) as place:
            RankingWriter(documents, fusion.predict(queries)).write(_format(out), place)
        lines += f"\nwrote {printable(str(out))}"
    return lines
