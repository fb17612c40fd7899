"""`Parameter` and `Buffer`: tensors that belong to a module.

Both are plain tensors with a mark, so that operators on them take the fast way; `isinstance` asks
for the mark. A class that a user derives from `Parameter` is a real subclass of the tensor.
`UninitializedParameter` and `UninitializedBuffer` have a dtype and no shape yet: they live in a
home (`tensor/home.py`) that refuses operators, until `materialize` lets them move out.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any

import numpy as np

from adjoint.core.devices import CPU, META, Device
from adjoint.core.dtypes import DEFAULT, DType, to_dtype
from adjoint.core.errors import AdjointError, ShapeError
from adjoint.homes.meta import META_TENSORS, dummy
from adjoint.homes.subclasses import default_torch_function
from adjoint.ops.operator import Operator
from adjoint.tensor.home import Height, Home, new_tensor
from adjoint.tensor.nodes import Leaf
from adjoint.tensor.tensor import Tensor, alias, make

__all__ = [
    "Buffer",
    "Parameter",
    "UninitializedBuffer",
    "UninitializedParameter",
    "is_buffer",
    "is_lazy",
    "is_parameter",
]


def is_parameter(value: Any) -> bool:
    """Whether a value is a tensor with the mark of parameters."""
    return isinstance(value, Tensor) and "_is_param" in value.__dict__


def is_buffer(value: Any) -> bool:
    """Whether a value is a tensor with the mark of buffers."""
    return isinstance(value, Tensor) and "_is_buffer" in value.__dict__


def is_lazy(value: Any) -> bool:
    """Whether a value is a parameter or a buffer that has no shape yet."""
    return isinstance(value, Tensor) and isinstance(value.home, Uninitialized)


class _Marked(type):
    """Tells tensors with a mark from others."""

    tells: Callable[[Any], bool]

    def __new__(cls, name: str, bases: tuple[Any, ...], namespace: dict[str, Any]) -> Any:
        if any(base is Parameter for base in bases):  # a user's class
            real = tuple(ParameterTensor if b is Parameter else b for b in bases)
            return type(name, real, namespace)
        return super().__new__(cls, name, bases, namespace)

    def __instancecheck__(cls, value: Any) -> bool:
        return cls.tells(value)

    def __subclasscheck__(cls, other: Any) -> bool:
        return other is cls or (cls is Parameter and issubclass(other, ParameterTensor))


def _on_memory_of(cls: type, data: Any) -> Any:
    """A tensor on the memory of another one, or an empty one."""
    if data is not None and not isinstance(data, Tensor):
        raise TypeError(f"{cls.__name__} needs a tensor, got {type(data).__name__}")
    return make(np.empty(0, DEFAULT.dtype.np)) if data is None else _same(data)


def _same(data: Tensor) -> Any:
    """Another tensor on the memory of one, in the same home and of the same class."""
    if data.home is None:
        return alias(data)
    made, kind = data.detach(), type(data)
    return made if type(made) is kind else made.as_subclass(kind)  # type: ignore[attr-defined]


class Parameter(metaclass=_Marked):
    """A tensor on the memory of `data` that requires a gradient and counts as a parameter.

    >>> import adjoint as ad
    >>> p = ad.nn.Parameter(ad.ones(2))
    >>> p
    Parameter containing:
    tensor([1., 1.], requires_grad=True)
    >>> isinstance(p, ad.nn.Parameter), isinstance(p * 2, ad.nn.Parameter)
    (True, False)
    """

    tells = staticmethod(is_parameter)

    def __new__(cls, data: Tensor | None = None, requires_grad: bool = True) -> Any:
        made = _on_memory_of(cls, data)
        if cls is not Parameter:
            made = made.as_subclass(cls)
        made._is_param = True
        if requires_grad:
            made.requires_grad_()
        return made


class ParameterTensor(Tensor):
    """What users' subclasses of `Parameter` derive from: operators give plain tensors.

    >>> import adjoint as ad
    >>> class Positive(ad.nn.Parameter):
    ...     def log_value(self):
    ...         return self.log()
    >>> p = Positive(ad.ones(2))
    >>> type(p).__name__, p.log_value(), isinstance(p, ad.nn.Parameter)
    ('Positive', tensor([0., 0.], grad_fn=<LogBackward0>), True)
    """

    def __new__(cls, data: Tensor | None = None, requires_grad: bool = True) -> Any:
        return Parameter.__new__(cls, data, requires_grad)  # type: ignore[arg-type]

    @classmethod
    def __torch_function__(  # pyright: ignore[reportIncompatibleVariableOverride]
        cls, func: Any, types: Any, args: tuple[Any, ...] = (), kwargs: Any = None
    ) -> Any:
        return default_torch_function(Tensor, func, types, args, kwargs)


class Buffer(metaclass=_Marked):
    """A tensor on the memory of `data` that a module keeps, and does not learn.

    A module that gets one as an attribute registers it; `persistent` says whether it belongs to
    the module's state.

    >>> import adjoint as ad
    >>> module = ad.nn.Module()
    >>> module.steps = ad.nn.Buffer(ad.zeros(1))
    >>> dict(module.named_buffers())
    {'steps': tensor([0.])}
    """

    tells = staticmethod(is_buffer)

    def __new__(cls, data: Tensor | None = None, *, persistent: bool = True) -> Any:
        made = _on_memory_of(cls, data)
        made._is_buffer = True
        made.persistent = persistent
        return made


# --- parameters without a shape -----------------------------------------------------------------


class NoShapeYet(AdjointError, ValueError, RuntimeError):
    """A parameter or buffer that is used before it has a shape."""


class Uninitialized(Home):
    """The home of parameters and buffers that have no shape yet; it refuses operators."""

    height = Height.SUBCLASS
    name = "uninitialized parameters"
    stays = True

    def __init__(self, device: Device) -> None:
        self.device = device

    def process(self, op: Operator, values: list[Any]) -> Any:
        """Convert to another dtype; refuse everything else."""
        first = values[0]
        if op.name == "_to_copy" and is_lazy(first):
            named = dict(zip(op.schema.names, values, strict=True))
            return _unmade(self.device, to_dtype(named["dtype"] or first.dtype), first)
        raise NoShapeYet(
            f"{op.name}: an uninitialized parameter or buffer has no values; call its module "
            "once, or its materialize(shape)"
        )

    def process_inplace(
        self, op: Operator, functional: Callable[..., Any], values: list[Any]
    ) -> Any:
        """Refuse to write."""
        return self.process(op, values)

    def shape(self, tensor: Tensor) -> tuple[int, ...]:
        raise NoShapeYet(
            "the shape of an uninitialized parameter or buffer is not known; call its module "
            "once, or its materialize(shape)"
        )

    def text(self, tensor: Tensor) -> str:
        return f"<Uninitialized{'Parameter' if is_parameter(tensor) else 'Buffer'}>"

    def detach(self, tensor: Tensor) -> Tensor:
        return _unmade(self.device, tensor.dtype, tensor)

    data = detach

    def check_numbers(self, what: str) -> None:
        raise NoShapeYet(f"{what}: an uninitialized parameter or buffer has no values")

    def materialize(
        self, tensor: Any, shape: Any, device: Any = None, dtype: DType | None = None
    ) -> None:
        """Give a tensor its shape, and memory without values."""
        sizes = (shape,) if isinstance(shape, int) else tuple(shape)
        if any(not isinstance(n, int) or n < 0 for n in sizes):
            raise ShapeError(f"materialize: a shape is made of sizes from 0, got {shape!r}")
        kind = tensor.dtype if dtype is None else to_dtype(dtype)
        on_meta = Device(self.device if device is None else device) == META
        tensor.value = dummy(sizes, kind) if on_meta else np.empty(sizes, kind.np)
        tensor.home = META_TENSORS if on_meta else None
        if type(tensor.edge) is Leaf:
            tensor.edge.shape, tensor.edge.dtype = tensor.value.shape, tensor.value.dtype

    def __reduce__(self) -> tuple[Any, ...]:
        return Uninitialized, (self.device,)


def _unmade(device: Any, dtype: DType, like: Tensor | None = None) -> Any:
    """A tensor without a shape, with the marks of another one."""
    home = Uninitialized(CPU if device is None else Device(device))
    made = new_tensor(home, np.empty(0, dtype.np))
    made.__dict__.update({} if like is None else like.__dict__)
    return made


class _Materialize:
    """The method `materialize`, which only tensors without a shape have."""

    def __get__(self, tensor: Any, kind: Any = None) -> Any:
        if tensor is None:
            return self
        if not is_lazy(tensor):
            raise AttributeError("a tensor that has a shape is not materialized")
        return partial(tensor.home.materialize, tensor)


Tensor.materialize = _Materialize()  # type: ignore[attr-defined]


def _is_lazy_parameter(value: Any) -> bool:
    return is_lazy(value) and is_parameter(value)


def _is_lazy_buffer(value: Any) -> bool:
    return is_lazy(value) and is_buffer(value)


class UninitializedParameter(metaclass=_Marked):
    """A parameter that has no shape yet; `materialize(shape)` makes it an ordinary one.

    >>> import adjoint as ad
    >>> p = ad.nn.UninitializedParameter()
    >>> p
    <UninitializedParameter>
    >>> p.materialize((2, 3))
    >>> p.shape, isinstance(p, ad.nn.UninitializedParameter), isinstance(p, ad.nn.Parameter)
    ((2, 3), False, True)
    """

    tells = staticmethod(_is_lazy_parameter)

    def __new__(
        cls, requires_grad: bool = True, device: Any = None, dtype: DType | None = None
    ) -> Any:
        made = _unmade(device, DEFAULT.dtype if dtype is None else to_dtype(dtype))
        made._is_param = True
        return made.requires_grad_(requires_grad)


class UninitializedBuffer(metaclass=_Marked):
    """A buffer that has no shape yet; `materialize(shape)` makes it an ordinary one."""

    tells = staticmethod(_is_lazy_buffer)

    def __new__(
        cls,
        requires_grad: bool = False,
        device: Any = None,
        dtype: DType | None = None,
        persistent: bool = True,
    ) -> Any:
        made = _unmade(device, DEFAULT.dtype if dtype is None else to_dtype(dtype))
        made._is_buffer = True
        made.persistent = persistent
        return made.requires_grad_(requires_grad)
