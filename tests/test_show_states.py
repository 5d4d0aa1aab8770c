"""``kvwitness show`` of cases with windows and cache states: what differs from the prompt's own blocks, and why."""

from __future__ import annotations

from dataclasses import replace

from kvwitness.search import argument_of
from kvwitness.settings import Judged
from kvwitness.story import tell
from kvwitness.trial import Trial
from kvwitness.witness import pins_of
from oracle.model.case import SIDES, Case, Request, SideState, SlotList
from oracle.model.instance import Instance
from tests.small_cases import case_of, group, model_of

MLA = "key @ 0 : T D(1) ; 8"


def one_request(request: Request, window: int | None = None, context: object = None, generation: object = None) -> Case:
    """One request in one group ``kv`` of one buffer, two tokens a block."""
    sides = [Instance(tokens_per_block=2, **(given or {})) for given in (context, generation)]  # type: ignore[dict-item]
    return Case(model_of(group(MLA, window=window)), *sides, (request,))


def slots(lines: list[str]) -> list[str]:
    return [line.split(" in slots ")[1] for line in lines if " in slots " in line]


def test_what_a_manager_is_set_to_stands_with_its_instance() -> None:
    case = one_request(
        Request(0, 4),
        2,
        {"manager": "v1", "reserve": (("kv", 3),)},
        {"scratch": 0, "look_ahead": 1},
    )
    lines = tell(case)
    assert "context     1 rank: tp 1; 2 tokens a block; reserve of kv: 3; manager v1" in lines
    assert "generation  1 rank: tp 1; 2 tokens a block; scratch 0; look-ahead 1" in lines


def test_states_stand_below_their_request_and_only_where_they_are_not_plain() -> None:
    """Of blocks 0-1 the receiver has block 0, and lists block 2 for drafts."""
    lines = tell(one_request(Request(0, 4, generation=SideState(cached=2, extra=1, drafts=1))))
    at = lines.index("request 0   4 tokens; 1 block to receive into; content 0")
    assert lines[at + 1] == "  generation: cached 2, extra 1, drafts 1 (lists 2 blocks)"
    assert not lines[at + 2].startswith(" ")
    lines = tell(one_request(Request(0, 4, context=SideState(reached=5))))
    assert "  context: reached 5 (lists 3 blocks)" in lines


def test_beams_and_their_tails_stand_below_their_request() -> None:
    first = {"manager": "v1"}
    alike = Request(0, 3, beams=2, context=SideState(tails=1), generation=SideState(tails=1))
    lines = tell(one_request(alike, None, first, first))
    assert "  2 beams, 1 tail" in lines and slots(lines) == ["1 2 | tails 3"] * 2
    other = Request(0, 3, beams=3, generation=SideState(tails=2))
    lines = tell(one_request(other, None, first, first))
    assert "  3 beams, 0 tails on context, 2 tails on generation" in lines
    assert slots(lines) == ["1 2", "1 2 | tails 3 4"]


def test_blocks_that_a_manager_does_not_list_have_no_slot() -> None:
    """Window 3, five tokens: the next query sees tokens 3-5, so blocks 1-2; the receiver has cached blocks 0-1."""
    lines = tell(one_request(Request(0, 5, generation=SideState(cached=4)), 3))
    assert slots(lines) == ["- 2 3", "- - 3"]
    assert any(line.startswith("request 0   5 tokens; 1 block to receive into") for line in lines)


def test_holes_in_a_row_are_counted_in_a_long_list() -> None:
    assert slots(tell(one_request(Request(0, 24), 3))) == ["-x11 12", "-x11 12"]
    assert slots(tell(one_request(Request(0, 24, generation=SideState(cached=2)))))[1] == "- 2 3 4 5 6 7 8 and 4 more"


def test_blocks_past_the_prompt_stand_behind_a_bar() -> None:
    lines = tell(one_request(Request(0, 4, context=SideState(drafts=1), generation=SideState(drafts=1, reached=7))))
    assert slots(lines) == ["1 2 | drafts 3", "1 2 | drafts 3 | reached 4"]


def test_blocks_to_receive_into_are_told_by_group_where_groups_differ() -> None:
    model = model_of(group(MLA, name="full"), group("swa @ 1 : T D(1) ; 8", name="local", window=2), layers=2)
    lines = tell(case_of(model, prompts=6))
    assert any(line.startswith("request 0   6 tokens; full 3, local 1 blocks to receive into") for line in lines)


def test_each_context_parallel_rank_shows_its_own_blocks() -> None:
    lines = tell(case_of(group(MLA, window=8), "tp1", "tp1 cp2", prompts=6))
    assert slots(lines) == ["1 2 3", "1 - 3"]
    assert any(line.startswith("request 0   6 tokens; 3 blocks to receive into") for line in lines)


def test_lists_that_the_managers_present_are_shown_as_they_are() -> None:
    case = case_of(group(MLA), prompts=4, presented=(SlotList("context", 0, "kv", 0, (2, 1)),))
    assert slots(tell(case)) == ["2 1", "1 2"]
    drafts = Request(0, 4, context=SideState(drafts=1))
    assert slots(tell(replace(case, requests=(drafts,)))) == ["2 1", "1 2"]


def test_without_windows_and_states_all_slots_are_shown() -> None:
    case = case_of(MLA, "tp1", "tp1 cp2", prompts=4)
    lines = tell(case)
    for side in SIDES:
        at = lines.index(f"{side} rank 0 in memory")
        pins = [f"  {pin}" for pin in pins_of(case)[side]]
        assert lines[at + 1 : at + 1 + len(pins)] == pins
    assert slots(lines) == ["1 2", "1 2"]


# ---- the argument of a failure


def argument(case: Case, fault: str, subject: str = "mapping:suffix") -> tuple[str, ...]:
    return argument_of(Trial(Judged((subject,), fault=fault))(case, carry=False))


def test_a_wrong_block_is_explained_by_what_both_sides_list() -> None:
    found = argument(one_request(Request(0, 5), 3, {"reserve": (("kv", 2),)}), "fronts-paired")
    at = found.index("  differs  block 0 in place of 1")
    assert (
        found[at + 1] == "  because  context rank 0 lists blocks 0-2 of request 0; generation rank 0 lists blocks 1-2"
    )
    found = argument(one_request(Request(0, 4, context=SideState(drafts=1))), "sender-not-cut")
    assert "  because  context rank 0 lists blocks 0-2 of request 0; generation rank 0 lists blocks 0-1" in found
    found = argument(one_request(Request(0, 4, generation=SideState(cached=2))), "fronts-paired")
    assert "  because  context rank 0 lists blocks 0-1 of request 0; generation rank 0 lists block 1" in found


def test_what_is_no_wrong_block_is_not_explained_by_lists() -> None:
    found = argument(one_request(Request(0, 5), 3), "drop-last-run", "mapping")
    assert found[0].startswith("missing") and not any(" lists " in line for line in found)
