"""Sums of trees, and expected grades by them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cache
from typing import ClassVar, Final, NamedTuple, Self

import numpy as np

from marginrank.errors import DataError
from marginrank.runtime.lazy_imports import sp
from marginrank.runtime.threads import for_each
from marginrank.scorers.form import Form, stored
from marginrank.scorers.terms import TreesTerm
from marginrank.typing import AnyArray, BoolArray, Features, FloatArray, IntArray

#: Rows that are scored together.
_ROWS: Final = 1 << 12
#: Points at which slopes are averaged; by Gauss's rule scores are exact to 1e-8 for outputs that differ by up to 20.
_POINTS: Final = 64
#: Most features of trees: nothing else in a model file says how many there may be, and each has a name and a count.
_MOST_FEATURES: Final = 1 << 20


class Tree(NamedTuple):
    """One tree, node after node, children after their parent: features are −1 at leaves, which have values.

    ``missing_left`` says where missing values go; None for trees that take none.
    """

    feature: AnyArray
    threshold: AnyArray
    left: AnyArray
    right: AnyArray
    value: AnyArray
    missing_left: AnyArray | None = None


@dataclass(frozen=True, eq=False)
class BoostedForm(Form):
    """Trees that add up to some outputs; θ has the values of all leaves, tree after tree.

    A row goes left where its feature is at most the threshold. With ``grades`` there is one output for each, and the
    score is the expected grade Σ_z z · softmax(outputs)_z; without, there is one output, and it is the score.

    >>> stump = Tree(np.array([0, -1, -1]), np.array([1.5, 0, 0]), np.array([1, 0, 0]), np.array([2, 0, 0]),
    ...     np.array([0, 0.25, 2.0]))
    >>> form, theta = BoostedForm.collect([stump, stump], [0, 0], n_features=1)
    >>> theta.tolist(), form.score(theta, np.array([[1.5], [2.0]])).tolist()
    ([0.25, 2.0, 0.25, 2.0], [0.5, 4.0])

    Args:
        n_features: Number of features.
        feature: The feature that each node asks for, or −1 for a leaf.
        threshold: What it is compared with.
        left: Where to go if it is not larger; of a leaf, its number in θ.
        right: Where to go if it is larger.
        roots: The first node of each tree.
        outputs: The output that each tree adds to.
        grades: The grade of each output; empty where the output is the score.
        single: Whether features are rounded to float32 before they are compared.
        missing_left: Whether a missing value goes left at each node; empty where features may not be NaN.
    """

    kind: ClassVar[str] = "trees"
    sized_by: ClassVar[str] = "splits"
    n_features: int
    feature: IntArray
    threshold: FloatArray
    left: IntArray
    right: IntArray
    roots: IntArray
    outputs: IntArray
    grades: FloatArray
    single: bool = False
    missing_left: BoolArray = field(default_factory=lambda: np.zeros(0, dtype=np.bool_))

    def __post_init__(self) -> None:
        # The kernel follows these numbers without looking.
        if not self._fits():
            raise ValueError("the nodes of the trees do not fit together")
        if self.n_features > _MOST_FEATURES:
            raise ValueError(f"trees of {self.n_features:,} features; {_MOST_FEATURES:,} are the most")
        if np.isnan(self.threshold).any() or not np.isfinite(self.grades).all():
            raise ValueError("a threshold or grade of the trees is not a number")

    def _fits(self) -> bool:
        n, numbers = len(self.feature), np.arange(len(self.feature))
        if {len(self.threshold), len(self.left), len(self.right)} != {n}:
            return False
        if len(self.missing_left) not in (0, n):
            return False
        inner = self.feature >= 0
        leaves, children = self.left[~inner], np.stack([self.left[inner], self.right[inner]])
        return bool(
            ((self.feature >= -1) & (self.feature < self.n_features)).all()
            and (children > numbers[inner]).all()
            and (children < n).all()
            and np.array_equal(leaves, np.arange(len(leaves)))
            and len(np.unique(children)) == children.size
            and len(np.unique(self.roots)) == len(self.roots) == len(self.outputs)
            and not np.isin(self.roots, children).any()
            and np.isin(self.roots, numbers).all()
            and ((self.outputs >= 0) & (self.outputs < max(1, len(self.grades)))).all()
        )

    @classmethod
    def collect(
        cls, trees: Sequence[Tree], outputs: Sequence[int], n_features: int, grades: FloatArray | None = None
    ) -> tuple[BoostedForm, FloatArray]:
        """Put trees together; give the form and the values of the leaves."""
        sizes = np.array([len(tree.feature) for tree in trees], dtype=np.int64)
        roots = np.cumsum(sizes) - sizes
        feature, threshold, left, right, value = (
            np.concatenate([np.zeros(0), *(np.asarray(part, dtype=np.float64) for part in parts)])
            for parts in zip(*(tree[:5] for tree in trees), strict=True)
        )
        leaf, shift = feature < 0, np.repeat(roots, sizes)
        left = np.where(leaf, np.cumsum(leaf) - 1, left + shift).astype(np.int64)
        right = np.where(leaf, 0, right + shift).astype(np.int64)
        own = np.zeros(0) if grades is None else grades
        numbers = np.maximum(feature, -1).astype(np.int64)
        form = cls(
            n_features,
            numbers,
            threshold,
            left,
            right,
            roots,
            np.array(outputs, dtype=np.int64),
            own,
            missing_left=_missing_left(trees),
        )
        return form, value[leaf]

    @property
    def takes_nan(self) -> bool:  # type: ignore[override]
        """Whether features may be NaN."""
        return len(self.missing_left) > 0

    @property
    def n_parameters(self) -> int:
        """Leaves of all trees."""
        return int(np.count_nonzero(self.feature < 0))

    def first(self, n_trees: int) -> BoostedForm:
        """Return the form of the first trees, whose leaves are the first of θ."""
        end = int(self.roots[n_trees]) if n_trees < len(self.roots) else len(self.feature)
        return replace(
            self,
            feature=self.feature[:end],
            threshold=self.threshold[:end],
            left=self.left[:end],
            right=self.right[:end],
            missing_left=self.missing_left[:end],
            roots=self.roots[:n_trees],
            outputs=self.outputs[:n_trees],
        )

    def score(self, theta: FloatArray, X: Features, n_jobs: int | None = None) -> FloatArray:
        """Score documents, a block at a time."""
        if sp.issparse(X):
            raise DataError("trees take no sparse X; pass X.toarray()")
        scores = np.empty(X.shape[0])

        def work(start: int) -> None:
            raw = self._outputs(theta, np.ascontiguousarray(X[start : start + _ROWS]))
            scores[start : start + len(raw)] = raw[:, 0] if not len(self.grades) else _softmax(raw) @ self.grades

        for_each(work, [(start,) for start in range(0, len(scores), _ROWS)], n_jobs)
        return scores

    def terms(self, theta: FloatArray) -> tuple[TreesTerm, ...]:
        """Return the trees with the values of their leaves."""
        nodes = self.feature, self.threshold, self.left, self.right, self.roots, self.outputs
        return (TreesTerm(*nodes, self.grades, self.single, self.missing_left, theta),)

    def _outputs(self, theta: FloatArray, rows: AnyArray) -> FloatArray:
        from marginrank.scorers.boosted.trees_kernel import add_trees  # noqa: PLC0415

        nodes = self.feature, self.threshold, self.left, self.right, self.roots, self.outputs, self.missing_left
        raw = np.zeros((len(rows), max(1, len(self.grades))))
        add_trees(rows, *nodes, theta, self.single, raw)
        return raw

    def leaves(self, X: Features, n_jobs: int | None = None) -> AnyArray:
        """Return the leaf of each tree that each document comes to, as its number in θ.

        >>> stump = Tree(np.array([0, -1, -1]), np.array([1.5, 0, 0]), np.array([1, 0, 0]), np.array([2, 0, 0]),
        ...     np.array([0, 0.25, 2.0]))
        >>> form, _ = BoostedForm.collect([stump, stump], [0, 0], n_features=1)
        >>> form.leaves(np.array([[1.5], [2.0]])).tolist()
        [[0, 2], [1, 3]]
        """
        from marginrank.scorers.boosted.trees_kernel import find_leaves  # noqa: PLC0415

        nodes = self.feature, self.threshold, self.left, self.right, self.roots, self.missing_left
        leaves = np.empty((X.shape[0], len(self.roots)), dtype=np.int32)

        def work(start: int) -> None:
            rows = np.ascontiguousarray(X[start : start + _ROWS])
            find_leaves(rows, *nodes, self.single, leaves[start : start + _ROWS])

        for_each(work, [(start,) for start in range(0, len(leaves), _ROWS)], n_jobs)
        return leaves

    def _dense(self, X: Features) -> FloatArray:
        """Return features as they are compared with thresholds."""
        if sp.issparse(X):
            raise DataError("trees take no sparse X; pass X.toarray()")
        rows = np.asarray(X, dtype=np.float32) if self.single else np.asarray(X)
        return np.ascontiguousarray(rows, dtype=np.float64)

    def contributions(self, theta: FloatArray, X: Features, references: Features) -> FloatArray:
        """Return the Shapley values of the features, averaged over the references.

        For a document x and a reference z, they are those of the game in which a set of features has the values of x
        and all others those of z: interventional Shapley values, Lundberg et al. (Nature Machine Intelligence 2020,
        algorithm 3). Features in which x and z agree have 0, and exchanging x and z turns the signs. Where scores are
        expected grades, the values of the outputs are carried through the softmax by integrated gradients,
        Sundararajan, Taly and Yan (ICML 2017), from the outputs of z to those of x.

        >>> stump = Tree(np.array([1, -1, -1]), np.array([1.5, 0, 0]), np.array([1, 0, 0]), np.array([2, 0, 0]),
        ...     np.array([0, 0.25, 2.0]))
        >>> form, theta = BoostedForm.collect([stump], [0], n_features=2)
        >>> form.contributions(theta, np.array([[0.0, 2.0]]), np.array([[1.0, 1.0], [1.0, 3.0]])).tolist()
        [[0.0, 0.875]]
        """
        from marginrank.scorers.boosted.trees_kernel import add_shapley_values  # noqa: PLC0415

        rows, others = self._dense(X), self._dense(references)
        nodes = self.feature, self.threshold, self.left, self.missing_left, self._parents()
        output_of = np.full(len(self.feature), -1, dtype=np.int64)
        output_of[self.roots] = self.outputs
        parts = np.zeros((len(rows), self.n_features))
        shares = np.empty((len(others), self.n_features, max(1, len(self.grades))))
        raw, raw_others = self._outputs(theta, rows), self._outputs(theta, others)
        for row, part in enumerate(parts):
            shares[:] = 0.0
            add_shapley_values(rows[row], others, *nodes, output_of, theta, shares)
            slopes = self._mean_slopes(raw_others, raw[row])
            part[:] = np.einsum("rfo,ro->f", shares, slopes) / len(others)
        return parts

    def _parents(self) -> IntArray:
        """Return the node above each node, −1 for roots."""
        parents, inner = np.full(len(self.feature), -1, dtype=np.int64), np.flatnonzero(self.feature >= 0)
        parents[self.left[inner]] = parents[self.right[inner]] = inner
        return parents

    def _mean_slopes(self, start: FloatArray, end: FloatArray) -> FloatArray:
        """Return the slope of the score in each output, averaged on the line from each row of ``start`` to ``end``."""
        if not len(self.grades):
            return np.ones_like(start)
        slopes = np.zeros_like(start)
        for at, weight in _quadrature():
            chances = _softmax(start + at * (end - start))
            slopes += weight * chances * (self.grades - (chances @ self.grades)[:, None])
        return slopes

    def sizes(self, theta: FloatArray) -> FloatArray:  # noqa: ARG002
        """How often each feature is asked for."""
        return np.bincount(self.feature[self.feature >= 0], minlength=self.n_features).astype(np.float64)

    def arrays(self) -> dict[str, AnyArray]:
        """The nodes."""
        names = ("feature", "threshold", "left", "right", "roots", "outputs", "grades", "missing_left")
        return {f"trees.{name}": getattr(self, name) for name in names} | {"trees.single": np.array(self.single)}

    @classmethod
    def from_arrays(cls, arrays: Mapping[str, AnyArray], n_features: int) -> Self:
        """Make trees of what `arrays` gave, and refuse what does not fit together."""
        feature, left, right, roots, outputs = (
            stored(arrays, f"trees.{name}", np.int64) for name in ("feature", "left", "right", "roots", "outputs")
        )
        threshold, grades = (stored(arrays, f"trees.{name}", np.float64) for name in ("threshold", "grades"))
        single = bool(stored(arrays, "trees.single", np.bool_, ndim=0))
        missing_left = stored(arrays, "trees.missing_left", np.bool_)
        return cls(n_features, feature, threshold, left, right, roots, outputs, grades, single, missing_left)


def _missing_left(trees: Sequence[Tree]) -> BoolArray:
    parts = [np.asarray(tree.missing_left, dtype=np.bool_) for tree in trees if tree.missing_left is not None]
    return np.concatenate([np.zeros(0, dtype=np.bool_), *parts])


@cache
def _quadrature() -> list[tuple[float, float]]:
    """Points between 0 and 1 and their weights, by Gauss's rule."""
    points, weights = np.polynomial.legendre.leggauss(_POINTS)
    return list(zip(((1 + points) / 2).tolist(), (weights / 2).tolist(), strict=True))


def _softmax(raw: FloatArray) -> FloatArray:
    """Shares of outputs.

    >>> _softmax(np.array([[0.0, np.log(3.0)]])).round(10).tolist()
    [[0.25, 0.75]]
    """
    shares = np.exp(raw - raw.max(axis=1, keepdims=True))
    return np.asarray(shares / shares.sum(axis=1, keepdims=True))
