"""Which source ranks a destination rank hears from along one parallel dimension."""

from __future__ import annotations

from differential.subjects.mapping.refusals import FAN_UNDEFINED, Refused
from oracle.model.errors import InvalidCase, require_whole
from oracle.model.writes import Refusal


def fan(source_size: int, destination_size: int, destination_rank: int) -> range:
    """Source ranks that rank ``destination_rank`` of ``destination_size`` pairs with (spec: mapping, contract).

    A coarser source serves several destinations with one rank; of a finer source each destination
    takes the next ranks in order. Raises ``Refused`` where neither size divides the other.

    >>> list(fan(2, 8, 5)), list(fan(8, 2, 1))
    ([1], [4, 5, 6, 7])
    """
    require_whole("source_size", source_size, least=1)
    require_whole("destination_size", destination_size, least=1)
    if not 0 <= destination_rank < destination_size:
        raise InvalidCase("destination_rank", destination_rank, f"expected 0..{destination_size - 1}")
    if destination_size % source_size == 0:
        only = destination_rank // (destination_size // source_size)
        return range(only, only + 1)
    if source_size % destination_size == 0:
        width = source_size // destination_size
        return range(destination_rank * width, (destination_rank + 1) * width)
    reason = f"{source_size} source ranks and {destination_size} destination ranks: neither number divides the other"
    raise Refused(Refusal(FAN_UNDEFINED, reason))
