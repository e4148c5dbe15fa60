"""The published collections, counted: queries, documents, features, grades, missing values, folds."""

from __future__ import annotations

from collections.abc import Callable
from functools import cache
from pathlib import Path

import numpy as np
import pytest

from marginrank.data.formats.letor import read_letor
from marginrank.data.queries import Queries
from marginrank.data.reader import read_queries

SharedData = Callable[[str], Path]

#: Per part: queries, documents, documents per grade, queries without a relevant document, least and most documents.
Counts = tuple[int, int, tuple[int, ...], int, tuple[int, int]]

OHSUMED: dict[str, Counts] = {
    "S1": (21, 2570, (1751, 451, 368), 1, (35, 235)),
    "S2": (21, 3076, (2162, 501, 413), 0, (41, 320)),
    "S3": (21, 3573, (2139, 813, 621), 0, (74, 288)),
    "S4": (21, 3538, (2457, 546, 535), 0, (88, 289)),
    "S5": (22, 3383, (2794, 274, 315), 0, (58, 295)),
    "total": (106, 16140, (11303, 2585, 2252), 1, (35, 320)),
}
MQ2008: dict[str, Counts] = {
    "1": (157, 2933, (2316, 427, 190), 52, (6, 118)),
    "2": (157, 3635, (3080, 385, 170), 45, (5, 121)),
    "3": (157, 3062, (2424, 411, 227), 35, (5, 119)),
    "4": (157, 2707, (2140, 400, 167), 37, (6, 118)),
    "5": (156, 2874, (2319, 378, 177), 51, (6, 119)),
    "total": (784, 15211, (12279, 2001, 931), 220, (5, 121)),
}

#: Per collection: folder, features, missing values, counts.
FIVE_PARTS: dict[str, tuple[str, int, int, dict[str, Counts]]] = {
    "OHSUMED 2.0": ("letor2-ohsumed", 25, 0, OHSUMED),
    "OHSUMED 3.0 QueryLevelNorm": ("letor3-ohsumed/QueryLevelNorm", 45, 0, OHSUMED),
    "OHSUMED 3.0 Feature-min": ("letor3-ohsumed/Feature-min", 45, 0, OHSUMED),
    "OHSUMED 3.0 Feature-null": ("letor3-ohsumed/Feature-null", 45, 51490, OHSUMED),
    "MQ2008": ("letor4-mq2008", 46, 0, {k if k == "total" else f"S{k}": v for k, v in MQ2008.items()}),
    "MQ2008-agg": ("letor4-mq2008-agg", 25, 247320, {k if k == "total" else f"A{k}": v for k, v in MQ2008.items()}),
}


def counts(queries: Queries) -> Counts:
    grades = np.bincount(queries.grades.astype(int))
    without = sum(not query.grades.any() for query in queries)
    spread = (int(queries.lengths.min()), int(queries.lengths.max()))
    return len(queries), queries.n_documents, tuple(grades.tolist()), without, spread


@cache
def read_parts(folder: Path, missing: str) -> dict[str, Queries]:
    return {path.name.split(".")[0]: read_letor(path, missing=missing) for path in sorted(folder.glob("[SA]?.txt.xz"))}


@pytest.fixture(params=FIVE_PARTS)
def collection(request: pytest.FixtureRequest, shared_data: SharedData) -> str:
    shared_data(FIVE_PARTS[request.param][0])
    return request.param


def parts_of(collection: str, shared_data: SharedData) -> dict[str, Queries]:
    folder, _, n_missing, _ = FIVE_PARTS[collection]
    return read_parts(shared_data(folder), "nan" if n_missing else "error")


def test_every_part_has_its_published_counts(collection: str, shared_data: SharedData) -> None:
    _, n_features, n_missing, published = FIVE_PARTS[collection]
    parts = parts_of(collection, shared_data)
    assert len(parts) == 5
    found = {name: counts(part) for name, part in parts.items()}
    whole = Queries.concatenate(parts.values())
    found["total"] = counts(whole)
    assert found == published
    assert whole.n_features == n_features
    assert not whole.is_sparse
    assert np.isnan(whole.X).sum() == n_missing


def test_every_document_has_a_name(collection: str, shared_data: SharedData) -> None:
    for part in parts_of(collection, shared_data).values():
        assert all(part.document_ids.tolist())
        assert all(len(set(query.document_ids.tolist())) == query.n_documents for query in part)


def test_five_folds_are_rebuilt_from_the_parts(collection: str, shared_data: SharedData) -> None:
    folder, _, n_missing, published = FIVE_PARTS[collection]
    parts = parts_of(collection, shared_data)
    names = list(parts)
    for fold in range(5):
        order = names[fold:] + names[:fold]
        train = Queries.concatenate(parts[name] for name in order[:3])
        # Text takes long to read: all folds of the smallest collection, and one of the others, whose parts wrap around.
        if fold == 3 or collection == "MQ2008-agg":
            files = [shared_data(folder) / f"{name}.txt.xz" for name in order[:3]]
            found = read_letor(files, missing="nan" if n_missing else "error")
            np.testing.assert_array_equal(found.X, train.X)
            for column in ("grades", "offsets", "query_ids", "document_ids"):
                np.testing.assert_array_equal(getattr(found, column), getattr(train, column), err_msg=column)
            train = found
        for part, members in ((train, order[:3]), (parts[order[3]], order[3:4]), (parts[order[4]], order[4:])):
            assert len(part) == sum(published[name][0] for name in members)
            assert part.n_documents == sum(published[name][1] for name in members)
        ids = [set(part.query_ids.tolist()) for part in (train, parts[order[3]], parts[order[4]])]
        assert len(set.union(*ids)) == sum(map(len, ids)) == published["total"][0]


def test_the_least_value_of_the_query_is_what_the_publisher_filled_in(shared_data: SharedData) -> None:
    """LETOR 3.0's *min* files are its *null* files, missing values replaced by the query's least.

    All but BM25 and its logarithm, features 11, 12, 26, 27, 41 and 42: there the publisher put 0.
    """
    filled = read_parts(shared_data("letor3-ohsumed/Feature-null"), "min")
    missing = read_parts(shared_data("letor3-ohsumed/Feature-null"), "nan")
    published = read_parts(shared_data("letor3-ohsumed/Feature-min"), "error")
    bm25 = np.isin(np.arange(1, 46), [11, 12, 26, 27, 41, 42])
    for name, part in published.items():
        np.testing.assert_array_equal(filled[name].X[:, ~bm25], part.X[:, ~bm25])
        np.testing.assert_array_equal(np.nan_to_num(missing[name].X[:, bm25], nan=0.0), part.X[:, bm25])
        np.testing.assert_array_equal(filled[name].document_ids, part.document_ids)


def test_three_variants_judge_the_same_documents(shared_data: SharedData) -> None:
    first, second, third = (
        Queries.concatenate(parts_of(f"OHSUMED 3.0 {name}", shared_data).values())
        for name in ("QueryLevelNorm", "Feature-min", "Feature-null")
    )
    for other in (second, third):
        for column in ("grades", "offsets", "query_ids", "document_ids"):
            np.testing.assert_array_equal(getattr(first, column), getattr(other, column), err_msg=column)


def test_features_normalized_per_query_are_between_0_and_1(shared_data: SharedData) -> None:
    for name in ("OHSUMED 3.0 QueryLevelNorm", "MQ2008"):
        for part in parts_of(name, shared_data).values():
            assert part.X.min() == 0
            assert part.X.max() == 1


@pytest.mark.parametrize(
    ("name", "expected"),
    [
        ("train", (43, 5000, (2792, 1458, 665, 55, 30), 2, (18, 308))),
        ("test", (43, 5000, (2847, 1442, 579, 98, 34), 0, (26, 229))),
    ],
)
def test_mslr_sample(shared_data: SharedData, name: str, expected: Counts) -> None:
    queries = read_queries(shared_data("mslr-web30k-sample") / f"msn1.fold1.{name}.5k.txt.xz")
    assert counts(queries) == expected
    assert queries.n_features == 136
    assert queries.document_ids is None


@pytest.mark.parametrize(
    ("name", "n_queries", "grades", "spread", "used"),
    [
        ("train", 201, (645, 1211, 858, 222, 69), (1, 27), 218),
        ("test", 50, (206, 256, 252, 44, 10), (6, 24), 217),
    ],
)
def test_lightgbm_example(
    shared_data: SharedData, name: str, n_queries: int, grades: tuple[int, ...], spread: tuple[int, int], used: int
) -> None:
    queries = read_queries(shared_data("lightgbm-lambdarank") / f"rank.{name}.xz", sparse=True)
    assert counts(queries)[:3] == (n_queries, sum(grades), grades)
    assert counts(queries)[4] == spread
    assert queries.n_features == 300
    assert len(np.unique(queries.X.indices)) == used
