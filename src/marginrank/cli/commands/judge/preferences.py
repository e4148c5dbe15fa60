"""``marginrank judge preferences``: whether preferences can be trusted, and which systems agree with them."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Final

import typer

from marginrank.cli.exit_codes import UsageError
from marginrank.cli.judgement_tables import Confidence
from marginrank.cli.options.reading_options import ReadingOptions, load_ranker
from marginrank.cli.output import Output, check_inputs
from marginrank.runtime.text import ResultTable, count, facts

if TYPE_CHECKING:
    from marginrank.judging import Preferences
    from marginrank.judging.intervals import Estimate

EXAMPLES: Final = ("marginrank judge preferences preferences.csv bm25.run dense.run",)


def command(
    source: Annotated[Path, typer.Argument(metavar="FILE", help="Preferences: .csv, .tsv, .jsonl or .parquet.")],
    reading: ReadingOptions,
    output: Output,
    systems: Annotated[
        list[Path] | None, typer.Argument(metavar="SYSTEM", help="TREC runs, or models with --data.")
    ] = None,
    documents: Annotated[
        Path | None, typer.Option("--data", metavar="FILE", help="Documents with features and ids, for models.")
    ] = None,
    confidence: Confidence = 0.95,
) -> None:
    """Check preferences between documents, and show how often systems agree with them.

    A row of FILE has query, better and worse, or query, a, b and preferred, where a was shown first and preferred is a,
    b or tie. Prints ties, preferences on cycles, whether the document that is shown first wins more often, how far
    raters agree, and the accuracy of each system with its interval.
    """
    paths = systems or []
    check_inputs([source, *paths, *((documents,) if documents else ())])
    from marginrank.judging import read_preferences  # noqa: PLC0415

    preferences = read_preferences(source)
    record, entries = _described(preferences, confidence)
    accuracy = {path.name: _accuracy(preferences, path, documents, reading, confidence) for path in paths}
    record["accuracy"] = {name: one._asdict() for name, one in accuracy.items()}
    text = facts(entries)
    if accuracy:
        rows = [[name, f"{one.value:.3f}", "[{:.3f}, {:.3f}]".format(*one.interval)] for name, one in accuracy.items()]
        text += "\n\n" + ResultTable([["system", "accuracy", "interval"], *rows], right=[1, 2]).text().rstrip()
    output.result(record, text)


def _described(preferences: Preferences, confidence: float) -> tuple[dict[str, Any], list[tuple[str, str]]]:
    import numpy as np  # noqa: PLC0415

    from marginrank.judging import agreement  # noqa: PLC0415

    queries, raters = (len(np.unique(ids)) for ids in (preferences.query_ids, preferences.raters))
    ties, cyclic = int(preferences.tie.sum()), int(preferences.cyclic.sum())
    record: dict[str, Any] = {
        "preferences": len(preferences), "queries": queries, "raters": raters, "ties": ties, "cyclic": cyclic,
        "shown_first": None, "alpha": None,
    }  # fmt: skip
    size = f"{len(preferences):,} of {count(queries, 'query', 'queries')} by {count(raters, 'rater')}"
    entries = [("preferences", size), ("ties", f"{ties:,}"), ("on cycles", f"{cyclic:,}")]
    if not np.isnan(preferences.better_first[~preferences.tie]).all():
        bias = preferences.position_bias(confidence=confidence)
        record["shown_first"] = {**bias.first._asdict(), "biased": bias.biased}
        record["both_orders"] = bias.consistent._asdict()
        entries.append(("first wins", f"{bias.first}, {'biased' if bias.biased else 'no bias shown'}"))
        if bias.consistent.documents:
            pairs = count(bias.consistent.documents, "pair")
            entries.append(("both orders", f"the same document wins {bias.consistent} of {pairs}"))
    pairs_by_rater = preferences.as_judgements()
    if (pairs_by_rater.judged.sum(axis=1) > 1).any():
        alpha = agreement(pairs_by_rater, distance="nominal", confidence=confidence).alpha
        record["alpha"] = alpha._asdict()
        entries.append(("alpha", f"{alpha.value:.3f} [{alpha.interval[0]:.3f}, {alpha.interval[1]:.3f}]"))
    return record, entries


def _accuracy(
    preferences: Preferences, path: Path, documents: Path | None, reading: ReadingOptions, confidence: float
) -> Estimate:
    from marginrank.data.formats.trec import read_run  # noqa: PLC0415
    from marginrank.model.file_format import is_model  # noqa: PLC0415

    if not is_model(path):
        return preferences.accuracy(read_run(path), confidence=confidence)
    if documents is None:
        raise UsageError(f"{path.name} is a model, which needs features; give the documents with --data")
    ranker = load_ranker(path)
    joined = preferences.with_documents(reading.read_for(ranker.model_, [documents]))
    return joined.accuracy(ranker, confidence=confidence)
