"""Pages of the documentation that are made from the registries."""

from __future__ import annotations

import inspect
from dataclasses import MISSING, Field, fields
from typing import Any

from marginrank.evaluation.policies import POLICIES, Policy
from marginrank.measures import Measure, PositionMeasure, all_measures
from marginrank.measures.base import BinaryMeasure


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
