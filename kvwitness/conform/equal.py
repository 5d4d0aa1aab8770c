"""Why a mistake in a declaration may change nothing: reasons that hold in every case, not only in those drawn."""

from __future__ import annotations

from math import prod

from kvwitness.conform.mutate import Mutant
from oracle.model.axes import Axis, Grid, Split
from oracle.model.buffers import Buffer, LayerGroup, Model, Part
from oracle.model.counts import order_axes
from strategies.kinds.protocol import Kind

LAYOUTS = ("HND", "NHD")
LONG = 1 << 20
"""Tokens of a window that is there to be longer than any prompt."""
WHOLE = (Split.ALL, Split.HEADS, Split.FLOOR)
"""Splits that put a single index on every rank."""

AS_IT_LIES = "every rank holds it whole, so that it moves as it lies"
ONE_RUN = "no split comes between these axes, so that they move as one run"
BY_LAYOUT = "the layout of the instance decides the order of H and T"
ALIKE = "the sections are alike but for their names"
EQUAL_SHARES = "where equal shares exist, these are the same"
ONE_INDEX = "there is only one index, on every rank"
ONE_GRID = "the kind takes no context parallelism, so that both grids are one"
ONE_PART = "it has a single part, whose rows follow each other whatever the sub-page"
DRAFT = "a side may lack draft layers whatever their move"
NO_LAYER = "earlier rules name every layer that this one could"
NOTHING_MOVES = "nothing of this group moves, however long it is kept"
NOT_SENT = "nothing of it is sent, so that only its size and its place count"
NO_END = "no prompt is as long as this window"
NO_READER = "the kind has no legacy rule, and nobody else reads ids"
ONE_NAME = "ids only name layers to the legacy sender, and both sides have the same"

Names = frozenset[tuple[str, str]]
"""(axis, section or "")"""


def why_equal(kind: Kind, mutant: Mutant, model: Model, changed: Model, *, has_native: bool) -> str:
    """Why ``changed`` plans and lies as ``model`` does whatever the case, "" where nothing says so."""
    if mutant.buffer is None:
        return _of_group(model.groups[mutant.place[1]])
    one, other = _buffer(model, mutant), _buffer(changed, mutant)
    if mutant.family == "ids":
        return ONE_NAME if has_native else NO_READER
    if mutant.family == "moves":
        if all(one.move_on(layer) == other.move_on(layer) for layer in one.layers):
            return NO_LAYER
        is_draft = all(layer in model.draft for layer in one.layers)
        return DRAFT if is_draft and other.moves[0].moves and one.moves[0].moves else ""
    if mutant.family == "grid":
        return "" if kind.helix else ONE_GRID
    if mutant.family == "sub-pages" and len(one.parts) == 1 and _is_opaque(_without_pages(one), _evens(one)):
        return ONE_PART
    if mutant.family not in ("axes", "sections", "split", "parts", "sub-pages"):
        return ""
    if mutant.family != "split" and not any(each.move_on(layer).moves for each in (one, other) for layer in one.layers):
        return NOT_SENT
    evens = _evens(one)
    if (len(one.parts), one.sub_rows, one.expansion) == (len(other.parts), other.sub_rows, other.expansion):
        pairs = list(zip(one.parts, other.parts, strict=True))
        if all(_normal(old, layout, evens) == _normal(new, layout, evens) for old, new in pairs for layout in LAYOUTS):
            return _sentence(mutant, pairs, evens)
    is_whole = mutant.family != "split" and _is_opaque(one, evens) and _is_opaque(other, evens)
    return AS_IT_LIES if is_whole else ""


def _sentence(mutant: Mutant, pairs: list[tuple[Part, Part]], evens: Names) -> str:
    old, new = next((old, new) for old, new in pairs if old != new)
    if mutant.family == "axes":
        same = all(order_axes(old.axes, layout) == order_axes(new.axes, layout) for layout in LAYOUTS)
        return BY_LAYOUT if same else ONE_RUN
    if mutant.family == "sections":
        return ALIKE
    axis = next(axis for axis, changed in zip(old.axes, new.axes, strict=True) if axis != changed)
    sizes = [section.size for section in axis.sections] or [axis.size]
    return ONE_INDEX if min(sizes) == 1 and not evens else EQUAL_SHARES


def _of_group(group: LayerGroup) -> str:
    if not any(buffer.move_on(layer).moves for buffer in group.buffers for layer in buffer.layers):
        return NOTHING_MOVES
    return NO_END if group.window is not None and group.window >= LONG else ""


def _buffer(model: Model, mutant: Mutant) -> Buffer:
    role, number = mutant.place
    return [buffer for group in model.groups for buffer in group.buffers if buffer.role == role][number]


def _without_pages(buffer: Buffer) -> Buffer:
    """``buffer`` whose sub-pages are one."""
    return Buffer(buffer.role, buffer.layers, buffer.parts)


# ---- how a part lies


def _evens(buffer: Buffer) -> Names:
    """What is split into equal shares: a layout of it only exists where nothing is left over."""
    found = set()
    for part in buffer.parts:
        for axis in part.axes:
            found |= {(axis.name, section.name) for section in axis.sections if section.split is Split.EVEN}
            if axis.split is Split.EVEN:
                found.add((axis.name, ""))
    return frozenset(found)


def _split(split: Split, size: int, is_even: bool) -> Split:
    if is_even and split in (Split.HEADS, Split.FLOOR, Split.EVEN):
        return Split.EVEN
    return Split.ALL if size == 1 and split in WHOLE else split


def _shares(axis: Axis, evens: Names) -> tuple[tuple[int, Split], ...]:
    """(size, split) of each stretch of an axis; stretches that every rank holds are joined."""
    stretches = [(s.size, _split(s.split, s.size, (axis.name, s.name) in evens)) for s in axis.sections]
    stretches = stretches or [(axis.size, _split(axis.split, axis.size, (axis.name, "") in evens))]
    found: list[tuple[int, Split]] = []
    for size, split in stretches:
        if found and found[-1][1] is split is Split.ALL:
            found[-1] = (found[-1][0] + size, split)
        else:
            found.append((size, split))
    return tuple(found)


Item = tuple[object, ...]


def _normal(part: Part, layout: str, evens: Names) -> tuple[Item, ...]:
    """The stored axes: those that ranks share as they are, what lies between them as one run."""
    axes = [axis for axis in order_axes(part.axes, layout) if axis.is_token or not _is_one(axis, evens)]
    # Where the two sides may order heads and tokens differently, every axis has its own place.
    crossing = {"H", "T"} <= {axis.name for axis in axes}
    items: list[Item] = [("bits", part.bits)]
    run: list[int] = []
    tokens = 0
    for axis in axes:
        shares = () if axis.is_token else _shares(axis, evens)
        whole = axis.is_token or all(split is Split.ALL for _, split in shares)
        if whole and not crossing:
            run.append(1 if axis.is_token else axis.size)
            tokens += axis.tokens_per_row
            continue
        items.append(("run", prod(run), tokens))
        run, tokens = [], 0
        grid = axis.grid if not whole else Grid.TP
        items.append((axis.name, axis.tokens_per_row, shares, grid))
    items.append(("run", prod(run), tokens))
    return tuple(item for item in items if item != ("run", 1, 0))


def _is_one(axis: Axis, evens: Names) -> bool:
    """Whether an axis is a single index that every rank holds: it has no place of its own."""
    return axis.size == 1 and _shares(axis, evens) == ((1, Split.ALL),)


def _is_opaque(buffer: Buffer, evens: Names) -> bool:
    """Whether every rank of any instance holds the same bytes of ``buffer`` in the same order."""
    if buffer.sub_rows or buffer.expansion > 1 or len(buffer.parts) > 1:
        # Sub-pages and parts only cut up what lies there; each of them must be whole.
        return all(_is_opaque(Buffer(buffer.role, buffer.layers, (part,)), evens) for part in buffer.parts)
    part = buffer.parts[0]
    return len({_normal(part, layout, evens) for layout in LAYOUTS}) == 1 and all(
        item[0] in ("bits", "run") for item in _normal(part, LAYOUTS[0], evens)
    )
