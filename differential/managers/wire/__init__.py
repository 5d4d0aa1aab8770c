"""The receiver's request info as it travels: what it says, its bytes, and everything that must be refused.

Before sending: ``check(info, expected)``, then ``encode(info)``. On receipt: ``decode(record, encoding)``,
then ``check(info, expected)`` with what the other side knows. Whatever is wrong raises a ``WireTrouble``.
"""

from differential.managers.wire.check import check
from differential.managers.wire.expected import Expected, ExpectedGroup
from differential.managers.wire.info import KINDS, AnchorInfo, RequestInfo, SuffixInfo, TableInfo
from differential.managers.wire.lone import check_alone
from differential.managers.wire.record import decode, encode
from differential.managers.wire.trouble import (
    RULES,
    DoesNotFit,
    UnreadableRecord,
    WireTrouble,
    WrongFields,
    WrongType,
    WrongValue,
)

__all__ = [
    "KINDS",
    "RULES",
    "AnchorInfo",
    "DoesNotFit",
    "Expected",
    "ExpectedGroup",
    "RequestInfo",
    "SuffixInfo",
    "TableInfo",
    "UnreadableRecord",
    "WireTrouble",
    "WrongFields",
    "WrongType",
    "WrongValue",
    "check",
    "check_alone",
    "decode",
    "encode",
]
