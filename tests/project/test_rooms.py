"""The rooms of the package: the table that contributors read is the contract that is checked."""

from __future__ import annotations

import re
import tomllib
from pathlib import Path

ROOT = Path(__file__).parents[2]


def test_the_table_in_contributing_is_the_import_contract():
    text = (ROOT / "CONTRIBUTING.md").read_text(encoding="utf-8")
    table = text.partition("| `src/marginrank/` |")[2].partition("\n\n")[0]
    rows = re.findall(r"^\| (`[^|]+`) \|", table, re.MULTILINE)
    shown = [re.findall(r"`(\w+)`", row) for row in rows]
    config = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))
    contract = next(one for one in config["tool"]["importlinter"]["contracts"] if one["type"] == "layers")
    assert contract["exhaustive"]
    assert shown == [layer.split(" | ") for layer in contract["layers"]]


def test_where_things_are():
    text = (ROOT / "CONTRIBUTING.md").read_text(encoding="utf-8")
    table = text.partition("| Where is …? |")[2].partition("\n\n")[0]
    rows = [line for line in table.splitlines()[2:] if line.startswith("|")]
    assert len(rows) == 16
    for row in rows:
        paths = re.findall(r"`([a-z_/]+(?:\.py|/))`", row.split("|")[2])
        assert paths, row
        for path in paths:
            assert (ROOT / "src" / "marginrank" / path).exists(), path
