"""Derivatives of eigenvalues and vectors, singular values and vectors, and pseudo-inverses.

Vectors of values that are close together: Note [Repeated values] in kernels/linalg/clusters.py. Of
tensors that stand for a fan nothing is checked (`loose`): the limit in the end tells everything.
"""

# Capitals are matrices here, not constants.
# pyright: reportConstantRedefinition=false

from __future__ import annotations

from typing import Any

from adjoint import ops
from adjoint.ops.fans import closeness_in_graph, is_fan, is_in_graph, order_ahead

Tensor = Any


def _diagonal(x: Tensor) -> Tensor:
    return x.diagonal(0, -2, -1)


def _turned(values: Tensor, slopes: Any, inner: Any, zeros: int, *, loose: bool) -> Tensor:
    """diag(w̄) + F ∘ ½(X - Xᴴ), F[i,j] = 1/(w[j]-w[i]); X may be None."""
    core: Any = None
    if slopes is not None:
        core = _shared(slopes, values, zeros, loose=loose).diag_embed()
    if inner is None:
        return core
    if not loose:
        values = _distinct(values, order_ahead() + 1, zeros)
        # compared with X: where its skew part is rounding, what it was computed from is not
        inner = ops._linalg_require_split_gauge(inner, 0.5 * (inner - inner.mH), values)
    skew = 0.5 * (inner - inner.mH)
    turned = skew * ops._linalg_inverse_gaps(values)
    return turned if core is None else core + turned


def _shared(slopes: Tensor, values: Tensor, zeros: int, *, loose: bool) -> Tensor:
    """Slopes of equal values are their mean, as a subgradient has to be that is no basis's own."""
    if loose or is_in_graph(values):
        return ops._linalg_shared(slopes, values, zeros)
    return slopes


def _distinct(values: Tensor, order: int, zeros: int) -> Tensor:
    """Values that are not close: checked in graphs; elsewhere they would stand for a fan.

    Of singular values two may not be close to 0; whether one may, `_inverse_values` sees.
    """
    near = closeness_in_graph(values, order)
    return ops._linalg_require_distinct(values, near, 2 if zeros else 0)


# --- Hermitian matrices --------------------------------------------------------------------------


def eigh_vjp(
    grad_w: Any, grad_v: Any, A: Tensor, w: Tensor, V: Tensor, UPLO: str, vectors: bool
) -> Any:
    """Ā = V (diag(w̄) + F ∘ ½(X - Xᴴ)) Vᴴ,  X = Vᴴ V̄,  F[i,j] = 1/(w[j]-w[i])."""
    if not vectors:  # what stands for them is empty, and does not depend on A
        grad_v = None
    if grad_w is None and grad_v is None:
        return None
    if not vectors:
        w, V = ops._linalg_eigh(A, UPLO, True)
    return _pull_eigh(grad_w, grad_v, w, V, loose=is_fan(w))


def eigh_fan_vjp(grad_w: Any, grad_v: Any, w: Tensor, V: Tensor) -> Any:
    """As `eigh_vjp`, of a fan."""
    if grad_w is None and grad_v is None:
        return None
    return _pull_eigh(grad_w, grad_v, w, V, loose=True)


def _pull_eigh(grad_w: Any, grad_v: Any, w: Tensor, V: Tensor, *, loose: bool) -> Tensor:
    if grad_v is None:
        slopes: Any = _shared(grad_w, w, 0, loose=loose)
        return (V * slopes.unsqueeze(-2)).matmul(V.mH)
    return V.matmul(_turned(w, grad_w, V.mH.matmul(grad_v), 0, loose=loose)).matmul(V.mH)


def _rotated(A_t: Tensor, V: Tensor) -> Tensor:
    """Vᴴ Ȧ V with the Hermitian part of Ȧ."""
    return V.mH.matmul(0.5 * (A_t + A_t.mH)).matmul(V)


def eigh_values_jvp(
    A: Tensor, A_t: Tensor, w: Tensor, V: Tensor, UPLO: str, vectors: bool
) -> Tensor:
    """ẇ = diag(Vᴴ Ȧ V)."""
    if not vectors:
        w, V = ops._linalg_eigh(A, UPLO, True)
    return _values_jvp(A_t, w, V, loose=is_fan(w))


def eigh_fan_values_jvp(A_t: Tensor, w: Tensor, V: Tensor) -> Tensor:
    """As `eigh_values_jvp`, of a fan."""
    return _values_jvp(A_t, w, V, loose=True)


def _values_jvp(A_t: Tensor, w: Tensor, V: Tensor, *, loose: bool) -> Tensor:
    values = _diagonal(_rotated(A_t, V))
    return _shared(values.real if values.is_complex() else values, w, 0, loose=loose)


def eigh_vectors_jvp(A_t: Tensor, w: Tensor, V: Tensor, vectors: bool) -> Tensor:
    """V̇ = V (F ∘ Vᴴ Ȧ V)."""
    if not vectors:
        return ops.zeros_like(V)
    if not is_fan(w):
        w = _distinct(w, order_ahead(), 0)
    return eigh_fan_vectors_jvp(A_t, w, V)


def eigh_fan_vectors_jvp(A_t: Tensor, w: Tensor, V: Tensor) -> Tensor:
    """As `eigh_vectors_jvp`, of a fan."""
    return V.matmul(_rotated(A_t, V) * ops._linalg_inverse_gaps(w))


# --- general matrices ----------------------------------------------------------------------------


def eig_vjp(grad_w: Any, grad_v: Any, w: Tensor, V: Tensor) -> Any:
    """Ā = V⁻ᴴ (diag(w̄) + (X - Vᴴ V diag(Re X)) ∘ F*) Vᴴ,  X = Vᴴ V̄,  F[i,j] = 1/(w[j]-w[i])."""
    if is_fan(w) or (grad_w is None and grad_v is None):
        return eig_fan_vjp(grad_w, grad_v, w, V)
    V = ops._linalg_require_diagonalizable(V, w, closeness_in_graph(w, order_ahead() + 1))
    inner = _without_length(grad_v, V)
    if inner is not None:  # the phases of vectors are free: the diagonal must be 0
        inner = ops._linalg_require_split_gauge(inner, inner, w)
    return _pull_eig(grad_w, inner, w, V)


def eig_fan_vjp(grad_w: Any, grad_v: Any, w: Tensor, V: Tensor) -> Any:
    """As `eig_vjp`, of a fan."""
    if grad_w is None and grad_v is None:
        return None
    return _pull_eig(grad_w, _without_length(grad_v, V), w, V)


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


# --- singular values -----------------------------------------------------------------------------


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
        U, S, Vh = ops._linalg_svd(A, False, True)
    return _pull_svd(grad_u, grad_s, grad_vh, U, S, Vh, loose=is_fan(S))


def svd_fan_vjp(grad_u: Any, grad_s: Any, grad_vh: Any, U: Tensor, S: Tensor, Vh: Tensor) -> Any:
    """As `svd_vjp`, of a fan."""
    if grad_u is None and grad_s is None and grad_vh is None:
        return None
    return _pull_svd(grad_u, grad_s, grad_vh, U, S, Vh, loose=True)


def _zeros_that_matter(U: Tensor, Vh: Tensor) -> int:
    """As in kernels/linalg/clusters.py: how many singular values near 0 leave vectors open."""
    return 2 if U.shape[-2] == Vh.shape[-1] and not U.is_complex() else 1


def _pull_svd(
    grad_u: Any, grad_s: Any, grad_vh: Any, U: Tensor, S: Tensor, Vh: Tensor, *, loose: bool
) -> Tensor:
    k = S.shape[-1]
    zeros = _zeros_that_matter(U, Vh)
    if grad_u is not None:
        grad_u = _fold(grad_u, U, k)
    grad_v = None if grad_vh is None else _fold(grad_vh.mH, Vh.mH, k)
    U, Vh = U.narrow(-1, 0, k), Vh.narrow(-2, 0, k)
    if grad_u is None and grad_v is None:
        slopes: Any = _shared(grad_s, S, zeros, loose=loose)
        return (U * slopes.to(U.dtype).unsqueeze(-2)).matmul(Vh)
    x = ops.zeros_like(Vh.matmul(Vh.mH)) if grad_u is None else U.mH.matmul(grad_u)
    y = ops.zeros_like(x) if grad_v is None else Vh.matmul(grad_v)
    difference = 0.5 * ((x - x.mH) - (y - y.mH))
    core = _turned(S, grad_s, x + y, zeros, loose=loose)
    result = U.matmul(core + difference * ops._linalg_inverse_sums(S))
    if U.shape[-2] == Vh.shape[-1]:
        return result.matmul(Vh)
    sizes = _sizes(grad_u, grad_s, grad_v)
    inverse = _inverse_values(S, order_ahead() + 1, sizes, loose=loose)
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


def _inverse_values(S: Tensor, order: int, sizes: Any = None, *, loose: bool) -> Tensor:
    """1/s for each column; 0 where s = 0 and nothing reaches it, or nothing is checked."""
    near = 0.0 if loose else closeness_in_graph(S, order)
    return ops._linalg_inverse_values(S, sizes, near, loose).unsqueeze(-2)


def _fold(grad: Tensor, Q: Tensor, count: int) -> Tensor:
    """The gradient of the first columns of a basis, and through the other columns."""
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
    together = both * ops._linalg_inverse_gaps(S)
    difference = apart * ops._linalg_inverse_sums(S)
    return together + difference, together - difference


def svd_values_jvp(
    A: Tensor, A_t: Tensor, U: Tensor, S: Tensor, Vh: Tensor, vectors: bool
) -> Tensor:
    """ṡ = Re diag(Uᴴ Ȧ V)."""
    if not vectors:
        U, S, Vh = ops._linalg_svd(A, False, True)
    return _singular_jvp(A_t, U, S, Vh, loose=is_fan(S))


def svd_fan_values_jvp(A_t: Tensor, U: Tensor, S: Tensor, Vh: Tensor) -> Tensor:
    """As `svd_values_jvp`, of a fan."""
    return _singular_jvp(A_t, U, S, Vh, loose=True)


def _singular_jvp(A_t: Tensor, U: Tensor, S: Tensor, Vh: Tensor, *, loose: bool) -> Tensor:
    k, zeros = S.shape[-1], _zeros_that_matter(U, Vh)
    U, Vh = U.narrow(-1, 0, k), Vh.narrow(-2, 0, k)
    values = _diagonal(U.mH.matmul(A_t).matmul(Vh.mH))
    return _shared(values.real if values.is_complex() else values, S, zeros, loose=loose)


def svd_left_jvp(A_t: Tensor, U: Tensor, S: Tensor, Vh: Tensor, vectors: bool) -> Tensor:
    """U̇ = U Ω + (1 - U Uᴴ) Ȧ V S⁻¹; the vectors beyond, U₂, move by -U U̇ᴴ U₂."""
    if not vectors:
        return ops.zeros_like(U)
    return _left_jvp(A_t, U, S, Vh, loose=is_fan(S))


def svd_fan_left_jvp(A_t: Tensor, U: Tensor, S: Tensor, Vh: Tensor) -> Tensor:
    """As `svd_left_jvp`, of a fan."""
    return _left_jvp(A_t, U, S, Vh, loose=True)


def _left_jvp(A_t: Tensor, U: Tensor, S: Tensor, Vh: Tensor, *, loose: bool) -> Tensor:
    k = S.shape[-1]
    if not loose:
        S = _distinct(S, order_ahead(), _zeros_that_matter(U, Vh))
    U1, V1h = U.narrow(-1, 0, k), Vh.narrow(-2, 0, k)
    turn, _ = _frames(A_t, U1, S, V1h)
    tangent = U1.matmul(turn)
    if U.shape[-2] > k:
        pushed = A_t.matmul(V1h.mH) * _inverse_values(S, order_ahead(), loose=loose)
        tangent = tangent + pushed - U1.matmul(U1.mH.matmul(pushed))
    return _complete(tangent, U, k)


def svd_right_jvp(A_t: Tensor, U: Tensor, S: Tensor, Vh: Tensor, vectors: bool) -> Tensor:
    """V̇ as U̇ of Ȧᴴ, with Ψ in place of Ω."""
    if not vectors:
        return ops.zeros_like(Vh)
    return _right_jvp(A_t, U, S, Vh, loose=is_fan(S))


def svd_fan_right_jvp(A_t: Tensor, U: Tensor, S: Tensor, Vh: Tensor) -> Tensor:
    """As `svd_right_jvp`, of a fan."""
    return _right_jvp(A_t, U, S, Vh, loose=True)


def _right_jvp(A_t: Tensor, U: Tensor, S: Tensor, Vh: Tensor, *, loose: bool) -> Tensor:
    k = S.shape[-1]
    if not loose:
        S = _distinct(S, order_ahead(), _zeros_that_matter(U, Vh))
    U1, V1 = U.narrow(-1, 0, k), Vh.narrow(-2, 0, k).mH
    _, turn = _frames(A_t, U1, S, V1.mH)
    tangent = V1.matmul(turn)
    if Vh.shape[-1] > k:
        pushed = A_t.mH.matmul(U1) * _inverse_values(S, order_ahead(), loose=loose)
        tangent = tangent + pushed - V1.matmul(V1.mH.matmul(pushed))
    return _complete(tangent, Vh.mH, k).mH


def _complete(tangent: Tensor, Q: Tensor, count: int) -> Tensor:
    rest = Q.shape[-1] - count
    if not rest:
        return tangent
    Q1, Q2 = Q.narrow(-1, 0, count), Q.narrow(-1, count, rest)
    return ops.cat([tangent, -Q1.matmul(tangent.mH.matmul(Q2))], -1)


def matrix_exp_tangent(A: Tensor, tangent: Tensor) -> Tensor:
    """The upper right block of exp [[A, E], [0, A]].  Najfeld and Havel 1995.

    It is linear in E, which is brought to a size that costs no digits.
    """
    n = A.shape[-1]
    A, tangent = ops.broadcast_tensors([A, tangent])
    if not n:
        return tangent.clone()
    size = ops.frexp(tangent.abs().amax((-2, -1), True).detach())[1]
    small = ops.ldexp(tangent, -size)
    top, bottom = ops.cat([A, small], -1), ops.cat([ops.zeros_like(A), A], -1)
    whole = ops.linalg_matrix_exp(ops.cat([top, bottom], -2))
    return ops.ldexp(whole.narrow(-2, 0, n).narrow(-1, n, n), size)


_ROOTS = 10  # square roots, after which a matrix is close to 1
_GAUSS = (  # twice the places and the weights of Gauss and Legendre's rule on [0, 1]
    (0.039710143502463824, 0.10122853629037706), (0.20333352258637327, 0.22238103445337443),
    (0.474467590083671, 0.3137066458778869), (0.8165653575043502, 0.36268378337836166),
    (1.1834346424956497, 0.36268378337836166), (1.525532409916329, 0.3137066458778869),
    (1.7966664774136267, 0.22238103445337443), (1.9602898564975362, 0.10122853629037706),
)  # fmt: skip


def logm_tangent(X: Tensor, tangent: Tensor) -> Tensor:
    """The derivative of X = log A = 2ˢ log B, with the roots B = exp (X/2ˢ), B², … A.

    The derivative of a root solves Sylvester's equation; log (1 + Y) = ∫ Y (1 + xY)⁻¹ dx. Roots are
    computed from X, and not from A, so that they are on the same branches.  Al-Mohy, Higham and
    Relton 2013.
    """
    if not X.shape[-1]:
        return tangent.clone()
    roots = [ops.linalg_matrix_exp(X * 0.5**_ROOTS)]
    for _ in range(1, _ROOTS):
        roots.append(roots[-1].matmul(roots[-1]))
    for root in reversed(roots):
        tangent = ops._linalg_sylvester(root, root, tangent)
    one = ops.eye(X.shape[-1], dtype=X.dtype)
    total: Any = 0
    for place, weight in _GAUSS:
        inverse = ops.linalg_inv_ex(one + 0.5 * place * (roots[0] - one))[0]
        total = total + (0.5 * weight) * inverse.matmul(tangent).matmul(inverse)
    return 2.0**_ROOTS * total


def sylvester_vjp(grad: Tensor, A: Tensor, B: Tensor, X: Tensor) -> tuple[Any, Any, Any]:
    """A X + X B = Q:  Aᴴ Q̄ + Q̄ Bᴴ = X̄,  Ā = -Q̄ Xᴴ,  B̄ = -Xᴴ Q̄."""
    grad_q = ops._linalg_sylvester(A.mH, B.mH, grad)
    return -grad_q.matmul(X.mH), -X.mH.matmul(grad_q), grad_q


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
