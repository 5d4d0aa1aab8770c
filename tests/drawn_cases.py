"""Drawn cases with every field that a case file can hold; the kinds are the published ones."""

from __future__ import annotations

from hypothesis import strategies as st

from oracle.model.case import SIDES, Case, Content, Native, Request, SideState, SlotList, Slots
from oracle.model.codec import from_plain
from oracle.model.instance import Instance, Without
from oracle.model.layers import LayerSet
from oracle.model.pages import Entry, PageTable, Pool
from oracle.model.topology import Topology
from tests.kind_declarations import GROUPS

LAYERS = 4
KINDS = sorted(GROUPS)


def plain_case(name: str, **labels: str) -> dict[str, object]:
    """A small case of a published kind, as a file holds it, fields in the order of a file."""
    side = {"tp": 1, "stages": [2, 2], "tokens_per_block": 8}
    lengths = {"lengths": {"encoder": 5}} if name == "cross attention" else {}
    return {
        "schema": 1,
        **labels,
        "model": {"layers": LAYERS, "groups": GROUPS[name]},
        "context": side,
        "generation": side,
        "requests": [{"content": 0, "prompt": 9, **lengths}],
    }


def changed(case: Case, **fields: object) -> Case:
    """``case`` with other ``fields``."""
    return Case(**{**{name: getattr(case, name) for name in Case.__dataclass_fields__}, **fields})


def named(names: list[str], values: st.SearchStrategy) -> st.SearchStrategy:
    """Tuples of (name, value), each name at most once."""
    return st.dictionaries(st.sampled_from(names), values).map(lambda found: tuple(found.items()))


@st.composite
def page_tables(draw: st.DrawFn) -> PageTable:
    count = draw(st.integers(1, 2))
    pools = tuple(
        Pool(
            draw(st.integers(8, 64)),
            draw(st.integers(1, 99)),
            draw(st.sampled_from([0, 64, 128])),
            draw(st.sampled_from([0, 4096])),
            draw(st.integers(0, 2)),
        )
        for _ in range(count)
    )
    numbers = range(draw(st.integers(0, 3)))
    return PageTable(pools, tuple(Entry(n, draw(st.integers(0, count - 1)), n, f"r{n}", n, 8 - n) for n in numbers))


@st.composite
def instances(draw: st.DrawFn, kind: str) -> Instance:
    attention_dp = draw(st.booleans())
    topology = Topology(
        draw(st.sampled_from([1, 2, 4])),
        draw(st.sampled_from([(4,), (2, 2), (2, 0, 2)])),
        1 if attention_dp else draw(st.sampled_from([1, 2])),
        attention_dp,
    )
    groups = [group["name"] for group in GROUPS[kind]]
    roles = sorted({text.split(" ")[0] for group in GROUPS[kind] for text in group["buffers"]})
    tables = draw(st.dictionaries(st.integers(0, topology.size - 1), page_tables(), max_size=2))
    lacks = [(), (Without((), LayerSet()),)]
    if kind == "draft latent":
        lacks.append((Without(("draft",), LayerSet((2, 3))),))
    sinks = any(group.get("sinks") for group in GROUPS[kind])
    manager = "v2" if sinks else draw(st.sampled_from(["v1", "v2"]))
    scratch, ahead = draw(st.sampled_from([(None, 0), (0, 2), (3, 0)])) if manager == "v2" else (None, 0)
    return Instance(
        topology,
        draw(st.sampled_from([8, 16])),
        layout=draw(st.sampled_from(["", "HND", "NHD"])),
        layouts=draw(named(roles, st.sampled_from(["", "HND", "NHD"]))),
        layer_order=draw(st.just(()) | st.permutations(range(LAYERS)).map(tuple)),
        element_bits=draw(named(roles, st.sampled_from([8, 16, 64]))),
        packing=draw(named(groups, st.sampled_from(["coalesced", "interleaved", "layer_major separate"]))),
        page_tables=tuple(tables.items()),
        manager=manager,
        reserve=draw(named(groups, st.integers(0, 9))),
        without=draw(st.sampled_from(lacks)),
        scratch=scratch,
        look_ahead=ahead,
    )


@st.composite
def requests(draw: st.DrawFn, contents: int, data_parallel: dict[str, int]) -> Request:
    prompt = draw(st.integers(1, 99))
    lengths = (("encoder", 7),), (("b", 0), ("encoder", 3), ("a", 1))
    cuts = draw(st.sets(st.integers(1, prompt), max_size=3)) - {prompt}
    return Request(
        draw(st.integers(0, contents - 1)),
        prompt,
        draw(st.integers(0, data_parallel["context"] - 1)),
        draw(st.integers(0, data_parallel["generation"] - 1)),
        draw(st.sampled_from(lengths)),
        tuple(sorted(cuts)),
        SideState(
            draw(st.integers(0, prompt)), *draw(st.sampled_from([(), (1, 2), (0, 5, prompt), (0, 0, prompt + 9)]))
        ),
        SideState(draw(st.integers(0, prompt)), draw(st.integers(0, 3))),
    )


@st.composite
def slot_lists(draw: st.DrawFn, case: Case) -> tuple[SlotList, ...]:
    keys = [
        (side, rank, group.name, request)
        for side in SIDES
        for rank in range(min(2, case.side(side).topology.size))
        for group in case.model.groups
        for request in range(len(case.requests))
    ]
    chosen = draw(st.lists(st.sampled_from(keys), unique=True, max_size=5))
    return tuple(SlotList(*key, tuple(draw(st.lists(st.integers(-1, 40), max_size=3)))) for key in chosen)


@st.composite
def cases(draw: st.DrawFn) -> Case:
    """Cases that may be impossible to lay out (tables and slots are arbitrary), but not to write down."""
    kind = draw(st.sampled_from(KINDS))
    model = from_plain(plain_case(kind)).model
    if kind == "draft latent" and draw(st.booleans()):
        model = type(model)(model.layers, model.groups, LayerSet((2, 3)))
    sides = {side: draw(instances(kind)) for side in SIDES}
    contents = [Content()]
    for index in range(1, draw(st.integers(1, 3))):
        parent = draw(st.integers(-1, index - 1))
        contents.append(Content(parent, draw(st.integers(0, 40)) if parent >= 0 else 0))
    data_parallel = {side: made.topology.data_parallel for side, made in sides.items()}
    mappers = named(["all", "key", "é"], st.sampled_from(["indexed", "nhd", "replicated", "sectioned"]))
    counts = named([group.name for group in model.groups], st.integers(1, 99))
    case = Case(
        model,
        **sides,
        requests=tuple(draw(st.lists(requests(len(contents), data_parallel), min_size=1, max_size=3))),
        contents=tuple(contents),
        slots=Slots(draw(st.integers(1, 9)), draw(st.integers(0, 9)), draw(counts)),
        native=draw(st.none() | st.builds(Native, mappers, st.lists(st.sampled_from(["value", "key"])))),
        kind=draw(st.text(max_size=5)),
        notes=draw(st.text(max_size=5) | st.just("\ud800\u2028\n")),
    )
    return changed(case, tables=draw(slot_lists(case)), presented=draw(slot_lists(case)))
