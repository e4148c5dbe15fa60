"""LightGBM's model files."""

from __future__ import annotations

import importlib
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import ClassVar, Final

import numpy as np

from marginrank.errors import Message
from marginrank.export.base import CannotRunError, Target, distinct_names, not_tree_shaped
from marginrank.export.export_files import Check
from marginrank.export.tree_ensemble import Leaf, Node, Split, depth_first, forest_of
from marginrank.scorers.scoring_function import ScoringFunction
from marginrank.typing import FloatArray

_LARGEST: Final = float(np.finfo(np.float64).max)
#: Bits of a decision: where missing values go, and that NaN is one.
_MISSING_LEFT, _NAN_IS_MISSING = 2, 8


@dataclass(frozen=True)
class LightGBM(Target):
    """Write a model file that LightGBM 4 loads; features are compared in float64."""

    name = "lightgbm"
    takes: ClassVar[str] = "trees and additive models with steps"
    suffix: ClassVar[str] = ".txt"

    def refusal(self, function: ScoringFunction) -> Message | None:
        """Return the reason why a function is not taken, or None."""
        return not_tree_shaped(function)

    def write(self, function: ScoringFunction) -> Mapping[str, str | bytes]:
        """Return the file."""
        head = [
            "tree",
            "version=v4",
            "num_class=1",
            "num_tree_per_iteration=1",
            "label_index=0",
            f"max_feature_idx={function.n_features - 1}",
            "objective=lambdarank",
            f"feature_names={' '.join(distinct_names(function.names))}",
            f"feature_infos={' '.join(['[-inf:inf]'] * function.n_features)}",
        ]
        trees = [_tree(number, tree) for number, tree in enumerate(forest_of(function))]
        sizes = f"tree_sizes={' '.join(str(len(tree.encode())) for tree in trees)}"
        text = "\n".join([*head, sizes, "", "".join(trees) + "end of trees", "", "pandas_categorical:null", ""])
        return {"": text}

    def next_steps(self, path: Path) -> str:
        """Return what to do with the file."""
        return f'lightgbm.Booster(model_file="{path.name}").predict(X)'

    def run(self, path: Path, check: Check) -> FloatArray:
        """Predict with LightGBM."""
        try:
            lightgbm = importlib.import_module("lightgbm")
        except ImportError:
            raise CannotRunError("lightgbm is not installed here: pip install lightgbm") from None
        return np.asarray(lightgbm.Booster(model_file=str(path)).predict(check.X), dtype=np.float64)


def _tree(number: int, tree: Node) -> str:
    nodes = depth_first(tree)
    splits = [node for node in nodes if isinstance(node, Split)]
    leaves = [node for node in nodes if isinstance(node, Leaf)]
    place = {id(node): at for at, node in enumerate(splits)} | {id(node): ~at for at, node in enumerate(leaves)}
    columns: dict[str, list[object]] = {}
    if splits:
        columns = {
            "split_feature": [node.feature for node in splits],
            "split_gain": [0] * len(splits),
            "threshold": [float(np.clip(node.threshold, -_LARGEST, _LARGEST)) for node in splits],
            "decision_type": [_NAN_IS_MISSING + _MISSING_LEFT * node.missing_left for node in splits],
            "left_child": [place[id(node.left)] for node in splits],
            "right_child": [place[id(node.right)] for node in splits],
        }
    columns["leaf_value"] = [leaf.value for leaf in leaves]
    if splits:
        columns |= {"leaf_weight": [0] * len(leaves), "leaf_count": [0] * len(leaves)}
        columns |= {f"internal_{name}": [0] * len(splits) for name in ("value", "weight", "count")}
    lines = [f"{name}={' '.join(map(str, values))}" for name, values in columns.items()]
    head = [f"Tree={number}", f"num_leaves={len(leaves)}", "num_cat=0"]
    return "\n".join([*head, *lines, "is_linear=0", "shrinkage=1", "", "", ""])
