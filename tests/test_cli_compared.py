"""How many kinds compare is told in three short tables: kinds, pairs of subjects, and what is known."""

from __future__ import annotations

from collections import Counter
from io import StringIO

import pytest

from kvwitness.cli.compared import tell_compared
from kvwitness.cli.output import console
from kvwitness.tally import Compared

NATIVE = ("mapping", "native")
SUFFIX = ("mapping", "native:suffix")


def _found(identical: int, **entries: int) -> Compared:
    return Compared(identical, sum(entries.values()), 0, 0, Counter(entries))


KINDS = {
    "a": {NATIVE: _found(10, uneven=3), SUFFIX: _found(11, uneven=2)},
    "b": {NATIVE: _found(20, uneven=1, other=5), SUFFIX: _found(26)},
    "c": {NATIVE: _found(30), SUFFIX: Compared(28, 0, 1, 1, Counter(), Counter({"sinks_before_a_gap": 1}))},
    "d": {},
}
LEFT_OUT = {"d": Counter({"native": 7, "native:suffix": 7})}


def _said(monkeypatch: pytest.MonkeyPatch, kinds: dict, width: int) -> list[str]:
    monkeypatch.setenv("COLUMNS", str(width))
    to = StringIO()
    tell_compared(console(to), kinds, LEFT_OUT)
    return [line.strip() for line in to.getvalue().splitlines() if line.strip()]


def test_many_kinds_have_a_row_each_over_all_pairs(monkeypatch: pytest.MonkeyPatch) -> None:
    said = _said(monkeypatch, KINDS, 120)
    rows = {line.split()[0]: line.split()[1:] for line in said if line[0] in "abcd"}
    assert rows["a"] == ["21", "5", "0", "0"]
    assert rows["b"] == ["46", "6", "0", "0"]
    assert rows["c"] == ["58", "0", "1", "1"]
    assert " ".join(rows["d"]) == "native and native:suffix (no legacy rule)"


def test_pairs_and_known_differences_are_added_up(monkeypatch: pytest.MonkeyPatch) -> None:
    said = [" ".join(line.split()) for line in _said(monkeypatch, KINDS, 120)]
    assert "mapping and native 60 9 0 0" in said
    assert "mapping and native:suffix 65 2 1 1" in said
    assert "uneven 6 a and b" in said
    assert "other 5 b" in said
    assert "sinks_before_a_gap 1 c" in said
    assert said.index("uneven 6 a and b") < said.index("other 5 b"), "the most frequent first"


def test_a_narrow_terminal_gets_lines(monkeypatch: pytest.MonkeyPatch) -> None:
    said = _said(monkeypatch, KINDS, 60)
    assert "a: 21 identical, 5 accepted, 0 different" in said
    assert "c: 58 identical, 0 accepted, 1 different, 1 cannot be said" in " ".join(said)
    assert "d, not compared with native and native:suffix (no legacy rule)" in " ".join(said)
    assert "6 uneven (a and b)" in said
    assert max(map(len, said)) <= 60


def test_few_kinds_say_below_each_row_what_is_known(monkeypatch: pytest.MonkeyPatch) -> None:
    said = [" ".join(line.split()) for line in _said(monkeypatch, {name: KINDS[name] for name in "ab"}, 120)]
    at = said.index("b mapping and native 20 6 0")
    assert said[at + 1 : at + 3] == ["other 5", "uneven 1"]


def test_nothing_is_told_where_nothing_was_compared(monkeypatch: pytest.MonkeyPatch) -> None:
    assert _said(monkeypatch, {name: {} for name in "abce"}, 120) == []
