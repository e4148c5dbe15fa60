"""The base classes of export targets."""

from __future__ import annotations

import json
import re
from abc import ABC, abstractmethod
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from itertools import count
from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar, NamedTuple, cast

from marginrank.errors import DataError
from marginrank.runtime.option_objects import OptionObject, parse_spelling, registered
from marginrank.scorers.scoring_function import FusedFunction, ScoringFunction
from marginrank.scorers.terms import CurvesTerm, LinearTerm, Term, TreesTerm
from marginrank.typing import FloatArray

if TYPE_CHECKING:
    from marginrank.export.export_files import Check


class CannotRunError(RuntimeError):
    """Raised if a check needs a program or a server that is not available."""


class Export(NamedTuple):
    """The files of an export, and what to do with them."""

    files: tuple[Path, ...]
    next_steps: str


@dataclass(frozen=True)
class Target(OptionObject, ABC):
    """An export target."""

    family = "target"
    example = "python or sql(dialect=duckdb)"
    keeps_case = True
    #: Description of the models that it takes.
    takes: ClassVar[str]
    #: Suffix of the file.
    suffix: ClassVar[str]
    #: Whether features may be missing there.
    knows_missing: ClassVar[bool] = True
    #: Whether it takes fusions of runs, and whether it takes rankers.
    takes_fusions: ClassVar[bool] = False
    takes_rankers: ClassVar[bool] = True

    @abstractmethod
    def refusal(self, function: ScoringFunction) -> str | None:
        """Return the reason why a function is not taken, or None."""

    @abstractmethod
    def write(self, function: ScoringFunction) -> Mapping[str, str | bytes]:
        """Return the files to write, by what is added to the path without its suffix."""

    @abstractmethod
    def next_steps(self, path: Path) -> str:
        """Return what to do with the file."""

    def run(self, path: Path, check: Check) -> FloatArray:  # noqa: ARG002
        """Score the documents of a check with an exported file.

        Raises:
            CannotRunError: What the target needs is not available.
        """
        raise CannotRunError(f"{self.name} does not run here; score the documents of the check file there and compare")


def all_targets() -> dict[str, type[Target]]:
    """Return every target by name."""
    return cast("dict[str, type[Target]]", registered(Target))


def parse_target(spec: str | Target) -> Target:
    """Read the spelling of a target, such as ``python`` or ``sql(dialect=postgresql)``.

    >>> parse_target("sql(dialect=duckdb, table=Hits)")
    Sql(dialect='duckdb', table='Hits', query='query_id', document='document_id')
    """
    return cast("Target", parse_spelling(Target, spec))


def check_taken(target: Target, function: ScoringFunction) -> None:
    """Refuse a function that a target does not take, and name the targets that do."""
    reason = _refusal(target, function)
    if reason is not None:
        others = [name for name, kind in all_targets().items() if _refusal(kind(), function) is None]
        advice = f"targets for this model: {', '.join(others)}" if others else "no target takes it"
        raise DataError(f"{target.name} takes {target.takes}; {reason}; {advice}")


def _refusal(target: Target, function: ScoringFunction) -> str | None:
    if isinstance(function, FusedFunction) and not target.takes_fusions:
        return "this model combines runs"
    if not isinstance(function, FusedFunction) and not target.takes_rankers:
        return "this model scores features"
    return target.refusal(function)


def not_tree_shaped(function: ScoringFunction) -> str | None:
    """Return the reason why a function is not a sum of trees, or None."""
    if function.needs_queries:
        return f"its scaling is {function.scaling}"
    return next((why for why in map(_no_tree, function.terms) if why is not None), None)


def _no_tree(term: Term) -> str | None:
    if isinstance(term, CurvesTerm):
        return None if term.steps else "its curves are lines; train with scorer='additive(shape=steps)'"
    if isinstance(term, TreesTerm):
        return "its scores are expected grades" if len(term.grades) else None
    return f"it is a {term.kind} model"


def other_terms(function: ScoringFunction, *known: type[Term]) -> str | None:
    """Return the name of a term that is none of those known, or None."""
    return next((f"it is a {term.kind} model" for term in function.terms if not isinstance(term, known)), None)


def identifier(name: str) -> str:
    """Return a name of letters, digits and underscores.

    >>> identifier("price in €"), identifier("3 clicks")
    ('price_in_', '_3_clicks')
    """
    plain = re.sub(r"\W+", "_", name, flags=re.ASCII)
    return f"_{plain}" if not plain or plain[0].isdigit() else plain


def identifiers(names: Iterable[str]) -> list[str]:
    """Return names of letters, digits and underscores, each of them once.

    >>> identifiers(["a b", "a_b_1", "a-b"])
    ['a_b', 'a_b_1', 'a_b_2']
    """
    plain: list[str] = []
    for name in map(identifier, names):
        others = (f"{name}_{number}" for number in count(1))
        plain.append(name if name not in plain else next(candidate for candidate in others if candidate not in plain))
    return plain


def json_text(document: Any) -> str:
    """Return the text of a JSON file."""
    return json.dumps(document, indent=2, ensure_ascii=False) + "\n"


@dataclass(frozen=True)
class Plugin(Target, ABC):
    """A plugin that scores linear models and trees of features it computes itself."""

    takes: ClassVar[str] = "linear models, trees and additive models with steps"
    suffix: ClassVar[str] = ".json"
    knows_missing: ClassVar[bool] = False

    def refusal(self, function: ScoringFunction) -> str | None:
        """Return the reason why a function is not taken, or None."""
        return None if is_linear(function) else not_tree_shaped(function)


class Weight(NamedTuple):
    """The weight of a feature, with its mean and standard deviation if features are standardised."""

    feature: str
    weight: float
    mean: float
    scale: float


def is_linear(function: ScoringFunction) -> bool:
    """Return whether a function is a sum of weights of standardised or raw features."""
    return not function.needs_queries and len(function.terms) == 1 and isinstance(function.terms[0], LinearTerm)


def weights_of(function: ScoringFunction, features: list[str]) -> list[Weight]:
    """Return the weights of a linear function, without features that were constant in training."""
    term = function.terms[0]
    assert isinstance(term, LinearTerm)
    means = [0.0] * len(features) if function.mean is None else function.mean.tolist()
    scales = [1.0] * len(features) if function.scale is None else function.scale.tolist()
    weights = map(Weight, features, term.weights.tolist(), means, scales)
    return [weight for weight in weights if weight.scale]
