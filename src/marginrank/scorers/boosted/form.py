"""Sums of trees, and expected grades from them: the form of the boosted scorer after training."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import ClassVar, Final, NamedTuple, Self

import numpy as np

from marginrank.runtime.threads import for_each
from marginrank.scorers.form import Form, stored
from marginrank.scorers.terms import TreesTerm
from marginrank.typing import AnyArray, BoolArray, Features, FloatArray, IntArray

#: Rows whose leaves are looked up together.
_ROWS: Final = 1 << 12
#: Maximum number of features: nothing else in a model file limits it, and each feature has a name and a count.
_MOST_FEATURES: Final = 1 << 20


class Tree(NamedTuple):
    """One tree, node after node, children after their parent: features are −1 at leaves, which have values.

    ``missing_left`` tells whether missing values go left; None for trees without missing values.
    """

    feature: AnyArray
    threshold: AnyArray
    left: AnyArray
    right: AnyArray
    value: AnyArray
    missing_left: AnyArray | None = None


@dataclass(frozen=True, eq=False)
class BoostedForm(Form):
    """Sums of trees; θ has the values of all leaves, tree after tree.

    A row goes left if its feature is at most the threshold. With ``grades`` there is one output for each, and the
    score is the expected grade Σ_z z · softmax(outputs)_z; without, there is one output, and it is the score.

    >>> stump = Tree(np.array([0, -1, -1]), np.array([1.5, 0, 0]), np.array([1, 0, 0]), np.array([2, 0, 0]),
    ...     np.array([0, 0.25, 2.0]))
    >>> form, theta = BoostedForm.collect([stump, stump], [0, 0], n_features=1)
    >>> theta.tolist(), form.score(theta, np.array([[1.5], [2.0]])).tolist()
    ([0.25, 2.0, 0.25, 2.0], [0.5, 4.0])

    Args:
        n_features: Number of features.
        feature: The feature that each node splits on, or −1 for a leaf.
        threshold: The threshold of each node.
        left: Where to go if it is not larger; of a leaf, its number in θ.
        right: Where to go if it is larger.
        roots: The first node of each tree.
        outputs: The output that each tree adds to.
        grades: The grade of each output; empty if the output is the score.
        single: Whether features are rounded to float32 before they are compared.
        missing_left: Whether a missing value goes left at each node; empty if features may not be NaN.
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
        """Return the form of a list of trees, and the values of the leaves."""
        sizes = np.array([len(tree.feature) for tree in trees], dtype=np.int64)
        roots = np.cumsum(sizes) - sizes
        feature, threshold, left, right, value = (
            np.concatenate([np.zeros(0), *(np.asarray(part, dtype=np.float64) for part in parts)])
            for parts in zip(*(tree[:5] for tree in trees), strict=True)
        )
        leaf, shift = feature < 0, np.repeat(roots, sizes)
        left = np.where(leaf, np.cumsum(leaf) - 1, left + shift).astype(np.int64)
        right = np.where(leaf, 0, right + shift).astype(np.int64)
        form = cls(
            n_features,
            np.maximum(feature, -1).astype(np.int64),
            threshold,
            left,
            right,
            roots,
            np.array(outputs, dtype=np.int64),
            np.zeros(0) if grades is None else grades,
            missing_left=_missing_left(trees),
        )
        return form, value[leaf]

    @property
    def takes_nan(self) -> bool:  # type: ignore[override]
        """Whether features may be NaN."""
        return len(self.missing_left) > 0

    @property
    def n_parameters(self) -> int:
        """Number of leaves of all trees."""
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

    def terms(self, theta: FloatArray) -> tuple[TreesTerm, ...]:
        """Return the trees with the values of their leaves."""
        nodes = self.feature, self.threshold, self.left, self.right, self.roots, self.outputs
        return (TreesTerm(*nodes, self.grades, self.single, self.missing_left, theta),)

    def leaves(self, X: Features, n_jobs: int | None = None) -> AnyArray:
        """Return the leaf that each document reaches in each tree, as its index in θ.

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

    def sizes(self, theta: FloatArray) -> FloatArray:  # noqa: ARG002
        """Return the number of nodes that split on each feature."""
        return np.bincount(self.feature[self.feature >= 0], minlength=self.n_features).astype(np.float64)

    def arrays(self) -> dict[str, AnyArray]:
        """Return the nodes."""
        names = ("feature", "threshold", "left", "right", "roots", "outputs", "grades", "missing_left")
        return {f"trees.{name}": getattr(self, name) for name in names} | {"trees.single": np.array(self.single)}

    @classmethod
    def from_arrays(cls, arrays: Mapping[str, AnyArray], n_features: int) -> Self:
        """Build the form from what `arrays` returned, and refuse nodes that do not fit together."""
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
