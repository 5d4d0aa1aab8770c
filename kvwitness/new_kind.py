"""A file to start a cache kind of one's own from: a declaration that runs as it stands."""

from __future__ import annotations

import keyword
import os
import sys
from importlib.util import find_spec
from pathlib import Path
from pkgutil import iter_modules

from kvwitness.errors import CannotRun
from strategies import kinds as registry

TEMPLATE = '''"""@NAME@: say here what is special about this cache.

A start to change: keys and values split by heads, and beside them, on some layers, rows that every rank holds whole.
"""

from __future__ import annotations

from collections.abc import Iterable

from oracle.model.buffers import Model
from oracle.model.case import Native
from strategies.kinds.fitting import draw_heads
from strategies.kinds.pieces import key_value, layers, paged, rows
from strategies.kinds.protocol import Declaration, Kind, Surroundings

# What the legacy sender declares: the mapper of each role. indexed: split by heads, as K/V or an SSM state; a latent
# too. nhd: the same by tokens. replicated: whole on every rank. sectioned: a state of sections, as of a convolution.
# A role that is not named goes by "all"; ignored=("role",) are not sent. Which mapper fits is in docs/new-kind.md.
# None instead of a Native: there is no legacy rule, and nothing is compared.
NATIVE = Native((("all", "indexed"), ("side_key", "replicated")))


def declare(total: int, heads: int, dim: int, bits: int, on: Iterable[int], side: int) -> Declaration:
    """``heads`` K/V heads of ``dim`` elements on ``total`` layers, rows of ``side`` elements on the layers ``on``.

    Real and small models come from the same function: write it with the sizes as parameters.
    """
    group = paged(
        "kv",
        (
            # Axes in storage order: H heads, split over the tensor ranks, T tokens, D elements.
            *key_value(layers(range(total)), heads, dim, bits),
            # No axis is split: each rank holds all of it, and the senders have to agree on one of them.
            rows("side_key", layers(on), side, bits),
        ),
        # A window in tokens would go here. Layers that are kept for another time are another group; a recurrent
        # state is a group made by strategies.kinds.pieces.state.
    )
    return Declaration(Model(total, (group,)), NATIVE)


def decode(numbers: tuple[int, ...], around: Surroundings) -> Declaration:
    """The small model of these numbers: small, every combination one that can exist, all 0 the simplest."""
    heads, dim, width, mask, side = numbers
    # Mostly heads that both sides share out evenly, sometimes others: those are right to be refused, or overlap.
    count = draw_heads(heads, around, 64)
    size = 1 + dim
    # As large as a head, so that it joins the pool of the keys on some numbers of ranks, or a bit larger.
    return declare(around.layers, count, size, (16, 8)[width], _layers(mask, around.layers), (size, size + 1)[side])


def _layers(mask: int, total: int) -> range:
    """All layers, all but the first, or every second one."""
    return (range(total), range(min(1, total - 1), total), range(0, total, 2))[mask]


KIND = Kind(
    name="@NAME@",
    description="keys and values split by heads, beside them rows that every rank holds whole",
    # Sorts the kinds, simplest first; the project's own are below 100.
    order=100,
    # How many values each number of decode has.
    bounds=(64, 3, 2, 3, 2),
    decode=decode,
    # The small models that are judged on every pair of topologies, most telling first.
    scope=((4, 1, 0, 1, 0), (1, 0, 1, 0, 1)),
    # Fewest and most layers of a small model. Each buffer needs a layer: where layers are of several sorts, as in a
    # hybrid, the fewest are as many as there are sorts, (2, 6) or (3, 6).
    layers=(1, 6),
    # Models that people deploy: PublishedModel(name, title, layers, lambda bits: declare(...), source, evidence), with
    # where the figures come from. `kvwitness verify --model NAME` judges them at their real size.
    published=(),
    # What it cannot be split by is said here: stages=False, helix=False, attention_dp=False.
)
'''


def write_new_kind(file: str) -> tuple[str, ...]:
    """Write the template to ``file``, whose stem is the name of the kind; what to do with it, in lines.

    Raises ``CannotRun`` where the name cannot be that of a new kind, or the file exists or cannot be written.
    """
    path = Path(file)
    name = path.stem
    if path.suffix != ".py":
        raise CannotRun(f"--new {file!r} is not possible: expected a file that ends in .py")
    if not name.isidentifier() or not name.isascii() or not name.islower() or keyword.iskeyword(name):
        raise CannotRun(
            f"--new {file!r} is not possible: {name!r} is to be the name of the kind; expected lower case letters, "
            "digits and _, as of a module"
        )
    ours = path.resolve().parent == Path(registry.__file__).resolve().parent
    if not os.path.exists(path) and (name in _kind_names() or _is_module(name)):
        raise CannotRun(f"--new {file!r} is not possible: there is a kind or a module of this name; choose another")
    try:
        with path.open("x", encoding="utf-8") as written:
            written.write(TEMPLATE.replace("@NAME@", name))
    except FileExistsError:
        raise CannotRun(f"--new {file!r} is not possible: the file exists, and is left as it is") from None
    except OSError as error:
        raise CannotRun(f"--new {file!r} cannot be written: {error.strerror or error}") from None
    return _next_steps(path, name, ours)


def _kind_names() -> set[str]:
    """The names of all kinds, and of the modules that they are declared in or with."""
    names = {kind.name for kind in registry.registered_kinds()}
    return names | {module.name for module in iter_modules(registry.__path__)}


def _is_module(name: str) -> bool:
    """Whether Python knows a module of this name, which a file beside the program would hide.

    A directory without ``__init__.py`` in the current one is none: the file may be meant to lie there.
    """
    if name in sys.stdlib_module_names:
        return True
    try:
        spec = find_spec(name)
    except ValueError:  # a module that runs already, such as __main__
        return True
    if spec is None or spec.origin is not None:
        return spec is not None
    return any(Path(place).resolve().parent != Path.cwd() for place in spec.submodule_search_locations or ())


def _next_steps(path: Path, name: str, ours: bool) -> tuple[str, ...]:
    lines = [
        f"wrote {path}: the kind {name}, which runs as it stands",
        f"  kvwitness conform {path}",
        "    tries every law on it",
    ]
    if ours:
        return (*lines, "", f"It lies among the kinds of the project, so all commands know it: kvwitness kinds {name}")
    return (
        *lines,
        "",
        f"All commands know it once it is registered. Put {path.name} into a package of yours, say my_kinds, and in",
        "its pyproject.toml say:",
        "",
        f'  [project.entry-points."{registry.GROUP}"]',
        f'  {name} = "my_kinds.{name}:KIND"',
        "",
        "Install the package (pip install -e .), and then:",
        "",
        f"  kvwitness kinds {name}",
        f"  kvwitness verify --kinds {name}",
    )
