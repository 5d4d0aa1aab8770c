"""What the legacy sender says no to, and the codes under which it does.

The first four codes are the words under which the recorded plans refuse; the others follow their style.
"""

from __future__ import annotations

CODES = {
    "context_parallel_unsupported": "context parallelism on both sides, on either side without Helix, or with chunks",
    "destination_lists_more_blocks_than_source": "suffix lists: an unwindowed group lists more on the destination",
    "element_size_differs": "the bytes of one cache element differ",
    "shard_counts_not_divisible": "recurrent state: neither state grid divides the other",
    "no_legacy_rule": "the kind declares no mapper kinds",
    "helix_tokens_per_block_differ": "Helix needs equal tokens per block",
    "latent_differs": "one side is key-only (a latent), the other is not",
    "head_dims_differ": "the elements per head differ",
    "tokens_per_block_differ": "unequal tokens per block with a view that is not head-major, or that do not divide",
    "head_bytes_not_whole": "heads must be cut and a head of a block is no whole number of bytes",
    "latent_heads_not_one": "a key-only cache must report one head on both sides",
    "state_head_bytes_differ": "recurrent state: the bytes of one head differ",
    "state_sizes_differ": "recurrent state: bytes of a layer times state grid differ",
    "section_counts_differ": "convolution state: the number of sections differs",
    "section_sizes_differ": "convolution state: bytes of a section times state grid differ",
    "replicated_state_differs": "recurrent state: a replicated role of a shared layer is missing, or its bytes differ",
    "mapper_kinds_differ": "two views of the same roles declare different mapper kinds",
    "mapper_kind_not_allowed": "a paged view is sectioned, or a state view token-major",
    "view_geometry_differs": "the roles of one view do not share their geometry",
    "view_geometry_wrong": "sections do not add up to the layer, or it is no whole number of heads",
    "layer_regions_differ": "a view's layers do not have equally many bytes",
    "layer_region_not_contiguous": "the buffers of one layer of a view do not stand back to back",
    "region_sizes_differ": "a whole region is to be copied and the two sides differ in its bytes",
    "buffer_counts_differ": "the two sides differ in buffers per layer of one view",
    "head_bytes_differ": "the bytes of one head are unequal on the two sides, or not whole",
    "list_lengths_differ": "positional tables: the two lists of a group are of unequal length",
    "helix_prefix_reuse": "Helix with whole blocks reused on the receiver",
    "helix_window": "Helix with a sliding window that has left blocks behind",
    "fewer_blocks_than_context_parallel": "Helix with fewer blocks than context-parallel ranks",
    "chunks_with_state": "chunks with a recurrent-state manager",
    "chunks_with_pipeline": "chunks with a pipelined context instance",
}
CRASH = "crash: "


class Refused(Exception):
    """A legacy rule says no, or crashes. ``code`` is one of ``CODES`` or starts with ``crash: ``."""

    def __init__(self, code: str, reason: str) -> None:
        if code not in CODES and not code.startswith(CRASH):
            raise LookupError(f"refusal code {code!r} is not documented: expected one of {', '.join(CODES)}")
        self.code = code
        self.reason = reason
        super().__init__(f"{code}: {reason}")
