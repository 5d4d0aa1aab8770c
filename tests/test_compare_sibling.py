"""A small sibling of a large case is packed as it is, is cut into as many parts, and is small."""

from __future__ import annotations

from dataclasses import replace

import pytest

from differential.compare.sibling import is_large, small_sibling
from oracle.model.case import SIDES, Case, SideState
from oracle.model.sides import lay_out
from strategies.deployments import deployment
from strategies.kinds import models
from strategies.kinds.protocol import Kind, PublishedModel
from tests.small_cases import case_of

MODELS = [(kind, model) for kind, model in models()]


def pools(case: Case, side: str) -> list[set[frozenset[tuple[int, str]]]]:
    """The buffers of each pool, rank by rank."""
    found = []
    for table in lay_out(case, side).tables:
        by_pool: dict[int, set[tuple[int, str]]] = {}
        for entry in table.entries:
            by_pool.setdefault(entry.pool, set()).add((entry.layer, entry.role))
        found.append({frozenset(members) for members in by_pool.values()})
    return found


def order(case: Case, side: str) -> list[list[tuple[int, str]]]:
    """The buffers of each group in the order of their offsets, rank by rank."""
    tables = lay_out(case, side).tables
    return [[(e.layer, e.role) for e in sorted(t.entries, key=lambda e: (e.group, e.role, e.offset))] for t in tables]


@pytest.mark.parametrize(("kind", "model"), MODELS, ids=[model.name for _, model in MODELS])
def test_a_published_model_has_a_sibling_that_is_packed_alike(kind: Kind, model: PublishedModel) -> None:
    split = {"tp": 4, "pp": 2} if kind.stages else {"tp": 4}
    case = deployment(model.name, {"tp": 2}, split, prompt=70_001)
    assert is_large(case)
    small = small_sibling(case)
    assert small is not None and not is_large(small)
    assert small.requests[0].prompt < 70_001
    assert [(side.topology, side.tokens_per_block) for side in (small.context, small.generation)] == [
        (side.topology, side.tokens_per_block) for side in (case.context, case.generation)
    ]
    for side in SIDES:
        assert pools(small, side) == pools(case, side)
        assert order(small, side) == order(case, side)


def test_sizes_that_differ_stay_different_and_even_axes_are_cut_into_whole_shares() -> None:
    case = deployment("qwen3.8-flash-next", {"tp": 4}, {"tp": 2, "cp": 4}, prompt=5_000)
    small = small_sibling(case)
    assert small is not None
    conv = next(buffer for buffer in small.model.groups[0].buffers if buffer.role == "conv_state")
    sizes = [section.size for section in conv.parts[0].axes[0].sections]
    assert sizes[0] == sizes[1] < sizes[2] and all(size % 8 == 0 for size in sizes)


def test_accidents_of_size_are_kept_and_none_are_added() -> None:
    for bits, together in ((16, False), (8, True)):
        case = deployment("qwen3.8-flash-next", {"tp": 2}, {"tp": 1}, prompt=5_000, element_bits=bits)
        small = small_sibling(case)
        assert small is not None
        (members, *_) = pools(small, "context")
        assert any({"key", "index_key"} <= {role for _, role in own} for own in members) is together


@pytest.mark.parametrize("bits", [16, 8])
@pytest.mark.parametrize("sides", [({"tp": 2, "pp": 5}, {"tp": 8, "pp": 3}), ({"tp": 4}, {"tp": 2, "cp": 4})], ids=str)
def test_many_ranks_of_eight_kinds_of_buffers_have_a_sibling(sides: tuple[dict[str, int], ...], bits: int) -> None:
    case = deployment("qwen3.8-flash-next", *sides, prompt=4_096, element_bits=bits)
    assert small_sibling(case) is not None


def test_a_side_that_went_beyond_the_prompt_still_does() -> None:
    case = deployment("llama-3-70b", {}, {}, prompt=5_000, cached=40)
    state = SideState(extra=3, drafts=2, reached=5_004)
    small = small_sibling(replace(case, requests=(replace(case.requests[0], context=state),)))
    assert small is not None
    (request,) = small.requests
    assert request.context == replace(state, reached=request.prompt + 4) and request.generation == SideState(40)


def test_a_case_with_explicit_tables_has_no_sibling() -> None:
    case = case_of("key @ 0 : T D(2) ; 8")
    table = lay_out(case, "context").tables[0]
    assert small_sibling(case) is not None
    given = case_of("key @ 0 : T D(2) ; 8", context_side={"page_tables": ((0, table),)})
    assert small_sibling(given) is None
