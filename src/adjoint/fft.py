"""`ad.fft`: the operators `fft_…`, under PyTorch's names.

>>> from adjoint.fft import rfft
>>> import adjoint as ad
>>> rfft(ad.tensor([1.0, 0.0, 1.0, 0.0]))
tensor([2.+0.j, 0.+0.j, 2.+0.j])
"""

from __future__ import annotations

from adjoint.ops import namespace as _namespace

__getattr__, __dir__ = _namespace.namespace(__name__)
