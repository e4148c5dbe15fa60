"""Options of checkpoints: the file, and whether to resume from it."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Any, ClassVar

import typer

from marginrank.cli.exit_codes import UsageError
from marginrank.cli.output import check_outputs
from marginrank.cli.streams import note


@dataclass(frozen=True)
class CheckpointOptions:
    """The file from which a killed command is resumed."""

    panel: ClassVar = "Checkpoints"

    checkpoint: Annotated[
        Path | None,
        typer.Option(
            metavar="FILE",
            help="Write a checkpoint to this file every few seconds; it is removed when the model is written.",
        ),
    ] = None
    resume: Annotated[
        bool,
        typer.Option(
            "--resume",
            help="Continue from the --checkpoint if it exists; the model is the same as without the interruption.",
        ),
    ] = False

    def check(self, others: Sequence[Path | None]) -> None:
        """Refuse, before any data is read, a file that cannot be the checkpoint."""
        if self.checkpoint is None:
            if self.resume:
                raise UsageError("--resume requires --checkpoint FILE")
            return
        if not self.resume and self.checkpoint.exists():
            raise UsageError(
                f"--checkpoint {self.checkpoint}: exists; give --resume to continue from it, or another name"
            )
        check_outputs([self.checkpoint], inputs=[one for one in others if one is not None], force=True)
        if self.checkpoint in others:
            raise UsageError(f"--checkpoint {self.checkpoint}: this is the name of another file; choose another")

    def arguments(self) -> dict[str, Any]:
        """Return the arguments of `fit` and `tune`."""
        return {"checkpoint": self.checkpoint, "resume": self.resume}

    def done(self, *, stopped: bool) -> None:
        """Remove the checkpoint, unless a signal or a time limit stopped the run, which can then be resumed."""
        if self.checkpoint is None:
            return
        if stopped:
            note(f"kept {self.checkpoint}; run the same command with --resume to continue")
        else:
            self.checkpoint.unlink(missing_ok=True)
