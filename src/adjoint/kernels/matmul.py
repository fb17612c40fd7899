"""Products of matrices, on arrays.

`c_kernels/product.py` chooses who does the work: BLAS for small products (`ndarray.dot` up to two
dimensions has half the overhead of `np.matmul`), native code for large ones. float16 and bfloat16
are computed in float32 and rounded once. Products do not promote: operands of two dtypes are an
error, as in PyTorch. Shapes are checked where NumPy has refused them, so that the good case pays
nothing.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from adjoint.c_kernels import product, reduction
from adjoint.checks import einsum as contraction
from adjoint.checks import matmul as products
from adjoint.checks.einsum import Contraction, Move
from adjoint.core import dtypes
from adjoint.core.dtypes import REDUCED, DType
from adjoint.core.errors import DtypeError, ValueRangeError
from adjoint.core.promotion import result_type
from adjoint.loops.element_loops import Loops, added
from adjoint.loops.gate import LARGE

Array = np.ndarray[Any, Any]
Number = bool | int | float | complex

_NATIVE = "fdFDbhilqBHILQ"  # dtype.char of what NumPy multiplies as it is; l and q are both int64


def matmul(self: Array, other: Array) -> Array:
    """Return self @ other for operands of any rank, batch dimensions broadcast."""
    dtype = self.dtype
    if dtype.char not in _NATIVE or dtype != other.dtype:
        return _unusual(matmul, "matmul(a, b)", self, other)
    try:
        if 0 < self.ndim <= 2 and 0 < other.ndim <= 2:
            return product.dot(self, other)
        if other.ndim == 2 and self.flags.c_contiguous and self.size:
            rows = self.reshape(-1, self.shape[-1])  # one product instead of a batch
            flat = product.dot(rows, other)
            return flat.reshape(*self.shape[:-1], other.shape[1])
        return product.matmul(self, other)
    except ValueError:
        products.matmul_shape("matmul(a, b)", self.shape, other.shape)
        raise


def mm(self: Array, mat2: Array) -> Array:
    """Return the product of two matrices."""
    dtype = self.dtype
    if dtype.char not in _NATIVE or dtype != mat2.dtype:
        return _unusual(mm, "mm(a, b)", self, mat2)
    if self.ndim != 2 or mat2.ndim != 2 or self.shape[1] != mat2.shape[0]:
        products.check_ndim("mm(a, b)", "a", self.shape, 2)
        products.check_ndim("mm(a, b)", "b", mat2.shape, 2)
        products.matmul_shape("mm(a, b)", self.shape, mat2.shape)
    return product.dot(self, mat2)


def bmm(self: Array, mat2: Array) -> Array:
    """Return the products of two batches of matrices of the same length."""
    if self.dtype.char not in _NATIVE or self.dtype != mat2.dtype:
        return _unusual(bmm, "bmm(a, b)", self, mat2)
    products.bmm_shape("bmm(a, b)", self.shape, mat2.shape)
    return product.matmul(self, mat2)


def mv(self: Array, vec: Array) -> Array:
    """Return the product of a matrix and a vector."""
    if self.dtype.char not in _NATIVE or self.dtype != vec.dtype:
        return _unusual(mv, "mv(a, b)", self, vec)
    products.check_ndim("mv(a, b)", "a", self.shape, 2)
    products.check_ndim("mv(a, b)", "b", vec.shape, 1)
    products.matmul_shape("mv(a, b)", self.shape, vec.shape)
    return self.dot(vec)


def dot(self: Array, tensor: Array) -> Array:
    """Return the sum of the products of two vectors; nothing is conjugated."""
    if self.dtype.char not in _NATIVE or self.dtype != tensor.dtype:
        return _unusual(dot, "dot(a, b)", self, tensor)
    if not (self.ndim == 1 and self.shape == tensor.shape):
        products.check_ndim("dot(a, b)", "a", self.shape, 1)
        products.check_ndim("dot(a, b)", "b", tensor.shape, 1)
        products.matmul_shape("dot(a, b)", self.shape, tensor.shape)
    found = reduction.dot(self, tensor)
    return self.dot(tensor) if found is None else found


def vdot(self: Array, other: Array) -> Array:
    """Return the inner product of two vectors, the first conjugated."""
    if self.dtype.char not in _NATIVE or self.dtype != other.dtype:
        return _unusual(vdot, "vdot(a, b)", self, other)
    products.check_ndim("vdot(a, b)", "a", self.shape, 1)
    products.check_ndim("vdot(a, b)", "b", other.shape, 1)
    products.matmul_shape("vdot(a, b)", self.shape, other.shape)
    return np.asarray(np.vdot(self, other))


def _unusual(kernel: Callable[..., Array], what: str, a: Array, b: Array) -> Array:
    """Run `kernel` on float16 or bfloat16 operands in float32; anything else is an error."""
    products.check_dtypes(what, a=a.dtype, b=b.dtype)
    if a.dtype not in REDUCED:
        raise DtypeError(f"{what}: there is no product of {dtypes.of(a.dtype).name}.")
    return _narrow(kernel(a.astype(np.float32), b.astype(np.float32)), a.dtype)


def _narrow(x: Any, dtype: np.dtype[Any]) -> Array:
    with np.errstate(all="ignore"):  # numbers beyond float16 become infinite
        return np.asarray(x).astype(dtype, copy=False)


# -- product and sum: beta self + alpha (a b) ------------------------------------------------------


def addmm(self: Array, mat1: Array, mat2: Array, beta: Number, alpha: Number) -> Array:
    """Return beta self + alpha mat1 mat2."""
    return _add_product("addmm", mm, self, mat1, mat2, beta, alpha)


def addmv(self: Array, mat: Array, vec: Array, beta: Number, alpha: Number) -> Array:
    """Return beta self + alpha mat vec."""
    return _add_product("addmv", mv, self, mat, vec, beta, alpha)


def baddbmm(self: Array, batch1: Array, batch2: Array, beta: Number, alpha: Number) -> Array:
    """Return beta self + alpha batch1 batch2, batch by batch."""
    return _add_product("baddbmm", bmm, self, batch1, batch2, beta, alpha)


def addbmm(self: Array, batch1: Array, batch2: Array, beta: Number, alpha: Number) -> Array:
    """Return beta self + alpha times the sum of the products of two batches."""
    return _add_product("addbmm", _sum_of_products, self, batch1, batch2, beta, alpha)


def _sum_of_products(a: Array, b: Array) -> Array:
    """Return Σ_k a[k] b[k], as one product of the matrices laid side by side."""
    products.bmm_shape("addbmm(self, a, b)", a.shape, b.shape)
    count, rows, inner = a.shape
    side_by_side = a.transpose(1, 0, 2).reshape(rows, count * inner)
    return product.dot(side_by_side, b.reshape(count * inner, b.shape[2]))


def addr(self: Array, vec1: Array, vec2: Array, beta: Number, alpha: Number) -> Array:
    """Return beta self + alpha vec1 vec2ᵀ; elementwise, so it promotes and takes bool."""
    what = "addr(self, vec1, vec2)"
    products.check_ndim(what, "vec1", vec1.shape, 1)
    products.check_ndim(what, "vec2", vec2.shape, 1)
    products.check_expands(what, "self", self.shape, vec1.shape + vec2.shape)
    dtype = result_type(self, vec1, vec2)
    wide = dtype.wide.np
    if dtype is dtypes.bool_:
        both = np.logical_and.outer(vec1, vec2) & bool(alpha)
        return np.logical_or(both, self) if beta else both
    term, column, row = (x.astype(wide, copy=False) for x in (self, vec1[:, None], vec2))
    if term.size >= LARGE and alpha == beta == 1:
        found = _ADDED_PRODUCT(term, column, row)
        if found is not None:
            return _narrow(found, dtype.np)
    return _narrow(_scaled_sum(what, term, _multiplied(column, row), beta, alpha), dtype.np)


def _add_product(
    name: str,
    product: Callable[[Array, Array], Array],
    self: Array,
    a: Array,
    b: Array,
    beta: Number,
    alpha: Number,
) -> Array:
    dtype = self.dtype
    if not (dtype == a.dtype == b.dtype and dtype.char in _NATIVE):
        what = f"{name}(self, a, b)"
        products.check_dtypes(what, self=dtype, a=a.dtype, b=b.dtype)
        terms, a, b = (x.astype(np.float32) for x in (self, a, b))
        return _narrow(_add_product(name, product, terms, a, b, beta, alpha), dtype)
    return _scaled_sum(f"{name}(self, a, b)", self, product(a, b), beta, alpha)


def _scaled_sum(what: str, self: Array, result: Array, beta: Number, alpha: Number) -> Array:
    """Return beta self + alpha result, in place; with beta = 0, NaN in self is ignored."""
    result = np.asarray(result)
    if self.shape not in (result.shape, result.shape[-1:]):  # the usual cases need no look
        products.check_expands(what, "self", self.shape, result.shape)
    if alpha != 1:
        result *= _factor(what, "alpha", alpha, result.dtype)
    if beta == 1:
        return added(result, self, out=result)
    if beta != 0:
        result += self * _factor(what, "beta", beta, result.dtype)
    return result


def _factor(what: str, name: str, value: Number, dtype: np.dtype[Any]) -> Number:
    """Return the factor as the dtype's own number; one that the dtype cannot hold is an error.

    PyTorch cuts alpha=0.6 to 0 for integers without a word.
    """
    if dtype.kind in "iu":
        if value != int(value.real):
            raise DtypeError(
                f"{what}: {name}={value} with {dtype} operands; it must be a whole number."
            )
        return int(value.real)
    if dtype.kind == "f" and isinstance(value, complex):
        raise DtypeError(f"{what}: {name}={value} is complex and the operands are {dtype}.")
    return value


# -- linear layers ---------------------------------------------------------------------------------


def linear(input: Array, weight: Array, bias: Array | None) -> Array:
    """Return input weightᵀ + bias; the last dimension of `input` is the one that is mapped."""
    if not (input.ndim and 0 < weight.ndim <= 2 and input.shape[-1] == weight.shape[-1]):
        products.linear_shape("linear(input, weight)", input.shape, weight.shape)
    if bias is None:
        return matmul(input, weight.T)
    dtype = input.dtype
    if not dtype == weight.dtype == bias.dtype:
        products.check_dtypes("linear", input=dtype, weight=weight.dtype, bias=bias.dtype)
    if dtype in REDUCED:
        wide = [x.astype(np.float32) for x in (input, weight, bias)]
        return _narrow(linear(*wide), dtype)
    result = np.asarray(matmul(input, weight.T))
    if bias.shape != result.shape[-1:]:
        products.check_expands("linear(input, weight, bias)", "bias", bias.shape, result.shape)
    return added(result, bias, out=result)


# -- einsum ----------------------------------------------------------------------------------------


def einsum(equation: str, tensors: Sequence[Array], path: Sequence[int] | None) -> Array:
    """Return the sum of products that `equation` says."""
    program = contraction.plan_equation(equation, [t.shape for t in tensors], path)
    first = tensors[0].dtype
    if first.char in "fdFD" and all(t.dtype == first for t in tensors):
        result = _run(program, list(tensors))
    else:
        dtype = contraction.result_dtype(equation, program, tensors)
        wide = dtype.wide.np
        result = _narrow(_run(program, [t.astype(wide, copy=False) for t in tensors]), dtype.np)
    return result if program.pairs or program.sums else result.copy()  # else it is a view


def _run(program: Contraction, operands: list[Any]) -> Any:
    operands = [_apply(moves, x) for moves, x in zip(program.first, operands)]
    for pair in program.pairs:
        left = _apply(pair.left_moves, operands[pair.left])
        right = _apply(pair.right_moves, operands[pair.right])
        operands = [x for k, x in enumerate(operands) if k not in (pair.left, pair.right)]
        joined = matmul(left, right) if pair.contracts else _multiplied(left, right)
        operands.append(_apply(pair.moves, joined))
    return _apply(program.last, operands[0])


_MULTIPLIED = Loops("x * y", "x", "y")
_ADDED_PRODUCT = Loops("s + x * y", "s", "x", "y")


def _multiplied(x: Array, y: Array) -> Array:
    """x y, which broadcast, by all cores where they are large."""
    wide = x.size * y.size >= LARGE and x.dtype == y.dtype
    loop = _MULTIPLIED.kinds.get(x.dtype.name) if wide else None
    found = None if loop is None else loop([x, y])
    return np.multiply(x, y) if found is None else found


def _apply(moves: tuple[Move, ...], x: Array) -> Array:
    for name, argument in moves:
        if name == "permute":
            x = x.transpose(argument)
        elif name == "reshape":
            x = x.reshape(argument)
        elif name == "sum":
            x = x.sum(argument, dtype=x.dtype)
        else:
            x = x.diagonal(*argument)
    return x


# -- grouped products ------------------------------------------------------------------------------


def grouped_mm(
    self: Array, mat2: Array, offs: Array | None, bias: Array | None, out_dtype: DType | None
) -> Array:
    """Return one product per group; `offs` holds where each group ends.

    (M,K) (G,K,N) -> (M,N): groups of rows of self.
    (G,M,K) (K,N) -> (M,N): groups of columns of mat2.
    (M,K) (K,N) -> (G,M,N): groups of the inner dimension.
    (G,M,K) (G,K,N) -> (G,M,N): bmm, without offs.
    Rows and columns behind the last group are zero (PyTorch leaves them as they were in memory).
    """
    what = "_grouped_mm(a, b)"
    products.check_dtypes(what, a=self.dtype, b=mat2.dtype)
    if bias is not None:
        raise ValueRangeError(
            f"{what}: bias is not supported, as in PyTorch; add it to the result."
        )
    if out_dtype is not None and out_dtype.np != self.dtype:
        raise DtypeError(f"{what}: out_dtype must be the operands' dtype, got {out_dtype.name}.")
    shape = products.grouped_mm_shape(
        what, self.shape, mat2.shape, None if offs is None else offs.shape
    )
    if offs is None:
        return bmm(self, mat2)
    result = np.zeros(shape, self.dtype)
    limit = {(2, 3): self.shape[0], (3, 2): mat2.shape[-1], (2, 2): self.shape[-1]}
    for group, part in enumerate(_groups(what, offs, limit[self.ndim, mat2.ndim])):
        if self.ndim == 2 and mat2.ndim == 3:
            result[part] = mm(self[part], mat2[group])
        elif self.ndim == 3:
            result[:, part] = mm(self[group], mat2[:, part])
        else:
            result[group] = mm(self[:, part], mat2[part])
    return result


def _groups(what: str, offs: Array, limit: int) -> list[slice]:
    ends = [int(end) for end in offs]
    starts = [0, *ends[:-1]]
    if any(end < start for start, end in zip(starts, ends)) or (ends and ends[-1] > limit):
        raise ValueRangeError(
            f"{what}: offs={ends} must not decrease and must end at {limit} at most."
        )
    return [slice(start, end) for start, end in zip(starts, ends)]
