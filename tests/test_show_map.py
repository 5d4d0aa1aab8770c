"""``kvwitness show`` of a failure: the wrong block byte by byte, and the small changes that pass."""

from __future__ import annotations

import io
import json
from dataclasses import replace
from pathlib import Path
from random import Random

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from rich.console import Console

from differential.managers.tables import gather_facts
from differential.subjects.mapping import Mapping
from kvwitness.bytemap import (
    LETTERS,
    MEANINGS,
    NOTHING,
    ONLY_FIRST,
    ONLY_SECOND,
    OTHERWISE,
    RIGHT,
    WRONG,
    ByteMap,
    map_difference,
    map_failure,
    map_violation,
)
from kvwitness.cli.bytes import MOST_ROWS, tell_map
from kvwitness.settings import Judged
from kvwitness.trial import Trial
from kvwitness.witness import load
from oracle.model.case import Case
from oracle.model.codec import encode
from oracle.model.writes import Refusal, Writes
from oracle.truth.judge import judge
from oracle.truth.verdict import Kind
from strategies.deployments import deployment
from strategies.kinds import gqa
from tests.face import Shell
from tests.interval_cases import planned
from tests.run_mutants import MUTATIONS, mutant
from tests.small_cases import case_of, small_cases

ORDER = list(LETTERS.values())


@pytest.fixture
def shell(capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> Shell:
    monkeypatch.setenv("COLUMNS", "120")
    return Shell(capsys)


def heads(context: int, generation: int, count: int, **others: object) -> Case:
    """K/V heads of one byte a token, one layer, a prompt of one token in blocks of one."""
    declared = gqa.declare(1, count, 1, 8)
    given_ = {"prompt": 1, "tokens_per_block": 1, **others}
    return deployment(declared.model, {"tp": context}, {"tp": generation}, native=declared.native, **given_)


def map_of(case: Case, fault: str) -> ByteMap:
    judgement = Trial(Judged(("mapping",), fault=fault))(case, carry=False)
    found = map_failure(judgement, "optional")
    assert isinstance(found, ByteMap), found
    return found


def told(found: ByteMap, width: int = 120, names: tuple[str, str] = ("", "")) -> list[str]:
    stream = io.StringIO()
    tell_map(Console(file=stream, width=width, highlight=False, markup=False), found, names)
    return stream.getvalue().splitlines()


# ---- the map


def test_wrong_heads_are_marked_on_both_pages_with_what_was_due() -> None:
    """Two heads on three ranks by rank mod heads: rank 1 gets head 1 in place of head 0."""
    found = map_of(heads(1, 3, 2), "heads-modulo")
    assert found.receiver.letters == "WW"
    assert found.sender is not None and found.sender.letters == "wWwW"
    key, value = found.spans
    assert str(key.place) == "generation rank 1, pool 0 slot 0 +0, byte 0 of the pool, key of layer 0 +0"
    assert str(key.source) == "context rank 0, pool 0 slot 1 +1, byte 5 of the pool, key of layer 0 +1"
    assert (value.letter, value.nbytes, value.place.buffer) == ("W", 1, "value of layer 0 +0")


def test_missing_bytes_are_marked_where_their_sender_holds_them() -> None:
    found = map_of(heads(1, 1, 1), "drop-last-run")
    assert found.receiver.letters == "MM" and found.sender is not None and found.sender.letters == "MM"
    assert [str(span.source).partition(",")[0] for span in found.spans] == ["context rank 0"] * 2


def test_a_replica_that_was_not_elected_is_marked() -> None:
    declared = gqa.declare(1, 1, 1, 8)
    case = deployment(
        declared.model, {"tp": 2}, {"tp": 2, "dp": True}, prompt=[1, 1], tokens_per_block=1, native=declared.native
    )
    found = map_of(case, "elect-first")
    assert found.receiver.letters == "EE" and found.receiver.rank == 1
    assert found.sender is not None and (found.sender.rank, found.sender.letters) == (0, "EE")


def test_a_run_that_leaves_its_slot_has_letters_beyond_the_end() -> None:
    found = map_of(heads(1, 1, 1), "run-end-off-by-one")
    assert found.receiver.letters == "==O"
    assert found.spans[-1].letter == "O" and found.spans[-1].place.buffer == ""


def test_rows_of_head_major_and_token_major_pages_are_seen_to_be_mixed_up() -> None:
    found = map_of(heads(1, 2, 2, prompt=2, tokens_per_block=2), "hnd-as-nhd")
    assert found.receiver.letters == "=W=W"
    assert found.sender is not None and found.sender.letters == "=wW.=wW."


def by_hand(case: Case, change: object) -> ByteMap:
    """The map of the first violation with a place of the mapping's plan after ``change``."""
    plan = Mapping().plan(case, gather_facts(case))
    assert isinstance(plan, Writes)
    wrong = change(plan)  # type: ignore[operator]
    violation = next(each for each in judge(case, wrong).violations if each.place is not None)
    found = map_violation(case, wrong, violation)
    assert found is not None
    return found


def test_bytes_written_twice_are_marked() -> None:
    found = by_hand(heads(1, 1, 1), lambda plan: replace(plan, segments=plan.segments * 2))
    assert found.receiver.letters == "DD"


def test_bytes_where_nothing_may_come_are_marked() -> None:
    def astray(plan: Writes) -> Writes:
        (segment,) = plan.segments
        return replace(plan, segments=(replace(segment, destination_bases=segment.destination_bases * 0 + 2 * 0),))

    case = heads(1, 1, 1)
    used = gather_facts(case).generation[0].blocks[0, 0].slots.tolist()
    assert used != [0]
    found = by_hand(case, astray)
    letters = {found.receiver.slot: found.receiver.letters}
    assert letters in ({0: "SS"}, {used[0]: "MM"})
    stray = next(v for v in judge(case, astray(planned(case))).violations if v.kind is Kind.STRAY)
    shown = map_violation(case, astray(planned(case)), stray)
    assert shown is not None and (shown.receiver.slot, shown.receiver.letters) == (0, "SS")


def test_what_is_read_from_a_slot_that_holds_nothing_is_marked() -> None:
    def stale(plan: Writes) -> Writes:
        (segment,) = plan.segments
        return replace(plan, segments=(replace(segment, source_bases=segment.source_bases * 0),))

    case = heads(1, 1, 1)
    assert gather_facts(case).context[0].blocks[0, 0].slots.tolist() != [0]
    found = by_hand(case, stale)
    assert found.receiver.letters == "XX"
    assert found.sender is not None and (found.sender.slot, found.sender.letters) == (0, "XX")


def test_a_sender_that_is_not_paired_is_marked() -> None:
    def unpaired(plan: Writes) -> Writes:
        segments = tuple(replace(each, source_rank=1 - each.source_rank) for each in plan.segments)
        return replace(plan, segments=segments)

    assert set(by_hand(heads(2, 2, 2), unpaired).receiver.letters) == {"U"}


def test_a_byte_that_nothing_lies_at_is_told_from_one_that_need_not_come() -> None:
    """A prompt of one token in blocks of two: the second row may come, and the padding may not."""
    case = case_of("key @ 0 : T D(1) ; 8 ; pad(4)", prompts=1)
    found = by_hand(case, lambda plan: replace(plan, segments=()))
    assert found.receiver.letters == "M-" + 2 * NOTHING


def test_the_page_of_a_layer_major_pool_is_that_of_one_layer() -> None:
    sides = {"packing": (("kv", "layer_major"),)}
    case = case_of("key @ 0..1 : T D(2) ; 8", sides=sides, prompts=2)
    assert gather_facts(case).generation[0].table.pools[0].layer_stride

    def without_second_layer(plan: Writes) -> Writes:
        (segment,) = plan.segments
        last = segment.runs[:, 1] == segment.runs[:, 1].max()
        return replace(plan, segments=(replace(segment, runs=segment.runs[~last]),))

    found = by_hand(case, without_second_layer)
    assert found.receiver.letters == "MMMM"
    assert [name for _, _, name in found.receiver.regions] == ["key of layer 1"]
    assert found.spans[0].place.buffer == "key of layer 1 +0"


def test_only_the_part_of_a_large_slot_around_the_place_is_shown() -> None:
    case = deployment(gqa.declare(2, 2, 128, 16).model, {}, {}, prompt=32)

    def without_a_byte(plan: Writes) -> Writes:
        (segment,) = plan.segments
        runs = np.array([[0, 0, 20000], [20001, 20001, 45535]])
        return replace(plan, segments=(replace(segment, runs=runs),))

    found = by_hand(case, without_a_byte)
    assert found.receiver.letters.count("M") == 1
    assert len(found.receiver.letters) == 4096 and found.receiver.first % 4096 == 0 and found.receiver.first > 0
    lines = told(found)
    assert any(line.lstrip().startswith("⋮") for line in lines)
    rows = [line.lstrip() for line in lines if line.lstrip().startswith("+")]
    assert rows[0].startswith("+16384 ") and 3 <= len(rows) <= MOST_ROWS
    assert sum("M" in row for row in rows) == 1


@pytest.mark.parametrize("name", MUTATIONS)
@settings(max_examples=12)
@given(small_cases(), st.randoms(use_true_random=False))
def test_every_violation_with_a_place_is_seen_on_its_page(name: str, case: Case, random: Random) -> None:
    plan = planned(case)
    if isinstance(plan, Refusal) or not plan.run_count:
        return
    wrong = mutant(name, case, plan, random)
    violations = judge(case, wrong).violations
    for violation in violations:
        if violation.place is None or violation.kind is Kind.OUT_OF_BOUNDS:
            continue
        found = map_violation(case, wrong, violation)
        assert found is not None
        letter = found.receiver.letters[violation.place.offset - found.receiver.first]
        assert ORDER.index(letter) <= ORDER.index(LETTERS[violation.kind])
        if violation.read is not None and letter == LETTERS[violation.kind]:
            spots = [span.source for span in found.spans if span.letter == letter]
            # Of several violations of one kind at one byte, each from another rank, the page has room for one.
            here = [each for each in violations if (each.kind, each.place) == (violation.kind, violation.place)]
            ranks = {each.read.rank for each in here if each.read is not None}
            assert any(spot is not None and spot.rank in ranks for spot in spots)


@settings(max_examples=30)
@given(small_cases())
def test_a_right_plan_shows_nothing_wrong(case: Case) -> None:
    plan = planned(case)
    if isinstance(plan, Refusal) or not plan.run_count or not judge(case, plan):
        return
    missing = replace(plan, segments=())
    for violation in judge(case, missing).violations:
        if violation.place is not None:
            found = map_violation(case, plan, violation)
            assert found is not None and WRONG.isdisjoint(found.receiver.letters)
            assert RIGHT in found.receiver.letters and not found.spans
            break


def test_a_refused_request_is_due_nothing() -> None:
    case = heads(1, 1, 1)
    plan = replace(planned(case), refusals=(Refusal("no", "no", 0),))
    violation = next(each for each in judge(case, plan).violations if each.kind is Kind.STRAY)
    found = map_violation(case, plan, violation)
    assert found is not None and found.receiver.letters == "SS"


# ---- two plans


def test_bytes_that_two_plans_do_not_write_alike_are_marked() -> None:
    case = heads(1, 1, 1, prompt=2)
    whole = planned(case)
    (segment,) = whole.segments
    half = replace(whole, segments=(replace(segment, runs=np.array([[0, 0, 1]])),))
    crossed = replace(whole, segments=(replace(segment, runs=np.array([[0, 0, 1], [0, 1, 1]])),))
    assert map_difference(case, whole, whole) is None
    for first, second, letters in (
        (whole, half, f"={ONLY_FIRST}"),
        (half, whole, f"={ONLY_SECOND}"),
        (whole, crossed, f"={OTHERWISE}"),
    ):
        found = map_difference(case, first, second)
        assert found is not None and found.receiver.letters == letters
    lines = told(map_difference(case, whole, half), names=("mapping", "native"))  # type: ignore[arg-type]
    assert any("A only mapping writes it" in line for line in lines)


# ---- in the terminal


@pytest.mark.parametrize("width", [40, 60, 80, 120, 200])
def test_the_map_fits_the_terminal_and_stands_side_by_side_where_it_can(width: int) -> None:
    case = deployment(gqa.declare(4, 2, 4, 8).model, {}, {"tp": 2}, prompt=3, tokens_per_block=4)
    lines = told(map_of(case, "hnd-as-nhd"), width)
    assert max(map(len, lines)) <= width
    beside = any("context rank" in line and "generation rank" in line for line in lines[:2])
    assert beside == (width > 60)


def test_letters_tell_everything_and_colours_come_on_top() -> None:
    found = map_of(heads(1, 3, 2), "heads-modulo")
    plain = told(found)
    assert "W wrong element" in " ".join(plain) and "w due in place of a wrong element" in " ".join(plain)
    assert not any("\x1b" in line for line in plain)
    stream = io.StringIO()
    tell_map(Console(file=stream, width=120, force_terminal=True, color_system="standard"), found)
    coloured = stream.getvalue()
    assert "\x1b[1;31mW" in coloured
    assert len(set(MEANINGS)) == len(set(MEANINGS.values())) == len(MEANINGS)


def test_show_prints_map_and_neighbours(shell: Shell, tmp_path: Path) -> None:
    said = shell("verify", "--scope", "none", "--jobs", 1, "--fault", "heads-modulo", "--json", "--out", tmp_path)
    (path,) = said.json["witnesses"]
    lines = shell("show", path).out.splitlines()
    begin = lines.index("bytes       of the block, where it is sent from and where it arrives")
    rows = [line.split() for line in lines[begin + 1 : begin + 4]]
    assert rows == [
        ["context", "rank", "0,", "pool", "0", "slot", "1", "generation", "rank", "1,", "pool", "0", "slot", "0"],
        ["+0", "wW", "+0", "W"],
        ["W", "wrong", "element", "w", "due", "in", "place", "of", "a", "wrong", "element"],
    ]
    near = next(line for line in lines if line.startswith("near "))
    assert near.split("with ")[0].endswith("passes ")
    assert "generation tp=1 or 2" in near


def test_show_of_what_passes_has_no_map(shell: Shell, tmp_path: Path) -> None:
    path = tmp_path / "case.json"
    path.write_text(encode(heads(1, 1, 1)))
    out = shell("show", path).out
    assert "bytes  " not in out and "near  " not in out


def refuse(case: Case, facts: object) -> Refusal:
    """A sender that serves nobody."""
    return Refusal("closed", "it is always closed")


@pytest.mark.parametrize(
    ("fault", "case", "reason"),
    [
        ("drop-last-run", deployment("llama-3-70b", {}, {}, prompt=4096), "memory is too large to name each byte"),
        ("skip-stage", None, ""),
    ],
)
def test_where_there_is_no_map_the_reason_is_said(fault: str, case: Case | None, reason: str) -> None:
    if case is None:
        refuses = Trial(Judged((f"{__name__}:refuse",)))(heads(1, 1, 1), carry=False)
        assert map_failure(refuses, "optional") == "not shown: no byte is wrong by itself"
        return
    judgement = Trial(Judged(("mapping",), fault=fault))(case, carry=False)
    assert map_failure(judgement, "optional") == f"not shown: {reason}"


def test_an_engine_that_is_at_fault_is_named_instead_of_a_map() -> None:
    trial = Trial(Judged(("mapping",)))

    class Lazy:
        name = "lazy"

        def available(self) -> None:
            return None

        def carry(self, writes: Writes, source: object, destination: object) -> None:
            return None

    trial.engine = Lazy()  # type: ignore[assignment]
    judgement = trial(heads(1, 1, 1))
    assert judgement.failure is not None and judgement.failure.stage == "memory"
    said = map_failure(judgement, "optional")
    assert said == "not shown: the plan is right, and the engine left something else in memory"


def test_large_cases_are_not_judged_many_times(shell: Shell, tmp_path: Path) -> None:
    split = ("--context", "tp=1", "--generation", "tp=1", "--prompt", 4096, "--out", tmp_path)
    said = shell("verify", "--model", "llama-3-70b", *split, "--fault", "drop-last-run", "--json")
    whole = next(path for path in said.json["witnesses"] if load(path).case.model.layers == 80)
    out = shell("show", whole).out
    assert "bytes       not shown: memory is too large to name each byte" in out
    assert "near        not looked for: the case is too large to judge many like it" in out


def test_a_witness_of_a_difference_shows_the_block(
    shell: Shell, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "half_sender.py").write_text(
        "from dataclasses import replace\nfrom differential.subjects.mapping import Mapping\n"
        "def plan(case, facts):\n"
        "    plan = Mapping().plan(case, facts)\n"
        "    return replace(plan, pairs=plan.pairs[:0]) if len(case.requests) > 1 else plan\n"
    )
    monkeypatch.syspath_prepend(tmp_path)
    case = heads(1, 1, 1, prompt=[1, 1])
    path = tmp_path / "case.json"
    plain = json.loads(encode(case))
    plain["witness"] = {
        "subject": "mapping",
        "other": "half_sender:plan",
        "property": ["differs"],
        "stage": "comparison",
    }
    path.write_text(json.dumps(plain))
    out = shell("show", path).out
    assert "bytes       the same: what differs is no byte" in out
    assert "passes with only request=0 or 1" in out
