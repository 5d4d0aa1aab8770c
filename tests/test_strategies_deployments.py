"""A deployment is a model's name and a few parameters, and a wrong parameter is named with what would be accepted."""

from __future__ import annotations

import pytest

from oracle.model.buffers import Model
from oracle.model.case import Case
from oracle.model.errors import InvalidCase
from oracle.model.sides import lay_out
from strategies.deployments import deployment
from strategies.kinds import find_kind
from strategies.kinds.pieces import layers, paged, rows
from strategies.kinds.protocol import Declaration, PublishedModel, Surroundings


def stages(model: str, pp: object) -> tuple[int, ...]:
    return deployment(model, {"pp": pp}, {}, prompt=1).context.topology.stages


@pytest.mark.parametrize(
    ("model", "pp", "expected"),
    [
        ("llama-3-70b", 1, (80,)),
        ("llama-3-70b", 3, (27, 27, 26)),
        ("llama-3-70b", "3", (27, 27, 26)),
        ("llama-3-70b", "26+27+27", (26, 27, 27)),
        ("llama-3-70b", [40, 0, 40], (40, 0, 40)),
        ("deepseek-v3", 1, (62,)),
        ("deepseek-v3", 2, (31, 31)),
        ("deepseek-v3", 4, (16, 15, 15, 16)),
        ("deepseek-v3", "31+30", (31, 31)),
        ("deepseek-v3", "31+31", (31, 31)),
    ],
)
def test_stages_are_cut_evenly_or_as_listed_with_mtp_on_the_last(
    model: str, pp: object, expected: tuple[int, ...]
) -> None:
    assert stages(model, pp) == expected


def test_parameters_become_the_two_instances() -> None:
    case = deployment(
        "qwen3-32b",
        {"tp": 4, "dp": "on", "layout": "NHD"},
        {"tp": "2", "pp": 2, "cp": 2},
        prompt=[100, 33, 7],
        tokens_per_block=16,
        cached=50,
    )
    assert isinstance(case, Case)
    context, generation = case.context.topology, case.generation.topology
    assert (context.tp, context.pp, context.cp, context.attention_dp) == (4, 1, 1, True)
    assert (generation.tp, generation.stages, generation.cp, generation.attention_dp) == (2, (32, 32), 2, False)
    assert (case.context.layout, case.generation.layout) == ("NHD", "HND")
    assert case.context.tokens_per_block == case.generation.tokens_per_block == 16
    assert [request.prompt for request in case.requests] == [100, 33, 7]
    assert [request.context_dp for request in case.requests] == [0, 1, 2]
    assert [request.generation.cached for request in case.requests] == [50, 33, 7]
    assert case.kind == "gqa"
    assert case.native is not None
    assert len(lay_out(case, "generation").tables) == 8


def test_a_model_without_heads_has_no_layout() -> None:
    case = deployment("deepseek-v3", {"layout": "NHD"}, {}, prompt=1)
    assert case.context.layout == case.generation.layout == ""


def test_an_own_model_can_be_deployed() -> None:
    declaration = find_kind("gqa").decode((0, 0, 0, 0), Surroundings(4))
    case = deployment(declaration.model, {"pp": 2}, {}, prompt=9, native=declaration.native, tokens_per_block=4)
    assert case.model is declaration.model
    assert case.context.topology.stages == (2, 2)
    assert case.kind == ""


@pytest.mark.parametrize(
    ("model", "context", "message"),
    [
        ("lama-3-70b", {}, "model = 'lama-3-70b' is not possible: did you mean llama-3-70b"),
        (7, {}, "model = 7 is not possible: expected the name of a published model, or a Model"),
        ("qwen3-32b", {"tpp": 2}, "context parameter = 'tpp' is not possible: did you mean tp"),
        ("qwen3-32b", {"ranks": 2}, "expected tp, pp, cp, dp, layout"),
        ("qwen3-32b", {"tp": 0}, "context.tp = 0 is not possible: expected a whole number of at least 1"),
        ("qwen3-32b", {"tp": "two"}, "context.tp = 'two' is not possible"),
        ("qwen3-32b", {"cp": 1.5}, "context.cp = 1.5 is not possible"),
        ("qwen3-32b", {"dp": "perhaps"}, "context.dp = 'perhaps' is not possible: expected on or off"),
        ("qwen3-32b", {"dp": 2}, "context.dp = 2 is not possible: expected on or off"),
        ("qwen3-32b", {"layout": "DNH"}, "context.layout = 'DNH' is not possible: expected HND or NHD"),
        ("qwen3-32b", {"pp": 65}, "context.pp = 65 is not possible: expected at most one stage for each of 64 layers"),
        ("qwen3-32b", {"pp": "32+x"}, "context.pp = 'x' is not possible"),
        ("qwen3-32b", {"pp": []}, "expected stages of 64 layers in all"),
        ("qwen3-32b", {"pp": "32+31"}, r"context.pp = '32\+31' is not possible: expected stages of 64 layers in all$"),
        ("deepseek-v3", {"pp": "31+29"}, "expected stages of 62 layers in all, or 61 without the 1 appended"),
    ],
)
def test_a_wrong_parameter_is_named_with_what_is_accepted(model: str, context: dict[str, object], message: str) -> None:
    with pytest.raises(InvalidCase, match=message):
        deployment(model, context, {}, prompt=1)


@pytest.mark.parametrize(
    ("parameters", "message"),
    [
        ({"prompt": 0}, "prompt = 0"),
        ({"prompt": [4, -1]}, "prompt = -1"),
        ({"prompt": []}, "requests = "),
        ({"prompt": 1, "tokens_per_block": 0}, "tokens_per_block = 0"),
        ({"prompt": 1, "cached": -1}, "cached = -1"),
        ({"prompt": 1, "element_bits": 4}, "element bits of qwen3-32b = 4 is not possible: expected one of 16, 8"),
        ({"prompt": 1, "layout": ""}, "context.layout = ''"),
    ],
)
def test_a_wrong_request_is_refused(parameters: dict[str, object], message: str) -> None:
    with pytest.raises(InvalidCase, match=message):
        deployment("qwen3-32b", {}, {}, **parameters)  # type: ignore[arg-type]


def test_what_a_model_cannot_be_is_told_with_its_kind_and_its_name() -> None:
    with pytest.raises(InvalidCase) as caught:
        deployment("nemotron-h-8b", {"tp": 3}, {"tp": 8}, prompt=1)
    assert str(caught.value) == (
        "kind mamba2: model nemotron-h-8b: buffer ssm_state, axis H = 128 is not possible: "
        "an even split over 3 ranks needs a multiple of 3"
    )


def test_a_published_model_that_cannot_be_built_is_told_with_its_kind(monkeypatch: pytest.MonkeyPatch) -> None:
    def build(bits: int) -> Declaration:
        twice = tuple(rows("key", layers(range(2)), 4, bits) for _ in range(2))
        return Declaration(Model(2, (paged("kv", twice),)), None)

    odd = PublishedModel("twice", "Twice", 2, build, "made for a test", "general knowledge")
    monkeypatch.setattr("strategies.deployments.find_model", lambda name: (find_kind("gqa"), odd))
    with pytest.raises(InvalidCase) as caught:
        deployment("twice", {}, {}, prompt=1)
    assert str(caught.value) == (
        "kind gqa: model twice: group kv.buffers = (0, 'key') is not possible: two buffers have one key"
    )
