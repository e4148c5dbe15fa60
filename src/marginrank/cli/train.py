"""``marginrank train``: fit a ranker and write it."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Final

import typer

from marginrank.cli.cluster import Cluster
from marginrank.cli.declarations import out_option
from marginrank.cli.failures import Misuse
from marginrank.cli.files import Force, check_outputs
from marginrank.cli.fitting import Choosing, fit
from marginrank.cli.going_on import GoingOn
from marginrank.cli.keeping import Keeping
from marginrank.cli.method import Method
from marginrank.cli.output import Output
from marginrank.cli.reading import Reading
from marginrank.cli.watching import Watch

EXAMPLES: Final = (
    "marginrank train train.txt --valid valid.txt -o model.safetensors",
    "marginrank train train.txt --preset svmndcg@5 -C 10 -o ndcg.safetensors",
)


def command(
    data: Annotated[list[Path], typer.Argument(metavar="DATA", help="Judged queries to train on.")],
    choosing: Choosing,
    method: Method,
    going: GoingOn,
    keeping: Keeping,
    reading: Reading,
    cluster: Cluster,
    out: Annotated[Path, out_option("The model to write.", metavar="MODEL")],
    output: Output,
    C: Annotated[
        float | None,
        typer.Option(
            "-C",
            help="Train with this C instead of choosing one; --valid then decides when to stop.",
            show_default=False,
            rich_help_panel="Choosing",
        ),
    ] = None,
    force: Force = False,
) -> None:
    """Train a ranker for a measure and write the model.

    Without -C, ten values of C are tried, and the best is chosen on the validation queries, or by 5-fold
    cross-validation. Ctrl-C stops training and writes the best model so far.

    With --checkpoint, a killed run can be resumed: run the same command again with --resume.

    With --start-from or --update, training continues from a model; its C is used unless -C is given.

    With --workers or --scheduler, the files are read and trained on by the workers of a cluster. The model depends on
    the files, one partition each, and not on the number of workers.
    """
    check_outputs([out], inputs=[*data, *choosing.valid], force=force)
    keeping.check([out, *data, *choosing.valid, *([] if going.model is None else [going.model])])
    going.check(method, choosing, keeping)
    if going.model is not None and cluster.chosen:
        raise Misuse("--start-from and --update train in this process; leave out --workers and --scheduler")
    with cluster.client(quiet=output.quiet) as client, Watch(quiet=output.quiet) as watch:
        if going.model is not None:
            outcome = going.train(data, C, choosing, method, reading, watch, keeping)
        else:
            outcome = fit(data, C, choosing, method, reading, watch=watch, keeping=keeping, client=client)
        outcome.ranker.save(out, overwrite=force)
    keeping.done(stopped=outcome.cut_short)
    output.summary(outcome.record(out), outcome.text(out))
