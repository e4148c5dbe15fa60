"""XGBoost's model files, and its dumps of trees, which search engines take."""

from __future__ import annotations

import importlib
import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, ClassVar, Final

import numpy as np

from marginrank.errors import Message
from marginrank.export.base import CannotRunError, Target, distinct_names, not_tree_shaped
from marginrank.export.export_files import Check
from marginrank.export.tree_ensemble import Leaf, Node, Split, forest_of, level_by_level, single_bound
from marginrank.scorers.scoring_function import ScoringFunction
from marginrank.typing import FloatArray

#: What XGBoost takes for the parent of a root.
_NO_PARENT: Final = 2**31 - 1
#: The version whose format is written.
_VERSION: Final = (3, 0, 0)


@dataclass(frozen=True)
class XGBoost(Target):
    """Write a model file that XGBoost 2 and 3 load; features are compared in float32.

    Args:
        objective: What the file says that it was trained for; it changes no score.
    """

    name = "xgboost"
    takes: ClassVar[str] = "trees and additive models with steps"
    suffix: ClassVar[str] = ".json"
    objective: str = "rank:pairwise"

    def refusal(self, function: ScoringFunction) -> Message | None:
        """Return the reason why a function is not taken, or None."""
        return not_tree_shaped(function)

    def write(self, function: ScoringFunction) -> Mapping[str, str | bytes]:
        """Return the file."""
        return {"": json.dumps(booster(function, self.objective), ensure_ascii=False)}

    def next_steps(self, path: Path) -> str:
        """Return what to do with the file."""
        return f'xgboost.Booster(model_file="{path.name}").predict(xgboost.DMatrix(X, feature_names=...))'

    def run(self, path: Path, check: Check) -> FloatArray:
        """Predict with XGBoost."""
        try:
            xgboost = importlib.import_module("xgboost")
        except ImportError:
            raise CannotRunError("xgboost is not installed here: pip install xgboost") from None
        model = xgboost.Booster(model_file=str(path))
        data = xgboost.DMatrix(check.X, feature_names=list(model.feature_names))
        return np.asarray(model.predict(data, output_margin=True), dtype=np.float64)


def feature_names(names: Sequence[str]) -> list[str]:
    """Return names that XGBoost takes, which may not have brackets or ``<``.

    >>> feature_names(["bm25", "a[1]<2", "a(1)_2"])
    ['bm25', 'a(1)_2_1', 'a(1)_2']
    """
    return distinct_names(names, lambda name: name.translate(str.maketrans("[]<", "()_")))


def booster(function: ScoringFunction, objective: str) -> dict[str, Any]:
    """Return the document of a model file."""
    trees = [_columns(number, tree, function.n_features) for number, tree in enumerate(forest_of(function))]
    n = len(trees)
    model = {
        "gbtree_model_param": {"num_parallel_tree": "1", "num_trees": str(n)},
        "iteration_indptr": list(range(n + 1)),
        "tree_info": [0] * n,
        "trees": trees,
        "cats": {"enc": [], "feature_segments": [], "sorted_idx": []},
    }
    learner = {
        "attributes": {},
        "feature_names": feature_names(function.names),
        "feature_types": ["float"] * function.n_features,
        "gradient_booster": {"model": model, "name": "gbtree"},
        "learner_model_param": {
            "base_score": "0E0",
            "boost_from_average": "0",
            "num_class": "0",
            "num_feature": str(function.n_features),
            "num_target": "1",
        },
        "objective": {"name": objective, "lambdarank_param": {}},
    }
    return {"learner": learner, "version": list(_VERSION)}


def _columns(number: int, tree: Node, n_features: int) -> dict[str, Any]:
    """Write the nodes of a tree down in columns, as XGBoost has them."""
    # XGBoost takes the right child to be the node after the left one.
    nodes = level_by_level(tree)
    place = {id(node): at for at, node in enumerate(nodes)}
    parents = [_NO_PARENT] * len(nodes)
    left, right, conditions, indices, default = [], [], [], [], []
    for at, node in enumerate(nodes):
        if isinstance(node, Split):
            parents[place[id(node.left)]] = parents[place[id(node.right)]] = at
            left.append(place[id(node.left)])
            right.append(place[id(node.right)])
            conditions.append(single_bound(node.threshold))
            indices.append(node.feature)
            default.append(int(node.missing_left))
        else:
            left.append(-1)
            right.append(-1)
            conditions.append(node.value)
            indices.append(0)
            default.append(0)
    n = len(nodes)
    return {
        "id": number,
        "left_children": left,
        "right_children": right,
        "parents": parents,
        "split_conditions": conditions,
        "split_indices": indices,
        "default_left": default,
        "split_type": [0] * n,
        "base_weights": [0.0] * n,
        "loss_changes": [0.0] * n,
        "sum_hessian": [0.0] * n,
        "categories": [],
        "categories_nodes": [],
        "categories_segments": [],
        "categories_sizes": [],
        "tree_param": {
            "num_deleted": "0",
            "num_feature": str(n_features),
            "num_nodes": str(n),
            "size_leaf_vector": "1",
        },
    }


def tree_dump(function: ScoringFunction, names: Sequence[str]) -> list[dict[str, Any]]:
    """Return trees as ``Booster.get_dump(dump_format="json")`` does: yes if the feature is below the condition."""
    return [_nested(tree, names) for tree in forest_of(function)]


def _nested(tree: Node, names: Sequence[str]) -> dict[str, Any]:
    # A root that is a leaf asks for nothing, and engines want a question.
    root = Split(0, 0.0, True, tree, Leaf(tree.value)) if isinstance(tree, Leaf) else tree
    place = {id(node): at for at, node in enumerate(level_by_level(root))}

    def describe(node: Node, depth: int) -> dict[str, Any]:
        if not isinstance(node, Split):
            return {"nodeid": place[id(node)], "leaf": node.value}
        yes, no = place[id(node.left)], place[id(node.right)]
        return {
            "nodeid": place[id(node)],
            "depth": depth,
            "split": names[node.feature],
            "split_condition": single_bound(node.threshold),
            "yes": yes,
            "no": no,
            "missing": yes if node.missing_left else no,
            "children": [describe(node.left, depth + 1), describe(node.right, depth + 1)],
        }

    return describe(root, 0)
