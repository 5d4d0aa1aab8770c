"""What a comparison finds: differences as records that read as sentences."""

from __future__ import annotations

from oracle.model.records import frozen

BOTH, FIRST, SECOND, NEITHER = "both", "first", "second", "neither"
UNKNOWN = "unknown"
"""Stands for which plan is right where memory is too large to name its bytes."""
NOBODY = "nobody"
Names = tuple[str, str]
"""What to call the two plans."""


@frozen()
class ByteDifference:
    """Bytes of one buffer and block of one receiver that the two plans do not write alike.

    ``first_senders`` and ``second_senders`` are all source ranks that write them in each plan
    (empty: nobody). ``right`` says which plan leaves these bytes right: both, first, second or
    neither (or unknown); where both bring the due element, the one whose sender is the elected one. ``heads``
    are the global head indices touched, ascending, ``tokens`` the inclusive range of token
    positions; None where the buffer has no such axis. Bytes of no due block have no ``ordinal``,
    those of no buffer neither group, layer nor role.
    """

    destination: int
    group: int | None
    layer: int | None
    role: str | None
    ordinal: int | None
    nbytes: int
    first_senders: tuple[int, ...]
    second_senders: tuple[int, ...]
    right: str
    heads: tuple[int, ...] | None = None
    tokens: tuple[int, int] | None = None
    request: int | None = None

    def words(self, names: Names = (FIRST, SECOND)) -> str:
        """The difference as a sentence, without the number of the request if there is none."""
        what = [f"rank {self.destination}"]
        what += [f"request {self.request}"] if self.request is not None else []
        if self.role is None:
            what.append("bytes of no buffer")
        else:
            layer = "" if self.layer is None else f" of layer {self.layer}"
            what.append(f"{self.role}{layer} in group {self.group}")
        what += [f"block {self.ordinal}"] if self.ordinal is not None else []
        what += [f"heads {_spans(self.heads)}"] if self.heads else []
        if self.tokens:
            what.append(f"tokens {_spans(tuple(range(self.tokens[0], self.tokens[1] + 1)))}")
        senders = ", ".join(
            f"from {_ranks(ranks)} in {name}"
            for name, ranks in zip(names, (self.first_senders, self.second_senders), strict=True)
        )
        return f"{', '.join(what)}: {self.nbytes} B {senders}; {_right(self.right, names)}"


@frozen()
class PairDifference:
    """A pair that only one plan names, or that the plans let other sides count on.

    ``first`` and ``second`` are who counts on the pair: both, sender, receiver, or no.
    """

    request: int
    source: int
    destination: int
    first: str
    second: str

    def words(self, names: Names = (FIRST, SECOND)) -> str:
        seen = ", ".join(
            f"{name}: {'not paired' if who == 'no' else f'seen by {who}'}"
            for name, who in zip(names, (self.first, self.second), strict=True)
        )
        return f"request {self.request}, ranks {self.source} to {self.destination}: {seen}"


@frozen()
class RefusalDifference:
    """A request, or the pair of instances (None), that only one plan refuses: ``refused_by`` first or second."""

    refused_by: str
    code: str
    reason: str
    request: int | None

    def words(self, names: Names = (FIRST, SECOND)) -> str:
        who, other = names if self.refused_by == FIRST else names[::-1]
        what = "the instances" if self.request is None else f"request {self.request}"
        why = f"{self.code}: {self.reason}" if self.reason else self.code
        return f"{who} refuses {what} ({why}), {other} serves"


Difference = ByteDifference | PairDifference | RefusalDifference


@frozen()
class Unsaid:
    """What the encoding of one plan's block lists cannot say of a request, and that of the other can.

    ``by``: whose encoding it is, first or second. ``code`` is one of ``oracle.model.encodings.CODES`` where
    the request is refused for it, or ``BEAM_TAILS`` where it is served without them.
    """

    by: str
    code: str
    request: int

    def words(self, names: Names = (FIRST, SECOND)) -> str:
        return f"{names[self.by == SECOND]} cannot say request {self.request}: {self.code}"


@frozen()
class Comparison:
    """What two plans differ in; empty: they write the same bytes from the same ranks.

    ``unsaid``: what only one of two encodings of block lists can say, which is no difference.
    """

    first: str
    second: str
    bytes: tuple[ByteDifference, ...] = ()
    pairs: tuple[PairDifference, ...] = ()
    refusals: tuple[RefusalDifference, ...] = ()
    unsaid: tuple[Unsaid, ...] = ()

    @property
    def differences(self) -> tuple[Difference, ...]:
        return (*self.refusals, *self.pairs, *self.bytes)

    @property
    def identical(self) -> bool:
        return not (self.bytes or self.pairs or self.refusals)

    def lines(self) -> tuple[str, ...]:
        """Every difference as a sentence."""
        return tuple(difference.words((self.first, self.second)) for difference in self.differences)

    def exchanged(self) -> Comparison:
        """The same comparison with first and second exchanged."""
        turn = {FIRST: SECOND, SECOND: FIRST}
        return Comparison(
            self.second,
            self.first,
            tuple(
                ByteDifference(
                    each.destination,
                    each.group,
                    each.layer,
                    each.role,
                    each.ordinal,
                    each.nbytes,
                    each.second_senders,
                    each.first_senders,
                    turn.get(each.right, each.right),
                    each.heads,
                    each.tokens,
                    each.request,
                )
                for each in self.bytes
            ),
            tuple(PairDifference(p.request, p.source, p.destination, p.second, p.first) for p in self.pairs),
            tuple(RefusalDifference(turn[r.refused_by], r.code, r.reason, r.request) for r in self.refusals),
            tuple(Unsaid(turn[u.by], u.code, u.request) for u in self.unsaid),
        )


def _ranks(ranks: tuple[int, ...]) -> str:
    if not ranks:
        return NOBODY
    return f"rank{'s' * (len(ranks) > 1)} {', '.join(map(str, ranks))}"


def _right(right: str, names: Names) -> str:
    return {
        BOTH: "both are right",
        NEITHER: "neither is right",
        FIRST: f"{names[0]} is right",
        SECOND: f"{names[1]} is right",
        UNKNOWN: "which is right was not asked",
    }[right]


def _spans(indices: tuple[int, ...]) -> str:
    """``0..2,5`` for 0, 1, 2, 5."""
    spans: list[list[int]] = []
    for index in indices:
        if spans and spans[-1][1] == index - 1:
            spans[-1][1] = index
        else:
            spans.append([index, index])
    return ",".join(str(low) if low == high else f"{low}..{high}" for low, high in spans)
