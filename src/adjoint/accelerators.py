"""Devices beside the CPU: the answers of `ad.cuda`, `ad.mps`, `ad.xpu`, and the names of each.

`core/devices.py` has the number of devices of each type; today there are none, so questions are
answered with no and 0, wishes that change no value (seeds, waiting, freeing memory) are granted,
and a call that needs a device raises.
"""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Generator, Iterable
from typing import Any, NoReturn

from adjoint.absent import absent
from adjoint.core.devices import COUNTS, Device
from adjoint.core.errors import DeviceError
from adjoint.tensor.tensor import Tensor


class Accelerator:
    """The answers for one type of device.

    >>> cuda = Accelerator("cuda")
    >>> cuda.is_available(), cuda.device_count()
    (False, 0)
    """

    def __init__(self, kind: str) -> None:
        self.kind = kind  # "cuda"

    def is_available(self) -> bool:
        """Whether there is a device of this type."""
        return COUNTS[self.kind] > 0

    def device_count(self) -> int:
        """Return how many devices of this type there are."""
        return COUNTS[self.kind]

    def is_initialized(self) -> bool:
        """Whether devices of this type are in use."""
        return self.is_available()

    def init(self) -> None:
        """Begin to use devices of this type."""
        self._need("init")

    def current_device(self) -> NoReturn:
        """Return the number of the device in use."""
        self._need("current_device")

    def set_device(self, device: Any) -> None:
        """Choose the device in use; a negative number chooses none."""
        if not (isinstance(device, int) and device < 0):
            self._need("set_device")

    def get_device_name(self, device: Any = None) -> NoReturn:
        """Return the name of a device."""
        self._need("get_device_name")

    def get_device_properties(self, device: Any = None) -> NoReturn:
        """Return what a device can do."""
        self._need("get_device_properties")

    def get_device_capability(self, device: Any = None) -> NoReturn:
        """Return the generation of a device."""
        self._need("get_device_capability")

    def mem_get_info(self, device: Any = None) -> NoReturn:
        """Return the free and the whole memory of a device."""
        self._need("mem_get_info")

    def is_bf16_supported(self, including_emulation: bool = True) -> bool:
        """Whether there is a device that computes in bfloat16."""
        return self.is_available()

    def synchronize(self, device: Any = None) -> None:
        """Wait until the devices are done: they are."""

    def empty_cache(self) -> None:
        """Free memory that is kept for later: there is none."""

    ipc_collect = empty_cache

    def reset_peak_memory_stats(self, device: Any = None) -> None:
        """Forget how much memory was used: none was."""

    reset_max_memory_allocated = reset_max_memory_cached = reset_peak_memory_stats

    def memory_allocated(self, device: Any = None) -> int:
        """Return the bytes in use on a device."""
        return 0

    max_memory_allocated = memory_reserved = max_memory_reserved = memory_allocated

    def memory_stats(self, device: Any = None) -> dict[str, int]:
        """Return numbers about the memory of a device, by name: none."""
        return {}

    def manual_seed(self, seed: int) -> None:
        """Seed the devices; the CPU's generator has `ad.manual_seed`."""

    manual_seed_all = manual_seed

    def seed(self) -> None:
        """Seed the devices with a number that nobody can predict."""

    seed_all = seed

    def get_rng_state_all(self) -> list[Tensor]:
        """Return the states of the generators of all devices."""
        return []

    def set_rng_state_all(self, new_states: Iterable[Any]) -> None:
        """Set the states of the generators of all devices."""
        if list(new_states):
            self._need("set_rng_state_all")

    @contextlib.contextmanager
    def device(self, device: Any) -> Generator[None]:
        """Use a device in a block; None and negative numbers mean the one in use."""
        if device is not None:
            self.set_device(device)
        yield

    @contextlib.contextmanager
    def stream(self, stream: Any) -> Generator[None]:
        """Let a stream of a device compute in a block; None means the one in use."""
        if stream is not None:
            self._need("stream")
        yield

    def _need(self, what: str) -> NoReturn:
        raise DeviceError(
            f"ad.{self.kind}.{what}: there is no device {Device(self.kind)!s} here, tensors live "
            f"on the CPU; ask ad.{self.kind}.is_available() first"
        )


# The names of each module: methods of its Accelerator, perhaps under other names.
_EVERY = [name for name in vars(Accelerator) if not name.startswith("_")]
_CUDA_ONLY = ("ipc_collect", "reset_max_memory_allocated", "reset_max_memory_cached")
NAMES: dict[str, list[str]] = {
    "cuda": _EVERY,
    "xpu": [name for name in _EVERY if name not in _CUDA_ONLY],
    "mps": ["device_count", "empty_cache", "is_available", "manual_seed", "seed", "synchronize"],
    "mtia": [
        *("current_device", "device_count", "empty_cache", "is_available", "is_initialized"),
        *("set_device", "synchronize"),
    ],
    "accelerator": [
        *("current_device_index=current_device", "device_count", "empty_cache", "is_available"),
        *("max_memory_allocated", "memory_allocated", "set_device_index=set_device"),
        "synchronize",
    ],
}


def door(
    module: dict[str, Any], kind: str, *own: str
) -> tuple[Callable[[str], NoReturn], list[str]]:
    """Give a module the methods of the Accelerator of a kind, by its row in NAMES; returns its
    `__getattr__` and `__all__`, with its `own` names.
    """
    this = Accelerator(kind)
    names = list(own)
    for row in NAMES[module["__name__"].rpartition(".")[2]]:
        name, _, method = row.partition("=")
        module[name] = getattr(this, method or name)
        names.append(name)
    names.sort()

    def missing(name: str) -> NoReturn:
        raise absent(module["__name__"], name, names)

    return missing, names
