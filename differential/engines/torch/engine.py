"""Carrying a plan out with PyTorch: runs of one alignment go in one gather and one scatter."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np

from differential.engines.host import free_host_bytes
from differential.engines.protocol import EngineUnavailable, Memories
from differential.engines.runs import Runs, are_disjoint, expand, in_pieces, runs_of
from oracle.model.errors import InvalidCase
from oracle.model.writes import Segment, Writes

UNITS = (4096, 512, 64, 16, 8, 4, 2, 1)
"""Bytes moved by one index, largest first: a run moves in the largest that divides its length and both addresses."""

PIECE = 32 << 20
"""Bytes taken for what is gathered at a time and for its indices, which are 16 bytes a unit."""

WORKING = 2 * PIECE
"""Bytes of the device that carrying takes besides the memories of both sides."""

LONG = {"cpu": 16 << 10}
"""From this length on a run is copied by itself; elsewhere from ``LONG_ELSEWHERE`` on, where a copy is a launch."""
LONG_ELSEWHERE = 1 << 20


class TorchEngine:
    """Copies on ``device``, many runs at a time; ``plain``: run by run in plan order, as the host engine does.

    Where runs write one byte twice, order matters and the plain way is taken anyhow.
    """

    __slots__ = ("device", "plain")
    name = "torch"

    def __init__(self, device: str = "cpu", *, plain: bool = False) -> None:
        self.device = device
        self.plain = plain

    def available(self) -> str | None:
        try:
            torch = _torch()
        except ImportError as error:
            return f"PyTorch cannot be imported ({error}); pip install 'kvwitness[torch]' installs it"
        kind, _, number = self.device.partition(":")
        if kind == "meta":
            return "the device meta has no memory"
        if kind == "cuda":
            if not torch.cuda.is_available():
                return f"the device {self.device} does not exist: torch {torch.__version__} sees no CUDA device"
            count = torch.cuda.device_count()
            if number and int(number) >= count:
                return f"the device {self.device} does not exist: torch sees cuda:0 to cuda:{count - 1}"
        try:
            torch.empty(1, dtype=torch.uint8, device=self.device)
        except (RuntimeError, AssertionError, NotImplementedError) as error:
            return f"the device {self.device} cannot be used: {str(error).splitlines()[0]}"
        return None

    # ---- memory of its own

    def free_bytes(self) -> int:
        """Bytes that can be allocated now, less what carrying takes; on a device, those that torch keeps unused too."""
        if self.device.startswith("cuda"):
            torch = _torch()
            free, _ = torch.cuda.mem_get_info(self.device)
            free += torch.cuda.memory_reserved(self.device) - torch.cuda.memory_allocated(self.device)
        else:
            free = free_host_bytes()
        return free - min(WORKING, free // 2)  # small plans take less

    def allocate(self, nbytes: int) -> Any:
        torch = _torch()
        try:
            return torch.empty(nbytes, dtype=torch.uint8, device=self.device)
        except RuntimeError as error:  # torch.OutOfMemoryError is one
            raise EngineUnavailable(
                "memory", f"{nbytes:,} B on {self.device}", str(error).splitlines()[0].rstrip(".")
            ) from None

    def view(self, memory: Any, start: int, end: int) -> Any:
        return memory[start:end]

    def write(self, memory: Any, values: np.ndarray) -> None:
        memory.copy_(_torch().from_numpy(values))

    def read(self, memory: Any) -> np.ndarray:
        return memory.cpu().numpy()

    # ---- carrying

    def carry(self, writes: Writes, source: Memories, destination: Memories) -> None:
        """Carry ``writes`` out on tensors of this device; buffers of the host are taken on the cpu."""
        adopted: dict[int, Any] = {}
        groups: dict[tuple[int, int], list[tuple[Segment, Any, Any]]] = {}
        for segment in writes.segments:
            read = self._tensor(source[segment.source_rank][segment.source_pool], adopted)
            written = self._tensor(destination[segment.destination_rank][segment.destination_pool], adopted)
            storages = _storage(read), _storage(written)
            groups.setdefault(storages, []).append((segment, read, written))
        # Order matters only between runs that write the same memory.
        by_destination: dict[int, list[Runs]] = {}
        work: list[tuple[Any, Any, Runs]] = []
        for (_, whereto), members in groups.items():
            runs = runs_of(
                [segment for segment, _, _ in members],
                [read.storage_offset() for _, read, _ in members],
                [written.storage_offset() for _, _, written in members],
            )
            by_destination.setdefault(whereto, []).append(runs)
            work.append((_whole(members[0][1]), _whole(members[0][2]), runs))
        ordered = self.plain or not all(
            are_disjoint(*(np.concatenate(column) for column in list(zip(*runs, strict=True))[1:]))
            for runs in by_destination.values()
        )
        if ordered:
            self._carry_in_order(writes, source, destination, adopted)
        else:
            for read, written, runs in work:
                self._carry_together(read, written, runs)
        if not self.device.startswith("cpu"):
            _torch().accelerator.synchronize(self.device)

    def _carry_in_order(self, writes: Writes, source: Memories, destination: Memories, adopted: dict[int, Any]) -> None:
        for segment in writes.segments:
            read = self._tensor(source[segment.source_rank][segment.source_pool], adopted)
            written = self._tensor(destination[segment.destination_rank][segment.destination_pool], adopted)
            _copy_each(read, written, runs_of([segment], [0], [0]))

    def _carry_together(self, read: Any, written: Any, runs: Runs) -> None:
        """``read`` and ``written``: whole storages; ``runs`` counts from their starts and shares no written byte."""
        torch = _torch()
        long = runs.nbytes >= LONG.get(self.device.partition(":")[0], LONG_ELSEWHERE)
        if long.any():
            _copy_each(read, written, runs.chosen(long))
            runs = runs.chosen(~long)
        for unit, chosen in _by_unit(runs):
            rows, places = _in_units(read, unit), _in_units(written, unit)
            for piece in in_pieces(chosen, max(unit, PIECE // (1 + 16 // unit) // unit * unit)):
                counts = piece.nbytes // unit
                from_rows = torch.from_numpy(expand(piece.source // unit, counts)).to(self.device)
                to_rows = torch.from_numpy(expand(piece.destination // unit, counts)).to(self.device)
                places.index_copy_(0, to_rows, rows.index_select(0, from_rows))

    def _tensor(self, memory: Any, adopted: dict[int, Any]) -> Any:
        """``memory`` as a tensor of bytes; a buffer of the host is shared, not copied."""
        torch = _torch()
        if isinstance(memory, torch.Tensor):
            return memory
        known = adopted.get(id(memory))
        if known is None:
            if not self.device.startswith("cpu"):
                raise InvalidCase("memory", type(memory).__name__, f"the torch engine on {self.device} takes tensors")
            known = adopted[id(memory)] = torch.from_numpy(np.frombuffer(memory, dtype=np.uint8))
        return known

    def __repr__(self) -> str:
        return f"the torch engine on {self.device}"


def _torch() -> Any:
    import torch

    return torch


def _storage(tensor: Any) -> int:
    return tensor.untyped_storage().data_ptr()


def _whole(tensor: Any) -> Any:
    """All bytes of the storage that a tensor of bytes lies in."""
    return tensor.as_strided((tensor.untyped_storage().nbytes(),), (1,), 0)


def _copy_each(read: Any, written: Any, runs: Runs) -> None:
    for start, end, nbytes in zip(*(column.tolist() for column in runs), strict=True):
        written[end : end + nbytes].copy_(read[start : start + nbytes])


def _by_unit(runs: Runs) -> Iterator[tuple[int, Runs]]:
    """(unit, the runs that it suits), each run once."""
    together = runs.source | runs.destination | runs.nbytes
    left = np.ones(len(together), dtype=bool)
    for unit in UNITS:
        suits = left & (together % unit == 0)
        if suits.any():
            yield unit, runs.chosen(suits)
            left &= ~suits


def _in_units(memory: Any, unit: int) -> Any:
    """``memory`` in rows of ``unit`` bytes, as wider elements where there are such."""
    torch = _torch()
    whole = memory[: len(memory) // unit * unit]
    wide = {1: torch.uint8, 2: torch.int16, 4: torch.int32, 8: torch.int64}.get(unit)
    if wide is not None:
        return whole.view(wide)
    return whole.view(torch.int64).view(-1, unit // 8)
