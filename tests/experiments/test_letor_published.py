"""The publisher's tables are read from its own files, whatever the format."""

from __future__ import annotations

import zipfile

from experiments.letor_published import fold_values, mean_of, published, read_sheet

TEXT = """Algorithm: RankBoost
Dataset:   MQ2008

Performance on testing set
Folds	NDCG@1	NDCG@2	MeanNDCG
Fold1	0.30	0.40	0.5
Fold2	0.50	0.20	0.5
average	0.40	0.30	0.5

Folds	Pre@1	MAP
Fold1	0.10	0.45
Fold2	0.20	0.55
average	0.15	0.50

Performance on validation set
Folds	NDCG@1	NDCG@2	MeanNDCG
Fold1	0.99	0.99	0.99
"""
SHEET = """<?xml version="1.0"?>
<root xmlns:table="urn:oasis:names:tc:opendocument:xmlns:table:1.0" xmlns:text="text">
<table:table table:name="Average"><table:table-row/></table:table>
<table:table table:name="RankSVM">
 <table:table-row><table:table-cell><text:p>Performance on the test set</text:p></table:table-cell></table:table-row>
 <table:table-row><table:table-cell><text:p>Trials</text:p></table:table-cell>
  <table:table-cell><text:p>MAP</text:p></table:table-cell>
  <table:table-cell table:number-columns-repeated="1020"/></table:table-row>
 <table:table-row><table:table-cell><text:p>1</text:p></table:table-cell>
  <table:table-cell table:number-columns-repeated="2"><text:p>0,25</text:p></table:table-cell></table:table-row>
</table:table></root>"""


def test_text_with_folds_of_the_test_set_only():
    found = fold_values([line.split("\t") for line in TEXT.splitlines()])
    assert found == {
        "ndcg@1": [0.3, 0.5],
        "ndcg@2": [0.4, 0.2],
        "meanndcg": [0.5, 0.5],
        "p@1": [0.1, 0.2],
        "ap": [0.45, 0.55],
    }


def test_sheet_of_an_open_document(tmp_path):
    path = tmp_path / "tables.ods"
    with zipfile.ZipFile(path, "w") as file:
        file.writestr("content.xml", SHEET)
    rows = read_sheet(path, "RankSVM")
    assert rows == [["Performance on the test set"], ["Trials", "MAP", ""], ["1", "0,25", "0,25"]]
    assert fold_values(rows) == {"ap": [0.25]}


def test_tables_that_are_not_there_are_left_out(tmp_path):
    assert list(published(tmp_path)) == ["ohsumed"]


def test_tables_beside_the_data_are_found(tmp_path):
    folder = tmp_path / "letor4-baselines"
    folder.mkdir()
    for name in ("RankBoost", "RankSVM-Struct"):
        (folder / f"{name}.MQ2008.txt").write_text(TEXT, encoding="utf-8")
    found = published(tmp_path)
    assert mean_of(found, "mq2008", "rankboost", "ap") == 0.5
    assert mean_of(found, "mq2008", "rankboost", "rr") is None
