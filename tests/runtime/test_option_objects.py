"""One parser, one registry and one check of types for everything that is spelled."""

from __future__ import annotations

import subprocess
import sys
from dataclasses import dataclass, fields
from typing import Literal, get_args, get_origin, get_type_hints

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from marginrank.export.base import Target, parse_target
from marginrank.export.elasticsearch_ltr import ElasticsearchLTR
from marginrank.export.hybrid_search import ElasticsearchRetriever
from marginrank.export.sql import Sql
from marginrank.losses import PairwiseHinge, SlackLoss, StructuredLoss
from marginrank.losses.feature_maps import FeatureMap, Positional, parse_map
from marginrank.measures import Measure, parse_measure
from marginrank.measures.base import parse_mix, spell_mix
from marginrank.methods.baselines.perceptron import PRank
from marginrank.methods.baselines.rankboost import RankBoost
from marginrank.runtime.option_objects import OptionObject, from_spec, parse_spelling, registered, to_spec
from marginrank.scorers import Additive, Boosted, Kernel, Linear, Neural, parse_scorer
from marginrank.scorers.base import Scorer
from marginrank.solvers import Bundle, FrankWolfe, NSlack, parse_solver
from marginrank.solvers.base import Solver
from marginrank.training.tight_bound import Tight, parse_bound

#: Values of the parameters that not every number of their type suits.
RANGES = {
    "k": st.integers(1, 2**31 - 1),
    "rel": st.floats(min_value=0, exclude_min=True, allow_infinity=False) | st.integers(1, 10**20),
    "p": st.floats(0, 1, exclude_min=True, exclude_max=True),
    "halflife": st.floats(min_value=1, exclude_min=True, allow_infinity=False),
    "max_grade": st.floats(0, 1000, exclude_min=True),
    "gain": st.sampled_from(["exp2", "linear", "binary"])
    | st.lists(st.floats(0, 1e300, exclude_min=True) | st.integers(1, 10**20), min_size=1).map(
        lambda gains: (0, *sorted(gains))
    ),
}
OF_TYPE = {
    bool: st.booleans(),
    int: st.integers(),
    float: st.floats(allow_nan=False, allow_infinity=False) | st.integers(-(10**20), 10**20),
    type(None): st.none(),
}


def values(name, hint):
    """Draw values of a parameter from its annotation."""
    if get_origin(hint) is Literal:
        return st.sampled_from(get_args(hint))
    kinds = get_args(hint) or (hint,)
    return st.one_of(*(RANGES[name] if name in RANGES and kind is not type(None) else OF_TYPE[kind] for kind in kinds))


@st.composite
def measures(draw):
    kind = draw(st.sampled_from(list(registered(Measure).values())))
    hints = get_type_hints(kind)
    return kind(**{f.name: draw(values(f.name, hints[f.name])) for f in fields(kind)})


@given(measures())
def test_the_repr_of_a_measure_is_its_spelling(measure):
    assert parse_measure(repr(measure)) == measure
    assert parse_measure(str(measure).upper()) == measure
    assert from_spec(to_spec(measure)) == measure


@given(st.lists(st.tuples(st.floats(0, 1e300), measures().filter(lambda measure: measure.trainable)), min_size=1))
def test_a_mix_is_read_as_it_is_spelled(mix):
    assert parse_mix(spell_mix(mix)) == mix


@pytest.mark.parametrize(
    ("spelling", "message"),
    [
        ("0..5*ap", r"'0..5\*ap': the weight 0..5 is not a finite number"),
        ("ap + 1e999*rr", r"the weight 1e999 is not a finite number"),
        ("ap +", "'ap \\+' is not a measure or mix of measures; write 'ndcg@10' or 'ndcg@10 \\+ 0.5\\*ap'"),
        ("5e400*ap", "the weight 5e400 is not a finite number"),
        (".*ap", "the weight . is not a finite number"),
        ("0.5*", "is not a measure or mix of measures"),
        ("-0.5*ap", "cannot read measure '-0.5\\*ap'"),
    ],
)
def test_mixes_that_cannot_be_read_are_explained(spelling, message):
    with pytest.raises(ValueError, match=message):
        parse_mix(spelling)


@pytest.mark.parametrize(
    ("parse", "member"),
    [
        (parse_scorer, Additive(bins=64, shape="steps")),
        (parse_scorer, Kernel(gamma=0.5, rank=None)),
        (parse_scorer, Boosted(start="additive(bins=8,shape=steps)", depth=3)),
        (parse_solver, Bundle(tol=1e-8, max_iter=5)),
        (parse_solver, FrankWolfe(random_state=None)),
        (parse_solver, NSlack(schedule=3, single=True)),
        (parse_target, Sql(table="2024", query="None")),
        (parse_map, Positional("power", d=0.25)),
        (parse_map, Positional("discount")),
        (parse_bound, Tight(start="regression", anneal=10)),
    ],
    ids=lambda value: str(value) if isinstance(value, OptionObject) else "",
)
def test_other_families_are_read_as_they_are_spelled(parse, member):
    assert parse(str(member)) == member
    assert parse(member) is member
    assert from_spec(to_spec(member)) == member


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda: Additive(bins=2.5), "additive: bins is 2.5; give a whole number"),
        (lambda: Additive(bins="64"), "additive: bins is '64'; give a whole number"),
        (lambda: Additive(bins=None), "additive: bins is None; give a whole number"),
        (lambda: Additive(shape="line"), "additive: shape is 'line'; choose 'steps' or 'lines'"),
        (lambda: Additive(device=0), "additive: device is 0; give a string or None"),
        (lambda: Bundle(max_iter=True), "bundle: max_iter is True; give a whole number"),
        (lambda: Bundle(max_iter=np.float64(3)), "bundle: max_iter is np.float64(3.0); give a whole number"),
        (lambda: Bundle(tol="small"), "bundle: tol is 'small'; give a number"),
        (lambda: Bundle(tol=float("nan")), "bundle: tol is nan; give a number"),
        (lambda: Bundle(callback="print"), "bundle: callback is 'print'; give a function or None"),
        (lambda: NSlack(single=1), "n-slack: single is 1; give True or False"),
        (lambda: NSlack(schedule=2.0), "n-slack: schedule is 2.0; choose 'constraint', 'loop' or a whole number"),
        (lambda: Linear(missing=3), "linear: missing is 3; choose 'error', 'zero', 'mean' or 'indicator'"),
        (lambda: Linear(nonnegative="bm25"), "linear: nonnegative is 'bm25'; give True, False or a sequence"),
        (lambda: Kernel(degree=2.5), "kernel: degree is 2.5; give a whole number"),
        (lambda: Kernel(gamma="auto"), "kernel: gamma is 'auto'; choose a number or 'scale'"),
        (lambda: Neural(epochs=True), "neural: epochs is True; give a whole number"),
        (lambda: Boosted(trees=10.0), "boosted: trees is 10.0; give a whole number"),
        (lambda: Boosted(start=3), "boosted: start is 3; give a string, a Scorer or None"),
        (lambda: ElasticsearchRetriever(window=10.5), "elasticsearch-retriever: window is 10.5; give a whole number"),
        (lambda: PairwiseHinge(power=True), "PairwiseHinge: power is True; choose 1 or 2"),
        (lambda: StructuredLoss(3), "StructuredLoss: measure is 3; give a string or a Measure"),
        (lambda: StructuredLoss("ap", seed=1.5), "StructuredLoss: seed is 1.5; give a whole number"),
        (lambda: SlackLoss("ap", most_states="all"), "SlackLoss: most_states is 'all'; give a whole number"),
        (lambda: Positional(d="half"), "dorm: d is 'half'; give a number"),
        (lambda: Positional(3), "dorm: shape is 3; give a string or a tuple"),
        (lambda: Tight(anneal=1.5), "tight: anneal is 1.5; give a whole number"),
        (lambda: Tight("svm"), "tight: start is 'svm'; choose 'ranksvm', 'regression', a sequence or an array"),
        (lambda: RankBoost(rounds=2.5), "rankboost: rounds is 2.5; give a whole number"),
        (lambda: PRank(epochs=True), "prank: epochs is True; give a whole number"),
        (lambda: parse_scorer("additive(bins=2.5)"), "additive: bins is 2.5; give a whole number"),
        (lambda: parse_scorer("linear(missing=3)"), "linear: missing is 3; choose"),
        (lambda: parse_solver("bundle(max_iter=true)"), "bundle: max_iter is True; give a whole number"),
        (lambda: parse_map("dorm(shape=power,d=half)"), "dorm: d is 'half'; give a number"),
        (lambda: parse_bound("tight(start_C=10,anneal=long)"), "tight: anneal is 'long'; give a whole number"),
    ],
)
def test_values_of_another_type_are_refused(make, message):
    with pytest.raises(ValueError, match="is") as error:
        make()
    assert str(error.value).startswith(message)


def test_numbers_of_numpy_are_numbers():
    assert Bundle(tol=np.float32(0.5), max_iter=np.int64(3)) == Bundle(tol=0.5, max_iter=3)
    assert PairwiseHinge(power=np.int64(2)) == PairwiseHinge(power=2)
    assert Additive(shape=np.str_("steps")) == Additive(shape="steps")


def test_words_for_strings_stay_words():
    assert parse_target("sql(table=2024)").table == "2024"
    assert parse_target("elasticsearch-ltr(model=true)") == ElasticsearchLTR(model="true")
    assert parse_solver("frank-wolfe(random_state=none)").random_state is None


@pytest.mark.parametrize(
    ("parse", "spelling", "message"),
    [
        (parse_solver, "bundle(tol=1,tol=2)", r"tol is given twice"),
        (parse_solver, "bundle@3", r"'bundle@3': bundle has no parameter '@3'; it has tol,"),
        (parse_solver, "bundle(callback=print)", r"bundle has no parameter 'callback'"),
        (parse_map, "dorm(shape=log", r"cannot read feature map 'dorm\(shape=log'"),
        (parse_map, "drom", r"unknown feature map 'drom'; did you mean 'dorm'\?"),
        (parse_map, "po(d=2)", r"'po\(d=2\)': po has no parameter 'd'; it has scale"),
        (parse_bound, "hnge", r"unknown bound 'hnge'; did you mean 'hinge'\? known: auto, hinge, tight"),
        (parse_bound, "tight(power=2)", r"tight has no parameter 'power'; it has start, start_C, anneal"),
    ],
)
def test_spellings_are_refused_alike(parse, spelling, message):
    with pytest.raises(ValueError, match=message):
        parse(spelling)


def test_required_parameters_are_named(monkeypatch):
    monkeypatch.setattr(OptionObject, "registry", dict(OptionObject.registry))

    @dataclass(frozen=True)
    class Scaled(FeatureMap):
        name = "scaled"
        factor: float

        def profile(self, n, measure): ...

        def scales(self, lengths, n_pairs): ...

    with pytest.raises(ValueError, match=r"'scaled': scaled needs factor=\.\.\."):
        parse_map("scaled")
    assert parse_map("scaled(factor=2)").factor == 2


@pytest.mark.parametrize("base", [Measure, Scorer, Solver, Target, FeatureMap], ids=lambda base: base.family)
def test_a_name_is_taken_once_in_its_family(base, monkeypatch):
    monkeypatch.setattr(OptionObject, "registry", dict(OptionObject.registry))
    taken = next(iter(registered(base)))
    with pytest.raises(TypeError, match=rf"{base.family} {taken!r} of {__name__} is already defined by marginrank\."):
        type("Again", (base,), {"name": taken, "__module__": __name__})
    assert parse_spelling(base, registered(base)[taken](*[1] * (taken == "p"))) is not None


@pytest.mark.parametrize(
    "statement",
    [
        "from typer.testing import CliRunner; CliRunner().invoke(app, ['--help'])",
        "from typer.testing import CliRunner; CliRunner().invoke(app, ['measures'])",
        "from marginrank.cli.options.shared_options import measure_names; assert measure_names('nd')",
    ],
)
def test_measures_are_listed_without_numba_and_scikit_learn(statement):
    program = (
        f"import sys; from marginrank.cli.app import app; {statement}; print({{'numba', 'sklearn'}} & {{*sys.modules}})"
    )
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)
    assert done.stdout == "set()\n"
