"""What the standard asks of a library: its dtypes, their limits, its devices."""

from __future__ import annotations

from typing import Any

import numpy as np

from adjoint.core import dtypes
from adjoint.core.devices import CPU, Device, existing_device
from adjoint.core.dtypes import DType
from adjoint.core.errors import ValueRangeError

_KINDS: dict[str, tuple[str, ...]] = {
    "bool": ("bool",),
    "signed integer": ("int8", "int16", "int32", "int64"),
    "unsigned integer": ("uint8", "uint16", "uint32", "uint64"),
    "real floating": ("float32", "float64"),
    "complex floating": ("complex64", "complex128"),
}
_KINDS["integral"] = (*_KINDS["signed integer"], *_KINDS["unsigned integer"])
_KINDS["numeric"] = (*_KINDS["integral"], *_KINDS["real floating"], *_KINDS["complex floating"])
_MORE = {"real floating": ("float16", "bfloat16"), "numeric": ("float16", "bfloat16")}


def dtype_of(value: Any) -> DType:
    """A dtype, ours or NumPy's, or that of an array."""
    return dtypes.to_dtype(getattr(value, "dtype", value))


class finfo(dtypes.finfo):  # noqa: N801 - the standard's name
    """The limits of a floating point dtype, or of the parts of a complex one.

    >>> from adjoint import array_api as xp
    >>> xp.finfo(xp.complex64).dtype, xp.finfo(xp.ones(2)).bits
    (ad.float32, 64)
    """

    def __init__(self, type: Any, /) -> None:
        real = dtype_of(type).to_real()
        super().__init__(real)
        self.dtype = real


class iinfo(dtypes.iinfo):  # noqa: N801 - the standard's name
    """The limits of an integer dtype.

    >>> from adjoint import array_api as xp
    >>> xp.iinfo(xp.uint8).max
    255
    """

    def __init__(self, type: Any, /) -> None:
        found = dtype_of(type)
        super().__init__(found)
        self.dtype = found


def isdtype(dtype: DType, kind: Any) -> bool:
    """Whether a dtype is of a kind ("integral", …), is another dtype, or one of several.

    >>> from adjoint import array_api as xp
    >>> xp.isdtype(xp.int8, "integral"), xp.isdtype(xp.int8, ("bool", xp.float32))
    (True, False)
    """
    if isinstance(kind, tuple):
        return any(isdtype(dtype, each) for each in kind)
    dtype = dtypes.to_dtype(dtype)
    if not isinstance(kind, str):
        return dtype is dtypes.to_dtype(kind)
    if kind not in _KINDS:
        raise ValueRangeError(f"isdtype: {kind!r} is no kind; use one of {', '.join(_KINDS)}")
    return dtype.name in _KINDS[kind] or dtype.name in _MORE.get(kind, ())


def can_cast(from_: Any, to: DType, /) -> bool:
    """Whether every value of a dtype, or of an array's, is one of another.

    >>> from adjoint import array_api as xp
    >>> xp.can_cast(xp.int8, xp.int16), xp.can_cast(xp.ones(2), xp.float32)
    (True, False)
    """
    return bool(np.can_cast(dtype_of(from_).np, to.np, "safe"))


class Information:
    """What `__array_namespace_info__()` gives.

    >>> from adjoint import array_api as xp
    >>> info = xp.__array_namespace_info__()
    >>> info.default_dtypes()["real floating"], list(info.dtypes(kind="bool"))
    (ad.float64, ['bool'])
    """

    def capabilities(self) -> dict[str, Any]:
        """What arrays can do."""
        return {"boolean indexing": True, "data-dependent shapes": True, "max dimensions": 64}

    def default_device(self) -> Device:
        """Where arrays live."""
        return CPU

    def devices(self) -> list[Device]:
        """All devices: arrays on the device `meta` have no elements, and do not count."""
        return [CPU]

    def default_dtypes(self, *, device: Any = None) -> dict[str, DType]:
        """The dtypes of arrays that are made without one, and of indices."""
        _check_device("default_dtypes", device)
        return {
            "real floating": dtypes.float64,
            "complex floating": dtypes.complex128,
            "integral": dtypes.int64,
            "indexing": dtypes.int64,
        }

    def dtypes(self, *, device: Any = None, kind: Any = None) -> dict[str, DType]:
        """The standard's dtypes by name, those of a kind, or of several."""
        _check_device("dtypes", device)
        kinds = ("bool", "numeric") if kind is None else kind
        names = [n for n in dtypes.NAMES if n in _KINDS["numeric"] or n == "bool"]
        return {n: dtypes.NAMES[n] for n in names if isdtype(dtypes.NAMES[n], kinds)}


def _check_device(what: str, device: Any) -> None:
    if device is not None:
        existing_device(what, device)


def __array_namespace_info__() -> Information:  # noqa: N807 - the standard's name
    """Return what this library can do: dtypes, devices, capabilities."""
    return Information()
