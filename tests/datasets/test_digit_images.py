"""Image search on digits."""

from __future__ import annotations

import subprocess
import sys

import numpy as np
from sklearn.datasets import load_digits

from marginrank.datasets import digits


def test_features_and_grades_are_those_of_the_images():
    images, labels = load_digits(return_X_y=True)
    queries = digits(n_queries=3, n_documents=4, random_state=7)
    names = queries.document_ids.astype(int).reshape(3, 4)
    for number, (query, documents) in enumerate(zip(queries.query_ids.tolist(), names.tolist(), strict=True)):
        assert query not in documents
        assert len(set(documents)) == 4
        one = queries[number]
        np.testing.assert_allclose(one.X, ((images[documents] - images[query]) / 16) ** 2, rtol=1e-6)
        assert one.grades.tolist() == [float(labels[document] == labels[query]) for document in documents]


def test_the_seed_chooses_the_images():
    same, again, other = (digits(5, 6, random_state=seed) for seed in (0, 0, 1))
    assert same.document_ids.tolist() == again.document_ids.tolist() != other.document_ids.tolist()


def test_the_name_is_the_function_whichever_module_is_loaded_first():
    code = "import marginrank.datasets.digit_images; from marginrank.datasets import digits; print(digits.__qualname__)"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout == "digits\n"
