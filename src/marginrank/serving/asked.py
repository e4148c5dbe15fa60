"""What a request asks for: checked, and turned into a table of numbers for each query."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial
from itertools import chain
from typing import Any, Final, NoReturn, TypeAlias

import numpy as np

from marginrank.scoring import Function, FusedFunction
from marginrank.serving.limits import Limits, Refusal
from marginrank.typing import FloatArray
from marginrank.words import count, listed, suggest

Id: TypeAlias = str | int
_REQUEST: Final = ("queries", "k", "explain")
_QUERY_OF_FEATURES: Final = ("id", "documents", "features")
_QUERY_OF_RUNS: Final = ("id", "runs")
_KINDS: Final = {
    dict: "an object",
    list: "a list",
    str: "text",
    bool: "true or false",
    type(None): "null",
    int: "a number",
    float: "a number",
}
_NUMBERS: Final[frozenset[type]] = frozenset((int, float))
_NUMBERS_OR_NULL: Final[frozenset[type]] = frozenset((int, float, type(None)))


@dataclass(frozen=True)
class Query:
    """Documents of one query: their ids, and a row of numbers for each."""

    id: Id
    documents: Sequence[Id]
    table: FloatArray


@dataclass(frozen=True)
class Asked:
    """Queries to rank, how many documents of each to return, and whether to explain them."""

    queries: Sequence[Query]
    k: int | None
    explain: bool


def read_asked(content: Any, model: Function, limits: Limits) -> Asked:
    """Check a request of parsed JSON against a model, and refuse it with the place and the way out.

    >>> from marginrank.scorers.formula import LinearTerm
    >>> weights = LinearTerm(np.array([1.0, 2.0]), None, None, np.zeros(0, dtype=np.int64), np.zeros(0))
    >>> model = Function(("bm25", "clicks"), (weights,))
    >>> read_asked({"queries": [{"features": [{"clicks": 2, "bm25": 0.5}]}], "k": 3}, model, Limits()).queries[0]
    Query(id=0, documents=range(0, 1), table=array([[0.5, 2. ]]))
    >>> read_asked({"queries": [{"features": [[0.5, "2"]]}]}, model, Limits())
    Traceback (most recent call last):
    ...
    marginrank.serving.limits.Refusal: queries[0].features[0]: feature 'clicks' is text; give a number
    """
    _check_object(content, "the request", _REQUEST)
    queries = content.get("queries")
    if type(queries) is not list:
        _refuse("queries", f"it is {_kind(queries)}; give a list of queries" if "queries" in content else _NO_QUERIES)
    k, explain = content.get("k"), content.get("explain", False)
    if k is not None and (type(k) is not int or k < 1):
        _refuse("k", f"{_shown(k)} is not a number of documents; give a whole number from 1 on, or leave it out")
    if type(explain) is not bool:
        _refuse("explain", f"it is {_kind(explain)}; give true or false")
    read = _read_runs if isinstance(model, FusedFunction) else _read_features
    asked: list[Query] = []
    n_documents = 0
    for number, query in enumerate(queries):
        asked.append(read(query, f"queries[{number}]", number, model))
        n_documents += len(asked[-1].documents)
        if n_documents > limits.max_documents:
            raise Refusal(
                413, f"queries[{number}]: more than {limits.max_documents:,} documents; send fewer, or fewer queries"
            )
    _check_distinct([query.id for query in asked], "queries", "two queries have the id")
    return Asked(asked, k, explain)


_NO_QUERIES: Final = 'it is not there; send {"queries": [{"features": [...]}]}'


def _read_features(query: Any, place: str, number: int, model: Function) -> Query:
    if isinstance(query, dict) and "runs" in query:
        _refuse(f"{place}.runs", "this model scores features, not runs; give features")
    _check_object(query, place, _QUERY_OF_FEATURES)
    if "features" not in query:
        _refuse(f"{place}.features", "it is not there; give the features of each document")
    features, at = query["features"], f"{place}.features"
    if type(features) is dict:
        table = _from_columns(features, at, model)
    elif type(features) is list:
        table = _from_rows(features, at, model)
    else:
        _refuse(at, f"it is {_kind(features)}; give a list with a row for each document, or an object of columns")
    if not model.takes_missing and np.isnan(table).any():
        row, column = np.argwhere(np.isnan(table))[0].tolist()
        _refuse(f"{at}[{row}]", f"{_feature(model.inputs[column])} is null; {model.nan_advice}")
    documents = _read_ids(query.get("documents"), f"{place}.documents", len(table))
    return Query(_read_id(query.get("id", number), f"{place}.id"), documents, table)


def _from_rows(rows: list[Any], place: str, model: Function) -> FloatArray:
    """Make a table of rows, each a list in the order of the model or an object by name."""
    names, width = model.inputs, len(model.inputs)
    table = []
    for number, row in enumerate(rows):
        at = f"{place}[{number}]"
        if type(row) is dict:
            values = _by_name(row, at, model, "feature")
        elif type(row) is list:
            values = row
            if len(values) != width:
                _refuse(
                    at,
                    f"{count(len(values), 'number')}, and the model has {count(width, 'feature')}: {listed(names, 5)}; "
                    "give one for each, in this order",
                )
        else:
            _refuse(at, f"it is {_kind(row)}; give a list of numbers, or an object of features by name")
        if not _NUMBERS_OR_NULL.issuperset(map(type, values)):
            _refuse_value(values, at, lambda column: _feature(names[column]), _NUMBERS_OR_NULL)
        table.append(values)
    return _to_table(table, width, lambda row, column: f"{place}[{row}]: {_feature(names[column])}")


def _from_columns(columns: dict[str, Any], place: str, model: Function) -> FloatArray:
    """Make a table of columns by name."""
    table = _by_name(columns, place, model, "feature")
    names = model.inputs
    for name, column in zip(names, table, strict=True):
        if type(column) is not list:
            _refuse(place, f"{_feature(name)} is {_kind(column)}; give a list with a number for each document")
        if len(column) != len(table[0]):
            _refuse(
                place,
                f"{_feature(name)} has {count(len(column), 'value')}, {_feature(names[0])} has {len(table[0]):,}; give "
                "one for each document",
            )
        if not _NUMBERS_OR_NULL.issuperset(map(type, column)):
            _refuse_value(
                column,
                place,
                partial(_value_of, name),
                _NUMBERS_OR_NULL,
            )
    n = len(table[0]) if table else 0
    # Transposed after the numbers were checked, so that places are those of the request.
    return np.ascontiguousarray(_to_table(table, n, lambda column, row: f"{place}: {_value_of(names[column], row)}").T)


def _value_of(name: str, row: int) -> str:
    return f"value {row} of {_feature(name)}"


def _read_runs(query: Any, place: str, number: int, model: Function) -> Query:
    """Make a table of the scores of runs; documents are in order of first appearance."""
    if isinstance(query, dict):
        for other in ("features", "documents"):
            if other in query:
                _refuse(
                    f"{place}.{other}", "this model combines runs; give runs, with the score of each document by id"
                )
    _check_object(query, place, _QUERY_OF_RUNS)
    at = f"{place}.runs"
    if type(query.get("runs")) is not dict:
        _refuse(at, "give an object with what each run returned, by the name of the run")
    columns = [
        _read_run(run, f"{at}.{name}")
        for name, run in zip(model.inputs, _by_name(query["runs"], at, model, "run"), strict=True)
    ]
    documents = list(dict.fromkeys(chain.from_iterable(columns)))
    rows = [[column.get(document) for column in columns] for document in documents]
    table = _to_table(rows, len(columns), lambda row, column: f"{at}.{model.inputs[column]}: {documents[row]!r}")
    if not model.takes_missing and np.isnan(table).any():
        row, column = np.argwhere(np.isnan(table))[0].tolist()
        run = model.inputs[column]
        _refuse(f"{at}.{run}", f"there is no score for {_shown(documents[row])}; this model needs all runs to score it")
    return Query(_read_id(query.get("id", number), f"{place}.id"), documents, table)


def _read_run(run: Any, place: str) -> dict[Id, float]:
    """Read the scores of one run, from an object or from pairs of id and score."""
    if type(run) is dict:
        scores = run
    elif type(run) is list:
        for number, pair in enumerate(run):
            if type(pair) is not list or len(pair) != 2:
                _refuse(f"{place}[{number}]", f"{_shown(pair)} is not a pair; give [id, score]")
            _read_id(pair[0], f"{place}[{number}]")
        _check_distinct([pair[0] for pair in run], place, "two documents have the id")
        scores = dict(run)
    else:
        _refuse(place, f"it is {_kind(run)}; give an object of scores by document, or a list of [id, score]")
    if not _NUMBERS.issuperset(map(type, scores.values())):
        names = list(scores)
        _refuse_value(list(scores.values()), place, lambda at: f"the score of {_shown(names[at])}", _NUMBERS)
    return scores


def _by_name(given: dict[str, Any], place: str, model: Function, what: str) -> list[Any]:
    """Return the values of an object in the order of the model; refuse other names than its own."""
    names = model.inputs
    if len(given) == len(names):
        try:
            return [given[name] for name in names]
        except KeyError:
            pass
    for name in given:
        if name not in names:
            _refuse(place, f"the model has no {what} {_shown(name)}; {_nearest(name, names)}")
    absent = next(name for name in names if name not in given)
    way_out = "give it, empty if it returned nothing" if what == "run" else f"the model needs {listed(names, 5)}"
    raise _refusal(place, f"there is no {what} {_shown(absent)}; {way_out}")


def _nearest(name: str, names: Sequence[str]) -> str:
    said = suggest(name[:80], names)
    return said if said.startswith("did") else f"it has {listed(names, 5)}"


def _to_table(rows: list[list[Any]], width: int, place: Callable[[int, int], str]) -> FloatArray:
    """Make an array of checked numbers; refuse those that float64 does not hold."""
    try:
        table = np.array(rows, dtype=np.float64).reshape(len(rows), width)
    except OverflowError:
        table = np.array([[_or_infinite(value) for value in row] for row in rows], dtype=np.float64)
    if np.isinf(table).any():
        row, column = np.argwhere(np.isinf(table))[0].tolist()
        raise Refusal(422, f"{place(row, column)} is beyond 1.8e308; send a number that float64 holds")
    return table


def _or_infinite(value: Any) -> float:
    try:
        return np.nan if value is None else float(value)
    except OverflowError:
        return np.inf


def _read_ids(ids: Any, place: str, n: int) -> Sequence[Id]:
    if ids is None:
        return range(n)
    if type(ids) is not list:
        _refuse(place, f"it is {_kind(ids)}; give a list with the id of each document, or leave it out")
    if len(ids) != n:
        _refuse(place, f"{count(len(ids), 'id')} for {count(n, 'document')}; give one for each row of features")
    for number, one in enumerate(ids):
        _read_id(one, f"{place}[{number}]")
    _check_distinct(ids, place, "two documents have the id")
    return ids


def _read_id(value: Any, place: str) -> Id:
    if type(value) is str or type(value) is int:
        return value
    raise _refusal(place, f"{_shown(value)} is not an id; give text or a whole number")


def _check_distinct(ids: Sequence[Id], place: str, problem: str) -> None:
    if len(set(ids)) == len(ids):
        return
    seen: set[Id] = set()
    for number, one in enumerate(ids):
        if one in seen:
            _refuse(f"{place}[{number}]", f"{problem} {_shown(one)}; give each its own")
        seen.add(one)


def _check_object(value: Any, place: str, known: Sequence[str]) -> None:
    if type(value) is not dict:
        _refuse(place, f"it is {_kind(value)}; give an object with {', '.join(known)}")
    for name in value:
        if name not in known:
            _refuse(place, f"{_shown(name)} is unknown; {suggest(name[:80], known)}")


def _refuse_value(values: Sequence[Any], place: str, named: Callable[[int], str], kinds: frozenset[type]) -> NoReturn:
    at = next(number for number, value in enumerate(values) if type(value) not in kinds)
    _refuse(place, f"{named(at)} is {_kind(values[at])}; give a number")


def _refuse(place: str, problem: str) -> NoReturn:
    raise _refusal(place, problem)


def _refusal(place: str, problem: str) -> Refusal:
    return Refusal(422, f"{place}: {problem}")


def _feature(name: str) -> str:
    return f"feature {name}" if name.isdecimal() else f"feature {name!r}"


def _kind(value: Any) -> str:
    return _KINDS[type(value)]


def _shown(value: Any) -> str:
    """Show a value of a request, shortened."""
    text = repr(value) if isinstance(value, str | int | float) else _kind(value)
    return text if len(text) <= 80 else f"{text[:77]}..."
