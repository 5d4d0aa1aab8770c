"""Helix receivers of a group whose window has left whole blocks of the prompt behind."""

from __future__ import annotations

from datetime import date

from differential.compare import SECOND, RefusalDifference
from differential.ledger.entry import POSITIONAL, Entry, Refuses
from differential.ledger.legacy.sides import is_helix
from oracle.model.case import Case


def covers(case: Case, difference: RefusalDifference) -> bool:
    if difference.request is None or not is_helix(case):
        return False
    request, block = case.requests[difference.request], case.context.tokens_per_block
    windows = [(group.window, request.tokens(group.length)) for group in case.model.groups if group.window is not None]
    # The token about to be computed attends to the window's last tokens, itself among them.
    return any(tokens + 1 - window >= block for window, tokens in windows)


ENTRY = Entry(
    name="helix-with-a-window",
    summary="a context-parallel receiver is refused where a window has left whole blocks behind",
    reference="spec: legacy sender, 4.4; spec: blocks, decision 6",
    component="legacy request check",
    second=(POSITIONAL,),
    form=Refuses(SECOND, ("helix_window",), covers),
    look_again=date(2027, 6, 1),
)
