"""The base classes of export targets."""

from __future__ import annotations

import json
import re
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import chain, count
from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar, Literal, NamedTuple, cast

from marginrank.errors import DataError, Message, Parameter
from marginrank.export.tree_ensemble import filled_otherwise_than_zero
from marginrank.runtime.option_objects import OptionObject, parse_spelling, registered
from marginrank.runtime.text import feature_named
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
    case_sensitive = True
    #: Description of the models that it takes.
    takes: ClassVar[str]
    #: Suffix of the file.
    suffix: ClassVar[str]
    #: Whether a feature that a document lacks is 0 there.
    missing_is_zero: ClassVar[bool] = False
    #: Whether it takes fusions of runs, and whether it takes rankers.
    takes_fusions: ClassVar[bool] = False
    takes_rankers: ClassVar[bool] = True

    @abstractmethod
    def refusal(self, function: ScoringFunction) -> Message | None:
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
    check_names(function.inputs)
    reason = _refusal(target, function)
    if reason is not None:
        others = [name for name, kind in all_targets().items() if _refusal(kind(), function) is None]
        advice = f"targets for this model: {', '.join(others)}" if others else "no target takes it"
        raise DataError(f"{target.name} takes {target.takes}; ", reason, f"; {advice}")


def _refusal(target: Target, function: ScoringFunction) -> Message | None:
    if isinstance(function, FusedFunction) and not target.takes_fusions:
        return "this model combines runs"
    if not isinstance(function, FusedFunction) and not target.takes_rankers:
        return "this model scores features"
    return target.refusal(function)


def not_tree_shaped(function: ScoringFunction) -> Message | None:
    """Return the reason why a function is not a sum of trees, or None."""
    if function.needs_queries:
        return f"its scaling is {function.scaling}"
    return next((why for why in map(_no_tree, function.terms) if why is not None), None)


def _no_tree(term: Term) -> Message | None:
    if isinstance(term, CurvesTerm):
        steps = Parameter("scorer", "additive(shape=steps)")
        return None if term.steps else ("its curves are lines; train with ", steps)
    if isinstance(term, TreesTerm):
        return "its scores are expected grades" if len(term.grades) else None
    return _kind_of(term)


def _kind_of(term: Term) -> str:
    return f"it is {'an' if term.kind[0] in 'aeiou' else 'a'} {term.kind} model"


def missing_is_not_zero(function: ScoringFunction, advice: Message) -> Message | None:
    """Return the reason why engines that take 0 for missing values score otherwise than the model, or None."""
    features = [function.names[feature] for feature in filled_otherwise_than_zero(function)]
    if not features:
        return None
    more = f" and {len(features) - 1} more" if len(features) > 1 else ""
    problem = f"missing values are 0 there, and this model scores them otherwise ({feature_named(features[0])}{more})"
    return f"{problem}; train on data with 0 in their place, ", advice


def other_terms(function: ScoringFunction, *known: type[Term]) -> str | None:
    """Return the name of a term that is none of those known, or None."""
    return next((_kind_of(term) for term in function.terms if not isinstance(term, known)), None)


def identifier(name: str) -> str:
    """Return a name of letters, digits and underscores.

    >>> identifier("price in €"), identifier("3 clicks")
    ('price_in_', '_3_clicks')
    """
    plain = re.sub(r"\W+", "_", name, flags=re.ASCII)
    return f"_{plain}" if not plain or plain[0].isdigit() else plain


def distinct_names(names: Sequence[str], clean: Callable[[str], str] = identifier) -> list[str]:
    """Return the names after cleaning, each of them once: clean names stay, and others are numbered if they collide.

    >>> distinct_names(["a b", "a-b"])
    ['a_b', 'a_b_1']
    >>> distinct_names(["a b", "a_b", "a-b", "a_b_1"])
    ['a_b_2', 'a_b', 'a_b_3', 'a_b_1']
    """
    taken = {name for name in names if clean(name) == name}
    distinct = []
    for name in names:
        plain = clean(name)
        if plain != name:
            numbered = (f"{plain}_{number}" for number in count(1))
            plain = next(candidate for candidate in chain([plain], numbered) if candidate not in taken)
            taken.add(plain)
        distinct.append(plain)
    return distinct


def check_names(names: Iterable[str]) -> None:
    """Refuse names that files and databases do not hold."""
    for name in names:
        if "\0" in name:
            raise DataError(f"{feature_named(name)} has a NUL in its name; rename it, and train again")
        try:
            name.encode()
        except UnicodeEncodeError:
            problem = f"{feature_named(name)} has a lone surrogate in its name, which is not text"
            raise DataError(f"{problem}; rename it, and train again") from None


def placeholder(title: str) -> dict[str, str]:
    """Return what stands for a query that only the user can write; it is no query of any engine."""
    return {"TODO": f"write the query whose score is {title}"}


def json_text(document: Any) -> str:
    """Return the text of a JSON file."""
    return json.dumps(document, indent=2, ensure_ascii=False) + "\n"


@dataclass(frozen=True)
class Plugin(Target, ABC):
    """A plugin that scores linear models and trees of features it computes itself; those a document lacks are 0."""

    takes: ClassVar[str] = "linear models, trees and additive models with steps"
    suffix: ClassVar[str] = ".json"
    missing_is_zero: ClassVar[bool] = True
    missing: Literal["error", "zero"] = "error"

    def refusal(self, function: ScoringFunction) -> Message | None:
        """Return the reason why a function is not taken, or None."""
        reason = None if is_linear(function) else not_tree_shaped(function)
        if reason is None and self.missing == "error":
            return missing_is_not_zero(function, f"or accept it with {replace(self, missing='zero')}")
        return reason


class Weight(NamedTuple):
    """The weight of a feature, with its mean and standard deviation if features are standardized."""

    feature: str
    weight: float
    mean: float
    scale: float


def is_linear(function: ScoringFunction) -> bool:
    """Return whether a function is a sum of weights of standardized or raw features."""
    return not function.needs_queries and len(function.terms) == 1 and isinstance(function.terms[0], LinearTerm)


def weights_of(function: ScoringFunction, features: list[str]) -> list[Weight]:
    """Return the weights of a linear function, without features that were constant in training."""
    term = function.terms[0]
    assert isinstance(term, LinearTerm)
    means = [0.0] * len(features) if function.mean is None else function.mean.tolist()
    scales = [1.0] * len(features) if function.scale is None else function.scale.tolist()
    weights = map(Weight, features, term.weights.tolist(), means, scales)
    return [weight for weight in weights if weight.scale]
