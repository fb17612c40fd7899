"""Conversion of the arguments of NumPy's functions to tensors, with NumPy's dtypes.

The words here are the types of arguments in `names.txt`. Lists and arrays become tensors as NumPy
would convert them, Python's floats float64 whatever `ad.set_default_dtype` says, and operands that
meet are brought to the dtype that NumPy gives their result.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from adjoint.calls.methods import tensor_of
from adjoint.core.dtypes import OF, DType, float64, to_dtype
from adjoint.core.errors import ArgumentError, GradError
from adjoint.doors import ad
from adjoint.doors.numpy import refusals
from adjoint.homes.held_numbers import HeldNumber
from adjoint.homes.structures import undressed
from adjoint.tensor.tensor import Tensor

NUMBERS = (bool, int, float, complex)


def Array(value: Any) -> Tensor:
    """Anything that NumPy takes for an array, as a tensor; lists of tensors are stacked."""
    if isinstance(value, Tensor):
        return value if type(value) is Tensor else _ordinary(value)
    if isinstance(value, (list, tuple)) and holds_tensors(value):
        return stacked([Array(v) for v in value])
    return tensor_of(value if isinstance(value, np.ndarray) else np.asarray(value))


def _ordinary(value: Tensor) -> Tensor:
    """A tensor of another class as an ordinary one: a number as a double, an array's tensor."""
    if type(value) is HeldNumber:
        return value.stored if value.wrapped.own is None else value.in_dtype()
    return undressed(value)


def Number(value: Any) -> Any:
    """A tensor, or a Python number, which does not decide the dtype of a result."""
    kind = type(value)
    if kind is Tensor or kind in NUMBERS or kind is HeldNumber:
        return value
    return value.item() if isinstance(value, np.generic) else Array(value)


def Operand(value: Any) -> Any:
    """As `Number`, but NumPy's scalars become tensors: among arrays their dtype counts."""
    return Array(value) if isinstance(value, np.generic) else Number(value)


def Float(value: Any) -> Tensor:
    """An array with integers as float64."""
    return floating(Array(value))


def Arrays(values: Any) -> list[Tensor]:
    """A sequence of arrays; one array is the sequence of its rows."""
    if isinstance(values, np.ndarray):
        values = tensor_of(values)
    return [Array(v) for v in values]


def Alike(values: Any) -> list[Tensor]:
    """A sequence of arrays, brought to their common dtype."""
    return list(common(*Arrays(values)))


def Dtype(value: Any) -> DType | None:
    """A dtype of NumPy, of Python or of ours; None stays None."""
    return None if value is None else to_dtype(value)


def Int(value: Any) -> Any:
    """A whole number, or a tuple of them, out of whatever counts as one (not None)."""
    if value is None or type(value) is int:
        return value
    if isinstance(value, (list, tuple)) or np.ndim(value):
        return tuple(int(v) for v in value)
    return int(value)


def floating(a: Tensor) -> Tensor:
    """A tensor of integers or truth values as float64, others as they are."""
    return a if a.dtype.is_differentiable else a.to(float64)


def common(*operands: Tensor) -> tuple[Tensor, ...]:
    """Tensors brought to the dtype that NumPy gives their combination."""
    first = operands[0].dtype
    if all(o.dtype is first for o in operands):
        return operands
    target = OF[np.result_type(*(o.dtype.np for o in operands))]
    return tuple([o if o.dtype is target else o.to(target) for o in operands])


def common_numbers(*operands: Any) -> tuple[Any, ...]:
    """As `common`, but Python numbers stay numbers; at least one result is a tensor."""
    tensors = [o for o in operands if isinstance(o, Tensor) and type(o) is not HeldNumber]
    if not tensors:
        return common(*(Array(o) for o in operands))
    target = OF[np.result_type(*(_for_promotion(o) for o in operands))]
    return tuple([to_dtype_of_operands(o, target) for o in operands])


def _for_promotion(operand: Any) -> Any:
    if type(operand) is HeldNumber:
        return operand.wrapped.kind(0)
    return type(operand)(0) if type(operand) in NUMBERS else operand.dtype.np


def to_dtype_of_operands(operand: Any, dtype: DType) -> Any:
    """An operand in the dtype of a computation; a Python number as it is."""
    if type(operand) is HeldNumber:
        return operand.in_dtype(dtype)
    return operand.to(dtype) if isinstance(operand, Tensor) else operand


def stacked(parts: Sequence[Tensor], dim: int = 0) -> Tensor:
    """Tensors of one shape, brought to their common dtype and stacked."""
    return ad.stack(list(common(*parts)), dim)


def holds_tensors(values: Any) -> bool:
    """Whether there is a tensor in nested lists."""
    return any(
        isinstance(v, Tensor) or (isinstance(v, (list, tuple)) and holds_tensors(v)) for v in values
    )


def array_or_refuse(what: str, value: Any) -> Any:
    """The values behind tensors in arguments, for functions that are not differentiated."""
    if isinstance(value, Tensor):
        value.check_leaves(what)
        if value.requires_grad:
            raise GradError(f"{what} is not differentiated: pass x.detach()")
        return value.numpy()
    if isinstance(value, (list, tuple)) and holds_tensors(value):
        return type(value)([array_or_refuse(what, v) for v in value])
    return value


def written(what: str, result: Any, out: Any) -> Any:
    """Write a result to `out`, as NumPy does: the history of the result goes with it."""
    if isinstance(out, tuple) and not isinstance(result, (tuple, list)):
        (out,) = out
    if isinstance(result, (tuple, list)):
        return tuple(r if o is None else written(what, r, o) for r, o in zip(result, out))
    if isinstance(out, Tensor):
        return out.copy_(result)
    if not isinstance(out, np.ndarray):
        raise ArgumentError(f"{what}: out= is a tensor or an array, got {type(out).__name__}")
    if result.requires_grad or result.home is not None:
        raise GradError(
            f"{refusals.asked().where}{what}: the result is differentiated, and would be written "
            "to a NumPy array, which remembers no history; write it to np.zeros_like(x), or use "
            "the result (x = x + y for x += y)"
        )
    np.copyto(out, result.numpy(), casting="same_kind")
    return out
