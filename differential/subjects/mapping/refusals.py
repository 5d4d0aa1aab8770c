"""What the mapping says no to, and the codes it says it with."""

from __future__ import annotations

from oracle.model import encodings
from oracle.model.writes import Refusal

TOKENS_PER_BLOCK_DIFFER = "tokens_per_block_differ"
"""the sides number blocks differently, so no block of one is a block of the other"""
ELEMENT_WIDTH_DIFFERS = "element_width_differs"
"""a buffer that moves has wider elements on one side"""
RING_LENGTH_DIFFERS = "ring_length_differs"
"""a ring has more rows on one side: position p lies in another row"""
AXES_DIFFER = "axes_differ"
"""a buffer has other axes, axis sizes or splits on one side"""
SECTIONS_DIFFER = "sections_differ"
"""an axis has other sections on one side"""
SUB_PAGES_DIFFER = "sub_pages_differ"
"""a buffer is cut into other sub-pages on one side"""
GROUP_KIND_DIFFERS = "group_kind_differs"
"""a buffer is retained by block on one side and by request on the other"""
BUFFER_MISSING = "buffer_missing"
"""one side has no region for a buffer that moves, and neither a move state nor ``without`` says so"""
REGION_TOO_SMALL = "region_too_small"
"""an explicit page table gives a buffer fewer bytes than its share takes"""
FAN_UNDEFINED = "fan_undefined"
"""along one parallel dimension neither size divides the other: who hears from whom is not defined"""
CONTEXT_PARALLEL_WITH_ATTENTION_DP = "context_parallel_with_attention_dp"
"""an instance has both: its ranks would share a request's blocks and hold it whole"""
UNSERVABLE_INDEX = "unservable_index"
"""an index due on a destination is held by none of the sources it is paired with"""
BLOCK_LOST = encodings.BLOCK_LOST
"""a request's block that the receiver lists, within the model's window, is gone on the paired sources"""


class Refused(ValueError):
    """A pair of instances, or a request, that the mapping does not serve; ``refusal`` says why."""

    def __init__(self, refusal: Refusal) -> None:
        self.refusal = refusal
        super().__init__(str(refusal))

    def __reduce__(self) -> tuple[object, ...]:
        return type(self), (self.refusal,)
