"""A first minute with marginrank: image search on scikit-learn's digits, measured."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from marginrank import Queries, compare, evaluate
from marginrank.typing import FloatArray

N_QUERIES = 200
N_DOCUMENTS = 100


def digit_queries(n_queries: int = N_QUERIES, n_documents: int = N_DOCUMENTS, seed: int = 0) -> Queries:
    """Make queries of images: documents are other images, features their pixel differences, relevant the same digit."""
    from sklearn.datasets import load_digits  # noqa: PLC0415

    images, digits = load_digits(return_X_y=True)
    rng = np.random.default_rng(seed)
    query_images = rng.choice(len(images), n_queries, replace=False)
    documents = np.stack(
        [rng.choice(np.delete(np.arange(len(images)), image), n_documents, replace=False) for image in query_images]
    )
    differences = np.abs(images[documents] - images[query_images, None]) / 16.0
    return Queries.from_arrays(
        differences.reshape(-1, images.shape[1]).astype(np.float32),
        (digits[documents] == digits[query_images, None]).ravel(),
        qid=np.repeat(query_images, n_documents),
        document_ids=documents.ravel().astype(str),
    )


RANKERS: dict[str, Callable[[FloatArray], FloatArray]] = {
    "euclidean": lambda differences: -np.sqrt((differences**2).sum(axis=1)),
    "manhattan": lambda differences: -differences.sum(axis=1),
    "largest": lambda differences: -differences.max(axis=1),
}


def main() -> None:
    """Print how well three distances find images of the same digit, and whether they differ."""
    queries = digit_queries()
    measures = ["ap", "ndcg@10", "rr", "p@5"]
    print(f"Image search on digits: {queries}\n")
    results = {name: evaluate(queries, rank(np.asarray(queries.X)), measures) for name, rank in RANKERS.items()}
    print(f"{'distance':12}" + "".join(f"{measure:>10}" for measure in measures))
    for name, result in results.items():
        print(f"{name:12}" + "".join(f"{result.mean[measure]:10.4f}" for measure in measures))
    print("\nAverage precision, paired by query:\n")
    print(compare(results, measure="ap", baseline="euclidean"))


if __name__ == "__main__":
    main()
