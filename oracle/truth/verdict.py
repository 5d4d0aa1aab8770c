"""Verdicts and violations: what the judge says of a plan."""

from __future__ import annotations

from dataclasses import field
from enum import Enum

from oracle.model.records import frozen
from oracle.model.writes import Refusal


class Outcome(Enum):
    PASS = "pass"
    FAIL = "fail"
    NOT_RUN = "not run"


class Kind(Enum):
    """The kinds of violation, in the order in which the judge looks for them."""

    UNPAIRED_SENDER = "unpaired sender"
    OUT_OF_BOUNDS = "out of bounds"
    STALE_SOURCE = "stale source"
    STRAY = "stray"
    DUPLICATE = "duplicate"
    WRONG_ELEMENT = "wrong element"
    TORN = "torn"
    NOT_ELECTED = "not elected"
    MISSING = "missing"
    FALSE_REFUSAL = "false refusal"


@frozen()
class Element:
    """The global identity of one byte: ``indices`` are (axis, global index) pairs, ``byte`` the byte in the element."""

    content: int
    group: int
    layer: int
    role: str
    ordinal: int
    indices: tuple[tuple[str, int], ...]
    byte: int
    token: int | None = None
    private_to: int | None = None
    """request that owns the row, where it lies past the prompt or is state"""
    part: int = 0
    """which of the buffer's parts, where it has several"""
    beam: int = 0
    """which beam's own row it is, where a beam search has several"""


@frozen()
class Place:
    """Where a byte lies on a rank: pool, slot, byte offset in the slot, and byte offset in the buffer's region."""

    rank: int
    pool: int
    slot: int
    offset: int
    in_buffer: int | None = None


@frozen()
class Violation:
    """Bytes of one kind of trouble in one (destination rank, group, layer, role, block); the first byte in detail.

    ``nbytes`` counts them all. ``due`` is the element due at ``place``, ``found`` what came (None:
    no element, ``found_note`` says what). ``paired`` are the source ranks the destination hears
    from, ``holders`` those of them that hold the due element, ``elected`` the one that must send it.
    """

    kind: Kind
    nbytes: int
    request: int | None = None
    source: int | None = None
    destination: int | None = None
    group: int | None = None
    layer: int | None = None
    role: str | None = None
    ordinal: int | None = None
    place: Place | None = None
    due: Element | None = None
    found: Element | None = None
    found_note: str = ""
    paired: tuple[int, ...] = ()
    holders: tuple[int, ...] = ()
    elected: int | None = None
    refusal: Refusal | None = None
    note: str = ""
    read: Place | None = None
    """where on the sender the first byte was read"""


@frozen()
class Verdict:
    """``counts``: bytes by violation kind (refusals count 1 each). ``nbytes``: bytes judged. ``runs``: the plan's."""

    outcome: Outcome
    violations: tuple[Violation, ...] = ()
    counts: dict[Kind, int] = field(default_factory=dict)
    nbytes: int = 0
    runs: int = 0
    pairs: int = 0
    reason: str = ""
    refusals: tuple[Refusal, ...] = ()

    @property
    def kinds(self) -> frozenset[Kind]:
        return frozenset(self.counts)

    def __bool__(self) -> bool:
        return self.outcome is Outcome.PASS
