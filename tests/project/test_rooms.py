"""The rooms of the package: the table that contributors read is the contract that is checked."""

from __future__ import annotations

import re
import tomllib
from pathlib import Path

ROOT = Path(__file__).parents[2]


def test_the_table_in_contributing_is_the_import_contract():
    table = (ROOT / "CONTRIBUTING.md").read_text(encoding="utf-8").partition("| `src/marginrank/` |")[2]
    rows = re.findall(r"^\| (`[^|]+`) \|", table, re.MULTILINE)
    shown = [re.findall(r"`(\w+)`", row) for row in rows]
    config = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))
    contract = next(one for one in config["tool"]["importlinter"]["contracts"] if one["type"] == "layers")
    assert contract["exhaustive"]
    assert shown == [layer.split(" | ") for layer in contract["layers"]]
