"""Linear algebra in terms of few operators."""

from adjoint.decompositions.linalg.angles import cosine_similarity
from adjoint.decompositions.linalg.factor import lu, lu_solve, lu_unpack
from adjoint.decompositions.linalg.indefinite import ldl_solve, ldl_unpack
from adjoint.decompositions.linalg.norms import (
    cond,
    eigvalsh,
    lstsq,
    matrix_norm,
    matrix_power,
    matrix_rank,
    matrix_rank_tol,
    norm,
    pinv_floats,
    pinv_rcond,
    pinv_tangent,
    pinverse,
    svd_legacy,
    svdvals,
)
from adjoint.decompositions.linalg.products import (
    cdist,
    cdist_any,
    cdist_backward,
    cross,
    cross_any,
    euclidean_dist_along,
    euclidean_dist_backward,
    pdist,
    pdist_backward,
    vander,
    vander_flipped,
)
from adjoint.decompositions.linalg.reflections import geqrf, householder_product, ormqr
from adjoint.decompositions.linalg.solve import (
    adjugate_tangent,
    cholesky_inverse,
    cholesky_solve,
    logdet,
    solve,
    solve_ex,
    solve_with_factors,
    tensorinv,
    tensorsolve,
    triangular_solve,
)
