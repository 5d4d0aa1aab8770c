"""The default engine: a plain copy loop over host memory, one memoryview slice a run."""

from __future__ import annotations

import os

from differential.engines.protocol import Memories
from oracle.model.errors import InvalidCase
from oracle.model.writes import Writes

LEAST_FREE = 1 << 30
"""Bytes taken to be free where the system does not say."""


class HostEngine:
    """Copies run by run. Slow and plain on purpose: it is what the other engines are compared with."""

    __slots__ = ()
    name = "host"

    def available(self) -> str | None:
        return None

    def carry(self, writes: Writes, source: Memories, destination: Memories) -> None:
        for segment in writes.segments:
            read = memoryview(source[segment.source_rank][segment.source_pool])
            written = memoryview(destination[segment.destination_rank][segment.destination_pool])
            slots = list(zip(segment.source_bases.tolist(), segment.destination_bases.tolist(), strict=True))
            for from_offset, to_offset, nbytes in segment.runs.tolist():
                for from_base, to_base in slots:
                    start, end = from_base + from_offset, to_base + to_offset
                    written[end : end + nbytes] = read[start : start + nbytes]

    def __repr__(self) -> str:
        return "the host engine"


def make(device: str) -> HostEngine:
    """The engine on ``device``, which can only be ``cpu``."""
    if device != "cpu":
        raise InvalidCase("device", device, "the host engine copies on the cpu")
    return HostEngine()


def free_host_bytes() -> int:
    """Bytes of the host's memory that are free without swapping, within the limit of the process's control group."""
    found = []
    try:
        with open("/proc/meminfo", encoding="ascii") as lines:
            found += [int(line.split()[1]) * 1024 for line in lines if line.startswith("MemAvailable:")]
    except (OSError, ValueError):
        pass
    try:
        with open("/sys/fs/cgroup/memory.max", encoding="ascii") as limit:
            most = limit.read().strip()
        with open("/sys/fs/cgroup/memory.current", encoding="ascii") as current:
            if most != "max":
                found.append(max(0, int(most) - int(current.read())))
    except (OSError, ValueError):
        pass
    if not found:
        try:
            found.append(os.sysconf("SC_AVPHYS_PAGES") * os.sysconf("SC_PAGE_SIZE"))
        except (OSError, ValueError, AttributeError):
            return LEAST_FREE
    return min(found)
