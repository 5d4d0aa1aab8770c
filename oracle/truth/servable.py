"""When "no" is the right answer: what no sender can serve, and what policy allows a sender to refuse."""

from __future__ import annotations

from oracle.model.case import Case
from oracle.truth.elements import Frame
from oracle.truth.encodings import goes_in_slices
from oracle.truth.stacks import unlike


def policy_reasons(case: Case) -> tuple[str, ...]:
    """Why a sender may refuse this pair of instances though every byte has a holder (spec: mapping, oracle)."""
    context, generation = case.context, case.generation
    found = list(unlike(case))
    for name, instance in (("context", context), ("generation", generation)):
        if instance.topology.cp > 1 and instance.topology.attention_dp:
            found.append(f"the {name} instance joins context parallelism with attention data parallelism")
    sizes = [
        ("tp", *(1 if side.topology.attention_dp else side.topology.tp for side in (context, generation))),
        ("cp", context.topology.cp, generation.topology.cp),
    ]
    for name, source, destination in sizes:
        if max(source, destination) % min(source, destination):
            found.append(f"{name} {source} and {destination}: neither divides the other")
    return tuple(found)


def right_refusals(frame: Frame) -> tuple[tuple[str, ...], dict[int, str]]:
    """(reasons to refuse the instances, request -> reason to refuse it). Empty: a refusal is false."""
    reasons = list(policy_reasons(frame.case))
    for request, rank, number in frame.unserved[:1]:
        element = frame.generation_keys.decode(frame.case, "generation", number)
        heard = frame.heard[request][rank]
        where = f"{element.role} of layer {element.layer}, {element.indices}" if element else "an index"
        reasons.append(f"{where}, due on rank {rank}, is on none of its paired ranks {list(heard)}")
    lost = {
        request: f"block {ordinal} of {frame.case.model.groups[group].name} is due on rank {rank}; no source holds it"
        for request, (rank, group, ordinal) in frame.lost.items()
    }
    topologies = (frame.case.context.topology, frame.case.generation.topology)
    if any(topology.cp > 1 for topology in topologies):
        # Chunks of a context-parallel transfer are refused (spec: blocks, decisions): that right bytes come
        # all the same is no fault of bytes, so the judge takes both answers.
        for request in range(len(frame.case.requests)):
            if goes_in_slices(frame.case, request):
                lost.setdefault(request, "its prompt is cut into slices, with context parallelism")
    return tuple(reasons), lost
