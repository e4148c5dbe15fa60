"""Blocks of CSV text to rows, and what is wrong in them to words."""

from __future__ import annotations

import re
from array import array
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import islice
from typing import Any, Final

import numpy as np

from marginrank.data.assembling import Part
from marginrank.data.delimited_records import LONGEST_FIELD, UNCLOSED, records_of
from marginrank.data.places import DECIMAL, TextBlock, quoted
from marginrank.data.table_columns import Columns, RowError, feature_advice
from marginrank.data.table_reading import How
from marginrank.data.tables import part_of
from marginrank.errors import DataError
from marginrank.words import count

#: What stands for a missing number.
_MISSING: Final = ("", "NULL", "Null", "null", "NA", "N/A", "n/a", "#N/A", "NaN", "nan", "None")
TRUTH: Final = {"true": 1.0, "True": 1.0, "TRUE": 1.0, "false": 0.0, "False": 0.0, "FALSE": 0.0}
#: What Arrow also takes for a number.
_NOT_FINITE: Final = re.compile(r"-?(inf(inity)?|nan(\([0-9a-z_]*\))?)", re.IGNORECASE)
_DECIMAL_COMMA: Final = re.compile(r"[+-]?[0-9]*,[0-9]+")


def record_blocks(blocks: Iterable[TextBlock], separator: str) -> Iterator[TextBlock]:
    """Cut text where records end, as quoted fields may hold line ends."""
    from marginrank.data import delimited_kernel as kernel  # noqa: PLC0415

    rest, state = b"", kernel.START
    for block in blocks:
        # Arrow and Python take other ends of lines differently inside quotes.
        data, path = block.data.replace(b"\r\n", b"\n"), block.path
        first = block.lines_before - rest.count(b"\n")
        end = len(data)
        if rest or b'"' in data:
            end, state = kernel.last_record_end(np.frombuffer(data, dtype=np.uint8), ord(separator), state)
        if end:
            yield TextBlock(rest + data[:end], path, first)
            rest, first = data[end:], block.lines_before + data.count(b"\n", 0, end)
        else:
            rest += data
        if len(rest) > LONGEST_FIELD:
            break
    if rest:
        raise DataError(UNCLOSED, path=path, line=first + 1)


@dataclass(frozen=True)
class Sheet:
    """What is known of a file before its rows are read.

    Args:
        names: Names of its columns.
        separator: What separates its fields.
        chosen: The columns to read.
        truths: Columns of numbers that hold true and false.
        how: How to read them.
    """

    names: tuple[str, ...]
    separator: str
    chosen: Columns
    truths: frozenset[str]
    how: How

    @property
    def places(self) -> dict[str, int]:
        """Where each column stands that is read; others may have the same name, or none."""
        return {name: self.names.index(name) for name in (*self.chosen.labels, *self.chosen.numbers)}

    def part(self, block: TextBlock) -> Part | None:
        """Read whole records, or raise the first thing that is wrong in them; None where there are none."""
        table = self._by_arrow(block)
        if table is None:
            # Arrow says neither on which line it failed nor why.
            table = self._by_record(block)
        if not table.num_rows:
            return None
        try:
            part = part_of(table, self.chosen, self.how)
            self._check_ids(part)
        except RowError as error:
            line, _ = next(islice(self._records(block), error.row, None))
            raise error.on_line(line) from None
        return part

    def _records(self, block: TextBlock) -> Iterator[tuple[int, list[str]]]:
        return records_of([block], self.separator)

    def _by_arrow(self, block: TextBlock) -> Any:
        """Read the chosen columns with Arrow; None where it cannot."""
        import pyarrow as pa  # noqa: PLC0415
        from pyarrow import csv  # noqa: PLC0415

        places = {name: str(place) for name, place in self.places.items()}
        types = {places[name]: pa.bool_() if name in self.truths else pa.float64() for name in self.chosen.numbers}
        read = csv.ReadOptions(
            use_threads=False, column_names=[str(k) for k in range(len(self.names))], block_size=len(block.data) + 1
        )
        convert = csv.ConvertOptions(
            column_types=types | {places[name]: pa.string() for name in self.chosen.labels},
            include_columns=list(places.values()),
            null_values=list(_MISSING),
        )
        parse = csv.ParseOptions(delimiter=self.separator, newlines_in_values=True)
        try:
            table = csv.read_csv(
                pa.BufferReader(block.data), read_options=read, parse_options=parse, convert_options=convert
            )
        except pa.ArrowInvalid:
            return None
        return table.rename_columns(list(places))

    def _by_record(self, block: TextBlock) -> Any:
        """Read the chosen columns record by record, or raise the first thing that is wrong in them."""
        import pyarrow as pa  # noqa: PLC0415

        numbers = {name: array("d") for name in self.chosen.numbers}
        labels: dict[str, list[str]] = {name: [] for name in self.chosen.labels}
        places = self.places
        for line, fields in self._records(block):
            if len(fields) != len(self.names):
                problem = _other_length(len(fields), len(self.names), self.separator)
                raise DataError(problem, path=block.path, line=line)
            for name, column in numbers.items():
                word = fields[places[name]]
                try:
                    column.append(_number(word))
                except ValueError:
                    advice = _way_out(word, name, self.chosen, dict(zip(self.names, fields, strict=True)))
                    problem = f"column {name!r} holds {quoted(word.encode())}, not a number; {advice}"
                    raise DataError(problem, path=block.path, line=line) from None
            for name, words in labels.items():
                words.append(fields[places[name]])
        columns = {name: pa.array(words, pa.string()) for name, words in labels.items()}
        return pa.table(columns | {name: pa.array(np.array(column)) for name, column in numbers.items()})

    def _check_ids(self, part: Part) -> None:
        """Refuse rows without a query or a group."""
        for labels, what in ((part.queries, "query id"), (part.groups, "document group")):
            words: Sequence[str] = [] if labels is None else labels.values.tolist()
            if labels is not None and "" in words:
                row = int(np.argmax(labels.codes == words.index("")))
                raise RowError(row, None, f"has no {what}; every row needs one")


def _other_length(found: int, expected: int, separator: str) -> str:
    mark = {",": "a comma", ";": "a semicolon", "\t": "a tab"}[separator]
    return f"{count(found, 'field')} instead of {expected}; put quotes around fields that hold {mark} or a line end"


def _number(word: str) -> float:
    """Read a number, NaN where it is missing.

    >>> _number(" -1.5 "), _number("NA"), _number("true")
    (-1.5, nan, 1.0)
    """
    stripped = word.strip(" \t")
    if DECIMAL.fullmatch(stripped.encode()):
        return float(stripped)
    if _NOT_FINITE.fullmatch(stripped):
        return float(stripped.partition("(")[0])
    if stripped in _MISSING:
        return float("nan")
    if stripped in TRUTH:
        return TRUTH[stripped]
    raise ValueError(word)


def _way_out(word: str, name: str, chosen: Columns, row: Mapping[str, str]) -> str:
    if _DECIMAL_COMMA.fullmatch(word.strip()):
        return "write decimal points instead of commas"
    if name == chosen.grade:
        return "grades are numbers such as 0, 1 and 2"
    return feature_advice([feature for feature in chosen.features if _is_number(row[feature])])


def _is_number(word: str) -> bool:
    try:
        _number(word)
    except ValueError:
        return False
    return True
