"""How far apart, or how alike, vectors are."""

from __future__ import annotations

from adjoint.nn import functional
from adjoint.nn.modules.module import Module
from adjoint.tensor.tensor import Tensor

__all__ = ["CosineSimilarity", "PairwiseDistance"]


class PairwiseDistance(Module):
    """‖x₁ - x₂ + eps‖ₚ of the last dimension.

    >>> import adjoint as ad
    >>> ad.nn.PairwiseDistance()(ad.zeros(1, 2), ad.tensor([[3.0, 4.0]]))
    tensor([5.0000])
    """

    def __init__(self, p: float = 2.0, eps: float = 1e-6, keepdim: bool = False) -> None:
        super().__init__()
        self.norm, self.eps, self.keepdim = p, eps, keepdim

    def forward(self, x1: Tensor, x2: Tensor) -> Tensor:
        return functional.pairwise_distance(x1, x2, self.norm, self.eps, self.keepdim)


class CosineSimilarity(Module):
    """The cosine of the angle between vectors along a dimension.

    >>> import adjoint as ad
    >>> ad.nn.CosineSimilarity(dim=0)(ad.tensor([1.0, 0.0]), ad.tensor([3.0, 4.0]))
    tensor(0.6000)
    """

    def __init__(self, dim: int = 1, eps: float = 1e-8) -> None:
        super().__init__()
        self.dim, self.eps = dim, eps

    def forward(self, x1: Tensor, x2: Tensor) -> Tensor:
        return functional.cosine_similarity(x1, x2, self.dim, self.eps)
