"""``marginrank serve``: a model behind HTTP."""

from __future__ import annotations

import logging
from pathlib import Path
from typing import Annotated, Final

import typer

from marginrank.cli.output import Output, check_inputs
from marginrank.cli.streams import LoggedLines
from marginrank.runtime.text import facts
from marginrank.serving.limits import ServiceLimits

EXAMPLES: Final = ("marginrank serve model.safetensors --port 8080",)


def command(
    model: Annotated[
        Path, typer.Argument(metavar="MODEL", help="A model written by `marginrank train`, `tune` or `fuse`.")
    ],
    output: Output,
    limits: ServiceLimits,
    host: Annotated[str, typer.Option(help="Address to listen on; 0.0.0.0 for all interfaces.")] = "127.0.0.1",
    port: Annotated[int, typer.Option(min=0, max=65535, help="Port to listen on; 0 for any free port.")] = 8000,
    reload_every: Annotated[
        float, typer.Option(min=0.0, metavar="SECONDS", help="How often to check for a new model file; 0 for never.")
    ] = 2.0,
) -> None:
    """Serve a model over HTTP: POST /rank takes features or runs and returns rankings.

    POST /v1/rerank does so in the format of Cohere and Jina. GET /docs describes requests and responses; /health and
    /metrics are for monitoring. The model is reloaded when its file changes, and on SIGHUP; if the new file is damaged,
    this is logged and the old model stays in use. On SIGTERM or Ctrl-C, the service finishes the requests in progress.
    Requires the extra serve.
    """
    check_inputs([model])
    from marginrank.serving import serve  # noqa: PLC0415

    def ready(address: str) -> None:
        record = {"address": address, "docs": f"{address}/docs", "model": model}
        entries = [("model", str(model)), ("address", address), ("docs", f"{address}/docs"), ("stop", "Ctrl-C")]
        output.summary(record, facts(entries))

    logging.getLogger("marginrank.serving").addHandler(LoggedLines(logging.INFO))
    logging.getLogger("marginrank.serving").setLevel(logging.WARNING if output.quiet else logging.INFO)
    serve(model, host=host, port=port, limits=limits, reload_every=reload_every, ready=ready)
