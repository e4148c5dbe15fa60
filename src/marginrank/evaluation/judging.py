"""From scores or runs, and judgements, to ranked grades."""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from marginrank.data.grouping import offsets_from_sizes
from marginrank.data.queries import Queries
from marginrank.data.text import as_text
from marginrank.data.trec import Qrels, Run
from marginrank.errors import DataError
from marginrank.evaluation.policies import Ties
from marginrank.measures.rankings import Rankings, rank_by
from marginrank.typing import AnyArray, BoolArray, FloatArray, IntArray


def judge_scores(
    queries: Queries, scores: FloatArray, ties: Ties, needed: int | None, depth: int | None, n_jobs: int | None
) -> Rankings:
    """Rank judged documents by score, no deeper than needed."""
    grades, offsets = queries.grades, queries.offsets
    prefer = _preference(ties, grades, queries.document_ids)
    # One rank more than counts shows whether a tie goes on beyond what counts.
    look = None if needed is None else needed + (ties == "average")
    order, ranked_offsets = rank_by(scores, offsets, depth=look, prefer=prefer, n_jobs=n_jobs)
    tied = _tied(scores[order], ranked_offsets) if ties == "average" else None
    if tied is not None and not tied.any():
        tied = None
    elif tied is not None and look is not None:
        order, ranked_offsets = rank_by(scores, offsets, n_jobs=n_jobs)
        tied = _tied(scores[order], ranked_offsets)
    rankings = Rankings(grades[order], ranked_offsets, grades, offsets, tied)
    return rankings if depth is None else _cut(rankings, depth)


def judge_run(qrels: Qrels, run: Run, ties: Ties, missing_topics: str, depth: int | None) -> tuple[IntArray, Rankings]:
    """Look up the judgements of retrieved documents, topic by topic; what was not judged has grade 0.

    Returns:
        Numbers of the topics that count, and what the run ranks for them.
    """
    place = {topic: t for t, topic in enumerate(run.topics.tolist())}
    topics = _topics_to_judge(qrels, run, missing_topics, place)
    lists = [place.get(topic, -1) for topic in qrels.topics[topics].tolist()]
    scores, documents, grades, judgements, pools = [], [], [], [], []
    for topic, place_in_run in zip(topics.tolist(), lists, strict=True):
        judged = slice(qrels.offsets[topic], qrels.offsets[topic + 1])
        retrieved = (
            slice(run.offsets[place_in_run], run.offsets[place_in_run + 1]) if place_in_run >= 0 else slice(0, 0)
        )
        names = run.document_ids[retrieved]
        retrieved_grades, is_judged, other_grades = _look_up(names, qrels.document_ids[judged], qrels.grades[judged])
        scores.append(run.scores[retrieved])
        documents.append(names)
        grades.append(retrieved_grades)
        judgements.append(is_judged)
        pools.append(np.concatenate([retrieved_grades, other_grades]))
    offsets = offsets_from_sizes([len(part) for part in grades])
    flat_scores, flat_grades = np.concatenate(scores), np.concatenate(grades)
    prefer = _preference(ties, flat_grades, np.concatenate(documents))
    order, _ = rank_by(flat_scores, offsets, prefer=prefer)
    tied = _tied(flat_scores[order], offsets) if ties == "average" else None
    pool_offsets = offsets_from_sizes([len(part) for part in pools])
    judged_documents = np.concatenate(judgements)[order]
    rankings = Rankings(flat_grades[order], offsets, np.concatenate(pools), pool_offsets, tied, judged=judged_documents)
    return topics, rankings if depth is None else _cut(rankings, depth)


def _topics_to_judge(qrels: Qrels, run: Run, missing_topics: str, place: dict[str, int]) -> IntArray:
    present = np.array([topic in place for topic in qrels.topics.tolist()])
    if not present.any():
        raise DataError(
            f"no topic of run {run.tag!r} ({', '.join(map(str, run.topics[:3]))}, ...) has judgements "
            f"({', '.join(map(str, qrels.topics[:3]))}, ...); do the files belong together?"
        )
    if missing_topics == "error" and not present.all():
        raise DataError(
            f"topic {qrels.topics[~present][0]} and {np.count_nonzero(~present) - 1} others have judgements but no "
            f"documents in run {run.tag!r}; pass missing_topics='skip' to leave them out (trec_eval's habit) "
            "or 'zero' to count them as 0 (trec_eval -c)".replace(" and 0 others have", " has", 1)
        )
    return np.arange(len(qrels)) if missing_topics == "zero" else np.flatnonzero(present)


def _look_up(names: AnyArray, judged: AnyArray, grades: FloatArray) -> tuple[FloatArray, BoolArray, FloatArray]:
    """Grades of the named documents, 0 where not judged; whether they are; grades of the judged ones not named."""
    grade_of = dict(zip(judged.tolist(), grades.tolist(), strict=True))
    looked_up = np.array([grade_of.pop(name, np.nan) for name in names.tolist()], dtype=np.float64)
    return np.nan_to_num(looked_up), ~np.isnan(looked_up), np.array(list(grade_of.values()), dtype=np.float64)


def _preference(ties: Ties, grades: FloatArray, document_ids: AnyArray | None) -> FloatArray | None:
    """Number by which documents with equal scores are ordered, descending; None for input order."""
    match ties:
        case "worst":
            return -grades
        case "document_id":
            if document_ids is None:
                raise DataError(
                    "this policy breaks ties by document id, but the documents have none; give document_ids"
                )
            rank = np.empty(len(document_ids))
            rank[np.argsort(as_text(document_ids), kind="stable")] = np.arange(len(document_ids))
            return rank
        case _:
            return None


def _tied(scores: FloatArray, offsets: IntArray) -> BoolArray:
    """Whether each ranked document has the score of the one before it in its list."""
    tied = np.zeros(len(scores), dtype=np.bool_)
    tied[1:] = scores[1:] == scores[:-1]
    tied[offsets[:-1][np.diff(offsets) > 0]] = False
    return tied


def _cut(rankings: Rankings, depth: int) -> Rankings:
    """Keep the first documents of each list; what comes after is judged but not retrieved."""
    if rankings.tied is not None:
        return replace(rankings, depth=depth)
    sizes = np.diff(rankings.offsets)
    rank = np.arange(len(rankings.grades)) - np.repeat(rankings.offsets[:-1], sizes)
    kept = rank < depth
    return replace(
        rankings,
        grades=rankings.grades[kept],
        offsets=offsets_from_sizes(np.minimum(sizes, depth)),
        judged=None if rankings.judged is None else rankings.judged[kept],
    )
