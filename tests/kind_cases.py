"""Cases of one cache kind and what their packed slots look like, for the tests of kinds."""

from __future__ import annotations

from functools import lru_cache
from random import Random

from oracle.model.case import SIDES, Case
from oracle.model.pages import PageTable
from oracle.model.sides import lay_out
from strategies.cases import decode
from strategies.deployments import deployment
from strategies.kinds import find_kind
from strategies.kinds.protocol import Surroundings
from strategies.numbers import WIDTH
from strategies.topologies import TENSOR_SIZES


@lru_cache(maxsize=8)
def drawn(kind: str, count: int = 300, seed: int = 1) -> tuple[Case, ...]:
    """The cases of ``count`` pseudo-random byte strings, the same ones on every run."""
    random = Random(seed)
    return tuple(decode(random.randbytes(WIDTH), kinds=[find_kind(kind)]) for _ in range(count))


def deployed(model: str, *, element_bits: int | None = None, **side: object) -> tuple[PageTable, ...]:
    """The page tables by rank of a published model that is split as ``side`` says, at the model's own block length."""
    case = deployment(model, side, side, prompt=1, element_bits=element_bits)
    return lay_out(case, "context").tables


def pools_of(table: PageTable, group: int = 0) -> list[tuple[int, int]]:
    """(slot bytes, members) of the pools of a group, in order."""
    members = [entry.pool for entry in table.entries if entry.group == group]
    return [(table.pools[pool].slot_bytes, members.count(pool)) for pool in sorted(set(members))]


def roles_of(table: PageTable, group: int = 0) -> list[set[str]]:
    """The roles in the pools of a group, in order."""
    entries = [entry for entry in table.entries if entry.group == group]
    return [{entry.role for entry in entries if entry.pool == pool} for pool in sorted({e.pool for e in entries})]


def share_a_pool(table: PageTable, *roles: str) -> bool | None:
    """Whether buffers of all ``roles`` stand in one pool; None if the rank does not hold them all."""
    pools = [{entry.pool for entry in table.entries if entry.role == role} for role in roles]
    return bool(set.intersection(*pools)) if all(pools) else None


def is_coalesced(case: Case, side: str, *roles: str) -> bool | None:
    """Whether ``side``, packed by size alone, has buffers of ``roles`` in one pool; None if packed otherwise."""
    if case.side(side).packing:
        return None
    found = [share_a_pool(table, *roles) for table in lay_out(case, side).tables]
    return next((answer for answer in found if answer is not None), None)


def build_samples(name: str, count: int, seed: int = 1) -> None:
    """Declare ``count`` small models of a kind from pseudo-random numbers; raises as the kind does."""
    kind, random = find_kind(name), Random(seed)
    shares = TENSOR_SIZES
    for _ in range(count):
        tensor = random.choice(shares), random.choice(shares)
        whole = tuple(size * random.choice((1, 2)) for size in tensor)
        block = random.choice(kind.tokens_per_block)
        around = Surroundings(random.randint(*kind.layers), tensor, whole, block, random.randint(1, 6 * block))  # type: ignore[arg-type]
        numbers = tuple(random.randrange(bound) for bound in kind.bounds)
        declaration = kind.decode(numbers, around)
        assert declaration.model.layers == around.layers + declaration.extra
        assert kind.decode(numbers, around) == declaration


def bytes_by_rank(case: Case) -> int:
    """The most bytes of one slot of every group that a rank of either side holds."""
    return max(sum(entry.nbytes for entry in table.entries) for side in SIDES for table in lay_out(case, side).tables)
