"""One case through several subjects, each judged and every two compared, with what is known taken out."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from itertools import combinations

from differential.compare import Comparison, compare
from differential.compare.large import compare_outlines, covers_outline
from differential.compare.sibling import is_large, small_sibling
from differential.engines.protocol import Engine
from differential.ledger.entry import MAPPING
from differential.ledger.settle import Settled, covers_verdict, settle
from differential.ledger.shelf import is_legacy
from differential.managers.tables import gather_facts
from differential.runner import CaseResult, Outcome, Padding, Verdict, run_case
from differential.subjects.protocol import Subject, encoding_of
from differential.subjects.registry import find_subject
from oracle.model.case import Case
from oracle.model.records import frozen


@frozen()
class Checked:
    """``result`` has the verdicts, ``settled`` the comparison of every two subjects that made a plan.

    ``left_out``: subjects that were not asked, see :func:`asked_of`.
    """

    result: CaseResult
    settled: tuple[Settled, ...]
    left_out: tuple[str, ...] = ()

    @property
    def open(self) -> tuple[Comparison, ...]:
        """Comparisons with differences that no entry of the ledger covers."""
        return tuple(each.open for each in self.settled if not each.open.identical)

    def uncovered(self) -> tuple[tuple[str, str, Verdict], ...]:
        """(subject, ``plan`` or ``memory``, verdict) of failures that the ledger does not explain.

        Memory counts where the plan is right: what a known wrong plan leaves there is no news.
        """
        case, plans = self.result.case, self.result.verdicts
        failed = [
            (name, "plan", verdict)
            for name, verdict in plans.items()
            if verdict.outcome is Outcome.FAIL and not covers_verdict(case, name, verdict, self.settled)
        ]
        failed += [
            (name, "memory", verdict)
            for name, verdict in self.result.landed.items()
            if verdict.outcome is Outcome.FAIL and plans[name]
        ]
        return tuple(failed)

    @property
    def passed(self) -> bool:
        """Whether nothing failed and nothing differed but what the ledger covers."""
        return not self.open and not self.uncovered()


def check_case(
    case: Case, subjects: Sequence[Subject], *, engine: Engine | None = None, padding: Padding = "optional"
) -> Checked:
    """Run ``case`` as ``differential.runner.run_case`` does, then compare the plans of every two subjects.

    Plans of large memory are compared without naming bytes. Where such plans differ, the bytes are
    told of a case of the same instances whose memory is small (``Settled.told_of``), planned anew.
    """
    asked, left_out = asked_of(case, subjects)
    result = run_case(case, asked, engine=engine, padding=padding)
    return Checked(result, compare_plans(result, asked), left_out)


def asked_of(case: Case, subjects: Sequence[Subject]) -> tuple[list[Subject], tuple[str, ...]]:
    """Subjects to ask, and names of those to leave out: legacy ones, of a case that declares nothing for them.

    Where nobody else is there, they are asked all the same, and refuse.
    """
    asked = [each for each in subjects if case.native is not None or not is_legacy(each.name)]
    if not asked:
        return list(subjects), ()
    return asked, tuple(each.name for each in subjects if each not in asked)


def compare_plans(result: CaseResult, subjects: Sequence[Subject]) -> tuple[Settled, ...]:
    """Every two plans of ``result`` compared.

    A subject that plans as another one does shares the known differences of that one, and two subjects
    differ in known ways where both differ from the mapping in known ways alone. For two legacy subjects it
    is asked even where it is none of ``subjects``: nobody else says what is known of them.
    """
    by_name = {subject.name: subject for subject in subjects}
    same_as = {name: result.alike.get(name, name) for name in result.plans}
    found: dict[tuple[str, str], Settled] = {}
    known: dict[tuple[str, str], Settled] = {}
    reference: CaseResult | None = None
    pairs = list(combinations(result.plans, 2))
    for names in sorted(pairs, key=lambda names: MAPPING not in names):
        standing = same_as[names[0]], same_as[names[1]]
        if standing[0] == standing[1]:
            found[names] = Settled({}, Comparison(*names))
        elif standing in found:
            found[names] = found[standing].of(*names)
        elif standing[::-1] in found:
            found[names] = found[standing[::-1]].exchanged().of(*names)
        else:
            settled = _settled(result, by_name[names[0]], by_name[names[1]])
            if settled.identical:
                same_as[names[1]] = standing[0]
            if settled.open.identical:
                found[names] = settled
                continue
            if MAPPING not in by_name and all(map(is_legacy, names)):
                reference = _with_mapping(result) if reference is None else reference
                for name in names:
                    if (MAPPING, name) not in known:
                        known[MAPPING, name] = _settled(reference, find_subject(MAPPING), by_name[name])
            found[names] = _through_mapping(settled, names, found | known)
    return tuple(found[names] for names in pairs)


def _with_mapping(result: CaseResult) -> CaseResult:
    """``result`` with the plan of the mapping, which was not asked."""
    plan = find_subject(MAPPING).plan(result.case, gather_facts(result.case))
    return replace(result, plans={**result.plans, MAPPING: plan})


def _through_mapping(settled: Settled, names: tuple[str, str], found: dict[tuple[str, str], Settled]) -> Settled:
    """What is open between two subjects is known if each differs from the mapping in known ways alone."""
    both = [found.get((MAPPING, name)) or found.get((name, MAPPING)) for name in names]
    known = {entry for each in both if each is not None for entry in each.accepted}
    if not known or not all(each is not None and each.open.identical for each in both):
        return settled
    accepted = dict.fromkeys(sorted(known), settled.open.differences) | settled.accepted
    return replace(settled, accepted=accepted, open=Comparison(*names, unsaid=settled.open.unsaid))


def _settled(result: CaseResult, one: Subject, other: Subject) -> Settled:
    names = one.name, other.name
    how = {"names": names, "encodings": (encoding_of(one), encoding_of(other))}
    case, plans = result.case, [result.plans[name] for name in names]
    if not is_large(case):
        return settle(case, compare(case, *plans, **how))
    outline = compare_outlines(case, gather_facts(case), *plans, **how)
    small = small_sibling(case) if outline.bytes else None
    if small is not None:
        facts = gather_facts(small)
        told = compare(small, one.plan(small, facts), other.plan(small, facts), **how)
        if covers_outline(told, outline):
            return replace(settle(small, told), told_of=small)
    return settle(case, outline)
