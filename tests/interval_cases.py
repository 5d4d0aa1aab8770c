"""Cases of every published kind with every feature that changes who holds what, where, or whether it is due."""

from __future__ import annotations

from random import Random

from hypothesis import assume
from hypothesis import strategies as st

from differential.managers.tables import gather_facts
from differential.subjects.mapping import Mapping
from oracle.model.case import SIDES, Case, Content, Request, SideState, SlotList, Slots
from oracle.model.codec import from_plain
from oracle.model.errors import InvalidCase
from oracle.model.instance import Instance, Without
from oracle.model.layers import LayerSet
from oracle.model.pages import Entry, PageTable, Pool
from oracle.model.sides import lay_out
from oracle.model.topology import Topology
from oracle.model.writes import Refusal, Writes
from tests.drawn_cases import changed, plain_case
from tests.kind_declarations import GROUPS

KINDS = sorted(GROUPS)
GRIDS = ((1, 1, False), (2, 1, False), (4, 1, False), (2, 2, False), (1, 2, False), (2, 1, True), (4, 1, True))
"""tp, cp, attention DP"""
STAGES = ((4,), (2, 2), (1, 3), (1, 0, 3))
PACKINGS = ("coalesced", "interleaved", "separate", "layer_major separate")


def planned(case: Case) -> Writes | Refusal:
    """What the mapping plans."""
    return Mapping().plan(case, gather_facts(case))


@st.composite
def kind_cases(draw: st.DrawFn, kinds: tuple[str, ...] = tuple(KINDS)) -> Case:
    """Cases of a published kind: shared prefixes, windows, cached prefixes, Helix, attention DP, own tables."""
    kind = kinds[draw(st.integers(0, len(kinds) - 1))]
    random = Random(draw(st.integers(0, 1 << 30)))
    model = from_plain(plain_case(kind)).model
    size = random.choice((8, 16))
    groups = [group.name for group in model.groups]
    lacks = (Without(("draft",), LayerSet((2, 3))),) if kind == "draft latent" and random.random() < 0.5 else ()
    sides = {}
    for side in SIDES:
        tp, cp, attention_dp = random.choice(GRIDS if kind != "shared owners" else GRIDS[:3])
        sides[side] = Instance(
            Topology(tp, random.choice(STAGES if kind != "shared owners" else STAGES[:2]), cp, attention_dp),
            size * 2 if random.random() < 0.03 else size,
            layout=random.choice(("", "HND", "NHD")),
            layer_order=random.choice(((), (3, 2, 1, 0), (1, 3, 0, 2))),
            packing=tuple((name, random.choice(PACKINGS)) for name in groups if random.random() < 0.4),
            reserve=tuple((g.name, random.randrange(9)) for g in model.groups if g.window and random.random() < 0.4),
            without=lacks if random.random() < 0.7 else (),
        )
    contents = [Content()]
    for index in range(1, random.randint(1, 3)):
        parent = random.randint(-1, index - 1)
        contents.append(Content(parent, random.randint(0, 3 * size) if parent >= 0 else 0))
    requests = []
    for _ in range(random.randint(1, 3)):
        prompt = random.choice((random.randint(1, 4 * size), size * random.randint(1, 4)))
        cached = random.choice((0, 0, random.randint(0, prompt)))
        requests.append(
            Request(
                random.randrange(len(contents)),
                prompt,
                *(random.randrange(sides[side].topology.data_parallel) for side in SIDES),
                (("encoder", random.randint(1, 2 * size)),) if kind == "cross attention" else (),
                tuple(sorted({random.randint(1, prompt - 1)})) if prompt > 1 and random.random() < 0.3 else (),
                generation=SideState(cached),
            )
        )
    slots = Slots(random.randint(1, 4), random.randint(0, 9))
    try:
        case = Case(model, **sides, requests=tuple(requests), contents=tuple(contents), slots=slots, kind=kind)
        for side in SIDES:
            if random.random() < 0.25:
                case = with_own_page_tables(case, side, random)
            if random.random() < 0.25:
                case = with_own_slots(case, side, random)
            lay_out(case, side)
    except InvalidCase:  # shares that do not divide, a layer-major pool of uneven layers, an alias cut from its owner
        assume(False)
    return case


def with_own_page_tables(case: Case, side: str, random: Random) -> Case:
    """The derived page tables with room between slots, layers and buffers."""
    gap, lead = random.choice((0, 5)), random.choice((0, 3))
    tables = []
    for rank, table in enumerate(lay_out(case, side).tables):
        if not table.pools:
            continue
        pools = []
        for pool in table.pools:
            slot_bytes = pool.slot_bytes + lead + gap
            stride = slot_bytes + random.choice((0, 7))
            layers = pool.count * stride + random.choice((0, 11)) if pool.layer_stride else 0
            pools.append(Pool(slot_bytes, pool.count, stride, layers, pool.pool_group))
        entries = []
        for entry in table.entries:
            old, new = table.pools[entry.pool], pools[entry.pool]
            layer, offset = divmod(entry.offset, old.layer_stride) if old.layer_stride else (0, entry.offset)
            place = layer * new.layer_stride + offset + lead
            entries.append(Entry(entry.group, entry.pool, entry.layer, entry.role, place, entry.nbytes))
        tables.append((rank, PageTable(tuple(pools), tuple(entries))))
    instance = case.side(side)
    fields = {name: getattr(instance, name) for name in Instance.__dataclass_fields__}
    return changed(case, **{side: Instance(**{**fields, "page_tables": tuple(tables)})})


def with_own_slots(case: Case, side: str, random: Random) -> Case:
    """The derived slots as lists, turned by a few places, some blocks lost on all ranks."""
    layout = lay_out(case, side)
    topology = case.side(side).topology
    lose, turn = random.choice((0.0, 0.0, 0.15)), random.randrange(4)
    rows = list(case.tables)
    gone: dict[tuple[int, int, int], bool] = {}
    for rank, by_group in zip(topology.ranks(), layout.slots, strict=True):
        for group, by_request in by_group.items():
            what = case.model.groups[group]
            pool = next(entry.pool for entry in layout.tables[rank.number].entries if entry.group == group)
            count = layout.tables[rank.number].pools[pool].count
            for request, slots in enumerate(by_request):
                if topology.attention_dp and rank.tp != case.requests[request].dp_rank(side):
                    continue
                found = ((slots + turn) % count).tolist()
                for ordinal in range(len(found)):
                    elsewhere = what.is_paged and ordinal % topology.cp != rank.cp
                    if gone.setdefault((group, request, ordinal), random.random() < lose) or elsewhere:
                        found[ordinal] = -1
                rows.append(SlotList(side, rank.number, what.name, request, tuple(found)))
    return changed(case, tables=tuple(rows))


def bytes_of(case: Case) -> int:
    """Bytes of all pools of both sides."""
    return sum(
        table.pool_extent(pool)
        for side in SIDES
        for table in lay_out(case, side).tables
        for pool in range(len(table.pools))
    )
