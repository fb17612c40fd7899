"""Muon, momentum made orthogonal."""

from __future__ import annotations

import math as math
from typing import Any

from adjoint import ops
from adjoint.core.dtypes import bfloat16
from adjoint.core.errors import ValueRangeError
from adjoint.core.shapes import show
from adjoint.optim import made
from adjoint.optim.formulas import FormulaOptimizer

__getattr__, __dir__, __all__ = made.door(globals())


class OnlyMatrices(FormulaOptimizer):
    """An optimiser of matrices alone."""

    def add_param_group(self, param_group: dict[str, Any]) -> None:
        """Add a group of matrices."""
        super().add_param_group(param_group)
        for p in self.param_groups[-1]["params"]:
            if p.ndim != 2:
                raise ValueRangeError(
                    f"{type(self).__name__}: parameters are matrices, one has shape {show(p.shape)}"
                )


def orthogonal(matrix: Any, eps: float, polynomials: Any) -> Any:
    """Bring the singular values of a matrix near 1 by a Newton-Schulz iteration."""
    x = matrix.to(bfloat16)
    tall = x.shape[0] > x.shape[1]
    x = x.T if tall else x
    x = x / x.norm().clamp(min=eps)
    for a, b, c in polynomials:
        gram = x @ x.T
        x = ops.addmm(x, ops.addmm(gram, gram, gram, beta=b, alpha=c), x, beta=a)
    return (x.T if tall else x).to(matrix.dtype)
