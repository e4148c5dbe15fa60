"""
Train for a measure of your own
===============================

A measure is one class. Once it is defined, it can be evaluated, compared, and trained for. This one values a result
page of two columns and four rows: what counts is the row a document is in.
"""

from dataclasses import dataclass

import numpy as np

from marginrank import Ranker, compare, evaluate
from marginrank.datasets import digits
from marginrank.measures import PositionMeasure


@dataclass(frozen=True, repr=False)
class Grid(PositionMeasure):
    """The share of attention that relevant documents get on the page."""

    name = "grid"
    normalizer = "ideal"
    rows: int = 4

    def gains(self, grades, best):  # noqa: ARG002
        """Return 1 for documents above grade 0."""
        return (grades > 0).astype(float)

    def discounts(self, n):
        """Return the attention of each rank, which halves with every row."""
        row = np.arange(n) // 2
        return np.where(row < self.rows, 0.5**row, 0.0)


# %%
# Documents at ranks 1 and 2 are both in the first row.
print(Grid().value([1, 0, 0]), Grid().value([0, 1, 0]), Grid().value([0, 0, 1]))

# %%
# Train for it by its name, and compare with a ranker that is trained for average precision.
train, test = digits(n_queries=160, n_documents=40).split(0.5, 0.5)
systems = {"svmmap": Ranker("svmmap").fit(train), "grid": Ranker("grid").fit(train)}
for name, system in systems.items():
    mean = evaluate(test, system, ["grid", "ap"]).mean
    print(f"{name:7} grid {mean['grid']:.3f}  ap {mean['ap']:.3f}")
print(compare(systems, test, measure="grid", baseline="svmmap"))
