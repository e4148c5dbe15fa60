"""Exports against the model itself, on many documents."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from marginrank.export import CannotRunError, Check, Target, parse_target
from marginrank.export.export_files import check_path
from tests.export.trained import N_DOCUMENTS, hard_documents, trained

SIZE = 20
#: Models without thresholds, which fewer documents are enough for.
SMOOTH, FEW = ("linear", "kernel", "network", "gaussian-process"), 200


def judge(name: str, spec: str, folder: Path) -> float:
    """Export a model and score documents with it; return the largest difference, as a share of the largest score.

    The documents of the check file are scored along with ours, as starting an engine is most of the work.
    """
    target = parse_target(spec)
    model, path = trained(name), folder / f"model{target.suffix}"
    model.export(target, path)
    n = FEW if name.startswith(SMOOTH) else N_DOCUMENTS
    X = hard_documents(name, n)
    check = Check(model.names, X, (SIZE,) * (n // SIZE), model.score(X, group=[SIZE] * (n // SIZE)))
    beside = Check.read(check_path(path))
    assert len(beside.scores) == 200
    assert beside.features == check.features
    both = Check(
        check.features,
        np.concatenate([X, beside.X]),
        check.group + beside.group,
        np.concatenate([check.scores, beside.scores]),
    )
    scores = run(target, path, both)
    assert check.compare(scores[:n]) is None
    assert beside.compare(scores[n:]) is None
    return float(np.abs(scores[:n] - check.scores).max() / np.abs(check.scores).max())


def run(target: Target, path: Path, check: Check) -> np.ndarray:
    try:
        return target.run(path, check)
    except CannotRunError as error:
        pytest.skip(str(error))


def takes(name: str, spec: str) -> bool:
    return parse_target(spec).refusal(trained(name).function) is None


__all__ = ["SIZE", "judge", "run", "takes"]
