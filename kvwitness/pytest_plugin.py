"""The pytest plugin: a test that fails on a case leaves a witness, as the commands do.

It is loaded wherever kvwitness is installed, so it changes nothing but the report of a failing test
that has a case: a Hypothesis property with an argument ``case``, or any test with a local variable
or fixture of that name. The case is the one on which the test failed last; with Hypothesis, the
shrunk one. A local ``subject`` (its name, or a subject) says who is at fault; else it is the mapping.

What this repository's own tests need besides is in ``kvwitness.pytest_project``.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from kvwitness.fixtures import kvwitness_memory  # noqa: F401  offered to every test

if TYPE_CHECKING:
    from oracle.model.case import Case

ARGUMENT_LINES = 12
"""Lines of a failing test's message that stand for the argument where the judge finds nothing."""


def pytest_addoption(parser: pytest.Parser) -> None:
    group = parser.getgroup("kvwitness", "kvwitness")
    group.addoption(
        "--kvwitness-out",
        metavar="DIR",
        default="witnesses",
        help="where the witnesses of failing tests are written (default: witnesses)",
    )


@pytest.hookimpl(hookwrapper=True)
def pytest_runtest_makereport(item: pytest.Item, call: pytest.CallInfo[None]) -> Iterator[None]:
    """Write a witness for a test that failed on a case, and say in its report how to replay it."""
    outcome = yield
    report = outcome.get_result()
    if call.when != "call" or not report.failed or call.excinfo is None:
        return
    names = case_of_failure(call.excinfo.value, item)
    if names is None:
        return
    try:
        text = write_witness(names, item, call.excinfo.value)
    except Exception as error:  # a report must not hide the failure that it is about
        text = f"no witness could be written: {type(error).__name__}: {error}"
    report.sections.append(("kvwitness", text))


def case_of_failure(error: BaseException, item: pytest.Item) -> dict[str, object] | None:
    """The names around the case on which a test failed, ``case`` among them; None where there is no case."""
    for names in _frames(error):
        if _is_case(names.get("case")):
            return names
    names = dict(getattr(item, "funcargs", {}))
    return names if _is_case(names.get("case")) else None


def _frames(error: BaseException) -> Iterator[dict[str, object]]:
    """Local names from the outermost frame of an exception inwards; of a group, those of its first exception."""
    if isinstance(error, BaseExceptionGroup):
        yield from _frames(error.exceptions[0])
    trace = error.__traceback__
    while trace is not None:
        yield trace.tb_frame.f_locals
        trace = trace.tb_next


def _is_case(value: object) -> bool:
    from oracle.model.case import Case

    return isinstance(value, Case)


def write_witness(names: dict[str, object], item: pytest.Item, error: BaseException) -> str:
    """Write the witness of a failing test; the lines that say where it is, how to replay it, and why it fails."""
    from kvwitness.search import save_failure
    from kvwitness.settings import Judged
    from kvwitness.trial import Trial
    from kvwitness.witness import save

    case: Case = names["case"]  # type: ignore[assignment]
    subject = names.get("subject")
    subject = subject if isinstance(subject, str) else getattr(subject, "name", "mapping")
    out = item.config.rootpath / item.config.getoption("--kvwitness-out")
    trial = Trial(Judged(subjects=(subject,)))
    judgement = trial(case)
    argument: tuple[str, ...]
    if judgement.failure is not None:
        path, argument = save_failure(judgement, trial, str(out), test=item.nodeid)
    else:
        argument = tuple(f"{type(error).__name__}: {error}".splitlines()[:ARGUMENT_LINES])
        path = save(case, out, subject=subject, property=(), test=item.nodeid, argument=argument)
    shown = _shortest(path)
    lines = [f"witness: {shown}", f"replay it: kvwitness replay {shown}"]
    if judgement.failure is None:
        lines.append(f"the judge finds nothing wrong with {subject} there: kvwitness show {shown} tells the case")
    else:
        lines += argument
    return "\n".join(lines)


def _shortest(path: Path) -> Path:
    """``path`` as seen from where the user stands, where that is shorter."""
    try:
        return path.relative_to(Path.cwd())
    except ValueError:
        return path
