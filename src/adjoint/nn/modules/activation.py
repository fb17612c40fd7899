"""Activations: functions of each element, or along one dimension.

`MultiheadAttention`, which PyTorch keeps in the file of this name, is found here too.
"""

from __future__ import annotations

from typing import Any

from adjoint.core.errors import ShapeError
from adjoint.core.shapes import show
from adjoint.core.source_lines import warn
from adjoint.nn import functional, init
from adjoint.nn.modules import made
from adjoint.nn.modules.attention import MultiheadAttention as MultiheadAttention
from adjoint.nn.modules.module import Module
from adjoint.nn.modules.utils import new_parameter
from adjoint.tensor.tensor import Tensor

__getattr__, __dir__, __all__ = made.door(globals(), "MultiheadAttention", "PReLU")


class PReLU(Module):
    """x, and a x for negative x; a is learned, one or one for each channel (dimension 1).

    >>> import adjoint as ad
    >>> ad.nn.PReLU()(ad.tensor([-1.0, 2.0]))
    tensor([-0.2500,  2.0000], grad_fn=<...>)
    """

    weight: Tensor

    def __init__(
        self, num_parameters: int = 1, init: float = 0.25, device: Any = None, dtype: Any = None
    ) -> None:
        super().__init__()
        self.num_parameters, self.init = num_parameters, init
        self.weight = new_parameter(num_parameters, device=device, dtype=dtype)
        self.reset_parameters()

    def reset_parameters(self) -> None:
        """Set all slopes to `init`."""
        init.constant_(self.weight, self.init)

    def forward(self, input: Tensor) -> Tensor:
        return functional.prelu(input, self.weight)

    def extra_repr(self) -> str:
        return f"num_parameters={self.num_parameters}"


# -- words of the table ----------------------------------------------------------------------------


def renamed(
    min_val: float, max_val: float, min_value: float | None, max_value: float | None
) -> tuple[float, float]:
    """The limits of `Hardtanh`, given perhaps under their former names."""
    if min_value is not None or max_value is not None:
        warn("Hardtanh: min_value and max_value are now called min_val and max_val.", FutureWarning)
    return min_val if min_value is None else min_value, max_val if max_value is None else max_value


def images(input: Tensor) -> Tensor:
    """The input of `Softmax2d`."""
    if input.ndim not in (3, 4):
        raise ShapeError(
            f"Softmax2d: needs 3 or 4 dimensions, got an input of {show(input.shape)}."
        )
    return input
