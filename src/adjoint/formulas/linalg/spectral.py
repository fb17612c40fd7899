"""Derivatives of eigenvalues and vectors, singular values and vectors, and pseudo-inverses.

Vectors of repeated values: Note [Repeated values] in kernels/linalg/repeated.py.
"""

# Capitals are matrices here, not constants.
# pyright: reportConstantRedefinition=false

from __future__ import annotations

from typing import Any

from adjoint import ops
from adjoint.core.dtypes import finfo
from adjoint.ops.directions import direction_of
from adjoint.ops.kinks import is_limit

Tensor = Any


def _diagonal(x: Tensor) -> Tensor:
    return x.diagonal(0, -2, -1)


def _turned(values: Tensor, slopes: Any, inner: Tensor) -> Tensor:
    """diag(w̄) + F ∘ ½(X - Xᴴ), F[i,j] = 1/(w[j]-w[i])."""
    skew = 0.5 * (inner - inner.mH)
    values = _distinct(values)
    if not is_limit(values):
        skew = ops._linalg_require_split_gauge(skew, skew, values)
    core = skew * ops._linalg_inverse_gaps(values)
    return core if slopes is None else core + slopes.diag_embed()


def _distinct(values: Tensor) -> Tensor:
    """Values that do not repeat: checked, unless they come with a fan."""
    return values if is_limit(values) else ops._linalg_require_distinct(values)


def eigh_vjp(
    grad_w: Any, grad_v: Any, A: Tensor, w: Tensor, V: Tensor, UPLO: str, vectors: bool
) -> Any:
    """Ā = V (diag(w̄) + F ∘ ½(X - Xᴴ)) Vᴴ,  X = Vᴴ V̄,  F[i,j] = 1/(w[j]-w[i])."""
    if not vectors:  # what stands for them is empty, and does not depend on A
        grad_v = None
    if grad_w is None and grad_v is None:
        return None
    if not vectors:
        w, V = ops._linalg_eigh_generic(A, UPLO, direction_of(A))
    if grad_v is None:
        slopes: Any = grad_w
        return (V * slopes.unsqueeze(-2)).matmul(V.mH)
    return V.matmul(_turned(w, grad_w, V.mH.matmul(grad_v))).matmul(V.mH)


def eigh_fan_vjp(grad_w: Any, grad_v: Any, repeated: Tensor, w: Tensor, V: Tensor) -> Any:
    """The sum of `eigh_vjp` over a fan; Σ ½(X - Xᴴ) must vanish where values are equal."""
    if grad_w is None and grad_v is None:
        return None
    core: Any = None if grad_w is None else grad_w.diag_embed()
    if grad_v is not None:
        inner = V.mH.matmul(grad_v)
        _check_turn(inner, repeated)
        turned = 0.5 * (inner - inner.mH) * ops._linalg_inverse_gaps(w)
        core = turned if core is None else core + turned
    return V.matmul(core).matmul(V.mH).sum(0)


def _check_turn(inner: Tensor, repeated: Tensor) -> None:
    """Raise unless, in the limit of a fan, the vectors of equal values are not turned."""
    ops._linalg_require_split_gauge(inner, 0.5 * (inner - inner.mH).sum(0), repeated)


def _rotated(A_t: Tensor, V: Tensor, UPLO: str) -> Tensor:
    """Vᴴ Ȧ V with the Hermitian part of Ȧ."""
    return V.mH.matmul(0.5 * (A_t + A_t.mH)).matmul(V)


def eigh_values_jvp(A: Tensor, A_t: Tensor, V: Tensor, UPLO: str, vectors: bool) -> Tensor:
    """ẇ = diag(Vᴴ Ȧ V)."""
    if not vectors:
        V = ops._linalg_eigh_generic(A, UPLO, A_t)[1]
    values = _diagonal(_rotated(A_t, V, UPLO))
    return values.real if values.is_complex() else values


def eigh_vectors_jvp(A_t: Tensor, w: Tensor, V: Tensor, UPLO: str, vectors: bool) -> Tensor:
    """V̇ = V (F ∘ Vᴴ Ȧ V)."""
    if not vectors:
        return ops.zeros_like(V)
    inner = _rotated(A_t, V, UPLO)
    return V.matmul(inner * _tangent_factors(w))


def _tangent_factors(values: Tensor) -> Tensor:
    return ops._linalg_inverse_gaps(_distinct(values))


def eig_vjp(grad_w: Any, grad_v: Any, w: Tensor, V: Tensor) -> Any:
    """Ā = V⁻ᴴ (diag(w̄) + (X - Vᴴ V diag(Re X)) ∘ F*) Vᴴ,  X = Vᴴ V̄,  F[i,j] = 1/(w[j]-w[i])."""
    if grad_w is None and grad_v is None:
        return None
    if is_limit(w):
        return _pull_eig(grad_w, _without_length(grad_v, V), w, V)
    V = ops._linalg_require_diagonalizable(V, w)
    inner = _without_length(grad_v, V)
    if inner is not None:  # the phases of vectors are free: the diagonal must be 0
        inner = ops._linalg_require_split_gauge(inner, inner, w)
    return _pull_eig(grad_w, inner, w, V)


def _without_length(grad_v: Any, V: Tensor) -> Any:
    """X - Vᴴ V diag(Re X): vectors have length 1."""
    if grad_v is None:
        return None
    inner = V.mH.matmul(grad_v)
    return inner - V.mH.matmul(V) * _diagonal(inner).real.unsqueeze(-2)


def _pull_eig(grad_w: Any, inner: Any, w: Tensor, V: Tensor) -> Tensor:
    core: Any = None if grad_w is None else grad_w.diag_embed()
    if inner is not None:
        turned = inner * ops._linalg_inverse_gaps(w).conj()
        core = turned if core is None else core + turned
    return ops._linalg_solve(V.mH, core.matmul(V.mH), False)[0]


def eig_fan_vjp(grad_w: Any, grad_v: Any, w: Tensor, V: Tensor) -> Any:
    """The sum of `eig_vjp` over a fan, in which none must grow on the way to its limit."""
    if grad_w is None and grad_v is None:
        return None
    inner = _without_length(grad_v, V)
    if inner is not None:  # loosely: the rounding errors of a third derivative have grown 1e3 times
        ops._linalg_require_split_gauge(inner, 1e-3 * inner.sum(0), w.select(0, 0))
    terms = _pull_eig(grad_w, inner, w, V)
    weights = ops._spread_over_fan(ops.ones_like(terms.select(0, 0).detach()))
    ops._linalg_require_no_pole(terms / weights)
    return terms.sum(0)


def svd_vjp(
    grad_u: Any,
    grad_s: Any,
    grad_vh: Any,
    A: Tensor,
    U: Tensor,
    S: Tensor,
    Vh: Tensor,
    vectors: bool,
) -> Any:
    """Ā = U C Vᴴ + (1 - U Uᴴ) Ū S⁻¹ Vᴴ + U S⁻¹ V̄ᴴ (1 - V Vᴴ).

    With a = Uᴴ Ū - h.c. and b = Vᴴ V̄ - h.c.,
    C = diag(s̄) + ½ (a + b)/(s[j]-s[i]) + ½ (a - b)/(s[j]+s[i]).
    """
    if not vectors:  # what stands for them is empty, and does not depend on A
        grad_u = grad_vh = None
    if grad_u is None and grad_s is None and grad_vh is None:
        return None
    if not vectors:
        U, S, Vh = ops._linalg_svd_generic(A, False, direction_of(A))
    k = S.shape[-1]
    if grad_u is not None:
        grad_u = _fold(grad_u, U, k)
    grad_v = None if grad_vh is None else _fold(grad_vh.mH, Vh.mH, k)
    U, Vh = U.narrow(-1, 0, k), Vh.narrow(-2, 0, k)
    if grad_u is None and grad_v is None:
        slopes: Any = grad_s
        return (U * slopes.to(U.dtype).unsqueeze(-2)).matmul(Vh)
    return _thin_svd_vjp(grad_u, grad_s, grad_v, U, S, Vh)


def _thin_svd_vjp(
    grad_u: Any, grad_s: Any, grad_v: Any, U: Tensor, S: Tensor, Vh: Tensor
) -> Tensor:
    x = ops.zeros_like(Vh.matmul(Vh.mH)) if grad_u is None else U.mH.matmul(grad_u)
    y = ops.zeros_like(x) if grad_v is None else Vh.matmul(grad_v)
    difference = 0.5 * ((x - x.mH) - (y - y.mH))
    core = _turned(S, grad_s, x + y) + difference * ops._linalg_inverse_sums(S)
    result = U.matmul(core)
    if U.shape[-2] == Vh.shape[-1]:
        return result.matmul(Vh)
    inverse = _inverse_values(S, _sizes(grad_u, grad_s, grad_v))
    if grad_u is not None and U.shape[-2] > U.shape[-1]:
        result = result + (grad_u - U.matmul(x)) * inverse
    result = result.matmul(Vh)
    if grad_v is not None and Vh.shape[-1] > Vh.shape[-2]:
        result = result + (U * inverse).matmul((grad_v - Vh.mH.matmul(y)).mH)
    return result


def _sizes(grad_u: Any, grad_s: Any, grad_v: Any) -> Tensor:
    """How much reaches each singular value and its vectors."""
    columns = [g.detach().abs().sum(-2) for g in (grad_u, grad_v) if g is not None]
    total = sum(columns[1:], columns[0])
    return total if grad_s is None else total + grad_s.detach().abs()


def _inverse_values(S: Tensor, sizes: Any = None) -> Tensor:
    """1/s for each column; 0 where s = 0 and nothing reaches it."""
    if is_limit(S):
        return ops._quotient(ops.ones_like(S), S).unsqueeze(-2)
    return ops._linalg_inverse_values(S, sizes).unsqueeze(-2)


def svd_fan_vjp(
    grad_u: Any, grad_s: Any, grad_vh: Any, A: Tensor, repeated: Tensor, U: Tensor, S: Tensor,
    Vh: Tensor,
) -> Any:  # fmt: skip
    """The sum of `svd_vjp` over a fan, which must not turn the vectors of equal values.

    Those of equal values turn together, U and V by one rotation; those of 0 each on their own, and
    into the complement.
    """
    if grad_u is None and grad_s is None and grad_vh is None:
        return None
    k = S.shape[-1]
    grad_u = None if grad_u is None else _fold(grad_u, U, k)
    grad_v = None if grad_vh is None else _fold(grad_vh.mH, Vh.mH, k)
    U, Vh = U.narrow(-1, 0, k), Vh.narrow(-2, 0, k)
    if grad_u is None and grad_v is None:
        slopes: Any = grad_s
        return (U * slopes.to(U.dtype).unsqueeze(-2)).matmul(Vh).sum(0)
    x = None if grad_u is None else U.mH.matmul(grad_u)
    y = None if grad_v is None else Vh.matmul(grad_v)
    _check_turn(x if y is None else y if x is None else x + y, repeated)
    zero = (repeated <= 1e3 * finfo(S.dtype).eps * repeated.amax((-1,), True)).to(U.dtype)
    for grad, basis, inner in ((grad_u, U, x), (grad_v, Vh.mH, y)):
        if grad is not None:
            _check_turn(zero.unsqueeze(-1) * inner * zero.unsqueeze(-2), ops.zeros_like(repeated))
            beyond = (grad - basis.matmul(inner)) * zero.unsqueeze(-2)
            what = "linalg_svd: the vectors of the singular value 0"
            ops._require_gauge(grad, beyond.sum(0), what)
    return _thin_svd_vjp(grad_u, grad_s, grad_v, U, S, Vh).sum(0)


def _fold(grad: Tensor, Q: Tensor, count: int) -> Tensor:
    """The gradient of the first columns of a basis, with what comes through the others."""
    rest = Q.shape[-1] - count
    if not rest:
        return grad
    Q1, Q2 = Q.narrow(-1, 0, count), Q.narrow(-1, count, rest)
    other = grad.narrow(-1, count, rest)
    turn = Q2.mH.matmul(other)
    what = "linalg_svd(full_matrices=True): the vectors beyond the singular values"
    other = ops._require_gauge(other, turn - turn.mH, what)
    return grad.narrow(-1, 0, count) - Q2.matmul(other.mH.matmul(Q1))


def _frames(A_t: Tensor, U: Tensor, S: Tensor, Vh: Tensor) -> tuple[Tensor, Tensor]:
    """The rotations of U and V that Ȧ makes: U̇ = U Ω + …, V̇ = V Ψ + …, with B = Uᴴ Ȧ V.

    Ω + Ψ and Ω - Ψ solve (Ω + Ψ)(s[j]-s[i]) = B + Bᴴ and (Ω - Ψ)(s[i]+s[j]) = B - Bᴴ.
    """
    inner = U.mH.matmul(A_t).matmul(Vh.mH)
    both, apart = 0.5 * (inner + inner.mH), 0.5 * (inner - inner.mH)
    together = both * _tangent_factors(S)
    difference = apart * ops._linalg_inverse_sums(S)
    return together + difference, together - difference


def svd_values_jvp(A: Tensor, A_t: Tensor, U: Tensor, Vh: Tensor, k: int, vectors: bool) -> Tensor:
    """ṡ = Re diag(Uᴴ Ȧ V)."""
    if not vectors:
        U, _, Vh = ops._linalg_svd_generic(A, False, A_t)
    U, Vh = U.narrow(-1, 0, k), Vh.narrow(-2, 0, k)
    values = _diagonal(U.mH.matmul(A_t).matmul(Vh.mH))
    return values.real if values.is_complex() else values


def svd_left_jvp(A_t: Tensor, U: Tensor, S: Tensor, Vh: Tensor, vectors: bool) -> Tensor:
    """U̇ = U Ω + (1 - U Uᴴ) Ȧ V S⁻¹; the vectors beyond, U₂, move by -U U̇ᴴ U₂."""
    if not vectors:
        return ops.zeros_like(U)
    k = S.shape[-1]
    U1, V1h = U.narrow(-1, 0, k), Vh.narrow(-2, 0, k)
    turn, _ = _frames(A_t, U1, S, V1h)
    tangent = U1.matmul(turn)
    if U.shape[-2] > k:
        pushed = A_t.matmul(V1h.mH) * _inverse_values(S)
        tangent = tangent + pushed - U1.matmul(U1.mH.matmul(pushed))
    return _complete(tangent, U, k)


def svd_right_jvp(A_t: Tensor, U: Tensor, S: Tensor, Vh: Tensor, vectors: bool) -> Tensor:
    """V̇ as U̇ of Ȧᴴ, with Ψ in place of Ω."""
    if not vectors:
        return ops.zeros_like(Vh)
    k = S.shape[-1]
    U1, V1 = U.narrow(-1, 0, k), Vh.narrow(-2, 0, k).mH
    _, turn = _frames(A_t, U1, S, V1.mH)
    tangent = V1.matmul(turn)
    if Vh.shape[-1] > k:
        pushed = A_t.mH.matmul(U1) * _inverse_values(S)
        tangent = tangent + pushed - V1.matmul(V1.mH.matmul(pushed))
    return _complete(tangent, Vh.mH, k).mH


def _complete(tangent: Tensor, Q: Tensor, count: int) -> Tensor:
    rest = Q.shape[-1] - count
    if not rest:
        return tangent
    Q1, Q2 = Q.narrow(-1, 0, count), Q.narrow(-1, count, rest)
    return ops.cat([tangent, -Q1.matmul(tangent.mH.matmul(Q2))], -1)


def matrix_exp_tangent(A: Tensor, tangent: Tensor) -> Tensor:
    """The upper right block of exp [[A, E], [0, A]].  Najfeld and Havel 1995."""
    n = A.shape[-1]
    A, tangent = ops.broadcast_tensors([A, tangent])
    top, bottom = ops.cat([A, tangent], -1), ops.cat([ops.zeros_like(A), A], -1)
    whole = ops.linalg_matrix_exp(ops.cat([top, bottom], -2))
    return whole.narrow(-2, 0, n).narrow(-1, n, n)


def inverse_gaps_vjp(grad: Tensor, gaps: Tensor) -> Tensor:
    """F[i,j] = 1/(w[j]-w[i]):  P = -F̄ ∘ F*²,  w̄[j] = Σᵢ P[i,j] - P[j,i]."""
    change = -(grad * gaps * gaps)
    return change.sum(-2) - change.sum(-1)


def inverse_gaps_jvp(tangent: Tensor, gaps: Tensor) -> Tensor:
    """Ḟ[i,j] = -(ẇ[j] - ẇ[i]) F[i,j]²."""
    return -(tangent.unsqueeze(-2) - tangent.unsqueeze(-1)) * gaps * gaps


def inverse_sums_vjp(grad: Tensor, sums: Tensor) -> Tensor:
    """F[i,j] = 1/(s[i]+s[j]):  P = -F̄ ∘ F²,  s̄[j] = Σᵢ P[i,j] + P[j,i]."""
    change = -(grad * sums * sums)
    return change.sum(-2) + change.sum(-1)


def number(value: float, like: Tensor) -> Tensor:
    """A real scalar tensor in the precision of another tensor."""
    return ops.full((), value, dtype=like.dtype.to_real())


def pinv_of(A: Tensor, rcond: float) -> Tensor:
    """The pseudo-inverse with a relative tolerance."""
    return ops.linalg_pinv(A, rtol=number(rcond, A))


# --- some eigenvalues of a symmetric matrix ------------------------------------------------------


def lobpcg_vjp(grad_w: Any, grad_v: Any, A: Tensor, w: Tensor, V: Tensor) -> Any:
    """Ā = sym(V (diag(w̄) + F ∘ Vᵀ V̄) Vᵀ + Z Vᵀ),  (w[i] - A) Z[:,i] = (1 - V Vᵀ) V̄[:,i].

    The solution is orthogonal to V; a shift of A by a multiple of V Vᵀ makes it the only one.
    """
    if grad_w is None and grad_v is None:
        return None
    core: Any = None if grad_w is None else grad_w.diag_embed()
    outside: Any = None
    if grad_v is not None:
        inner = V.mT.matmul(grad_v)
        turned = inner * ops._linalg_inverse_gaps(w)
        core = turned if core is None else core + turned
        shift = (w.max() - w.min()).detach() * 2 + 1 if w.numel() else 1.0
        shifted = shift * V.matmul(V.mT) - (A + A.mT) / 2
        systems = shifted.unsqueeze(-3) + w.unsqueeze(-1).unsqueeze(-1) * _identity(A)
        rest = grad_v - V.matmul(inner)
        outside = ops.linalg_solve(systems, rest.mT.unsqueeze(-1)).squeeze(-1).mT
    found = V.matmul(core).matmul(V.mT)
    found = found if outside is None else found + outside.matmul(V.mT)
    return (found + found.mT) / 2


def _identity(A: Tensor) -> Tensor:
    return ops.eye(A.shape[-1], dtype=A.dtype)
