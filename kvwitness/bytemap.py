"""The block of a failure byte by byte: what came to the receiver's page, and what was read of the sender's.

Every byte has one letter, the first thing that is wrong with it in the judge's order. The judge
decides whether a plan is right; this shows the same of one page.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass

import numpy as np

from differential.compare.sibling import is_large
from kvwitness.trial import Judgement
from oracle.model.case import Case
from oracle.model.writes import Refusal, Writes
from oracle.truth import blocks
from oracle.truth.elements import Truth, truth_of
from oracle.truth.judge import Padding
from oracle.truth.reserved import FOREIGN, PADDING
from oracle.truth.runs import place_runs
from oracle.truth.stacks import FlatSide
from oracle.truth.verdict import Kind, Violation

LETTERS = {
    Kind.UNPAIRED_SENDER: "U",
    Kind.OUT_OF_BOUNDS: "O",
    Kind.STALE_SOURCE: "X",
    Kind.STRAY: "S",
    Kind.DUPLICATE: "D",
    Kind.WRONG_ELEMENT: "W",
    Kind.NOT_ELECTED: "E",
    Kind.MISSING: "M",
}
"""In the order in which the judge looks for them."""

DUE = "w"
"""On the sender's page: what should have come in place of a wrong element."""

ONLY_FIRST, ONLY_SECOND, OTHERWISE = "A", "B", "Z"
RIGHT, NOT_READ, NEED_NOT, NOTHING = "=", ".", "-", "_"

MEANINGS = {
    RIGHT: "right",
    **{letter: kind.value for kind, letter in LETTERS.items()},
    DUE: "due in place of a wrong element",
    ONLY_FIRST: "only the first of the two writes it",
    ONLY_SECOND: "only the second of the two writes it",
    OTHERWISE: "the two read it from different places",
    NEED_NOT: "may come and did not",
    NOT_READ: "not read for this page",
    NOTHING: "nothing lies or may come here",
}
WRONG = frozenset((*LETTERS.values(), ONLY_FIRST, ONLY_SECOND, OTHERWISE))


@dataclass(frozen=True, slots=True)
class Spot:
    """One byte: offset in its slot and in its pool, and its buffer with the offset in that."""

    side: str
    rank: int
    pool: int
    slot: int
    offset: int
    in_pool: int
    buffer: str

    def __str__(self) -> str:
        inside = self.buffer or "no buffer"
        return (
            f"{self.side} rank {self.rank}, pool {self.pool} slot {self.slot} +{self.offset},"
            f" byte {self.in_pool} of the pool, {inside}"
        )


@dataclass(frozen=True, slots=True)
class Page:
    """One slot of one pool of a rank, a letter for each byte. ``first``: offset of its first byte in the slot.

    Runs that leave the slot have letters beyond its end, at most ``MOST_BEYOND``.
    """

    side: str
    rank: int
    pool: int
    slot: int
    first: int
    letters: str
    regions: tuple[tuple[int, int, str], ...]
    """(offset in the slot, bytes, buffer) of what lies in it"""

    @property
    def name(self) -> str:
        return f"{self.side} rank {self.rank}, pool {self.pool} slot {self.slot}"


@dataclass(frozen=True, slots=True)
class Span:
    """Bytes in a row with one letter, in one buffer, read from bytes in a row.

    ``source``: where the first was read, or of a missing one where its sender holds it; None: nowhere.
    """

    letter: str
    nbytes: int
    place: Spot
    source: Spot | None


@dataclass(frozen=True, slots=True)
class ByteMap:
    """The receiver's page, the sender's page that its wrong bytes are mostly about, and the wrong bytes in spans."""

    receiver: Page
    sender: Page | None
    spans: tuple[Span, ...]


def map_violation(
    case: Case, plan: Writes | Refusal, violation: Violation, *, padding: Padding = "optional", paired: bool = True
) -> ByteMap | None:
    """The page of a violation; None where it has no place. ``paired``: whether who sends a byte is judged."""
    if violation.place is None or isinstance(plan, Refusal):
        return None
    truth = truth_of(case, padding)
    place = violation.place
    window = _Window(truth.generation, place.rank, place.pool, place.slot, place.offset)
    letters, sources = _judged(truth, plan, window, paired)
    beyond = min(MOST_BEYOND, _beyond(truth, plan, window))
    return _map(truth, window, letters + beyond * [LETTERS[Kind.OUT_OF_BOUNDS]], sources)


def map_difference(case: Case, first: Writes, second: Writes, *, padding: Padding = "optional") -> ByteMap | None:
    """The page of the first byte that two plans do not write alike; None where all bytes are alike."""
    truth = truth_of(case, padding)
    carried = [place_runs(truth, plan).expand() for plan in (first, second)]
    size = truth.context.size
    written = [np.unique(each.destination * size + each.source) for each in carried]
    unlike = np.setxor1d(*written, assume_unique=True)
    if not len(unlike):
        return None
    window = _Window.around(truth.generation, int(unlike[0]) // size)
    by_place: list[dict[int, set[int]]] = [{}, {}]
    for found, pairs in zip(by_place, written, strict=True):
        low, high = np.searchsorted(pairs, (window.low * size, window.high * size))
        for pair in pairs[low:high].tolist():
            address, source = divmod(pair, size)
            found.setdefault(address - window.low, set()).add(source)
    letters, sources = _untouched(truth, window, _wanted(truth, window, (first, second))), {}
    for at in sorted(by_place[0].keys() | by_place[1].keys()):
        one, two = (found.get(at, set()) for found in by_place)
        letters[at] = RIGHT if one == two else ONLY_FIRST if not two else ONLY_SECOND if not one else OTHERWISE
        sources[at] = min(one or two)
    return _map(truth, window, letters, sources)


def map_failure(judgement: Judgement, padding: Padding) -> ByteMap | str:
    """The page of what failed, or a sentence that says why there is none to show."""
    failure, verdict = judgement.failure, judgement.verdict
    assert failure is not None
    if is_large(judgement.case):
        return "not shown: memory is too large to name each byte"
    plans = judgement.result.plans
    if failure.stage == "comparison":
        both = [plans[name] for name in (failure.subject, failure.other)]
        one, two = (Writes(refusals=(plan,)) if isinstance(plan, Refusal) else plan for plan in both)
        return map_difference(judgement.case, one, two, padding=padding) or "the same: what differs is no byte"
    if failure.stage == "memory":
        return "not shown: the plan is right, and the engine left something else in memory"
    placed = [each for each in (verdict.violations if verdict is not None else ()) if each.place is not None]
    named = [each for each in placed if each.kind.value == failure.main_kind]
    if not placed:
        return "not shown: no byte is wrong by itself"
    found = map_violation(judgement.case, plans[failure.subject], (named or placed)[0], padding=padding)
    return found or "not shown: no byte is wrong by itself"


# ---- one page


MOST_BEYOND = 16
MOST = 4096
"""Bytes of a slot that are shown: the aligned part that the place in question lies in."""


class _Window:
    """The flat addresses of one slot; of a layer-major pool, of the slot in one layer's part."""

    def __init__(self, flat: FlatSide, rank: int, pool: int, slot: int, offset: int) -> None:
        self.flat, self.rank, self.pool, self.slot = flat, rank, pool, slot
        what = flat.side.tables[rank].pools[pool]
        within = offset % what.layer_stride if what.layer_stride else offset
        begin = within // MOST * MOST
        self.first = offset - within + begin
        self.in_pool = slot * what.slot_stride + self.first
        self.low = flat.starts[rank][pool] + self.in_pool
        self.high = self.low + min(MOST, what.slot_bytes - begin)
        end = self.first + self.high - self.low
        self.regions = sorted(
            (entry.offset, entry.nbytes, f"{entry.role} of layer {entry.layer}")
            for entry in flat.side.tables[rank].entries
            if entry.pool == pool and entry.offset < end and entry.offset + entry.nbytes > self.first
        )

    @classmethod
    def around(cls, flat: FlatSide, address: int) -> _Window:
        owner = int(np.searchsorted(np.array(flat.bounds), address, side="right")) - 1
        rank, pool = flat.owners[owner]
        inside = address - flat.bounds[owner]
        what = flat.side.tables[rank].pools[pool]
        layer, within = divmod(inside, what.layer_stride) if what.layer_stride else (0, inside)
        slot, offset = divmod(within, what.slot_stride)
        return cls(flat, rank, pool, slot, offset + layer * what.layer_stride)

    def page(self, letters: list[str]) -> Page:
        return Page(self.flat.name, self.rank, self.pool, self.slot, self.first, "".join(letters), tuple(self.regions))

    def region(self, offset: int) -> int:
        """Number of the region that an offset in the slot lies in; -1 for none."""
        for number, (start, size, _) in enumerate(self.regions):
            if start <= offset < start + size:
                return number
        return -1

    def spot(self, address: int) -> Spot:
        at = address - self.low
        offset = self.first + at
        number = self.region(offset)
        start, _, name = self.regions[number] if number >= 0 else (0, 0, "")
        buffer = f"{name} +{offset - start}" if name else ""
        return Spot(self.flat.name, self.rank, self.pool, self.slot, offset, self.in_pool + at, buffer)


def _wanted(truth: Truth, window: _Window, plans: Iterable[Writes]) -> np.ndarray:
    """Ids due on the page; nothing is due of a request that a plan refuses."""
    wanted = truth.due[window.low : window.high]
    refused = [refusal.request for plan in plans for refusal in plan.refusals if refusal.request is not None]
    return np.where(np.isin(truth.owner[window.low : window.high], refused), -1, wanted) if refused else wanted


def _untouched(truth: Truth, window: _Window, wanted: np.ndarray) -> list[str]:
    """What every byte of a receiver's page is before anything is written."""
    klass = truth.klass[window.low : window.high]
    return [
        NOTHING
        if due < 0
        else LETTERS[Kind.MISSING]
        if what == blocks.DUE
        else NEED_NOT
        if what == blocks.OPTIONAL
        else NOTHING
        for due, what in zip(wanted.tolist(), klass.tolist(), strict=True)
    ]


def _judged(truth: Truth, plan: Writes, window: _Window, paired: bool) -> tuple[list[str], dict[int, int]]:
    """(letters, address read by byte written): of several writes to a byte the first that is wrong counts."""
    wanted = _wanted(truth, window, (plan,))
    letters = _untouched(truth, window, wanted)
    sources: dict[int, int] = {}
    order = [*LETTERS.values(), RIGHT]
    carried = place_runs(truth, plan).expand()
    here = np.flatnonzero((carried.destination >= window.low) & (carried.destination < window.high))
    for at, source, number in zip(
        (carried.destination[here] - window.low).tolist(),
        carried.source[here].tolist(),
        carried.segment[here].tolist(),
        strict=True,
    ):
        segment = plan.segments[number]
        found, due = int(truth.source[source]), int(wanted[at])
        if segment.source_rank not in truth.heard[segment.request].get(window.rank, ()):
            letter = LETTERS[Kind.UNPAIRED_SENDER]
        elif found == FOREIGN:
            letter = LETTERS[Kind.STALE_SOURCE]
        elif due < 0:
            letter = LETTERS[Kind.STRAY]
        elif at in sources:
            letter = LETTERS[Kind.DUPLICATE]
        elif found != due:
            letter = LETTERS[Kind.WRONG_ELEMENT]
        elif paired and int(truth.elected[window.low + at]) != segment.source_rank:
            letter = LETTERS[Kind.NOT_ELECTED]
        else:
            letter = RIGHT
        if at not in sources or order.index(letter) < order.index(letters[at]):
            letters[at], sources[at] = letter, source
    return letters, sources


def _beyond(truth: Truth, plan: Writes, window: _Window) -> int:
    """Bytes of the longest run into this slot that lie beyond its end, or beyond that of the slot it is read from."""
    found = [0]
    for number, nbytes, in_pool in place_runs(truth, plan).outside:
        segment = plan.segments[number]
        here = (segment.destination_rank, segment.destination_pool) == (window.rank, window.pool)
        if here and window.in_pool <= in_pool < window.in_pool + window.high - window.low:
            found.append(nbytes)
    return max(found)


def _map(truth: Truth, window: _Window, letters: list[str], sources: dict[int, int]) -> ByteMap:
    """``sources``: address read by byte of the page; missing bytes are looked for on the rank that must send them."""
    asked = [at for at, letter in enumerate(letters) if letter in (LETTERS[Kind.MISSING], LETTERS[Kind.WRONG_ELEMENT])]
    held = _held_by_elected(truth, window, asked)
    read = sources | {at: where for at, where in held.items() if letters[at] == LETTERS[Kind.MISSING]}
    due = [where for at, where in held.items() if letters[at] == LETTERS[Kind.WRONG_ELEMENT]]
    sender = _sender_window(truth, letters, read)
    page = None
    if sender is not None:
        ids = truth.source[sender.low : sender.high].tolist()
        theirs = [NOTHING if held in (FOREIGN, PADDING) else NOT_READ for held in ids]
        for where in due:
            if sender.low <= where < sender.high:
                theirs[where - sender.low] = DUE
        for at, source in read.items():
            # A byte that is read twice shows what went wrong with it.
            if sender.low <= source < sender.high and (
                letters[at] in WRONG or theirs[source - sender.low] not in WRONG
            ):
                theirs[source - sender.low] = letters[at]
        page = sender.page(theirs)
    return ByteMap(window.page(letters), page, tuple(_spans(truth, window, letters, read)))


def _held_by_elected(truth: Truth, window: _Window, asked: list[int]) -> dict[int, int]:
    """Where the rank that must send it holds what is due, by byte of the page; nothing for what nobody must send."""
    found: dict[int, int] = {}
    starts = truth.context.starts
    ranks = truth.elected[[window.low + at for at in asked]].tolist() if asked else []
    for rank in set(ranks):
        if not (0 <= rank < len(starts) and starts[rank]):
            continue
        end = next((row[0] for row in starts[rank + 1 :] if row), truth.context.size)
        memory = truth.source[starts[rank][0] : end]
        mine = [at for at, whose in zip(asked, ranks, strict=True) if whose == rank]
        ids = truth.due[[window.low + at for at in mine]]
        where = np.flatnonzero(np.isin(memory, ids))[::-1]
        address = dict(zip(memory[where].tolist(), (starts[rank][0] + where).tolist(), strict=True))
        found |= {at: address[number] for at, number in zip(mine, ids.tolist(), strict=True) if number in address}
    return found


def _sender_window(truth: Truth, letters: list[str], read: dict[int, int]) -> _Window | None:
    """The sender's page that most of the wrong bytes, or else most bytes at all, come from."""
    wrong = [source for at, source in read.items() if letters[at] in WRONG] or list(read.values())
    windows: Counter[tuple[int, int]] = Counter()
    by_place: dict[tuple[int, int], _Window] = {}
    for source in wrong:
        known = next((key for key in by_place if key[0] <= source < key[1]), None)
        if known is None:
            window = _Window.around(truth.context, source)
            known = window.low, window.high
            by_place[known] = window
        windows[known] += 1
    return by_place[windows.most_common(1)[0][0]] if windows else None


def _spans(truth: Truth, window: _Window, letters: list[str], sources: dict[int, int]) -> list[Span]:
    found: list[Span] = []
    begin = 0
    while begin < len(letters):
        end = begin + 1
        if letters[begin] in WRONG:
            region = window.region(window.first + begin)
            while (
                end < len(letters)
                and letters[end] == letters[begin]
                and window.region(window.first + end) == region
                and sources.get(end, -1) == (sources[begin] + end - begin if begin in sources else -1)
            ):
                end += 1
            source = sources.get(begin)
            read = None if source is None else _Window.around(truth.context, source).spot(source)
            found.append(Span(letters[begin], end - begin, window.spot(window.low + begin), read))
        begin = end
    return found
