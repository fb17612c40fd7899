"""Batch normalization, and what it shares with instance normalization: running statistics."""

from __future__ import annotations

from typing import Any, ClassVar

from adjoint import ops
from adjoint.core import dtypes
from adjoint.core.errors import ShapeError
from adjoint.core.shapes import show
from adjoint.nn import functional, init
from adjoint.nn.modules import made
from adjoint.nn.modules.lazy import LazyModuleMixin
from adjoint.nn.modules.module import Module
from adjoint.nn.modules.utils import new_parameter
from adjoint.nn.parameter import UninitializedBuffer, UninitializedParameter
from adjoint.tensor.modes import no_grad
from adjoint.tensor.tensor import Tensor

__getattr__, __dir__, __all__ = made.door(globals(), "SyncBatchNorm")


class _NormBase(Module):
    """Weight and bias of each channel (`affine`), and running mean and variance (`track_…`)."""

    _version = 2  # from version 2 on, state dicts have num_batches_tracked
    ranks: ClassVar[tuple[int, ...]]  # dimensions that an input may have
    weight: Tensor
    bias: Tensor
    running_mean: Tensor
    running_var: Tensor
    num_batches_tracked: Tensor

    def __init__(
        self,
        num_features: int,
        eps: float = 1e-5,
        momentum: float | None = 0.1,
        affine: bool = True,
        track_running_stats: bool = True,
        device: Any = None,
        dtype: Any = None,
        *,
        bias: bool = True,
    ) -> None:
        super().__init__()
        self.num_features, self.eps, self.momentum = num_features, eps, momentum
        self.affine, self.track_running_stats = affine, track_running_stats
        for name, wanted in (("weight", affine), ("bias", affine and bias)):
            made = new_parameter(num_features, device=device, dtype=dtype) if wanted else None
            self.register_parameter(name, made)
        if track_running_stats:
            options = dict(device=device, dtype=dtype)
            self.register_buffer("running_mean", ops.zeros((num_features,), **options))
            self.register_buffer("running_var", ops.ones((num_features,), **options))
            count = ops.zeros((), dtype=dtypes.int64, device=device)
            self.register_buffer("num_batches_tracked", count)
        else:
            for name in ("running_mean", "running_var", "num_batches_tracked"):
                self.register_buffer(name, None)
        self.reset_parameters()

    def reset_running_stats(self) -> None:
        """Set the running mean to 0, the running variance to 1, and the number of batches to 0."""
        if self.track_running_stats:
            self.running_mean.zero_()
            self.running_var.fill_(1)
            self.num_batches_tracked.zero_()

    def reset_parameters(self) -> None:
        """Set weights to 1 and biases to 0, and the running statistics anew."""
        self.reset_running_stats()
        if self.weight is not None:
            init.ones_(self.weight)
        if self.bias is not None:
            init.zeros_(self.bias)

    def _check_input_dim(self, input: Tensor) -> None:
        if input.ndim not in self.ranks:
            raise ShapeError(
                f"{type(self).__name__}: needs {' or '.join(map(str, self.ranks))} dimensions, got "
                f"an input of {show(input.shape)}."
            )

    def extra_repr(self) -> str:
        return (
            f"{self.num_features}, eps={self.eps}, momentum={self.momentum}, affine={self.affine}, "
            f"bias={self.bias is not None}, track_running_stats={self.track_running_stats}"
        )

    def _load_from_state_dict(
        self, state_dict: Any, prefix: str, local_metadata: Any, *rest: Any, **named: Any
    ) -> None:
        version = local_metadata.get("version")
        key = prefix + "num_batches_tracked"
        if (version is None or version < 2) and self.track_running_stats and key not in state_dict:
            known = self.num_batches_tracked
            fresh = known is None or known.device.type == "meta"
            state_dict[key] = ops.zeros((), dtype=dtypes.int64) if fresh else known
        super()._load_from_state_dict(state_dict, prefix, local_metadata, *rest, **named)


class _BatchNorm(_NormBase):
    """Each channel with mean 0 and variance 1 over the batch, while training."""

    def forward(self, input: Tensor) -> Tensor:
        self._check_input_dim(input)
        counts = self.training and self.track_running_stats
        count = self.num_batches_tracked if counts else None
        if count is not None and self.momentum is None:
            return self._averaging(input, count)
        tracking = not self.training or self.track_running_stats
        result = functional.batch_norm(
            input,
            self.running_mean if tracking else None,
            self.running_var if tracking else None,
            self.weight,
            self.bias,
            self.training or (self.running_mean is None and self.running_var is None),
            0.0 if self.momentum is None else self.momentum,
            self.eps,
        )
        if count is not None:
            count.add_(1)
        return result

    def _averaging(self, input: Tensor, count: Tensor) -> Tensor:
        """The result; running statistics become the means over all batches so far, whose number a
        traced function does not know.
        """
        running = (self.running_mean, self.running_var)
        mean, var = (ops.zeros_like(t) for t in running)
        affine = (self.weight, self.bias)
        result = functional.batch_norm(input, mean, var, *affine, True, 1.0, self.eps)
        count.add_(1)
        if input.numel():
            with no_grad():
                for old, new in zip(running, (mean, var), strict=True):
                    old.lerp_(new, count.to(old.dtype).reciprocal())
        return result


class SyncBatchNorm(_BatchNorm):
    """Batch normalization over all processes of a group: here the process itself is the group.

    It computes what `BatchNorm1d` to `BatchNorm3d` do, for inputs of any number of dimensions.
    `process_group` has no meaning in a world of one process and must be None.

    >>> import adjoint as ad
    >>> model = ad.nn.Sequential(ad.nn.Linear(2, 3), ad.nn.BatchNorm1d(3))
    >>> print(ad.nn.SyncBatchNorm.convert_sync_batchnorm(model)[1])
    SyncBatchNorm(3, eps=1e-05, momentum=0.1, affine=True, bias=True, track_running_stats=True)
    """

    def __init__(
        self,
        num_features: int,
        eps: float = 1e-5,
        momentum: float | None = 0.1,
        affine: bool = True,
        track_running_stats: bool = True,
        process_group: Any | None = None,
        device: Any = None,
        dtype: Any = None,
        *,
        bias: bool = True,
    ) -> None:
        if process_group is not None:
            raise NotImplementedError(
                "SyncBatchNorm(process_group=…): there is one process, which is the group; leave "
                "it out."
            )
        super().__init__(
            num_features, eps, momentum, affine, track_running_stats, device, dtype, bias=bias
        )
        self.process_group = process_group

    def _check_input_dim(self, input: Tensor) -> None:
        if input.ndim < 2:
            raise ShapeError(
                f"SyncBatchNorm: needs at least 2 dimensions, got an input of {show(input.shape)}."
            )

    @classmethod
    def convert_sync_batchnorm(cls, module: Module, process_group: Any = None) -> Module:
        """Return the module with every batch normalization in it as a `SyncBatchNorm`."""
        converted = module
        if isinstance(module, _BatchNorm):
            converted = cls(
                module.num_features, module.eps, module.momentum, module.affine,
                module.track_running_stats, process_group, bias=module.bias is not None,
            )  # fmt: skip
            converted._parameters.update(module._parameters)
            converted._buffers.update(module._buffers)
            converted.training = module.training
        for name, child in module.named_children():
            converted.add_module(name, cls.convert_sync_batchnorm(child, process_group))
        return converted


# --- channels taken from the first input ---------------------------------------------------------


class _LazyNormBase(LazyModuleMixin, _NormBase):  # pyright: ignore[reportUnusedClass] - of rows
    """A normalization that takes num_features from its first input."""

    weight: Tensor
    bias: Tensor

    def __init__(
        self,
        eps: float = 1e-5,
        momentum: float | None = 0.1,
        affine: bool = True,
        track_running_stats: bool = True,
        device: Any = None,
        dtype: Any = None,
        *,
        bias: bool = True,
    ) -> None:
        super().__init__(0, eps, momentum, False, False, device, dtype, bias=bias)
        self.affine, self.track_running_stats = affine, track_running_stats
        options = dict(device=device, dtype=dtype)
        if affine:
            self.weight = UninitializedParameter(**options)
        if affine and bias:
            self.bias = UninitializedParameter(**options)
        if track_running_stats:
            self.running_mean = UninitializedBuffer(**options)
            self.running_var = UninitializedBuffer(**options)
            self.num_batches_tracked = ops.zeros((), dtype=dtypes.int64, device=device)

    def reset_parameters(self) -> None:
        if not self.has_uninitialized_params() and self.num_features != 0:
            super().reset_parameters()

    def initialize_parameters(self, input: Tensor) -> None:  # type: ignore[override]
        """Take num_features from an input, and set parameters and statistics."""
        if self.num_features == 0:
            self.num_features = input.shape[1]
        if self.has_uninitialized_params():  # not where a state dict was loaded
            for each in (self.weight, self.bias, self.running_mean, self.running_var):
                if each is not None:
                    each.materialize((self.num_features,))
            self.reset_parameters()
