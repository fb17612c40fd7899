"""Devices: where tensors live. A device is its name, with PyTorch's attributes.

`COUNTS` says how many devices of each type this process can use; every question whether a device
exists (`ad.cuda.is_available()`, `x.to(device)`, `ad.zeros(3, device=…)`) is answered from it.
"""

from __future__ import annotations

from typing import Any

from adjoint.core.errors import DeviceError, did_you_mean

# The number of devices of each type of PyTorch's.
COUNTS: dict[str, int] = {
    "cpu": 1, "meta": 1,
    "cuda": 0, "mps": 0, "xpu": 0, "mtia": 0, "hpu": 0, "xla": 0, "ipu": 0, "vulkan": 0,
}  # fmt: skip


class Device(str):
    """The name of a device, for instance 'cpu' or 'cuda:0'; `with device:` makes tensors there.

    >>> Device("cpu").type, Device("cpu", 0).index, Device("cuda:1")
    ('cpu', 0, device(type='cuda', index=1))
    """

    __slots__ = ()

    def __new__(cls, type: Any, index: int | None = None) -> Device:
        if isinstance(type, int):
            type, index = "cuda", type
        kind, _, number = str(type).partition(":")
        if kind not in COUNTS or (number and not number.isdigit()):
            raise DeviceError(f"{type!r} names no device{did_you_mean(kind, COUNTS)}")
        if number and index is not None:
            raise DeviceError(f"device({type!r}, {index}): the number of the device is said twice")
        name = f"{kind}:{index}" if index is not None else str(type)
        return super().__new__(cls, name)

    @property
    def type(self) -> str:
        """The kind of device, without its number."""
        return str(self).partition(":")[0]

    @property
    def index(self) -> int | None:  # type: ignore[override]
        """The number of the device, None where none was given."""
        number = str(self).partition(":")[2]
        return int(number) if number else None

    def __repr__(self) -> str:
        number = "" if self.index is None else f", index={self.index}"
        return f"device(type={self.type!r}{number})"

    def __reduce__(self) -> tuple[Any, ...]:
        return Device, (str(self),)


CPU = Device("cpu")
META = Device("meta")


def existing_device(what: str, device: Any) -> Device:
    """Return the device that a user means, or raise if it is not there.

    >>> existing_device("zeros", "cpu:0")
    device(type='cpu', index=0)
    """
    found = device if type(device) is Device else Device(device)
    if (found.index or 0) < COUNTS[found.type]:
        return found
    raise DeviceError(
        f"{what}: there is no device {str(found)!r} here, tensors live on the CPU; a program for "
        f"several machines asks: device = {found.type!r} if "
        f"ad.{found.type}.is_available() else 'cpu'"
    )
