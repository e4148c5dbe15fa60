"""Requests that Elasticsearch and OpenSearch share: searches, feature logs, and scores to compare."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final, Protocol, TypeAlias

import numpy as np

from marginrank.data.formats.trec import Qrels, Run
from marginrank.data.queries import Queries
from marginrank.errors import DataError, warn
from marginrank.evaluation.systems import ByQuery
from marginrank.integrations.candidates import Judgements, in_order, pool, scores_of
from marginrank.typing import FloatArray

#: The values of placeholders such as ``{{words}}``, by query id.
QueryValues: TypeAlias = Mapping[Any, Mapping[str, Any]]
#: Bodies of requests, or parts of them, with placeholders.
Template: TypeAlias = Mapping[str, Any]
#: Features to log: the name of a feature set of the Learning to Rank plugin, or queries by name.
Features: TypeAlias = str | Mapping[str, Template]
#: Largest difference of scores, as a share of the largest score; engines compute in float32.
TOLERANCE: Final = 1e-5
#: Documents whose features are logged by one request; an index returns 10,000 hits at most by default.
_BATCH: Final = 1000
_PLACEHOLDER: Final = re.compile(r"\{\{(\w+)\}\}")
_LOG: Final = "features"


class SupportsPredict(Protocol):
    """A `Ranker`, or a model that `marginrank.load` read."""

    def predict(self, queries: Any, /) -> FloatArray:
        """Return one score per row."""


@dataclass(frozen=True)
class Agreement:
    """The comparison of scores that agree.

    Args:
        queries: Number of queries.
        documents: Number of documents, added up over queries.
        difference: The largest difference of scores, as a share of the largest score of the query.
    """

    queries: int
    documents: int
    difference: float


def fill(template: Any, values: Mapping[str, Any], place: str) -> Any:
    """Replace ``{{name}}`` in all texts of a template; a text that is nothing else becomes the value itself.

    >>> fill({"knn": {"field": "v", "query_vector": "{{v}}"}, "boost": "x{{n}}"}, {"v": [0.5], "n": 2}, "query 'q'")
    {'knn': {'field': 'v', 'query_vector': [0.5]}, 'boost': 'x2'}
    """
    if isinstance(template, Mapping):
        return {key: fill(one, values, place) for key, one in template.items()}
    if isinstance(template, list | tuple):
        return [fill(one, values, place) for one in template]
    if not isinstance(template, str):
        return template
    for name in _PLACEHOLDER.findall(template):
        if name not in values:
            raise DataError(f"{place} has no value for {{{{{name}}}}}; its values are {', '.join(values) or 'none'}")
    if whole := _PLACEHOLDER.fullmatch(template):
        value = values[whole[1]]
        return value.tolist() if isinstance(value, np.ndarray | np.generic) else value
    return _PLACEHOLDER.sub(lambda match: str(values[match[1]]), template)


def search(client: Any, index: str, body: Template, place: str, **parameters: Any) -> list[dict[str, Any]]:
    """Return the hits of a search, and refuse those of a part of the index."""
    answer = client.search(index=index, body=body, **parameters)
    shards = answer["_shards"]
    if answer["timed_out"] or shards["failed"]:
        what = "it timed out" if answer["timed_out"] else f"{shards['failed']} of {shards['total']} shards failed"
        raise DataError(f"{place}: the search is not complete ({what}); search again")
    hits: list[dict[str, Any]] = answer["hits"]["hits"]
    return hits


def collect_hits(
    client: Any,
    index: str,
    queries: QueryValues,
    retrievers: Mapping[str, Template],
    judgements: Judgements,
    body_of: Callable[[Any], Template],
) -> Queries:
    """Run every retriever for every query, and pool what they return; equal scores keep the order of the engine."""

    def hits(name: str, query: Any, values: Mapping[str, Any]) -> list[tuple[str, float]]:
        place = f"retriever {name!r}, query {query!r}"
        found = search(client, index, body_of(fill(retrievers[name], values, place)), place)
        scores = scores_of(((hit["_id"], hit["_score"]) for hit in found), place)
        return list(zip(scores, in_order(scores.values()), strict=True))

    return pool(
        {name: {query: hits(name, query, values) for query, values in queries.items()} for name in retrievers},
        judgements,
    )


def log_features(
    client: Any, index: str, queries: QueryValues, judgements: Qrels | ByQuery, features: Features
) -> Queries:
    """Log the features of the judged documents, and return a column per feature, NaN where a document has none.

    A feature that does not match a document has no score. Engines score that as 0 later, which is not the same for
    every model: train one that says so, such as ``Ranker(scorer="linear(missing=zero)")``, or trees, and export it.

    Judged documents that the index does not have are left out, with a warning.

    Args:
        client: The client of Elasticsearch or OpenSearch, or one with the same ``search``.
        index: Name of the index.
        queries: The values of parameters, by query id.
        judgements: Grades, as `marginrank.read_qrels` reads them or as ``{query: {document: grade}}``.
        features: The name of a feature set of the Learning to Rank plugin, which takes the values as its parameters;
            or queries by name with ``{{name}}`` for values, whose scores are the features (Elasticsearch 8.8,
            OpenSearch 2.12, without a plugin).
    """
    grades_of = judgements.to_dict() if isinstance(judgements, Qrels) else judgements
    judged = {str(query): grades for query, grades in grades_of.items()}
    rows: list[tuple[str, str, float, Mapping[str, float]]] = []
    absent: list[tuple[Any, str]] = []
    for query, values in queries.items():
        grades = {str(document): grade for document, grade in judged.get(str(query), {}).items()}
        logs = _logs(client, index, features, values, list(grades), f"query {query!r}")
        absent += [(query, document) for document in grades if document not in logs]
        rows += [(str(query), document, grades[document], logs[document]) for document in grades if document in logs]
    if not rows:
        raise DataError("the index has no judged document of these queries; check the ids of queries and documents")
    if absent:
        query, document = absent[0]
        warn(
            f"{len(absent)} of {len(rows) + len(absent)} judged documents are not in the index {index!r}, such as "
            f"{document!r} of query {query!r}; they are left out"
        )
    names = list(dict.fromkeys(name for *_, log in rows for name in log) if isinstance(features, str) else features)
    return Queries.from_arrays(
        np.array([[log.get(name, np.nan) for name in names] for *_, log in rows], dtype=np.float64),
        [grade for _, _, grade, _ in rows],
        qid=[query for query, *_ in rows],
        document_ids=[document for _, document, *_ in rows],
        feature_names=names,
        allow_nan=True,
    )


def _logs(
    client: Any, index: str, features: Features, values: Mapping[str, Any], documents: list[str], place: str
) -> dict[str, dict[str, float]]:
    """Return the features by document."""
    logs: dict[str, dict[str, float]] = {}
    for start in range(0, len(documents), _BATCH):
        some = documents[start : start + _BATCH]
        only = {"terms": {"_id": some}}
        if isinstance(features, str):
            logged = {"sltr": {"_name": "logged", "featureset": features, "params": dict(values)}}
            body: dict[str, Any] = {
                "query": {"bool": {"filter": [only, logged]}},
                "ext": {"ltr_log": {"log_specs": {"name": _LOG, "named_query": "logged"}}},
            }
            hits = search(client, index, {**body, "size": len(some), "_source": False}, place)
            logs |= {hit["_id"]: _plugin_log(hit, f"{place}, document {hit['_id']!r}") for hit in hits}
        else:
            # The name of a query that is wrapped is known for every kind of query.
            named = [
                {"bool": {"must": [fill(query, values, place)], "_name": name}} for name, query in features.items()
            ]
            body = {"query": {"bool": {"filter": [only], "should": named}}, "size": len(some), "_source": False}
            hits = search(client, index, body, place, include_named_queries_score=True)
            logs |= {hit["_id"]: _named_scores(hit, f"{place}, document {hit['_id']!r}") for hit in hits}
    return logs


def _plugin_log(hit: Mapping[str, Any], place: str) -> dict[str, float]:
    """Return the log of a hit, NaN for features without a value."""
    try:
        (entry,) = hit["fields"]["_ltrlog"]
        return {one["name"]: one.get("value", np.nan) for one in entry[_LOG]}
    except (KeyError, ValueError):
        raise DataError(f"{place}: the hit has no log of features; the Learning to Rank plugin writes it") from None


def _named_scores(hit: Mapping[str, Any], place: str) -> dict[str, float]:
    scores = hit.get("matched_queries", {})
    if not isinstance(scores, Mapping):
        raise DataError(
            f"{place}: the scores of queries are not there, only their names; update the engine, or name a feature set "
            "of the Learning to Rank plugin"
        )
    return dict(scores)


def sample_of(queries: QueryValues, sample: int) -> dict[Any, Mapping[str, Any]]:
    """Draw queries, in their order, always the same."""
    names = list(queries)
    chosen = np.sort(np.random.default_rng(0).permutation(len(names))[:sample])
    return {names[at]: queries[names[at]] for at in chosen.tolist()}


def scores_by_query(queries: Queries, scores: FloatArray) -> dict[str, dict[str, float]]:
    """Return scores by query and document."""
    return Run.from_scores(queries, scores).to_dict()


def compare_scores(
    engine: Callable[[Any, Mapping[str, Any]], Sequence[Mapping[str, Any]]],
    expected: Mapping[str, Mapping[str, float]],
    queries: QueryValues,
    size: int,
    advice: str,
) -> Agreement:
    """Compare the hits that an engine returns for each query with the scores to expect.

    Args:
        engine: Returns the hits of a query with its values, best first.
        expected: The scores by query and document.
        queries: The values of parameters, by query id.
        size: Number of hits that were asked for.
        advice: What to do if scores differ.

    Raises:
        DataError: A score differs, or a document is missing; the message names the first query and document.
    """
    largest, compared = 0.0, 0
    for query, values in queries.items():
        scores = {hit["_id"]: float(hit["_score"]) for hit in engine(query, values)}
        compared += len(scores)
        for document, difference in _differences(scores, expected.get(str(query), {}), size):
            if not difference <= TOLERANCE:
                theirs, ours = scores.get(document), expected.get(str(query), {}).get(document)
                raise DataError(
                    f"query {query!r}, document {document!r}: the score of the engine is {_number(theirs)}, and "
                    f"{_number(ours)} is expected; {advice}"
                )
            largest = max(largest, difference)
    return Agreement(len(queries), compared, largest)


def _differences(scores: Mapping[str, float], expected: Mapping[str, float], size: int) -> Iterator[tuple[str, float]]:
    """Yield each document with the difference of its scores, as a share of the largest; infinite if one has none.

    An engine that returned as many documents as were asked for may leave out those below the last.
    """
    unit = max([abs(score) for score in expected.values()], default=0.0) or 1.0
    for document, score in scores.items():
        yield document, abs(score - expected[document]) / unit if document in expected else np.inf
    last = min(scores.values()) if len(scores) >= size else -np.inf
    for document, score in expected.items():
        if document not in scores:
            yield document, max(score - last, 0.0) / unit


def _number(score: float | None) -> str:
    return "none" if score is None else f"{score:.7g}"


def verify_model(
    client: Any,
    index: str,
    model: SupportsPredict,
    queries: QueryValues,
    judgements: Qrels | ByQuery,
    features: Features,
    *,
    name: str = "marginrank",
    sample: int = 20,
) -> Agreement:
    """Compare the scores of a model that was uploaded with ours, for the judged documents of a sample of queries.

    Args:
        client: The client of Elasticsearch or OpenSearch, or one with the same ``search``.
        index: Name of the index.
        model: The trained ranker.
        queries: The values of parameters, by query id.
        judgements: What says which documents to score; grades do not matter.
        features: As for `log_features`. With the name of a feature set, the model is one of the Learning to Rank
            plugin, otherwise one of Elasticsearch's learning to rank.
        name: The name of the model in the engine.
        sample: Number of queries, drawn at random.

    Raises:
        DataError: A score differs; the message names the first query and document.
    """
    logged = log_features(client, index, sample_of(queries, sample), judgements, features)
    expected = scores_by_query(logged, model.predict(logged))

    def engine(query: Any, values: Mapping[str, Any]) -> Sequence[Mapping[str, Any]]:
        documents = list(expected[str(query)])
        if isinstance(features, str):
            scored = {"sltr": {"model": name, "params": dict(values)}}
            rescore = {"query": {"rescore_query": scored, "query_weight": 0, "rescore_query_weight": 1}}
        else:
            rescore = {"learning_to_rank": {"model_id": name, "params": dict(values)}}
        n = len(documents)
        body = {
            "query": {"terms": {"_id": documents}},
            "rescore": {"window_size": n, **rescore},
            "size": n,
            "_source": False,
        }
        return search(client, index, body, f"query {query!r}")

    asked = {str(query): values for query, values in queries.items() if str(query) in expected}
    most = max(map(len, expected.values()))
    return compare_scores(engine, expected, asked, most, "upload the model again, with the features it was trained on")
