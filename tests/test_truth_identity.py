"""The identity of every stored byte: worked orders, whole coverage by the ranks, and the slow reference."""

from __future__ import annotations

from dataclasses import replace
from math import lcm

import pytest
from hypothesis import given, settings

from oracle.model.case import Case, Content, SideState
from oracle.truth.elements import truth_of
from oracle.truth.reserved import FOREIGN, NEVER, PADDING
from oracle.truth.stacks import FlatSide
from oracle.truth.verdict import Element
from tests.reference import Address, read, right_rows
from tests.small_cases import case_of, group, model_of, small_cases


def block_ids(case: Case, rank: int = 0) -> list[int]:
    """The ids of the first block on the source, byte by byte."""
    truth = truth_of(case)
    layout = truth.context.side
    pool = layout.tables[rank].pools[0]
    start = truth.context.starts[rank][0] + int(layout.slots[rank][0][0][0]) * pool.slot_stride
    return truth.source[start : start + pool.slot_bytes].tolist()


def block_elements(case: Case, rank: int = 0) -> list[Element]:
    """The elements of the first block on the source, byte by byte."""
    truth = truth_of(case)
    found = [truth.context_keys.decode(case, "context", number) for number in block_ids(case, rank)]
    assert None not in found
    return found  # type: ignore[return-value]


def axis(elements: list[Element], name: str) -> list[int]:
    return [dict(element.indices)[name] for element in elements]


def token_and_head(case: Case, rank: int = 0) -> list[tuple[int, int]]:
    elements = block_elements(case, rank=rank)
    return list(zip(axis(elements, "T"), axis(elements, "H"), strict=True))


HEADS = "key @ 0 : H(4).heads T D(1) ; 8"


def test_in_nhd_order_heads_count_faster_than_tokens() -> None:
    case = case_of(HEADS, context_side={"layout": "NHD"})
    assert token_and_head(case) == [(0, 0), (0, 1), (0, 2), (0, 3), (1, 0), (1, 1), (1, 2), (1, 3)]


def test_in_hnd_order_tokens_count_faster_than_heads() -> None:
    case = case_of(HEADS, context_side={"layout": "HND"})
    assert token_and_head(case) == [(0, 0), (1, 0), (0, 1), (1, 1), (0, 2), (1, 2), (0, 3), (1, 3)]


def test_the_declared_order_stays_where_no_order_is_asked_for() -> None:
    assert token_and_head(case_of(HEADS)) == token_and_head(case_of(HEADS, context_side={"layout": "HND"}))
    declared = case_of("key @ 0 : T H(4).heads D(1) ; 8")
    assert token_and_head(declared) == token_and_head(case_of(HEADS, context_side={"layout": "NHD"}))


def test_a_rank_stores_its_own_heads_in_order() -> None:
    case = case_of(HEADS, "tp2", context_side={"layout": "NHD"})
    assert token_and_head(case, rank=1) == [(0, 2), (0, 3), (1, 2), (1, 3)]


def test_elements_of_several_bytes_are_stored_whole() -> None:
    elements = block_elements(case_of("key @ 0 : T D(2) ; 16", prompts=1, size=1))
    assert [(dict(e.indices)["D"], e.byte) for e in elements] == [(0, 0), (0, 1), (1, 0), (1, 1)]


def test_two_elements_of_four_bits_share_a_byte_that_has_one_identity() -> None:
    elements = block_elements(case_of("key @ 0 : H(2).heads T D(4) ; 4", prompts=1, size=1))
    assert [(dict(e.indices)["H"], dict(e.indices)["D"]) for e in elements] == [(0, 0), (0, 1), (1, 0), (1, 1)]


def test_a_row_of_several_tokens_is_one_row() -> None:
    elements = block_elements(case_of("key @ 0 : T(2) D(1) ; 8", prompts=4, size=4))
    assert [element.token for element in elements] == [1, 3]


def test_a_footer_follows_the_rows_of_its_sub_page() -> None:
    # Sub-pages of 2 rows: 2 data rows of 2 bytes, 2 tails of 1 byte, then the next page.
    case = case_of("index_key @ 0 : T ; foot(2,2,1)", prompts=4, size=4)
    elements = block_elements(case)
    assert axis(elements, "T") == [0, 0, 1, 1, 0, 1, 2, 2, 3, 3, 2, 3]
    assert axis(elements, "B") == [0, 1, 0, 1, 0, 0, 0, 1, 0, 1, 0, 0]
    assert len(set(block_ids(case))) == 12


def test_a_sub_page_is_shorter_where_the_block_is() -> None:
    elements = block_elements(case_of("index_key @ 0 : T ; foot(64,2,1)", prompts=2, size=2))
    assert axis(elements, "T") == [0, 0, 1, 1, 0, 1]


def test_expansion_cuts_a_block_into_pages_of_their_own() -> None:
    # Two heads, four tokens, two sub-pages of two tokens: heads repeat in each sub-page.
    case = case_of("key @ 0 : H(2).heads T D(1) ; 8 ; x(2)", prompts=4, size=4)
    assert token_and_head(case) == [(0, 0), (1, 0), (0, 1), (1, 1), (2, 0), (3, 0), (2, 1), (3, 1)]


def test_the_sections_of_a_rank_stand_one_after_another() -> None:
    model = group("conv @ 0 : C[x:4.even, B:2.all, C:2.even]@TPCP ; 8", state=True)
    assert axis(block_elements(case_of(model, "tp2"), rank=1), "C") == [2, 3, 4, 5, 7]


def test_a_request_wide_role_is_the_same_on_every_stage() -> None:
    position = "position @ 0..1 : T D(1) ; 8 ; request ; first_local"
    case = case_of(model_of(group(position), layers=2), "tp1 pp1+1", prompts=2)
    first, second = block_elements(case, rank=0), block_elements(case, rank=1)
    assert first == second
    assert {element.layer for element in first} == {-1}


def test_layers_have_elements_of_their_own() -> None:
    case = case_of(model_of(group("key @ 0..1 : T D(1) ; 8"), layers=2), "tp1 pp1+1", prompts=2)
    assert block_elements(case, rank=0) != block_elements(case, rank=1)


# ---- all ranks together


def ids_of_rank(flat: FlatSide, memory: object, rank: int) -> list[int]:
    starts = flat.starts[rank]
    if not starts:
        return []
    end = next((row[0] for row in flat.starts[rank + 1 :] if row), flat.size)
    return [number for number in memory[starts[0] : end].tolist() if number >= 0]  # type: ignore[index]


BUFFERS = {
    "HND": ("key @ 0 : H(4).heads T D(2) ; 8", 4 * 4 * 2),
    "NHD": ("key @ 0 : T H(4).heads D(2) ; 8", 4 * 4 * 2),
    "repeated heads": ("key @ 0 : H(2).heads T D(2) ; 8", 2 * 4 * 2),
    "overlapping heads": ("key @ 0 : H(6).heads T D(1) ; 16", 6 * 4 * 2),
    "floor": ("key @ 0 : H(5).floor T D(1) ; 8", 5 * 4),
    "cyclic": ("key @ 0 : H(6).cyc T D(1) ; 8", 6 * 4),
    "replicated": ("key @ 0 : T D(3) ; 16", 4 * 3 * 2),
    "four bits": ("key @ 0 : H(4).heads T D(4) ; 4", 4 * 4 * 2),
    "split below a byte": ("key @ 0 : T D(32).even ; 4", 4 * 16),
    "footer": ("key @ 0 : T ; foot(2,3,1)", 4 * 4),
    "sub-pages": ("key @ 0 : H(4).heads T D(1) ; 8 ; sub(2)", 4 * 4),
    "expansion": ("key @ 0 : T H(4).heads D(1) ; 8 ; x(2)", 4 * 4),
    "rows of two tokens": ("key @ 0 : T(2) D(3) ; 8", 2 * 3),
    "ring": ("key @ 0 : R(3) D(2) ; 8", 6),
    "parts": ("key @ 0 : {H(4).heads T D(2)}:8 {H(4).heads T}:16", 4 * 4 * 4),
}
GRIDS = ("tp1", "tp2", "tp4", "tp3", "tp2 cp2", "tp1 cp2", "tp2 cp3", "tp4 dp")


@pytest.mark.parametrize("layout", ["", "HND", "NHD"])
@pytest.mark.parametrize("name", BUFFERS)
def test_the_ranks_of_any_grid_hold_every_byte_and_no_rank_holds_one_twice(name: str, layout: str) -> None:
    text, nbytes = BUFFERS[name]
    for grid in GRIDS:
        if ".even" in text and grid == "tp3":
            continue
        # 6 blocks: as many on each context-parallel rank.
        case = case_of(text, grid, prompts=24, size=4, context_side={"layout": layout})
        assert_all_held_and_none_twice(case, 6 * nbytes)


@pytest.mark.parametrize("grid", ["tp1", "tp2", "tp2 cp2", "tp1 cp2", "tp2 cp3", "tp4 dp", "tp3"])
def test_the_ranks_of_any_grid_hold_every_byte_of_a_state(grid: str) -> None:
    ssm = group("ssm @ 0 : H(12).even@TPCP P(2) ; 16", "conv @ 0 : C[x:12.even, B:2.all]@TPCP W(3) ; 8", state=True)
    assert_all_held_and_none_twice(case_of(ssm, grid), 12 * 2 * 2 + 14 * 3)


def assert_all_held_and_none_twice(case: Case, nbytes: int) -> None:
    truth = truth_of(case)
    found: set[int] = set()
    for rank in range(case.context.topology.size):
        ids = ids_of_rank(truth.context, truth.source, rank)
        assert len(ids) == len(set(ids))
        found.update(ids)
    assert len(found) == nbytes


def test_stated_sizes_are_those_of_a_published_record() -> None:
    # 584 bytes a token in sub-pages of 64: 64 rows of 576 bytes, then 64 tails of 8.
    case = case_of("swa @ 0 : T ; foot(64,576,8)", prompts=128, size=128)
    elements = block_elements(case)
    assert len(elements) == 128 * 584
    assert axis(elements[64 * 576 : 64 * 576 + 9], "T") == [0] * 8 + [1]
    assert axis(elements[64 * 584 : 64 * 584 + 1], "T") == [64]


# ---- against the reference


def flat_places(flat: FlatSide, places: dict[Address, object]) -> dict[int, object]:
    return {flat.starts[rank][pool] + offset: what for (rank, pool, offset), what in places.items()}


@settings(max_examples=250, deadline=None)
@given(small_cases())
def test_both_memories_are_as_the_slow_reference_reads_them(case: Case) -> None:
    reference, truth = read(case), truth_of(case)
    names: dict[int, object] = {}
    ids: dict[object, int] = {}

    def assert_same_element(number: int, identity: object) -> None:
        assert number >= 0
        assert names.setdefault(number, identity) == identity
        assert ids.setdefault(identity, number) == number

    source = flat_places(truth.context, reference.source)
    for address, number in enumerate(truth.source.tolist()):
        if address not in source:
            assert number == FOREIGN
        elif source[address] is None:
            assert number == PADDING
        else:
            assert_same_element(number, source[address])
    wanted = flat_places(truth.generation, reference.wanted)
    for address, number in enumerate(truth.due.tolist()):
        want = wanted.get(address)
        if want is None:
            assert (number, truth.klass[address], truth.owner[address]) == (NEVER, 0, -1)
            continue
        assert_same_element(number, want.identity)
        assert truth.klass[address] == (2 if want.required else 1)
        assert truth.owner[address] == want.request
        if want.sender is not None:
            assert truth.elected[address] == want.sender


@settings(max_examples=100, deadline=None)
@given(small_cases())
def test_every_stored_byte_decodes_to_the_element_of_the_reference(case: Case) -> None:
    reference, truth = read(case), truth_of(case)
    for address, identity in flat_places(truth.context, reference.source).items():
        if identity is None:
            continue
        content, layer_group, layer, role, ordinal, _, indices, byte = identity
        element = truth.context_keys.decode(case, "context", int(truth.source[address]))
        own = ("request", element.private_to) if element.private_to is not None else element.content
        assert (own, element.group, element.layer, element.role, element.ordinal, element.byte) == (
            content,
            layer_group,
            layer,
            role,
            ordinal,
            byte,
        )
        for (_, index), stated in zip(element.indices, indices, strict=True):
            # Elements below a byte have the index of their byte, the reference lists them.
            assert index == (stated if isinstance(stated, int) else stated[0] // len(stated))


@settings(max_examples=150, deadline=None)
@given(small_cases())
def test_a_served_case_has_a_sender_for_every_due_byte(case: Case) -> None:
    reference, truth = read(case), truth_of(case)
    homeless = [want for want in reference.wanted.values() if want.sender is None and want.required]
    assert bool(homeless) <= bool(truth.unserved)
    assert not truth.lost
    if not truth.unserved:
        places = {(rank, pool, offset) for _, _, _, _, rank, _, pool, _, offset, _ in right_rows(case, reference)}
        assert {place for place, want in reference.wanted.items() if want.required} <= places


def unwindowed(case: Case, blocks: int) -> Case:
    """The same instances and a request of so many blocks of every group, none cached, none out of a window."""
    groups = tuple(
        replace(each, window=None, sinks=0, domain=each.domain or each.name)
        for each in case.model.groups
        if each.is_paged
    ) + tuple(each for each in case.model.groups if not each.is_paged)
    instances = (replace(side, reserve=()) for side in (case.context, case.generation))
    asked = replace(case.requests[0], prompt=blocks * case.context.tokens_per_block, generation=SideState())
    return Case(replace(case.model, groups=groups), *instances, (asked,), slots=case.slots, contents=(Content(),))


@settings(max_examples=150, deadline=None)
@given(small_cases())
def test_whether_a_pair_is_served_does_not_depend_on_the_prompt(case: Case) -> None:
    period = lcm(case.context.topology.cp, case.generation.topology.cp)
    long = unwindowed(replace(case, requests=case.requests[:1]), period)
    homeless = [want for want in read(long).wanted.values() if want.sender is None]
    assert bool(truth_of(long).unserved) == bool(homeless)
    assert bool(truth_of(case).unserved) == bool(homeless)
