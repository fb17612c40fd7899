"""Shape rules of activation functions: the shape stays."""

from __future__ import annotations

from adjoint.core import dtypes
from adjoint.core.dtypes import DType
from adjoint.core.errors import DtypeError
from adjoint.core.shapes import Spec, broadcast, wrap_dim


def require_real_float(what: str, dtype: DType) -> None:
    """Raise unless the dtype is a real floating point one."""
    if not dtype.is_floating_point:
        raise DtypeError(
            f"{what}: needs a real floating point dtype, got {dtype}; give dtype=, or convert it."
        )


def softmax(self: Spec, dim: int, half_to_float: bool) -> Spec:
    """Like the input, in float32 if asked."""
    wrap_dim("softmax", dim, self.ndim)
    require_real_float("softmax", self.dtype)
    return Spec(self.shape, dtypes.float32 if half_to_float else self.dtype)


def same(self: Spec, dim: int) -> Spec:
    """Like the input."""
    wrap_dim("softmax", dim, self.ndim)
    require_real_float("softmax", self.dtype)
    return self


def softmax_backward_data(grad_output: Spec, output: Spec, dim: int, input_dtype: DType) -> Spec:
    """The dtype of the input of softmax."""
    shape = broadcast("softmax_backward_data", grad_output.shape, output.shape)
    wrap_dim("softmax_backward_data", dim, len(shape))
    return Spec(shape, input_dtype)


def log_softmax_gradient(
    grad: Spec, self: Spec, result: Spec, dim: int, input_dtype: DType
) -> Spec:
    """The dtype of the input of log_softmax."""
    return softmax_backward_data(grad, result, dim, input_dtype)


def log_sigmoid_forward(self: Spec) -> tuple[Spec, Spec]:
    """The value, and the buffer."""
    require_real_float("log_sigmoid", self.dtype)
    return self, self
