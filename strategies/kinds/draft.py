"""Draft layers after those of the target: MTP and EAGLE-3 in its manager, a draft model in one of its own.

They stand on the last pipeline stage (spec: kinds, draft, MTP and EAGLE layers; uneven PP). A side may have none of
them, or not all: then nobody sends them, and nobody waits for them.
"""

from __future__ import annotations

from dataclasses import dataclass

from oracle.model.buffers import Buffer, LayerGroup, Model, Move, MoveState
from oracle.model.case import Native
from oracle.model.instance import Without
from oracle.model.layers import LayerSet
from strategies.kinds.fitting import draw_heads, draw_window
from strategies.kinds.pieces import key_value, layers, moving, paged, rows
from strategies.kinds.protocol import Declaration, Kind, Surroundings

# A draft model's latents are replicated; what stands in the target's manager is declared as the target is.
NATIVE = Native((("all", "indexed"), ("draft", "replicated")))
DOMAIN = "draft"
EITHER = Move(MoveState.OPTIONAL, side="either")
DIMS = ((1, 1), (2, 2), (1, 2), (2, 1), (3, 2), (2, 4), (1, 1), (2, 3))
"""Elements of (target, draft)."""
ARRANGEMENTS = ("inside", "appended", "apart", "apart", "inside", "appended", "apart", "inside")
"""``inside``: as the target's layers; ``appended``: in its group, of other sizes; ``apart``: a manager of its own."""
LACKING = ((), (), (), (), ("context",), ("generation",), ("context", "last"), ("generation", "last"))


@dataclass(frozen=True, slots=True)
class Width:
    """What a layer keeps of a token: ``heads`` heads of ``dim`` elements of a key and a value, or, 0, one latent."""

    heads: int
    dim: int
    bits: int = 16

    def buffers(self, on: LayerSet, latent: str = "key") -> tuple[Buffer, ...]:
        """The buffers of the layers ``on``; ``latent``: the role of a latent."""
        if self.heads:
            return key_value(on, self.heads, self.dim, self.bits)
        return (rows(latent, on, self.dim, self.bits),)


def declare(
    count: int,
    extra: int,
    target: Width,
    draft: Width,
    *,
    apart: bool = False,
    window: int | None = None,
    lacking: tuple[str, ...] = (),
) -> Declaration:
    """``count`` layers of ``target`` and ``extra`` of ``draft`` after them.

    ``apart``: the latter in a manager of their own. ``window``: every second layer of the target, from the first, keeps
    so many tokens. ``lacking``: the side that has no draft layer, with ``last`` only the last one not.
    """
    after = layers(range(count, count + extra))
    near = () if window is None else range(0, count, 2)
    full = [layer for layer in range(count) if layer not in near]
    groups: list[LayerGroup] = []
    if near:
        groups.append(paged("local", target.buffers(layers(near)), window))
    if apart:
        groups += [paged("full", target.buffers(layers(full)))] if full else []
        groups.append(
            paged("draft", [moving(buffer, EITHER) for buffer in draft.buffers(after, "draft")], domain=DOMAIN)
        )
    elif target == draft:
        groups.append(paged("full", target.buffers(layers((*full, *after)))))
    else:
        before = target.buffers(layers(full)) if full else ()
        groups.append(paged("full", (*before, *draft.buffers(after))))
    without: dict[str, tuple[Without, ...]] = {}
    if lacking:
        roles = tuple(dict.fromkeys(buffer.role for buffer in groups[-1].buffers))
        gone = layers(range(count + extra - 1, count + extra)) if "last" in lacking else after
        without[lacking[0]] = (Without(roles, gone),)
    return Declaration(
        Model(count + extra, tuple(groups), after),
        NATIVE,
        extra,
        (without.get("context", ()), without.get("generation", ())),
    )


def decode(numbers: tuple[int, ...], around: Surroundings) -> Declaration:
    arrangement, latents, heads, draft_heads, dims, width, more, lack = numbers
    dim, draft_dim = DIMS[dims]
    bits = (16, 8)[width]
    kind = ARRANGEMENTS[arrangement]
    # What is appended has keys and values as its target does: a manager of latents has no values.
    of_target, of_draft = (True, True) if kind == "appended" else ((True, True), (False, False), (True, False))[latents]
    target = Width(draw_heads(heads, around, 64) if of_target else 0, dim, bits)
    draft = Width(draw_heads(draft_heads, around, 64) if of_draft else 0, draft_dim, bits)
    if kind == "inside":
        draft = target
    return declare(
        around.layers,
        2 if more % 4 == 3 else 1,
        target,
        draft,
        apart=kind == "apart",
        window=draw_window(more - 8, around) if more > 7 else None,
        lacking=LACKING[lack],
    )


KIND = Kind(
    name="draft",
    description="draft layers after the target's: of its kind, of other sizes, in a manager apart, or on one side only",
    order=7,
    bounds=(len(ARRANGEMENTS), 3, 64, 64, len(DIMS), 2, 12, len(LACKING)),
    decode=decode,
    scope=((1, 0, 2, 1, 2, 1, 0, 0), (0, 1, 0, 0, 0, 1, 0, 4), (2, 0, 1, 0, 2, 1, 0, 5)),
    layers=(1, 5),
    places=True,
)
