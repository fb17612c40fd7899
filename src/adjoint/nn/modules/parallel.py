"""`DataParallel`: a module on several devices, of which there is one here."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from adjoint.nn.modules.module import Module

__all__ = ["DataParallel"]


class DataParallel(Module):
    """A module that would run on several GPUs; tensors live on the CPU, so it simply runs.

    Its parameters are those of `module`, with names that begin with `module.`, as in PyTorch's
    state dicts. `device_ids`, `output_device` and `dim` say which devices share the batch, and
    change nothing with one.

    >>> import adjoint as ad
    >>> model = ad.nn.DataParallel(ad.nn.Linear(3, 2))
    >>> model(ad.ones(5, 3)).shape, list(model.state_dict())
    ((5, 2), ['module.weight', 'module.bias'])
    """

    def __init__(
        self,
        module: Module,
        device_ids: Sequence[Any] | None = None,
        output_device: Any = None,
        dim: int = 0,
    ) -> None:
        super().__init__()
        self.dim, self.module = dim, module
        self.device_ids = [] if device_ids is None else list(device_ids)
        self.output_device = output_device

    def forward(self, *inputs: Any, **kwargs: Any) -> Any:
        return self.module(*inputs, **kwargs)
