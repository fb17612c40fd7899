"""What distributions, constraints and transforms share: broadcasting, probabilities, triangles.

Nothing here knows of any distribution.
"""

from __future__ import annotations

from collections.abc import Callable
from numbers import Number
from typing import Any, Generic, TypeVar, overload

from adjoint import ops
from adjoint.calls.methods import as_tensor
from adjoint.core import dtypes
from adjoint.core.dtypes import DType, finfo
from adjoint.core.errors import ArgumentError, DependsOnValues, ValueRangeError
from adjoint.graph.trace import TraceError
from adjoint.tensor.modes import enable_grad
from adjoint.tensor.tensor import Tensor
from adjoint.transforms.batch import BatchLevel

__all__ = [
    "broadcast_all",
    "clamp_probs",
    "lazy_property",
    "logits_to_probs",
    "probs_to_logits",
    "tril_matrix_to_vec",
    "vec_to_tril_matrix",
]

R = TypeVar("R")


def tensor_of(value: Any, like: DType | None = None) -> Tensor:
    """A tensor as it is; an array or a number as a tensor, numbers in the dtype `like`."""
    if isinstance(value, Tensor):
        return value
    if isinstance(value, Number):
        return ops.scalar_tensor(value, dtype=like or dtypes.DEFAULT.dtype)
    if not hasattr(value, "__array__"):
        raise ParameterTypeError(
            f"a parameter is a number, a tensor or an array, got {type(value).__name__}: {value!r}"
        )
    return as_tensor(value)


class ParameterTypeError(ArgumentError, ValueError):
    """A parameter that is no number and no tensor. Also a ValueError, as in PyTorch."""


def broadcast_all(*values: Any) -> tuple[Tensor, ...]:
    """Return all values as tensors of one shape; numbers get the dtype of the floating ones.

    >>> from adjoint.distributions.utils import broadcast_all
    >>> import adjoint as ad
    >>> broadcast_all(ad.tensor([1.0, 2.0]), 3)
    (tensor([1., 2.]), tensor([3., 3.]))
    """
    tensors = [tensor_of(v) for v in values if not isinstance(v, Number)]
    floating = (t.dtype for t in tensors if t.dtype.is_floating_point)
    like = next(floating, dtypes.DEFAULT.dtype)
    return tuple(ops.broadcast_tensors([tensor_of(v, like) for v in values]))


def sum_rightmost(value: Tensor, count: int) -> Tensor:
    """Sum over the last `count` dimensions."""
    return value.sum(tuple(range(-count, 0))) if count else value


def all_rightmost(value: Tensor, count: int) -> Tensor:
    """Whether all is true, over the last `count` dimensions."""
    return value.reshape((*value.shape[: value.ndim - count], -1)).all(-1) if count else value


def softplus(value: Tensor) -> Tensor:
    """log(1 + eˣ), exact everywhere; `nn.functional.softplus` is x itself from 20 on."""
    return -ops.log_sigmoid(-value)


def log1p_square(value: Tensor) -> Tensor:
    """log(1 + x²), whose square does not overflow."""
    far = value.abs() > 1
    near = value.where(~far, 0.0).square().log1p()
    return ops.where(far, 2 * ops.hypot(value.where(far, 1.0), ops.ones_like(value)).log(), near)


def log1mexp(value: Tensor) -> Tensor:
    """log(1 - eˣ), x < 0: eˣ or 1 - eˣ is small, and neither cancels."""
    close = value > -0.7
    near = (-value.where(close, -1.0).expm1()).log()
    return ops.where(close, near, (-value.where(~close, -1.0).exp()).log1p())


def is_true(valid: Tensor) -> bool:
    """Whether a check holds for all elements, of all samples of `vmap`.

    What is traced has no numbers yet: nothing is known against it.
    """
    while isinstance(valid.home, BatchLevel):
        valid = valid.value
    try:
        return bool(valid.all())
    except (DependsOnValues, TraceError):
        return True


def shown(value: Any) -> str:
    """How a parameter or bound prints: a tensor without dimensions as its number."""
    if isinstance(value, Tensor) and value.ndim == 0 and value.home is None:
        return str(value.item())
    return str(value)


# -- probabilities and logits --------------------------------------------------------------------


def logits_to_probs(logits: Tensor, is_binary: bool = False) -> Tensor:
    """Return probabilities: of log-odds if `is_binary`, else of unnormalised logarithms, last.

    >>> import adjoint as ad
    >>> from adjoint.distributions.utils import logits_to_probs
    >>> logits_to_probs(ad.tensor([0.0, 0.0])), logits_to_probs(ad.tensor(0.0), is_binary=True)
    (tensor([0.5000, 0.5000]), tensor(0.5000))
    """
    return logits.sigmoid() if is_binary else logits.softmax(-1)


def clamp_probs(probs: Tensor) -> Tensor:
    """Return probabilities away from 0 and 1 by the dtype's eps, so that logarithms are finite.

    >>> import adjoint as ad
    >>> from adjoint.distributions.utils import clamp_probs
    >>> clamp_probs(ad.tensor([0.0, 0.5]))
    tensor([1.1921e-07, 5.0000e-01])
    """
    eps = finfo(probs.dtype).eps
    return probs.clamp(eps, 1 - eps)


def probs_to_logits(probs: Tensor, is_binary: bool = False) -> Tensor:
    """Return log-odds if `is_binary`, else logarithms; 0 and 1 are clamped.

    >>> import adjoint as ad
    >>> from adjoint.distributions.utils import probs_to_logits
    >>> probs_to_logits(ad.tensor(0.5), is_binary=True)
    tensor(0.)
    """
    clamped = clamp_probs(probs)
    return clamped.log() - (-clamped).log1p() if is_binary else clamped.log()


class lazy_property(Generic[R]):  # noqa: N801 - reads as a decorator
    """A property that is computed when first asked for and then kept in the instance.

    What it holds can be differentiated though it may first be asked for inside `no_grad`.
    """

    def __init__(self, wrapped: Callable[[Any], R]) -> None:
        self.wrapped = wrapped
        self.__doc__ = wrapped.__doc__
        self.__name__ = wrapped.__name__

    @overload
    def __get__(self, instance: None, owner: type) -> lazy_property[R]: ...
    @overload
    def __get__(self, instance: object, owner: type) -> R: ...
    def __get__(self, instance: Any, owner: type) -> Any:
        if instance is None:
            return self
        with enable_grad():
            value = self.wrapped(instance)
        instance.__dict__[self.__name__] = value
        return value


# -- triangles as vectors ------------------------------------------------------------------------


def tril_matrix_to_vec(mat: Tensor, diag: int = 0) -> Tensor:
    """Return the elements on and below a diagonal, row by row.

    >>> import adjoint as ad
    >>> from adjoint.distributions.utils import tril_matrix_to_vec
    >>> tril_matrix_to_vec(ad.tensor([[1.0, 0.0], [2.0, 3.0]]))
    tensor([1., 2., 3.])
    """
    n = mat.shape[-1]
    if not -n <= diag < n:
        raise ValueRangeError(
            f"tril_matrix_to_vec: diag={diag} is outside of a {n}×{n} matrix; use {-n} to {n - 1}."
        )
    rows, columns = ops.tril_indices(n, n, diag)
    return mat[..., rows, columns]


def vec_to_tril_matrix(vec: Tensor, diag: int = 0) -> Tensor:
    """Return the square matrix with these elements on and below a diagonal, and 0 elsewhere.

    >>> import adjoint as ad
    >>> from adjoint.distributions.utils import vec_to_tril_matrix
    >>> vec_to_tril_matrix(ad.tensor([1.0, 2.0, 3.0]))
    tensor([[1., 0.],
            [2., 3.]])
    """
    length = vec.shape[-1]
    n = _side_of_triangle(length, diag)
    rows, columns = ops.tril_indices(n, n, diag)
    flat = vec.new_zeros((*vec.shape[:-1], n * n))
    places = (rows * n + columns).expand(vec.shape)
    return flat.scatter(-1, places, vec).reshape((*vec.shape[:-1], n, n))


def _side_of_triangle(length: int, diag: int) -> int:
    """The n of an n×n matrix that has `length` elements on and below a diagonal."""
    n = abs(diag)
    while (count := _elements(n, diag)) < length:
        n += 1
    if count != length:
        raise ValueRangeError(
            f"vec_to_tril_matrix: no square matrix has {length} elements on and below "
            f"diagonal {diag}."
        )
    return n


def _elements(n: int, diag: int) -> int:
    return sum(min(max(row + 1 + diag, 0), n) for row in range(n))


def root(x: Tensor, n: Tensor) -> Tensor:
    """x^(1/n): rounding 1/n would cost log(x) ulp."""
    exponent = n.reciprocal()
    near, by = exponent.detach(), n.detach()
    (a, b), (c, d) = _halves(near), _halves(by)
    product = near * by
    lost = (1 - product) - (((a * c - product) + a * d + b * c) + b * d)
    known = lost.isfinite() & (x > 0) & x.isfinite()
    more = lost / by * x.detach().where(known, 1.0).log()
    return x.pow(exponent) * (1 + more.where(known, 0.0))


def _halves(x: Tensor) -> tuple[Tensor, Tensor]:
    """Two numbers with half the digits each, whose sum is x."""
    shift = 2.0 ** ((finfo(x.dtype).bits * 27) // 64) + 1
    large = x * shift
    upper = large - (large - x)
    return upper, x - upper


def below_one(u: Tensor, n: Tensor) -> Tensor:
    """(1 - u)^(1/n), of a probability: from 1 - u where that is exact."""
    exact = u >= 0.5
    near = ((-u.where(~exact, 0.25)).log1p() / n).exp()
    return ops.where(exact, root((1 - u).where(exact, 1.0), n), near)
