"""Kernels of the family `linalg`: arrays in, arrays out, on LAPACK through NumPy and SciPy."""

from adjoint.kernels.linalg.determinants import adjugate, adjugate_tangent, det, slogdet
from adjoint.kernels.linalg.factor import geqrf, householder_product, qr, require_gauge
from adjoint.kernels.linalg.indefinite import ldl_factor_ex, ldl_layout, ldl_solve
from adjoint.kernels.linalg.least import cdist, cross, lstsq, pdist, pinv_tangent
from adjoint.kernels.linalg.lobpcg import lobpcg
from adjoint.kernels.linalg.repeated import (
    inverse_gaps,
    inverse_sums,
    inverse_values,
    limit_of_fan,
    require_diagonalizable,
    require_distinct,
    require_no_pole,
    require_split_gauge,
    spread_over_fan,
)
from adjoint.kernels.linalg.solve import (
    cholesky_ex,
    inv_ex,
    lu_factor_ex,
    permutation_of_pivots,
    solve,
    solve_triangular,
)
from adjoint.kernels.linalg.spectral import (
    eig,
    eig_fan,
    eigh,
    eigh_fan,
    eigh_generic,
    matrix_exp,
    pinv,
    svd,
    svd_fan,
    svd_generic,
)
