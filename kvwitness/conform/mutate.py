"""Small mistakes in a declaration: each a change that somebody could have made writing it."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace

from oracle.model.axes import Axis, Grid, Split
from oracle.model.buffers import Buffer, LayerGroup, Model, Move, MoveState, Part, Placement

Change = Callable[[Buffer], Buffer | None]
"""The changed buffer, or None where there is nothing to change."""


@dataclass(frozen=True, slots=True)
class Mutant:
    """One mistake: ``of`` names the buffer or group, ``what`` the change. Equal names are the same mistake.

    ``family`` is what the change is about. ``place``: of a buffer, (role, which of the buffers of that role); of
    a group, its number.
    """

    family: str
    of: str
    what: str
    place: tuple[str, int]
    buffer: Change | None = None
    group: Callable[[LayerGroup], LayerGroup | None] | None = None

    @property
    def name(self) -> str:
        return f"{self.of}: {self.what}"

    def apply(self, model: Model) -> Model | None:
        """``model`` with the mistake in it, or None where it is not possible there.

        Raises ``InvalidCase`` where the mistake is noticed at once.
        """
        groups = list(model.groups)
        if self.group is not None:
            number = self.place[1]
            if number >= len(groups):
                return None
            changed = self.group(groups[number])
            if changed is None or changed == groups[number]:
                return None
            groups[number] = changed
            return replace(model, groups=tuple(groups))
        assert self.buffer is not None
        seen = 0
        for number, group in enumerate(groups):
            for index, buffer in enumerate(group.buffers):
                if buffer.role != self.place[0]:
                    continue
                if seen == self.place[1]:
                    changed_buffer = self.buffer(buffer)
                    if changed_buffer is None or changed_buffer == buffer:
                        return None
                    buffers = (*group.buffers[:index], changed_buffer, *group.buffers[index + 1 :])
                    groups[number] = replace(group, buffers=buffers)
                    return replace(model, groups=tuple(groups))
                seen += 1
        return None


def mutants_of(model: Model) -> Iterator[Mutant]:
    """All small mistakes in ``model``."""
    seen: dict[str, int] = {}
    for number, group in enumerate(model.groups):
        yield from _of_group(number, group)
        for buffer in group.buffers:
            count = seen.get(buffer.role, 0)
            seen[buffer.role] = count + 1
            of = buffer.role if not count else f"{buffer.role} ({count + 1})"
            for family, what, change in _of_buffer(buffer):
                yield Mutant(family, of, what, (buffer.role, count), change)


Found = tuple[str, str, Change]
"""Family, name and change."""


def _of_group(number: int, group: LayerGroup) -> Iterator[Mutant]:
    if group.window is not None:
        of = f"group {group.name}" if not group.name[-1:].isdigit() else f"group {number}"
        yield Mutant("window", of, "window dropped", ("", number), group=_without_window)
        yield Mutant("window", of, "window a token longer", ("", number), group=_longer_window)


def _without_window(group: LayerGroup) -> LayerGroup | None:
    return replace(group, window=None, sinks=0) if group.window is not None else None


def _longer_window(group: LayerGroup) -> LayerGroup | None:
    return replace(group, window=group.window + 1) if group.window is not None else None


def _of_buffer(buffer: Buffer) -> Iterator[Found]:
    for part, declared in enumerate(buffer.parts):
        where = f" of part {part + 1}" if len(buffer.parts) > 1 else ""
        for place, (one, other) in enumerate(zip(declared.axes, declared.axes[1:], strict=False)):
            yield "axes", f"axes {one.name} and {other.name}{where} exchanged", _axes_exchanged(part, place)
        for place, axis in enumerate(declared.axes):
            yield from _of_axis(axis, part, place, where)
        yield "width", f"elements{where} half as wide", _wider(part, 1, 2)
        yield "width", f"elements{where} twice as wide", _wider(part, 2, 1)
    yield from _of_moves(buffer)
    if buffer.placement != Placement():
        yield "placement", "placement dropped", lambda b: replace(b, placement=Placement())
    if buffer.ids != (1, 0):
        yield "ids", "ids dropped", lambda b: replace(b, ids=(1, 0))
    if buffer.sub_rows:
        yield "sub-pages", "sub-pages dropped", lambda b: replace(b, sub_rows=0)
    if buffer.expansion > 1:
        yield "sub-pages", "expansion dropped", lambda b: replace(b, expansion=1)
    if buffer.first_local:
        yield "scope", "on every layer of a stage", lambda b: replace(b, first_local=False)
    elif buffer.request_scope:
        yield "scope", "of a layer, not of the request", lambda b: replace(b, request_scope=False)
    if len(buffer.parts) > 1:
        yield "parts", "parts in the other order", lambda b: replace(b, parts=b.parts[::-1])


def _of_axis(axis: Axis, part: int, place: int, where: str) -> Iterator[Found]:
    name = f"{axis.name}{where}"
    if axis.is_token:
        yield "rows", f"tokens of a row of {name} doubled", _axis(part, place, _more_tokens)
        if axis.tokens_per_row > 1:
            yield "rows", f"a token a row of {name}", _axis(part, place, _one_token)
        return
    if axis.sections:
        for number, (one, other) in enumerate(zip(axis.sections, axis.sections[1:], strict=False)):
            what = f"sections {one.name} and {other.name} of {name} exchanged"
            yield "sections", what, _axis(part, place, _sections_exchanged(number))
        yield "sections", f"sections of {name} merged", _axis(part, place, _merged)
        for number, section in enumerate(axis.sections):
            for split in Split:
                if split is not section.split:
                    what = f"section {section.name} of {name} .{section.split.value} → .{split.value}"
                    yield "split", what, _axis(part, place, _section_split(number, section.split, split))
    elif axis.is_split:
        for split in Split:
            if split is not axis.split:
                what = f"{name} .{axis.split.value} → .{split.value}"
                yield "split", what, _axis(part, place, _split(axis.split, split))
    else:
        yield "split", f"{name} .all → .heads", _axis(part, place, _split(Split.ALL, Split.HEADS))
    if axis.is_split:
        grid = Grid.TP if axis.grid is Grid.TPCP else Grid.TPCP
        yield "grid", f"{name} @{axis.grid.value} → @{grid.value}", _axis(part, place, _grid(axis.grid, grid))


def _of_moves(buffer: Buffer) -> Iterator[Found]:
    for number, move in enumerate(buffer.moves):
        where = "" if len(buffer.moves) == 1 else f" (rule {number + 1})"
        states = (MoveState.NEVER,) if move.moves else ()
        if move.state is not MoveState.SEND:
            states = (*states, MoveState.SEND)
        for state in states:
            yield "moves", f"{move.state.value} → {state.value}{where}", _moved(number, move.state, state)


# ---- the changes


def _axes_exchanged(part: int, place: int) -> Change:
    def change(axes: tuple[Axis, ...]) -> tuple[Axis, ...]:
        return (*axes[:place], axes[place + 1], axes[place], *axes[place + 2 :])

    return _axes(part, place + 1, change)


def _axes(part: int, last: int, change: Callable[[tuple[Axis, ...]], tuple[Axis, ...] | None]) -> Change:
    def changed(buffer: Buffer) -> Buffer | None:
        if part >= len(buffer.parts) or last >= len(buffer.parts[part].axes):
            return None
        old = buffer.parts[part]
        axes = change(old.axes)
        return None if axes is None else _with_part(buffer, part, Part(axes, old.bits))

    return changed


def _axis(part: int, place: int, change: Callable[[Axis], Axis | None]) -> Change:
    def changed(axes: tuple[Axis, ...]) -> tuple[Axis, ...] | None:
        axis = change(axes[place])
        return None if axis is None else (*axes[:place], axis, *axes[place + 1 :])

    return _axes(part, place, changed)


def _with_part(buffer: Buffer, part: int, changed: Part) -> Buffer:
    return replace(buffer, parts=(*buffer.parts[:part], changed, *buffer.parts[part + 1 :]))


def _wider(part: int, times: int, over: int) -> Change:
    def changed(buffer: Buffer) -> Buffer | None:
        if part >= len(buffer.parts) or buffer.parts[part].bits * times % over:
            return None
        old = buffer.parts[part]
        return _with_part(buffer, part, Part(old.axes, old.bits * times // over))

    return changed


def _more_tokens(axis: Axis) -> Axis | None:
    return replace(axis, tokens_per_row=axis.tokens_per_row * 2) if axis.is_token else None


def _one_token(axis: Axis) -> Axis | None:
    return replace(axis, tokens_per_row=1) if axis.is_token else None


def _sections_exchanged(number: int) -> Callable[[Axis], Axis | None]:
    def change(axis: Axis) -> Axis | None:
        sections = axis.sections
        if number + 1 >= len(sections):
            return None
        return replace(
            axis, sections=(*sections[:number], sections[number + 1], sections[number], *sections[number + 2 :])
        )

    return change


def _merged(axis: Axis) -> Axis | None:
    """One axis in place of the sections, with the split of the largest."""
    if not axis.sections:
        return None
    largest = max(axis.sections, key=lambda section: section.size)
    return Axis(axis.name, axis.size, largest.split, axis.grid)


def _section_split(number: int, old: Split, new: Split) -> Callable[[Axis], Axis | None]:
    def change(axis: Axis) -> Axis | None:
        if number >= len(axis.sections) or axis.sections[number].split is not old:
            return None
        section = replace(axis.sections[number], split=new)
        return replace(axis, sections=(*axis.sections[:number], section, *axis.sections[number + 1 :]))

    return change


def _split(old: Split, new: Split) -> Callable[[Axis], Axis | None]:
    def change(axis: Axis) -> Axis | None:
        return replace(axis, split=new) if axis.split is old and not axis.sections and not axis.is_token else None

    return change


def _grid(old: Grid, new: Grid) -> Callable[[Axis], Axis | None]:
    def change(axis: Axis) -> Axis | None:
        return replace(axis, grid=new) if axis.grid is old and axis.is_split else None

    return change


def _moved(number: int, old: MoveState, new: MoveState) -> Change:
    def changed(buffer: Buffer) -> Buffer | None:
        if number >= len(buffer.moves) or buffer.moves[number].state is not old:
            return None
        move = Move(new, buffer.moves[number].layers)
        return replace(buffer, moves=(*buffer.moves[:number], move, *buffer.moves[number + 1 :]))

    return changed
