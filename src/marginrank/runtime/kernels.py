"""Compiled functions: Numba, with a cache that is never fatal and never trusts a folder that others can write to.

Numba's own cache fails where it finds no folder to write to, raises whatever a damaged file makes ``pickle`` raise,
does not notice that a function of another module changed, and takes code compiled without bounds checks where they are
asked for. Here, files whose digest does not match the sources and settings are as good as absent.
"""

from __future__ import annotations

import contextlib
import hashlib
import logging
import pickle
import sys
import uuid
from collections.abc import Callable, Sequence
from functools import cache, cached_property
from pathlib import Path
from typing import Any, Final, cast

import numba
from numba import config, types
from numba.core import cgutils, event, serialize
from numba.core.caching import _Cache
from numba.core.compiler import CompileResult
from numba.core.extending import _Intrinsic
from numba.core.registry import CPUDispatcher, cpu_target
from numba.core.types import unliteral
from numba.extending import intrinsic, is_jitted

from marginrank.runtime.kernel_folders import folder_to_write, folders_to_read
from marginrank.typing import Step

#: What is logged when something has to be compiled.
COMPILING: Final = "compiling kernels for this machine; this takes a few seconds, and happens once"
_LOG: Final = logging.getLogger(__name__)
_SUFFIX: Final = ".kernel"
#: Settings of Numba that change the code.
_SWITCHES: Final = ("BOUNDSCHECK", "OPT", "ENABLE_AVX", "DEBUGINFO_DEFAULT")
_JIT: Final[Any] = numba.njit
_REGISTER: Final[Any] = event.register
_REBUILD: Final[Any] = CompileResult._rebuild
_DUMP: Final[Any] = serialize.dumps
_UNLITERAL: Final[Any] = unliteral
_TYPE_OF: Final[Any] = numba.typeof
_PARTS: Final[Any] = cgutils.unpack_tuple
_TARGET: Final[Any] = cpu_target
_IF_UNLIKELY: Final[Any] = cgutils.if_unlikely
_DIGEST_SIZE: Final = hashlib.sha256().digest_size


def njit(*, cache: bool, allocates: bool = True, **options: Any) -> Callable[[Callable[..., Any]], Any]:
    """Compile a function as `numba.njit` does, with the cache of this module.

    A function whose name begins with _ is called by kernels alone: it becomes part of them, and is neither kept on its
    own nor wrapped for Python, which saves a tenth to a fifth of the time. Called from Python, it is interpreted.

    Args:
        cache: Whether to keep what was compiled.
        allocates: Whether the function makes arrays. Reference counts are left out of those that do not, which saves
            a tenth of the time; it is an error to make an array in them.
        options: Passed on.
    """

    def compiled(function: Callable[..., Any]) -> Any:
        is_part = function.__name__.startswith("_")
        dispatcher = _JIT(**options, no_cfunc_wrapper=True, no_cpython_wrapper=is_part, _nrt=allocates)(function)
        if is_jitted(dispatcher):
            dispatcher.__class__ = _Part if is_part else _Kernel
            if cache and not is_part:
                cast("Any", dispatcher)._cache = KernelCache(function, options)
        return dispatcher

    return compiled


def instructions() -> tuple[str, str]:
    """Return the kind of processor that kernels are compiled for, and the instructions that they may use."""
    machine, _, known = _TARGET.target_context.codegen().magic_tuple()
    return machine, known


def pointers(steps: Sequence[Step]) -> tuple[tuple[int, tuple[Any, ...]], ...] | None:
    """Replace the kernel of each step by its address, so that `call_each` can call it; None where Numba is disabled."""
    if not all(is_jitted(kernel) for kernel, _ in steps):
        return None
    return tuple((_address(kernel, own), own) for kernel, own in steps)


def _address(kernel: Any, arguments: tuple[Any, ...]) -> int:
    kinds = (*(_TYPE_OF(argument) for argument in arguments), types.int64, types.int64)
    kernel.compile(kinds)
    compiled = kernel.overloads[kinds]
    if compiled.signature.return_type != types.none:
        raise TypeError(
            f"{kernel.__name__} returns a {compiled.signature.return_type}; a kernel of a step returns nothing"
        )
    return int(compiled.library.get_pointer_to_function(compiled.fndesc.llvm_func_name))


def _call_each(typing_context, steps, first, end):  # type: ignore[no-untyped-def]  # noqa: ARG001
    """Call the kernel of each step with its own arguments, ``first`` and ``end``, from inside a kernel."""

    def code(context, builder, signature, values):  # type: ignore[no-untyped-def]
        kinds, convention = signature.args[0].types, context.call_conv
        for step, kind in zip(_PARTS(builder, values[0], len(kinds)), kinds, strict=True):
            address, own = _PARTS(builder, step, 2)
            expected = (*kind.types[1].types, types.int64, types.int64)
            arguments = (*_PARTS(builder, own, len(expected) - 2), values[1], values[2])
            function = builder.inttoptr(address, convention.get_function_type(types.none, expected).as_pointer())
            status, _ = convention.call_function(builder, function, types.none, expected, arguments)
            with _IF_UNLIKELY(builder, status.is_error):
                convention.return_status_propagate(builder, status)
        return context.get_dummy_value()

    return types.void(steps, types.int64, types.int64), code


call_each: Final[Any] = intrinsic(_call_each)


class _Kernel(CPUDispatcher):
    """A function that is compiled once for numbers of a type: Numba compiles calls with a constant on their own."""

    def get_call_template(self, args: Any, kws: Any) -> Any:
        """Return what tells the types of a call."""
        return super().get_call_template([_UNLITERAL(one) for one in args], kws)


class _Part(_Kernel):
    """A function that only kernels call; without a wrapper, a call from Python would follow a null pointer."""

    def __call__(self, *arguments: Any) -> Any:
        """Interpret the function."""
        return self.py_func(*arguments)


class _Announcement(event.Listener):
    """Log that kernels are compiled, when the first of a process is."""

    def __init__(self) -> None:
        self.made = False

    def on_start(self, event: Any) -> None:
        """Look at what begins to be compiled."""
        if not self.made and isinstance(event.data["dispatcher"]._cache, KernelCache):
            self.made = True
            _LOG.info(COMPILING)

    def on_end(self, event: Any) -> None:
        """Do nothing."""


_ANNOUNCEMENT: Final = _Announcement()
_REGISTER("numba:compile", _ANNOUNCEMENT)


class KernelCache(_Cache):
    """The compiled forms of one function, a file for each types of arguments and kind of machine.

    A file begins with the SHA-256 of the sources, the settings and what follows: a pickle, which runs code when it is
    read. `marginrank.runtime.kernel_folders` says which folders are trusted with it.
    """

    def __init__(self, function: Callable[..., Any], options: dict[str, Any]) -> None:
        self._function, self._options = function, options
        self._source = Path(function.__code__.co_filename)
        self._enabled = True

    @property
    def cache_path(self) -> str | None:
        """The folder that is written to."""
        folder = folder_to_write(self._source)
        return None if folder is None else str(folder)

    def load_overload(self, sig: Any, target_context: Any) -> Any:
        """Return what was compiled for these types; None where there is nothing that can be used."""
        target_context.refresh()
        if not self._enabled:
            return None
        name = self._file_name(sig, target_context.codegen())
        for folder in folders_to_read(self._source):
            with contextlib.suppress(Exception):  # whatever is wrong, the kernel can be compiled
                content = (folder / name).read_bytes()
                digest, payload = content[:_DIGEST_SIZE], content[_DIGEST_SIZE:]
                if digest == self._digest(payload):
                    return _REBUILD(target_context, *pickle.loads(payload))
        return None

    def save_overload(self, sig: Any, data: Any) -> None:
        """Keep what was compiled, if there is a place for it."""
        folder = folder_to_write(self._source) if self._enabled else None
        if folder is None or data.lifted or data.library.has_dynamic_globals:
            return
        payload = _DUMP(data._reduce())
        with contextlib.suppress(OSError):  # a full disk
            _write(folder / self._file_name(sig, data.codegen), self._digest(payload) + payload)

    def enable(self) -> None:
        """Use the cache."""
        self._enabled = True

    def disable(self) -> None:
        """Do not use the cache."""
        self._enabled = False

    def flush(self) -> None:
        """Forget all forms of the function."""
        for folder in folders_to_read(self._source):
            for file in folder.glob(f"{self._stem}.*{_SUFFIX}"):
                with contextlib.suppress(OSError):
                    file.unlink()

    @property
    def _stem(self) -> str:
        # Folders of the user hold kernels of all modules, and of several installations.
        place = hashlib.sha256(str(self._source.parent).encode(errors="surrogateescape")).hexdigest()[:12]
        name = self._function.__qualname__.replace("<", "").replace(">", "")
        return f"{self._source.stem}.{name}.{place}.{sys.implementation.cache_tag}"

    def _file_name(self, sig: Any, codegen: Any) -> str:
        settings = sorted((name, repr(_sorted(value))) for name, value in self._options.items())
        switches = [str(getattr(config, name, None)) for name in _SWITCHES]
        key = repr((str(sig), codegen.magic_tuple(), settings, switches))
        return f"{self._stem}.{hashlib.sha256(key.encode()).hexdigest()[:32]}{_SUFFIX}"

    def _digest(self, payload: bytes) -> bytes:
        return hashlib.sha256(self._stamp + payload).digest()

    @cached_property
    def _stamp(self) -> bytes:
        """A digest of all that the compiled code depends on but types: sources, constants, and versions."""
        functions = _reached(self._function)
        total = hashlib.sha256(f"{numba.__version__} {sys.version}".encode())
        makers = (__file__, str(Path(__file__).with_name("simd.py")))
        for path in sorted({*makers, *(function.__code__.co_filename for function in functions)}):
            total.update(_source_digest(path))
        for function in sorted(functions, key=lambda one: (one.__module__, one.__qualname__)):
            total.update(repr(_constants(function)).encode())
        return total.digest()


def _reached(function: Callable[..., Any]) -> set[Callable[..., Any]]:
    """Return a function and all compiled functions, and makers of code, that it may call."""
    reached: set[Callable[..., Any]] = set()
    waiting = [function]
    while waiting:
        one = waiting.pop()
        if one not in reached:
            reached.add(one)
            found: list[Any] = [one.__globals__.get(name) for name in one.__code__.co_names]
            waiting += [other.py_func for other in found if is_jitted(other)]
            reached |= {other._defn for other in found if isinstance(other, _Intrinsic)}
    return reached


def _constants(function: Callable[..., Any]) -> list[tuple[str, Any]]:
    """Return the numbers and texts outside a function that are compiled into it."""
    found = ((name, function.__globals__.get(name)) for name in sorted(function.__code__.co_names))
    return [(name, value) for name, value in found if isinstance(value, bool | int | float | str | bytes | tuple)]


def _sorted(value: Any) -> Any:
    return sorted(value) if isinstance(value, set) else value


@cache
def _source_digest(path: str) -> bytes:
    return hashlib.sha256(Path(path).read_bytes()).digest()


def _write(path: Path, content: bytes) -> None:
    waiting = path.with_name(f"{path.name}.{uuid.uuid4().hex}.tmp")
    try:
        waiting.write_bytes(content)
        waiting.replace(path)
    except OSError:
        with contextlib.suppress(OSError):
            waiting.unlink()
        raise
