"""Bad logs: each has a clear answer, from arrays, frames and files, whether rows are added up or not."""

from __future__ import annotations

import re

import numpy as np
import pandas as pd
import pytest

from marginrank import DataError, Ranker
from marginrank.clicks import (
    Propensities,
    compare_interleaved,
    estimate_propensities,
    evaluate_clicks,
    read_clicks,
)
from marginrank.errors import ParameterError

#: A log of two rankers, which move documents between two positions.
GOOD = pd.DataFrame(
    {
        "query": ["a", "a", "a", "a", "b", "b", "b", "b"],
        "document_id": ["x", "y", "y", "x", "x", "z", "z", "x"],
        "position": [1, 2, 1, 2, 1, 2, 1, 2],
        "clicked": [1, 0, 0, 1, 0, 1, 1, 0],
        "impression": [1, 1, 2, 2, 3, 3, 4, 4],
        "system": ["s", "s", "t", "t", "s", "s", "t", "t"],
    },
    index=[7, 7, 3, 1, 0, 9, 9, 2],
)

#: What is changed, and what reading it says, with the way out.
READING = {
    "positions from 0": (
        {"position": GOOD.position - 1},
        "row 0 of column 'position' is 0; positions count from 1; if yours count from 0, pass positions_from=0",
    ),
    "negative position": ({"position": [1, 2, -1, 2, 1, 2, 1, 2]}, "row 2 of column 'position' is -1"),
    "click without an impression": (
        {"position": [1, 2, 1, None, 1, 2, 1, 2]},
        "row 3 of column 'position' is missing, but the row has a click: a click without an impression; drop it",
    ),
    "no position": ({"position": [1, None, 1, 2, 1, 2, 1, 2]}, "row 1 of column 'position' is missing; every shown"),
    "clicks that count": ({"clicked": [3, 0, 0, 1, 0, 1, 1, 0]}, "row 0 of column 'clicked' is 3; it must be 0 or 1"),
    "clicks in words": ({"clicked": ["yes"] * 8}, "not numbers"),
    "propensity 0": (
        {"propensity": [1, 0.5, 1, 0, 1, 0.5, 1, 0.5]},
        "row 3 of column 'propensity' is 0; a propensity is the probability that a position is examined, above 0 and",
    ),
    "propensity above 1": ({"propensity": [1, 0.5, 1, 1.2, 1, 1, 1, 1]}, "row 3 of column 'propensity' is 1.2"),
    "missing propensity": ({"propensity": [1, None, 1, 1, 1, 1, 1, 1]}, "row 1 of column 'propensity' is nan"),
    "negative weight": ({"weight": [1, 1, 1, -2, 1, 1, 1, 1]}, "row 3 of column 'weight' is -2; weights must not be"),
    "query without an id": ({"query": ["a", None, *"aabbbb"]}, "row 1 of column 'query' has no value"),
    "document without an id": (
        {"document_id": ["x", "y", None, *"xxzzx"]},
        "row 2 of column 'document_id' has no value",
    ),
}
#: Only known while impressions are: rows that are added up have none.
REPEATS = {
    "document twice": (
        {"document_id": ["x", "x", *"yxxzzx"]},
        "row 1 shows document x again in impression 1; keep one",
    ),
    "two at a position": (
        {"position": [1, 1, 1, 2, 1, 2, 1, 2]},
        "row 1 is a second document at position 1 of impress",
    ),
}


def written(frame, folder, door):
    path = folder / f"log{door}"
    if door == "frame":
        return frame
    if door == ".parquet":
        frame.to_parquet(path, index=False)
    elif door == ".jsonl":
        frame.to_json(path, orient="records", lines=True)
    else:
        frame.to_csv(path, index=False)
    return path


@pytest.mark.parametrize("door", ["frame", ".csv", ".jsonl", ".parquet"])
def test_bad_rows_are_named(door, tmp_path):
    for aggregate, cases in ((False, READING | REPEATS), (True, READING)):
        for name, (changes, said) in cases.items():
            source = written(GOOD.assign(**changes), tmp_path, door)
            with pytest.raises(DataError, match=re.escape(said)):
                pytest.fail(f"{name}: {read_clicks(source, aggregate=aggregate)}")


@pytest.mark.parametrize(
    ("changes", "said"),
    [
        ({"clicked": [0] * 8}, "the log has no clicks; nothing can be estimated from it"),
        (
            {"clicked": [1] * 8},
            "every shown document was clicked; log the documents that were shown without a click too",
        ),
        ({"position": [1] * 8, "impression": range(8)}, "position 1 only; .* log at least two"),
        ({"system": ["s"] * 8}, "of one ranker; .* method='swap'"),
        ({"document_id": [*"xyxyzvzv"]}, "at position 2 and at one that is connected .* log more rankers"),
        ({"clicked": [1, 0, 1, 0, 1, 0, 1, 0]}, "no click at position 2; estimate the positions above, with depth=1"),
    ],
)
def test_logs_that_cannot_identify_propensities_are_refused(changes, said):
    log = read_clicks(GOOD.assign(**changes))
    for method in ("harvest", "em"):
        if "ranker;" in said and method == "em":
            continue  # needs no rankers
        with pytest.raises(DataError, match=said):
            estimate_propensities(log, method)


def test_impressions_that_were_kept_apart_identify_nothing():
    with pytest.raises(DataError, match="merge impressions of the same query if they were kept apart"):
        estimate_propensities(read_clicks(GOOD, merge=False))


def test_logs_without_contrast_train_and_evaluate_nothing():
    features = pd.DataFrame({"document_id": ["x", "y", "z"], "f": [1.0, 2.0, 3.0]})
    curve = Propensities.power(1.0, 2)
    silent = read_clicks(GOOD.assign(clicked=0)).with_features(features).with_propensities(curve)
    with pytest.raises(DataError, match="no clicks; there is nothing to learn"):
        Ranker("ranksvm").fit(silent)
    with pytest.raises(DataError, match="no clicks; nothing can be evaluated"):
        evaluate_clicks(silent, silent.documents.feature("f"))
    with pytest.raises(DataError, match="no clicks; no ranker can be preferred"):
        compare_interleaved(silent)


def test_unknown_documents_and_columns_are_named():
    log = read_clicks(GOOD)
    table = pd.DataFrame({"document_id": ["x", "z"], "f": [1.0, 3.0]})
    with pytest.raises(DataError, match=r"document y \(query a\) is not in the table of features.*unknown='drop'"):
        log.with_features(table)
    assert log.with_features(table, unknown="drop").documents.document_names.tolist() == ["x", "x", "z"]
    with pytest.raises(DataError, match=r"document x appears twice in the table of features; .* with qid="):
        log.with_features(pd.concat([table, table]))
    with pytest.raises(DataError, match=r"no column 'bm52'; did you mean 'bm25'"):
        read_clicks(GOOD.assign(bm25=1.0), features=["bm52"])
    with pytest.raises(DataError, match=r"column 'system' holds .* not numbers"):
        read_clicks(GOOD, features=["system"])


@pytest.mark.parametrize(
    ("values", "error", "said"),
    [
        ([1.0, 0.0], DataError, "row 1 of column 'propensity' is 0"),
        ([1.0, 1.5], DataError, "row 1 of column 'propensity' is 1.5"),
        ([1.0, np.nan], DataError, "row 1 of column 'propensity' is nan"),
        ([1.0, -0.5], DataError, "row 1 of column 'propensity' is -0.5"),
    ],
)
def test_bad_curves_are_refused(values, error, said):
    with pytest.raises(error, match=said):
        Propensities.of(values)


def test_bad_settings_are_named():
    log = read_clicks(GOOD)
    for call, said in (
        (lambda: Propensities.power(-1.0, 3), "eta is -1"),
        (lambda: Propensities.of([1.0], clip=1.5), "clip is 1.5"),
        (lambda: Propensities.of([1.0, 0.5], trust=(0.5, 0.5)), "trust: relevant documents must be clicked more"),
        (lambda: estimate_propensities(log, "guess"), "method is 'guess'; choose harvest, swap, random or em"),
        (lambda: estimate_propensities(log, confidence=2.0), "confidence is 2"),
        (lambda: estimate_propensities(log, resamples=1), "resamples is 1"),
    ):
        with pytest.raises(ParameterError, match=said):
            call()


def test_arguments_of_other_tools_are_refused_with_the_way_to_train_on_clicks():
    with pytest.raises(TypeError, match=r"fit has no position; use fit\(log\) with a marginrank.clicks.ClickLog"):
        Ranker().fit([[1.0], [2.0]], [0, 1], group=[2], position=[1, 2])
    with pytest.raises(TypeError, match="Ranker has no lambdarank_unbiased; use fit"):
        Ranker(lambdarank_unbiased=True)
