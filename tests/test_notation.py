"""The notation says every buffer that can be built, in one way, and its errors point at the column."""

from __future__ import annotations

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from oracle.model.axes import Axis, Grid, Section, Split
from oracle.model.buffers import Buffer, Move, MoveState, Part, Placement
from oracle.model.errors import InvalidCase
from oracle.model.layers import LayerSet
from oracle.model.notation import format_buffer, format_layers, parse_buffer, parse_layers
from tests.kind_declarations import TEXTS

T = Axis("T", tokens_per_row=1)
IDENTIFIERS = st.sampled_from(["key", "H", "D", "R", "B", "rec", "foot", "none", "x", "m", "é", "a·", "_1", "ª"])
FREE_NAMES = IDENTIFIERS | st.text(max_size=3) | st.sampled_from(["T", '"', "\\", "\n", "a b", "\ud800"])
LAYERS = st.sets(st.integers(0, 40), min_size=1, max_size=8).map(LayerSet.of)
ANY_LAYERS = LAYERS | st.just(LayerSet())
SPLITS = st.sampled_from(Split)
GRIDS = st.sampled_from(Grid)
SECTIONS = st.lists(
    st.builds(Section, FREE_NAMES, st.integers(1, 3).map(lambda eighth: 8 * eighth), SPLITS),
    min_size=1,
    max_size=4,
    unique_by=lambda section: section.name,
)
MOVES = st.one_of(
    st.builds(Move, st.sampled_from([MoveState.SEND, MoveState.REBUILT, MoveState.NEVER]), st.none() | ANY_LAYERS),
    st.builds(Move, st.just(MoveState.DERIVED), st.none() | ANY_LAYERS, st.lists(FREE_NAMES, min_size=1, max_size=3)),
    st.builds(
        Move,
        st.just(MoveState.OPTIONAL),
        st.none() | ANY_LAYERS,
        st.just(()),
        st.sampled_from(["context", "generation", "either"]),
    ),
)
SMALL = st.integers(0, 4)


@st.composite
def placements(draw: st.DrawFn) -> Placement:
    pad, align = draw(st.sampled_from([(0, 0), (64, 0), (0, 576)]))
    return Placement(draw(st.booleans()), pad, align, draw(st.just("") | FREE_NAMES))


@st.composite
def axes(draw: st.DrawFn, name: str) -> Axis:
    """An axis other than T; its sizes are whole bytes at every element width."""
    if draw(st.booleans()):
        return Axis(name, grid=draw(GRIDS), sections=tuple(draw(SECTIONS)))
    return Axis(name, 8 * draw(st.integers(1, 9)), draw(SPLITS), draw(GRIDS))


@st.composite
def parts(draw: st.DrawFn, token: Axis | None) -> Part:
    made = [draw(axes(name)) for name in draw(st.lists(IDENTIFIERS, max_size=3, unique=True))]
    if draw(st.booleans()) and "B" not in [axis.name for axis in made]:
        made.append(Axis("B", draw(st.integers(1, 700))))
        bits = 8
    else:
        bits = draw(st.sampled_from([1, 2, 4, 8, 12, 16, 32, 64]))
    if token is not None:
        made = [axis for axis in made if axis.name != "R"]
        made.insert(draw(st.integers(0, max(len(made) - 1, 0))), token)
    if not made or made[-1].is_token:
        bits = 16
    return Part(tuple(made), bits)


@st.composite
def buffers(draw: st.DrawFn) -> Buffer:
    """Buffers with every split, grid, section, element width, sub-page, move, placement, scope, alias and id."""
    token = draw(st.none() | st.builds(Axis, st.just("T"), grid=GRIDS, tokens_per_row=st.integers(1, 9)))
    many = draw(st.integers(1, 3)) if token else 1
    if many > 1 and draw(st.booleans()):  # a footer
        shared = (*(draw(axes(name)) for name in draw(st.lists(st.sampled_from("HD"), max_size=1))), token)
        declared = tuple(Part((*shared, Axis("B", draw(st.integers(1, 700)))), 8) for _ in range(many))
    else:
        declared = tuple(draw(parts(token)) for _ in range(many))
    sub_rows, expansion = draw(st.sampled_from([(0, 1), (64, 1), (0, 2)])) if token else (0, 1)
    request_scope = draw(st.booleans())
    layers = draw(LAYERS)
    above = draw(st.none() | ANY_LAYERS)
    alias = above and LayerSet(tuple(layer for layer in above if layer > layers.ids[0] and layer not in layers))
    return Buffer(
        draw(IDENTIFIERS),
        layers,
        declared,
        tuple(draw(st.just([Move()]) | st.lists(MOVES, max_size=3))),
        draw(placements()),
        sub_rows,
        expansion,
        request_scope,
        request_scope and (len(layers) > 1 or draw(st.booleans())),
        draw(st.just((1, 0)) | st.tuples(st.integers(1, 9), st.integers(0, 9))),
        alias,
    )


@settings(deadline=None)
@given(buffers())
@example(Buffer("k", LayerSet((0,)), (Part((), 8),)))
@example(Buffer("k", LayerSet((0,)), (Part((Axis("T", tokens_per_row=1),), 8),), moves=()))
@example(Buffer("k", LayerSet((0,)), (Part((Axis("rec", 4),), 16),)))
@example(Buffer("k", LayerSet((0,)), (Part((Axis("B", 4, Split.EVEN),), 8),)))
@example(Buffer("k", LayerSet((0,)), (Part((Axis("B", 4, grid=Grid.TPCP),), 8),)))
@example(Buffer("k", LayerSet((0,)), (Part((T, Axis("B", 4)), 8), Part((Axis("H", 2), T, Axis("B", 4)), 8))))
@example(Buffer("k", LayerSet((0,)), (Part((T, Axis("B", 4)), 8), Part((T, Axis("B", 4)), 16))))
def test_every_buffer_survives_the_notation(buffer: Buffer) -> None:
    text = format_buffer(buffer)
    assert parse_buffer(text) == buffer
    assert "\n" not in text


@settings(deadline=None)
@given(st.sets(st.integers(0, 60)).map(LayerSet.of))
def test_every_layer_set_survives_the_notation(layers: LayerSet) -> None:
    assert parse_layers(format_layers(layers)) == layers


@settings(deadline=None)
@given(buffers().map(format_buffer), st.data())
def test_a_damaged_text_is_another_buffer_or_an_invalid_case(text: str, data: st.DataObject) -> None:
    place = data.draw(st.integers(0, len(text)))
    cut = data.draw(st.integers(0, 3))
    put = data.draw(st.text(st.sampled_from('T(0);:.,@{}[]|+*x "\\'), max_size=3))
    damaged = text[:place] + put + text[place + cut :]
    try:
        buffer = parse_buffer(damaged)
    except InvalidCase as error:
        assert error.value == damaged
    else:
        assert parse_buffer(format_buffer(buffer)) == buffer


@pytest.mark.parametrize("text", TEXTS)
def test_every_published_kind_is_printed_as_it_is_declared(text: str) -> None:
    assert format_buffer(parse_buffer(text)) == text


MEANINGS = {
    "key @ 0..3 : H(4).heads T D(8) ; 16": Buffer(
        "key", LayerSet((0, 1, 2, 3)), (Part((Axis("H", 4, Split.HEADS), T, Axis("D", 8)), 16),)
    ),
    "ssm @ 0,2 : H(24).even@TPCP P(4) N(2) ; 32": Buffer(
        "ssm",
        LayerSet((0, 2)),
        (Part((Axis("H", 24, Split.EVEN, Grid.TPCP), Axis("P", 4), Axis("N", 2)), 32),),
    ),
    "conv @ 0 : C[x:8.even, B:2.all, C:2.cyc]@TPCP W(3) ; 16": Buffer(
        "conv",
        LayerSet((0,)),
        (
            Part(
                (
                    Axis(
                        "C",
                        grid=Grid.TPCP,
                        sections=(Section("x", 8), Section("B", 2, Split.ALL), Section("C", 2, Split.CYCLIC)),
                    ),
                    Axis("W", 3),
                ),
                16,
            ),
        ),
    ),
    "key @ 0 : T(2) ; rec(656)": Buffer(
        "key", LayerSet((0,)), (Part((Axis("T", tokens_per_row=2), Axis("B", 656)), 8),)
    ),
    "v_scale @ 0 : rec(4096) ; derived(key,scale) ; ids 2m": Buffer(
        "v_scale",
        LayerSet((0,)),
        (Part((Axis("B", 4096),), 8),),
        (Move(MoveState.DERIVED, None, ("key", "scale")),),
        ids=(2, 0),
    ),
    "swa @ 0 : T ; foot(64,576,8) ; align(576)": Buffer(
        "swa",
        LayerSet((0,)),
        (Part((T, Axis("B", 576)), 8), Part((T, Axis("B", 8)), 8)),
        placement=Placement(align=576),
        sub_rows=64,
    ),
    "index @ 0 : T ; foot(*,128,4)": Buffer(
        "index", LayerSet((0,)), (Part((T, Axis("B", 128)), 8), Part((T, Axis("B", 4)), 8))
    ),
    "key @ 0 : {H(4).heads T D(8)}:16 {H(4).heads T D(1)}:8 ; sub(64)": Buffer(
        "key",
        LayerSet((0,)),
        (
            Part((Axis("H", 4, Split.HEADS), T, Axis("D", 8)), 16),
            Part((Axis("H", 4, Split.HEADS), T, Axis("D", 1)), 8),
        ),
        sub_rows=64,
    ),
    "swa @ 0..5 : T ; rec(528) ; rebuilt@3..5 | optional(context)@2 | never ; own ; pad(64) ; fused(page) ; ids 7m+3": (
        Buffer(
            "swa",
            LayerSet((0, 1, 2, 3, 4, 5)),
            (Part((T, Axis("B", 528)), 8),),
            (
                Move(MoveState.REBUILT, LayerSet((3, 4, 5))),
                Move(MoveState.OPTIONAL, LayerSet((2,)), (), "context"),
                Move(MoveState.NEVER),
            ),
            Placement(own=True, pad=64, fused="page"),
            ids=(7, 3),
        )
    ),
    "position @ 3..11/4 : T D(3) ; 32 ; x(2) ; request ; first_local ; alias 5,8": Buffer(
        "position",
        LayerSet((3, 7, 11)),
        (Part((T, Axis("D", 3)), 32),),
        expansion=2,
        request_scope=True,
        first_local=True,
        alias=LayerSet((5, 8)),
    ),
    'k @ 0 : "rec"(4) "\\u00e9"(2) ; 8 ; moves() ; fused("a b") ; alias none': Buffer(
        "k",
        LayerSet((0,)),
        (Part((Axis("rec", 4), Axis("é", 2)), 8),),
        (),
        Placement(fused="a b"),
        alias=LayerSet(),
    ),
}


@pytest.mark.parametrize("text", MEANINGS)
def test_a_text_means_the_buffer_that_it_reads_as(text: str) -> None:
    assert parse_buffer(text) == MEANINGS[text]
    assert format_buffer(MEANINGS[text]) == text


@pytest.mark.parametrize(
    ("written", "printed"),
    [
        ("key @ 0,1,2 : H(4).heads T(1) D(8).all ; 16 ; send", "key @ 0..2 : H(4).heads T D(8) ; 16"),
        ("key@0..2:H(4).heads@TP T D(8);16", "key @ 0..2 : H(4).heads T D(8) ; 16"),
        ("conv @ 0 : C[8,4,4].sect@TPCP W(3) ; 16", "conv @ 0 : C[s0:8.even, s1:4.even, s2:4.even]@TPCP W(3) ; 16"),
        ("conv @ 0 : C[x:8, y:4].sect W(3) ; 16", "conv @ 0 : C[x:8.even, y:4.even] W(3) ; 16"),
        ("key @ 0..47/16 : T B(656) ; 8", "key @ 0..32/16 : T ; rec(656)"),
        ("key @ 0 : {T D(8)}:16", "key @ 0 : T D(8) ; 16"),
        ("key @ 0 : T ; 16 ; ids m+1 ; never ; own ; pad(0) ; x(1)", "key @ 0 : T ; 16 ; never ; own ; ids m+1"),
        ("index @ 0 : {T B(128)}:8 {T B(4)}:8 ; sub(64)", "index @ 0 : T ; foot(64,128,4)"),
    ],
)
def test_other_spellings_are_read_and_printed_in_one_way(written: str, printed: str) -> None:
    assert format_buffer(parse_buffer(written)) == printed


FIELDS = (
    "expected one of sub(rows), send, derived, rebuilt, never, optional, own, pad(bytes), align(bytes), fused(name), "
    "x(pages), request, first_local, ids 2m+1, alias 4..7"
)


@pytest.mark.parametrize(
    ("text", "told"),
    [
        ("key", "at column 4, the end: expected '@' and the layers"),
        ("7 @ 0 : T ; 8", "at column 1, '7': expected a role such as key"),
        ("key @ all : T ; 8", "at column 7, 'all': expected layers such as 0..3, 0..47/4, 1,3,8 or none"),
        ("key @ 3..0 : T ; 8", "at column 10, '0': expected a last layer of at least 3"),
        ("key @ 0..8/0 : T ; 8", "at column 12, '0': expected a step of at least 1"),
        ("key @ 0..9999999 : T ; 8", "at column 10, '9999999': expected at most 1048576 layers"),
        (
            "key @ 2,1 : T ; 8",
            "at column 7, layers = (2, 1): expected distinct layer ids in ascending order, none negative",
        ),
        ("key @ none : T ; 8", "buffer key.layers = '': expected at least one layer"),
        (
            "key @ 0 : ; 8",
            "at column 11, ';': expected axes such as H(4).heads T D(8), {axes}:bits, "
            "bits such as 16, rec(656) or foot(64,128,4)",
        ),
        ("key @ 0 : H.heads T ; 8", "at column 12, '.': expected '(' and the size of axis H"),
        (
            "key @ 0 : H(4).hads T ; 8",
            "at column 16, 'hads': expected a split: all, heads, floor, even, cyc; did you mean heads?",
        ),
        ("key @ 0 : H(4)@PCP T ; 8", "at column 16, 'PCP': expected the grid TP or TPCP; did you mean TPCP?"),
        ("key @ 0 : H(0) T ; 8", "at column 11, axis H.size = 0: expected a whole number of at least 1"),
        (
            "key @ 0 : T.even ; 8",
            "at column 11, axis T = 'T': the token axis has the length of the block and is never split",
        ),
        ("key @ 0 : C(8).sect ; 8", "at column 16, 'sect': expected sections such as C[8,4,4] before .sect"),
        ("key @ 0 : C[8,4] ; 8", "at column 18, ';': expected .sect, or a split of each section such as x:8.even"),
        ("key @ 0 : C[x:8.even,4] ; 8", "at column 23, ']': expected a split of each section, or of none and .sect"),
        ("key @ 0 : T D(8) 16", "at column 18, '16': expected another axis, or ';' and the element"),
        ("key @ 0 : T ; foot(64,8)", "at column 24, ')': expected ',' and the bytes of a row"),
        (
            "key @ 0 : T D(3) ; 4",
            "buffer key.parts = \"['T', 'D'] of 4 bits\": the innermost stored row must be whole bytes",
        ),
        ("key @ 0 : T ; 8 own", "at column 17, 'own': expected ';' and a field, or the end"),
        ("key @ 0 : T ; 8 ; nevr", f"at column 19, 'nevr': {FIELDS}; did you mean never?"),
        ("key @ 0 : T ; 8 ;", f"at column 18, the end: {FIELDS}"),
        ("key @ 0 : T ; 8 ; own ; own", "at column 25, 'own': expected each field once"),
        ("key @ 0 : T ; foot(64,8,1) ; sub(4)", "at column 30, 'sub': expected each field once"),
        ("key @ 0 : T ; 8 ; derived", "at column 26, the end: expected '(' and the roles it comes from"),
        ("key @ 0 : T ; 8 ; optional(both)", "at column 28, 'both': expected context, generation or either"),
        (
            "key @ 0 : T ; 8 ; send | nver",
            "at column 26, 'nver': expected a move: send, derived, rebuilt, never, optional; did you mean never?",
        ),
        ("key @ 0 : T ; 8 ; pad(1) ; align(2)", "place = 'pad(1) align(2)': expected one of the two"),
        (
            "key @ 0 : T ; 8 ; first_local",
            "buffer key.first_local = True: only a request-wide role may sit on the first local layer",
        ),
        ("key @ 0 : T(٣) ; 8", "at column 13, '٣': expected the tokens of a row"),
        ('key @ 0 : "\\q"(3) ; 8', "at column 11, '\"\\\\q\"': expected a JSON string"),
        (f"key @ 0 : T({'9' * 5000}) ; 8", f"at column 13, '{'9' * 5000}': expected the tokens of a row"),
    ],
)
def test_an_error_quotes_the_text_and_names_column_and_what_is_accepted(text: str, told: str) -> None:
    with pytest.raises(InvalidCase) as caught:
        parse_buffer(text)
    assert caught.value.argument == "buffer"
    assert caught.value.value == text
    assert caught.value.accepted == told


def test_what_is_no_text_is_refused() -> None:
    with pytest.raises(InvalidCase, match="expected a text such as 'key @ 0"):
        parse_buffer(["key"])  # type: ignore[arg-type]
    with pytest.raises(InvalidCase, match="layers = 3 is not possible: expected a text"):
        parse_layers(3)  # type: ignore[arg-type]
