"""Decompositions for compiled programs only: determinants, adjugates, pseudo-inverses and least
squares by factors; complex numbers and half precision by float operators.

Derivatives have been taken by then, so these need not be differentiable, unlike the decomposition
of a row. A row names one by the column `routine`.
"""

# A capital is a matrix here, not a constant.
# pyright: reportConstantRedefinition=false

from __future__ import annotations

import itertools
import math
from collections.abc import Callable
from typing import Any

import numpy as np

from adjoint import ops
from adjoint.calls.methods import as_tensor
from adjoint.compiler.definitions import depends_on_grid, promoted_to
from adjoint.core import dtypes
from adjoint.core.dtypes import HALVES, finfo
from adjoint.core.promotion import NUMBERS, element
from adjoint.core.symbolic_sizes import is_open
from adjoint.graph.ir import Node, Value

Tensor = Any
NEAR = 100  # two values closer than this many ulp of the largest one count as equal


def _parity(pivots: Tensor, dtype: Any) -> Tensor:
    """The sign of the permutation of LAPACK's row swaps."""
    swaps = (pivots != ops.arange(1, pivots.shape[-1] + 1)).sum(-1)
    return (1 - 2 * (swaps % 2)).to(dtype)


def det(A: Tensor) -> tuple[Tensor, Tensor, Tensor]:
    """The determinant, from U's diagonal and the permutation's sign; LU and pivots."""
    LU, pivots, _ = ops.linalg_lu_factor_ex(A)
    product = LU.diagonal(0, -2, -1).prod(-1)
    return product * _parity(pivots, A.dtype), LU, pivots


def slogdet(A: Tensor) -> tuple[Tensor, Tensor, Tensor, Tensor]:
    """Sign and logarithm of the determinant, from U's diagonal; LU and pivots."""
    LU, pivots, _ = ops.linalg_lu_factor_ex(A)
    diagonal = LU.diagonal(0, -2, -1)
    size = diagonal.abs()
    sign = (diagonal / ops.where(size > 0, size, 1)).prod(-1) * _parity(pivots, A.dtype)
    return sign, size.log().sum(-1), LU, pivots


def adjugate(self: Tensor) -> Tensor:
    """φ V adj(S) Uᴴ, φ = det(U) det(Vᴴ); adj(S) has products of all other singular values."""
    if 0 in self.shape:
        return self.clone()
    U, S, Vh = ops._linalg_svd(self, True)
    phase = ops._linalg_det(U)[0] * ops._linalg_det(Vh)[0]
    others = ops._other_factors(S, -1).to(self.dtype)
    scaled = Vh.mH * (others * phase.unsqueeze(-1)).unsqueeze(-2)
    return scaled.matmul(U.mH)


def pinv(self: Tensor, atol: Tensor | None, rtol: Tensor | None, hermitian: bool) -> Tensor:
    """V S⁺ Uᴴ; singular values up to max(atol, rtol s₀) count as zero."""
    if 0 in self.shape:
        return ops.zeros((*self.shape[:-2], self.shape[-1], self.shape[-2]), dtype=self.dtype)
    if hermitian:
        S, U = ops._linalg_eigh(self)
        Vh = U.mH
    else:
        U, S, Vh = ops._linalg_svd(self)
    size = S.abs()
    inverse = _inverse_above(S, size, _limit(size.amax(-1), self.shape, atol, rtol).unsqueeze(-1))
    return Vh.mH.matmul(inverse.to(self.dtype).unsqueeze(-1) * U.mH)


def _inverse_above(values: Tensor, size: Tensor, limit: Tensor) -> Tensor:
    keep = size > limit
    return ops.where(keep, 1 / ops.where(keep, values, 1), 0)


def _limit(top: Tensor, shape: Any, atol: Tensor | None, rtol: Tensor | None) -> Tensor:
    """max(atol, rtol s₀). The default of rtol is ε max(m, n), or 0 if a positive atol is given."""
    default = max(shape[-2:]) * finfo(top.dtype).eps
    if rtol is None:
        bound = top * default if atol is None else top * ops.where(atol > 0, 0.0, default)
    else:
        bound = rtol * top
    return bound if atol is None else ops.maximum(atol.to(bound.dtype), bound)


def least_squares(self: Tensor, b: Tensor, rcond: float) -> tuple[Tensor, Tensor, Tensor]:
    """V S⁺ Uᴴ B, the rank of A, and the singular values of A."""
    U, S, Vh = ops._linalg_svd(self)
    top = S.amax(-1, True) if S.shape[-1] else S
    keep = rcond * top < S
    inverse = ops.where(keep, 1 / ops.where(keep, S, 1), 0).to(b.dtype)
    return Vh.mH.matmul(inverse.unsqueeze(-1) * U.mH.matmul(b)), keep.sum(-1), S


# -- pairs of values: Note [Repeated values] in kernels/linalg/repeated.py -------------------------


def _tiny(values: Tensor) -> Tensor:
    """The difference up to which two values count as equal."""
    return NEAR * finfo(values.dtype).eps * values.abs().amax(-1, True).unsqueeze(-1)


def inverse_gaps(self: Tensor) -> Tensor:
    """1/(w[j] - w[i]); 0 for equal values and on the diagonal."""
    if not self.shape[-1]:
        return self.unsqueeze(-2).expand((*self.shape[:-1], 0, 0))
    gaps = self.unsqueeze(-2) - self.unsqueeze(-1)
    places = ops.arange(self.shape[-1])
    skip = (gaps.abs() <= _tiny(self)) | (places == places.unsqueeze(-1))
    return ops.where(skip, 0, 1 / ops.where(skip, 1, gaps))


def inverse_sums(self: Tensor) -> Tensor:
    """1/(s[i] + s[j]); 0 where both values vanish."""
    if not self.shape[-1]:
        return self.unsqueeze(-2).expand((*self.shape[:-1], 0, 0))
    sums = self.unsqueeze(-2) + self.unsqueeze(-1)
    skip = sums <= _tiny(self)
    return ops.where(skip, 0, 1 / ops.where(skip, 1, sums))


def shared(self: Tensor, values: Tensor, zeros: int) -> Tensor:
    """Replace the numbers of each group of equal `values`, which are sorted, by their mean."""
    if values.shape[-1] < 2:
        return self.clone()
    limit = _tiny(values).squeeze(-1)
    given = self
    if zeros:
        vanish = values <= limit
        given = ops.where(vanish & (vanish.sum(-1, True) >= zeros), 0, self)
    count = values.shape[-1] - 1
    steps = (values.narrow(-1, 1, count) - values.narrow(-1, 0, count)).abs() > limit
    run = ops.cat([ops.zeros_like(values.narrow(-1, 0, 1)), steps.to(values.dtype)], -1).cumsum(-1)
    together = (run.unsqueeze(-1) == run.unsqueeze(-2)).to(self.dtype)
    return together.matmul(given.unsqueeze(-1)).squeeze(-1) / together.sum(-1)


# -- by what is known beforehand ------------------------------------------------------------------


def _combinations(node: Node) -> Callable[..., Any] | None:
    """combinations(x) as a gather at places known at compile time."""
    _, r, again = node.args
    count, size = node.args[0].shape[0], math.prod(node.output.shape)
    if r < 1 or not size or is_open(count):
        return None
    choose = itertools.combinations_with_replacement if again else itertools.combinations
    places = np.array(list(choose(range(count), r)), np.int64)
    return lambda tensor, *_: tensor.index([as_tensor(places)])


def _without_nothing(node: Node) -> Callable[..., Any] | None:
    """A cat without the empty vectors that PyTorch allows among tensors of any rank."""
    tensors = node.args[0]
    if all(len(v.shape) == len(node.output.shape) for v in tensors):
        return None
    kept = [k for k, v in enumerate(tensors) if len(v.shape) == len(node.output.shape)]
    return lambda tensors, dim: ops.cat([tensors[k] for k in kept], dim)


def _of_nothing(node: Node) -> Callable[..., Any] | None:
    """A sum over no elements: zeros."""
    if not any(0 in v.shape for v in node.inputs()):
        return None
    return lambda *_: ops.zeros(node.output.shape, dtype=node.output.dtype)


def _zeros(node: Node) -> Callable[..., Any]:
    return lambda *_: ops.zeros(node.output.shape, dtype=node.output.dtype)


def _grouped(node: Node) -> Callable[..., Any] | None:
    """Grouped products with one matrix for each group: a batched product."""
    if node.args[2] is not None or len(node.args[0].shape) != 3:
        return None
    return lambda a, b, *_: a.bmm(b)


def _alike(node: Node) -> Callable[..., Any] | None:
    """Expand and convert the operands of a division of whole numbers to one shape and dtype."""
    a, b = node.args[:2]
    whole = not node.output.dtype.is_floating_point and isinstance(b, Value)
    if not whole or (a.shape == b.shape and a.dtype is b.dtype):
        return None

    def divide(a: Any, b: Any, rounding_mode: str) -> Any:
        spread = (x.to(node.output.dtype).expand(node.output.shape) for x in (a, b))
        return ops.div(*spread, rounding_mode=rounding_mode)

    return divide


def _compared(node: Node) -> Callable[..., Any] | None:
    """A search with sequence and values of different dtypes: convert both to the common dtype."""
    sequence, values = node.args[:2]
    if sequence.dtype is values.dtype:
        return None
    common = dtypes.of(np.result_type(sequence.dtype.np, values.dtype.np))

    def search(sequence: Any, values: Any, int32: bool, right: bool, side: Any, sorter: Any) -> Any:
        given = sequence.to(common), values.to(common)
        return ops.searchsorted(*given, out_int32=int32, right=right, side=side, sorter=sorter)

    return search


# -- halves ---------------------------------------------------------------------------------------


def of_halves(node: Node) -> Callable[..., Any] | None:
    """The operator on float32 operands; the result is rounded once, as eager kernels do."""
    halves = [v for v in node.inputs() if v.dtype in HALVES]
    said = any(isinstance(a, dtypes.DType) for a in node.args)
    if not halves or said or node.op.row.random or depends_on_grid(node):
        return None
    promoted = {a.name for a in node.op.row.promoted}

    def in_float32(*args: Any) -> Any:
        brought = [
            _rounded(node, a, v) if n in promoted else a
            for n, a, v in zip(node.op.schema.names, args, node.args, strict=True)
        ]
        return node.op.call([_as_float32(a) for a in brought])

    return in_float32


def _rounded(node: Node, given: Any, value: Any) -> Any:
    """An operand rounded to the common dtype of the operands, before it becomes float32."""
    dtype = promoted_to(node, value)
    if type(given) in NUMBERS:
        return element(given, dtype)
    return given if given is None or given.dtype is dtype else given.to(dtype)


def _as_float32(value: Any) -> Any:
    if isinstance(value, (list, tuple)):
        return [_as_float32(v) for v in value]
    is_half = getattr(value, "dtype", None) in HALVES
    return value.to(dtypes.float32) if is_half else value


# -- complex numbers, by their parts --------------------------------------------------------------


def of_complex(node: Node) -> Callable[..., Any] | None:
    """Sums, products of matrices, and real and imaginary parts, by operators on pairs of reals."""
    row = node.op.row
    if not [v for v in (*node.inputs(), *node.outputs) if v.dtype.is_complex]:
        return None
    if row.full_name in ("real.default", "imag.default"):
        part = int(row.schema.name == "imag")
        return lambda x: ops.view_as_real(x).select(-1, part)
    if row.reduces == "sum" and row.schema.names[1:] == ("dim", "keepdim", "dtype"):
        return _complex_sum
    if row.is_product and len(node.args) == 2:
        return _complex_product
    return None


def _complex_sum(x: Any, dim: Any, keepdim: bool, dtype: Any) -> Any:
    x = x if dtype is None else x.to(dtype)
    if not x.is_complex():
        return x.sum(dim, keepdim)
    rank = x.ndim
    dims = range(rank) if not dim else [d % rank for d in ([dim] if isinstance(dim, int) else dim)]
    return ops.view_as_complex(ops.view_as_real(x).sum(tuple(dims), keepdim)) if rank else x


def _complex_product(a: Any, b: Any) -> Any:
    """(x + iy)(u + iv) = xu - yv + i (xv + yu), with four products of real matrices."""
    (x, y), (u, v) = _real_and_imaginary(a), _real_and_imaginary(b)
    if y is None or v is None:
        return ops.complex(x.matmul(u), x.matmul(v) if y is None else y.matmul(u))
    return ops.complex(x.matmul(u) - y.matmul(v), x.matmul(v) + y.matmul(u))


def _real_and_imaginary(x: Any) -> tuple[Any, Any]:
    if not x.is_complex():
        return x, None
    pairs = ops.view_as_real(x)
    return pairs.select(-1, 0), pairs.select(-1, 1)


Rule = Callable[[Node], Callable[..., Any] | None]


def _always(function: Callable[..., Any]) -> Rule:
    return lambda node: function


LOWERED: dict[str, Rule] = {
    "det": _always(det),
    "slogdet": _always(slogdet),
    "adjugate": _always(adjugate),
    "pinv": _always(pinv),
    "least_squares": _always(least_squares),
    "inverse_gaps": _always(inverse_gaps),
    "inverse_sums": _always(inverse_sums),
    "shared": _always(shared),
    "combinations": _combinations,
    "join": _without_nothing,
    "correlation": _of_nothing,
    "zeros": _zeros,
    "grouped": _grouped,
    "divide": _alike,
    "mostly": _always(lambda condition, quick, careful: ops._trusted(condition, quick)),
    "search": _compared,
}
