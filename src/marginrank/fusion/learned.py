"""Learn how much to trust each run."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any, Final, Literal, Self

from sklearn.base import BaseEstimator
from sklearn.utils.validation import check_is_fitted

from marginrank.data.queries import Queries
from marginrank.data.trec import Run
from marginrank.errors import DataError
from marginrank.evaluation.evaluating import evaluate
from marginrank.fusion.features import column_names, fusion_features, parse_features
from marginrank.methods.presets import parse_mix
from marginrank.ranker import Ranker, load
from marginrank.tuning import DEFAULT_CS, Rule, Selection, tune
from marginrank.typing import FloatArray

#: What is chosen from where nothing is asked for.
DEFAULT_FEATURES: Final = ("minmax", "percentile", "rrf")


class Fusion(BaseEstimator):  # type: ignore[misc]
    """A learned combination of runs: scores Σ_r w_r · x_r, with x_r what run r says of the document on a common scale.

    The weights minimise the structured hinge of a measure, as in Yue et al. (SIGIR 2007), sections 4 and 5, which
    combine retrieval functions and TREC submissions; C and the kind of features are chosen on queries that were not
    trained on.

    >>> import numpy as np
    >>> rng = np.random.default_rng(0)
    >>> good, poor = rng.standard_normal((2, 400))
    >>> y = good + rng.standard_normal(400) > 1
    >>> judged = Queries.from_arrays(
    ...     np.column_stack([good, poor]), y, qid=np.arange(400) // 10, feature_names=["good", "poor"]
    ... )
    >>> fusion = Fusion("percentile", Cs=[1.0, 10.0]).fit(judged)
    >>> weights = fusion.weights()
    >>> weights["percentile(good)"] > 5 * weights["percentile(poor)"]
    True

    Args:
        features: Kinds of features, as in `fusion_features`; of several, one is chosen like C.
        measure: The measure to train for and to choose by, or a mix of measures.
        preset: Train with this method instead, such as ``svmauc`` or ``ranksvm``; the measure still chooses.
        scorer: ``linear``, or ``additive``: a step function for each run. With ``features="score"`` and ``bins=51``
            this is the model of Yue et al. (2007), section 4.2, with 50 thresholds on the scores of each run.
        bins: With the additive scorer, the most steps per column.
        nonnegative: No run counts against a document: weights are not negative, step functions do not fall.
        ranks: The columns hold ranks, 1 is best, instead of scores.
        Cs: Values of C to choose from.
        policy: How ties and queries without relevant documents count in choosing.
        rule: ``best`` or ``one-se``, as in `tune`.
        tol: Gap to the optimum at which training stops, as a share of the objective.
        random_state: Seed of the folds.
        n_jobs: Threads; all cores by default.

    Attributes:
        ranker_: The trained `Ranker`.
        features_: The features chosen.
        selection_: Everything that was tried; not there after `load`.
    """

    ranker_: Ranker
    features_: str
    selection_: Selection

    def __init__(
        self,
        features: str | Sequence[str] = DEFAULT_FEATURES,
        *,
        measure: str = "ap",
        preset: str | None = None,
        scorer: Literal["linear", "additive"] = "linear",
        bins: int = 16,
        nonnegative: bool = True,
        ranks: bool = False,
        Cs: Sequence[float] = DEFAULT_CS,
        policy: str = "standard",
        rule: Rule = "best",
        tol: float = 1e-3,
        random_state: int | None = 0,
        n_jobs: int | None = None,
    ) -> None:
        self.features = features
        self.measure = measure
        self.preset = preset
        self.scorer = scorer
        self.bins = bins
        self.nonnegative = nonnegative
        self.ranks = ranks
        self.Cs = Cs
        self.policy = policy
        self.rule = rule
        self.tol = tol
        self.random_state = random_state
        self.n_jobs = n_jobs

    def fit(self, train: Queries, valid: Queries | None = None, *, folds: int | None = None) -> Self:
        """Choose and train.

        Args:
            train: Judged queries with a column per run, as `gather` gives them.
            valid: Queries that choose C and the features. Without them parts of the training queries do so in turn, and
                the fusion is trained on all of them at the end.
            folds: Number of parts; 5 where there are no validation queries.
        """
        kinds = [self.features] if isinstance(self.features, str) else list(self.features)
        if not kinds:
            raise ValueError("features is empty; name at least one kind, for example 'rrf'")
        for kind in kinds:
            parse_features(kind)
        ranker, Cs = self._ranker(), list(self.Cs)
        found = {
            kind: tune(
                ranker,
                self._prepare(train, kind),
                valid=None if valid is None else self._prepare(valid, kind),
                folds=folds,
                Cs=Cs,
                criterion=self.measure,
                policy=self.policy,
                rule=self.rule,
                random_state=self.random_state,
                n_jobs=self.n_jobs,
            )
            for kind in kinds
        }
        self.features_, self.selection_ = _best_of(found)
        self.ranker_ = self.selection_.ranker
        self.ranker_.selection_ = {**self.selection_.to_dict(), "fusion": self._plain()}
        return self

    def predict(self, queries: Queries) -> FloatArray:
        """Score documents, in the order of the rows given; higher is better, and only within a query."""
        check_is_fitted(self)
        return self.ranker_.predict(self._prepare(queries, self.features_))

    def run(self, queries: Queries, tag: str = "marginrank") -> Run:
        """Score documents and give them as a run, for `write_run` or `evaluate`."""
        return Run.from_scores(queries, self.predict(queries), tag)

    def score(self, queries: Queries) -> float:
        """Mean of the measure, under the policy that chose; of a mix, the weighted mean."""
        mix = parse_mix(self.measure)
        means = evaluate(queries, self.predict(queries), [str(one) for _, one in mix], policy=self.policy).mean
        return sum(weight * means[str(one)] for weight, one in mix) / sum(weight for weight, _ in mix)

    def weights(self) -> dict[str, float]:
        """Weight of each column, such as ``rrf(bm25)``; runs without a name are x0, x1, ..."""
        check_is_fitted(self)
        if self.ranker_.bins_ is not None:
            raise ValueError("step functions have no weights; see ranker_.shapes()")
        kinds = parse_features(self.features_)
        runs = [f"x{number}" for number in range(self.ranker_.n_features_in_ // len(kinds))]
        names = getattr(self.ranker_, "feature_names_in_", column_names(kinds, runs))
        return dict(zip(names, self.ranker_.coef_.tolist(), strict=True))

    def save(self, path: str | Path, *, overwrite: bool = True) -> None:
        """Write the fusion to a file that `Fusion.load` reads; it is a model of a `Ranker` for these features."""
        check_is_fitted(self)
        self.ranker_.save(path, overwrite=overwrite)

    @classmethod
    def load(cls, path: str | Path) -> Self:
        """Read a fusion that `save` wrote.

        Raises:
            DataError: The file is no model, damaged, or the model of something else.
        """
        ranker = load(path)
        chosen = getattr(ranker, "selection_", None)
        if not isinstance(chosen, dict) or "fusion" not in chosen:
            raise DataError("this model is no fusion; read it with marginrank.load", path=Path(path))
        try:
            fusion = cls(**chosen["fusion"]["parameters"])
            fusion.features_, fusion.ranker_ = "+".join(parse_features(chosen["fusion"]["features"])), ranker
        except (AttributeError, KeyError, TypeError, ValueError) as error:
            raise DataError(
                f"this fusion lacks or contradicts something ({error}); save it again", path=Path(path)
            ) from None
        return fusion

    def _prepare(self, queries: Queries, features: str) -> Queries:
        return fusion_features(queries, features, ranks=self.ranks, keep_missing=self.scorer == "additive")

    def _ranker(self) -> Ranker:
        additive = self.scorer == "additive"
        return Ranker(
            self.preset,
            measure=self.measure if self.preset is None else None,
            scorer=self.scorer,
            bins=self.bins,
            shape="steps",
            monotone="increasing" if additive and self.nonnegative else None,
            nonnegative=self.nonnegative and not additive,
            tol=self.tol,
            n_jobs=self.n_jobs,
        )

    def _plain(self) -> dict[str, Any]:
        """What a file must say beside the ranker."""
        features = self.features if isinstance(self.features, str) else list(self.features)
        lists = {"features": features, "Cs": [float(C) for C in self.Cs]}
        return {"features": self.features_, "parameters": {**self.get_params(deep=False), **lists}}


def _best_of(found: Mapping[str, Selection]) -> tuple[str, Selection]:
    """Put the tables of all kinds of features together, and take the ranker of the best."""
    best = max(found, key=lambda kind: found[kind].best.mean)
    candidates = [
        (kind, number, replace(one, parameters={"features": kind, **one.parameters}))
        for kind, selection in found.items()
        for number, one in enumerate(selection.candidates)
    ]
    chosen = [(kind, number) for kind, number, _ in candidates].index((best, found[best].chosen))
    return best, replace(found[best], candidates=tuple(one for _, _, one in candidates), chosen=chosen)
