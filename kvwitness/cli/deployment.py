"""``kvwitness verify --model``: the outcome of one deployment, in words or as a JSON object."""

from __future__ import annotations

import json
import sys
from dataclasses import fields

from kvwitness.cli.compared import plain_compared
from kvwitness.cli.output import STYLES, console, write_lines, write_text
from kvwitness.cli.status import COULD_NOT_RUN, PASS, VIOLATIONS
from kvwitness.deployment import Deployment, Outcome, judge_deployment
from kvwitness.difference import describe_comparison
from kvwitness.errors import CannotRun, Refused
from kvwitness.settings import Judged
from kvwitness.story import describe_instance
from kvwitness.tally import Tally
from kvwitness.words import NO_LEGACY_RULE, count, in_bytes, joined
from oracle.model.case import SIDES, Case
from oracle.model.errors import InvalidCase
from oracle.truth.verdict import Outcome as Result
from oracle.truth.verdict import Verdict


def run_deployment(wanted: Deployment, judged: Judged, out: str, as_object: bool) -> int:
    """Judge a deployment, tell what became of it and return the exit status."""
    try:
        outcome = judge_deployment(wanted, judged, out)
    except (CannotRun, InvalidCase) as error:
        if not as_object:
            raise
        print(json.dumps(_plain_not_run(wanted, error)))
        print(f"kvwitness: {error}", file=sys.stderr)
        return COULD_NOT_RUN
    failed = outcome.judgement.failure is not None
    if as_object:
        print(json.dumps(_plain_outcome(wanted, outcome)))
    else:
        _tell_outcome(wanted, outcome, judged.fault)
    return VIOLATIONS if failed else PASS


def _tell_outcome(wanted: Deployment, outcome: Outcome, fault: str) -> None:
    to = console()
    case, result = outcome.case, outcome.judgement.result
    write_text(
        to,
        f"{wanted.model}, {count(case.model.layers, 'layer')}, a prompt of {count(wanted.prompt, 'token')}",
        style="bold",
    )
    for side in SIDES:
        write_text(to, f"{side:<12}{describe_instance(case.side(side))}{_place(case, side)}", hang=12)
    for name, verdict in result.verdicts.items():
        write_text(to, f"{name + ' ':<12}{_judged(verdict)}", hang=12)
    for name in outcome.judgement.left_out:
        write_text(to, f"{'compared':<12}with {name}: no ({NO_LEGACY_RULE})", hang=12)
    for settled in outcome.judgement.settled:
        write_text(to, f"{'compared':<12}{describe_comparison(settled)}", hang=12)
    write_text(to, f"{'engine':<12}{_engine(outcome)}", hang=12)
    if outcome.judgement.failure is None:
        right = [name for name, verdict in result.verdicts.items() if verdict]
        whose = "" if len(right) == len(result.verdicts) else f" of {joined(right)}"
        hidden = f"; the planted fault {fault} did not show" if fault else ""
        write_text(to, f"pass: every byte{whose} is in its place{hidden}", style=STYLES["pass"])
        return
    write_text(to, f"FAIL {outcome.judgement.failure}", style=STYLES["fail"])
    write_lines(to, [f"  {line}" for line in outcome.argument])
    write_lines(to, [f"  replay it: kvwitness replay {outcome.witness}"], style="bold")
    if outcome.shrunk != outcome.witness:
        write_lines(to, [f"  shrunk:    kvwitness show {outcome.shrunk}"], style="bold")


def _place(case: Case, side: str) -> str:
    """``; the request is on attention DP rank 3``, where a side has such ranks."""
    if not case.side(side).topology.attention_dp:
        return ""
    return f"; the request is on attention DP rank {case.requests[0].dp_rank(side)}"


def _judged(verdict: Verdict) -> str:
    if verdict.refusals:
        return f"refuses {'; '.join(map(str, verdict.refusals))}"
    judged = f"{count(verdict.pairs, 'rank pair')}, {count(verdict.runs, 'run')}"
    return f"{judged}, {in_bytes(verdict.nbytes)} ({verdict.nbytes:,} bytes) judged"


def _engine(outcome: Outcome) -> str:
    landed = [verdict for verdict in outcome.judgement.result.landed.values() if verdict.outcome is not Result.NOT_RUN]
    if landed:
        return "carried the plan out, and what landed was judged again"
    return "not run (memory of this size is judged in closed form, from the plan alone)"


def _plain_deployment(wanted: Deployment) -> dict[str, object]:
    return {field.name: getattr(wanted, field.name) for field in fields(wanted)}


def _plain_not_run(wanted: Deployment, error: CannotRun | InvalidCase) -> dict[str, object]:
    """What cannot be built, and what is refused; of the latter also by whom, and what the other subjects answer."""
    plain: dict[str, object] = {"verdict": "not run", "reason": str(error)}
    if isinstance(error, Refused):
        plain["refused"] = {"subject": error.subject, "code": error.code, "reason": error.why}
        plain["others"] = dict(error.others)
    return {**plain, "deployment": _plain_deployment(wanted)}


def _plain_size(verdict: Verdict) -> dict[str, object]:
    return {"pairs": verdict.pairs, "runs": verdict.runs, "bytes": verdict.nbytes}


def _plain_plan(verdict: Verdict) -> dict[str, object]:
    """The size of a plan, and what of the transfer it refuses; ``request`` None: the pair of instances."""
    refusals = [{name: getattr(each, name) for name in ("request", "code", "reason")} for each in verdict.refusals]
    return {**_plain_size(verdict), "refusals": refusals}


def _plain_outcome(wanted: Deployment, outcome: Outcome) -> dict[str, object]:
    result, failure = outcome.judgement.result, outcome.judgement.failure
    tally = Tally()
    for settled in outcome.judgement.settled:
        tally.compare(settled)
    first = next((verdict for verdict in result.verdicts.values() if verdict.runs), Verdict(Result.NOT_RUN))
    return {
        "verdict": "pass" if failure is None else "fail",
        "seed": None,
        "cases": 1,
        "rate": None,
        "kinds": {
            outcome.case.kind or "own": {
                "cases": 1,
                **_plain_size(first),
                "violations": int(failure is not None),
                "violation_kinds": list(failure.kinds) if failure is not None else [],
            }
        },
        "plans": {name: _plain_plan(verdict) for name, verdict in result.verdicts.items()},
        "subjects": plain_compared(tally.compared),
        "witnesses": [str(path) for path in dict.fromkeys((outcome.witness, outcome.shrunk)) if path is not None],
        "deployment": _plain_deployment(wanted),
    }
