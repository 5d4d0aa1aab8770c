"""Who a rank is: the key under which it registers, and the record that it publishes."""

from __future__ import annotations

import msgspec

from differential.subjects.compatibility.records import TableRow, read_row, table_of, table_row
from oracle.model.errors import InvalidCase, MalformedFile
from oracle.model.pages import PageTable
from oracle.model.records import frozen
from oracle.model.topology import Rank, Topology

VERSION = 1


def registration_key(instance: str, rank: Rank) -> str:
    """The key of ``rank`` of the instance of that name.

    No two ranks share one, in whatever instances: every coordinate is in it, and the length of the
    name stands before the name, so that no digit of one reads as part of the other.
    """
    return f"{len(instance)}:{instance}:pp{rank.pp}:tp{rank.tp}:cp{rank.cp}"


class _RegistrationRow(msgspec.Struct, array_like=True, forbid_unknown_fields=True):
    version: int
    instance: str
    tp: int
    stages: list[int]
    cp: int
    attention_dp: bool
    number: int
    coordinates: list[int]
    table: TableRow


@frozen()
class Registration:
    """One rank: its instance's name and topology, itself, and its page table."""

    instance: str
    topology: Topology
    rank: Rank
    table: PageTable

    @property
    def key(self) -> str:
        return registration_key(self.instance, self.rank)

    def encode(self) -> bytes:
        """As a record, the same for equal registrations."""
        topology, rank = self.topology, self.rank
        return msgspec.msgpack.encode(
            _RegistrationRow(
                VERSION,
                self.instance,
                topology.tp,
                list(topology.stages),
                topology.cp,
                topology.attention_dp,
                rank.number,
                [rank.pp, rank.tp, rank.cp],
                table_row(self.table),
            )
        )

    @classmethod
    def decode(cls, record: bytes) -> Registration:
        """What ``record`` says.

        Raises ``MalformedFile`` for anything that :meth:`encode` does not write, and for a rank
        whose number is not (pp*TP + tp)*CP + cp: a peer that counts in another order would be
        taken for another rank.
        """
        row = read_row(record, _RegistrationRow, "registration")
        if row.version != VERSION:
            raise MalformedFile("registration", row.version, f"expected version {VERSION}")
        try:
            topology = Topology(row.tp, tuple(row.stages), row.cp, row.attention_dp)
            rank = topology.rank(row.number)
        except InvalidCase as error:
            raise MalformedFile("registration", str(error), "expected a rank that can be") from None
        if [rank.pp, rank.tp, rank.cp] != row.coordinates:
            raise MalformedFile(
                "registration",
                f"rank {row.number} at (pp, tp, cp) = {tuple(row.coordinates)}",
                f"expected (pp*TP + tp)*CP + cp: rank {row.number} is at {rank.pp, rank.tp, rank.cp}",
            )
        found = cls(row.instance, topology, rank, table_of(row.table))
        if found.encode() != record:
            raise MalformedFile("registration", f"{len(record)} bytes", "expected the one spelling of a registration")
        return found
