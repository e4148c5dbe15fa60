"""Reading, tuning and training in `train` and `tune`, and the summary of it."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, ClassVar, Literal

import typer

from marginrank.cli.exit_codes import Interrupted, UsageError, naming_option
from marginrank.cli.options.checkpoint_options import CheckpointOptions
from marginrank.cli.options.method_options import MethodOptions
from marginrank.cli.options.reading_options import ReadingOptions, dense
from marginrank.cli.options.shared_options import measure_names, policy_option
from marginrank.cli.output import check_inputs
from marginrank.cli.progress import TrainingProgress
from marginrank.cli.summary import brief_facts, data_line, model_facts
from marginrank.errors import DataError, Message
from marginrank.runtime.default_measures import DEFAULT_MEASURE
from marginrank.runtime.text import count, facts

if TYPE_CHECKING:
    from marginrank.data.partitions import AnyQueries
    from marginrank.ranker.ranker import Ranker
    from marginrank.ranker.selection import Selection


@dataclass(frozen=True)
class TuneOptions:
    """Options of model selection."""

    panel: ClassVar = "Tuning"

    valid: Annotated[list[Path], typer.Option(metavar="FILE", help="Validation queries; repeat for more files.")] = (
        field(default_factory=list)
    )
    folds: Annotated[
        int | None, typer.Option(help="Number of cross-validation folds, instead of --valid.", show_default="5")
    ] = None
    Cs: Annotated[
        str | None, typer.Option("--Cs", metavar="C,C,...", help="Values of C to try.", show_default="ten values")
    ] = None
    criterion: Annotated[
        str | None,
        typer.Option(
            metavar="MEASURE",
            help="The measure, or mix of measures, to select by.",
            show_default=f"that of --measure or --preset, else {DEFAULT_MEASURE}; on clicks dcg@10",
            autocompletion=measure_names,
        ),
    ] = None
    policy: Annotated[str, policy_option()] = "standard"
    rule: Annotated[
        Literal["best", "one-se"],
        typer.Option(help="Choose the best mean, or the smallest C within one standard error of it."),
    ] = "best"

    def check(self) -> None:
        """Refuse what can be refused before any data is read."""
        from marginrank.evaluation.policies import parse_policy  # noqa: PLC0415
        from marginrank.measures.base import parse_mix  # noqa: PLC0415

        if self.valid and self.folds is not None:
            raise UsageError("give --valid or --folds, not both")
        with naming_option("policy"):
            parse_policy(self.policy)
        if self.criterion is not None:
            with naming_option("criterion"):
                parse_mix(self.criterion)
        self.values_of_C()

    def values_of_C(self) -> list[float]:
        """Return the values of C to try; none for the default."""
        if self.Cs is None:
            return []
        from marginrank.runtime.option_objects import check_C  # noqa: PLC0415

        try:
            values = [float(word) for word in self.Cs.split(",")]
        except ValueError:
            raise UsageError(f"--Cs {self.Cs}: write numbers separated by commas, for example 0.1,1,10") from None
        return [check_C(C, "Cs") for C in values]


@dataclass(frozen=True)
class FitOutcome:
    """A trained ranker and how it came about."""

    ranker: Ranker
    selection: Selection | None
    data: str
    valid: str | None
    n_queries: int
    by_signal: bool
    seconds: float

    @classmethod
    def of(
        cls,
        ranker: Ranker,
        selection: Selection | None,
        data: str,
        valid: str | None,
        n_queries: int,
        progress: TrainingProgress,
    ) -> FitOutcome:
        """Return the outcome of training; the model says so if a signal ended it."""
        if progress.stopping:
            ranker.model_ = ranker.model_.as_interrupted()
        return cls(ranker, selection, data, valid, n_queries, progress.stopping, progress.seconds)

    def end(self) -> None:
        """End the command with the exit code of interrupted ones if a signal ended the work."""
        if self.by_signal:
            raise Interrupted("the result is the best so far")

    @property
    def stopped(self) -> bool:
        """Whether a signal or the time limit ended the choice, or a signal the training."""
        return self.by_signal or (self.selection is not None and not self.selection.complete)

    @property
    def cut_short(self) -> bool:
        """Whether the same command, with more time, would train further."""
        return self.stopped or self.ranker.solution_.reason == "time_limit"

    def record(self, out: Path | None) -> dict[str, Any]:
        """Everything for JSON."""
        return {
            "data": self.data,
            "valid": self.valid,
            "selection": None if self.selection is None else self.selection.to_dict(),
            "model": self.ranker.model_.describe(),
            "stopped_early": self.stopped,
            "seconds": self.seconds,
            "output": out,
        }

    def text(self, out: Path | None, *, details: bool) -> str:
        """Return the same as text, in a few lines."""
        valid = [] if self.valid is None else [("valid", self.valid)]
        choice = self.choice(details=details)
        chosen = [] if choice is None else [("choice", choice.split("\n"))]
        model = (model_facts if details else brief_facts)(self.ranker.model_)
        stopped = [("stopped", self._stopped())] if self.stopped else []
        wrote = [] if out is None else [("wrote", f"{out}, after {self.seconds:.1f} s")]
        return facts([("data", self.data), *valid, *chosen, *model, *stopped, *wrote])

    def choice(self, *, details: bool) -> str | None:
        """Return the table of the settings, if one was chosen."""
        from marginrank.ranker.selection import selection_table  # noqa: PLC0415

        return None if self.selection is None else selection_table(self.selection.to_dict(), details=details)

    def _stopped(self) -> str:
        trained_on = self.ranker.trained_on_["queries"]
        part = f", trained on {trained_on:,} of {count(self.n_queries, 'query', 'queries')}"
        cause = "a signal" if self.by_signal else "the time limit"
        return f"by {cause}; this is the best model so far{part if trained_on < self.n_queries else ''}"


def fit(
    data: Sequence[Path],
    C: float | None,
    tuning: TuneOptions,
    method: MethodOptions,
    reading: ReadingOptions,
    *,
    progress: TrainingProgress,
    checkpointing: CheckpointOptions,
    grid: Mapping[str, Sequence[Any]] | None = None,
    client: Any = None,
    read: Callable[[Sequence[Path]], AnyQueries] | None = None,
) -> FitOutcome:
    """Train for one C or, without it, for a path of C of which the best on other queries is kept.

    A method without C is trained once, and validation queries say when to stop. With a client of a cluster, its workers
    read the files and train. Files that are not judged queries have their own function to read them.
    """
    check_inputs([*data, *tuning.valid])
    method.check()
    tuning.check()
    chosen = _is_chosen(C, tuning, method, grid)
    _check_usage(C, tuning, method, chosen=chosen)
    progress.say("reading data")
    read = read or (lambda paths: _read(paths, method, reading, client))
    queries = read(data)
    valid = read(tuning.valid) if tuning.valid else None
    if not method.takes_sparse:
        queries, valid = dense(queries), None if valid is None else dense(valid)
    _check_alike(queries, valid, tuning.valid)
    from marginrank.ranker.ranker import Ranker  # noqa: PLC0415
    from marginrank.scorers.base import scorers_to_try  # noqa: PLC0415

    ranker: Ranker = Ranker(**method.parameters())
    progress.say("training")
    n_scorers = len(scorers_to_try(queries)) if method.scorer_is_chosen else 1
    progress.expect(n_scorers * _n_problems(tuning, grid) if chosen else 1, method.gap, _size(queries))
    selection = None
    if chosen:
        selection = _tune(ranker, queries, valid, tuning, grid, progress, method.time_limit, checkpointing)
        ranker = selection.ranker
    else:
        ranker.set_params(C=ranker.C if C is None else C, time_limit=method.time_limit)
        ranker.fit(queries, validation=valid, callback=progress, **checkpointing.arguments())
    if progress.stopping and not ranker.coef_.any():
        # Weights 0 rank nothing: there is no model yet.
        raise KeyboardInterrupt
    described = data_line(queries, data), None if valid is None else data_line(valid, tuning.valid)
    return FitOutcome.of(ranker, selection, *described, len(queries), progress)


def _read(paths: Sequence[Path], method: MethodOptions, reading: ReadingOptions, client: Any) -> AnyQueries:
    """Read judged data, here or on a cluster."""
    missing = "nan" if method.takes_nan else None
    with advising_on_missing_values(method):
        if client is None:
            return reading.read_queries(paths, missing)
        from marginrank.distributed import DistributedQueries  # noqa: PLC0415

        queries = DistributedQueries.from_files(paths, client, **reading.options_of(paths[0], missing))
        if not queries.has_grades:
            raise DataError("no grades in this data, and they are needed here", path=paths[0])
        return queries


@contextmanager
def advising_on_missing_values(method: MethodOptions) -> Iterator[None]:
    """Replace the advice of errors about missing values by what the method can do with them."""
    try:
        yield
    except DataError as error:
        from marginrank.data.arrays import MISSING_ADVICE  # noqa: PLC0415

        message = _replaced(error.message, MISSING_ADVICE, method.missing_advice)
        raise DataError(message, path=error.path, line=error.line, column=error.column) from None


def _replaced(message: Message, old: Message, new: Message) -> Message:
    """Replace a piece of a message."""
    if message == old:
        return new
    return tuple(_replaced(piece, old, new) for piece in message) if isinstance(message, tuple) else message


def _size(queries: AnyQueries) -> int | None:
    """Bytes that a pass over distributed features reads, together on all workers; None for others."""
    from marginrank.data.partitions import PartitionedQueries  # noqa: PLC0415

    if not isinstance(queries, PartitionedQueries) or queries.is_sparse:
        return None
    return queries.n_documents * queries.n_features * int(queries.facts[0].dtype.removeprefix("float")) // 8


def _tune(
    ranker: Ranker,
    queries: AnyQueries,
    valid: AnyQueries | None,
    tuning: TuneOptions,
    grid: Mapping[str, Sequence[Any]] | None,
    progress: TrainingProgress,
    time_limit: float | None,
    checkpointing: CheckpointOptions,
) -> Selection:
    from marginrank.ranker.grid_search import DEFAULT_CS  # noqa: PLC0415
    from marginrank.ranker.tuning import tune  # noqa: PLC0415

    return tune(
        ranker,
        queries,
        valid=valid,
        folds=tuning.folds,
        Cs=tuning.values_of_C() or DEFAULT_CS,
        grid=grid,
        criterion=tuning.criterion,
        policy=tuning.policy,
        rule=tuning.rule,
        callback=progress,
        time_limit=time_limit,
        random_state=ranker.random_state,
        n_jobs=ranker.n_jobs,
        **checkpointing.arguments(),
    )


def _n_problems(tuning: TuneOptions, grid: Mapping[str, Sequence[Any]] | None) -> int:
    """Count what `tune` solves: a path of C for each setting and fold and, with folds, the best on all queries."""
    from marginrank.ranker.grid_search import DEFAULT_CS  # noqa: PLC0415

    n_Cs = len(tuning.values_of_C() or DEFAULT_CS)
    n_settings = math.prod(len(values) for values in (grid or {}).values())
    return n_settings * n_Cs if tuning.valid else n_settings * n_Cs * (tuning.folds or 5) + 1


def _is_chosen(
    C: float | None, tuning: TuneOptions, method: MethodOptions, grid: Mapping[str, Sequence[Any]] | None
) -> bool:
    """Whether there is anything to choose on other queries."""
    from marginrank.runtime.option_objects import check_C  # noqa: PLC0415

    if C is not None:
        check_C(C)
        if method.scorer_is_chosen:
            raise UsageError(f"--scorer auto is chosen along with C; give --Cs {C:g} instead of -C {C:g}")
    if method.has_C:
        return C is None
    given = "-C" if C is not None else "--Cs" if tuning.Cs is not None else None
    if given is not None:
        raise UsageError(f"{given}: {method.name} has no C; leave it out")
    return bool(grid) or tuning.folds is not None


def _check_usage(C: float | None, tuning: TuneOptions, method: MethodOptions, *, chosen: bool) -> None:
    """Refuse options that mean nothing beside the others."""
    given = {"--Cs": tuning.Cs, "--folds": tuning.folds, "--criterion": tuning.criterion}
    given |= {"--policy": tuning.policy != "standard" or None, "--rule": tuning.rule != "best" or None}
    for option, value in given.items():
        if value is not None and not chosen:
            why = "-C fixes it; leave out one of them" if C is not None else f"{method.name} has none; leave it out"
            raise UsageError(f"{option} is for choosing C, and {why}")
    if method.patience is not None and (chosen or not tuning.valid):
        needed = "-C and --valid" if method.has_C else "--valid"
        raise UsageError(f"--patience is for one fit with validation queries: give {needed}, or leave it out")
    if method.random_state is not None and not method.draws and not (chosen and not tuning.valid):
        raise UsageError("--random-state: nothing is random here; leave it out")


def _check_alike(queries: AnyQueries, valid: AnyQueries | None, paths: Sequence[Path]) -> None:
    if valid is None:
        return
    if valid.n_features != queries.n_features:
        raise DataError(
            f"{valid.n_features} features, but the training data has {queries.n_features}; give the same columns",
            path=paths[0],
        )
    if valid.feature_names != queries.feature_names:
        raise DataError("feature names differ from those of the training data; rename or reorder them", path=paths[0])
