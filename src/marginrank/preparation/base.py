"""`FeatureTransformer`, the base of all transformers of arrays, frames and `Queries`."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, ClassVar, Self, TypeAlias, cast

import numpy as np
import numpy.typing as npt
from sklearn.base import BaseEstimator, OneToOneFeatureMixin, TransformerMixin, clone
from sklearn.utils._set_output import _wrap_data_with_container
from sklearn.utils.metadata_routing import UNUSED
from sklearn.utils.validation import check_is_fitted, validate_data

from marginrank.data.arrays import common_index
from marginrank.data.column_roles import column_names
from marginrank.data.grouping import group_rows
from marginrank.data.inputs import features_named, refuse_other_columns
from marginrank.data.partitions import AnyQueries, PartitionedQueries, Partitions
from marginrank.data.queries import Queries
from marginrank.errors import DataError, Parameter
from marginrank.runtime.device_features import DeviceFeatures
from marginrank.runtime.lazy_imports import sp
from marginrank.typing import AnyArray, Features, IntArray

#: Offsets of the queries, and the order of rows if they were not grouped by query.
Grouping: TypeAlias = tuple[IntArray, IntArray | None]


# Not wrapped by `set_output`, which would make frames of `Queries`; `transform` wraps the rest itself.
class FeatureTransformer(OneToOneFeatureMixin, TransformerMixin, BaseEstimator, auto_wrap_output_keys=None):  # type: ignore[call-arg]
    """A transformer of document features; a subclass defines what to learn and how to apply it.

    float32 and float64 are preserved; everything else becomes float64. NaN is a missing
    value, ±inf is refused, and so is a sparse ``X`` unless the subclass takes it. The input is never written to.
    """

    #: Whether ``X`` may be a sparse matrix.
    takes_sparse: ClassVar[bool] = False
    #: Whether ``X`` of `Queries` may be on a device.
    takes_device: ClassVar[bool] = False

    n_features_in_: int
    feature_names_in_: AnyArray

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
            refuse_empty(X)
            with features_named(X):
                self._learn_partitioned(X.partitions.derive(_features_of))
            set_columns(self, X.n_features, X.feature_names)
            return self
        # On a copy, so that a fit that fails changes nothing.
        features = clone(self)._features(X, reset=True)
        _grouping(X, features.shape[0], qid, group)
        with features_named(X):
            self._learn(features)
        set_columns(self, features.shape[1], X.feature_names if isinstance(X, Queries) else column_names(X))
        return self

    def transform(
        self,
        X: Queries | PartitionedQueries | npt.ArrayLike,
        *,
        qid: npt.ArrayLike | None = None,
        group: npt.ArrayLike | None = None,
    ) -> Any:
        """Transform features: `Queries` to `Queries`, and rows of an array in the order given.

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
            transformed = self._apply(features, _grouping(X, features.shape[0], qid, group))
        if not isinstance(X, Queries):
            return _wrap_data_with_container("transform", transformed, X, self)
        return X.with_features(transformed, None if X.feature_names is None else self.get_feature_names_out())

    def fit_transform(
        self,
        X: Queries | PartitionedQueries | npt.ArrayLike,
        y: object = None,
        *,
        qid: npt.ArrayLike | None = None,
        group: npt.ArrayLike | None = None,
    ) -> Any:
        """Learn from the features and transform them."""
        return self.fit(X, y, qid=qid, group=group).transform(X, qid=qid, group=group)

    def _learn(self, X: Any) -> None:
        raise NotImplementedError

    def _learn_partitioned(self, parts: Partitions[Features]) -> None:  # noqa: ARG002
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
            if reset:
                refuse_empty(X)
            else:
                check_columns(self, X)
            copied = isinstance(features, DeviceFeatures) and not self.takes_device
            return cast("Features", np.asarray(features) if copied else features)
        # scikit-learn adds up all values first, and two sums that overflow differ by NaN.
        with np.errstate(over="ignore", invalid="ignore"):
            checked = validate_data(
                self,
                X,
                reset=reset,
                accept_sparse="csr" if self.takes_sparse else False,
                dtype=[np.float64, np.float32],
                ensure_all_finite="allow-nan",
            )
        return cast("Features", checked)

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.input_tags.allow_nan = True
        tags.input_tags.sparse = self.takes_sparse
        tags.transformer_tags.preserves_dtype = ["float64", "float32"]
        return tags


def _features_of(queries: Queries) -> Features:
    return queries.X


def _transformed(queries: Queries, transformer: FeatureTransformer) -> Queries:
    transformed: Queries = transformer.transform(queries)
    return transformed


def refuse_empty(queries: AnyQueries) -> None:
    """Refuse queries without documents."""
    if queries.n_documents == 0:
        raise DataError("there is no document to learn from; give at least one query with documents")


def set_columns(estimator: Any, n_features: int, names: Sequence[str] | None) -> None:
    """Set the number and names of the features of a fitted estimator."""
    estimator.n_features_in_ = n_features
    vars(estimator).pop("feature_names_in_", None)
    if names is not None:
        estimator.feature_names_in_ = np.array(names, dtype=object)


def check_columns(estimator: Any, queries: AnyQueries) -> None:
    """Refuse features that differ in number or name from those that an estimator was fitted on."""
    kind = type(estimator).__name__
    refuse_other_columns(
        queries.feature_names, [*map(str, getattr(estimator, "feature_names_in_", ()))], f"{kind} was fitted on"
    )
    if queries.n_features != estimator.n_features_in_:
        raise DataError(
            Parameter("X"),
            f" has {queries.n_features} features but {kind} was fitted on {estimator.n_features_in_}; give the same "
            "columns to both",
        )


def _grouping(
    X: Queries | npt.ArrayLike, n: int, qid: npt.ArrayLike | None, group: npt.ArrayLike | None
) -> Grouping | None:
    if isinstance(X, Queries):
        if qid is not None or group is not None:
            raise DataError("X is a Queries, which includes its queries; pass it without qid and group")
        return X.query_offsets, X.order
    if qid is None and group is None:
        return None
    common_index(X=X, qid=qid)
    _, offsets, order = group_rows(n, qid, group)
    return offsets, order
