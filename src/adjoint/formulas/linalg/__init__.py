"""Derivatives of linear algebra: systems, factorisations, eigenvalues and singular values."""

from adjoint.formulas.linalg.distances import cdist_jvp, cdist_vjp
from adjoint.formulas.linalg.factor import (
    ldl_factor_vjp,
    lu_factor_vjp,
    lu_vjp,
    qr_fan_vjp,
    qr_vjp,
)
from adjoint.formulas.linalg.solve import (
    cholesky_jvp,
    cholesky_vjp,
    slogdet_vjp,
    solve_triangular_vjp,
    solve_vjp,
    triangle_times,
)
from adjoint.formulas.linalg.spectral import (
    eig_fan_vjp,
    eig_vjp,
    eigh_fan_values_jvp,
    eigh_fan_vectors_jvp,
    eigh_fan_vjp,
    eigh_values_jvp,
    eigh_vectors_jvp,
    eigh_vjp,
    inverse_gaps_jvp,
    inverse_gaps_vjp,
    inverse_sums_vjp,
    lobpcg_vjp,
    logm_tangent,
    matrix_exp_tangent,
    number,
    pinv_of,
    svd_fan_left_jvp,
    svd_fan_right_jvp,
    svd_fan_values_jvp,
    svd_fan_vjp,
    svd_left_jvp,
    svd_right_jvp,
    svd_values_jvp,
    svd_vjp,
    sylvester_vjp,
)
