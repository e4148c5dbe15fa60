"""A measure declares its structure, and gets the fastest oracle that the structure allows."""

from __future__ import annotations

import importlib.util
from dataclasses import asdict
from itertools import permutations

import numpy as np
import pytest

from marginrank import Queries, evaluate, parse_measure
from marginrank.losses import GroupedLoss, StructuredLoss, oracle_for
from marginrank.losses.feature_maps import parse_map
from marginrank.losses.slack_rescaling import SlackLoss
from marginrank.measures import Measure, RankedGrades, TwoLevels
from marginrank.runtime.option_objects import OptionObject
from tests.losses.exhaustive import coefficients, every_coefficients
from tests.measures.reference import REFERENCE, SPELLINGS

HEAD = """
from dataclasses import dataclass

import numpy as np

from marginrank.measures import BinaryMeasure, Measure, PositionMeasure


@dataclass(frozen=True, repr=False)
"""
#: File, slow definition for one list of grades, and the oracle for each feature map.
NEW_MEASURES = {
    "halving": (
        '''
class Halving(PositionMeasure):
    """Squared grades, halved at every rank: a sum over ranks."""

    name = "halving"
    k: int | None = None

    def gains(self, grades, best):
        return grades**2

    def discounts(self, n):
        return np.where(np.arange(n) < (self.k or n), 0.5 ** np.arange(n), 0.0)
''',
        lambda grades: sum(g * g / 2**r for r, g in enumerate(grades)),
        {"po": "pruned merge", "dorm": "pruned merge", "dorm(shape=discount)": "shifted sort"},
    ),
    "rooted": (
        '''
class Rooted(BinaryMeasure):
    """√i over the squared rank: credits that are a share times a convex discount."""

    name = "rooted"

    def credit(self, i, j, n_rel, n_irr):
        return np.sqrt(i) / (i + j) ** 2

    def share(self, i, n_rel):
        return np.sqrt(i)

    def discounts(self, n):
        return 1 / np.arange(1.0, n + 1) ** 2
''',
        lambda grades: sum(
            np.sqrt(sum(g >= 1 for g in grades[: r + 1])) / (r + 1) ** 2 for r, g in enumerate(grades) if g >= 1
        ),
        {"po": "interleaving", "dorm": "path"},
    ),
    "ladder": (
        '''
class Ladder(BinaryMeasure):
    """1/(1 + j)², whatever i: credits that claim nothing."""

    name = "ladder"

    def credit(self, i, j, n_rel, n_irr):
        return 1 / (1.0 + j) ** 2

    def normalizer(self, n_rel, n_irr):
        return n_rel
''',
        lambda grades: sum(
            1 / (1 + sum(g < 1 for g in grades[:r])) ** 2 / sum(g >= 1 for g in grades)
            for r, g in enumerate(grades)
            if g >= 1
        ),
        {"po": "path", "dorm": "path"},
    ),
    "concordance": (
        '''
class Concordance(BinaryMeasure):
    """The number of pairs in the right order, over the number of relevant documents: a sum over pairs."""

    name = "concordance"
    sums_over_pairs = True

    def credit(self, i, j, n_rel, n_irr):
        return np.asarray(n_irr - j, dtype=float)

    def normalizer(self, n_rel, n_irr):
        return n_rel
''',
        lambda grades: sum(
            sum(g < 1 for g in grades[r:]) / sum(g >= 1 for g in grades) for r, g in enumerate(grades) if g >= 1
        ),
        {"po": "pairs", "dorm": "path"},
    ),
    "logfirst": (
        '''
class LogFirst(BinaryMeasure):
    """1/log2(1 + rank) of the first relevant document, which alone counts."""

    name = "logfirst"
    first_only = True

    def credit(self, i, j, n_rel, n_irr):
        return np.where(i == 1, 1 / np.log2(2.0 + j), 0.0)

    def share(self, i, n_rel):
        return np.where(i == 1, 1.0, 0.0)

    def discounts(self, n):
        return 1 / np.log2(np.arange(2.0, n + 2))
''',
        lambda grades: next((1 / np.log2(r + 2) for r, g in enumerate(grades) if g >= 1), 0.0),
        {"po": "interleaving", "dorm": "path", "mrr": "prefix sums"},
    ),
}


@pytest.fixture(params=NEW_MEASURES)
def new_measure(request, tmp_path, monkeypatch):
    """A measure from a file of its own, its definition and its oracles; the registry forgets it afterwards."""
    monkeypatch.setattr(OptionObject, "registry", dict(OptionObject.registry))
    source, definition, oracles = NEW_MEASURES[request.param]
    path = tmp_path / f"{request.param}.py"
    path.write_text(HEAD + source.lstrip())
    spec = importlib.util.spec_from_file_location(request.param, path)
    spec.loader.exec_module(importlib.util.module_from_spec(spec))
    return request.param, definition, oracles


def random_queries(most_grades, count=40, seed=0):
    rng = np.random.default_rng(seed)
    for _ in range(count):
        n = int(rng.integers(2, 7))
        grades = rng.integers(0, most_grades + 1, n).astype(float)
        yield grades, np.round(rng.standard_normal(n), 1)


def test_a_new_measure_is_evaluated(new_measure):
    name, definition, _ = new_measure
    for grades, _ in random_queries(3):
        queries = Queries.from_arrays(np.zeros((len(grades), 1)), grades, group=[len(grades)])
        if grades.max() > 0:
            value = evaluate(queries, -np.arange(len(grades)), name).mean[name]
            assert value == pytest.approx(definition(grades.tolist()))
            tied = evaluate(queries, np.zeros(len(grades)), name).mean[name]
            assert tied == pytest.approx(np.mean([definition(order) for order in set(permutations(grades.tolist()))]))


def test_a_new_measure_gets_the_oracle_it_is_entitled_to(new_measure):
    """And with it the maxima over all rankings."""
    name, definition, oracles = new_measure
    kind = parse_measure(name)
    for spelling, oracle in oracles.items():
        most_grades = 3 if kind.sums_over_ranks else 1
        assert oracle_for(name, spelling, n_levels=most_grades + 1).name == oracle
        feature_map = parse_map(spelling)
        for grades, scores in random_queries(most_grades):
            if len(set(grades.tolist())) < 2:
                continue
            ideal = sorted(range(len(grades)), key=lambda d, g=grades: -g[d])
            best = definition(grades[ideal].tolist())
            orders, slopes = every_coefficients(feature_map, kind, grades)
            sequences, which = np.unique(grades[orders], axis=0, return_inverse=True)
            deltas = best - np.array(list(map(definition, sequences.tolist())))[which.ravel()]
            values = slopes @ scores
            most = (deltas + values).max()
            hinge = most - coefficients(feature_map, kind, grades, ideal) @ scores
            assert StructuredLoss(name, spelling, ideal="rows")(grades, scores)[0][0] == pytest.approx(hinge, abs=1e-10)
            tight = StructuredLoss(name, spelling, "tight")(grades, scores)[0][0]
            assert tight == pytest.approx(most - values.max(), abs=1e-10)


def test_slack_rescaling_takes_any_measure_of_the_first_relevant_document(new_measure):
    name, definition, _ = new_measure
    kind, feature_map = parse_measure(name), parse_map("dorm")
    if not kind.first_only:
        return
    for grades, scores in random_queries(1):
        if len(set(grades.tolist())) < 2:
            continue
        ideal = sorted(range(len(grades)), key=lambda d, g=grades: -g[d])
        base = coefficients(feature_map, kind, grades, ideal) @ scores
        largest = max(
            (definition(grades[ideal].tolist()) - definition(grades[list(order)].tolist()))
            * (1 + coefficients(feature_map, kind, grades, order) @ scores - base)
            for order in permutations(range(len(grades)))
        )
        assert SlackLoss(name, "dorm", ideal="rows")(grades, scores)[0][0] == pytest.approx(max(largest, 0), abs=1e-10)


def two_levels(measure, n_rel, n_irr):
    """Grades of the two levels, and what the measure declares about them."""
    grades = np.array([2.0] * n_rel + [0.0] * n_irr)
    rankings = RankedGrades.of_list(grades)
    worth = measure.worth(rankings) / measure.scales(rankings)
    return grades, TwoLevels(np.array(n_rel), np.array(n_irr), worth[0], worth[-1])


@pytest.mark.parametrize("measure", [parse_measure(spelling) for spelling in SPELLINGS], ids=str)
@pytest.mark.parametrize(("n_rel", "n_irr"), [(1, 1), (1, 4), (3, 2), (4, 1)])
def test_declared_structure_is_the_measure(measure, n_rel, n_irr):
    """The sum of credits is the value, and claims about credits are true."""
    if not measure.trainable:
        return
    grades, levels = two_levels(measure, n_rel, n_irr)
    i, j = np.broadcast_arrays(np.arange(1, n_rel + 1)[:, None], np.arange(n_irr + 1)[None, :])
    table = measure.credits(i, j, levels)
    for order in set(permutations(grades.tolist())):
        relevant = [r for r, grade in enumerate(order) if grade > 0]
        total = sum(table[at, r - at] for at, r in enumerate(relevant))
        assert total == pytest.approx(REFERENCE[measure.name](list(order), **asdict(measure)), abs=1e-12)
    shares = measure.shares(i, levels)
    if shares is not None:
        np.testing.assert_allclose(shares * measure.discounts(n_rel + n_irr)[i + j - 1], table, atol=1e-12)
    if measure.sums_over_pairs:
        np.testing.assert_allclose(np.diff(table, axis=1), table[-1, -1] - table[-1, -2], atol=1e-12)
    if measure.first_only:
        assert not table[1:].any()
    discounts = measure.discounts(7)
    assert discounts is None or (np.diff(discounts) <= 0).all()


def test_a_measure_that_declares_nothing_is_refused_by_name():
    class Plain(Measure):
        def __repr__(self):
            return "plain"

        def values(self, rankings):
            return np.zeros(len(rankings))

        def defined(self, rankings):
            return np.ones(len(rankings), dtype=bool)

    with pytest.raises(ValueError, match="no exact argmax for plain with po"):
        oracle_for(Plain(), "po")
    with pytest.raises(ValueError, match="groups need a sum over ranks, such as ndcg@10, or rr, not plain"):
        GroupedLoss(Plain())
    assert Plain().worth(RankedGrades.of_list([2, 0])).tolist() == [2.0, 0.0]
    assert Plain().scales(RankedGrades.of_list([2, 0])).tolist() == [1.0]
    assert Plain().divisor(ideal=3.0, total=4.0) == 1.0


@pytest.mark.parametrize("measure", [parse_measure(spelling) for spelling in SPELLINGS], ids=str)
def test_a_sum_over_ranks_is_divided_by_the_same_number_everywhere(measure):
    if not measure.sums_over_ranks:
        return
    rankings = RankedGrades.of_list([3, 2, 2, 0])
    worth, discounts = measure.worth(rankings), measure.discounts(4)
    divisor = measure.divisor(ideal=float(worth @ discounts), total=float(worth.sum()))
    assert measure.scales(rankings).tolist() == pytest.approx([divisor])
    value = REFERENCE[measure.name]([2, 0, 3, 2], **asdict(measure))
    assert worth[[1, 3, 0, 2]] @ discounts / divisor == pytest.approx(value)


def test_no_kernel_or_measure_function_takes_more_than_eight_arguments():
    import ast
    from pathlib import Path

    import marginrank

    package = Path(marginrank.__file__).parent
    for path in [*package.glob("measures/**/*.py"), *package.glob("losses/**/*.py")]:
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
            if isinstance(node, ast.FunctionDef):
                count = len(node.args.args) + len(node.args.kwonlyargs) + len(node.args.posonlyargs)
                assert count <= 8, f"{path.name}: {node.name} has {count} parameters"
