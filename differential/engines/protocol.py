"""What an engine is: anything that moves the bytes of a plan between the memories of ranks."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Protocol

from oracle.model.writes import Writes

Memories = Sequence[Sequence[Any]]
"""``memories[rank][pool]``: a writable buffer of bytes (memoryview, bytearray or uint8 array) whose byte 0 is the
address that the segments' slot bases count from."""


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
