"""States of both managers, drawn as one run of bytes: shapes that matter more than ranges (spec: blocks, 6.2).

A byte a concept, 0 the simplest; every state is built so that it can be, none is thrown away.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from hypothesis import strategies as st

from oracle.model.buffers import LayerGroup, Model
from oracle.model.case import Case, Content, Native, Request, SideState, SlotList, Slots
from oracle.model.instance import Instance
from oracle.model.topology import Topology
from tests.small_cases import group

WIDTH = 80
"""Bytes of a state."""

# Context-parallel sizes of both sides. Of 2 and 4, no rank hears from who holds its blocks.
ALONE, PARALLEL = ((1, 1),), ((1, 2), (1, 3), (1, 4), (2, 1), (2, 2))


class _Numbers:
    """The bytes of a state, read in order."""

    def __init__(self, numbers: bytes) -> None:
        self._numbers = iter(numbers)

    def __call__(self, *options: Any) -> Any:
        return options[next(self._numbers) % len(options)]


def state_of(numbers: bytes, helix: bool | None = None, beams: bool | None = None, chunks: bool | None = None) -> Case:
    """The case that ``numbers`` stand for. ``helix``, ``beams``, ``chunks``: whether to have them, None to draw."""
    number = _Numbers(numbers)
    size = number(2, 1, 3, 4, 8)
    lengths = [_prompt(number, size) for _ in range(2)]
    lengths = lengths[: number(1, 1, 2)]
    parallel = number(*{None: ALONE * 11 + PARALLEL, True: PARALLEL, False: ALONE}[helix])
    managers = [number("v2", "v1") for _ in range(2)]
    width = number(*{None: (1, 1, 1, 1, 1, 1, 2, 3, 4), True: (2, 3, 4), False: (1,)}[beams])
    if width > 1:
        managers, parallel = ["v1", "v1"], (1, 1)
    count, widths = number(1, 2, 3), number(0, 1)
    groups = [_group(number, index, lengths[0], size, 1 + index * widths, managers) for index in range(3)][:count]
    windows = [each.window for each in groups if each.window is not None]
    requests = [_request(number, index, length, size, windows, width, chunks) for index, length in enumerate(lengths)]
    instances = []
    for side, manager in enumerate(managers):
        reserves = [number(0, 0, 1, size, size + 1, 2 * size) for _ in range(3)]
        least = _least_reserve(requests, manager) if side else 0
        scratch, ahead = number(None, None, 0, 1, size), number(0, 1, 2, 4)
        instances.append(
            Instance(
                Topology(1, (count,), parallel[side]),
                size,
                manager=manager,
                reserve=tuple((f"g{index}", max(least, reserves[index])) for index in range(count)),
                scratch=scratch if manager == "v2" else None,
                look_ahead=ahead if manager == "v2" else 0,
            )
        )
    shared = number(0, size, size + 1, 2 * size)
    contents = [Content(), Content(0, min(lengths[0], shared)) if shared else Content()][: len(lengths)]
    slots = Slots(number(2, 1, 3, 5, 7), number(3, 0, 17, 40))
    native = Native((("all", "indexed"),))
    return Case(Model(count, tuple(groups)), *instances, tuple(requests), tuple(contents), slots, native=native)


def _prompt(number: _Numbers, size: int) -> int:
    """A multiple of a block, give or take one; now and then anything."""
    blocks, near, far, uniform = number(*range(1, 9)), number(0, 0, 1, -1), number(*range(64)), number(0, 0, 0, 1)
    return far % (8 * size) + 1 if uniform else max(1, blocks * size + near)


def _group(number: _Numbers, index: int, prompt: int, size: int, width: int, managers: Sequence[str]) -> LayerGroup:
    near, which, far = number(0, 1, -1, 2), number(0, 1, 2, 3, 4, 5), number(*range(8))
    options = (None, prompt + near, far * size + near, prompt - far * size + near, 1, size)
    window = None if which == 0 else max(1, options[which] or 0)
    sinks = number(0, 0, 0, 1, size, size + 1)
    if window is None or "v1" in managers:
        sinks = 0
    buffer = f"key @ {index} : T D({width}) ; 8"
    return group(buffer, name=f"g{index}", window=window, sinks=sinks, domain=f"d{index}")


def _request(
    number: _Numbers, index: int, tokens: int, size: int, windows: Sequence[int], width: int, chunks: bool | None
) -> Request:
    stale = max([0, *((tokens + 1 - window) // size * size for window in windows)])
    fill = -tokens % size
    # No window drops a block while there are several beams.
    may_go_on = width == 1 or all(tokens + 1 - window < size for window in windows)
    sides = []
    for receives in (False, True):
        cached = number(0, 0, size // 2, size, tokens // 2, stale // 2, stale + 1, tokens - 1, tokens)
        extra = number(0, 1, fill, fill + 1, size)
        drafts = number(0, 0, 1, fill, fill + 1, size, 2 * size)
        beyond, far = number(None, None, 0, 1, size, 2 * size, -1), number(*range(64))
        tails = number(0, 1, 2, 3) % width
        if beyond == -1:
            beyond = far % (size + 1 if receives else 2 * size + max([0, *windows]) + 1)
        if width > 1:
            extra = drafts = 0
            beyond = None if beyond is None or not may_go_on else beyond % 2
            tails = 0 if not tokens % size and not beyond else tails
        sides.append(SideState(min(tokens, cached), extra, drafts, 0 if beyond is None else tokens + beyond, tails))
    places = [number(size, size // 2 + 1, 2 * size, tokens - 1, tokens // 2, tokens - size, 1, 5) for _ in range(3)]
    some = number(*{None: (0, 0, 0, 1, 2, 3), True: (1, 2, 3), False: (0,)}[chunks])
    cuts = {max(1, min(tokens - 1, place)) for place in places[:some]} if width == 1 and tokens > 1 else set()
    return Request(index, tokens, cuts=tuple(sorted(cuts)), context=sides[0], generation=sides[1], beams=width)


def _least_reserve(requests: Sequence[Request], manager: str) -> int:
    """What a receiver must keep beyond its window so that it has room for all that is due."""
    reached = [
        each.room("generation") - 1 if manager == "v1" else max(each.prompt, each.generation.reached)
        for each in requests
    ]
    return max(0, *(most - each.prompt for most, each in zip(reached, requests, strict=True)))


def states(helix: bool | None = None, beams: bool | None = None, chunks: bool | None = None) -> st.SearchStrategy[Case]:
    """Cases with states; ``helix``, ``beams``, ``chunks``: whether to have them, None to draw."""
    return st.binary(min_size=WIDTH, max_size=WIDTH).map(lambda numbers: state_of(numbers, helix, beams, chunks))


STATES = states()


def _map_of(numbers: bytes) -> Case:
    """A case whose lists of one group are given: any set of blocks on either side, in any slots."""
    number = _Numbers(numbers)
    size, blocks, short = number(2, 1, 3), number(*range(1, 10)), number(0, 1)
    prompt = max(1, blocks * size - short)
    blocks = -(-prompt // size)
    parallel = number(*ALONE * 4, *PARALLEL)
    rows = []
    for side, ranks in zip(("context", "generation"), parallel, strict=True):
        mul, add = number(2, 1, 3, 5), number(*range(29))
        for rank in range(ranks):
            how, cut = number("run", "any", "none"), number(*range(10))
            there = [number(True, False) for _ in range(9)]
            if how != "any":
                there = [how == "run" and ordinal >= cut % (blocks + 1) for ordinal in range(9)]
            slots = [(mul * ordinal + add) % 29 if there[ordinal] else -1 for ordinal in range(blocks)]
            rows.append(SlotList(side, rank, "kv", 0, tuple(slots)))
    instances = (Instance(Topology(1, (1,), ranks), size) for ranks in parallel)
    slots = Slots(counts=(("kv", 29),))
    model = Model(1, (group("key @ 0 : T D(1) ; 8"),))
    return Case(model, *instances, (Request(0, prompt),), slots=slots, presented=tuple(rows))


MAPS = st.binary(min_size=WIDTH, max_size=WIDTH).map(_map_of)
"""Cases whose lists are given: any partial map from ordinals to slots."""
