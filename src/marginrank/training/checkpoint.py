"""Checkpoints: answers that took a pass over the data, kept in one file, so that a killed run goes on where it was.

Training is a function of the answers of the risk: given the same answers, it takes the same steps, bit for bit. So
these are kept, and no state of any solver. A run that is started again takes the same steps once more, but finds the
answers of the first run in the file, until it comes to the first that is missing.

The file begins with a line that names the format. Records follow: eight bytes of length, sixteen of digest, and the
content. The digest is BLAKE2 of the digest before and the content. The first content is a JSON object that says what
was trained, on which data, and by which version; the others are a key, of eight bytes for the part of the run and
sixteen for the question, and the answer. Records are appended, a few seconds' worth at a time; what a killed process
wrote of its last is dropped. There is no code in the file.
"""

from __future__ import annotations

import hashlib
import io
import json
import os
import struct
import threading
import time
from collections import Counter
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any, Final, Self

import numpy as np

from marginrank.errors import CheckpointWarning, DataError, Parameter, ParameterError, warn
from marginrank.runtime.files import atomic_path
from marginrank.solvers.problem import Problem, Segment
from marginrank.typing import FloatArray
from marginrank.version import __version__

try:
    import fcntl
except ImportError:  # Windows
    fcntl = None  # type: ignore[assignment]

#: Seconds between two writes; a kill loses what was computed since the last.
INTERVAL: Final = 5.0
_MAGIC: Final = b"marginrank checkpoint 1\n"
_DIGEST_BYTES: Final = 16
_FRAME_BYTES: Final = 8 + _DIGEST_BYTES
_PART_BYTES: Final = 8
_KEY_BYTES: Final = _PART_BYTES + _DIGEST_BYTES
_MOST_ABOUT_BYTES: Final = 1 << 26
#: Most bytes that wait for a disk that is full; with more, nothing more is kept.
_MOST_WAITING: Final = 1 << 28
#: Bytes of parts that are finished at which the file is written anew without them, unless it is much larger.
_MOST_FINISHED: Final = 1 << 24
_ANEW: Final = "remove the file, or give another name, to start anew"


class Checkpoint:
    """A file of answers, open for one run.

    Args:
        path: The file; its folder has to exist.
        about: What is run, in plain JSON values; a file of another run is refused.
        resume: Go on from the file if there is one. Otherwise an existing file is refused.

    Raises:
        FileExistsError: The file exists and ``resume`` is false.
        DataError: The file is no checkpoint, is damaged, is of another run, or is in use by another process.
        OSError: The folder is missing or cannot be written to.

    >>> import tempfile
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     with Checkpoint(Path(folder, "run"), {"C": 1.0}, resume=False) as first:
    ...         first.log("risk").put(b"answer", b"question")
    ...     with Checkpoint(Path(folder, "run"), {"C": 1.0}, resume=True) as second:
    ...         print(second.log("risk").get(b"question"), second.log("risk").get(b"another"))
    b'answer' None
    """

    def __init__(self, path: str | Path, about: Mapping[str, Any], *, resume: bool) -> None:
        self.path = Path(path)
        header = json.dumps({"version": __version__, **about}, allow_nan=False, sort_keys=True).encode()
        if self.path.exists() and not resume:
            raise FileExistsError(f"{self.path}: exists; give resume=True to go on from it, or {_ANEW}")
        if not self.path.exists():
            with atomic_path(self.path, overwrite=False) as place:
                place.write_bytes(_MAGIC + _frame(bytes(_DIGEST_BYTES), header))
        self._lock = threading.Lock()
        #: Where the content of each key begins, and how long it is; the bytes of each part; parts that are finished.
        self._known: dict[bytes, tuple[int, int]] = {}
        self._sizes: Counter[bytes] = Counter()
        self._finished: set[bytes] = set()
        self._waiting, self._failed, self._full = bytearray(), False, False
        self._written = time.monotonic()
        self._last, self._end = b"", 0
        self._open()
        try:
            self._read(header)
        except BaseException:
            self._file.close()
            raise

    def __enter__(self) -> Self:
        """Return the checkpoint."""
        return self

    def __exit__(self, *_: object) -> None:
        """Write what waits, and close the file."""
        with self._lock:
            self._write()
            self._file.close()

    def log(self, name: str) -> Log:
        """Return the part of the checkpoint with a name of its own."""
        return Log(self, name)

    def find(self, key: bytes) -> bytes | None:
        """Return the content under a key that the file had when it was opened; None if there was none."""
        with self._lock:
            place = self._known.get(key)
            if place is None:
                return None
            self._file.seek(place[0])
            return _read_whole(self._file, place[1])

    def append(self, key: bytes, content: bytes) -> None:
        """Add content under a key, now or with the next write."""
        with self._lock:
            if self._full:
                return
            frame = _frame(self._last, key + content)
            self._last = frame[8:_FRAME_BYTES]
            self._waiting += frame
            self._sizes[key[:_PART_BYTES]] += len(frame)
            if time.monotonic() - self._written >= INTERVAL:
                self._write()

    def finish(self, part: bytes) -> None:
        """Drop the records of a part, when it pays to write the others anew."""
        with self._lock:
            self._finished.add(part)
            dropped = sum(self._sizes[one] for one in self._finished)
            if dropped > max(_MOST_FINISHED, (self._end + len(self._waiting)) // 2):
                self._write()
                if not self._waiting and not self._full:
                    with suppress(OSError):  # the old file is as good
                        self._compact()

    def _compact(self) -> None:
        """Write a new file without the parts that are finished, and go on with it."""
        with atomic_path(self.path) as place, place.open("wb") as file:
            last = bytes(_DIGEST_BYTES)
            file.write(_MAGIC)
            for number, record in enumerate(_records(self._file, len(_MAGIC), self._end)):
                if number == 0 or record.content[:_PART_BYTES] not in self._finished:
                    frame = _frame(last, record.content)
                    file.write(frame)
                    last = frame[8:_FRAME_BYTES]
        self._file.close()
        self._open()
        self._index()

    def _index(self) -> bytes:
        """Find all records, and return the first, which says what was run."""
        self._known.clear()
        self._sizes.clear()
        records = _records(self._file, len(_MAGIC), self._file.seek(0, os.SEEK_END))
        first = next(records, None)
        if first is None or len(first.content) > _MOST_ABOUT_BYTES:
            raise DataError(f"damaged checkpoint; {_ANEW}", path=self.path)
        self._last, self._end = first.digest, first.end
        for record in records:
            key, length = record.content[:_KEY_BYTES], len(record.content) - _KEY_BYTES
            self._known[key] = record.end - length, length
            self._sizes[key[:_PART_BYTES]] += _FRAME_BYTES + len(record.content)
            self._last, self._end = record.digest, record.end
        return first.content

    def _open(self) -> None:
        if not self.path.is_file():
            raise DataError(f"not a file; {_ANEW}", path=self.path)
        try:
            self._file = io.FileIO(self.path, "r+")
        except OSError as error:
            raise OSError(error.errno, f"cannot write: {error.strerror}", str(self.path)) from None
        if fcntl is not None:
            try:
                fcntl.flock(self._file, fcntl.LOCK_EX | fcntl.LOCK_NB)
            except BlockingIOError:
                self._file.close()
                raise DataError("another process uses this checkpoint; wait for it to end", path=self.path) from None
            except OSError:  # a file system without locks
                pass

    def _read(self, header: bytes) -> None:
        """Index the records, and drop what a killed process left of the last."""
        size = self._file.seek(0, os.SEEK_END)
        self._file.seek(0)
        if self._file.read(len(_MAGIC)) != _MAGIC:
            raise DataError(f"not a checkpoint of this version of marginrank; {_ANEW}", path=self.path)
        self._check(self._index(), header)
        if self._end < size:
            if _is_whole(self._file, self._end, size):
                self._warn(f"damaged after {len(self._known):,} answers; the others are computed again")
            self._file.truncate(self._end)

    def _check(self, written: bytes, header: bytes) -> None:
        """Refuse the checkpoint of another run."""
        try:
            before = json.loads(written)
        except (ValueError, RecursionError):
            raise DataError(f"damaged checkpoint; {_ANEW}", path=self.path) from None
        changes = _differences(before, json.loads(header))
        if changes:
            listed = "; ".join(changes[:4]) + (f"; and {len(changes) - 4} more" if len(changes) > 4 else "")
            raise DataError(f"the checkpoint of another run: {listed}; {_ANEW}", path=self.path)

    def _write(self) -> None:
        """Append what waits; where it cannot be written, go on without, and try again later."""
        self._written = time.monotonic()
        try:
            # From where the last whole record ends, whatever an earlier attempt left there.
            self._file.seek(self._end)
            left = memoryview(bytes(self._waiting))
            while left:
                left = left[self._file.write(left) :]
            os.fsync(self._file.fileno())
        except OSError as error:
            if not self._failed:
                self._failed = True
                self._warn(f"cannot write: {error.strerror}; training goes on, and a kill loses what is not written")
            if len(self._waiting) > _MOST_WAITING:
                self._waiting.clear()
                self._full = True
            return
        self._end += len(self._waiting)
        self._waiting.clear()

    def _warn(self, problem: str) -> None:
        warn(f"{self.path}: {problem}", CheckpointWarning)


@dataclass(frozen=True)
class Log:
    """Part of a checkpoint: answers by their questions.

    Args:
        checkpoint: The checkpoint.
        name: What the questions are about; those of other logs are not found.
        part: The part of the run that it belongs to.
    """

    checkpoint: Checkpoint
    name: str
    part: str = ""

    def log(self, name: str) -> Log:
        """Return the log of another problem in the same part of the run."""
        return Log(self.checkpoint, f"{self.name}/{name}", self.part)

    def part_of(self, name: str) -> Log:
        """Return the log of a part of the run, which may be dropped when it is finished."""
        return Log(self.checkpoint, f"{self.name}/{name}", f"{self.name}/{name}")

    def finish(self) -> None:
        """Drop the answers of this part of the run, which are not asked for again."""
        self.checkpoint.finish(self._digest(self.part.encode())[:_PART_BYTES])

    def get(self, *question: bytes) -> bytes | None:
        """Return the answer to a question; None if the checkpoint has none."""
        return self.checkpoint.find(self._key(question))

    def put(self, answer: bytes, *question: bytes) -> None:
        """Keep an answer."""
        self.checkpoint.append(self._key(question), answer)

    def _key(self, question: tuple[bytes, ...]) -> bytes:
        return self._digest(self.part.encode())[:_PART_BYTES] + self._digest(self.name.encode(), *question)

    @staticmethod
    def _digest(*parts: bytes) -> bytes:
        total = hashlib.blake2b(digest_size=_DIGEST_BYTES)
        for part in parts:
            total.update(len(part).to_bytes(8, "little"))
            total.update(part)
        return total.digest()


@dataclass(frozen=True)
class _Record:
    content: bytes
    digest: bytes
    end: int


def _frame(last: bytes, content: bytes) -> bytes:
    return len(content).to_bytes(8, "little") + _digest(last, content) + content


def _digest(last: bytes, content: bytes) -> bytes:
    total = hashlib.blake2b(last, digest_size=_DIGEST_BYTES)
    total.update(content)
    return total.digest()


def _records(file: io.FileIO, start: int, size: int) -> Iterator[_Record]:
    """Yield whole records up to the first that is not."""
    last, position = bytes(_DIGEST_BYTES), start
    while position + _FRAME_BYTES <= size:
        file.seek(position)
        frame = _read_whole(file, _FRAME_BYTES)
        position += _FRAME_BYTES + int.from_bytes(frame[:8], "little")
        if position > size:
            return
        content = _read_whole(file, int.from_bytes(frame[:8], "little"))
        if _digest(last, content) != frame[8:]:
            return
        last = frame[8:]
        yield _Record(content, last, position)


def _is_whole(file: io.FileIO, start: int, size: int) -> bool:
    """Whether a record that does not match its digest has all its bytes, which no killed process leaves."""
    if start + _FRAME_BYTES > size:
        return False
    file.seek(start)
    return start + _FRAME_BYTES + int.from_bytes(_read_whole(file, 8), "little") <= size


def _read_whole(file: io.FileIO, n_bytes: int) -> bytes:
    parts = []
    while n_bytes:
        part = file.read(n_bytes)
        if not part:
            raise DataError("the file was cut while it was read", path=str(file.name))
        parts.append(part)
        n_bytes -= len(part)
    return b"".join(parts)


def _differences(before: Any, now: Any, name: str = "") -> list[str]:
    """Name what differs between two trees of JSON values.

    >>> _differences({"C": 1.0, "solver": {"tol": 0.1}}, {"C": 1.0, "solver": {"tol": 0.2}})
    ['solver.tol was 0.1 and is 0.2']
    """
    if isinstance(before, dict) and isinstance(now, dict):
        names = [*before, *(one for one in now if one not in before)]
        inner = [_differences(before.get(one), now.get(one), f"{name}.{one}" if name else one) for one in names]
        return [change for changes in inner for change in changes]
    same = type(before) is type(now) and before == now
    return [] if same else [f"{name or 'it'} was {_short(before)} and is {_short(now)}"]


def _short(value: Any) -> str:
    text = json.dumps(value)
    return text if len(text) <= 40 else f"{text[:37]}..."


#: Parameters that change nothing about the way that training takes.
_FREE: Final = ("n_jobs", "time_limit")


@contextmanager
def run_log(path: str | Path | None, resume: bool, about: Callable[[], Mapping[str, Any]]) -> Iterator[Log | None]:
    """Open the checkpoint of a run, and close it at the end; yield None where there is no path.

    Args:
        path: The file.
        resume: Go on from it if it exists.
        about: Describes the run.
    """
    if path is None:
        if resume:
            raise TypeError("resume=True needs a checkpoint; give checkpoint=PATH")
        yield None
        return
    with Checkpoint(path, about(), resume=resume) as checkpoint:
        yield checkpoint.log("run")


def repeatable(parameters: Mapping[str, Any]) -> dict[str, Any]:
    """Return the parameters that a run can be told apart by; refuse those that make each run another.

    Args:
        parameters: Parameters as `marginrank.runtime.option_objects.to_spec` describes them.
    """
    for name, spec in parameters.items():
        if isinstance(spec, dict) and spec.get("kind") == "unknown":
            raise TypeError(f"a checkpoint has to hold all parameters, and {spec['reason']}; leave out the checkpoint")
        if name == "random_state" and spec is None:
            raise ParameterError(
                Parameter("random_state"), " is None, so no run is like another; give a number, or no checkpoint"
            )
        if isinstance(spec, dict):
            repeatable(spec)
    return {name: spec for name, spec in parameters.items() if name not in _FREE}


#: Whether all values so far were exact, number of values and of slopes.
_HEAD: Final = struct.Struct("<?II")


class Recorded(Problem):
    """A problem whose answers are kept in a log, and taken from it where it has them, bit for bit.

    Args:
        problem: The problem.
        log: Where its answers are kept; those of other problems need a log of another name.
    """

    def __init__(self, problem: Problem, log: Log) -> None:
        self.n_parameters, self.n_blocks = problem.n_parameters, problem.n_blocks
        self.center, self.signs = problem.center, problem.signs
        self.convex, self.capabilities = problem.convex, problem.capabilities
        self._problem, self._log, self._was_exact = problem, log, True

    @property
    def exact(self) -> bool:  # type: ignore[override]
        """Whether all values so far were computed exactly, those of the log too."""
        return self._was_exact and self._problem.exact

    @cached_property
    def majorant(self) -> Problem | None:  # type: ignore[override]
        """The majorant, whose answers are kept likewise."""
        above = self._problem.majorant
        return None if above is None else Recorded(above, self._log.log("majorant"))

    def __call__(self, theta: FloatArray) -> tuple[float, FloatArray]:
        """Return the risk at θ and a subgradient."""

        def ask() -> tuple[FloatArray, FloatArray]:
            value, slope = self._problem(theta)
            return np.array([value]), slope[None, :]

        values, slopes = self.answer(ask, b"risk", _bytes(theta))
        return float(values[0]), slopes[0]

    def parts(self, theta: FloatArray) -> tuple[FloatArray, FloatArray]:
        """Return the parts of the risk, and a subgradient of each."""
        return self.answer(lambda: self._problem.parts(theta), b"parts", _bytes(theta))

    def line(self, start: FloatArray, end: FloatArray) -> Segment | None:
        """Return the way between two points, with answers that are kept likewise."""
        line = self._problem.line(start, end)
        return None if line is None else RecordedLine(self, line)

    def block(self, number: int, theta: FloatArray) -> tuple[float, FloatArray]:
        """Return the share of one block in the risk, and in its subgradient."""

        def ask() -> tuple[FloatArray, FloatArray]:
            value, slope = self._problem.block(number, theta)
            return np.array([value]), slope[None, :]

        values, slopes = self.answer(ask, b"block", str(number).encode(), _bytes(theta))
        return float(values[0]), slopes[0]

    def hessian_product(self, theta: FloatArray, direction: FloatArray) -> FloatArray:
        """Return the generalised Hessian of the risk at θ times a direction."""

        def ask() -> tuple[FloatArray, FloatArray]:
            return np.zeros(1), self._problem.hessian_product(theta, direction)[None, :]

        slope: FloatArray = self.answer(ask, b"hessian", _bytes(theta), _bytes(direction))[1][0]
        return slope

    def preconditioner(self, theta: FloatArray, C: float) -> Callable[[FloatArray], FloatArray]:
        """Return that of the problem, which is made anew: it depends on θ alone, and takes less than a pass."""
        return self._problem.preconditioner(theta, C)

    def preconditioner_passes(self, C: float) -> float:
        """Return that of the problem."""
        return self._problem.preconditioner_passes(C)

    def answer(
        self, ask: Callable[[], tuple[FloatArray, FloatArray]], *question: bytes, width: int | None = None
    ) -> tuple[FloatArray, FloatArray]:
        """Return what is kept, with slopes of one number for each parameter or of another width; otherwise ask."""
        kept = self._log.get(*question)
        if kept is not None:
            return self._read(kept, self.n_parameters if width is None else width)
        values, slopes = ask()
        head = _HEAD.pack(self.exact, *slopes.shape[:1], len(values))
        self._log.put(head + _bytes(values) + _bytes(slopes), *question)
        return values, slopes

    def _read(self, kept: bytes, width: int) -> tuple[FloatArray, FloatArray]:
        exact, n_slopes, n_values = _HEAD.unpack_from(kept) if len(kept) >= _HEAD.size else (False, 0, 0)
        if not 1 <= n_values == n_slopes or len(kept) != _HEAD.size + 8 * n_values * (1 + width):
            raise DataError("an answer in it does not fit the problem; remove the file", path=self._log.checkpoint.path)
        numbers = np.frombuffer(kept, dtype="<f8", offset=_HEAD.size).astype(np.float64)
        self._was_exact &= exact
        return numbers[:n_values], numbers[n_values:].reshape(n_slopes, width)


class RecordedLine(Segment):
    """A way whose answers are kept in a log: where it has them, no scores are computed.

    Args:
        problem: The problem.
        line: The way.
    """

    def __init__(self, problem: Recorded, line: Segment) -> None:
        super().__init__(line.start, line.end)
        self._problem, self._line = problem, line

    def __call__(self, t: float) -> tuple[float, float]:
        """Return the risk at a share of the way, and its slope by that share."""

        def ask() -> tuple[FloatArray, FloatArray]:
            value, slope = self._line(t)
            return np.array([value]), np.array([[slope]])

        values, slopes = self._problem.answer(ask, b"line", *self._question(t), width=1)
        return float(values[0]), float(slopes[0, 0])

    def parts(self, t: float) -> tuple[FloatArray, FloatArray]:
        """Return the parts of the risk there, and a subgradient of each."""
        return self._problem.answer(lambda: self._line.parts(t), b"parts of line", *self._question(t))

    def then(self, t: float, end: FloatArray) -> RecordedLine:
        """Return the way from there to another point."""
        return RecordedLine(self._problem, self._line.then(t, end))

    def _question(self, t: float) -> tuple[bytes, ...]:
        return _bytes(self.start), _bytes(self.end), _bytes(np.array([t]))


def recorded(problem: Problem, log: Log | None, name: str) -> Problem:
    """Return a problem that keeps its answers in a part of a log; the problem itself without a log."""
    return problem if log is None else Recorded(problem, log.log(name))


def _bytes(numbers: FloatArray) -> bytes:
    return np.ascontiguousarray(numbers, dtype="<f8").tobytes()
