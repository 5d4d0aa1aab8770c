"""The ledger: known differences between subjects, each with a witness that must still differ.

``check_case(case, subjects)`` runs, judges and compares a case. ``settle(case, comparison)`` takes the
known differences out of a comparison, ``covers_verdict`` says whether a failure of a legacy subject is no
news, and ``check_witnesses(subjects)`` lists entries that are stale. A difference that no entry covers,
and a stale entry, fail a run.

To add an entry, add a module to ``entries`` that defines ``ENTRY``, and its witness with
``write_witness``. An entry says what differs as narrowly as it can: a predicate on the case and on
each differing byte, or a refusal code with the cases in which it is due.
"""

from __future__ import annotations

from differential.ledger.check import Checked, asked_of, check_case, compare_plans
from differential.ledger.entry import Bytes, Entry, Refuses
from differential.ledger.evidence import Stale, check_witnesses, read_witness, write_witness
from differential.ledger.settle import Settled, covers_verdict, settle, unexplained
from differential.ledger.shelf import entries, find_entry, is_legacy, to_look_at

__all__ = [
    "Bytes",
    "Checked",
    "Entry",
    "Refuses",
    "Settled",
    "Stale",
    "asked_of",
    "check_case",
    "check_witnesses",
    "compare_plans",
    "covers_verdict",
    "entries",
    "find_entry",
    "is_legacy",
    "read_witness",
    "settle",
    "to_look_at",
    "unexplained",
    "write_witness",
]
