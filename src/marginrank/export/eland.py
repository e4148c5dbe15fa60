"""Elasticsearch's native learning to rank, uploaded with eland."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import ClassVar

from marginrank.errors import Message
from marginrank.export.base import Target, distinct_names, not_tree_shaped, placeholder
from marginrank.export.export_files import Check
from marginrank.export.xgboost_json import XGBoost, booster
from marginrank.scorers.scoring_function import ScoringFunction
from marginrank.typing import FloatArray

_UPLOAD = '''\
"""Upload the model to Elasticsearch 8.12 or newer; pip install 'eland[scikit-learn]' xgboost."""

import sys
from pathlib import Path

import xgboost
from eland.ml import MLModel
from eland.ml.ltr import LTRModelConfig, QueryFeatureExtractor
from elasticsearch import Elasticsearch

# Write the query of each feature in place of TODO, such as {"match": {"title": "{{query}}"}}.
FEATURES = {features}
if any("TODO" in query for query in FEATURES.values()):
    sys.exit("write the query of each feature in place of TODO into FEATURES")

ranker = xgboost.XGBRanker()
ranker.load_model(Path(__file__).with_name(Path(__file__).name.partition(".")[0] + ".json"))
extractors = [QueryFeatureExtractor(feature_name=name, query=query) for name, query in FEATURES.items()]
MLModel.import_ltr_model(
    es_client=Elasticsearch(sys.argv[1]),
    model=ranker,
    model_id="marginrank",
    ltr_model_config=LTRModelConfig(extractors),
    es_if_exists="replace",
)
'''


@dataclass(frozen=True)
class Eland(Target):
    """Write an XGBoost model and the script that uploads it to Elasticsearch with eland."""

    name = "eland"
    takes: ClassVar[str] = "trees and additive models with steps"
    suffix: ClassVar[str] = ".json"

    def refusal(self, function: ScoringFunction) -> Message | None:
        """Return the reason why a function is not taken, or None."""
        return not_tree_shaped(function)

    def write(self, function: ScoringFunction) -> Mapping[str, str | bytes]:
        """Return the model and the script."""
        names = distinct_names(function.names)
        document = booster(function, "rank:ndcg")
        document["learner"]["feature_names"] = names
        queries = dict(zip(names, map(placeholder, function.names), strict=True))
        script = _UPLOAD.replace("{features}", json.dumps(queries, indent=4))
        return {"": json.dumps(document, ensure_ascii=False), ".upload.py": script}

    def next_steps(self, path: Path) -> str:
        """Return what to do with the files."""
        stem = path.name.partition(".")[0]
        return f"write the queries in place of TODO into {stem}.upload.py, and run it with the address of Elasticsearch"

    def run(self, path: Path, check: Check) -> FloatArray:
        """Predict with XGBoost, as eland reads the file."""
        return XGBoost().run(path, check)
