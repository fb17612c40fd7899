"""Functions of vectors and matrices with PyTorch's signatures in Python."""

from __future__ import annotations

from typing import Any

from adjoint import ops
from adjoint.tensor.tensor import Tensor


def normalize(
    input: Tensor, p: float = 2.0, dim: int = 1, eps: float = 1e-12, out: Tensor | None = None
) -> Tensor:
    """x / max(‖x‖ₚ, eps) along `dim`.

    >>> import adjoint as ad
    >>> ad.nn.functional.normalize(ad.tensor([[3.0, 4.0]]))
    tensor([[0.6000, 0.8000]])
    """
    dims = dim if isinstance(dim, (tuple, list)) else (dim,)
    length = ops.linalg_vector_norm(input, p, dims, True).clamp_min(eps)
    return ops.div(input, length) if out is None else ops.div(input, length, out=out)


def grouped_mm(
    mat_a: Tensor,
    mat_b: Tensor,
    *,
    offs: Tensor | None = None,
    bias: Tensor | None = None,
    out_dtype: Any = None,
) -> Tensor:
    """Multiply matrices group by group; `offs` holds where each group ends.

    (M, K) (G, K, N) has groups of rows, (G, M, K) (K, N) of columns, (M, K) (K, N) of the inner
    dimension, and (G, M, K) (G, K, N) is bmm.

    >>> import adjoint as ad
    >>> grouped_mm(ad.ones(3, 2), ad.ones(2, 2, 1), offs=ad.tensor([1, 3], dtype=ad.int32)).shape
    (3, 1)
    """
    return ops._grouped_mm(mat_a, mat_b, offs, bias, out_dtype)
