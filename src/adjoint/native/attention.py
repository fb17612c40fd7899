"""Attention in blocks, by C code that is compiled once for each machine.

`Call` holds arrays of float32 or float64 whose leading dimensions broadcast. Its `forward` and
`backward` return False where there is no C compiler, or ADJOINT_NATIVE=0 forbids it.
"""

from __future__ import annotations

import ctypes
import math
from collections.abc import Sequence
from typing import Any

import numpy as np

from adjoint.checks.attention import Sizes, threshold
from adjoint.native import kernels

Array = np.ndarray[Any, Any]

_NUMBERS, _TRUTH = 1, 2  # kinds of a bias


class _Operands(ctypes.Structure):
    _fields_ = [
        *((name, ctypes.c_void_p) for name in ("q", "k", "v", "bias", "starts", "ends", "coins")),
        ("scale", ctypes.c_double),
        ("factor", ctypes.c_double),
    ]


class _Gradients(ctypes.Structure):
    _fields_ = [
        (name, ctypes.c_void_p)
        for name in ("grad", "output", "sums", "of_query", "of_key", "of_value")
    ]


class Call:
    """The arguments of one call, as the C code wants them."""

    def __init__(
        self,
        query: Array,
        key: Array,
        value: Array,
        bias: Array | None,
        starts: Array | None,
        ends: Array | None,
        coins: Array | None,
        dropout_p: float,
        scale: float,
        sizes: Sizes,
    ) -> None:
        self.sizes, self.dtype = sizes, query.dtype
        self.query, self.key, self.value = (_even(x) for x in (query, key, value))
        if bias is not None and bias.dtype != np.bool_:
            bias = bias.astype(self.dtype, copy=False)
        self.bias = bias
        if bias is not None:
            shape = (*bias.shape[:-2], sizes.queries, sizes.keys)
            self.bias = np.broadcast_to(kernels.aligned(bias), shape)
        self.starts, self.ends = (
            None if x is None else kernels.aligned(x.astype(np.int64, copy=False))
            for x in (starts, ends)
        )
        self.coins = None if coins is None else coins.astype(np.uint32)
        factor = 1 / (1 - dropout_p) if dropout_p < 1 else 0.0
        self.least = threshold(dropout_p)
        given = (self.query, self.key, self.value, self.bias, self.starts, self.ends, self.coins)
        self.operands = _Operands(*map(_address, given), scale, factor)

    def forward(self, output: Array, sums: Array) -> bool:
        """Write the output and logsumexp; False where there is no native code."""
        run = kernels.function("attention", "attend", self.dtype)
        if run is None:
            return False
        fields = self._fields(output, None, (None, None, None))
        places = self._places(output, None, (None, None, None), sums)
        _check(kernels.call(run, fields, places, ctypes.byref(self.operands), output, sums))
        return True

    def backward(
        self, grad: Array, output: Array, sums: Array, results: Sequence[Array | None]
    ) -> bool:
        """Add the gradients of query, key and value; False where there is no native code."""
        run = kernels.function("attention", "attend_backward", self.dtype)
        if run is None:
            return False
        grad, output, sums = (x.astype(self.dtype, copy=False) for x in (grad, output, sums))
        grad, output, sums = _even(grad), _even(output), np.ascontiguousarray(sums)
        fields = self._fields(output, grad, results)
        places = self._places(output, grad, results, sums)
        addresses = _Gradients(*map(_address, (grad, output, sums, *results)))
        given = places, ctypes.byref(self.operands), ctypes.byref(addresses)
        _check(kernels.call(run, fields, *given))
        return True

    def _fields(self, output: Array, grad: Array | None, results: Sequence[Array | None]) -> Any:
        """The C structure `Sizes`."""
        z = self.sizes
        rows = (self.query, self.key, self.value, output, grad, *results)
        bias, kind = (0, 0), 0
        if self.bias is not None:
            kind = _TRUTH if self.bias.dtype == np.bool_ else _NUMBERS
            bias = tuple(s // self.bias.itemsize for s in self.bias.strides[-2:])
        fields = [
            math.prod(z.batch), z.queries, z.keys, self.query.shape[-1], z.features,
            *(_step(x, -2) for x in rows), *bias,
            *(_step(x, -1) for x in (self.starts, self.ends, self.coins)), kind, self.least,
        ]  # fmt: skip
        return kernels.block(fields)

    def _places(
        self, output: Array, grad: Array | None, results: Sequence[Array | None], sums: Array
    ) -> Array:
        """Where each matrix of the batch begins, in elements, for each array."""
        matrices = (self.query, self.key, self.value, output, grad, *results, self.bias)
        vectors = (self.starts, self.ends, self.coins, sums)
        found = np.zeros((*self.sizes.batch, len(matrices) + len(vectors)), np.int64)
        for number, array in enumerate((*matrices, *vectors)):
            if array is not None:
                _add_offsets(found[..., number], array, 2 if number < len(matrices) else 1)
        return found


def _check(failed: bool) -> None:
    if failed:
        raise MemoryError("there is no memory for the blocks of attention")


def _address(array: Array | None) -> Any:
    return None if array is None else array.ctypes.data


def _even(array: Array) -> Array:
    """The array, or a copy of one whose last dimension does not lie element by element."""
    whole = array.shape[-1] < 2 or array.strides[-1] == array.itemsize
    return array if whole and array.flags.aligned else np.ascontiguousarray(array)


def _step(array: Array | None, axis: int) -> int:
    if array is None or array.shape[axis] < 2:
        return 0
    return array.strides[axis] // array.itemsize


def _add_offsets(places: Array, array: Array, inner: int) -> None:
    """Add where the matrices (or vectors) of an array begin, which broadcasts to the places."""
    lead = array.ndim - inner
    for axis in range(lead):
        size, step = array.shape[axis], array.strides[axis] // array.itemsize
        if size > 1:
            places += (np.arange(size) * step).reshape((size, *(1,) * (lead - axis - 1)))
