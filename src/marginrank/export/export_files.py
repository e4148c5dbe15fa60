"""Exports with their check files, and the checks."""

from __future__ import annotations

import errno
import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final

import numpy as np

from marginrank.errors import DataError
from marginrank.export.base import Export, Target, check_taken, parse_target
from marginrank.runtime.files import atomic_path
from marginrank.scorers.scoring_function import FusedFunction, ScoringFunction
from marginrank.scorers.terms import AdaptiveTerm, CurvesTerm, KernelTerm, Term, TreesTerm
from marginrank.typing import FloatArray

#: Largest difference of scores, as a share of the largest score.
TOLERANCE: Final = 1e-6
_QUERIES: Final = 20
_PER_QUERY: Final = 10
#: Sizes of the values that are drawn: LightGBM takes what is smaller for 0, and float32 has nothing much larger.
_TINY, _HUGE = 1e-30, 1e30


@dataclass(frozen=True, eq=False)
class Check:
    """Documents with the scores that a model gives them.

    Args:
        features: Names of the columns.
        X: One row per document; NaN if a value is missing.
        group: Number of consecutive documents of each query.
        scores: What the model gives.
        value_types: ``bool`` and ``int`` for features whose values are not of type float, by name.
    """

    features: tuple[str, ...]
    X: FloatArray
    group: tuple[int, ...]
    scores: FloatArray
    value_types: Mapping[str, type] = field(default_factory=dict)

    @property
    def rows(self) -> list[list[float | bool | None]]:
        """The values of each document, typed like the data, and None if missing."""
        kinds = [self.value_types.get(feature, float) for feature in self.features]
        return [
            [None if np.isnan(x) else kind(x) for kind, x in zip(kinds, values, strict=True)]
            for values in self.X.tolist()
        ]

    @property
    def queries(self) -> list[str]:
        """The query of each document."""
        return [f"q{number + 1}" for number, size in enumerate(self.group) for _ in range(size)]

    @property
    def documents(self) -> list[str]:
        """The id of each document."""
        return [f"d{number + 1}" for number in range(len(self.X))]

    def compare(self, scores: Sequence[float] | FloatArray) -> str | None:
        """Describe how scores differ from those expected; None if they agree and rank alike."""
        returned = np.asarray(scores, dtype=np.float64)
        if returned.shape != self.scores.shape:
            return f"{len(returned)} scores for {len(self.scores)} documents"
        limit = TOLERANCE * float(np.abs(self.scores).max(initial=0.0))
        apart = np.abs(returned - self.scores)
        if not (apart <= limit).all():
            at = int(np.argmax(np.where(np.isnan(apart), np.inf, apart)))
            return f"document d{at + 1} has score {returned[at]:.9g}, and {self.scores[at]:.9g} is expected"
        start = 0
        for query, size in enumerate(self.group):
            rows = slice(start, start + size)
            order = np.argsort(-returned[rows], kind="stable")
            if (np.diff(self.scores[rows][order]) > limit).any():
                return f"query q{query + 1} is ranked differently"
            start += size
        return None

    def to_json(self) -> str:
        """Return the file: one document to a line."""
        head = {"features": self.features, "tolerance": TOLERANCE}
        rows = [
            json.dumps({"query": query, "document": document, "values": values, "score": score})
            for query, document, values, score in zip(
                self.queries, self.documents, self.rows, self.scores.tolist(), strict=True
            )
        ]
        listed = ",\n".join(rows)
        return f'{json.dumps(head, ensure_ascii=False)[:-1]}, "documents": [\n{listed}\n]}}\n'

    @classmethod
    def read(cls, path: Path) -> Check:
        """Read a check file."""
        try:
            content = json.loads(path.read_text("utf-8"))
            rows = content["documents"]
            values = [[np.nan if value is None else value for value in row["values"]] for row in rows]
            queries = [row["query"] for row in rows]
            group = [queries.count(query) for query in dict.fromkeys(queries)]
            scores = np.array([row["score"] for row in rows], dtype=np.float64)
            X = np.array(values, dtype=np.float64).reshape(len(rows), len(content["features"]))
            columns = zip(content["features"], zip(*(row["values"] for row in rows), strict=True), strict=True)
            types = {name: _type_of(column) for name, column in columns}
            return cls(tuple(content["features"]), X, tuple(group), scores, types)
        except (KeyError, TypeError, ValueError) as error:
            raise DataError(f"this is not a check file ({error}); export the model again", path=path) from None


def _type_of(column: Sequence[Any]) -> type:
    """Return the type of values apart from None: bool, int or float."""
    kinds = {type(x) for x in column if x is not None}
    return kinds.pop() if kinds in ({bool}, {int}) else float


def make_check(function: ScoringFunction, *, missing_is_zero: bool = False) -> Check:
    """Draw documents on which a wrong export is likely to show, and score them.

    Values are numbers of float32, as most engines keep them, many of them exactly on thresholds of the model. Some are
    missing if the model takes missing values, or if they are 0 for the target.
    """
    rng = np.random.default_rng(0)
    group = (_PER_QUERY,) * _QUERIES
    n = sum(group)
    X = np.column_stack([np.zeros((n, 0)), *(_column(function, at, n, rng) for at in range(function.n_features))])
    X = np.where(np.abs(X) < _TINY, 0.0, X).astype(np.float32).astype(np.float64)
    if missing_is_zero or function.takes_nan:
        X[rng.random(X.shape) < 0.1] = np.nan
    scores = function.score(np.nan_to_num(X, nan=0.0) if missing_is_zero else X, group)
    return Check(function.names, X, group, scores, function.value_types)


def _column(function: ScoringFunction, feature: int, n: int, rng: np.random.Generator) -> FloatArray:
    """Draw values of one feature: about its mean, or on and between the thresholds of the model."""
    kind = function.value_types.get(function.names[feature], float)
    if kind is bool:
        return rng.integers(0, 2, n).astype(np.float64)
    known = np.concatenate([np.zeros(0), *(_landmarks(term, feature) for term in function.terms)])
    known = known[np.abs(known) < _HUGE]
    if not len(known):
        known = np.array([-2.0, 2.0])
    spread = np.ptp(known) or 1.0
    values = rng.uniform(known.min() - spread / 4, known.max() + spread / 4, n)
    values = np.where(rng.random(n) < 0.5, rng.choice(known, n), values)
    if function.mean is not None and function.scale is not None:
        values = np.asarray(function.mean[feature] + values * (function.scale[feature] or 1.0))
    return np.rint(values) if kind is int else values


def _landmarks(term: Term, feature: int) -> FloatArray:
    """Return values of a feature that a term knows."""
    if isinstance(term, CurvesTerm):
        curve = term.curves[feature]
        return curve.thresholds if curve.start is None else np.r_[curve.start, curve.thresholds]
    if isinstance(term, TreesTerm):
        return np.asarray(term.threshold[term.feature == feature])
    if isinstance(term, KernelTerm):
        return term.documents[:, feature]
    if isinstance(term, AdaptiveTerm) and feature in term.context:
        low, width = (array[term.context == feature] for array in (term.low, term.width))
        return np.concatenate([low, low + width])
    return np.zeros(0)


def export(
    function: ScoringFunction,
    target: str | Target,
    path: str | Path,
    check: Check | None = None,
    *,
    overwrite: bool = True,
) -> Export:
    """Write a scoring function for a target, and a check file beside it.

    Args:
        function: What to write.
        target: A `Target` or its spelling, such as ``python`` or ``sql(dialect=duckdb)``.
        path: The file to write.
        check: Documents and the scores to expect; drawn from the function by default.
        overwrite: Replace files of that name instead of refusing them.
    """
    place, chosen = Path(path), parse_target(target)
    check_taken(chosen, function)
    files: dict[Path, str | bytes] = {}
    for ending, content in chosen.write(function).items():
        files[_beside(place, ending) if ending else place] = content
    if check is None and not isinstance(function, FusedFunction):
        check = make_check(function, missing_is_zero=chosen.missing_is_zero)
    if check is not None:
        files[check_path(place)] = check.to_json()
    taken = [] if overwrite else [name for name in files if name.exists()]
    if taken:
        raise FileExistsError(errno.EEXIST, "exists; choose another name or pass overwrite=True", str(taken[0]))
    for name, content in files.items():
        with atomic_path(name, overwrite=overwrite) as waiting:
            waiting.write_bytes(content.encode() if isinstance(content, str) else content)
    return Export(tuple(files), chosen.next_steps(place))


def verify(target: str | Target, path: str | Path) -> Check:
    """Score the documents of the check file beside an export with the export itself.

    Raises:
        CannotRunError: What the target needs is not here.
        DataError: The scores are not those expected.
    """
    place, chosen = Path(path), parse_target(target)
    check = Check.read(check_path(place))
    difference = check.compare(chosen.run(place, check))
    if difference is not None:
        raise DataError(f"{chosen.name} does not agree with the model: {difference}", path=place)
    return check


def check_path(path: Path) -> Path:
    """Return the name of the check file of an export.

    >>> check_path(Path("out/model.onnx")).name
    'model.check.json'
    """
    return _beside(path, ".check.json")


def _beside(path: Path, ending: str) -> Path:
    return path.with_name(path.name.partition(".")[0] + ending)
