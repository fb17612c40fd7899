"""Complex numbers of half precision: complex32, which NumPy does not have.

Such a tensor holds one of complex64 whose parts are numbers of float16. Operators run on that, in
complex64, and results are rounded at the end: to complex32 where PyTorch's promotion says so, the
real ones to float16. Few of PyTorch's operators take complex32 on a CPU; here all do.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from adjoint.core import dtypes, pytrees
from adjoint.core.dtypes import DType, complex32
from adjoint.core.errors import ArgumentError
from adjoint.core.promotion import promote_types
from adjoint.homes.structures import PackedHome, PackedTensor, inner
from adjoint.ops.operator import Operator, packet
from adjoint.tensor import printing
from adjoint.tensor.home import Height
from adjoint.tensor.tensor import Tensor


class HalfInterpreter(PackedHome):
    """Runs operators on complex64, and rounds."""

    height = Height.HALF
    name = "tensors of complex32"
    takes_out = False

    def process(self, op: Operator, values: list[Any]) -> Any:
        below = _below(values)
        kind = _dtype_among(values)
        wanted = dict(zip(op.schema.names, values, strict=True)).get("dtype")
        if wanted is complex32:
            below[op.schema.names.index("dtype")] = dtypes.complex64
        elif wanted is not None or kind is not complex32:
            return op.call(below)
        return _rounded(op.call(below))

    def process_inplace(
        self, op: Operator, functional: Callable[..., Any], values: list[Any]
    ) -> Any:
        target = values[0]
        if not isinstance(target, HalfTensor):
            return op.call(_below(values))
        count = op.positional
        keywords = dict(zip(op.schema.names[count:], _below(values[count:]), strict=True))
        result = functional(*_below(values[:count]), **keywords)
        target.stored.copy_(rounded(result))
        return target

    # -- what its tensors say --------------------------------------------------------------------

    def data(self, tensor: Any) -> Any:
        return half_of(tensor.stored.data)

    def detach(self, tensor: Any) -> Any:
        return holding_rounded(tensor.stored.detach())

    def check_numpy(self, what: str) -> None:
        raise ArgumentError(f"{what}: NumPy has no complex32; use x.cfloat().numpy()")

    def text(self, tensor: Any) -> str:
        if tensor.stored.home is not None:
            return f"<complex32 numbers of {tensor.stored!r}>"
        name = tensor.grad_fn and tensor.grad_fn.name()
        return printing.format_tensor(self.array(tensor), complex32, tensor.requires_grad, name)


HALVES = HalfInterpreter()


class HalfTensor(PackedTensor):
    """A tensor of complex32: make one with `x.chalf()`."""

    __slots__ = ()

    class_home = HALVES

    @property
    def dtype(self) -> DType:
        return complex32

    def holding(self, values: Any) -> Any:
        """A complex32 tensor of these numbers, rounded."""
        return half_of(values)

    def fitted(self, grad: Any) -> Any:
        """A gradient as one of complex64."""
        return inner(grad).to(dtypes.complex64)

    def __reduce__(self) -> Any:
        return half_of, (self.stored,)

    def __deepcopy__(self, memo: dict[int, Any]) -> Any:
        return holding_rounded(self.stored.__deepcopy__(memo))


def holding_rounded(values: Any) -> Any:
    """The tensor of complex32 on the memory of complex64 numbers that are rounded already."""
    tensor = object.__new__(HalfTensor)
    tensor.value, tensor.home, tensor.extra = values, HALVES, None
    return tensor


def rounded(values: Any) -> Any:
    """The numbers with parts rounded to float16, in complex64."""
    wide = values.to(dtypes.complex64)
    parts = [part.to(dtypes.float16).to(dtypes.float32) for part in (wide.real, wide.imag)]
    return packet("complex")(*parts)


def half_of(values: Any) -> Any:
    """A tensor as one of complex32."""
    if isinstance(values, HalfTensor):
        return values
    return holding_rounded(rounded(values) if isinstance(values, Tensor) else values)


def chalf(self: Tensor, memory_format: Any = None) -> Any:
    """Return the tensor as complex32: complex numbers of half precision."""
    copy = self if memory_format is None else self.clone(memory_format=memory_format)
    return half_of(copy)


def _below(values: Any) -> list[Any]:
    return [_below(v) if type(v) is list else inner(v) if _is_half(v) else v for v in values]


def _is_half(value: Any) -> bool:
    return isinstance(value, HalfTensor)


def _dtype_among(values: list[Any]) -> DType:
    """The common dtype of the tensors with dimensions among the arguments."""
    flat = [v for value in values for v in (value if type(value) is list else [value])]
    found = complex32
    for value in flat:
        if isinstance(value, Tensor) and value.ndim and value.dtype.is_differentiable:
            found = promote_types(found, value.dtype)
    return found


def _rounded(results: Any) -> Any:
    if isinstance(results, (tuple, list)):
        return type(results)([_rounded(r) for r in results])
    if not isinstance(results, Tensor) or not results.dtype.is_differentiable:
        return results
    return half_of(results) if results.is_complex() else results.to(dtypes.float16)


def install() -> None:
    """Give tensors the method, and let functions take and return them."""
    Tensor.chalf = chalf  # type: ignore[attr-defined]
    pytrees.register(HalfTensor, lambda t: ((t.stored,), None), lambda _, c: half_of(c[0]))
