"""What an engine is: anything that moves the bytes of a plan between the memories of ranks."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Protocol, TypeGuard

import numpy as np

from oracle.model.errors import InvalidCase
from oracle.model.writes import Writes

Memories = Sequence[Sequence[Any]]
"""``memories[rank][pool]``: a writable buffer of bytes (memoryview, bytearray or uint8 array), or a view of the
engine's own memory, whose byte 0 is the address that the segments' slot bases count from."""


class EngineUnavailable(InvalidCase):
    """What was asked for cannot be carried out here: too little memory, no such device, no such library.

    It is raised before anything runs, and says nothing of the case. ``argument`` is what is at
    fault, ``value`` what was asked for, ``accepted`` what is there.
    """


class Engine(Protocol):
    """A way to carry a plan out.

    An engine is told what to move and nothing else: it asks neither a manager nor the oracle, and it
    never changes the source.
    """

    name: str

    def available(self) -> str | None:
        """Why the engine cannot run here; None where it can."""
        ...

    def carry(self, writes: Writes, source: Memories, destination: Memories) -> None:
        """Carry out every run of every segment of ``writes``, in plan order, and return when all bytes have landed.

        Every rank and pool that a segment names exists, and every run lies within both buffers.
        """
        ...


class OwnMemory(Protocol):
    """What an engine offers besides if it works on memory of its own; others are given memory of the host."""

    def free_bytes(self) -> int:
        """Bytes that can be allocated now, less what carrying takes for itself."""
        ...

    def allocate(self, nbytes: int) -> Any:
        """``nbytes`` bytes of memory, whatever they hold. Raises ``EngineUnavailable`` where there is too little."""
        ...

    def view(self, memory: Any, start: int, end: int) -> Any:
        """Bytes ``start`` to ``end`` of ``memory``, as ``carry`` takes them."""
        ...

    def write(self, memory: Any, values: np.ndarray) -> None:
        """Fill ``memory`` with as many bytes (uint8)."""
        ...

    def read(self, memory: Any) -> np.ndarray:
        """All that ``memory`` holds (uint8), when everything under way has landed."""
        ...


def has_own_memory(engine: object) -> TypeGuard[OwnMemory]:
    """Whether an engine works on memory of its own."""
    return hasattr(engine, "allocate")
