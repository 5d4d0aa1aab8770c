"""The handshake: right pairs accepted, wrong ones refused, and every rank and byte under a name of its own."""

from __future__ import annotations

from dataclasses import replace
from itertools import combinations

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from differential.managers.tables import gather_facts
from differential.runner import run_case
from differential.subjects.compatibility import (
    CODES,
    Compatibility,
    Registration,
    check_strides,
    configuration_of,
    decide,
    decode_table,
    encode_table,
    fingerprint,
    registration_key,
)
from differential.subjects.compatibility.configuration import share
from differential.subjects.mapping import Mapping
from oracle.model.axes import Axis, Grid, Split
from oracle.model.case import PLAIN, Case
from oracle.model.errors import InvalidCase, MalformedFile
from oracle.model.instance import Instance
from oracle.model.pages import Entry, PageTable, Pool
from oracle.model.topology import Rank, Topology
from oracle.model.writes import Refusal
from oracle.truth.holders import held_indices, seat
from strategies.cases import cases
from tests.compatibility_images import configurations, image_of
from tests.compatibility_laws import LAWS, TABLE, is_servable
from tests.small_cases import case_of, group, small_cases

SUBJECT = Compatibility()
LATENT = "key @ 0..1 : T D(2) ; 8"


@pytest.mark.parametrize("law", LAWS)
def test_the_handshake_keeps_the_law(law: str) -> None:
    assert LAWS[law](SUBJECT) is None


# ---- the decision


def decided(case: Case) -> Refusal | None:
    return decide(configuration_of(case, "context"), configuration_of(case, "generation"))


@given(cases())
def test_a_drawn_pair_is_accepted_exactly_where_it_can_be_served(case: Case) -> None:
    assert (decided(case) is None) == is_servable(case)


@given(small_cases())
def test_a_pair_with_any_feature_is_accepted_exactly_where_it_can_be_served(case: Case) -> None:
    refusal = decided(case)
    assert (refusal is None) == is_servable(case), refusal
    assert refusal is None or refusal.code in CODES


@given(cases())
def test_a_pair_is_accepted_exactly_where_the_mapping_plans_it(case: Case) -> None:
    """The planner asks the same question with other arithmetic, so each checks the other."""
    plan = Mapping().plan(case, gather_facts(case))
    assert (decided(case) is None) == (not isinstance(plan, Refusal))


@given(cases())
def test_the_decision_does_not_depend_on_requests(case: Case) -> None:
    plainest = {"prompt": 1, "cuts": (), "context": PLAIN, "generation": PLAIN, "beams": 1}
    alone = replace(case, requests=(replace(case.requests[0], **plainest),))
    assert (decided(case) is None) == (decided(alone) is None)


@pytest.mark.parametrize(
    ("case", "code", "reason"),
    [
        (
            case_of(LATENT, generation_side={"tokens_per_block": 4}),
            "tokens_per_block_differ",
            "2 and 4 tokens a block",
        ),
        (case_of(LATENT, "tp2", "tp3"), "sizes_do_not_divide", "tp 2 and 3"),
        (case_of(LATENT, "tp1 cp2", "tp1 cp3"), "sizes_do_not_divide", "cp 2 and 3"),
        (
            case_of(LATENT, "tp1", "tp2 cp2 dp"),
            "context_parallel_with_attention_dp",
            "the generation side has cp = 2 and attention DP 2",
        ),
        (
            case_of(LATENT, generation_side={"element_bits": (("key", 16),)}),
            "buffer_differs",
            "key of layer 0 is paged: D(2).all@TP T(1) of 8 bits in sub-pages of 0 rows, x(1) on the context side and "
            "paged: D(2).all@TP T(1) of 16 bits in sub-pages of 0 rows, x(1) on the generation side",
        ),
        (
            case_of("key @ 0 : H(3).heads T ; 8", "tp4", "tp2"),
            "index_without_holder",
            "an index of H of key, layer 0, is due on rank 0",
        ),
    ],
)
def test_a_refusal_names_what_differs_and_both_values(case: Case, code: str, reason: str) -> None:
    assert decided(case) == Refusal(code, reason)


def test_finer_context_parallelism_on_both_sides_is_refused_by_the_block() -> None:
    refusal = decided(case_of(LATENT, "tp1 cp2", "tp1 cp4"))
    assert refusal == Refusal("index_without_holder", "block 1 of key, layer 0, is due on rank 1")
    assert decided(case_of(LATENT, "tp2 cp2", "tp4 cp2")) is None


def test_an_explicit_table_must_have_room_for_each_share() -> None:
    table = PageTable((Pool(8, 11),), (Entry(0, 0, 0, "key", 0, 4),))
    right = case_of("key @ 0 : T D(2) ; 8", context_side={"page_tables": ((0, table),)})
    assert decided(right) is None
    for entries, reason in (
        ((Entry(0, 0, 0, "key", 0, 3),), "key of layer 0 on rank 0 of the context side has 3 B of 4"),
        ((), "key of layer 0 on rank 0 of the context side has 0 B of 4"),
    ):
        source = configuration_of(right, "context")
        instance = replace(right.context, page_tables=((0, replace(table, entries=entries)),))
        poor = replace(source, instance=instance, tables=(replace(table, entries=entries),))
        assert decide(poor, configuration_of(right, "generation")) == Refusal("region_missing", reason)


SPLITS = st.sampled_from([Split.ALL, Split.HEADS, Split.FLOOR, Split.CYCLIC])


@given(SPLITS, st.integers(1, 9), st.integers(1, 5), st.integers(1, 3), st.sampled_from(Grid))
def test_shares_are_those_of_the_predicate(split: Split, size: int, tp: int, cp: int, grid: Grid) -> None:
    axis, instance = Axis("H", size, split, grid), Instance(Topology(tp, cp=cp))
    for rank in instance.topology.ranks():
        own = [index for run in share(axis, instance, rank) for index in run]
        assert own == held_indices(axis, seat(instance.topology, rank, grid)).tolist()


# ---- fingerprints


def test_the_compared_configurations_show_both_answers() -> None:
    alike = different = 0
    for family in configurations():
        images = [image_of(configuration) for configuration in family]
        for one, other in combinations(range(len(family)), 2):
            same_options = family[one].instance == family[other].instance and family[one].model == family[other].model
            alike += images[one] == images[other] and not same_options
            different += images[one] != images[other]
    assert alike > 200 and different > 2000


def test_a_fingerprint_is_short_text_and_the_same_for_the_same_instance() -> None:
    case = case_of(LATENT)
    prints = [fingerprint(configuration_of(case, side)) for side in ("context", "generation")]
    assert prints[0] == prints[1] and len(prints[0]) == 32 and int(prints[0], 16)


def test_the_number_of_slots_is_no_part_of_a_fingerprint() -> None:
    few, many = case_of(LATENT, prompts=1), case_of(LATENT, prompts=(40, 40))
    sides = [configuration_of(each, "context") for each in (few, many)]
    assert sides[0].tables != sides[1].tables
    assert fingerprint(sides[0]) == fingerprint(sides[1])


def test_head_major_and_token_major_coincide_for_one_token_or_one_head_a_rank() -> None:
    def printed(heads: int, size: int, layout: str) -> str:
        case = case_of(f"key @ 0 : H({heads}) T D(2) ; 8", size=size, sides={"layout": layout})
        return fingerprint(configuration_of(case, "context"))

    assert printed(2, 2, "HND") != printed(2, 2, "NHD")
    assert printed(1, 2, "HND") == printed(1, 2, "NHD")
    assert printed(2, 1, "HND") == printed(2, 1, "NHD")


# ---- registration


def test_keys_of_names_that_end_in_digits_do_not_collide() -> None:
    keys = {registration_key(name, Rank(n, 0, n, 0)) for name, n in (("ctx1", 12), ("ctx11", 2), ("ctx112", 0))}
    assert len(keys) == 3


NAMED_RANKS = st.tuples(st.text("a1:p", max_size=4), st.builds(Rank, st.just(0), *[st.integers(0, 99)] * 3))


@given(NAMED_RANKS, NAMED_RANKS)
def test_a_key_tells_names_and_places_apart(one: tuple[str, Rank], other: tuple[str, Rank]) -> None:
    assert (registration_key(*one) == registration_key(*other)) == (one == other)


@given(cases())
def test_page_tables_of_drawn_instances_are_carried_whole(case: Case) -> None:
    for side in ("context", "generation"):
        for table in set(configuration_of(case, side).tables):
            assert decode_table(encode_table(table)) == table


NUMBERS = st.one_of(st.integers(0, 3), st.integers(0, 1 << 40), st.booleans(), st.none(), st.text(max_size=2))


@given(st.lists(st.lists(NUMBERS, max_size=6), max_size=2), st.lists(st.lists(NUMBERS, max_size=7), max_size=3))
def test_a_record_is_a_table_that_can_be_or_refused(pools: list[list[object]], entries: list[list[object]]) -> None:
    record = msgspec.msgpack.encode([1, pools, entries])
    try:
        table = decode_table(record)
    except MalformedFile:
        return
    assert encode_table(table) == record


@given(st.binary(max_size=40))
def test_other_bytes_are_no_record(record: bytes) -> None:
    try:
        table = decode_table(record)
    except MalformedFile:
        return
    assert encode_table(table) == record


@pytest.mark.parametrize(
    ("row", "message"),
    [
        ([2, [], []], "page table record = 2 is not possible: expected version 1"),
        ([1, [], [[0, 0, 0, "key", 0, 4]]], "this table has 0 pools"),
        ([1, [[8, 1, 8, 0, 0]], [[0, 0, 0, "key", 4, 8]]], "the entry ends past its slot"),
        ([1, [[8, 1, 8, 0, 0]], [[0, 0, 0, "two words", 0, 4]]], "expected identifiers"),
        ([1, [[8, 1, 8, 0, 0]], [[0, 0, 0, "key", 0]]], "expected a whole record, but"),
        ([1, [], [], 0], "expected a whole record, but"),
        ({"version": 1}, "expected a whole record, but"),
        ([1, [[8, True, 8, 0, 0]], []], "expected a whole record, but"),
        ([1, [[8, 1, 0, 0, 0]], []], "expected the one spelling of a table"),
    ],
)
def test_a_bad_record_is_told_what_is_wrong_with_it(row: object, message: str) -> None:
    with pytest.raises(MalformedFile) as raised:
        decode_table(msgspec.msgpack.encode(row))
    assert message in str(raised.value)


def test_offsets_beyond_32_bits_are_carried() -> None:
    table = PageTable((Pool(8, 1 << 30, 8, 1 << 33),), (Entry(0, 0, 1, "ssm", 1 << 33, 8),))
    assert decode_table(encode_table(table)).entries[0].offset == 1 << 33


def test_a_registration_is_read_back_and_a_rank_that_counts_otherwise_is_refused() -> None:
    topology = Topology(2, (1, 1), 2)
    own = Registration("ctx", topology, topology.rank(6), TABLE)
    assert Registration.decode(own.encode()) == own and own.key == "3:ctx:pp1:tp1:cp0"
    tensor_minor = replace(own, rank=Rank(5, 1, 1, 0))
    with pytest.raises(MalformedFile, match=r"\(pp\*TP \+ tp\)\*CP \+ cp: rank 5 is at \(1, 0, 1\)"):
        Registration.decode(tensor_minor.encode())
    with pytest.raises(MalformedFile, match=r"this instance has ranks 0\.\.7"):
        Registration.decode(replace(own, rank=Rank(8, 2, 0, 0)).encode())
    with pytest.raises(MalformedFile, match="expected version 1"):
        Registration.decode(own.encode().replace(b"\x99\x01", b"\x99\x02", 1))
    for length in range(len(own.encode())):
        with pytest.raises(MalformedFile):
            Registration.decode(own.encode()[:length])


# ---- layout


def test_strides_of_another_order_are_refused_with_both_values() -> None:
    case = case_of("key @ 0 : H(2) T D(3) ; 16", size=4, sides={"layout": "NHD"})
    configuration = configuration_of(case, "context")
    rank = case.context.topology.rank(0)
    assert check_strides(configuration, rank, "key", 0, (6, 12, 2)) is None
    refusal = check_strides(configuration, rank, "key", 0, (24, 6, 2))
    assert refusal == Refusal("strides_differ", "axis H of key has stride 24, in the NHD order it is 6")


def test_strides_follow_the_share_of_the_rank() -> None:
    case = case_of("key @ 0 : H(4).heads T D(1) ; 8", "tp2", "tp1", sides={"layout": "NHD"})
    source, destination = (configuration_of(case, side) for side in ("context", "generation"))
    assert check_strides(source, case.context.topology.rank(1), "key", 0, (1, 2, 1)) is None
    assert check_strides(destination, case.generation.topology.rank(0), "key", 0, (1, 2, 1)) is not None
    assert check_strides(destination, case.generation.topology.rank(0), "key", 0, (1, 4, 1)) is None


@pytest.mark.parametrize(
    ("role", "strides", "message"),
    [
        ("value", (1, 1), "expected a buffer of the model"),
        ("key", (1, 1, 1), "expected one for each of T, D"),
        ("paged", (1, 1), "expected a buffer of one part and one sub-page"),
    ],
)
def test_a_question_about_no_tensor_is_refused(role: str, strides: tuple[int, ...], message: str) -> None:
    case = case_of(group("key @ 0 : T D(2) ; 8", "paged @ 0 : T D(2) ; 8 ; x(2)"))
    with pytest.raises(InvalidCase, match=message):
        check_strides(configuration_of(case, "context"), case.context.topology.rank(0), role, 0, strides)


def test_an_accepted_pair_that_the_mapping_plans_is_right() -> None:
    case = case_of("key @ 0 : H(6).heads T D(2) ; 8", "tp4", "tp2")
    assert decided(case) is None and run_case(case, [Mapping()]).passed
