"""Case files of older schemas, brought to the current one step by step."""

from __future__ import annotations

from collections.abc import Callable

from oracle.model.errors import MalformedFile, NewerSchema

Plain = dict[str, object]

SCHEMA = 1
"""The schema that is written. Raise it when a file of the old one would be read as another case."""

UPGRADES: dict[int, Callable[[Plain], Plain]] = {}
"""From schema n to n + 1, by n: a new plain case, or ``MalformedFile`` with the path of what it cannot read.

The function is given a file that nobody has checked yet; it returns ``schema`` as it found it.
"""


def upgrade(plain: Plain) -> Plain:
    """``plain`` in the current schema; ``NewerSchema`` for a later one. The argument is left as it is."""
    if "schema" not in plain:
        raise MalformedFile("schema", None, f"missing field; expected a schema number such as {SCHEMA}")
    schema = plain["schema"]
    if type(schema) is not int or schema < 1:
        raise MalformedFile("schema", schema, f"expected a schema number from 1 to {SCHEMA}")
    if schema > SCHEMA:
        raise NewerSchema("schema", schema, f"this version knows schemas up to {SCHEMA}; a later one wrote the file")
    for older in range(schema, SCHEMA):
        plain = {**UPGRADES[older](plain), "schema": older + 1}
    return plain
