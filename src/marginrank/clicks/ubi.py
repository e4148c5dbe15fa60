"""Reader of OpenSearch User Behavior Insights: queries and events."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any, Literal

from marginrank.clicks.click_log import ClickLog
from marginrank.data.formats.text_files import Paths, line_blocks, list_paths
from marginrank.errors import DataError, Parameter


def read_ubi(
    paths: Paths,
    *,
    application: str | None = None,
    impressions: Literal["events", "response"] = "events",
    impression_action: str = "impression",
    click_action: str = "click",
    unmatched: Literal["error", "drop"] = "error",
    positions_from: Literal[0, 1] = 1,
    merge: bool = True,
) -> ClickLog:
    """Read the queries and events of User Behavior Insights, as JSON Lines or in the bulk format.

    Queries are those with the same ``user_query``, impressions have a ``query_id``. Repeated events of a document in an
    impression count once, at its first position.

    Args:
        paths: One or several files, which may be compressed; queries and events may be in one file.
        application: Read this application only.
        impressions: What was shown: ``events`` with the action of impressions, or the ``query_response_hit_ids`` of the
            queries, in their order.
        impression_action: ``action_name`` of impressions.
        click_action: ``action_name`` of clicks.
        unmatched: Whether clicks on documents without an impression are an error, or left out.
        positions_from: 0 if the first ``ordinal`` is 0.
        merge: Whether impressions of the same ``user_query`` are one query.
    """
    shown: dict[tuple[str, str], float] = {}
    clicks: dict[tuple[str, str], tuple[Path, int]] = {}
    texts: dict[str, str] = {}
    for path, line, record in _records(list_paths(paths)):
        if application is not None and record.get("application") != application:
            continue
        query = str(record.get("query_id"))
        if record.get("user_query"):
            texts.setdefault(query, str(record["user_query"]))
        action = record.get("action_name")
        if action is None and impressions == "response":
            for number, hit in enumerate(record.get("query_response_hit_ids") or ()):
                shown.setdefault((query, str(hit)), number + positions_from)
        elif action == click_action or (action == impression_action and impressions == "events"):
            name, place = _object(record, path, line)
            if action == click_action:
                clicks.setdefault((query, name), (path, line))
            else:
                shown.setdefault((query, name), place)
    return _log(shown, clicks, texts, impressions, unmatched, positions_from, merge)


def _records(paths: list[Path]) -> Iterator[tuple[Path, int, dict[str, Any]]]:
    for path in paths:
        line = 0
        for block in line_blocks(path):
            for text in block.splitlines():
                line += 1
                if not text.strip():
                    continue
                try:
                    record = json.loads(text)
                except ValueError:
                    raise DataError("this is not JSON; write one object per line", path=path, line=line) from None
                if not isinstance(record, dict):
                    raise DataError("this is not an object; write one per line", path=path, line=line)
                if set(record) not in ({"index"}, {"create"}):  # actions of the bulk format
                    yield path, line, record


def _object(record: dict[str, Any], path: Path, line: int) -> tuple[str, float]:
    """Return the document and the position of an event."""
    attributes = record.get("event_attributes") or {}
    name = (attributes.get("object") or {}).get("object_id")
    place = (attributes.get("position") or {}).get("ordinal")
    if name is None:
        raise DataError("this event has no event_attributes.object.object_id; drop it", path=path, line=line)
    return str(name), float("nan") if place is None else float(place)


def _log(
    shown: dict[tuple[str, str], float],
    clicks: dict[tuple[str, str], tuple[Path, int]],
    texts: dict[str, str],
    impressions: str,
    unmatched: str,
    positions_from: Literal[0, 1],
    merge: bool,
) -> ClickLog:
    lost = [key for key in clicks if key not in shown]
    if lost and unmatched == "error":
        path, line = clicks[lost[0]]
        raise DataError(
            f"a click on document {lost[0][1]} of query_id {lost[0][0]}, which has no impression "
            f"({len(lost)} of {len(clicks)} clicks have none); leave them out with ",
            Parameter("unmatched", "drop"),
            path=path,
            line=line,
        )
    if not shown:
        other = "response" if impressions == "events" else "events"
        raise DataError("there are no impressions; name their action, or try ", Parameter("impressions", other))
    return ClickLog.from_arrays(
        [texts.get(query, query) for query, _ in shown],
        [name for _, name in shown],
        list(shown.values()),
        [key in clicks for key in shown],
        impression=[query for query, _ in shown],
        positions_from=positions_from,
        merge=merge,
    )
