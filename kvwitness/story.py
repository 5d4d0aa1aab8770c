"""A case in words: the model, both instances, the requests, who holds what, and where a rank of each side keeps it."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import replace

from kvwitness.listed import blocks_text, may_differ, slots_text
from kvwitness.witness import PINNED, pinned_rank, pins_of, pins_of_pools, requests_on
from kvwitness.words import count, joined
from oracle.model.axes import Axis
from oracle.model.buffers import LayerGroup
from oracle.model.case import PLAIN, SIDES, Case, Request
from oracle.model.instance import Instance
from oracle.model.layers import LayerSet
from oracle.model.notation import format_buffer
from oracle.model.sides import lay_out
from oracle.model.topology import Rank, Topology
from oracle.truth.holders import held_indices, seat
from oracle.truth.stacks import held_layers

MOST_RANKS = 16
"""Ranks of a side that are told one by one."""

AXIS_WORDS = {"H": "heads", "C": "channels", "R": "ring rows", "D": "elements"}


def tell(case: Case) -> list[str]:
    """``case`` in lines of text."""
    lines = list(_model(case))
    for side in SIDES:
        lines.append(f"{side:<12}{describe_instance(case.side(side))}")
    lines += _requests(case)
    for side in SIDES:
        lines += _ranks(case, side)
    for side, pins in _in_memory(case):
        lines.append(f"{side} rank {pinned_rank(case, side)} in memory")
        lines += [f"  {pin}" for pin in pins]
    return lines


def _in_memory(case: Case) -> Iterator[tuple[str, list[str]]]:
    """Pools and slots of the rank that is pinned: those that its manager lists, where it may not list all."""
    if not may_differ(case):
        yield from ((side, list(pins)) for side, pins in pins_of(case).items())
        return
    for side in SIDES:
        rank, pins = pinned_rank(case, side), list(pins_of_pools(case, side))
        for group in sorted(lay_out(case, side).slots[rank]):
            for request in requests_on(case, side, rank):
                said = slots_text(case, side, rank, group, request, PINNED)
                pins.append(f"{case.model.groups[group].name} of request {request} in slots {said}")
        yield side, pins


# ---- the model


def _model(case: Case) -> Iterator[str]:
    model = case.model
    draft = f", {count(len(model.draft), 'draft layer')} among them" if len(model.draft) else ""
    yield f"{'model':<12}{count(model.layers, 'layer')}{draft}{f' (kind {case.kind})' if case.kind else ''}"
    for group in model.groups:
        yield f"  {group.name}: {describe_retention(group)}"
        for buffer in group.buffers:
            yield f"    {format_buffer(buffer)}"
    if case.notes:
        yield f"{'notes':<12}{case.notes}"


def describe_retention(group: LayerGroup) -> str:
    """``blocks of the last 128 tokens and the first 4 tokens``."""
    if not group.is_paged:
        return "one state for each request" + (", brought by the legacy sender alone" if group.native_only else "")
    of_length = "" if group.length == "prompt" else f" of the length {group.length}"
    domain = f", domain {group.domain}" if group.domain else ""
    if group.window is None:
        return f"blocks of all tokens{of_length}{domain}"
    sinks = f" and the first {count(group.sinks, 'token')}" if group.sinks else ""
    return f"blocks of the last {count(group.window, 'token')}{sinks}{of_length}{domain}"


# ---- instances


def describe_instance(instance: Instance) -> str:
    """``4 ranks: tp 2, pp 2 (2 + 1 layers); 4 tokens a block; HND``."""
    topology = instance.topology
    split = [f"tp {topology.tp}"]
    if topology.pp > 1:
        split.append(f"pp {topology.pp} ({' + '.join(map(str, topology.stages))} layers)")
    if topology.cp > 1:
        split.append(f"cp {topology.cp}")
    if topology.attention_dp:
        split.append("attention DP")
    parts = [f"{count(topology.size, 'rank')}: {', '.join(split)}"]
    parts.append(f"{count(instance.tokens_per_block, 'token')} a block")
    layouts = [f"{role} {layout}" for role, layout in instance.layouts]
    if instance.layout or layouts:
        parts.append(", ".join(filter(None, (instance.layout, *layouts))))
    if instance.layer_order:
        parts.append(f"layers in the order {' '.join(map(str, instance.layer_order))}")
    for name, said in (("element_bits", "bits of"), ("packing", "packing of"), ("reserve", "reserve of")):
        parts += [f"{said} {key}: {value}" for key, value in getattr(instance, name)]
    if instance.manager != "v2":
        parts.append(f"manager {instance.manager}")
    if instance.scratch is not None:
        parts.append(f"scratch {instance.scratch}")
    if instance.look_ahead:
        parts.append(f"look-ahead {instance.look_ahead}")
    parts += [f"without {joined(lack.roles)} on layers {lack.layers}" for lack in instance.without]
    if instance.page_tables:
        parts.append("explicit page tables")
    return "; ".join(parts)


# ---- requests


def _requests(case: Case) -> Iterator[str]:
    size, differ = case.generation.tokens_per_block, may_differ(case)
    for index, request in enumerate(case.requests):
        blocks = (blocks_text(case, "generation", index, beyond=False) if differ else "") or count(
            -(-request.prompt // size), "block"
        )
        told = [count(request.prompt, "token"), f"{blocks} to receive into"]
        told += [f"{name} {tokens}" for name, tokens in request.lengths]
        told.append(_content(case, request))
        for side in SIDES:
            if case.side(side).topology.attention_dp:
                told.append(f"on {side} attention DP rank {request.dp_rank(side)}")
        if request.cuts:
            told.append(f"prefill cut at {joined(request.cuts)}")
        yield f"{f'request {index}':<12}{'; '.join(told)}"
        yield from _states(case, index)
    if case.slots.mul != 1 or case.slots.add or case.slots.counts:
        counts = "".join(f", {group} has {slots} slots" for group, slots in case.slots.counts)
        rule = f"({case.slots.mul} * (k + 1) + {case.slots.add} + 11 * rank) mod the slots of the pool{counts}"
        yield f"{'slots':<12}content block k lies in slot {rule}"
    for name, rows in (("tables", case.tables), ("presented", case.presented)):
        if rows:
            said = "slots given explicitly" if name == "tables" else "lists that the managers present, given explicitly"
            yield f"{name:<12}{said}, {count(len(rows), 'list')}"


def _states(case: Case, index: int) -> Iterator[str]:
    """``  generation: cached 2, drafts 1 (lists 3 blocks)`` and ``  2 beams, 1 tail``, where they are not plain."""
    request = case.requests[index]
    tails = [request.state(side).tails for side in SIDES]
    for side in SIDES:
        state = request.state(side)
        if replace(state, tails=0) != PLAIN:
            names = ("cached", "extra", "drafts", "reached")
            said = ", ".join(f"{name} {getattr(state, name)}" for name in names if getattr(state, name))
            listed = blocks_text(case, side, index, beyond=True)
            yield f"  {side}: {said}{f' (lists {listed})' if listed else ''}"
    if request.beams > 1:
        each = count(tails[0], "tail")
        if tails[0] != tails[1]:
            each = ", ".join(f"{count(number, 'tail')} on {side}" for side, number in zip(SIDES, tails, strict=True))
        yield f"  {count(request.beams, 'beam')}, {each}"


def _content(case: Case, request: Request) -> str:
    node = case.contents[request.content]
    text = f"content {request.content}"
    if node.parent >= 0:
        text += f", whose first {count(node.length, 'token')} are content {node.parent}'s"
    return text


# ---- who holds what


def _ranks(case: Case, side: str) -> Iterator[str]:
    topology = case.side(side).topology
    yield f"{side} ranks hold"
    told = topology.ranks()[:MOST_RANKS]
    width = max(len(_rank_name(topology, rank)) for rank in told)
    for rank in told:
        yield f"  {_rank_name(topology, rank):<{width}}  {'; '.join(_holdings(case, side, rank)) or 'nothing'}"
    more = topology.size - MOST_RANKS
    if more > 0:
        yield f"  and {count(more, 'rank')} more"


def _rank_name(topology: Topology, rank: Rank) -> str:
    where = [
        f"{name} {value}"
        for name, value, size in (
            ("pp", rank.pp, topology.pp),
            ("tp", rank.tp, topology.tp),
            ("cp", rank.cp, topology.cp),
        )
        if size > 1
    ]
    return f"{rank.number} ({', '.join(where)})" if where else f"{rank.number}"


def _holdings(case: Case, side: str, rank: Rank) -> Iterator[str]:
    topology = case.side(side).topology
    told: dict[str, list[str]] = {}
    for group in case.model.groups:
        for buffer in group.buffers:
            layers = held_layers(case, side, topology.stage_layers(rank.pp), buffer)
            if not layers:
                continue
            shares = [_share(topology, rank, axis) for part in buffer.parts for axis in part.axes if axis.is_split]
            named = f"{'layer' if len(layers) == 1 else 'layers'} {LayerSet(layers)}"
            what = f"{named}{''.join(f', {share}' for share in dict.fromkeys(shares))}"
            told.setdefault(what, []).append(buffer.role)
    for what, roles in told.items():
        yield f"{joined(roles)}: {what}"
    if topology.cp > 1 and told:
        yield f"blocks {rank.cp}, {rank.cp + topology.cp}, {rank.cp + 2 * topology.cp}, ..."
    if topology.attention_dp and told:
        mine = [str(i) for i, request in enumerate(case.requests) if request.dp_rank(side) == rank.tp]
        yield f"of request {joined(mine)}" if mine else "of no request"


def _share(topology: Topology, rank: Rank, axis: Axis) -> str:
    held = held_indices(axis, seat(topology, rank, axis.grid)).tolist()
    word = AXIS_WORDS.get(axis.name, axis.name)
    return f"{word if len(held) != 1 else word.removesuffix('s')} {_ranges(held)} of {axis.size}"


def _ranges(indices: Iterable[int]) -> str:
    return str(LayerSet.of(indices)).replace("..", "-") or "none"
