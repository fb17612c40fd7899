"""Adafactor, second moments of matrices by rows and columns."""

from __future__ import annotations

from typing import Any

from adjoint import ops
from adjoint.core.dtypes import finfo as finfo
from adjoint.optim import made
from adjoint.optim.formulas import FormulaOptimizer
from adjoint.optim.options import Options

__getattr__, __dir__, __all__ = made.door(globals())


class OfMatrices(FormulaOptimizer):
    """An optimiser that keeps means of rows and columns of matrices."""

    def slot_values(self, p: Any, group: Options) -> list[Any]:
        """Means of rows and columns of a matrix, or of the elements of a vector."""
        state = self.state[p]
        if p.ndim < 2:
            if "variance" not in state:
                state["variance"] = ops.zeros_like(p.detach())
            return [state["variance"]]
        if "row_var" not in state:
            *outer, rows, columns = p.shape
            state["row_var"] = p.detach().new_zeros((*outer, rows, 1))
            state["col_var"] = p.detach().new_zeros((*outer, 1, columns))
        return [state["row_var"], state["col_var"]]


def root_mean_square(x: Any) -> Any:
    """The root of the mean square."""
    return (x * x).mean().sqrt()
