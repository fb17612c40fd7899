"""Shape rules of elementwise operators whose result has another dtype than the promoted one."""

from __future__ import annotations

from typing import Any

from adjoint.core import dtypes
from adjoint.core.errors import DtypeError, ValueRangeError
from adjoint.core.promotion import float_result_type, result_type
from adjoint.core.shapes import Spec, broadcast


def square(self: Spec) -> Spec:
    """Booleans become integers, as in self ** 2."""
    return Spec(self.shape, result_type(self, 2))


def div_mode(self: Spec, other: Any, rounding_mode: str | None) -> Spec:
    """Division proper makes floats of integers; rounded division keeps them."""
    if rounding_mode not in (None, "trunc", "floor"):
        raise ValueRangeError(
            f"div(rounding_mode={rounding_mode!r}): use None, 'trunc' or 'floor'."
        )
    shape = broadcast("div", self.shape, other.shape) if isinstance(other, Spec) else self.shape
    rule = float_result_type if rounding_mode is None else result_type
    return Spec(shape, rule(self, other))


def frexp(self: Spec) -> tuple[Spec, Spec]:
    """The mantissa has the dtype of `self`, the exponent is int32."""
    if not self.dtype.is_floating_point:
        raise DtypeError(f"frexp: got a {self.dtype} tensor; it needs a real floating point dtype.")
    return self, Spec(self.shape, dtypes.int32)
