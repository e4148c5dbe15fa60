"""What is looked at around fitting: arguments of other libraries, fits that rank nothing, torn queries."""

from __future__ import annotations

import warnings
from collections.abc import Mapping, Sequence
from typing import Any, Final, TypeAlias

import numpy as np

from marginrank.data.queries import Queries
from marginrank.errors import NothingRankedWarning, SplitQueriesWarning
from marginrank.model import Model

#: Number of documents and sum of grades of each query: enough to tell whole queries from parts.
Contents: TypeAlias = Mapping[Any, tuple[int, float]]

#: Differences of scores below this share of them are rounding errors.
_ROUNDING: Final = 1e-15


#: Arguments of LightGBM, XGBoost and scikit-learn, and what to use here.
_INSTEAD: Final = {
    "eval_set": "fit(..., validation=queries) or validation=(X, y, qid)",
    "eval_group": "fit(..., validation=queries) or validation=(X, y, qid)",
    "eval_qid": "fit(..., validation=queries) or validation=(X, y, qid)",
    "eval_metric": "the measure that the ranker is trained for: Ranker('ndcg@10')",
    "eval_at": "a measure with a cutoff: Ranker('ndcg@10')",
    "early_stopping_rounds": "Ranker(patience=...) with fit(..., validation=queries)",
    "sample_weight": "query_weights=, one weight per query; documents cannot be weighted",
    "verbose": "fit(..., callback=print), which is called after every iteration",
    "callbacks": "callback=, a function that is called after every iteration",
    "n_estimators": "a preset with a number of rounds: Ranker('lambdarank@100')",
    "objective": "a method or measure: Ranker('ranksvm'), Ranker('ndcg@10')",
    "class_weight": "weighting=, which weights queries by their grades",
    "groups": "qid=, the query of each row, or group=, the rows of each query",
}


def refuse_foreign(where: str, arguments: Mapping[str, Any]) -> None:
    """Refuse what other libraries call otherwise."""
    for name in arguments:
        if name in _INSTEAD:
            raise TypeError(f"{where} has no {name}; use {_INSTEAD[name]}")


def contents(queries: Queries) -> Contents:
    """Count documents and sum up grades by query, in any order of rows."""
    ends = np.append(0.0, np.cumsum(queries.grades))[queries.offsets]
    return dict(
        zip(
            queries.query_ids.tolist(),
            zip(queries.lengths.tolist(), np.diff(ends).round(6).tolist(), strict=True),
            strict=True,
        )
    )


def warn_of_split(trained: Contents | None, queries: Queries) -> None:
    """Warn where a split of rows cut through queries, as `KFold` does: the scores would be too good."""
    if trained is None:
        return
    cut = sum(query in trained and trained[query] != own for query, own in contents(queries).items())
    if cut:
        warnings.warn(
            f"{cut:,} of {len(queries):,} queries were trained on with other documents, so the score is too good; "
            "split by query, for example cv=GroupKFold() with groups=qid",
            SplitQueriesWarning,
            stacklevel=4,
        )


def warn_of_ties(models: Sequence[Model], queries: Queries) -> None:
    """Warn of models that give all documents of a query the same score, on all of the queries."""
    tied = [model for model in models if _ranks_nothing(model, queries)]
    differ = bool(tied) and _differ(queries)
    # Of a hinge that collapsed another warning has been given, which is wrong where no loss could do better.
    tied = [model for model in tied if not (differ and _collapsed(model))]
    if not tied:
        return
    which = (
        "the model gives"
        if len(models) == 1
        else f"with C = {', '.join(f'{m.solution.C:g}' for m in tied)} the model gives"
    )
    reason = tied[0].solution.reason
    advice = "look at the features with `marginrank inspect`, scale them, or raise C"
    if reason in ("max_iter", "time_limit", "callback", "interrupted"):
        advice = f"training was stopped ({reason}) before it got anywhere"
    elif not differ:
        advice = "the features of the documents of each query are the same"
    warnings.warn(
        f"{which} all documents of a query the same score, on all {len(queries):,} training queries, and ranks "
        f"nothing; {advice}",
        NothingRankedWarning,
        stacklevel=3,
    )


def _collapsed(model: Model) -> bool:
    """Whether these are the weights of a hinge that is minimal at 0."""
    return model.health is not None and model.health.collapsed and model.method.bound == "hinge"


def _ranks_nothing(model: Model, queries: Queries) -> bool:
    """Look at more and more queries until one has two scores; most models show it at once."""
    first, count = 0, 16
    while first < len(queries):
        some = queries[np.arange(first, min(first + count, len(queries)))]
        scores = np.asarray(model.score(some))
        starts, lengths = some.offsets[:-1][some.lengths > 0], some.lengths[some.lengths > 0]
        low, high = np.minimum.reduceat(scores, starts), np.maximum.reduceat(scores, starts)
        rounding = _ROUNDING * np.maximum(np.abs(low), np.abs(high))
        if (high - low > rounding)[lengths > 1].any():
            return False
        first, count = first + count, 4 * count
    return True


def _differ(queries: Queries) -> bool:
    """Whether any query has two documents with different features."""
    keys, query = queries.document_keys, np.repeat(np.arange(len(queries)), queries.lengths)
    return bool((keys[1:] != keys[:-1])[query[1:] == query[:-1]].any())
