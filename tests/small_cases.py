"""Small cases of every feature of the vocabulary, for tests of truth: short to build, and drawn at random."""

from __future__ import annotations

from collections.abc import Sequence

from hypothesis import assume
from hypothesis import strategies as st

from oracle.model.buffers import GroupKind, LayerGroup, Model
from oracle.model.case import Case, Content, Request, SideState, Slots
from oracle.model.errors import InvalidCase
from oracle.model.instance import Instance, Without
from oracle.model.layers import LayerSet
from oracle.model.notation import parse_buffer
from oracle.model.sides import lay_out
from oracle.model.topology import Topology


def group(*buffers: str, name: str = "kv", state: bool = False, **options: object) -> LayerGroup:
    """A group of buffers in the text notation."""
    kind = GroupKind.STATE if state else GroupKind.PAGED
    return LayerGroup(name, kind, tuple(map(parse_buffer, buffers)), **options)  # type: ignore[arg-type]


def model_of(*groups: LayerGroup, layers: int = 1) -> Model:
    return Model(layers, groups)


def topology(text: str, layers: int = 1) -> Topology:
    """``tp4``, ``tp2 cp2``, ``tp2 dp``, ``tp1 pp1+0+1`` (layers per stage)."""
    given: dict[str, object] = {"stages": (layers,)}
    for word in text.split():
        name, value = word[:2], word[2:]
        if word == "dp":
            given["attention_dp"] = True
        elif name == "pp":
            given["stages"] = tuple(map(int, value.split("+")))
        else:
            given[name] = int(value)
    return Topology(**given)  # type: ignore[arg-type]


def case_of(
    model: Model | LayerGroup | str,
    context: str = "tp1",
    generation: str = "tp1",
    *,
    prompts: Sequence[int] | int = 2,
    size: int = 2,
    sides: dict[str, object] | None = None,
    context_side: dict[str, object] | None = None,
    generation_side: dict[str, object] | None = None,
    **options: object,
) -> Case:
    """A case from a model, a group or one buffer, two topologies as text, prompt lengths and tokens per block."""
    if isinstance(model, str):
        model = group(model)
    if isinstance(model, LayerGroup):
        model = Model(max(model.layers) + 1, (model,))
    prompts = (prompts,) if isinstance(prompts, int) else prompts
    options.setdefault("requests", tuple(Request(number, prompt) for number, prompt in enumerate(prompts)))
    both = {"tokens_per_block": size, **(sides or {})}
    instances = (
        Instance(topology(text, model.layers), **{**both, **(own or {})})
        for text, own in ((context, context_side), (generation, generation_side))
    )
    return Case(model, *instances, **options)  # type: ignore[arg-type]


PAGED = (
    ("key @ {all} : H({n}).heads T D(2) ; 8",),
    ("key @ {all} : H({n}).heads T D(1) ; 8", "value @ {all} : H({n}).heads T D(1) ; 8"),
    ("key @ {all} : T D(3) ; 8",),
    ("key @ {all} : T H({n}).heads D(1) ; 16", "index_key @ {last} : T D(2) ; 8"),
    ("key @ {all} : H({n}).floor T D(2) ; 8",),
    ("key @ {all} : H({n}).cyc T D(1) ; 8",),
    ("key @ {all} : H({n}).heads T D(4) ; 4", "key_block_scale @ {all} : H({n}).heads T D(1) ; 8"),
    ("key @ {all} : T D(2) ; 8", "index_key @ {last} : T ; foot(2,2,1)"),
    ("key @ {all} : T(2) D(2) ; 8",),
    ("key @ {all} : H({n}).heads T D(1) ; 8 ; x(2)",),
    ("key @ {all} : T D(2) ; 8", "position @ {all} : T D(3) ; 8 ; request ; first_local"),
    ("key @ {all} : T D(2) ; 8 ; pad(16)", "hp @ {all} : R(3) D(1) ; 16"),
    ("key @ {all} : T D(2) ; 8", "vp @ {all} : T D(2) ; 8 ; derived(key)"),
    ("key @ {all} : H({n}).heads T D(1) ; 8", "draft @ {last} : T D(2) ; 8 ; optional(either)"),
    (
        "key @ {all} : T D(2) ; 8 ; fused(kv)",
        "value @ {all} : T D(1) ; 8 ; fused(kv)",
        "odd @ {last} : T D(1) ; 8 ; never",
    ),
)
STATE = (
    ("ssm @ {all} : H(12).even@TPCP P(2) ; 8",),
    ("ssm @ {all} : H(12).even@TPCP P(1) ; 8", "conv @ {all} : C[x:24.even, B:2.all, C:12.even]@TPCP W(1) ; 16"),
    ("ple @ {last} : C(3) W(2) ; 8", "ssm @ {all} : H(5).floor@TPCP P(1) ; 8"),
)
TOPOLOGIES = ("tp1", "tp2", "tp4", "tp3", "tp2 cp2", "tp1 cp2", "tp2 dp", "tp4 dp", "tp1 cp3")
PACKINGS = ("coalesced", "interleaved", "separate", "layer_major separate")


@st.composite
def small_cases(draw: st.DrawFn, *, even: bool = False) -> Case:
    """Cases of at most 3 layers, 4 ranks a side and 3 requests with any feature; ``even``: divisible sizes only."""
    number = st.integers(0, 63)
    layers = 1 + draw(number) % 3
    heads = (2, 4, 1)[draw(number) % 3] if even else (2, 4, 1, 3, 6)[draw(number) % 5]
    every, last = f"0..{layers - 1}", str(layers - 1)
    names = TOPOLOGIES[:3] if even else TOPOLOGIES

    def fill(texts: tuple[str, ...]) -> tuple[str, ...]:
        return tuple(text.format(all=every, last=last, n=heads) for text in texts)

    size = (2, 4)[draw(number) % 2]
    which = draw(number)
    prompts = [1 + draw(number) % (3 * size + 1) for _ in range(1 + draw(number) % 3)]
    window = (None, None, size + 1, 1, size)[draw(number) % 5]
    first = group(
        *fill(PAGED[which % len(PAGED)]),
        window=window,
        sinks=(0, 0, 1, size + 1)[draw(number) % 4] if window else 0,
    )
    groups = [first]
    shape = draw(number) % 4
    if shape == 1:
        groups.append(group(*fill(STATE[which % len(STATE)]), name="state", state=True))
    elif shape == 2:
        groups.append(
            group(
                *(t.replace("key", "local").replace("value", "local_value") for t in fill(PAGED[which % 3])),
                name="local",
                window=size,
                domain="second",
            )
        )
    model = Model(layers, tuple(groups))
    odd = draw(number)
    lacks = (Without(("draft",), LayerSet((layers - 1,))),) if which % len(PAGED) == 13 and odd % 3 == 1 else ()
    sides = []
    for side in ("context", "generation"):
        grid = names[draw(number) % len(names)]
        stages = {1: (f"{layers}", f"0+{layers}"), 2: ("2", "1+1"), 3: ("3", "1+2", "2+1", "1+0+2")}[layers]
        cut = stages[draw(number) % len(stages)]
        choice = draw(number)
        sides.append(
            Instance(
                topology(f"{grid} pp{cut}"),
                tokens_per_block=size,
                layout=("", "HND", "NHD")[choice % 3],
                layer_order=tuple(reversed(range(layers))) if choice % 5 == 1 else (),
                packing=tuple((each.name, PACKINGS[choice // 3 % 4]) for each in groups if choice % 2),
                reserve=(("kv", choice % 7),) if window and choice % 2 else (),
                without=lacks if side == "context" or odd % 2 else (),
            )
        )
    contents = [Content()]
    requests = []
    for index, prompt in enumerate(prompts):
        choice = draw(number)
        if index and choice % 3:
            contents.append(Content(choice % len(contents), choice % (2 * size + 1)) if choice % 3 == 1 else Content())
        requests.append(
            Request(
                len(contents) - 1,
                prompt,
                *(choice % side.topology.data_parallel for side in sides),
                generation=SideState(choice // 4 % (prompt + 1) if choice % 4 == 0 else 0),
            )
        )
    try:
        case = Case(model, *sides, tuple(requests), tuple(contents), Slots(1 + odd % 4, odd))
        lay_out(case, "context"), lay_out(case, "generation")
    except InvalidCase:  # shares that do not divide, a layer-major pool of uneven layers
        assume(False)
    return case
