"""What features are called in errors: by name or, without names, by their number in the file they come from."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import Any

from marginrank.data.partitioned import PartitionedQueries
from marginrank.data.queries import Queries
from marginrank.errors import DataError
from marginrank.sklearn_api import column_names
from marginrank.words import feature_named


class FeatureError(DataError):
    """An error in a feature of which only the column is known where it is raised; `named` adds what it is called.

    >>> error = FeatureError("{feature} is too large; scale it down", 1)
    >>> str(error), str(error.named(["bm25", "clicks"]))
    ('feature 1 is too large; scale it down', "feature 'clicks' is too large; scale it down")
    """

    def __init__(self, text: str, column: int) -> None:
        self.text, self.number = text, column
        super().__init__(text.format(feature=feature_named(str(column))))

    def named(self, labels: Sequence[str]) -> DataError:
        """Return the error with the name of the feature."""
        return DataError(self.text.format(feature=feature_named(labels[self.number])))


@contextmanager
def features_named(X: Any) -> Iterator[None]:
    """Name features in errors as queries or the columns of a frame do; columns of arrays count from 0."""
    try:
        yield
    except FeatureError as error:
        labels = X.feature_labels if isinstance(X, Queries | PartitionedQueries) else column_names(X)
        raise error if labels is None else error.named(labels) from None
