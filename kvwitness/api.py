"""What a test of a serving framework calls."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from kvwitness.deployment import read_side, with_tight_pools
from oracle.model.buffers import Model
from oracle.model.case import SIDES, Case, Native
from oracle.model.encodings import Encoding
from oracle.model.errors import InvalidCase
from oracle.model.writes import Refusal, Writes
from oracle.truth.decide import judge_any
from oracle.truth.judge import Election, Padding
from oracle.truth.verdict import Verdict
from strategies.deployments import deployment as case_of_deployment

Split = str | Mapping[str, object]
"""How a side is split: ``"tp=4,pp=2"`` or ``{"tp": 4, "pp": 2}``; also ``cp``, ``dp`` and ``layout``."""


def check(
    case: Case,
    writes: Writes | Refusal,
    *,
    padding: Padding = "optional",
    election: Election = "paired",
    encoding: Encoding = "tables",
) -> Verdict:
    """Judge a plan of ``case``: every byte that is due, whence it comes, and every byte that nothing may touch.

    The verdict is true where nothing is wrong; a right refusal is right. ``padding``: whether rows past
    the prompt may (``optional``) or must arrive (``due``). ``election``: ``paired`` also judges which of
    several holders sends a byte and which rank pairs the plan names; ``own`` leaves that to the plan.
    ``encoding``: how block lists reached the planner, ``tables``, ``anchors`` or ``suffix``; the last two
    carry beam tails and cannot say every state, see ``oracle.model.encodings``.
    Small memory is judged byte by byte, large memory in closed form, with the same verdict.

    Raises ``InvalidCase`` where the case itself cannot be, or ``writes`` is no plan.

    >>> case = deployment("llama-3-70b", "tp=1", "tp=1", prompt=1, tokens_per_block=1)
    >>> check(case, Refusal("too_big", "it does not fit")).kinds
    frozenset({<Kind.FALSE_REFUSAL: 'false refusal'>})
    """
    if not isinstance(writes, Writes | Refusal):
        raise InvalidCase("writes", writes, "expected Writes (see Writes.from_runs) or a Refusal")
    return judge_any(case, writes, padding=padding, election=election, encoding=encoding)


def deployment(
    model: str | Model,
    context: Split,
    generation: Split,
    *,
    prompt: int | Sequence[int],
    tokens_per_block: int = 32,
    layout: str = "HND",
    element_bits: int = 16,
    cached: int = 0,
    native: Native | None = None,
) -> Case:
    """The case of one deployment: a published model by name (or a ``Model``), both splits, and the prompt in tokens.

    Several prompts make several requests. ``cached``: tokens that the receiver had already. Pools are
    hardly larger than the blocks in use. Raises ``InvalidCase`` that names the parameter and says what
    would be accepted.

    >>> deployment("llama-3-70b", "tp=4", {"tp": 8}, prompt=33).generation.topology.tp
    8
    """
    splits = (context, generation)
    sides = [
        read_side(side, split) if isinstance(split, str) else split for side, split in zip(SIDES, splits, strict=True)
    ]
    case = case_of_deployment(
        model,
        *sides,
        prompt=prompt,
        tokens_per_block=tokens_per_block,
        layout=layout,
        element_bits=element_bits,
        cached=cached,
        native=native,
    )
    return with_tight_pools(case)
