"""Known differences about recurrent state and request-wide buffers: where they are, and what they do not cover."""

from __future__ import annotations

from dataclasses import replace

import pytest

from differential.compare import FIRST, Comparison
from differential.ledger import Settled, check_case, find_entry, settle
from differential.ledger.legacy.state import slices
from differential.managers.tables import gather_facts
from differential.runner import Kind, run_case
from differential.subjects.registry import find_subject
from oracle.model.case import Case, Native
from oracle.model.writes import Refusal
from tests.ledger_cases import VARIANTS, compared, subjects
from tests.small_cases import case_of, group, model_of

SSM = "ssm_state @ {} : H(12).even@TPCP P(2) ; 8"
CONV = "conv_state @ {} : C[x:12.even, B:{b}, C:{b}]@TPCP W(1) ; 8"
NATIVE = Native(
    (("ssm_state", "indexed"), ("conv_state", "sectioned"), ("ple", "replicated"), ("position", "replicated"))
)


def state_case(context: str, generation: str, *buffers: str, layers: int = 1, **options: object) -> Case:
    options.setdefault("native", NATIVE)
    model = model_of(group(*buffers, name="state", state=True), layers=layers)
    return case_of(model, context, generation, **options)


def settled(case: Case, variant: str = "native") -> Settled:
    return settle(case, compared(case, variant))


def code(case: Case, variant: str = "native") -> str:
    """The code under which a legacy subject refuses the instances, if it does."""
    plan = find_subject(variant).plan(case, gather_facts(case))
    return plan.code if isinstance(plan, Refusal) else ""


# ---- state grids that do not divide (spec: legacy sender, 5)


@pytest.mark.parametrize(
    ("context", "generation", "serves"),
    [
        ("tp2", "tp1 cp3", False),
        ("tp4", "tp2 cp3", False),
        ("tp4", "tp1 cp6", False),
        ("tp2", "tp1 cp4", True),
        ("tp4", "tp2 cp2", True),
        ("tp2", "tp2 cp3", True),
    ],
)
def test_grids_of_which_neither_divides_the_other_are_served_by_the_mapping_alone(
    context: str, generation: str, serves: bool
) -> None:
    case = state_case(context, generation, SSM.format(0), prompts=12)
    checked = check_case(case, subjects("native"))
    assert checked.passed and checked.result.verdicts["mapping"]
    assert code(case) == ("" if serves else "shard_counts_not_divisible")
    assert set(checked.settled[0].accepted) == (set() if serves else {"state-grids-that-do-not-divide"})


def test_replicated_state_needs_no_grid_that_divides() -> None:
    case = state_case("tp2", "tp1 cp3", "ple @ 0 : B(4) ; 8", prompts=12)
    assert code(case) == ""
    (refusal,) = compared(state_case("tp2", "tp1 cp3", SSM.format(0))).refusals
    assert not find_entry("state-grids-that-do-not-divide").covers(case, refusal)


# ---- what every rank holds whole, declared as a share (spec: kinds, decision 4)


@pytest.mark.parametrize("buffer", ["ssm_state @ 0 : H(12) P(2) ; 8", CONV.format(0, b="3.all")])
@pytest.mark.parametrize("context", ["tp1", "tp4", "tp2 dp"])
def test_whole_state_is_refused_between_unequal_grids(buffer: str, context: str) -> None:
    case = state_case(context, "tp2", buffer)
    assert code(case) == "state_sizes_differ"
    assert check_case(case, subjects(*VARIANTS)).passed
    assert set(settled(case).accepted) == {"whole-state-declared-as-shares"}


def test_shares_are_not_taken_for_whole_state() -> None:
    entry = find_entry("whole-state-declared-as-shares")
    (refusal,) = compared(state_case("tp1", "tp2", CONV.format(0, b="3.all"))).refusals
    assert not entry.covers(state_case("tp1", "tp2", CONV.format(0, b="4.even"), SSM.format(0)), refusal)
    assert not entry.covers(state_case("tp1", "tp2", "ple @ 0 : B(4) ; 8"), refusal)
    assert not entry.covers(state_case("tp2", "tp1 cp2", CONV.format(0, b="3.all")), refusal)


def test_under_helix_the_grid_partner_sends_the_whole_sections_and_each_share_is_sent_alike() -> None:
    case = state_case("tp4", "tp2 cp2", CONV.format(0, b="3.all"), SSM.format(0), prompts=4)
    found = compared(case)
    assert {(each.destination, each.role, each.nbytes) for each in found.bytes} == {
        (1, "conv_state", 6),
        (3, "conv_state", 6),
    }
    assert [(each.first_senders, each.second_senders) for each in found.bytes] == [((0,), (1,)), ((2,), (3,))]
    assert {each.right for each in found.bytes} == {FIRST}
    assert set(settled(case).accepted) == {"whole-state-from-the-grid-partner"}
    assert run_case(case, subjects("native")).verdicts["native"]


def test_another_sender_of_whole_state_than_the_grid_partner_is_not_known() -> None:
    case = state_case("tp2", "tp1 cp2", CONV.format(0, b="3.all"), prompts=4)
    entry = find_entry("whole-state-from-the-grid-partner")
    (difference,) = compared(case).bytes
    assert entry.covers(case, difference)
    shares = state_case("tp2", "tp1 cp2", CONV.format(0, b="4.even"), prompts=4)
    assert not entry.covers(shares, difference)
    for change in ({"second_senders": (0,)}, {"first_senders": (1,)}, {"destination": 0}, {"layer": None}):
        assert not entry.covers(case, replace(difference, **change)), change


def test_a_context_parallel_sender_has_grid_partners_too() -> None:
    case = state_case("tp1 cp2", "tp2", CONV.format(0, b="3.all"), prompts=1)
    found = compared(case)
    assert [(each.destination, each.first_senders, each.second_senders) for each in found.bytes] == [(1, (0,), (1,))]
    assert set(settled(case).accepted) == {"whole-state-from-the-grid-partner"}
    assert not compared(state_case("tp2", "tp2", CONV.format(0, b="3.all"), prompts=1)).bytes


# ---- layers taken by their place (spec: legacy sender, 7.7)

ORDERS = [
    # context stages and order, generation stages and order, what rank 0 reads and writes
    ("pp3", (), "pp3", (), ((0, 1, 2), (0, 1, 2))),
    ("pp3", (2, 1, 0), "pp3", (2, 1, 0), ((2, 1, 0), (2, 1, 0))),
    ("pp3", (2, 1, 0), "pp3", (), ((2, 1, 0), (2,))),
    ("pp2+1", (2, 1, 0), "pp3", (), ((1, 0), (1, 2))),
    ("pp3", (), "pp2+1", (2, 1, 0), ((0, 1), (0,))),
    ("pp1+2", (2, 1, 0), "pp3", (), ((0,), (0,))),
    ("pp3", (1, 0, 2), "pp3", (0, 1, 2), ((1, 0, 2), (1, 2))),
    ("pp2+1", (0, 1, 2), "pp3", (2, 0, 1), ((0, 1), (0, 1))),
]


def ordered(context: str, order: tuple[int, ...], generation: str, own: tuple[int, ...], **options: object) -> Case:
    return state_case(
        f"tp1 {context}",
        f"tp1 {generation}",
        SSM.format("0..2"),
        layers=3,
        context_side={"layer_order": order},
        generation_side={"layer_order": own},
        **options,
    )


@pytest.mark.parametrize(("context", "order", "generation", "own", "taken"), ORDERS)
def test_shared_layers_are_taken_from_the_first_one_on_whatever_they_are(
    context: str, order: tuple[int, ...], generation: str, own: tuple[int, ...], taken: object
) -> None:
    case = ordered(context, order, generation, own)
    assert slices(case, 0, 0, 0, "ssm_state") == taken
    for variant in VARIANTS:
        checked = check_case(case, subjects(variant))
        assert checked.passed, checked.settled[0].open.lines()
        unequal = any(
            len(found[0]) != len(found[1])
            for source in range(case.context.topology.size)
            for target in range(case.generation.topology.size)
            if (found := slices(case, source, target, 0, "ssm_state")) is not None
        )
        assert code(case, variant) == ("crash: state pointers of unequal length" if unequal else "")


def test_a_layer_lands_on_another_ones_place_and_its_own_stays_empty() -> None:
    case = ordered("pp2+1", (2, 1, 0), "pp3", ())
    found = compared(case)
    assert [(each.layer, each.first_senders, each.second_senders) for each in found.bytes] == [
        (0, (0,), ()),
        (2, (1,), (0, 1)),
    ]
    assert set(settle(case, found).accepted) == {"state-layers-taken-by-position"}
    kinds = {violation.kind for violation in run_case(case, subjects("native")).verdicts["native"].violations}
    assert Kind.MISSING in kinds and Kind.DUPLICATE in kinds


@pytest.mark.parametrize(
    ("context", "generation"), [("tp2", "tp1"), ("tp1", "tp2"), ("tp4", "tp2"), ("tp2", "tp1 cp2")]
)
def test_misplaced_layers_are_told_share_by_share(context: str, generation: str) -> None:
    case = state_case(
        f"{context} pp2+1",
        generation,
        SSM.format("0..2"),
        CONV.format("0..2", b="4.even"),
        layers=3,
        prompts=8,
        context_side={"layer_order": (2, 1, 0)},
    )
    checked = check_case(case, subjects("native"))
    assert checked.passed, checked.settled[0].open.lines()
    assert set(checked.settled[0].accepted) == {"state-layers-taken-by-position"}


def test_whole_state_in_another_order_comes_from_the_grid_partner_too() -> None:
    case = state_case(
        "tp2 pp2+1",
        "tp1 cp2",
        CONV.format("0..2", b="3.all"),
        layers=3,
        prompts=4,
        context_side={"layer_order": (2, 1, 0)},
    )
    checked = check_case(case, subjects("native"))
    assert checked.passed, checked.settled[0].open.lines()


def test_a_layer_that_lands_where_it_should_is_not_covered() -> None:
    case = ordered("pp2+1", (2, 1, 0), "pp3", ())
    (lost, twice) = compared(case).bytes
    entry = find_entry("state-layers-taken-by-position")
    assert entry.covers(case, lost) and entry.covers(case, twice)
    assert not entry.covers(case, replace(twice, layer=1))
    assert not entry.covers(case, replace(lost, second_senders=(0,)))
    assert not entry.covers(ordered("pp2+1", (), "pp3", ()), lost)


# ---- tensor sizes that do not divide, with state


@pytest.mark.parametrize("variant", VARIANTS[:2])
@pytest.mark.parametrize(("context", "generation"), [("tp2", "tp3 cp2"), ("tp2 pp1+1", "tp3 cp2"), ("tp3", "tp2 cp3")])
def test_state_that_no_asked_rank_holds_is_missing_as_known(context: str, generation: str, variant: str) -> None:
    layers = 2 if "pp" in context else 1
    every = f"0..{layers - 1}" if layers > 1 else "0"
    case = state_case(context, generation, SSM.format(every), f"ple @ {every} : B(4) ; 8", layers=layers, prompts=12)
    checked = check_case(case, subjects(variant))
    assert checked.passed, checked.uncovered()
    assert set(checked.settled[0].accepted) == {"tensor-sizes-that-do-not-divide"}


# ---- request-wide buffers (spec: kinds, hot spot 3)


def position_case(context: str, generation: str, layers: int = 3, key: int = 0, **options: object) -> Case:
    every = f"0..{layers - 1}"
    buffers = f"key @ {every} : T D(1) ; 8", f"position @ {every} : T D(3) ; 8 ; request ; first_local"
    model = model_of(group(*buffers), layers=layers)
    native = replace(NATIVE, mappers=(("key", "indexed"), *NATIVE.mappers))
    case = case_of(model, context, generation, prompts=5, native=native, **options)
    return replace(case, requests=(replace(case.requests[0], generation_dp=key),))


def differing(comparison: Comparison) -> dict[int, set[tuple[tuple[int, ...], tuple[int, ...]]]]:
    """(senders of the mapping, of the legacy sender) by receiver."""
    found: dict[int, set[tuple[tuple[int, ...], tuple[int, ...]]]] = {}
    for each in comparison.bytes:
        found.setdefault(each.destination, set()).add((each.first_senders, each.second_senders))
    return found


@pytest.mark.parametrize(
    ("context", "generation", "key", "unlike"),
    [
        ("tp1 pp3", "tp1 pp3", 0, {}),
        ("tp1 pp1+2", "tp1 pp1+2", 0, {}),
        ("tp1 pp1+2", "tp1 pp3", 0, {}),
        ("tp1 pp3", "tp1 pp1+2", 0, {1: {((0,), ())}}),
        ("tp2 pp3", "tp2 pp2+1", 0, {2: {((0,), ())}, 3: {((1,), ())}}),
        ("tp1 pp1+2", "tp2 dp pp3", 1, {1: {((1,), (0,))}}),
        ("tp1 pp2+1", "tp1 pp1+2", 0, {1: {((0,), ())}}),
    ],
)
@pytest.mark.parametrize("variant", VARIANTS)
def test_the_positions_are_sent_where_both_stages_begin_at_one_layer(
    context: str, generation: str, key: int, unlike: object, variant: str
) -> None:
    case = position_case(context, generation, key=key)
    found = compared(case, variant)
    assert differing(found) == unlike
    assert {each.role for each in found.bytes} <= {"position"}
    checked = check_case(case, subjects(variant))
    assert checked.passed and set(checked.settled[0].accepted) <= {"request-wide-buffer-by-layer"}


def test_positions_that_are_packed_otherwise_are_left_out_for_that_reason() -> None:
    case = position_case("tp1 pp3", "tp1 pp3", generation_side={"packing": (("kv", "separate"),)})
    assert settled(case).identical
    together = "index @ 0 : T D(3) ; 8", "position @ 0 : T D(3) ; 8 ; request ; first_local"
    native = replace(NATIVE, mappers=(("index", "replicated"), *NATIVE.mappers))
    case = case_of(group(*together), prompts=5, native=native, generation_side={"packing": (("kv", "separate"),)})
    assert set(settled(case).accepted) == {"other-roles-in-a-view"}
    assert {each.role for each in settled(case).accepted["other-roles-in-a-view"]} == {"index", "position"}


def test_a_buffer_of_a_layer_is_not_taken_for_one_of_the_request() -> None:
    case = position_case("tp1 pp3", "tp1 pp1+2")
    entry = find_entry("request-wide-buffer-by-layer")
    for difference in compared(case).bytes:
        assert entry.covers(case, difference)
        for change in ({"role": "key"}, {"destination": 0}, {"first_senders": (9,)}, {"request": None}):
            assert not entry.covers(case, replace(difference, **change)), change
