"""Wrong encodings are killed by the laws that are named for them, and by cases that the right ones obey."""

from __future__ import annotations

from collections.abc import Iterator
from random import Random

import pytest

from differential.managers.holdings import holdings_of
from differential.managers.v1 import Translation, WindowNotNamed
from differential.managers.wire import WrongFields, record
from oracle.model.case import Case
from tests.encoded_lists import RIGHT, How
from tests.encoding_laws import LAWS
from tests.encoding_mutants import MUTANTS, Mutant
from tests.encoding_states import WIDTH, state_of
from tests.test_wire_rules import test_anchors_have_no_substitute as law_G2

MOST = 1500
"""states until a mutant must be dead"""


@pytest.fixture(autouse=True)
def forget_lists() -> Iterator[None]:
    """Lists of a case are kept, so a wrong step would outlive its mutant."""
    holdings_of.cache_clear()
    yield
    holdings_of.cache_clear()


def states_for(mutant: Mutant, seed: int) -> Iterator[Case]:
    random = Random(seed)
    features = dict.fromkeys(mutant.features, True)
    for _ in range(MOST):
        yield state_of(random.randbytes(WIDTH), **features)


def breaks(law: str, case: Case, how: How) -> bool:
    try:
        LAWS[law](case, how)
    except AssertionError:
        return True
    return False


def right(how: How) -> How:
    """The encoding of ``how`` without a wrong step."""
    return next(each for each in RIGHT if each.encoding == how.encoding)


@pytest.mark.parametrize(
    ("mutant", "law"), [(mutant, law) for mutant in MUTANTS for law in mutant.laws], ids=lambda each: str(each)
)
def test_a_mutant_is_killed_by_its_law(mutant: Mutant, law: str, monkeypatch: pytest.MonkeyPatch) -> None:
    with monkeypatch.context() as patch:
        mutant.patch(patch)
        killer = next((case for case in states_for(mutant, 0) if breaks(law, case, mutant.how)), None)
    assert killer is not None
    holdings_of.cache_clear()
    assert not breaks(law, killer, right(mutant.how))


# ---- m13: which window is meant


class SeveralByLength(Translation):
    """Takes two layers with one window for two windows."""

    def translate(self, ids, window=None):  # type: ignore[no-untyped-def]
        if window is None and len(self._windows) > 1:
            raise WindowNotNamed("several windows")
        return super().translate(ids, window)


def law_F5(translation: type[Translation]) -> None:
    """A window that is named twice is one window; of several, one must be named."""
    twice = translation([4096, 4096], {4096: {1: 7}})
    try:
        assert twice.translate([1]).tolist() == twice.translate([1], 4096).tolist() == [7]
    except WindowNotNamed:
        raise AssertionError("one window is not enough") from None
    with pytest.raises(WindowNotNamed):
        translation([4096, 128], {4096: {1: 7}, 128: {1: 8}}).translate([1])


def test_m13_windows_counted_by_length_are_killed_by_their_law() -> None:
    law_F5(Translation)
    with pytest.raises(AssertionError):
        law_F5(SeveralByLength)


# ---- m19: an anchor that is not there


def test_m19_zeros_for_missing_anchors_are_killed_by_their_law(monkeypatch: pytest.MonkeyPatch) -> None:
    law_G2(None)
    right_fields = record._fields

    def with_zeros(raw: bytes, names: tuple[str, ...]) -> dict[str, object]:
        try:
            return right_fields(raw, names)
        except WrongFields:
            rest = tuple(name for name in names if name != "first_ordinals")
            found = right_fields(raw, (*rest, "dst_start_token"))
            return {**{name: found[name] for name in rest}, "first_ordinals": [0] * len(found[rest[3]])}

    monkeypatch.setattr(record, "_fields", with_zeros)
    with pytest.raises((AssertionError, pytest.fail.Exception)):
        law_G2(None)


# ---- all of them


def test_every_mutant_that_is_one_of_the_encodings_is_here() -> None:
    elsewhere = {"m11", "m12", "m18", "m20"}  # of the managers and of memory
    own = {mutant.number for mutant in MUTANTS} | {"m13", "m19"}
    assert own | elsewhere == {f"m{number}" for number in range(1, 23)}
    assert not own & elsewhere
