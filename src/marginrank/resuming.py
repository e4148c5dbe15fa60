"""What a run is told apart by, so that no checkpoint is mixed up with another, and how its checkpoint is opened."""

from __future__ import annotations

import hashlib
import tempfile
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any, Final, TypeAlias

import numpy as np

from marginrank.checkpoint import Checkpoint, Log
from marginrank.container import array_digest
from marginrank.errors import DataError
from marginrank.fit_checks import Start
from marginrank.model import Model
from marginrank.typing import FloatArray

#: Parameters that change nothing about the way that training takes.
_FREE: Final = ("n_jobs", "time_limit")


@contextmanager
def run_log(path: str | Path | None, resume: bool, about: Callable[[], Mapping[str, Any]]) -> Iterator[Log | None]:
    """Open the checkpoint of a run, and close it at the end; yield None where there is no path.

    Args:
        path: The file.
        resume: Go on from it if it exists.
        about: Describes the run.
    """
    if path is None:
        if resume:
            raise TypeError("resume=True needs a checkpoint; give checkpoint=PATH")
        yield None
        return
    with Checkpoint(path, about(), resume=resume) as checkpoint:
        yield checkpoint.log("run")


def repeatable(parameters: Mapping[str, Any]) -> dict[str, Any]:
    """Return the parameters that a run can be told apart by; refuse those that make each run another.

    Args:
        parameters: Parameters as `marginrank.components.to_spec` describes them.
    """
    for name, spec in parameters.items():
        if isinstance(spec, dict) and spec.get("kind") == "unknown":
            raise TypeError(f"a checkpoint has to hold all parameters, and {spec['reason']}; leave out the checkpoint")
        if name == "random_state" and spec is None:
            raise ValueError("random_state is None, so no run is like another; give a number, or no checkpoint")
        if isinstance(spec, dict):
            repeatable(spec)
    return {name: spec for name, spec in parameters.items() if name not in _FREE}


def start_digest(start: Start | None) -> str | None:
    """Return what tells starts apart: parameters, and the arrays of the model they are of."""
    if start is None:
        return None
    arrays = {"theta": start.theta} if start.model is None else start.model.arrays()
    # Times of another run.
    parts = [f"{name} {array_digest(array)}" for name, array in sorted(arrays.items()) if name != "trace"]
    return hashlib.sha256(f"{start.centered} {' '.join(parts)}".encode()).hexdigest()[:16]


#: Models, each with the value of a criterion for each query that it was judged on.
Judged: TypeAlias = Sequence[tuple[Model, FloatArray]]


def keep_judged(log: Log, results: Judged) -> None:
    """Keep models that are finished, as model files, and what they reached."""
    parts = [len(results).to_bytes(8, "little")]
    with tempfile.TemporaryDirectory() as folder:
        for model, values in results:
            model.save(file := Path(folder, "model"))
            for part in (file.read_bytes(), np.ascontiguousarray(values, dtype="<f8").tobytes()):
                parts += [len(part).to_bytes(8, "little"), part]
    log.put(b"".join(parts), b"judged")


def kept_judged(log: Log, n_models: int, n_queries: int) -> Judged | None:
    """Return models that were kept, and what they reached; None if they were not finished."""
    kept = log.get(b"judged")
    if kept is None:
        return None
    parts, at = [], 8
    while at < len(kept):
        end = at + 8 + int.from_bytes(kept[at : at + 8], "little")
        parts.append(kept[at + 8 : end])
        at = end
    whole = at == len(kept) and len(parts) == 2 * n_models and kept[:8] == n_models.to_bytes(8, "little")
    if not whole or any(len(values) != 8 * n_queries for values in parts[1::2]):
        raise DataError("its models are not those of this search; remove the file", path=log.checkpoint.path)
    results = []
    with tempfile.TemporaryDirectory() as folder:
        for model, values in zip(parts[::2], parts[1::2], strict=True):
            (file := Path(folder, "model")).write_bytes(model)
            results.append((Model.load(file), np.frombuffer(values, dtype="<f8").astype(np.float64)))
    return results
