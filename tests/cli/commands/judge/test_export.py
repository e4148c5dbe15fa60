"""`marginrank judge export`: CSV, TREC judgements, Quepid."""

from __future__ import annotations

from pathlib import Path

from marginrank.judging import JudgementStore, read_judgements


def test_a_database_becomes_csv_trec_and_quepid(run):
    with JudgementStore(Path("judged.db")) as store:
        store.add_documents([("1", "a"), ("1", "b")])
        for number, (document, rater, grade) in enumerate([(1, "ann", 2.0), (2, "ann", 0.0), (1, "bob", 1.0)]):
            store.decide(str(number), document, rater, grade)
    done = run("judge", "export", "judged.db", "-o", "all.csv", "--json")
    assert done.json == {"output": "all.csv", "format": "csv", "raters": ["ann", "bob"], "grades": 3, "documents": 2}
    assert Path("all.csv").read_text() == "query_id,document_id,rater,grade\n1,a,ann,2\n1,a,bob,1\n1,b,ann,0\n"
    assert run("judge", "export", "judged.db", "--rater", "ann", "-o", "ann.qrels").code == 0
    assert Path("ann.qrels").read_text() == "1 0 a 2\n1 0 b 0\n"
    assert run("judge", "export", "judged.db", "--format", "quepid", "-o", "book.csv").code == 0
    assert Path("book.csv").read_text() == "query,docid,ann,bob\n1,a,2,1\n1,b,0,\n"
    assert list(read_judgements("book.csv").rows()) == list(read_judgements("judged.db").rows())


def test_two_raters_are_no_trec_judgements(fails):
    said = fails("judge", "export", "raters.csv", "-o", "all.qrels", code=1)
    assert said.endswith("those of ann, bob; choose a rater, or merge their grades first\n")


def test_an_unknown_rater_is_refused(fails):
    assert "no rater is called 'an'; did you mean 'ann'?" in fails(
        "judge", "export", "raters.csv", "--rater", "an", "-o", "x.csv", code=1
    )
