"""A plan as data: who pairs with whom, what is refused, and which byte runs are written."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import field

import numpy as np

from oracle.model.errors import InvalidCase
from oracle.model.records import frozen


@frozen()
class Refusal:
    """A right or wrong "no": of one request, or of the pair of instances (``request`` None)."""

    code: str
    reason: str
    request: int | None = None

    def __str__(self) -> str:
        whose = "the instances" if self.request is None else f"request {self.request}"
        return f"{whose}: {self.code} ({self.reason})"


@frozen(order=True)
class Pair:
    """A source rank that a destination rank hears from for a request, also when it carries no byte.

    ``seen_by`` is ``both``, or ``sender`` or ``receiver`` where only that side counts on the other.
    """

    request: int
    source: int
    destination: int
    seen_by: str = "both"


WHOLE = np.dtype(np.int64)


@frozen(eq=False)
class Segment:
    """All runs between one pool of a source rank and one pool of a destination rank for one request and group.

    ``source_bases`` and ``destination_bases`` (int64, n) are slot starts in bytes from the pool's
    start, pairwise; ``runs`` (int64, m x 3) are (source offset, destination offset, bytes) inside
    the slot. The segment writes every run for every slot: n*m runs.
    """

    request: int
    chunk: int
    group: int
    source_rank: int
    destination_rank: int
    source_pool: int
    destination_pool: int
    source_bases: np.ndarray
    destination_bases: np.ndarray
    runs: np.ndarray

    def __post_init__(self) -> None:
        if self.source_bases.shape != self.destination_bases.shape or self.source_bases.ndim != 1:
            raise InvalidCase("segment.bases", self.source_bases.shape, "expected two vectors of one length")
        if self.runs.ndim != 2 or self.runs.shape[1] != 3:
            raise InvalidCase("segment.runs", self.runs.shape, "expected (runs, 3): source, destination, bytes")
        if self.source_bases.dtype is self.destination_bases.dtype is self.runs.dtype is WHOLE:
            return
        for name in ("source_bases", "destination_bases", "runs"):
            vector = getattr(self, name)
            if vector.dtype.kind not in "iu" and vector.size:
                raise InvalidCase(f"segment.{name}", str(vector.dtype), "expected vectors of whole numbers")
            object.__setattr__(self, name, vector.astype(np.int64))

    @property
    def run_count(self) -> int:
        return len(self.source_bases) * len(self.runs)

    @property
    def nbytes(self) -> int:
        return len(self.source_bases) * int(self.runs[:, 2].sum())


COLUMNS = (
    "request",
    "chunk",
    "group",
    "src_rank",
    "dst_rank",
    "src_pool",
    "dst_pool",
    "src_offset",
    "dst_offset",
    "nbytes",
)


@frozen(eq=False)
class Writes:
    """What a subject would write for a case."""

    pairs: tuple[Pair, ...] = ()
    segments: tuple[Segment, ...] = ()
    refusals: tuple[Refusal, ...] = ()
    notes: tuple[str, ...] = field(default=())

    @property
    def run_count(self) -> int:
        return sum([len(segment.source_bases) * len(segment.runs) for segment in self.segments])

    @property
    def nbytes(self) -> int:
        return sum(segment.nbytes for segment in self.segments)

    def columns(self) -> dict[str, np.ndarray]:
        """One row a run, in plan order (segment, run, slot), as int64 columns named ``COLUMNS``.

        Offsets count from the start of the pool. Made on demand: a big plan has many rows.
        """
        rows: dict[str, list[np.ndarray]] = {name: [] for name in COLUMNS}
        for segment in self.segments:
            slots, runs = len(segment.source_bases), len(segment.runs)
            fixed = (
                segment.request,
                segment.chunk,
                segment.group,
                segment.source_rank,
                segment.destination_rank,
                segment.source_pool,
                segment.destination_pool,
            )
            for name, value in zip(COLUMNS[: len(fixed)], fixed, strict=True):
                rows[name].append(np.full(slots * runs, value, dtype=np.int64))
            rows["src_offset"].append(np.add.outer(segment.runs[:, 0], segment.source_bases).ravel())
            rows["dst_offset"].append(np.add.outer(segment.runs[:, 1], segment.destination_bases).ravel())
            rows["nbytes"].append(np.repeat(segment.runs[:, 2], slots))
        return {name: np.concatenate(parts) if parts else np.zeros(0, dtype=np.int64) for name, parts in rows.items()}

    @classmethod
    def from_runs(cls, rows: Iterable[tuple[int, ...]], *, pairs: Iterable[Pair] = (), **others: object) -> Writes:
        """A plan from recorded runs, one row of ``COLUMNS`` each, offsets from the start of the pool."""
        segments = []
        for number, row in enumerate(rows):
            values = tuple(row)
            if len(values) != len(COLUMNS):
                raise InvalidCase(f"rows[{number}]", values, f"expected the columns {', '.join(COLUMNS)}")
            for column, value in zip(COLUMNS, values, strict=True):
                if isinstance(value, bool) or not isinstance(value, (int, np.integer)):
                    raise InvalidCase(f"rows[{number}].{column}", value, "expected a whole number")
            request, chunk, group, src, dst, src_pool, dst_pool, src_offset, dst_offset, nbytes = map(int, values)
            segments.append(
                Segment(
                    request,
                    chunk,
                    group,
                    src,
                    dst,
                    src_pool,
                    dst_pool,
                    np.array([0], dtype=np.int64),
                    np.array([0], dtype=np.int64),
                    np.array([[src_offset, dst_offset, nbytes]], dtype=np.int64),
                )
            )
        return cls(tuple(pairs), tuple(segments), **others)  # type: ignore[arg-type]


FARTHEST = 1 << 48
"""bytes: no offset or run of a plan reaches so far"""


def check_plan(writes: Writes, requests: int, groups: int) -> None:
    """Raise ``InvalidCase`` for what no plan can say: a request or group that the case does not have, ranks that are
    no whole numbers, and runs below 0 bytes or beyond any memory."""
    _check_requests("pairs", writes.pairs, requests)
    _check_requests("segments", writes.segments, requests)
    for refusal in writes.refusals:
        if refusal.request is not None and not 0 <= refusal.request < requests:
            raise InvalidCase("refusals.request", refusal.request, f"the case has requests 0..{requests - 1}")
    vectors: dict[int, np.ndarray] = {}
    for index, segment in enumerate(writes.segments):
        group = segment.group
        if type(group) is not int or not 0 <= group < groups:
            raise InvalidCase(f"segments[{index}].group", group, f"the case has groups 0..{groups - 1}")
        places = segment.source_rank, segment.destination_rank, segment.source_pool, segment.destination_pool
        for place in places:
            if type(place) is not int:
                raise InvalidCase(f"segments[{index}]", place, "ranks and pools are whole numbers")
        # Segments share most of their vectors.
        runs, bases, own_bases = segment.runs, segment.source_bases, segment.destination_bases
        vectors[id(runs)], vectors[id(bases)], vectors[id(own_bases)] = runs, bases, own_bases
    if not vectors:
        return
    whole = np.concatenate(list(vectors.values()), axis=None)
    # What is below 0 is far beyond any memory when it is read without its sign.
    if whole.size and np.maximum.reduce(whole.view(np.uint64)) >= FARTHEST:
        _check_bytes(writes)


def _check_requests(name: str, rows: Sequence[Pair | Segment], requests: int) -> None:
    for index, row in enumerate(rows):
        request = row.request
        if type(request) is not int or not 0 <= request < requests:
            raise InvalidCase(f"{name}[{index}].request", request, f"the case has requests 0..{requests - 1}")


def _check_bytes(writes: Writes) -> None:
    for name in ("source_bases", "destination_bases", "runs"):
        for segment in writes.segments:
            vector = getattr(segment, name)
            if not vector.size:
                continue
            most, least = int(vector.max()), int(vector.min())
            if most >= FARTHEST or least <= -FARTHEST:
                far = most if most >= FARTHEST else least
                raise InvalidCase(f"segments.{name}", far, "expected bytes within 2**48")
            if name == "runs" and least < 0 and int(vector[:, 2].min()) < 0:
                raise InvalidCase("segments.runs", int(vector[:, 2].min()), "expected runs of at least 0 bytes")
