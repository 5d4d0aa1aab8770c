"""Tensors of a backend against the layout that was declared for them: what is declared is not trusted but compared."""

from __future__ import annotations

from differential.subjects.compatibility.configuration import Configuration, share
from oracle.model.buffers import Part
from oracle.model.counts import in_bytes, ordered_axes, sub_pages
from oracle.model.errors import InvalidCase
from oracle.model.topology import Rank
from oracle.model.writes import Refusal

STRIDES_DIFFER = "strides_differ"


def check_strides(
    configuration: Configuration, rank: Rank, role: str, layer: int, strides: tuple[int, ...]
) -> Refusal | None:
    """Why a tensor of one block of a buffer is refused: its ``strides`` are not those of the declared layout.

    ``strides`` (bytes) are given by axis in *declared* order, whatever the storage order is. The
    stride of an axis of which the rank holds one index says nothing and is not looked at. Raises
    ``InvalidCase`` for a buffer that is not one array (parts, sub-pages), or another number of axes.
    """
    group = next(
        (
            index
            for index, each in enumerate(configuration.model.groups)
            if any(buffer.role == role and layer in buffer.layers for buffer in each.buffers)
        ),
        None,
    )
    if group is None:
        raise InvalidCase("role", (role, layer), "expected a buffer of the model")
    buffer, instance = configuration.find(group, role, layer), configuration.instance
    pages, rows = sub_pages(buffer, instance.tokens_per_block)
    if len(buffer.parts) > 1 or pages > 1:
        raise InvalidCase("role", role, "expected a buffer of one part and one sub-page: only that is one tensor")
    axes, unit = in_bytes(buffer.parts[0].axes, instance.bits_of(role, buffer.parts[0].bits))
    if len(strides) != len(axes):
        raise InvalidCase("strides", strides, f"expected one for each of {', '.join(axis.name for axis in axes)}")
    due: dict[str, tuple[int, int]] = {}
    for axis in reversed(ordered_axes(Part(axes, 8), instance.layout_of(role))):
        held = rows if axis.is_token else sum(map(len, share(axis, instance, rank)))
        due[axis.name] = unit, held
        unit *= held
    for axis, stride in zip(axes, strides, strict=True):
        expected, held = due[axis.name]
        if held > 1 and stride != expected:
            layout = instance.layout_of(role) or "declared"
            reason = f"axis {axis.name} of {role} has stride {stride}, in the {layout} order it is {expected}"
            return Refusal(STRIDES_DIFFER, reason)
    return None
