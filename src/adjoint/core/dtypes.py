"""Element types: PyTorch's names and properties over NumPy's dtypes.

A `DType` is a singleton; `of(array.dtype)` finds it. The order of `CATEGORY` is the order of
promotion: a tensor of a higher category decides the result (see `promotion.py`).
"""

from __future__ import annotations

import math
from typing import Any

import ml_dtypes
import numpy as np

from adjoint.core.errors import DtypeError
from adjoint.core.state import current, dtype_blocks, state

BOOL, INTEGER, FLOAT, COMPLEX = range(4)  # categories, in the order of promotion
_SPELLINGS = (np.dtype, type, str)  # objects that name a dtype in NumPy


class DType:
    """An element type, for instance `ad.float32`.

    >>> import adjoint as ad
    >>> ad.float32, ad.float32.is_floating_point, ad.complex64.to_real()
    (ad.float32, True, ad.float32)
    """

    __slots__ = (
        "category",
        "is_complex",
        "is_floating_point",
        "is_signed",
        "itemsize",
        "name",
        "np",
    )

    def __init__(self, name: str, numpy_dtype: Any, category: int, is_signed: bool = True) -> None:
        self.name = name  # "float32"
        self.np: np.dtype[Any] = np.dtype(numpy_dtype)
        self.category = category  # FLOAT
        self.is_floating_point = category == FLOAT
        self.is_complex = category == COMPLEX
        self.is_signed = is_signed
        self.itemsize = self.np.itemsize

    def __repr__(self) -> str:
        return f"ad.{self.name}"

    def __reduce__(self) -> tuple[Any, ...]:
        return named, (self.name,)

    def __eq__(self, other: object) -> bool:
        """Whether it is the same dtype; also as NumPy spells it: `x.dtype == np.float64`."""
        if self is other or isinstance(other, DType) or not isinstance(other, _SPELLINGS):
            return self is other
        try:
            return OF.get(np.dtype(other)) is self
        except (TypeError, ValueError):  # text that names no dtype
            return False

    __hash__ = object.__hash__

    @property
    def dtype(self) -> np.dtype[Any]:
        """NumPy's dtype, for `np.dtype(ad.float64)`."""
        return self.np

    @property
    def kind(self) -> str:
        """NumPy's letter for the kind: b, i, u, f or c."""
        return "f" if self.is_floating_point else self.np.kind

    @property
    def char(self) -> str:
        """NumPy's letter for the dtype: d for float64."""
        return self.np.char

    @property
    def type(self) -> Any:
        """NumPy's class of scalars."""
        return self.np.type

    @property
    def wide(self) -> DType:
        """The dtype in which numbers of this one are computed: float32 for halves."""
        return float32 if self in HALVES else self

    @property
    def is_differentiable(self) -> bool:
        """Whether tensors of this dtype can require gradients."""
        return self.category >= FLOAT

    def to_real(self) -> DType:
        """Return the dtype of the real part."""
        parts = {"complex32": float16, "complex64": float32, "complex128": float64}
        return parts.get(self.name, self)

    def to_complex(self) -> DType:
        """Return the complex dtype whose parts have this dtype."""
        return {"float32": complex64, "float64": complex128}.get(
            self.name, self if self.is_complex else complex64
        )


bool_ = DType("bool", np.bool_, BOOL, is_signed=False)
uint8 = DType("uint8", np.uint8, INTEGER, is_signed=False)
int8 = DType("int8", np.int8, INTEGER)
int16 = DType("int16", np.int16, INTEGER)
int32 = DType("int32", np.int32, INTEGER)
int64 = DType("int64", np.int64, INTEGER)
uint16 = DType("uint16", np.uint16, INTEGER, is_signed=False)
uint32 = DType("uint32", np.uint32, INTEGER, is_signed=False)
uint64 = DType("uint64", np.uint64, INTEGER, is_signed=False)
float16 = DType("float16", np.float16, FLOAT)
bfloat16 = DType("bfloat16", ml_dtypes.bfloat16, FLOAT)
float32 = DType("float32", np.float32, FLOAT)
float64 = DType("float64", np.float64, FLOAT)
complex64 = DType("complex64", np.complex64, COMPLEX)
complex128 = DType("complex128", np.complex128, COMPLEX)


class _ComplexHalf(DType):
    """Complex numbers of half precision, which no NumPy array holds: see homes/complex32.py."""

    __slots__ = ()

    def __init__(self) -> None:
        self.name, self.category, self.itemsize = "complex32", COMPLEX, 4
        self.is_floating_point, self.is_complex, self.is_signed = False, True, True

    @property
    def np(self) -> Any:  # type: ignore[override]
        raise DtypeError(
            "complex32 has no arrays in NumPy: make the tensor in complex64, and convert it with "
            "chalf()"
        )


complex32 = _ComplexHalf()

ALL: tuple[DType, ...] = (
    bool_, uint8, int8, int16, int32, int64, uint16, uint32, uint64,
    float16, bfloat16, float32, float64, complex64, complex128,
)  # fmt: skip

OF: dict[np.dtype[Any], DType] = {d.np: d for d in ALL}
NAMES: dict[str, DType] = {d.name: d for d in (*ALL, complex32)}
DIFFERENTIABLE: frozenset[np.dtype[Any]] = frozenset(d.np for d in ALL if d.is_differentiable)
INEXACT = DIFFERENTIABLE
HALVES = frozenset((float16, bfloat16))  # computed in float32, and rounded once
REDUCED: frozenset[np.dtype[Any]] = frozenset(d.np for d in HALVES)

_PYTHON_TYPES: dict[Any, DType] = {bool: bool_, int: int64, float: float64, complex: complex128}


class Defaults:
    """The default dtype, read by creation functions and by promotion."""

    __slots__ = ("process",)

    def __init__(self) -> None:
        self.process: DType = float32  # the default outside `default_dtype` blocks

    @property
    def dtype(self) -> DType:
        """The default of the innermost `default_dtype` block here, or of the process."""
        chosen: DType | None = current().default_dtype if dtype_blocks else None
        return self.process if chosen is None else chosen

    @property
    def complex_dtype(self) -> DType:
        return complex128 if self.dtype is float64 else complex64


DEFAULT = Defaults()


def named(name: str) -> DType:
    """Return the dtype called `name`."""
    return NAMES[name]


def of(dtype: np.dtype[Any]) -> DType:
    """Return our dtype for NumPy's."""
    try:
        return OF[dtype]
    except KeyError:
        pass
    native = OF.get(dtype.newbyteorder("=")) if dtype.kind in "biufc" else None
    if native is None:
        raise DtypeError(
            f"adjoint has no dtype for NumPy's {dtype}; convert the array to one of "
            f"{', '.join(d.name for d in ALL)} first"
        )
    return native


def to_dtype(value: Any) -> DType:
    """Return the `DType` that a user means: ours, NumPy's, a Python type, or a name.

    Python's `float` is float64 and `complex` complex128, as in PyTorch and NumPy. A name that is
    not ours is NumPy's.

    >>> to_dtype(float), to_dtype("bfloat16"), to_dtype("f4"), to_dtype(np.dtype(">i8"))
    (ad.float64, ad.bfloat16, ad.float32, ad.int64)
    """
    if isinstance(value, DType):
        return value
    if isinstance(value, type) and value in _PYTHON_TYPES:
        return _PYTHON_TYPES[value]
    if isinstance(value, str) and value in NAMES:
        return NAMES[value]
    if value is None:  # np.dtype would take None for float64
        raise DtypeError(f"None is not a dtype; use one of {', '.join(f'ad.{d}' for d in NAMES)}")
    try:
        return of(np.dtype(value))
    except (TypeError, ValueError, DtypeError):
        raise DtypeError(
            f"{value!r} is not a dtype; use one of {', '.join(f'ad.{d.name}' for d in ALL)}"
        ) from None


def set_default_dtype(d: Any) -> None:
    """Set the dtype of tensors made from Python floats; float32 unless set.

    It holds for the process, and for the `default_dtype` block that this is called in.

    >>> import adjoint as ad
    >>> ad.set_default_dtype(ad.float64)
    >>> ad.tensor([0.1]).dtype, (ad.tensor([1]) / 2).dtype, ad.tensor([1j]).dtype
    (ad.float64, ad.float64, ad.complex128)
    >>> ad.set_default_dtype(ad.float32)
    """
    wanted = default_of("set_default_dtype", d)
    DEFAULT.process = wanted
    if current().default_dtype is not None:
        state.set(current().but(default_dtype=wanted))


def default_of(what: str, d: Any) -> DType:
    """The dtype that a user means by `d`; raise if it cannot be the default."""
    wanted = to_dtype(d)
    if not wanted.is_floating_point:
        raise DtypeError(f"{what}({wanted}): the default must be a floating point dtype")
    return wanted


def get_default_dtype() -> DType:
    """Return the dtype of tensors made from Python floats.

    >>> import adjoint as ad
    >>> ad.get_default_dtype()
    ad.float32
    """
    return DEFAULT.dtype


class finfo:  # noqa: N801 - the name is NumPy's and PyTorch's
    """Limits of a floating point dtype: eps, max, min, tiny, smallest_normal, resolution, bits.

    >>> import adjoint as ad
    >>> ad.finfo(ad.float32).eps
    1.1920928955078125e-07
    """

    def __init__(self, dtype: Any = None) -> None:
        wanted = DEFAULT.dtype if dtype is None else to_dtype(dtype)
        if not wanted.is_differentiable:
            raise DtypeError(f"finfo({wanted}) needs a floating point or complex dtype; see iinfo")
        limits = ml_dtypes.finfo(wanted.to_real().np)
        self.dtype = wanted.name
        self.bits = int(limits.bits)
        self.eps = float(limits.eps)
        self.max = float(limits.max)
        self.min = float(limits.min)
        self.tiny = self.smallest_normal = float(limits.smallest_normal)
        self.resolution = 10.0 ** -math.floor(-math.log10(self.eps))

    def __repr__(self) -> str:
        limits = f"min={self.min}, max={self.max}, eps={self.eps}"
        return f"finfo(resolution={self.resolution}, {limits}, dtype={self.dtype})"


class iinfo:  # noqa: N801 - the name is NumPy's and PyTorch's
    """The limits of an integer dtype: min, max, bits.

    >>> import adjoint as ad
    >>> ad.iinfo(ad.int8).max
    127
    """

    def __init__(self, dtype: Any) -> None:
        wanted = to_dtype(dtype)
        if wanted.category != INTEGER:
            raise DtypeError(f"iinfo({wanted}) needs an integer dtype; see finfo")
        limits = np.iinfo(wanted.np)
        self.dtype, self.bits, self.min, self.max = wanted.name, limits.bits, limits.min, limits.max

    def __repr__(self) -> str:
        return f"iinfo(min={self.min}, max={self.max}, dtype={self.dtype})"
