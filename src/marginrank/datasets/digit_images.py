"""An image search task on scikit-learn's handwritten digits."""

from __future__ import annotations

import numpy as np

from marginrank.data.queries import Queries
from marginrank.typing import FloatArray, IntArray


def digits(n_queries: int = 600, n_documents: int = 100, *, random_state: int = 0) -> Queries:
    """Build an image search task from scikit-learn's digits.

    Each query is an image, named by its number in scikit-learn's data, and its documents are other images. Features
    are the squared differences of the 64 pixels. A document is relevant if it shows the same digit.

    >>> digits(n_queries=5, n_documents=20)
    Queries(5 queries, 100 documents, 64 features, grades 0..1)

    Args:
        n_queries: Number of queries, at most 1,797.
        n_documents: Documents of each query, at most 1,796.
        random_state: Seed of the choice of images.
    """
    images, labels = digit_images()
    rng = np.random.default_rng(random_state)
    queries = rng.choice(len(images), n_queries, replace=False)
    documents = np.stack(
        [rng.choice(np.delete(np.arange(len(images)), image), n_documents, replace=False) for image in queries]
    )
    differences = ((images[documents] - images[queries, None]) / 16.0) ** 2
    return Queries.from_arrays(
        differences.reshape(-1, images.shape[1]).astype(np.float32),
        (labels[documents] == labels[queries, None]).ravel(),
        qid=np.repeat(queries, n_documents),
        document_ids=documents.ravel().astype(str),
    )


def digit_images() -> tuple[FloatArray, IntArray]:
    """Return the images, one row of 64 pixels from 0 to 16 each, and the digits that they show."""
    from sklearn.datasets import load_digits  # noqa: PLC0415

    images, labels = load_digits(return_X_y=True)
    return images, labels
