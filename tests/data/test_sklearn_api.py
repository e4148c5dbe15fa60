"""Estimators without scikit-learn: nothing heavy is imported before it is needed, and nothing is missing then."""

from __future__ import annotations

import os
import pickle
import subprocess
import sys

import numpy as np
import pytest
import sklearn
from sklearn.base import BaseEstimator
from sklearn.base import clone as sklearn_clone
from sklearn.exceptions import NotFittedError
from sklearn.utils.validation import validate_data

from marginrank import Ranker
from marginrank.data.sklearn_api import check_rows, clone
from marginrank.fusion import BestRun, Fusion, UnsupervisedFusion
from marginrank.methods.baselines.rankboost import RankBoost
from marginrank.preparation import QueryMinMax, Standardize, ThresholdBins
from marginrank.scorers import Additive

ESTIMATORS = (
    Ranker("ndcg@10", C=3.0, scorer=Additive(bins=8)),
    RankBoost(7),
    Fusion("rrf", Cs=[1.0]),
    UnsupervisedFusion("borda"),
    BestRun("ndcg"),
    Standardize(),
    QueryMinMax(),
    ThresholdBins(9, spacing="even"),
)
every = pytest.mark.parametrize("estimator", ESTIMATORS, ids=lambda one: type(one).__name__)

FIT = """
import numpy as np
X = np.arange(24.0).reshape(12, 2) % 7
y, qid = [1, 0, 0, 1, 0, 2] * 2, [1] * 6 + [2] * 6
ranker = Ranker("svmmap", C=3.0).fit(X, y, qid=qid)
ranker.predict(X), ranker.predict(X.tolist()), ranker.score(X, y, qid=qid), ranker.explain(X), repr(ranker)
ranker.fit_path(X, y, qid=qid, Cs=[1.0, 2.0])
"""


def test_nothing_heavy_is_imported_before_it_is_needed():
    imported, fitted = loaded("from marginrank import Ranker", FIT)
    heavy = {"sklearn", "scipy", "pandas", "pyarrow", "numba", "joblib", "matplotlib", "narwhals", "rich"}
    assert imported & heavy == set()
    heavy = {"sklearn", "scipy.sparse", "scipy.stats", "scipy.optimize", "pandas", "pyarrow", "joblib"}
    # SciPy before 1.15 imports its sparse matrices with its linear algebra.
    assert not fitted & heavy or fitted & heavy <= loaded("import scipy.linalg")[0]


def loaded(*steps):
    """All modules that are imported after each step of a program."""
    code = "".join(f"{step}\nimport sys; print(*sys.modules)\n" for step in steps)
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    return [set(line.split()) for line in done.stdout.splitlines()]


ASKED = [
    "assert '<div' in Ranker()._repr_html_()",
    "assert 'qid' in str(Ranker().set_fit_request.__signature__)",
    "assert Standardize().set_output(transform='pandas').fit_transform([[1.0], [3.0]]).columns.tolist() == ['x0']",
]
#: Runs each line in a fork of a process that has imported no scikit-learn.
FORKS = """
import os, sys
import joblib, pandas, scipy.optimize, scipy.spatial, scipy.stats  # which scikit-learn imports, once for all forks
from marginrank import Ranker
from marginrank.preparation import Standardize
for line in sys.argv[1:]:
    assert 'sklearn' not in sys.modules
    if os.fork() == 0:
        exec(line)
        assert 'sklearn' in sys.modules
        os._exit(0)
    assert os.wait()[1] == 0, line
"""


@pytest.mark.skipif(not hasattr(os, "fork"), reason="needs fork")
def test_what_people_ask_for_loads_scikit_learn():
    subprocess.run([sys.executable, "-c", FORKS, *ASKED], check=True)


@every
def test_what_scikit_learn_asks_estimators_for_is_there(estimator):
    kind = type(estimator)
    namesake = type(kind.__name__, (BaseEstimator,), {"__init__": kind.__init__})(**estimator.get_params(deep=False))
    assert estimator.get_params() == namesake.get_params()
    for name in dir(BaseEstimator):
        assert name.startswith("__") or hasattr(estimator, name), name
    assert kind.__name__ in estimator._repr_html_()
    assert pickle.loads(pickle.dumps(estimator)).get_params() == estimator.get_params()
    assert not hasattr(estimator, "_no_such_name")


@every
@pytest.mark.parametrize("copy", [clone, sklearn_clone])
def test_clones_have_parameters_of_their_own(estimator, copy):
    other = copy(estimator)
    assert other is not estimator
    assert other.get_params() == estimator.get_params()
    assert repr(other) == repr(estimator)
    for name, value in other.get_params(deep=False).items():
        if isinstance(value, list):
            assert value is not getattr(estimator, name)


def test_clones_keep_requests_and_outputs():
    with sklearn.config_context(enable_metadata_routing=True):
        ranker = Ranker().set_fit_request(group=True, qid=False)
        for copy in (clone, sklearn_clone):
            requests = copy(ranker).get_metadata_routing().fit.requests
            assert (requests["group"], requests["qid"]) == (True, False)
        assert Ranker().get_metadata_routing().fit.requests["qid"] is True
        with pytest.raises(TypeError, match="Unexpected args"):
            Ranker().set_fit_request(depth=True)
    assert not hasattr(Ranker(), "set_transform_request")
    assert not hasattr(Standardize(), "set_predict_request")
    scaler = clone(Standardize().set_output(transform="pandas"))
    assert list(scaler.fit_transform([[1.0], [3.0]]).columns) == ["x0"]


def test_an_estimator_shows_what_was_chosen():
    assert repr(Ranker()) == "Ranker()"
    assert repr(Ranker("svmmap", C=10.0)) == "Ranker(method='svmmap', C=10.0)"
    assert repr(ThresholdBins(9, spacing="even")) == "ThresholdBins(n_thresholds=9, spacing='even')"


def test_unfitted_estimators_say_so_as_those_of_scikit_learn_do():
    for call in (lambda: Ranker().predict([[1.0]]), lambda: Standardize().transform([[1.0]])):
        with pytest.raises(NotFittedError, match="is not fitted yet; call fit first"):
            call()


ROWS = np.arange(12.0).reshape(4, 3) - 5
PLAIN = {
    "array": ROWS,
    "float32": ROWS.astype(np.float32),
    "float16": ROWS.astype(np.float16),
    "integers": ROWS.astype(np.int32),
    "truths": ROWS > 0,
    "columns": np.asfortranarray(ROWS),
    "every other row": np.repeat(ROWS, 2, axis=0)[::2],
    "lists": ROWS.tolist(),
    "tuples": tuple(map(tuple, ROWS.tolist())),
    "missing": np.where(ROWS > 0, ROWS, np.nan),
}


@pytest.mark.parametrize("order", ["C", None])
@pytest.mark.parametrize("X", PLAIN.values(), ids=PLAIN)
def test_plain_rows_are_checked_as_scikit_learn_does(X, order):
    y = [0, 1, 2, 1]
    options = {"dtype": [np.float64, np.float32], "ensure_all_finite": "allow-nan", "order": order}
    own, other = Ranker(), Ranker()
    found = check_rows(own, X, y, reset=True, finite="allow-nan", order=order)
    expected = validate_data(other, X, y, y_numeric=True, **options)
    again = check_rows(own, X, reset=False, finite="allow-nan", order=order)
    assert own.n_features_in_ == other.n_features_in_ == 3
    for one, same in zip((*found, again), (*expected, expected[0]), strict=True):
        np.testing.assert_array_equal(one, same)
        assert (one.dtype, one.flags.c_contiguous) == (same.dtype, same.flags.c_contiguous)
    if isinstance(X, np.ndarray) and X.dtype in (np.float64, np.float32) and X.flags.c_contiguous:
        assert np.shares_memory(found[0], X)


REFUSED = {
    "one dimension": (np.arange(4.0), [0, 1, 2, 1]),
    "no columns": (np.zeros((4, 0)), [0, 1, 2, 1]),
    "few rows": (ROWS[:1], [0]),
    "ragged": ([[1.0], [1.0, 2.0]], [0, 1]),
    "text": ([["a"], ["b"]], [0, 1]),
    "complex": (ROWS + 1j, [0, 1, 2, 1]),
    "infinite": (np.where(ROWS > 0, ROWS, np.inf), [0, 1, 2, 1]),
    "other lengths": (ROWS, [0, 1]),
    "missing grades": (ROWS, [0, 1, np.nan, 1]),
    "matrix of grades": (ROWS, np.zeros((4, 2))),
}


@pytest.mark.parametrize(("X", "y"), REFUSED.values(), ids=REFUSED)
def test_all_else_is_refused_in_the_words_of_scikit_learn(X, y):
    options = {"dtype": [np.float64, np.float32], "ensure_all_finite": "allow-nan", "ensure_min_samples": 2}
    messages = []
    for call in (
        lambda: validate_data(Ranker(), X, y, y_numeric=True, **options),
        lambda: check_rows(Ranker(), X, y, reset=True, finite="allow-nan", least=2),
    ):
        with pytest.raises(ValueError) as caught:  # noqa: PT011
            call()
        messages.append(str(caught.value))
    assert messages[0] == messages[1]


def test_other_columns_are_refused_and_forgotten():
    ranker = Ranker()
    check_rows(ranker, ROWS, reset=True, finite=False)
    with pytest.raises(ValueError, match="X has 2 features, but Ranker is expecting 3 features"):
        check_rows(ranker, ROWS[:, :2], reset=False, finite=False)
    ranker.feature_names_in_ = np.array(["a", "b", "c"], dtype=object)
    with pytest.warns(UserWarning, match="X does not have valid feature names"):
        check_rows(ranker, ROWS, reset=False, finite=False)
    check_rows(ranker, ROWS[:, :2], reset=True, finite=False)
    assert ranker.n_features_in_ == 2
    assert not hasattr(ranker, "feature_names_in_")
