"""Devices: where tensors live. A device is its name, with PyTorch's attributes."""

from __future__ import annotations


class Device(str):
    """The name of a device, for instance 'cpu' or 'meta'.

    >>> Device("cpu").type, Device("cpu").index
    ('cpu', None)
    """

    __slots__ = ()

    @property
    def type(self) -> str:
        """The kind of device, without its number."""
        return self.partition(":")[0]

    @property
    def index(self) -> int | None:  # type: ignore[override]
        """The number of the device, None where there is only one."""
        number = self.partition(":")[2]
        return int(number) if number else None


CPU = Device("cpu")
META = Device("meta")
