"""Kernels of the family `linalg`: arrays in, arrays out, on LAPACK through NumPy and SciPy."""

from adjoint.kernels.linalg.deficits import (
    lu_clusters,
    lu_fan,
    qr_clusters,
    qr_fan,
    require_rank,
)
from adjoint.kernels.linalg.determinants import adjugate, adjugate_tangent, det, slogdet
from adjoint.kernels.linalg.exponential import matrix_exp
from adjoint.kernels.linalg.factor import geqrf, householder_product, qr, require_gauge
from adjoint.kernels.linalg.fans import (
    eig_clusters,
    eig_fan,
    eigh_clusters,
    eigh_fan,
    svd_clusters,
    svd_fan,
)
from adjoint.kernels.linalg.indefinite import ldl_factor_ex, ldl_layout, ldl_solve
from adjoint.kernels.linalg.least import (
    cdist,
    cross,
    euclidean_dist_along,
    euclidean_dist_backward,
    lstsq,
    pdist,
    pinv_tangent,
)
from adjoint.kernels.linalg.limits import limit_of_fan, spread_over_fan
from adjoint.kernels.linalg.lobpcg import lobpcg
from adjoint.kernels.linalg.repeated import (
    inverse_gaps,
    inverse_sums,
    inverse_values,
    require_diagonalizable,
    require_distinct,
    require_split_gauge,
    shared,
)
from adjoint.kernels.linalg.roots import logm, sqrtm, sylvester
from adjoint.kernels.linalg.solve import (
    cholesky_ex,
    inv_ex,
    lu_factor_ex,
    permutation_of_pivots,
    solve,
    solve_triangular,
)
from adjoint.kernels.linalg.spectral import eig, eigh, pinv, svd
