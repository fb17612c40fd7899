"""`ad.nn.init`: first values of parameters, drawn in place from PyTorch's distributions.

Each function writes to the tensor without recording, and returns it.

>>> import adjoint as ad
>>> ad.nn.init.eye_(ad.empty(2, 3))
tensor([[1., 0., 0.],
        [0., 1., 0.]])
"""

from __future__ import annotations

import functools
import math
from collections.abc import Callable
from typing import Any

from adjoint import ops
from adjoint.core.dtypes import float32
from adjoint.core.errors import ShapeError, ValueRangeError
from adjoint.core.shapes import show
from adjoint.core.source_lines import warn
from adjoint.tensor.modes import no_grad
from adjoint.tensor.tensor import Tensor

__all__ = [
    "calculate_gain",
    "constant_",
    "dirac_",
    "eye_",
    "kaiming_normal_",
    "kaiming_uniform_",
    "normal_",
    "ones_",
    "orthogonal_",
    "sparse_",
    "trunc_normal_",
    "uniform_",
    "xavier_normal_",
    "xavier_uniform_",
    "zeros_",
]

_GAINS = {
    **dict.fromkeys(("linear", "sigmoid", "identity"), 1.0),
    **{f"conv{transposed}{n}d": 1.0 for transposed in ("", "_transpose") for n in (1, 2, 3)},
    "tanh": 5 / 3,
    "relu": math.sqrt(2.0),
    "selu": 3 / 4,
}


def calculate_gain(nonlinearity: str, param: float | None = None) -> float:
    """Return by how much a function shrinks what passes it; `param`: the slope of a leaky ReLU.

    >>> import adjoint as ad
    >>> ad.nn.init.calculate_gain("leaky_relu", 1.0)
    1.0
    """
    if nonlinearity == "leaky_relu":
        slope = 0.01 if param is None else param
        if isinstance(slope, bool) or not isinstance(slope, (int, float)):
            raise ValueRangeError(f"calculate_gain: the slope is a number, got {param!r}")
        return math.sqrt(2.0 / (1 + slope**2))
    if nonlinearity not in _GAINS:
        known = ", ".join([*_GAINS, "leaky_relu"])
        raise ValueRangeError(f"calculate_gain: {nonlinearity!r} is not one of {known}")
    return _GAINS[nonlinearity]


def uniform_(
    tensor: Tensor, a: float = 0.0, b: float = 1.0, generator: Any = None
) -> Tensor:  # fmt: skip
    """Fill with values uniform in [a, b).

    >>> import adjoint as ad
    >>> ad.nn.init.uniform_(ad.empty(2, 3), -1.0, 1.0).shape
    (2, 3)
    """
    with no_grad():
        return tensor.uniform_(a, b, generator=generator)


def normal_(
    tensor: Tensor, mean: float = 0.0, std: float = 1.0, generator: Any = None
) -> Tensor:  # fmt: skip
    """Fill with values of the normal distribution.

    >>> import adjoint as ad
    >>> ad.nn.init.normal_(ad.empty(2, 3), std=0.1).shape
    (2, 3)
    """
    with no_grad():
        return tensor.normal_(mean, std, generator=generator)


def trunc_normal_(
    tensor: Tensor,
    mean: float = 0.0,
    std: float = 1.0,
    a: float = -2.0,
    b: float = 2.0,
    generator: Any = None,
) -> Tensor:
    """Fill with values of the normal distribution that lie in [a, b].

    x = mean + std √2 erf⁻¹(2u - 1), where u is uniform between the probabilities of a and b.

    >>> import adjoint as ad
    >>> x = ad.nn.init.trunc_normal_(ad.empty(1000))
    >>> bool((x.abs() <= 2).all())
    True
    """
    if mean < a - 2 * std or mean > b + 2 * std:
        warn(
            f"trunc_normal_: the mean {mean} is more than two deviations outside [{a}, {b}]; the "
            "distribution of values may be wrong"
        )
    if tensor.dtype.itemsize < 4:  # too few numbers between -1 and 1: many would be the bounds
        wide = tensor.new_empty(tensor.shape, dtype=float32)
        with no_grad():
            return tensor.copy_(trunc_normal_(wide, mean, std, a, b, generator))
    low, high = (0.5 * (1 + math.erf((x - mean) / std / math.sqrt(2))) for x in (a, b))
    with no_grad():
        tensor.uniform_(2 * low - 1, 2 * high - 1, generator=generator)
        tensor.erfinv_().mul_(std * math.sqrt(2)).add_(mean)
        return tensor.clamp_(a, b)


def constant_(tensor: Tensor, val: float) -> Tensor:
    """Fill with one value.

    >>> import adjoint as ad
    >>> ad.nn.init.constant_(ad.empty(2, 2), 3.0)
    tensor([[3., 3.],
            [3., 3.]])
    """
    with no_grad():
        return tensor.fill_(val)


def ones_(tensor: Tensor) -> Tensor:
    """Fill with 1.

    >>> import adjoint as ad
    >>> ad.nn.init.ones_(ad.empty(2, 2))
    tensor([[1., 1.],
            [1., 1.]])
    """
    return constant_(tensor, 1.0)


def zeros_(tensor: Tensor) -> Tensor:
    """Fill with 0.

    >>> import adjoint as ad
    >>> ad.nn.init.zeros_(ad.empty(2, 2))
    tensor([[0., 0.],
            [0., 0.]])
    """
    return constant_(tensor, 0.0)


def eye_(tensor: Tensor) -> Tensor:
    """Fill a matrix with the identity.

    >>> import adjoint as ad
    >>> ad.nn.init.eye_(ad.empty(2, 2))
    tensor([[1., 0.],
            [0., 1.]])
    """
    _check_dimensions("eye_", tensor, (2,))
    with no_grad():
        return tensor.copy_(ops.eye(*tensor.shape, dtype=tensor.dtype))


def dirac_(tensor: Tensor, groups: int = 1) -> Tensor:
    """Fill the weight of a convolution such that it passes as many channels as it can.

    >>> import adjoint as ad
    >>> ad.nn.init.dirac_(ad.empty(1, 2, 3))
    tensor([[[0., 1., 0.],
             [0., 0., 0.]]])
    """
    _check_dimensions("dirac_", tensor, (3, 4, 5))
    sizes = tensor.shape
    if sizes[0] % groups:
        raise ValueRangeError(f"dirac_: {sizes[0]} channels cannot be divided in {groups} groups")
    channels = sizes[0] // groups
    middle = tuple(n // 2 for n in sizes[2:])
    with no_grad():
        tensor.zero_()
        for group in range(groups):
            for channel in range(min(channels, sizes[1])):
                tensor[(group * channels + channel, channel, *middle)] = 1
    return tensor


def xavier_uniform_(tensor: Tensor, gain: float = 1.0, generator: Any = None) -> Tensor:
    """Fill with values uniform in [-x, x), x = gain √(6 / (fan_in + fan_out)).  Glorot 2010.

    >>> import adjoint as ad
    >>> ad.nn.init.xavier_uniform_(ad.empty(2, 3)).shape
    (2, 3)
    """
    bound = math.sqrt(3.0) * gain * math.sqrt(2.0 / sum(_fans(tensor)))
    return uniform_(tensor, -bound, bound, generator)


def xavier_normal_(tensor: Tensor, gain: float = 1.0, generator: Any = None) -> Tensor:
    """Fill with normal values of deviation gain √(2 / (fan_in + fan_out)).  Glorot 2010.

    >>> import adjoint as ad
    >>> ad.nn.init.xavier_normal_(ad.empty(2, 3)).shape
    (2, 3)
    """
    return normal_(tensor, 0.0, gain * math.sqrt(2.0 / sum(_fans(tensor))), generator)


def kaiming_uniform_(
    tensor: Tensor,
    a: float = 0,
    mode: str = "fan_in",
    nonlinearity: str = "leaky_relu",
    generator: Any = None,
) -> Tensor:
    """Fill with values uniform in [-x, x), x = gain √(3 / fan).  He 2015.

    `a` is the slope of the leaky ReLU that follows.

    >>> import adjoint as ad
    >>> ad.nn.init.kaiming_uniform_(ad.empty(2, 3)).shape
    (2, 3)
    """
    if 0 in tensor.shape:
        return _empty("kaiming_uniform_", tensor)
    std = _deviation(tensor, a, mode, nonlinearity)
    return uniform_(tensor, -math.sqrt(3.0) * std, math.sqrt(3.0) * std, generator)


def kaiming_normal_(
    tensor: Tensor,
    a: float = 0,
    mode: str = "fan_in",
    nonlinearity: str = "leaky_relu",
    generator: Any = None,
) -> Tensor:
    """Fill with normal values of deviation gain / √fan.  He 2015.

    >>> import adjoint as ad
    >>> ad.nn.init.kaiming_normal_(ad.empty(2, 3)).shape
    (2, 3)
    """
    if 0 in tensor.shape:
        return _empty("kaiming_normal_", tensor)
    return normal_(tensor, 0.0, _deviation(tensor, a, mode, nonlinearity), generator)


def orthogonal_(tensor: Tensor, gain: float = 1, generator: Any = None) -> Tensor:
    """Fill with a (semi-)orthogonal matrix; dimensions after the first count as columns.

    >>> import adjoint as ad
    >>> x = ad.nn.init.orthogonal_(ad.empty(2, 3))
    >>> ad.allclose(x @ x.T, ad.eye(2), atol=1e-6)
    True
    """
    if tensor.ndim < 2:
        raise ShapeError(f"orthogonal_: needs 2 or more dimensions, got {show(tensor.shape)}")
    if tensor.numel() == 0:
        return tensor
    rows = tensor.shape[0]
    columns = tensor.numel() // rows
    with no_grad():
        drawn = tensor.new_empty((rows, columns)).normal_(0, 1, generator=generator)
        q, r = ops.linalg_qr(drawn.t() if rows < columns else drawn)
        q = q * ops.diagonal(r).sgn()  # Q is uniform if R has a positive diagonal: Mezzadri 2007
        q = q.t() if rows < columns else q
        return tensor.copy_(q.reshape(tensor.shape)).mul_(gain)


def sparse_(tensor: Tensor, sparsity: float, std: float = 0.01, generator: Any = None) -> Tensor:
    """Fill a matrix with normal values, a fraction of each column with 0.  Martens 2010.

    >>> import adjoint as ad
    >>> ad.nn.init.sparse_(ad.empty(2, 3), sparsity=0.5).shape
    (2, 3)
    """
    _check_dimensions("sparse_", tensor, (2,))
    rows, columns = tensor.shape
    zeros = math.ceil(sparsity * rows)
    with no_grad():
        tensor.normal_(0, std, generator=generator)
        for column in range(columns):
            tensor[ops.randperm(rows, generator=generator)[:zeros], column] = 0
    return tensor


def _check_dimensions(what: str, tensor: Tensor, wanted: tuple[int, ...]) -> None:
    if tensor.ndim not in wanted:
        listed = " or ".join(map(str, wanted))
        raise ShapeError(f"{what}: needs {listed} dimensions, got {show(tensor.shape)}")


def _empty(what: str, tensor: Tensor) -> Tensor:
    warn(f"{what}: a tensor without elements has nothing to initialize")
    return tensor


def _fans(tensor: Tensor) -> tuple[int, int]:
    """(fan_in, fan_out): how many numbers an output of a layer uses, and how many use an input."""
    if tensor.ndim < 2:
        raise ShapeError(
            f"fan_in and fan_out are known of 2 or more dimensions, got {show(tensor.shape)}"
        )
    field = math.prod(tensor.shape[2:])
    return tensor.shape[1] * field, tensor.shape[0] * field


_calculate_fan_in_and_fan_out = _fans  # PyTorch's name, which layers of users call


def _deviation(tensor: Tensor, a: float, mode: str, nonlinearity: str) -> float:
    modes = ("fan_in", "fan_out")
    chosen = mode.lower()
    if chosen not in modes:
        raise ValueRangeError(f"mode is one of {', '.join(modes)}, got {mode!r}")
    return calculate_gain(nonlinearity, a) / math.sqrt(_fans(tensor)[modes.index(chosen)])


def _old_name(function: Callable[..., Tensor]) -> Callable[..., Tensor]:
    """The function under its name without underscore, which warns."""
    name = function.__name__

    @functools.wraps(function)
    def called(*args: Any, **keywords: Any) -> Tensor:
        warn(f"nn.init.{name[:-1]} is now nn.init.{name}", FutureWarning)
        return function(*args, **keywords)

    called.__name__ = called.__qualname__ = name[:-1]
    called.__doc__ = f"As `{name}`, which it is now called."
    return called


uniform, normal, constant = map(_old_name, (uniform_, normal_, constant_))
eye, dirac, orthogonal, sparse = map(_old_name, (eye_, dirac_, orthogonal_, sparse_))
xavier_uniform, xavier_normal = map(_old_name, (xavier_uniform_, xavier_normal_))
kaiming_uniform, kaiming_normal = map(_old_name, (kaiming_uniform_, kaiming_normal_))


def __dir__() -> list[str]:
    return sorted(__all__)
