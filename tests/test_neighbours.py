"""The nearest passing neighbours of a failure: one small change at a time, told apart by what becomes of it."""

from __future__ import annotations

from collections import Counter
from dataclasses import replace

from hypothesis import given, settings

from kvwitness.neighbours import changes, find_neighbours
from kvwitness.settings import Judged
from kvwitness.trial import Trial
from oracle.model.case import Case, SlotList
from strategies.deployments import deployment
from strategies.kinds import gqa
from tests.small_cases import small_cases


def heads(context: int, generation: int, count: int, **others: object) -> Case:
    """K/V heads of one byte a token, one layer, a prompt of one token in blocks of one."""
    declared = gqa.declare(1, count, 1, 8)
    given_ = {"prompt": 1, "tokens_per_block": 1, **others}
    return deployment(declared.model, {"tp": context}, {"tp": generation}, native=declared.native, **given_)


def test_neighbours_are_told_apart_by_what_becomes_of_them() -> None:
    trial = Trial(Judged(("mapping",), fault="heads-modulo"))
    near = find_neighbours(heads(1, 3, 2), trial, carry=False)
    passing = {(change.what, change.value) for change in near.passing}
    assert {("generation tp", "1"), ("generation tp", "2"), ("heads", "1"), ("heads", "3")} <= passing
    assert ("generation tp", "4") in {(change.what, change.value) for change in near.failing}
    assert ("context tp", "2") in {(change.what, change.value) for change in near.refused}
    first, *others = near.lines()
    assert first.startswith("passes with generation tp=1 or 2; ")
    assert [line.partition(" with ")[0] for line in others] == ["fails still", "is refused"]
    for change in near.passing:
        assert trial(change.case, carry=False).failure is None


def test_where_nothing_near_passes_it_is_said() -> None:
    near = find_neighbours(heads(1, 1, 1), Trial(Judged(("mapping",), fault="drop-last-run")), carry=False)
    assert near.lines()[0] == "no small change of the case passes"


@settings(max_examples=40)
@given(small_cases())
def test_a_neighbour_differs_in_one_thing(case: Case) -> None:
    fields = ("model", "context", "generation", "requests", "contents", "slots")
    for change in changes(case):
        differing = {name for name in fields if getattr(change.case, name) != getattr(case, name)}
        allowed = {"context", "generation"} if change.what == "tokens per block" else None
        if change.what in ("layers",):
            assert "model" in differing
        elif allowed is not None:
            assert differing <= allowed
        elif change.what.startswith(("context ", "generation ")):
            side = change.what.split()[0]
            # A request on an attention-DP rank that is gone moves to the first.
            assert differing <= {side, "requests"}
        else:
            assert len(differing) <= 1


def test_every_sort_of_change_is_tried() -> None:
    declared = gqa.declare(3, 2, 1, 8)
    case = deployment(
        declared.model,
        {"tp": 2, "pp": "2+1"},
        {"tp": 2, "dp": True, "pp": "1+2"},
        prompt=[5, 3],
        tokens_per_block=2,
        cached=2,
    )
    tried = Counter(change.what for change in changes(case))
    assert set(tried) == {
        *(
            f"{side} {what}"
            for side in ("context", "generation")
            for what in ("tp", "pp", "cp", "attention DP", "layout")
        ),
        "generation stages",
        "tokens per block",
        "only request",
        "prompt of request 0",
        "prompt of request 1",
        "generation cached of request 0",
        "generation cached of request 1",
        "generation attention-DP rank of request 0",
        "generation attention-DP rank of request 1",
        "heads",
        "layers",
    }


def test_what_is_given_explicitly_has_no_neighbours() -> None:
    case = heads(1, 1, 1)
    tables = (SlotList("context", 0, "kv", 0, (1,)),)
    assert list(changes(replace(case, tables=tables))) == []
