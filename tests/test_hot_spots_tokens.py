"""Hot spots of tokens: unequal windows, compressed tails, context parallelism and rings."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace

import numpy as np
import pytest

from differential.ledger import check_case
from differential.subjects.mapping import Mapping, Pages, check_compatible
from differential.subjects.registry import find_subject
from oracle.model.case import Case
from oracle.model.errors import InvalidCase
from oracle.model.pages import PageTable
from oracle.model.sides import lay_out
from oracle.model.writes import Refusal, Writes
from strategies.kinds import deepseek_v4, dsa, fp4_mla, gqa, kda, mamba2, mla, nvfp4, vswa
from strategies.kinds.compressed import Forms, Rows
from strategies.kinds.protocol import Declaration
from tests.hot_spots import (
    Kind,
    Outcome,
    Run,
    accepted,
    between,
    entry_of,
    judged,
    of_native,
    ordinal_of,
    plan_of,
    planted,
    reported,
    right_plan,
    runs_of,
    served,
    slot_of,
    tables_of,
)

# ---- 5: windows of different length on the two sides

BLOCK = 128
WINDOWED = vswa.declare(2, [(128, (0,))], 1, 1, 8)
DRAFT_LENGTH = 3


def windows(prompt: int, context: int, generation: int) -> Case:
    """A window of 128 tokens, a block of as many, and how many tokens each side keeps beyond it."""
    sides = {
        f"{side}_side": {"reserve": (("w128", reserve),)}
        for side, reserve in (("context", context), ("generation", generation))
        if reserve
    }
    return between(WINDOWED, prompt=prompt, tokens=BLOCK, **sides)


def blocks_sent(case: Case, group: int = 0) -> set[int]:
    return {ordinal_of(case, run) for run in served(case) if run.group == group}


@pytest.mark.parametrize(
    ("prompt", "kept"),
    # The first block of the window is (prompt + 1 - window) // 128, window 128 or 131; both change at multiples.
    [(253, {0: 0, 3: 0}), (254, {0: 0, 3: 0}), (255, {0: 1, 3: 0}), (257, {0: 1, 3: 0}), (258, {0: 1, 3: 1})],
)
def test_a_block_that_one_window_dropped_and_the_other_wants_does_not_stop_the_rest(
    prompt: int, kept: dict[int, int]
) -> None:
    blocks = -(-prompt // BLOCK)
    for context, generation in ((0, 0), (0, 3), (3, 0), (3, 3)):
        case = windows(prompt, context, generation)
        assert blocks_sent(case) == set(range(max(kept[context], kept[generation]), blocks))
        assert blocks_sent(case, 1) == set(range(blocks))


def test_a_block_sent_for_its_neighbour_since_a_list_is_longer_is_reported() -> None:
    case = windows(256, 0, DRAFT_LENGTH)  # the sender lists block 1, the receiver blocks 0 and 1

    def by_position(run: Run) -> Run:
        return replace(run, destination_slot=slot_of(case, "generation", 0, 0, 0)) if run.group == 0 else run

    assert reported(case, planted(case, by_position)) == {Kind.WRONG_ELEMENT, Kind.MISSING}
    for variant in ("native", "native:suffix"):
        assert check_case(case, [Mapping(), find_subject(variant)]).passed


def test_a_window_counted_without_the_query_about_to_run_reads_a_dropped_block() -> None:
    case = windows(255, 0, 0)  # 255 - 128 is short of a block, 255 + 1 - 128 is one

    def one_more(run: Run) -> Iterable[Run]:
        ends = [slot_of(case, side, 0, 0, 0) for side in ("context", "generation")]
        return [run, replace(run, source_slot=ends[0], destination_slot=ends[1])] if run.group == 0 else [run]

    assert reported(case, planted(case, one_more)) & {Kind.STALE_SOURCE, Kind.STRAY}


# ---- 12: rows of several tokens, footers, blocks of one row

FINE, COARSE = 2, 8
FOOTER = Rows(((2, 8), (1, 8)))
COMPRESSED = deepseek_v4.declare((FINE, COARSE), COARSE, FINE, Forms(Rows(((1, 16),)), Rows(((3, 8),)), FOOTER, 1, 1))


def compressed(prompt: int, context: str = "tp1", generation: str = "tp2") -> Case:
    return between(COMPRESSED, context, generation, prompt=prompt, tokens=COARSE)


def only_valid(case: Case, prompt: int, run: Run) -> Iterable[Run]:
    """The valid rows of ``run``, a whole buffer: those whose tokens are all of the prompt."""
    ratio = {("compress", 0): FINE, ("compress", 1): COARSE, ("indexer_compress", 0): FINE}.get(
        (run.role, run.layer), 1
    )
    tokens = min(COARSE, prompt - COARSE * ordinal_of(case, run))
    rows, valid = COARSE // ratio, tokens // ratio
    parts = (2, 1) if run.role == "indexer_compress" else (run.nbytes // rows,)
    start = 0
    for width in parts:
        if valid:
            yield replace(
                run,
                source_offset=run.source_offset + start,
                destination_offset=run.destination_offset + start,
                nbytes=valid * width,
            )
        start += rows * width


@pytest.mark.parametrize("prompt", [8, 9, 13, 15, 16, 17, 23])
def test_the_complete_rows_of_a_compressed_tail_are_due_and_no_more(prompt: int) -> None:
    case = compressed(prompt)
    plan = right_plan(case)
    whole = runs_of(case, plan)
    assert all(run.nbytes == entry_of(tables_of(case)[1][0], run.group, run.layer, run.role).nbytes for run in whole)
    rows = [run for each in whole for run in only_valid(case, prompt, each)]
    trimmed = plan_of(case, rows, plan)
    assert judged(case, trimmed).outcome is Outcome.PASS
    full = prompt % COARSE == 0
    assert (judged(case, trimmed, padding="due").outcome is Outcome.PASS) is full
    for number, run in enumerate(rows):
        fewer = plan_of(case, [*rows[:number], *rows[number + 1 :]], plan)
        assert judged(case, fewer).counts == {Kind.MISSING: run.nbytes}


def test_a_block_of_one_row_has_none_before_its_last_token() -> None:
    table = tables_of(compressed(9))[0][0]
    coarse = next(entry for entry in table.entries if (entry.layer, entry.role) == (1, "compress"))
    assert coarse.nbytes == 3  # one row of three bytes
    for prompt, rows in ((7, 0), (8, 1), (15, 1), (16, 2)):
        case = compressed(prompt)
        whole = [run for run in served(case) if (run.layer, run.role, run.destination) == (1, "compress", 0)]
        assert sum(1 for run in whole for _ in only_valid(case, prompt, run)) == rows


@pytest.mark.parametrize("declared", [COMPRESSED, dsa.declare(1, 2, 16, (0,), 2, 1)], ids=["deepseek_v4", "dsa"])
def test_rows_of_a_footer_taken_for_consecutive_bytes_are_reported(declared: Declaration) -> None:
    role = "indexer_compress" if declared is COMPRESSED else "index_key"
    case = between(declared, prompt=5, tokens=8)
    rows = 5 // (FINE if declared is COMPRESSED else 1)

    def cut(run: Run) -> Run:
        return replace(run, nbytes=3 * rows) if run.role == role else run

    # The data of all rows comes first: what is cut off are the tails of all valid ones.
    assert judged(case, planted(case, cut)).counts == {Kind.MISSING: rows}


def test_rows_of_a_footer_that_are_moved_one_by_one_are_reported() -> None:
    case = between(dsa.declare(1, 2, 16, (0,), 2, 1), prompt=4, tokens=4)

    def row_by_row(run: Run) -> Iterable[Run]:
        if run.role != "index_key":
            return [run]
        order = (1, 0, 2, 3)
        return [replace(run, source_offset=3 * order[row], destination_offset=3 * row, nbytes=3) for row in range(4)]

    assert reported(case, planted(case, row_by_row)) == {Kind.WRONG_ELEMENT}


def test_the_states_of_a_compressor_must_come_for_the_row_to_be() -> None:
    case = compressed(13)
    for role in ("compressor_kv", "compressor_score", "indexer_compressor_kv", "indexer_compressor_score"):
        plan = planted(case, lambda run, role=role: None if run.role == role else run)
        assert reported(case, plan) == {Kind.MISSING}


# ---- 13: context parallelism

TOKENS = 4
HELIX = {
    "gqa": gqa.declare(1, 2, 1, 16),
    "mla": mla.declare(1, 2, 16),
    "nvfp4": nvfp4.declare(1, 2, 16),
    "dsa": dsa.declare(1, 2, 16, (0,), 2, 1),
    "mamba2": mamba2.declare("SA", 2, 1, 16, 4, 1, 1, 4, 1),
    "kda": kda.declare("SA", 2, 16, 4, 1, 1),
}


@pytest.mark.parametrize("kind", HELIX)
@pytest.mark.parametrize("prompt", [1, 3, 4])
def test_a_rank_without_a_block_of_a_short_prompt_is_served_with_nothing_or_its_state(kind: str, prompt: int) -> None:
    case = between(HELIX[kind], "tp2", "tp1 cp2", prompt=prompt)
    paged = {index for index, group in enumerate(case.model.groups) if group.is_paged}
    found = {(run.destination, run.group in paged) for run in served(case)}
    assert found == {(0, True)} | ({(0, False), (1, False)} if len(case.model.groups) > 1 else set())
    assert {pair.destination for pair in right_plan(case).pairs} == {0, 1}
    assert accepted(case) == {"fewer-blocks-than-context-parallel"}


@pytest.mark.parametrize("kind", HELIX)
@pytest.mark.parametrize("prompt", [9, 13, 17])
def test_the_last_part_of_a_super_block_is_on_the_ranks_that_it_reaches(kind: str, prompt: int) -> None:
    cp = 2 if kind in ("mamba2", "kda") else 3
    case = between(HELIX[kind], "tp1", f"tp1 cp{cp}", prompt=prompt)
    group = len(case.model.groups) - 1
    blocks = {(ordinal_of(case, run), run.destination) for run in served(case) if run.group == group}
    assert blocks == {(block, block % cp) for block in range(-(-prompt // TOKENS))}


def test_a_stride_without_the_phase_of_its_rank_is_reported() -> None:
    case = between(HELIX["mla"], "tp1", "tp1 cp2", prompt=9)

    def from_the_first(run: Run) -> Run:
        return replace(run, source_slot=slot_of(case, "context", 0, 0, ordinal_of(case, run) - run.destination))

    assert reported(case, planted(case, from_the_first)) == {Kind.WRONG_ELEMENT}


def test_windows_under_context_parallelism_are_counted_in_blocks_of_the_whole_prompt() -> None:
    declared = vswa.declare(2, [(9, (0,))], 2, 1, 16)
    case = between(declared, "tp2", "tp1 cp2", prompt=19)
    first = (19 + 1 - 9) // TOKENS
    windowed = {ordinal_of(case, run) for run in served(case) if run.group == 0}
    assert windowed == set(range(first, 5)) and first == 2
    assert of_native(case).refusals[0].code == "helix_window" and accepted(case) == {"helix-with-a-window"}

    # As many of each rank's own blocks as leave the window of the whole prompt: blocks 2 and 3 are among them.
    plan = planted(case, lambda run: None if run.group == 0 and ordinal_of(case, run) // 2 < first else run)
    assert {(each.kind, each.ordinal) for each in judged(case, plan).violations} == {
        (Kind.MISSING, 2),
        (Kind.MISSING, 3),
    }


# ---- 14: rings


def ring(length: int) -> Declaration:
    return fp4_mla.declare(1, stored=4, latent=2, values=2, tile=2, ring=length, tokens_per_block=TOKENS)


def pages(declared: Declaration, side: str) -> Pages:
    case = between(declared)
    return Pages(declared.model, case.side(side), lay_out(case, side).tables)


@pytest.mark.parametrize(("context", "generation"), [(5, 7), (7, 5), (16, 18)])
def test_rings_of_different_length_are_refused_with_both_lengths(context: int, generation: int) -> None:
    refusal = check_compatible(pages(ring(context), "context"), pages(ring(generation), "generation"))
    assert isinstance(refusal, Refusal) and refusal.code == "ring_length_differs"
    assert "mla_hp_tail" in refusal.reason and f"[{context}]" in refusal.reason and f"[{generation}]" in refusal.reason
    assert check_compatible(pages(ring(context), "context"), pages(ring(context), "generation")) is None


def shorter(table: PageTable, rows: int) -> PageTable:
    """``table`` with the ring of some rows less."""
    entries = tuple(
        replace(entry, nbytes=entry.nbytes - 4 * rows) if entry.role == "mla_hp_tail" else entry
        for entry in table.entries
    )
    return PageTable(table.pools, entries)


@pytest.mark.parametrize("side", ["context", "generation"])
def test_a_page_table_with_a_shorter_ring_than_is_declared_is_no_case(side: str) -> None:
    table = shorter(lay_out(between(ring(5)), side).tables[0], 2)
    case = between(ring(5), **{f"{side}_side": {"page_tables": ((0, table),)}})
    with pytest.raises(InvalidCase, match=f"{side}.*mla_hp_tail.* = 12 is not possible: the rank stores 20 B of it"):
        lay_out(case, side)


def test_a_ring_cut_to_the_shorter_one_is_reported() -> None:
    case = between(ring(7))
    tail = [run for run in served(case) if run.role == "mla_hp_tail"]
    assert {run.nbytes for run in tail} == {7 * 4}
    plan = planted(case, lambda run: replace(run, nbytes=5 * 4) if run.role == "mla_hp_tail" else run)
    assert judged(case, plan).counts == {Kind.MISSING: 2 * 4 * len(tail)}


def test_no_row_of_a_ring_is_a_row_of_the_block() -> None:
    # Positions are taken modulo the ring: with another length they are in other rows, and the judge sees each one.
    case = between(ring(5))

    def turned(run: Run) -> Iterable[Run]:
        if run.role != "mla_hp_tail":
            return [run]
        rows = np.roll(np.arange(5), 1).tolist()
        return [
            replace(run, source_offset=4 * row, destination_offset=4 * number, nbytes=4)
            for number, row in enumerate(rows)
        ]

    plan = planted(case, turned)
    assert isinstance(plan, Writes) and reported(case, plan) == {Kind.WRONG_ELEMENT}
