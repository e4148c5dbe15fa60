"""Pages of the documentation that are made from the registries."""

from __future__ import annotations

import inspect
import re
from dataclasses import MISSING, Field, fields
from pathlib import Path
from typing import Any, Final

from marginrank.cli.preset_advice import advice
from marginrank.evaluation.policies import POLICIES, Policy
from marginrank.measures import Measure, PositionMeasure, all_measures
from marginrank.measures.base import BinaryMeasure
from marginrank.methods.presets import GROUPS, Preset, all_presets

METHODS: Final = Path(__file__).parent / "methods"
_NAMED: Final = re.compile(r"^Presets: (.*)$", re.MULTILINE)


def measures_page() -> str:
    """List every registered measure with its parameters and its own words."""
    rows = [f"| [`{_form(kind)}`](#{name}) | {_summary(kind)} |" for name, kind in all_measures().items()]
    sections = [_section(kind) for kind in all_measures().values()]
    table = "\n".join(["| spelling | what it is |", "| --- | --- |", *rows])
    return "\n\n".join([table, *sections]) + "\n"


def _form(kind: type[Measure]) -> str:
    names = [f.name for f in fields(kind)]
    return kind.name + ("@k" if "k" in names else "")


def _summary(kind: type[Measure]) -> str:
    return (inspect.getdoc(kind) or "").splitlines()[0]


def _section(kind: type[Measure]) -> str:
    text = inspect.getdoc(kind) or ""
    prose, *examples = text.split("\n\n>>> ")
    code = "".join(f"\n\n```python\n>>> {example}\n```" for example in examples)
    return f"({kind.name})=\n## `{kind.name}`\n\n{prose}{code}\n\n{_parameters(kind)}"


def _parameters(kind: type[Measure]) -> str:
    if not fields(kind):
        return f"No parameters. {_family(kind)}"
    rows = [f"| {'`@k`' if f.name == 'k' else f'`{f.name}`'} | {_default(f)} |" for f in fields(kind)]
    return "\n".join(["| parameter | default |", "| --- | --- |", *rows]) + f"\n\n{_family(kind)}"


def _default(parameter: Field[Any]) -> str:
    if parameter.default is MISSING:
        return "needed"
    return "all ranks" if parameter.default is None else f"`{parameter.default}`"


def _family(kind: type[Measure]) -> str:
    if issubclass(kind, PositionMeasure):
        return "A sum over ranks of discount × gain."
    if issubclass(kind, BinaryMeasure):
        return "A sum over relevant documents of a credit for what stands before them."
    return ""


def policies_table() -> str:
    """List the evaluation policies."""
    head = "| policy | ties | no relevant document | @k of a shorter list is 0 | parameters | as |"
    return "\n".join([head, "| --- | --- | --- | --- | --- | --- |", *map(_policy_row, POLICIES.values())]) + "\n"


def _policy_row(policy: Policy) -> str:
    parameters = ", ".join(f"{name}={value}" for name, value in policy.parameters.items()) or "–"
    short = ", ".join(policy.zero_if_short) or "–"
    cells = [f"`{policy.name}`", policy.ties, policy.empty, short, parameters, policy.summary]
    return f"| {' | '.join(cells)} |"


def presets_page() -> str:
    """List every registered preset, one table for each group, with the page of its method where there is one."""
    pages = method_pages()
    sections = []
    for group, title in GROUPS.items():
        members = [preset for preset in all_presets().values() if preset.group == group]
        sections.append(f"## {group.capitalize()}\n\n{title.capitalize()}.\n\n{_presets_table(members, pages)}")
    return "\n\n".join(sections) + "\n"


def method_pages() -> dict[str, str]:
    """Page of each preset, by the line ``Presets:`` that the pages of the methods begin with."""
    found: dict[str, str] = {}
    for path in sorted(METHODS.glob("*.md")):
        named = _NAMED.search(path.read_text(encoding="utf-8"))
        found |= dict.fromkeys(re.findall(r"`(.+?)`", named[1] if named else ""), f"methods/{path.name}")
    return found


def _presets_table(presets: list[Preset], pages: dict[str, str]) -> str:
    head = "| preset | trains for | judged by | bound | k | from |"
    rows = [_preset_row(preset, pages.get(preset.name)) for preset in presets]
    advised = [f"- `{preset.name}`: {advice(preset.name)}" for preset in presets if advice(preset.name)]
    listed = ["", "Advice, from [Which loss should I train?](results/which-loss.md):", "", *advised] if advised else []
    return "\n".join([head, "| --- | --- | --- | --- | --- | --- |", *rows, *listed])


def _preset_row(preset: Preset, page: str | None) -> str:
    name = f"`{preset.name}{'' if preset.cut is None else '@k'}`"
    criterion = preset.make(preset.cut or 0).criterion
    measure = criterion if preset.cut is None else criterion.replace(f"@{preset.cut}", "@k")
    cells = [
        f"[{name}]({page})" if page else name,
        preset.summary,
        f"`{measure}`",
        str(preset.bound) if preset.kind == "loss" else "–",
        "–" if preset.cut is None else str(preset.cut),
        preset.paper,
    ]
    return f"| {' | '.join(cells)} |"
