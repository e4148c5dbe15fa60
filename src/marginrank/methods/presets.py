"""Presets: named methods, each with its loss or baseline."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import cache
from typing import Final, Literal, TypeAlias

from marginrank.losses.base import Loss
from marginrank.losses.combination import MaxLoss, SumLoss
from marginrank.losses.feature_maps import FeatureMap
from marginrank.losses.modified_wta import ModifiedWTA
from marginrank.losses.pairwise import NDCGPairwiseHinge, PairwiseHinge, PositionHinge
from marginrank.losses.softmax_cross_entropy import SoftmaxCrossEntropy
from marginrank.losses.squared_error import SquaredError
from marginrank.losses.structured import StructuredLoss
from marginrank.measures import Measure, all_measures
from marginrank.measures.base import parse_mix
from marginrank.methods.baselines.base import Baseline
from marginrank.runtime.option_objects import load_modules, parse_spelling, registered
from marginrank.runtime.text import suggest
from marginrank.training.tight_bound import BoundChoice, Tight

_CUT: Final = re.compile(r"@(?P<k>[0-9]+)\Z")
#: The default method.
DEFAULT: Final = "svmmap"

Group: TypeAlias = Literal["recommended", "measures", "papers"]
#: Groups of presets, in the order they are listed in.
GROUPS: Final[Mapping[Group, str]] = {
    "recommended": "start here; close to the best on all five collections that were compared",
    "measures": "train these if you are judged by their measure",
    "papers": "other published methods, and baselines to compare with",
}


@dataclass(frozen=True)
class Preset:
    """A named method.

    Args:
        name: Name of the method; if it has a cutoff or a number of rounds, ``@k`` may follow.
        summary: One line about it.
        paper: Reference.
        make: Function that makes the loss or the baseline, given the cutoff or the number of rounds.
        cut: Default cutoff or number of rounds; None if the method has none.
        bound: The bound to minimize.
        group: Group that it is listed in.
    """

    name: str
    summary: str
    paper: str
    make: Callable[[int], Loss | Baseline]
    cut: int | None = None
    bound: BoundChoice = "auto"
    group: Group = "papers"

    @property
    def kind(self) -> str:
        """``loss``, or ``baseline`` for methods with their own training."""
        return "loss" if isinstance(self.make(self.cut or 1), Loss) else "baseline"


_YUE = "Yue, Finley, Radlinski, Joachims (SIGIR 2007)"
_CHK = "Chakrabarti, Khanna, Sawant, Bhattacharyya (KDD 2008)"
_CLS = "Chapelle, Le, Smola (2007)"
_DORM = "Le, Smola (2008)"


def _combo(k: int) -> tuple[Loss, ...]:
    """Return losses of MAP, NDCG and MRR, the last with φmrr; Chakrabarti et al. (KDD 2008) §3.7 name no maps."""
    return StructuredLoss("ap"), StructuredLoss(f"ndcg@{k}"), StructuredLoss(f"rr@{k}", "mrr")


_LOSSES: Final = (
    Preset(
        "svmndcg",
        "NDCG@k, feature map po",
        _CHK,
        lambda k: StructuredLoss(f"ndcg@{k}"),
        10,
        group="recommended",
    ),
    Preset("svmmap", "average precision, feature map po", _YUE, lambda _: StructuredLoss("ap"), group="recommended"),
    Preset(
        "listnet",
        "cross entropy with the softmax of the gains, linear",
        "Cao et al. (ICML 2007)",
        lambda _: SoftmaxCrossEntropy(gain="exp2", divergence=True),
        group="recommended",
    ),
    Preset(
        "ranksvm",
        "hinge of every pair of grades",
        "Joachims (KDD 2002)",
        lambda _: PairwiseHinge(),
        group="recommended",
    ),
    Preset(
        "svmmrr",
        "reciprocal rank@k, feature map mrr",
        _CHK,
        lambda k: StructuredLoss(f"rr@{k}", "mrr"),
        10,
        group="measures",
    ),
    Preset(
        "svmprec",
        "precision@k, feature map po",
        "Joachims (ICML 2005)",
        lambda k: StructuredLoss(f"p@{k}"),
        10,
        group="measures",
    ),
    Preset(
        "svmndcg-nc",
        "NDCG without a cutoff, feature map po",
        _CHK,
        lambda _: StructuredLoss("ndcg"),
        group="measures",
    ),
    Preset(
        "svmauc",
        "ROCArea, feature map po",
        "Joachims (ICML 2005)",
        lambda _: StructuredLoss("auc"),
        group="measures",
    ),
    Preset(
        "svmcombo",
        "AP, NDCG@k and RR@k, each with its own slack",
        _CHK,
        lambda k: SumLoss(_combo(k)),
        10,
        group="measures",
    ),
    Preset(
        "svmcombo-shared",
        "AP, NDCG@k and RR@k with one slack for all",
        _CHK,
        lambda k: MaxLoss(_combo(k)),
        10,
    ),
    Preset("dorm-ndcg", "NDCG@k, feature map dorm", _DORM, lambda k: StructuredLoss(f"ndcg@{k}", "dorm"), 10),
    Preset("dorm-mrr", "reciprocal rank, feature map dorm", _DORM, lambda _: StructuredLoss("rr", "dorm")),
    Preset("dorm-p", "precision@k, feature map dorm", _DORM, lambda k: StructuredLoss(f"p@{k}", "dorm"), 10),
    Preset("dorm-eru", "expected rank utility, feature map dorm", _DORM, lambda _: StructuredLoss("eru", "dorm")),
    Preset("mwta", "modified winner takes all, feature map dorm", _DORM, lambda _: ModifiedWTA()),
    Preset(
        "chapelle-ndcg",
        "NDCG@k, feature map dorm, tight bound started from a regression",
        _CLS,
        lambda k: StructuredLoss(f"ndcg@{k}", "dorm"),
        10,
        Tight(start="regression"),
    ),
    Preset(
        "ranksvm-squared",
        "squared hinge of every pair of grades",
        "Lee, Lin (2014)",
        lambda _: PairwiseHinge(power=2),
    ),
    Preset(
        "svm-ir-qp",
        "hinge of every pair of grades, weighted by the NDCG it costs",
        "Cao et al. (SIGIR 2006)",
        lambda _: NDCGPairwiseHinge(),
    ),
    Preset("regression", "squared error of the grades (ridge)", f"{_CLS} §5.1", lambda _: SquaredError()),
    Preset(
        "position-hinge",
        "position-sensitive pairwise hinge",
        "Riezler, De Bona (2009)",
        lambda _: PositionHinge(normalize="pairs"),
    ),
    Preset(
        "softmax",
        "cross entropy with each document's share of the grades",
        "Cao et al. (ICML 2007), with other targets",
        lambda _: SoftmaxCrossEntropy(divergence=True, target="share"),
    ),
)


@cache
def _baseline_presets() -> tuple[Preset, ...]:
    """Return the ``PRESETS`` of all modules of the folder ``baselines``."""
    modules = load_modules("marginrank.methods.baselines")
    return tuple(preset for module in modules for preset in getattr(module, "PRESETS", ()))


def all_presets() -> dict[str, Preset]:
    """Return all presets by name, ordered by group; losses first, then baselines."""
    ordered = sorted((*_LOSSES, *_baseline_presets()), key=lambda preset: list(GROUPS).index(preset.group))
    return {preset.name: preset for preset in ordered}


@dataclass(frozen=True)
class ResolvedMethod:
    """A loss or a baseline to train, and the preset it came from."""

    trained: Loss | Baseline
    preset: str | None = None
    bound: BoundChoice = "auto"
    #: The measure that it is evaluated with; None for its own.
    judged_by: str | None = None

    @property
    def loss(self) -> Loss | None:
        """The loss to minimize; None for a baseline."""
        return self.trained if isinstance(self.trained, Loss) else None

    @property
    def baseline(self) -> Baseline | None:
        """The baseline; None if a loss is minimized."""
        return self.trained if isinstance(self.trained, Baseline) else None

    @property
    def criterion(self) -> str:
        """The measure, or mix of measures, that the method is evaluated with."""
        return self.judged_by or self.trained.criterion


def parse_preset(name: str) -> ResolvedMethod:
    """Look up a method by name.

    >>> parse_preset("svmndcg@5").criterion
    'ndcg@5'
    >>> parse_preset("svmmpa")
    Traceback (most recent call last):
    ValueError: unknown preset 'svmmpa'; did you mean 'svmmap'?
    """
    spelled = str(name).strip().lower()
    cut = _CUT.search(spelled)
    base = spelled[: cut.start()] if cut else spelled
    known = all_presets()
    if base not in known:
        raise ValueError(f"unknown preset {name!r}; {suggest(base, known)}")
    preset = known[base]
    if cut and preset.cut is None:
        raise ValueError(f"preset {base!r} has no cutoff; leave out {cut.group()!r}")
    k = int(cut["k"]) if cut else preset.cut or 0
    if cut and k < 1:
        raise ValueError(f"{name!r} has {k} after the @; give at least 1")
    return ResolvedMethod(preset.make(k), spelled, preset.bound)


def parse_method(spec: str | Measure | Loss | Baseline) -> ResolvedMethod:
    """Parse a method: a preset, a measure or mix of measures, a loss or a baseline, or the spelling of one.

    >>> parse_method("ndcg@10 + 0.5*ap").criterion
    'ndcg@10 + 0.5*ap'
    >>> parse_method("ncdg@10")
    Traceback (most recent call last):
    ValueError: 'ncdg@10' is neither a preset nor a measure; did you mean 'ndcg@10'?
    """
    if isinstance(spec, Loss | Baseline):
        return ResolvedMethod(spec)
    if isinstance(spec, Measure):
        return ResolvedMethod(loss_for(spec))
    if not isinstance(spec, str):
        raise TypeError(f"method is {spec!r}; give the name of a preset, a measure, a Loss or a baseline")
    spelled = spec.strip().lower()
    if _CUT.sub("", spelled) in all_presets():
        return parse_preset(spelled)
    for family in (Loss, Baseline):
        if spelled.partition("(")[0] in registered(family):
            return ResolvedMethod(parse_spelling(family, spelled))
    try:
        return ResolvedMethod(loss_for(spec))
    except ValueError as error:
        if re.search(r"[+*(]", spec) or not str(error).startswith("unknown measure"):
            raise
    base, cut = _CUT.sub("", spelled), spelled[len(_CUT.sub("", spelled)) :]
    words = {word + cut: word for word in (*all_presets(), *all_measures())}
    raise ValueError(f"{spec!r} is neither a preset nor a measure; {suggest(base + cut, words)}")


def loss_for(measure: str | Measure, feature_map: str | FeatureMap | None = None) -> Loss:
    """Return the structured loss of a measure or a mix of measures, each with its own slack.

    Without a map, reciprocal rank has φmrr and every other measure φpo.

    >>> loss_for("rr@10").feature_map
    'mrr'
    """
    parts = parse_mix(measure)
    losses = [
        StructuredLoss(part, feature_map if feature_map is not None else "mrr" if part.name == "rr" else "po")
        for _, part in parts
    ]
    return losses[0] if len(parts) == 1 else SumLoss(tuple(losses), tuple(weight for weight, _ in parts))
