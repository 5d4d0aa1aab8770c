"""Engines: what really moves the bytes of a plan between the ranks' memories.

Each module or package of this room is an engine of that name with ``make(device)``, apart from
``protocol``, ``runs``, ``surface`` and ``memory``. It is imported when its engine is asked for: nobody else needs
its library.
"""

from __future__ import annotations

from difflib import get_close_matches
from importlib import import_module
from pkgutil import iter_modules

from differential.engines.protocol import Engine, EngineUnavailable, Memories
from oracle.model.errors import InvalidCase

__all__ = ["Engine", "EngineUnavailable", "Memories", "find_engine", "names"]

DEFAULT = "host"
NO_ENGINES = ("memory", "protocol", "runs", "surface")


def names() -> list[str]:
    """The engines that exist, whether they can run here or not; the default first."""
    found = sorted(module.name for module in iter_modules(__path__) if module.name not in NO_ENGINES)
    return sorted(found, key=lambda name: name != DEFAULT)


def find_engine(name: str = DEFAULT, device: str = "cpu") -> Engine:
    """The engine of this name on ``device``. ``Engine.available`` says whether it can run here.

    Raises ``InvalidCase`` for a name or a device that does not exist.
    """
    known = names()
    if name not in known:
        close = get_close_matches(str(name), known, 1)
        hint = f"; did you mean {close[0]}?" if close else ""
        raise InvalidCase("engine", name, f"the engines are {', '.join(known)}{hint}")
    engine: Engine = import_module(f"{__name__}.{name}").make(device)
    return engine
