"""Exports against the model itself, on many documents."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from marginrank.export import CannotRunError, Check, Target, parse_target
from marginrank.export.exporting import verify
from tests.export.trained import N_DOCUMENTS, hard_documents, trained

SIZE = 20


def judge(name: str, spec: str, folder: Path, n: int = N_DOCUMENTS) -> float:
    """Export a model and score documents with it; return the largest difference, as a share of the largest score."""
    target = parse_target(spec)
    model, path = trained(name), folder / f"model{target.suffix}"
    model.export(target, path)
    X = hard_documents(name, n)
    if not target.knows_missing:
        X = np.nan_to_num(X, nan=0.0)
    check = Check(model.names, X, (SIZE,) * (n // SIZE), model.score(X, group=[SIZE] * (n // SIZE)))
    scores = run(target, path, check)
    assert check.compare(scores) is None
    assert len(verify(target, path).scores) == 200
    return float(np.abs(scores - check.scores).max() / np.abs(check.scores).max())


def run(target: Target, path: Path, check: Check) -> np.ndarray:
    try:
        return target.run(path, check)
    except CannotRunError as error:
        pytest.skip(str(error))


def takes(name: str, spec: str) -> bool:
    return parse_target(spec).refusal(trained(name).function) is None


__all__ = ["SIZE", "judge", "run", "takes"]
