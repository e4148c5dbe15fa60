"""Options that commands share, written once as dataclasses."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import MISSING, Field, fields, is_dataclass
from inspect import Parameter, Signature, signature
from typing import Any, get_type_hints


def flat(command: Callable[..., None]) -> Callable[..., None]:
    """Replace parameters of a command that are dataclasses by the options of their fields.

    >>> from dataclasses import dataclass
    >>> @dataclass
    ... class Output:
    ...     quiet: bool = False
    >>> def show(name: str, output: Output) -> None:
    ...     print(name, output)
    >>> flat(show).__signature__
    <Signature (*, name: str, quiet: bool = False)>
    >>> flat(show)(name="a", quiet=True)
    a Output(quiet=True)
    """
    hints = get_type_hints(command, include_extras=True)
    groups: dict[str, Any] = {name: hint for name, hint in hints.items() if is_dataclass(hint)}
    parameters: list[Parameter] = []
    for own in signature(command).parameters.values():
        group = groups.get(own.name)
        if group is None:
            parameters.append(own.replace(kind=Parameter.KEYWORD_ONLY, annotation=hints[own.name]))
        else:
            parameters.extend(_parameters_of(group))

    def run(**values: Any) -> None:
        gathered = {
            name: group(**{field.name: values.pop(field.name) for field in fields(group)})
            for name, group in groups.items()
        }
        command(**values, **gathered)

    run.__name__, run.__doc__ = command.__name__, command.__doc__
    run.__annotations__ = {parameter.name: parameter.annotation for parameter in parameters}
    run.__signature__ = Signature(parameters)  # type: ignore[attr-defined]
    return run


def _parameters_of(group: Any) -> list[Parameter]:
    hints = get_type_hints(group, include_extras=True)
    return [
        Parameter(field.name, Parameter.KEYWORD_ONLY, default=_default(field), annotation=hints[field.name])
        for field in fields(group)
    ]


def _default(field: Field[Any]) -> Any:
    if field.default_factory is not MISSING:
        return field.default_factory()
    return Parameter.empty if field.default is MISSING else field.default
