"""ONNX: a graph from raw features to scores, with the scaling inside."""

from __future__ import annotations

import importlib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, ClassVar, Final, Literal

import numpy as np

from marginrank.errors import Message
from marginrank.export.base import CannotRunError, Target, other_terms
from marginrank.export.export_files import Check
from marginrank.export.tree_ensemble import Leaf, LinearLeaf, Node, Split, forest, forest_of, trees_of
from marginrank.scorers.scoring_function import ScoringFunction
from marginrank.scorers.terms import AdaptiveTerm, CurvesTerm, KernelTerm, LinearTerm, NetworkTerm, Term, TreesTerm
from marginrank.typing import AnyArray, FloatArray

Precision = Literal["float32", "float64"]
#: Versions of the operators: TreeEnsemble came with 5 of ai.onnx.ml.
_OPSET: Final = 21
_ML_OPSET: Final = 5
_IR_VERSION: Final = 10
_LARGEST: Final = float(np.finfo(np.float64).max)


@dataclass(frozen=True)
class Onnx(Target):
    """Write an ONNX graph: input ``features`` (documents × features), output ``scores``.

    Inside, numbers are float64 whatever goes in and out. With a scaling by query, one call scores one query.

    Args:
        precision: Type of features and scores, ``float32`` or ``float64``.
    """

    name = "onnx"
    takes: ClassVar[str] = "all rankers but those with a kernel given as a function"
    suffix: ClassVar[str] = ".onnx"
    precision: Precision = "float32"

    def refusal(self, function: ScoringFunction) -> Message | None:
        """Return the reason why a function is not taken, or None."""
        if any(isinstance(term, KernelTerm) and not term.kernel for term in function.terms):
            return "its kernel is a Python function"
        return other_terms(function, LinearTerm, AdaptiveTerm, CurvesTerm, TreesTerm, NetworkTerm, KernelTerm)

    def write(self, function: ScoringFunction) -> Mapping[str, str | bytes]:
        """Return the file."""
        try:
            onnx = importlib.import_module("onnx")
        except ImportError:
            raise ImportError("export to ONNX needs onnx: pip install 'marginrank[onnx]'") from None
        graph = _Graph(onnx)
        kind = onnx.TensorProto.FLOAT if self.precision == "float32" else onnx.TensorProto.DOUBLE
        values = graph.add("Cast", "features", to=onnx.TensorProto.DOUBLE)
        scaled = _scaled(graph, function, values)
        scores = [_TERMS[type(term)](graph, term, scaled, function) for term in function.terms]
        total = scores[0] if len(scores) == 1 else graph.add("Sum", *scores)
        graph.add("Cast", total, to=kind, output="scores")
        return {"": graph.model(kind, function)}

    def next_steps(self, path: Path) -> str:
        """Return what to do with the file."""
        return (
            f'onnxruntime.InferenceSession("{path.name}").run(["scores"], {{"features": X.astype("{self.precision}")}})'
        )

    def run(self, path: Path, check: Check) -> FloatArray:
        """Run the graph with onnxruntime, query by query."""
        try:
            runtime = importlib.import_module("onnxruntime")
        except ImportError:
            raise CannotRunError("onnxruntime is not installed here: pip install onnxruntime") from None
        session = runtime.InferenceSession(str(path), providers=["CPUExecutionProvider"])
        wide = session.get_inputs()[0].type == "tensor(double)"
        X = check.X if wide else check.X.astype(np.float32)
        parts = np.split(X, np.cumsum(check.group)[:-1])
        scores = [session.run(["scores"], {"features": part})[0] for part in parts]
        return np.concatenate([np.zeros(0), *scores]).astype(np.float64)


@dataclass
class _Graph:
    """Nodes and constants, as they are added."""

    onnx: Any
    nodes: list[Any] = field(default_factory=list)
    constants: list[Any] = field(default_factory=list)

    def add(self, operator: str, *inputs: str, output: str = "", domain: str = "", **attributes: Any) -> str:
        """Add a node, and return the name of what comes out."""
        name = output or f"v{len(self.nodes)}"
        self.nodes.append(self.onnx.helper.make_node(operator, list(inputs), [name], domain=domain, **attributes))
        return name

    def constant(self, values: Any, dtype: Any = np.float64) -> str:
        """Add an array, and return its name."""
        name = f"c{len(self.constants)}"
        self.constants.append(self.onnx.numpy_helper.from_array(np.asarray(values, dtype=dtype), name))
        return name

    def fill(self, values: str, fill: AnyArray) -> str:
        """Replace NaN by one value per column."""
        return self.add("Where", self.add("IsNaN", values), self.constant(fill), values)

    def model(self, kind: int, function: ScoringFunction) -> bytes:
        """Return the file."""
        helper = self.onnx.helper
        inputs = [helper.make_tensor_value_info("features", kind, ["documents", function.n_features])]
        outputs = [helper.make_tensor_value_info("scores", kind, ["documents"])]
        graph = helper.make_graph(self.nodes, "marginrank", inputs, outputs, self.constants)
        opsets = [helper.make_opsetid("", _OPSET), helper.make_opsetid("ai.onnx.ml", _ML_OPSET)]
        model = helper.make_model(graph, opset_imports=opsets, ir_version=_IR_VERSION, producer_name="marginrank")
        helper.set_model_props(model, {"features": "\n".join(function.names)})
        self.onnx.checker.check_model(model)
        content: bytes = model.SerializeToString()
        return content


def _scaled(graph: _Graph, function: ScoringFunction, values: str) -> str:
    """Fill and scale features; what is missing after that stays NaN."""
    if function.raw_fill is not None:
        values = graph.fill(values, function.raw_fill)
    if function.mean is not None and function.scale is not None:
        varies = function.scale > 0
        centered = graph.add("Sub", values, graph.constant(function.mean))
        scaled = graph.add("Div", centered, graph.constant(np.where(varies, function.scale, 1.0)))
        return scaled if varies.all() else graph.add("Mul", scaled, graph.constant(varies))
    if function.scaling == "query-percentile":
        return _percentile(graph, values)
    if function.needs_queries:
        unit = _unit(graph, values)
        return unit if function.scaling == "query-minmax" else _unit_variance(graph, unit)
    return values


def _unit(graph: _Graph, values: str) -> str:
    absent, axis = graph.add("IsNaN", values), graph.constant([0], np.int64)
    low = graph.add("ReduceMin", graph.add("Where", absent, graph.constant(_LARGEST), values), axis)
    high = graph.add("ReduceMax", graph.add("Where", absent, graph.constant(-_LARGEST), values), axis)
    return graph.add("Div", graph.add("Sub", values, low), _or_one(graph, graph.add("Sub", high, low)))


def _or_one(graph: _Graph, divisor: str) -> str:
    return graph.add("Where", graph.add("Greater", divisor, graph.constant(0.0)), divisor, graph.constant(1.0))


def _unit_variance(graph: _Graph, unit: str) -> str:
    absent, axis = graph.add("IsNaN", unit), graph.constant([0], np.int64)
    present = graph.add("Cast", graph.add("Not", absent), to=graph.onnx.TensorProto.DOUBLE)
    count = graph.add("Max", graph.add("ReduceSum", present, axis), graph.constant(1.0))

    def mean(values: str) -> str:
        known = graph.add("Where", absent, graph.constant(0.0), values)
        return graph.add("Div", graph.add("ReduceSum", known, axis), count)

    centered = graph.add("Sub", unit, mean(unit))
    spread = graph.add("Sqrt", mean(graph.add("Mul", centered, centered)))
    return graph.add("Div", centered, _or_one(graph, spread))


def _percentile(graph: _Graph, values: str) -> str:
    double, axis = graph.onnx.TensorProto.DOUBLE, graph.constant([1], np.int64)
    value = graph.add("Unsqueeze", values, axis)
    others = graph.add("Unsqueeze", values, graph.constant([0], np.int64))

    def count(operator: str) -> str:
        return graph.add(
            "ReduceSum", graph.add("Cast", graph.add(operator, others, value), to=double), axis, keepdims=0
        )

    absent = graph.add("IsNaN", values)
    present = graph.add("Cast", graph.add("Not", absent), to=double)
    n = graph.add("Max", graph.add("ReduceSum", present, graph.constant([0], np.int64)), graph.constant(1.0))
    equal = graph.add("Mul", count("Equal"), graph.constant(0.5))
    shares = graph.add("Div", graph.add("Add", count("Less"), equal), n)
    return graph.add("Where", absent, graph.constant(np.nan), shares)


def _vector(graph: _Graph, column: str) -> str:
    return graph.add("Squeeze", column, graph.constant([1], np.int64))


def _linear(graph: _Graph, term: Term, values: str, function: ScoringFunction) -> str:  # noqa: ARG001
    assert isinstance(term, LinearTerm)
    filled = values if term.fill is None else graph.fill(values, term.fill)
    score = graph.add("MatMul", filled, graph.constant(term.weights[:, None]))
    if len(term.flagged):
        absent = graph.add("Cast", graph.add("IsNaN", values), to=graph.onnx.TensorProto.DOUBLE)
        weights = np.zeros((len(term.weights), 1))
        weights[term.flagged, 0] = term.flag_weights
        score = graph.add("Add", score, graph.add("MatMul", absent, graph.constant(weights)))
    return _vector(graph, score)


def _adaptive(graph: _Graph, term: Term, values: str, function: ScoringFunction) -> str:  # noqa: ARG001
    assert isinstance(term, AdaptiveTerm)
    used = term.width > 0
    z = graph.add("Gather", values, graph.constant(term.context[used], np.int64), axis=1)
    above = graph.add("Sub", z, graph.constant(term.low[used]))
    context = graph.add("Div", above, graph.constant(term.width[used]))
    context = graph.add("Clip", context, graph.constant(0.0), graph.constant(1.0))
    changes = graph.add("MatMul", context, graph.constant(term.changes[:, used].T))
    weights = graph.add("Add", changes, graph.constant(term.weights))
    products = graph.add("Mul", values, weights)
    return graph.add("ReduceSum", products, graph.constant([1], np.int64), keepdims=0)


def _curves(graph: _Graph, term: Term, values: str, function: ScoringFunction) -> str:
    """Look intercepts and slopes up in trees: the score is their sum, with the values of features times slopes."""
    assert isinstance(term, CurvesTerm)
    scaled = ScoringFunction(function.names, (term,))
    intercepts = [(_lines(tree, slopes=False), 0) for tree in forest_of(scaled)]
    if term.steps:
        return _vector(graph, _ensemble(graph, intercepts, 1, values))
    slopes = [(_lines(tree, slopes=True), 1 + tree.feature) for tree in trees_of(scaled) if isinstance(tree, Split)]
    looked_up = _ensemble(graph, [*intercepts, *slopes], 1 + function.n_features, values)
    known = graph.fill(values, np.zeros(function.n_features))
    ones = graph.add("Add", graph.add("Mul", _first(graph, known), graph.constant(0.0)), graph.constant(1.0))
    products = graph.add("Mul", looked_up, graph.add("Concat", ones, known, axis=1))
    return graph.add("ReduceSum", products, graph.constant([1], np.int64), keepdims=0)


def _first(graph: _Graph, values: str) -> str:
    return graph.add("Gather", values, graph.constant([0], np.int64), axis=1)


def _lines(tree: Node, *, slopes: bool) -> Node:
    """Replace lines by their intercepts or slopes."""
    if isinstance(tree, Split):
        left, right = _lines(tree.left, slopes=slopes), _lines(tree.right, slopes=slopes)
        return tree._replace(left=left, right=right)
    if isinstance(tree, LinearLeaf):
        return Leaf(tree.slope if slopes else tree.value - tree.slope * tree.origin)
    return Leaf(0.0) if slopes else tree


def _trees(graph: _Graph, term: Term, values: str, function: ScoringFunction) -> str:
    assert isinstance(term, TreesTerm)
    scaled = ScoringFunction(function.names, (term,))
    trees = list(zip(forest(scaled, term), term.outputs.tolist(), strict=True))
    outputs = _ensemble(graph, trees, max(1, len(term.grades)), values)
    if len(term.grades):
        shares = graph.add("Softmax", outputs, axis=1)
        outputs = graph.add("MatMul", shares, graph.constant(term.grades[:, None]))
    return _vector(graph, outputs)


def _ensemble(graph: _Graph, trees: Sequence[tuple[Node, int]], n_targets: int, values: str) -> str:
    """Add trees that each add to one target."""
    table = _Nodes()
    for tree, target in trees:
        table.add_tree(tree, target)

    def array(numbers: list[float]) -> Any:
        return graph.onnx.numpy_helper.from_array(np.array(numbers, dtype=np.float64), "")

    modes = graph.onnx.numpy_helper.from_array(np.zeros(len(table.features), dtype=np.uint8), "")
    return graph.add(
        "TreeEnsemble",
        values,
        domain="ai.onnx.ml",
        n_targets=n_targets,
        aggregate_function=1,
        post_transform=0,
        tree_roots=table.roots,
        nodes_featureids=table.features,
        nodes_splits=array(table.splits),
        nodes_modes=modes,
        nodes_truenodeids=table.true_ids,
        nodes_trueleafs=table.true_leaves,
        nodes_falsenodeids=table.false_ids,
        nodes_falseleafs=table.false_leaves,
        nodes_missing_value_tracks_true=table.missing_true,
        leaf_targetids=table.targets,
        leaf_weights=array(table.weights),
    )


class _Nodes:
    """Nodes and leaves of all trees, as ONNX has them."""

    def __init__(self) -> None:
        self.roots: list[int] = []
        self.features: list[int] = []
        self.splits: list[float] = []
        self.missing_true: list[int] = []
        self.true_ids: list[int] = []
        self.false_ids: list[int] = []
        self.true_leaves: list[int] = []
        self.false_leaves: list[int] = []
        self.targets: list[int] = []
        self.weights: list[float] = []

    def add_tree(self, tree: Node, target: int) -> None:
        """Add a tree; its root is a split, whatever the tree is."""
        root = tree if isinstance(tree, Split) else Split(0, 0.0, True, tree, tree)
        self.roots.append(self._split(root, target))

    def _split(self, split: Split, target: int) -> int:
        number = len(self.features)
        self.features.append(split.feature)
        self.splits.append(float(np.clip(split.threshold, -_LARGEST, _LARGEST)))
        self.missing_true.append(int(split.missing_left))
        ways = (self.true_ids, self.true_leaves), (self.false_ids, self.false_leaves)
        for ids, leaves in ways:
            ids.append(0)
            leaves.append(0)
        for child, (ids, leaves) in zip((split.left, split.right), ways, strict=True):
            leaves[number] = int(not isinstance(child, Split))
            ids[number] = self._split(child, target) if isinstance(child, Split) else self._leaf(child.value, target)
        return number

    def _leaf(self, value: float, target: int) -> int:
        self.targets.append(target)
        self.weights.append(value)
        return len(self.weights) - 1


def _network(graph: _Graph, term: Term, values: str, function: ScoringFunction) -> str:  # noqa: ARG001
    assert isinstance(term, NetworkTerm)
    for number, (weights, biases) in enumerate(term.layers):
        inputs = _activated(graph, term.activation, values) if number else values
        values = graph.add("Add", graph.add("MatMul", inputs, graph.constant(weights.T)), graph.constant(biases))
    return _vector(graph, values)


def _activated(graph: _Graph, activation: str, values: str) -> str:
    if activation == "elu":
        negative = graph.add("Exp", graph.add("Min", values, graph.constant(0.0)))
        bent = graph.add("Sub", negative, graph.constant(1.0))
        return graph.add("Where", graph.add("Greater", values, graph.constant(0.0)), values, bent)
    if activation == "silu":
        return graph.add("Mul", values, graph.add("Sigmoid", values))
    return graph.add({"relu": "Relu", "tanh": "Tanh", "sigmoid": "Sigmoid"}[activation], values)


def _kernel(graph: _Graph, term: Term, values: str, function: ScoringFunction) -> str:  # noqa: ARG001
    assert isinstance(term, KernelTerm)
    gamma, *others = term.parameters
    if term.kernel == "poly":
        degree, coef0 = others
        products = graph.add("MatMul", values, graph.constant(gamma * term.documents.T))
        kernel = graph.add("Pow", graph.add("Add", products, graph.constant(coef0)), graph.constant(degree))
    else:
        # ‖x − z‖² is a difference of squares, which loses few digits if they are small.
        center = term.documents.mean(axis=0)
        right = term.documents - center
        left = graph.add("Sub", values, graph.constant(center))
        products = graph.add("MatMul", left, graph.constant(-2.0 * right.T))
        squares = graph.add("ReduceSum", graph.add("Mul", left, left), graph.constant([1], np.int64))
        distances = graph.add("Sum", products, squares, graph.constant(np.einsum("ij,ij->i", right, right)))
        distances = graph.add("Max", distances, graph.constant(0.0))
        kernel = graph.add("Exp", graph.add("Mul", distances, graph.constant(-gamma)))
    return _vector(graph, graph.add("MatMul", kernel, graph.constant(term.coefficients[:, None])))


_TERMS: Final = {
    LinearTerm: _linear,
    AdaptiveTerm: _adaptive,
    CurvesTerm: _curves,
    TreesTerm: _trees,
    NetworkTerm: _network,
    KernelTerm: _kernel,
}
