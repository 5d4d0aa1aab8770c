"""Cross attention: a second length of the request, and layers with it beside or instead of self attention."""

from __future__ import annotations

from statistics import median

import pytest

from differential.ledger import check_case
from differential.managers.tables import gather_facts
from differential.runner import run_case
from differential.subjects.mapping import Mapping
from oracle.model.case import SIDES, Case
from oracle.model.sides import lay_out
from oracle.truth.blocks import DUE, block_classes
from strategies.deployments import deployment
from strategies.kinds import cross
from tests.kind_cases import build_samples, bytes_by_rank, drawn, pools_of
from tests.ledger_cases import subjects

CROSS = 1
"""The group of cross attention."""


def decoder(context: dict[str, object], generation: dict[str, object], **options: object) -> Case:
    """24 layers of 16 heads of 64, each with self and cross attention, as decoders of speech have."""
    model = cross.declare(24, range(24), range(24), 16, 16, 64, 16).model
    return deployment(model, context, generation, **options)  # type: ignore[arg-type]


def test_keys_of_the_encoder_are_as_large_as_those_of_the_prompt_and_share_a_pool_group() -> None:
    (table, *_) = lay_out(decoder({"tp": 4}, {}, prompt=10, lengths={"encoder": 1500}), "context").tables
    assert {entry.nbytes for entry in table.entries} == {4 * 32 * 64 * 2}
    assert pools_of(table, 0) == pools_of(table, CROSS) == [(48 * 16_384, 48)]
    assert {pool.pool_group for pool in table.pools} == {0}


@pytest.mark.parametrize(("encoder", "blocks"), [(1500, 47), (32, 1), (33, 2), (0, 0)])
def test_blocks_of_cross_attention_are_those_of_the_encoder(encoder: int, blocks: int) -> None:
    case = decoder({"tp": 2}, {"tp": 4, "pp": 3}, prompt=100, lengths={"encoder": encoder})
    assert len(block_classes(case, 0, 0)) == 4 and len(block_classes(case, 0, CROSS)) == blocks
    assert all(len(rank.blocks[0, CROSS].slots) == blocks for rank in gather_facts(case).generation)
    verdict = run_case(case, [Mapping()]).verdicts["mapping"]
    assert verdict and not verdict.refusals
    assert verdict.nbytes == (4 + blocks) * 48 * 16 * 32 * 64 * 2


def test_what_the_receiver_has_of_the_prompt_saves_nothing_of_the_encoder() -> None:
    case = decoder({}, {}, prompt=100, cached=100, lengths={"encoder": 40})
    assert [int(sum(block_classes(case, 0, group) == DUE)) for group in (0, CROSS)] == [1, 2]
    assert run_case(case, [Mapping()]).verdicts["mapping"]


def test_cross_attention_has_no_window_and_no_legacy_rule() -> None:
    declared = cross.declare(4, range(4), range(1, 4), 2, 2, 1, 8)
    assert declared.native is None
    assert [(group.length, group.window) for group in declared.model.groups] == [("prompt", None), ("encoder", None)]
    case = next(case for case in drawn("cross"))
    checked = check_case(case, subjects("native"))
    assert checked.left_out == ("native",) and checked.passed


@pytest.mark.parametrize("which", range(len(cross.LAYERS)))
@pytest.mark.parametrize("count", [2, 3, 6])
def test_each_arrangement_has_layers_of_both_sorts(which: int, count: int) -> None:
    own, far = (set(layers) for layers in cross.LAYERS[which](count))
    assert own and far and own | far == set(range(count))


def test_every_number_builds_and_cases_stay_small() -> None:
    build_samples("cross", 3_000)
    cases = drawn("cross")
    assert median(case.model.layers for case in cases) >= 2
    assert median(map(bytes_by_rank, cases)) < 512


def test_drawn_encoders_are_shorter_longer_and_as_long_as_the_prompt() -> None:
    found = {
        (r.tokens("encoder") > r.prompt) - (r.tokens("encoder") < r.prompt) for c in drawn("cross") for r in c.requests
    }
    assert found == {-1, 0, 1}
    cases = drawn("cross")
    assert sum(len({r.tokens("encoder") for r in case.requests}) > 1 for case in cases) >= 10


def test_drawn_cases_have_cross_attention_instead_of_self_attention_and_other_heads() -> None:
    cases = drawn("cross")
    groups = [case.model.groups for case in cases]
    assert sum(not set(own.layers) & set(far.layers) for own, far in groups) >= 20
    heads = [{buffer.parts[0].axes[0].size for group in pair for buffer in group.buffers} for pair in groups]
    assert sum(len(found) == 2 for found in heads) >= 20


def test_drawn_cases_reach_stages_without_cross_attention_and_ranks_without_a_block_of_it() -> None:
    cases = drawn("cross")
    held = [table.groups() for case in cases for side in SIDES for table in lay_out(case, side).tables]
    assert {(0,), (1,), (0, 1)} <= set(held)
    short = 0
    for case in cases:
        block = case.generation.tokens_per_block
        shorter = any(request.tokens("encoder") <= block < request.prompt for request in case.requests)
        short += case.generation.topology.cp > 1 and shorter
    assert short >= 3
