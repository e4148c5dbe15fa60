"""Schemas of requests and responses, for the OpenAPI page."""

from __future__ import annotations

from typing import Any, Final

_NUMBER: Final = {"type": ["number", "boolean", "null"]}
_ID: Final = {"anyOf": [{"type": "string"}, {"type": "integer"}]}
_QUERY: Final = {
    "type": "object",
    "additionalProperties": False,
    "properties": {
        "id": {**_ID, "description": "Id of the query; by default its number."},
        "documents": {"type": "array", "items": _ID, "description": "Ids of the documents; by default row numbers."},
        "features": {
            "description": "Features of documents: rows by name, rows in the order of the model, or columns by name.",
            "anyOf": [
                {"type": "array", "items": {"type": "object", "additionalProperties": _NUMBER}},
                {"type": "array", "items": {"type": "array", "items": _NUMBER}},
                {"type": "object", "additionalProperties": {"type": "array", "items": _NUMBER}},
            ],
        },
        "runs": {
            "description": "For a fusion: what each run returned, scores by document id or pairs of id and score.",
            "type": "object",
            "additionalProperties": {
                "anyOf": [
                    {"type": "object", "additionalProperties": {"type": "number"}},
                    {"type": "array", "items": {"type": "array", "minItems": 2, "maxItems": 2}},
                ]
            },
        },
        "context": {
            "description": "For a fusion whose weights depend on more than its runs: numbers that describe the query.",
            "type": "object",
            "additionalProperties": _NUMBER,
        },
    },
}

_REQUEST: Final = {
    "type": "object",
    "additionalProperties": False,
    "required": ["queries"],
    "properties": {
        "queries": {"type": "array", "items": _QUERY},
        "k": {"type": ["integer", "null"], "minimum": 1, "description": "How many documents; all by default."},
        "explain": {"type": "boolean", "default": False, "description": "Whether to add contributions of features."},
    },
}

_DOCUMENT: Final = {
    "type": "object",
    "properties": {
        "id": _ID,
        "rank": {"type": "integer"},
        "score": {"type": "number"},
        "contributions": {
            "type": "object",
            "additionalProperties": {"type": "number"},
            "description": "What each feature adds to the score, relative to the mean score of the query.",
        },
    },
}

_RANKING: Final = {
    "type": "object",
    "properties": {
        "model": {"type": "string", "description": "First digits of the SHA-256 of the model file."},
        "queries": {
            "type": "array",
            "items": {
                "type": "object",
                "properties": {"id": _ID, "documents": {"type": "array", "items": _DOCUMENT}},
            },
        },
    },
}

_EXAMPLE: Final = {
    "queries": [{"id": "q1", "documents": ["a", "b"], "features": [[0.5, 1.0], [3.0, 0.0]]}],
    "k": 10,
}

_RERANK: Final = {
    "type": "object",
    "additionalProperties": False,
    "required": ["documents"],
    "properties": {
        "query": {"type": "string", "description": "The query; it is not read: features of the query are features."},
        "documents": {
            "type": "array",
            "description": "Documents with the inputs of the model, as objects or as JSON text.",
            "items": {"anyOf": [{"type": "object"}, {"type": "string"}]},
        },
        "top_n": {"type": ["integer", "null"], "minimum": 1, "description": "How many documents; all by default."},
        "return_documents": {"type": ["boolean", "null"], "default": False, "description": "Whether to return them."},
        "model": {"description": "Not used: there is one model."},
        "rank_fields": {"description": "Not used: the model has its inputs."},
        "max_chunks_per_doc": {"description": "Not used."},
        "max_tokens_per_doc": {"description": "Not used."},
    },
}

_RESULTS: Final = {
    "type": "object",
    "properties": {
        "model": {"type": "string", "description": "First digits of the SHA-256 of the model file."},
        "results": {
            "type": "array",
            "items": {
                "type": "object",
                "properties": {
                    "index": {"type": "integer", "description": "Number of the document in the request, from 0 on."},
                    "relevance_score": {"type": "number", "description": "The score, which is any number."},
                    "document": {"type": "object"},
                },
            },
        },
    },
}

_RERANK_EXAMPLE: Final = {
    "query": "garden spade",
    "documents": [{"text": "A spade.", "bm25": 7.1, "clicks": 3}, {"text": "A rake.", "bm25": 2.5, "clicks": 40}],
    "top_n": 1,
}

_REASON: Final = {"type": "object", "properties": {"error": {"type": "string"}}}


def _json(schema: dict[str, Any], **more: Any) -> dict[str, Any]:
    return {"application/json": {"schema": schema, **more}}


REQUEST_BODY: Final = {"requestBody": {"required": True, "content": _json(_REQUEST, example=_EXAMPLE)}}
RESPONSES: Final[dict[int | str, dict[str, Any]]] = {
    200: {"description": "Documents of each query, best first.", "content": _json(_RANKING)},
    400: {"description": "The body is not JSON.", "content": _json(_REASON)},
    408: {"description": "The body did not arrive in time.", "content": _json(_REASON)},
    413: {"description": "The request or its response is too large.", "content": _json(_REASON)},
    415: {"description": "The Content-Type is not application/json.", "content": _json(_REASON)},
    422: {"description": "The request does not fit the model.", "content": _json(_REASON)},
    503: {"description": "Ranking took too long, or the service is busy.", "content": _json(_REASON)},
}
RERANK_BODY: Final = {"requestBody": {"required": True, "content": _json(_RERANK, example=_RERANK_EXAMPLE)}}
RERANK_RESPONSES: Final = {**RESPONSES, 200: {"description": "Documents, best first.", "content": _json(_RESULTS)}}
