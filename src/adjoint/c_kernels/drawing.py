"""Normal random numbers, two from each 64-bit word: r cos t and r sin t, where r² is exponentially
distributed and t a uniform angle. (G. E. P. Box and M. E. Muller, 1958.)
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from adjoint.core import dtypes
from adjoint.expressions.trees import Binary, Call, Convert, Expression, Operand, number
from adjoint.loops.element_loops import Element, ElementLoop, loop_of
from adjoint.loops.gate import LARGE

Array = np.ndarray[Any, Any]
_ANGLE = math.pi * 2.0**-31
# a word as a number between 0 and 1
_UNIT = """
static inline float to_unitf(int k) { return ((float)(unsigned)k + 0.5f) * 0x1p-32f; }
"""


def _loop(function: str) -> ElementLoop:
    single = dtypes.float32
    words = Operand("k", dtypes.int32), Convert(Operand("t", dtypes.int32), single)
    exponential = Binary("*", number(-2, single), _call("log", _call("to_unit", words[0])))
    turn = _call(function, Binary("*", words[1], number(_ANGLE, single)))
    tree = Binary("*", _call("sqrt", exponential), turn)
    operands = ("k", "int32"), ("t", "int32")
    return loop_of(Element(operands, (), ((tree, "float32"),), declared=_UNIT))


def _call(function: str, operand: Expression) -> Expression:
    return Call(function, (operand,), dtypes.float32)


_PARTS = ((_loop("cos"), np.cos), (_loop("sin"), np.sin))


def normal(words: Array) -> Array:
    """Two normal float32 numbers for each 64-bit word: first all r cos t, then all r sin t.

    >>> normal(np.array([1 << 31], np.uint64)).round(4)
    array([1.1774, 0.    ], dtype=float32)
    """
    radii, angles = words.view(np.int32).reshape(-1, 2).T
    result = np.empty((2, words.size), np.float32)
    for out, (loop, function) in zip(result, _PARTS, strict=True):
        if words.size < LARGE // 2 or loop([radii, angles], out=out) is None:
            unit = (radii.view(np.uint32).astype(np.float32) + np.float32(0.5)) * np.float32(2**-32)
            turned = function(angles.astype(np.float32) * np.float32(_ANGLE))
            np.multiply(np.sqrt(np.float32(-2) * np.log(unit)), turned, out=out)
    return result.reshape(-1)
