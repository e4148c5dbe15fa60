"""Context of queries that the weights of a fusion may depend on."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final, TypeAlias

import numpy as np

from marginrank.errors import DataError, Parameter, ParameterError, warn
from marginrank.fusion.run_pool import RunScores
from marginrank.preparation.run_features import CONTEXT_KINDS, parse_features
from marginrank.runtime.text import suggest
from marginrank.scorers.adaptive.scorer import QUANTILES, Adaptive
from marginrank.scorers.base import Scorer

#: Names of kinds of context, or of columns.
Context: TypeAlias = tuple[str, ...]
#: How much harder than weights their dependence on the query is regularized; one is chosen.
_SHRINKAGES: Final = (1.0, 10.0, 100.0)
#: With 20 training queries, weights that depend on their texts lost up to .023 of NDCG@10, and no context gained more
#: than .001: benchmarks/hybrid_contexts.py.
FEWEST_ADAPTIVE: Final = 30


def names_of(context: str | Sequence[str]) -> Context:
    """Return the names in a context."""
    return (context,) if isinstance(context, str) else tuple(context)


def columns_of(context: str | Sequence[str]) -> Context:
    """Return the names of columns in a context, which are no kinds.

    >>> columns_of(["best", "n_words"])
    ('n_words',)
    """
    return tuple(name for name in names_of(context) if name not in CONTEXT_KINDS)


def parse_context(context: str | Sequence[str], columns: Sequence[str]) -> tuple[Context, Context]:
    """Return which kinds of context are named, and which columns of a table.

    >>> parse_context(["best", "n_words"], ["bm25", "dense", "n_words"])
    (('best',), ('n_words',))
    """
    named, given = names_of(context), columns_of(context)
    if not named:
        raise ParameterError(Parameter("context"), " is empty; name what weights depend on, such as 'best'")
    for name in named:
        if named.count(name) > 1:
            raise ParameterError(Parameter("context"), f" names {name!r} twice; name it once")
        if name not in CONTEXT_KINDS and name not in columns:
            known = suggest(name, [*CONTEXT_KINDS, *columns])
            raise ParameterError(Parameter("context"), f" names {name!r}, neither a column nor a kind; {known}")
    if given and len(given) == len(columns):
        raise ParameterError(Parameter("context"), " names all columns; leave at least one run")
    return tuple(name for name in named if name in CONTEXT_KINDS), given


def can_adapt(columns: RunScores, context: Context) -> bool:
    """Return whether weights can depend on these queries, and warn if not; refuse scores that are the same in all."""
    n = len(columns.queries)
    if n < FEWEST_ADAPTIVE:
        warn(
            f"weights that depend on the query need {FEWEST_ADAPTIVE} training queries, and there are {n}; "
            "weights are the same for all queries"
        )
        return False
    X = columns.features(context, keep_missing=False, with_context=True)
    low, high = np.quantile(X, QUANTILES, axis=0)
    varies = low < high
    # Flags of queries may be rare.
    first = columns.n_runs * len(context)
    varies[first:] = np.ptp(X[:, first:], axis=0) > 0
    if varies.any():
        return True
    if first == X.shape[1]:
        scaled = "give raw scores, not scaled by query, or " if {"best", "gap"}.intersection(context) else ""
        raise DataError(
            f"the context ({', '.join(context)}) is the same in nearly all queries, so weights cannot depend on it; "
            f"{scaled}leave out ",
            Parameter("adaptive", True),
        )
    warn_constant("nearly all training queries")
    return False


def warn_constant(where: str) -> None:
    """Warn that weights are static, as what they may depend on does not vary."""
    warn(f"the context is the same in {where}; weights are the same for all queries")


def adaptive_scorers(kind: str, context: Context, n_runs: int, n_given: int) -> list[tuple[str | Scorer, str]]:
    """Return adaptive scorers to try, with their kinds of features: those of a kind, and then the context.

    >>> adaptive_scorers("rrf", ("best",), n_runs=2, n_given=1)[0]
    (Adaptive(context=(2, 3, 4), shrinkage=1.0, nonnegative=False), 'rrf+best')
    """
    first = n_runs * len(parse_features(kind))
    columns = tuple(range(first, first + n_runs * len(context) + n_given))
    return [(Adaptive(columns, shrinkage), "+".join([kind, *context])) for shrinkage in _SHRINKAGES]
