"""Methods by name: what each minimises, as data."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from importlib import import_module
from typing import TYPE_CHECKING, Any, Final, Literal, TypeAlias

from marginrank.losses.base import Bound, Loss
from marginrank.losses.combine import MaxLoss, SumLoss
from marginrank.losses.feature_maps import FeatureMap
from marginrank.losses.pairwise import NDCGPairwiseHinge, PairwiseHinge, PositionHinge
from marginrank.losses.per_query import ModifiedWTA
from marginrank.losses.pointwise import SquaredError
from marginrank.losses.smooth import SoftmaxCrossEntropy
from marginrank.losses.structured import StructuredLoss
from marginrank.measures import Measure, parse_measure
from marginrank.words import did_you_mean

if TYPE_CHECKING:
    from marginrank.methods.baselines.base import Baseline

#: Where training under the tight bound begins, and what it stays near.
Start: TypeAlias = Literal["ranksvm", "regression"]

_CUT: Final = re.compile(r"@(?P<k>[0-9]+)\Z")
_PLUS: Final = re.compile(r"\+(?![^(]*\))")
_WEIGHTED: Final = re.compile(r"\s*(?:(?P<weight>[0-9.]+)\s*\*)?\s*(?P<measure>.*?)\s*\Z")


@dataclass(frozen=True)
class Preset:
    """A method of the literature.

    Args:
        name: How it is asked for; one with a cutoff, or with rounds, takes ``@k`` after its name.
        summary: What it is, in a line.
        paper: Where it is from.
        make: The loss or the baseline, given the cutoff or the number of rounds.
        measure: The measure that it is for, ``@k`` left open as ``@{k}``.
        cut: The cutoff, or number of rounds, where none is asked for; None for a method without.
        bound: The bound that is trained; ``auto`` takes the hinge unless it collapses.
        start: Where training under the tight bound begins.
        kind: Whether a loss is minimised, or a baseline trained in its own way.
    """

    name: str
    summary: str
    paper: str
    make: Callable[[int], Loss | Baseline]
    measure: str
    cut: int | None = None
    bound: Bound | Literal["auto"] = "auto"
    start: Start = "ranksvm"
    kind: Literal["loss", "baseline"] = "loss"


_YUE = "Yue, Finley, Radlinski, Joachims (SIGIR 2007)"
_CHK = "Chakrabarti, Khanna, Sawant, Bhattacharyya (KDD 2008)"
_CLS = "Chapelle, Le, Smola (2007)"
_DORM = "Le, Smola (2008)"


def _combo(k: int) -> tuple[Loss, ...]:
    """MAP, NDCG and MRR, the last with its own map; Chakrabarti et al. (KDD 2008) §3.7 leaves the maps open."""
    return StructuredLoss("ap"), StructuredLoss(f"ndcg@{k}"), StructuredLoss(f"rr@{k}", "mrr")


_LOSSES: Final = (
    Preset("svmmap", "average precision, φpo", _YUE, lambda _: StructuredLoss("ap"), "ap"),
    Preset("svmauc", "ROCArea, φpo", "Joachims (ICML 2005)", lambda _: StructuredLoss("auc"), "auc"),
    Preset("svmprec", "precision@k, φpo", "Joachims (ICML 2005)", lambda k: StructuredLoss(f"p@{k}"), "p@{k}", 10),
    Preset("svmndcg", "NDCG@k, φpo", _CHK, lambda k: StructuredLoss(f"ndcg@{k}"), "ndcg@{k}", 10),
    Preset("svmndcg-nc", "NDCG without a cutoff, φpo", _CHK, lambda _: StructuredLoss("ndcg"), "ndcg"),
    Preset("svmmrr", "reciprocal rank@k, φmrr", _CHK, lambda k: StructuredLoss(f"rr@{k}", "mrr"), "rr@{k}", 10),
    Preset(
        "svmcombo",
        "AP, NDCG@k and RR@k, each with its own slack",
        _CHK,
        lambda k: SumLoss(_combo(k)),
        "ap+ndcg@{k}+rr@{k}",
        10,
    ),
    Preset(
        "svmcombo-shared",
        "AP, NDCG@k and RR@k with one slack for all",
        _CHK,
        lambda k: MaxLoss(_combo(k)),
        "ap+ndcg@{k}+rr@{k}",
        10,
        "hinge",
    ),
    Preset("dorm-ndcg", "NDCG@k, φdorm", _DORM, lambda k: StructuredLoss(f"ndcg@{k}", "dorm"), "ndcg@{k}", 10),
    Preset("dorm-mrr", "reciprocal rank, φdorm", _DORM, lambda _: StructuredLoss("rr", "dorm"), "rr"),
    Preset("dorm-p", "precision@k, φdorm", _DORM, lambda k: StructuredLoss(f"p@{k}", "dorm"), "p@{k}", 10),
    Preset("dorm-eru", "expected rank utility, φdorm", _DORM, lambda _: StructuredLoss("eru", "dorm"), "eru"),
    Preset("mwta", "modified winner takes all, φdorm", _DORM, lambda _: ModifiedWTA(), "wta"),
    Preset(
        "chapelle-ndcg",
        "NDCG@k, φdorm, tight bound from a regression",
        _CLS,
        lambda k: StructuredLoss(f"ndcg@{k}", "dorm"),
        "ndcg@{k}",
        10,
        "tight",
        "regression",
    ),
    Preset("ranksvm", "hinge of every pair of grades", "Joachims (KDD 2002)", lambda _: PairwiseHinge(), "auc"),
    Preset(
        "ranksvm-squared",
        "squared hinge of every pair of grades",
        "Lee, Lin (2014)",
        lambda _: PairwiseHinge(power=2),
        "auc",
    ),
    Preset(
        "svm-ir-qp",
        "the same, weighted by what NDCG loses",
        "Cao et al. (SIGIR 2006)",
        lambda _: NDCGPairwiseHinge(),
        "ndcg",
    ),
    Preset("regression", "squared error of the grades (ridge)", f"{_CLS} §5.1", lambda _: SquaredError(), "ndcg"),
    Preset(
        "position-hinge",
        "position-sensitive pairwise hinge",
        "Riezler, De Bona (2009)",
        lambda _: PositionHinge(normalize="pairs"),
        "auc",
    ),
    Preset(
        "softmax",
        "cross entropy with each document's share of the grades",
        "Cao et al. (ICML 2007), with other targets",
        lambda _: SoftmaxCrossEntropy(divergence=True, target="share"),
        "ndcg",
    ),
    Preset(
        "listnet",
        "cross entropy with the softmax of the gains, linear",
        "Cao et al. (ICML 2007)",
        lambda _: SoftmaxCrossEntropy(gain="exp2", divergence=True),
        "ndcg",
    ),
)


def _baseline(
    name: str, summary: str, paper: str, place: str, measure: str, rounds: int | None = None, **options: Any
) -> Preset:
    """A baseline; what it is made of takes long to import, and a list of names should not wait for it."""

    def make(k: int) -> Baseline:
        module, _, kind = place.partition(":")
        made: Baseline = getattr(import_module(f"marginrank.methods.baselines.{module}"), kind)(
            *(() if rounds is None else (k,)), **options
        )
        return made

    return Preset(name, summary, paper, make, measure, rounds, kind="baseline")


_BASELINES: Final = (
    _baseline("best-feature", "one feature, up or down", f"{_YUE} §5.1", "best_feature:BestFeature", "ap"),
    _baseline("svmacc", "relevant or not, squared hinge", f"{_YUE} §5.2", "svm:AccuracySVM", "ap"),
    _baseline(
        "svmacc2", "the same, both sides at equal cost", f"{_YUE} §5.2.1", "svm:AccuracySVM", "ap", balanced=True
    ),
    _baseline(
        "svmacc3",
        "svmacc of step functions of percentiles",
        f"{_YUE} §5.2.1",
        "svm:AccuracySVM",
        "ap",
        relative="query-percentile",
    ),
    _baseline(
        "svmacc4",
        "svmacc of step functions of each query's range",
        f"{_YUE} §5.2.1",
        "svm:AccuracySVM",
        "ap",
        relative="query-minmax",
    ),
    _baseline("svm-multiclass", "one class per grade", f"{_DORM} §6.3", "svm:MulticlassSVM", "ndcg"),
    _baseline("prank", "perceptron with thresholds", "Crammer, Singer (NIPS 2001)", "perceptron:PRank", "ndcg", 30),
    _baseline(
        "jrank",
        "the same, with weights of each query beside the shared ones",
        "Basilico, Hofmann (ICML 2004)",
        "perceptron:JRank",
        "ndcg",
        30,
    ),
    _baseline(
        "rankboost",
        "one threshold of a feature a round",
        "Freund, Iyer, Schapire, Singer (JMLR 2003)",
        "rankboost:RankBoost",
        "ap",
        300,
    ),
    _baseline("mcrank", "expected grade by boosted trees", "Li, Burges, Wu (NIPS 2007)", "mcrank:McRank", "ndcg", 30),
    _baseline(
        "gp-regression", "Gaussian process on the grades", f"{_DORM} §6.6", "gaussian_process:GaussianProcess", "ndcg"
    ),
    _baseline(
        "lambdarank", "LightGBM's boosted trees", "Burges, Ragno, Le (NIPS 2006)", "lambdarank:LambdaRank", "ndcg", 100
    ),
)
PRESETS: Final[Mapping[str, Preset]] = {preset.name: preset for preset in (*_LOSSES, *_BASELINES)}


@dataclass(frozen=True)
class Method:
    """How a ranker is trained, by a loss or as a baseline, and the measure it is judged by."""

    trained: Loss | Baseline
    measure: str
    bound: Bound | Literal["auto"] = "auto"
    start: Start = "ranksvm"

    @property
    def loss(self) -> Loss | None:
        """The loss that is minimised; None for a baseline."""
        return self.trained if isinstance(self.trained, Loss) else None

    @property
    def baseline(self) -> Baseline | None:
        """The baseline; None where a loss is minimised."""
        return None if isinstance(self.trained, Loss) else self.trained

    @property
    def takes_C(self) -> bool:
        """Whether there is a C to choose."""
        return self.baseline is None or self.baseline.takes_C


def parse_preset(name: str) -> Method:
    """Look a method up by name.

    >>> parse_preset("svmndcg@5").loss
    StructuredLoss(measure='ndcg@5', feature_map='po', bound='hinge')
    >>> parse_preset("prank@5").baseline
    PRank(epochs=5)
    >>> parse_preset("svmmpa")
    Traceback (most recent call last):
    ValueError: unknown preset 'svmmpa'; did you mean 'svmmap'? `marginrank presets` lists them all
    """
    spelled = str(name).strip().lower()
    cut = _CUT.search(spelled)
    base = spelled[: cut.start()] if cut else spelled
    if base not in PRESETS:
        hint = did_you_mean(base, PRESETS)
        raise ValueError(f"unknown preset {name!r}; {hint}`marginrank presets` lists them all")
    preset = PRESETS[base]
    if cut and preset.cut is None:
        raise ValueError(f"preset {base!r} has no cutoff; leave out {cut.group()!r}")
    k = int(cut["k"]) if cut else preset.cut or 0
    return Method(preset.make(k), preset.measure.format(k=k), preset.bound, preset.start)


def parse_mix(spec: str | Measure) -> list[tuple[float, Measure]]:
    """Read one measure, or several with weights.

    >>> parse_mix("ndcg@10 + 0.5*ap")
    [(1.0, ndcg@10), (0.5, ap)]
    """
    if isinstance(spec, Measure):
        return [(1.0, spec)]
    found = []
    for part in _PLUS.split(spec):
        match = _WEIGHTED.match(part)
        if match is None or not match["measure"]:
            raise ValueError(f"{spec!r} is no measure or mix of measures; write 'ndcg@10' or 'ndcg@10 + 0.5*ap'")
        found.append((float(match["weight"] or 1.0), parse_measure(match["measure"])))
    return found


def loss_for(measure: str | Measure, feature_map: str | FeatureMap | None = None) -> Loss:
    """Give the structured loss of a measure or a mix of measures, each with its own slack.

    Without a map, reciprocal rank has φmrr and every other measure φpo.

    >>> loss_for("rr@10")
    StructuredLoss(measure=rr@10, feature_map='mrr', bound='hinge')
    """
    parts = parse_mix(measure)
    losses = [
        StructuredLoss(part, feature_map if feature_map is not None else "mrr" if part.name == "rr" else "po")
        for _, part in parts
    ]
    return losses[0] if len(parts) == 1 else SumLoss(tuple(losses), tuple(weight for weight, _ in parts))
