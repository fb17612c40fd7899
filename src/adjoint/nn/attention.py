"""`ad.nn.attention`: the choice among kernels of attention, of which there is one."""

from __future__ import annotations

import contextlib
import enum
from collections.abc import Generator, Sequence

__all__ = ["SDPBackend", "sdpa_kernel"]


class SDPBackend(enum.IntEnum):
    """Kernels of `scaled_dot_product_attention` that PyTorch has."""

    ERROR = -1
    MATH = 0
    FLASH_ATTENTION = 1
    EFFICIENT_ATTENTION = 2
    CUDNN_ATTENTION = 3
    OVERRIDEABLE = 4


@contextlib.contextmanager
def sdpa_kernel(
    backends: SDPBackend | Sequence[SDPBackend], set_priority: bool = False
) -> Generator[None]:
    """Choose among kernels of attention in a block: here the one there is computes.

    >>> import adjoint as ad
    >>> from adjoint.nn.attention import SDPBackend, sdpa_kernel
    >>> q = ad.ones(1, 2, 4)
    >>> with sdpa_kernel(SDPBackend.MATH):
    ...     ad.nn.functional.scaled_dot_product_attention(q, q, q).shape
    (1, 2, 4)
    """
    for backend in backends if isinstance(backends, Sequence) else (backends,):
        SDPBackend(backend)
    yield
