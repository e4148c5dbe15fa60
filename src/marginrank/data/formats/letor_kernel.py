"""One block of LETOR text to arrays."""

from __future__ import annotations

from typing import Final, NamedTuple

import numpy as np

from marginrank.data.formats.number_kernel import LEFT_OVER, NOT_A_NUMBER, parse_number
from marginrank.data.formats.text_kernel import HASH, LINE_FEED, SPACE, ends_word, skip_blanks
from marginrank.data.unjudged import UNJUDGED
from marginrank.runtime.kernels import njit

COLON: Final = 58
EQUALS: Final = 61

# What the kernel found wrong; the wording is in letor.py.
FINE: Final = 0
BAD_GRADE: Final = 1
NEGATIVE_GRADE: Final = 2
EMPTY_QID: Final = 3
LATE_QID: Final = 4
BAD_TOKEN: Final = 5
LOW_INDEX: Final = 6
HIGH_INDEX: Final = 7
REPEATED_INDEX: Final = 8
UNSORTED_INDEX: Final = 9
BAD_VALUE: Final = 10
MISSING_VALUE: Final = 11
INFINITE_VALUE: Final = 12
TOO_LARGE: Final = 13
LOST_QID: Final = 14
EXTRA_QID: Final = 15
NO_ROOM: Final = 16
MAX_INDEX: Final = 2**31 - 2


class Found(NamedTuple):
    """Counts of `parse_block`, and where it stopped if something was wrong."""

    n_rows: int
    n_values: int
    n_starts: int
    n_left: int
    max_column: int
    rectangular: bool
    has_documents: bool
    has_qid: bool
    first_qid_at: int
    error: int
    error_at: int


@njit()
def _skip_word(text, at):  # type: ignore[no-untyped-def]
    while text[at] > SPACE and text[at] != HASH:
        at += 1
    return at


@njit()
def _ends_number(byte):  # type: ignore[no-untyped-def]
    return ends_word(byte) or byte == HASH


@njit()
def _is_word(text, start, end, word):  # type: ignore[no-untyped-def]
    """Whether the text between two places is the given lower-case word, in any case."""
    if end - start != len(word):
        return False
    for k in range(len(word)):
        if text[start + k] | np.uint8(32) != word[k]:
            return False
    return True


_NULL = np.frombuffer(b"null", dtype=np.uint8)
_NAN = np.frombuffer(b"nan", dtype=np.uint8)
_NA = np.frombuffer(b"na", dtype=np.uint8)
_INF = np.frombuffer(b"inf", dtype=np.uint8)
_INFINITY = np.frombuffer(b"infinity", dtype=np.uint8)
_QID = np.frombuffer(b"qid", dtype=np.uint8)
_DOCID = np.frombuffer(b"docid", dtype=np.uint8)


@njit()
def _kind_of_word(text, at):  # type: ignore[no-untyped-def]
    """Name what stands where a number should."""
    end = _skip_word(text, at)
    if _is_word(text, at, end, _NULL) or _is_word(text, at, end, _NAN) or _is_word(text, at, end, _NA):
        return end, MISSING_VALUE
    unsigned = at + (text[at] == 43 or text[at] == 45)
    if _is_word(text, unsigned, end, _INF) or _is_word(text, unsigned, end, _INFINITY):
        return end, INFINITE_VALUE
    return end, BAD_VALUE


@njit()
def _document_id(text, at):  # type: ignore[no-untyped-def]
    """Find the id in a comment: the word after ``docid =``, else the first word."""
    at = skip_blanks(text, at + 1)
    word_end = at
    while text[word_end] > SPACE and text[word_end] != EQUALS and text[word_end] != COLON:
        word_end += 1
    if _is_word(text, at, word_end, _DOCID):
        sign = skip_blanks(text, word_end)
        if text[sign] == EQUALS or text[sign] == COLON:
            at = skip_blanks(text, sign + 1)
    end = at
    while text[end] > SPACE or not ends_word(text[end]):
        end += 1
    return at, end


@njit()
def _same_bytes(text, a, a_end, b, b_end):  # type: ignore[no-untyped-def]
    if a_end - a != b_end - b:
        return False
    for k in range(a_end - a):
        if text[a + k] != text[b + k]:
            return False
    return True


@njit()
def _parse_index(text, at):  # type: ignore[no-untyped-def]
    """Digits as a whole number, held at one above the largest index."""
    index = 0
    digit = text[at] - np.uint8(48)
    while digit <= 9:
        index = min(index * 10 + int(digit), MAX_INDEX + 1)
        at += 1
        digit = text[at] - np.uint8(48)
    return index, at


@njit()
def _index_error(index, previous, first_index):  # type: ignore[no-untyped-def]
    if index < first_index:
        return LOW_INDEX
    if index > MAX_INDEX:
        return HIGH_INDEX
    return REPEATED_INDEX if index == previous else UNSORTED_INDEX


@njit()
def _starts_with_qid(text, at):  # type: ignore[no-untyped-def]
    return _is_word(text, at, at + 3, _QID) and text[at + 3] == COLON


@njit()
def _parse_grade(text, at, row, grades, left, n_left):  # type: ignore[no-untyped-def]
    """Read the grade that begins a line, NaN if it is −1 or missing; returns the place after it and what is wrong."""
    grade, end, status = parse_number(text, at)
    if status == NOT_A_NUMBER or not _ends_number(text[end]):
        end, problem = _kind_of_word(text, at)
        if problem != MISSING_VALUE:
            return at, n_left, BAD_GRADE
        grades[row] = np.nan
        return end, n_left, FINE
    if status == LEFT_OVER:
        if n_left == len(left):
            return at, n_left, NO_ROOM
        left[n_left, 0], left[n_left, 1], left[n_left, 2] = -1 - row, at, end
        n_left += 1
    grades[row] = np.nan if grade == UNJUDGED else grade
    return (at, n_left, NEGATIVE_GRADE) if grades[row] < 0 else (end, n_left, FINE)


@njit()
def _parse_value(text, at, missing_allowed, missing_value):  # type: ignore[no-untyped-def]
    """Read a feature's value; returns it, the place after it, whether Python must read it, and what is wrong."""
    value, end, status = parse_number(text, at)
    if status != NOT_A_NUMBER and _ends_number(text[end]):
        return value, end, status == LEFT_OVER, FINE
    end, problem = _kind_of_word(text, at)
    if problem == MISSING_VALUE and missing_allowed:
        return missing_value, end, False, FINE
    return 0.0, at, False, problem


@njit()
def _parse_features(  # type: ignore[no-untyped-def]
    text, at, token, first_index, missing_allowed, missing_value, columns, values, left, n_left
):
    """Read ``index:value`` pairs up to the comment or the end of the line."""
    previous = first_index - 1
    while True:
        at = skip_blanks(text, at)
        if text[at] == LINE_FEED or text[at] == HASH:
            return at, token, n_left, FINE
        index, colon = _parse_index(text, at)
        if colon == at or text[colon] != COLON:
            return at, token, n_left, LATE_QID if _starts_with_qid(text, at) else BAD_TOKEN
        if index <= previous or index > MAX_INDEX:
            return at, token, n_left, _index_error(index, previous, first_index)
        previous = index
        start = colon + 1
        value, at, for_python, error = _parse_value(text, start, missing_allowed, missing_value)
        if error != FINE:
            return at, token, n_left, error
        if for_python:
            if n_left == len(left):
                return at, token, n_left, NO_ROOM
            left[n_left, 0], left[n_left, 1], left[n_left, 2] = token, start, at
            n_left += 1
        values[token] = value
        if np.isinf(values[token]):
            return start, token, n_left, TOO_LARGE
        columns[token] = index - first_index
        token += 1


@njit()
def _parse_comment(text, at, documents, row):  # type: ignore[no-untyped-def]
    """Note the document id of a row, if it has a comment, and go to the end of the line."""
    documents[row, 0], documents[row, 1] = _document_id(text, at) if text[at] == HASH else (at, at)
    while text[at] != LINE_FEED:
        at += 1
    return at


@njit()
def parse_block(  # type: ignore[no-untyped-def]
    text,
    first_index,
    missing_allowed,
    missing_value,
    grades,
    row_ends,
    columns,
    values,
    starts,
    left,
    documents,
):
    """Read whole lines ``grade [qid:Q] index:value … [# comment]`` into arrays.

    Args:
        text: Bytes that end in a line feed.
        first_index: The number of the first feature, 1 or 0.
        missing_allowed: Whether NULL, NA and NaN are accepted.
        missing_value: What stands in for them.
        grades: Out, per row.
        row_ends: Out, per row, the number of values up to its end.
        columns: Out, per value, its column from 0.
        values: Out, per value.
        starts: Out, per run of rows of one query: row, line, start and end of the id in the text.
        left: Out, per number that Python must read: value (or -1 - row for a grade), start, end.
        documents: Out, per row, start and end of the document id.
    """
    at = row = token = run = n_left = line = 0
    max_column = width = first_qid_at = -1
    rectangular, has_documents, has_qid = True, False, False
    error = FINE
    while at < len(text):
        at = skip_blanks(text, at)
        if text[at] == LINE_FEED:
            at += 1
            line += 1
            continue
        if text[at] == HASH:
            while text[at] != LINE_FEED:
                at += 1
            continue
        at, n_left, error = _parse_grade(text, at, row, grades, left, n_left)
        if error != FINE:
            break
        at = skip_blanks(text, at)
        qid_here = _starts_with_qid(text, at)
        if row == 0:
            has_qid, first_qid_at = qid_here, at
        if qid_here != has_qid:
            error = EXTRA_QID if qid_here else LOST_QID
            break
        if qid_here:
            start, end = at + 4, _skip_word(text, at + 4)
            if start == end:
                error = EMPTY_QID
                break
            if run == 0 or not _same_bytes(text, start, end, starts[run - 1, 2], starts[run - 1, 3]):
                starts[run, 0], starts[run, 1], starts[run, 2], starts[run, 3] = row, line, start, end
                run += 1
            at = end
        first_token = token
        at, token, n_left, error = _parse_features(
            text, at, token, first_index, missing_allowed, missing_value, columns, values, left, n_left
        )
        if error != FINE:
            break
        count = token - first_token
        last_column = int(columns[token - 1]) if count > 0 else -1
        max_column = max(max_column, last_column)
        width = count if row == 0 else width
        rectangular = rectangular and count == width and last_column == count - 1
        at = _parse_comment(text, at, documents, row)
        has_documents = has_documents or documents[row, 1] > documents[row, 0]
        row_ends[row] = token
        row += 1
    return Found(row, token, run, n_left, max_column, rectangular, has_documents, has_qid, first_qid_at, error, at)


@njit()
def scatter_rows(row_ends, columns, values, out):  # type: ignore[no-untyped-def]
    """Write rows of (column, value) into a zeroed dense block."""
    token = 0
    for row in range(len(row_ends)):
        while token < row_ends[row]:
            out[row, columns[token]] = values[token]
            token += 1
