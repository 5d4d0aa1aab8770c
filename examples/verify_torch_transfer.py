"""Verify a transfer that somebody else wrote, on PyTorch tensors that somebody else allocated.

Two context ranks hand the KV cache of two requests to one generation rank. Each rank keeps one tensor
a layer, of the shape (slots, 2, heads, tokens, head_dim): the keys and values of a block side by side.
``Rank`` and ``send`` stand for the code under test, which knows nothing of kvwitness.

    python examples/verify_torch_transfer.py [DEVICE]

runs the transfer right, and then with the heads of the second sender in the wrong place.
"""

from __future__ import annotations

import sys
from collections.abc import Sequence
from dataclasses import replace

import torch

import kvwitness
from oracle.model.buffers import GroupKind, LayerGroup, Model
from oracle.model.case import SlotList, Slots
from oracle.model.notation import parse_buffer

LAYERS, HEADS, HEAD_DIM = 2, 4, 8
TOKENS_PER_BLOCK, SLOTS = 4, 8
PROMPTS = (10, 7)

# ---- the code under test


class Rank:
    """The cache of one rank: a tensor a layer, and for each request the slots of its blocks."""

    def __init__(self, heads: int, free: Sequence[int], device: str) -> None:
        shape = (SLOTS, 2, heads, TOKENS_PER_BLOCK, HEAD_DIM)
        self.heads = heads
        self.layers = [torch.empty(shape, dtype=torch.bfloat16, device=device) for _ in range(LAYERS)]
        slots = iter(free)
        self.blocks = [[next(slots) for _ in range(-(-prompt // TOKENS_PER_BLOCK))] for prompt in PROMPTS]


def send(sender: Rank, receiver: Rank, first_head: int) -> None:
    """Copy all blocks of all requests into the receiver's heads from ``first_head`` on."""
    heads = slice(first_head, first_head + sender.heads)
    for cache, other in zip(sender.layers, receiver.layers, strict=True):
        for sent, received in zip(sender.blocks, receiver.blocks, strict=True):
            for slot, its_slot in zip(sent, received, strict=True):
                other[its_slot, :, heads] = cache[slot]


# ---- what kvwitness is told


def declare(context: list[Rank], generation: list[Rank]) -> kvwitness.Case:
    """The case: the layout of a block, both splits, and the slots that the caches under test really use."""
    layers = f"0..{LAYERS - 1}"
    buffers = [parse_buffer(f"{role} @ {layers} : H({HEADS}).heads T D({HEAD_DIM}) ; 16") for role in ("key", "value")]
    model = Model(LAYERS, (LayerGroup("kv", GroupKind.PAGED, tuple(buffers)),))
    splits = [f"tp={len(ranks)}" for ranks in (context, generation)]
    case = kvwitness.deployment(model, *splits, prompt=PROMPTS, tokens_per_block=TOKENS_PER_BLOCK, layout="HND")
    tables = [
        SlotList(side, number, "kv", request, tuple(slots))
        for side, ranks in (("context", context), ("generation", generation))
        for number, rank in enumerate(ranks)
        for request, slots in enumerate(rank.blocks)
    ]
    return replace(case, tables=tuple(tables), slots=Slots(counts=(("kv", SLOTS),)))


def arrays(rank: Rank) -> dict[tuple[int, str], torch.Tensor]:
    """Where the keys and values of each layer are: views of the rank's own tensors."""
    roles = enumerate(("key", "value"))
    return {(layer, role): cache[:, at] for at, role in roles for layer, cache in enumerate(rank.layers)}


def main(device: str = "cpu") -> int:
    """Exit status: 0 if the right transfer passes and the wrong one fails."""
    context = [Rank(HEADS // 2, free, device) for free in ((3, 1, 6, 0, 7), (5, 2, 0, 4, 1))]
    generation = [Rank(HEADS, (7, 2, 4, 1, 6), device)]
    case = declare(context, generation)
    memories = {"context": [arrays(rank) for rank in context], "generation": [arrays(rank) for rank in generation]}

    def transfer() -> None:
        for number, sender in enumerate(context):
            send(sender, generation[0], number * sender.heads)

    def wrong_transfer() -> None:
        for sender in context:
            send(sender, generation[0], 0)

    right = kvwitness.check_memory(case, memories, transfer)
    print("the transfer:", kvwitness.explain(case, right), sep="\n", end="\n\n")
    wrong = kvwitness.check_memory(case, memories, wrong_transfer)
    print("with all heads in the first place:", kvwitness.explain(case, wrong.violations[0]), sep="\n")
    return 0 if right and not wrong else 1


if __name__ == "__main__":
    sys.exit(main(*sys.argv[1:]))
