"""What a scorer is: scores of documents as a function of parameters, and the way back."""

from __future__ import annotations

from abc import ABC, abstractmethod

import numpy as np

from marginrank.data.queries import Queries
from marginrank.scorers.forms import Form
from marginrank.typing import FloatArray


class Scorer(ABC):
    """Scores of the documents of given queries as a linear function of parameters θ, some rows at a time.

    Rows are scored from a table, which is made of θ once per evaluation, and give their slopes back to cells of the
    same shape, which are made a gradient once. The linear scorer has θ itself as table and the gradient as cells.
    """

    queries: Queries
    #: What is left of the scorer once θ is found.
    form: Form
    n_parameters: int
    #: Bytes that one pass over all rows reads.
    n_bytes: int

    @abstractmethod
    def table(self, theta: FloatArray) -> FloatArray:
        """What rows are scored from."""

    @abstractmethod
    def score(self, table: FloatArray, scores: FloatArray, start: int, stop: int) -> None:
        """Write the scores of the rows from ``start`` to ``stop``."""

    def scores(self, theta: FloatArray) -> FloatArray:
        """Give the scores of all documents."""
        scores = np.empty(self.queries.n_documents)
        self.score(self.table(theta), scores, 0, len(scores))
        return scores

    @abstractmethod
    def pull_back(self, slopes: FloatArray, cells: FloatArray, start: int, stop: int) -> None:
        """Add the slopes of the rows from ``start`` to ``stop`` to the cells of the table."""

    @abstractmethod
    def gradient(self, cells: FloatArray) -> FloatArray:
        """Derivatives by θ, given those by the cells, along the last axis."""
