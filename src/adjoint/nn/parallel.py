"""`ad.nn.parallel`: modules on several devices, of which there is one."""

from __future__ import annotations

from typing import Any, NoReturn

from adjoint.absent import absent
from adjoint.nn.modules.parallel import DataParallel

__all__ = ["DataParallel", "data_parallel"]


def data_parallel(
    module: Any,
    inputs: Any,
    device_ids: Any = None,
    output_device: Any = None,
    dim: int = 0,
    module_kwargs: dict[str, Any] | None = None,
) -> Any:
    """Call a module; devices would share the batch, and there is one.

    >>> import adjoint as ad
    >>> ad.nn.parallel.data_parallel(ad.nn.ReLU(), ad.tensor([-1.0, 1.0]))
    tensor([0., 1.])
    """
    args = inputs if isinstance(inputs, tuple) else (inputs,)
    return module(*args, **(module_kwargs or {}))


def __getattr__(name: str) -> NoReturn:
    raise absent(__name__, name, __all__)
