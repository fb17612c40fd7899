"""Switches of NVIDIA's devices, which are not here: they are kept, and change nothing."""

from __future__ import annotations

import contextlib
from collections.abc import Generator


class matmul:  # noqa: N801 - a namespace of switches
    """Switches of products."""

    allow_tf32 = False
    allow_fp16_reduced_precision_reduction = True
    allow_bf16_reduced_precision_reduction = True
    allow_fp16_accumulation = False


_KERNELS = {"flash": True, "mem_efficient": True, "math": True, "cudnn": True}


def is_built() -> bool:
    """Whether adjoint was built for these devices."""
    return False


def flash_sdp_enabled() -> bool:
    """Return what `enable_flash_sdp` was given."""
    return _KERNELS["flash"]


def enable_flash_sdp(enabled: bool) -> None:
    """Accept a choice among kernels of attention."""
    _KERNELS["flash"] = enabled


def mem_efficient_sdp_enabled() -> bool:
    """Return what `enable_mem_efficient_sdp` was given."""
    return _KERNELS["mem_efficient"]


def enable_mem_efficient_sdp(enabled: bool) -> None:
    """Accept a choice among kernels of attention."""
    _KERNELS["mem_efficient"] = enabled


def math_sdp_enabled() -> bool:
    """Return what `enable_math_sdp` was given."""
    return _KERNELS["math"]


def enable_math_sdp(enabled: bool) -> None:
    """Accept a choice among kernels of attention."""
    _KERNELS["math"] = enabled


def cudnn_sdp_enabled() -> bool:
    """Return what `enable_cudnn_sdp` was given."""
    return _KERNELS["cudnn"]


def enable_cudnn_sdp(enabled: bool) -> None:
    """Accept a choice among kernels of attention."""
    _KERNELS["cudnn"] = enabled


@contextlib.contextmanager
def sdp_kernel(
    enable_flash: bool = True,
    enable_math: bool = True,
    enable_mem_efficient: bool = True,
    enable_cudnn: bool = True,
) -> Generator[None]:
    """Choose among kernels of attention in a block: here there is one."""
    yield
