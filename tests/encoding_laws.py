"""The laws that every encoding of block lists obeys, as plain functions (spec: blocks, 6.1, and the decisions on it).

``law_X(case, how)`` raises ``AssertionError`` where the case breaks law X under an encoding, or under one
with a wrong step (``How("suffix", lists=...)``, ``How("tables", tables=...)``). Laws compare what real
producers and consumers say with sets of ordinals that are written down by definition
(``tests.block_definitions``), never with another encoding alone. A law says nothing of a case that it
does not speak of, or that the encoding rightly refuses.

As the decisions restrict them: A3 and A9 hold while the tokens added stay within the reserve, B3 of tables
and anchors (and of truth), B5 of any set of blocks for tables and of intervals for anchors; B7 lets tables
leave tails out; E2 counts a rank's own blocks. A1 needs a case with presented lists, A9, B5 and C5 take
something to compare with besides, B6 takes several encodings; F5 takes windows, G1 to G3 an info.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from types import MappingProxyType

from oracle.model.case import Case
from tests.encoded_lists import ANCHORS, RIGHT, SUFFIX, TABLES, How
from tests.laws_of_lists import (
    law_A1,
    law_A2,
    law_A3,
    law_A4,
    law_A5,
    law_A6,
    law_A7,
    law_A8,
    law_A9,
    law_A10,
)
from tests.laws_of_pairs import (
    law_B1,
    law_B2,
    law_B3,
    law_B4,
    law_B5,
    law_B6,
    law_B7,
    law_E1,
    law_E2,
    law_E3,
)
from tests.laws_of_records import law_F5, law_G1, law_G2, law_G3
from tests.laws_of_transfers import (
    law_C1,
    law_C2,
    law_C3,
    law_C4,
    law_C5,
    law_D1,
    law_D2,
    law_D3,
)

Law = Callable[[Case, How], None]

LAWS: Mapping[str, Law] = MappingProxyType(
    {
        "A1": law_A1,
        "A2": law_A2,
        "A3": law_A3,
        "A4": law_A4,
        "A5": law_A5,
        "A6": law_A6,
        "A7": law_A7,
        "A8": law_A8,
        "A10": law_A10,
        "B1": law_B1,
        "B2": law_B2,
        "B3": law_B3,
        "B4": law_B4,
        "B7": law_B7,
        "C1": law_C1,
        "C2": law_C2,
        "C3": law_C3,
        "C4": law_C4,
        "D1": law_D1,
        "D2": law_D2,
        "D3": law_D3,
        "E1": law_E1,
        "E2": law_E2,
        "E3": law_E3,
    }
)
"""Every law that takes a case and an encoding, by name."""

__all__ = [
    "ANCHORS",
    "LAWS",
    "RIGHT",
    "SUFFIX",
    "TABLES",
    "How",
    "Law",
    "law_A1",
    "law_A2",
    "law_A3",
    "law_A4",
    "law_A5",
    "law_A6",
    "law_A7",
    "law_A8",
    "law_A9",
    "law_A10",
    "law_B1",
    "law_B2",
    "law_B3",
    "law_B4",
    "law_B5",
    "law_B6",
    "law_B7",
    "law_C1",
    "law_C2",
    "law_C3",
    "law_C4",
    "law_C5",
    "law_D1",
    "law_D2",
    "law_D3",
    "law_E1",
    "law_E2",
    "law_E3",
    "law_F5",
    "law_G1",
    "law_G2",
    "law_G3",
]
