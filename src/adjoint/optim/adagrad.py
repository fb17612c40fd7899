"""Adagrad, steps divided by the root of the sum of squares."""

from __future__ import annotations

from typing import Any

from adjoint.optim import made
from adjoint.optim.formulas import FormulaOptimizer, filled
from adjoint.optim.options import Options

__getattr__, __dir__, __all__ = made.door(globals())


class OfSums(FormulaOptimizer):
    """An optimiser whose state begins with a given number, before the first step."""

    def __init__(self, params: Any, variables: Options) -> None:
        super().__init__(params, variables)
        for group in self.param_groups:
            for p in group["params"]:
                self.scalar_values(p, group)
                self.slot_values(p, group)

    def initial(self, name: str, p: Any, group: Options) -> Any:
        return filled(p, self.defaults["initial_accumulator_value"])
