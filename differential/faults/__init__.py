"""Planted faults: what the checker must catch.

Faults stand in packages by class. Every module there is one fault, named as the module is, with ``-``
for ``_``, and defines ``FAULT``. To add a fault, add its file.
"""

from __future__ import annotations

from difflib import get_close_matches
from functools import cache
from importlib import import_module
from pkgutil import iter_modules, walk_packages

from differential.faults.fault import Fault, Planted, Size
from differential.faults.minimum import find_minimum, size_of
from oracle.model.errors import InvalidCase

__all__ = ["Fault", "Planted", "Size", "find_fault", "find_minimum", "names", "size_of"]


@cache
def _modules() -> dict[str, str]:
    """Module by fault name, in the order of the names."""
    found: dict[str, str] = {}
    for package in iter_modules(__path__, f"{__name__}."):
        if not package.ispkg:
            continue
        for module in walk_packages(import_module(package.name).__path__, f"{package.name}."):
            if not module.ispkg:
                name = module.name.rpartition(".")[2].replace("_", "-")
                if name in found:
                    raise ImportError(f"two faults have the name {name}: {found[name]} and {module.name}")
                found[name] = module.name
    return dict(sorted(found.items()))


def names() -> list[str]:
    """The names of all faults, in order. Imports none of them."""
    return list(_modules())


def find_fault(name: str) -> Fault:
    """The fault of this name; ``InvalidCase`` if there is none."""
    modules = _modules()
    if name not in modules:
        close = get_close_matches(str(name), modules, 1)
        hint = f"; did you mean {close[0]}?" if close else ""
        raise InvalidCase("fault", name, f"the faults are {', '.join(modules)}{hint}")
    fault: Fault = import_module(modules[name]).FAULT
    return fault
