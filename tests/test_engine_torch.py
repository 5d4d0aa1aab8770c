"""The torch engine leaves the memory that the host engine leaves, on tensors of its own, and says when it cannot."""

from __future__ import annotations

import importlib
import subprocess
import sys
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from differential.engines import EngineUnavailable, find_engine, names
from differential.engines.host import HostEngine
from differential.engines.memory import carry, planes_of
from differential.engines.memory.room import pool_bytes, require_room
from differential.engines.protocol import has_own_memory
from differential.managers.tables import gather_facts
from differential.runner import run_case
from differential.subjects.mapping import Mapping
from kvwitness.errors import CannotRun
from kvwitness.settings import Judged
from kvwitness.trial import Trial
from oracle.model.case import Case
from oracle.model.errors import InvalidCase
from oracle.model.writes import Segment, Writes
from oracle.truth.verdict import Outcome
from tests.face import Shell
from tests.reference import plan_of, read, right_rows
from tests.small_cases import case_of, small_cases

HOST = HostEngine()
TORCH = find_engine("torch")
MISSING = TORCH.available()
needs_torch = pytest.mark.skipif(MISSING is not None, reason=f"engine torch: {MISSING}")
HEADS = "key @ 0 : H(2).heads T D(2) ; 8"


@pytest.fixture
def shell(capsys: pytest.CaptureFixture[str]) -> Shell:
    return Shell(capsys)


def one_pool(size: int, seed: int = 0):  # type: ignore[no-untyped-def]
    """Random bytes of a source and an empty destination, as tensors in guarded storage of odd size."""
    import torch

    torch.manual_seed(seed)
    source = torch.randint(0, 254, (size + 13,), dtype=torch.uint8)[5 : 5 + size]
    destination = torch.full((size + 29,), 255, dtype=torch.uint8)[21 : 21 + size]
    return source, destination


def one_segment(rows: list[list[int]], bases: tuple[list[int], list[int]] = ([0], [0])) -> Writes:
    source, destination = (np.array(each, dtype=np.int64) for each in bases)
    return Writes(segments=(Segment(0, 0, 0, 0, 0, 0, 0, source, destination, np.array(rows, dtype=np.int64)),))


# That it can run here


def test_the_engine_is_known_by_its_name_and_costs_nothing_until_it_is_used() -> None:
    assert "torch" in names()
    code = (
        "import sys, differential.runner, kvwitness\n"
        "from differential.engines import find_engine\n"
        "engine = find_engine('torch', device='cuda:1')\n"
        "assert repr(engine) == 'the torch engine on cuda:1'\n"
        "print('torch' in sys.modules)"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "False"


def test_without_pytorch_it_cannot_run_and_says_so(monkeypatch: pytest.MonkeyPatch, shell: Shell) -> None:
    monkeypatch.setitem(sys.modules, "torch", None)
    engine = find_engine("torch")
    reason = engine.available()
    assert reason is not None
    assert reason.startswith("PyTorch cannot be imported (") and reason.endswith(
        "pip install 'kvwitness[torch]' installs it"
    )
    result = run_case(case_of(HEADS), [Mapping()], engine=engine)
    assert result.landed["mapping"].outcome is Outcome.NOT_RUN
    assert result.landed["mapping"].reason == f"engine torch: {reason}"
    with pytest.raises(CannotRun, match="engine 'torch' on 'cpu' cannot run here: PyTorch cannot be imported"):
        Trial(Judged(engine="torch"))
    said = shell("verify", "--engine", "torch", "--examples", 1)
    assert said.status == 2
    assert "PyTorch cannot be imported" in said.err


@pytest.mark.parametrize("device", ["CUDA", "cuda:", "cuda:-1", "gpu 3", "", 0])
def test_what_is_no_device_is_refused_at_once(device: object) -> None:
    with pytest.raises(InvalidCase) as told:
        find_engine("torch", device=device)  # type: ignore[arg-type]
    assert str(told.value) == (
        f"device = {device!r} is not possible: the torch engine takes cpu, cuda, cuda:1 and so on"
    )


@needs_torch
@pytest.mark.parametrize(
    ("device", "reason"),
    [
        ("meta", "the device meta has no memory"),
        ("abacus", "the device abacus cannot be used: "),
        ("cuda:99", "the device cuda:99 does not exist: torch "),
    ],
)
def test_a_device_that_does_not_exist_is_told_before_anything_runs(device: str, reason: str, shell: Shell) -> None:
    found = find_engine("torch", device=device).available()
    assert found is not None and found.startswith(reason)
    said = shell("verify", "--engine", "torch", "--device", device, "--examples", 1)
    assert said.status == 2
    assert f"engine 'torch' on {device!r} cannot run here: {reason}" in said.err


@needs_torch
def test_devices_are_counted_as_pytorch_counts_them(monkeypatch: pytest.MonkeyPatch) -> None:
    torch = importlib.import_module("torch")
    monkeypatch.setattr(torch.cuda, "is_available", lambda: True)
    monkeypatch.setattr(torch.cuda, "device_count", lambda: 2)
    reason = find_engine("torch", device="cuda:2").available()
    assert reason == "the device cuda:2 does not exist: torch sees cuda:0 to cuda:1"


# Memory that does not suffice


class Crowded:
    """The host engine with memory of its own, of which there is little."""

    name = "crowded"

    def __init__(self, free: int) -> None:
        self.free = free
        self.ran = False

    def __repr__(self) -> str:
        return "the crowded engine"

    def available(self) -> None:
        return None

    def free_bytes(self) -> int:
        return self.free

    def allocate(self, nbytes: int) -> object:
        self.ran = True
        raise AssertionError("nothing may be allocated")

    def carry(self, *_: object) -> None:
        raise AssertionError("nothing may run")


def test_too_little_memory_of_the_device_is_told_before_anyone_plans() -> None:
    case = case_of(HEADS)
    pools = pool_bytes(case)
    require_room(case, Crowded(pools))  # type: ignore[arg-type]

    class Spy:
        name, election, asked = "spy", "own", False

        def plan(self, *_: object) -> Writes:
            self.asked = True
            return Writes()

    spy = Spy()
    with pytest.raises(EngineUnavailable) as told:
        run_case(case, [spy], engine=Crowded(pools - 1))  # type: ignore[arg-type,list-item]
    assert str(told.value) == (
        f"memory = '{pools} B' is not possible: the crowded engine has {pools - 1} B free for the pools of both sides"
    )
    assert isinstance(told.value, InvalidCase)
    assert not spy.asked


def test_too_little_memory_of_the_host_is_told(monkeypatch: pytest.MonkeyPatch) -> None:
    from differential.engines.memory import room

    monkeypatch.setattr(room, "free_host_bytes", lambda: 300 << 20)
    room.require_host_room(4 << 20)
    with pytest.raises(EngineUnavailable) as told:
        room.require_host_room(5 << 20)
    assert str(told.value) == (
        "memory = '5.0 MiB' is not possible: naming each byte of such pools takes 320.0 MiB of the host, which has "
        "300.0 MiB free"
    )


def test_too_little_memory_ends_a_command_with_status_2(
    monkeypatch: pytest.MonkeyPatch, shell: Shell, tmp_path: Path
) -> None:
    monkeypatch.setattr("differential.engines.memory.room.free_host_bytes", lambda: 1 << 20)
    split = ("--context", "tp=4", "--generation", "tp=8", "--prompt", 8, "--tokens-per-block", 8)
    said = shell("verify", "--model", "llama-3-70b", *split, "--out", tmp_path / "witnesses")
    assert said.status == 2
    assert "kvwitness: memory = " in said.err and "which has 1.0 MiB free" in said.err


@needs_torch
def test_memory_that_cannot_be_allocated_is_told() -> None:
    with pytest.raises(EngineUnavailable) as told:
        TORCH.allocate(1 << 60)  # type: ignore[attr-defined]
    assert str(told.value).startswith("memory = '1,152,921,504,606,846,976 B on cpu' is not possible: ")
    assert has_own_memory(TORCH) and 0 < TORCH.free_bytes() < 1 << 50


@needs_torch
def test_what_pytorch_keeps_unused_on_a_device_is_free(monkeypatch: pytest.MonkeyPatch) -> None:
    torch = importlib.import_module("torch")
    monkeypatch.setattr(torch.cuda, "mem_get_info", lambda device: {"cuda:1": (10 << 30, 80 << 30)}[device])
    monkeypatch.setattr(torch.cuda, "memory_reserved", lambda device: 3 << 30)
    monkeypatch.setattr(torch.cuda, "memory_allocated", lambda device: 1 << 30)
    engine = find_engine("torch", device="cuda:1")
    assert has_own_memory(engine)
    assert engine.free_bytes() == (12 << 30) - (64 << 20)
    with pytest.raises(EngineUnavailable, match="the torch engine on cuda:1 has 0 B free for the pools of both sides"):
        monkeypatch.setattr(torch.cuda, "mem_get_info", lambda device: (0, 80 << 30))
        monkeypatch.setattr(torch.cuda, "memory_reserved", lambda device: 1 << 30)
        require_room(case_of(HEADS), engine)


# That it carries plans out


@needs_torch
@settings(max_examples=50, deadline=None)
@given(small_cases(), st.randoms(use_true_random=False))
def test_both_engines_leave_the_same_memory_whatever_the_plan(case: Case, random) -> None:  # type: ignore[no-untyped-def]
    reference = read(case)
    rows = right_rows(case, reference, optional=random.random() < 0.7)
    for row in random.sample(rows, min(len(rows), random.randrange(6))):
        column = random.choice((7, 8))
        start, end = (planes_of(case).source_arena, planes_of(case).destination)[column - 7].spans[row[column - 4]][
            row[column - 2]
        ]
        row[column] = random.randrange(-64, end - start - 64)
    if random.random() < 0.3:
        rows += random.sample(rows, min(len(rows), 3))
    plan = plan_of(rows, reference)
    landings = [carry(case, plan, engine, election="own") for engine in (HOST, TORCH)]
    assert landings[0].verdict == landings[1].verdict
    one, other = (done.landing for done in landings)
    assert one is not None and other is not None
    assert (one.words == other.words).all()
    assert len(other.changed) == 0


@needs_torch
@settings(max_examples=40, deadline=None)
@given(small_cases())
def test_right_plans_land(case: Case) -> None:
    result = run_case(case, [Mapping()], engine=TORCH)
    landed = result.landed["mapping"]
    if landed.outcome is not Outcome.NOT_RUN:
        assert landed.outcome is result.verdicts["mapping"].outcome is Outcome.PASS
        assert landed.nbytes == result.verdicts["mapping"].nbytes


LENGTHS = (1, 2, 3, 4, 7, 8, 16, 24, 64, 100, 512, 4096, 5000, 16 << 10, 20_001)


@needs_torch
@settings(max_examples=60, deadline=None)
@given(st.randoms(use_true_random=False), st.integers(0, 12))
def test_runs_of_any_length_and_alignment_land_together_as_one_by_one(random, power: int) -> None:  # type: ignore[no-untyped-def]
    import torch

    from differential.engines.torch import TorchEngine

    rows, at = [], 0
    for _ in range(random.randrange(1, 30)):
        unit = 1 << random.randrange(power + 1)
        nbytes = random.choice([length for length in LENGTHS if length >= unit]) // unit * unit
        at = -(-at // unit) * unit
        rows.append([random.randrange(0, 200_000 // unit) * unit, at, nbytes])
        at += nbytes + random.choice((0, 0, 3))
    random.shuffle(rows)
    source, one = one_pool(260_000 + at)
    plan = one_segment(rows)
    landed = []
    for engine in (TorchEngine(), TorchEngine(plain=True)):
        destination = torch.full_like(one, 255)
        engine.carry(plan, [[source]], [[destination]])
        landed.append(destination)
    expected = np.full(len(one), 255, dtype=np.uint8)
    HOST.carry(plan, [[source.numpy()]], [[expected]])
    assert all((each.numpy() == expected).all() for each in landed)


@needs_torch
def test_runs_that_write_a_byte_twice_are_carried_in_plan_order() -> None:
    rows = [[0, 0, 8], [100, 4, 8], [50, 2, 4], [200, 32, 3], [300, 33, 1]]
    for order in (rows, rows[::-1], rows[1:] + rows[:1]):
        source, destination = one_pool(400)
        expected = destination.numpy().copy()
        TORCH.carry(one_segment(order), [[source]], [[destination]])
        HOST.carry(one_segment(order), [[source.numpy()]], [[expected]])
        assert (destination.numpy() == expected).all()


@needs_torch
def test_two_sources_that_write_a_byte_twice_are_carried_in_plan_order() -> None:
    """Runs from different memories go in different copies; which comes last must not depend on that."""
    (first, destination), (second, _) = one_pool(40, 1), one_pool(40, 2)
    segments = [
        replace(one_segment([[at, 0, 4]]).segments[0], source_rank=rank)
        for at, rank in ((0, 0), (8, 1), (16, 0), (24, 1))
    ]
    elsewhere = replace(one_segment([[3, 1, 2]]).segments[0], destination_rank=1)
    for order in (segments, segments[:3], segments[::-1], segments[1:]):
        segments_of_both = (elsewhere, *order)
        TORCH.carry(Writes(segments=segments_of_both), [[first], [second]], [[destination], [one_pool(4)[1]]])
        last = order[-1]
        at = int(last.runs[0, 0])
        assert destination[:4].tolist() == (first, second)[last.source_rank][at : at + 4].tolist()


@needs_torch
def test_large_plans_are_moved_in_pieces(monkeypatch: pytest.MonkeyPatch) -> None:
    from differential.engines.torch import engine as module

    monkeypatch.setattr(module, "PIECE", 1000)
    source, destination = one_pool(1 << 16)
    bases = ([0, 8192, 4096], [32768, 0, 16384])
    plan = one_segment([[0, 64, 128], [512, 256, 4096], [7, 5, 9]], bases)
    expected = destination.numpy().copy()
    TORCH.carry(plan, [[source]], [[destination]])
    HOST.carry(plan, [[source.numpy()]], [[expected]])
    assert (destination.numpy() == expected).all()


@needs_torch
def test_buffers_of_the_host_are_shared_on_the_cpu_and_refused_elsewhere() -> None:
    from differential.engines.torch import TorchEngine

    source, destination = bytearray(range(24)), bytearray(24)
    plan = one_segment([[1, 2, 3]])
    TORCH.carry(plan, [[source]], [[memoryview(destination)]])
    assert bytes(destination[:6]) == bytes([0, 0, 1, 2, 3, 0])
    with pytest.raises(
        InvalidCase, match="memory = 'bytearray' is not possible: the torch engine on cuda:0 takes tensors"
    ):
        TorchEngine("cuda:0").carry(plan, [[source]], [[destination]])


@needs_torch
def test_empty_plans_and_segments_move_nothing() -> None:
    source, destination = one_pool(16)
    none: list[int] = []
    for plan in (Writes(), one_segment([[0, 0, 4]], (none, none)), one_segment([[0, 0, 0]])):
        TORCH.carry(plan, [[source]], [[destination]])
    assert set(destination.tolist()) == {255}


# On a device


@needs_torch
@pytest.mark.gpu
def test_plans_land_on_a_cuda_device() -> None:
    engine = find_engine("torch", device="cuda:0")
    assert engine.available() is None
    case = case_of(
        "key @ 0..1 : H(4).heads T D(160) ; 16", "tp4", "tp2", prompts=(5, 3), context_side={"layout": "NHD"}
    )
    result = run_case(case, [Mapping()], engine=engine)
    assert result.verdicts["mapping"] and result.landed["mapping"].outcome is Outcome.PASS
    plan = Mapping().plan(case, gather_facts(case))
    assert isinstance(plan, Writes)
    dropped = replace(plan, segments=plan.segments[:-1])
    assert carry(case, dropped, engine).verdict == carry(case, dropped, HOST).verdict
