"""Checking a transfer on memory that another allocator made.

Memory is filled with the identity of each byte, somebody's own transfer runs, and what landed is
judged byte by byte. An identity is longer than a byte, so it is written as digits and the transfer
runs once for each of them, mostly two to four times.

``memories`` says where the bytes are: ``{"context": ranks, "generation": ranks}``. ``ranks`` is a
list by rank, or a mapping from rank numbers. A rank is a list of its pools, in the order of its page
table, or a mapping from (layer, role) to an array whose first axis counts the slots of the pool and
which holds the role's bytes of a slot in order. A pool or an array is a PyTorch tensor of any
strides, element type and device, a NumPy array, a writable buffer, or (pointer, bytes, device).
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from typing import Any

from differential.engines.memory.foreign import Piece, adopt
from differential.engines.memory.passes import Landed, fill, judge_passes, read, require_plane
from differential.engines.memory.planes import planes_of
from differential.engines.memory.room import pool_bytes, require_host_room
from oracle.model.case import SIDES, Case
from oracle.model.errors import InvalidCase
from oracle.model.sides import lay_out
from oracle.model.writes import Refusal, Writes
from oracle.truth.judge import Election, Padding, check_options
from oracle.truth.verdict import Verdict


def check_memory(
    case: Case,
    memories: Any,
    transfer: Callable[[], object] | None = None,
    *,
    writes: Writes | Refusal | None = None,
    guard: int = 0,
    padding: Padding = "optional",
    election: Election = "paired",
) -> Verdict:
    """Fill ``memories``, run ``transfer`` once for each plane, and judge what it left in them.

    ``transfer`` takes no arguments and returns when all bytes have landed; what it raises is passed
    on. ``writes``: the plan that it follows, if it is known: the verdict then also tells whether the
    plan is wrong or was carried out wrongly. ``guard``: bytes before and after each pool, up to 64,
    that are part of the given memory and must not change. ``padding`` and ``election`` as in
    ``check``; memory does not show who sent a byte, so election only names the sender.

    Without ``transfer``, memory that ``fill_memory`` filled is judged as it stands; that needs a case
    of one plane.

    Raises ``InvalidCase`` where memory does not suit the case, naming side, rank and pool and the
    bytes expected, and ``EngineUnavailable`` where a device does not exist or memory is too small.

    >>> from kvwitness import deployment
    >>> case = deployment("llama-3-70b", "tp=8", "tp=8", prompt=1, tokens_per_block=1, element_bits=8)
    >>> sides = ("context", "generation")
    >>> memories = {side: [[bytearray(extent) for extent in rank] for rank in pool_sizes(case, side)] for side in sides}
    >>> def transfer():
    ...     for source, destination in zip(memories["context"], memories["generation"], strict=True):
    ...         destination[0][:] = source[0]
    >>> sorted(kind.value for kind in check_memory(case, memories, transfer).kinds)
    ['stale source', 'stray']
    """
    check_options(padding, election)
    if transfer is None:
        count = plane_count(case)
        if count > 1:
            raise InvalidCase("transfer", None, f"this case has {count} planes: give the transfer, or use planes")
        landed = [read_memory(case, memories, guard=guard)]
        return judge_passes(case, landed, writes, padding=padding, election=election)
    passes = planes(case, memories, guard=guard)
    for _ in passes:
        transfer()
    return passes.verdict(writes, padding=padding, election=election)


def planes(case: Case, memories: Any, *, guard: int = 0) -> Passes:
    """The passes of a check, for a loop around one's own transfer; arguments and errors as in ``check_memory``.

    ::

        passes = planes(case, memories)
        for plane in passes:
            run_the_transfer()
        assert passes.verdict()
    """
    return Passes(case, memories, guard)


class Passes:
    """Yields the planes of a case in turn: memory is filled before each and read after it."""

    def __init__(self, case: Case, memories: Any, guard: int = 0) -> None:
        self.case = case
        self.guard = guard
        self.pieces = _adopted(case, memories, guard)
        _require_all(case, self.pieces)
        self.landed: list[Landed] = []

    def __len__(self) -> int:
        return plane_count(self.case)

    def __iter__(self) -> Iterator[int]:
        known = planes_of(self.case)
        self.landed = []
        for plane in range(known.passes):
            fill(known, self.pieces, plane, self.guard)
            yield plane
            self.landed.append(read(self.pieces, plane, self.guard))

    def verdict(
        self,
        writes: Writes | Refusal | None = None,
        *,
        padding: Padding = "optional",
        election: Election = "paired",
    ) -> Verdict:
        """What landed, judged as ``check_memory`` does; not run where the loop did not come to its end."""
        return judge_passes(self.case, self.landed, writes, padding=padding, election=election)


def plane_count(case: Case) -> int:
    """How often a transfer of ``case`` must run before each landed byte has shown its whole identity."""
    require_host_room(pool_bytes(case))
    return planes_of(case).passes


def fill_memory(case: Case, memories: Any, plane: int = 0, *, guard: int = 0) -> None:
    """Prepare ``memories`` for one pass: identities on the source, nothing on the destination.

    Ranks may be left out, so that each process of a distributed test fills what it owns; planes are
    those of ``range(plane_count(case))``. Errors as in ``check_memory``.
    """
    pieces = _adopted(case, memories, guard)
    known = planes_of(case)
    require_plane(known, plane)
    fill(known, pieces, plane, guard)


def read_memory(case: Case, memories: Any, plane: int = 0, *, guard: int = 0) -> Landed:
    """What ``memories`` hold after the pass of ``plane``; ranks may be left out. It can be pickled."""
    pieces = _adopted(case, memories, guard)
    require_plane(planes_of(case), plane)
    return read(pieces, plane, guard)


def check_landed(
    case: Case,
    landed: Iterable[Landed],
    writes: Writes | Refusal | None = None,
    *,
    padding: Padding = "optional",
    election: Election = "paired",
) -> Verdict:
    """Judge what ``read_memory`` read in all passes, from however many processes, as ``check_memory`` does.

    Not run where a plane or a receiving rank is missing. Sources that were read too must be unchanged.
    """
    require_host_room(pool_bytes(case))
    return judge_passes(case, landed, writes, padding=padding, election=election)


def pool_sizes(case: Case, side: str) -> list[list[int]]:
    """Bytes of each pool, by rank, of ``side`` (``context`` or ``generation``)."""
    if side not in SIDES:
        raise InvalidCase("side", side, f"expected {' or '.join(SIDES)}")
    return [[table.pool_extent(pool) for pool in range(len(table.pools))] for table in lay_out(case, side).tables]


def _adopted(case: Case, memories: Any, guard: int) -> list[Piece]:
    require_host_room(pool_bytes(case))
    return adopt(case, memories, guard=guard)


def _require_all(case: Case, pieces: list[Piece]) -> None:
    """A transfer reads all senders and may write to all receivers."""
    given = {(piece.side, piece.rank) for piece in pieces}
    for side in SIDES:
        for rank, sizes in enumerate(pool_sizes(case, side)):
            if sizes and (side, rank) not in given:
                raise InvalidCase(
                    f"memories.{side}", f"no memory of rank {rank}", f"expected its {len(sizes)} pools: {sizes} B"
                )
