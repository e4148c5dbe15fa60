"""The limits of the service: options, parameters and the table of the documentation are the same."""

from __future__ import annotations

import re
from dataclasses import fields
from pathlib import Path

import pytest
from typer.main import get_command

pytest.importorskip("fastapi", reason="FastAPI is not installed: pip install 'marginrank[serve]'")

from marginrank.cli.app import app
from marginrank.serving import ServiceLimits

PAGE = Path(__file__).parents[2] / "docs" / "serving.md"


def test_the_page_has_every_limit_with_its_default():
    rows = re.findall(r"^\| `--([\w-]+)` \| ([\d,]+) (\w+)", PAGE.read_text(encoding="utf-8"), re.MULTILINE)
    shown = {name.replace("-", "_"): int(n.replace(",", "")) << (20 if unit == "MiB" else 0) for name, n, unit in rows}
    assert shown == {field.name: field.default for field in fields(ServiceLimits)}


def test_every_limit_is_an_option():
    options = {parameter.name: parameter.default for parameter in get_command(app).commands["serve"].params}
    for field in fields(ServiceLimits):
        assert options[field.name] == field.default


@pytest.mark.parametrize("name", [field.name for field in fields(ServiceLimits)])
def test_limits_have_to_be_positive(name):
    with pytest.raises(ValueError, match=f"{name} is 0; give a number above 0"):
        ServiceLimits(**{name: 0})
