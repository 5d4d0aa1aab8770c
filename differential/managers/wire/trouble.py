"""What can be wrong with a request info: one exception type per kind of trouble, one name per rule."""

from __future__ import annotations

from types import MappingProxyType

RULES = MappingProxyType(
    {
        "W1": "anchors have no substitute: a record without first_ordinals is not read",
        "W2": "there is one anchor per layer group",
        "W3": "there is one array per layer group of the receiver's page table",
        "W4": "an array is whole numbers of 8 bytes",
        "W5": "a table has one entry per prompt block, on either side",
        "W6": "an anchored span lies inside the prompt, and an empty one is anchored at 0",
        "W7": "a Helix peer gets whole prompts, anchored at 0",
        "W8": "a slot lies in its pool; only a table has holes, written -1",
        "W9": "a request names a slot of a pool group once",
        "W10": "a receiver starts at the start of a block",
        "W11": "both sides have as many beam tails",
        "W12": "the tokens of a slice run forward from 0 or later",
        "W13": "a list without positions is not longer than the sender's",
        "W14": "both sides cut the prompt into blocks of the same length",
    }
)
"""What is refused beyond bytes, fields and types, by name (spec: blocks, wire facts)."""

_QUOTED = 160


class WireTrouble(Exception):
    """A request info that is not sent, or not accepted.

    ``rule`` is a name in ``RULES``, or None for what no rule names (bytes, fields and types);
    ``field`` is the path of what is wrong, ``value`` what stands there and ``accepted`` a phrase
    that says what would be accepted. Every kind is a ``TypeError`` or a ``ValueError``.
    """

    def __init__(self, field: str, value: object, accepted: str, *, rule: str | None = None) -> None:
        self.field = field
        self.value = value
        self.accepted = accepted
        self.rule = rule
        super().__init__(f"{field} = {_quote(value)} is not possible: {accepted}")

    def __reduce__(self) -> tuple[object, ...]:
        return _rebuild, (type(self), self.field, self.value, self.accepted, self.rule)


class UnreadableRecord(WireTrouble, ValueError):
    """Bytes that are no record: cut off, longer than one, malformed, or with a field twice."""


class WrongFields(WireTrouble, TypeError):
    """A record with a field missing, or with one that its encoding does not know."""


class WrongType(WireTrouble, TypeError):
    """A field that holds another type: true for a number, a float for an id, text for an array."""


class WrongValue(WireTrouble, ValueError):
    """A value that no receiver means, whatever the request."""


class DoesNotFit(WireTrouble, ValueError):
    """A value that contradicts what is known of this request and its two sides."""


def _rebuild(kind: type[WireTrouble], field: str, value: object, accepted: str, rule: str | None) -> WireTrouble:
    return kind(field, value, accepted, rule=rule)


def _quote(value: object) -> str:
    """``value`` as an error quotes it: what comes from outside may be of any length."""
    if type(value) in (bytes, str) and len(value) > _QUOTED:  # type: ignore[arg-type]
        return f"{value[:_QUOTED]!r}… (length {len(value)})"  # type: ignore[index, arg-type]
    text = repr(value)
    return text if len(text) <= _QUOTED else f"{text[:_QUOTED]}…"
