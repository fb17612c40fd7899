"""What products with sparse matrices ask of their arguments."""

from __future__ import annotations

from adjoint.core.dtypes import DType
from adjoint.core.errors import DtypeError


def check_inexact(what: str, dtype: DType) -> None:
    """Raise unless numbers are real or complex."""
    if not dtype.is_differentiable:
        raise DtypeError(
            f"{what}: takes tensors of real or complex numbers, got {dtype.name}; convert them "
            "with to(ad.float64)"
        )
