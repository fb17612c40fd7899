"""`ad.nn.utils.parametrizations`: orthogonal matrices, length and direction, spectral norm 1."""

from __future__ import annotations

from typing import Any

from adjoint import ops
from adjoint.core.dtypes import finfo
from adjoint.core.errors import (
    DimensionError,
    DtypeError,
    MissingRule,
    ShapeError,
    ValueRangeError,
)
from adjoint.core.shapes import show
from adjoint.nn.functional import normalize
from adjoint.nn.modules.conv import _ConvTransposeNd
from adjoint.nn.modules.module import Module
from adjoint.nn.utils.parametrize import register_parametrization
from adjoint.tensor.modes import no_grad
from adjoint.tensor.tensor import Tensor

__all__ = ["orthogonal", "spectral_norm", "weight_norm"]


def outputs_dimension(module: Any) -> int:
    """The dimension of a layer's weight that belongs to its outputs."""
    return 1 if isinstance(module, _ConvTransposeNd) else 0


def as_matrix(weight: Tensor, dim: int) -> Tensor:
    """A weight as a matrix with one row for each output."""
    order = [dim, *(d for d in range(weight.ndim) if d != dim)]
    return (weight.permute(order) if dim else weight).flatten(1)


# --- orthogonal matrices ------------------------------------------------------------------------

_MAPS = ("matrix_exp", "cayley", "householder")


def _is_orthogonal(q: Tensor) -> bool:
    """Whether Qᴴ Q = I to rounding."""
    n = q.shape[-1]
    identity = ops.eye(n, dtype=q.dtype)
    return bool(ops.isclose(q.mH @ q, identity, atol=10.0 * n * finfo(q.dtype).eps).all())


def _make_orthogonal(matrix: Tensor) -> Tensor:
    """The orthogonal factor of A = Q R, where R has a positive diagonal."""
    reflections, tau = ops.geqrf(matrix)
    q = ops.linalg_householder_product(reflections, tau)
    return q * reflections.diagonal(dim1=-2, dim2=-1).sgn().unsqueeze(-2)


class _Orthogonal(Module):
    """Makes a matrix orthogonal; see `orthogonal`."""

    base: Tensor | None

    def __init__(self, weight: Tensor, orthogonal_map: str, *, use_trivialization: bool) -> None:
        super().__init__()
        if weight.is_complex() and orthogonal_map == "householder":
            raise _NotComplex(
                "orthogonal: the householder map is for real matrices; use 'matrix_exp' or 'cayley'"
            )
        self.shape = weight.shape
        self.orthogonal_map = orthogonal_map
        self.trivial = use_trivialization
        if use_trivialization:
            self.register_buffer("base", None)

    def forward(self, X: Tensor) -> Tensor:
        """Return the orthogonal matrix of X; one with orthogonal rows if X is wide."""
        wide = X.shape[-2] < X.shape[-1]
        x = X.mT if wide else X
        q = self._reflected(x) if self.orthogonal_map == "householder" else self._turned(x)
        if self.trivial and self.base is not None:
            q = self.base @ q
        return q.mT if wide else q

    def _turned(self, x: Tensor) -> Tensor:
        """exp(A) or (I - A/2)⁻¹ (I + A/2), A = X - Xᴴ for the lower triangle of X."""
        n, k = x.shape[-2:]
        x = x.tril()
        if n != k:
            x = ops.cat([x, x.new_zeros((*x.shape[:-2], n, n - k))], -1)
        a = x - x.mH
        if self.orthogonal_map == "matrix_exp":
            q = ops.linalg_matrix_exp(a)
        else:
            identity = ops.eye(n, dtype=a.dtype)
            q = ops.linalg_solve(identity - 0.5 * a, identity + 0.5 * a)
        return q[..., :k] if n != k else q

    def _reflected(self, x: Tensor) -> Tensor:
        """The product of the reflections of the columns below the diagonal, which holds signs."""
        a = x.tril(-1)
        tau = 2.0 / (1.0 + (a * a).sum(-2))
        signs = x.diagonal(dim1=-2, dim2=-1).detach().sgn()
        return ops.linalg_householder_product(a, tau) * signs.unsqueeze(-2)

    @no_grad()
    def right_inverse(self, Q: Tensor) -> Tensor:
        """Return what gives Q, or the orthogonal matrix of its QR decomposition."""
        if Q.shape != self.shape:
            raise ShapeError(
                f"orthogonal: the matrix has shape {show(self.shape)}, got {show(Q.shape)}"
            )
        wide = Q.shape[-2] < Q.shape[-1]
        q = Q.mT if wide else Q
        if self.orthogonal_map == "householder" and not self.trivial:
            found = _signed_reflections(q)
            return found.mT if wide else found
        if not self.trivial:
            raise MissingRule(
                "orthogonal: a matrix can be assigned to 'matrix_exp' and 'cayley' with "
                "use_trivialization=True only"
            )
        n, k = q.shape[-2:]
        if n != k:
            q = ops.cat([q, ops.randn((*q.shape[:-2], n, n - k), dtype=q.dtype)], -1)
        self.base = q.clone() if n == k and _is_orthogonal(q) else _make_orthogonal(q)
        negative = ops.zeros_like(Q)
        negative.diagonal(dim1=-2, dim2=-1).fill_(-1.0)
        return negative  # of which every map makes the identity, which leaves the base


def _signed_reflections(q: Tensor) -> Tensor:
    """The reflections that make Q, with signs on the diagonal; a column without one has -1."""
    a, tau = ops.geqrf(q)
    diagonal = a.diagonal(dim1=-2, dim2=-1)
    diagonal.copy_(ops.where(tau == 0, -diagonal.sign(), diagonal.sign()))
    return a


class _NotComplex(DtypeError, ValueError):
    """A map that complex matrices do not have."""


def orthogonal(
    module: Any,
    name: str = "weight",
    orthogonal_map: str | None = None,
    *,
    use_trivialization: bool = True,
) -> Any:
    """Let a matrix of a module, or a batch of them, be orthogonal (or unitary) at all times.

    Maps: 'matrix_exp', exp(A) of a skew-symmetric A; 'cayley', (I + A/2)(I - A/2)⁻¹;
    'householder', a product of reflections. By default the first for square or complex matrices,
    else the last. With `use_trivialization` the matrix starts as the orthogonal one it has, which
    is kept as a buffer: Lezcano-Casado 2019.

    >>> import adjoint as ad
    >>> layer = ad.nn.utils.parametrizations.orthogonal(ad.nn.Linear(3, 5))
    >>> ad.allclose(layer.weight.T @ layer.weight, ad.eye(3), atol=1e-5)
    True
    """
    weight = getattr(module, name, None)
    if not isinstance(weight, Tensor):
        raise ValueRangeError(f"orthogonal: {type(module).__name__} has no tensor {name!r}")
    if weight.ndim < 2:
        raise ShapeError(f"orthogonal: needs a matrix or several, got {show(weight.shape)}")
    if orthogonal_map is None:
        square = weight.shape[-2] == weight.shape[-1]
        orthogonal_map = "matrix_exp" if square or weight.is_complex() else "householder"
    if orthogonal_map not in _MAPS:
        raise ValueRangeError(
            f"orthogonal: orthogonal_map is one of {', '.join(_MAPS)}, got {orthogonal_map!r}"
        )
    made = _Orthogonal(weight, orthogonal_map, use_trivialization=use_trivialization)
    return register_parametrization(module, name, made, unsafe=True)


# --- length and direction -----------------------------------------------------------------------


class _WeightNorm(Module):
    """w = g v / ‖v‖; see `weight_norm`."""

    def __init__(self, dim: int | None = 0) -> None:
        super().__init__()
        self.dim = -1 if dim is None else dim

    def forward(self, weight_g: Tensor, weight_v: Tensor) -> Tensor:
        """Return the weight of a length and a direction."""
        return ops._weight_norm(weight_v, weight_g, self.dim)

    def right_inverse(self, weight: Tensor) -> tuple[Tensor, Tensor]:
        """Return length and direction."""
        return ops.norm_except_dim(weight, 2, self.dim), weight


def weight_norm(module: Any, name: str = "weight", dim: int = 0) -> Any:
    """Learn length and direction of a weight apart: w = g v / ‖v‖.  Salimans 2016.

    There is one length for each index of `dim`, one for all with None.

    >>> import adjoint as ad
    >>> layer = ad.nn.utils.parametrizations.weight_norm(ad.nn.Linear(3, 5))
    >>> [tuple(p.shape) for p in layer.parametrizations.weight.parameters()]
    [(5, 1), (5, 3)]
    """
    register_parametrization(module, name, _WeightNorm(dim), unsafe=True)

    def from_earlier(state_dict: Any, prefix: str, *_: Any) -> None:
        """Take the state of a module that nn.utils.weight_norm was applied to."""
        for number, letter in enumerate("gv"):
            if f"{prefix}{name}_{letter}" in state_dict:
                key = f"{prefix}parametrizations.{name}.original{number}"
                state_dict[key] = state_dict.pop(f"{prefix}{name}_{letter}")

    module._register_load_state_dict_pre_hook(from_earlier)
    return module


# --- spectral norm 1 ----------------------------------------------------------------------------


class _SpectralNorm(Module):
    """w / σ(w); see `spectral_norm`."""

    _u: Tensor
    _v: Tensor

    def __init__(
        self, weight: Tensor, n_power_iterations: int = 1, dim: int = 0, eps: float = 1e-12
    ) -> None:
        super().__init__()
        ndim = weight.ndim
        if not -ndim <= dim < ndim:
            raise DimensionError(f"spectral_norm: dim={dim} of a tensor of {ndim} dimensions")
        if n_power_iterations <= 0:
            raise ValueRangeError(
                f"spectral_norm: n_power_iterations is 1 or more, got {n_power_iterations}"
            )
        self.dim = dim % ndim
        self.eps = eps
        self.n_power_iterations = n_power_iterations
        if ndim > 1:
            matrix = as_matrix(weight.detach(), self.dim)
            for buffer, size in (("_u", matrix.shape[0]), ("_v", matrix.shape[1])):
                drawn = matrix.new_empty((size,)).normal_(0, 1)
                self.register_buffer(buffer, normalize(drawn, dim=0, eps=eps))
            self._iterate(matrix, 15)

    @no_grad()
    def _iterate(self, matrix: Tensor, count: int) -> None:
        """Bring u and v nearer to the singular vectors of the largest singular value."""
        for _ in range(count):
            self._u.copy_(normalize(ops.mv(matrix, self._v), dim=0, eps=self.eps))
            self._v.copy_(normalize(ops.mv(matrix.mH, self._u), dim=0, eps=self.eps))

    def forward(self, weight: Tensor) -> Tensor:
        """Return the weight divided by its largest singular value, as it is estimated."""
        if weight.ndim == 1:
            return normalize(weight, dim=0, eps=self.eps)
        matrix = as_matrix(weight, self.dim)
        if self.training:
            self._iterate(matrix, self.n_power_iterations)
        u, v = self._u.clone(), self._v.clone()  # later calls change them, backward needs these
        return weight / ops.vdot(u, ops.mv(matrix, v))

    def right_inverse(self, value: Tensor) -> Tensor:
        """Return the value itself, whose norm may be another one."""
        return value


def spectral_norm(
    module: Any,
    name: str = "weight",
    n_power_iterations: int = 1,
    eps: float = 1e-12,
    dim: int | None = None,
) -> Any:
    """Divide a weight by its largest singular value, whenever it is used.  Miyato 2018.

    The singular value is estimated by power iterations, `n_power_iterations` at each use in
    training. `dim` is the dimension of outputs: 0, but 1 for transposed convolutions.

    >>> import adjoint as ad
    >>> layer = ad.nn.utils.parametrizations.spectral_norm(ad.nn.Linear(3, 5), n_power_iterations=9)
    >>> abs(ad.linalg.matrix_norm(layer.weight, 2).item() - 1) < 1e-2
    True
    """
    weight = getattr(module, name, None)
    if not isinstance(weight, Tensor):
        raise ValueRangeError(f"spectral_norm: {type(module).__name__} has no tensor {name!r}")
    dim = outputs_dimension(module) if dim is None else dim
    made = _SpectralNorm(weight, n_power_iterations, dim, eps)
    return register_parametrization(module, name, made)
