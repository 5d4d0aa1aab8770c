"""Laws of plans that need no oracle: what follows from how two plans of the mapping are related."""

from __future__ import annotations

from collections import defaultdict
from dataclasses import replace
from functools import partial
from itertools import pairwise

import numpy as np
from hypothesis import assume, given, settings
from hypothesis import strategies as st

from differential.managers.tables import gather_facts
from differential.subjects.mapping import Mapping
from differential.subjects.mapping.refusals import BLOCK_LOST
from oracle.model.buffers import Buffer, LayerGroup, Model
from oracle.model.case import Case, SideState, Slots
from oracle.model.encodings import CHUNKS_WITH_CONTEXT_PARALLELISM
from oracle.model.instance import Instance
from oracle.model.layers import LayerSet
from oracle.model.sides import lay_out
from oracle.model.topology import Topology
from oracle.model.writes import Refusal, Writes
from strategies.cases import cases
from strategies.topologies import Grid, Shape
from tests.moves import WIDE, column, in_order, moves_of
from tests.onward import in_the_middle
from tests.small_cases import group, small_cases

few = partial(settings, deadline=None)
LAYERS_ALIKE = ("gqa", "mla", "fp8", "nvfp4")
"""Kinds of one group, whose layers have no place of their own as draft layers have."""

any_case = st.one_of(cases(), small_cases())
plain_case = st.one_of(cases(states=False), small_cases())

OF_A_REQUEST = (BLOCK_LOST, CHUNKS_WITH_CONTEXT_PARALLELISM)
"""Codes with which tables refuse one request and serve the others."""


def planned(case: Case) -> Writes | Refusal:
    found = Mapping().plan(case, gather_facts(case))
    assert isinstance(found, Refusal) or all(each.code in OF_A_REQUEST for each in found.refusals)
    return found


def served(case: Case) -> Writes:
    found = planned(case)
    assume(isinstance(found, Writes) and not found.refusals)
    return found  # type: ignore[return-value]


def assert_same_moves(first: np.ndarray, second: np.ndarray) -> None:
    assert first.tolist() == second.tolist()


def assert_same_answer(first: Writes | Refusal, second: Writes | Refusal) -> None:
    """Both refused with one code, or both served but for as many requests that lost a block."""
    assert codes_of(first) == codes_of(second)


def codes_of(answer: Writes | Refusal) -> list[str]:
    """The code under which the instances are refused, or one for each request that is."""
    return ["", answer.code] if isinstance(answer, Refusal) else [each.code for each in answer.refusals]


# ---- three instances


Memory = dict[tuple[int, int], np.ndarray]
"""(rank, pool) -> one number a byte"""


def empty_memory(case: Case, side: str) -> Memory:
    return {
        (rank, pool): np.full(table.pool_extent(pool), -1, dtype=np.int64)
        for rank, table in enumerate(lay_out(case, side).tables)
        for pool in range(len(table.pools))
    }


def copy(writes: Writes, source: Memory, destination: Memory) -> None:
    for segment in writes.segments:
        there = source[segment.source_rank, segment.source_pool]
        here = destination[segment.destination_rank, segment.destination_pool]
        for start, end, nbytes in segment.runs.tolist():
            for base, own in zip(segment.source_bases.tolist(), segment.destination_bases.tolist(), strict=True):
                here[own + end : own + end + nbytes] = there[base + start : base + start + nbytes]


def with_wide_pages(model: Model) -> Model:
    """``model`` with pages that hold the whole of what is split: regions are padded to what the drawn splits leave."""
    return replace(
        model,
        groups=tuple(replace(each, buffers=tuple(map(with_wide_page, each.buffers))) for each in model.groups),
    )


def with_wide_page(buffer: Buffer) -> Buffer:
    return replace(buffer, placement=replace(buffer.placement, pad=64 * buffer.placement.pad))


@few(max_examples=80)
@given(plain_case)
def test_by_way_of_a_third_instance_the_same_bytes_arrive(case: Case) -> None:
    """From an unsplit instance, where a byte's address is its identity, to the case's sides in turn, or at once."""
    plain = replace(
        case,
        model=with_wide_pages(case.model),
        requests=tuple(replace(each, cuts=()) for each in case.requests),
        context=replace(case.context, reserve=()),
        generation=replace(case.generation, reserve=()),
    )
    unsplit = replace(plain.context, topology=Topology(1, (sum(plain.context.topology.stages),)))
    to_second = replace(
        plain,
        context=unsplit,
        generation=plain.context,
        requests=tuple(
            replace(each, context_dp=0, generation_dp=each.context_dp, generation=SideState())
            for each in plain.requests
        ),
    )
    direct = replace(plain, context=unsplit, requests=tuple(replace(each, context_dp=0) for each in plain.requests))
    onward = in_the_middle(to_second, plain)
    plans = [served(each) for each in (to_second, onward, direct)]
    first = empty_memory(direct, "context")
    for number, (place, memory) in enumerate(first.items()):
        first[place] = number * WIDE + np.arange(len(memory))
    second, third, at_once = (empty_memory(each, "generation") for each in (to_second, plain, direct))
    copy(plans[0], first, second)
    copy(plans[1], second, third)
    copy(plans[2], first, at_once)
    assert any((memory >= 0).any() for memory in at_once.values()) == bool(plans[2].nbytes)
    assert at_once.keys() == third.keys()
    for place, memory in at_once.items():
        assert (third[place] == memory).all()


# ---- names


@few(max_examples=80)
@given(any_case, st.integers(1, 9), st.integers(0, 40))
def test_other_slots_move_the_same_bytes_of_the_same_blocks(case: Case, mul: int, add: int) -> None:
    other = replace(case, slots=Slots(mul, add))
    first, second = planned(case), planned(other)
    assert_same_answer(first, second)
    if isinstance(first, Writes) and isinstance(second, Writes):
        assert_same_moves(moves_of(case, first), moves_of(other, second))
        assert first.pairs == second.pairs


@few(max_examples=60)
@given(any_case)
def test_requests_in_another_order_are_planned_alike(case: Case) -> None:
    last = len(case.requests) - 1
    assume(last)
    other = replace(case, requests=case.requests[::-1])
    first, second = planned(case), planned(other)
    assert_same_answer(first, second)
    if isinstance(first, Writes) and isinstance(second, Writes):
        moves = moves_of(other, second)
        moves[:, column("request")] = last - moves[:, column("request")]
        assert_same_moves(moves_of(case, first), in_order(moves))
        assert set(first.pairs) == {replace(pair, request=last - pair.request) for pair in second.pairs}


def with_layers_in_reverse(case: Case) -> Case:
    """Layer l is called L-1-l, and stages come in reverse; the physical order stays."""
    layers = case.model.layers

    def renamed(layer_group: LayerGroup) -> LayerGroup:
        buffers = tuple(
            replace(buffer, layers=LayerSet.of(layers - 1 - layer for layer in buffer.layers))
            for buffer in layer_group.buffers
        )
        return replace(layer_group, buffers=buffers)

    def reversed_stages(instance: Instance) -> Instance:
        order = tuple(layers - 1 - layer for layer in instance.in_layer_order(range(layers)))
        topology = replace(instance.topology, stages=instance.topology.stages[::-1])
        return replace(instance, topology=topology, layer_order=order)

    return replace(
        case,
        model=Model(layers, tuple(map(renamed, case.model.groups))),
        context=reversed_stages(case.context),
        generation=reversed_stages(case.generation),
    )


def renumbered(topology: Topology, numbers: np.ndarray) -> np.ndarray:
    """Rank numbers with the stages in reverse."""
    size = topology.tp * topology.cp
    return (topology.pp - 1 - numbers // size) * size + numbers % size


@few(max_examples=60)
@given(cases(LAYERS_ALIKE))
def test_layers_under_other_names_are_planned_alike(case: Case) -> None:
    other = with_layers_in_reverse(case)
    first, second = planned(case), planned(other)
    assert_same_answer(first, second)
    if isinstance(first, Writes) and isinstance(second, Writes):
        roles = sum(len(layer_group.buffers) for layer_group in case.model.groups)
        moves = moves_of(other, second)
        for name, topology in (("source", case.context.topology), ("destination", case.generation.topology)):
            moves[:, column(name)] = renumbered(topology, moves[:, column(name)])
        for name in ("read", "written"):
            code, byte = np.divmod(moves[:, column(name)], WIDE)
            layer, role = np.divmod(code, roles)
            moves[:, column(name)] = ((case.model.layers - 1 - layer) * roles + role) * WIDE + byte
        assert_same_moves(moves_of(case, first), in_order(moves))


# ---- attention data parallelism


DP_GRIDS = [
    Grid(context, Shape(tp, attention_dp=True))
    for tp in (2, 3, 4)
    for context in (Shape(4), Shape(2, pp=2), Shape(tp), Shape(6 if tp == 3 else 8), Shape(2, attention_dp=True))
]


@few(max_examples=60)
@given(st.sampled_from(DP_GRIDS).flatmap(lambda grid: cases(LAYERS_ALIKE, grid=grid)))
def test_another_attention_dp_rank_of_the_receiver_rotates_the_senders_alone(case: Case) -> None:
    first = case.requests[0]
    topology = case.generation.topology
    senders: list[np.ndarray] = []
    arrived: list[np.ndarray] = []
    for rank in range(topology.tp):
        other = replace(case, requests=(replace(first, generation_dp=rank),), contents=case.contents)
        moves = moves_of(other, served(other))
        home = (moves[:, column("destination")] // topology.cp) % topology.tp
        assert (home == rank).all()
        moves[:, column("destination")] -= rank * topology.cp
        order = np.lexsort(moves[:, [column(name) for name in ("written", "block", "destination", "group")]].T)
        arrived.append(moves[order][:, [1, 3, 5, 7]])
        senders.append(moves[order][:, column("source")])
    for other in arrived[1:]:
        assert_same_moves(arrived[0], other)
    chosen = np.array(senders)
    for byte in np.unique(chosen.T, axis=0):
        sequence = byte.tolist()
        period = next((n for n in range(1, len(sequence)) if sequence[n] == sequence[0]), len(sequence))
        assert sequence == [sequence[n % period] for n in range(len(sequence))]
        assert sequence[:period] == sorted(set(sequence))
        if case.kind == "mla":  # a replica on every rank of the sender's tensor grid: all of them take turns
            assert period == min(topology.tp, 1 if case.context.topology.attention_dp else case.context.topology.tp)


# ---- layers that play no part


def with_layer(buffers: tuple[Buffer, ...], layer: int) -> tuple[Buffer, ...]:
    """The first buffer of each role has ``layer`` too."""
    firsts = {id(buffer) for buffer in {buffer.role: buffer for buffer in reversed(buffers)}.values()}
    return tuple(
        replace(buffer, layers=LayerSet((*buffer.layers, layer))) if id(buffer) in firsts else buffer
        for buffer in buffers
    )


def with_one_layer_more(case: Case, alone: bool) -> Case:
    """A last layer more on the last stages: in a group of its own, or in the groups that there are."""
    layers = case.model.layers
    if alone:
        extra = group(f"extra @ {layers} : T D(1) ; 8", name="extra", domain="extra")
        groups = (*case.model.groups, extra)
    else:
        groups = tuple(replace(each, buffers=with_layer(each.buffers, layers)) for each in case.model.groups)

    def longer(instance: Instance) -> Instance:
        stages = instance.topology.stages
        return replace(instance, topology=replace(instance.topology, stages=(*stages[:-1], stages[-1] + 1)))

    model = Model(layers + 1, groups)
    return replace(case, model=model, context=longer(case.context), generation=longer(case.generation))


@few(max_examples=80)
@given(cases(LAYERS_ALIKE), st.booleans())
def test_a_layer_that_plays_no_part_changes_nothing_for_the_others(case: Case, alone: bool) -> None:
    other = with_one_layer_more(case, alone)
    first, second = served(case), served(other)
    moves = moves_of(other, second)
    roles = sum(len(each.buffers) for each in other.model.groups)
    own = sum(len(each.buffers) for each in case.model.groups)
    moves = moves[moves[:, column("written")] // WIDE // roles < case.model.layers]
    for name in ("read", "written"):
        code, byte = np.divmod(moves[:, column(name)], WIDE)
        layer, role = np.divmod(code, roles)
        moves[:, column(name)] = (layer * own + role) * WIDE + byte
    assert_same_moves(moves_of(case, first), in_order(moves))
    assert set(first.pairs) <= set(second.pairs)


# ---- how much


@few(max_examples=80)
@given(any_case)
def test_no_more_bytes_are_sent_than_the_receiver_lists(case: Case) -> None:
    writes = served(case)
    listed = 0
    for rank in gather_facts(case).generation:
        nbytes: defaultdict[int, int] = defaultdict(int)
        for entry in rank.table.entries:
            nbytes[entry.group] += entry.nbytes
        listed += sum(nbytes[own] * int((table.slots >= 0).sum()) for (_, own), table in rank.blocks.items())
    assert writes.nbytes <= listed
    if case.kind in ("gqa", "mla"):
        assert writes.nbytes == listed


@few(max_examples=80)
@given(any_case)
def test_no_byte_is_written_twice(case: Case) -> None:
    columns = served(case).columns()
    names = ("dst_rank", "dst_pool", "dst_offset", "nbytes")
    rows = sorted(zip(*(columns[name].tolist() for name in names), strict=True))
    for (rank, pool, start, nbytes), (*place, following, _) in pairwise(rows):
        assert [rank, pool] != place or start + nbytes <= following


# ---- chunks


@few(max_examples=80)
@given(any_case, st.data())
def test_any_cuts_of_the_prefill_tile_the_same_bytes(case: Case, data: st.DataObject) -> None:
    one_stage = replace(case.context.topology, stages=(sum(case.context.topology.stages),), cp=1)
    # How far a chunk reaches decides what is written to scratch, and so what a window loses.
    case = replace(case, context=replace(case.context, topology=one_stage, scratch=None))
    assume(case.generation.topology.cp == 1)
    whole = replace(case, requests=tuple(replace(each, cuts=()) for each in case.requests))
    cut = replace(
        case,
        requests=tuple(
            replace(each, cuts=tuple(sorted(data.draw(st.sets(st.integers(1, each.prompt - 1), max_size=4)))))
            if each.prompt > 1 and each.beams == 1
            else each
            for each in case.requests
        ),
    )
    first, second = planned(whole), planned(cut)
    assert_same_answer(first, second)
    if isinstance(first, Writes) and isinstance(second, Writes):
        assert_same_moves(moves_of(whole, first), moves_of(cut, second))
        assert first.pairs == second.pairs
        chunks = [len(chunks) for chunks in gather_facts(cut).chunks]
        for segment in second.segments:
            assert 0 <= segment.chunk < chunks[segment.request]
