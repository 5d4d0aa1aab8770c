"""How each side lays its bytes out: block length, axis order, layer order, packing, element width."""

from __future__ import annotations

from functools import lru_cache

from oracle.model.buffers import Model
from oracle.model.instance import Instance, Without
from oracle.model.topology import Topology
from strategies import numbers as n
from strategies.numbers import Numbers
from strategies.states import UNMANAGED, Managed

LAYOUTS = (("HND", "HND"), ("NHD", "NHD"), ("HND", "NHD"), ("NHD", "HND"))
# One pool a role on one side alone is rare: managers give key and value one pool, and the legacy sender relies on it.
_PACKINGS = (
    ("coalesced", "coalesced"),
    ("interleaved", "coalesced"),
    ("coalesced", "interleaved"),
    ("separate", "coalesced"),
    ("coalesced", "separate"),
    ("separate", "separate"),
    ("interleaved", "separate"),
)
_REVERSED = ((False, False), (True, False), (False, True), (True, True))


@lru_cache(maxsize=4096)
def has_heads(model: Model) -> bool:
    """Whether HND and NHD differ for any buffer of ``model``."""
    return any(
        {"H", "T"} <= {axis.name for axis in part.axes}
        for group in model.groups
        for buffer in group.buffers
        for part in buffer.parts
    )


@lru_cache(maxsize=4096)
def _other_width(model: Model) -> tuple[tuple[str, int], ...]:
    """Another element width for the first buffer that has one width."""
    for group in model.groups:
        for buffer in group.buffers:
            if len(buffer.parts) == 1:
                return ((buffer.role, 16 if buffer.parts[0].bits == 8 else 8),)
    return ()


@lru_cache(maxsize=4096)
def _packing(model: Model, rule: str) -> tuple[tuple[str, str], ...]:
    return tuple((group.name, rule) for group in model.groups)


def make_instance(
    model: Model,
    topology: Topology,
    tokens_per_block: int,
    *,
    layout: str = "HND",
    reverse: bool = False,
    packing: str = "coalesced",
    other_width: bool = False,
    without: tuple[Without, ...] = (),
    managed: Managed = UNMANAGED,
) -> Instance:
    """An instance of ``model``, whose groups are all packed alike; ``layout`` is left out where there are no heads."""
    return _instance(
        topology,
        tokens_per_block,
        layout if has_heads(model) else "",
        tuple(range(model.layers - 1, -1, -1)) if reverse and model.layers > 1 else (),
        _other_width(model) if other_width else (),
        _packing(model, packing) if packing != "coalesced" else (),
        without,
        managed,
    )


@lru_cache(maxsize=16384)
def _instance(
    topology: Topology,
    tokens_per_block: int,
    layout: str,
    layer_order: tuple[int, ...],
    element_bits: tuple[tuple[str, int], ...],
    packing: tuple[tuple[str, str], ...],
    without: tuple[Without, ...],
    managed: Managed,
) -> Instance:
    return Instance(
        topology,
        tokens_per_block,
        layout,
        layer_order=layer_order,
        element_bits=element_bits,
        packing=packing,
        without=without,
        manager=managed.manager,
        reserve=managed.reserve,
        scratch=managed.scratch,
        look_ahead=managed.look_ahead,
    )


def draw_block_lengths(numbers: Numbers, tokens_per_block: int) -> tuple[int, int]:
    """The tokens per block of both sides: ``tokens_per_block``, or on the receiver twice as many."""
    # One token a block on one side and two on the other would make a case of two tokens a block out of the simplest.
    other_block = numbers(n.OTHER_BLOCK) and tokens_per_block > 1
    return tokens_per_block, tokens_per_block * 2 if other_block else tokens_per_block


def draw_instances(
    numbers: Numbers,
    model: Model,
    without: tuple[tuple[Without, ...], tuple[Without, ...]],
    topologies: tuple[Topology, Topology],
    block_lengths: tuple[int, int],
    managed: tuple[Managed, Managed] = (UNMANAGED, UNMANAGED),
) -> tuple[Instance, Instance]:
    """The two instances of a case."""
    layouts = LAYOUTS[numbers(n.LAYOUT)]
    reversed_ = _REVERSED[numbers(n.LAYER_ORDER)]
    packings = _PACKINGS[numbers(n.PACKING)]
    return (
        make_instance(
            model,
            topologies[0],
            block_lengths[0],
            layout=layouts[0],
            reverse=reversed_[0],
            packing=packings[0],
            without=without[0],
            managed=managed[0],
        ),
        make_instance(
            model,
            topologies[1],
            block_lengths[1],
            layout=layouts[1],
            reverse=reversed_[1],
            packing=packings[1],
            other_width=numbers(n.OTHER_WIDTH) > 0,
            without=without[1],
            managed=managed[1],
        ),
    )
