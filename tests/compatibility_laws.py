"""The laws of a handshake, as functions that any implementation of it can be held to.

Each law takes an implementation (see ``differential.subjects.compatibility.Compatibility``) and gives
the first counterexample as text, or None. What is right is decided by the oracle: whether a pair can be
served, and what each byte of an instance is.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from functools import cache
from itertools import permutations, product
from random import Random

import numpy as np

from differential.subjects.compatibility import Compatibility, Configuration, Registration, configuration_of
from oracle.model.buffers import Model, Move, MoveState
from oracle.model.case import SIDES, Case
from oracle.model.counts import in_bytes
from oracle.model.errors import MalformedFile
from oracle.model.notation import parse_buffer
from oracle.model.pages import Entry, PageTable, Pool
from oracle.model.sides import lay_out
from oracle.model.topology import Rank, Topology
from oracle.truth.elements import truth_of
from oracle.truth.servable import right_refusals
from strategies.cases import decode
from strategies.numbers import WIDTH
from tests.compatibility_images import configurations, image_of
from tests.small_cases import case_of, group, model_of

Law = Callable[[Compatibility], str | None]


# ---- the decision


@cache
def is_servable(case: Case) -> bool:
    """Whether the oracle knows no reason to refuse the two instances."""
    return not right_refusals(truth_of(case))[0]


GQA = "key @ 0..{last} : H({heads}).heads T D(2) ; 8"


def gqa(heads: int, context: str, generation: str, layers: int = 1, **others: object) -> Case:
    """A key of ``heads`` heads on each layer between two topologies as text."""
    text = GQA.format(last=layers - 1, heads=heads)
    return case_of(model_of(group(text), layers=layers), context, generation, **others)  # type: ignore[arg-type]


@cache
def pairs() -> tuple[Case, ...]:
    """Pairs of instances: random ones, and those of the reports."""
    random = Random(20)
    drawn = [decode(random.randbytes(WIDTH)) for _ in range(150)]
    latent = model_of(group("key @ 0..3 : T D(2) ; 8"), layers=4)
    state = model_of(group("conv @ 0 : C[x:8.even, B:2.all]@TPCP ; 8", name="s", state=True))
    return (
        gqa(8, "tp8", "tp16"),  # B24: heads stop shrinking at one a rank
        gqa(2, "tp2", "tp1"),  # B37: the finer side sends
        gqa(2, "tp4", "tp1"),
        gqa(3, "tp4", "tp2"),
        gqa(2, "tp3", "tp6"),
        gqa(6, "tp4", "tp2"),
        case_of(latent, "tp1 pp2+2", "tp1"),  # B50: MLA with stages to one stage
        case_of(latent, "tp1", "tp2 pp1+3"),
        case_of(latent, "tp1", "tp2 cp2 dp"),  # B45: what the guard forbids is on the peer
        case_of(latent, "tp2 cp2 dp", "tp1"),
        case_of(latent, "tp2 cp2", "tp4 cp2"),
        case_of(latent, "tp1 cp2", "tp1 cp4"),
        case_of(latent, "tp2", "tp3"),
        case_of(latent, "tp1", "tp1", generation_side={"tokens_per_block": 8}),  # B107: pages of 2 and 8 tokens
        case_of(latent, "tp1", "tp1", generation_side={"element_bits": (("key", 16),)}),  # B104
        case_of(state, "tp2", "tp1 cp2"),
        case_of(state, "tp4", "tp2 cp2"),
        *drawn,
    )


def refuses_no_servable_pair(subject: Compatibility) -> str | None:
    for case in pairs():
        if is_servable(case):
            why = _decided(subject, configuration_of(case, "context"), configuration_of(case, "generation"))
            if why is not None:
                return f"{_told(case)} can be served and is refused: {why}"
    return None


def accepts_no_unservable_pair(subject: Compatibility) -> str | None:
    for case in pairs():
        if not is_servable(case):
            why = _decided(subject, configuration_of(case, "context"), configuration_of(case, "generation"))
            if why is None:
                return f"{_told(case)} is accepted, though: {right_refusals(truth_of(case))[0][0]}"
    return None


def _decided(subject: Compatibility, source: Configuration, destination: Configuration) -> str | None:
    try:
        refusal = subject.decide(source, destination)
    except Exception as error:
        return f"crash: {error!r}"
    return None if refusal is None else refusal.code


def _told(case: Case) -> str:
    return f"{case.model.groups[0].buffers[0].role} {case.context.topology} to {case.generation.topology}"


@cache
def unlike_models() -> tuple[tuple[Model, Model, bool], ...]:
    """(model, the peer's model, whether all that moves is the same), one field changed at a time."""
    key = "key @ 0..1 : H(2).heads T D(2) ; 8"
    base = group(key, "value @ 0..1 : H(2).heads T D(2) ; 8")
    draft = group(key, "value @ 0..1 : H(2).heads T D(2) ; 8", "draft @ 1 : T D(2) ; 8")
    never = replace(draft, buffers=(*draft.buffers[:2], replace(draft.buffers[2], moves=(Move(MoveState.NEVER),))))
    changed = {
        "heads": "H(4).heads T D(2) ; 8",
        "width": "H(2).heads T D(4) ; 8",
        "bits": "H(2).heads T D(2) ; 16",
        "split": "H(2) T D(2) ; 8",
        "tokens a row": "H(2).heads T(2) D(2) ; 8",
        "sub-pages": "H(2).heads T D(2) ; 8 ; x(2)",
    }
    found = [(base, base, True), (base, never, True), (base, draft, False), (draft, base, False)]
    found += [
        (base, replace(base, buffers=(parse_buffer(f"key @ 0..1 : {text}"), base.buffers[1])), False)
        for text in changed.values()
    ]
    found.append((base, group(key, "value @ 0..1 : H(2).heads T D(2) ; 8", name="other"), True))
    return tuple((model_of(one, layers=2), model_of(other, layers=2), same) for one, other, same in found)


def accepts_two_models_only_if_what_moves_is_the_same(subject: Compatibility) -> str | None:
    for one, other, same in unlike_models():
        sides = [configuration_of(case_of(model, "tp1", "tp1", size=4), "context") for model in (one, other)]
        why = _decided(subject, *sides)
        if (why is None) != same:
            return f"{other.groups} for a peer of {one.groups}: {why or 'accepted'}"
    return None


# ---- fingerprints


@cache
def _images() -> tuple[list[list[object]], ...]:
    return tuple([image_of(configuration) for configuration in family] for family in configurations())


def shares_a_fingerprint_exactly_where_the_bytes_are_the_same(subject: Compatibility) -> str | None:
    for family, images in zip(configurations(), _images(), strict=True):
        prints = [subject.fingerprint(configuration) for configuration in family]
        for one in range(len(family)):
            for other in range(one):
                alike = images[one] == images[other]
                if (prints[one] == prints[other]) != alike:
                    bytes_ = "the same bytes" if alike else "other bytes"
                    return f"{bytes_}: {family[one].model} {family[one].instance} and {family[other]}"
    return None


# ---- registration


def gives_each_rank_a_key_of_its_own(subject: Compatibility) -> str | None:
    found: dict[str, tuple[str, Rank]] = {}
    for name in ("ctx", "ctx1", "ctx11", "ctx1:pp0", "", "1", "11", "ctx:1"):
        for rank in Topology(12, (1, 1, 1), 2).ranks():
            key = subject.registration_key(name, rank)
            if key in found:
                return f"{found[key]} and {(name, rank)} register as {key!r}"
            found[key] = name, rank
    return None


TABLE = PageTable(
    (Pool(32, 5, 32), Pool(8, 3, 8, 24, 1)),
    (Entry(0, 0, 0, "key", 0, 16), Entry(0, 0, 0, "value", 16, 16), Entry(1, 1, 1, "ssm", 24, 8)),
)
FAR = PageTable((Pool(8, 1 << 29, 8, 1 << 32),), tuple(Entry(0, 0, n, "ssm", n << 32, 8) for n in range(3)))
"""Regions more than 4 GiB apart."""


@cache
def tables() -> tuple[PageTable, ...]:
    drawn = {table for case in pairs()[-60:] for side in SIDES for table in lay_out(case, side).tables}
    return (TABLE, FAR, PageTable((), ()), *sorted(drawn, key=repr))


def carries_a_page_table_whole_or_refuses_it(subject: Compatibility) -> str | None:
    for table in tables():
        try:
            back = subject.decode_table(subject.encode_table(table))
        except MalformedFile:
            return f"{table} is not read back"
        if back != table:
            return f"{table} is read back as {back}"
    record = subject.encode_table(TABLE)
    random = Random(7)
    damaged = [record[:length] for length in range(len(record))] + [record + b"\0", b"", b"\x90"]
    for _ in range(600):
        changed = bytearray(record)
        changed[random.randrange(len(changed))] = random.randrange(256)
        damaged.append(bytes(changed))
    for each in damaged:
        try:
            table = subject.decode_table(each)
        except MalformedFile:
            continue
        if subject.encode_table(table) != each:
            return f"{each.hex()} is read as {table}"
    return None


def reads_a_rank_only_under_the_number_that_its_place_has(subject: Compatibility) -> str | None:
    """Ranks count tp before cp: a record of a peer that counts otherwise is refused, all others are read back."""
    topology = Topology(2, (1, 1), 2)
    for rank in topology.ranks():
        own = Registration("ctx", topology, rank, TABLE)
        try:
            back = subject.read(subject.register(own))
        except MalformedFile as error:
            return f"{own.rank} is refused: {error}"
        if back != own:
            return f"{own} is read back as {back}"
        other = Rank((rank.pp * topology.cp + rank.cp) * topology.tp + rank.tp, rank.pp, rank.tp, rank.cp)
        if other.number == rank.number:
            continue
        try:
            read = subject.read(subject.register(replace(own, rank=other)))
        except MalformedFile:
            continue
        return f"rank {other.number} at {other.pp, other.tp, other.cp} is taken for {read.rank}"
    return None


# ---- layout


def accepts_strides_exactly_where_the_bytes_lie_as_declared(subject: Compatibility) -> str | None:
    for heads, tokens, dim, layout in product((1, 2), (1, 2), (1, 3), ("HND", "NHD")):
        case = case_of(f"key @ 0 : H({heads}) T D({dim}) ; 16", size=tokens, sides={"layout": layout})
        configuration = configuration_of(case, "context")
        rank = case.context.topology.rank(0)
        (axes, unit) = in_bytes(case.model.groups[0].buffers[0].parts[0].axes, 16)
        sizes = [tokens if axis.is_token else axis.size for axis in axes]
        declared = _addresses(sizes, _strides(sizes, _order(axes, layout), unit))
        for order in permutations(range(3)):
            strides = _strides(sizes, order, unit)
            right = np.array_equal(_addresses(sizes, strides), declared)
            refusal = subject.check_strides(configuration, rank, "key", 0, tuple(strides))
            if (refusal is None) != right:
                return f"{layout} of {sizes} with strides {strides}: {refusal or 'accepted'}"
    return None


def _order(axes: tuple, layout: str) -> tuple[int, ...]:  # type: ignore[type-arg]
    names = [axis.name for axis in axes]
    return tuple(names.index(name) for name in (("H", "T", "D") if layout == "HND" else ("T", "H", "D")))


def _strides(sizes: list[int], order: tuple[int, ...], unit: int) -> list[int]:
    strides = [0] * len(sizes)
    for axis in reversed(order):
        strides[axis] = unit
        unit *= sizes[axis]
    return strides


def _addresses(sizes: list[int], strides: list[int]) -> np.ndarray:
    """The byte address of every element, in declared order of the axes."""
    found = np.zeros(1, dtype=np.int64)
    for size, stride in zip(sizes, strides, strict=True):
        found = (found[:, None] + np.arange(size) * stride).ravel()
    return found


LAWS: dict[str, Law] = {
    law.__name__: law
    for law in (
        refuses_no_servable_pair,
        accepts_no_unservable_pair,
        accepts_two_models_only_if_what_moves_is_the_same,
        shares_a_fingerprint_exactly_where_the_bytes_are_the_same,
        gives_each_rank_a_key_of_its_own,
        carries_a_page_table_whole_or_refuses_it,
        reads_a_rank_only_under_the_number_that_its_place_has,
        accepts_strides_exactly_where_the_bytes_lie_as_declared,
    )
}
