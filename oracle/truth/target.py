"""The addresses of blocks in the flat memory of one side, and writing there."""

from __future__ import annotations

import numpy as np

from oracle.model.topology import Rank
from oracle.truth.stacks import FlatSide, Stack


class Target:
    """Where the blocks of some requests lie in the flat memory of one side, for one stack of ranks.

    ``mask`` (ranks x blocks): which of them there are; None: all.
    """

    __slots__ = ("_by_row", "_flat", "_picked", "_ranks", "_slots", "_where", "mask", "stack", "stride")

    BIG = 1 << 15
    """bytes from which rows of memory are written as they are, instead of each byte by its address"""

    def __init__(
        self, flat: FlatSide, stack: Stack, ranks: list[Rank], slots: np.ndarray, stride: int, mask: np.ndarray | None
    ) -> None:
        self.stack = stack
        self.stride = stride
        self.mask = mask
        self._flat = flat
        self._ranks = ranks
        self._slots = slots
        self._by_row = stack.whole and slots.size * len(stack.offsets) > self.BIG
        self._where: np.ndarray | None = None
        self._picked: tuple[np.ndarray, ...] = ()

    def put(self, memory: np.ndarray, values: np.ndarray, added: np.ndarray | None = None) -> None:
        """Write ``values`` plus ``added``, each of a shape that broadcasts to ranks x blocks x bytes."""
        if self._by_row:
            self._put_rows(memory, values, added)
            return
        where = self.addresses()
        if self.mask is not None:
            if added is not None:
                values = values + added
            # Which rank and block each row of addresses is of; an axis of length 1 stands for all.
            ranks, blocks = self._picked
            values, added = values[ranks if len(values) > 1 else 0, blocks if values.shape[1] > 1 else 0], None
        # NumPy writes values of the shape and type of what they go to in half the time of others.
        whole = np.empty(where.shape, memory.dtype)
        if added is None:
            whole[...] = values
        else:
            np.add(values, added, out=whole)
        memory[where] = whole

    def _put_rows(self, memory: np.ndarray, values: np.ndarray, added: np.ndarray | None) -> None:
        width = len(self.stack.offsets)
        for position, rank in enumerate(self._ranks):
            start = self._flat.starts[rank.number][self.stack.pool]
            chosen = slice(None) if self.mask is None else self.mask[position]
            slots = self._slots[position][chosen]
            end = start + (int(slots.max(initial=-1)) + 1) * self.stride
            rows = memory[start:end].reshape(-1, self.stride)[:, :width]
            own = values[position if len(values) > 1 else 0]
            own = own[chosen] if len(own) > 1 else own
            if added is None:
                rows[slots] = own
                continue
            more = added[0] if added.shape[1] == 1 else added[0][chosen]
            if len(own) > 1:
                rows[slots] = own + more
                continue
            # Row by row straight into memory: a sum of its own would be as large as the memory.
            for slot, ahead in zip(slots.tolist(), np.broadcast_to(more, (len(slots), more.shape[1])), strict=True):
                np.add(own[0], ahead, out=rows[slot])

    def forgetting(self) -> Target:
        """The same, without the addresses where they would take much room."""
        if self._where is not None and self._where.size > self.BIG:
            self._where = None
        return self

    def edges(self, width: int) -> np.ndarray:
        """Addresses of all ``width`` bytes of every slot, where the stack's ``offsets`` are not all of them."""
        return self.addresses()[..., :1] - self.stack.offsets[0] + np.arange(width)

    def addresses(self) -> np.ndarray:
        """Addresses of every byte: ranks x blocks x bytes, or blocks of ``mask`` x bytes."""
        if self._where is None:
            pool, starts = self.stack.pool, self._flat.starts
            start = self._slots * self.stride
            start += np.array([starts[rank.number][pool] for rank in self._ranks])[:, None]
            if self.mask is not None:
                self._picked = self.mask.nonzero()
                start = start[self._picked]
            self._where = start[..., None] + self.stack.offsets
        return self._where
