"""Settings of the process under PyTorch's names: threads, determinism, precision of products.

What cannot differ here (results never depend on the order of threads, float32 products are float32)
is remembered and answered, so that programs that set it run; the docstrings say so.
"""

from __future__ import annotations

from typing import Any

from adjoint.core import threads
from adjoint.core.dtypes import set_default_dtype
from adjoint.core.errors import ArgumentError
from adjoint.core.records import structure
from adjoint.core.state import current, state
from adjoint.legacy import dtype_of_type

__all__ = [
    "are_deterministic_algorithms_enabled",
    "get_deterministic_debug_mode",
    "get_float32_matmul_precision",
    "get_num_interop_threads",
    "get_num_threads",
    "is_anomaly_check_nan_enabled",
    "is_deterministic_algorithms_warn_only_enabled",
    "is_warn_always_enabled",
    "set_default_tensor_type",
    "set_deterministic_debug_mode",
    "set_float32_matmul_precision",
    "set_flush_denormal",
    "set_num_interop_threads",
    "set_num_threads",
    "set_warn_always",
    "use_deterministic_algorithms",
]


@structure
class _Remembered:
    """What was set and changes nothing."""

    deterministic: bool = False
    warn_only: bool = False
    precision: str = "highest"
    interop_threads: int = 1
    warns_always: bool = False


_REMEMBERED = _Remembered()
_PRECISIONS = ("highest", "high", "medium")
_DEBUG_MODES = ("default", "warn", "error")


def set_num_threads(count: int) -> None:
    """Set how many threads compute: large arrays, native kernels, compiled programs, BLAS.

    >>> import adjoint as ad
    >>> before = ad.get_num_threads()
    >>> ad.set_num_threads(2)
    >>> ad.get_num_threads()
    2
    >>> ad.set_num_threads(before)
    """
    threads.set_threads(count)


def get_num_threads() -> int:
    """Return how many threads compute: as set, or $OMP_NUM_THREADS, or the number of cores.

    >>> import adjoint as ad
    >>> ad.get_num_threads() >= 1
    True
    """
    return threads.threads()


def set_num_interop_threads(count: int) -> None:
    """Accept a number of threads for operators side by side: here one runs after the other.

    >>> import adjoint as ad
    >>> ad.set_num_interop_threads(1)
    """
    if count < 1:
        raise ArgumentError(f"set_num_interop_threads: the number must be positive, got {count}")
    _REMEMBERED.interop_threads = count


def get_num_interop_threads() -> int:
    """Return what `set_num_interop_threads` was given, 1 unless set.

    >>> import adjoint as ad
    >>> ad.get_num_interop_threads()
    1
    """
    return _REMEMBERED.interop_threads


def use_deterministic_algorithms(mode: bool, *, warn_only: bool = False) -> None:
    """Accept the wish for results that repeat: on the CPU they do, whatever is set.

    >>> import adjoint as ad
    >>> ad.use_deterministic_algorithms(False)
    """
    _REMEMBERED.deterministic, _REMEMBERED.warn_only = bool(mode), bool(mode and warn_only)


def are_deterministic_algorithms_enabled() -> bool:
    """Return what `use_deterministic_algorithms` was given.

    >>> import adjoint as ad
    >>> ad.are_deterministic_algorithms_enabled()
    False
    """
    return _REMEMBERED.deterministic


def is_deterministic_algorithms_warn_only_enabled() -> bool:
    """Return the `warn_only` that `use_deterministic_algorithms` was given.

    >>> import adjoint as ad
    >>> ad.is_deterministic_algorithms_warn_only_enabled()
    False
    """
    return _REMEMBERED.warn_only


def set_deterministic_debug_mode(debug_mode: int | str) -> None:
    """As `use_deterministic_algorithms`: 'default', 'warn' or 'error', or 0, 1, 2.

    >>> import adjoint as ad
    >>> ad.set_deterministic_debug_mode("default")
    """
    name = _DEBUG_MODES[debug_mode] if debug_mode in (0, 1, 2) else debug_mode
    if name not in _DEBUG_MODES:
        raise ArgumentError(
            f"set_deterministic_debug_mode: one of {', '.join(_DEBUG_MODES)}, got {debug_mode!r}"
        )
    use_deterministic_algorithms(name != "default", warn_only=name == "warn")


def get_deterministic_debug_mode() -> int:
    """Return 0, 1 or 2: 'default', 'warn' or 'error'.

    >>> import adjoint as ad
    >>> ad.get_deterministic_debug_mode()
    0
    """
    return _REMEMBERED.deterministic * (1 if _REMEMBERED.warn_only else 2)


def set_float32_matmul_precision(precision: str) -> None:
    """Accept a precision of float32 products: they are computed in float32, whatever is set.

    >>> import adjoint as ad
    >>> ad.set_float32_matmul_precision("highest")
    """
    if precision not in _PRECISIONS:
        raise ArgumentError(
            f"set_float32_matmul_precision: one of {', '.join(_PRECISIONS)}, got {precision!r}"
        )
    _REMEMBERED.precision = precision


def get_float32_matmul_precision() -> str:
    """Return what `set_float32_matmul_precision` was given, 'highest' unless set.

    >>> import adjoint as ad
    >>> ad.get_float32_matmul_precision()
    'highest'
    """
    return _REMEMBERED.precision


def set_flush_denormal(mode: bool) -> bool:
    """Return whether tiny numbers can be flushed to 0, as wished: they never are.

    >>> import adjoint as ad
    >>> ad.set_flush_denormal(True)
    False
    """
    return not mode


def set_warn_always(b: bool) -> None:
    """Accept the wish for warnings at every call; Python's `warnings` filters decide that.

    >>> import adjoint as ad
    >>> ad.set_warn_always(False)
    """
    _REMEMBERED.warns_always = bool(b)


def is_warn_always_enabled() -> bool:
    """Return what `set_warn_always` was given.

    >>> import adjoint as ad
    >>> ad.is_warn_always_enabled()
    False
    """
    return _REMEMBERED.warns_always


def is_anomaly_check_nan_enabled() -> bool:
    """Whether anomaly mode looks for NaN in gradients.

    >>> import adjoint as ad
    >>> ad.is_anomaly_check_nan_enabled()
    True
    """
    return current().check_nan


def set_anomaly_enabled(mode: bool, check_nan: bool = True) -> None:
    """Switch anomaly mode on or off, as `autograd.set_detect_anomaly` does.

    >>> import adjoint as ad
    >>> ad.set_anomaly_enabled(False)
    """
    now = current()
    wanted = now.but(anomaly=mode, check_nan=check_nan)
    state.set(wanted.but(recording=wanted.when_on() if now.recording else now.recording))


def set_default_tensor_type(t: Any) -> None:
    """Set the default dtype by an old class of tensors or its name, 'torch.DoubleTensor'.

    >>> import adjoint as ad
    >>> ad.set_default_tensor_type("torch.FloatTensor")
    >>> ad.get_default_dtype()
    ad.float32
    """
    set_default_dtype(dtype_of_type(t))
