"""Names of old programs: `FloatTensor` and its like, `Variable`, `Tensor.new`.

A class of tensors of old is a dtype: `ad.FloatTensor([1.0])` makes a float32 tensor,
`isinstance(x, ad.FloatTensor)` asks for its dtype.
"""

from __future__ import annotations

import sys
from typing import Any

from adjoint.calls.methods import tensor
from adjoint.core import dtypes
from adjoint.core.dtypes import DEFAULT, DType, to_dtype
from adjoint.core.errors import ArgumentError, did_you_mean
from adjoint.core.shapes import Size
from adjoint.ops import operator as operators
from adjoint.tensor.tensor import Tensor

# The old names of dtypes.
TYPES: dict[str, DType] = {
    "BoolTensor": dtypes.bool_,
    "ByteTensor": dtypes.uint8,
    "CharTensor": dtypes.int8,
    "ShortTensor": dtypes.int16,
    "IntTensor": dtypes.int32,
    "LongTensor": dtypes.int64,
    "HalfTensor": dtypes.float16,
    "BFloat16Tensor": dtypes.bfloat16,
    "FloatTensor": dtypes.float32,
    "DoubleTensor": dtypes.float64,
}


class TensorType(type):
    """The class of the old classes of tensors: each knows its dtype."""

    dtype: DType

    def __instancecheck__(cls, instance: Any) -> bool:
        return isinstance(instance, Tensor) and instance.dtype is cls.dtype

    def __call__(cls, *args: Any, device: Any = None) -> Tensor:
        return made(cls.dtype, args, device)


def made(dtype: DType, args: tuple[Any, ...], device: Any = None) -> Tensor:
    """A tensor as the old constructors make it: of sizes, without values; of data; of a tensor."""
    create = operators.packet("empty").function
    if len(args) == 1 and not isinstance(args[0], (int, Size)):
        given = args[0]
        if isinstance(given, Tensor):
            if given.dtype is not dtype:
                raise ArgumentError(
                    f"a tensor of {dtype} cannot be made of one of {given.dtype}; use x.to({dtype})"
                )
            return given.detach()
        return tensor(given, dtype=dtype, device=device)
    sizes = args[0] if len(args) == 1 and isinstance(args[0], Size) else args
    return create(tuple(sizes) if sizes else (0,), dtype=dtype, device=device)


def _type(name: str, dtype: DType) -> Any:
    text = f"Make a tensor of {dtype}: of data, or of sizes and without values."
    return TensorType(name, (), {"dtype": dtype, "__doc__": text, "__module__": "adjoint"})


def __getattr__(name: str) -> Any:
    if name not in TYPES:
        raise AttributeError(f"adjoint.legacy has no {name!r}{did_you_mean(name, TYPES)}")
    kind = globals()[name] = _type(name, TYPES[name])
    return kind


def __dir__() -> list[str]:
    return sorted({*TYPES, "Variable", "typename"})


def type_name(dtype: DType) -> str:
    """The old name of a dtype, as `x.type()` gives it.

    >>> type_name(dtypes.float32)
    'torch.FloatTensor'
    """
    known = {d: n for n, d in TYPES.items()}
    return f"torch.{known.get(dtype, dtype.name)}"


def dtype_of_type(kind: Any) -> DType:
    """The dtype that an old class of tensors, its name, or a dtype means.

    >>> dtype_of_type("torch.DoubleTensor"), dtype_of_type(dtypes.int8)
    (ad.float64, ad.int8)
    """
    if isinstance(kind, TensorType):
        return kind.dtype
    short = kind.rpartition(".")[2] if isinstance(kind, str) else ""
    if short == "Tensor":
        return DEFAULT.dtype
    return TYPES[short] if short in TYPES else to_dtype(kind)


def new(self: Tensor, *args: Any, device: Any = None) -> Tensor:
    """Make a tensor of this one's dtype: of sizes, without values; or of data."""
    return made(self.dtype, args, device)


def type_(self: Tensor, dtype: Any = None, non_blocking: bool = False) -> Any:
    """Return the old name of the dtype, or convert to a dtype given by either name."""
    return type_name(self.dtype) if dtype is None else self.to(dtype_of_type(dtype))


def typename(obj: Any) -> str:
    """Return the name of the class of an object; of a tensor, the old name of its dtype.

    >>> import adjoint as ad
    >>> ad.typename(ad.ones(2)), ad.typename([1])
    ('torch.FloatTensor', 'list')
    """
    if isinstance(obj, Tensor):
        return type_name(obj.dtype)
    kind = obj if isinstance(obj, type) else type(obj)
    module = getattr(sys.modules.get(kind.__module__), "__name__", "")
    return kind.__qualname__ if module in ("", "builtins") else f"{module}.{kind.__qualname__}"


class _VariableType(type):
    def __instancecheck__(cls, instance: Any) -> bool:
        return isinstance(instance, Tensor)

    def __call__(cls, data: Any, requires_grad: bool = False, volatile: Any = None) -> Tensor:
        made = data.detach() if isinstance(data, Tensor) else tensor(data)
        return made.requires_grad_() if requires_grad else made


class Variable(metaclass=_VariableType):
    """A tensor, by its old name: `Variable(x, requires_grad=True)` is `x` as a leaf.

    >>> import adjoint as ad
    >>> ad.autograd.Variable(ad.ones(2), requires_grad=True)
    tensor([1., 1.], requires_grad=True)
    """


def install() -> None:
    """Put the old methods on the class of tensors, and its old constructor."""
    Tensor.of_old = staticmethod(lambda *args, device=None: made(DEFAULT.dtype, args, device))
    Tensor.new = new  # type: ignore[attr-defined]
    Tensor.type = type_  # type: ignore[attr-defined]
