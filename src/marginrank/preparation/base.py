"""What every feature transformer shares: arrays, frames or `Queries` in, the same out."""

from __future__ import annotations

import sys
from typing import Any, ClassVar, Literal, Self, TypeAlias, cast

import numpy as np
import numpy.typing as npt

from marginrank.data.grouping import group_rows
from marginrank.data.inputs import features_named, refuse_other_columns
from marginrank.data.partitions import PartitionedQueries, Partitions
from marginrank.data.queries import Queries
from marginrank.data.sklearn_api import UNUSED, Estimator, check_is_fitted, check_rows
from marginrank.errors import DataError
from marginrank.runtime.lazy_imports import sp
from marginrank.typing import AnyArray, Features, IntArray

#: Offsets of the queries, and the row that each place takes where grouping moves rows.
Grouping: TypeAlias = tuple[IntArray, IntArray | None]


class FeatureTransformer(Estimator):
    """A transformer of document features; a subclass says what to learn and how to apply it.

    Numbers are float32 or float64 and stay what they are; everything else becomes float64. NaN is a missing
    value, ±inf is refused, and so is a sparse ``X`` unless the subclass takes it. The input is never written to.
    """

    #: Whether ``X`` may be a sparse matrix.
    takes_sparse: ClassVar[bool] = False

    _sklearn_output_config: dict[str, str]
    _sklearn_auto_wrap_output_keys: ClassVar = {"transform"}

    # Columns mean the same in every query here, so a Pipeline that routes qid need not mention this step.
    __metadata_request__fit: ClassVar[dict[str, Any]] = {"qid": UNUSED, "group": UNUSED}
    __metadata_request__transform: ClassVar[dict[str, Any]] = {"qid": UNUSED, "group": UNUSED}

    def fit(
        self,
        X: Queries | PartitionedQueries | npt.ArrayLike,
        y: object = None,  # noqa: ARG002
        *,
        qid: npt.ArrayLike | None = None,
        group: npt.ArrayLike | None = None,
    ) -> Self:
        """Learn from the features of the training documents.

        Args:
            X: Queries, or features with one row per document.
            y: Ignored.
            qid: The query of each row of an array, in any order.
            group: Instead of ``qid``, the number of consecutive rows of each query.
        """
        if isinstance(X, PartitionedQueries):
            learn_columns(self, X)
            with features_named(X):
                self._learn_in(X.partitions.derive(_features_of))
            return self
        features = self._features(X, reset=True)
        _grouping(X, features.shape[0], qid, group)
        with features_named(X):
            self._learn(features)
        return self

    def transform(
        self,
        X: Queries | PartitionedQueries | npt.ArrayLike,
        *,
        qid: npt.ArrayLike | None = None,
        group: npt.ArrayLike | None = None,
    ) -> Any:
        """Prepare features: `Queries` come back as `Queries`, rows of an array in the order given.

        Args:
            X: Queries, or features with one row per document.
            qid: The query of each row of an array, in any order.
            group: Instead of ``qid``, the number of consecutive rows of each query.
        """
        check_is_fitted(self)
        if isinstance(X, PartitionedQueries):
            check_columns(self, X)
            return X.derive(_transformed, self)
        features = self._features(X, reset=False)
        with features_named(X):
            prepared = self._apply(features, _grouping(X, features.shape[0], qid, group))
        if not isinstance(X, Queries):
            return self._as_configured(prepared, X)
        return X.with_features(prepared, None if X.feature_names is None else self.get_feature_names_out())

    def fit_transform(
        self,
        X: Queries | PartitionedQueries | npt.ArrayLike,
        y: object = None,
        *,
        qid: npt.ArrayLike | None = None,
        group: npt.ArrayLike | None = None,
    ) -> Any:
        """Learn from the features and prepare them."""
        return self.fit(X, y, qid=qid, group=group).transform(X, qid=qid, group=group)

    def _learn(self, X: Any) -> None:
        raise NotImplementedError

    def _learn_in(self, parts: Partitions[Features]) -> None:  # noqa: ARG002
        """Learn from features in partitions."""
        raise DataError(f"{type(self).__name__} does not learn from partitions; use Standardize, or a scaling by query")

    def _apply(self, X: Any, grouping: Grouping | None) -> Features:
        raise NotImplementedError

    def _features(self, X: Queries | npt.ArrayLike, *, reset: bool) -> Features:
        features = X.X if isinstance(X, Queries) else X
        if sp.issparse(features) and not self.takes_sparse:
            raise DataError(
                f"{type(self).__name__} takes no sparse X; pass X.toarray(), or use Standardize, which keeps zeros"
            )
        if isinstance(X, Queries):
            (learn_columns if reset else check_columns)(self, X)
            return cast("Features", features)
        return cast("Features", check_rows(self, X, reset=reset, finite="allow-nan", sparse=self.takes_sparse))

    def get_feature_names_out(self, input_features: npt.ArrayLike | None = None) -> AnyArray:
        """Return the names of the columns that come out, which are those that came in.

        Args:
            input_features: Names for columns without names; by default x0, x1 and so on.
        """
        check_is_fitted(self)
        if input_features is None and hasattr(self, "feature_names_in_"):
            return self.feature_names_in_
        from sklearn.base import OneToOneFeatureMixin  # noqa: PLC0415

        return np.asarray(OneToOneFeatureMixin.get_feature_names_out(self, input_features))

    def set_output(self, *, transform: Literal["default", "pandas", "polars"] | None = None) -> Self:
        """Choose what `transform` returns for arrays and frames.

        Args:
            transform: ``default`` for arrays, ``pandas`` or ``polars`` for frames, None for no change.
        """
        if transform is not None:
            self._sklearn_output_config = {"transform": transform}
        return self

    def _as_configured(self, prepared: Features, X: npt.ArrayLike) -> Any:
        """Make a frame of features where `set_output` or scikit-learn's configuration asks for it."""
        if "_sklearn_output_config" not in vars(self) and "sklearn" not in sys.modules:
            return prepared
        from sklearn.utils._set_output import _wrap_data_with_container  # noqa: PLC0415

        return _wrap_data_with_container("transform", prepared, X, self)

    def __sklearn_tags__(self) -> Any:
        from sklearn.utils import TransformerTags  # noqa: PLC0415

        tags = super().__sklearn_tags__()
        tags.transformer_tags = TransformerTags()
        tags.input_tags.allow_nan = True
        tags.input_tags.sparse = self.takes_sparse
        tags.transformer_tags.preserves_dtype = ["float64", "float32"]
        return tags


def _features_of(queries: Queries) -> Features:
    return queries.X


def _transformed(queries: Queries, transformer: FeatureTransformer) -> Queries:
    prepared: Queries = transformer.transform(queries)
    return prepared


def learn_columns(estimator: Any, queries: Queries | PartitionedQueries) -> None:
    """Note the number and names of the features that an estimator is fitted on."""
    if queries.n_documents == 0:
        raise DataError("there is no document to learn from; give at least one query with documents")
    estimator.n_features_in_ = queries.n_features
    if hasattr(estimator, "feature_names_in_"):
        del estimator.feature_names_in_
    if queries.feature_names is not None:
        estimator.feature_names_in_ = np.array(queries.feature_names, dtype=object)


def check_columns(estimator: Any, queries: Queries | PartitionedQueries) -> None:
    """Refuse features that differ in number or name from those that an estimator was fitted on."""
    kind = type(estimator).__name__
    refuse_other_columns(
        queries.feature_names, [*map(str, getattr(estimator, "feature_names_in_", ()))], f"{kind} was fitted on"
    )
    if queries.n_features != estimator.n_features_in_:
        raise DataError(
            f"X has {queries.n_features} features but {kind} was fitted on {estimator.n_features_in_}; give the same "
            "columns to both"
        )


def _grouping(
    X: Queries | npt.ArrayLike, n: int, qid: npt.ArrayLike | None, group: npt.ArrayLike | None
) -> Grouping | None:
    if isinstance(X, Queries):
        if qid is not None or group is not None:
            raise DataError("X is a Queries and knows its queries; pass it without qid and group")
        return X.offsets, None
    if qid is None and group is None:
        return None
    _, offsets, rows = group_rows(n, qid, group)
    return offsets, rows
