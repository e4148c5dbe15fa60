"""Scoring and ranking with a trained model, without the dependencies of training.

    from marginrank.model import scoring

    model = scoring.load("model.safetensors")
    model.rerank(features, k=10).rows

This imports NumPy and the standard library: no scikit-learn, SciPy or Numba, and nothing is compiled.
"""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any, BinaryIO, Final

import numpy as np

from marginrank.errors import DataError
from marginrank.model.file_format import (
    check_first_feature,
    check_scale,
    check_theta,
    check_values,
    read_model,
    reading_model,
)
from marginrank.preparation.scaling_formulas import LEARNED
from marginrank.scorers.form import find_form
from marginrank.scorers.scoring_function import FusedFunction, ModelArrays, ScoringFunction
from marginrank.typing import AnyArray, FloatArray

#: Arrays for training on streams.
_STREAM_ARRAYS: Final = ("stream.last", "stream.origin")
#: Arrays for comparisons with later data.
_DRIFT_ARRAYS: Final = tuple(f"quantiles.{name}" for name in ("values", "at_most", "below", "n_queries"))
#: Prefix of the arrays of the scaling in model files.
SCALER: Final = "scaler."


def load(path: str | Path, file: BinaryIO | None = None) -> ScoringFunction:
    """Read a model written by `marginrank.Ranker.save` or `marginrank.fusion.Fusion.save`.

    Its scores are the same, bit for bit.

    Args:
        path: The model file.
        file: Its content, if it is open already.

    Raises:
        DataError: The file is damaged or contradicts itself, or it holds a recommender.
    """
    kind, header, arrays = read_model(path, file)
    with reading_model(path):
        if kind == "ranker":
            return ScoringFunction.of(read_parts(header, arrays), header)
        if kind == "fusion":
            check_values(header)
            model, fusion = header["model"], header["fusion"]
            function = ScoringFunction.of(read_parts(model, arrays), model)
            return FusedFunction.of_columns(
                function, fusion["features"], fusion.get("context", ()), are_ranks=fusion["parameters"]["ranks"] is True
            )
        raise DataError(f"this file holds a {kind}, not a ranker; only rankers and fusions score documents")


def read_parts(described: Mapping[str, Any], arrays: Mapping[str, AnyArray]) -> ModelArrays:
    """Read the content of a model file that scores depend on, and refuse contradictions."""
    check_values(described)
    n_features, names, scaling = described["n_features"], described["feature_names"], described["scaling"]
    if type(n_features) is not int or n_features < 0:
        raise ValueError(f"{n_features!r} is not a number of features")
    if names is not None and not (isinstance(names, list) and all(isinstance(name, str) for name in names)):
        raise ValueError("feature names are not a list of text")
    check_first_feature(described["first_feature"])
    kind = find_form(described["form"]) if isinstance(described["form"], str) else None
    if kind is None:
        raise ValueError(f"unknown form {described['form']!r}")
    form, theta = kind.from_arrays(arrays, n_features), arrays["theta"]
    learned = {} if scaling is None else _learned(scaling, n_features, arrays)
    check_theta(theta, form.n_parameters)
    if names is not None and len(names) != n_features:
        raise ValueError(f"{len(names)} feature names for {n_features} features")
    known = ["theta", "trace", *([] if described["stream"] is None else _STREAM_ARRAYS), *_DRIFT_ARRAYS]
    unknown = sorted(set(arrays) - {*known, *form.arrays(), *(f"{SCALER}{name}" for name in learned)})
    if unknown:
        raise ValueError(f"a {form.kind} model has no array {unknown[0]!r}")
    if "scale_" in learned:
        check_scale(learned["scale_"], theta[:n_features] if form.kind == "linear" else None)
    labels = None if names is None else tuple(names)
    return ModelArrays(form, theta, n_features, labels, described["first_feature"], scaling, learned)


def _learned(scaling: Any, n_features: int, arrays: Mapping[str, AnyArray]) -> dict[str, FloatArray]:
    """Return the learned arrays of a scaling, by name."""
    if not isinstance(scaling, str) or scaling not in LEARNED:
        raise ValueError(f"unknown scaling {scaling!r}")
    learned = {}
    for name in LEARNED[scaling]:
        array = arrays[f"{SCALER}{name}"]
        if array.shape != (n_features,) or array.dtype.kind != "f" or not np.isfinite(array).all():
            raise ValueError(f"{SCALER}{name} has shape {array.shape}; it needs one finite number per feature")
        learned[name] = array
    return learned
