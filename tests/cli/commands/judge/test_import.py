"""`marginrank judge import`: tables of judgements become one."""

from __future__ import annotations

from pathlib import Path

from marginrank.judging import read_judgements


def test_tables_become_one_that_is_read_back(run):
    Path("more.csv").write_text('qid,doc,annotator,label\n1,doc0,llm,2\n1,"doc,1",llm,0.5\n9,x,llm,\n')
    done = run("judge", "import", "raters.csv", "more.csv", "-o", "judgements.csv", "--json")
    assert done.json == {"output": "judgements.csv", "raters": ["ann", "bob", "llm"], "grades": 82, "documents": 41}
    lines = Path("judgements.csv").read_text().splitlines()
    assert lines[0] == "query_id,document_id,rater,grade"
    assert '1,"doc,1",llm,0.5' in lines
    assert "1,doc0,llm,2" in lines
    assert len(lines) == 83
    assert list(read_judgements("judgements.csv").rows()) == sorted(
        [*read_judgements("raters.csv").rows(), ("1", "doc0", "llm", 2.0), ("1", "doc,1", "llm", 0.5)]
    )


def test_one_rater_in_two_tables_is_refused(fails):
    Path("more.csv").write_text("qid,doc,annotator,label\n1,doc0,ann,2\n")
    said = fails("judge", "import", "raters.csv", "more.csv", "-o", "judgements.csv", code=1)
    assert said == "error: two tables have a rater 'ann'; rename one\n"


def test_columns_of_raters_are_named_by_the_option_that_the_error_gives(run, fails):
    Path("sheet.csv").write_text("query,doc,comment,ann,bob\nmilk,d1,fine,1,2\n")
    said = fails("judge", "import", "sheet.csv", "-o", "all.csv", code=1)
    assert said.endswith("name the column of grades with --grade, or those of raters with --rater-grades\n")
    assert run("judge", "import", "sheet.csv", "--rater-grades", "ann,bob", "-o", "all.csv").code == 0
    assert [row[2:] for row in read_judgements("all.csv").rows()] == [("ann", 1.0), ("bob", 2.0)]
