"""How much memory carrying a case takes, and whether it is there."""

from __future__ import annotations

from differential.engines.host import free_host_bytes
from differential.engines.protocol import Engine, EngineUnavailable, has_own_memory
from oracle.model.case import SIDES, Case
from oracle.model.sides import lay_out

HOST_BYTES = 64
"""Host memory for each byte of both sides' pools: identities, their digits, and words of what landed (54 measured)."""


def pool_bytes(case: Case) -> int:
    """Bytes of all pools of both sides."""
    tables = [table for side in SIDES for table in lay_out(case, side).tables]
    return sum([table.pool_extent(pool) for table in tables for pool in range(len(table.pools))])


def require_room(case: Case, engine: Engine) -> None:
    """Raise ``EngineUnavailable`` where ``engine`` or the host has too little memory to carry ``case``."""
    pools = pool_bytes(case)
    require_host_room(pools)
    if has_own_memory(engine):
        free = engine.free_bytes()
        if pools > free:
            raise EngineUnavailable(
                "memory", _in_words(pools), f"{engine!r} has {_in_words(free)} free for the pools of both sides"
            )


def require_host_room(pools: int) -> None:
    """Raise ``EngineUnavailable`` where the host cannot name each of so many bytes of pools."""
    needed = HOST_BYTES * pools
    if needed < 1 << 28:
        return
    free = free_host_bytes()
    if needed > free:
        raise EngineUnavailable(
            "memory",
            _in_words(pools),
            f"naming each byte of such pools takes {_in_words(needed)} of the host, which has {_in_words(free)} free",
        )


def _in_words(nbytes: int) -> str:
    for unit, size in (("GiB", 1 << 30), ("MiB", 1 << 20), ("KiB", 1 << 10)):
        if nbytes >= size:
            return f"{nbytes / size:.1f} {unit}"
    return f"{nbytes} B"
