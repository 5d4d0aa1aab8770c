"""The handshake of two instances: what is settled between them before anything is planned.

``decide`` accepts or refuses a pair, ``fingerprint`` stands for all that fixes the bytes of an
instance, ``registration_key`` and ``Registration`` say who a rank is, ``encode_table`` and
``decode_table`` carry its page table, and ``check_strides`` holds a tensor to the layout that was
declared for it. Written apart from the planners: it asks for shares of indices, not for runs.
"""

from __future__ import annotations

from differential.subjects.compatibility.configuration import Configuration, configuration_of
from differential.subjects.compatibility.decision import CODES, decide
from differential.subjects.compatibility.fingerprints import fingerprint
from differential.subjects.compatibility.records import decode_table, encode_table
from differential.subjects.compatibility.registrations import Registration, registration_key
from differential.subjects.compatibility.tensors import check_strides
from oracle.model.pages import PageTable
from oracle.model.topology import Rank
from oracle.model.writes import Refusal

__all__ = [
    "CODES",
    "Compatibility",
    "Configuration",
    "Registration",
    "check_strides",
    "configuration_of",
    "decide",
    "decode_table",
    "encode_table",
    "fingerprint",
    "registration_key",
]


class Compatibility:
    """The whole handshake behind one object: what an implementation under test has to offer."""

    name = "compatibility"

    def decide(self, source: Configuration, destination: Configuration) -> Refusal | None:
        """Why this pair of instances is refused; None if it is accepted. The same whichever side asks."""
        return decide(source, destination)

    def fingerprint(self, configuration: Configuration) -> str:
        """A text that two configurations share if and only if their bytes are the same."""
        return fingerprint(configuration)

    def registration_key(self, instance: str, rank: Rank) -> str:
        """The key under which a rank registers: another for every rank of every instance."""
        return registration_key(instance, rank)

    def register(self, registration: Registration) -> bytes:
        """The record that a rank publishes of itself."""
        return registration.encode()

    def read(self, record: bytes) -> Registration:
        """What a record says; raises ``MalformedFile`` for one that is not whole or contradicts itself."""
        return Registration.decode(record)

    def encode_table(self, table: PageTable) -> bytes:
        """``table`` as a record."""
        return encode_table(table)

    def decode_table(self, record: bytes) -> PageTable:
        """The table in ``record``; raises ``MalformedFile`` for anything that :func:`encode_table` does not write."""
        return decode_table(record)

    def check_strides(
        self, configuration: Configuration, rank: Rank, role: str, layer: int, strides: tuple[int, ...]
    ) -> Refusal | None:
        """Why a tensor of the buffer with these strides is refused; None if it lies as declared."""
        return check_strides(configuration, rank, role, layer, strides)
