"""Checks of the arguments of linear algebra, with the errors users see.

Shared by kernels and shape rules, so that both refuse the same things in the same words. Matrices
are the last two dimensions; those in front are a batch.
"""

from __future__ import annotations

from adjoint.core import dtypes
from adjoint.core.dtypes import DType
from adjoint.core.errors import DtypeError, ShapeError, ValueRangeError
from adjoint.core.shapes import Shape, broadcast, show, wrap_dim

LAPACK = (dtypes.float32, dtypes.float64, dtypes.complex64, dtypes.complex128)


def check_dtype(what: str, dtype: DType) -> None:
    """Raise unless LAPACK computes in this dtype."""
    if dtype not in LAPACK:
        raise DtypeError(
            f"{what}: needs float32, float64, complex64 or complex128, got {dtype}; convert it "
            "first."
        )


def check_real(what: str, dtype: DType) -> None:
    """Raise unless LAPACK gives real values in this dtype: singular ones, eigenvalues of eigh."""
    if dtype not in LAPACK or dtype.is_complex:
        raise DtypeError(f"{what}: the values are real, float32 or float64; got {dtype}.")


def check_point_dtypes(what: str, *given: DType) -> None:
    """Raise unless points, and distances of them, have one dtype in which these are computed."""
    if len(set(given)) > 1 or given[0] not in (dtypes.float32, dtypes.float64):
        names = " and ".join(dtype.name for dtype in given)
        raise ValueRangeError(f"{what}: needs float32 or float64, got {names}.")


def check_same_dtype(what: str, a: DType, b: DType) -> None:
    """Raise unless two operands have one dtype."""
    check_dtype(what, a)
    if a is not b:
        raise DtypeError(f"{what}: the operands must have one dtype, got {a} and {b}.")


def check_matrix(what: str, shape: Shape) -> None:
    """Raise unless a tensor holds matrices."""
    if len(shape) < 2:
        raise ShapeError(f"{what}: needs a matrix or a batch of them, got the shape {show(shape)}.")


def check_square(what: str, shape: Shape) -> None:
    """Raise unless a tensor holds square matrices."""
    check_matrix(what, shape)
    if shape[-1] != shape[-2]:
        raise ShapeError(f"{what}: the matrices must be square, got {shape[-2]}×{shape[-1]}.")


def is_vector(a: Shape, b: Shape) -> bool:
    """Whether the right-hand side `b` of a system with matrices `a` is a batch of vectors."""
    return len(b) == 1 or (len(a) - 1 == len(b) and a[:-1] == b)


def batch_shape(what: str, a: Shape, b: Shape) -> Shape:
    """The common batch of two tensors of matrices."""
    return broadcast(f"{what}: batches", a[:-2], b[:-2])


def system_shape(what: str, a: Shape, b: Shape, left: bool = True) -> Shape:
    """The shape of X in A X = B (or X A = B), batches broadcast."""
    check_square(what, a)
    check_matrix(what, b)
    side = b[-2] if left else b[-1]
    if a[-1] != side:
        raise ShapeError(
            f"{what}: A is {a[-2]}×{a[-1]}, and B has {side} {'rows' if left else 'columns'} "
            f"(A: {show(a)}, B: {show(b)})."
        )
    return (*batch_shape(what, a, b), *b[-2:])


def check_reflections(what: str, a: Shape, tau: Shape) -> None:
    """Raise unless `tau` holds the factors of reflections packed in the columns of matrices `a`."""
    check_matrix(what, a)
    if tau[:-1] != a[:-2] or len(tau) != len(a) - 1:
        raise ShapeError(
            f"{what}: tau must have the batch of A and one dimension more, (…, k); got {show(tau)} "
            f"for A of {show(a)}."
        )
    if tau[-1] > min(a[-2:]):
        raise ShapeError(
            f"{what}: there are {tau[-1]} factors in tau, and a matrix of {a[-2]}×{a[-1]} holds "
            f"{min(a[-2:])} reflections."
        )


def check_tall(what: str, a: Shape) -> None:
    """Raise unless matrices have at least as many rows as columns."""
    if a[-2] < a[-1]:
        raise ShapeError(
            f"{what}: A must have at least as many rows as columns, got {a[-2]}×{a[-1]}."
        )


def check_pivots(what: str, a: Shape, pivots: Shape) -> None:
    """Raise unless there is one pivot for each step of the factors of matrices `a`."""
    if pivots != (*a[:-2], min(a[-2:])):
        raise ShapeError(
            f"{what}: needs {min(a[-2:])} pivots for a matrix of {a[-2]}×{a[-1]}, with the batch "
            f"of the factors; got pivots of {show(pivots)} for factors of {show(a)}."
        )


def eigenpairs_batch(a: Shape, x: Shape, preconditioner: Shape | None, k: int) -> Shape:
    """The batch of some eigenpairs of A from the start X; raise unless they can be iterated."""
    what = "lobpcg(A)"
    check_square(what, a)
    check_matrix("lobpcg(A, X=X)", x)
    size, count = x[-2:]
    if size != a[-1]:
        raise ShapeError(f"{what}: X must have {a[-1]} rows as A has, got {show(x)}.")
    if not 1 <= k <= count:
        raise ShapeError(f"{what}: k={k} must lie between 1 and the {count} columns of X.")
    if size < 3 * count:
        raise ShapeError(
            f"{what}: {count} eigenvectors at once need a matrix of at least {3 * count} rows, got "
            f"{show(a)}; use ad.linalg.eigh."
        )
    batch = broadcast(what, a[:-2], x[:-2])
    if preconditioner is None:
        return batch
    if tuple(preconditioner[-2:]) != tuple(a[-2:]):
        raise ShapeError(f"{what}: iK must be {show(a[-2:])} as A is, got {show(preconditioner)}.")
    return broadcast(what, batch, preconditioner[:-2])


def cross_axis(a: Shape, b: Shape, dim: int) -> int:
    """The dimension of a cross product, which has size 3 in both operands."""
    if len(a) != len(b):
        raise ShapeError(
            f"linalg_cross(a, b): both need the same number of dimensions, got {len(a)} "
            f"and {len(b)}."
        )
    axis = wrap_dim("linalg_cross(a, b)", dim, len(a))
    if a[axis] != 3 or b[axis] != 3:
        raise ShapeError(
            f"linalg_cross(a, b, dim={dim}): that dimension must have size 3, "
            f"got {a[axis]} and {b[axis]}."
        )
    return axis


def check_points(shape: Shape, dtype: DType, p: float) -> None:
    """Raise unless a matrix holds points whose distances in the p-norm can be taken."""
    if not dtype.is_differentiable:
        raise DtypeError(f"pdist(x): x must have a floating point or complex dtype, got {dtype}.")
    if len(shape) != 2:
        raise ShapeError(f"pdist(x): x must be a matrix of points, got {len(shape)} dimensions.")
    if p < 0:
        raise ValueRangeError(f"pdist(x): p must not be negative, got {p}")
