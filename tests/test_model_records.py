"""Records and frozen classes behave as frozen, slotted dataclasses do, however they are filled."""

from __future__ import annotations

import copy
import inspect
import pickle
from collections.abc import Callable
from dataclasses import FrozenInstanceError, dataclass, field, fields, replace

import pytest

from oracle.model.errors import InvalidCase
from oracle.model.records import Hashed, frozen, record


@frozen(order=True)
class Told:
    name: str
    size: int = 3
    seen: list[int] = field(default_factory=list)


@dataclass(frozen=True, slots=True, order=True)
class Usual:
    name: str
    size: int = 3
    seen: list[int] = field(default_factory=list)


@frozen(eq=False)
class Alone:
    size: int


@record
class Checked(Hashed):
    size: int
    twice: int = 0

    def __post_init__(self) -> None:
        if self.size < 0:
            raise InvalidCase("size", self.size, "expected at least 0")
        object.__setattr__(self, "twice", 2 * self.size)


def test_fields_are_given_in_order_by_name_or_by_default() -> None:
    for told in (Told("a", 4, [1]), Told(seen=[1], size=4, name="a")):
        assert (told.name, told.size, told.seen) == ("a", 4, [1])
    assert (Told("a").size, Told("a").seen) == (3, [])


def test_each_instance_has_a_default_of_its_own_where_one_is_made() -> None:
    first, second = Told("a"), Told("a")
    first.seen.append(1)
    assert second.seen == []


@pytest.mark.parametrize("wrong", [lambda: Told(), lambda: Told("a", 1, [], 2), lambda: Told("a", other=1)])
def test_what_is_no_field_is_refused(wrong: object) -> None:
    with pytest.raises(TypeError, match="Told"):
        wrong()  # type: ignore[operator]


@pytest.mark.parametrize("made", [Told("a"), Checked(1), Alone(1)])
def test_nothing_can_be_changed_added_or_taken_away(made: object) -> None:
    for attempt in (
        lambda: setattr(made, "size", 5),
        lambda: delattr(made, "size"),
        lambda: setattr(made, "other", 5),
    ):
        with pytest.raises((FrozenInstanceError, TypeError)):
            attempt()
    assert not hasattr(made, "__dict__")


def test_what_is_derived_or_refused_is_so_each_time() -> None:
    assert Checked(3).twice == 6 and replace(Checked(3), size=4).twice == 8
    with pytest.raises(InvalidCase):
        Checked(-1)
    with pytest.raises(InvalidCase):
        replace(Checked(1), size=-1)


@pytest.mark.parametrize("made", [Told("a", 2, [1]), Checked(4)])
def test_a_copy_is_equal_and_of_the_same_class(made: object) -> None:
    for other in (copy.copy(made), copy.deepcopy(made), pickle.loads(pickle.dumps(made)), replace(made)):  # type: ignore[type-var]
        assert other == made and type(other) is type(made)


def test_equal_records_have_one_hash_and_unequal_ones_are_told_apart() -> None:
    assert Checked(1) == Checked(1) != Checked(2) and hash(Checked(1)) == hash(Checked(1))
    assert len({Checked(1), Checked(1), Checked(2)}) == 2
    assert Alone(1) != Alone(1) and Told("a") < Told("b")


def test_it_reads_as_the_usual_dataclass_does() -> None:
    assert repr(Told("a")) == repr(Usual("a")).replace("Usual", "Told")
    ours, usual = (inspect.signature(cls.__init__) for cls in (Told, Usual))
    assert list(ours.parameters) == list(usual.parameters)
    assert [each.annotation for each in ours.parameters.values()] == [
        each.annotation for each in usual.parameters.values()
    ]
    assert [each.name for each in fields(Told)] == [each.name for each in fields(Usual)]


def test_the_default_of_a_factory_reads_as_usual() -> None:
    assert "<factory>" in str(inspect.signature(Told))


class More(Told):
    __slots__ = ("more",)


class Renamed(Checked):
    __slots__ = ()

    def __post_init__(self) -> None:
        super().__post_init__()
        assert type(self) is Renamed


class Loose(Checked):
    pass


@pytest.mark.parametrize(
    ("build", "plain"),
    [
        (lambda: More("a", 2), Told("a", 2)),
        (lambda: Renamed(4), Checked(4)),
        (lambda: Loose(size=4), Checked(4)),
    ],
)
def test_a_subclass_is_made_as_one(build: Callable[[], object], plain: object) -> None:
    made = build()
    assert type(made).__bases__ == (type(plain),)
    assert [getattr(made, each.name) for each in fields(plain)] == [  # type: ignore[arg-type]
        getattr(plain, each.name)
        for each in fields(plain)  # type: ignore[arg-type]
    ]
