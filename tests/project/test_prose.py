"""The prose checker finds what it should, and leaves code alone; ``make lint`` runs it over the repository."""

import pytest

from tests.project import prose


@pytest.mark.parametrize(
    ("text", "places"),
    [
        ("An interval of 95 %.", [(1, "5 %")]),
        ("Two lines,\nand the way out.", [(2, "way out")]),
        ("Training goes on. The disk is full.", [(1, "goes on")]),
        ("`5 %` and\n```text\n5 %\n```\nare code, as is [a link](5 %).", []),
        ("An interval of 95%. There is no model; it goes on to the next query.", []),
    ],
)
def test_phrases_in_markdown_are_found_with_their_lines(text, places):
    assert [(problem.line, problem.phrase) for problem in prose.in_markdown(text)] == places


@pytest.mark.parametrize(
    ("source", "places"),
    [
        ('"""How queries are read."""', [(1, "How")]),
        ('class A:\n    """What a rater is like."""', [(2, "What")]),
        ('def f():\n    """Return it.\n\n    Weights are least there.\n    """', [(4, "are least")]),
        ('raise ValueError(f"{x} is no number; give one")', [(1, "is no number")]),
        ('def f():\n    """Return x, as ``5 %`` and\n\n    >>> f("5 %")\n    """', []),
        ("x = 5 % 3  # the way out", []),
    ],
)
def test_phrases_in_docstrings_and_messages_are_found_with_their_lines(source, places):
    assert [(problem.line, problem.phrase) for problem in prose.in_python(source)] == places


def test_problems_are_printed_and_counted(tmp_path, monkeypatch, capsys):
    monkeypatch.setattr(prose, "ROOT", tmp_path)
    (tmp_path / "a.md").write_text("It is 5 % and\nturns out to be 6 %.")
    assert prose.main(["a.md"]) == 3
    assert capsys.readouterr().out.splitlines()[1] == "a.md:2: '6 %': write a percent sign without a space"
