"""Linear algebra in terms of few operators: `solve`, `factor`, `spectral`, `distances`."""

from adjoint.decompositions.linalg.factor import lu, lu_solve, lu_unpack
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
