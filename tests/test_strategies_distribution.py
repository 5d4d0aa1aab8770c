"""What drawn cases are like: not small, not alike, seldom refused, and every two features meet."""

from __future__ import annotations

from functools import lru_cache
from itertools import combinations
from random import Random

import pytest

from oracle.model.axes import Split
from oracle.model.case import Case
from oracle.model.slots import block_count
from strategies.cases import decode
from strategies.features import CANNOT_MEET, FEATURES, OF_WINDOWS, features_of, median_sizes, sizes_of
from strategies.kinds import find_kind
from strategies.numbers import BOTH_MUST_MEET, WIDTH, WITH_STATES, WITH_WINDOWS, WITHOUT_STATES, Meeting, Numbers

DENSE = (find_kind("gqa"), find_kind("mla"))
HEADS_ONLY = {"heads on several ranks", "uneven heads", "NHD", "two layouts"}
OF_DENSE = set(FEATURES) - OF_WINDOWS


@lru_cache(maxsize=8)
def drawn(count: int, seed: int = 7) -> tuple[Case, ...]:
    random = Random(seed)
    return tuple(decode(random.randbytes(WIDTH), kinds=DENSE) for _ in range(count))


def is_refused(case: Case) -> bool:
    """Whether the instances do not fit by division alone: some of these can be served all the same."""
    sides = (case.context, case.generation)
    topologies = [side.topology for side in sides]
    tensor = [1 if topology.attention_dp else topology.tp for topology in topologies]
    heads = [
        axis.size
        for buffer in case.model.groups[0].buffers
        for part in buffer.parts
        for axis in part.axes
        if axis.split is Split.HEADS
    ]
    return (
        max(tensor) % min(tensor) != 0
        or any(count % tp and tp % count for count in heads for tp in tensor)
        or topologies[0].cp > 1
        or any(topology.cp > 1 and topology.attention_dp for topology in topologies)
        or case.context.tokens_per_block != case.generation.tokens_per_block
        or case.context.element_bits != case.generation.element_bits
    )


@pytest.mark.parametrize("seed", [1, 2, 3])
def test_half_of_the_cases_are_not_small(seed: int) -> None:
    sizes = median_sizes(drawn(2_000, seed))
    assert sizes.ranks >= 6
    assert sizes.layers >= 2
    assert sizes.blocks >= 3


def test_no_case_has_more_than_16_ranks() -> None:
    assert max(sizes_of(case).ranks for case in drawn(2_000)) <= 16


@pytest.mark.parametrize("seed", [1, 2, 3])
def test_few_cases_are_refused_but_some_are(seed: int) -> None:
    cases = drawn(2_000, seed)
    share = sum(map(is_refused, cases)) / len(cases)
    assert 0.03 < share < 0.15


def test_every_reason_to_refuse_is_drawn() -> None:
    cases = drawn(4_000)
    topologies = [(case.context.topology, case.generation.topology) for case in cases]
    assert any(a.cp > 1 and b.cp > 1 for a, b in topologies)
    assert any(b.cp > 1 and b.attention_dp for _, b in topologies)
    assert any(max(a.tp, b.tp) % min(a.tp, b.tp) and not a.attention_dp and not b.attention_dp for a, b in topologies)
    assert any(case.context.tokens_per_block != case.generation.tokens_per_block for case in cases)
    assert any(case.context.element_bits != case.generation.element_bits for case in cases)


def test_every_feature_occurs_within_300_draws() -> None:
    missing = OF_DENSE - set().union(*map(features_of, drawn(300)))
    assert not missing


def test_every_two_features_meet_within_1000_draws() -> None:
    found = [features_of(case) for case in drawn(1_000)]
    met = {frozenset(pair) for features in found for pair in combinations(features, 2)}
    pairs = {frozenset(pair) for pair in combinations(OF_DENSE, 2)}
    assert {tuple(sorted(pair)) for pair in pairs - met} <= {tuple(sorted(pair)) for pair in CANNOT_MEET}


def is_cut_where_no_legacy_sender_may(case: Case) -> bool:
    """Whether a prefill is cut into chunks where only the mapping serves it."""
    sides = (case.context.topology, case.generation.topology)
    return any(request.cuts for request in case.requests) and (sides[0].pp > 1 or max(each.cp for each in sides) > 1)


def test_features_that_cannot_meet_do_so_only_to_be_refused() -> None:
    for case in drawn(4_000):
        met = [pair for pair in CANNOT_MEET if pair <= features_of(case)]
        if frozenset(("beams", "chunks")) in met:
            assert all(request.beams == 1 or not request.cuts for request in case.requests)
            met.remove(frozenset(("beams", "chunks")))
        assert not met or is_refused(case) or is_cut_where_no_legacy_sender_may(case), met


def test_every_feature_is_there_often_and_often_not() -> None:
    found = [features_of(case) for case in drawn(2_000)]
    for name in OF_DENSE:
        share = sum(name in features for features in found) / len(found)
        assert 0.03 < share < 0.75, name


@pytest.mark.parametrize("meeting", [WITHOUT_STATES, WITH_STATES, WITH_WINDOWS], ids=["plain", "states", "windows"])
def test_two_features_must_meet_in_half_of_the_cases(meeting: Meeting) -> None:
    random = Random(5)
    met = 0
    for _ in range(4_000):
        read = Numbers(random.randbytes(WIDTH))
        read.choose(meeting)
        met += sum(read.must_meet(concept) for concept in meeting.concepts) == 2
    assert abs(met / 4_000 - BOTH_MUST_MEET) < 0.05


def test_prompts_lie_around_block_multiples_and_elsewhere() -> None:
    rows = [
        request.prompt % case.generation.tokens_per_block
        for case in drawn(2_000)
        if case.generation.tokens_per_block == 4
        for request in case.requests
    ]
    assert set(rows) == {0, 1, 2, 3}
    assert sum(row in (1, 3) for row in rows) > sum(row == 2 for row in rows)
    assert rows.count(0) > len(rows) / 6


def test_block_lengths_head_counts_and_tensor_sizes_vary() -> None:
    cases = drawn(2_000)
    assert {case.context.tokens_per_block for case in cases} == {1, 2, 3, 4, 8}
    assert {case.context.topology.tp for case in cases} == {1, 2, 3, 4, 6, 8}
    assert {case.generation.topology.tp for case in cases} == {1, 2, 3, 4, 6, 8}
    heads = {case.model.groups[0].buffers[0].parts[0].axes[0].size for case in cases if case.kind == "gqa"}
    assert heads == {1, 2, 3, 4, 6, 8}
    assert {case.generation.topology.cp for case in cases} >= {1, 2, 3}
    assert {case.slots.mul for case in cases} == set(range(1, 8))


def test_attention_dp_requests_are_on_every_rank_and_unlike_on_the_two_sides() -> None:
    both = [
        case for case in drawn(4_000) if case.context.topology.attention_dp and case.generation.topology.attention_dp
    ]
    ranks = {(request.context_dp, request.generation_dp) for case in both for request in case.requests}
    assert {(0, 1), (1, 0), (0, 0), (1, 1)} <= ranks


def test_requests_of_one_case_differ_in_prompt_and_in_what_is_cached() -> None:
    several = [case for case in drawn(1_000) if len(case.requests) > 1]
    assert sum(len({request.prompt for request in case.requests}) > 1 for case in several) > len(several) / 2
    assert any(len({request.generation.cached for request in case.requests}) == 3 for case in several)
    blocks = {
        block_count(request, "prompt", case.generation.tokens_per_block)
        for case in several
        for request in case.requests
    }
    assert blocks >= {1, 2, 3, 4, 5, 6}


def test_shared_contents_come_as_one_parent_as_a_chain_and_as_equal_content() -> None:
    three = [case for case in drawn(8_000) if len(case.requests) == 3]
    parents = {tuple(content.parent for content in case.contents) for case in three}
    assert {(-1,), (-1, 0, 0), (-1, 0, 1), (-1, -1, -1)} <= parents


@pytest.mark.parametrize("kind", DENSE, ids=lambda kind: kind.name)
def test_each_kind_alone_has_every_feature_that_it_can_have(kind: object) -> None:
    random = Random(11)
    found = set().union(*(features_of(decode(random.randbytes(WIDTH), kinds=(kind,))) for _ in range(600)))
    assert found == OF_DENSE - (HEADS_ONLY if kind is find_kind("mla") else set())
