"""Linear algebra under vmap: the batch is one more dimension in front of the matrices."""

from __future__ import annotations

from typing import Any

from adjoint import ops
from adjoint.batching.common import Batch, moved, need, padded, whole
from adjoint.batching.words import broadcast, matrices

Tensor = Any


def solve(batch: Batch, A: Tensor, B: Tensor, check_errors: bool) -> tuple[Tensor, Tensor]:
    """As `broadcast`; LAPACK's info belongs to A alone."""
    result, info = broadcast(batch, A, B, check_errors)
    return result, _of_first(batch, A, info)


def _of_first(batch: Batch, A: Tensor, fact: Tensor, tail: tuple[int, ...] = ()) -> Tensor:
    """A result that belongs to the matrices of the first argument alone, without padding."""
    if not batch.has[0]:
        return whole(batch, fact, False)
    return fact.reshape((*A.shape[:-2], *tail))


def qr(batch: Batch, A: Tensor, mode: str) -> Any:
    """As `matrices`; mode r has no Q, an empty tensor for every sample."""
    Q, R = matrices(batch, A, mode)
    return (whole(batch, Q, False) if mode == "r" else Q), R


def eigh(batch: Batch, A: Tensor, UPLO: str, compute_v: bool) -> Any:
    """Run linalg_eigh, which asks whether the levels below differentiate: Note [Repeated
    values].
    """
    need(batch, (2,))
    if compute_v:
        return ops.linalg_eigh(A, UPLO)
    return ops.linalg_eigvalsh(A, UPLO), whole(batch, A.new_empty((0,)), False)


def svd(batch: Batch, A: Tensor, full_matrices: bool, compute_uv: bool, driver: str | None) -> Any:
    """As `eigh`, by linalg_svd."""
    need(batch, (2,))
    if compute_uv:
        return ops.linalg_svd(A, full_matrices, driver=driver)
    empty = whole(batch, A.new_empty((0,)), False)
    return empty, ops.linalg_svdvals(A, driver=driver), empty.clone()


def _limits(batch: Batch, rank: int, first: int, *tolerances: Any) -> list[Any]:
    """Tolerances, one per matrix of the user's batch, padded to its dimensions."""
    return [
        t if t is None else padded(t, batch.has[k], batch.ndims[k], rank - 2)
        for k, t in enumerate(tolerances, first)
    ]


def pinv(batch: Batch, self: Tensor, atol: Any, rtol: Any, hermitian: bool) -> Tensor:
    """The tolerances broadcast against the batch of matrices."""
    need(batch, (2,))
    limits = _limits(batch, batch.ndims[0], 1, atol, rtol)
    return batch.op.call([whole(batch, self, batch.has[0]), *limits, hermitian])


def pinv_tangent(batch: Batch, self: Tensor, tangent: Tensor, atol: Any, rtol: Any) -> Tensor:
    """As `pinv`, along a direction."""
    limits = _limits(batch, batch.ndims[0], 2, atol, rtol)
    rank = max(batch.ndims[:2])
    a = padded(whole(batch, self, batch.has[0]), True, batch.ndims[0], rank)
    e = padded(whole(batch, tangent, batch.has[1]), True, batch.ndims[1], rank)
    return batch.op.call([a, e, *limits])


def lstsq(batch: Batch, self: Tensor, b: Tensor, rcond: float) -> Any:
    """As `broadcast`; rank and singular values belong to A alone."""
    solution, rank, values = broadcast(batch, self, b, rcond)
    count = values.shape[-1:]
    return solution, _of_first(batch, self, rank), _of_first(batch, self, values, count)


def ldl_solve(batch: Batch, LD: Tensor, pivots: Tensor, B: Tensor, hermitian: bool) -> Tensor:
    """The factors, their pivots and the right-hand sides, all with the batch."""
    rank = max(batch.ndims[0], batch.ndims[2])
    parts = [whole(batch, x, h) for x, h in zip((LD, pivots, B), batch.has, strict=False)]
    ranks = (rank, rank - 1, rank)
    parts = [padded(x, True, n, r) for x, n, r in zip(parts, batch.ndims, ranks, strict=False)]
    return batch.op.call([*parts, hermitian])


def fan(batch: Batch, matrices: Tensor, *values: Any) -> Any:
    """Factors of several matrices for each: the fan is the first dimension."""
    first, *others = moved(batch, (matrices, *values))
    return tuple(r.movedim(1, 0) for r in batch.op.call([first.movedim(0, 1), *others]))


def along_fan(batch: Batch, self: Tensor, repeated: bool) -> Tensor:
    """The fan is the first dimension."""
    return batch.op.call([self.movedim(0, 1), repeated])


def across_fan(batch: Batch, self: Tensor, repeated: bool) -> Tensor:
    """The fan becomes the first dimension."""
    return batch.op.call([self, repeated]).movedim(1, 0)
