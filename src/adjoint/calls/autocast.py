"""Mixed precision: the column `autocast` of the table, applied while an `autocast` is open.

A row says `lower` (its floating point tensors are cast to the dtype of the autocast: products,
convolutions), `float32` (losses, factorisations), or `widest` (operands are cast to one dtype,
float32 if one of them is). Rows without the column take their operands unchanged; if they have no
kernel, the rules of their parts apply. `parts` says the same of a row with a kernel; `whole` says
of a row without a kernel that the rules of its parts do not apply. float64 is never cast.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Iterator
from typing import Any

from adjoint.core.devices import COUNTS, Device, existing_device
from adjoint.core.dtypes import DType, bfloat16, float16, float32, float64, to_dtype
from adjoint.core.errors import ArgumentError, DtypeError
from adjoint.core.records import record
from adjoint.core.source_lines import warn
from adjoint.core.state import State, current, seeing, state
from adjoint.tensor.modes import SeenMode
from adjoint.tensor.nodes import Leaf
from adjoint.tensor.tensor import Tensor

_LOWER = (bfloat16, float16)  # dtypes in which the CPU computes
_OTHERS = float16  # default dtype of other devices


class Casts:
    """The casts of parameters inside the outermost autocast."""

    def __init__(self) -> None:
        self.known: dict[tuple[int, DType], tuple[Tensor, Tensor]] = {}  # by address and dtype

    def of(self, tensor: Tensor, dtype: DType) -> Tensor:
        """A parameter in another dtype, cast once, so that its gradients meet before the cast."""
        key = (id(tensor), dtype)
        found = self.known.get(key)
        if found is None or found[0] is not tensor:
            found = self.known[key] = tensor, tensor.to(dtype)
        return found[1]


@record
class Precision:
    """The settings of an open autocast."""

    enabled: bool
    dtype: DType  # ad.bfloat16
    keeps_casts: bool  # whether casts of parameters are kept
    casts: Casts  # shared with the autocasts inside it

    def cast(self, rule: str, values: list[Any]) -> list[Any]:
        """The arguments of an operator, cast as the rule of its row says."""
        wanted = {"lower": self.dtype, "float32": float32}.get(rule) or self._widest(values)
        return [self._value(v, wanted) for v in values]

    def _widest(self, values: list[Any]) -> DType:
        found = {t.dtype for t in _tensors(values) if _is_cast(t)}
        if found - {self.dtype, float32}:
            raise DtypeError(
                f"autocast to {self.dtype}: the operands are of {', '.join(map(str, found))}; "
                f"bring them to {self.dtype} or ad.float32"
            )
        return float32 if float32 in found else self.dtype

    def _value(self, value: Any, wanted: DType) -> Any:
        if type(value) is list:
            return [self._value(v, wanted) for v in value]
        if not isinstance(value, Tensor) or not _is_cast(value) or value.dtype is wanted:
            return value
        kept = self.keeps_casts and wanted is self.dtype and _is_parameter(value)
        return self.casts.of(value, wanted) if kept else value.to(wanted)


def _tensors(values: Any) -> Iterator[Tensor]:
    for value in values:
        if type(value) is list:
            yield from _tensors(value)
        elif isinstance(value, Tensor):
            yield value


def _is_parameter(tensor: Tensor) -> bool:
    """Whether a tensor is a leaf in float32 whose gradient is recorded."""
    is_leaf = type(tensor.edge) is Leaf and not tensor._is_view() and tensor.dtype is float32
    return is_leaf and tensor.home is type(tensor).class_home and bool(current().recording)


def _is_cast(tensor: Tensor) -> bool:
    return tensor.dtype.is_floating_point and tensor.dtype is not float64


class autocast(SeenMode):  # noqa: N801 - PyTorch's name
    """Run products and convolutions in bfloat16 or float16 in a block or a function.

    Losses, factorisations and transforms run in float32; what each operator does is the column
    `autocast` of its row. Autocasts nest; `enabled=False` opens an island without. An autocast for
    a device that is not there warns and does nothing.

    >>> import adjoint as ad
    >>> a = ad.ones(2, 2)
    >>> with ad.autocast("cpu", dtype=ad.bfloat16):
    ...     product = a @ a
    ...     loss = ad.nn.functional.mse_loss(product, a)
    >>> product.dtype, loss.dtype
    (ad.bfloat16, ad.float32)
    """

    def __init__(
        self,
        device_type: str,
        dtype: Any = None,
        enabled: bool = True,
        cache_enabled: bool | None = None,
    ) -> None:
        if not isinstance(device_type, str):
            raise ArgumentError(
                f"autocast: device_type must be a name, got {type(device_type).__name__}"
            )
        self.device = self.device_type = Device(device_type).type
        self.fast_dtype = get_autocast_dtype(self.device) if dtype is None else to_dtype(dtype)
        self.cache_enabled, self.given = cache_enabled, (device_type, dtype, enabled, cache_enabled)
        if enabled and not COUNTS[self.device]:
            warn(f"autocast: there is no device {device_type!r} here; autocast does nothing")
            enabled = False
        if enabled and self.fast_dtype not in _LOWER:
            warn(
                f"autocast on the CPU computes in bfloat16 or float16, not in {self.fast_dtype}; "
                "autocast does nothing"
            )
            enabled = False
        self._enabled = enabled

    def changes(self, before: State) -> dict[str, Any]:
        if self.device != "cpu":
            return {}
        outer = _precision(before)
        keeps = outer.keeps_casts if self.cache_enabled is None else self.cache_enabled
        casts = outer.casts if outer.enabled else Casts()
        return _changed(before, Precision(self._enabled, self.fast_dtype, keeps, casts))

    def _clone(self) -> Any:
        return type(self)(*self.given)


def _precision(now: State) -> Precision:
    return now.autocast or Precision(False, bfloat16, True, Casts())


def _changed(now: State, precision: Precision) -> dict[str, Any]:
    seen = precision.enabled or bool(now.function_modes or now.default_device)
    return {"autocast": precision, "seen": seen}


def autocast_of_now() -> Callable[[], autocast]:
    """A function that opens the present autocast again, for a run that repeats this one."""
    now = _precision(current())
    return lambda: autocast("cpu", now.dtype, now.enabled, now.keeps_casts)


def _set(**changes: Any) -> None:
    now = current()
    precision = dataclasses.replace(_precision(now), **changes)
    if precision.enabled and _set not in seeing:
        seeing.append(_set)  # from now on: Note [Seen calls]
    state.set(now.but(**_changed(now, precision)))


def is_autocast_enabled(device_type: str = "cpu") -> bool:
    """Whether an autocast for a device is open here.

    >>> import adjoint as ad
    >>> with ad.autocast("cpu"):
    ...     ad.is_autocast_enabled("cpu"), ad.is_autocast_enabled("cuda")
    (True, False)
    """
    return Device(device_type).type == "cpu" and _precision(current()).enabled


def get_autocast_dtype(device_type: str = "cpu") -> DType:
    """Return the dtype that autocast computes in: bfloat16 on the CPU, unless set.

    >>> import adjoint as ad
    >>> ad.get_autocast_dtype()
    ad.bfloat16
    """
    return _precision(current()).dtype if Device(device_type).type == "cpu" else _OTHERS


def set_autocast_enabled(device_type: Any, enabled: bool = True) -> None:
    """Switch autocast on or off from now on; `with autocast(…)` is the usual way.

    >>> import adjoint as ad
    >>> ad.set_autocast_enabled("cpu", False)
    >>> ad.is_autocast_enabled("cpu")
    False
    """
    if isinstance(device_type, str):
        existing_device("set_autocast_enabled", device_type)
    else:
        enabled = device_type
    _set(enabled=bool(enabled))


def set_autocast_dtype(device_type: str, dtype: Any) -> None:
    """Set the dtype of autocasts that name none.

    >>> import adjoint as ad
    >>> ad.set_autocast_dtype("cpu", ad.bfloat16)
    """
    existing_device("set_autocast_dtype", device_type)
    _set(dtype=to_dtype(dtype))


def is_autocast_cache_enabled() -> bool:
    """Whether autocast keeps what it has cast parameters to, until the outermost one ends.

    >>> import adjoint as ad
    >>> ad.is_autocast_cache_enabled()
    True
    """
    return _precision(current()).keeps_casts


def set_autocast_cache_enabled(enabled: bool) -> None:
    """Let autocast keep what it has cast parameters to, or not.

    >>> import adjoint as ad
    >>> ad.set_autocast_cache_enabled(True)
    """
    _set(keeps_casts=bool(enabled))


def clear_autocast_cache() -> None:
    """Forget what parameters were cast to.

    >>> import adjoint as ad
    >>> ad.clear_autocast_cache()
    """
    _precision(current()).casts.known.clear()


def is_autocast_cpu_enabled() -> bool:
    """Whether an autocast for the CPU is open here, by its old name.

    >>> import adjoint as ad
    >>> ad.is_autocast_cpu_enabled()
    False
    """
    return is_autocast_enabled("cpu")


def set_autocast_cpu_enabled(enabled: bool) -> None:
    """Switch autocast for the CPU on or off from now on, by its old name.

    >>> import adjoint as ad
    >>> ad.set_autocast_cpu_enabled(False)
    """
    set_autocast_enabled("cpu", enabled)


def get_autocast_cpu_dtype() -> DType:
    """Return the dtype that autocast computes in on the CPU, by its old name.

    >>> import adjoint as ad
    >>> ad.get_autocast_cpu_dtype()
    ad.bfloat16
    """
    return get_autocast_dtype("cpu")


def set_autocast_cpu_dtype(dtype: Any) -> None:
    """Set the dtype of autocasts for the CPU that name none, by its old name.

    >>> import adjoint as ad
    >>> ad.set_autocast_cpu_dtype(ad.bfloat16)
    """
    set_autocast_dtype("cpu", dtype)
