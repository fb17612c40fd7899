"""`ad.amp`: mixed precision under PyTorch's names: autocast, and scaled gradients for float16."""

from __future__ import annotations

from typing import NoReturn

from adjoint.absent import absent
from adjoint.amp.functions import custom_bwd, custom_fwd
from adjoint.amp.scaler import GradScaler
from adjoint.calls.autocast import autocast
from adjoint.core.devices import COUNTS, Device

__all__ = ["GradScaler", "autocast", "custom_bwd", "custom_fwd", "is_autocast_available"]


def is_autocast_available(device_type: str) -> bool:
    """Whether autocast does something for tensors on such a device.

    >>> import adjoint as ad
    >>> ad.amp.is_autocast_available("cpu"), ad.amp.is_autocast_available("cuda")
    (True, False)
    """
    return COUNTS[Device(device_type).type] > 0 and device_type != "meta"


def __getattr__(name: str) -> NoReturn:
    raise absent(__name__, name, __all__)
