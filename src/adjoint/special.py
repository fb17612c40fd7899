"""`ad.special`: the operators `special_…`, under PyTorch's names.

>>> from adjoint.special import erf
>>> import adjoint as ad
>>> ad.grad(erf)(0.0)
tensor(1.1284)
"""

from __future__ import annotations

from adjoint.ops import namespace as _namespace

__getattr__, __dir__ = _namespace.namespace(__name__)
