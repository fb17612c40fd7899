"""SparseAdam, Adam of the entries that a sparse gradient stores."""

from __future__ import annotations

from typing import Any

from adjoint.core.errors import ValueRangeError
from adjoint.optim import made
from adjoint.optim.formulas import FormulaOptimizer
from adjoint.optim.options import Options

__getattr__, __dir__, __all__ = made.door(globals())


class OfDense(FormulaOptimizer):
    """An optimiser of dense real parameters."""

    def add_param_group(self, param_group: dict[str, Any]) -> None:
        """Add a group of dense real parameters."""
        super().add_param_group(param_group)
        for p in self.param_groups[-1]["params"]:
            if p.is_sparse or p.is_complex():
                kind = "sparse" if p.is_sparse else "complex"
                raise ValueRangeError(
                    f"{type(self).__name__}: parameters are dense and real, got a {kind} one"
                )

    def initial_scalar(self, name: str, group: Options) -> Any:
        return 0  # a plain number, as in PyTorch
