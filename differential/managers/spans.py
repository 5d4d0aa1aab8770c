"""Runs of slots for evenly spaced ordinals, and what two of them have in common (spec: blocks, alignment)."""

from __future__ import annotations

from dataclasses import field, replace

import numpy as np

from oracle.model.records import frozen

NONE = np.zeros(0, dtype=np.int64)


class Inexpressible(ValueError):
    """A state that an encoding cannot say; ``code`` is one of ``oracle.model.encodings.CODES``."""

    def __init__(self, code: str, reason: str) -> None:
        self.code = code
        self.reason = reason
        super().__init__(f"{code}: {reason}")

    def __reduce__(self) -> tuple[object, ...]:
        return type(self), (self.code, self.reason)


class Disagreement(RuntimeError):
    """What a manager lists and what its counters say do not fit: some block would go to another one's place."""


@frozen(eq=False)
class Span:
    """Entry i of ``slots`` (int64) is block ``start + i*stride``; an empty span starts at the first of such blocks.

    ``tails`` (int64) are beam tails, which have no ordinal.
    """

    start: int
    slots: np.ndarray
    stride: int = 1
    tails: np.ndarray = field(default_factory=lambda: NONE)

    @property
    def ordinals(self) -> np.ndarray:
        return self.start + self.stride * np.arange(len(self.slots), dtype=np.int64)


def emptied(span: Span) -> Span:
    """Nothing of ``span``, tails neither; without context parallelism that starts at 0."""
    return Span(span.start % span.stride, NONE, span.stride)


@frozen(eq=False)
class Aligned:
    """Which slot goes to which (int64, n each), and the ordinal that the receiver takes each for.

    ``asked``: all ordinals that the receiver asks for, whether or not they are offered. ``tails``:
    pairs of beam tails, (n, 2).
    """

    ordinals: np.ndarray
    source: np.ndarray
    destination: np.ndarray
    asked: np.ndarray
    tails: np.ndarray


def count_below(ordinal: int, phase: int, stride: int) -> int:
    """How many of the blocks phase, phase + stride, ... lie below ``ordinal``: never a count of global blocks."""
    return max(0, -(-(ordinal - phase) // stride))


def drop_below(span: Span, ordinal: int) -> Span:
    """``span`` without its entries below ``ordinal``: their slots go with them, and the phase stays."""
    gone = count_below(ordinal, span.start, span.stride)
    if not gone or not len(span.slots):
        return span
    if gone >= len(span.slots):
        return emptied(span)
    return replace(span, start=span.start + gone * span.stride, slots=span.slots[gone:])


def drop_from(span: Span, ordinal: int) -> Span:
    """``span`` without its entries from ``ordinal`` on."""
    kept = count_below(ordinal, span.start, span.stride)
    if kept >= len(span.slots):
        return span
    return replace(span, slots=span.slots[:kept]) if kept else emptied(span)


def take_stride(span: Span, phase: int, stride: int) -> Span:
    """The entries of ``span`` that are blocks phase, phase + stride, ...; ``stride`` is a multiple of the span's."""
    if stride == span.stride:
        return span
    step = stride // span.stride
    skipped = next((n for n in range(step) if (span.start + n * span.stride - phase) % stride == 0), None)
    if skipped is None or skipped >= len(span.slots):
        return Span(phase % stride, NONE, stride)
    return replace(span, start=span.start + skipped * span.stride, slots=span.slots[skipped::step], stride=stride)


def intersect(source: Span, destination: Span) -> Aligned:
    """Pairs of the blocks that both spans have; strides must be equal, and phases meet or nothing is shared."""
    asked = destination.ordinals
    count = 0
    if len(source.slots) and len(destination.slots):
        if source.stride != destination.stride:
            raise Disagreement(f"spans of stride {source.stride} and {destination.stride} have no common index")
        if (source.start - destination.start) % source.stride == 0:
            begin = max(source.start, destination.start)
            i, j = (begin - source.start) // source.stride, (begin - destination.start) // source.stride
            count = min(len(source.slots) - i, len(destination.slots) - j)
    if count <= 0:
        return Aligned(NONE, NONE, NONE, asked, NONE.reshape(0, 2))
    ours, theirs = source.slots[i : i + count], destination.slots[j : j + count]
    return Aligned(asked[j : j + count], ours, theirs, asked, NONE.reshape(0, 2))


def with_tails(aligned: Aligned, source: Span, destination: Span) -> Aligned:
    """``aligned`` and the pairs of beam tails, one by one, where any block of the first beam goes at all.

    Both spans must have equally many.
    """
    if not len(aligned.ordinals) or not len(source.tails):
        return aligned
    return replace(aligned, tails=np.stack((source.tails, destination.tails), axis=1))
