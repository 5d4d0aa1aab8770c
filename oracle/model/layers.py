"""Sets of global layer ids: ``3..59``, ``0..47/4``, ``1,3,5``."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from itertools import pairwise

from oracle.model.errors import InvalidCase
from oracle.model.records import Hashed, record


@record
class LayerSet(Hashed):
    """A set of global layer ids in ascending order; ``str()`` and :meth:`parse` are inverse."""

    ids: tuple[int, ...] = ()

    def __post_init__(self) -> None:
        ids = tuple(self.ids)
        if any(type(i) is not int or i < 0 for i in ids) or any(a >= b for a, b in pairwise(ids)):
            raise InvalidCase("layers", ids, "expected distinct layer ids in ascending order, none negative")
        object.__setattr__(self, "ids", ids)

    @classmethod
    def of(cls, ids: Iterable[int]) -> LayerSet:
        return cls(tuple(sorted(set(ids))))

    @classmethod
    def parse(cls, text: str) -> LayerSet:
        ids: list[int] = []
        for piece in filter(None, (piece.strip() for piece in text.split(","))):
            try:
                span, _, step = piece.partition("/")
                first, dots, last = span.partition("..")
                start, stride = int(first), int(step) if step else 1
                end = int(last) if dots else start
                if stride < 1 or end < start or (step and not dots):
                    raise ValueError
                ids.extend(range(start, end + 1, stride))
            except ValueError:
                raise InvalidCase("layers", text, "expected layer sets such as 0..3, 0..47/4 or 1,3,5") from None
        return cls(tuple(ids))

    def __str__(self) -> str:
        pieces: list[str] = []
        ids = self.ids
        start = 0
        while start < len(ids):
            end = start + 1
            step = ids[end] - ids[start] if end < len(ids) else 1
            while end < len(ids) and ids[end] - ids[end - 1] == step:
                end += 1
            if end - start >= (2 if step == 1 else 3):
                pieces.append(f"{ids[start]}..{ids[end - 1]}" + (f"/{step}" if step > 1 else ""))
                start = end
            else:
                pieces.append(str(ids[start]))
                start += 1
        return ",".join(pieces)

    def __contains__(self, layer: int) -> bool:
        return layer in self.ids

    def __iter__(self) -> Iterator[int]:
        return iter(self.ids)

    def __len__(self) -> int:
        return len(self.ids)
