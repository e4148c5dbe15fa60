"""`Fusion`: learned weights of retrieval runs."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, Literal, Self

import numpy as np
from sklearn.base import BaseEstimator
from sklearn.utils.validation import check_is_fitted

from marginrank.data.fingerprint import fingerprint
from marginrank.data.formats.trec import Run
from marginrank.data.inputs import features_named
from marginrank.data.queries import Queries
from marginrank.errors import DataError, Parameter, ParameterError
from marginrank.evaluation.criterion import Criterion
from marginrank.export.export_files import Check
from marginrank.fusion.context import Context, adaptive_scorers, can_adapt, columns_of, parse_context, warn_constant
from marginrank.fusion.run_pool import RunScores, features_of, with_columns
from marginrank.model.file_format import check_values, read_model, reading_model, write_model
from marginrank.model.model import Model
from marginrank.preparation.run_features import CONTEXT_KINDS, column_names, parse_features, run_names
from marginrank.ranker.grid_search import DEFAULT_CS, check_Cs
from marginrank.ranker.loader import ranker_of
from marginrank.ranker.ranker import Ranker
from marginrank.ranker.resolution import resolve
from marginrank.ranker.selection import Candidate, Rule, Selection
from marginrank.ranker.tuning import tune
from marginrank.runtime.default_measures import DEFAULT_MEASURE
from marginrank.runtime.option_objects import from_spec, to_spec
from marginrank.runtime.text import feature_labels, listed
from marginrank.runtime.threads import thread_count
from marginrank.scorers.adaptive.query_weights import QueryWeights
from marginrank.scorers.adaptive.scorer import Adaptive, ConstantContextError
from marginrank.scorers.base import CHOSEN, Scorer, parse_scorer
from marginrank.scorers.scoring_function import FusedFunction
from marginrank.scorers.terms import AdaptiveTerm
from marginrank.solvers.auto import Auto
from marginrank.solvers.base import Callback
from marginrank.training.tight_bound import Tight
from marginrank.typing import FloatArray

if TYPE_CHECKING:
    from marginrank.export.base import Export, Target

#: Kinds of features that the hybrid searches of OpenSearch and Elasticsearch compute; one of them is chosen by default.
ENGINE_KINDS: Final = ("minmax", "rrf")
#: Kinds of features that are tried by default.
_TRIED_KINDS: Final = ("minmax", "percentile", "rrf")
_NO_ENGINE_KINDS: Final = tuple(kind for kind in _TRIED_KINDS if kind not in ENGINE_KINDS)
#: Scorers that ``scorer="auto"`` selects from.
_SCORERS: Final = ("linear", "additive")
#: With a larger C, curves take long to train and are seldom better.
_LARGE_C: Final = 1000.0


class Fusion(BaseEstimator):
    """A learned combination of runs: the score is Σ_r w_r · x_r, with x_r the score of run r on a common scale.

    The weights minimize the structured hinge of a measure, as in Yue et al. (SIGIR 2007), sections 4 and 5, which
    combine retrieval functions and TREC submissions. C and the kind of features are chosen on held-out queries.

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
        kinds: Kinds of features, as in `fusion_features`; among several, one is chosen like C. By default that is
            ``minmax`` or ``rrf``, which search engines compute; ``percentile``, which they do not, is tried only to see
            what that costs.
        measure: The measure to train for and to choose by, or a mix of measures. By default ``ndcg@10`` chooses, and
            what is trained is the default of `Ranker`.
        preset: Train with this method instead, such as ``svmauc`` or ``ranksvm``; the measure is still used to choose.
        bound: ``hinge``, ``tight`` or ``auto``, as in `Ranker`.
        scorer: ``linear``; ``additive``: a curve for each run; or ``auto``, which chooses one of the two like C. With
            ``kinds="score"`` and ``scorer=Additive(bins=51)`` this is the model of Yue et al. (2007), section 4.2,
            with 50 thresholds on the scores of each run.
        adaptive: Whether weights may depend on the query (see `Adaptive`). They do only if there are at least 30
            training queries, and that is better on held-out queries by more than one standard error.
        context: What weights may depend on: ``best``, ``gap``, ``peak``, ``overlap`` and ``count`` of each run, as in
            `fusion_features`, and names of columns beside the runs that describe the query. Columns that are named
            here are no runs, also with ``adaptive=False``.
        nonnegative: Whether no run may count against a document: no negative weights, no decreasing curves.
        ranks: Whether the columns are ranks (1 is best) instead of scores.
        Cs: Values of C to choose from. With any scorer but the linear one, values above 1,000 take as long to train as
            all the others; they are tried only if the largest of the others is best, and only for the best features.
        policy: How ties and queries without relevant documents are scored.
        rule: ``best`` or ``one-se``, as in `tune`.
        tol: Gap to the optimum at which training stops, relative to the objective.
        random_state: Seed of the folds.
        n_jobs: Number of threads; all cores by default.

    Attributes:
        ranker_: The trained `Ranker`.
        kinds_: The chosen kind of features; with weights that depend on the query, kinds of context follow, as in
            ``minmax+best``.
        context_: The columns beside the runs that weights depend on.
        selection_: All candidates; not available after `load`.
        trained_on_: Number and fingerprint of the training queries.
    """

    ranker_: Ranker
    kinds_: str
    context_: tuple[str, ...]
    selection_: Selection
    trained_on_: dict[str, Any]

    def __init__(
        self,
        kinds: str | Sequence[str] | None = None,
        *,
        measure: str | None = None,
        preset: str | None = None,
        bound: Literal["auto", "hinge", "tight"] | Tight | None = None,
        scorer: str | Scorer = "linear",
        adaptive: bool = False,
        context: str | Sequence[str] = "best",
        nonnegative: bool = True,
        ranks: bool = False,
        Cs: Sequence[float] = DEFAULT_CS,
        policy: str = "standard",
        rule: Rule = "best",
        tol: float = 1e-3,
        random_state: int | None = 0,
        n_jobs: int | None = None,
    ) -> None:
        self.kinds = kinds
        self.measure = measure
        self.preset = preset
        self.bound = bound
        self.scorer = scorer
        self.adaptive = adaptive
        self.context = context
        self.nonnegative = nonnegative
        self.ranks = ranks
        self.Cs = Cs
        self.policy = policy
        self.rule = rule
        self.tol = tol
        self.random_state = random_state
        self.n_jobs = n_jobs

    def fit(
        self,
        train: Queries,
        valid: Queries | None = None,
        *,
        folds: int | None = None,
        callback: Callback | None = None,
    ) -> Self:
        """Choose C and the features, and train.

        Args:
            train: Judged queries with a column per run, as `pool_runs` returns them.
            valid: Validation queries to choose C and the features on. Without them, the choice is by cross-validation,
                and the fusion is finally trained on all queries.
            folds: Number of cross-validation folds; 5 by default without validation queries.
            callback: Called after every iteration, as in `tune`; True stops with the best so far.
        """
        named = _TRIED_KINDS if self.kinds is None else self.kinds
        kinds = [named] if isinstance(named, str) else list(named)
        if not kinds:
            raise ParameterError(Parameter("kinds"), " is empty; name at least one kind, for example 'rrf'")
        context, given = self._context(train, kinds)
        scorers = list(_SCORERS) if self.scorer == CHOSEN else [self.scorer]
        Cs = check_Cs(self.Cs)
        runs = None if train.feature_names is None else [name for name in train.feature_names if name not in given]
        columns = self._columns(train, runs, given)
        held_out = None if valid is None else self._columns(valid, runs, given)
        with features_named(columns.queries):
            adaptive = self.adaptive and can_adapt(columns, context)
        grid = [(scorer, kind) for scorer in scorers for kind in kinds]

        def select(scorer: str | Scorer, kind: str, *, all_Cs: bool = False) -> Selection:
            ranker = self._ranker(scorer)
            only_small = not (all_Cs or resolve(ranker).capabilities.gil_bound)
            return tune(
                ranker,
                _prepare(columns, kind, ranker),
                valid=None if held_out is None else _prepare(held_out, kind, ranker),
                folds=folds,
                Cs=[C for C in Cs if C <= _LARGE_C or not only_small] or Cs,
                criterion=self.criterion,
                policy=self.policy,
                rule=self.rule,
                callback=callback,
                random_state=self.random_state,
                n_jobs=self.n_jobs,
            )

        # In parallel, since a solver uses one core between two passes.
        with ThreadPoolExecutor(min(thread_count(self.n_jobs), len(grid))) as pool:
            selections = dict(zip(grid, pool.map(select, *zip(*grid, strict=True)), strict=True))
        best = self._best(selections)
        means = [candidate.mean for candidate in selections[best].candidates]
        if len(means) < len(Cs) and means[-1] == max(means):
            selections[best] = select(*best, all_Cs=True)
        if adaptive:
            keys = adaptive_scorers(best[1], context, columns.n_runs, len(given))
            try:
                by_query = {key: select(*key) for key in keys}
                chosen = self._best(by_query)
                best = chosen if by_query[chosen].best.clearly_better(selections[best].best) else best
                selections |= by_query
            except ConstantContextError:
                warn_constant("the training queries of a fold")
        self.kinds_, self.selection_ = _merge(selections, best, name_scorer=self.adaptive or self.scorer == CHOSEN)
        self.trained_on_ = {
            "queries": len(train),
            "depth": int(columns.counts.max(initial=1.0)),
            "fingerprint": fingerprint(train, n_jobs=self.n_jobs),
        }
        self.ranker_ = self.selection_.ranker
        self.context_ = given if isinstance(best[0], Adaptive) else ()
        self.ranker_.model_ = self.ranker_.model_.with_selection(self.selection_.to_dict())
        return self

    def _context(self, train: Queries, kinds: Sequence[str]) -> tuple[Context, Context]:
        """Return what weights may depend on: kinds of context, and columns of the table."""
        parsed = [one for kind in kinds for one in parse_features(kind)]
        columns = train.feature_names or ()
        context, given = parse_context(self.context, columns)
        if not self.adaptive:
            return (), given
        if self.scorer != "linear" or self.ranks:
            raise ParameterError(Parameter("adaptive", True), " requires scores of runs and the linear scorer")
        named = next((kind for kind in parsed if kind in CONTEXT_KINDS), None)
        if named is not None:
            what = f" names {named}, which does not tell documents apart; name it as "
            raise ParameterError(Parameter("kinds"), what, Parameter("context"))
        both = next((kind for kind in context if kind in columns), None)
        if both is not None:
            raise DataError(f"column {both!r} has the name of a kind of context; rename it")
        return context, given

    def _best(self, selections: Mapping[tuple[str | Scorer, str], Selection]) -> tuple[str | Scorer, str]:
        """Return the scorer and the kind of features with the best mean; unless kinds were given, one for engines."""
        allowed = [key for key in selections if self.kinds is not None or parse_features(key[1])[0] in ENGINE_KINDS]
        return max(allowed, key=lambda key: selections[key].best.mean)

    @property
    def cost_of_engines(self) -> tuple[str, float] | None:
        """The best kind of features that engines cannot compute, and how much better it is on held-out queries.

        Negative if it is worse; None if kinds were given, or if weights depend on the query, which those engines do not
        compute either.
        """
        if self.kinds is not None or self.ranker_.form_.kind == "adaptive":
            return None
        others = [one for one in self.selection_.candidates if one.parameters["features"] in _NO_ENGINE_KINDS]
        best = max(others, key=lambda one: one.mean)
        return best.parameters["features"], best.mean - self.selection_.best.mean

    @property
    def criterion(self) -> str:
        """The measure, or mix of measures, to choose by."""
        return self.measure or DEFAULT_MEASURE

    @property
    def run_names(self) -> list[str] | None:
        """The names of the runs that this fusion combines; None if they have none."""
        check_is_fitted(self)
        names = self.ranker_.model_.feature_names
        if names is None:
            return None
        return list(run_names(parse_features(self.kinds_), names, len(names) - len(self.context_)))

    def predict(self, queries: Queries) -> FloatArray:
        """Return one score per row; higher is better, within a query.

        Runs with names may come in any order.
        """
        check_is_fitted(self)
        return self.ranker_.predict(_prepare(self._trained_columns(queries), self.kinds_, self.ranker_))

    def run(self, queries: Queries, tag: str = "marginrank") -> Run:
        """Score documents and return a run, for `write_run` or `evaluate`."""
        return Run.from_scores(queries, self.predict(queries), tag)

    def score(self, queries: Queries) -> float:
        """Return the mean of the measure, under the policy of this fusion; for a mix, the weighted mean."""
        return Criterion.parse(self.criterion, self.policy).mean(queries, self.predict(queries))

    def weights(self) -> dict[str, float]:
        """Return the weight of each column, such as ``rrf(bm25)``; unnamed runs have their column number."""
        check_is_fitted(self)
        if self.ranker_.form_.kind == "adaptive":
            raise ValueError("the weights depend on the query; see query_weights(queries)")
        if self.ranker_.form_.kind != "linear":
            raise ValueError("curves have no weights; see ranker_.shapes()")
        kinds = parse_features(self.kinds_)
        runs = feature_labels(None, self.ranker_.n_features_in_ // len(kinds), self.ranker_.model_.first_feature)
        names = getattr(self.ranker_, "feature_names_in_", column_names(kinds, runs))
        return dict(zip(names, self.ranker_.coef_.tolist(), strict=True))

    def query_weights(self, queries: Queries) -> QueryWeights:
        """Return the weights of runs in each query, if they depend on it; see `Ranker.query_weights`."""
        check_is_fitted(self)
        return self.ranker_.query_weights(_prepare(self._trained_columns(queries), self.kinds_, self.ranker_))

    def save(self, path: str | Path, *, overwrite: bool = True) -> None:
        """Write the fusion to a file that `Fusion.load` reads."""
        check_is_fitted(self)
        model = self.ranker_.model_
        parameters = {name: to_spec(value) for name, value in self.get_params(deep=False).items()}
        fusion = {
            "features": self.kinds_,
            "context": list(self.context_),
            "parameters": parameters,
            "trained_on": self.trained_on_,
        }
        write_model(path, "fusion", {"fusion": fusion, "model": model.describe()}, model.arrays(), overwrite=overwrite)

    def export(self, target: str | Target, path: str | Path, *, overwrite: bool = True) -> Export:
        """Write the fusion for another program, and a check file with scores of runs and the scores to expect.

        Args:
            target: The target, such as ``sql(dialect=postgresql)``, ``opensearch-hybrid`` or ``vespa``.
            path: The file to write.
            overwrite: Replace files of that name instead of refusing them.
        """
        from marginrank.export.export_files import export  # noqa: PLC0415

        check_is_fitted(self)
        if self.ranks:
            raise DataError("this fusion takes ranks, and exports take scores; train it on runs with scores")
        function = self._function()
        return export(function, target, path, self._check(function), overwrite=overwrite)

    def _function(self) -> FusedFunction:
        return FusedFunction.of_columns(
            self.ranker_.model_.function,
            self.kinds_,
            self.context_,
            are_ranks=self.ranks,
            depth=self.trained_on_["depth"],
        )

    def _check(self, function: FusedFunction) -> Check:
        """Draw random scores of runs, with many ties and missing documents, and compute the scores to expect."""
        rng, group = np.random.default_rng(0), (12,) * 15
        n, n_runs = sum(group), len(function.runs)
        X = np.round(rng.gamma(3.0, 2.0, (n, n_runs)), 1).astype(np.float32).astype(np.float64)
        absent = rng.random(X.shape) < 0.3
        absent[np.arange(n), rng.integers(0, n_runs, n)] = False
        if not self._takes_missing:
            absent[:] = False
        X[absent] = np.nan
        if function.context:
            # Over the range of the training queries, and beyond.
            form = function.terms[0]
            assert isinstance(form, AdaptiveTerm)
            low, width = (column[-len(function.context) :] for column in (form.low, form.width))
            context = low + width * np.round(rng.uniform(-0.5, 1.5, (len(group), len(low))), 1)
            X = np.hstack([X, np.repeat(context, group, axis=0)])
        return Check(function.inputs, X, group, function.score(X, group))

    @property
    def _takes_missing(self) -> bool:
        return "score" not in parse_features(self.kinds_) or _keeps_missing(self.ranker_)

    @classmethod
    def load(cls, path: str | Path) -> Self:
        """Read a fusion written by `save`.

        Raises:
            DataError: The file is not a model, damaged, or the model of something else.
        """
        kind, header, arrays = read_model(path)
        with reading_model(path):
            if kind != "fusion":
                raise DataError("this model is not a fusion; read it with marginrank.load")
            check_values(header)
            parameters = header["fusion"]["parameters"]
            fusion = cls(**{name: from_spec(spec) for name, spec in parameters.items()})
            fusion.kinds_ = "+".join(parse_features(header["fusion"]["features"]))
            fusion.context_ = tuple(header["fusion"].get("context", ()))
            fusion.ranker_ = ranker_of(Model.from_parts(header["model"], arrays))
            fusion.trained_on_ = dict(header["fusion"]["trained_on"])
            fusion._function()
            if type(fusion.trained_on_["depth"]) is not int or fusion.trained_on_["depth"] < 1:
                raise ValueError(f"{fusion.trained_on_['depth']!r} is not a depth of runs")
        return fusion

    def _columns(self, queries: Queries, runs: Sequence[str] | None, given: Sequence[str]) -> RunScores:
        """Return the scores of runs, and then the columns that describe the query, in these orders."""
        if runs is not None and queries.feature_names is not None:
            queries = with_columns(queries, [*runs, *given])
        elif given:
            raise DataError(f"the weights depend on {listed(given, 5)}; give columns with names")
        return RunScores(queries, self.ranks, len(given))

    def _trained_columns(self, queries: Queries) -> RunScores:
        """Return the columns in the order of training, if both have names."""
        names, runs = queries.feature_names, self.run_names
        if names is None or runs is None:
            return self._columns(queries, None, self.context_)
        for name in self.context_:
            if name not in names:
                raise DataError(
                    f"there is no column {name!r}, which the weights depend on; add it, one value per query"
                )
        # Static weights may have been better than what was given as context.
        others = [name for name in names if name in runs or name not in columns_of(self.context)]
        if sorted(others) != sorted(runs):
            raise DataError(
                f"this model combines the runs {', '.join(runs)}, and these are {', '.join(others)}; give the same runs"
            )
        return self._columns(queries, runs, self.context_)

    def _ranker(self, scorer: str | Scorer) -> Ranker:
        scorer = parse_scorer(scorer)
        if self.nonnegative:
            known = scorer.get_params()
            signs = {"monotone": "increasing"} if "monotone" in known else {"nonnegative": True}
            scorer = scorer.with_params(**signs)
        return Ranker(
            self.preset,
            measure=self.measure if self.preset is None else None,
            bound=self.bound,
            scorer=scorer,
            solver=Auto(tol=self.tol),
            scaling=None,
            n_jobs=self.n_jobs,
            # Several are trained at a time.
            verbose=False,
        )


def _keeps_missing(ranker: Ranker) -> bool:
    """Return whether the scorer of a ranker takes missing scores."""
    return parse_scorer(ranker.get_params(deep=False)["scorer"]).takes_nan


def _prepare(columns: RunScores, features: str, ranker: Ranker) -> Queries:
    adapts = isinstance(ranker.get_params(deep=False)["scorer"], Adaptive)
    return features_of(columns, features, keep_missing=_keeps_missing(ranker), with_context=adapts)


def load_any(path: str | Path) -> tuple[str, Model]:
    """Read the model of a ranker or of a fusion from a file; return its kind too."""
    kind, header, arrays = read_model(path)
    with reading_model(path):
        return kind, Model.from_parts(header["model"] if kind == "fusion" else header, arrays)


def _merge(
    selections: Mapping[tuple[str | Scorer, str], Selection], best: tuple[str | Scorer, str], *, name_scorer: bool
) -> tuple[str, Selection]:
    """Merge the candidates of all scorers and kinds of features; return the best kind, and the ranker of the best."""
    chosen = 0
    merged: list[Candidate] = []
    for (scorer, kind), selection in selections.items():
        if (scorer, kind) == best:
            chosen = len(merged) + selection.chosen
        label = f"adaptive(shrinkage={scorer.shrinkage:g})" if isinstance(scorer, Adaptive) else str(scorer)
        names = {**({"scorer": label} if name_scorer else {}), "features": kind}
        merged += [replace(one, parameters={**names, **one.parameters}) for one in selection.candidates]
    return best[1], replace(selections[best], candidates=tuple(merged), chosen=chosen)
