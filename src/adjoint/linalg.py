"""`ad.linalg`: the operators `linalg_…`, under PyTorch's names.

>>> from adjoint.linalg import det
>>> import adjoint as ad
>>> det(ad.tensor([[2.0, 0.0], [1.0, 4.0]]))
tensor(8.)
"""

from __future__ import annotations

from adjoint.core.errors import LinAlgError as LinAlgError
from adjoint.ops import namespace as _namespace

__getattr__, __dir__ = _namespace.namespace(__name__)
