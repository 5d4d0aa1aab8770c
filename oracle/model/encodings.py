"""The three encodings of "ordinal -> slot", and what two of them cannot say (spec: blocks, three encodings).

A subject names its encoding. Where a state cannot be said in it, refusing the request with one of
``CODES`` is right; whether the state is such a one, truth decides on its own. Chunks with context
parallelism are no matter of words: every encoding refuses them, and who serves them rightly does no wrong.
"""

from __future__ import annotations

from typing import Literal

Encoding = Literal["tables", "anchors", "suffix"]

ENCODINGS: tuple[Encoding, ...] = ("tables", "anchors", "suffix")
"""``tables``: one entry a block, -1 for a hole. ``anchors``: one run of slots and the ordinal of its first.
``suffix``: a list of slots that ends where the prompt, or the chunk, does."""

SINKS_BEFORE_A_GAP = "sinks_before_a_gap"
HOLE_IN_A_LIST = "hole_in_a_list"
WINDOW_WITH_CONTEXT_PARALLELISM = "window_with_context_parallelism"
CHUNKS_WITH_CONTEXT_PARALLELISM = "chunks_with_context_parallelism"
TAIL_COUNTS_DIFFER = "tail_counts_differ"
TAILS_NOT_TOLD_APART = "tails_not_told_apart"

BLOCK_LOST = "block_lost"
"""No matter of an encoding: a due block of the request is gone on the sources that the receiver hears from."""

BEAM_TAILS = "beam_tails"
"""What tables do not carry: no code of a refusal, for without them they serve."""

CODES: dict[str, tuple[tuple[Encoding, ...], str]] = {
    SINKS_BEFORE_A_GAP: (("anchors", "suffix"), "sinks stay in front of blocks that left the window"),
    HOLE_IN_A_LIST: (("anchors", "suffix"), "a given list lacks a block in front of one that it has"),
    WINDOW_WITH_CONTEXT_PARALLELISM: (("anchors",), "context-parallel ranks, and a window that has left blocks behind"),
    CHUNKS_WITH_CONTEXT_PARALLELISM: (ENCODINGS, "chunks, and context parallelism on either side"),
    TAIL_COUNTS_DIFFER: (("anchors", "suffix"), "the sides have unequal numbers of beam tails"),
    TAILS_NOT_TOLD_APART: (("suffix",), "how many entries of a list are beam tails does not follow from its length"),
}
"""Refusal code -> (encodings that may refuse with it, when)."""
