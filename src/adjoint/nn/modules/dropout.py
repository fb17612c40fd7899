"""Dropouts: random elements or channels become 0 while training."""

from __future__ import annotations

from adjoint.core.errors import ValueRangeError
from adjoint.nn import functional
from adjoint.nn.modules.module import Module
from adjoint.tensor.tensor import Tensor

__all__ = [
    "AlphaDropout", "Dropout", "Dropout1d", "Dropout2d", "Dropout3d", "FeatureAlphaDropout",
]  # fmt: skip


class _DropoutNd(Module):
    """The probability of being dropped, and whether the input itself is changed."""

    def __init__(self, p: float = 0.5, inplace: bool = False) -> None:
        super().__init__()
        if not 0 <= p <= 1:
            raise ValueRangeError(
                f"{type(self).__name__}(p={p}): a probability is between 0 and 1."
            )
        self.p, self.inplace = p, inplace

    def extra_repr(self) -> str:
        return f"p={self.p}, inplace={self.inplace}"


class Dropout(_DropoutNd):
    """Each element becomes 0 with probability p while training; the others grow by 1/(1 - p).

    >>> import adjoint as ad
    >>> layer = ad.nn.Dropout(0.5)
    >>> set(layer(ad.ones(1000)).tolist()) == {0.0, 2.0}, layer.eval()(ad.ones(2))
    (True, tensor([1., 1.]))
    """

    def forward(self, input: Tensor) -> Tensor:
        return functional.dropout(input, self.p, self.training, self.inplace)


class Dropout1d(_DropoutNd):
    """Dropout of whole channels of signals (…, channels, length).

    >>> import adjoint as ad
    >>> ad.nn.Dropout1d(0.0)(ad.ones(2, 3, 4)).shape
    (2, 3, 4)
    """

    def forward(self, input: Tensor) -> Tensor:
        return functional.dropout1d(input, self.p, self.training, self.inplace)


class Dropout2d(_DropoutNd):
    """Dropout of whole channels of images (batch, channels, height, width).

    >>> import adjoint as ad
    >>> ad.nn.Dropout2d(1.0)(ad.ones(2, 3, 4, 4)).sum()
    tensor(0.)
    """

    def forward(self, input: Tensor) -> Tensor:
        return functional.dropout2d(input, self.p, self.training, self.inplace)


class Dropout3d(_DropoutNd):
    """Dropout of whole channels of volumes (batch, channels, depth, height, width).

    >>> import adjoint as ad
    >>> ad.nn.Dropout3d(1.0)(ad.ones(2, 3, 2, 4, 4)).sum()
    tensor(0.)
    """

    def forward(self, input: Tensor) -> Tensor:
        return functional.dropout3d(input, self.p, self.training, self.inplace)


class AlphaDropout(_DropoutNd):
    """Dropout to the far left value of `SELU`, which keeps mean 0 and variance 1.

    >>> import adjoint as ad
    >>> ad.nn.AlphaDropout(0.5).eval()(ad.ones(2))
    tensor([1., 1.])
    """

    def forward(self, input: Tensor) -> Tensor:
        return functional.alpha_dropout(input, self.p, self.training, self.inplace)


class FeatureAlphaDropout(_DropoutNd):
    """`AlphaDropout` of whole channels (dimension 1).

    >>> import adjoint as ad
    >>> ad.nn.FeatureAlphaDropout(0.5)(ad.ones(2, 3, 4)).shape
    (2, 3, 4)
    """

    def forward(self, input: Tensor) -> Tensor:
        return functional.feature_alpha_dropout(input, self.p, self.training, self.inplace)
