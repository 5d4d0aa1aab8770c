"""Kinds are found by name, hold together, and their published models have the published sizes."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from itertools import product
from random import Random

import pytest

import strategies.kinds as registry
from oracle.model.axes import Split
from oracle.model.buffers import Model
from oracle.model.errors import InvalidCase
from oracle.model.sides import lay_out
from strategies.deployments import deployment
from strategies.kinds import find_kind, find_model, kinds, models
from strategies.kinds.fitting import HEADS, divisible, draw_heads, even_heads
from strategies.kinds.protocol import EVIDENCE, Kind, PublishedModel, Surroundings

TENSOR = (1, 2, 3, 4, 6, 8)


class Entry:
    """An entry point of another distribution."""

    def __init__(self, value: object) -> None:
        self.value = "elsewhere:KIND"
        self._loaded = value

    def load(self) -> object:
        return self._loaded


@pytest.fixture
def entry(monkeypatch: pytest.MonkeyPatch) -> Iterator[list[Entry]]:
    """Entry points that the registry finds."""
    found: list[Entry] = []
    monkeypatch.setattr(registry, "entry_points", lambda group: found if group == "kvwitness.kinds" else [])
    kinds.cache_clear()
    yield found
    kinds.cache_clear()


def test_kinds_are_found_by_name_simplest_first() -> None:
    names = [kind.name for kind in kinds()]
    assert names[:2] == ["gqa", "mla"]
    assert [find_kind(name).name for name in names] == names


def test_an_unknown_kind_is_refused_with_the_known_ones() -> None:
    with pytest.raises(InvalidCase, match="kind = 'gpa' is not possible: expected one of gqa, mla"):
        find_kind("gpa")


def test_another_distribution_adds_a_kind(entry: list[Entry]) -> None:
    theirs = replace(find_kind("mla"), name="theirs", order=50)
    kinds.cache_clear()
    entry.append(Entry(theirs))
    assert find_kind("theirs") is theirs
    assert kinds()[-1] is theirs


def test_two_kinds_of_one_name_are_refused(entry: list[Entry]) -> None:
    entry.append(Entry(replace(find_kind("mla"), order=50)))
    kinds.cache_clear()
    with pytest.raises(InvalidCase, match=r"entry point elsewhere:KIND = 'mla' .*strategies\.kinds\.mla has this name"):
        kinds()


@pytest.mark.parametrize("loaded", [None, 3, "gqa"])
def test_an_entry_that_is_no_kind_is_refused(entry: list[Entry], loaded: object) -> None:
    entry.append(Entry(loaded))
    with pytest.raises(InvalidCase, match="expected a Kind"):
        kinds()


def test_a_kind_with_more_numbers_than_are_drawn_is_refused(entry: list[Entry]) -> None:
    entry.append(Entry(replace(find_kind("mla"), name="many", bounds=(2,) * 9, scope=((0,) * 9,))))
    kinds.cache_clear()
    with pytest.raises(InvalidCase, match=r"bounds of entry point elsewhere:KIND .*at most 8"):
        kinds()


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
    with pytest.raises(InvalidCase, match=r"'zzz' is not possible: The published models are .*qwen3-32b"):
        find_model("zzz")


def test_a_hearsay_figure_is_refused() -> None:
    with pytest.raises(InvalidCase, match="evidence of x = 'hearsay'"):
        PublishedModel("x", "X", 1, lambda bits: find_kind("mla").decode((0, 0), Surroundings()), "", "hearsay")
