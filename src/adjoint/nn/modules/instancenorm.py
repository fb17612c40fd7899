"""Instance normalization: each channel of each sample on its own."""

from __future__ import annotations

from typing import Any, ClassVar

from adjoint.core.errors import ArgumentError, ShapeError
from adjoint.core.shapes import show
from adjoint.core.source_lines import warn
from adjoint.nn import functional
from adjoint.nn.modules import made
from adjoint.nn.modules.batchnorm import _LazyNormBase, _NormBase
from adjoint.tensor.tensor import Tensor

__getattr__, __dir__, __all__ = made.door(globals())


class _InstanceNorm(_NormBase):
    """Each channel of each sample with mean 0 and variance 1; `dims` come after the channels."""

    dims: ClassVar[int]

    def __init__(
        self,
        num_features: int,
        eps: float = 1e-5,
        momentum: float = 0.1,
        affine: bool = False,
        track_running_stats: bool = False,
        device: Any = None,
        dtype: Any = None,
        *,
        bias: bool = True,
    ) -> None:
        super().__init__(
            num_features, eps, momentum, affine, track_running_stats, device, dtype, bias=bias
        )

    def _get_no_batch_dim(self) -> int:
        """The dimensions of one sample."""
        return self.dims + 1

    def _check_input_dim(self, input: Tensor) -> None:
        if input.ndim not in (self.dims + 1, self.dims + 2):
            raise ShapeError(
                f"{type(self).__name__}: needs {self.dims + 2} dimensions, or {self.dims + 1} "
                f"without a batch, got an input of {show(input.shape)}."
            )

    def _check_channels(self, input: Tensor) -> None:
        channels = input.shape[-self.dims - 1]
        if channels == self.num_features:
            return
        message = (
            f"{type(self).__name__}({self.num_features}): the input of {show(input.shape)} has "
            f"{channels} channels."
        )
        if self.affine:
            raise ShapeError(message)
        warn(message + " Without affine, it does not matter.")

    def _load_from_state_dict(
        self, state_dict: Any, prefix: str, local_metadata: Any, *rest: Any, **named: Any
    ) -> None:
        if local_metadata.get("version") is None and not self.track_running_stats:
            old = [prefix + name for name in ("running_mean", "running_var")]
            found = [key for key in old if key in state_dict]
            if found:
                raise ArgumentError(
                    f"{type(self).__name__}: the state dict has {' and '.join(found)}, from a time "
                    "when statistics were always tracked. Construct the layer with "
                    "track_running_stats=True, or delete them from the state dict."
                )
        super()._load_from_state_dict(state_dict, prefix, local_metadata, *rest, **named)

    def forward(self, input: Tensor) -> Tensor:
        self._check_input_dim(input)
        self._check_channels(input)
        alone = input.ndim == self.dims + 1
        result = functional.instance_norm(
            input.unsqueeze(0) if alone else input,
            self.running_mean,
            self.running_var,
            self.weight,
            self.bias,
            self.training or not self.track_running_stats,
            0.0 if self.momentum is None else self.momentum,
            self.eps,
        )
        return result.squeeze(0) if alone else result


class LazyInstanceNorm(_LazyNormBase, _InstanceNorm):
    """Instance normalization that takes num_features from its first input."""

    def initialize_parameters(self, input: Tensor) -> None:  # type: ignore[override]
        super().initialize_parameters(input if input.ndim == self.dims + 2 else input.unsqueeze(0))
