"""Words of functions.txt: conversions of the standard's arguments for our operators.

Every name of this file is a word, imported names included.

The standard promotes arrays by their dtypes alone, arrays without dimensions included; a Python
number takes the dtype of the array that it meets. Where the standard leaves a result open (a float
with an integer array, the sine of integers), it is NumPy's: float64.
"""

from __future__ import annotations

import functools
import math
from collections.abc import Callable, Sequence
from functools import partial as partial
from typing import Any

from adjoint.calls.methods import as_tensor
from adjoint.calls.methods import asarray as asarray
from adjoint.core.dtypes import COMPLEX, FLOAT, DType, complex128, float64, int64, uint64
from adjoint.core.dtypes import bool_ as boolean
from adjoint.core.errors import DimensionError, DtypeError, ShapeError
from adjoint.core.promotion import NUMBERS, promote_types
from adjoint.core.shapes import show
from adjoint.doors import ad
from adjoint.doors.array_api.inspection import dtype_of
from adjoint.doors.numpy.functions.sets import UniqueAll
from adjoint.doors.numpy.functions.sets import UniqueCounts as UniqueCounts
from adjoint.doors.numpy.functions.sets import UniqueInverse as UniqueInverse
from adjoint.exchange import from_dlpack as from_dlpack
from adjoint.functions import tensordot as tensordot
from adjoint.functions import unique
from adjoint.ops.runtime import NUMBER_TYPES
from adjoint.tensor.construct import kinds_of
from adjoint.tensor.indexing import nonzero as nonzero
from adjoint.tensor.tensor import Tensor

_PLAIN: dict[type, DType] = {bool: boolean, int: int64, float: float64, complex: complex128}


# -- dtypes ------------------------------------------------------------------------------------


def written_dtype(obj: Any) -> DType | None:
    """The dtype of Python numbers, None where there are others: arrays say theirs.

    >>> written_dtype([1, 2.5]), written_dtype([True]), written_dtype([])
    (ad.float64, ad.bool, ad.float64)
    """
    number = number_kind(obj)
    kinds = {number} if number else kinds_of(obj) - {type(None)}
    if not kinds <= _PLAIN.keys():
        return None
    return functools.reduce(promote_types, (_PLAIN[k] for k in kinds)) if kinds else float64


def result_type(*arrays_and_dtypes: Any) -> DType:
    """Return the dtype that arrays, dtypes and Python numbers are promoted to.

    >>> from adjoint import array_api as xp
    >>> xp.result_type(xp.float32, xp.ones(()), 1), xp.result_type(xp.int8, xp.uint16)
    (ad.float64, ad.int32)
    """
    kinds = [number_kind(v) for v in arrays_and_dtypes]
    given = [dtype_of(v) for v, kind in zip(arrays_and_dtypes, kinds) if kind is None]
    if not given:
        raise DtypeError("result_type() needs at least one array or dtype")
    found = functools.reduce(promote_types, given)
    return functools.reduce(_with_number, [k for k in kinds if k is not None], found)


def number_kind(value: Any) -> Any:
    """Python's type of a number, also of one that is an input of a trace; None for others."""
    if type(value) in NUMBER_TYPES and isinstance(value, Tensor):
        return value.wrapped.kind  # type: ignore[attr-defined]
    return next((kind for kind in NUMBERS if isinstance(value, kind)), None)


def _with_number(dtype: DType, kind: type) -> DType:
    """The dtype of an array of `dtype` combined with a Python number."""
    written = _PLAIN[kind]
    if written.category <= dtype.category:
        return dtype
    return (
        dtype.to_complex() if written.category == COMPLEX and dtype.category == FLOAT else written
    )


def common(*values: Any) -> list[Tensor]:
    """Arrays and Python numbers as tensors of one dtype."""
    dtype = result_type(*values)
    return [as_tensor(v, dtype) for v in values]


def common_floating(*values: Any) -> list[Tensor]:
    """As `common`, with integers as float64."""
    return [floating(v) for v in common(*values)]


def floating(x: Tensor) -> Tensor:
    """Integers as float64, everything else as it is."""
    return x if x.dtype.category >= FLOAT else x.to(float64)


def total_dtype(x: Tensor, dtype: DType | None) -> DType:
    """The dtype of sums and products: integers are widened, and keep their sign."""
    if dtype is not None or x.dtype.category >= FLOAT:
        return dtype or x.dtype
    return int64 if x.dtype.is_signed or x.dtype is boolean else uint64


# -- shapes ------------------------------------------------------------------------------------


def sizes(shape: Any) -> Any:
    """A shape, which may be one number."""
    return (shape,) if isinstance(shape, int) else shape


def axes(axis: Any, x: Tensor) -> list[int]:
    """The dimensions that `axis` names: all, one or several."""
    if axis is None:
        return list(range(x.ndim))
    return [axis] if isinstance(axis, int) else list(axis)


def place(axis: int | None, x: Tensor) -> int:
    """One dimension, counted from the front; None is a vector's only dimension."""
    if axis is None and x.ndim != 1:
        raise DimensionError(f"axis=None is for vectors, this array has {x.ndim} dimensions")
    chosen = axis or 0
    if not -x.ndim <= chosen < x.ndim:
        raise DimensionError(f"axis={axis}: the array has {x.ndim} dimensions")
    return chosen % x.ndim


def of_size_one(axis: Any, x: Tensor) -> list[int]:
    """The dimensions to squeeze, which must have size 1."""
    chosen = axes(axis, x)
    if any(x.shape[i] != 1 for i in chosen):
        raise ShapeError(f"squeeze(axis={axis}): of shape {show(x.shape)} only sizes 1 go away")
    return chosen


def flattened(arrays: Sequence[Tensor], axis: int | None) -> list[Tensor]:
    """The arrays to join: as vectors where no axis is named."""
    return [x.reshape(-1) for x in arrays] if axis is None else list(arrays)


def within(k: int, rows: int, columns: int) -> int:
    """The number of a diagonal; one outside the matrix becomes the nearest just outside."""
    return max(-rows, min(k, columns))


def span(start: Any, stop: Any, step: Any) -> tuple[Any, Any, Any]:
    """The bounds of `arange`, which is empty where the step leads away from the end."""
    begin, end = (0, start) if stop is None else (start, stop)
    return begin, begin if (end - begin) / step < 0 else end, step


def shifts(shift: Any, axis: Any) -> tuple[list[int], list[int]]:
    """(shifts, dimensions) for `roll`: one shift serves all dimensions of `axis`."""
    dims = [] if axis is None else [axis] if isinstance(axis, int) else list(axis)
    return ([shift] * max(len(dims), 1) if isinstance(shift, int) else list(shift)), dims


def bounds(x: Tensor, low: Any, high: Any) -> list[Tensor | None]:
    """The bounds of `clip` in the dtype of the array; an array without bounds stays as it is."""
    if low is None and high is None:
        return [x, None]
    return [None if b is None else as_tensor(b, x.dtype) for b in (low, high)]


def with_dimensions(x: Tensor) -> Tensor:
    """The array itself, which must have dimensions."""
    if not x.ndim:
        raise ShapeError("nonzero(x): an array without dimensions has no positions")
    return x


def counts(repeats: Any) -> Any:
    """How often elements are repeated: a number, or an array of them in any integer dtype."""
    return repeats.to(int64) if isinstance(repeats, Tensor) else repeats


# -- special values ----------------------------------------------------------------------------


def floor_quotient(a: Tensor, b: Tensor) -> Tensor:
    """⌊a / b⌋, also where a or b is infinite; our operator has PyTorch's and Python's NaN there."""
    quotient = ad.floor_divide(a, b)
    if a.dtype.category < FLOAT:
        return quotient
    return ad.where(a.isinf() | b.isinf(), (a / b).floor(), quotient)


def complex_expm1(z: Tensor) -> Tensor:
    """eᶻ − 1, with the values of eᶻ at infinity and 0 at −0."""
    exact = z.isfinite() & (z != 0)
    return ad.where(exact, z.expm1(), z.exp() - 1)


def complex_tanh(z: Tensor) -> Tensor:
    """tanh z; at infinity its imaginary part is 0 with the sign of z's imaginary part."""
    ends = ad.complex(z.real.sign(), z.imag.sign() * 0)
    return ad.where(z.real.isinf() & z.imag.isfinite(), ends, z.tanh())


# -- reductions --------------------------------------------------------------------------------


def reduced(
    function: Callable[..., Tensor], x: Tensor, axis: Any, keepdims: bool, **options: Any
) -> Tensor:
    """Apply a reduction over dimensions: of no dimension each element is reduced alone."""
    dims = axes(axis, x)
    if not dims:
        return function(x.unsqueeze(0), dim=[0], **options)
    return function(x, dim=dims, keepdim=keepdims, **options)


def product(x: Tensor, dim: Sequence[int], keepdim: bool = False, *, dtype: Any = None) -> Tensor:
    """The product over several dimensions: the operator takes one."""
    kept = [i for i in range(x.ndim) if i not in {d % x.ndim for d in dim}]
    shape = [x.shape[i] for i in kept]
    rows = x.permute(*kept, *dim).reshape(*shape, math.prod(x.shape[d] for d in dim))
    result = ad.prod(rows, -1, dtype=dtype)
    return (
        result.reshape([x.shape[i] if i in kept else 1 for i in range(x.ndim)])
        if keepdim
        else result
    )


def running(
    function: Callable[..., Tensor],
    initial: int,
    x: Tensor,
    axis: int | None,
    dtype: DType | None,
    include_initial: bool,
) -> Tensor:
    """Running totals along one dimension, from the initial value on if asked."""
    dim = place(axis, x)
    totals = function(x, dim, dtype=total_dtype(x, dtype))
    if not include_initial:
        return totals
    shape = [*x.shape[:dim], 1, *x.shape[dim + 1 :]]
    return ad.cat([totals.new_full(shape, initial), totals], dim)


# -- linear algebra, sets ----------------------------------------------------------------------


def solve(a: Tensor, b: Tensor) -> Tensor:
    """Solve systems for matrices, or for one vector: only one dimension says vector."""
    if b.ndim == 1:
        return ad.linalg_solve(a, b.unsqueeze(-1)).squeeze(-1)
    return ad.linalg_solve(a, b[(None,) * max(a.ndim - b.ndim, 0)])


def dot_products(a: Tensor, b: Tensor, axis: int) -> Tensor:
    """The inner products of vectors along a dimension, in their dtype."""
    if a.shape[axis] != b.shape[axis]:
        raise ShapeError(
            f"vecdot(axis={axis}): vectors of sizes {a.shape[axis]} and {b.shape[axis]}"
        )
    return (a.conj() * b).sum(axis, dtype=a.dtype)


def unique_all(x: Tensor) -> UniqueAll:
    """The different elements, where each is first, which one each element is, and how often."""
    values, inverse, counts = unique(x, return_inverse=True, return_counts=True)
    in_groups = inverse.reshape(-1).argsort(stable=True)
    return UniqueAll(values, in_groups[counts.cumsum(0) - counts], inverse, counts)
