"""Parsing and validation of requests."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial
from itertools import chain
from typing import Any, Final, NoReturn, TypeAlias

import numpy as np
from starlette.datastructures import Headers
from starlette.requests import ClientDisconnect, Request

from marginrank.runtime.text import count, listed, suggest
from marginrank.scorers.scoring_function import FusedFunction, ScoringFunction
from marginrank.serving.limits import Refusal, ServiceLimits
from marginrank.typing import FloatArray

Id: TypeAlias = str | int

_REQUEST: Final = ("queries", "k", "explain")
_QUERY_OF_FEATURES: Final = ("id", "documents", "features")
_QUERY_OF_RUNS: Final = ("id", "runs", "context")
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
_NUMBERS_OR_BOOLEANS: Final[frozenset[type]] = frozenset((int, float, bool))

#: Types of features; true and false are 1 and 0.
_NUMBERS_OR_NULL: Final[frozenset[type]] = frozenset((int, float, bool, type(None)))


@dataclass(frozen=True)
class Query:
    """Documents of one query: their ids, and a row of numbers for each."""

    id: Id
    documents: Sequence[Id]
    table: FloatArray


@dataclass(frozen=True)
class RankRequest:
    """Queries to rank, how many documents of each to return, and whether to explain them."""

    queries: Sequence[Query]
    k: int | None
    explain: bool


def go_on() -> None:
    """Never stop."""


def read_request(
    content: Any, model: ScoringFunction, limits: ServiceLimits, check_stop: Callable[[], None] = go_on
) -> RankRequest:
    """Check a request of parsed JSON against a model, and refuse it with the place and a fix.

    ``check_stop`` is called often, and raises an error if nobody waits for the answer any more.

    >>> from marginrank.scorers.terms import LinearTerm
    >>> weights = LinearTerm(np.array([1.0, 2.0]), None, None, np.zeros(0, dtype=np.int64), np.zeros(0))
    >>> model = ScoringFunction(("bm25", "clicks"), (weights,))
    >>> body = {"queries": [{"features": [{"clicks": 2, "bm25": 0.5}]}], "k": 3}
    >>> read_request(body, model, ServiceLimits()).queries[0]
    Query(id=0, documents=range(0, 1), table=array([[0.5, 2. ]]))
    >>> read_request({"queries": [{"features": [[0.5, "2"]]}]}, model, ServiceLimits())
    Traceback (most recent call last):
    ...
    marginrank.serving.limits.Refusal: queries[0].features[0]: feature 'clicks' is text; give a number
    """
    check_object(content, "the request", _REQUEST)
    queries = content.get("queries")
    if type(queries) is not list:
        refuse("queries", f"it is {kind_of(queries)}; give a list of queries" if "queries" in content else _NO_QUERIES)
    if len(queries) > limits.max_queries:
        raise Refusal(413, f"queries: {len(queries):,} of them; send {limits.max_queries:,} at a time at most")
    k, explain = read_k(content.get("k"), "k"), content.get("explain", False)
    if type(explain) is not bool:
        refuse("explain", f"it is {kind_of(explain)}; give true or false")
    asked: list[Query] = []
    n_documents = 0
    for number, query in enumerate(queries):
        check_stop()
        if isinstance(model, FusedFunction):
            asked.append(_read_runs(query, f"queries[{number}]", number, model))
        else:
            asked.append(_read_features(query, f"queries[{number}]", number, model))
        n_documents += len(asked[-1].documents)
        if n_documents > limits.max_documents:
            raise Refusal(
                413, f"queries[{number}]: more than {limits.max_documents:,} documents; send fewer, or fewer queries"
            )
    _check_distinct([query.id for query in asked], "queries", "two queries have the id")
    return RankRequest(asked, k, explain)


def read_k(value: Any, place: str) -> int | None:
    """Read how many documents to return; None for all."""
    if value is None or (type(value) is int and value >= 1):
        return value
    raise _refusal(
        place, f"{_shown(value)} is not a number of documents; give a whole number of at least 1, or leave it out"
    )


_NO_QUERIES: Final = 'it is not there; send {"queries": [{"features": [...]}]}'


def _read_features(query: Any, place: str, number: int, model: ScoringFunction) -> Query:
    if isinstance(query, dict) and "runs" in query:
        refuse(f"{place}.runs", "this model scores features, not runs; give features")
    check_object(query, place, _QUERY_OF_FEATURES)
    if "features" not in query:
        refuse(f"{place}.features", "it is not there; give the features of each document")
    features, at = query["features"], f"{place}.features"
    if type(features) is dict:
        table = _from_columns(features, at, model)
    elif type(features) is list:
        table = _from_rows(features, at, model)
    else:
        refuse(at, f"it is {kind_of(features)}; give a list with a row for each document, or an object of columns")
    if not model.takes_missing and np.isnan(table).any():
        row, column = np.argwhere(np.isnan(table))[0].tolist()
        refuse(f"{at}[{row}]", f"{_feature(model.inputs[column])} is null; {model.nan_advice}")
    documents = _read_ids(query.get("documents"), f"{place}.documents", len(table))
    return Query(_read_id(query.get("id", number), f"{place}.id"), documents, table)


def _from_rows(rows: list[Any], place: str, model: ScoringFunction) -> FloatArray:
    """Make a table of rows, each a list in the order of the model or an object by name."""
    names, width = model.inputs, len(model.inputs)
    table = []
    for number, row in enumerate(rows):
        at = f"{place}[{number}]"
        if type(row) is dict:
            values = _by_name(row, at, names, "feature")
        elif type(row) is list:
            values = row
            if len(values) != width:
                refuse(
                    at,
                    f"{count(len(values), 'number')}, and the model has {count(width, 'feature')}: {listed(names, 5)}; "
                    "give one for each, in this order",
                )
        else:
            refuse(at, f"it is {kind_of(row)}; give a list of numbers, or an object of features by name")
        if not _NUMBERS_OR_NULL.issuperset(map(type, values)):
            _refuse_value(values, at, lambda column: _feature(names[column]), _NUMBERS_OR_NULL)
        table.append(values)
    return _to_table(table, width, lambda row, column: f"{place}[{row}]: {_feature(names[column])}")


def table_of_objects(documents: list[dict[str, Any]], place: str, model: ScoringFunction) -> FloatArray:
    """Make a table of the inputs of a model in objects that have other fields, too."""
    is_fusion = isinstance(model, FusedFunction)
    context = model.context if isinstance(model, FusedFunction) else ()
    if_absent = "null if it did not return the document" if is_fusion else "null if it is missing"

    def named(name: str) -> str:
        return f"{'context' if name in context else 'run' if is_fusion else 'feature'} {_shown(name)}"

    rows = []
    for number, document in enumerate(documents):
        at = f"{place}[{number}]"
        absent = next((name for name in model.inputs if name not in document), None)
        if absent is not None:
            optional = model.takes_missing and absent not in context
            advice = f"give it, {if_absent}" if optional else f"the model needs {listed(model.inputs, 5)}"
            refuse(at, f"there is no {named(absent)}; {advice}")
        row = [document[name] for name in model.inputs]
        if not _NUMBERS_OR_NULL.issuperset(map(type, row)):
            _refuse_value(row, at, lambda column: named(model.inputs[column]), _NUMBERS_OR_NULL)
        if None in row and not model.takes_missing:
            advice = "this model needs all runs to score a document" if is_fusion else model.nan_advice
            refuse(at, f"{named(model.inputs[row.index(None)])} is null; {advice}")
        rows.append(row)
    return _to_table(rows, len(model.inputs), lambda row, column: f"{place}[{row}]: {named(model.inputs[column])}")


def _from_columns(columns: dict[str, Any], place: str, model: ScoringFunction) -> FloatArray:
    """Make a table of columns by name."""
    names = model.inputs
    table = _by_name(columns, place, names, "feature")
    for name, column in zip(names, table, strict=True):
        if type(column) is not list:
            refuse(place, f"{_feature(name)} is {kind_of(column)}; give a list with a number for each document")
        if len(column) != len(table[0]):
            refuse(
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


def _read_runs(query: Any, place: str, number: int, model: FusedFunction) -> Query:
    """Make a table of the scores of runs and the context; documents are in order of first appearance."""
    if isinstance(query, dict):
        for other in ("features", "documents"):
            if other in query:
                refuse(f"{place}.{other}", "this model combines runs; give runs, with the score of each document by id")
    check_object(query, place, _QUERY_OF_RUNS)
    at = f"{place}.runs"
    if type(query.get("runs")) is not dict:
        refuse(at, "give an object with what each run returned, by the name of the run")
    columns = [
        _read_run(run, f"{at}.{name}")
        for name, run in zip(model.runs, _by_name(query["runs"], at, model.runs, "run"), strict=True)
    ]
    documents = list(dict.fromkeys(chain.from_iterable(columns)))
    rows = [[column.get(document) for column in columns] for document in documents]
    table = _to_table(rows, len(columns), lambda row, column: f"{at}.{model.inputs[column]}: {documents[row]!r}")
    if not model.takes_missing and np.isnan(table).any():
        row, column = np.argwhere(np.isnan(table))[0].tolist()
        run = model.inputs[column]
        refuse(f"{at}.{run}", f"there is no score for {_shown(documents[row])}; this model needs all runs to score it")
    context = np.tile(_read_context(query, f"{place}.context", model.context), (len(documents), 1))
    return Query(_read_id(query.get("id", number), f"{place}.id"), documents, np.hstack([table, context]))


def _read_context(query: dict[str, Any], place: str, names: Sequence[str]) -> FloatArray:
    """Read the numbers that describe a query."""
    if not names:
        # A model that is trained again may have the same weights for all queries; requests need not change for that.
        return np.zeros((1, 0))
    given = query.get("context", {})
    if type(given) is not dict:
        refuse(place, f"it is {kind_of(given)}; give an object with a number for each of {listed(names, 5)}")
    values = _by_name(given, place, names, "context")
    if not _NUMBERS_OR_BOOLEANS.issuperset(map(type, values)):
        _refuse_value(values, place, lambda column: _shown(names[column]), _NUMBERS_OR_BOOLEANS)
    return _to_table([values], len(names), lambda _, column: f"{place}: {_shown(names[column])}")


def _read_run(run: Any, place: str) -> dict[Id, float]:
    """Read the scores of one run, from an object or from pairs of id and score."""
    if type(run) is dict:
        scores = run
    elif type(run) is list:
        for number, pair in enumerate(run):
            if type(pair) is not list or len(pair) != 2:
                refuse(f"{place}[{number}]", f"{_shown(pair)} is not a pair; give [id, score]")
            _read_id(pair[0], f"{place}[{number}]")
        _check_distinct([pair[0] for pair in run], place, "two documents have the id")
        scores = dict(run)
    else:
        refuse(place, f"it is {kind_of(run)}; give an object of scores by document, or a list of [id, score]")
    if not _NUMBERS.issuperset(map(type, scores.values())):
        names = list(scores)
        _refuse_value(list(scores.values()), place, lambda at: f"the score of {_shown(names[at])}", _NUMBERS)
    return scores


def _by_name(given: dict[str, Any], place: str, names: Sequence[str], what: str) -> list[Any]:
    """Return the values of an object in the order of the model; refuse other names than its own."""
    if len(given) == len(names):
        try:
            return [given[name] for name in names]
        except KeyError:
            pass
    for name in given:
        if name not in names:
            refuse(place, f"the model has no {what} {_shown(name)}; {_nearest(name, names)}")
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
        refuse(place, f"it is {kind_of(ids)}; give a list with the id of each document, or leave it out")
    if len(ids) != n:
        refuse(place, f"{count(len(ids), 'id')} for {count(n, 'document')}; give one for each row of features")
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
            refuse(f"{place}[{number}]", f"{problem} {_shown(one)}; give each its own")
        seen.add(one)


def check_object(value: Any, place: str, known: Sequence[str]) -> None:
    """Refuse what is not an object, and names that are not known."""
    if type(value) is not dict:
        refuse(place, f"it is {kind_of(value)}; give an object with {', '.join(known)}")
    for name in value:
        if name not in known:
            refuse(place, f"{_shown(name)} is unknown; {suggest(name[:80], known)}")


def _refuse_value(values: Sequence[Any], place: str, named: Callable[[int], str], kinds: frozenset[type]) -> NoReturn:
    at = next(number for number, value in enumerate(values) if type(value) not in kinds)
    refuse(place, f"{named(at)} is {kind_of(values[at])}; give a number")


def refuse(place: str, problem: str) -> NoReturn:
    """Refuse a request that does not fit the model."""
    raise _refusal(place, problem)


def _refusal(place: str, problem: str) -> Refusal:
    return Refusal(422, f"{place}: {problem}")


def _feature(name: str) -> str:
    return f"feature {name}" if name.isdecimal() else f"feature {name!r}"


def kind_of(value: Any) -> str:
    """Return the kind of a JSON value."""
    return _KINDS[type(value)]


def _shown(value: Any) -> str:
    """Show a value of a request, shortened."""
    text = repr(value) if isinstance(value, str | int | float) else kind_of(value)
    return text if len(text) <= 80 else f"{text[:77]}..."


async def read_body(request: Request, limits: ServiceLimits, take: Callable[[int], None]) -> bytes:
    """Read the body of a request of JSON, in time and no more than allowed, whether it says its length or not.

    ``take`` is told how many bytes are kept, and refuses them if the service holds too many.
    """
    _check_headers(request.headers)
    too_large = Refusal(413, f"the body has more than {limits.max_bytes:,} bytes; send fewer documents at a time")
    declared = request.headers.get("content-length", "0")
    if "expect" in request.headers and declared.isdecimal() and int(declared) > limits.max_bytes:
        raise too_large
    parts, size = [], 0
    try:
        async with asyncio.timeout(limits.timeout):
            async for part in request.stream():
                size += len(part)
                if size <= limits.max_bytes:
                    take(len(part))
                    parts.append(part)
                elif size > 2 * limits.max_bytes:
                    break
    except TimeoutError:
        raise Refusal(
            408, f"the body did not arrive within {limits.timeout:g} seconds; send it faster, or fewer documents"
        ) from None
    except ClientDisconnect:
        raise Refusal(400, "the connection was closed before the body was complete; send all of it") from None
    # A client that is still sending would not read the answer, so a body that is not far too large is read to its end.
    if size > limits.max_bytes:
        raise too_large
    return b"".join(parts)


def _check_headers(headers: Headers) -> None:
    kind, _, parameters = headers.get("content-type", "").partition(";")
    kind = kind.strip().lower()
    if kind != "application/json":
        shown = f"Content-Type is {kind!r}" if kind else "there is no Content-Type"
        raise Refusal(415, f"{shown}; send JSON with Content-Type: application/json")
    charset = parameters.strip().lower().removeprefix("charset=").strip('"')
    if charset not in ("", "utf-8", "utf8"):
        raise Refusal(415, f"Content-Type has {parameters.strip()!r}; send UTF-8")
    encoding = headers.get("content-encoding", "identity").lower()
    if encoding != "identity":
        raise Refusal(415, f"Content-Encoding is {encoding!r}; send the body as it is, not compressed")


def parse_json(body: bytes, check_stop: Callable[[], None] = go_on) -> Any:
    """Parse a body; refuse what JSON does not have, and repeated names.

    ``check_stop`` is called for every object.

    >>> parse_json(b'{"queries": [], "k": NaN}')
    Traceback (most recent call last):
    ...
    marginrank.serving.limits.Refusal: NaN is not JSON; send null for a missing value, if the model takes them
    """
    try:
        text = body.decode("utf-8")
    except UnicodeDecodeError as error:
        raise Refusal(400, f"byte {error.start} of the body is not UTF-8; send JSON in UTF-8") from None
    if not text.strip():
        raise Refusal(400, 'the body is empty; send JSON such as {"queries": [{"features": [[0.5, 1.0]]}]}')

    def distinct(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
        check_stop()
        return _distinct(pairs)

    try:
        return json.loads(text, object_pairs_hook=distinct, parse_constant=_no_constant)
    except json.JSONDecodeError as error:
        raise Refusal(
            400, f"line {error.lineno}, column {error.colno}: {error.msg[:1].lower()}{error.msg[1:]}; send valid JSON"
        ) from None
    except RecursionError:
        raise Refusal(400, "the JSON is nested too deep; a request has six levels at most") from None
    except ValueError:
        raise Refusal(400, "the JSON has a number of thousands of digits; send numbers that float64 holds") from None


def _distinct(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    table = dict(pairs)
    if len(table) < len(pairs):
        seen: set[str] = set()
        name = next(name for name, _ in pairs if name in seen or seen.add(name))  # type: ignore[func-returns-value]
        raise Refusal(422, f"{name[:80]!r} appears twice in an object; give it once")
    return table


def _no_constant(name: str) -> NoReturn:
    raise Refusal(400, f"{name} is not JSON; send null for a missing value, if the model takes them")
