"""A page table places the buffers of a rank without overlap inside their slots."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from oracle.model.pages import Entry, PageTable, Pool
from tests.declared import assert_impossible

WHOLE = "expected a whole number of at least"
POOL = Pool(slot_bytes=16, count=4)
STACKED = Pool(slot_bytes=8, count=4, layer_stride=32)
"""Layer-major: the slots of one layer take 32 bytes."""


def entry(
    layer: int = 0, role: str = "key", offset: int = 0, nbytes: int = 8, *, group: int = 0, pool: int = 0
) -> Entry:
    return Entry(group, pool, layer, role, offset, nbytes)


IMPOSSIBLE: list[tuple[Callable[[], object], str, object, str]] = [
    (lambda: Pool(0, 1), "pool.slot_bytes", 0, f"{WHOLE} 1"),
    (lambda: Pool(-8, 1), "pool.slot_bytes", -8, f"{WHOLE} 1"),
    (lambda: Pool(8, 0), "pool.count", 0, f"{WHOLE} 1"),
    (lambda: Pool(8, 1, slot_stride=-8), "pool.slot_stride", -8, f"{WHOLE} 0"),
    (lambda: Pool(8, 1, slot_stride=7), "pool.slot_stride", 7, "expected at least slot_bytes, 8"),
    (lambda: Pool(8, 1, layer_stride=-1), "pool.layer_stride", -1, f"{WHOLE} 0"),
    (lambda: Pool(8, 1, pool_group=-1), "pool.pool_group", -1, f"{WHOLE} 0"),
    (lambda: entry(group=-1), "entry.group", -1, f"{WHOLE} 0"),
    (lambda: entry(pool=-1), "entry.pool", -1, f"{WHOLE} 0"),
    (lambda: entry(-1), "entry.layer", -1, f"{WHOLE} 0"),
    (lambda: entry(offset=-1), "entry.offset", -1, f"{WHOLE} 0"),
    (lambda: entry(nbytes=0), "entry.nbytes", 0, f"{WHOLE} 1"),
    (lambda: PageTable((POOL,), (entry(pool=1),)), "entry.pool", 1, "this table has 1 pools"),
    (
        lambda: PageTable((POOL,), (entry(), entry(offset=8))),
        "page table",
        (0, 0, "key"),
        "two entries have one key",
    ),
    (
        lambda: PageTable((POOL,), (entry(offset=9),)),
        "entry.offset",
        9,
        "the entry ends past its slot of 16 B",
    ),
    (
        lambda: PageTable((STACKED,), (entry(offset=33),)),
        "entry.offset",
        33,
        "the entry ends past its slot of 8 B",
    ),
    (
        lambda: PageTable((POOL,), (entry(), entry(role="value", offset=7))),
        "pool 0",
        7,
        "two buffers of one group overlap",
    ),
    (
        lambda: PageTable((STACKED, POOL), (entry(0), entry(1, offset=32, nbytes=4), entry(2, offset=34, nbytes=4))),
        "pool 0",
        34,
        "two buffers of one group overlap",
    ),
]


@pytest.mark.parametrize(("build", "argument", "value", "accepted"), IMPOSSIBLE)
def test_an_impossible_page_table_says_why(
    build: Callable[[], object], argument: str, value: object, accepted: str
) -> None:
    assert_impossible(build, argument, value, accepted)


def test_slots_stand_end_to_end_unless_a_stride_is_given() -> None:
    assert POOL.slot_stride == 16
    assert Pool(16, 4, slot_stride=24).slot_stride == 24


def test_a_pool_ends_with_the_last_slot_of_its_last_layer() -> None:
    assert PageTable((POOL,), (entry(),)).pool_extent(0) == 64
    assert PageTable((Pool(16, 4, slot_stride=24),), (entry(),)).pool_extent(0) == 96
    assert PageTable((STACKED,), (entry(0), entry(2, offset=64))).pool_extent(0) == 96
    assert PageTable((STACKED,), ()).pool_extent(0) == 32


def test_groups_may_lie_in_the_same_bytes_of_other_slots() -> None:
    table = PageTable((POOL,), (entry(), entry(1, group=1), entry(1, "value", 8, group=1)))
    assert table.groups() == (0, 1)


def test_entries_may_leave_padding_between_them() -> None:
    table = PageTable((POOL,), (entry(nbytes=3), entry(role="value", offset=8, nbytes=3)))
    assert [one.offset for one in table.entries] == [0, 8]
