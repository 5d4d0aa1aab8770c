"""The two settings of the legacy sender: how block lists are aligned, and whether Helix is known."""

from __future__ import annotations

from oracle.model.errors import InvalidCase
from oracle.model.records import frozen

OPTIONS = ("suffix", "no-helix")


@frozen()
class Settings:
    """Which generation of the legacy sender is modelled.

    ``suffix``: positions of blocks follow from list lengths, as before positional tables. The plans
    recorded of that generation have rank infos in which a stage without attention reports the heads
    of the model; the newest reports none and crashes on it. That generation also let any sender
    send in chunks; the newest refuses it for recurrent state and pipelined senders.
    ``helix``: one side may be context parallel.
    """

    suffix: bool = False
    helix: bool = True

    @classmethod
    def parse(cls, options: str) -> Settings:
        """Settings from ``""``, ``"suffix"``, ``"no-helix"`` or ``"suffix,no-helix"``."""
        chosen = options.split(",") if options else []
        if len(set(chosen)) != len(chosen) or any(option not in OPTIONS for option in chosen):
            raise InvalidCase("native options", options, f"expected nothing or each of {', '.join(OPTIONS)} once")
        return cls(suffix="suffix" in chosen, helix="no-helix" not in chosen)

    @property
    def name(self) -> str:
        chosen = [option for option, on in zip(OPTIONS, (self.suffix, not self.helix), strict=True) if on]
        return "native" + (":" + ",".join(chosen) if chosen else "")
