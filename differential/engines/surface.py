"""Memory that others allocated, as bytes: arrays and buffers of the host; tensors are with their engine."""

from __future__ import annotations

import ctypes
import sys
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Protocol

import numpy as np

from oracle.model.errors import InvalidCase


@dataclass(frozen=True, slots=True)
class Geometry:
    """Where the elements of an array lie: address of the first, ``shape``, ``strides`` in bytes, bytes an element."""

    pointer: int
    shape: tuple[int, ...]
    strides: tuple[int, ...]
    itemsize: int

    @property
    def nbytes(self) -> int:
        total = self.itemsize
        for size in self.shape:
            total *= size
        return total

    def span(self) -> tuple[int, int]:
        """The lowest address and the one after the highest."""
        steps = [stride * (size - 1) for size, stride in zip(self.shape, self.strides, strict=True)]
        lowest = self.pointer + sum(step for step in steps if step < 0)
        return lowest, self.pointer + sum(step for step in steps if step > 0) + self.itemsize

    def runs(self) -> tuple[np.ndarray, int]:
        """(where its runs of adjacent bytes start, in no order (int64); bytes a run)."""
        start, length = self.pointer, self.itemsize
        sizes = []
        for stride, size in sorted(zip(self.strides, self.shape, strict=True), key=lambda pair: abs(pair[0])):
            start += min(0, stride * (size - 1))
            if size > 1 and not sizes and abs(stride) == length:
                length *= size
            elif size != 1:
                sizes.append((abs(stride), size))
        starts = np.array([start], dtype=np.int64)
        for stride, size in sizes:
            starts = (starts[:, None] + stride * np.arange(size, dtype=np.int64)).ravel()
        return starts, length


class Surface(Protocol):
    """The bytes of an array in the order of its indices, whatever its strides, its element type and its device."""

    geometry: Geometry
    device: str

    def read(self) -> np.ndarray:
        """A copy of all bytes (uint8)."""
        ...

    def write(self, values: np.ndarray) -> None:
        """Set all bytes (uint8)."""
        ...


class HostSurface:
    """An array of the host."""

    __slots__ = ("array", "device", "geometry")

    def __init__(self, array: np.ndarray) -> None:
        self.array = np.asarray(array).view(np.dtype((np.void, array.dtype.itemsize)))
        self.device = "cpu"
        pointer = array.__array_interface__["data"][0]
        self.geometry = Geometry(pointer, array.shape, array.strides, array.dtype.itemsize)

    def read(self) -> np.ndarray:
        return np.frombuffer(self.array.tobytes(), dtype=np.uint8)

    def write(self, values: np.ndarray) -> None:
        self.array[...] = np.ascontiguousarray(values).view(self.array.dtype).reshape(self.array.shape)


def surface_of(argument: str, memory: Any) -> Surface:
    """The bytes of ``memory``: a tensor, an array, a writable buffer, or (pointer, bytes, device).

    What lies on a device is reached with PyTorch. Raises ``InvalidCase``, which calls the memory
    ``argument``, for anything else and for memory that cannot be written.
    """
    if isinstance(memory, tuple):
        return _at_pointer(argument, memory)
    torch = sys.modules.get("torch")  # without PyTorch there are no tensors either
    tensor = getattr(torch, "Tensor", None)
    if tensor is not None and isinstance(memory, tensor):
        from differential.engines.torch.tensors import TensorSurface

        return TensorSurface(argument, memory)
    if not isinstance(memory, np.ndarray) and hasattr(memory, "__cuda_array_interface__"):
        from differential.engines.torch.tensors import surface_of_interface

        return surface_of_interface(argument, memory)
    if isinstance(memory, np.ndarray):
        array = memory
    else:
        try:
            array = np.asarray(memoryview(memory))
        except TypeError:
            raise InvalidCase(
                argument,
                type(memory).__name__,
                "expected a tensor, an array, a writable buffer or (pointer, bytes, device)",
            ) from None
    if array.dtype.hasobject:
        raise InvalidCase(argument, str(array.dtype), "expected elements that are bytes, not Python objects")
    if not array.flags.writeable:
        raise InvalidCase(argument, f"{array.nbytes} B, read-only", "expected memory that can be written")
    return HostSurface(array)


def _at_pointer(argument: str, memory: tuple[Any, ...]) -> Surface:
    if len(memory) != 3 or type(memory[0]) is not int or type(memory[1]) is not int:
        raise InvalidCase(argument, memory, "expected (pointer, bytes, device), such as (address, 4096, 'cuda:0')")
    pointer, nbytes, device = memory
    if pointer <= 0 or nbytes < 0:
        raise InvalidCase(argument, memory, "expected a pointer above 0 and no negative number of bytes")
    if str(device) == "cpu":
        return HostSurface(np.frombuffer((ctypes.c_uint8 * nbytes).from_address(pointer), dtype=np.uint8))
    from differential.engines.torch.tensors import surface_at

    return surface_at(argument, pointer, nbytes, str(device))


def find_overlap(surfaces: Sequence[Surface]) -> tuple[int, int, int] | None:
    """(one surface, another, first address that both have); one twice if it lies upon itself; None if all lie apart."""
    for device in dict.fromkeys(surface.device for surface in surfaces):
        spans = sorted(
            (*surface.geometry.span(), number)
            for number, surface in enumerate(surfaces)
            if surface.device == device and surface.geometry.nbytes
        )
        cluster: list[int] = []
        reach = 0
        for start, end, number in spans:
            if cluster and start >= reach:
                found = _overlap_in(surfaces, cluster)
                if found is not None:
                    return found
                cluster = []
            cluster.append(number)
            reach = max(reach, end) if len(cluster) > 1 else end
        found = _overlap_in(surfaces, cluster)
        if found is not None:
            return found
    return None


def _overlap_in(surfaces: Sequence[Surface], cluster: list[int]) -> tuple[int, int, int] | None:
    """Run by run, where spans alone do not tell: views of one tensor may interleave."""
    if not cluster:
        return None
    pieces = [surfaces[number].geometry.runs() for number in cluster]
    starts = np.concatenate([start for start, _ in pieces])
    ends = np.concatenate([start + length for start, length in pieces])
    owners = np.repeat(np.array(cluster), [len(start) for start, _ in pieces])
    order = np.argsort(starts, kind="stable")
    starts, ends, owners = starts[order], ends[order], owners[order]
    # Up to the first overlap, runs end in the order in which they start.
    again = np.flatnonzero(starts[1:] < ends[:-1])
    if not len(again):
        return None
    earlier = int(again[0])
    return int(owners[earlier]), int(owners[earlier + 1]), int(starts[earlier + 1])
