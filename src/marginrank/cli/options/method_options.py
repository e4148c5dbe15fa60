"""Options of the method: the parameters of `Ranker`, and of its loss, bound, scorer and solver."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Annotated, Any, ClassVar, Final, Literal

import typer

from marginrank.cli.exit_codes import UsageError, naming_option
from marginrank.cli.options.shared_options import (
    bound_option,
    jobs_option,
    measure_names,
    preset_names,
    unjudged_option,
)
from marginrank.errors import Message, Parameter

if TYPE_CHECKING:
    from marginrank.methods.presets import ResolvedMethod as ParsedMethod

_SCORER: Final = "Scorer"
_SOLVER: Final = "Solver"
#: Options of the additive scorer, the linear scorer, the tight bound, solvers, and all methods that minimize a loss.
_OF_ADDITIVE: Final = ("bins", "spacing", "shape", "monotone")
_OF_LINEAR: Final = ("nonnegative", "nonnegative_feature")
_OF_TIGHT: Final = ("start", "start_C", "anneal")
_OF_SOLVERS: Final = (*_OF_TIGHT, "solver", "tol", "max_iter")
_OF_LOSSES: Final = ("bound", *_OF_SOLVERS)
#: The scorer that is chosen on held-out queries.
_CHOSEN: Final = "auto"

#: The help of ``--preset``; a test compares the names with those that are recommended.
PRESET_HELP: Final = (
    "The method to train. Recommended: svmndcg, svmmap, listnet or ranksvm; `marginrank presets` lists all."
)


@dataclass(frozen=True)
class MethodOptions:
    """The parameters of a ranker, but C."""

    panel: ClassVar = "Method"

    preset: Annotated[
        str | None,
        typer.Option(
            metavar="NAME",
            help=PRESET_HELP,
            show_default="svmmap",
            autocompletion=preset_names,
        ),
    ] = None
    measure: Annotated[
        str | None,
        typer.Option(
            metavar="MEASURE",
            help="Instead of --preset, the measure to train for, or a mix such as 'ndcg@10 + 0.5*ap'.",
            autocompletion=measure_names,
        ),
    ] = None
    feature_map: Annotated[
        str | None,
        typer.Option(
            metavar="po|dorm|mrr",
            help="With --measure, the joint feature map; dorm takes options: 'dorm(shape=log)'.",
            show_default="mrr for rr, else po",
        ),
    ] = None
    groups: Annotated[
        Literal["auto", "ignore"],
        typer.Option(
            help="Document groups in training; auto: rank one document of each group, if the loss supports it."
        ),
    ] = "auto"
    bound: Annotated[Literal["hinge", "tight", "auto"] | None, bound_option()] = None
    weighting: Annotated[
        Literal["grades", "relevant", "pairs", "sqrt-pairs"] | None,
        typer.Option(
            metavar="NAME",
            help="Weight queries by: grades, relevant, pairs or sqrt-pairs.",
            show_default="equal weights",
        ),
    ] = None
    unjudged: Annotated[Literal["skip", "irrelevant"] | None, unjudged_option()] = None
    start: Annotated[
        Literal["ranksvm", "regression"] | None,
        typer.Option(
            help="Method that trains the initial weights for the tight bound; training stays close to them.",
            show_default="by preset, else ranksvm",
        ),
    ] = None
    start_C: Annotated[  # noqa: N815
        float | None, typer.Option("--start-C", help="C of the --start method.", show_default="100")
    ] = None
    anneal: Annotated[
        int | None,
        typer.Option(help="Number of iterations over which the tight bound replaces the hinge.", show_default="0"),
    ] = None
    scorer: Annotated[
        str,
        typer.Option(
            metavar="SCORER",
            help="linear, additive (a curve per feature), kernel, boosted (trees) or neural; with options, "
            "'kernel(gamma=0.1,rank=200)'; auto chooses between linear and additive, together with C.",
            rich_help_panel=_SCORER,
        ),
    ] = "linear"
    bins: Annotated[
        int | None,
        typer.Option(help="Maximum number of bins per feature.", show_default="255", rich_help_panel=_SCORER),
    ] = None
    spacing: Annotated[
        Literal["mixed", "quantile", "even"] | None,
        typer.Option(help="How bins are placed.", show_default="quantile", rich_help_panel=_SCORER),
    ] = None
    shape: Annotated[
        Literal["steps", "lines"] | None,
        typer.Option(help="Step functions, or piecewise linear curves.", show_default="lines", rich_help_panel=_SCORER),
    ] = None
    monotone: Annotated[
        list[str],
        typer.Option(
            metavar="FEATURE=increasing",
            help="Make a curve increasing or decreasing; repeat for more features, leave out FEATURE= for all.",
            rich_help_panel=_SCORER,
        ),
    ] = field(default_factory=list)
    nonnegative: Annotated[
        bool, typer.Option("--nonnegative", help="No negative weights.", rich_help_panel=_SCORER)
    ] = False
    nonnegative_feature: Annotated[
        list[str],
        typer.Option(
            metavar="NAME", help="No negative weight for this feature; repeat for more.", rich_help_panel=_SCORER
        ),
    ] = field(default_factory=list)
    scaling: Annotated[
        Literal["auto", "none", "standard", "query-minmax", "query-standard", "query-percentile"],
        typer.Option(
            metavar="NAME",
            help="Scaling of the features, stored in the model: auto, none, standard, query-minmax, query-standard or "
            "query-percentile.",
            rich_help_panel=_SCORER,
        ),
    ] = "auto"
    solver: Annotated[
        str | None,
        typer.Option(
            metavar="SOLVER",
            help="auto, bundle, newton, frank-wolfe, n-slack, stochastic, subgradient, cccp or descent; with options, "
            "'bundle(idle=10)'.",
            show_default="auto",
            rich_help_panel=_SOLVER,
        ),
    ] = None
    tol: Annotated[
        float | None,
        typer.Option(
            help="Gap at which to stop, relative to the objective.",
            show_default="1e-4 for auto",
            rich_help_panel=_SOLVER,
        ),
    ] = None
    max_iter: Annotated[
        int | None,
        typer.Option(help="Maximum number of iterations.", show_default="by solver", rich_help_panel=_SOLVER),
    ] = None
    time_limit: Annotated[float | None, typer.Option(help="Maximum number of seconds.", rich_help_panel=_SOLVER)] = None
    patience: Annotated[
        int | None,
        typer.Option(
            help="With --valid, and -C if the method has a C, stop after this many iterations without improvement.",
            show_default="10; 50 for trees and baselines",
            rich_help_panel=_SOLVER,
        ),
    ] = None
    random_state: Annotated[
        int | None,
        typer.Option(help="Seed of the random numbers.", show_default="0", rich_help_panel=_SOLVER),
    ] = None
    n_jobs: Annotated[int | None, jobs_option(_SOLVER)] = None

    def check(self) -> None:
        """Refuse options that are wrong, or mean nothing beside the others, before any data is read."""
        if self.preset is not None and self.measure is not None:
            raise UsageError("give --preset or --measure, not both")
        if self.feature_map is not None and self.measure is None:
            raise UsageError("--feature-map requires --measure; a preset has its own")
        if self._method().baseline is not None:
            reason = f"is for methods with a loss, and {self.preset} is a baseline; leave it out"
            self._refuse((*_OF_LOSSES, "scorer", *_OF_ADDITIVE, *_OF_LINEAR), reason)
        self._check_scorer()
        if self.nonnegative and self.nonnegative_feature:
            raise UsageError("--nonnegative is for all features; leave out --nonnegative-feature")
        if self.bound in ("hinge", "auto"):
            self._refuse(_OF_TIGHT, "requires --bound tight")
        self._refuse_twice("scorer", (*_OF_ADDITIVE, "nonnegative"))
        self._refuse_twice("solver", ("tol", "max_iter"))
        if self.groups == "ignore" and not _uses_groups(self._method().loss):
            raise UsageError("--groups ignore is for sums over ranks and rr with the dorm map; others never use groups")
        self.parameters()

    def _check_scorer(self) -> None:
        """Refuse options of other scorers than the one that is trained."""
        if self.scorer_is_chosen:
            self._refuse((*_OF_ADDITIVE, *_OF_LINEAR), "is for one scorer; name it instead of --scorer auto")
        scorer = self._spelled_scorer()
        if scorer.name != "additive":
            self._refuse(_OF_ADDITIVE, "requires --scorer additive")
        if scorer.name != "linear":
            self._refuse(_OF_LINEAR, "is for linear weights; for curves give --monotone increasing")
        if _is_staged(scorer):
            self._refuse(_OF_SOLVERS, f"is for scorers that a solver trains, and {scorer.name} is not; leave it out")

    def _refuse(self, names: Sequence[str], why: str) -> None:
        for name in names:
            if self._given(name):
                raise UsageError(f"--{name.replace('_', '-')} {why}")

    def _given(self, name: str) -> bool:
        value = getattr(self, name)
        return value is not None and value is not False and value != [] and (name != "scorer" or value != "linear")

    def _refuse_twice(self, whole: str, names: Sequence[str]) -> None:
        """Refuse options that the spelling of the whole has too."""
        spelled = getattr(self, whole) or ""
        for name in names:
            if re.search(rf"\b{name}\s*=", spelled) and self._given(name):
                raise UsageError(
                    f"--{name.replace('_', '-')} is given twice; leave it out, or in --{whole} '{spelled}'"
                )

    def parameters(self) -> dict[str, Any]:
        """Return the parameters of the ranker."""
        parameters = {
            "bound": self._bound(),
            "scorer": self.scorer if self.scorer_is_chosen else self._scorer(),
            "solver": self._solver(),
            "scaling": None if self.scaling == "none" else self.scaling,
            "weighting": self.weighting,
            "unjudged": self.unjudged or "skip",
            "patience": self.patience,
            "random_state": self.random_state or 0,
            "n_jobs": self.n_jobs,
        }
        return {**self._trained(), **parameters}

    @property
    def scorer_is_chosen(self) -> bool:
        """Whether the scorer is chosen on held-out queries."""
        return self.scorer == _CHOSEN

    @property
    def takes_nan(self) -> bool:
        """Whether missing values are left to the method."""
        from marginrank.ranker.ranker import Ranker  # noqa: PLC0415
        from marginrank.ranker.resolution import resolve  # noqa: PLC0415

        return self.scorer_is_chosen or resolve(Ranker(**self.parameters())).capabilities.takes_nan

    @property
    def missing_advice(self) -> Message:
        """Advice on missing values if the method does not take them."""
        linear = "use ", Parameter("scorer", "linear(missing=mean)"), ", or "
        first: Message = "" if self._method().baseline is not None else linear
        return first, "fill it with ", Parameter("missing", "zero", "min")

    @property
    def takes_sparse(self) -> bool:
        """Whether the method takes sparse features."""
        baseline: Any = self._method().baseline
        taken: bool = (self._scorer() if baseline is None else baseline).takes_sparse
        return taken and not self.scaling.startswith("query-")

    @property
    def draws(self) -> bool:
        """Whether the method draws at random."""
        baseline: Any = self._method().baseline
        if baseline is not None:
            return bool(baseline.draws)
        return self._scorer().draws or "random_state" in self._solver().get_params()

    @property
    def has_C(self) -> bool:
        """Whether the method has a C to choose."""
        baseline: Any = self._method().baseline
        return bool((self._scorer() if baseline is None else baseline).takes_C)

    @property
    def name(self) -> str:
        """The name of the method in errors about C."""
        if self._method().baseline is None and not self.has_C:
            return f"--scorer {self._scorer().name}"
        return f"--measure {self.measure}" if self.measure is not None else f"--preset {self.preset or 'svmmap'}"

    @property
    def gap(self) -> float:
        """The gap, relative to the objective, at which training stops."""
        tol: float = self._solver().tol
        return tol

    def _method(self) -> ParsedMethod:
        from marginrank.methods import presets  # noqa: PLC0415

        if self.measure is None:
            with naming_option("preset"):
                return presets.parse_preset(self.preset or presets.DEFAULT)
        with naming_option("measure"):
            return presets.ResolvedMethod(presets.loss_for(self.measure, self.feature_map))

    def _trained(self) -> dict[str, Any]:
        """Return the method to train: a name, or the loss that the options make of it."""
        loss = self._method().loss
        if loss is None or (self.measure is None and self.groups == "auto"):
            return {"method": self.preset}
        return {"loss": loss.with_params(groups="ignore") if self.groups == "ignore" else loss}

    def _bound(self) -> Any:
        """Return the bound asked for; what is not asked for is that of the preset."""
        from marginrank.training.tight_bound import Tight  # noqa: PLC0415

        given = {name: getattr(self, name) for name in _OF_TIGHT if getattr(self, name) is not None}
        of_preset = self._method().bound
        if self.bound == "tight" or given:
            return (of_preset if isinstance(of_preset, Tight) else Tight()).with_params(**given)
        if self.bound is None and self.groups == "ignore":
            return of_preset
        return self.bound

    def _spelled_scorer(self) -> Any:
        from marginrank.scorers.base import parse_scorer  # noqa: PLC0415

        with naming_option("scorer"):
            return parse_scorer("additive" if self.scorer_is_chosen else self.scorer)

    def _scorer(self) -> Any:
        given: dict[str, Any] = {name: getattr(self, name) for name in ("bins", "spacing", "shape")}
        given["monotone"] = _directions(self.monotone)
        given["nonnegative"] = self.nonnegative or tuple(self.nonnegative_feature) or None
        chosen = {name: value for name, value in given.items() if value is not None}
        return self._spelled_scorer().with_params(**chosen)

    def _solver(self) -> Any:
        from marginrank.solvers.base import parse_solver  # noqa: PLC0415

        given = {"tol": self.tol, "max_iter": self.max_iter}
        with naming_option("solver"):
            solver = parse_solver(self.solver or "auto")
        return solver.with_params(**{name: value for name, value in given.items() if value is not None})


def _is_staged(scorer: Any) -> bool:
    from marginrank.scorers.staged_scorer import StagedScorer  # noqa: PLC0415

    return isinstance(scorer, StagedScorer)


def _uses_groups(loss: Any) -> bool:
    """Whether a loss can be restricted to one document of each group."""
    from marginrank.losses.assignment_loss import takes_groups  # noqa: PLC0415
    from marginrank.losses.feature_maps import parse_map  # noqa: PLC0415
    from marginrank.measures import parse_measure  # noqa: PLC0415

    known = {} if loss is None else loss.get_params()
    if "groups" not in known:
        return False
    return "measure" not in known or takes_groups(parse_measure(loss.measure), parse_map(loss.feature_map))


def _directions(words: Sequence[str]) -> str | dict[str, str] | None:
    """Read directions of curves.

    >>> _directions(["bm25=increasing", "2=decreasing"]), _directions(["increasing"])
    ({'bm25': 'increasing', '2': 'decreasing'}, 'increasing')
    """
    if not words:
        return None
    pairs = [word.rpartition("=")[::2] for word in words]
    for feature, direction in pairs:
        if direction not in ("increasing", "decreasing"):
            given = f"{feature}={direction}" if feature else direction
            raise UsageError(f"--monotone {given}: write FEATURE=increasing or FEATURE=decreasing")
    if len(pairs) == 1 and not pairs[0][0]:
        return pairs[0][1]
    if any(not feature for feature, _ in pairs):
        raise UsageError("--monotone without FEATURE= is for all features; give it alone")
    return dict(pairs)
