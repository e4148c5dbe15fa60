"""Options of the commands that evaluate systems: measures and policy."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Annotated, Final, Literal

import typer

from marginrank.cli.exit_codes import UsageError, naming_option
from marginrank.cli.options.shared_options import measure_names, policy_option, unjudged_option
from marginrank.runtime.default_measures import DEFAULT_MEASURE, DEFAULT_MEASURES

if TYPE_CHECKING:
    from marginrank.measures import Measure

#: The baseline where none is named.
BASELINE: Final = "the first that is not a model"


@dataclass(frozen=True)
class EvaluationOptions:
    """Measures, policy, and how much of a ranking is evaluated."""

    measures: Annotated[
        list[str],
        typer.Option(
            "--measure",
            "-m",
            metavar="MEASURE",
            help="A measure; repeat for more. The first is used where only one is shown.",
            show_default=f"{DEFAULT_MEASURE}; evaluate and report also show {', '.join(DEFAULT_MEASURES[1:])}",
            autocompletion=measure_names,
        ),
    ] = field(default_factory=list)
    policy: Annotated[str, policy_option()] = "standard"
    depth: Annotated[
        int | None, typer.Option(min=1, help="Evaluate rankings down to this depth.", show_default="all")
    ] = None
    missing_topics: Annotated[
        Literal["error", "skip", "zero"], typer.Option(help="How to score judged topics missing from the run.")
    ] = "error"
    unjudged: Annotated[Literal["skip", "irrelevant"] | None, unjudged_option()] = None

    @property
    def unjudged_rule(self) -> Literal["skip", "irrelevant"]:
        """The treatment of documents without a grade."""
        return self.unjudged or "irrelevant"

    @property
    def spellings(self) -> list[str]:
        """Return the measures asked for, or the default ones."""
        from marginrank.measures.base import respell  # noqa: PLC0415

        return [respell(measure) for measure in self.measures or DEFAULT_MEASURES]

    def check(self, names: Sequence[str], baseline: str | None) -> None:
        """Refuse what is unknown, before any work is done."""
        from marginrank.evaluation.policies import parse_policy  # noqa: PLC0415
        from marginrank.measures import parse_measure  # noqa: PLC0415

        with naming_option("policy"):
            rules = parse_policy(self.policy)
        with naming_option("measures"):
            for measure in self.spellings:
                parse_measure(measure, rules.parameters)
        if baseline is not None and baseline not in names:
            raise UsageError(f"there is no system {baseline!r}; known: {', '.join(names)}")

    def check_bounds(self) -> None:
        """Refuse ``--bounds`` without an additive measure, or of lists without unjudged documents."""
        if not self.additive:
            raise UsageError("--bounds are for additive measures, such as -m dcg@10, -m p@10 or -m rbp; name one")
        if self.unjudged_rule == "skip":
            raise UsageError("--bounds are of lists with unjudged documents, and --unjudged skip leaves them out")

    def _parsed(self) -> list[Measure]:
        from marginrank.evaluation.policies import parse_policy  # noqa: PLC0415
        from marginrank.measures import parse_measure  # noqa: PLC0415

        return [parse_measure(name, parse_policy(self.policy).parameters) for name in self.spellings]

    @property
    def additive(self) -> list[str]:
        """The additive ones of the measures."""
        from marginrank.evaluation.grade_bounds import is_additive  # noqa: PLC0415

        return [name for name, one in zip(self.spellings, self._parsed(), strict=True) if is_additive(one)]

    def check_systems(self, systems: Mapping[str, object]) -> None:
        """Refuse options for runs where no system is one."""
        from marginrank.data.formats.trec import Run  # noqa: PLC0415

        if self.missing_topics != "error" and not any(isinstance(system, Run) for system in systems.values()):
            raise UsageError("--missing-topics is for TREC runs, and no system is one; leave it out")
