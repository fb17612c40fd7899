"""Images, signals and volumes of another size."""

from __future__ import annotations

from collections.abc import Sequence

from adjoint.nn import functional
from adjoint.nn.modules.module import Module
from adjoint.tensor.tensor import Tensor

__all__ = ["Upsample", "UpsamplingBilinear2d", "UpsamplingNearest2d"]


class Upsample(Module):
    """The dimensions after batch and channels brought to a size, or scaled by a factor.

    `mode` is 'nearest', 'linear', 'bilinear', 'bicubic' or 'trilinear'; see
    `nn.functional.interpolate` for the other arguments.

    >>> import adjoint as ad
    >>> ad.nn.Upsample(scale_factor=2)(ad.tensor([[[1.0, 2.0]]]))
    tensor([[[1., 1., 2., 2.]]])
    """

    def __init__(
        self,
        size: int | Sequence[int] | None = None,
        scale_factor: float | Sequence[float] | None = None,
        mode: str = "nearest",
        align_corners: bool | None = None,
        recompute_scale_factor: bool | None = None,
    ) -> None:
        super().__init__()
        self.name = type(self).__name__
        self.size, self.mode = size, mode
        if isinstance(scale_factor, (tuple, list)):
            self.scale_factor = tuple(float(factor) for factor in scale_factor)
        else:
            self.scale_factor = float(scale_factor) if scale_factor else None  # type: ignore[arg-type]
        self.align_corners = align_corners
        self.recompute_scale_factor = recompute_scale_factor

    def forward(self, input: Tensor) -> Tensor:
        return functional.interpolate(
            input, self.size, self.scale_factor, self.mode, self.align_corners,
            recompute_scale_factor=self.recompute_scale_factor,
        )  # fmt: skip

    def extra_repr(self) -> str:
        if self.scale_factor is not None:
            return f"scale_factor={self.scale_factor!r}, mode={self.mode!r}"
        return f"size={self.size!r}, mode={self.mode!r}"


class UpsamplingNearest2d(Upsample):
    """Images of another size: each element is its nearest.

    >>> import adjoint as ad
    >>> ad.nn.UpsamplingNearest2d(scale_factor=2)(ad.ones(1, 3, 4, 5)).shape
    (1, 3, 8, 10)
    """

    def __init__(
        self,
        size: int | tuple[int, int] | None = None,
        scale_factor: float | tuple[float, float] | None = None,
    ) -> None:
        super().__init__(size, scale_factor, mode="nearest")


class UpsamplingBilinear2d(Upsample):
    """Images of another size by bilinear interpolation; corners stay where they are.

    >>> import adjoint as ad
    >>> ad.nn.UpsamplingBilinear2d(size=(2, 3))(ad.tensor([[[[0.0, 1.0]]]]))
    tensor([[[[0.0000, 0.5000, 1.0000],
              [0.0000, 0.5000, 1.0000]]]])
    """

    def __init__(
        self,
        size: int | tuple[int, int] | None = None,
        scale_factor: float | tuple[float, float] | None = None,
    ) -> None:
        super().__init__(size, scale_factor, mode="bilinear", align_corners=True)
