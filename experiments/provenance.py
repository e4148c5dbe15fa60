"""Provenance of a record, and whether the repository still holds the same sources."""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any, Final

from experiments.base import Experiment, Size
from experiments.running import plan_digest
from experiments.sources import code_digests, data_digests, differing, report_digest

#: Changed modules that `stale` names; the others are counted.
_NAMED: Final = 4


def provenance(experiment: Experiment, data: Path, size: Size = "full") -> dict[str, Any]:
    """Return digests of the tasks of an experiment, of their code and of their data."""
    return {
        "plan": plan_digest(experiment, size),
        "code": code_digests({task.call for task in experiment.plan(size)}),
        "data": data_digests(data, experiment.data),
    }


def stale(experiment: Experiment, record: Path, data: Path) -> list[str]:
    """Return the reasons why a record is out of date; none if it is not. Data that is missing is not compared."""
    if not record.exists():
        return ["never run"]
    written = json.loads(record.read_text(encoding="utf-8"))
    if "code" not in written:
        return ["its record has no digests"]
    reasons = []
    if written["size"] != "full":
        reasons.append("a miniature")
    if written["plan"] != plan_digest(experiment, written["size"]):
        reasons.append("the tasks or their options changed")
    code = code_digests({task.call for task in experiment.plan(written["size"])})
    # What is no longer reached matters no more; the change that cut it off shows by itself.
    if changed := differing({name: one for name, one in written["code"].items() if name in code}, code):
        reasons.append(f"the code changed: {_listed(changed)}")
    if changed := _changed_data(experiment, written["data"], data):
        reasons.append(f"the data changed: {_listed(changed)}")
    if not reasons and written["report"] != report_digest(experiment.report):
        reasons.append(f"only its report changed: python -m experiments report {experiment.name}")
    return reasons


def _changed_data(experiment: Experiment, written: Mapping[str, str], data: Path) -> list[str]:
    available = [folder for folder in experiment.data if (data / folder).is_dir()]
    compared = {folder: written[folder] for folder in written if folder in available or folder not in experiment.data}
    return differing(compared, data_digests(data, available))


def _listed(names: list[str]) -> str:
    others = f" and {len(names) - _NAMED} more" if len(names) > _NAMED else ""
    return ", ".join(names[:_NAMED]) + others
