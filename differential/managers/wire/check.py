"""What is wrong with a request info for this request: the rules that take knowledge of its two sides."""

from __future__ import annotations

import numpy as np

from differential.managers.wire.expected import Expected, ExpectedGroup
from differential.managers.wire.info import AnchorInfo, RequestInfo, SuffixInfo, TableInfo
from differential.managers.wire.lone import check_alone
from differential.managers.wire.trouble import DoesNotFit, WrongValue

_ARRAYS = "block_ids_per_layer_groups"


def check(info: RequestInfo, expected: Expected) -> None:
    """Raise unless ``info`` is a right one for the request and sides that ``expected`` describes.

    For both ends: the receiver before it sends, the sender on receipt. Whether the named blocks are
    due is not asked. Raises ``DoesNotFit``, and what :func:`check_alone` raises; changes nothing.
    """
    check_alone(info)
    _check_slice(expected)
    if len(info.block_ids_per_layer_groups) != len(expected.groups):
        count = len(info.block_ids_per_layer_groups)
        accepted = f"expected one array for each of {len(expected.groups)} layer groups, not {count}"
        raise DoesNotFit(_ARRAYS, info.block_ids_per_layer_groups, accepted, rule="W3")
    for number, group in enumerate(expected.groups):
        if isinstance(info, TableInfo):
            _check_table(info, number, group)
        elif isinstance(info, AnchorInfo):
            _check_span(info, number, group, expected)
        elif isinstance(info, SuffixInfo):
            _check_suffix(info, number, group, expected)
    _check_slots(info, expected)
    if isinstance(info, TableInfo | SuffixInfo):
        _check_start(info.dst_start_token, expected.tokens_per_block)


def _check_slice(expected: Expected) -> None:
    own, peer = expected.tokens_per_block, expected.peer_tokens_per_block
    if peer is not None and peer != own:
        raise DoesNotFit("tokens_per_block", peer, f"expected {own}, as on this side", rule="W14")
    if expected.token_range is None:
        return
    start, end = expected.token_range
    if start < 0 or start > end:
        accepted = "expected a first token of at least 0 and an end not before it"
        raise WrongValue("token_range", expected.token_range, accepted, rule="W12")
    if expected.helix:
        accepted = "expected no slices for a Helix rank: the whole prompt at once"
        raise DoesNotFit("token_range", expected.token_range, accepted, rule="W7")


def _check_table(info: TableInfo, number: int, group: ExpectedGroup) -> None:
    length = len(info.block_ids_per_layer_groups[number])
    if length != group.blocks:
        accepted = f"expected {group.blocks} entries, one for each block of the prompt, not {length}"
        value = info.block_ids_per_layer_groups[number]
        raise DoesNotFit(f"{_ARRAYS}[{number}]", value, accepted, rule="W5")
    if group.offered is not None and group.offered != group.blocks:
        accepted = f"expected {group.blocks} entries, one for each block of the prompt"
        raise DoesNotFit(f"groups[{number}].offered", group.offered, accepted, rule="W5")


def _check_span(info: AnchorInfo, number: int, group: ExpectedGroup, expected: Expected) -> None:
    anchor, length = info.first_ordinals[number], len(info.block_ids_per_layer_groups[number])
    if expected.helix and not expected.counts_own_blocks and anchor:
        raise DoesNotFit(f"first_ordinals[{number}]", anchor, "expected 0 from a Helix rank", rule="W7")
    if not length:
        # Nothing is asked for. Tails without a beam are nothing either, whatever the sender has.
        return
    ordinals = group.blocks - anchor
    # Where one beam's blocks end is told by the prompt, never by the number of beams.
    tails = max(0, length - ordinals)
    if ordinals <= 0 or tails >= expected.beams:
        rest = f" and at most {expected.beams - 1} tails" if expected.beams > 1 else ""
        accepted = f"expected {length} entries from it to lie in {group.blocks} blocks of the prompt{rest}"
        raise DoesNotFit(f"first_ordinals[{number}]", anchor, accepted, rule="W6")
    if group.offered_tails is not None and tails != group.offered_tails:
        accepted = f"expected {group.offered_tails} beam tails behind {min(length, ordinals)} blocks, not {tails}"
        raise DoesNotFit(f"{_ARRAYS}[{number}]", info.block_ids_per_layer_groups[number], accepted, rule="W11")


def _check_suffix(info: SuffixInfo, number: int, group: ExpectedGroup, expected: Expected) -> None:
    length, tails = len(info.block_ids_per_layer_groups[number]), expected.beams - 1
    most = group.blocks + tails
    # A window that is wider on the receiver makes its list longer than the sender's, rightly.
    if group.offered is not None and not group.windowed:
        most = min(most, group.offered + (tails if group.offered_tails is None else group.offered_tails))
    if length > most:
        accepted = f"expected at most {most} entries, as many as the sender can have, not {length}"
        raise DoesNotFit(f"{_ARRAYS}[{number}]", info.block_ids_per_layer_groups[number], accepted, rule="W13")


def _check_slots(info: RequestInfo, expected: Expected) -> None:
    arrays = info.block_ids_per_layer_groups
    for number, (slots, group) in enumerate(zip(arrays, expected.groups, strict=True)):
        count = expected.pools[group.pool_group]
        if len(slots) and slots.max() >= count:
            index = int(np.argmax(slots >= count))
            accepted = f"expected a slot below {count}, the number of slots of pool group {group.pool_group}"
            raise DoesNotFit(f"{_ARRAYS}[{number}][{index}]", int(slots[index]), accepted, rule="W8")
    for pool_group in range(len(expected.pools)):
        _check_once(arrays, pool_group, [group.pool_group for group in expected.groups])


def _check_once(arrays: tuple[np.ndarray, ...], pool_group: int, pool_groups: list[int]) -> None:
    """Two layer groups of one pool group must not name the same place either, so they are looked at together."""
    named = [slots[slots >= 0] for slots, other in zip(arrays, pool_groups, strict=True) if other == pool_group]
    if not named or len(np.unique(together := np.concatenate(named))) == len(together):
        return
    seen: dict[int, str] = {}
    for number, slots in enumerate(arrays):
        if pool_groups[number] != pool_group:
            continue
        for index, slot in enumerate(slots.tolist()):
            place = f"{_ARRAYS}[{number}][{index}]"
            if slot >= 0 and seen.setdefault(slot, place) != place:
                accepted = f"expected a slot of pool group {pool_group} once, but {seen[slot]} names it too"
                raise DoesNotFit(place, slot, accepted, rule="W9")


def _check_start(start: int | None, tokens_per_block: int) -> None:
    if start is not None and start % tokens_per_block:
        accepted = f"expected the first token of a block, a multiple of {tokens_per_block}"
        raise DoesNotFit("dst_start_token", start, accepted, rule="W10")
