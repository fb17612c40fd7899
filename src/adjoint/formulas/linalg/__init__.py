"""Derivatives of linear algebra: `solve` systems and determinants, `factor` QR and LU, `spectral` the rest."""

from adjoint.formulas.linalg.factor import lu_vjp, lu_factor_vjp, qr_vjp
from adjoint.formulas.linalg.solve import (
    cholesky_jvp,
    cholesky_vjp,
    slogdet_vjp,
    solve_jvp,
    solve_triangular_jvp,
    solve_triangular_vjp,
    solve_vjp,
)

__all__ = [
    "cholesky_jvp",
    "cholesky_vjp",
    "lu_factor_vjp",
    "lu_vjp",
    "qr_vjp",
    "slogdet_vjp",
    "solve_jvp",
    "solve_triangular_jvp",
    "solve_triangular_vjp",
    "solve_vjp",
]
