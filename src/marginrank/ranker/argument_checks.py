"""Argument checks and warnings of `fit` and `score`."""

from __future__ import annotations

import inspect
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from functools import wraps
from pathlib import Path
from typing import Any, Final, ParamSpec, TypeAlias, TypeVar

import numpy as np

from marginrank.data.arrays import as_grades, refuse_lazy
from marginrank.data.column_roles import column_names, refuse_sparse_columns
from marginrank.data.partitions import AnyQueries, PartitionedQueries
from marginrank.data.queries import Queries
from marginrank.errors import DataError, NothingRankedWarning, Parameter, SplitQueriesWarning, warn
from marginrank.model.model import Model
from marginrank.runtime.text import count, suggest

#: Number of documents and sum of grades of each query: enough to tell whole queries from parts.
Contents: TypeAlias = Mapping[Any, tuple[int, float]]

#: Relative differences of scores below this are rounding errors.
_ROUNDING: Final = 1e-15
#: How to encode text and categories.
_ENCODE: Final = ", for example with pandas.get_dummies(X) or from_frame(frame, categories='onehot')"
#: Arguments of LightGBM, XGBoost and scikit-learn, and what to use here.
_REPLACEMENTS: Final = {
    "eval_set": "fit(..., validation=queries) or validation=(X, y, qid)",
    "eval_group": "fit(..., validation=queries) or validation=(X, y, qid)",
    "eval_qid": "fit(..., validation=queries) or validation=(X, y, qid)",
    "eval_metric": "the measure that the ranker is trained for: Ranker('ndcg@10')",
    "eval_at": "a measure with a cutoff: Ranker('ndcg@10')",
    "early_stopping_rounds": "Ranker(patience=...) with fit(..., validation=queries)",
    "sample_weight": "query_weights=, one weight per query, or Queries with document_weights",
    "verbose": "Ranker(verbose=True), or fit(..., callback=print), which is called after every iteration",
    "callbacks": "callback=, a function that is called after every iteration",
    "n_estimators": "a preset with a number of rounds: Ranker('lambdarank@100')",
    "objective": "a method or measure: Ranker('ranksvm'), Ranker('ndcg@10')",
    "position": "fit(log) with a marginrank.clicks.ClickLog, which has positions and clicks",
    "lambdarank_unbiased": "fit(log) with a marginrank.clicks.ClickLog, which has positions and clicks",
    "class_weight": "weighting=, which weights queries by their grades",
    "groups": "qid=, the query of each row, or group=, the rows of each query",
}

_P = ParamSpec("_P")
_R = TypeVar("_R")


def explains_arguments(function: Callable[_P, _R]) -> Callable[_P, _R]:
    """Decorate a method so that unknown arguments, such as those of other libraries, are refused with a replacement."""
    parameters = list(inspect.signature(function).parameters.values())[1:]
    known = [parameter.name for parameter in parameters]
    n_positional = sum(parameter.kind is parameter.POSITIONAL_OR_KEYWORD for parameter in parameters)

    @wraps(function)
    def checked(*arguments: _P.args, **named: _P.kwargs) -> _R:
        owner, *positional = arguments
        name = type(owner).__name__ if function.__name__ == "__init__" else function.__name__
        for argument in named:
            if argument in _REPLACEMENTS and argument not in known:
                raise TypeError(f"{name} has no {argument}; use {_REPLACEMENTS[argument]}")
            if argument not in known:
                raise TypeError(f"{name} has no parameter {argument!r}; {suggest(argument, sorted(known))}")
        if len(positional) > n_positional:
            given = ", ".join([*known[:n_positional], *(["qid=qid"] if "qid" in known else [])])
            raise TypeError(
                f"{name} takes {count(n_positional, 'positional argument')}, not {len(positional)}; pass the "
                f"others by keyword: {name}({given})"
            )
        return function(*arguments, **named)

    return checked


def refuse_rows(name: str, X: Any, y: Any = None, *, least: int = 1, expected: int | None = None) -> None:
    """Refuse features that are not a matrix of numbers with one row per grade, before scikit-learn checks them.

    Args:
        name: The estimator.
        X: Rows of features.
        y: Grades.
        least: Minimum number of rows.
        expected: The number of features that the estimator was fitted on.
    """
    if isinstance(X, str | Path):
        raise TypeError(f"X is {str(X)!r}; read the file first: read({str(X)!r})")
    refuse_lazy("X", X)
    refuse_sparse_columns(X, unless_zero=True)
    shape = _shape(X)
    if shape is None:
        return
    if len(shape) != 2:
        raise DataError(
            f"X has {count(len(shape), 'dimension')}, not 2 (documents × features). Reshape your data: "
            "X.reshape(-1, 1) if it is one feature, X.reshape(1, -1) if it is one document"
        )
    _refuse_columns(X)
    if y is not None:
        _refuse_grades(y, shape[0])
    if shape[0] == 0:
        raise DataError("X has no rows; give at least one query with documents")
    if shape[0] < least:
        raise DataError(f"X has {count(shape[0], 'sample')}; a ranking needs at least two documents to compare")
    if shape[1] == 0:
        raise DataError(
            f"X has 0 feature(s) (shape={shape}) while a minimum of 1 is required; give at least one column"
        )
    if expected is not None and shape[1] != expected:
        raise DataError(
            Parameter("X"),
            f" has {shape[1]} features, but {name} is expecting {expected} features as input; give the columns that "
            "it was trained on",
        )


def _shape(X: Any) -> tuple[int, ...] | None:
    """Return the shape of an array, a frame or lists; None if it is unknown."""
    if hasattr(X, "shape"):
        return tuple(X.shape)
    try:
        shape: tuple[int, ...] = np.shape(X)
        return shape
    except ValueError:
        lengths = sorted({len(row) for row in X if hasattr(row, "__len__")})
        raise DataError(
            f"the rows of X have different lengths, {', '.join(map(str, lengths[:5]))}; give each a value per feature"
        ) from None


def _refuse_columns(X: Any) -> None:
    """Refuse text, dates, complex numbers and duplicate column names."""
    # `columns` of an Arrow table are the columns themselves, not their names.
    names = column_names(X) or list(getattr(X, "columns", ()))
    repeated = next((name for name, times in Counter(names).items() if times > 1), None)
    if repeated is not None:
        raise DataError(f"X has two columns called {repeated!r}; rename one")
    for name in names:
        if str(getattr(X[name], "dtype", "")) == "category":
            raise DataError(f"column {name!r} of X holds categories; leave it out, or encode it{_ENCODE}")
    for label, values in [(f"column {name!r} of X", X[name]) for name in names] or [("X", X)]:
        array = np.empty(0, X.dtype) if hasattr(X, "tocsr") else np.asarray(values)
        if array.dtype.kind == "c":
            raise DataError(f"Complex data not supported: {label} holds {array.dtype}; give real numbers")
        if array.dtype.kind in "mM":
            raise DataError(
                f"{label} holds {array.dtype}, not numbers; leave it out, or convert it, for example to days"
            )
        if array.dtype.kind in "OUST":
            entries = array.ravel().tolist()
            if any(isinstance(value, complex) for value in entries):
                raise DataError(f"Complex data not supported: {label} holds complex numbers; give real numbers")
            word = next((value for value in entries if isinstance(value, str) and not _is_number(value)), None)
            if word is not None:
                raise DataError(
                    f"{label} holds {word!r}, which is not a number; leave it out, or encode it as numbers{_ENCODE}"
                )


def _is_number(word: str) -> bool:
    """Return whether a text is a number."""
    try:
        float(word)
    except ValueError:
        return False
    return True


def _refuse_grades(y: Any, n: int) -> None:
    array = np.asarray(y)
    if array.ndim == 2 and array.shape[1] == 1:  # scikit-learn warns of it
        array = array[:, 0]
    grades = as_grades(array)
    if len(grades) != n:
        raise DataError(f"y has {len(grades)} entries for {count(n, 'row')} of X; it needs one per row")


def query_contents(queries: Queries) -> Contents:
    """Return the number of documents and the sum of grades of each query, in any order of rows."""
    ends = np.append(0.0, np.cumsum(np.nan_to_num(queries.to_grouped(queries.grades))))[queries.query_offsets]
    return dict(
        zip(
            queries.query_ids.tolist(),
            zip(queries.lengths.tolist(), np.diff(ends).round(6).tolist(), strict=True),
            strict=True,
        )
    )


def warn_of_split(trained: Contents, queries: Queries) -> None:
    """Warn if documents of one query are in training and test data, as after `KFold`: scores are then too high.

    Ids that only count queries, from 0 or 1, do not identify them.
    """
    scored = query_contents(queries)
    if _only_count(trained) and _only_count(scored):
        return
    n_cut = sum(query in trained and trained[query] != content for query, content in scored.items())
    if n_cut:
        warn(
            f"{n_cut:,} of {len(queries):,} queries were trained on with other documents, so the score is too high; "
            "split by query, for example cv=GroupKFold() with groups=qid",
            SplitQueriesWarning,
        )


def _only_count(contents: Contents) -> bool:
    """Return whether the ids of queries are 0, 1, 2, ... or 1, 2, 3, ..."""
    ids = set(contents)
    return any(ids == set(range(first, first + len(ids))) for first in (0, 1))


def warn_of_ties(models: Sequence[Model], queries: AnyQueries) -> None:
    """Warn of models that give all documents of a query the same score, for every query."""
    tied = [model for model in models if _ranks_nothing(model, queries)]
    differ = bool(tied) and _differ(queries)
    # A collapsed hinge has its own warning, which is wrong only if all documents of a query are alike.
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
    if not differ:
        advice = "the features of the documents of each query are the same"
    elif reason in ("max_iter", "time_limit", "callback", "interrupted"):
        advice = f"training was stopped ({reason}) before it got anywhere"
    warn(
        f"{which} all documents of a query the same score, on all {len(queries):,} training queries, and ranks "
        f"nothing; {advice}",
        NothingRankedWarning,
    )


def _collapsed(model: Model) -> bool:
    """Return whether the model was trained on a hinge that is minimal at 0."""
    return model.health is not None and model.health.collapsed and model.method.bound == "hinge"


def _ranks_nothing(model: Model, queries: AnyQueries) -> bool:
    """Return whether all scores of each query are equal; stops at the first query with two different scores."""
    if isinstance(queries, PartitionedQueries):
        return all(queries.partitions.map(_ties_all, model))
    first, n_checked = 0, 16
    while first < len(queries):
        batch = queries[np.arange(first, min(first + n_checked, len(queries)))]
        scores = np.asarray(model.score(batch))
        starts, lengths = batch.offsets[:-1][batch.lengths > 0], batch.lengths[batch.lengths > 0]
        low, high = np.minimum.reduceat(scores, starts), np.maximum.reduceat(scores, starts)
        rounding = _ROUNDING * np.maximum(np.abs(low), np.abs(high))
        if (high - low > rounding)[lengths > 1].any():
            return False
        first, n_checked = first + n_checked, 4 * n_checked
    return True


def _ties_all(queries: Queries, model: Model) -> bool:
    return _ranks_nothing(model, queries)


def _differ(queries: AnyQueries) -> bool:
    """Return whether any query has two documents with different features."""
    if isinstance(queries, PartitionedQueries):
        return any(queries.partitions.map(_differ))
    queries = queries.grouped
    keys, query = queries.document_keys, queries.query_of_row
    return bool((keys[1:] != keys[:-1])[query[1:] == query[:-1]].any())
