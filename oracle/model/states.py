"""States of a request that cannot be: what its managers would never have let happen (spec: blocks, decisions)."""

from __future__ import annotations

from typing import TYPE_CHECKING

from oracle.model.errors import InvalidCase, require_whole

if TYPE_CHECKING:
    from oracle.model.buffers import LayerGroup, Model
    from oracle.model.case import Request
    from oracle.model.instance import Instance

SIDES = ("context", "generation")
MOST_BEYOND = 4_194_304
"""Tokens that a state may lie beyond the prompt: truth asks each of them, so a number has to be countable."""
MOST_TOKENS = 16_777_216
"""Tokens of a prompt or of another length: a request has an entry for each of its blocks."""
MOST_BEAMS = 1024


def check_request(request: Request) -> None:
    """Raise ``InvalidCase`` for a state that contradicts the request itself."""
    require_whole("request.beams", request.beams, least=1)
    if request.beams > MOST_BEAMS:
        raise InvalidCase("request.beams", request.beams, f"expected at most {MOST_BEAMS:,} beams")
    if request.beams > 1 and request.cuts:
        raise InvalidCase("request.beams", request.beams, "a prefill in chunks has one beam")
    for side in SIDES:
        state = request.state(side)
        if 0 < state.reached < request.prompt:
            accepted = f"expected 0 for the prompt, or at least prompt = {request.prompt}"
            raise InvalidCase(f"request.{side}.reached", state.reached, accepted)
        for name, least in (("reached", request.prompt), ("drafts", 0), ("extra", 0)):
            if getattr(state, name) - least > MOST_BEYOND:
                accepted = f"expected at most {MOST_BEYOND:,} tokens beyond the prompt"
                raise InvalidCase(f"request.{side}.{name}", getattr(state, name), accepted)
        for name in ("extra", "drafts"):
            if request.beams > 1 and getattr(state, name):
                raise InvalidCase(f"request.{side}.{name}", getattr(state, name), "a beam search does not speculate")
        if state.tails >= request.beams:
            accepted = f"expected below beams = {request.beams}: the first beam is no tail"
            raise InvalidCase(f"request.{side}.tails", state.tails, accepted)


def check_manager(model: Model, instance: Instance, side: str) -> None:
    """Raise ``InvalidCase`` for a model that the side's manager cannot hold."""
    if instance.manager == "v1":
        for group in model.groups:
            if group.sinks and group.length == "prompt":
                raise InvalidCase(f"{side}.manager", "v1", f"group {group.name} has sinks, which only v2 keeps")


def check_states(model: Model, instances: tuple[Instance, Instance], request: Request, where: str) -> None:
    """Raise ``InvalidCase`` for a state of ``request`` that contradicts the instances."""
    for side, instance in zip(SIDES, instances, strict=True):
        if request.beams > 1:
            if instance.manager == "v2":
                raise InvalidCase(f"{where}.beams", request.beams, f"manager v2 of the {side} side has one beam")
            if instance.topology.cp > 1:
                accepted = f"the {side} side has cp = {instance.topology.cp}, and context parallelism one beam"
                raise InvalidCase(f"{where}.beams", request.beams, accepted)
            _check_beams(model, instance, request, side, where)
        if side == "generation":
            _check_receiver(model, instance, request, where)


def _check_beams(model: Model, instance: Instance, request: Request, side: str, where: str) -> None:
    state, room, size = request.state(side), request.room(side), instance.tokens_per_block
    if state.tails and room == request.prompt and room % size == 0:
        accepted = f"beams share all blocks of a prompt of {room} tokens, which fills its blocks of {size}"
        raise InvalidCase(f"{where}.{side}.tails", state.tails, accepted)
    for group in model.groups:
        if group.window is None or group.length != "prompt" or room == request.prompt:
            continue
        if room - group.window - instance.reserve_of(group.name) >= size:
            accepted = f"the window of group {group.name} would drop a block, which manager v1 does for one beam only"
            raise InvalidCase(f"{where}.{side}.reached", state.reached, accepted)


def _check_receiver(model: Model, instance: Instance, request: Request, where: str) -> None:
    """A receiver has room for what it is to receive: going beyond the prompt, it has dropped no block that is due.

    Due are the blocks that the window of the model reaches behind the prompt and that were not cached. The
    receiver drops by its own window, which its reserve widens: v2 as its history grows, v1 with every token
    that it takes in, the newest one of which is not counted.
    """
    state, first = request.generation, instance.manager == "v1"
    for group in model.groups:
        lacking = reserve_lacking(group, instance.manager, instance.tokens_per_block, request)
        if lacking > instance.reserve_of(group.name):
            name = "drafts" if first and state.reached <= request.prompt + state.drafts else "reached"
            due = _first_due(group, instance.tokens_per_block, request)
            accepted = (
                f"block {due} of group {group.name} is due and dropped: expected a reserve of at least "
                f"{lacking} tokens, or fewer tokens beyond the prompt"
            )
            raise InvalidCase(f"{where}.generation.{name}", getattr(state, name), accepted)


def reserve_lacking(group: LayerGroup, manager: str, tokens_per_block: int, request: Request) -> int:
    """Tokens that a receiver must keep beyond the window of ``group`` to have room for what is due; 0 or less: none."""
    if group.window is None or group.length != "prompt":
        return 0
    due = _first_due(group, tokens_per_block, request)
    if due >= -(-request.prompt // tokens_per_block):
        return 0
    beyond = request.room("generation") - 1 if manager == "v1" else max(request.prompt, request.generation.reached)
    # the oldest due block stays as long as the window behind ``beyond`` begins before its end
    return beyond + 1 - group.window - (due + 1) * tokens_per_block + 1


def _first_due(group: LayerGroup, tokens_per_block: int, request: Request) -> int:
    """The oldest block behind the sinks that the window reaches at the prompt and that the receiver has not cached."""
    assert group.window is not None
    behind = (request.prompt + 1 - group.window) // tokens_per_block
    return max(behind, request.generation.cached // tokens_per_block, -(-group.sinks // tokens_per_block), 0)
