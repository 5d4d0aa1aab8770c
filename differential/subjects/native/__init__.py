"""The legacy native sender, by its own rules and with its own weaknesses.

It is written from the sender's rules alone and shares no arithmetic with the mapping or the oracle:
where it is wrong, showing that is the point. Two generations are modelled, see ``settings``.
"""

from __future__ import annotations

from differential.subjects.native.sender import NativeSender
from differential.subjects.native.settings import Settings
from differential.subjects.protocol import Subject


def make(options: str = "") -> Subject:
    """The subject ``native`` (no options) or ``native:<options>``.

    ``suffix`` aligns by the older suffix lists, ``no-helix`` refuses any context parallelism; both
    are given as ``suffix,no-helix``. Raises ``InvalidCase`` for other options.
    """
    return NativeSender(Settings.parse(options))
