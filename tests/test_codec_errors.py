"""A case file is read strictly: every error names the path, quotes the value and says what is accepted."""

from __future__ import annotations

import copy
import json
from collections.abc import Iterator

import pytest

from oracle.model import upgrades
from oracle.model.case import SIDES
from oracle.model.codec import case_id, decode, encode, from_plain, to_plain
from oracle.model.errors import InvalidCase, MalformedFile, NewerSchema
from tests.test_codec import DATA, RECORDED, recorded

Path_ = tuple[object, ...]


def every_field() -> dict[str, object]:
    return json.loads(recorded("case_v1_every_field.json"))


def places(value: object, path: Path_ = ()) -> Iterator[tuple[Path_, object]]:
    """(path, value) of everything inside ``value``."""
    if isinstance(value, (dict, list)):
        for key, inner in value.items() if isinstance(value, dict) else enumerate(value):
            yield (*path, key), inner
            yield from places(inner, (*path, key))


def spelled(path: Path_) -> str:
    """``path`` as errors name it."""
    return "".join(f"[{key}]" if isinstance(key, int) else f".{key}" for key in path).removeprefix(".")


def replaced(plain: dict[str, object], path: Path_, value: object) -> dict[str, object]:
    plain = copy.deepcopy(plain)
    inner = plain
    for key in path[:-1]:
        inner = inner[key]  # type: ignore[index]
    inner[path[-1]] = value  # type: ignore[index]
    return plain


def refusal(plain: object) -> InvalidCase:
    with pytest.raises(InvalidCase) as caught:
        from_plain(plain)  # type: ignore[arg-type]
    return caught.value


PATHS = [path for path, _ in places(every_field())]


@pytest.mark.parametrize("wrong", [None, True, 2.0, -7, "?", [], {}, [[]], {"?": 1}, 10**30], ids=repr)
def test_a_wrong_value_anywhere_is_refused_or_another_case(wrong: object) -> None:
    plain = every_field()
    for path in PATHS:
        try:
            case = from_plain(replaced(plain, path, wrong))
        except InvalidCase as error:
            assert error.argument and error.accepted
        else:
            assert decode(encode(case)) == case


@pytest.mark.parametrize("wrong", [True, 2.0, "2", None], ids=repr)
def test_only_a_whole_number_is_one(wrong: object) -> None:
    plain = every_field()
    numbers = [path for path, value in places(plain) if type(value) is int and path != ("schema",)]
    assert len(numbers) > 60
    for path in numbers:
        error = refusal(replaced(plain, path, wrong))
        assert type(error) is MalformedFile
        assert str(error) == f"{spelled(path)} = {wrong!r} is not possible: expected a whole number"


@pytest.mark.parametrize("wrong", [7, None, True, ["full"]], ids=repr)
def test_only_a_text_is_one(wrong: object) -> None:
    plain = every_field()
    texts = [path for path, value in places(plain) if type(value) is str]
    assert len(texts) > 25
    for path in texts:
        error = refusal(replaced(plain, path, wrong))
        assert type(error) is MalformedFile
        assert str(error) == f"{spelled(path)} = {wrong!r} is not possible: expected a text in quotes"


def test_no_size_position_or_number_may_be_negative() -> None:
    plain = every_field()
    for path, value in places(plain):
        # in slot lists -1 says that there is no slot, -2 says nothing
        if type(value) is int:
            assert "-2" in repr(refusal(replaced(plain, path, -2)).value), path


def test_an_unknown_field_is_refused_with_its_path_in_every_object() -> None:
    plain = every_field()
    # the keys of these objects are names and numbers of the case
    open_objects = {"layouts", "element_bits", "packing", "page_tables", "reserve", "lengths", "counts", "mappers"}
    objects = [(), *(path for path, value in places(plain) if isinstance(value, dict))]
    closed = [path for path in objects if not ({*path[-1:]} & open_objects or {*path[:1]} & {"tables", "presented"})]
    assert len(closed) >= 20
    for path in closed:
        error = refusal(replaced(plain, (*path, "zzz"), 7))
        assert type(error) is MalformedFile
        assert error.argument == spelled((*path, "zzz"))
        assert error.accepted.startswith("unknown field; expected one of ")


def test_a_missing_field_is_refused_with_its_path() -> None:
    plain = json.loads(recorded("case_v1_dense.json"))
    optional = {"kind", "native"}
    inside = {("native", "mappers"), ("native", "mappers", "all"), ("native",), ("kind",)}
    for path, _ in places(plain):
        if path in inside or isinstance(path[-1], int):
            continue
        without = copy.deepcopy(plain)
        inner = without
        for key in path[:-1]:
            inner = inner[key]
        del inner[path[-1]]
        error = refusal(without)
        assert (error.argument, error.value) == (spelled(path), None)
        assert error.accepted.startswith("missing field; ")
    assert from_plain({name: value for name, value in plain.items() if name not in optional}).kind == ""


MESSAGES = [
    (("context", "tpp"), 4, "context.tpp = 4 is not possible: unknown field; did you mean tp?"),
    (
        ("requests", 0, "zzz"),
        [],
        "requests[0].zzz = [] is not possible: unknown field; expected one of content, prompt, context_dp, "
        "generation_dp, lengths, cuts, context, generation, beams",
    ),
    (
        ("witness",),
        {},
        "witness = {} is not possible: unknown field; expected one of schema, kind, model, native, context, "
        "generation, requests, contents, slots, tables, presented, notes",
    ),
    (("context", "tp"), True, "context.tp = True is not possible: expected a whole number"),
    (("context", "tp"), 0, "context.tp = 0 is not possible: expected a whole number of at least 1"),
    (("context", "stages"), "1", "context.stages = '1' is not possible: expected a list"),
    (("context", "stages", 1), 1.0, "context.stages[1] = 1.0 is not possible: expected a whole number"),
    (("context", "layout"), "HDN", "context.layout = 'HDN' is not possible: expected HND, NHD or nothing"),
    (("generation", "attention_dp"), 1, "generation.attention_dp = 1 is not possible: expected true or false"),
    (("generation", "manager"), "v3", "generation.manager = 'v3' is not possible: expected v1 or v2"),
    (("model", "groups", 3, "kind"), "ring", "model.groups[3].kind = 'ring' is not possible: expected paged or state"),
    (("model", "groups"), {}, "model.groups = {} is not possible: expected a list"),
    (
        ("model", "groups", 1, "buffers", 0),
        "near @ 0,2 : T D(8) ; 16 ; nevr",
        "model.groups[1].buffers[0] = 'near @ 0,2 : T D(8) ; 16 ; nevr' is not possible: at column 28, 'nevr': "
        "expected one of sub(rows), send, derived, rebuilt, never, optional, own, pad(bytes), align(bytes), "
        "fused(name), x(pages), request, first_local, ids 2m+1, alias 4..7; did you mean never?",
    ),
    (
        ("model", "groups", 1, "buffers", 0),
        7,
        "model.groups[1].buffers[0] = 7 is not possible: expected a text in quotes",
    ),
    (
        ("model", "groups", 1, "window"),
        0,
        "model.groups[1]: group local.window = 0 is not possible: expected a whole number of at least 1",
    ),
    (
        ("model", "draft"),
        "3..",
        "model.draft = '3..' is not possible: at column 4, the end: expected a last layer of at least 3",
    ),
    (("model", "draft"), "9", "model.draft = 9 is not possible: the model has 4 layers"),
    (
        ("requests", 0, "cuts"),
        [12, 4],
        "requests[0]: request.cuts = (12, 4) is not possible: expected ascending token positions in 1..16",
    ),
    (("requests", 1, "content"), 2, "requests[1].content = 2 is not possible: 2 contents exist"),
    (
        ("requests",),
        [],
        "tables.context.0.full = [[4, -1, 2], None] is not possible: expected 0 lists of slots or null, one a request",
    ),
    (("model", "groups"), [], "model.groups = () is not possible: expected at least one group"),
    (
        ("generation", "page_tables", "0", "pools", 1),
        [64, 7],
        "generation.page_tables.0.pools[1] = [64, 7] is not possible: expected a list of slot_bytes, count, "
        "slot_stride, layer_stride, pool_group",
    ),
    (
        ("generation", "page_tables", "0", "entries", 0, 3),
        0,
        "generation.page_tables.0.entries[0][3] = 0 is not possible: expected a text in quotes",
    ),
    (
        ("generation", "page_tables", "0", "entries", 0, 5),
        9999,
        "generation.page_tables.0: entry.offset = 0 is not possible: the entry ends past its slot of 1024 B",
    ),
    (
        ("generation", "page_tables", "01"),
        {},
        "generation.page_tables = '01' is not possible: expected the number of a rank in quotes, such as \"0\"",
    ),
    (
        ("tables", "context", "0", "full"),
        [[1]],
        "tables.context.0.full = [[1]] is not possible: expected 2 lists of slots or null, one a request",
    ),
    (
        ("tables", "context", "0", "full", 1),
        [-2],
        "tables.context.0.full[1].slots = (-2,) is not possible: expected slot numbers, or -1 for none",
    ),
    (("tables", "receiver"), {}, "tables.receiver = {} is not possible: unknown field; expected context or generation"),
    (("tables", "context", "9"), {"full": [[1], None]}, "tables.context.9.full = 9 is not possible: ranks 0..7 exist"),
    (
        ("slots", "counts", "ful"),
        3,
        "slots.counts = 'ful' is not possible: expected one of ['full', 'local', 'draft', 'state']",
    ),
    (
        ("native", "mappers", "key"),
        "hnd",
        "native: native mapper of key = 'hnd' is not possible: expected one of indexed, nhd, replicated, sectioned",
    ),
    (("schema",), 2, "schema = 2 is not possible: this version knows schemas up to 1; a later one wrote the file"),
    (("schema",), "1", "schema = '1' is not possible: expected a schema number from 1 to 1"),
    (("schema",), 0, "schema = 0 is not possible: expected a schema number from 1 to 1"),
]


@pytest.mark.parametrize(("path", "value", "told"), MESSAGES, ids=lambda part: str(part)[:40])
def test_an_error_names_path_value_and_what_is_accepted(path: Path_, value: object, told: str) -> None:
    assert str(refusal(replaced(every_field(), path, value))) == told


def test_a_long_value_is_quoted_in_part() -> None:
    error = refusal(replaced(every_field(), ("context", "tp"), list(range(1000))))
    assert len(str(error)) < 130
    assert str(error).startswith("context.tp = '[0, 1, 2, ")


# ---- text that is no case file


def malformed(text: str) -> MalformedFile:
    with pytest.raises(MalformedFile) as caught:
        decode(text)
    return caught.value


@pytest.mark.parametrize("name", RECORDED)
def test_a_file_that_was_cut_short_is_malformed_wherever_it_was_cut(name: str) -> None:
    text = recorded(name).rstrip()
    for end in range(len(text)):
        error = malformed(text[:end])
        assert "line " in error.accepted and "column " in error.accepted


@pytest.mark.parametrize(
    ("text", "told"),
    [
        ("", "case file = '' is not possible: the text ends at line 1, column 1: it was cut short"),
        (
            '{\n "schema": 1,',
            "case file = '{\\n \"schema\": 1,' is not possible: the text ends at line 2, column 14: it was cut short",
        ),
        ('{"schema": 1;}', "case file = ';}' is not possible: not JSON at line 1, column 13: Expecting ',' delimiter"),
        ("PK\x03\x04", "case file = 'PK\\x03\\x04' is not possible: not JSON at line 1, column 1: Expecting value"),
        ("[]", "case file = [] is not possible: expected an object"),
        ('{"schema": NaN}', "case file = 'NaN' is not possible: JSON has no such number"),
        ('{"schema": 1, "schema": 1}', "schema = 'schema' is not possible: expected each key once in an object"),
        (
            '{"schema": 1, "requests": [{"content": 0}, {"context": {"cached": 1, "cached": 2}}]}',
            "requests[1].context.cached = 'cached' is not possible: expected each key once in an object",
        ),
        ("{}", "schema = None is not possible: missing field; expected a schema number such as 1"),
    ],
)
def test_what_is_no_case_file_is_malformed(text: str, told: str) -> None:
    assert str(malformed(text)) == told


def test_text_that_the_parser_gives_up_on_is_malformed() -> None:
    assert "not to be read" in malformed("[" * 200_000).accepted
    assert "not to be read" in malformed('{"schema": ' + "1" * 5000 + "}").accepted
    assert str(malformed(b"{}")) == "case file = 'bytes' is not possible: expected a text"  # type: ignore[arg-type]


# ---- other schemas


def test_a_newer_schema_is_told_with_the_one_that_is_known() -> None:
    error = refusal({**every_field(), "schema": 9, "a later field": 1})
    assert type(error) is NewerSchema
    assert error.accepted == "this version knows schemas up to 1; a later one wrote the file"


def test_an_older_schema_is_upgraded_step_by_step(monkeypatch: pytest.MonkeyPatch) -> None:
    """Schema 1 is made an old one here, in which sides were called sender and receiver, and tp world."""

    def name_sides(plain: dict[str, object]) -> dict[str, object]:
        names = {"sender": "context", "receiver": "generation"}
        return {names.get(name, name): value for name, value in plain.items()}

    def name_tp(plain: dict[str, object]) -> dict[str, object]:
        renamed = {side: {"tp" if k == "world" else k: v for k, v in plain[side].items()} for side in SIDES}
        return {**plain, **renamed}

    new = json.loads(recorded("case_v1_dense.json"))
    old = {{"context": "sender", "generation": "receiver"}.get(name, name): value for name, value in new.items()}
    for side in ("sender", "receiver"):
        old[side] = {"world" if name == "tp" else name: value for name, value in old[side].items()}
    before = copy.deepcopy(old)

    monkeypatch.setattr(upgrades, "SCHEMA", 3)
    monkeypatch.setattr(upgrades, "UPGRADES", {1: name_sides, 2: name_tp})
    case = from_plain(old)
    assert old == before
    assert to_plain(case) == {**new, "schema": 3}
    assert case_id(case) == RECORDED["case_v1_dense.json"]
    assert from_plain({**new, "schema": 3}) == case
    assert refusal({**old, "schema": 3}).argument == "sender"
    assert type(refusal({**new, "schema": 4})) is NewerSchema


def test_every_older_schema_has_an_upgrade_and_a_recorded_file() -> None:
    assert sorted(upgrades.UPGRADES) == list(range(1, upgrades.SCHEMA))
    for schema in range(1, upgrades.SCHEMA + 1):
        assert list(DATA.glob(f"case_v{schema}_*.json")), schema
    for path in DATA.glob("case_v*.json"):
        assert json.loads(path.read_text(encoding="utf-8"))["schema"] == int(path.name.split("_")[1][1:])
