"""The database of judgements: every decision of every rater, on the disk before it is acknowledged."""

from __future__ import annotations

import hashlib
import json
import os
import secrets
import sqlite3
import threading
import time
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any, Final, NamedTuple

from marginrank.errors import DataError, Parameter
from marginrank.judging.judgements import Judgements

#: "mrjd", which tells these files from other SQLite databases.
_APPLICATION: Final = 0x6D726A64
_VERSION: Final = 1
_SCHEMA: Final = """
CREATE TABLE settings (name TEXT PRIMARY KEY, value TEXT NOT NULL);
CREATE TABLE documents (
    id INTEGER PRIMARY KEY, query_id TEXT NOT NULL, document_id TEXT NOT NULL, UNIQUE (query_id, document_id)
);
CREATE TABLE decisions (
    id INTEGER PRIMARY KEY AUTOINCREMENT,
    request TEXT NOT NULL UNIQUE,
    document INTEGER NOT NULL REFERENCES documents (id),
    rater TEXT NOT NULL,
    grade REAL,
    note TEXT NOT NULL,
    time REAL NOT NULL,
    undone INTEGER NOT NULL DEFAULT 0
);
CREATE INDEX decisions_of_rater ON decisions (rater, undone, document, id);
"""


class Decision(NamedTuple):
    """Decision of a rater on a document: a grade, or none if it was skipped."""

    id: int
    document: int
    grade: float | None
    note: str


class JudgementStore:
    """Decisions in an SQLite file that only its owner may read.

    A decision is committed, with the file flushed to the disk, before `decide` returns: whoever is told that it is
    stored finds it again, even if the process is killed or the machine loses power at that moment. Decisions are never
    overwritten; the latest of a rater on a document that was not undone counts. Several threads and several processes
    may use one file.
    """

    def __init__(self, path: str | Path) -> None:
        self.path = Path(path)
        self._lock = threading.Lock()
        # Created here, for SQLite would let others read it.
        os.close(os.open(self.path, os.O_CREAT | os.O_RDWR | getattr(os, "O_CLOEXEC", 0), 0o600))
        self._connection = sqlite3.connect(self.path, timeout=30.0, isolation_level=None, check_same_thread=False)
        try:
            self._prepare()
        except sqlite3.DatabaseError as error:
            self._connection.close()
            raise DataError(
                f"this is not a database of judgements ({error}); give another name", path=self.path
            ) from None
        except BaseException:
            self._connection.close()
            raise

    def _prepare(self) -> None:
        run = self._connection.execute
        run("PRAGMA journal_mode = WAL")
        run("PRAGMA synchronous = FULL")
        run("PRAGMA foreign_keys = ON")
        with self._transaction():
            application, version = (run(f"PRAGMA {name}").fetchone()[0] for name in ("application_id", "user_version"))
            if (application, version) == (0, 0) and not run("SELECT 1 FROM sqlite_master").fetchone():
                for statement in _SCHEMA.split(";\n"):
                    run(statement)
                run(f"PRAGMA application_id = {_APPLICATION}")
                run(f"PRAGMA user_version = {_VERSION}")
            elif application != _APPLICATION:
                raise DataError("this is the database of another program; give another name", path=self.path)
            elif version != _VERSION:
                raise DataError(f"written by a newer version ({version}); update marginrank", path=self.path)

    def close(self) -> None:
        """Close the file."""
        self._connection.close()

    def __enter__(self) -> JudgementStore:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    @contextmanager
    def _transaction(self) -> Iterator[None]:
        with self._lock:
            self._connection.execute("BEGIN IMMEDIATE")
            try:
                yield
            except BaseException:
                self._connection.execute("ROLLBACK")
                raise
            self._connection.execute("COMMIT")

    def _rows(self, sql: str, values: Sequence[Any] = ()) -> list[Any]:
        with self._lock:
            return self._connection.execute(sql, values).fetchall()

    def setting(self, name: str, value: str) -> str:
        """Return a setting; store the given value if there is none yet."""
        with self._transaction():
            self._connection.execute("INSERT OR IGNORE INTO settings VALUES (?, ?)", (name, value))
        return str(self._rows("SELECT value FROM settings WHERE name = ?", (name,))[0][0])

    def set(self, name: str, value: str) -> None:
        """Replace a setting."""
        with self._transaction():
            self._connection.execute("INSERT OR REPLACE INTO settings VALUES (?, ?)", (name, value))

    def token(self) -> str:
        """Return what the address of the page holds, so that it is the same after a restart."""
        return self.setting("token", secrets.token_urlsafe(24))

    def set_scale(self, grades: Sequence[float]) -> None:
        """Store the grades to choose from; refuse others than those of decisions that were made."""
        if not self._rows("SELECT 1 FROM decisions LIMIT 1"):
            self.set("scale", json.dumps(list(grades)))
        known = json.loads(self.setting("scale", json.dumps(list(grades))))
        if known != list(grades):
            shown = ",".join(f"{grade:g}" for grade in known)
            raise DataError(f"the grades here are {shown}; give ", Parameter("scale", shown), path=self.path)

    def add_documents(self, pairs: Iterable[tuple[str, str]]) -> list[int]:
        """Add pairs of query and document that are new, and return the numbers of all."""
        requested = list(pairs)
        with self._transaction():
            self._connection.executemany(
                "INSERT OR IGNORE INTO documents (query_id, document_id) VALUES (?, ?)", requested
            )
        known = {(query, document): number for number, query, document in self._rows("SELECT * FROM documents")}
        return [known[pair] for pair in requested]

    def decide(self, request: str, document: int, rater: str, grade: float | None, note: str = "") -> None:
        """Store a decision; the same request is stored once, however often it is sent.

        Raises:
            DataError: The request was used for another decision.
        """
        decision = (document, rater, grade, note)
        with self._transaction():
            run = self._connection.execute
            known = run("SELECT document, rater, grade, note FROM decisions WHERE request = ?", (request,)).fetchone()
            if known is None:
                run(
                    "INSERT INTO decisions (request, document, rater, grade, note, time) VALUES (?, ?, ?, ?, ?, ?)",
                    (request, *decision, time.time()),
                )
            elif known != decision:
                raise DataError("this request was used for another decision; give each its own")

    def undo(self, decision: int, rater: str) -> int | None:
        """Undo a decision of a rater, and return its document; None if there is no such decision."""
        with self._transaction():
            self._connection.execute("UPDATE decisions SET undone = 1 WHERE id = ? AND rater = ?", (decision, rater))
        rows = self._rows("SELECT document FROM decisions WHERE id = ? AND rater = ?", (decision, rater))
        return int(rows[0][0]) if rows else None

    def decisions(self, rater: str) -> dict[int, Decision]:
        """Return the decision of a rater that counts, by document."""
        rows = self._rows(
            "SELECT MAX(id), document, grade, note FROM decisions WHERE rater = ? AND NOT undone GROUP BY document",
            (rater,),
        )
        return {row[1]: Decision(*row) for row in rows}

    def raters(self) -> list[str]:
        """Return who has judged."""
        return [row[0] for row in self._rows("SELECT DISTINCT rater FROM decisions WHERE NOT undone ORDER BY rater")]

    def notes(self) -> list[tuple[str, str, str, str]]:
        """Return query, document, rater and text of every note."""
        return [row for row in self._counting("note") if row[3]]

    def judgements(self) -> Judgements:
        """Return the grades of all raters; skipped documents have none."""
        rows = [row for row in self._counting("grade") if row[3] is not None]
        if not rows:
            raise DataError("nothing has been judged yet", path=self.path)
        return Judgements.of(*(list(column) for column in zip(*rows, strict=True)))

    def _counting(self, column: str) -> list[Any]:
        """Return query, document, rater and a column of the decisions that count."""
        rows = self._rows(
            f"SELECT query_id, document_id, rater, {column}, MAX(decisions.id) FROM decisions"
            " JOIN documents ON documents.id = document WHERE NOT undone GROUP BY rater, document"
            " ORDER BY query_id, document_id, rater"
        )
        return [row[:4] for row in rows]


def shuffled(rater: str, seed: int, pairs: Sequence[tuple[str, str]]) -> list[int]:
    """Return the order in which a rater judges pairs of query and document.

    Queries come in an order of the rater's own, and so do the documents of each query, which stay together.

    >>> pairs = [("q1", "a"), ("q2", "b"), ("q1", "c")]
    >>> order = shuffled("ann", 0, pairs)
    >>> sorted(order), order == shuffled("ann", 0, pairs)
    ([0, 1, 2], True)
    >>> abs(order.index(0) - order.index(2))
    1
    """

    def key(*words: str) -> bytes:
        return hashlib.sha256(json.dumps([seed, rater, *words]).encode()).digest()

    queries = {query: key(query) for query, _ in pairs}
    return sorted(range(len(pairs)), key=lambda row: (queries[pairs[row][0]], key(*pairs[row])))


__all__ = ["Decision", "JudgementStore", "shuffled"]
