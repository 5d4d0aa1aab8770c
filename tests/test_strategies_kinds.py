"""Kinds are found by name, hold together, and their published models have the published sizes."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from itertools import product
from pathlib import Path
from random import Random

import pytest

import strategies.kinds as registry
from oracle.model.axes import Split
from oracle.model.buffers import Model
from oracle.model.errors import InvalidCase
from oracle.model.sides import lay_out
from strategies.deployments import deployment
from strategies.kinds import broken_entries, find_kind, find_model, kinds, models
from strategies.kinds.fitting import HEADS, divisible, draw_heads, even_heads
from strategies.kinds.protocol import EVIDENCE, Kind, PublishedModel, Surroundings

TENSOR = (1, 2, 3, 4, 6, 8)


class Entry:
    """An entry point of another distribution, which gives ``loaded`` or raises it."""

    def __init__(self, name: str, loaded: object) -> None:
        self.name = name
        self.value = "elsewhere:KIND"
        self._loaded = loaded

    def load(self) -> object:
        if isinstance(self._loaded, BaseException):
            raise self._loaded
        return self._loaded


RAISED = f"at {Path(__file__).name}:{Entry.load.__code__.co_firstlineno + 2}"


@pytest.fixture
def entry(monkeypatch: pytest.MonkeyPatch) -> Iterator[list[Entry]]:
    """Entry points that the registry finds."""
    found: list[Entry] = []
    monkeypatch.setattr(registry, "entry_points", lambda group: found if group == "kvwitness.kinds" else [])
    registry.registry.cache_clear()
    yield found
    registry.registry.cache_clear()


def test_kinds_are_found_by_name_simplest_first() -> None:
    names = [kind.name for kind in kinds()]
    assert names[:2] == ["gqa", "mla"]
    assert [find_kind(name).name for name in names] == names


def test_an_unknown_kind_is_refused_with_the_known_ones() -> None:
    with pytest.raises(InvalidCase, match="kind = 'gpa' is not possible: did you mean gqa\\? The kinds are gqa, mla"):
        find_kind("gpa")


def test_another_distribution_adds_a_kind(entry: list[Entry]) -> None:
    theirs = replace(find_kind("mla"), name="theirs", order=50, published=())
    registry.registry.cache_clear()
    entry.append(Entry("theirs", theirs))
    assert find_kind("theirs") is theirs
    assert kinds()[-1] is theirs


def why(name: str, loaded: object, entry: list[Entry]) -> str:
    """Why this entry gives no kind; all kinds of the project are there nevertheless."""
    shipped = kinds()
    registry.registry.cache_clear()
    entry.append(Entry(name, loaded))
    assert kinds() == shipped
    (broken,) = broken_entries()
    assert str(broken) == f"kind entry point {name} (elsewhere:KIND) cannot be used: {broken.reason}"
    return broken.reason


@pytest.mark.parametrize(
    ("loaded", "reason"),
    [
        (None, "type of what it names = 'NoneType' is not possible: expected a Kind: a file of kinds names it KIND"),
        (3, "type of what it names = 'int' is not possible: expected a Kind: a file of kinds names it KIND"),
        (SyntaxError("invalid syntax", ("theirs.py", 7, 1, "KIND =")), "theirs.py:7: invalid syntax"),
        (ModuleNotFoundError("No module named 'gone'"), f"ModuleNotFoundError: No module named 'gone' {RAISED}"),
        (AttributeError("module 'x'\nhas no KIND"), f"AttributeError: module 'x' has no KIND {RAISED}"),
        (SystemExit(3), f"SystemExit: 3 {RAISED}"),
        (InvalidCase("kind.name", "A B", "expected others"), "kind.name = 'A B' is not possible: expected others"),
    ],
)
def test_a_broken_entry_takes_no_other_kind_along_and_says_why_when_asked_for(
    entry: list[Entry], loaded: object, reason: str
) -> None:
    assert why("theirs", loaded, entry) == reason
    with pytest.raises(InvalidCase) as caught:
        find_kind("theirs")
    assert str(caught.value) == (
        f"kind = 'theirs' is not possible: kind entry point theirs (elsewhere:KIND) cannot be used: {reason}"
    )


def test_an_interrupt_while_an_entry_is_loaded_is_none_of_its_faults(entry: list[Entry]) -> None:
    entry.append(Entry("theirs", KeyboardInterrupt()))
    with pytest.raises(KeyboardInterrupt):
        kinds()


def test_of_two_kinds_of_one_name_that_of_the_project_stays(entry: list[Entry]) -> None:
    ours = find_kind("mla")
    reason = why("mla", replace(ours, order=50), entry)
    assert reason == "kind.name = 'mla' is not possible: a kind of the project has this name"
    assert find_kind("mla") is ours


def test_of_two_entries_of_one_name_the_first_stays(entry: list[Entry]) -> None:
    first, second = (replace(find_kind("mla"), name="theirs", order=order, published=()) for order in (50, 60))
    registry.registry.cache_clear()
    entry += [Entry("theirs", first), Entry("theirs", second)]
    assert find_kind("theirs") is first
    assert "a kind of the entry point elsewhere:KIND has this name" in broken_entries()[0].reason


def test_an_entry_has_the_name_of_its_kind(entry: list[Entry]) -> None:
    theirs = replace(find_kind("mla"), name="theirs")
    expected = "kind.name = 'theirs' is not possible: expected the name of its entry point, quest"
    assert why("quest", theirs, entry) == expected


def test_a_kind_with_more_numbers_than_are_drawn_is_refused(entry: list[Entry]) -> None:
    many = replace(find_kind("mla"), name="many", bounds=(2,) * 9, scope=((0,) * 9,))
    assert "bounds of what it names" in (reason := why("many", many, entry)) and "at most 8" in reason


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"name": "Multi Head"}, "kind.name = 'Multi Head'"),
        ({"bounds": (0, 2)}, "kind mla.bounds = 0"),
        ({"bounds": (300, 2)}, "expected at most 256"),
        ({"layers": (0, 2)}, "kind mla.layers = 0"),
        ({"layers": (3, 2)}, "kind mla.layers = 2"),
        ({"scope": ()}, "expected at least one small model"),
        ({"scope": ((1, 2, 3),)}, "numbers of kind mla"),
        ({"scope": ((99, 0),)}, "expected one below each of"),
    ],
)
def test_a_kind_that_does_not_hold_together_is_refused(change: dict[str, object], message: str) -> None:
    with pytest.raises(InvalidCase, match=message):
        replace(find_kind("mla"), **change)


def test_what_decode_raises_names_the_kind_and_the_numbers() -> None:
    def decode(numbers: tuple[int, ...], around: Surroundings) -> None:
        return None if numbers == (0, 1) else {}["first\nsecond"]

    kind = replace(find_kind("mla"), name="odd", decode=decode)
    with pytest.raises(InvalidCase, match=r"^kind odd: numbers = \(1, 0\) .*: decode raised KeyError: .* at \S+:\d+$"):
        kind.declare((1, 0), Surroundings())
    with pytest.raises(InvalidCase, match=r"^kind odd: numbers = \(0, 1\) .*: decode gave no Declaration: NoneType$"):
        kind.declare((0, 1), Surroundings())


def test_what_the_build_of_a_model_raises_names_the_model_and_the_bits() -> None:
    model = PublishedModel("odd-1b", "Odd", 1, lambda bits: bits // 0, "", "config")  # type: ignore[arg-type, return-value]
    with pytest.raises(InvalidCase, match=r"^model odd-1b: element bits = 16 .*: build raised ZeroDivisionError: "):
        model.declare()


@pytest.mark.parametrize("kind", kinds(), ids=lambda kind: kind.name)
def test_any_combination_of_numbers_declares_a_model(kind: Kind) -> None:
    random = Random(1)
    least, most = tuple(0 for _ in kind.bounds), tuple(bound - 1 for bound in kind.bounds)
    for tensor in product(TENSOR, repeat=2):
        around = Surroundings(max(2, kind.layers[0]), tensor, tensor, kind.tokens_per_block[-1], 5)
        others = [tuple(random.randrange(bound) for bound in kind.bounds) for _ in range(40)]
        for numbers in (least, most, *others):
            declaration = kind.decode(numbers, around)
            assert declaration.model.layers == around.layers + declaration.extra


def test_gqa_has_a_key_and_a_value_split_by_heads_and_mla_a_key_held_whole() -> None:
    gqa = find_kind("gqa").decode((2, 1, 0, 0), Surroundings()).model
    assert [buffer.role for buffer in gqa.groups[0].buffers] == ["key", "value"]
    assert [axis.name for axis in gqa.groups[0].buffers[0].parts[0].axes] == ["H", "T", "D"]
    assert gqa.groups[0].buffers[0].parts[0].axes[0].split is Split.HEADS
    mla = find_kind("mla").decode((2, 0), Surroundings()).model
    assert [buffer.role for buffer in mla.groups[0].buffers] == ["key"]
    assert [axis.name for axis in mla.groups[0].buffers[0].parts[0].axes] == ["T", "D"]
    assert not any(axis.is_split for axis in mla.groups[0].buffers[0].parts[0].axes)


def test_a_value_can_be_wider_than_its_key() -> None:
    model = find_kind("gqa").decode((0, 0, 0, 7), Surroundings()).model
    widths = [buffer.parts[0].axes[-1].size for buffer in model.groups[0].buffers]
    assert widths == [1, 2]


@pytest.mark.parametrize("tensor", list(product(TENSOR, repeat=2)), ids=str)
def test_head_counts_fit_both_sides_but_for_a_few(tensor: tuple[int, int]) -> None:
    even = even_heads(tensor)
    assert 1 in even
    assert all(heads % tp == 0 or tp % heads == 0 for heads in even for tp in tensor)
    drawn = [draw_heads(number, Surroundings(1, tensor, tensor), 64) for number in range(64)]
    assert set(drawn) == set(HEADS)
    assert sum(heads not in even for heads in drawn) <= 64 / 5


def test_a_divisible_size_cuts_on_both_sides() -> None:
    assert divisible(1, (4, 6)) == 12
    assert divisible(3, (2, 4)) == 12


PUBLISHED = {
    # name: (layers, bytes of one token on all layers and, without replicas, all ranks, BF16)
    "llama-3-70b": (80, 80 * 2 * 8 * 128 * 2),
    "qwen3-32b": (64, 64 * 2 * 8 * 128 * 2),
    "qwen3-235b-a22b": (94, 94 * 2 * 4 * 128 * 2),
    "minimax-m2": (62, 62 * 2 * 8 * 128 * 2),
    "deepseek-v3": (62, 62 * 1152),
}


def test_each_dense_model_of_the_catalogue_is_published() -> None:
    assert set(PUBLISHED) <= {model.name for _, model in models()}


@pytest.mark.parametrize("name", PUBLISHED)
def test_a_published_model_has_its_published_sizes(name: str) -> None:
    layers, token_bytes = PUBLISHED[name]
    case = deployment(name, {}, {}, prompt=1, tokens_per_block=1)
    assert case.model.layers == layers
    (table,) = lay_out(case, "context").tables
    assert sum(entry.nbytes for entry in table.entries) == token_bytes
    half = lay_out(deployment(name, {}, {}, prompt=1, tokens_per_block=1, element_bits=8), "context").tables[0]
    assert sum(entry.nbytes for entry in half.entries) == token_bytes // 2


def test_llama_3_70b_keeps_40_gib_for_131072_tokens() -> None:
    case = deployment("llama-3-70b", {"tp": 4}, {"tp": 8}, prompt=131_072, tokens_per_block=32)
    for side, ranks in (("context", 4), ("generation", 8)):
        tables = lay_out(case, side).tables
        assert len(tables) == ranks
        assert sum(entry.nbytes for table in tables for entry in table.entries) * 131_072 // 32 == 40 * 2**30


@pytest.mark.parametrize("model", [model for _, model in models()], ids=lambda model: model.name)
def test_a_published_model_says_where_its_figures_come_from(model: PublishedModel) -> None:
    assert model.source
    assert model.evidence in EVIDENCE
    assert model.name == model.name.lower()
    declaration = model.declare()
    assert isinstance(declaration.model, Model)
    assert declaration.model.layers == model.layers + declaration.extra
    with pytest.raises(InvalidCase, match=f"element bits of {model.name} = 3"):
        model.declare(3)


def test_an_unknown_model_is_refused_with_the_nearest() -> None:
    with pytest.raises(InvalidCase, match="did you mean llama-3-70b"):
        find_model("Llama3 70B")
    with pytest.raises(InvalidCase, match=r"'zzz' is not possible: the published models are .*qwen3-32b"):
        find_model("zzz")


def test_a_hearsay_figure_is_refused() -> None:
    with pytest.raises(InvalidCase, match="evidence of x = 'hearsay'"):
        PublishedModel("x", "X", 1, lambda bits: find_kind("mla").decode((0, 0), Surroundings()), "", "hearsay")
