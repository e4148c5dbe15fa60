"""Features that may only raise, or only lower, the score."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Final, TypeAlias

import numpy as np

from marginrank.typing import IntArray
from marginrank.words import feature_labels

#: ``increasing`` or ``decreasing`` for all features, or by number or name of a feature.
Monotone: TypeAlias = str | Mapping[Any, str]

_SIGNS: Final = {"increasing": 1, "decreasing": -1}


def monotone_signs(monotone: Monotone, n_features: int, names: Sequence[str] | None = None) -> IntArray:
    """Return 1 for features that may only raise the score, −1 for those that may only lower it, 0 for the others.

    >>> monotone_signs({"price": "decreasing"}, 2, ["clicks", "price"]).tolist()
    [0, -1]
    """
    from marginrank.data.queries import feature_number  # noqa: PLC0415

    signs = np.zeros(n_features, dtype=np.int64)
    if isinstance(monotone, Mapping):
        for feature, direction in monotone.items():
            signs[feature_number(feature, feature_labels(names, n_features))] = _sign(direction)
    else:
        signs[:] = _sign(monotone)
    return signs


def _sign(direction: str) -> int:
    if direction not in _SIGNS:
        raise ValueError(f"unknown direction {direction!r}; known: {', '.join(_SIGNS)}")
    return _SIGNS[direction]
