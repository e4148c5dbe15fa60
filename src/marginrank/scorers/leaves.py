"""Leaves of grown trees as parameters: every document has one leaf of each tree, and its score is their sum."""

from __future__ import annotations

from marginrank.data.queries import Queries
from marginrank.memory import check_memory, max_memory
from marginrank.scorers.base import PreparedScorer
from marginrank.scorers.trees import Trees
from marginrank.typing import FloatArray
from marginrank.words import count


class PreparedLeaves(PreparedScorer):
    """Scores Zθ of the documents of given queries, where Z says which leaves of the trees each document has.

    >>> import numpy as np
    >>> from marginrank.scorers.trees import Tree
    >>> stump = Tree(*np.array([[0, -1, -1], [1.5, 0, 0], [1, 0, 0], [2, 0, 0], [0, 0, 0]]))
    >>> form, _ = Trees.collect([stump, stump], [0, 0], n_features=1)
    >>> queries = Queries.from_arrays([[1.0], [2.0]], [1, 0], group=[2])
    >>> PreparedLeaves(queries, form).scores(np.array([1.0, 2.0, 10.0, 20.0])).tolist()
    [11.0, 22.0]

    Args:
        queries: The queries.
        trees: The trees.
        n_jobs: Number of threads.
    """

    def __init__(self, queries: Queries, trees: Trees, n_jobs: int | None = None) -> None:
        n_trees = len(trees.roots)
        what = f"the leaves of {count(queries.n_documents, 'document')} in {count(n_trees, 'tree')}"
        check_memory(4 * queries.n_documents * n_trees, what, max_memory(), remedy="grow fewer trees")
        self.queries, self.form = queries, trees
        self.n_parameters = trees.n_parameters
        self._leaves = trees.leaves(queries.X, n_jobs)
        self.n_bytes = self._leaves.nbytes

    def table(self, theta: FloatArray) -> FloatArray:
        """Return the values of the leaves themselves."""
        return theta

    def score(self, table: FloatArray, scores: FloatArray, start: int, stop: int) -> None:
        """Write the sums of the leaves of the rows from ``start`` to ``stop``."""
        from marginrank.scorers.trees_kernel import score_leaves  # noqa: PLC0415

        score_leaves(self._leaves, table, scores, start, stop)

    def pull_back(self, slopes: FloatArray, cells: FloatArray, start: int, stop: int) -> None:
        """Add the slope of each row to its leaves."""
        from marginrank.scorers.trees_kernel import add_slopes  # noqa: PLC0415

        add_slopes(self._leaves, slopes, start, stop, cells)

    def gradient(self, cells: FloatArray) -> FloatArray:
        """Return the cells themselves."""
        return cells
