"""Small cases with cache states of both managers, drawn so that lengths land on blocks and the sides differ."""

from __future__ import annotations

from hypothesis import assume
from hypothesis import strategies as st

from oracle.model.buffers import Model
from oracle.model.case import Case, Content, Native, Request, SideState, Slots
from oracle.model.errors import InvalidCase
from oracle.model.instance import Instance
from oracle.model.topology import Topology
from tests.small_cases import group

BUFFERS = ("key @ {layer} : H(2).heads T D(1) ; 8", "value @ {layer} : H(2).heads T D(1) ; 8")
STATE = "ssm @ 0 : H(2).even@TPCP P(1) ; 8"
TOPOLOGIES = (Topology(), Topology(2), Topology(2, (1,), attention_dp=True))


@st.composite
def stated_cases(draw: st.DrawFn) -> Case:
    """Cases of one or two requests in one to three groups; every state that can be is among them."""

    def number(*options: int) -> int:
        return options[draw(st.integers(0, 63)) % len(options)]

    size = number(4, 1, 2, 3, 8)
    prompts = [max(1, number(1, 2, 3, 5, 8) * size + number(0, 0, 1, -1, size // 2)) for _ in range(number(1, 1, 2))]
    prompt = prompts[0]
    managers = number(0, 1, 2, 3, 0)
    first, second = ("v2", "v1")[managers % 2], ("v2", "v1")[managers // 2 % 2]
    helix = number(0, 0, 0, 1)
    beams = number(1, 1, 1, 2, 3, 4) if managers == 3 and not helix else 1
    groups = []
    for index in range(number(1, 1, 2)):
        back = number(-1, 0, 1, 2)
        window = (None, None, prompt + back, size + back, number(1, 2, 3) * size + back, prompt - size + back)[
            number(2, 1, 3, 4, 5)
        ]
        window = None if window is None else max(1, window)
        sinks = number(0, 0, 1, size, size + 1) if window and "v1" not in (first, second) else 0
        buffers = [buffer.format(layer=index) for buffer in BUFFERS]
        groups.append(group(*buffers, name=f"g{index}", window=window, sinks=sinks, domain=f"d{index}"))
    layers = len(groups)
    if number(0, 0, 0, 1):
        groups.append(group(STATE, name="state", state=True))
    requests = []
    for index, tokens in enumerate(prompts):
        sides = []
        for _ in (first, second):
            plain = beams > 1
            sides.append(
                SideState(
                    cached=min(tokens, number(0, 0, size, size // 2, tokens // 2, tokens - 1, tokens)),
                    extra=0 if plain else number(0, 1, size),
                    drafts=0 if plain else number(0, 0, 1, 2, size, 2 * size),
                    reached=number(0, 0, tokens, tokens + 1, *(() if plain else (tokens + size, tokens + 2 * size))),
                    tails=number(*range(beams)) if tokens % size else 0,
                )
            )
        cuts = ()
        if beams == 1 and tokens > 1:
            places = (size, size // 2 + 1, tokens - 1, tokens // 2, 2 * size, tokens - size)
            cuts = tuple(sorted({max(1, min(tokens - 1, number(*places))) for _ in range(number(0, 0, 1, 2, 3))}))
        requests.append(Request(index, tokens, cuts=cuts, context=sides[0], generation=sides[1], beams=beams))
    # A receiver's reserve covers what it went beyond the prompt.
    beyond = [r.room("generation") - 1 if second == "v1" else r.generation.reached for r in requests]
    least = max(0, *(most - request.prompt for most, request in zip(beyond, requests, strict=True)))
    instances = []
    for which, receives in ((first, False), (second, True)):
        topology = TOPOLOGIES[number(0, 0, 1, 2)]
        if helix and receives:
            topology = Topology(1, (1,), number(2, 3, 4))
        stages = (layers,) if number(0, 0, 1) == 0 or layers == 1 else (1, layers - 1)
        topology = Topology(topology.tp, stages, topology.cp, topology.attention_dp)
        instances.append(
            Instance(
                topology,
                size,
                manager=which,
                reserve=tuple(
                    (f"g{index}", max(least if receives else 0, number(0, 1, size, 2 * size + 1)))
                    for index in range(layers)
                ),
                scratch=(None, None, 0, 1, size)[number(0, 1, 2, 3, 4)] if which == "v2" else None,
                look_ahead=number(0, 1, 2) if which == "v2" else 0,
            )
        )
    contents = [Content(), Content(0, min(prompts[0], number(size, size + 1, 2)))][: len(prompts)]
    try:
        return Case(
            Model(layers, tuple(groups)),
            *instances,
            tuple(requests),
            tuple(contents),
            Slots(1 + number(0, 1, 2), 3),
            native=Native((("all", "indexed"),)),
        )
    except InvalidCase:  # a state that cannot be, which is for another test
        assume(False)
        raise
