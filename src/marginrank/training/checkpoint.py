"""Checkpoints: values and gradients of the risk in a file, from which an interrupted fit continues.

Training is a function of the answers of the risk: given the same answers, it takes the same steps, bit for bit. So
the file holds these answers, and no state of any solver. A fit that is resumed takes the same steps again, but reads
the answers from the file, up to the first that is missing.

The file begins with a segment that names the format. Records follow: eight bytes of length, sixteen of digest, and the
content. The digest is BLAKE2 of the digest before and the content. The first content is a JSON object that identifies
the fit: parameters, data and version; the others are a key, of eight bytes for the part of the fit and sixteen for the
question, and the answer. Records are appended, a few seconds' worth at a time; an incomplete last record, which a
killed process leaves, is dropped. There is no code in the file.
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
_MAX_HEADER_BYTES: Final = 1 << 26
#: Maximum number of bytes that wait for a full disk; with more, the checkpoint ends.
_MAX_WAITING_BYTES: Final = 1 << 28
#: Bytes of finished parts at which the file is rewritten without them, unless it is much larger.
_MAX_FINISHED_BYTES: Final = 1 << 24
_ANEW: Final = "remove the file, or choose another name, to start over"


class Checkpoint:
    """A file of answers, open for one fit.

    Args:
        path: The file; its folder has to exist.
        about: Identifies the fit, in plain JSON values; a file of another fit is refused.
        resume: Continue from the file if there is one. Otherwise an existing file is refused.

    Raises:
        FileExistsError: The file exists and ``resume`` is false.
        DataError: The file is no checkpoint, is damaged, is of another fit, or is in use by another process.
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
            raise FileExistsError(f"{self.path}: exists; give resume=True to continue from it, or {_ANEW}")
        if not self.path.exists():
            with atomic_path(self.path, overwrite=False) as place:
                place.write_bytes(_MAGIC + _frame(bytes(_DIGEST_BYTES), header))
        self._lock = threading.Lock()
        #: Position and length of the content of each key; the bytes of each part; the finished parts.
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
        """Write the waiting records, and close the file."""
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
        """Drop the records of a part, as soon as rewriting the others pays."""
        with self._lock:
            self._finished.add(part)
            dropped = sum(self._sizes[finished] for finished in self._finished)
            if dropped > max(_MAX_FINISHED_BYTES, (self._end + len(self._waiting)) // 2):
                self._write()
                if not self._waiting and not self._full:
                    with suppress(OSError):  # the old file is as good
                        self._compact()

    def _compact(self) -> None:
        """Replace the file by one without the finished parts."""
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
        """Index all records, and return the first, which identifies the fit."""
        self._known.clear()
        self._sizes.clear()
        records = _records(self._file, len(_MAGIC), self._file.seek(0, os.SEEK_END))
        first = next(records, None)
        if first is None or len(first.content) > _MAX_HEADER_BYTES:
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
        """Index the records, and drop an incomplete last one."""
        size = self._file.seek(0, os.SEEK_END)
        self._file.seek(0)
        if self._file.read(len(_MAGIC)) != _MAGIC:
            raise DataError(f"not a checkpoint of this version of marginrank; {_ANEW}", path=self.path)
        self._check(self._index(), header)
        if self._end < size:
            if _is_whole(self._file, self._end, size):
                self._warn(f"damaged after {len(self._known):,} entries; the rest is recomputed")
            self._file.truncate(self._end)

    def _check(self, written: bytes, header: bytes) -> None:
        """Refuse the checkpoint of another fit."""
        try:
            before = json.loads(written)
        except (ValueError, RecursionError):
            raise DataError(f"damaged checkpoint; {_ANEW}", path=self.path) from None
        changes = _differences(before, json.loads(header))
        if changes:
            listed = "; ".join(changes[:4]) + (f"; and {len(changes) - 4} more" if len(changes) > 4 else "")
            raise DataError(f"the checkpoint of another run: {listed}; {_ANEW}", path=self.path)

    def _write(self) -> None:
        """Append the waiting records; if that fails, continue without, and try again later."""
        self._written = time.monotonic()
        try:
            # From the end of the last whole record, whatever an earlier attempt left there.
            self._file.seek(self._end)
            left = memoryview(bytes(self._waiting))
            while left:
                left = left[self._file.write(left) :]
            os.fsync(self._file.fileno())
        except OSError as error:
            if not self._failed:
                self._failed = True
                self._warn(f"cannot write: {error.strerror}; training continues, and a kill loses what is not written")
            if len(self._waiting) > _MAX_WAITING_BYTES:
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
        name: The problem that the questions are about.
        part: The part of the fit that it belongs to.
    """

    checkpoint: Checkpoint
    name: str
    part: str = ""

    def log(self, name: str) -> Log:
        """Return the log of another problem in the same part of the fit."""
        return Log(self.checkpoint, f"{self.name}/{name}", self.part)

    def part_of(self, name: str) -> Log:
        """Return the log of a part of the fit, which may be dropped when it is finished."""
        return Log(self.checkpoint, f"{self.name}/{name}", f"{self.name}/{name}")

    def finish(self) -> None:
        """Drop the answers of this part of the fit, which are not needed again."""
        self.checkpoint.finish(self._digest(self.part.encode())[:_PART_BYTES])

    def get(self, *question: bytes) -> bytes | None:
        """Return the answer to a question; None if the checkpoint has none."""
        return self.checkpoint.find(self._key(question))

    def put(self, answer: bytes, *question: bytes) -> None:
        """Add an answer."""
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
    """Yield records up to the first that is incomplete or damaged."""
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
    """Return whether a record that does not match its digest is complete, so that it was not cut by a kill."""
    if start + _FRAME_BYTES > size:
        return False
    file.seek(start)
    return start + _FRAME_BYTES + int.from_bytes(_read_whole(file, 8), "little") <= size


def _read_whole(file: io.FileIO, n_bytes: int) -> bytes:
    parts = []
    while n_bytes:
        part = file.read(n_bytes)
        if not part:
            raise DataError("the file was truncated while it was read", path=str(file.name))
        parts.append(part)
        n_bytes -= len(part)
    return b"".join(parts)


def _differences(before: Any, now: Any, name: str = "") -> list[str]:
    """Name what differs between two trees of JSON values.

    >>> _differences({"C": 1.0, "solver": {"tol": 0.1}}, {"C": 1.0, "solver": {"tol": 0.2}})
    ['solver.tol was 0.1 and is 0.2']
    """
    if isinstance(before, dict) and isinstance(now, dict):
        keys = [*before, *(key for key in now if key not in before)]
        inner = [_differences(before.get(key), now.get(key), f"{name}.{key}" if name else key) for key in keys]
        return [change for changes in inner for change in changes]
    same = type(before) is type(now) and before == now
    return [] if same else [f"{name or 'it'} was {_short(before)} and is {_short(now)}"]


def _short(value: Any) -> str:
    text = json.dumps(value)
    return text if len(text) <= 40 else f"{text[:37]}..."


#: Parameters that have no effect on the steps of training.
_NO_EFFECT: Final = ("n_jobs", "time_limit", "verbose")


@contextmanager
def checkpoint_log(
    path: str | Path | None, resume: bool, about: Callable[[], Mapping[str, Any]]
) -> Iterator[Log | None]:
    """Open the checkpoint of a fit, and close it at the end; yield None without a path.

    Args:
        path: The file.
        resume: Continue from it if it exists.
        about: Returns what identifies the fit.
    """
    if path is None:
        if resume:
            raise TypeError("resume=True needs a checkpoint; give checkpoint=PATH")
        yield None
        return
    with Checkpoint(path, about(), resume=resume) as checkpoint:
        yield checkpoint.log("run")


def identifying_parameters(parameters: Mapping[str, Any]) -> dict[str, Any]:
    """Return the parameters that identify a fit; refuse those that make each fit different.

    Args:
        parameters: Parameters as `marginrank.runtime.option_objects.to_spec` describes them. A seed of None inside an
            option, such as the solver, stands for that of the ranker.
    """
    if parameters.get("random_state", 0) is None:
        raise ParameterError(
            Parameter("random_state"), " is None, so runs cannot be repeated; give a number, or no checkpoint"
        )
    for reason in _unknown(parameters):
        raise TypeError(f"a checkpoint has to hold all parameters, and {reason}; leave out the checkpoint")
    return {name: spec for name, spec in parameters.items() if name not in _NO_EFFECT}


def _unknown(parameters: Mapping[str, Any]) -> Iterator[str]:
    """Yield why parameters have no description."""
    for spec in parameters.values():
        if isinstance(spec, dict):
            if spec.get("kind") == "unknown":
                yield spec["reason"]
            yield from _unknown(spec)


#: Whether all values so far were exact, number of gradients and of values.
_HEAD: Final = struct.Struct("<?II")


class CheckpointedProblem(Problem):
    """A problem whose answers are added to a log, or read from it if it has them, bit for bit.

    Args:
        problem: The problem.
        log: The log of its answers; other problems need logs of other names.
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
        """The majorant, with a log of its own."""
        above = self._problem.majorant
        return None if above is None else CheckpointedProblem(above, self._log.log("majorant"))

    def __call__(self, theta: FloatArray) -> tuple[float, FloatArray]:
        """Return the risk at θ and a subgradient."""

        def compute() -> tuple[FloatArray, FloatArray]:
            value, gradient = self._problem(theta)
            return np.array([value]), gradient[None, :]

        values, gradients = self.answer(compute, b"risk", _bytes(theta))
        return float(values[0]), gradients[0]

    def parts(self, theta: FloatArray) -> tuple[FloatArray, FloatArray]:
        """Return the parts of the risk, and a subgradient of each."""
        return self.answer(lambda: self._problem.parts(theta), b"parts", _bytes(theta))

    def segment(self, start: FloatArray, end: FloatArray) -> Segment | None:
        """Return the segment between two points, with the same log."""
        segment = self._problem.segment(start, end)
        return None if segment is None else CheckpointedSegment(self, segment)

    def block(self, number: int, theta: FloatArray) -> tuple[float, FloatArray]:
        """Return the term of one block in the risk, and in its subgradient."""

        def compute() -> tuple[FloatArray, FloatArray]:
            value, gradient = self._problem.block(number, theta)
            return np.array([value]), gradient[None, :]

        values, gradients = self.answer(compute, b"block", str(number).encode(), _bytes(theta))
        return float(values[0]), gradients[0]

    def hessian_product(self, theta: FloatArray, direction: FloatArray) -> FloatArray:
        """Return the generalized Hessian of the risk at θ times a direction."""

        def compute() -> tuple[FloatArray, FloatArray]:
            return np.zeros(1), self._problem.hessian_product(theta, direction)[None, :]

        gradient: FloatArray = self.answer(compute, b"hessian", _bytes(theta), _bytes(direction))[1][0]
        return gradient

    def preconditioner(self, theta: FloatArray, C: float) -> Callable[[FloatArray], FloatArray]:
        """Return that of the problem, which is computed again: it depends on θ alone, and takes less than a pass."""
        return self._problem.preconditioner(theta, C)

    def preconditioner_passes(self, C: float) -> float:
        """Return that of the problem."""
        return self._problem.preconditioner_passes(C)

    def answer(
        self, compute: Callable[[], tuple[FloatArray, FloatArray]], *question: bytes, width: int | None = None
    ) -> tuple[FloatArray, FloatArray]:
        """Return the answer of the log, or compute it; a gradient has a number per parameter, or ``width`` numbers."""
        content = self._log.get(*question)
        if content is not None:
            return self._read(content, self.n_parameters if width is None else width)
        values, gradients = compute()
        head = _HEAD.pack(self.exact, *gradients.shape[:1], len(values))
        self._log.put(head + _bytes(values) + _bytes(gradients), *question)
        return values, gradients

    def _read(self, content: bytes, width: int) -> tuple[FloatArray, FloatArray]:
        exact, n_gradients, n_values = _HEAD.unpack_from(content) if len(content) >= _HEAD.size else (False, 0, 0)
        if not 1 <= n_values == n_gradients or len(content) != _HEAD.size + 8 * n_values * (1 + width):
            raise DataError("an entry does not fit the problem; remove the file", path=self._log.checkpoint.path)
        numbers = np.frombuffer(content, dtype="<f8", offset=_HEAD.size).astype(np.float64)
        self._was_exact &= exact
        return numbers[:n_values], numbers[n_values:].reshape(n_gradients, width)


class CheckpointedSegment(Segment):
    """A segment whose answers are added to a log: if it has them, no scores are computed.

    Args:
        problem: The problem.
        segment: The segment.
    """

    def __init__(self, problem: CheckpointedProblem, segment: Segment) -> None:
        super().__init__(segment.start, segment.end)
        self._problem, self._segment = problem, segment

    def __call__(self, t: float) -> tuple[float, float]:
        """Return the risk at a step size, and its derivative."""

        def compute() -> tuple[FloatArray, FloatArray]:
            value, gradient = self._segment(t)
            return np.array([value]), np.array([[gradient]])

        values, gradients = self._problem.answer(compute, b"segment", *self._question(t), width=1)
        return float(values[0]), float(gradients[0, 0])

    def parts(self, t: float) -> tuple[FloatArray, FloatArray]:
        """Return the parts of the risk there, and a subgradient of each."""
        return self._problem.answer(lambda: self._segment.parts(t), b"parts of segment", *self._question(t))

    def then(self, t: float, end: FloatArray) -> CheckpointedSegment:
        """Return the segment from there to another point."""
        return CheckpointedSegment(self._problem, self._segment.then(t, end))

    def _question(self, t: float) -> tuple[bytes, ...]:
        return _bytes(self.start), _bytes(self.end), _bytes(np.array([t]))


def checkpointed(problem: Problem, log: Log | None, name: str) -> Problem:
    """Return a problem that adds its answers to a log; the problem itself without a log."""
    return problem if log is None else CheckpointedProblem(problem, log.log(name))


def _bytes(numbers: FloatArray) -> bytes:
    return np.ascontiguousarray(numbers, dtype="<f8").tobytes()
