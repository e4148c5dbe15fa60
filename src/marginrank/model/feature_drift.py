"""Drift of features since training: Kolmogorov–Smirnov distances, with noise from resampled queries."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass, replace
from typing import Any, Final, NamedTuple

import numpy as np

from marginrank.data.queries import Queries
from marginrank.errors import DataError, Parameter, ParameterError
from marginrank.model.feature_quantiles import N_QUANTILES, FeatureQuantiles
from marginrank.runtime.option_objects import check_seed
from marginrank.runtime.text import ResultTable, count, data_frame, feature_named, plain
from marginrank.typing import AnyArray, FloatArray, IntArray

#: Number of samples of queries to estimate the noise from.
_SAMPLES: Final = 1_000
#: Probability that a feature is reported although none has moved; 1 to 2% by simulation, as samples vary too little.
_LEVEL: Final = 0.005
#: Minimum number of queries to estimate noise from.
LEAST_QUERIES: Final = 20
#: Maximum number of clusters that are resampled; more queries share clusters.
_MAX_CLUSTERS: Final = 1_000


@dataclass(frozen=True)
class FeatureDrift:
    """Drift of one feature.

    Args:
        feature: Name of the feature.
        distance: Largest difference of the two distribution functions, from 0 to 1.
        noise: Largest distance to expect if nothing has moved; None with too few queries to tell.
        moved: Whether the distance is above the noise, and large enough to matter.
        change: How it has moved: larger, smaller, wider or narrower, or missing more or less often.
        median_before: Median at training; None if all values were missing.
        median_now: Median now.
        missing_before: Share of documents without a value at training.
        missing_now: The same now.
        score_change: If it has moved, standard deviation of the effect on scores within a query, relative to that of
            the scores; None if the model cannot score the data.
        first_changed: Share of the queries with another first document because of it.
    """

    feature: str
    distance: float
    noise: float | None
    moved: bool
    change: str
    median_before: float | None
    median_now: float | None
    missing_before: float
    missing_now: float
    score_change: float | None = None
    first_changed: float | None = None


@dataclass(frozen=True, repr=False)
class Drift:
    """Drift of the features of a data set from those that a model was trained on, the largest distance first.

    Args:
        features: One entry per feature.
        n_queries: Number of queries that were compared.
        n_documents: Number of documents.
        threshold: Smallest distance that counts as moved.
        enough: Whether there are enough queries to tell a move from noise.
        score_change: Effect of all moved features together on scores, as in `FeatureDrift`.
        first_changed: Share of the queries with another first document because of them.
    """

    features: tuple[FeatureDrift, ...]
    n_queries: int
    n_documents: int
    threshold: float
    enough: bool
    score_change: float | None = None
    first_changed: float | None = None

    @property
    def moved(self) -> tuple[FeatureDrift, ...]:
        """The features that have moved."""
        return tuple(feature for feature in self.features if feature.moved)

    @property
    def verdict(self) -> str:
        """The result in a sentence."""
        if not self.enough:
            few = count(self.n_queries, "query", "queries")
            return f"{few}: too few to tell a move from noise; give at least {LEAST_QUERIES}"
        return f"{len(self.moved)} of {count(len(self.features), 'feature')} moved"

    def to_dict(self) -> dict[str, Any]:
        """Return everything as plain values."""
        record: dict[str, Any] = plain({**asdict(self), "verdict": self.verdict})
        return record

    def to_frame(self) -> Any:
        """Return a pandas frame with one row per feature."""
        return data_frame(
            {name: [getattr(feature, name) for feature in self.features] for name in FeatureDrift.__annotations__}
        )

    def table(self, top: int | None = None) -> list[list[str]]:
        """Return rows of text under a header: features that have moved, and the first ``top`` features."""
        shown = [feature for rank, feature in enumerate(self.features) if feature.moved or top is None or rank < top]
        heads = ["feature", "distance", "noise", "median", "now", "missing", "now", "change", "scores", "first"]
        return [heads, *map(_table_row, shown)]

    def __repr__(self) -> str:
        documents = count(self.n_documents, "document")
        return f"Drift({self.verdict}; {count(self.n_queries, 'query', 'queries')}, {documents})"

    def _repr_html_(self) -> str:
        return ResultTable(self.table(), right=range(1, 7), note=repr(self)).html()


def _table_row(drift: FeatureDrift) -> list[str]:
    def figure(value: float | None) -> str:
        return "" if value is None else f"{value:.4g}"

    def share(value: float | None) -> str:
        return "" if value is None else f"{100 * value:.1f}%"

    return [
        drift.feature,
        f"{drift.distance:.3f}",
        "" if drift.noise is None else f"{drift.noise:.3f}",
        figure(drift.median_before),
        figure(drift.median_now),
        share(drift.missing_before),
        share(drift.missing_now),
        drift.change if drift.moved else "",
        share(drift.score_change),
        share(drift.first_changed),
    ]


def compare_features(
    quantiles: FeatureQuantiles | None,
    names: Sequence[str] | None,
    queries: Queries,
    score: Callable[[Queries], FloatArray],
    *,
    threshold: float = 0.1,
    random_state: int | None = 0,
) -> Drift:
    """Compare the features of later queries with those of training, and return which have moved.

    The distance of a feature is that of Kolmogorov and Smirnov: the largest difference of the two distribution
    functions over documents, with a missing value as the largest. Documents of a query are not independent, so noise is
    estimated by drawing whole queries with replacement: if nothing has moved, all distances are below their noise in
    98 to 99% of the cases. A feature has moved if its distance is above its noise and at least ``threshold``. The
    effect on scores is measured by scoring the documents again, with values mapped back to the quantiles of training.

    Args:
        quantiles: The distributions at training.
        names: Names of the features at training, if they had any.
        queries: Later queries, judged or not; features with names may be in any order, with others among them.
        score: Function that returns the scores of documents.
        threshold: Smallest distance that counts as moved.
        random_state: Seed of the samples of queries.

    Raises:
        DataError: There are no quantiles, or the queries lack one of the features.
    """
    if not 0 <= threshold <= 1:
        raise ParameterError(Parameter("threshold"), f" is {threshold}; a distance is between 0 and 1")
    check_seed(random_state)
    if quantiles is None:
        raise DataError(
            "this model has no quantiles of its features, as it was trained on sparse features or on more than 5,000; "
            "train on dense features"
        )
    if not queries.n_documents:
        raise DataError("there are no documents to compare; give some")
    queries = _in_order(queries, names, len(quantiles.values))
    n_occupied = int(np.count_nonzero(queries.lengths))
    entries, enough = _entries(quantiles, queries, threshold, random_state), n_occupied >= LEAST_QUERIES
    effects = _Effects(quantiles, queries, score)
    moved = [number for number, entry in enumerate(entries) if entry.moved]
    for number in moved:
        change, first = effects.of([number])
        entries[number] = replace(entries[number], score_change=change, first_changed=first)
    together = effects.of(moved) if moved else (None, None)
    entries.sort(key=lambda entry: -entry.distance)
    return Drift(tuple(entries), len(queries), queries.n_documents, threshold, enough, *together)


def _entries(
    quantiles: FeatureQuantiles, queries: Queries, threshold: float, random_state: int | None
) -> list[FeatureDrift]:
    """Return the drift of every feature, in the order of the features."""
    X, n_queries = queries.dense(), int(np.count_nonzero(queries.lengths))
    samples = _Samples.draw(queries, random_state) if n_queries >= LEAST_QUERIES else None
    distances = [
        _distance(_Cuts.of(quantiles, feature), X[:, feature], samples) for feature in range(queries.n_features)
    ]
    noise: list[float] | None = None
    if samples is not None and distances:
        noise = _noise(np.stack([deviations for _, deviations in distances]), n_queries, quantiles).tolist()
    entries = []
    for number, (gaps, _) in enumerate(distances):
        entry = _entry(queries.feature_labels[number], gaps, X[:, number], quantiles, number)
        level = None if noise is None else noise[number]
        moved = level is not None and entry.distance > level and entry.distance >= threshold
        entries.append(replace(entry, noise=level, moved=moved))
    return entries


def _in_order(queries: Queries, names: Sequence[str] | None, n_features: int) -> Queries:
    """Return queries with the features in the order of training, by name if both have names."""
    given = queries.feature_names
    if given is None or names is None:
        if queries.n_features != n_features:
            raise DataError(
                Parameter("X"),
                f" has {queries.n_features} features but the model was trained on {n_features}; give the same columns",
            )
        return queries
    absent = [name for name in names if name not in given]
    if absent:
        raise DataError(
            f"there is no {feature_named(absent[0])}, which the model was trained on; give it, missing values and all"
        )
    if given == tuple(names):
        return queries
    return queries.with_features(queries.dense()[:, [given.index(name) for name in names]], names)


class _Samples(NamedTuple):
    """Samples of queries with replacement: the count of each cluster of queries in each, and documents per cluster."""

    clusters: IntArray
    weights: FloatArray
    sizes: FloatArray

    @classmethod
    def draw(cls, queries: Queries, random_state: int | None) -> _Samples:
        rng = np.random.default_rng(random_state)
        cluster_of = np.empty(len(queries), dtype=np.int64)
        # By id, so that the noise does not depend on the order of rows.
        cluster_of[np.argsort(queries.query_ids)] = rng.permutation(len(queries)) % min(_MAX_CLUSTERS, len(queries))
        clusters = cluster_of[queries.query_of_row]
        sizes = np.bincount(clusters, minlength=int(cluster_of.max()) + 1).astype(np.float64)
        n = len(sizes)
        weights = rng.multinomial(n, np.full(n, 1 / n), size=_SAMPLES).astype(np.float64)
        # Replace samples without documents.
        weights[weights @ sizes == 0] = 1.0
        return cls(clusters, weights, sizes)


class _Cuts(NamedTuple):
    """Values of a feature at which distribution functions are compared, and that of training just below and at each."""

    values: AnyArray
    before: FloatArray

    @classmethod
    def of(cls, quantiles: FeatureQuantiles, feature: int) -> _Cuts:
        # In float32, so that numbers read in another precision are equal.
        values, first, n_equal = np.unique(_single(quantiles.values[feature]), return_index=True, return_counts=True)
        last = first + n_equal - 1
        shares = np.stack([quantiles.below[feature, first], quantiles.at_most[feature, last]], axis=1)
        return cls(values, shares.ravel().astype(np.float64))

    def codes(self, column: AnyArray) -> IntArray:
        """Return the number of points of the distribution function below each value; NaN is above all."""
        single = _single(column)
        return np.searchsorted(self.values, single, side="left") + np.searchsorted(self.values, single, side="right")


def _single(values: AnyArray) -> AnyArray:
    with np.errstate(over="ignore"):
        return np.asarray(values, dtype=np.float32)


def _distance(cuts: _Cuts, column: AnyArray, samples: _Samples | None) -> tuple[FloatArray, FloatArray]:
    """Return the difference of the distribution functions at all cuts, and the largest deviation of each sample."""
    codes, n_points = cuts.codes(column), len(cuts.before)
    now = np.cumsum(np.bincount(codes, minlength=n_points + 1))[:n_points] / len(column)
    if samples is None:
        return now - cuts.before, np.zeros(0)
    n_clusters = len(samples.sizes)
    histograms = np.bincount(samples.clusters * (n_points + 1) + codes, minlength=n_clusters * (n_points + 1))
    counts = np.cumsum(histograms.reshape(n_clusters, n_points + 1)[:, :n_points], axis=1, dtype=np.float64)
    drawn = samples.weights @ counts / (samples.weights @ samples.sizes)[:, None]
    return now - cuts.before, np.abs(drawn - now).max(axis=1)


def _noise(deviations: FloatArray, n_queries: int, quantiles: FeatureQuantiles) -> FloatArray:
    """Return the distance that features rarely exceed by chance, from deviations of samples."""
    spread = np.sqrt((deviations**2).mean(axis=1))
    relative = deviations / np.where(spread > 0, spread, 1.0)[:, None]
    largest = float(np.quantile(relative.max(axis=0), 1.0 - _LEVEL))
    # The training queries are a sample too, and samples of n queries have (n − 1) / n of the variance.
    factor = (1.0 + n_queries / max(quantiles.n_queries, 1)) * n_queries / (n_queries - 1)
    return np.asarray(spread * largest * np.sqrt(factor))


def _entry(name: str, gaps: FloatArray, column: AnyArray, quantiles: FeatureQuantiles, number: int) -> FeatureDrift:
    missing_before, missing_now = float(quantiles.missing[number]), float(np.isnan(column).mean())
    present = column[~np.isnan(column)]
    return FeatureDrift(
        feature=name,
        distance=float(np.abs(gaps).max()),
        noise=None,
        moved=False,
        change=_change(gaps, missing_now - missing_before),
        median_before=None if missing_before == 1.0 else float(quantiles.values[number, N_QUANTILES // 2]),
        median_now=float(np.quantile(present, 0.5, method="inverted_cdf")) if len(present) else None,
        missing_before=missing_before,
        missing_now=missing_now,
    )


def _change(gaps: FloatArray, missing: float) -> str:
    """Return how a distribution has moved, from the differences of the distribution functions, now minus before.

    >>> _change(np.array([-0.1, -0.2, -0.1]), 0.0), _change(np.array([0.2, -0.2]), 0.0), _change(np.array([-0.3]), 0.3)
    ('larger', 'wider', 'missing more often')
    """
    largest = float(np.abs(gaps).max())
    if abs(missing) > 0.5 * largest:
        return "missing more often" if missing > 0 else "missing less often"
    up, down = float(np.maximum(-gaps, 0.0).max()), float(np.maximum(gaps, 0.0).max())
    if min(up, down) < 0.5 * max(up, down):
        return "larger" if up > down else "smaller"
    return "wider" if int(np.argmax(gaps)) < int(np.argmin(gaps)) else "narrower"


class _Effects:
    """Effects of moved features on scores: documents are scored again with values mapped back to training.

    The u-quantile of the data becomes the u-quantile of the training documents, so that order is preserved.
    """

    def __init__(self, quantiles: FeatureQuantiles, queries: Queries, score: Callable[[Queries], FloatArray]) -> None:
        self.quantiles, self.queries, self.score = quantiles, queries.grouped, score
        self._scores: FloatArray | None = None

    def of(self, features: Sequence[int]) -> tuple[float | None, float | None]:
        """Return the change of scores within queries, relative to their spread, and of first documents."""
        try:
            if self._scores is None:
                self._scores = self.score(self.queries)
            X = np.array(self.queries.dense(), dtype=np.float64)
            for feature in features:
                X[:, feature] = self._moved_back(X[:, feature], feature)
            moved_back = self.score(self.queries.with_features(X, self.queries.feature_names))
        except DataError:
            # Such as missing values that the model does not accept.
            return None, None
        change, spread = self._within(self._scores - moved_back), self._within(self._scores)
        several = np.flatnonzero(self.queries.lengths > 1)
        offsets = self.queries.offsets
        slices = [slice(offsets[query], offsets[query + 1]) for query in several.tolist()]
        changed = [np.argmax(self._scores[rows]) != np.argmax(moved_back[rows]) for rows in slices]
        return change / spread if spread > 0 else None, float(np.mean(changed)) if changed else None

    def _moved_back(self, column: FloatArray, feature: int) -> FloatArray:
        present = ~np.isnan(column)
        values = np.sort(column[present])
        if not len(values) or self.quantiles.missing[feature] == 1.0:
            return column
        shares = np.searchsorted(values, column, side="left") + np.searchsorted(values, column, side="right")
        grid = np.linspace(0.0, 1.0, N_QUANTILES)
        back = np.interp(shares / (2.0 * len(values)), grid, self.quantiles.values[feature])
        return np.where(present, back, np.nan)

    def _within(self, values: FloatArray) -> float:
        """Return the standard deviation around the means of the queries."""
        query = self.queries.query_of_row
        means = np.bincount(query, values, len(self.queries)) / np.maximum(self.queries.lengths, 1)
        return float(np.sqrt(np.mean((values - means[query]) ** 2)))
