"""Kernels of the family `linalg`: arrays in, arrays out, on LAPACK through NumPy and SciPy."""

from adjoint.kernels.linalg.determinants import adjugate, adjugate_tangent, det, slogdet
from adjoint.kernels.linalg.factor import geqrf, householder_product, qr, require_gauge
from adjoint.kernels.linalg.least import cdist, lstsq, pinv_tangent
from adjoint.kernels.linalg.repeated import (
    eig_gaps,
    inverse_gaps,
    inverse_sums,
    refuse_repeated,
    repeated_guess,
    repeated_ratio,
)
from adjoint.kernels.linalg.solve import (
    cholesky_ex,
    inv_ex,
    ldl_factor_ex,
    ldl_solve,
    lu_factor_ex,
    permutation_of_pivots,
    solve,
    solve_triangular,
)
from adjoint.kernels.linalg.spectral import (
    eig,
    eigh,
    eigh_generic,
    matrix_exp,
    pinv,
    svd,
    svd_generic,
)
