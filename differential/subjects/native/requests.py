"""Which requests are refused, and what a slice carries of each group (spec: legacy sender, 4.4, 6.4)."""

from __future__ import annotations

from differential.managers.facts import Chunk
from differential.subjects.native.alignment import Piece, stale_blocks
from differential.subjects.native.refusals import Refused
from differential.subjects.native.settings import Settings
from oracle.model.case import Case, Request


def check_request(case: Case, request: Request, chunks: int, helix: bool, settings: Settings) -> None:
    """Raise ``Refused`` for a request whose state, not its instances, cannot be sent; ``chunks`` slices are sent."""
    context, generation = case.context, case.generation
    sizes = context.topology.cp, generation.topology.cp
    if chunks > 1:
        if sizes != (1, 1):
            raise Refused("context_parallel_unsupported", f"{chunks} chunks with context-parallel sizes {sizes}")
        if not settings.suffix and any(not (group.is_paged or group.native_only) for group in case.model.groups):
            raise Refused("chunks_with_state", f"{chunks} chunks and recurrent state")
        if not settings.suffix and context.topology.pp > 1:
            raise Refused("chunks_with_pipeline", f"{chunks} chunks from {context.topology.pp} pipeline stages")
    if not helix:
        return
    blocks = -(-request.prompt // generation.tokens_per_block)
    if blocks < sizes[1]:
        raise Refused("fewer_blocks_than_context_parallel", f"{blocks} blocks on {sizes[1]} context-parallel ranks")
    if settings.suffix:
        return
    if reused := request.generation.cached // generation.tokens_per_block:
        raise Refused("helix_prefix_reuse", f"the receiver reuses {reused} blocks")
    for group in case.model.groups:
        if stale := stale_blocks(request.tokens(group.length), group.window, context.tokens_per_block):
            raise Refused("helix_window", f"the window of group {group.name} has left {stale} blocks behind")


def request_pieces(case: Case, request: Request, chunk: Chunk | None) -> list[Piece | None]:
    """What a slice carries of each group: its blocks, or ``None`` for nothing; ``chunk`` None is the whole request.

    Windowed groups, state and groups of another length go whole with the last chunk.
    """
    tokens_per_block = case.context.tokens_per_block, case.generation.tokens_per_block
    pieces: list[Piece | None] = []
    for group in case.model.groups:
        tokens = request.tokens(group.length)
        streams = group.is_paged and group.length == "prompt"
        streams = streams and not stale_blocks(tokens, group.window, tokens_per_block[0])
        if chunk is not None and not streams and not chunk.last:
            pieces.append(None)
            continue
        part = chunk if streams else None
        pieces.append(Piece(group.is_paged, tokens, *tokens_per_block, group.window, part))
    return pieces
