"""Devices of PyTorch."""

from __future__ import annotations

import threading
from collections.abc import Callable
from contextlib import suppress
from functools import lru_cache
from typing import Any, Final, NamedTuple

import numpy as np

from marginrank.typing import AnyArray, FloatArray, IntArray

#: Held while a graph is recorded.
_RECORDING: Final = threading.Lock()


def import_torch(what: str) -> Any:
    """Import PyTorch, or say which extra brings it."""
    try:
        import torch  # noqa: PLC0415
    except ImportError:
        raise ImportError(f"{what} needs PyTorch: pip install 'marginrank[neural]'") from None
    return torch


class Device(NamedTuple):
    """PyTorch, and one of its devices."""

    torch: Any
    device: Any

    @classmethod
    def find(cls, torch: Any, name: str) -> Device:
        """Return a device by its name; ``auto`` is CUDA where there is any, and the CPU elsewhere."""
        if name == "auto":
            return cls(torch, torch.device("cuda" if torch.cuda.is_available() else "cpu"))
        try:
            device = torch.device(name)
            torch.empty(1, device=device)
        except (RuntimeError, AssertionError, TypeError) as error:
            why = str(error).partition("\n")[0]
            raise ValueError(f"device is {name!r}, which PyTorch cannot use ({why}); choose 'auto' or 'cpu'") from None
        return cls(torch, device)

    @property
    def runs_kernels(self) -> bool:
        """Whether the kernels of losses, which are written in Triton, run there."""
        return bool(self.device.type == "cuda")

    def tensor(self, values: AnyArray) -> Any:
        """Copy an array to the device."""
        return self.torch.from_numpy(np.ascontiguousarray(values)).to(self.device, non_blocking=True)

    def segments(self, offsets: IntArray) -> Segments:
        """Prepare sums over runs of numbers."""
        return Segments(self.torch, self.tensor(offsets))


class Segments(NamedTuple):
    """Sums and maxima over runs of numbers on a device, such as the documents of each query."""

    torch: Any
    #: Where each run begins and the last ends.
    offsets: Any

    def sum(self, values: Any) -> Any:
        """Return the sum of each run; 0 where it is empty."""
        return self.torch.segment_reduce(values, "sum", offsets=self.offsets, unsafe=True)

    def max(self, values: Any) -> Any:
        """Return the largest number of each run."""
        return self.torch.segment_reduce(values, "max", offsets=self.offsets, unsafe=True)


class CudaGraph:
    """Work on a device that is done many times with other numbers: what it launches is recorded and replayed.

    PyTorch and Triton take the CPU up to half a millisecond to launch the kernels of a pass, which is a quarter of the
    pass on millions of documents and most of it on few. CUDA launches the kernels of a graph at once. The first call
    launches them one by one, since it compiles kernels and makes what later calls share; the second records them. If
    memory has no room for a graph, which has its own, they are launched one by one throughout.

    Args:
        device: The device.
        work: Takes tensors and returns tensors of the device, without waiting for it. Their shapes are always the same.
    """

    def __init__(self, device: Device, work: Callable[..., tuple[Any, ...]]) -> None:
        self._device, self._work = device, work
        self._n_calls = 0
        self._recordable = bool(device.device.type == "cuda")
        self._graph: Any = None
        self._inputs: tuple[Any, ...] = ()
        self._outputs: tuple[Any, ...] = ()

    def __call__(self, *inputs: FloatArray) -> tuple[FloatArray, ...]:
        """Do the work with these inputs and wait for what it returns."""
        self._n_calls += 1
        if self._n_calls == 2 and self._recordable:
            self._inputs = tuple(map(self._device.tensor, inputs))
            self._record()
        if self._graph is None:
            outputs = self._work(*map(self._device.tensor, inputs))
        else:
            for own, given in zip(self._inputs, inputs, strict=True):
                own.copy_(self._device.torch.from_numpy(np.ascontiguousarray(given)), non_blocking=True)
            self._graph.replay()
            outputs = self._outputs
        return tuple(output.cpu().numpy() for output in outputs)

    def _record(self) -> None:
        torch, device = self._device
        # Memory that is given back while another thread records would be missed there.
        with _RECORDING, torch.cuda.device(device):
            # A graph cannot take the memory that the first call left, and has to find as much again.
            if torch.cuda.mem_get_info()[0] < torch.cuda.memory_reserved() - torch.cuda.memory_allocated():
                torch.cuda.empty_cache()
            graph, stream = torch.cuda.CUDAGraph(), _recording_stream(torch.cuda.current_device())
            stream.wait_stream(torch.cuda.current_stream())
            with torch.cuda.stream(stream):
                # What other threads ask of the device meanwhile is not part of the graph.
                graph.capture_begin(capture_error_mode="thread_local")
                try:
                    self._outputs = self._work(*self._inputs)
                except BaseException as error:
                    with suppress(RuntimeError):
                        graph.capture_end()
                    if isinstance(error, torch.OutOfMemoryError):
                        return
                    raise
                graph.capture_end()
            torch.cuda.current_stream().wait_stream(stream)
        self._graph = graph


@lru_cache
def _recording_stream(device: int) -> Any:
    """Return a stream of a device; libraries keep room for each stream that they have seen."""
    import torch  # noqa: PLC0415

    return torch.cuda.Stream(device)
