"""Elements, ranks, places and numbers in words, for explanations."""

from __future__ import annotations

from oracle.model.axes import Axis
from oracle.model.buffers import Buffer
from oracle.model.case import SIDES, Case, Request
from oracle.model.counts import ordered_axes
from oracle.truth.verdict import Element, Place, Violation

AXIS_WORDS = {"H": "head", "D": "element", "C": "channel", "R": "ring row", "B": "byte"}


def element_text(case: Case, side: str, element: Element, *, of_a_block: bool = True) -> str:
    """``key of layer 0, block 1, head 0, token 5, element 1 (content 0)``, axes in declared order.

    ``of_a_block`` False: the element of any block, without block, token and content.
    """
    group = case.model.groups[element.group]
    buffer = buffer_of(case, element)
    pieces = [f"{element.role} of layer {element.layer}" if element.layer >= 0 else f"{element.role} of the request"]
    if len(case.model.groups) > 1:
        pieces.append(f"group {group.name}")
    if group.is_paged and of_a_block:
        pieces.append(f"block {element.ordinal}")
    part = buffer.parts[element.part]
    if len(buffer.parts) > 1:
        pieces.append(f"part {element.part} of {len(buffer.parts)}")
    bits = case.side(side).bits_of(buffer.role, part.bits)
    for axis, (name, index) in zip(part.axes, element.indices, strict=True):
        if name == "T" and not of_a_block:
            pieces.append(f"row {index} of a block")
        elif name == "T":
            last = element.token if element.token is not None else index
            first = last - axis.tokens_per_row + 1
            pieces.append(f"token {last}" if first == last else f"tokens {first}-{last}")
        elif bits < 8 and axis is part.axes[-1]:
            pieces.append(f"{AXIS_WORDS.get(name, name)}s {index * 8 // bits}-{(index + 1) * 8 // bits - 1}")
        else:
            text = indices_text(axis, [index])
            pieces.append(text if axis.sections else text.removesuffix(f" of {axis.size}"))
    if bits > 8:
        pieces.append(f"byte {element.byte} of {bits // 8}")
    text = ", ".join(pieces)
    return f"{text} ({owner_text(case, element)})" if of_a_block else text


def owner_text(case: Case, element: Element) -> str:
    if element.private_to is None:
        return f"content {element.content}"
    group = case.model.groups[element.group]
    if not group.is_paged:
        return f"state of request {element.private_to}"
    if group.length != "prompt":
        return f"request {element.private_to}"
    beam = f", tail {element.beam} of its beams" if element.beam else ""
    return f"past the prompt of request {element.private_to}{beam}"


def buffer_of(case: Case, element: Element) -> Buffer:
    return next(
        buffer
        for buffer in case.model.groups[element.group].buffers
        if buffer.role == element.role and (element.layer < 0 or element.layer in buffer.layers)
    )


def indices_text(axis: Axis, indices: list[int]) -> str:
    """``heads 0-1 of 4``; by section where the axis has some."""
    word = AXIS_WORDS.get(axis.name, axis.name)
    if not axis.sections:
        return f"{word}{'s' * (len(indices) != 1)} {_ranges(indices)} of {axis.size}"
    pieces, start = [], 0
    for section in axis.sections:
        own = [index - start for index in indices if start <= index < start + section.size]
        if own:
            pieces.append(f"{_ranges(own)} of section {section.name}")
        start += section.size
    return f"{word}{'s' * (len(indices) != 1)} {', '.join(pieces)}"


def _ranges(indices: list[int]) -> str:
    pieces: list[list[int]] = []
    for index in indices:
        if pieces and index == pieces[-1][1] + 1:
            pieces[-1][1] = index
        else:
            pieces.append([index, index])
    return ", ".join(str(first) if first == last else f"{first}-{last}" for first, last in pieces) or "none"


def rank_text(case: Case, side: str, number: int | None) -> str:
    """``generation rank 1 (tp 1 of 4)``."""
    topology = case.side(side).topology
    if number is None:
        return f"a {side} rank"
    if not 0 <= number < topology.size:
        return f"{side} rank {number} (no such rank)"
    rank = topology.rank(number)
    coordinates = [("pp", rank.pp, topology.pp), ("tp", rank.tp, topology.tp), ("cp", rank.cp, topology.cp)]
    if topology.attention_dp:
        coordinates[1] = ("attention DP", rank.tp, topology.tp)
    text = ", ".join(f"{name} {index} of {size}" for name, index, size in coordinates if size > 1)
    return f"{side} rank {number} ({text})" if text else f"{side} rank {number}"


def place_text(case: Case, side: str, place: Place, role: str | None) -> str:
    inside = f" (byte {place.in_buffer} of {role})" if place.in_buffer is not None and role else ""
    return f"pool {place.pool} slot {place.slot} +{place.offset}{inside} of {rank_text(case, side, place.rank)}"


def bindings_text(case: Case, it: Violation) -> str:
    """The numbers that the argument rests on."""
    found = []
    for side in ("context", "generation"):
        topology = case.side(side).topology
        sizes = [f"tp={topology.tp}"]
        sizes += [f"{name}={size}" for name, size in (("pp", topology.pp), ("cp", topology.cp)) if size > 1]
        found.append(f"{side} {' '.join(sizes)}{' attention DP' * topology.attention_dp}")
    if it.due is not None:
        axes = {axis.name: axis.size for part in buffer_of(case, it.due).parts for axis in part.axes if axis.is_split}
        found += [f"{AXIS_WORDS.get(name, name)}s={size}" for name, size in axes.items()]
        found += _orders(case, it.due)
    if it.request is not None and 0 <= it.request < len(case.requests):
        asked = case.requests[it.request]
        found.append(f"request {it.request} prompt={asked.prompt}")
        found += _states(asked)
        if it.group is not None and 0 <= it.group < len(case.model.groups):
            group = case.model.groups[it.group]
            found += [f"window={group.window}"] if group.window is not None else []
            kept = ((side, case.side(side).reserve_of(group.name)) for side in SIDES)
            found += [f"{side} reserve={tokens}" for side, tokens in kept if tokens]
        found.append(f"key={asked.generation_dp}")
    found.append(f"tokens per block={case.generation.tokens_per_block}")
    return ", ".join(found)


def _states(request: Request) -> list[str]:
    """Beams, and what each side has of a request besides its prompt: ``generation cached=2 drafts=1``."""
    found = [f"beams={request.beams}"] if request.beams > 1 else []
    for side in SIDES:
        state = request.state(side)
        names = ("cached", "extra", "drafts", "reached", "tails")
        sizes = [f"{name}={getattr(state, name)}" for name in names if getattr(state, name)]
        found += [f"{side} {' '.join(sizes)}"] if sizes else []
    return found


def _orders(case: Case, due: Element) -> list[str]:
    """How each side stores the buffer, where they store it in different orders."""
    part = buffer_of(case, due).parts[due.part]
    orders = [
        "".join(axis.name for axis in ordered_axes(part, case.side(side).layout_of(due.role)))
        for side in ("context", "generation")
    ]
    if orders[0] == orders[1]:
        return []
    known = {"HTD": "HND", "THD": "NHD"}
    first, second = (known.get(order, order) for order in orders)
    return [f"{due.role} is {first} on context and {second} on generation"]


def count_text(number: int, word: str) -> str:
    return f"{number:,} {word}{'s' * (number != 1)}"


def ordinal_text(number: int) -> str:
    """``2nd``, ``3rd``, ``11th``."""
    ending = "th" if number % 100 in (11, 12, 13) else {1: "st", 2: "nd", 3: "rd"}.get(number % 10, "th")
    return f"{number}{ending}"
