"""Rank profiles of Vespa."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import ClassVar

from marginrank.errors import Message
from marginrank.export.base import Target, distinct_names
from marginrank.export.expressions import Syntax, parts_of, refuse_expression
from marginrank.export.hybrid_search import depth_of, refuse_hybrid
from marginrank.scorers.scoring_function import FusedFunction, ScoringFunction
from marginrank.scorers.terms import LinearTerm


class _VespaSyntax(Syntax):
    """Ranking expressions; a missing attribute of a floating-point type is NaN."""

    def number(self, value: float) -> str:
        """Write a number."""
        return repr(float(value)) if value >= 0 else f"({float(value)!r})"

    def choose(self, condition: str, yes: str, no: str) -> str:
        """Write an if."""
        return f"if ({condition}, {yes}, {no})"

    def is_missing(self, x: str) -> str:
        """Write a test for NaN."""
        return f"isNan({x}) == 1"

    def at_most(self, x: str, threshold: float, *, or_missing: bool) -> str:
        """Write a comparison, which is false for NaN."""
        return f"!({x} > {self.number(threshold)})" if or_missing else f"{x} <= {self.number(threshold)}"


@dataclass(frozen=True)
class Vespa(Target):
    """Write a rank profile of Vespa 8: a function for each feature, to fill in, and the score.

    Models that scale by query, and fusions, score in the global phase, with Vespa's own normalization.

    Args:
        profile: What to call the profile.
        rerank: How many hits the global phase scores; for a fusion as many as the runs had in training by default,
            otherwise 100.
    """

    name = "vespa"
    takes: ClassVar[str] = "linear, adaptive, additive and tree models, and linear fusions with features minmax or rrf"
    suffix: ClassVar[str] = ".profile"
    takes_fusions: ClassVar[bool] = True
    profile: str = "marginrank"
    rerank: int | None = None

    def refusal(self, function: ScoringFunction) -> Message | None:
        """Return the reason why a function is not taken, or None."""
        if isinstance(function, FusedFunction):
            return refuse_hybrid(function)
        if function.needs_queries:
            linear = len(function.terms) == 1 and isinstance(function.terms[0], LinearTerm) and not function.takes_nan
            return None if linear and function.scaling == "query-minmax" else f"its scaling is {function.scaling}"
        return refuse_expression(function)

    def write(self, function: ScoringFunction) -> Mapping[str, str | bytes]:
        """Return the profile."""
        titles = function.runs if isinstance(function, FusedFunction) else function.names
        names = distinct_names(titles)
        inputs = [_function(f"f_{name}", _rank_feature(title, name)) for name, title in zip(names, titles, strict=True)]
        if isinstance(function, FusedFunction) or function.needs_queries:
            return {"": self._global_phase(function, names, inputs)}
        columns = [f"f_{name}" for name in names]
        if function.raw_fill is not None:
            fills = map(_VespaSyntax().number, function.raw_fill.tolist())
            pairs = zip(columns, fills, strict=True)
            columns = [f"if (isNan({column}) == 1, {fill}, {column})" for column, fill in pairs]
        parts = parts_of(function, columns, _VespaSyntax())
        functions = [_function(f"part{number}", part) for number, part in enumerate(parts)]
        total = " + ".join(f"part{number}" for number in range(len(parts)))
        body = "\n".join([*inputs, *functions, f"    first-phase {{\n        expression: {total}\n    }}"])
        return {"": f"rank-profile {self.profile} {{\n{body}\n}}\n"}

    def _global_phase(self, function: ScoringFunction, names: list[str], inputs: list[str]) -> str:
        term = function.terms[0]
        assert isinstance(term, LinearTerm)
        ranks = isinstance(function, FusedFunction) and function.kinds == ("rrf",)
        # Reciprocal ranks are 61 / (60 + rank) here and 1 / (60 + rank) there.
        wrap, factor = ("reciprocal_rank", 61.0) if ranks else ("normalize_linear", 1.0)
        pairs = zip(names, term.weights.tolist(), strict=True)
        total = " + ".join(f"{_VespaSyntax().number(weight * factor)} * {wrap}(f_{name})" for name, weight in pairs)
        first = "    first-phase {\n        expression: f_" + names[0] + "\n    }"
        rerank = self.rerank or depth_of(function)
        phase = f"    global-phase {{\n        rerank-count: {rerank}\n        expression: {total}\n    }}"
        body = "\n".join([*inputs, first, phase])
        return f"rank-profile {self.profile} {{\n{body}\n}}\n"

    def next_steps(self, path: Path) -> str:
        """Return what to do with the file."""
        return (
            f"write the rank feature of each function f_... in {path.name}, copy the profile into your schema, and "
            f"search with ranking={self.profile}"
        )


def _function(name: str, expression: str) -> str:
    return f"    function {name}() {{\n        expression: {expression}\n    }}"


def _rank_feature(title: str, name: str) -> str:
    """Return the rank feature that a feature is named after, or the attribute of its name.

    >>> _rank_feature("bm25(title)", "bm25_title_"), _rank_feature("all clicks", "all_clicks")
    ('bm25(title)', 'attribute(all_clicks)')
    """
    return title if re.fullmatch(r"\w+\([\w,. ]*\)(\.\w+)?", title) else f"attribute({name})"
