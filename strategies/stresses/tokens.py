"""What depends on the tokens of a request: Helix, windows, compressed rows, footers and records, other lengths."""

from __future__ import annotations

from collections.abc import Callable

from oracle.model.buffers import Buffer, LayerGroup, Model
from oracle.model.case import Case, Request
from oracle.model.counts import sub_pages
from oracle.model.instance import Instance
from oracle.model.slots import block_count
from strategies.stresses.stress import Stress, moving


def _paged(model: Model) -> list[LayerGroup]:
    return [group for group in model.groups if group.is_paged]


def _instances(case: Case) -> tuple[Instance, Instance]:
    return case.context, case.generation


# ---- Helix


def _with_cp(case: Case, short: Callable[[int, int], bool] | None = None) -> bool:
    """Whether a paged group is on a Helix instance, and ``short(blocks, cp)`` of a request."""
    for instance in _instances(case):
        cp = instance.topology.cp
        for group in _paged(case.model) if cp > 1 else ():
            if short is None or any(
                short(block_count(request, group.length, instance.tokens_per_block), cp) for request in case.requests
            ):
                return True
    return False


# ---- windows


def _gone(request: Request, group: LayerGroup, instance: Instance) -> bool:
    """Whether a block that is no sink lies before the window of the token after the prompt."""
    if group.window is None:
        return False
    kept = group.window + dict(instance.reserve).get(group.name, 0)
    sinks = -(-group.sinks // instance.tokens_per_block)
    return (request.tokens(group.length) + 1 - kept) // instance.tokens_per_block > sinks


def drops_blocks(case: Case, groups: list[LayerGroup] | None = None) -> bool:
    """Whether a block of a request has left its window on a side; among ``groups``, or all."""
    return any(
        _gone(request, group, instance)
        for group in (case.model.groups if groups is None else groups)
        if group.window is not None
        for instance in _instances(case)
        for request in case.requests
    )


def _with_sinks(model: Model) -> list[LayerGroup]:
    return [group for group in model.groups if group.sinks]


def _windows_differ(case: Case) -> bool:
    return any(
        dict(case.context.reserve).get(group.name, 0) != dict(case.generation.reserve).get(group.name, 0)
        for group in case.model.groups
        if group.window is not None
    )


# ---- rows


def _compressed(model: Model) -> list[tuple[LayerGroup, Buffer]]:
    return [(group, buffer) for group, buffer in moving(model) if buffer.tokens_per_row > 1]


def ends_inside_a_row(case: Case) -> bool:
    """Whether the last row of a compressed buffer would cover tokens that the request does not have."""
    return any(
        request.tokens(group.length) % buffer.tokens_per_row
        for group, buffer in _compressed(case.model)
        for request in case.requests
    )


def _one_row(model: Model, tokens_per_block: int) -> bool:
    return any(buffer.tokens_per_row == tokens_per_block for _, buffer in _compressed(model))


def _ends_inside_a_block(case: Case, groups: list[LayerGroup]) -> bool:
    return any(
        request.tokens(group.length) % instance.tokens_per_block
        for group in groups
        for request in case.requests
        for instance in _instances(case)
    )


def _with_footers(model: Model) -> list[LayerGroup]:
    return [group for group, buffer in moving(model) if len(buffer.parts) > 1]


def _is_record(buffer: Buffer) -> bool:
    axes = buffer.parts[0].axes
    is_opaque = len(buffer.parts) == 1 and axes[-1].name == "B" and not axes[-1].is_split
    return is_opaque and any(axis.is_token for axis in axes)


def _has_records(model: Model) -> bool:
    return any(_is_record(buffer) for _, buffer in moving(model))


def _has_rings(model: Model) -> bool:
    return any(axis.name == "R" for _, buffer in moving(model) for part in buffer.parts for axis in part.axes)


def _has_sub_pages(model: Model, tokens_per_block: int) -> bool:
    return any(
        tokens_per_block % (buffer.tokens_per_row or 1) == 0 and sub_pages(buffer, tokens_per_block)[0] > 1
        for _, buffer in moving(model)
        if buffer.expansion > 1 or buffer.sub_rows
    )


def _on_a_side(case: Case, suits: Callable[[Model, int], bool]) -> bool:
    return any(suits(case.model, instance.tokens_per_block) for instance in _instances(case))


# ---- lengths


def _has_length_of_its_own(case: Case) -> bool:
    return any(
        block_count(request, group.length, instance.tokens_per_block)
        != block_count(request, "prompt", instance.tokens_per_block)
        for group in _paged(case.model)
        for request in case.requests
        for instance in _instances(case)
    )


TOKENS = (
    Stress(
        "Helix: block-cyclic tokens",
        "a token block is on one of several context-parallel ranks, which take turns",
        lambda model: bool(_paged(model)),
        _with_cp,
        ("helix",),
    ),
    Stress(
        "Helix: a rank without a block",
        "a request has fewer blocks than there are context-parallel ranks",
        lambda model: bool(_paged(model)),
        lambda case: _with_cp(case, lambda blocks, cp: blocks < cp),
        ("helix",),
    ),
    Stress(
        "Helix: an unfinished round",
        "the last round of blocks over the context-parallel ranks does not reach all of them",
        lambda model: bool(_paged(model)),
        lambda case: _with_cp(case, lambda blocks, cp: blocks > cp and blocks % cp > 0),
        ("helix",),
    ),
    Stress(
        "windows, dropped blocks",
        "a block of the prompt has left the window of its group, and is not there to be sent",
        lambda model: any(group.window is not None for group in model.groups),
        drops_blocks,
    ),
    Stress(
        "sink blocks kept",
        "blocks after the sinks have left the window, the sinks have not",
        lambda model: bool(_with_sinks(model)),
        lambda case: drops_blocks(case, _with_sinks(case.model)),
    ),
    Stress(
        "compression, a row not full",
        "a row stands for several tokens, and the prompt ends inside one",
        lambda model: bool(_compressed(model)),
        ends_inside_a_row,
    ),
    Stress(
        "compression, one row a block",
        "a row stands for as many tokens as a block has",
        lambda model: bool(_compressed(model)),
        lambda case: _on_a_side(case, _one_row),
        with_blocks=_one_row,
    ),
    Stress(
        "page footers",
        "the parts of a row lie apart, such as data and scales, and the last block is not full",
        lambda model: bool(_with_footers(model)),
        lambda case: _ends_inside_a_block(case, _with_footers(case.model)),
    ),
    Stress(
        "records",
        "rows of opaque bytes, such as a latent with its scales",
        _has_records,
        lambda case: _has_records(case.model),
    ),
    Stress(
        "ring rows",
        "rows that are positions modulo a ring and not those of a block",
        _has_rings,
        lambda case: _has_rings(case.model),
    ),
    Stress(
        "several sub-pages in a block",
        "a block is cut into sub-pages, one after another",
        lambda model: any(buffer.expansion > 1 or buffer.sub_rows for _, buffer in moving(model)),
        lambda case: _on_a_side(case, _has_sub_pages),
        with_blocks=_has_sub_pages,
    ),
    Stress(
        "a length of its own",
        "a group that is not as long as the prompt has another number of blocks",
        lambda model: any(group.length != "prompt" for group in _paged(model)),
        _has_length_of_its_own,
    ),
)
"""What depends on how many tokens a request has."""
