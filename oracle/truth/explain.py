"""A verdict as an argument: what was due, what came, who was paired, who was elected and why.

Nothing is decided here. Every statement repeats what the rest of ``oracle.truth`` says of the
case, with the numbers of the case filled in; rules are quoted with their numbers.
"""

from __future__ import annotations

from collections.abc import Iterable

from oracle.model.axes import Axis, Split
from oracle.model.buffers import Buffer, MoveState
from oracle.model.case import Case
from oracle.model.sides import lay_out
from oracle.model.topology import Topology
from oracle.truth.blocks import FORBIDDEN, OPTIONAL, block_classes
from oracle.truth.holders import held_indices, seat
from oracle.truth.verdict import Element, Kind, Outcome, Verdict, Violation
from oracle.truth.wording import (
    AXIS_WORDS,
    bindings_text,
    buffer_of,
    count_text,
    element_text,
    indices_text,
    ordinal_text,
    owner_text,
    place_text,
    rank_text,
)

DIFFERENCES = (("content", "content"), ("group", "group"), ("layer", "layer"), ("role", "role"), ("ordinal", "block"))


def explain(case: Case, what: Violation | Verdict) -> str:
    """The argument of a violation, or of a whole verdict, in lines of text; ``case`` is the judged case."""
    if isinstance(what, Verdict):
        return explain_verdict(case, what)
    lines = [_headline(case, what)]
    lines += [f"  {label:<8} {text}" for label, text in _argument(case, what) if text]
    return "\n".join(lines)


def explain_verdict(case: Case, verdict: Verdict, *, limit: int = 20) -> str:
    """The verdict in one line, then the arguments of its first ``limit`` violations."""
    said = "; ".join(map(str, verdict.refusals))
    sizes = ((verdict.nbytes, "byte"), (verdict.runs, "run"), (verdict.pairs, "pair"))
    judged = "{} in {} over {}".format(*(count_text(number, word) for number, word in sizes))
    if verdict.nbytes and not (verdict.runs or verdict.pairs):  # memory that was judged without a plan
        judged = count_text(verdict.nbytes, "byte")
    if verdict.outcome is Outcome.NOT_RUN:
        return f"not run ({verdict.reason or 'no reason given'})"
    if verdict.outcome is Outcome.PASS:
        if said:
            rest = f"; for the rest {judged}, each in its place" if verdict.nbytes else ""
            return f"pass: rightly refused, {said}{rest}"
        return f"pass: {judged}, each in its place"
    if not verdict.counts:
        return f"fail: {verdict.reason or judged}"
    counts = ", ".join(
        f"{kind.value} {count_text(count, 'refusal' if kind is Kind.FALSE_REFUSAL else 'byte')}"
        if count
        else kind.value
        for kind, count in verdict.counts.items()
    )
    reason = f"\n{verdict.reason}" if verdict.reason else ""
    shown = [f"fail: {counts}; {judged}{reason}"] + [explain(case, each) for each in verdict.violations[:limit]]
    more = len(verdict.violations) - limit
    if more > 0:
        shown.append(f"... and {more} more")
    return "\n\n".join(shown)


# ---- the first line


def _headline(case: Case, it: Violation) -> str:
    kind = it.kind.value
    if it.kind is Kind.FALSE_REFUSAL:
        whose = "the two instances" if it.request is None else f"request {it.request}"
        code = f" with code {it.refusal.code!r}" if it.refusal else ""
        return f"{kind}: {whose} refused{code}, though it can be served"
    if it.place is None and it.due is not None:
        what = element_text(case, "generation", it.due, of_a_block=False)
        return f"{kind}: {what}, on {rank_text(case, 'generation', it.destination)}"
    if it.place is None:
        way = f"{rank_text(case, 'context', it.source)} to {rank_text(case, 'generation', it.destination)}"
        much = f"{count_text(it.nbytes, 'byte')} of" if it.nbytes else "the pair of"
        return f"{kind}: {much} request {it.request}, {way}"
    phrase = {
        Kind.STALE_SOURCE: ", read from a slot that holds no block to send",
        Kind.STRAY: ", where nothing may come",
        Kind.DUPLICATE: ", written again",
        Kind.NOT_ELECTED: ", right, but not from the elected rank",
        Kind.MISSING: ", written by nobody",
    }.get(it.kind, "")
    first = " of a run" if it.kind is Kind.OUT_OF_BOUNDS else "" if it.nbytes == 1 else ", the first"
    where = place_text(case, "generation", it.place, it.role)
    return f"{kind}: {count_text(it.nbytes, 'byte')}{first} at {where}{phrase}"


# ---- the argument


def _argument(case: Case, it: Violation) -> Iterable[tuple[str, str]]:
    if it.kind is Kind.FALSE_REFUSAL:
        yield from _false_refusal(case, it)
        return
    if it.due is not None and it.place is not None:
        yield "due", element_text(case, "generation", it.due) + _optional(case, it)
    if it.kind is Kind.STRAY:
        yield "because", _forbidden(case, it)
    # Memory shows what came, not who sent it.
    if it.place is not None and (it.source is not None or it.found or it.found_note):
        yield "came", _came(case, it)
        if it.kind is Kind.WRONG_ELEMENT and it.due and it.found:
            yield "differs", _differences(case, it.due, it.found)
    if it.kind is Kind.UNPAIRED_SENDER or (it.kind is Kind.MISSING and it.place is None and it.source is not None):
        yield "because", _shares_of_the_whole(case, it)
    elif it.due is not None and it.kind is not Kind.STRAY:
        for text in _holders(case, it):
            yield "because", text
    if it.destination is not None and it.request is not None and (it.paired or it.kind is not Kind.OUT_OF_BOUNDS):
        yield "paired", _paired(case, it)
    yield "note", it.note
    yield "with", bindings_text(case, it)


def _came(case: Case, it: Violation) -> str:
    what = element_text(case, "context", it.found) if it.found else it.found_note
    sender = f", from {rank_text(case, 'context', it.source)}" if it.source is not None else ""
    where = f", pool {it.read.pool} slot {it.read.slot} +{it.read.offset}" if it.read else ""
    if not what:
        other = "no element: the sides cut elements or blocks differently"
        what = other if it.kind is Kind.WRONG_ELEMENT else "bytes"
    return f"{what}{sender}{where}"


def _differences(case: Case, due: Element, found: Element) -> str:
    """What tells the element that came from the one that was due."""
    differing = []
    for field, word in DIFFERENCES:
        ours, theirs = getattr(due, field), getattr(found, field)
        if ours != theirs:
            differing.append(f"{word} {theirs} in place of {ours}")
    if (due.private_to, due.beam) != (found.private_to, found.beam):
        differing.append(f"{owner_text(case, found)} in place of {owner_text(case, due)}")
    if due.role == found.role:
        for (name, index), (_, other) in zip(due.indices, found.indices, strict=False):
            if index != other:
                word = "row" if name == "T" else AXIS_WORDS.get(name, name)
                differing.append(f"{word} {other} in place of {index}")
        if due.byte != found.byte:
            differing.append(f"byte {found.byte} of the element in place of {due.byte}")
    return ", ".join(differing)


def _holders(case: Case, it: Violation) -> Iterable[str]:
    """Which indices the receiver, and the sender where there is one, hold of the axes that are split."""
    assert it.due is not None
    buffer = buffer_of(case, it.due)
    axes = {axis.name: axis for part in buffer.parts for axis in part.axes if axis.is_split}
    for axis in axes.values():
        yield _share(case, "generation", it.destination, axis)
        if it.source is not None:
            yield _share(case, "context", it.source, axis)
    if case.model.groups[it.due.group].is_paged:
        for side in ("context", "generation"):
            cp = case.side(side).topology.cp
            if cp > 1:
                block = it.due.ordinal
                if it.place is None:
                    yield f"of cp={cp} {side} ranks, each owns every {ordinal_text(cp)} block"
                    continue
                yield f"of cp={cp} {side} ranks, rank {block} mod {cp} = {block % cp} owns block {block}"


def _share(case: Case, side: str, number: int | None, axis: Axis) -> str:
    topology = case.side(side).topology
    if number is None or not 0 <= number < topology.size:
        return ""
    place = seat(topology, topology.rank(number), axis.grid)
    part, parts = place
    held = held_indices(axis, place).tolist()
    text = f"{side} rank {number}, {part} of {axis.grid.value.lower()}={parts}, holds {indices_text(axis, held)}"
    if topology.attention_dp:
        return f"{text}: attention DP splits nothing"
    if not axis.sections and held:
        text += {
            Split.HEADS: f": ceil({axis.size}/{parts})={len(held)} from floor({part}*{axis.size}/{parts})={held[0]}",
            Split.FLOOR: f": from floor({part}*{axis.size}/{parts})={held[0]}",
            Split.EVEN: f": {axis.size}/{parts}={len(held)} from {part}*{len(held)}={held[0]}",
            Split.CYCLIC: f": every {ordinal_text(parts)} from {part}",
        }.get(axis.split, "")
    alike = [
        str(other) for other in range(parts) if other != part and held_indices(axis, (other, parts)).tolist() == held
    ]
    return f"{text}; the same on {', '.join(alike)}" if alike else text


def _paired(case: Case, it: Violation) -> str:
    ranks = list(it.paired)
    if not ranks:
        return f"generation rank {it.destination} hears from no context rank for request {it.request}"
    text = f"context rank{'s' * (len(ranks) != 1)} {', '.join(map(str, ranks))}"
    if it.due is None or it.place is None:
        return text
    able = list(it.holders)
    if not able:
        return f"{text}; none of them holds the due element"
    text += f"; of these {able} hold{'s' * (len(able) == 1)} the due element"
    key = case.requests[it.request].generation_dp if it.request is not None else 0
    if it.elected is not None and able[key % len(able)] == it.elected:
        return f"{text}; elected {it.elected} = {able}[key {key} mod {len(able)}]"
    return f"{text}; elected {it.elected}" if it.elected is not None else text


def _optional(case: Case, it: Violation) -> str:
    """Says so where the block is not due but may arrive."""
    if it.request is None or it.due is None or not case.model.groups[it.due.group].is_paged:
        return ""
    if block_classes(case, it.request, it.due.group)[it.due.ordinal] != OPTIONAL:
        return ""
    reserve = case.generation.reserve_of(case.model.groups[it.due.group].name)
    return f"; it may arrive: the receiver keeps a reserve of {reserve} tokens beyond the window"


def _forbidden(case: Case, it: Violation) -> str:
    """Why nothing may come to a place of the destination."""
    place = it.place
    assert place is not None
    table = lay_out(case, "generation").tables[place.rank]
    slots = lay_out(case, "generation").slots[place.rank]
    topology = case.generation.topology
    rank = topology.rank(place.rank)
    for group in slots:
        entries = [entry for entry in table.entries if entry.group == group and entry.pool == place.pool]
        if not entries:
            continue
        what = case.model.groups[group]
        for request, asked in enumerate(case.requests):
            for ordinal in (o for o, slot in enumerate(slots[group][request].tolist()) if slot == place.slot):
                block = f"block {ordinal} of request {request}" if what.is_paged else f"the state of request {request}"
                block += f" in group {what.name}" if len(case.model.groups) > 1 else ""
                if topology.attention_dp and rank.tp != asked.generation_dp:
                    continue
                if what.is_paged and topology.cp > 1 and ordinal % topology.cp != rank.cp:
                    continue
                if block_classes(case, request, group)[ordinal] == FORBIDDEN:
                    return f"this is {block}, {_unwanted(case, request, group, ordinal)}"
                inside = [e for e in entries if e.offset <= place.offset < e.offset + e.nbytes]
                if not inside:
                    return f"this is padding in the slot of {block}: no buffer lies there"
                buffer = next(b for b in what.buffers if b.role == inside[0].role and inside[0].layer in b.layers)
                return f"this is {block}: {_still(case, buffer, inside[0].layer) or 'the request was refused'}"
    return "no block that this transfer brings lies in this slot"


def _unwanted(case: Case, request: int, group: int, ordinal: int) -> str:
    cached, size = case.requests[request].generation.cached, case.generation.tokens_per_block
    if (ordinal + 1) * size <= cached:
        return f"which the receiver has already (cached={cached}, {size} tokens a block)"
    return f"which has left the window of {case.model.groups[group].window} tokens"


def _still(case: Case, buffer: Buffer, layer: int) -> str:
    """Why a buffer does not move; empty if it does."""
    move = buffer.move_on(layer)
    if move.state is MoveState.DERIVED:
        return f"the receiver derives {buffer.role} from {' and '.join(move.inputs)}"
    if move.state is MoveState.REBUILT:
        return f"the receiver rebuilds {buffer.role} of layer {layer}"
    if move.state is MoveState.NEVER:
        return f"{buffer.role} is never sent"
    lacking = [side for side in ("context", "generation") if case.side(side).lacks(layer, buffer.role)]
    return f"{buffer.role} of layer {layer} is not on the {lacking[0]} side" if lacking else ""


def _shares_of_the_whole(case: Case, it: Violation) -> str:
    """The layers and the shares of both ranks: ranks are paired where all of them overlap."""
    texts = [
        _share_of_the_whole(case.side(side).topology, side, number)
        for side, number in (("context", it.source), ("generation", it.destination))
    ]
    return "; ".join(filter(None, texts))


def _share_of_the_whole(topology: Topology, side: str, number: int | None) -> str:
    if number is None or not 0 <= number < topology.size:
        return f"the {side} instance has the ranks 0..{topology.size - 1}"
    rank = topology.rank(number)
    layers = list(topology.stage_layers(rank.pp))
    held = f"layers {layers[0]}..{layers[-1]}" if layers else "no layers"
    tp, parts = seat(topology, rank, Axis("H", 1).grid)
    shares = f"tp [{tp}/{parts}, {tp + 1}/{parts})"
    if topology.cp > 1:
        shares += f", cp [{rank.cp}/{topology.cp}, {rank.cp + 1}/{topology.cp})"
    group = f", attention DP rank {rank.tp}" if topology.attention_dp else ""
    return f"{side} rank {number} has {held}, {shares}{group}"


def _false_refusal(case: Case, it: Violation) -> Iterable[tuple[str, str]]:
    if it.refusal is not None and it.refusal.reason:
        yield "said", it.refusal.reason
    yield "because", it.note
    yield "with", bindings_text(case, it)
