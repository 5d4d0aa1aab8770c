"""Numbers as people read them."""

from __future__ import annotations

from collections.abc import Iterable

BYTE_UNITS = ("B", "KiB", "MiB", "GiB", "TiB")

NO_LEGACY_RULE = "no legacy rule"
"""Why a legacy subject is not asked: the kind declares nothing for it."""


def count(number: int, noun: str, plural: str = "") -> str:
    """``1 case``, ``1,234 cases``."""
    return f"{number:,} {noun if number == 1 else plural or noun + 's'}"


def short(number: float) -> str:
    """At most six characters and a unit: ``999``, ``12,345``, ``1.2 M``, ``33 M``."""
    if number < 100_000:
        return f"{number:,.0f}"
    divisor, unit = (1e3, "k") if number < 1e6 else (1e6, "M") if number < 1e9 else (1e9, "G")
    scaled = number / divisor
    return f"{scaled:.1f} {unit}" if scaled < 10 else f"{scaled:.0f} {unit}"


def in_bytes(number: float) -> str:
    """``512 B``, ``1.5 KiB``, ``40 GiB``."""
    for unit in BYTE_UNITS:
        if number < 1024 or unit == BYTE_UNITS[-1]:
            break
        number /= 1024
    return f"{number:.0f} {unit}" if unit == "B" or number >= 100 else f"{number:.1f} {unit}"


def in_seconds(seconds: float) -> str:
    """``0.4 s``, ``12 s``, ``3 min 20 s``."""
    if seconds < 10:
        return f"{seconds:.1f} s"
    if seconds < 100:
        return f"{seconds:.0f} s"
    minutes, rest = divmod(round(seconds), 60)
    return f"{minutes} min {rest} s"


def joined(names: Iterable[object], last: str = "and") -> str:
    """``a``, ``a and b``, ``a, b and c``."""
    listed = [str(name) for name in names]
    if len(listed) < 2:
        return "".join(listed)
    return f"{', '.join(listed[:-1])} {last} {listed[-1]}"
