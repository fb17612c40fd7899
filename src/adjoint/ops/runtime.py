"""Functions of higher layers that operators need, handed over once by `_wiring.py`.

The operator layer does not import tensors; it is told the tensor class, how to make one from a
value, how to build the functions of an operator, and how to run one on arguments of every kind.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from adjoint.core.dtypes import bfloat16

Tensor: Any = type(None)  # the tensor class
# Types whose values count as numbers in promotion, whatever their dtype; a trace adds its own.
NUMBER_TYPES: set[type] = {
    bool, int, float, complex, bfloat16.np.type,
    *(t for t in np.sctypeDict.values() if issubclass(t, (np.number, np.bool_))),
}  # fmt: skip
make: Callable[[Any], Any]  # an array -> a tensor on its memory
tensor_of: Callable[[Any], Any]  # a number or array -> tensor
nested: Callable[[Any, Any], Any]  # values and their raggedness -> nested tensor
build: Callable[[Any], Callable[..., Any]]  # an Operator -> its function
build_parts: Callable[[Any], Any]  # an Operator -> its `compute` and `record`
assemble: Callable[[Any, Any], Any]  # a pattern and values -> sparse tensor
again: Callable[[Any, list[Any]], Any]  # runs an Operator on arguments from a level above
# a function of tensors, these, and gradients of its results -> the gradients of the tensors
gradients: Callable[[Callable[..., Any], list[Any], Sequence[Any]], list[Any]]

# Keywords that every operator takes in addition to its schema's.
EXTRAS = frozenset(("out", "requires_grad"))


def install(
    tensor: type,
    maker: Callable[[Any], Any],
    converter: Callable[[Any], Any],
    builder: Callable[[Any], Callable[..., Any]],
    parts_builder: Callable[[Any], Any],
    assembler: Callable[[Any, Any], Any],
    runner: Callable[[Any, list[Any]], Any],
) -> None:
    """Wire the layers together; called once."""
    global Tensor, make, tensor_of, build, build_parts, assemble, again
    Tensor, make, tensor_of = tensor, maker, converter
    build, build_parts, assemble, again = builder, parts_builder, assembler, runner
