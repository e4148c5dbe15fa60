"""Results as tables: on terminals, in notebooks, and as frames."""

from __future__ import annotations

import html
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

from marginrank.words import printable, table

#: Most rows that a notebook shows.
_MOST_ROWS: Final = 30


@dataclass(frozen=True)
class ResultTable:
    """A table of words with a note below it.

    >>> result = ResultTable([["query", "ap"], ["<b>", "0.5"]], right=[1], note="policy: trec")
    >>> print(result.text())
    query   ap
    <b>    0.5
    policy: trec
    >>> "&lt;b&gt;" in result.html(), "<b>" in result.html()
    (True, False)

    Args:
        rows: The heads of the columns, then the rows.
        right: Numbers of the columns that are aligned to the right.
        note: What to say below.
    """

    rows: Sequence[Sequence[str]]
    right: Collection[int] = ()
    note: str = ""

    def text(self) -> str:
        """Return it as aligned text."""
        return f"{table(self.rows, right=tuple(self.right))}\n{printable(self.note)}"

    def html(self) -> str:
        """Return it as markup, whose colours are those of the notebook; nothing in a cell is markup."""
        heads, *rows = self.rows
        body = "".join(self._row("td", row) for row in rows[:_MOST_ROWS])
        more = f"{len(rows) - _MOST_ROWS:,} more rows; " if len(rows) > _MOST_ROWS else ""
        note = f"<p>{_escaped(more + self.note)}</p>" if more or self.note else ""
        return f"<div><table><thead>{self._row('th', heads)}</thead><tbody>{body}</tbody></table>{note}</div>"

    def _row(self, tag: str, cells: Sequence[str]) -> str:
        sides = ["right" if at in self.right else "left" for at in range(len(cells))]
        words = [
            f'<{tag} style="text-align: {side}">{_escaped(cell)}</{tag}>'
            for side, cell in zip(sides, cells, strict=True)
        ]
        return f"<tr>{''.join(words)}</tr>"


def _escaped(text: str) -> str:
    return html.escape(printable(text))


def data_frame(columns: Mapping[str, Any]) -> Any:
    """Make a pandas frame of columns; say what to install where there is no pandas."""
    try:
        import pandas as pd  # noqa: PLC0415
    except ImportError:
        raise ImportError("to_frame needs pandas: pip install pandas") from None
    return pd.DataFrame(dict(columns))
