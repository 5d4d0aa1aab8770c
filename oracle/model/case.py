"""Everything that decides one transfer, as plain data."""

from __future__ import annotations

from oracle.model.buffers import Buffer, Model, MoveState
from oracle.model.counts import buffer_bytes
from oracle.model.errors import InvalidCase, require_whole
from oracle.model.instance import Instance
from oracle.model.records import Hashed, record
from oracle.model.states import MOST_TOKENS, check_manager, check_request, check_states

SIDES = ("context", "generation")
MAPPERS = ("indexed", "nhd", "replicated", "sectioned")


def _require_group(argument: str, model: Model, group: str) -> None:
    names = [each.name for each in model.groups]
    if group not in names:
        raise InvalidCase(argument, group, f"expected one of {names}")


def _require_distinct(argument: str, pairs: tuple[tuple[str, object], ...]) -> None:
    keys = [key for key, _ in pairs]
    if len(set(keys)) != len(keys):
        raise InvalidCase(argument, keys, "expected each key once")


@record
class Content(Hashed):
    """A node of the prefix tree: it repeats its parent's first ``length`` tokens, then has tokens of its own."""

    parent: int = -1
    length: int = 0


@record
class SideState(Hashed):
    """What one side's cache manager holds of a request before the transfer (spec: blocks, state of a side).

    ``cached``: prompt tokens that the side already had by prefix reuse. The generation side does
    not request the whole blocks among them. ``extra``: tokens reserved for speculation as the manager
    reports them. ``drafts``: tokens beyond the prompt that there is really room for, whatever ``extra``
    says. ``reached``: the tokens of the sequence, 0 for the prompt: on V1 the most it ever had, for a
    rewind gives no block back; on V2 its history length. ``tails``: how many beams besides the first
    have a last block of their own. Groups as long as another number are not concerned by any of them.
    """

    cached: int = 0
    extra: int = 0
    drafts: int = 0
    reached: int = 0
    tails: int = 0

    def __post_init__(self) -> None:
        for name in ("cached", "extra", "drafts", "reached", "tails"):
            require_whole(name, getattr(self, name))

    @property
    def is_plain(self) -> bool:
        """Whether the side lists the blocks of the prompt and nothing else, and has dropped none of them for more."""
        return not (self.drafts or self.reached or self.tails)


PLAIN = SideState()
"""A side without any state."""


@record
class Request(Hashed):
    """One request: its content, prompt length in tokens and the attention data-parallel rank on each side.

    ``lengths`` are further lengths that groups may name (``encoder``). ``cuts`` are token positions
    where the context side cuts its prefill into chunks. ``beams`` is the width of a beam search.
    """

    content: int
    prompt: int
    context_dp: int = 0
    generation_dp: int = 0
    lengths: tuple[tuple[str, int], ...] = ()
    cuts: tuple[int, ...] = ()
    context: SideState = SideState()
    generation: SideState = SideState()
    beams: int = 1

    def __post_init__(self) -> None:
        require_whole("request.content", self.content)
        require_whole("request.prompt", self.prompt, least=1)
        require_whole("request.context_dp", self.context_dp)
        require_whole("request.generation_dp", self.generation_dp)
        object.__setattr__(self, "lengths", tuple(tuple(pair) for pair in self.lengths))
        names = ["prompt", *(name for name, _ in self.lengths)]
        if len(set(names)) != len(names):
            raise InvalidCase("request.lengths", names[1:], "expected distinct names, none of them prompt")
        for name, tokens in self.lengths:
            require_whole(f"request.lengths of {name}", tokens)
            if tokens > MOST_TOKENS:
                raise InvalidCase(f"request.lengths of {name}", tokens, f"expected at most {MOST_TOKENS:,} tokens")
        if self.prompt > MOST_TOKENS:
            raise InvalidCase("request.prompt", self.prompt, f"expected at most {MOST_TOKENS:,} tokens")
        object.__setattr__(self, "cuts", tuple(self.cuts))
        if any(not 0 < cut < self.prompt for cut in self.cuts) or list(self.cuts) != sorted(set(self.cuts)):
            raise InvalidCase("request.cuts", self.cuts, f"expected ascending token positions in 1..{self.prompt - 1}")
        for side in SIDES:
            state = self.state(side)
            if state.cached > self.prompt:
                raise InvalidCase(f"request.{side}.cached", state.cached, f"expected at most prompt = {self.prompt}")
        if self.beams != 1 or self.context != PLAIN or self.generation != PLAIN:
            check_request(self)

    def state(self, side: str) -> SideState:
        return self.context if side == "context" else self.generation

    def room(self, side: str) -> int:
        """Tokens that the manager of ``side`` has listed blocks for, those past the prompt included."""
        state = self.context if side == "context" else self.generation
        return max(self.prompt + state.drafts, state.reached)

    @property
    def is_plain(self) -> bool:
        """Whether neither side lists or has dropped more than the prompt makes it."""
        return self.context.is_plain and self.generation.is_plain

    def dp_rank(self, side: str) -> int:
        return self.context_dp if side == "context" else self.generation_dp

    def tokens(self, length: str) -> int:
        """The number of tokens that a group of this ``length`` holds."""
        if length == "prompt":
            return self.prompt
        for name, tokens in self.lengths:
            if name == length:
                return tokens
        raise InvalidCase("request.lengths", length, "the request does not give this length")


@record
class Slots(Hashed):
    """Affine slots: slot = (mul*(k+1) + add + 11*rank) mod M.

    k is the running number of the distinct content blocks over all groups and requests of the pool
    group, M its number of slots: the smallest prime of at least three times the blocks in use that
    does not divide ``mul``. ``counts`` gives M by group name instead.
    """

    mul: int = 1
    add: int = 0
    counts: tuple[tuple[str, int], ...] = ()

    def __post_init__(self) -> None:
        require_whole("slots.mul", self.mul, least=1)
        require_whole("slots.add", self.add)
        object.__setattr__(self, "counts", tuple(sorted(tuple(pair) for pair in self.counts)))
        _require_distinct("slots.counts", self.counts)
        for group, count in self.counts:
            require_whole(f"slots.counts of {group}", count, least=1)


@record
class SlotList(Hashed):
    """Slots of one (side, rank, group, request) by block ordinal, -1 where there is none."""

    side: str
    rank: int
    group: str
    request: int
    slots: tuple[int, ...]

    def __post_init__(self) -> None:
        object.__setattr__(self, "slots", tuple(self.slots))
        if self.side not in SIDES:
            raise InvalidCase("slots.side", self.side, "expected context or generation")
        if any(type(slot) is not int or slot < -1 for slot in self.slots):
            raise InvalidCase("slots", self.slots, "expected slot numbers, or -1 for none")


@record
class Native(Hashed):
    """What the legacy sender declares for a kind: the mapper kind by role, and roles that it does not register.

    A role not named falls back to ``all``. No declaration: the kind has no legacy rule.
    """

    mappers: tuple[tuple[str, str], ...]
    ignored: tuple[str, ...] = ()

    def __post_init__(self) -> None:
        object.__setattr__(self, "mappers", tuple(sorted(tuple(pair) for pair in self.mappers)))
        object.__setattr__(self, "ignored", tuple(self.ignored))
        _require_distinct("native.mappers", self.mappers)
        for role, mapper in self.mappers:
            if mapper not in MAPPERS:
                raise InvalidCase(f"native mapper of {role}", mapper, f"expected one of {', '.join(MAPPERS)}")

    def mapper_of(self, role: str) -> str:
        mappers = dict(self.mappers)
        return mappers.get(role, mappers.get("all", "indexed"))


@record
class Case(Hashed):
    """Model, two instances, requests and their cache states: all that a plan may depend on.

    ``tables`` give slots explicitly instead of the affine rule: truth and managers take them as
    where each block lies; a block with no slot is not held. ``presented`` is what a manager would
    hand the subject instead of the true lists; truth ignores it. ``kind`` and ``notes`` are labels.
    """

    model: Model
    context: Instance
    generation: Instance
    requests: tuple[Request, ...]
    contents: tuple[Content, ...] = ()
    slots: Slots = Slots()
    tables: tuple[SlotList, ...] = ()
    presented: tuple[SlotList, ...] = ()
    native: Native | None = None
    kind: str = ""
    notes: str = ""

    def __post_init__(self) -> None:
        for name in ("requests", "contents", "tables", "presented"):
            object.__setattr__(self, name, tuple(getattr(self, name)))
        if not self.requests:
            raise InvalidCase("requests", (), "expected at least one request")
        if not self.contents:
            object.__setattr__(self, "contents", tuple(Content() for _ in range(len(self.requests))))
        for side in SIDES:
            _check_instance(self.model, self.side(side), side)
            check_manager(self.model, self.side(side), side)
        for index, content in enumerate(self.contents):
            if content.parent >= index or content.parent < -1:
                raise InvalidCase(f"contents[{index}].parent", content.parent, "expected an earlier content, or -1")
            if content.parent < 0 and content.length:
                raise InvalidCase(f"contents[{index}].length", content.length, "a root shares no tokens")
            require_whole(f"contents[{index}].length", content.length)
        for index, request in enumerate(self.requests):
            if request.content >= len(self.contents):
                raise InvalidCase(f"requests[{index}].content", request.content, f"{len(self.contents)} contents exist")
            for side in SIDES:
                ranks = self.side(side).topology.data_parallel
                if request.dp_rank(side) >= ranks:
                    raise InvalidCase(f"requests[{index}].{side}_dp", request.dp_rank(side), f"expected below {ranks}")
            for group in self.model.groups:
                request.tokens(group.length)
            if request.beams > 1 or not request.is_plain:
                check_states(self.model, (self.context, self.generation), request, f"requests[{index}]")
        for group, _ in self.slots.counts:
            _require_group("slots.counts", self.model, group)
        seen: set[tuple[str, str, int, str, int]] = set()
        for name in ("tables", "presented"):
            for row in getattr(self, name):
                where = f"{name}.{row.side}.{row.rank}.{row.group}"
                _require_group(where, self.model, row.group)
                if not 0 <= row.rank < self.side(row.side).topology.size:
                    raise InvalidCase(where, row.rank, f"ranks 0..{self.side(row.side).topology.size - 1} exist")
                if not 0 <= row.request < len(self.requests):
                    raise InvalidCase(where, row.request, f"requests 0..{len(self.requests) - 1} exist")
                key = (name, row.side, row.rank, row.group, row.request)
                if key in seen:
                    raise InvalidCase(where, row.request, "expected each list once")
                seen.add(key)
        # Their order says nothing: equal cases are to be equal, and to have one file.
        for name in ("tables", "presented") if seen else ():
            rows = sorted(getattr(self, name), key=lambda row: (row.side, row.rank, row.group, row.request))
            object.__setattr__(self, name, tuple(rows))

    def side(self, name: str) -> Instance:
        return self.context if name == "context" else self.generation


def _check_instance(model: Model, instance: Instance, side: str) -> None:
    topology = instance.topology
    total = sum(topology.stages)
    if total != model.layers:
        held = {layer for lack in instance.without for layer in lack.layers}
        if total > model.layers or any(
            layer not in model.draft or layer not in held for layer in range(total, model.layers)
        ):
            raise InvalidCase(f"{side}.stages", topology.stages, f"expected {model.layers} layers in all")
    for lack in instance.without:
        for group in model.groups:
            for buffer in group.buffers:
                for layer in lack.layers:
                    if buffer.role not in lack.roles or layer not in buffer.layers or layer in model.draft:
                        continue
                    move = buffer.move_on(layer)
                    if move.state not in (MoveState.OPTIONAL, MoveState.REBUILT) or move.side not in (
                        "",
                        side,
                        "either",
                    ):
                        raise InvalidCase(
                            f"{side}.without",
                            (layer, buffer.role),
                            "only optional buffers and draft layers may be lacking",
                        )
    if instance.layouts or instance.element_bits:
        roles = {buffer.role for group in model.groups for buffer in group.buffers}
        for name in ("layouts", "element_bits"):
            for role, _ in getattr(instance, name):
                if role not in roles:
                    raise InvalidCase(f"{side}.{name}", role, f"the model has the roles {', '.join(sorted(roles))}")
        whole = {buffer.role for group in model.groups if group.native_only for buffer in group.buffers}
        for role, _ in instance.element_bits:
            if role in whole:
                raise InvalidCase(f"{side}.element_bits", role, "items of a native only group are alike on both sides")
    for name in ("packing", "reserve"):
        for group, _ in getattr(instance, name):
            _require_group(f"{side}.{name}", model, group)
    for layer in instance.layer_order:
        if type(layer) is not int or not 0 <= layer < model.layers:
            raise InvalidCase(f"{side}.layer_order", layer, f"the model has {model.layers} layers")
    for group in model.groups:
        for buffer in group.buffers:
            for layer in buffer.alias or ():
                owner = buffer.owner_of(layer)
                if not any(
                    layer in stage and owner in stage for stage in map(topology.stage_layers, range(topology.pp))
                ):
                    raise InvalidCase(
                        f"{side}.stages",
                        topology.stages,
                        f"layer {layer} aliases {buffer.role} of layer {owner}: one stage",
                    )
            if instance.without:
                _check_origins(buffer, instance, side)
            for rank in _representatives(instance):
                buffer_bytes(buffer, instance, rank)


def _check_origins(buffer: Buffer, instance: Instance, side: str) -> None:
    """What an instance holds of a derived buffer it derives: it holds what that comes from too."""
    for layer in buffer.layers:
        if layer >= sum(instance.topology.stages) or instance.lacks(layer, buffer.role):
            continue
        for role in buffer.move_on(layer).inputs:
            if instance.lacks(layer, role):
                accepted = f"{buffer.role} is there and derived from it: expected both or neither"
                raise InvalidCase(f"{side}.without", (layer, role), accepted)


def _representatives(instance: Instance) -> tuple:
    return (instance.topology.rank(0),)
