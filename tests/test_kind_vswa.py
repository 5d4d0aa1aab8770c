"""VSWA: windows by layer, pool groups apart or shared, and what of a prompt is still there."""

from __future__ import annotations

from statistics import median

import pytest

from differential.compare.sibling import small_sibling
from differential.ledger import check_case, settle
from differential.managers.tables import gather_facts
from oracle.model.case import SIDES, Case, Request, SideState
from oracle.model.instance import Instance
from oracle.model.pages import PageTable
from oracle.model.sides import lay_out
from oracle.model.topology import Topology
from oracle.truth.blocks import DUE, block_classes
from strategies.deployments import deployment
from strategies.kinds import find_kind, vswa
from strategies.kinds.protocol import Surroundings
from tests.kind_cases import build_samples, bytes_by_rank, deployed, drawn, pools_of
from tests.ledger_cases import compared, subjects


def pool_groups(table: PageTable) -> dict[int, set[int]]:
    """The layer groups that draw slots from each pool group."""
    found: dict[int, set[int]] = {}
    for entry in table.entries:
        found.setdefault(table.pools[entry.pool].pool_group, set()).add(entry.group)
    return found


# ---- at the published sizes (spec: kinds, VSWA)


def test_gemma_3_has_two_pool_groups_of_unequal_slots() -> None:
    (table,) = deployed("gemma-3-27b")
    assert pools_of(table, 0) == [(13_631_488, 104)]
    assert pools_of(table, 1) == [(2_621_440, 20)]
    assert pool_groups(table) == {0: {0}, 1: {1}}


def test_gpt_oss_20b_shares_a_pool_group_between_its_windowed_and_full_layers() -> None:
    (table,) = deployed("gpt-oss-20b")
    assert pools_of(table, 0) == pools_of(table, 1) == [(786_432, 24)]
    assert pool_groups(table) == {0: {0, 1}} and len(table.pools) == 1


def test_the_same_slot_bytes_are_other_layers_depending_on_the_owner() -> None:
    (table,) = deployed("gpt-oss-20b")
    first = {entry.group: (entry.layer, entry.role) for entry in table.entries if entry.offset == 0}
    assert first == {0: (0, "key"), 1: (1, "key")}
    case = deployment("gpt-oss-20b", {}, {}, prompt=1000)
    slots = lay_out(case, "context").slots[0]
    assert not set(slots[0][0].tolist()) & set(slots[1][0].tolist())


@pytest.mark.parametrize("name", ["gpt-oss-20b", "gpt-oss-120b"])
@pytest.mark.parametrize(("pp", "shared"), [(1, True), (2, True), (4, None)])
def test_a_cut_into_stages_decides_whether_a_pool_group_is_shared(name: str, pp: int, shared: bool | None) -> None:
    """Stages of an even number of alternating layers share one; 36 layers make four stages of nine."""
    expected = shared if shared is not None else name == "gpt-oss-20b"
    for table in deployed(name, pp=pp):
        assert (len(pool_groups(table)) == 1) is expected


def test_five_alternating_layers_have_pool_groups_apart() -> None:
    """They are three and two layers (spec: kinds, VSWA)."""
    declared = vswa.declare(5, [(4, range(0, 5, 2))], 2, 1, 8)
    table = lay_out(deployment(declared.model, {}, {}, prompt=1), "context").tables[0]
    assert pool_groups(table) == {0: {0}, 1: {1}}
    first, second = lay_out(deployment(declared.model, {"pp": [2, 3]}, {}, prompt=1), "context").tables
    assert (len(pool_groups(first)), len(pool_groups(second))) == (1, 2)


@pytest.mark.parametrize(
    ("name", "windowed", "heads", "dim", "window"),
    [("gemma-3-27b", 52, 16, 128, 1024), ("gpt-oss-20b", 12, 8, 64, 128), ("gpt-oss-120b", 18, 8, 64, 128)],
)
def test_published_models_have_the_layers_of_their_configs(
    name: str, windowed: int, heads: int, dim: int, window: int
) -> None:
    local, full = deployment(name, {}, {}, prompt=1).model.groups
    assert len(local.layers) == windowed and local.window == window and not local.sinks and full.window is None
    shapes = {tuple(axis.size for axis in buffer.parts[0].axes) for buffer in (*local.buffers, *full.buffers)}
    assert shapes == {(heads, 0, dim)}
    if name == "gemma-3-27b":
        assert full.layers == (5, 11, 17, 23, 29, 35, 41, 47, 53, 59)
    else:
        assert set(local.layers) == set(range(0, len(local.layers) * 2, 2))


@pytest.mark.parametrize("name", ["gemma-3-27b", "gpt-oss-20b"])
@pytest.mark.parametrize("prompt", [1, 96, 127, 128, 129, 1023, 1025, 4096])
def test_a_published_model_arrives_whether_the_prompt_fills_its_window_or_not(name: str, prompt: int) -> None:
    case = deployment(name, {"tp": 4, "pp": 2}, {"tp": 8}, prompt=prompt)
    window = case.model.groups[0].window
    assert window is not None
    left = sum(block_classes(case, 0, 0) != DUE)
    assert left == max(0, prompt + 1 - window) // 32
    checked = check_case(case, subjects("native", "native:suffix"))
    assert checked.passed and all(each.identical for each in checked.settled)


@pytest.mark.parametrize(
    ("name", "prompt", "cp"), [("gemma-3-27b", 1056, 2), ("gemma-3-27b", 5000, 1), ("gpt-oss-20b", 193, 2)]
)
def test_a_small_sibling_has_short_windows_and_loses_as_many_blocks_or_as_many_of_each_rank(
    name: str, prompt: int, cp: int
) -> None:
    case = deployment(name, {"tp": 2}, {"tp": 2, "cp": cp}, prompt=prompt)
    small = small_sibling(case)
    assert small is not None and small.requests[0].prompt <= 8 * 32
    left = [(each.requests[0].prompt + 1 - (each.model.groups[0].window or 0)) for each in (case, small)]
    assert left[0] % 32 == left[1] % 32 and left[0] // 32 % cp == left[1] // 32 % cp
    assert (left[0] >= 32) is (left[1] >= 32)


def test_known_differences_of_a_windowed_group_are_told_of_a_small_case() -> None:
    case = deployment("gemma-3-27b", {"tp": 2}, {"tp": 2, "cp": 2}, prompt=1056)
    (settled,) = check_case(case, subjects("native:suffix")).settled
    assert list(settled.accepted) == ["suffix-strided-from-its-start"] and settled.open.identical
    assert settled.told_of is not None and settled.told_of.requests[0].prompt == 96


# ---- which blocks of a windowed group there are (spec: kinds, windows and sinks)


def small(window: int, prompt: int, *, sinks: int = 0, cached: int = 0, cp: int = 1) -> Case:
    """Two layers, the first windowed, blocks of 4 tokens."""
    declared = vswa.declare(2, [(window, [0])], 2, 1, 8, sinks)
    sides = Instance(Topology(1, (2,)), 4, "HND"), Instance(Topology(1, (2,), cp), 4, "HND")
    request = Request(0, prompt, generation=SideState(cached))
    return Case(declared.model, *sides, (request,), native=declared.native)


@pytest.mark.parametrize(
    ("window", "prompt", "sinks", "kept"),
    [
        (128, 16, 0, [0, 1, 2, 3]),
        (8, 16, 0, [2, 3]),
        (9, 16, 0, [2, 3]),
        (10, 16, 0, [1, 2, 3]),
        (1, 16, 0, []),
        (2, 16, 0, [3]),
        (5, 16, 4, [0, 3]),
        (5, 16, 5, [0, 1, 3]),
        (13, 16, 16, [0, 1, 2, 3]),
    ],
)
def test_blocks_that_the_next_query_cannot_see_are_gone_but_for_sinks(
    window: int, prompt: int, sinks: int, kept: list[int]
) -> None:
    case = small(window, prompt, sinks=sinks)
    assert [block for block, what in enumerate(block_classes(case, 0, 0)) if what == DUE] == kept
    listed = gather_facts(case).generation[0].blocks[0, 0].slots
    assert [block for block, slot in enumerate(listed.tolist()) if slot >= 0] == kept
    assert check_case(case, subjects("native")).passed


def test_suffix_lists_take_a_sink_for_a_block_of_the_window() -> None:
    """Sender and receiver list one block more than the window, but the receiver has the sink already."""
    case = small(5, 16, sinks=4, cached=4)
    comparison = compared(case, "native:suffix")
    assert {each.ordinal for each in comparison.bytes} == {3}
    assert list(settle(case, comparison).accepted) == ["window-start-without-trim"]
    assert check_case(case, subjects("native", "native:suffix")).passed
    assert check_case(small(5, 16, sinks=4), subjects("native:suffix")).settled[0].identical


def test_sinks_keep_suffix_lists_in_step_with_the_ranks_of_a_receiver() -> None:
    """Two blocks are gone and one of them is a sink: what follows it is a step late (spec: blocks, I8)."""
    assert list(settle(small(9, 16, cp=2), compared(small(9, 16, cp=2), "native:suffix")).accepted) == []
    late = small(9, 16, sinks=4, cp=2)
    assert list(settle(late, compared(late, "native:suffix")).accepted) == ["suffix-strided-from-its-start"]


# ---- what is drawn


def test_every_number_builds_and_cases_stay_small() -> None:
    build_samples("vswa", 3_000)
    cases = drawn("vswa")
    assert median(case.model.layers for case in cases) >= 2
    assert median(map(bytes_by_rank, cases)) < 512


@pytest.mark.parametrize(("number", "behind"), list(enumerate((4, 5, -1, 8, 9, 3, 7, 0))))
def test_windows_stand_near_the_end_of_the_prompt(number: int, behind: int) -> None:
    """Blocks of 4 and a prompt of 16: the window ends at a block, a token further on, or a token earlier."""
    around = Surroundings(4, tokens_per_block=4, prompt=16)
    window = find_kind("vswa").decode((0, 0, 1, 0, number, 0, 0), around).model.groups[0].window
    assert window == 17 - behind


def test_drawn_cases_share_a_pool_group_on_both_sides_on_one_or_on_none() -> None:
    found = {
        tuple(any(len(groups) > 1 for groups in pool_groups(lay_out(case, side).tables[0]).values()) for side in SIDES)
        for case in drawn("vswa")
    }
    assert found == {(True, True), (True, False), (False, True), (False, False)}


def test_drawn_windows_are_left_at_a_block_and_beside_it_or_not_filled() -> None:
    behind = [
        (max(request.prompt for request in case.requests) + 1 - window, case.context.tokens_per_block)
        for case in drawn("vswa")
        if (window := case.model.groups[0].window) is not None
    ]
    assert min(tokens for tokens, _ in behind) < 0
    assert {tokens % block for tokens, block in behind if tokens > 0 and block == 4} >= {0, 1, 3}


def test_drawn_cases_have_two_windows_sinks_and_stages_of_one_sort_of_layers() -> None:
    cases = drawn("vswa")
    assert sum(len(case.model.groups) == 3 for case in cases) >= 5
    assert sum(any(group.sinks for group in case.model.groups) for case in cases) >= 10
    held = [len(lay_out(case, "context").tables[0].groups()) for case in cases if case.context.topology.pp > 1]
    assert held.count(1) >= 5 and held.count(2) >= 5
