"""The law that a declaration reshards byte for byte, without any planner (spec: mapping, inside someone's own tests).

The tensors as a whole are put together from what the ranks of one instance hold; then the pages of every
rank of another instance are laid out from them, and compared with what that rank is to hold.
"""

from __future__ import annotations

from collections.abc import Iterator
from functools import lru_cache

import numpy as np

from kvwitness.conform.images import Image, Piece, Place, image_of
from kvwitness.conform.law import Law, Result, broken, holds
from kvwitness.conform.sample import Sample, around, block_of, case_between
from kvwitness.conform.shrink import smallest
from kvwitness.covering import cover
from kvwitness.words import count
from oracle.model.case import SIDES, Case
from oracle.truth.holding import held_blocks
from oracle.truth.stacks import held_layers
from strategies.instances import LAYOUTS
from strategies.kinds.protocol import Kind
from strategies.topologies import Grid, Shape

EMPTY = -1
SIZES, STAGES = (1, 2, 3, 4), (1, 2, 3)
MOST_PAIRS = 48
DRAWN = 3
"""Models that are drawn for each pair of topologies, besides those of the scope."""

Tensors = dict[Place, np.ndarray]
"""Ids (int64) of the whole tensors, in declared order, the bytes of an element last; EMPTY where nothing was put."""


class Uneven(Exception):
    """What two instances, or the ranks of one, do not agree about; the message names buffer and rank."""


# ---- putting together, and laying out


def assemble(image: Image) -> Tensors:
    """The whole tensors out of the pieces of one instance; raises ``Uneven`` where these do not fit together."""
    tensors: Tensors = {}
    owned: set[tuple[int, Place, int]] = set()
    for piece in image.pieces:
        owner = (piece.rank, piece.place, piece.page)
        if owner in owned or any(len(np.unique(held.indices)) < len(held.indices) for held in piece.stored):
            raise Uneven(f"rank {piece.rank} holds elements of {piece.place} twice")
        owned.add(owner)
        tensor = tensors.get(piece.place)
        if tensor is None:
            tensor = tensors[piece.place] = np.full(piece.shape, EMPTY, dtype=np.int64)
        where, ids = piece.where, piece.read(piece.ids)
        known = tensor[where]
        if ((known != EMPTY) & (known != ids)).any():
            raise Uneven(f"rank {piece.rank} holds other bytes of {piece.place} than another rank does")
        tensor[where] = ids
    return tensors


def check_whole(image: Image, tensors: Tensors, places: Iterator[Place]) -> None:
    """Raise ``Uneven`` unless every element of ``places`` and of each tensor is on a rank, and is that element."""
    for place in places:
        if place not in tensors:
            raise Uneven(f"no rank holds {place}")
    first = {piece.place: piece for piece in image.pieces}
    for place, tensor in tensors.items():
        if (tensor == EMPTY).any():
            raise Uneven(f"no rank holds {_index(first[place], tensor == EMPTY)} of {place}")
        own = tensor % image.width - first[place].first
        wrong = own != np.arange(tensor.size).reshape(tensor.shape)
        if wrong.any():
            raise Uneven(f"{_index(first[place], wrong)} of {place} is stored where another element belongs")


def check_served(image: Image, tensors: Tensors) -> None:
    """Lay out each page of ``image`` from another instance's tensors; raise ``Uneven`` where it is not what is due."""
    for piece in image.pieces:
        if not piece.moves:
            continue
        tensor = tensors.get(piece.place)
        if tensor is None:
            raise Uneven(f"{piece.place} is due on rank {piece.rank}, and no context rank holds it")
        array = tensor[piece.where]
        if (array == EMPTY).any():
            gone = _index(piece, tensor == EMPTY)
            raise Uneven(f"{gone} of {piece.place} is due on rank {piece.rank}, and no context rank holds it")
        if not np.array_equal(piece.store(array), piece.ids):
            wrong = int(np.flatnonzero(piece.store(array) != piece.ids)[0])
            raise Uneven(f"rank {piece.rank} is due another element at byte {wrong} of {piece.place}")


def _index(piece: Piece, where: np.ndarray) -> str:
    """``H 1, T 0, D 0``: the first index at which ``where`` holds."""
    index = np.argwhere(where)[0].tolist()
    return ", ".join(f"{axis} {number}" for axis, number in zip(piece.declared, index, strict=False))


def places_of(case: Case, side: str) -> Iterator[Place]:
    """Every tensor that the ranks of ``side`` hold together: its layers are on some stage, its blocks on some rank."""
    stages = [case.side(side).topology.stage_layers(stage) for stage in range(case.side(side).topology.pp)]
    for number, group in enumerate(case.model.groups):
        for request, asked in enumerate(case.requests):
            blocks = range(1)
            if group.is_paged and asked.tokens(group.length):
                blocks = np.flatnonzero(held_blocks(case, side, request, number)).tolist()
            for buffer in group.buffers:
                held = {layer for stage in stages for layer in held_layers(case, side, stage, buffer)}
                layers = ({-1} if held else set()) if buffer.request_scope else held
                for layer in sorted(layers):
                    for block in blocks:
                        for part in range(len(buffer.parts)):
                            yield Place(number, layer, buffer.role, request, block, part)


def check_case(case: Case) -> None:
    """Raise ``Uneven`` unless each side of ``case`` holds all of the model and the receiver's pages can be laid out."""
    images = {side: image_of(case, side) for side in SIDES}
    tensors = {}
    for side, image in images.items():
        try:
            tensors[side] = assemble(image)
            check_whole(image, tensors[side], places_of(case, side))
        except Uneven as error:
            raise Uneven(f"{side}: {error}") from None
    check_served(images["generation"], tensors["context"])


# ---- which cases


@lru_cache(maxsize=16)
def _pairs(stages: bool, helix: bool, attention_dp: bool) -> tuple[tuple[Grid, tuple[str, str]], ...]:
    """Pairs of topologies and layouts, the smallest first: every two tensor sizes meet, and every two other values."""
    factors = {
        "context tp": SIZES,
        "generation tp": SIZES,
        "context pp": STAGES if stages else (1,),
        "generation pp": STAGES if stages else (1,),
        "context dp": (False, True) if attention_dp else (False,),
        "generation dp": (False, True) if attention_dp else (False,),
        "generation cp": (1, 2) if helix else (1,),
        "layouts": LAYOUTS,
    }
    rows = cover(factors, most=MOST_PAIRS, exists=_exists, first=("context tp", "generation tp"))
    found = []
    for tp, own_tp, pp, own_pp, dp, own_dp, cp, layouts in rows:
        found.append((Grid(Shape(tp, pp, 1, dp), Shape(own_tp, own_pp, cp, own_dp)), layouts))
    return tuple(sorted(found, key=lambda pair: pair[0].size))


def _exists(row: tuple) -> bool:
    tp, own_tp, _, _, dp, own_dp, cp, _ = row
    return not (dp and tp == 1) and not (own_dp and (own_tp == 1 or cp > 1))


def _case(kind: Kind, numbers: tuple[int, ...], grid: Grid, layouts: tuple[str, str]) -> Case:
    block = block_of(kind)
    prompt = block * grid.generation.cp + 1
    layers = min(max(3, kind.layers[0]), kind.layers[1])
    declaration = kind.declare(numbers, around(grid, layers, block, prompt))
    return case_between(kind, declaration, grid, tokens_per_block=block, prompt=prompt, layouts=layouts)


def check_reshards(sample: Sample) -> Result:
    """Reshard small models between pairs of topologies."""
    kind = sample.kind
    random = sample.random("reshard")
    pairs = _pairs(kind.stages, kind.helix, kind.attention_dp)
    tried = 0
    for place, (grid, layouts) in enumerate(pairs):
        scoped = kind.scope[place % len(kind.scope)]
        drawn = [tuple(random.randrange(bound) for bound in kind.bounds) for _ in range(DRAWN)]
        for numbers in (scoped, *drawn):
            tried += 1
            if said := _trouble(sample, numbers, grid, layouts):
                least = smallest(numbers, lambda lower, pair=(grid, layouts): bool(_trouble(sample, lower, *pair)))
                found = _trouble(sample, least, grid, layouts) or said
                return broken(found, f"numbers {least}", f"{grid}, {' to '.join(dict.fromkeys(layouts))}")
    return holds(f"{count(tried, 'small model')}, {count(len(pairs), 'pair')} of topologies")


def _trouble(sample: Sample, numbers: tuple[int, ...], grid: Grid, layouts: tuple[str, str]) -> str:
    try:
        check_case(_case(sample.kind, numbers, grid, layouts))
    except Uneven as error:
        return str(error)
    except Exception as error:
        return sample.told(error)
    return ""


RESHARDS = Law(
    "reshards",
    "What the ranks of one instance hold makes up the pages of any other, byte for byte, without a planner.",
    check_reshards,
)
