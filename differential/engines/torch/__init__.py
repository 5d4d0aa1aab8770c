"""The engine ``torch``: carries plans out on uint8 tensors of any device, and reaches tensors that others allocated.

PyTorch is imported when the engine is used, not before: without it ``available`` says so.
"""

from __future__ import annotations

import re

from differential.engines.torch.engine import TorchEngine
from oracle.model.errors import InvalidCase

__all__ = ["TorchEngine", "make"]


def make(device: str) -> TorchEngine:
    """The engine on ``device``: ``cpu``, ``cuda``, ``cuda:1`` … Whether there is such a device, ``available`` says."""
    if not isinstance(device, str) or not re.fullmatch(r"[a-z]+(:\d+)?", device):
        raise InvalidCase("device", device, "the torch engine takes cpu, cuda, cuda:1 and so on")
    return TorchEngine(device)
