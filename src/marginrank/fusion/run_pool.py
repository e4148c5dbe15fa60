"""Pooled runs: a column per run, and a row per document that any run returned."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from marginrank.data.formats.trec import Qrels, Run, read_run
from marginrank.data.inputs import features_named
from marginrank.data.queries import Queries
from marginrank.errors import DataError
from marginrank.evaluation.systems import ByQuery
from marginrank.preparation.run_features import RunTable, column_names, parse_features
from marginrank.typing import AnyArray, BoolArray, FloatArray, IntArray


def pool_runs(
    runs: Mapping[str, Run | ByQuery], qrels: Qrels | ByQuery | None = None, *, judged_only: bool = False
) -> Queries:
    """Pool the documents of all runs by topic, with the score of each run.

    A document has NaN in the columns of runs that did not return it. Grades come from the judgements, which are not
    needed to apply a fusion. Relevant documents that no run returned are not in the pool; use `evaluate(qrels, run)`
    to count them.

    >>> from marginrank.data.formats.trec import Qrels, Run
    >>> bm25 = Run(np.array(["1"]), np.array([0, 2]), np.array(["a", "b"]), np.array([7.0, 5.0]))
    >>> dense = Run(np.array(["1"]), np.array([0, 2]), np.array(["c", "b"]), np.array([0.9, 0.8]))
    >>> qrels = Qrels(np.array(["1"]), np.array([0, 2]), np.array(["b", "z"]), np.array([2.0, 1.0]))
    >>> pool = pool_runs({"bm25": bm25, "dense": dense}, qrels)
    >>> pool.document_ids.tolist(), pool.grades.tolist(), pool.feature_names
    (['a', 'b', 'c'], [0.0, 2.0, 0.0], ('bm25', 'dense'))
    >>> pool.X.tolist()
    [[7.0, nan], [5.0, 0.8], [nan, 0.9]]

    Args:
        runs: Runs by name, also as ``{query: {document: score}}``; the names become feature names.
        qrels: Judgements, also as ``{query: {document: grade}}``. Topics without judgements are left out; unjudged
            documents have grade 0.
        judged_only: Leave out unjudged documents; ranks and the like are computed among the others.

    Raises:
        DataError: A run has no topic in common with the others or the judgements.
    """
    runs, qrels = _checked(runs, qrels, judged_only)
    topics = _topics(runs, qrels)
    columns = {name: _rows(run, run.scores, topics) for name, run in runs.items()}
    documents, codes = np.unique(np.concatenate([ids for _, ids, _ in columns.values()]), return_inverse=True)
    places = np.split(codes, np.cumsum([len(ids) for _, ids, _ in columns.values()])[:-1])
    keys = [topic * len(documents) + code for (topic, _, _), code in zip(columns.values(), places, strict=True)]
    for name, key in zip(runs, keys, strict=True):
        if len(np.unique(key)) < len(key):
            raise DataError(f"run {name!r} has a document twice for one topic; keep one")
    rows = np.unique(np.concatenate(keys))
    if not len(rows):
        raise DataError("no run returned a document; check the runs, and the queries that they were asked")
    grades, judged = _grades(rows, documents, topics, qrels)
    pooled = rows[judged] if judged_only else rows
    if not len(pooled):
        raise DataError("no run returned a judged document; leave out judged_only, or check the document ids")
    X = np.full((len(rows), len(runs)), np.nan)
    for column, (key, (_, _, scores)) in enumerate(zip(keys, columns.values(), strict=True)):
        X[np.searchsorted(rows, key), column] = scores
    return Queries.from_arrays(
        X[judged] if judged_only else X,
        None if qrels is None else grades[judged] if judged_only else grades,
        qid=np.array(list(topics))[pooled // len(documents)],
        document_ids=documents[pooled % len(documents)],
        feature_names=runs,
        allow_nan=True,
    )


def read_runs(paths: Iterable[str | Path]) -> dict[str, Run]:
    """Read one run per file, named by its tag; runs that share a tag are named by their files, without suffix.

    Raises:
        DataError: A file is given twice, or two files of one tag have the same name in different folders.
    """
    files = [Path(path) for path in paths]
    runs = [read_run(path) for path in files]
    shared = {tag for tag, times in Counter(run.tag for run in runs).items() if times > 1}
    named: dict[str, Run] = {}
    for path, run in zip(files, runs, strict=True):
        name = path.name.partition(".")[0] if run.tag in shared else run.tag
        if name in named:
            raise DataError(f"another run is called {name!r} too; give each its own tag or file name", path=path)
        named[name] = run
    return named


def _checked(runs: Any, qrels: Any, judged_only: bool) -> tuple[dict[str, Run], Qrels | None]:
    """Convert dicts to runs and judgements, and refuse other types."""
    if not isinstance(runs, Mapping) or not all(isinstance(run, Run | Mapping) for run in runs.values()):
        raise TypeError("pool_runs takes the runs by name: pool_runs({'bm25': read_run(...), 'dense': read_run(...)})")
    if not runs:
        raise DataError("there is no run to pool; give at least one")
    if qrels is not None and not isinstance(qrels, Qrels | Mapping):
        raise TypeError("judgements are Qrels; read them with read_qrels")
    if judged_only and qrels is None:
        raise ValueError("judged_only needs judgements; give qrels")
    converted = {name: Run.from_dict(run, name) if isinstance(run, Mapping) else run for name, run in runs.items()}
    return converted, Qrels.from_dict(qrels) if isinstance(qrels, Mapping) else qrels


def _topics(runs: Mapping[str, Run], qrels: Qrels | None) -> dict[str, int]:
    """Return the numbers of the topics to pool, in the order of the judgements or of first appearance."""
    of_runs = dict.fromkeys(topic for run in runs.values() for topic in run.topics.tolist())
    names = list(of_runs) if qrels is None else [topic for topic in qrels.topics.tolist() if topic in of_runs]
    if qrels is not None and not names:
        raise DataError(
            f"the runs and the judgements share no topic: {_some(list(of_runs))} against "
            f"{_some(qrels.topics.tolist())}; give those of one collection"
        )
    for name, run in runs.items():
        elsewhere = {topic for key, another in runs.items() if key != name for topic in another.topics.tolist()}
        shared = set(names) & (elsewhere or set(names))
        if not shared.intersection(run.topics.tolist()):
            raise DataError(
                f"run {name!r} shares no topic with the others: {_some(run.topics.tolist())} against "
                f"{_some([topic for topic in names if topic in shared])}; leave it out"
            )
    return {name: number for number, name in enumerate(names)}


def _some(topics: Sequence[str]) -> str:
    return ", ".join(topics[:3]) + (", ..." if len(topics) > 3 else "")


def _rows(source: Run | Qrels, values: FloatArray, topics: Mapping[str, int]) -> tuple[IntArray, AnyArray, FloatArray]:
    """Return topic number, document id and value of each row of a known topic."""
    numbers = np.array([topics.get(topic, -1) for topic in source.topics.tolist()], dtype=np.int64)
    topic = np.repeat(numbers, np.diff(source.offsets))
    known = topic >= 0
    return topic[known], source.document_ids[known], values[known]


def _grades(
    rows: IntArray, documents: AnyArray, topics: Mapping[str, int], qrels: Qrels | None
) -> tuple[FloatArray, BoolArray]:
    """Return the grade of each row, and whether it was judged."""
    grades, judged = np.zeros(len(rows)), np.zeros(len(rows), dtype=np.bool_)
    if qrels is None:
        return grades, judged
    topic, ids, values = _rows(qrels, qrels.grades, topics)
    code = np.minimum(np.searchsorted(documents, ids), len(documents) - 1)
    key = topic * len(documents) + code
    at = np.minimum(np.searchsorted(rows, key), len(rows) - 1)
    hit = (documents[code] == ids) & (rows[at] == key)
    grades[at[hit]], judged[at[hit]] = np.nan_to_num(values[hit]), ~np.isnan(values[hit])
    return grades, judged


def with_columns(queries: Queries, names: Sequence[str]) -> Queries:
    """Return the same queries with some of their columns, in the order of the names."""
    known = list(queries.feature_names or ())
    if list(names) == known:
        return queries
    absent = next((name for name in names if name not in known), None)
    if absent is not None:
        raise DataError(f"there is no column {absent!r}; the columns are {', '.join(known)}")
    return queries.with_features(queries.dense()[:, np.array([known.index(name) for name in names])], names)


class RunScores(RunTable):
    """The columns of pooled runs, NaN if a run did not return the document.

    Args:
        queries: One column per run, and then those that describe the query.
        are_ranks: Whether the columns are ranks (1 is best) instead of scores.
        n_context: Number of columns that describe the query.
    """

    def __init__(self, queries: Queries, are_ranks: bool = False, n_context: int = 0) -> None:
        super().__init__(queries.dense(), queries.query_offsets, are_ranks, queries.order, n_context)
        self.queries = queries


def fusion_features(queries: Queries, features: str, *, ranks: bool = False, keep_missing: bool = False) -> Queries:
    """Compute features of pooled runs, larger for better documents.

    - ``minmax``: (s − min) / (max − min) over the documents that the run returned for the query; 0 if all are equal;
    - ``percentile``: the percentile rank among them, above 0;
    - ``rrf``: 61 / (60 + rank);
    - ``borda``: (n − rank + 1) / n, with n documents in the query;
    - ``retrieved``: 1 if the run returned the document;
    - ``score``: the score as it is, or minus the rank.

    A document that the run did not return has 0, less than the last one that it returned; with ``minmax`` the last one
    has 0 too, and ``score`` has no value for missing documents.

    Others describe the query, not the document; they are context of `marginrank.Adaptive` weights, and 0 if the run
    returned nothing:

    - ``best``: the highest score of the run for the query;
    - ``gap``: that less the fifth highest score, or less the lowest of fewer;
    - ``peak``: how many standard deviations the highest score is above the mean of the run for the query;
    - ``overlap``: the share of the run's ten best documents that the ten best of another run include, as the mean over
      the other runs;
    - ``count``: the number of documents that the run returned.

    Several kinds are combined with ``+``.

    >>> import numpy as np
    >>> bm25 = Queries.from_arrays(
    ...     [[30.0], [10.0], [np.nan]], [1, 0, 0], group=[3], feature_names=["bm25"], allow_nan=True
    ... )
    >>> both = fusion_features(bm25, "percentile+retrieved")
    >>> both.X.tolist(), both.feature_names
    ([[0.75, 1.0], [0.25, 1.0], [0.0, 0.0]], ('percentile(bm25)', 'retrieved(bm25)'))

    Args:
        queries: One column per run, as `pool_runs` returns them, NaN if a run did not return the document.
        features: Kinds, such as ``rrf`` or ``minmax+retrieved``.
        ranks: Whether the columns are ranks (1 is best) instead of scores.
        keep_missing: Leave NaN for documents that a run did not return, for scorers that take missing values.
    """
    return features_of(RunScores(queries, ranks), features, keep_missing=keep_missing)


def features_of(
    columns: RunScores, features: str, *, keep_missing: bool = False, with_context: bool = False
) -> Queries:
    """Compute features of columns, which cache what several kinds of features share."""
    kinds, queries, n_runs = parse_features(features), columns.queries, columns.n_runs
    names = queries.feature_names
    if names is not None:
        names = (*column_names(kinds, names[:n_runs]), *(names[n_runs:] if with_context else ()))
    with features_named(queries):
        X = columns.features(kinds, keep_missing=keep_missing, with_context=with_context)
        return queries.with_features(X, names)
