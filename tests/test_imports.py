"""Imports point one way, the contract notices when they do not, and only an engine needs a device library."""

from __future__ import annotations

import ast
import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[1]
PACKAGES = ("oracle", "strategies", "differential", "kvwitness")
DEVICE_LIBRARIES = ("cuda", "nixl", "nixl_cu13", "torch", "triton")
DEVICE_ENGINES = tuple(f"differential.engines.{name}" for name in ("cuda", "distributed", "nixl", "torch", "triton"))

# The linter can only forbid names. These are the libraries that a room may use; every other one is forbidden.
LIBRARIES = {"oracle": {"msgspec", "numpy"}, "strategies": {"hypothesis", "numpy"}}

# Module, the statement added to it, and the id of the contract that must notice.
FORBIDDEN = [
    ("oracle.model", "from oracle import truth", "truth"),
    ("oracle.model", "import kvwitness", "rooms"),
    ("oracle.truth", "import differential", "rooms"),
    ("oracle.truth", "import hypothesis", "oracle"),
    ("strategies", "from differential import subjects", "rooms"),
    ("strategies", "from triton import language", "devices"),
    ("strategies.kinds", "import oracle.truth", "truth"),
    ("differential.managers", "import differential.subjects", "differential"),
    ("differential.managers", "import oracle.truth", "truth"),
    ("differential.subjects.mapping", "import differential.engines", "differential"),
    ("differential.subjects.mapping", "import differential.subjects.native", "subjects"),
    ("differential.subjects.mapping", "import oracle.truth", "truth"),
    ("differential.subjects.mapping", "import strategies", "compared"),
    ("differential.subjects.native", "from differential.subjects import mapping", "subjects"),
    ("differential.subjects.native", "import oracle.truth", "truth"),
    ("differential.engines", "import differential.managers", "engines"),
    ("differential.engines", "import oracle.truth", "truth"),
    ("differential.faults", "import oracle.truth", "truth"),
    ("differential.runner", "import kvwitness", "rooms"),
    ("kvwitness.cli", "def late(): import torch", "devices"),
]

ALLOWED = [
    ("differential.runner", "import oracle.truth"),
    ("differential.engines.memory", "import oracle.truth"),
    ("differential.engines.torch", "import torch"),
    ("differential.subjects.native", "import differential.subjects.protocol, differential.managers"),
    ("differential.subjects.registry", "import differential.subjects.mapping"),
]


def lint(tree: Path, *options: str) -> subprocess.CompletedProcess[str]:
    """Run ``lint-imports`` in ``tree``; its exit status is 0 only if every contract is kept."""
    program = "from importlinter.cli import lint_imports_command as run; run()"
    return subprocess.run(
        [sys.executable, "-c", program, "--no-cache", "--no-logo", *options],
        cwd=tree,
        capture_output=True,
        encoding="utf-8",
        check=False,
        env={**os.environ, "COLUMNS": "200", "NO_COLOR": "1", "PYTHONIOENCODING": "utf-8"},
    )


def add_statement(tree: Path, name: str, statement: str) -> str:
    """Add ``statement`` to the module ``name``, or in a new file to the package ``name``; return whom it is in."""
    path = tree.joinpath(*name.split("."))
    if (module := path.with_suffix(".py")).is_file():
        module.write_text(f"{module.read_text(encoding='utf-8')}\n{statement}\n", encoding="utf-8")
        return name
    path.mkdir(exist_ok=True)
    (path / "__init__.py").touch()
    (path / "added.py").write_text(f"{statement}\n", encoding="utf-8")
    return f"{name}.added"


@pytest.fixture
def tree(tmp_path: Path) -> Path:
    """A copy of the packages and their contract that a test may break; it has the room of the second subject."""
    shutil.copy(ROOT / "pyproject.toml", tmp_path)
    for package in PACKAGES:
        shutil.copytree(ROOT / package, tmp_path / package, ignore=shutil.ignore_patterns("__pycache__"))
    native = tmp_path / "differential" / "subjects" / "native"
    native.mkdir(exist_ok=True)
    (native / "__init__.py").touch()
    return tmp_path


def test_imports_point_one_way() -> None:
    result = lint(ROOT)
    assert result.returncode == 0, result.stdout + result.stderr
    assert " 0 broken." in result.stdout


@pytest.mark.parametrize(("module", "statement", "contract"), FORBIDDEN)
def test_a_forbidden_import_is_noticed(tree: Path, module: str, statement: str, contract: str) -> None:
    importer = add_statement(tree, module, statement)
    result = lint(tree, "--contract", contract)
    assert result.returncode == 1, result.stdout + result.stderr
    assert "0 kept, 1 broken." in result.stdout, result.stdout + result.stderr
    assert f"{importer} -> " in result.stdout


def test_a_new_room_must_be_given_its_place(tree: Path) -> None:
    add_statement(tree, "differential.attic", "import oracle.model")
    result = lint(tree, "--contract", "differential")
    assert result.returncode == 1
    assert "attic" in result.stdout


@pytest.mark.parametrize(("module", "statement"), ALLOWED)
def test_an_allowed_import_is_kept(tree: Path, module: str, statement: str) -> None:
    add_statement(tree, module, statement)
    result = lint(tree)
    assert result.returncode == 0, result.stdout + result.stderr


def sources(package: str) -> list[Path]:
    """The Python files of ``package``, one of the four at the top level."""
    return sorted((ROOT / package).rglob("*.py"))


def imports(path: Path) -> list[ast.Import | ast.ImportFrom]:
    """The import statements of the file ``path``, those inside functions too."""
    tree = ast.parse(path.read_text(encoding="utf-8"), filename=str(path))
    return [node for node in ast.walk(tree) if isinstance(node, ast.Import | ast.ImportFrom)]


def libraries(path: Path) -> set[str]:
    """The top-level packages that ``path`` imports, without the standard library and without our own."""
    names: set[str] = set()
    for node in imports(path):
        named = [alias.name for alias in node.names] if isinstance(node, ast.Import) else [node.module or ""]
        names |= {name.partition(".")[0] for name in named}
    return names - set(sys.stdlib_module_names) - set(PACKAGES)


@pytest.mark.parametrize("package", LIBRARIES)
def test_a_room_uses_only_its_own_libraries(package: str) -> None:
    used = {path.relative_to(ROOT).as_posix(): libraries(path) for path in sources(package)}
    assert any(used.values()), f"no file of {package} imports a library: does this test look in the right place?"
    assert not {path: names for path, names in used.items() if names - LIBRARIES[package]}


@pytest.mark.parametrize("package", PACKAGES)
def test_imports_are_absolute(package: str) -> None:
    nodes = [(path, node) for path in sources(package) for node in imports(path)]
    assert nodes
    assert not [f"{path}:{node.lineno}" for path, node in nodes if isinstance(node, ast.ImportFrom) and node.level]


@pytest.mark.parametrize("package", PACKAGES)
def test_every_folder_with_code_is_a_package(package: str) -> None:
    """The linter does not see, and a wheel does not hold, a file in a folder without ``__init__.py``."""
    folders = {path.parent for path in sources(package)}
    assert folders
    assert not [str(folder) for folder in folders if not (folder / "__init__.py").is_file()]


def module_name(path: Path) -> str:
    """The name under which the file ``path`` is imported."""
    return ".".join(path.relative_to(ROOT).with_suffix("").parts).removesuffix(".__init__")


def test_everything_but_its_engine_runs_without_a_device_library() -> None:
    names = [module_name(path) for package in PACKAGES for path in sources(package)]
    names = [name for name in names if not name.startswith(DEVICE_ENGINES) and not name.endswith("__main__")]
    blocked = "".join(f"sys.modules[{name!r}] = None\n" for name in DEVICE_LIBRARIES)
    program = f"import importlib, sys\n{blocked}for name in {names!r}: importlib.import_module(name)"
    result = subprocess.run([sys.executable, "-c", program], cwd=ROOT, capture_output=True, text=True, check=False)
    assert result.returncode == 0, result.stderr
