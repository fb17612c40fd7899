"""Activations: functions of each element, or along one dimension.

`MultiheadAttention`, which PyTorch keeps in the file of this name, is found here too.
"""

from __future__ import annotations

from typing import Any, ClassVar

from adjoint.core.errors import ShapeError, ValueRangeError
from adjoint.core.shapes import show
from adjoint.core.source_lines import warn
from adjoint.nn import functional, init
from adjoint.nn.modules.attention import MultiheadAttention
from adjoint.nn.modules.module import Module
from adjoint.nn.modules.utils import new_parameter
from adjoint.tensor.tensor import Tensor

__all__ = [
    "CELU",
    "ELU",
    "GELU",
    "GLU",
    "SELU",
    "Hardshrink",
    "Hardsigmoid",
    "Hardswish",
    "Hardtanh",
    "LeakyReLU",
    "LogSigmoid",
    "LogSoftmax",
    "Mish",
    "MultiheadAttention",
    "PReLU",
    "RReLU",
    "ReLU",
    "ReLU6",
    "SiLU",
    "Sigmoid",
    "Softmax",
    "Softmax2d",
    "Softmin",
    "Softplus",
    "Softshrink",
    "Softsign",
    "Tanh",
    "Tanhshrink",
    "Threshold",
]  # fmt: skip


class _Activation(Module):
    """A module whose repr has the attributes named in `shown`, and `inplace` where it is true."""

    shown: ClassVar[tuple[str, ...]] = ()

    def extra_repr(self) -> str:
        parts = [f"{name}={getattr(self, name)!r}" for name in self.shown]
        if getattr(self, "inplace", False):
            parts.append("inplace=True")
        return ", ".join(parts)


# --- rectifiers ----------------------------------------------------------------------------------


class ReLU(_Activation):
    """max(x, 0).

    >>> import adjoint as ad
    >>> ad.nn.ReLU()(ad.tensor([-1.0, 2.0]))
    tensor([0., 2.])
    """

    def __init__(self, inplace: bool = False) -> None:
        super().__init__()
        self.inplace = inplace

    def forward(self, input: Tensor) -> Tensor:
        return functional.relu(input, self.inplace)


class RReLU(_Activation):
    """x, and a x for negative x; a is drawn for each element while training.

    >>> import adjoint as ad
    >>> ad.nn.RReLU(0.25, 0.75).eval()(ad.tensor([-1.0, 2.0]))
    tensor([-0.5000,  2.0000])
    """

    shown = ("lower", "upper")

    def __init__(self, lower: float = 1 / 8, upper: float = 1 / 3, inplace: bool = False) -> None:
        super().__init__()
        self.lower, self.upper, self.inplace = lower, upper, inplace

    def forward(self, input: Tensor) -> Tensor:
        return functional.rrelu(input, self.lower, self.upper, self.training, self.inplace)


class Hardtanh(_Activation):
    """x between two limits.

    >>> import adjoint as ad
    >>> ad.nn.Hardtanh()(ad.tensor([-3.0, 0.5, 2.0]))
    tensor([-1.0000,  0.5000,  1.0000])
    """

    shown = ("min_val", "max_val")

    def __init__(
        self,
        min_val: float = -1.0,
        max_val: float = 1.0,
        inplace: bool = False,
        min_value: float | None = None,
        max_value: float | None = None,
    ) -> None:
        super().__init__()
        if min_value is not None or max_value is not None:
            warn(
                "Hardtanh: min_value and max_value are now called min_val and max_val.",
                FutureWarning,
            )
            min_val = min_val if min_value is None else min_value
            max_val = max_val if max_value is None else max_value
        if min_val >= max_val:
            raise ValueRangeError(
                f"Hardtanh(min_val={min_val}, max_val={max_val}): min_val must be less."
            )
        self.min_val, self.max_val, self.inplace = min_val, max_val, inplace

    def forward(self, input: Tensor) -> Tensor:
        return functional.hardtanh(input, self.min_val, self.max_val, self.inplace)


class ReLU6(Hardtanh):
    """min(max(x, 0), 6).

    >>> import adjoint as ad
    >>> ad.nn.ReLU6()(ad.tensor([-1.0, 7.0]))
    tensor([0., 6.])
    """

    shown = ()

    def __init__(self, inplace: bool = False) -> None:
        super().__init__(0.0, 6.0, inplace)


class LeakyReLU(_Activation):
    """x, and negative_slope x for negative x.

    >>> import adjoint as ad
    >>> ad.nn.LeakyReLU(0.5)(ad.tensor([-1.0, 2.0]))
    tensor([-0.5000,  2.0000])
    """

    shown = ("negative_slope",)

    def __init__(self, negative_slope: float = 1e-2, inplace: bool = False) -> None:
        super().__init__()
        self.negative_slope, self.inplace = negative_slope, inplace

    def forward(self, input: Tensor) -> Tensor:
        return functional.leaky_relu(input, self.negative_slope, self.inplace)


class PReLU(_Activation):
    """x, and a x for negative x; a is learned, one or one for each channel (dimension 1).

    >>> import adjoint as ad
    >>> ad.nn.PReLU()(ad.tensor([-1.0, 2.0]))
    tensor([-0.2500,  2.0000], grad_fn=<...>)
    """

    shown = ("num_parameters",)
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


class Threshold(_Activation):
    """x, and `value` for x up to the threshold.

    >>> import adjoint as ad
    >>> ad.nn.Threshold(0.5, -1.0)(ad.tensor([0.25, 2.0]))
    tensor([-1.,  2.])
    """

    shown = ("threshold", "value")

    def __init__(self, threshold: float, value: float, inplace: bool = False) -> None:
        super().__init__()
        self.threshold, self.value, self.inplace = threshold, value, inplace

    def forward(self, input: Tensor) -> Tensor:
        return functional.threshold(input, self.threshold, self.value, self.inplace)


# --- smooth ones ---------------------------------------------------------------------------------


class ELU(_Activation):
    """x, and alpha (exp(x) - 1) for negative x.

    >>> import adjoint as ad
    >>> ad.nn.ELU()(ad.tensor([-1.0, 2.0]))
    tensor([-0.6321,  2.0000])
    """

    shown = ("alpha",)

    def __init__(self, alpha: float = 1.0, inplace: bool = False) -> None:
        super().__init__()
        self.alpha, self.inplace = alpha, inplace

    def forward(self, input: Tensor) -> Tensor:
        return functional.elu(input, self.alpha, self.inplace)


class CELU(_Activation):
    """x, and alpha (exp(x / alpha) - 1) for negative x.

    >>> import adjoint as ad
    >>> ad.nn.CELU(2.0)(ad.tensor([-1.0, 2.0]))
    tensor([-0.7869,  2.0000])
    """

    shown = ("alpha",)

    def __init__(self, alpha: float = 1.0, inplace: bool = False) -> None:
        super().__init__()
        self.alpha, self.inplace = alpha, inplace

    def forward(self, input: Tensor) -> Tensor:
        return functional.celu(input, self.alpha, self.inplace)


class SELU(_Activation):
    """elu, scaled so that layers keep mean 0 and variance 1.

    >>> import adjoint as ad
    >>> ad.nn.SELU()(ad.tensor([-1.0, 2.0]))
    tensor([-1.1113,  2.1014])
    """

    def __init__(self, inplace: bool = False) -> None:
        super().__init__()
        self.inplace = inplace

    def forward(self, input: Tensor) -> Tensor:
        return functional.selu(input, self.inplace)


class GELU(_Activation):
    """x Φ(x), Φ the normal distribution; 'tanh' approximates it.

    >>> import adjoint as ad
    >>> ad.nn.GELU()(ad.tensor([-1.0, 2.0]))
    tensor([-0.1587,  1.9545])
    """

    shown = ("approximate",)

    def __init__(self, approximate: str = "none") -> None:
        super().__init__()
        self.approximate = approximate

    def forward(self, input: Tensor) -> Tensor:
        return functional.gelu(input, approximate=self.approximate)


class SiLU(_Activation):
    """x σ(x).

    >>> import adjoint as ad
    >>> ad.nn.SiLU()(ad.tensor([-1.0, 2.0]))
    tensor([-0.2689,  1.7616])
    """

    def __init__(self, inplace: bool = False) -> None:
        super().__init__()
        self.inplace = inplace

    def forward(self, input: Tensor) -> Tensor:
        return functional.silu(input, self.inplace)


class Mish(_Activation):
    """x tanh(log(1 + exp(x))).

    >>> import adjoint as ad
    >>> ad.nn.Mish()(ad.tensor([-1.0, 2.0]))
    tensor([-0.3034,  1.9440])
    """

    def __init__(self, inplace: bool = False) -> None:
        super().__init__()
        self.inplace = inplace

    def forward(self, input: Tensor) -> Tensor:
        return functional.mish(input, self.inplace)


class Softplus(_Activation):
    """log(1 + exp(beta x)) / beta; x itself where beta x is above the threshold.

    >>> import adjoint as ad
    >>> ad.nn.Softplus()(ad.tensor([0.0, 30.0]))
    tensor([ 0.6931, 30.0000])
    """

    shown = ("beta", "threshold")

    def __init__(self, beta: float = 1.0, threshold: float = 20.0) -> None:
        super().__init__()
        self.beta, self.threshold = beta, threshold

    def forward(self, input: Tensor) -> Tensor:
        return functional.softplus(input, self.beta, self.threshold)


class Sigmoid(Module):
    """σ(x) = 1 / (1 + exp(-x)).

    >>> import adjoint as ad
    >>> ad.nn.Sigmoid()(ad.tensor([0.0, 2.0]))
    tensor([0.5000, 0.8808])
    """

    def forward(self, input: Tensor) -> Tensor:
        return functional.sigmoid(input)


class LogSigmoid(Module):
    """log σ(x).

    >>> import adjoint as ad
    >>> ad.nn.LogSigmoid()(ad.tensor([0.0, 2.0]))
    tensor([-0.6931, -0.1269])
    """

    def forward(self, input: Tensor) -> Tensor:
        return functional.logsigmoid(input)


class Tanh(Module):
    """tanh(x).

    >>> import adjoint as ad
    >>> ad.nn.Tanh()(ad.tensor([0.0, 2.0]))
    tensor([0.0000, 0.9640])
    """

    def forward(self, input: Tensor) -> Tensor:
        return functional.tanh(input)


class Softsign(Module):
    """x / (1 + |x|).

    >>> import adjoint as ad
    >>> ad.nn.Softsign()(ad.tensor([-1.0, 3.0]))
    tensor([-0.5000,  0.7500])
    """

    def forward(self, input: Tensor) -> Tensor:
        return functional.softsign(input)


class Tanhshrink(Module):
    """x - tanh(x).

    >>> import adjoint as ad
    >>> ad.nn.Tanhshrink()(ad.tensor([0.0, 2.0]))
    tensor([0.0000, 1.0360])
    """

    def forward(self, input: Tensor) -> Tensor:
        return functional.tanhshrink(input)


# --- piecewise ones ------------------------------------------------------------------------------


class Hardsigmoid(Module):
    """(x + 3) / 6 between 0 and 1.

    >>> import adjoint as ad
    >>> ad.nn.Hardsigmoid()(ad.tensor([-4.0, 0.0, 4.0]))
    tensor([0.0000, 0.5000, 1.0000])
    """

    def __init__(self, inplace: bool = False) -> None:
        super().__init__()
        self.inplace = inplace

    def forward(self, input: Tensor) -> Tensor:
        return functional.hardsigmoid(input, self.inplace)


class Hardswish(Module):
    """x · hardsigmoid(x).

    >>> import adjoint as ad
    >>> ad.nn.Hardswish()(ad.tensor([-4.0, 1.5, 4.0]))
    tensor([-0.0000,  1.1250,  4.0000])
    """

    def __init__(self, inplace: bool = False) -> None:
        super().__init__()
        self.inplace = inplace

    def forward(self, input: Tensor) -> Tensor:
        return functional.hardswish(input, self.inplace)


class _Shrink(Module):
    """A function that is 0 from -lambd to lambd."""

    def __init__(self, lambd: float = 0.5) -> None:
        super().__init__()
        self.lambd = lambd

    def extra_repr(self) -> str:
        return f"{self.lambd}"


class Hardshrink(_Shrink):
    """x, and 0 from -lambd to lambd.

    >>> import adjoint as ad
    >>> ad.nn.Hardshrink()(ad.tensor([-2.0, 0.25, 1.0]))
    tensor([-2.,  0.,  1.])
    """

    def forward(self, input: Tensor) -> Tensor:
        return functional.hardshrink(input, self.lambd)


class Softshrink(_Shrink):
    """x nearer to 0 by lambd, and 0 from -lambd to lambd.

    >>> import adjoint as ad
    >>> ad.nn.Softshrink()(ad.tensor([-2.0, 0.25, 1.0]))
    tensor([-1.5000,  0.0000,  0.5000])
    """

    def forward(self, input: Tensor) -> Tensor:
        return functional.softshrink(input, self.lambd)


# --- along a dimension ---------------------------------------------------------------------------


class GLU(_Activation):
    """The first half along a dimension, times σ of the second.

    >>> import adjoint as ad
    >>> ad.nn.GLU()(ad.tensor([3.0, 0.0]))
    tensor([1.5000])
    """

    shown = ("dim",)

    def __init__(self, dim: int = -1) -> None:
        super().__init__()
        self.dim = dim

    def forward(self, input: Tensor) -> Tensor:
        return functional.glu(input, self.dim)


class _AlongDimension(_Activation):
    """A function along one dimension, which must be given before it is used."""

    shown = ("dim",)

    def __init__(self, dim: int | None = None) -> None:
        super().__init__()
        self.dim = dim


class Softmax(_AlongDimension):
    """exp(xᵢ) / Σ exp(xⱼ) along a dimension.

    >>> import adjoint as ad
    >>> ad.nn.Softmax(dim=0)(ad.zeros(4))
    tensor([0.2500, 0.2500, 0.2500, 0.2500])
    """

    def forward(self, input: Tensor) -> Tensor:
        return functional.softmax(input, self.dim)


class Softmin(_AlongDimension):
    """softmax of -x.

    >>> import adjoint as ad
    >>> ad.nn.Softmin(dim=0)(ad.tensor([0.0, 1.0]))
    tensor([0.7311, 0.2689])
    """

    def forward(self, input: Tensor) -> Tensor:
        return functional.softmin(input, self.dim)


class LogSoftmax(_AlongDimension):
    """log of softmax, accurate where it is small.

    >>> import adjoint as ad
    >>> ad.nn.LogSoftmax(dim=0)(ad.zeros(2))
    tensor([-0.6931, -0.6931])
    """

    def forward(self, input: Tensor) -> Tensor:
        return functional.log_softmax(input, self.dim)


class Softmax2d(Module):
    """softmax over the channels of images (batch, channels, height, width), or of one image.

    >>> import adjoint as ad
    >>> ad.nn.Softmax2d()(ad.zeros(2, 1, 1)).flatten()
    tensor([0.5000, 0.5000])
    """

    def forward(self, input: Tensor) -> Tensor:
        if input.ndim not in (3, 4):
            raise ShapeError(
                f"Softmax2d: needs 3 or 4 dimensions, got an input of {show(input.shape)}."
            )
        return functional.softmax(input, -3)
