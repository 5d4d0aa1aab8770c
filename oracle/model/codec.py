"""Cases as files: readable JSON that is read strictly, and a content id. ``docs/case-file.md`` is the reference.

``to_plain`` leaves defaults out and keeps one order of fields, so equal cases give equal text.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterable
from operator import attrgetter

from oracle.model import plain as read
from oracle.model import upgrades
from oracle.model.buffers import Buffer, GroupKind, LayerGroup, Model
from oracle.model.case import SIDES, Case, Content, Native, Request, SideState, SlotList, Slots
from oracle.model.errors import InvalidCase
from oracle.model.instance import Instance, Without
from oracle.model.json_text import one_line, parse, render
from oracle.model.layers import LayerSet
from oracle.model.notation import format_buffer, format_layers, parse_buffer, parse_layers
from oracle.model.pages import Entry, PageTable, Pool
from oracle.model.topology import Topology

Plain = dict[str, object]

EXTRAS = ("witness",)
"""What may stand in a file beside the fields of the case."""

ID_DIGITS = 12
"""Hexadecimal digits of a content id."""


def encode(case: Case) -> str:
    """``case`` as the text of a file, the same for equal cases."""
    return encode_file(case, {})


def encode_file(case: Case, extras: Plain) -> str:
    """``case`` with what else the file tells: ``extras`` may hold ``witness``, a JSON object."""
    for name in extras:
        if name not in EXTRAS:
            raise InvalidCase("extras", name, f"expected {', '.join(EXTRAS)}")
    return render({**to_plain(case), **extras})


def decode(text: str) -> Case:
    """The case in ``text``; a witness beside it is passed over. See :func:`decode_file` for the errors."""
    return decode_file(text)[0]


def decode_file(text: str) -> tuple[Case, Plain]:
    """The case in ``text`` and what else the file tells: only the key ``witness``, if it is there.

    Raises ``MalformedFile`` for text that is no JSON, a repeated or unknown field or a value of the
    wrong type, ``NewerSchema`` for a file of a later version, ``InvalidCase`` for a layout or state
    that cannot be. Each names the path.
    """
    value = parse(text)
    if type(value) is not dict:
        raise read.refuse("", value, "expected an object")
    extras = {name: value.pop(name) for name in EXTRAS if name in value}
    for name, extra in extras.items():
        if type(extra) is not dict:
            raise read.refuse(name, extra, "expected an object")
    return from_plain(value), extras


def case_id(case: Case) -> str:
    """Short hexadecimal id of what ``case`` says; the labels ``kind`` and ``notes`` and the schema do not count."""
    content = to_plain(case)
    for label in ("schema", "kind", "notes"):
        content.pop(label, None)
    return hashlib.sha256(one_line(content).encode()).hexdigest()[:ID_DIGITS]


# ---- writing


def to_plain(case: Case) -> Plain:
    """``case`` as dicts, lists, texts and whole numbers, defaults left out."""
    roots = (Content(),) * len(case.requests)
    plain: Plain = {"schema": upgrades.SCHEMA, "kind": case.kind, "model": _plain_model(case.model)}
    if case.native is not None:
        ignored = {"ignored": list(case.native.ignored)} if case.native.ignored else {}
        plain["native"] = {"mappers": _named("native.mappers", case.native.mappers), **ignored}
    for side in SIDES:
        plain[side] = _plain_instance(case.side(side), side)
    plain["requests"] = [_plain_request(request, f"requests[{i}]") for i, request in enumerate(case.requests)]
    if case.contents != roots:
        plain["contents"] = [_given(content, parent=content.parent, length=content.length) for content in case.contents]
    slots = case.slots
    plain["slots"] = _given(slots, mul=slots.mul, add=slots.add, counts=_named("slots.counts", slots.counts))
    plain["tables"] = _plain_lists(case.tables, len(case.requests))
    plain["presented"] = _plain_lists(case.presented, len(case.requests))
    plain["notes"] = case.notes
    return {name: value for name, value in plain.items() if value or name == "native"}


_DEFAULTS = {
    Content: Content(),
    Instance: Instance(),
    LayerGroup: LayerGroup("x", GroupKind.STATE, (parse_buffer("x @ 0 : 8"),)),
    Model: Model(1, (LayerGroup("x", GroupKind.STATE, (parse_buffer("x @ 0 : 8"),)),)),
    Request: Request(0, 1),
    SideState: SideState(),
    Slots: Slots(),
    Topology: Topology(),
}
"""Records whose defaults are left out; of fields without a default they hold any value."""


def _given(record: object, **fields: object) -> Plain:
    """Those ``fields`` (plain values, by the names of ``record``) in which ``record`` differs from the default."""
    default = _DEFAULTS[type(record)]
    return {name: value for name, value in fields.items() if getattr(record, name) != getattr(default, name)}


def _named(path: str, pairs: Iterable[tuple[str, object]]) -> Plain:
    pairs = tuple(pairs)
    named = dict(pairs)
    if len(named) != len(pairs):
        raise InvalidCase(path, [key for key, _ in pairs], "expected each key once")
    return named


def _plain_model(model: Model) -> Plain:
    draft = _given(model, draft=format_layers(model.draft))
    return {"layers": model.layers, **draft, "groups": [_plain_group(group) for group in model.groups]}


def _plain_group(group: LayerGroup) -> Plain:
    kind = {} if group.is_paged else {"kind": group.kind.value}
    retention = _given(group, window=group.window, sinks=group.sinks, domain=group.domain, length=group.length)
    retention |= _given(group, native_only=group.native_only)
    return {"name": group.name, **kind, **retention, "buffers": [format_buffer(buffer) for buffer in group.buffers]}


def _plain_instance(instance: Instance, side: str) -> Plain:
    topology = instance.topology
    lacks = [{"roles": list(lack.roles), "layers": format_layers(lack.layers)} for lack in instance.without]
    return {
        "tp": topology.tp,
        "stages": list(topology.stages),
        **_given(topology, cp=topology.cp, attention_dp=topology.attention_dp),
        "tokens_per_block": instance.tokens_per_block,
        **_given(
            instance,
            layout=instance.layout,
            layouts=dict(instance.layouts),
            layer_order=list(instance.layer_order),
            element_bits=dict(instance.element_bits),
            packing=dict(instance.packing),
            page_tables={str(rank): _plain_table(table) for rank, table in instance.page_tables},
            manager=instance.manager,
            reserve=dict(instance.reserve),
            without=lacks,
            scratch=instance.scratch,
            look_ahead=instance.look_ahead,
        ),
    }


_pool_row = attrgetter("slot_bytes", "count", "slot_stride", "layer_stride", "pool_group")
_entry_row = attrgetter("group", "pool", "layer", "role", "offset", "nbytes")


def _plain_table(table: PageTable) -> Plain:
    pools = [list(_pool_row(pool)) for pool in table.pools]
    return {"pools": pools, "entries": [list(_entry_row(entry)) for entry in table.entries]}


def _plain_request(request: Request, path: str) -> Plain:
    more = _given(
        request,
        context_dp=request.context_dp,
        generation_dp=request.generation_dp,
        lengths=_named(f"{path}.lengths", request.lengths),
        cuts=list(request.cuts),
        context=_plain_state(request.context),
        generation=_plain_state(request.generation),
        beams=request.beams,
    )
    return {"content": request.content, "prompt": request.prompt, **more}


_STATE_FIELDS = ("cached", "extra", "drafts", "reached", "tails")


def _plain_state(state: SideState) -> Plain:
    return _given(state, **{name: getattr(state, name) for name in _STATE_FIELDS})


def _plain_lists(rows: tuple[SlotList, ...], requests: int) -> Plain:
    """side -> rank -> group -> slots of each request, null where the case says nothing."""
    plain: Plain = {}
    for row in rows:
        groups = plain.setdefault(row.side, {}).setdefault(str(row.rank), {})
        groups.setdefault(row.group, [None] * requests)[row.request] = list(row.slots)
    return plain


# ---- reading


def from_plain(plain: Plain) -> Case:
    """The case that ``plain`` holds, of this schema or an older one; errors as :func:`decode_file`."""
    if type(plain) is not dict:
        raise read.refuse("", plain, "expected an object")
    fields = read.Fields(upgrades.upgrade(plain), "", _CASE_FIELDS)
    model = fields.get("model", _model)
    instances = {side: fields.get(side, _instance) for side in SIDES}
    requests = fields.get("requests", read.entries, _request)
    lists = (_lists, len(requests))
    more = fields.given(
        contents=(read.entries, _content),
        slots=_slots,
        tables=lists,
        presented=lists,
        native=_native,
        kind=read.text,
        notes=read.text,
    )
    return read.build("", Case, model, *instances.values(), requests, **more)


_CASE_FIELDS = (
    "schema",
    "kind",
    "model",
    "native",
    *SIDES,
    "requests",
    "contents",
    "slots",
    "tables",
    "presented",
    "notes",
)
_TOPOLOGY_FIELDS = ("tp", "stages", "cp", "attention_dp")
_INSTANCE_FIELDS = ("tokens_per_block", "layout", "layouts", "layer_order", "element_bits", "packing", "page_tables")
_INSTANCE_FIELDS += ("manager", "reserve", "without", "scratch", "look_ahead")
_POOL = dict.fromkeys(("slot_bytes", "count", "slot_stride", "layer_stride", "pool_group"), read.whole)
_ENTRY = {**dict.fromkeys(("group", "pool", "layer", "role", "offset", "nbytes"), read.whole), "role": read.text}


def _layers(value: object, path: str) -> LayerSet:
    return read.notation(value, path, parse_layers)


def _buffer(value: object, path: str) -> Buffer:
    return read.notation(value, path, parse_buffer)


def _model(value: object, path: str) -> Model:
    fields = read.Fields(value, path, ("layers", "draft", "groups"))
    layers, groups = fields.get("layers", read.whole), fields.get("groups", read.entries, _group)
    return read.build(path, Model, layers, groups, **fields.given(draft=_layers))


def _group(value: object, path: str) -> LayerGroup:
    known = ("name", "kind", "window", "sinks", "domain", "length", "native_only", "buffers")
    fields = read.Fields(value, path, known)
    kind = fields.given(kind=_group_kind).get("kind", GroupKind.PAGED)
    name, buffers = fields.get("name", read.text), fields.get("buffers", read.entries, _buffer)
    retention = fields.given(
        window=read.whole, sinks=read.whole, domain=read.text, length=read.text, native_only=read.flag
    )
    return read.build(path, LayerGroup, name, kind, buffers, **retention)


def _group_kind(value: object, path: str) -> GroupKind:
    kinds = {kind.value: kind for kind in GroupKind}
    if read.text(value, path) not in kinds:
        raise read.refuse(path, value, f"expected {' or '.join(kinds)}")
    return kinds[value]


def _instance(value: object, path: str) -> Instance:
    fields = read.Fields(value, path, _TOPOLOGY_FIELDS + _INSTANCE_FIELDS)
    tp, stages = fields.get("tp", read.whole), fields.get("stages", read.wholes)
    topology = read.build(path, Topology, tp, stages, **fields.given(cp=read.whole, attention_dp=read.flag))
    more = fields.given(
        layout=read.text,
        layouts=(read.pairs, read.text),
        layer_order=read.wholes,
        element_bits=(read.pairs, read.whole),
        packing=(read.pairs, read.text),
        page_tables=_page_tables,
        manager=read.text,
        reserve=(read.pairs, read.whole),
        without=(read.entries, _without),
        scratch=read.whole,
        look_ahead=read.whole,
    )
    return read.build(path, Instance, topology, fields.get("tokens_per_block", read.whole), **more)


def _without(value: object, path: str) -> Without:
    fields = read.Fields(value, path, ("roles", "layers"))
    return Without(fields.get("roles", read.texts), fields.get("layers", _layers))


def _page_tables(value: object, path: str) -> tuple[tuple[int, PageTable], ...]:
    return tuple(
        [(read.numbered(key, path, "rank"), _table(table, where)) for key, table, where in read.items(value, path)]
    )


def _table(value: object, path: str) -> PageTable:
    fields = read.Fields(value, path, ("pools", "entries"))
    pools, rows = fields.get("pools", read.entries, _pool), fields.get("entries", read.entries, _entry)
    return read.build(path, PageTable, pools, rows)


def _pool(value: object, path: str) -> Pool:
    return read.build(path, Pool, *read.row(value, path, _POOL))


def _entry(value: object, path: str) -> Entry:
    return read.build(path, Entry, *read.row(value, path, _ENTRY))


def _request(value: object, path: str) -> Request:
    optional = ("context_dp", "generation_dp", "lengths", "cuts", *SIDES, "beams")
    fields = read.Fields(value, path, ("content", "prompt", *optional))
    more = fields.given(
        context_dp=read.whole,
        generation_dp=read.whole,
        lengths=(read.pairs, read.whole),
        cuts=read.wholes,
        context=_side_state,
        generation=_side_state,
        beams=read.whole,
    )
    return read.build(path, Request, fields.get("content", read.whole), fields.get("prompt", read.whole), **more)


def _side_state(value: object, path: str) -> SideState:
    given = read.Fields(value, path, _STATE_FIELDS).given(**dict.fromkeys(_STATE_FIELDS, read.whole))
    return read.build(path, SideState, **given)


def _content(value: object, path: str) -> Content:
    given = read.Fields(value, path, ("parent", "length")).given(parent=read.whole, length=read.whole)
    return read.build(path, Content, **given)


def _slots(value: object, path: str) -> Slots:
    fields = read.Fields(value, path, ("mul", "add", "counts"))
    return read.build(path, Slots, **fields.given(mul=read.whole, add=read.whole, counts=(read.pairs, read.whole)))


def _native(value: object, path: str) -> Native:
    fields = read.Fields(value, path, ("mappers", "ignored"))
    return read.build(path, Native, fields.get("mappers", read.pairs, read.text), **fields.given(ignored=read.texts))


def _lists(value: object, path: str, requests: int) -> tuple[SlotList, ...]:
    """See :func:`_plain_lists`."""
    found: list[SlotList] = []
    for side, ranks, at_side in read.items(value, path):
        if side not in SIDES:
            raise read.refuse(at_side, ranks, f"unknown field; expected {' or '.join(SIDES)}")
        for key, groups, at_rank in read.items(ranks, at_side):
            rank = read.numbered(key, at_side, "rank")
            for group, lists, at_group in read.items(groups, at_rank):
                if type(lists) is not list or len(lists) != requests:
                    raise read.refuse(at_group, lists, f"expected {requests} lists of slots or null, one a request")
                for request, slots in enumerate(lists):
                    where = f"{at_group}[{request}]"
                    if slots is not None:
                        found.append(read.build(where, SlotList, side, rank, group, request, read.wholes(slots, where)))
    return tuple(found)
