"""Attention in blocks, by C code that is compiled once for each machine.

`AttentionCall` holds arrays of float32 or float64 whose leading dimensions broadcast. Its `forward`
and `backward` return False if there is no C compiler, or ADJOINT_NATIVE=0 forbids it.
"""

from __future__ import annotations

import ctypes
from collections.abc import Sequence
from typing import Any

import numpy as np

from adjoint.c_kernels import loading
from adjoint.checks.attention import AttentionSizes, threshold
from adjoint.core.shapes import Shape, merged

Array = np.ndarray[Any, Any]

_NUMBERS, _TRUTH = 1, 2  # kinds of a bias: numbers, truth values


class _AttentionOperands(ctypes.Structure):
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


class AttentionCall:
    """The arguments of one call, in the form that the C code takes."""

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
        sizes: AttentionSizes,
    ) -> None:
        self.sizes, self.dtype = sizes, query.dtype
        self.query, self.key, self.value = (_even(x) for x in (query, key, value))
        if bias is not None and bias.dtype != np.bool_:
            bias = bias.astype(self.dtype, copy=False)
        self.bias = bias
        if bias is not None:
            shape = (*bias.shape[:-2], sizes.queries, sizes.keys)
            self.bias = np.broadcast_to(loading.aligned(bias), shape)
        self.starts, self.ends = (
            None if x is None else loading.aligned(x.astype(np.int64, copy=False))
            for x in (starts, ends)
        )
        self.coins = None if coins is None else coins.astype(np.uint32)
        factor = 1 / (1 - dropout_p) if dropout_p < 1 else 0.0
        self.least = threshold(dropout_p)
        given = (self.query, self.key, self.value, self.bias, self.starts, self.ends, self.coins)
        self.operands = _AttentionOperands(*map(_address, given), scale, factor)

    def forward(self, output: Array, sums: Array) -> bool:
        """Write the output and logsumexp; return False if there is no native code."""
        run = loading.ready("attention", "attend", self.dtype)
        fields = self._fields(output, None, (None, None, None), sums)
        if run is None or fields is None:
            return False
        _check(loading.call(run, fields, ctypes.byref(self.operands), output, sums))
        return True

    def backward(
        self, grad: Array, output: Array, sums: Array, results: Sequence[Array | None]
    ) -> bool:
        """Add the gradients of query, key and value; return False if there is no native code."""
        run = loading.ready("attention", "attend_backward", self.dtype)
        grad, output, sums = (x.astype(self.dtype, copy=False) for x in (grad, output, sums))
        grad, output, sums = _even(grad), _even(output), np.ascontiguousarray(sums)
        fields = self._fields(output, grad, results, sums)
        if run is None or fields is None:
            return False
        addresses = _Gradients(*map(_address, (grad, output, sums, *results)))
        _check(loading.call(run, fields, ctypes.byref(self.operands), ctypes.byref(addresses)))
        return True

    def _fields(
        self, output: Array, grad: Array | None, results: Sequence[Array | None], sums: Array
    ) -> Any:
        """The C structure `Sizes`; None if the batch dimensions cannot be merged."""
        matrices = (self.query, self.key, self.value, output, grad, *results, self.bias)
        vectors = (self.starts, self.ends, self.coins, sums)
        arrays = [(x, 2) for x in matrices] + [(x, 1) for x in vectors]
        places = merged(self.sizes.batch, [_lead(x, inner) for x, inner in arrays], loading.MOST)
        if places is None:
            return None
        kind = 0
        if self.bias is not None:
            kind = _TRUTH if self.bias.dtype == np.bool_ else _NUMBERS
        bias = (_step(self.bias, -2), _step(self.bias, -1))
        steps = [_step(x, -2) for x in matrices[:-1]]
        steps += [*bias, *(_step(x, -1) for x in vectors[:-1])]
        sizes = self.sizes.queries, self.sizes.keys, self.query.shape[-1], self.sizes.features
        return loading.block(numbers(sizes, steps, kind, self.least, *places))


def numbers(
    sizes: Shape, steps: Sequence[int], kind: int, least: int, batch: Shape, along: Sequence[Shape]
) -> list[int]:
    """The fields of the C structure `Sizes`."""
    missing = loading.MOST - len(batch)
    lead = [step for each in along for step in ((0,) * missing + each)]
    return [*(1,) * missing, *batch, *sizes, *steps, kind, least, *lead]


def _check(failed: bool) -> None:
    if failed:
        raise MemoryError("there is no memory for the blocks of attention")


def _address(array: Array | None) -> Any:
    return None if array is None else array.ctypes.data


def _even(array: Array) -> Array:
    """The array, or a copy if its last dimension is not contiguous."""
    whole = array.shape[-1] < 2 or array.strides[-1] == array.itemsize
    return array if whole and array.flags.aligned else np.ascontiguousarray(array)


def _step(array: Array | None, axis: int) -> int:
    if array is None or array.shape[axis] < 2:
        return 0
    return array.strides[axis] // array.itemsize


def _lead(array: Array | None, inner: int) -> tuple[Shape, Shape]:
    """The sizes of an array's leading dimensions, and its steps along them."""
    if array is None:
        return (), ()
    lead = array.ndim - inner
    return array.shape[:lead], tuple(s // array.itemsize for s in array.strides[:lead])
