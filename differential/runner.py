"""One case through several subjects: facts once, each plan judged, and carried out by an engine if there is one."""

from __future__ import annotations

import time
import traceback
from collections.abc import Sequence
from dataclasses import field, replace
from itertools import combinations
from pathlib import PurePath

from differential.compare.alike import are_alike
from differential.engines.memory import Carried, MemoryDifference, carry, compare_memory, require_room
from differential.engines.protocol import Engine, EngineUnavailable
from differential.managers.tables import gather_facts
from differential.subjects.protocol import Election, Subject, encoding_of
from oracle.model.case import Case
from oracle.model.encodings import Encoding
from oracle.model.errors import InvalidCase
from oracle.model.records import frozen
from oracle.model.writes import Refusal, Writes, check_plan
from oracle.truth.decide import judge_any
from oracle.truth.judge import Padding
from oracle.truth.verdict import Kind, Outcome, Verdict, Violation

__all__ = ["CaseResult", "Kind", "MemoryDifference", "Outcome", "Padding", "Verdict", "Violation", "run_case"]


@frozen()
class CaseResult:
    """What came of one case.

    ``verdicts``: on each subject's plan, by its name. ``landed``: on the destination's memory after
    the engine carried the plan out, by subject name; empty without an engine. ``memory_differs``:
    by two subjects whose plans were carried out and serve every request, how the memories that they
    left differ; it fails nothing by itself, for a difference of plans may be a known one. ``plans``: by
    subject name, of those that made one; ``alike``: by the name of a subject whose plan is that of an
    earlier one but for order and cutting, the earlier one's name. ``carrying``: processor seconds that
    the engine's part took, by subject name. ``runs``, ``nbytes`` and ``pairs``: judged in the plans of
    all subjects together.
    """

    case: Case
    verdicts: dict[str, Verdict] = field(default_factory=dict)
    landed: dict[str, Verdict] = field(default_factory=dict)
    memory_differs: dict[tuple[str, str], MemoryDifference] = field(default_factory=dict)
    plans: dict[str, Writes | Refusal] = field(default_factory=dict)
    alike: dict[str, str] = field(default_factory=dict)
    carrying: dict[str, float] = field(default_factory=dict)

    @property
    def runs(self) -> int:
        return sum([verdict.runs for verdict in self.verdicts.values()])

    @property
    def nbytes(self) -> int:
        return sum([verdict.nbytes for verdict in self.verdicts.values()])

    @property
    def pairs(self) -> int:
        return sum([verdict.pairs for verdict in self.verdicts.values()])

    @property
    def passed(self) -> bool:
        """Whether nothing failed. What did not run did not fail: see the verdicts for it."""
        return self.failure() is None

    def failure(self) -> tuple[str, Verdict] | None:
        """(subject, verdict) of the first failure, plans before memory; None if nothing failed."""
        for verdicts in (self.verdicts, self.landed):
            for name, verdict in verdicts.items():
                if verdict.outcome is Outcome.FAIL:
                    return name, verdict
        return None


def run_case(
    case: Case, subjects: Sequence[Subject], *, engine: Engine | None = None, padding: Padding = "optional"
) -> CaseResult:
    """Have every subject plan ``case`` from the same facts, judge each plan, and let ``engine`` carry each out.

    Large memory is judged in closed form. A plan that is a right one of an earlier subject but for order
    and cutting is right with it, and not judged again. A subject that raises fails, as does an engine
    that raises: the verdict's reason then starts with ``crash:``. Raises ``InvalidCase`` if the case
    itself cannot be, or two subjects have one name, and ``EngineUnavailable`` before anyone plans where
    memory does not suffice.
    """
    if engine is not None and engine.available() is None:
        require_room(case, engine)
    facts = gather_facts(case)
    result = CaseResult(case)
    elections: dict[str, Election] = {}
    encodings: dict[str, Encoding] = {}
    carried: dict[str, Carried] = {}
    extra = any(group.native_only for group in case.model.groups)
    for subject in subjects:
        name = subject.name
        if name in result.verdicts:
            raise InvalidCase("subjects", [each.name for each in subjects], "expected subjects of distinct names")
        try:
            plan = subject.plan(case, facts)
            if not isinstance(plan, Writes | Refusal):
                raise TypeError(f"{name} returned {plan!r}, expected Writes or a Refusal")
            if isinstance(plan, Writes):
                check_plan(plan, len(case.requests), len(case.model.groups))
        except (Exception, SystemExit) as error:
            result.verdicts[name] = crashed(error)
            if engine is not None:
                result.landed[name] = Verdict(Outcome.NOT_RUN, reason="there is no plan to carry out")
            continue
        twin = next((each for each in result.plans if are_alike(facts, result.plans[each], plan)), None)
        if twin is not None:
            result.alike[name] = result.alike.get(twin, twin)
        # Whose own choice of a sender is judged has more to answer for, so its verdict holds for both, unless
        # there is something that only the other has to bring.
        encoding = encoding_of(subject)
        holds = (
            twin is not None
            and encodings[twin] == encoding
            and (elections[twin] == subject.election or (elections[twin] == "paired" and not extra))
        )
        if holds and result.verdicts[twin]:
            result.verdicts[name] = replace(result.verdicts[twin], runs=plan.run_count)
        else:
            result.verdicts[name] = judge_any(
                case,
                plan,
                padding=padding,
                election=subject.election,
                encoding=encoding,
                checked=isinstance(plan, Writes),
            )
        result.plans[name], elections[name], encodings[name] = plan, subject.election, encoding
        if engine is not None:
            began = time.process_time()
            carried[name] = _carry_out(case, plan, engine, padding, subject)
            result.landed[name] = carried[name].verdict
            result.carrying[name] = time.process_time() - began
    for names in combinations([name for name, done in carried.items() if done.served_all], 2):
        first, second = (carried[name].landing for name in names)
        assert first is not None and second is not None
        difference = compare_memory(first, second)
        if difference is not None:
            result.memory_differs[names] = difference
    return result


def _carry_out(case: Case, plan: Writes | Refusal, engine: Engine, padding: Padding, subject: Subject) -> Carried:
    if isinstance(plan, Refusal):
        plan = Writes(refusals=(plan,))
    try:
        how = {"election": subject.election, "encoding": encoding_of(subject)}
        return carry(case, plan, engine, padding=padding, **how)
    except EngineUnavailable:
        raise
    except Exception as error:
        return Carried(crashed(error))


def crashed(error: BaseException) -> Verdict:
    """A failed verdict that tells what was raised and where; there is no plan, so nothing is said of bytes."""
    frames = traceback.extract_tb(error.__traceback__)
    where = f" at {PurePath(frames[-1].filename).name}:{frames[-1].lineno}" if frames else ""
    return Verdict(Outcome.FAIL, reason=f"crash: {type(error).__name__}: {error}{where}")
