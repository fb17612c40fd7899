"""Shape and dtype rules of matrix products: Specs in, a Spec out."""

from __future__ import annotations

from typing import Any

from adjoint.checks import matmul as products
from adjoint.core.dtypes import DType
from adjoint.core.promotion import result_type
from adjoint.core.shapes import Shape, Spec


def matmul(self: Spec, other: Spec) -> Spec:
    """Operands of any rank; batch dimensions broadcast."""
    return _product("matmul(a, b)", self, other)


def mm(self: Spec, mat2: Spec) -> Spec:
    """Two matrices."""
    return _product("mm(a, b)", self, mat2, 2, 2)


def mv(self: Spec, vec: Spec) -> Spec:
    """A matrix and a vector."""
    return _product("mv(a, b)", self, vec, 2, 1)


def dot(self: Spec, tensor: Spec) -> Spec:
    """Two vectors."""
    return _product("dot(a, b)", self, tensor, 1, 1)


def vdot(self: Spec, other: Spec) -> Spec:
    """Two vectors."""
    return _product("vdot(a, b)", self, other, 1, 1)


def bmm(self: Spec, mat2: Spec) -> Spec:
    """Two batches of matrices."""
    products.check_dtypes("bmm(a, b)", a=self.dtype, b=mat2.dtype)
    return Spec(products.bmm_shape("bmm(a, b)", self.shape, mat2.shape), self.dtype)


def _product(what: str, a: Spec, b: Spec, *ndims: int) -> Spec:
    products.check_dtypes(what, a=a.dtype, b=b.dtype)
    for name, operand, ndim in zip("ab", (a, b), ndims):
        products.check_ndim(what, name, operand.shape, ndim)
    return Spec(products.matmul_shape(what, a.shape, b.shape), a.dtype)


def addmm(self: Spec, mat1: Spec, mat2: Spec, *_: Any) -> Spec:
    """A matrix plus a product of matrices."""
    return _sum("addmm", self, mat1, mat2, mm(mat1, mat2).shape)


def addmv(self: Spec, mat: Spec, vec: Spec, *_: Any) -> Spec:
    """A vector plus a matrix times a vector."""
    return _sum("addmv", self, mat, vec, mv(mat, vec).shape)


def baddbmm(self: Spec, batch1: Spec, batch2: Spec, *_: Any) -> Spec:
    """A batch plus a batch of products."""
    return _sum("baddbmm", self, batch1, batch2, bmm(batch1, batch2).shape)


def addbmm(self: Spec, batch1: Spec, batch2: Spec, *_: Any) -> Spec:
    """A matrix plus the sum of a batch of products."""
    return _sum("addbmm", self, batch1, batch2, bmm(batch1, batch2).shape[1:])


def _sum(name: str, self: Spec, a: Spec, b: Spec, shape: Shape) -> Spec:
    what = f"{name}(self, a, b)"
    products.check_dtypes(what, self=self.dtype, a=a.dtype, b=b.dtype)
    products.check_expands(what, "self", self.shape, shape)
    return Spec(shape, self.dtype)


def addr(self: Spec, vec1: Spec, vec2: Spec, *_: Any) -> Spec:
    """A matrix plus an outer product; elementwise, so it promotes."""
    what = "addr(self, vec1, vec2)"
    products.check_ndim(what, "vec1", vec1.shape, 1)
    products.check_ndim(what, "vec2", vec2.shape, 1)
    products.check_expands(what, "self", self.shape, vec1.shape + vec2.shape)
    return Spec(vec1.shape + vec2.shape, result_type(self, vec1, vec2))


def linear(input: Spec, weight: Spec, bias: Spec | None) -> Spec:
    """The last dimension of `input` is mapped by `weight`."""
    what = "linear(input, weight)"
    products.check_dtypes(what, input=input.dtype, weight=weight.dtype, bias=bias and bias.dtype)
    shape = products.linear_shape(what, input.shape, weight.shape)
    if bias is not None:
        products.check_expands("linear(input, weight, bias)", "bias", bias.shape, shape)
    return Spec(shape, input.dtype)


def grouped_mm(
    self: Spec, mat2: Spec, offs: Spec | None, bias: Spec | None, out_dtype: DType | None
) -> Spec:
    """One product per group."""
    what = "_grouped_mm(a, b)"
    products.check_dtypes(what, a=self.dtype, b=mat2.dtype)
    shape = products.grouped_mm_shape(what, self.shape, mat2.shape, offs and offs.shape)
    return Spec(shape, self.dtype)
