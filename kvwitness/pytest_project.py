"""How this repository runs its tests: Hypothesis profiles, one seed, and what cannot run said aloud.

The root ``conftest.py`` loads it, not the installation: other projects have profiles and markers of
their own.
"""

from __future__ import annotations

import ctypes
import os
import secrets
from collections import Counter
from collections.abc import Iterator
from importlib.util import find_spec
from pathlib import Path

import hypothesis
import pytest
from hypothesis import HealthCheck, settings

PROFILES = {"dev": 100, "ci": 300, "nightly": 3000}
"""Examples of a property by profile."""

MARKERS = {
    "gpu": "needs a CUDA device",
    "nixl": "needs the NIXL transfer library",
    "slow": "takes more than a few seconds",
}
REQUIRED_NAMES = {"cuda": "gpu", "gpu": "gpu", "nixl": "nixl"}
"""What ``--require`` may name, and the marker that it is about."""


def register_profiles() -> None:
    """Register the profiles and load ``ci`` where the environment says CI, else ``dev``.

    Hypothesis's own profile for CI derandomizes and drops the database; these keep both chance and database.
    """
    plain = settings.get_profile("default")
    for name, examples in PROFILES.items():
        settings.register_profile(
            name,
            parent=plain,
            max_examples=examples,
            deadline=None,
            derandomize=False,
            print_blob=True,
            suppress_health_check=[HealthCheck.too_slow],
        )
    settings.load_profile("ci" if os.environ.get("CI") else "dev")


def pytest_addoption(parser: pytest.Parser) -> None:
    group = parser.getgroup("kvwitness", "kvwitness")
    group.addoption(
        "--native-plans",
        metavar="FILE",
        help="recorded plans of the legacy sender (default: tests/data/native_plans.jsonl)",
    )
    group.addoption(
        "--require",
        metavar="NAMES",
        default="",
        help="what must be able to run, by comma: cuda, nixl. What cannot then fails instead of being skipped",
    )
    group.addoption(
        "--kvwitness-seed",
        metavar="SEED",
        help="draw the examples of a run that printed this seed (default: a new one)",
    )


@pytest.hookimpl(tryfirst=True)
def pytest_configure(config: pytest.Config) -> None:
    for name, meaning in MARKERS.items():
        config.addinivalue_line("markers", f"{name}: {meaning}")
    for name in _required(config):
        if name not in REQUIRED_NAMES:
            raise pytest.UsageError(f"--require {name!r}: expected {', '.join(REQUIRED_NAMES)}")
    if config.getoption("--kvwitness-seed") is None:
        # Workers of xdist are given the options of the main process, and with them its seed.
        config.option.kvwitness_seed = str(secrets.randbelow(1 << 32))


def _required(config: pytest.Config) -> list[str]:
    return [name.strip() for name in config.getoption("--require").split(",") if name.strip()]


def pytest_report_header(config: pytest.Config) -> list[str]:
    now = settings.default
    kept = type(now.database).__name__ if now.database is not None else "none"
    seed = config.getoption("--hypothesis-seed", None)
    said = f"--kvwitness-seed={config.getoption('--kvwitness-seed')}" if seed is None else f"--hypothesis-seed={seed}"
    return [
        f"kvwitness: Hypothesis profile {settings.get_current_profile_name()}: {now.max_examples} examples, "
        f"deadline {now.deadline}, derandomize {now.derandomize}, database {kept}",
        f"kvwitness: {said} draws the same examples; witnesses go to {config.getoption('--kvwitness-out')}",
    ]


# ---- one seed


def pytest_itemcollected(item: pytest.Item) -> None:
    """Give each property its own seed, made of the run's seed and its name, and leave it the database.

    A seed turns the database off, Hypothesis's own option likewise; it is turned on again here, so that a failure
    that was seen once is tried first.
    """
    test = getattr(getattr(item, "obj", None), "__func__", getattr(item, "obj", None))
    if test is None or not hypothesis.is_hypothesis_test(test) or item.config.getoption("--hypothesis-seed", None):
        return
    if not hasattr(test, "_hypothesis_internal_use_settings"):
        return  # a property that Hypothesis itself will refuse to run
    if getattr(test, "_hypothesis_internal_use_seed", None) is None:
        asked = test._hypothesis_internal_use_settings
        hypothesis.seed(f"{item.config.getoption('--kvwitness-seed')} {test.__module__}.{test.__qualname__}")(test)
        test._hypothesis_internal_use_settings = asked


# ---- what cannot run


def cuda_is_missing() -> str | None:
    """Why there is no CUDA device; None where there is one. Asks the driver, so no library needs to be imported."""
    try:
        driver = ctypes.CDLL("libcuda.so.1")
    except OSError:
        return "there is no CUDA driver (libcuda.so.1)"
    found = ctypes.c_int(0)
    if driver.cuInit(0) != 0 or driver.cuDeviceGetCount(ctypes.byref(found)) != 0 or found.value == 0:
        return "the CUDA driver finds no device"
    return None


def nixl_is_missing() -> str | None:
    """Why NIXL cannot be imported; None where it can."""
    return None if find_spec("nixl") is not None else "the package nixl is not installed"


MISSING = {"gpu": cuda_is_missing, "nixl": nixl_is_missing}


def pytest_runtest_setup(item: pytest.Item) -> None:
    required = {REQUIRED_NAMES[name] for name in _required(item.config)}
    for marker, why in MISSING.items():
        if item.get_closest_marker(marker) is None:
            continue
        reason = why()
        if reason is None:
            continue
        if marker in required:
            pytest.fail(f"--require {marker}: {reason}", pytrace=False)
        pytest.skip(f"{marker}: {reason}")


_LEFT_OUT = pytest.StashKey[Counter[str]]()


def pytest_deselected(items: list[pytest.Item]) -> None:
    for item in items:
        left_out = item.config.stash.setdefault(_LEFT_OUT, Counter())
        left_out.update(name for name in MARKERS if item.get_closest_marker(name) is not None)


@pytest.hookimpl(trylast=True)
def pytest_sessionfinish(session: pytest.Session) -> None:
    output = getattr(session.config, "workeroutput", None)
    if output is not None:
        output["kvwitness_left_out"] = dict(session.config.stash.get(_LEFT_OUT, Counter()))


@pytest.hookimpl(optionalhook=True)
def pytest_testnodedown(node: object, error: object) -> None:
    """Every worker of xdist deselects the same tests: one of them is enough."""
    left_out = getattr(node, "workeroutput", {}).get("kvwitness_left_out")
    if left_out:
        node.config.stash[_LEFT_OUT] = Counter(left_out)  # type: ignore[attr-defined]


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter, config: pytest.Config) -> None:
    for name, number in sorted(config.stash.get(_LEFT_OUT, Counter()).items()):
        asked = config.getoption("markexpr") or config.getoption("keyword") or "the command line"
        terminalreporter.write_line(f"not run: {number} marked {name} ({MARKERS[name]}), deselected by {asked!r}")


# ---- data


@pytest.fixture(scope="session")
def native_plans(request: pytest.FixtureRequest) -> Iterator[Path]:
    """The file of recorded plans that ``--native-plans`` names, or the one in the repository."""
    given = request.config.getoption("--native-plans")
    path = Path(given) if given else request.config.rootpath / "tests" / "data" / "native_plans.jsonl"
    if not path.exists():
        pytest.fail(f"--native-plans {str(path)!r}: there is no such file", pytrace=False)
    yield path
