"""Digests of the code and of the data that the results of an experiment depend on.

Code is found without running it. Of modules of ``experiments``, only those definitions count that a task reaches: a
change to a report does not make its numbers stale. Of ``marginrank``, whole modules count: those that the definitions
import, at the top or inside a function, and those that these import in turn. A name that a package exports lazily
leads to the module named in its ``__init__.pyi``, and a module that parses spellings leads to all modules of its
folder, among which the spelling chooses. Comments and docstrings do not count.
"""

from __future__ import annotations

import ast
import hashlib
import inspect
import io
import sys
import tokenize
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from types import ModuleType
from typing import Any, Final, NamedTuple

import marginrank

_PACKAGE: Final = "marginrank"
_EXPERIMENTS: Final = "experiments"
_FOLDERS: Final = {_PACKAGE: Path(str(marginrank.__file__)).parent, _EXPERIMENTS: Path(__file__).parent}
#: Functions that load all modules of a folder, the folder of the module that calls them.
_LOADERS: Final = frozenset({"load_modules", "parse_spelling", "registered"})
#: What no number depends on: trained models are written there, and a release changes the version.
_UNRELATED: Final = ("marginrank.export", "marginrank.version")
#: A folder whose modules are not chosen by a spelling here: experiments call the reader of a format itself.
_CALLED_BY_NAME: Final = ("marginrank.data.formats",)
_DEFINITIONS: Final = (ast.FunctionDef, ast.AsyncFunctionDef, ast.ClassDef)


class _Import(NamedTuple):
    """A name of a module, or with no name the module itself."""

    module: str
    name: str | None


def code_digests(calls: Iterable[Callable[..., Any]]) -> dict[str, str]:
    """Return a digest for each module that functions reach, by the module's name."""
    roots = frozenset((call.__module__, call.__qualname__.partition(".")[0]) for call in calls)
    return dict(_code_digests(roots))


def report_digest(report: Callable[..., Any]) -> str:
    """Return a digest of the code of ``experiments`` that writes a report."""
    digests = code_digests([report])
    return digest([entry for entry in sorted(digests.items()) if not _belongs(entry[0], _PACKAGE)])


def data_digests(data: Path, folders: Iterable[str]) -> dict[str, str]:
    """Return a digest of the names and contents of the files of each folder of data."""
    return {folder: _folder_digest(data / folder) for folder in folders}


def digest(parts: object) -> str:
    """Return a short digest of the printed form of an object.

    >>> len(digest(["a", 1])), digest("a") == digest("b")
    (12, False)
    """
    return hashlib.sha256(repr(parts).encode()).hexdigest()[:12]


def differing(before: Mapping[str, str], after: Mapping[str, str]) -> list[str]:
    """Return the names whose digests differ, or that only one of two has.

    >>> differing({"a": "1", "b": "2"}, {"a": "1", "b": "3", "c": "4"})
    ['b', 'c']
    """
    return sorted(name for name in before.keys() | after.keys() if before.get(name) != after.get(name))


def code(source: str) -> str:
    r"""Return source code without comments, docstrings, blank lines and trailing spaces.

    >>> print(code('\"\"\"A module.\"\"\"\n\nx = 1  # one\n\ndef f():\n    \"\"\"Return.\"\"\"\n    return "# x"\n'))
    x = 1
    def f():
        return "# x"
    """
    return "\n".join(line for line in _code_lines(source) if line)


@cache
def _code_lines(source: str) -> list[str]:
    """Return the lines of source code, without comments and docstrings; those that held nothing else are empty."""
    lines = source.splitlines()
    for token in tokenize.generate_tokens(io.StringIO(source).readline):
        if token.type == tokenize.COMMENT:
            row, column = token.start
            lines[row - 1] = lines[row - 1][:column]
    for node in ast.walk(_tree(source)):
        if isinstance(node, (*_DEFINITIONS, ast.Module)) and ast.get_docstring(node, clean=False) is not None:
            text = node.body[0]
            lines[text.lineno - 1 : text.end_lineno] = [""] * (int(text.end_lineno or 0) - text.lineno + 1)
    return [line.rstrip() for line in lines]


@cache
def _tree(source: str) -> ast.Module:
    return ast.parse(source)


def _folder_digest(folder: Path) -> str:
    files = sorted(path for path in folder.rglob("*") if path.is_file() and path.suffix != ".md")
    return digest([(str(path.relative_to(folder)), hashlib.sha256(path.read_bytes()).hexdigest()) for path in files])


@cache
def _code_digests(roots: frozenset[tuple[str, str]]) -> Mapping[str, str]:
    texts, modules = _reached_definitions(roots)
    digests = {module: digest(parts) for module, parts in texts.items()}
    return digests | {name: _module_digest(name) for name in _reached_modules(frozenset(modules))}


@cache
def _module_digest(name: str) -> str:
    return digest(code(_source(name)))


def _reached_definitions(roots: Iterable[tuple[str, str]]) -> tuple[dict[str, list[str]], set[str]]:
    """Return the code of all definitions that are reached, by module, and the modules of the package they import."""
    waiting: list[tuple[str, str | None]] = sorted(roots)
    seen: set[tuple[str, str | None]] = set()
    texts: dict[str, list[str]] = {}
    modules: set[str] = set()
    while waiting:
        name, definition = waiting.pop()
        if (name, definition) in seen:
            continue
        seen.add((name, definition))
        module = _definitions(name)
        nodes = module.named(definition)
        texts.setdefault(name, []).extend(module.text(node) for node in nodes)
        for reached in (target for node in nodes for target in module.targets(node)):
            if _belongs(reached.module, _PACKAGE):
                modules.add(_resolved(reached))
            elif _is_module(f"{reached.module}.{reached.name}"):
                waiting.append((f"{reached.module}.{reached.name}", None))
            else:
                waiting.append((reached.module, reached.name))
    return {name: sorted(parts) for name, parts in texts.items()}, modules


@dataclass(frozen=True)
class _Definitions:
    """The definitions of a module, and what it imports."""

    name: str
    lines: list[str]
    by_name: Mapping[str, ast.stmt]
    imports: Mapping[str, _Import]
    statements: list[ast.stmt]

    def named(self, name: str | None) -> list[ast.stmt]:
        """Return a definition, with the statements that always run; all definitions if there is no name."""
        if name is None:
            return [*self.by_name.values(), *self.statements]
        return [*([self.by_name[name]] if name in self.by_name else []), *self.statements]

    def text(self, node: ast.stmt) -> str:
        """Return the code of a definition."""
        first = min([node.lineno, *(one.lineno for one in getattr(node, "decorator_list", ()))])
        return "\n".join(line for line in self.lines[first - 1 : node.end_lineno] if line)

    def targets(self, node: ast.stmt) -> Iterator[_Import]:
        """Return the definitions and modules that the code of a definition names."""
        inner = {name: target for one in ast.walk(node) for name, target in _imports(one, self.name)}
        known = {**self.imports, **inner}
        yield from inner.values()
        for one in _without_annotations(node):
            if isinstance(one, ast.Attribute) and isinstance(one.value, ast.Name) and one.value.id in known:
                target = known[one.value.id]
                module = target.module if target.name is None else f"{target.module}.{target.name}"
                yield _Import(module, one.attr) if _is_module(module) else target
            elif isinstance(one, ast.Name) and one.id in known:
                target = known[one.id]
                if not _is_module(f"{target.module}.{target.name}"):
                    yield target
            elif isinstance(one, ast.Name) and one.id in self.by_name:
                yield _Import(self.name, one.id)


@cache
def _definitions(name: str) -> _Definitions:
    source = _source(name)
    by_name: dict[str, ast.stmt] = {}
    imports: dict[str, _Import] = {}
    statements: list[ast.stmt] = []
    for node in _tree(source).body:
        names = _defined(node)
        by_name.update(dict.fromkeys(names, node))
        imports.update(_imports(node, name))
        if not names and not isinstance(node, ast.Import | ast.ImportFrom) and not _is_docstring(node):
            statements.append(node)
    return _Definitions(name, _code_lines(source), by_name, imports, statements)


def _defined(node: ast.stmt) -> list[str]:
    """Return the names that a statement of a module defines."""
    if isinstance(node, _DEFINITIONS):
        return [node.name]
    targets = node.targets if isinstance(node, ast.Assign) else [node.target] if isinstance(node, ast.AnnAssign) else []
    return [one.id for target in targets for one in ast.walk(target) if isinstance(one, ast.Name)]


def _is_docstring(node: ast.stmt) -> bool:
    return isinstance(node, ast.Expr) and isinstance(node.value, ast.Constant)


def _imports(node: ast.AST, module: str) -> Iterator[tuple[str, _Import]]:
    """Return the names that an import binds, if it is of a module that counts."""
    if isinstance(node, ast.ImportFrom):
        source = _absolute(node, module)
        if _belongs(source, _PACKAGE) or _belongs(source, _EXPERIMENTS):
            yield from ((alias.asname or alias.name, _Import(source, alias.name)) for alias in node.names)
    elif isinstance(node, ast.Import):
        for alias in node.names:
            if _belongs(alias.name, _PACKAGE) or _belongs(alias.name, _EXPERIMENTS):
                yield alias.asname or alias.name.partition(".")[0], _Import(alias.name, None)


def _absolute(node: ast.ImportFrom, module: str) -> str:
    if not node.level:
        return node.module or ""
    parts = module.split(".")
    base = parts if _path(module).name == "__init__.py" else parts[:-1]
    return ".".join([*base[: len(base) - node.level + 1], *([node.module] if node.module else [])])


def _without_annotations(node: ast.AST) -> Iterator[ast.AST]:
    """Walk through code, leaving out annotations, which are never evaluated."""
    yield node
    for field, value in ast.iter_fields(node):
        if field in ("annotation", "returns"):
            continue
        for child in value if isinstance(value, list) else [value]:
            if isinstance(child, ast.AST):
                yield from _without_annotations(child)


@cache
def _reached_modules(roots: frozenset[str]) -> frozenset[str]:
    """Return modules of the package, all that they import, and the packages that hold them."""
    waiting, seen = list(roots), set()
    while waiting:
        name = waiting.pop()
        if name not in seen and not any(_belongs(name, unrelated) for unrelated in _UNRELATED):
            seen.add(name)
            waiting += _leads_to(name)
            waiting += [name.rpartition(".")[0]] if "." in name else []
    return frozenset(seen)


@cache
def _leads_to(name: str) -> list[str]:
    """Return the modules of the package that a module imports, at its top, in a function, or by a spelling."""
    tree = _tree(_source(name))
    reached = []
    loads = False
    for node in _runtime_nodes(tree):
        reached += [_resolved(target) for _, target in _imports(node, name) if _belongs(target.module, _PACKAGE)]
        loads |= isinstance(node, ast.Call) and isinstance(node.func, ast.Name) and node.func.id in _LOADERS
    if loads and not any(_defined(node) == ["load_modules"] for node in tree.body):
        strings = [one.value for one in ast.walk(tree) if isinstance(one, ast.Constant) and isinstance(one.value, str)]
        folders = [_folder(name), *(text for text in strings if _belongs(text, _PACKAGE) and _is_module(text))]
        folders = [folder for folder in folders if folder not in _CALLED_BY_NAME]
        reached += [module for folder in folders for module in _modules_below(folder)]
    return reached


def _runtime_nodes(node: ast.AST) -> Iterator[ast.AST]:
    """Walk through code, leaving out what only type checkers read."""
    for child in ast.iter_child_nodes(node):
        yield child
        if isinstance(child, ast.If) and isinstance(child.test, ast.Name) and child.test.id == "TYPE_CHECKING":
            for other in child.orelse:
                yield other
                yield from _runtime_nodes(other)
        else:
            yield from _runtime_nodes(child)


def _resolved(target: _Import) -> str:
    """Return the module that defines a name: that of a stub, where a package exports its names lazily.

    >>> _resolved(_Import("marginrank", "Ranker")), _resolved(_Import("marginrank.losses", "base"))
    ('marginrank.ranker.ranker', 'marginrank.losses.base')
    """
    module, name = target
    if name is None:
        return module
    if _is_module(f"{module}.{name}"):
        return f"{module}.{name}"
    stub = _path(module).with_suffix(".pyi")
    if _path(module).name == "__init__.py" and stub.exists():
        for node in _tree(stub.read_text(encoding="utf-8")).body:
            if isinstance(node, ast.ImportFrom):
                for alias in node.names:
                    if (alias.asname or alias.name) == name:
                        return _resolved(_Import(_absolute(node, module), alias.name))
    return module


def _modules_below(package: str) -> list[str]:
    """Return the modules of a package and of the packages in it."""
    folder = _path(package).parent
    names = [".".join([package, *path.relative_to(folder).with_suffix("").parts]) for path in folder.rglob("*.py")]
    return [name.removesuffix(".__init__") for name in sorted(names)]


def _folder(module: str) -> str:
    """Return the package that holds a module; a package is its own."""
    return module if _path(module).name == "__init__.py" else module.rpartition(".")[0]


def _belongs(module: str, package: str) -> bool:
    return module == package or module.startswith(f"{package}.")


@cache
def _path(module: str) -> Path:
    """Return the file of a module, whether it exists or not."""
    package, *parts = module.split(".")
    if package in _FOLDERS:
        stem = _FOLDERS[package].joinpath(*parts)
        return stem / "__init__.py" if stem.is_dir() else stem.with_suffix(".py")
    loaded: ModuleType = sys.modules[module]
    return Path(str(inspect.getsourcefile(loaded)))


def _is_module(name: str) -> bool:
    return name.partition(".")[0] in _FOLDERS and _path(name).is_file()


@cache
def _source(module: str) -> str:
    return _path(module).read_text(encoding="utf-8")
