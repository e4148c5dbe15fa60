"""Mixes of measures: one measure, or several with weights."""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import Final

from marginrank.measures.base import Measure, parse_trainable

_PLUS: Final = re.compile(r"\+(?![^(]*\))")
_WEIGHTED: Final = re.compile(
    r"\s*(?:(?P<weight>[0-9.]+(?:e[+-]?[0-9]+)?)\s*\*)?\s*(?P<measure>.*?)\s*\Z", re.IGNORECASE
)


def parse_mix(spec: str | Measure) -> list[tuple[float, Measure]]:
    """Read what to train for or to choose by: one measure, or several with weights.

    >>> parse_mix("ndcg@10 + 0.5*ap")
    [(1.0, ndcg@10), (0.5, ap)]
    """
    if isinstance(spec, Measure):
        return [(1.0, parse_trainable(spec))]
    if not isinstance(spec, str):
        raise TypeError(f"a measure is a spelling such as 'ndcg@10' or a Measure, not {spec!r}")
    mix = []
    for part in _PLUS.split(spec):
        match = _WEIGHTED.match(part)
        if match is None or not match["measure"]:
            raise ValueError(f"{spec!r} is not a measure or mix of measures; write 'ndcg@10' or 'ndcg@10 + 0.5*ap'")
        mix.append((float(match["weight"] or 1.0), parse_trainable(match["measure"])))
    return mix


def spell_mix(mix: Sequence[tuple[float, str | Measure]]) -> str:
    """Spell a mix so that `parse_mix` reads it.

    >>> spell_mix([(1.0, "ndcg@10"), (0.5, "ap")])
    'ndcg@10 + 0.5*ap'
    """
    return " + ".join(str(measure) if weight == 1 else f"{weight!r}*{measure}" for weight, measure in mix)
