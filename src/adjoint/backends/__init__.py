"""`ad.backends`: switches of libraries that PyTorch may use, kept so that programs may set them.

`ad.backends.cudnn.benchmark = True` is remembered and changes nothing here.
"""

from __future__ import annotations

from typing import NoReturn

from adjoint.absent import absent
from adjoint.backends import cpu, cuda, cudnn, mkl, mkldnn, mps, openmp, opt_einsum

__all__ = ["cpu", "cuda", "cudnn", "mkl", "mkldnn", "mps", "openmp", "opt_einsum"]


def __getattr__(name: str) -> NoReturn:
    raise absent(__name__, name, __all__)
