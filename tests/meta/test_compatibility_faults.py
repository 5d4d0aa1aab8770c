"""Handshakes that went wrong in public, planted: each is caught by a law, and by one that names what it breaks.

| report | what was wrong | planted as |
|---|---|---|
| B24 | a rank's bytes are expected to shrink with its tensor size without end | ``expects_bytes_to_scale`` |
| B30 | a declared layout is trusted, the strides of the tensor are not looked at | ``trusts_the_declared_layout`` |
| B37 | the ratio of two tensor sizes is an integer division, and 0 in one direction | ``divides_by_the_ratio`` |
| B38 | the registry is keyed without the context-parallel rank | ``key_without_the_context_rank`` |
| B40 | two peers number ranks in different orders | ``numbers_tp_minor``, ``reads_any_numbering`` |
| B45 | the guard looks at its own side only | ``guards_its_own_side`` |
| B50 | a peer with another number of entries is refused, as with MLA and stages | ``counts_entries`` |
| B104 | nothing is compared before the transfer | ``compares_no_element_width``, ``accepts_everything`` |
| B105 | layers or groups that one side has alone are passed over | ``compares_shared_buffers_only`` |
| B107 | page sizes are not compared | ``compares_no_page_size`` |
| B108 | a storage key lacks the dtype | ``fingerprint_without_element_width`` |

Two more of the legacy sender (spec: legacy sender, 7.5 and 7.15) are planted beside them. Not planted,
because the vocabulary has no word for it: two element types of one width (of B108, FP8 in its two forms),
and versions of a program (of B104); both are one more field in ``Configuration``, and not bytes.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

import msgspec
import pytest

from differential.subjects.compatibility import Compatibility, Configuration, Registration, decide
from differential.subjects.compatibility.records import TableRow, table_of, table_row
from oracle.model.buffers import Buffer
from oracle.model.instance import Instance
from oracle.model.pages import PageTable
from oracle.model.topology import Rank
from oracle.model.writes import Refusal
from tests.compatibility_laws import LAWS

Decision = Callable[[Configuration, Configuration], Refusal | None]


def deciding(decision: Decision) -> Compatibility:
    class Deciding(Compatibility):
        def decide(self, source: Configuration, destination: Configuration) -> Refusal | None:
            return decision(source, destination)

    return Deciding()


def tensor(instance: Instance) -> int:
    return 1 if instance.topology.attention_dp else instance.topology.tp


def expects_bytes_to_scale() -> Compatibility:
    def decision(source: Configuration, destination: Configuration) -> Refusal | None:
        totals = [
            {(e.layer, e.role): e.nbytes * tensor(side.instance) for e in side.tables[0].entries}
            for side in (source, destination)
        ]
        if any(totals[0][key] != totals[1][key] for key in totals[0].keys() & totals[1].keys()):
            return Refusal("block_length", "a rank's bytes do not scale with the tensor sizes")
        return decide(source, destination)

    return deciding(decision)


def trusts_the_declared_layout() -> Compatibility:
    class Trusting(Compatibility):
        def check_strides(self, *args: object) -> None:  # type: ignore[override]
            return None

    return Trusting()


def divides_by_the_ratio() -> Compatibility:
    def decision(source: Configuration, destination: Configuration) -> Refusal | None:
        ratio = tensor(destination.instance) // tensor(source.instance)
        partner = destination.instance.topology.rank(0).tp // ratio
        return decide(source, destination) if partner >= 0 else None

    return deciding(decision)


def key_without_the_context_rank() -> Compatibility:
    class Keyed(Compatibility):
        def registration_key(self, instance: str, rank: Rank) -> str:
            return f"{len(instance)}:{instance}:pp{rank.pp}:tp{rank.tp}"

    return Keyed()


def key_without_a_separator() -> Compatibility:
    class Keyed(Compatibility):
        def registration_key(self, instance: str, rank: Rank) -> str:
            return f"{instance}{rank.number}"

    return Keyed()


def numbers_tp_minor() -> Compatibility:
    class Numbering(Compatibility):
        def register(self, registration: Registration) -> bytes:
            topology, rank = registration.topology, registration.rank
            number = (rank.pp * topology.cp + rank.cp) * topology.tp + rank.tp
            return replace(registration, rank=replace(rank, number=number)).encode()

    return Numbering()


def reads_any_numbering() -> Compatibility:
    class Reading(Compatibility):
        def read(self, record: bytes) -> Registration:
            fields = msgspec.msgpack.decode(record)
            topology = Registration.decode(zeroed(fields)).topology
            return Registration(fields[1], topology, topology.rank(fields[6]), table_of(as_row(fields[8])))

    return Reading()


def as_row(fields: object) -> TableRow:
    return msgspec.convert(fields, TableRow)


def zeroed(fields: list[object]) -> bytes:
    """The same record of rank 0, which has one place in every order."""
    return msgspec.msgpack.encode([*fields[:6], 0, [0, 0, 0], fields[8]])


def guards_its_own_side() -> Compatibility:
    def decision(source: Configuration, destination: Configuration) -> Refusal | None:
        refusal = decide(source, destination)
        own = source.instance.topology
        if refusal is not None and refusal.code == "context_parallel_with_attention_dp":
            return refusal if own.cp > 1 and own.attention_dp else None
        return refusal

    return deciding(decision)


def counts_entries() -> Compatibility:
    def decision(source: Configuration, destination: Configuration) -> Refusal | None:
        counts = [len(side.tables[0].entries) for side in (source, destination)]
        if counts[0] != counts[1]:
            return Refusal("entries_differ", f"{counts[0]} and {counts[1]} entries")
        return decide(source, destination)

    return deciding(decision)


def without(code: str) -> Decision:
    """A decision from which the check behind ``code`` was left out."""

    def decision(source: Configuration, destination: Configuration) -> Refusal | None:
        refusal = decide(source, destination)
        return None if refusal is not None and refusal.code == code else refusal

    return decision


def compares_no_element_width() -> Compatibility:
    return deciding(without("buffer_differs"))


def compares_shared_buffers_only() -> Compatibility:
    return deciding(without("buffer_missing"))


def compares_no_page_size() -> Compatibility:
    return deciding(without("tokens_per_block_differ"))


def trusts_sizes_that_do_not_divide() -> Compatibility:
    return deciding(without("sizes_do_not_divide"))


def asks_nobody_for_holders() -> Compatibility:
    return deciding(without("index_without_holder"))


def accepts_everything() -> Compatibility:
    return deciding(lambda source, destination: None)


def refuses_unequal_instances() -> Compatibility:
    def decision(source: Configuration, destination: Configuration) -> Refusal | None:
        if source.instance != destination.instance:
            return Refusal("instances_differ", "the two instances are not alike")
        return decide(source, destination)

    return deciding(decision)


def hashed(told: Callable[[Configuration], object]) -> Compatibility:
    class Hashing(Compatibility):
        def fingerprint(self, configuration: Configuration) -> str:
            return str(told(configuration))

    return Hashing()


def fingerprint_without_element_width() -> Compatibility:
    def shape(buffer: Buffer) -> object:
        return buffer.role, buffer.layers, [part.axes for part in buffer.parts]

    def told(configuration: Configuration) -> object:
        groups = [[shape(buffer) for buffer in group.buffers] for group in configuration.model.groups]
        instance = configuration.instance
        return groups, instance.topology, instance.layout, instance.packing, instance.tokens_per_block

    return hashed(told)


def fingerprint_of_all_options() -> Compatibility:
    return hashed(lambda configuration: (configuration.model, configuration.instance))


def fingerprint_of_page_tables() -> Compatibility:
    return hashed(lambda configuration: configuration.tables)


def offsets_of_32_bits() -> Compatibility:
    class Narrow(Compatibility):
        def encode_table(self, table: PageTable) -> bytes:
            row = table_row(table)
            for entry in row.entries:
                entry.offset %= 1 << 32
            return msgspec.msgpack.encode(row)

    return Narrow()


def reads_records_by_their_start() -> Compatibility:
    class Lenient(Compatibility):
        def decode_table(self, record: bytes) -> PageTable:
            for end in range(len(record), 0, -1):
                try:
                    return super().decode_table(record[:end])
                except ValueError:
                    continue
            return super().decode_table(record)

    return Lenient()


PLANTED: list[tuple[Callable[[], Compatibility], str]] = [
    (expects_bytes_to_scale, "refuses_no_servable_pair"),
    (trusts_the_declared_layout, "accepts_strides_exactly_where_the_bytes_lie_as_declared"),
    (divides_by_the_ratio, "refuses_no_servable_pair"),
    (key_without_the_context_rank, "gives_each_rank_a_key_of_its_own"),
    (key_without_a_separator, "gives_each_rank_a_key_of_its_own"),
    (numbers_tp_minor, "reads_a_rank_only_under_the_number_that_its_place_has"),
    (reads_any_numbering, "reads_a_rank_only_under_the_number_that_its_place_has"),
    (guards_its_own_side, "accepts_no_unservable_pair"),
    (counts_entries, "refuses_no_servable_pair"),
    (compares_no_element_width, "accepts_no_unservable_pair"),
    (compares_no_element_width, "accepts_two_models_only_if_what_moves_is_the_same"),
    (compares_shared_buffers_only, "accepts_two_models_only_if_what_moves_is_the_same"),
    (compares_no_page_size, "accepts_no_unservable_pair"),
    (trusts_sizes_that_do_not_divide, "accepts_no_unservable_pair"),
    (asks_nobody_for_holders, "accepts_no_unservable_pair"),
    (accepts_everything, "accepts_no_unservable_pair"),
    (refuses_unequal_instances, "refuses_no_servable_pair"),
    (fingerprint_without_element_width, "shares_a_fingerprint_exactly_where_the_bytes_are_the_same"),
    (fingerprint_of_all_options, "shares_a_fingerprint_exactly_where_the_bytes_are_the_same"),
    (fingerprint_of_page_tables, "shares_a_fingerprint_exactly_where_the_bytes_are_the_same"),
    (offsets_of_32_bits, "carries_a_page_table_whole_or_refuses_it"),
    (reads_records_by_their_start, "carries_a_page_table_whole_or_refuses_it"),
]


@pytest.mark.parametrize(("plant", "law"), PLANTED, ids=lambda value: getattr(value, "__name__", value))
def test_a_planted_fault_breaks_its_law(plant: Callable[[], Compatibility], law: str) -> None:
    assert LAWS[law](Compatibility()) is None
    assert LAWS[law](plant()) is not None


def test_a_fault_breaks_no_law_that_it_does_not_touch() -> None:
    broken = {plant.__name__: {law for planted, law in PLANTED if planted is plant} for plant, _ in PLANTED}
    for plant, _ in PLANTED:
        also = {name for name, law in LAWS.items() if law(plant()) is not None} - broken[plant.__name__]
        assert also <= ALSO.get(plant.__name__, set()), plant.__name__


ALSO = {
    "accepts_everything": {"accepts_two_models_only_if_what_moves_is_the_same"},
    "expects_bytes_to_scale": {"accepts_two_models_only_if_what_moves_is_the_same"},
    "offsets_of_32_bits": set(),
    "counts_entries": {"accepts_two_models_only_if_what_moves_is_the_same"},
}


def test_the_false_refusal_of_each_report_is_shown_by_the_pair_of_that_report() -> None:
    law = LAWS["refuses_no_servable_pair"]
    duplicated = law(expects_bytes_to_scale())
    assert duplicated is not None and "tp=8" in duplicated and "tp=16" in duplicated
    assert "ZeroDivisionError" in str(law(divides_by_the_ratio()))
    assert "stages=(2, 2)" in str(law(counts_entries()))


def test_every_law_is_broken_by_some_fault() -> None:
    assert {law for _, law in PLANTED} == set(LAWS)
