"""What a cache kind says of itself: its small models, its published ones, and the legacy sender's declaration."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import PurePath
from traceback import extract_tb

from oracle.model.buffers import Model
from oracle.model.case import Native
from oracle.model.errors import InvalidCase, require_whole
from oracle.model.instance import Without

EVIDENCE = ("config", "config in part", "source", "general knowledge")
"""Seen in a public copy of the model's config, wholly or in part; read in code that pins it; not looked up."""


def of_kind(whose: str, error: InvalidCase) -> InvalidCase:
    """``error`` with ``whose`` declaration it is about, said once."""
    argument = error.argument if error.argument.startswith(whose) else f"{whose}: {error.argument}"
    return InvalidCase(argument, error.value, error.accepted)


def _told(error: Exception) -> str:
    """``error`` in one line, with the place that raised it."""
    frame = extract_tb(error.__traceback__)[-1]
    said = " ".join(str(error).split())
    return f"{type(error).__name__}: {said} at {PurePath(frame.filename).name}:{frame.lineno}"


@dataclass(frozen=True, slots=True)
class Declaration:
    """A model and the legacy sender's declaration for it; ``native`` None: no legacy rule exists.

    The last ``extra`` layers (MTP, draft) stand on the last pipeline stage, whatever the cut of those before them.
    ``without``: what (context, generation) lacks of the optional buffers and draft layers. A side that lacks all of
    its extra layers has no such layers at all.
    """

    model: Model
    native: Native | None
    extra: int = 0
    without: tuple[tuple[Without, ...], tuple[Without, ...]] = ((), ())

    def extra_of(self, side: str) -> int:
        """How many extra layers the stages of ``side`` hold."""
        lacking = {layer for lack in self.without[side == "generation"] for layer in lack.layers}
        layers = range(self.model.layers - self.extra, self.model.layers)
        return 0 if all(layer in self.model.draft and layer in lacking for layer in layers) else self.extra


@dataclass(frozen=True, slots=True)
class Surroundings:
    """What a small model has to fit: its layers, and into how many shares each side cuts an axis that is split.

    ``tensor`` are the shares, (context, generation), of the TP grid, ``whole`` those of the TP×CP grid; both are 1 on a
    side with attention DP. ``tokens_per_block`` and ``prompt``, the longest of the case in tokens, are there for kinds
    that ask for them (``Kind.places``) and 0 for others.
    """

    layers: int = 1
    tensor: tuple[int, int] = (1, 1)
    whole: tuple[int, int] = (1, 1)
    tokens_per_block: int = 0
    prompt: int = 0


@dataclass(frozen=True, slots=True)
class PublishedModel:
    """A model that people deploy.

    ``layers`` are cut into pipeline stages; the extra layers that the declaration has after them (MTP) stand on the
    last stage. ``build`` takes the bits of a K/V element, the first of ``element_bits`` unless told otherwise.
    ``tokens_per_block``: the block lengths it can have, the usual one first; empty: any, usually 32. ``source`` says
    where the figures come from and ``evidence`` how far to trust them, one of ``EVIDENCE``.
    """

    name: str
    title: str
    layers: int
    build: Callable[[int], Declaration]
    source: str
    evidence: str
    element_bits: tuple[int, ...] = (16, 8)
    tokens_per_block: tuple[int, ...] = ()

    def __post_init__(self) -> None:
        if self.evidence not in EVIDENCE:
            raise InvalidCase(f"evidence of {self.name}", self.evidence, f"expected one of {', '.join(EVIDENCE)}")

    def declare(self, bits: int | None = None) -> Declaration:
        """The declaration with K/V elements of ``bits`` bits; ``None``: the usual width."""
        bits = self.element_width(bits)
        try:
            found = self.build(bits)
        except InvalidCase as error:
            raise of_kind(f"model {self.name}", error) from error
        except (Exception, SystemExit) as error:
            raise InvalidCase(f"model {self.name}: element bits", bits, f"build raised {_told(error)}") from error
        if not isinstance(found, Declaration):
            raise InvalidCase(f"model {self.name}: build", type(found).__name__, "expected a Declaration")
        if found.model.layers != self.layers + found.extra:
            accepted = f"what it builds has {found.model.layers} layers, {found.extra} of them extra ones"
            raise InvalidCase(f"model {self.name}: layers", self.layers, accepted)
        return found

    def element_width(self, bits: int | None = None) -> int:
        """``bits`` of a K/V element, checked, or the usual number."""
        if bits is None:
            return self.element_bits[0]
        if bits not in self.element_bits:
            accepted = ", ".join(map(str, self.element_bits))
            raise InvalidCase(f"element bits of {self.name}", bits, f"expected one of {accepted}")
        return bits

    def block_length(self, tokens: int | None = None) -> int:
        """``tokens``, checked, or the usual number of tokens per block."""
        allowed = self.tokens_per_block
        if tokens is None:
            return allowed[0] if allowed else 32
        if allowed and tokens not in allowed:
            raise InvalidCase("tokens_per_block", tokens, f"{self.name} has {' or '.join(map(str, allowed))}")
        return tokens


@dataclass(frozen=True, slots=True, eq=False, repr=False)
class Kind:
    """One cache kind, equal to itself alone. A file of this package names it ``KIND``.

    ``order`` sorts the kinds, simplest first. ``decode(numbers, surroundings)`` builds a small model from one number in
    ``0..bounds[i]-1`` per bound, all 0 the simplest; it is pure, and every combination is a layout that exists. Axes
    that must divide are fitted to the surroundings, see ``strategies.kinds.fitting``. ``scope`` are the numbers that
    the small scope enumerates, most telling first.

    ``layers`` are the fewest and the most layers of a small model, the declaration's extra ones not counted;
    ``tokens_per_block`` the block lengths it can have, simplest first. ``stages``, ``helix`` and ``attention_dp`` say
    whether it can be split so at all. ``places``: it places something, such as a window, relative to the prompt.
    """

    name: str
    description: str
    order: int
    bounds: tuple[int, ...]
    decode: Callable[[tuple[int, ...], Surroundings], Declaration]
    scope: tuple[tuple[int, ...], ...]
    published: tuple[PublishedModel, ...] = ()
    layers: tuple[int, int] = (1, 6)
    tokens_per_block: tuple[int, ...] = (1, 2, 3, 4, 8)
    stages: bool = True
    helix: bool = True
    attention_dp: bool = True
    places: bool = False

    def __repr__(self) -> str:
        return f"<kind {self.name}>"

    def __post_init__(self) -> None:
        where = f"kind {self.name}"
        if not self.name.replace("_", "").isalnum() or not self.name.islower():
            raise InvalidCase("kind.name", self.name, "expected lower case letters, digits and _")
        for bound in self.bounds:
            require_whole(f"{where}.bounds", bound, least=1)
            if bound > 256:
                raise InvalidCase(f"{where}.bounds", bound, "expected at most 256")
        require_whole(f"{where}.layers", self.layers[0], least=1)
        require_whole(f"{where}.layers", self.layers[1], least=self.layers[0])
        if not self.scope:
            raise InvalidCase(f"{where}.scope", self.scope, "expected at least one small model")
        for numbers in self.scope:
            self.check(numbers)

    def declare(self, numbers: tuple[int, ...], around: Surroundings) -> Declaration:
        """What ``decode`` builds; what it refuses, and what else it raises, is told with the name of the kind."""
        whose = f"kind {self.name}"
        try:
            found = self.decode(numbers, around)
        except InvalidCase as error:
            raise of_kind(whose, error) from error
        except (Exception, SystemExit) as error:
            raise InvalidCase(f"{whose}: numbers", numbers, f"decode raised {_told(error)}") from error
        if not isinstance(found, Declaration):
            raise InvalidCase(f"{whose}: numbers", numbers, f"decode gave no Declaration: {type(found).__name__}")
        return found

    def check(self, numbers: tuple[int, ...]) -> None:
        """Raise ``InvalidCase`` unless there is one number per bound, and each below it."""
        if len(numbers) != len(self.bounds) or any(
            not 0 <= number < bound for number, bound in zip(numbers, self.bounds, strict=True)
        ):
            raise InvalidCase(f"numbers of kind {self.name}", numbers, f"expected one below each of {self.bounds}")
