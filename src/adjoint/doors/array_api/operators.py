"""The standard's semantics for `x + y` and the like, where they are wanted.

Operators between tensors are PyTorch's: a tensor without dimensions does not decide the dtype, and
infinite quotients are not rounded down. Functions of the namespace keep to the standard always.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from adjoint.core.errors import DtypeError
from adjoint.doors.array_api.rows import function
from adjoint.homes.overrides import TorchFunctionMode
from adjoint.tensor.tensor import Tensor

# The operator behind `x + y`, and the standard's function.
_FUNCTIONS = {
    "add": "add", "sub": "subtract", "mul": "multiply", "div": "divide", "pow": "pow",
    "floor_divide": "floor_divide", "remainder": "remainder", "matmul": "matmul",
    "bitwise_and": "bitwise_and", "bitwise_or": "bitwise_or", "bitwise_xor": "bitwise_xor",
    "bitwise_left_shift": "bitwise_left_shift", "bitwise_right_shift": "bitwise_right_shift",
    "eq": "equal", "ne": "not_equal", "lt": "less", "le": "less_equal", "gt": "greater",
    "ge": "greater_equal",
}  # fmt: skip


class standard_operators(TorchFunctionMode):  # noqa: N801 - reads as a phrase: with …
    """Give operators between tensors the standard's semantics in a block.

    >>> from adjoint import array_api as xp
    >>> x, y = xp.ones(3, dtype=xp.float32), xp.asarray(2.0)
    >>> with xp.standard_operators():
    ...     print((x * y).dtype)
    ad.float64
    >>> (x * y).dtype
    ad.float32
    """

    def __torch_function__(
        self, func: Callable[..., Any], types: Any, args: Any = (), kwargs: Any = None
    ) -> Any:
        name = func.__name__
        replaced = _FUNCTIONS.get(name) or _FUNCTIONS.get(name.removesuffix("_"))
        if kwargs or replaced is None or not _between_tensors(args):
            return func(*args, **(kwargs or {}))
        result = function(replaced)(*args)
        return result if name in _FUNCTIONS else _written(name, args[0], result)


def _between_tensors(args: Any) -> bool:
    return len(args) == 2 and isinstance(args[0], Tensor) and isinstance(args[1], Tensor)


def _written(name: str, target: Tensor, result: Tensor) -> Tensor:
    """The result of an operator in place, which keeps the dtype of its target."""
    if result.dtype is not target.dtype:
        raise DtypeError(f"{name}: the result is {result.dtype}, the tensor {target.dtype}")
    return target.copy_(result)
