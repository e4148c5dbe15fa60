"""Option objects: frozen dataclasses that estimators take as parameters, found by their spelling."""

from __future__ import annotations

import importlib
import pkgutil
import re
from collections.abc import Mapping
from dataclasses import fields, is_dataclass, replace
from types import ModuleType
from typing import Any, ClassVar, Final, Self

import numpy as np

from marginrank.runtime.text import suggest

_SPELLING: Final = re.compile(r"(?P<name>[a-z][a-z0-9_-]*)(?:\((?P<arguments>.*)\))?\Z", re.DOTALL | re.IGNORECASE)
_KIND: Final = "kind"
#: How the names of modules end that register nothing, and take long to load or cannot be loaded everywhere.
_NOT_LOADED: Final = ("_kernel", "_triton", "gpu", "torch")
#: Objectives and their squares stay far from overflow up to here.
_LARGEST_C: Final = 1e100
#: The largest seed that LightGBM takes.
_LARGEST_SEED: Final = 2**31 - 1


class OptionObject:
    """A frozen dataclass whose fields are parameters, as scikit-learn's ``clone`` and names like ``scorer__bins`` want.

    Subclasses that have a ``name`` are found by it, among the subclasses of the same family.
    """

    #: What a family calls its members: ``solver``, ``scorer``; None for those without spellings.
    family: ClassVar[str | None] = None
    #: Whether values in spellings keep their case, as names of tables do.
    keeps_case: ClassVar[bool] = False
    name: ClassVar[str]
    registry: ClassVar[dict[str, type[OptionObject]]] = {}

    def __init_subclass__(cls) -> None:
        super().__init_subclass__()
        if cls.__name__.startswith("_"):
            return
        namesake = OptionObject.registry.get(cls.__name__)
        package = "marginrank."
        # A file names classes by their names alone, and would be read with the wrong one.
        if namesake is not None and namesake.__module__.startswith(package) and namesake.__module__ != cls.__module__:
            raise TypeError(f"{namesake.__module__} has a class {cls.__name__} already; give yours another name")
        OptionObject.registry[cls.__name__] = cls

    def get_params(self, deep: bool = True) -> dict[str, Any]:  # noqa: ARG002
        """Return the parameters by name."""
        return {f.name: getattr(self, f.name) for f in fields(self) if f.init}  # type: ignore[arg-type]

    def with_params(self, **parameters: Any) -> Self:
        """Return a copy with other parameters."""
        known = self.get_params()
        for name in parameters:
            if name not in known:
                raise ValueError(f"{type(self).__name__} has no parameter {name!r}; {suggest(name, known)}")
        return replace(self, **parameters)  # type: ignore[type-var]

    def __sklearn_clone__(self) -> Self:
        """Share it: it never changes."""
        return self

    def __str__(self) -> str:
        """Spell it with the parameters that differ from their defaults."""
        if not hasattr(self, "name"):
            return repr(self)
        chosen = [
            f"{f.name}={_spell(getattr(self, f.name))}"
            for f in fields(self)  # type: ignore[arg-type]
            if f.repr and _differs(getattr(self, f.name), f.default)
        ]
        return f"{self.name}({','.join(chosen)})" if chosen else self.name


def registered(base: type[OptionObject]) -> dict[str, type[OptionObject]]:
    """Return the members of a family by name, in alphabetical order, after loading every module of its folder."""
    load_modules(base.__module__.rpartition(".")[0])
    return _loaded(base)


def load_modules(package: str) -> list[ModuleType]:
    """Import and return the modules of a package and of its folders, without kernels and what needs a GPU."""
    modules = []
    for entry in pkgutil.iter_modules(importlib.import_module(package).__path__):
        if entry.name.endswith(_NOT_LOADED):
            continue
        name = f"{package}.{entry.name}"
        modules += load_modules(name) if entry.ispkg else [importlib.import_module(name)]
    return modules


def _loaded(base: type[OptionObject]) -> dict[str, type[OptionObject]]:
    named = [kind for kind in OptionObject.registry.values() if issubclass(kind, base) and "name" in vars(kind)]
    return {kind.name: kind for kind in sorted(named, key=lambda kind: kind.name)}


def parse_spelling(base: type[OptionObject], spec: Any) -> Any:
    """Read a spelling such as ``bundle`` or ``additive(bins=64,shape=lines)``; a member is returned as it is."""
    if isinstance(spec, base):
        return spec
    if not isinstance(spec, str):
        raise TypeError(f"{base.family} is {spec!r}; give a {base.__name__} or its spelling")
    match = _SPELLING.match(spec.strip() if base.keeps_case else spec.strip().lower())
    known = _loaded(base)
    if match is None or match["name"].lower() not in known:
        known = registered(base)
    if match is None or match["name"].lower() not in known:
        hint = suggest(match["name"] if match else spec, known)
        raise ValueError(f"unknown {base.family} {spec!r}; {hint}")
    kind = known[match["name"].lower()]
    arguments = _arguments(match["arguments"] or "", spec)
    for name in arguments:
        if name not in {f.name for f in fields(kind)}:  # type: ignore[arg-type]
            names = ", ".join(f.name for f in fields(kind) if f.init and f.repr)  # type: ignore[arg-type]
            raise ValueError(f"{spec!r}: {kind.name} has no parameter {name!r}; it has {names}")
    return kind(**arguments)


def _arguments(text: str, spec: str) -> dict[str, Any]:
    arguments: dict[str, Any] = {}
    for part in filter(str.strip, text.split(",")):
        name, equals, value = (piece.strip() for piece in part.partition("="))
        if not equals or not name or not value:
            raise ValueError(f"{spec!r}: {part.strip()!r} is not name=value")
        arguments[name] = literal(value)
    return arguments


def literal(word: str) -> bool | int | float | str | None:
    """Read the value of a parameter.

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
    return str(value).lower() if value is None or isinstance(value, bool) else str(value)


def _differs(value: object, default: object) -> bool:
    return not np.array_equal(np.asarray(value, dtype=object), np.asarray(default, dtype=object))


def check_C(C: Any, name: str = "C") -> float:
    """Return C as a number, unless it is none, or so large or small that objectives overflow.

    >>> check_C(10**400)
    Traceback (most recent call last):
    ValueError: C is an integer of 401 digits; it must be a positive number, at most 1e+100
    """
    if isinstance(C, int) and abs(C) > _LARGEST_C:
        raise ValueError(
            f"{name} is an integer of {len(str(abs(C)))} digits; it must be a positive number, at most {_LARGEST_C:g}"
        )
    if (
        isinstance(C, bool | np.bool_)
        or not isinstance(C, int | float | np.number)
        or isinstance(C, np.complexfloating)
    ):
        raise TypeError(f"{name} is {C!r}; it must be a positive number")
    number = float(C)
    if not (number > 0 and np.isfinite(number)):
        raise ValueError(f"{name} is {C}; it must be a positive number")
    if not 1 / _LARGEST_C <= number <= _LARGEST_C:
        raise ValueError(f"{name} is {C:g}; it must lie between {1 / _LARGEST_C:g} and {_LARGEST_C:g}")
    return number


def check_seed(random_state: Any) -> int | None:
    """Return a seed, or None for one that is drawn, unless it is neither.

    >>> check_seed("a")
    Traceback (most recent call last):
    TypeError: random_state is 'a'; give a whole number, or None
    """
    if random_state is None:
        return None
    if isinstance(random_state, bool | np.bool_) or not isinstance(random_state, int | np.integer):
        raise TypeError(f"random_state is {random_state!r}; give a whole number, or None")
    if not 0 <= random_state <= _LARGEST_SEED:
        raise ValueError(f"random_state is {random_state}; it must lie between 0 and {_LARGEST_SEED}")
    return int(random_state)


def seconds(time_limit: Any) -> float:
    """Return a time limit as a number: inf for None, otherwise positive."""
    if time_limit is None:
        return np.inf
    if isinstance(time_limit, bool) or not isinstance(time_limit, int | float | np.number):
        raise TypeError(f"time_limit is {time_limit!r}; give a number of seconds, or None")
    if not time_limit > 0:
        raise ValueError(f"time_limit is {time_limit}; it must be positive")
    return float(min(time_limit, 1e18))


def to_spec(value: Any) -> Any:  # noqa: PLR0911
    """Describe a parameter in plain JSON values, so that `from_spec` can make it again.

    Raises:
        TypeError: It is something that only code can describe, such as a function.
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
        own = {f.name: to_spec(getattr(value, f.name)) for f in fields(value) if f.init and f.repr}  # type: ignore[arg-type]
        return {_KIND: type(value).__name__, **own}
    if is_dataclass(value) and hasattr(value, "name"):
        return repr(value)
    raise TypeError(f"a {type(value).__name__} cannot be written to a file")


def _load_families() -> None:
    """Load every module of the folders that hold components, so that all their classes are registered."""
    for base in list(OptionObject.registry.values()):
        if "family" in vars(base) and base.__module__.startswith("marginrank."):
            registered(base)


def from_spec(spec: Any) -> Any:
    """Make what `to_spec` described, of registered classes alone.

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
