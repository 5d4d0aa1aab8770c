"""The first cache manager: one list of block ids a window, which only grows, and how many of it have left.

Ids are logical: a block keeps its id while it moves between slots. Lists and ids are a window's own
(spec: blocks, V1 manager; logical id and slot).
"""

from __future__ import annotations

from collections.abc import Hashable, Mapping, Sequence

import numpy as np

from oracle.model.records import frozen


class OnHost(RuntimeError):
    """A block that is to be sent or received into does not lie on the device."""


class UnknownBlock(LookupError):
    """The manager of this window never had such a block."""


class WindowNotNamed(ValueError):
    """Several windows are configured, and it was not said which one is meant."""


@frozen(eq=False)
class BlockList:
    """What the manager lists of one request under one window.

    ``ids``: the first beam's blocks by ordinal, those of its blocks that were detached included, then
    the last block of every other beam where that is another one. ``own``: how many are the first
    beam's. ``removed``: how many of its front blocks were detached; their ids say nothing any more.
    """

    ids: tuple[int, ...]
    own: int
    removed: int = 0


def removed_blocks(prompt: int, most: int, window: int | None, tokens_per_block: int) -> int:
    """Front blocks detached of a sequence whose prompt grew to ``most`` tokens.

    Nothing is detached while a prompt is prefilled. Each added token lets go of what lies a window and
    a whole block back, and a rewind brings nothing back.
    """
    if window is None or most <= prompt:
        return 0
    return max(0, (most - window) // tokens_per_block)


class Translation:
    """Which slot each block of a rank has now, by window.

    ``windows`` are the configured windows, one a layer or group, so that one may be named twice;
    ``slots`` gives, by window, the primary slot of each id, or None where the block is on the host.
    """

    __slots__ = ("_slots", "_windows")

    def __init__(self, windows: Sequence[Hashable], slots: Mapping[Hashable, Mapping[int, int | None]]) -> None:
        self._windows = tuple(windows)
        self._slots = slots

    def translate(self, ids: Sequence[int], window: Hashable = None) -> np.ndarray:
        """Primary slots of ``ids`` (int64), in order.

        Without ``window`` the only one that is configured is meant, however often it is named. Raises
        ``OnHost`` if any of the blocks is on the host, ``UnknownBlock`` for an id or a window that there
        is not, ``WindowNotNamed`` if windows differ and none is named.
        """
        if window is None:
            distinct = set(self._windows)
            if len(distinct) != 1:
                raise WindowNotNamed(f"window = None is not possible: expected one of {self._windows}")
            (window,) = distinct
        if window not in self._slots:
            raise UnknownBlock(f"window = {window!r} is not possible: expected one of {self._windows}")
        known = self._slots[window]
        found = np.empty(len(ids), dtype=np.int64)
        for place, block in enumerate(ids):
            if block not in known:
                raise UnknownBlock(f"block {block} is not one of window {window!r}")
            slot = known[block]
            if slot is None:
                raise OnHost(f"block {block} of window {window!r} is on the host")
            found[place] = slot
        return found
