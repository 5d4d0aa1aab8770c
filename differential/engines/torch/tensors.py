"""Tensors that others allocated, and device memory that is known by its address, as bytes."""

from __future__ import annotations

import re
from typing import Any

import numpy as np

from differential.engines.protocol import EngineUnavailable
from differential.engines.surface import Geometry
from differential.engines.torch.engine import TorchEngine
from oracle.model.errors import InvalidCase


class TensorSurface:
    """The bytes of a tensor, in the order of its indices.

    Raises ``InvalidCase`` for a tensor that has no plain memory: sparse, quantized, conjugated or
    on the device ``meta``.
    """

    __slots__ = ("device", "geometry", "tensor")

    def __init__(self, argument: str, tensor: Any) -> None:
        import torch

        if tensor.layout != torch.strided or tensor.is_quantized or tensor.is_meta or tensor.is_conj():
            kind = "meta" if tensor.is_meta else str(tensor.layout) if tensor.layout != torch.strided else tensor.dtype
            raise InvalidCase(argument, f"a tensor ({kind})", "expected a strided tensor with memory of its own")
        tensor = tensor.detach()
        if tensor.is_complex():
            tensor = torch.view_as_real(tensor)
        size = tensor.element_size()
        self.tensor = tensor.view({1: torch.uint8, 2: torch.int16, 4: torch.int32, 8: torch.int64}[size])
        self.device = str(tensor.device)
        strides = tuple(stride * size for stride in tensor.stride())
        self.geometry = Geometry(tensor.data_ptr(), tuple(tensor.shape), strides, size)

    def read(self) -> np.ndarray:
        import torch

        self._wait()
        # A copy: memory is filled again while what landed before is still to be judged.
        return self.tensor.cpu().contiguous().view(-1).view(torch.uint8).numpy().copy()

    def write(self, values: np.ndarray) -> None:
        import torch

        bytes_of_it = torch.from_numpy(np.array(values, dtype=np.uint8))
        # Caches are often allocated in inference mode, and may be written only there.
        with torch.inference_mode():
            self.tensor.copy_(bytes_of_it.view(self.tensor.dtype).view(self.tensor.shape))
        self._wait()

    def _wait(self) -> None:
        """Others may use other streams."""
        import torch

        if self.tensor.device.type != "cpu":
            torch.accelerator.synchronize(self.tensor.device)


class _Interface:
    """Device memory as other libraries describe it to one another (CUDA array interface, version 3)."""

    def __init__(self, pointer: int, nbytes: int) -> None:
        self.__cuda_array_interface__ = {
            "shape": (nbytes,),
            "typestr": "|u1",
            "data": (pointer, False),
            "strides": None,
            "version": 3,
        }


def surface_at(argument: str, pointer: int, nbytes: int, device: str) -> TensorSurface:
    """``nbytes`` bytes from ``pointer`` on a CUDA ``device``."""
    if not re.fullmatch(r"cuda(:\d+)?", device):
        raise InvalidCase(argument, (pointer, nbytes, device), "expected the device cpu, cuda, cuda:1 and so on")
    reason = TorchEngine(device).available()
    if reason is not None:
        raise EngineUnavailable(argument, (pointer, nbytes, device), reason)
    return _shared(argument, _Interface(pointer, nbytes), pointer, device)


def surface_of_interface(argument: str, memory: Any) -> TensorSurface:
    """The array of another library that describes it by the CUDA array interface."""
    reason = TorchEngine("cuda").available()
    if reason is not None:
        raise EngineUnavailable(argument, type(memory).__name__, reason)
    return _shared(argument, memory, memory.__cuda_array_interface__["data"][0], "cuda")


def _shared(argument: str, described: Any, pointer: int, device: str) -> TensorSurface:
    """Memory as a tensor that shares it; PyTorch finds the device of a pointer unless it is told which."""
    import torch

    try:
        tensor = torch.as_tensor(described, device=device if ":" in device else None)
    except (RuntimeError, TypeError, ValueError) as error:
        raise InvalidCase(argument, f"{pointer:#x} on {device}", str(error).splitlines()[0]) from None
    if tensor.data_ptr() != pointer and tensor.numel():
        raise InvalidCase(argument, f"{pointer:#x} on {device}", f"expected memory of {device}; it lies elsewhere")
    return TensorSurface(argument, tensor)
