"""What is trained: the parameters of `Ranker` as options."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Annotated, Any, Final, Literal

import typer

from marginrank.cli.completion import measure_names, preset_names
from marginrank.cli.failures import Misuse

_METHOD: Final = "Method"
_SCORER: Final = "Scorer"
_SOLVER: Final = "Solver"


@dataclass(frozen=True)
class Method:
    """The parameters of a ranker, but C."""

    preset: Annotated[
        str | None,
        typer.Option(
            help="A method by name; `marginrank presets` lists them.",
            show_default="svmmap",
            autocompletion=preset_names,
            rich_help_panel=_METHOD,
        ),
    ] = None
    measure: Annotated[
        str | None,
        typer.Option(
            help="Instead, the measure to train for, or a mix such as 'ndcg@10 + 0.5*ap'.",
            show_default=False,
            autocompletion=measure_names,
            rich_help_panel=_METHOD,
        ),
    ] = None
    feature_map: Annotated[
        str | None,
        typer.Option(
            help="With --measure, the joint feature map: po, dorm or mrr.", show_default=False, rich_help_panel=_METHOD
        ),
    ] = None
    bound: Annotated[
        Literal["hinge", "tight", "auto"] | None,
        typer.Option(
            help="hinge is convex; tight is closer to the measure.",
            show_default="by preset, else auto",
            rich_help_panel=_METHOD,
        ),
    ] = None
    weighting: Annotated[
        Literal["grades", "relevant", "pairs", "sqrt-pairs"] | None,
        typer.Option(help="What queries weigh.", show_default="all the same", rich_help_panel=_METHOD),
    ] = None
    start: Annotated[
        Literal["ranksvm", "regression"] | None,
        typer.Option(
            help="Where the tight bound begins and stays near.", show_default="by preset", rich_help_panel=_METHOD
        ),
    ] = None
    start_C: Annotated[  # noqa: N815
        float, typer.Option("--start-C", help="C of that start.", rich_help_panel=_METHOD)
    ] = 100.0
    anneal: Annotated[
        int,
        typer.Option(help="Steps over which the tight bound takes the place of the hinge.", rich_help_panel=_METHOD),
    ] = 0
    scorer: Annotated[
        Literal["linear", "additive"],
        typer.Option(help="Weights, or one curve per feature.", rich_help_panel=_SCORER),
    ] = "linear"
    bins: Annotated[int, typer.Option(help="Most bins per feature.", rich_help_panel=_SCORER)] = 255
    spacing: Annotated[
        Literal["mixed", "quantile", "even"], typer.Option(help="How bins are placed.", rich_help_panel=_SCORER)
    ] = "quantile"
    shape: Annotated[
        Literal["steps", "lines"], typer.Option(help="Curves of steps or of lines.", rich_help_panel=_SCORER)
    ] = "lines"
    monotone: Annotated[
        list[str],
        typer.Option(
            metavar="FEATURE=increasing",
            help="Curves that only rise, or fall (decreasing); repeat it, or leave out FEATURE= for all.",
            show_default=False,
            rich_help_panel=_SCORER,
        ),
    ] = field(default_factory=list)
    nonnegative: Annotated[
        bool, typer.Option("--nonnegative", help="No negative weights.", rich_help_panel=_SCORER)
    ] = False
    nonnegative_feature: Annotated[
        list[str],
        typer.Option(
            metavar="NAME",
            help="No negative weight for this feature, by name or number from 0; repeat it for more.",
            show_default=False,
            rich_help_panel=_SCORER,
        ),
    ] = field(default_factory=list)
    scaling: Annotated[
        Literal["standard", "query-minmax", "query-standard", "query-percentile"] | None,
        typer.Option(help="Common scale of the features, inside the model.", rich_help_panel=_SCORER),
    ] = None
    solver: Annotated[
        Literal["auto", "bundle", "newton", "frank-wolfe", "n-slack", "subgradient", "conjugate-subgradient", "cccp"],
        typer.Option(help="How the objective is minimised.", rich_help_panel=_SOLVER),
    ] = "auto"
    tol: Annotated[
        float, typer.Option(help="Gap to the optimum, as a share of the objective.", rich_help_panel=_SOLVER)
    ] = 1e-4
    max_iter: Annotated[int, typer.Option(help="Most iterations.", rich_help_panel=_SOLVER)] = 1000
    time_limit: Annotated[
        float | None,
        typer.Option(help="Most seconds of each fit.", show_default=False, rich_help_panel=_SOLVER),
    ] = None
    patience: Annotated[
        int,
        typer.Option(
            help="With -C and --valid, iterations without an improvement after which training stops.",
            rich_help_panel=_SOLVER,
        ),
    ] = 10
    random_state: Annotated[int, typer.Option(help="Seed.", rich_help_panel=_SOLVER)] = 0
    n_jobs: Annotated[int | None, typer.Option(help="Threads.", show_default="all cores", rich_help_panel=_SOLVER)] = (
        None
    )

    def check(self) -> None:
        """Refuse what can be refused before any data is read."""
        from marginrank.methods.presets import loss_for, parse_preset  # noqa: PLC0415

        if self.preset is not None and self.measure is not None:
            raise Misuse("give --preset or --measure, not both")
        if self.feature_map is not None and self.measure is None:
            raise Misuse("--feature-map goes with --measure; a preset has its own")
        if self.preset is not None:
            parse_preset(self.preset)
        if self.measure is not None:
            loss_for(self.measure, self.feature_map)
        if self.scorer == "additive" and (self.nonnegative or self.nonnegative_feature):
            raise Misuse("--nonnegative is for linear weights; for step functions give --monotone increasing")
        if self.scorer == "linear" and self.monotone:
            raise Misuse("--monotone goes with --scorer additive; for linear weights give --nonnegative")
        _directions(self.monotone, None)

    def parameters(self, names: Sequence[str] | None) -> dict[str, Any]:
        """Parameters of the ranker, given the names of the features."""
        own = {key: value for key, value in vars(self).items() if key != "nonnegative_feature"}
        chosen = [_feature(word, names) for word in self.nonnegative_feature]
        return own | {"monotone": _directions(self.monotone, names), "nonnegative": self.nonnegative or chosen or False}


def _directions(words: Sequence[str], names: Sequence[str] | None) -> str | dict[int | str, str] | None:
    """Read directions of step functions.

    >>> _directions(["bm25=increasing", "1=decreasing"], ["bm25", "age"]), _directions(["increasing"], None)
    ({'bm25': 'increasing', 1: 'decreasing'}, 'increasing')
    """
    if not words:
        return None
    pairs = [word.rpartition("=")[::2] for word in words]
    for feature, direction in pairs:
        if direction not in ("increasing", "decreasing"):
            given = f"{feature}={direction}" if feature else direction
            raise Misuse(f"--monotone {given}: write FEATURE=increasing or FEATURE=decreasing")
    if len(pairs) == 1 and not pairs[0][0]:
        return pairs[0][1]
    if any(not feature for feature, _ in pairs):
        raise Misuse("--monotone without FEATURE= is for all features; give it alone")
    return {_feature(feature, names): direction for feature, direction in pairs}


def _feature(word: str, names: Sequence[str] | None) -> int | str:
    """A feature by its name or, where no feature is called so, by its number from 0."""
    return word if word in (names or ()) or not word.isdecimal() else int(word)
