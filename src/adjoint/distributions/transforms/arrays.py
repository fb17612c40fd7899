"""Transforms of vectors and matrices: simplices, triangles, correlations, other shapes."""

from __future__ import annotations

from collections.abc import Sequence

from adjoint import ops
from adjoint.core.dtypes import finfo
from adjoint.core.errors import ShapeError
from adjoint.core.shapes import Shape, show
from adjoint.distributions import constraints, made
from adjoint.distributions.constraints import Constraint
from adjoint.distributions.transforms.base import Transform, independent
from adjoint.distributions.transforms.elements import log_slope_of_tanh
from adjoint.distributions.utils import tril_matrix_to_vec, vec_to_tril_matrix
from adjoint.tensor.tensor import Tensor

__getattr__, __dir__, __all__ = made.door(globals(), "CorrCholeskyTransform", "ReshapeTransform")


def vector_shape(what: Transform, shape: Shape, longer: int = 0) -> Shape:
    """A shape that ends in a vector, `longer` by some elements."""
    if not shape:
        raise ShapeError(f"{what!r}: needs vectors, got a shape without dimensions")
    return (*shape[:-1], shape[-1] + longer)


class CorrCholeskyTransform(Transform):
    """Vectors of D(D-1)/2 numbers to Cholesky factors of D×D correlation matrices.

    t = tanh x are partial correlations, and row i is a stick broken by them:
    yᵢⱼ = tᵢⱼ √(1 - Σₖ₍ₖ<ⱼ₎ yᵢₖ²)  (Lewandowski, Kurowicka and Joe 2009).

    >>> import adjoint as ad
    >>> from adjoint.distributions import CorrCholeskyTransform
    >>> CorrCholeskyTransform()(ad.tensor([0.0]))
    tensor([[1., 0.],
            [0., 1.]])
    """

    domain = constraints.real_vector
    codomain = constraints.corr_cholesky
    bijective = True
    parameters = ()

    def _call(self, x: Tensor) -> Tensor:
        limit = 1 - finfo(x.dtype).eps
        partial = vec_to_tril_matrix(x.tanh().clamp(-limit, limit), -1)
        left = (1 - partial.square()).sqrt().cumprod(-1)
        unit = ops.eye(partial.shape[-1], dtype=x.dtype, device=x.device)
        return (partial + unit) * ops.constant_pad_nd(left[..., :-1], (1, 0), 1)

    def _inverse(self, y: Tensor) -> Tensor:
        left = ops.constant_pad_nd(self._left(y)[..., :-1], (1, 0), 1)
        below = tril_matrix_to_vec(left, -1)
        return (tril_matrix_to_vec(y, -1) / below.sqrt()).atanh()

    @staticmethod
    def _left(y: Tensor) -> Tensor:
        """What is left of the unit length of each row behind each column."""
        return 1 - y.square().cumsum(-1)

    def log_abs_det_jacobian(self, x: Tensor, y: Tensor) -> Tensor:
        """dyᵢⱼ/dtᵢⱼ = √(what is left before j), nothing above the diagonal; and that of tanh."""
        sticks = tril_matrix_to_vec(self._left(y), -2).log().sum(-1) / 2
        return sticks + log_slope_of_tanh(x).sum(-1)

    def forward_shape(self, shape: Shape) -> Shape:
        count = vector_shape(self, shape)[-1]
        side = round((1 + (1 + 8 * count) ** 0.5) / 2)
        if side * (side - 1) // 2 != count:
            raise ShapeError(f"{self!r}: {count} is not D(D-1)/2 for any whole number D")
        return (*shape[:-1], side, side)

    def inverse_shape(self, shape: Shape) -> Shape:
        if len(shape) < 2 or shape[-1] != shape[-2]:
            raise ShapeError(f"{self!r}: needs square matrices, got {show(tuple(shape))}")
        return (*shape[:-2], shape[-1] * (shape[-1] - 1) // 2)


class ReshapeTransform(Transform):
    """Events of one shape as events of another with as many elements.

    >>> import adjoint as ad
    >>> from adjoint.distributions import ReshapeTransform
    >>> ReshapeTransform((2, 3), (6,))(ad.zeros(4, 2, 3)).shape
    (4, 6)
    """

    bijective = True
    parameters = ("in_shape", "out_shape")

    def __init__(
        self, in_shape: Sequence[int], out_shape: Sequence[int], cache_size: int = 0
    ) -> None:
        self.in_shape = tuple(in_shape)
        self.out_shape = tuple(out_shape)
        if _count(self.in_shape) != _count(self.out_shape):
            raise ShapeError(
                f"ReshapeTransform: {show(self.in_shape)} and {show(self.out_shape)} "
                "have different numbers of elements"
            )
        super().__init__(cache_size)

    @property
    def domain(self) -> Constraint:
        return independent(constraints.real, len(self.in_shape))

    @property
    def codomain(self) -> Constraint:
        return independent(constraints.real, len(self.out_shape))

    def _call(self, x: Tensor) -> Tensor:
        return x.reshape(self.forward_shape(x.shape))

    def _inverse(self, y: Tensor) -> Tensor:
        return y.reshape(self.inverse_shape(y.shape))

    def log_abs_det_jacobian(self, x: Tensor, y: Tensor) -> Tensor:
        return x.new_zeros(x.shape[: x.ndim - len(self.in_shape)])

    def forward_shape(self, shape: Shape) -> Shape:
        return _exchanged(shape, self.in_shape, self.out_shape)

    def inverse_shape(self, shape: Shape) -> Shape:
        return _exchanged(shape, self.out_shape, self.in_shape)


def _count(shape: Shape) -> int:
    count = 1
    for size in shape:
        count *= size
    return count


def _exchanged(shape: Shape, old: Shape, new: Shape) -> Shape:
    """A shape that ends in `old`, with `new` there."""
    cut = len(shape) - len(old)
    if cut < 0 or tuple(shape[cut:]) != old:
        raise ShapeError(
            f"ReshapeTransform: events have shape {show(old)}, got {show(tuple(shape))}"
        )
    return (*shape[:cut], *new)
