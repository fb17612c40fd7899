"""`ad.cuda`: NVIDIA's devices, of which there are none here; programs ask `is_available()`."""

from __future__ import annotations

from typing import NoReturn

from adjoint.absent import absent
from adjoint.accelerators import Accelerator
from adjoint.cuda import amp

__all__ = [
    "amp",
    "current_device",
    "device",
    "device_count",
    "empty_cache",
    "get_device_capability",
    "get_device_name",
    "get_device_properties",
    "get_rng_state_all",
    "init",
    "ipc_collect",
    "is_available",
    "is_bf16_supported",
    "is_initialized",
    "manual_seed",
    "manual_seed_all",
    "max_memory_allocated",
    "max_memory_reserved",
    "mem_get_info",
    "memory_allocated",
    "memory_reserved",
    "memory_stats",
    "reset_max_memory_allocated",
    "reset_max_memory_cached",
    "reset_peak_memory_stats",
    "seed",
    "seed_all",
    "set_device",
    "set_rng_state_all",
    "stream",
    "synchronize",
]

_THIS = Accelerator("cuda")

is_available = _THIS.is_available
device_count = _THIS.device_count
is_initialized = _THIS.is_initialized
init = _THIS.init
current_device = _THIS.current_device
set_device = _THIS.set_device
get_device_name = _THIS.get_device_name
get_device_properties = _THIS.get_device_properties
get_device_capability = _THIS.get_device_capability
mem_get_info = _THIS.mem_get_info
is_bf16_supported = _THIS.is_bf16_supported
synchronize = _THIS.synchronize
empty_cache = _THIS.empty_cache
ipc_collect = _THIS.ipc_collect
reset_peak_memory_stats = _THIS.reset_peak_memory_stats
reset_max_memory_allocated = _THIS.reset_max_memory_allocated
reset_max_memory_cached = _THIS.reset_max_memory_cached
memory_allocated = _THIS.memory_allocated
max_memory_allocated = _THIS.max_memory_allocated
memory_reserved = _THIS.memory_reserved
max_memory_reserved = _THIS.max_memory_reserved
memory_stats = _THIS.memory_stats
manual_seed = _THIS.manual_seed
manual_seed_all = _THIS.manual_seed_all
seed = _THIS.seed
seed_all = _THIS.seed_all
get_rng_state_all = _THIS.get_rng_state_all
set_rng_state_all = _THIS.set_rng_state_all
device = _THIS.device
stream = _THIS.stream


def __getattr__(name: str) -> NoReturn:
    raise absent(__name__, name, __all__)
