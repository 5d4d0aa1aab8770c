"""The enumerating oracle: the id of every byte of both sides' memory.

Ids are integers for (content, group, layer, role, block, global index, byte). Memory of a side is
one flat int64 array, rank after rank, pool after pool; ids below zero are reserved.
"""

from __future__ import annotations

from bisect import bisect_right
from dataclasses import dataclass, field
from functools import lru_cache
from math import lcm

import numpy as np
from numpy.typing import DTypeLike

from oracle.model.buffers import LayerGroup
from oracle.model.case import Case
from oracle.truth.fill import fill_destination, fill_source
from oracle.truth.identity import global_bytes, place_of_offset
from oracle.truth.lost import note_lost
from oracle.truth.pairing import paired_sources
from oracle.truth.reserved import FOREIGN, NEVER
from oracle.truth.rows import Blocks
from oracle.truth.stacks import FlatSide, Stack, flatten, unlike
from oracle.truth.target import Target
from oracle.truth.verdict import Element

Key = tuple[int, int, str]
"""(group, layer, role); the layer is -1 where the role alone is the key"""


Inside = tuple[int, int, str, tuple[tuple[str, int], ...], int, int | None, int]
"""What an id within a block says: group, layer, role, indices, byte, last token of its row in the block, part."""


@dataclass(slots=True, eq=False)
class Keys:
    """The id space of one side: ``base[key]`` counts in bytes of one block, ``width`` in all.

    An id is ((content code * ordinals) + ordinal) * width + id within the block; codes from
    ``private`` on stand for a request of its own, those behind the ``requests`` for ``tails``: a beam
    (counted from 1 behind the first) of a request.
    """

    base: dict[Key, int]
    width: int
    ordinals: int
    private: int
    requests: int = 0
    tails: tuple[tuple[int, int], ...] = ()
    _sorted: tuple[tuple[Key, ...], tuple[int, ...]] | None = None
    _known: dict[tuple[str, int], Inside] = field(default_factory=dict)

    def _by_start(self) -> tuple[tuple[Key, ...], tuple[int, ...]]:
        if self._sorted is None:
            self._sorted = tuple(self.base), tuple(self.base.values())
        return self._sorted

    @property
    def starts(self) -> tuple[int, ...]:
        """The values of ``base``, ascending: key number i has the ids from ``starts[i]`` on."""
        return self._by_start()[1]

    def key_at(self, offset: int) -> Key:
        """The key of an id within a block."""
        keys, starts = self._by_start()
        return keys[bisect_right(starts, offset) - 1]

    def code_of_tail(self, request: int, beam: int) -> int:
        return self.private + self.requests + self.tails.index((request, beam))

    def decode(self, case: Case, side: str, number: int) -> Element | None:
        """The element of one id; None for a reserved id."""
        if number < 0:
            return None
        block, offset = divmod(int(number), self.width)
        code, ordinal = divmod(block, self.ordinals)
        inside = self._known.get((side, offset))
        if inside is None:
            inside = self._known[side, offset] = self._decode_offset(case, side, offset)
        group, layer, role, indices, byte, last, part = inside
        token = None if last is None else ordinal * case.side(side).tokens_per_block + last
        private, beam = (code - self.private, 0) if code >= self.private else (None, 0)
        if private is not None and private >= self.requests:
            private, beam = self.tails[private - self.requests]
        content = case.requests[private].content if private is not None else code
        return Element(content, group, layer, role, ordinal, indices, byte, token, private, part, beam)

    def _decode_offset(self, case: Case, side: str, offset: int) -> Inside:
        key = self.key_at(offset)
        group, layer, role = key
        buffers = case.model.groups[group].buffers
        buffer = next(b for b in buffers if b.role == role and (layer in b.layers or layer < 0))
        instance = case.side(side)
        bits = tuple(instance.bits_of(role, part.bits) for part in buffer.parts)
        part, indices, byte = place_of_offset(buffer, bits, instance.tokens_per_block, offset - self.base[key])
        last = None
        for axis, index in indices:
            if axis == "T":
                last = (index + 1) * buffer.tokens_per_row - 1
        return group, layer, role, indices, byte, last, part


Measures = tuple[tuple[tuple[str, int], ...], int]
"""element bits by role and tokens per block of one side"""


@lru_cache(maxsize=256)
def _bases(groups: tuple[LayerGroup, ...], sides: tuple[Measures, ...]) -> tuple[dict[Key, int], int]:
    """Ids for every key, as many as the side that needs more of them."""
    base: dict[Key, int] = {}
    width = 0
    for index, group in enumerate(groups):
        for buffer in group.buffers:
            size = 0
            for bits, tokens in sides:
                overrides = dict(bits)
                widths = tuple([overrides.get(buffer.role, part.bits) for part in buffer.parts])
                size = max(size, global_bytes(buffer, widths, tokens))
            for layer in (-1,) if buffer.request_scope else buffer.layers.ids:
                base[(index, layer, buffer.role)] = width
                width += size
    return base, width


def keys_of(case: Case) -> Keys:
    """The id space of both sides: equal ids are equal elements wherever both cut blocks and elements alike."""
    measures = {(side.element_bits, side.tokens_per_block): None for side in (case.context, case.generation)}
    base, width = _bases(case.model.groups, tuple(measures))
    longest = max([request.tokens(group.length) for request in case.requests for group in case.model.groups])
    # An index that no one holds is told by the first block that shows it, also past the prompt.
    period = lcm(case.context.topology.cp, case.generation.topology.cp)
    tails = tuple(
        [
            (number, beam)
            for number, request in enumerate(case.requests)
            if request.beams > 1
            for beam in range(1, max(request.context.tails, request.generation.tails) + 1)
        ]
    )
    return Keys(base, width, max(longest, period) + 1, len(case.contents), len(case.requests), tails)


@dataclass(slots=True, eq=False)
class Frame:
    """What both judges know of a case without a look at any byte.

    ``heard``: by request, destination rank -> paired source ranks. ``unserved``: (request,
    destination rank, id within the blocks) of an index without a paired holder, in the first block
    of a full period of ordinals that shows it. ``lost``: request -> (destination rank, group,
    ordinal) of a due block that no paired source holds any more. ``with_tails``: whether the beam tails of a
    receiver may arrive; else they must not be touched.
    """

    case: Case
    context: FlatSide
    generation: FlatSide
    context_keys: Keys
    generation_keys: Keys
    heard: tuple[dict[int, tuple[int, ...]], ...]
    unserved: list[tuple[int, int, int]]
    lost: dict[int, tuple[int, int, int]]
    with_tails: bool

    @property
    def comparable(self) -> bool:
        """Whether a block and an element mean the same on both sides, in all that moves."""
        context, generation = self.case.context, self.case.generation
        if context.tokens_per_block == generation.tokens_per_block and context.element_bits == generation.element_bits:
            return True
        return not any(True for _ in unlike(self.case))


def frame_of(case: Case, *, with_tails: bool = False) -> Frame:
    """The frame of ``case``; ``unserved`` and ``lost`` are empty, still to be found."""
    sides = (case.context.topology, case.generation.topology)
    keys = keys_of(case)
    return Frame(
        case,
        flatten(case, "context"),
        flatten(case, "generation"),
        keys,
        keys,
        tuple([paired_sources(*sides, request.context_dp, request.generation_dp) for request in case.requests]),
        [],
        {},
        with_tails,
    )


@dataclass(slots=True, eq=False)
class Truth(Frame):
    """All that the enumerating judge compares a plan with.

    ``source`` (int64): the id of every source byte. ``due`` (int64): the id due at every destination
    byte, NEVER where nothing may come. ``klass`` (uint8): forbidden, optional, due or native only. ``elected``
    (int8 or wider): the source rank that must send it, -1 for none. ``owner`` (the same): the request that the
    byte is of, -1 for none; it is written when somebody asks, of the blocks in ``owned``.
    """

    source: np.ndarray
    due: np.ndarray
    klass: np.ndarray
    elected: np.ndarray
    kept: dict[tuple[str, int, int], list[Stack]]
    blocks: dict[tuple[int, int, int], Blocks]
    owned: list[tuple[Target, np.ndarray]]
    _owner: np.ndarray | None = None

    @property
    def owner(self) -> np.ndarray:
        if self._owner is None:
            self._owner = _filled(len(self.due), -1, self.elected.dtype)
            for target, owners in self.owned:
                target.put(self._owner, owners[None, :, None])
            self.owned.clear()
        return self._owner


def _filled(size: int, value: int, kind: DTypeLike) -> np.ndarray:
    """``np.full`` without its half dozen Python steps."""
    memory = np.empty(size, kind)
    memory.fill(value)
    return memory


def truth_of(case: Case, padding: str = "optional", *, with_tails: bool = False) -> Truth:
    """Both sides of ``case``; ``padding``: whether rows past the prompt are ``optional`` or ``due``.

    ``with_tails``: whether the beam tails of a receiver may arrive.
    """
    return enumerate_sides(case, padding, with_tails and any(request.beams > 1 for request in case.requests))


@lru_cache(maxsize=16)
def enumerate_sides(case: Case, padding: str, with_tails: bool = False) -> Truth:
    """Enumerate both sides of ``case`` afresh; the latest results are kept."""
    frame = frame_of(case, with_tails=with_tails)
    size = frame.generation.size
    most = max(case.context.topology.size, len(case.requests))
    narrow = np.int8 if most < 1 << 7 else np.int16 if most < 1 << 15 else np.int32
    truth = Truth(
        case,
        frame.context,
        frame.generation,
        frame.context_keys,
        frame.generation_keys,
        frame.heard,
        frame.unserved,
        frame.lost,
        with_tails,
        _filled(frame.context.size, FOREIGN, np.int64),
        _filled(size, NEVER, np.int64),
        np.zeros(size, dtype=np.uint8),  # FORBIDDEN, and no memory touched for it
        _filled(size, -1, narrow),
        {},
        {},
        [],
    )
    fill_source(truth)
    fill_destination(truth, padding)
    note_lost(truth)
    truth.unserved.sort()
    return truth
