"""Running a witness again: does it still fail?"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from enum import Enum

from differential.compare.sibling import is_large
from differential.compare.unsaid import carry_tails
from differential.subjects.protocol import Subject, encoding_of
from kvwitness.difference import describe_comparison
from kvwitness.search import argument_of
from kvwitness.settings import Judged
from kvwitness.trial import Failure, Judgement, Trial, subjects_for
from kvwitness.witness import Meta, Witness
from oracle.model.case import Case
from oracle.model.writes import Refusal
from oracle.truth.elements import truth_of
from oracle.truth.intervals.known import known_of


class Answer(Enum):
    """What a replay says, with the exit status of the command."""

    FIXED = 0
    FAILS = 1
    CANNOT_TELL = 2


@dataclass(frozen=True, slots=True)
class Replay:
    """The answer, one sentence that says it, and the lines behind it. ``unpinned`` is said whatever the answer.

    ``trial`` judged it, so that others can be judged alike. ``fault``: what was planted for this answer, "" nothing.
    """

    answer: Answer
    sentence: str
    lines: tuple[str, ...] = ()
    judgement: Judgement | None = None
    unpinned: tuple[str, ...] = ()
    trial: Trial | None = None
    fault: str = ""


def replay(
    witness: Witness,
    *,
    subjects: Sequence[str] = (),
    fault: str | None = None,
    engine: str = "",
    device: str = "",
    padding: str = "",
) -> Replay:
    """Judge the case of ``witness`` again, as it was judged when it was found unless the arguments say otherwise.

    Raises ``CannotRun`` where a subject, a fault or an engine does not exist here.
    """
    meta = witness.meta or Meta()
    judged = _asked(meta.judged, subjects, fault, engine, device, padding)
    trial = Trial(judged)
    unpinned = tuple(witness.unpinned())
    judgement = trial(witness.case)
    base = trial.without_fault(witness.case) if judged.fault else judgement
    if judgement.failure is None and base.failure is not None:
        sentence = f"fails without the planted fault {judged.fault!r}, which proves nothing here: {base.failure}"
        return Replay(Answer.FAILS, sentence, argument_of(base), base, unpinned, Trial(replace(judged, fault="")))
    if judgement.failure is not None:
        sentence = f"still fails: {judgement.failure}" if meta.kinds else f"fails: {judgement.failure}"
        sentence += _otherwise(meta, judgement.failure)
        return Replay(Answer.FAILS, sentence, argument_of(judgement), judgement, unpinned, trial, judged.fault)
    refusals = tuple(_refusals(judgement))
    if refusals and not _must_refuse(witness.case):
        return Replay(Answer.CANNOT_TELL, "cannot tell: refused", refusals, judgement, unpinned, fault=judged.fault)
    if meta.test and not meta.kinds:
        sentence = f"cannot tell: a test failed on this case, and the judge finds nothing; run {meta.test}"
        return Replay(Answer.CANNOT_TELL, sentence, (), judgement, unpinned, fault=judged.fault)
    judged_ones = [base for base in trial.bases if base.name in judgement.result.verdicts]
    lines = tuple(f"{base.name}: {_passed(judgement, base)}" for base in judged_ones)
    lines += tuple(describe_comparison(settled) for settled in judgement.settled)
    sentence = "fixed: it passes" if meta.kinds else "passes"
    return Replay(Answer.FIXED, sentence, lines, judgement, unpinned, fault=judged.fault)


def check_asked(
    *, subjects: Sequence[str] = (), fault: str | None = None, engine: str = "", device: str = "", padding: str = ""
) -> None:
    """Raise ``CannotRun`` where what is asked of every witness does not exist here."""
    Trial(_asked(Judged(), subjects, fault, engine, device, padding))


def _asked(
    judged: Judged, subjects: Sequence[str], fault: str | None, engine: str, device: str, padding: str
) -> Judged:
    given = {"engine": engine, "device": device, "padding": padding, "subjects": tuple(subjects)}
    changed = {name: value for name, value in given.items() if value}
    if fault is not None:
        changed["fault"] = fault
    if fault and not subjects and subjects_for(fault) != Judged().subjects:
        changed["subjects"] = subjects_for(fault)
    return replace(judged, **changed)


def _otherwise(meta: Meta, failure: Failure) -> str:
    if not meta.kinds or set(meta.kinds) & set(failure.kinds):
        return ""
    return f" (it was found as {', '.join(meta.kinds)})"


def _whose(refusal: Refusal) -> str:
    return "the instances" if refusal.request is None else f"request {refusal.request}"


def _refusals(judgement: Judgement) -> Iterator[str]:
    """Refusals that leave open whether the transfer is right: those that may be right, and all where nobody serves."""
    verdicts = judgement.result.verdicts
    nobody_serves = all(verdict.refusals for verdict in verdicts.values())
    for name, verdict in verdicts.items():
        if verdict or nobody_serves:
            for refusal in verdict.refusals:
                yield f"{name} refuses {_whose(refusal)}: {refusal.code}: {refusal.reason}"


def _must_refuse(case: Case) -> bool:
    """Whether a refusal is the only right answer, so that giving it is a fix."""
    truth = known_of(case) if is_large(case) else truth_of(case)
    return bool(truth.unserved or truth.lost)


def _passed(judgement: Judgement, subject: Subject) -> str:
    name = subject.name
    verdict = judgement.result.verdicts[name]
    if not verdict:
        known = ", ".join(judgement.known(name)) or f"see the ledger's entries of {name}"
        what = f"refuses ({'; '.join(map(str, verdict.refusals))})" if verdict.refusals else "fails"
        return f"{what}, as is known: {known}"
    if verdict.refusals:
        return f"rightly refused: {'; '.join(map(str, verdict.refusals))}"
    has_tails = any(request.generation.tails for request in judgement.case.requests)
    lacks_tails = has_tails and not carry_tails((encoding_of(subject),))
    apart = "; but for beam tails, which tables do not carry" if lacks_tails else ""
    moved = f"{verdict.nbytes:,} bytes in {verdict.runs:,} runs over {verdict.pairs:,} rank pairs"
    return f"{moved}, each in its place{apart}"
