"""Option objects: frozen dataclasses that estimators take as parameters, and their spellings."""

from __future__ import annotations

import importlib
import pkgutil
import re
import reprlib
import sys
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import MISSING, dataclass, fields, replace
from functools import cache
from importlib.metadata import entry_points
from types import ModuleType, NoneType, UnionType
from typing import Any, ClassVar, Final, Literal, Self, Union, cast, get_args, get_origin, get_type_hints

import numpy as np

from marginrank.errors import Parameter, ParameterError
from marginrank.runtime.text import nearest, suggest

_SPELLING: Final = re.compile(
    r"(?P<name>[a-z][a-z0-9_-]*)(?:@(?P<cutoff>[0-9]+))?(?:\((?P<arguments>.*)\))?\Z", re.DOTALL | re.IGNORECASE
)
_COMMA: Final = re.compile(r",(?![^(]*\))")
_KIND: Final = "kind"
#: Suffix of modules that register nothing and take long to load.
_NOT_LOADED: Final = "_kernel"
#: Types of parameters, in words.
_TYPE_NAMES: Final[Mapping[Any, str]] = {
    int: "a whole number",
    float: "a number",
    str: "a string",
    NoneType: "None",
    tuple: "a tuple, spelled 0|1|3",
    Sequence: "a sequence",
    Mapping: "a mapping",
    Callable: "a function",
    np.ndarray: "an array",
}
#: Objectives and their squares stay far from overflow up to here.
_LARGEST_C: Final = 1e100
#: The largest seed that LightGBM takes.
_LARGEST_SEED: Final = 2**31 - 1


@dataclass(frozen=True, repr=False, eq=False)
class OptionObject:
    """A frozen dataclass whose fields are parameters, as scikit-learn's ``clone`` and names like ``scorer__bins`` want.

    Subclasses that have a ``name`` are spelled ``name(parameter=value,...)``, and found by it among the subclasses of
    the same family. Values are checked against the annotations of the fields; a subclass with a ``__post_init__`` calls
    that of its base class first.
    """

    #: Name of the family, such as ``solver`` or ``scorer``; None for those without spellings.
    family: ClassVar[str | None] = None
    #: Spellings to show in error messages.
    example: ClassVar[str | None] = None
    #: Whether values in spellings are case-sensitive, such as names of database tables.
    case_sensitive: ClassVar[bool] = False
    #: The field that is spelled ``name@value``.
    cutoff: ClassVar[str | None] = None
    #: Frequent wrong names, and the members they most likely mean.
    mistaken_names: ClassVar[Mapping[str, str]] = {}
    name: ClassVar[str]
    registry: ClassVar[dict[str, type[OptionObject]]] = {}

    def __init_subclass__(cls) -> None:
        super().__init_subclass__()
        if cls.__name__.startswith("_"):
            return
        namesake = OptionObject.registry.get(cls.__name__)
        package = "marginrank."
        # Model files refer to classes by name, and would be read with the wrong class.
        if namesake is not None and namesake.__module__.startswith(package) and namesake.__module__ != cls.__module__:
            raise TypeError(f"{namesake.__module__} has a class {cls.__name__} already; give yours another name")
        if cls.family is not None and "name" in vars(cls):
            _check_new_name(cls)
        OptionObject.registry[cls.__name__] = cls

    def __post_init__(self) -> None:
        check_types(self, getattr(self, "name", type(self).__name__))

    def get_params(self, deep: bool = True) -> dict[str, Any]:  # noqa: ARG002
        """Return the parameters by name."""
        return {f.name: getattr(self, f.name) for f in fields(self) if f.init}

    def with_params(self, **parameters: Any) -> Self:
        """Return a copy with other parameters."""
        known = self.get_params()
        for name in parameters:
            if name not in known:
                raise ValueError(f"{type(self).__name__} has no parameter {name!r}; {suggest(name, known)}")
        return replace(self, **parameters)

    def __sklearn_clone__(self) -> Self:
        """Return the same object, which is immutable."""
        return self

    def __str__(self) -> str:
        """Return the spelling, with the parameters that differ from their defaults."""
        if not hasattr(self, "name"):
            return repr(self)
        chosen = {
            f.name: _spell(getattr(self, f.name))
            for f in fields(self)
            if f.repr and _differs(getattr(self, f.name), f.default)
        }
        cutoff = chosen.pop(self.cutoff, None) if self.cutoff is not None else None
        arguments = ",".join(f"{name}={value}" for name, value in chosen.items())
        return self.name + (f"@{cutoff}" if cutoff is not None else "") + (f"({arguments})" if arguments else "")


def _check_new_name(kind: type[OptionObject]) -> None:
    """Refuse a name that another class of the family has."""
    for known in OptionObject.registry.values():
        if (known.family, vars(known).get("name")) != (kind.family, kind.name):
            continue
        if (known.__module__, known.__qualname__) != (kind.__module__, kind.__qualname__):
            raise TypeError(
                f"{kind.family} {kind.name!r} of {kind.__module__} is already defined by {known.__module__}"
            )


def registered(base: type[OptionObject]) -> dict[str, type[OptionObject]]:
    """Return the members of a family by name, in alphabetical order.

    Loads all modules of its folder, and the entry points of other packages in the group of its name, such as
    ``marginrank.measures``.
    """
    package = base.__module__.rpartition(".")[0]
    load_modules(package)
    _load_entry_points(package)
    named = [kind for kind in OptionObject.registry.values() if issubclass(kind, base) and "name" in vars(kind)]
    return {kind.name: kind for kind in sorted(named, key=lambda kind: kind.name)}


def load_modules(package: str) -> list[ModuleType]:
    """Import and return the modules of a package and of its folders, without kernels."""
    modules = []
    for entry in pkgutil.iter_modules(importlib.import_module(package).__path__):
        if entry.name.endswith(_NOT_LOADED):
            continue
        name = f"{package}.{entry.name}"
        modules += load_modules(name) if entry.ispkg else [importlib.import_module(name)]
    return modules


@cache
def _load_entry_points(group: str) -> None:
    for entry in entry_points(group=group):
        entry.load()


def parse_spelling(
    base: type[OptionObject], spec: Any, *, words: Collection[str] = (), defaults: Mapping[str, Any] | None = None
) -> Any:
    """Parse a spelling such as ``bundle``, ``additive(bins=64,shape=lines)`` or ``ndcg@10``.

    Args:
        base: The family.
        spec: The spelling; a member of the family is returned as it is.
        words: Words that are accepted instead of a member, and returned as they are.
        defaults: Parameters to use if the member has them and the spelling does not name them.
    """
    if isinstance(spec, base):
        return spec
    if not isinstance(spec, str):
        example = f", such as {base.example}" if base.example else ""
        raise TypeError(f"{base.family} is {spec!r}; give a {base.__name__} or its spelling{example}")
    text = spec.strip() if base.case_sensitive else spec.strip().lower()
    if text in words:
        return text
    match = _SPELLING.match(text)
    if match is None:
        names = ", ".join([*words, *registered(base)])
        raise ValueError(f"cannot read {base.family} {spec!r}; give one, spelled like {base.example}; known: {names}")
    kind = _find(base, match["name"].lower(), spec, words)
    arguments = _arguments(kind, match["arguments"] or "", match["cutoff"], spec)
    known = {f.name for f in fields(kind)}
    return kind(**{name: value for name, value in (defaults or {}).items() if name in known} | arguments)


def _find(base: type[OptionObject], name: str, spec: str, words: Collection[str]) -> type[OptionObject]:
    """Return the class of a family with a name; the modules of its folder are loaded only if necessary."""
    for kind in OptionObject.registry.values():
        if vars(kind).get("name") == name and issubclass(kind, base):
            return kind
    known = registered(base)
    if name in known:
        return known[name]
    near = base.mistaken_names.get(name) or nearest(name, [*words, *known])
    # With the text after the name, so that the suggestion is a complete spelling.
    hint = f"did you mean {near + spec.strip()[len(name) :]!r}? " if near else ""
    raise ValueError(f"unknown {base.family} {spec!r}; {hint}known: {', '.join([*words, *known])}")


def _arguments(kind: type[OptionObject], text: str, cutoff: str | None, spec: str) -> dict[str, Any]:
    """Parse the arguments of a spelling, each as the type of its field."""
    spelled = [] if cutoff is None else [(kind.cutoff or f"@{cutoff}", cutoff)]
    for argument in filter(str.strip, split_commas(text)):
        name, equals, value = map(str.strip, argument.partition("="))
        if not equals or not name or not value:
            raise ValueError(f"{spec!r}: {argument.strip()!r} is not name=value")
        spelled.append((name, value))
    known = {f.name: f for f in fields(kind) if f.init and f.repr}
    types = _types(cast("Any", kind))
    exact = {name.lower(): name for name in known}
    arguments: dict[str, Any] = {}
    for word, value in spelled:
        name = exact.get(word.lower(), word)
        if name not in known:
            names = ", ".join("@" + field if field == kind.cutoff else field for field in known) or "none"
            raise ValueError(f"{spec!r}: {kind.name} has no parameter {name!r}; it has {names}")
        if name in arguments:
            raise ValueError(f"{spec!r}: {name} is given twice")
        arguments[name] = _read(value, types.get(name))
    for name, field in known.items():
        if field.default is MISSING and field.default_factory is MISSING and name not in arguments:
            example = f"a cutoff, for example {kind.name}@10" if name == kind.cutoff else f"{name}=..."
            raise ValueError(f"{spec!r}: {kind.name} needs {example}")
    return arguments


def split_commas(text: str) -> list[str]:
    """Split a text at its commas, except for those in parentheses.

    >>> split_commas("dorm,dorm(shape=power,d=0.5)")
    ['dorm', 'dorm(shape=power,d=0.5)']
    """
    return _COMMA.split(text)


def _read(word: str, types: tuple[Any, ...] | None) -> Any:
    """Parse a value, ``0|1|3`` as a tuple; for a parameter of type ``str`` it remains text, whatever it looks like."""
    value = tuple(map(literal, word.split("|"))) if "|" in word else literal(word)
    return word if types and not _is_any(value, types) and _is_any(word, types) else value


def literal(word: str) -> bool | int | float | str | None:
    """Parse the value of a parameter.

    >>> [literal(word) for word in ("true", "2", "0.5", "none", "linear")]
    [True, 2, 0.5, None, 'linear']
    """
    if word.lower() in ("none", "true", "false"):
        return {"none": None, "true": True, "false": False}[word.lower()]
    for kind in (int, float):
        try:
            return kind(word)
        except ValueError:
            continue
    return word


def _spell(value: object) -> str:
    """Return the spelling of a parameter.

    >>> _spell(0.8), _spell(5.0), _spell(True), _spell("v1.0"), _spell((0, 1.0, 2.5))
    ('0.8', '5', 'true', 'v1.0', '0|1|2.5')
    """
    if value is None or isinstance(value, bool):
        return str(value).lower()
    if isinstance(value, tuple):
        return "|".join(map(_spell, value))
    return str(value).removesuffix(".0") if isinstance(value, float) else str(value)


def _differs(value: object, default: object) -> bool:
    return value is not default and not np.array_equal(
        np.asarray(value, dtype=object), np.asarray(default, dtype=object)
    )


def check_types(options: Any, label: str) -> None:
    """Refuse values of a dataclass that its annotations do not allow; NumPy numbers are treated as Python's.

    >>> @dataclass
    ... class Options:
    ...     bins: int = 255
    ...     shape: Literal["lines", "steps"] = "lines"
    >>> check_types(Options(bins=2.5), "additive")
    Traceback (most recent call last):
    ValueError: additive: bins is 2.5; give a whole number
    >>> check_types(Options(shape="line"), "additive")
    Traceback (most recent call last):
    ValueError: additive: shape is 'line'; choose 'lines' or 'steps'
    """
    for name, types in _types(cast("Any", type(options))).items():
        value = getattr(options, name)
        if not _is_any(value, types):
            raise ValueError(f"{label}: {name} is {reprlib.repr(value)}; {_expected(types)}")


@cache
def _types(kind: type) -> dict[str, tuple[Any, ...]]:
    """Return the types of each field; none at all if a name in an annotation is imported for type checking only."""
    try:
        hints = get_type_hints(kind)
    except NameError:
        return {}
    unions = (Union, UnionType)
    return {
        f.name: get_args(hints[f.name]) if get_origin(hints[f.name]) in unions else (hints[f.name],)
        for f in fields(kind)
    }


def _is_any(value: Any, types: tuple[Any, ...]) -> bool:
    plain = value.item() if isinstance(value, np.generic) else value
    return any(_is_a(plain, kind) for kind in types)


def _is_a(value: Any, kind: Any) -> bool:
    if kind is float:
        in_range = isinstance(value, float) or (type(value) is int and abs(value) <= sys.float_info.max)
        return bool(in_range and value == value)  # noqa: PLR0124
    if kind is int:
        return isinstance(value, int) and not isinstance(value, bool)
    if get_origin(kind) is Literal:
        return any(type(value) is type(choice) and value == choice for choice in get_args(kind))
    container = get_origin(kind) or kind
    if container is tuple and isinstance(value, tuple):
        return all(_is_any(entry, types) for entry in value) if (types := get_args(kind)[:1]) else True
    if container is Sequence and isinstance(value, str):
        return False
    return isinstance(value, container) if isinstance(container, type) else True


def _expected(types: tuple[Any, ...]) -> str:
    """Return what a parameter takes, in words."""
    names = [name for kind in types for name in _type_names(kind)]
    verb = "choose" if any(get_origin(kind) is Literal for kind in types) else "give"
    return f"{verb} {' or '.join(filter(None, [', '.join(names[:-1]), names[-1]]))}"


def _type_names(kind: Any) -> list[str]:
    container = get_origin(kind) or kind
    if container is Literal or kind is bool:
        return [repr(choice) for choice in get_args(kind) or (True, False)]
    return [_TYPE_NAMES.get(container) or f"a {container.__name__}"]


def check_C(C: Any, name: str = "C") -> float:
    """Return C as a float; refuse values that are not positive numbers, or for which objectives overflow.

    >>> check_C(10**400)
    Traceback (most recent call last):
    ...
    marginrank.errors.ParameterError: C is an integer of 401 digits; it must be a positive number, at most 1e+100
    """
    if isinstance(C, int) and abs(C) > _LARGEST_C:
        raise ParameterError(
            Parameter(name),
            f" is an integer of {len(str(abs(C)))} digits; it must be a positive number, at most {_LARGEST_C:g}",
        )
    if (
        isinstance(C, bool | np.bool_)
        or not isinstance(C, int | float | np.number)
        or isinstance(C, np.complexfloating)
    ):
        raise TypeError(f"{name} is {C!r}; it must be a positive number")
    number = float(C)
    if not (number > 0 and np.isfinite(number)):
        raise ParameterError(Parameter(name), f" is {C}; it must be a positive number")
    if not 1 / _LARGEST_C <= number <= _LARGEST_C:
        raise ParameterError(Parameter(name), f" is {C:g}; it must lie between {1 / _LARGEST_C:g} and {_LARGEST_C:g}")
    return number


def check_seed(random_state: Any) -> int | None:
    """Return a seed, or None for a random one; refuse anything else.

    >>> check_seed("a")
    Traceback (most recent call last):
    TypeError: random_state is 'a'; give a whole number, or None
    """
    if random_state is None:
        return None
    if isinstance(random_state, bool | np.bool_) or not isinstance(random_state, int | np.integer):
        raise TypeError(f"random_state is {random_state!r}; give a whole number, or None")
    if not 0 <= random_state <= _LARGEST_SEED:
        raise ParameterError(
            Parameter("random_state"), f" is {random_state}; it must lie between 0 and {_LARGEST_SEED}"
        )
    return int(random_state)


def seconds(time_limit: Any) -> float:
    """Return a time limit as a number: inf for None, otherwise positive."""
    if time_limit is None:
        return np.inf
    if isinstance(time_limit, bool) or not isinstance(time_limit, int | float | np.number):
        raise TypeError(f"time_limit is {time_limit!r}; give a number of seconds, or None")
    if not time_limit > 0:
        raise ParameterError(Parameter("time_limit"), f" is {time_limit}; it must be positive")
    return float(min(time_limit, 1e18))


def to_spec(value: Any) -> Any:
    """Return a parameter as JSON values, from which `from_spec` makes it again.

    Raises:
        TypeError: It cannot be described without code, such as a function.
    """
    if value is None or isinstance(value, bool | int | str):
        return value
    if isinstance(value, float):
        return value if np.isfinite(value) else {_KIND: "number", "value": str(value)}
    if isinstance(value, np.ndarray | np.generic):
        return to_spec(value.tolist())
    if isinstance(value, Mapping):
        return {_KIND: "mapping", "items": [[to_spec(key), to_spec(entry)] for key, entry in value.items()]}
    if isinstance(value, list | tuple):
        return [to_spec(entry) for entry in value]
    if isinstance(value, OptionObject):
        if OptionObject.registry.get(type(value).__name__) is not type(value):
            raise TypeError(f"{type(value).__qualname__} is not a class of its own name")
        parameters = {f.name: to_spec(getattr(value, f.name)) for f in fields(value) if f.init and f.repr}
        return {_KIND: type(value).__name__, **parameters}
    raise TypeError(f"a {type(value).__name__} cannot be written to a file")


def _load_families() -> None:
    """Load the modules of all families, so that all their classes are registered."""
    for base in list(OptionObject.registry.values()):
        if "family" in vars(base) and base.__module__.startswith("marginrank."):
            registered(base)


def from_spec(spec: Any) -> Any:
    """Make the parameter that `to_spec` described; its class has to be registered.

    >>> from_spec([1, {"kind": "mapping", "items": [["bm25", "increasing"]]}])
    (1, {'bm25': 'increasing'})
    """
    if isinstance(spec, list):
        return tuple(from_spec(entry) for entry in spec)
    if not isinstance(spec, dict):
        return spec
    kind = spec[_KIND]
    if kind == "number":
        return float(spec["value"])
    if kind == "mapping":
        return {from_spec(key): from_spec(entry) for key, entry in spec["items"]}
    if kind not in OptionObject.registry:
        _load_families()
    if kind not in OptionObject.registry:
        raise LookupError(f"{kind} is not a class of this package; import the module that defines it before loading")
    return OptionObject.registry[kind](**{name: from_spec(entry) for name, entry in spec.items() if name != _KIND})
