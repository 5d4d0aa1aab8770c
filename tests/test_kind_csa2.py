"""CSA2: caches of their owners alone, windows that the receiver rebuilds, and a context side that may lack them."""

from __future__ import annotations

from statistics import median

import pytest

from differential.ledger import check_case
from differential.managers.tables import gather_facts
from differential.runner import run_case
from differential.subjects.mapping import Mapping
from differential.subjects.native import make
from oracle.model.buffers import Buffer, MoveState
from oracle.model.case import Case, Request
from oracle.model.counts import sub_pages
from oracle.model.errors import InvalidCase
from oracle.model.instance import Instance
from oracle.model.sides import lay_out
from oracle.model.topology import Topology
from strategies.deployments import deployment
from strategies.kinds.csa2 import NATIVE, Sizes, declare
from tests.kind_cases import build_samples, bytes_by_rank, deployed, drawn, pools_of, roles_of

PLAIN, REPLAY = "deepseek-v4.1-flash", "deepseek-v4.1-flash-replay"
OWNERS = [2, 8, 14, 20]


def buffers(case: Case, role: str) -> list[Buffer]:
    return [buffer for group in case.model.groups for buffer in group.buffers if buffer.role == role]


def windows_of(case: Case, side: str) -> set[int]:
    """Layers whose window cache the first rank of ``side`` holds."""
    return {entry.layer for entry in lay_out(case, side).tables[0].entries if entry.role == "csa2_swa"}


# ---- at the published size (spec: kinds, CSA2)


def test_flash_keeps_windows_of_all_layers_and_global_caches_of_four() -> None:
    (table,) = deployed(PLAIN)
    assert pools_of(table, 0) == [(43 * 128 * 528, 43)]
    assert pools_of(table, 1) == [(3 * 18_432, 3), (5 * 8_704, 5), (36_864, 1), (3 * 4_352, 3)]
    assert pools_of(table, 2) == [(6 * 128 * 2_048, 6)]
    assert roles_of(table, 1) == [{"csa2_global"}, {"csa2_index"}, {"csa2_global"}, {"csa2_index"}]
    owners = sorted({entry.layer for entry in table.entries if entry.role == "csa2_global"})
    assert owners == OWNERS
    assert sorted({e.layer for e in table.entries if e.role == "csa2_compressor_kv"}) == OWNERS[:3]


def test_global_cache_and_index_of_an_owner_share_a_page() -> None:
    (table,) = deployed(PLAIN)
    groups = {table.pools[entry.pool].pool_group for entry in table.entries if entry.group == 1}
    assert len(groups) == 1


def test_an_index_page_has_64_rows_so_that_ratio_one_takes_two() -> None:
    case = deployment(PLAIN, {}, {}, prompt=1)
    one, two = buffers(case, "csa2_index")
    assert (two.tokens_per_row, one.tokens_per_row) == (2, 1)
    assert (sub_pages(two, 128), sub_pages(one, 128)) == ((1, 64), (2, 64))


def test_layers_without_a_cache_of_their_own_read_the_owner_below() -> None:
    case = deployment(PLAIN, {}, {}, prompt=1)
    one, two = buffers(case, "csa2_global")
    assert two.alias is not None and one.alias is not None
    assert [two.owner_of(layer) for layer in (3, 7, 9, 19)] == [2, 2, 8, 14]
    assert {one.owner_of(layer) for layer in one.alias} == {20}
    assert set(two.alias) | set(one.alias) | set(OWNERS) == set(range(2, 40))


def test_layers_with_index_keys_of_their_own_read_the_global_cache_of_an_owner() -> None:
    case = deployment(PLAIN, {}, {}, prompt=1)
    (table,) = lay_out(case, "context").tables
    assert sorted({e.layer for e in table.entries if e.role == "csa2_index"}) == [*OWNERS, 24, 28, 32, 36]
    one, _ = buffers(case, "csa2_index")
    assert [one.owner_of(layer) for layer in (21, 25, 31, 39)] == [20, 24, 28, 36]


def test_an_internal_layer_is_three_times_its_layer_and_its_type() -> None:
    case = deployment(PLAIN, {}, {}, prompt=1)
    ids = {buffer.role: buffer.ids for group in case.model.groups for buffer in group.buffers}
    assert ids["csa2_swa"] == (3, 0) and ids["csa2_global"] == ids["csa2_index"] == (3, 1)
    assert ids["csa2_compressor_kv"] == ids["csa2_compressor_score"] == (3, 2)


def test_with_bounded_replay_only_the_generation_side_holds_windows_of_the_decoder() -> None:
    case = deployment(REPLAY, {"tp": 2}, {"tp": 4}, prompt=4096)
    decoder = set(range(20, 40))
    assert windows_of(case, "generation") == set(range(43))
    assert windows_of(case, "context") == set(range(43)) - decoder
    (swa,) = buffers(case, "csa2_swa")
    assert {layer for layer in swa.layers if swa.move_on(layer).state is MoveState.REBUILT} == decoder
    checked = check_case(case, [Mapping(), make()])
    assert checked.passed and [settled.verdict for settled in checked.settled] == ["identical"]


@pytest.mark.parametrize("split", [{"pp": 2}, {"cp": 2}])
def test_neither_stages_nor_context_parallelism_are_possible(split: dict[str, int]) -> None:
    with pytest.raises(InvalidCase, match="kind csa2 takes none"):
        deployment(PLAIN, {}, split, prompt=1)


# ---- small ones


def test_every_combination_of_numbers_builds() -> None:
    build_samples("csa2", 1_500)


def rebuilds(case: Case) -> bool:
    """Whether some window is rebuilt."""
    return any(
        swa.move_on(layer).state is MoveState.REBUILT for swa in buffers(case, "csa2_swa") for layer in swa.layers
    )


REACHED = {
    "layers that read an owner's cache": lambda case: any(b.alias for b in buffers(case, "csa2_global")),
    "owners of both ratios": lambda case: len(buffers(case, "csa2_global")) == 2,
    "rebuilt windows that the context lacks": lambda case: rebuilds(case) and bool(case.context.without),
    "rebuilt windows that the context holds": lambda case: rebuilds(case) and not case.context.without,
    "windows of the decoder kept longer": lambda case: len(buffers(case, "csa2_swa")) == 2,
    "no replay": lambda case: not rebuilds(case),
    "an index of two pages a block": lambda case: any(
        sub_pages(b, case.context.tokens_per_block)[0] > 1 for b in buffers(case, "csa2_index")
    ),
    "global rows and index rows in one pool": lambda case: any(
        {"csa2_global", "csa2_index"} <= {e.role for e in table.entries if e.pool == pool}
        for table in lay_out(case, "context").tables[:1]
        for pool in range(len(table.pools))
    ),
    "a lone layer": lambda case: case.model.layers == 1,
}


@pytest.mark.parametrize("name", REACHED)
def test_what_csa2_is_there_for_is_drawn(name: str) -> None:
    assert sum(map(REACHED[name], drawn("csa2"))) >= 5


def test_small_models_stay_small_and_have_one_stage_and_no_context_parallelism() -> None:
    cases = drawn("csa2")
    assert median(case.model.layers for case in cases) >= 2
    assert max(map(bytes_by_rank, cases)) < 3_000
    assert {(side.topology.pp, side.topology.cp) for case in cases for side in (case.context, case.generation)} == {
        (1, 1)
    }


def small(*, replay: int, lacks: bool) -> Case:
    """Layers 0 and 1 own caches; with ``replay``, layers 1 and 2 are the decoder."""
    declaration = declare((2, 1, 1), (0, 1), 4, Sizes(3, 2, (2, 1), 2, 1), replay=replay, lacks=lacks)
    side = Instance(Topology(1, (3,)), 4)
    context = Instance(Topology(1, (3,)), 4, without=declaration.without[0])
    return Case(declaration.model, context, side, (Request(0, 9),), native=NATIVE)


@pytest.mark.parametrize("replay", [4, 6])
@pytest.mark.parametrize("lacks", [False, True])
def test_what_is_rebuilt_is_written_by_nobody_whoever_holds_it(replay: int, lacks: bool) -> None:
    case = small(replay=replay, lacks=lacks)
    checked = check_case(case, [Mapping(), make(), make("suffix")])
    assert checked.passed and {settled.verdict for settled in checked.settled} == {"identical"}
    whole = run_case(small(replay=0, lacks=False), [Mapping()]).verdicts["mapping"]
    # The two blocks in the window of each of the two decoder layers are left out.
    assert whole.nbytes - checked.result.verdicts["mapping"].nbytes == 2 * (2 * 4 * 3)


def test_a_window_that_is_not_rebuilt_may_not_be_lacking() -> None:
    declaration = declare((2, 1, 1), (0, 1), 4, Sizes(3, 2, (2, 1), 2, 1), replay=4, lacks=True)
    context = Instance(Topology(1, (3,)), 4, without=declaration.without[0])
    received = declare((2, 1, 1), (0, 1), 4, Sizes(3, 2, (2, 1), 2, 1)).model
    with pytest.raises(InvalidCase, match="only optional buffers and draft layers may be lacking"):
        Case(received, context, Instance(Topology(1, (3,)), 4), (Request(0, 9),))


def test_a_context_that_lacks_windows_lists_no_block_of_a_group_it_has_nothing_of() -> None:
    case = small(replay=6, lacks=True)
    (replayed,) = [index for index, group in enumerate(case.model.groups) if group.window == 6]
    facts = gather_facts(case)
    assert (0, replayed) not in facts.context[0].blocks and (0, replayed) in facts.generation[0].blocks
