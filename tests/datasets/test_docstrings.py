"""Docstrings in numpydoc format, and in formats that are almost it."""

from __future__ import annotations

import pytest

from marginrank.datasets.docstrings import Reference, parse_docstring, parse_see_also


def entries(section):
    return [(entry.names, entry.text) for entry in parse_see_also(section)]


@pytest.mark.parametrize(
    ("section", "expected"),
    [
        ("ravel : Flatten.", [(("ravel",), "Flatten.")]),
        ("ravel: Flatten.", [(("ravel",), "Flatten.")]),
        ("ravel -- Flatten.", [(("ravel",), "Flatten.")]),
        ("ravel\n    Flatten.", [(("ravel",), "Flatten.")]),
        ("ravel :\n    Flatten\n    an array.", [(("ravel",), "Flatten an array.")]),
        ("ravel : Flatten\n        an array.", [(("ravel",), "Flatten an array.")]),
        ("ravel, flat : Flatten.", [(("ravel", "flat"), "Flatten.")]),
        ("ravel, flat,\nreshape", [(("ravel", "flat"), ""), (("reshape",), "")]),
        ("ravel\nflat : Iterate.", [(("ravel",), ""), (("flat",), "Iterate.")]),
        ("ravel : A.\n\nflat : B.", [(("ravel",), "A."), (("flat",), "B.")]),
        (":func:`ravel` : Flatten.", [(("ravel",), "Flatten.")]),
        (":class:`~sklearn.svm.SVC` : Classify.", [(("sklearn.svm.SVC",), "Classify.")]),
        (":obj:`.SVC`, `LinearSVC` : Classify.", [(("SVC", "LinearSVC"), "Classify.")]),
        ("`scipy.fft.fft`", [(("scipy.fft.fft",), "")]),
        ("ravel() : Flatten.", [(("ravel",), "Flatten.")]),
        ("- ravel : Flatten.", [(("ravel",), "Flatten.")]),
        ("ndarray.sort : In place.", [(("ndarray.sort",), "In place.")]),
        ("ravel : Like ``flat``, see :func:`~numpy.flat`.", [(("ravel",), "Like flat, see numpy.flat.")]),
        ("ravel : A.\n.. [1] A book.\n    And its title.", [(("ravel",), "A.")]),
        ("ravel : A.\n    .. versionadded:: 1.2\n    B.", [(("ravel",), "A. B.")]),
        ("ravel : Ratio a : b.", [(("ravel",), "Ratio a : b.")]),
        ("Some prose that is no entry.\n    And goes on.\nravel : A.", [(("ravel",), "A.")]),
        ("", []),
    ],
)
def test_entries_of_see_also(section, expected):
    assert entries(section) == expected


@pytest.mark.parametrize(
    "title",
    [
        "See Also\n    --------",
        "See also\n    --------",
        "SEE ALSO:\n    ---------",
        "See Also\n    ========",
    ],
)
def test_see_also_is_taken_out_of_the_text(title):
    doc = parse_docstring(
        f"""Split an array.

    {title}
    hidden : Secret words.
    other

    Notes
    -----
    Kept.
    """
    )
    assert doc.references == (Reference(("hidden",), "Secret words."), Reference(("other",), ""))
    assert doc.text == "Split an array.\n\nNotes\n-----\nKept."
    assert doc.summary == "Split an array."


def test_see_also_at_the_end_as_a_directive_and_twice():
    doc = parse_docstring(
        """Split.

    .. seealso:: hidden
        Secret words.

    Kept.

    .. seealso::

        another : More secrets.

    See Also
    --------
    last : The end."""
    )
    assert [entry.names for entry in doc.references] == [("hidden",), ("another",), ("last",)]
    assert [entry.text for entry in doc.references] == ["Secret words.", "More secrets.", "The end."]
    assert doc.text == "Split.\n\nKept."


def test_examples_are_taken_out_as_what_they_print_may_be_random():
    doc = parse_docstring("Draw.\n\nExamples\n--------\n>>> draw()\n0.7391\n\nReferences\n----------\nA book.")
    assert doc.text == "Draw.\n\nReferences\n----------\nA book."


def test_words_in_prose_are_no_section():
    text = "Sort.\n\nSee also the book.\nSee also\n\nExamples abound."
    assert parse_docstring(text).text == text


@pytest.mark.parametrize(
    ("docstring", "summary"),
    [
        ("absolute(x, /, out=None)\n\nCompute the absolute value.", "Compute the absolute value."),
        ("f(x,\n  y) -> int\n\nAdd.", "Add."),
        ("Add\ntwo `numbers`.\n\nMore.", "Add two numbers."),
        ("f(x)", "f(x)"),
        ("", ""),
    ],
)
def test_the_summary_is_the_first_paragraph_after_the_signature(docstring, summary):
    assert parse_docstring(docstring).summary == summary
