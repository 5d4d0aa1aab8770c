"""Cases with recurrent state under Helix, declared by hand, for the tests of the ledger and the grid."""

from __future__ import annotations

from differential.compare import Comparison, compare
from differential.managers.tables import gather_facts
from differential.subjects.native import election, make
from differential.subjects.protocol import Subject
from differential.subjects.registry import find_subject
from oracle.model.buffers import Model
from oracle.model.case import Case, Native, Request, Slots
from oracle.model.instance import Instance
from oracle.model.topology import Topology
from tests.small_cases import group, model_of

VARIANTS = ("native", "native:suffix", "native:suffix,no-helix")


def state_model(layers: int) -> Model:
    """A latent on even layers; convolution, state heads and replicated side state on odd ones."""
    last = layers - 1
    return model_of(
        group(f"key @ 0..{last}/2 : T D(2) ; 8"),
        group(
            f"conv @ 1..{last}/2 : C[x:8.even, B:4.even, C:4.even]@TPCP W(1) ; 8",
            f"ssm @ 1..{last}/2 : H(8).even@TPCP P(2) ; 8",
            f"ple @ 1..{last}/2 : B(6) ; 8",
            name="state",
            state=True,
        ),
        layers=layers,
    )


DECLARED = Native((("key", "indexed"), ("conv", "sectioned"), ("ssm", "indexed"), ("ple", "replicated")))


def state_case(context: Topology, generation: Topology, *, prompt: int = 9, key: tuple[int, int] = (0, 0)) -> Case:
    """:func:`state_model` between two topologies, one request; ``key``: its attention data-parallel ranks."""
    return Case(
        state_model(sum(context.stages)),
        *(Instance(topology, 2, packing=(("state", "separate"),)) for topology in (context, generation)),
        (Request(0, prompt, *key),),
        slots=Slots(mul=2, add=1),
        native=DECLARED,
        kind="recurrent state",
    )


def compared(case: Case, second: Subject | str = "native", first: Subject | str = "mapping") -> Comparison:
    """The comparison of two subjects' plans, by their names."""
    one, two = (find_subject(each) if isinstance(each, str) else each for each in (first, second))
    facts = gather_facts(case)
    return compare(case, one.plan(case, facts), two.plan(case, facts), names=(one.name, two.name))


def receivers(comparison: Comparison, role: str) -> list[int]:
    """Receivers of the byte differences of ``role``."""
    return sorted({each.destination for each in comparison.bytes if each.role == role})


def roles(comparison: Comparison) -> set[str | None]:
    return {each.role for each in comparison.bytes}


class Elects:
    """The legacy sender with another election of replicated state, which ``sends(own, peer)`` decides."""

    election = "own"

    def __init__(self, sends, options: str = "") -> None:  # type: ignore[no-untyped-def]
        self.base = make(options)
        self.name = self.base.name
        self.sends = sends

    def plan(self, case, facts):  # type: ignore[no-untyped-def]
        kept = election.sends_state
        usual = kept
        election.sends_state = lambda own, peer, mapper: (
            self.sends(own, peer) if mapper == "replicated" else usual(own, peer, mapper)
        )
        try:
            return self.base.plan(case, facts)
        finally:
            election.sends_state = kept


def among_paired_ranks(options: str = "") -> Elects:
    """Mended: the sender is elected among all ranks that the receiver is paired with."""
    return Elects(election.sends_replicated, options)


def among_grid_partners(options: str = "") -> Elects:
    """Another repair: every grid partner sends."""
    return Elects(election.state_paired, options)


def subjects(*names: str) -> list[Subject]:
    return [find_subject(name) for name in ("mapping", *names)]
