"""Search in the documentation of NumPy, SciPy and scikit-learn."""

from __future__ import annotations

import hashlib
import os
import subprocess
import sys
from itertools import pairwise
from types import ModuleType

import numpy as np
import pytest

from marginrank import evaluate
from marginrank.datasets import pydocs, python_docs
from marginrank.datasets.docstrings import Pages, read_pages
from marginrank.datasets.python_docs import (
    PACKAGES,
    Counts,
    bm25,
    described_targets,
    judge,
    latent_cosine,
    ngram_cosine,
    split_by_target,
    words,
)


@pytest.fixture(scope="module")
def pages():
    return read_pages(PACKAGES)


@pytest.fixture(scope="module")
def docs():
    return pydocs()


@pytest.fixture
def shelf(monkeypatch):
    """A package with three functions, one of which has two names."""

    def lift() -> None:
        """Raise a thing.

        See Also
        --------
        drop, ghost : Let a thing fall.
        raise_ : Alias of this function, under another name.
        lift : Raise a thing by hand.
        """

    def drop() -> None:
        """Let fall.

        See Also
        --------
        lift : Raise a thing by hand.
        hold
        """

    def hold() -> None:
        """Keep a thing.

        See Also
        --------
        shelf.drop : Let a thing fall.
        lift : Raise it.
        """

    module = ModuleType("shelf")
    module.__dict__.update(lift=lift, raise_=lift, drop=drop, hold=hold, _private=lift, __all__=["lift", "raise_"])
    module.__all__ += ["drop", "hold"]
    for function in (lift, drop, hold):
        function.__module__ = "shelf.inner"
    monkeypatch.setitem(sys.modules, "shelf", module)
    return read_pages(["shelf"])


def test_aliases_are_one_page(shelf):
    assert list(shelf.documents) == ["shelf.drop", "shelf.hold", "shelf.lift"]
    assert shelf.resolve("raise_", "shelf.drop") == "shelf.lift"


def test_queries_are_descriptions_on_other_pages_and_targets_what_they_describe(shelf):
    # "Raise it." is too short, "this function" needs its page, and a page's own description of itself does not count.
    assert described_targets(shelf) == {"Let a thing fall.": ["shelf.drop"], "Raise a thing by hand.": ["shelf.lift"]}


def test_the_target_has_grade_2_and_what_its_page_refers_to_grade_1(shelf):
    assert judge(shelf, ["shelf.drop"]) == {"shelf.drop": 2.0, "shelf.lift": 1.0, "shelf.hold": 1.0}
    assert judge(shelf, ["shelf.lift"]) == {"shelf.lift": 2.0, "shelf.drop": 1.0}
    assert judge(shelf, ["shelf.lift", "shelf.drop"])["shelf.drop"] == 2.0


def test_names_are_looked_up_from_the_page_outwards():
    names = ["scipy.fft.fft", "numpy.fft.fft", "scipy.linalg.norm", "numpy.norm"]
    pages = Pages({}, {name: name for name in names})
    assert pages.resolve("fft", "scipy.fft.ifft") == "scipy.fft.fft"
    assert pages.resolve("fft.fft", "numpy.random.normal") == "numpy.fft.fft"
    assert pages.resolve("np.norm", "scipy.linalg.det") == "numpy.norm"
    assert pages.resolve("norm", "scipy.linalg.det") == "scipy.linalg.norm"
    assert pages.resolve("norm", "sklearn.svm.SVC") == "numpy.norm"
    assert pages.resolve("ghost", "numpy.norm") is None


def test_docstrings_are_needed(monkeypatch):
    monkeypatch.setitem(sys.modules, "bare", ModuleType("bare"))
    with pytest.raises(RuntimeError, match="without -OO"):
        read_pages(["bare"])


def test_no_document_has_a_see_also_section(pages):
    for name, document in pages.documents.items():
        lines = document.text.lower().splitlines()
        assert not any(
            line.strip().rstrip(":") == "see also" and below.strip()[:3] in {"---", "===", "~~~"}
            for line, below in pairwise(lines)
        ), name
        assert ".. seealso" not in document.text.lower(), name


def test_a_description_that_only_see_also_sections_have_is_in_no_document(pages):
    joined = "\n".join(" ".join(document.text.split()) for document in pages.documents.values())
    assert "Convert a flat index into an index tuple." in described_targets(pages)
    assert "Convert a flat index into an index tuple." not in joined


def test_known_pages_are_there_under_their_public_names(pages):
    known = {"numpy.unravel_index", "numpy.absolute", "scipy.linalg.lu", "scipy.stats.norm", "sklearn.svm.SVC"}
    assert known <= set(pages.documents)
    assert pages.aliases["numpy.abs"] == "numpy.absolute"
    assert not any("._" in name or ".tests" in name for name in pages.documents)


def test_it_is_of_the_expected_size(docs):
    assert 2500 < len(docs.summaries) < 4000
    assert 1000 < len(docs.queries) < 2000
    assert len(docs.train) + len(docs.test) == len(docs.queries)
    assert 0.45 < len(docs.test) / len(docs.queries) < 0.55
    assert 30 <= docs.queries.lengths.min() <= docs.queries.lengths.max() <= 150
    assert set(docs.texts) == set(docs.queries.query_ids.tolist())
    assert set(docs.queries.document_ids.tolist()) <= set(docs.summaries)
    assert len(set(docs.texts.values())) == len(docs.texts)
    assert repr(docs).startswith("Collection(1,")


def test_no_document_is_the_target_of_queries_on_both_sides(docs):
    def targets(part):
        return set(part.document_ids[part.grades == 2].tolist())

    assert len(targets(docs.train)) > 300
    assert targets(docs.train).isdisjoint(targets(docs.test))


def test_queries_that_share_a_target_with_others_stay_together():
    targets = [[f"t{number}"] for number in range(40)] + [
        [f"t{number}", f"t{number + 1}"] for number in range(0, 40, 2)
    ]
    for seed in range(5):
        in_test = split_by_target(targets, 0.3, seed)
        sides = {(name, side) for query, side in zip(targets, in_test.tolist(), strict=True) for name in query}
        assert len(sides) == 40
        assert 0.2 < in_test.mean() < 0.4
    assert split_by_target(targets, 0.3, 0).tolist() != split_by_target(targets, 0.3, 1).tolist()


def test_a_query_has_the_best_documents_of_every_retriever(monkeypatch):
    monkeypatch.setattr(python_docs, "PACKAGES", ["numpy"])
    small, large = (pydocs(top=top, random_state=1).queries for top in (3, 20))
    assert 3 <= small.lengths.min() <= small.lengths.max() <= 15
    for name in ("numpy.unravel_index/1", "numpy.argsort/1"):
        few, many = small.select([name]), large.select([name])
        for feature in few.feature_names:
            assert few.feature(feature).max() == many.feature(feature).max()
            assert np.sort(few.feature(feature))[-3:].tolist() == np.sort(many.feature(feature))[-3:].tolist()


def test_retrievers_are_decent_and_none_says_it_all(docs):
    means = {name: evaluate(docs.test, docs.test.feature(name)).mean["ndcg@10"] for name in docs.test.feature_names}
    assert 0.2 < means["bm25_name"] < 0.45
    assert all(0.4 < value < 0.8 for name, value in means.items() if name != "bm25_name"), means


@pytest.mark.parametrize("options", [{"top": 0}, {"test_share": 0.0}, {"test_share": 1.0}])
def test_sizes_that_make_no_sense_are_refused(options):
    with pytest.raises(ValueError, match=next(iter(options))):
        pydocs(**options)


def test_a_second_collection_is_a_copy(docs):
    first = pydocs()
    before = first.train.X.copy()
    first.train.X[:] = 0
    assert np.array_equal(pydocs().train.X, before)
    assert np.array_equal(docs.train.X, before)


def digest(queries):
    whole = hashlib.sha256(queries.X.tobytes())
    whole.update(queries.grades.tobytes())
    whole.update("\n".join([*queries.query_ids, *queries.document_ids]).encode())
    return whole.hexdigest()


@pytest.mark.slow
def test_another_process_builds_the_same(docs):
    """With another hash seed, and where experimental estimators and all of SciPy were imported before."""
    code = (
        "import sklearn.experimental.enable_iterative_imputer, sklearn.experimental.enable_halving_search_cv\n"
        "import scipy.signal, scipy.special\n"
        "from tests.datasets.test_python_docs import digest; from marginrank.datasets import pydocs\n"
        "docs = pydocs(); print(digest(docs.train), digest(docs.test))"
    )
    env = {**os.environ, "PYTHONHASHSEED": "2"}
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True, env=env)
    assert done.stdout.split() == [digest(docs.train), digest(docs.test)]


def test_bm25_is_that_of_the_formula():
    documents, query = ["red red apple", "green apple", "pear"], "red apple apple"
    scores = bm25(Counts.of(documents, [query]), k1=1.5, b=0.5)[0]
    mean_length = (3 + 2 + 1) / 3

    def part(tf, df, length):
        return np.log(1 + (3 - df + 0.5) / (df + 0.5)) * tf * 2.5 / (tf + 1.5 * (0.5 + 0.5 * length / mean_length))

    assert scores == pytest.approx([part(2, 1, 3) + 2 * part(1, 2, 3), 2 * part(1, 2, 2), 0.0])


def test_cosines_are_largest_for_the_document_itself_and_0_without_common_words():
    documents = ["solve a linear system", "sort an array in place", "draw random numbers"]
    for scores in (
        latent_cosine(Counts.of(documents, [*documents, "zebra"])),
        ngram_cosine(documents, [*documents, "qx"]),
    ):
        assert scores[:3].argmax(axis=1).tolist() == [0, 1, 2]
        assert scores[3].tolist() == [0.0, 0.0, 0.0]
        assert np.abs(scores).max() <= 1 + 1e-9


def test_words_of_names_are_split():
    assert words("scipy.linalg.LinAlgError") == ["scipy", "linalg", "lin", "alg", "error"]
    assert words("2-D FFTs of matrices, classes, bus") == ["2", "fft", "of", "matrice", "classe", "bus"]
