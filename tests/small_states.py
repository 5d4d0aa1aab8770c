"""Cases of one request with states, of at most four short blocks and one layer, drawn from a random generator."""

from __future__ import annotations

from collections.abc import Iterator
from random import Random

from oracle.model.case import Case, Request, SideState
from oracle.model.errors import InvalidCase
from oracle.model.instance import Instance
from oracle.model.topology import Topology
from tests.small_cases import group, model_of

MODEL = "key @ 0 : T D(1) ; 8"


def small_states(seed: int, *, most_blocks: int = 4) -> Iterator[Case]:
    """Endless; every state that can be has its chance, and fewer blocks a better one."""
    random = Random(seed)
    while True:
        try:
            yield _draw(random, most_blocks)
        except InvalidCase:  # a state that cannot be
            continue


def _draw(random: Random, most_blocks: int) -> Case:
    pick = random.choice
    size = pick((1, 2, 3))
    blocks = min(random.randint(1, most_blocks), random.randint(1, most_blocks))
    prompt = random.randint((blocks - 1) * size + 1, blocks * size)
    managers = pick(("v1", "v2")), pick(("v1", "v2"))
    window = pick((None, *range(1, prompt + 2)))
    sinks = pick((0, 0, 1, size + 1)) if window and managers == ("v2", "v2") else 0
    parallel = pick(((1, 1), (1, 1), (1, 1), (1, 2), (2, 1)))
    beams = pick((1, 1, 2, 3)) if managers == ("v1", "v1") and parallel == (1, 1) else 1

    def side() -> SideState:
        speculates = beams == 1
        return SideState(
            cached=pick((0, 0, random.randint(0, prompt))),
            extra=pick((0, 1, size)) * speculates,
            drafts=pick((0, 1, 2, size, size + 1)) * speculates,
            reached=pick((0, 0, prompt, prompt + 1, prompt + size, prompt + size + 1)),
            tails=random.randrange(beams),
        )

    cuts = ()
    if beams == 1 and prompt > 1:
        cuts = tuple(sorted({random.randint(1, prompt - 1) for _ in range(pick((0, 0, 1, 2)))}))
    instances = [
        Instance(
            Topology(cp=cp),
            size,
            manager=manager,
            reserve=(("kv", pick((0, 0, 1, size, size + 1, 4))),),
            scratch=pick((None, None, 0, 1)) if manager == "v2" else None,
            look_ahead=pick((0, 1)) if manager == "v2" else 0,
        )
        for manager, cp in zip(managers, parallel, strict=True)
    ]
    request = Request(0, prompt, cuts=cuts, context=side(), generation=side(), beams=beams)
    return Case(model_of(group(MODEL, window=window, sinks=sinks)), *instances, (request,))
