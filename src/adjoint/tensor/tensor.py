"""The tensor: an array, an edge of the tape, a version counter, and little else.

`value` is the array, or for the tensor of a transform, the tensor one level below. `edge` is where
gradients go (None: no gradient wanted). `home` is None for a plain tensor; else it is the level or
interpreter (`home.py`) that runs the operators on this tensor, and answers where such a tensor
differs from a plain one: its strides, its numbers, its text. Operators of the table are methods
(`offer`), built on first use; only methods that no row can describe are written here.
"""

from __future__ import annotations

import copy
import math
import operator
import warnings
from collections.abc import Callable, Iterable, Iterator
from typing import TYPE_CHECKING, Any, ClassVar

import numpy as np

from adjoint.core.devices import CPU, META, Device
from adjoint.core.dtypes import DIFFERENTIABLE, OF, DType, of
from adjoint.core.errors import DtypeError, GradError, InplaceError, ShapeError, ValueRangeError
from adjoint.core.importing import imported
from adjoint.core.layouts import ORDERS, Layout, format_number, strided
from adjoint.core.shapes import Size, show
from adjoint.core.state import current
from adjoint.core.storage import (
    address,
    storage_of,
    strided_view,
    strides_in_elements,
    without_subclass,
)
from adjoint.ops import operator as operators
from adjoint.tensor import printing
from adjoint.tensor.nodes import (
    ZERO,
    Handle,
    Leaf,
    Node,
    Output,
    Refusal,
    is_inference,
    mark_inference,
    move,
    own_counter,
    reaches,
)

Array = np.ndarray[Any, Any]


class TensorExtra:
    """Attributes that few tensors have: a gradient, a base that it views, views of itself."""

    __slots__ = ("grad", "order", "retains_grad", "view", "views", "zeros")

    def __init__(self) -> None:
        self.grad: Tensor | None = None
        self.view: Any = None  # views.View
        self.views: list[Any] = []  # weak references
        self.retains_grad = False
        self.zeros: Any = None  # the structural zeros of a tangent: tangents.Note
        self.order: Any = None  # of a traced tensor: its dimensions in memory order


class Offer:
    """An operator of the table among the methods of tensors, until it is first asked for.

    A class with `__getattr__` would need less code, but slows every attribute of its instances:
    `x.value` takes twice the time.
    """

    __slots__ = ("name",)

    def __init__(self, name: str) -> None:
        self.name = name

    def __get__(self, tensor: Any, kind: Any = None) -> Any:
        function = _install(self.name)
        return function if tensor is None else function.__get__(tensor)


def offer(names: Iterable[str]) -> None:
    """Make operators and their in-place variants methods of tensors."""
    known = vars(Tensor)
    for name in names:
        for method in (name, f"{name}_"):
            if method not in known and not method.startswith("__"):
                setattr(Tensor, method, Offer(method))


def _install(name: str) -> Any:
    """Put the operator of that name on the class of tensors, or raise AttributeError."""
    if not operators.exists(name):
        raise AttributeError(f"a tensor has no attribute {name!r}")
    packet = operators.packet(name)
    if not any(a.name == "self" for o in packet.operators for a in o.schema.arguments):
        schema = packet.operators[0].schema
        raise AttributeError(f"{name} is not a method of tensors; call ad.{name}({schema})")
    setattr(Tensor, name, packet.function)
    return packet.function


class ElementCount(int):
    """How many elements a tensor has, NumPy's `x.size`; called, PyTorch's `x.size()`."""

    of: Tensor

    def __call__(self, dim: int | None = None) -> Any:
        """Return the shape, or the size of one dimension."""
        return size(self.of, dim)


class SizeOrCount:
    """`x.size`, which is a number in NumPy and a method in PyTorch."""

    def __get__(self, tensor: Tensor | None, kind: Any = None) -> Any:
        if tensor is None:
            return size
        count = ElementCount(tensor.numel())
        count.of = tensor
        return count


def size(self: Tensor, dim: int | None = None) -> Any:
    """Return the shape, or the size of one dimension."""
    shape = self.shape
    if dim is None:
        return shape
    if not -len(shape) <= dim < len(shape):
        raise IndexError(f"size({dim}): the tensor has {len(shape)} dimensions")
    return shape[dim]


class Tensor:
    """A multi-dimensional array that can be differentiated. Make one with `ad.tensor`.

    >>> import adjoint as ad
    >>> x = ad.tensor([1.0, 2.0], requires_grad=True)
    >>> (x * x).sum().backward()
    >>> x.grad
    tensor([2., 4.])
    """

    __slots__ = (
        "__dict__", "__weakref__", "birth", "companion", "counter", "edge", "extra", "home",
        "value",
    )  # fmt: skip

    value: Any
    edge: Any
    counter: Any
    extra: TensorExtra | None
    home: Any  # None for a plain tensor
    companion: Any  # what a home keeps next to the value; which, home.py says. Plain tensors: unset
    birth: int  # of tensors of a home: the number of the last level that was opened before

    __array_priority__ = 1000  # NumPy leaves `array * tensor` to us

    class_home: ClassVar[Any] = None  # home of this class's tensors outside transforms
    of_old: ClassVar[Any]  # `Tensor(2, 3)`, the old way to make one; set by legacy.install()
    subclass_home: ClassVar[Any] = None  # home of users' subclasses; set by subclasses.install()

    def __init_subclass__(cls, **keywords: Any) -> None:
        super().__init_subclass__(**keywords)
        if cls.class_home is None and "class_home" not in vars(cls):
            cls.class_home = Tensor.subclass_home

    def __new__(cls, data: Any = (), *args: Any, **keywords: Any) -> Any:
        if cls is Tensor:
            return cls.of_old(*((data, *args) if data != () or args else ()), **keywords)
        return cls._make_subclass(cls, data)

    # -- facts ---------------------------------------------------------------------------------

    @property
    def shape(self) -> Size:
        return Size(self.value.shape if self.home is None else self.home.shape(self))

    @property
    def ndim(self) -> int:
        return self.value.ndim if self.home is None else len(self.home.shape(self))

    @property
    def dtype(self) -> DType:
        if self.home is None:
            return OF[self.value.dtype]
        value = self.value
        while isinstance(value, Tensor):
            value = value.value
        return OF[value.dtype] if isinstance(value, np.ndarray) else value.dtype  # of a graph

    @property
    def device(self) -> Device:
        return CPU if self.home is None else self.home.device

    @property
    def layout(self) -> Layout:
        return strided if self.home is None else self.home.layout(self)

    @property
    def itemsize(self) -> int:
        return self.dtype.itemsize

    @property
    def nbytes(self) -> int:
        return self.numel() * self.dtype.itemsize

    size = SizeOrCount()

    def dim(self) -> int:
        """Return the number of dimensions."""
        return self.ndim

    ndimension = dim

    def numel(self) -> int:
        """Return the number of elements."""
        return self.value.size if self.home is None else math.prod(self.shape)

    nelement = numel

    def element_size(self) -> int:
        """Return the bytes of one element."""
        return self.dtype.itemsize

    def stride(self, dim: int | None = None) -> Any:
        """Return the strides, in elements."""
        plain = self.home is None
        strides = strides_in_elements(self.value) if plain else self.home.strides(self)
        return strides if dim is None else strides[dim]

    def storage_offset(self) -> int:
        """Return how far into its storage the tensor starts, in elements."""
        return storage_of(self.value)[1] if self.home is None else self.home.storage_offset(self)

    def data_ptr(self) -> int:
        """Return the address of the first element."""
        return self.array.ctypes.data

    def is_contiguous(self, memory_format: Any = None) -> bool:
        """Whether the elements lie in memory in row-major order, or in that of a memory format."""
        if memory_format is not None:
            order = ORDERS.get(format_number("is_contiguous", memory_format))
            if order is not None:
                return len(order) == self.ndim and self.permute(order).is_contiguous()
        if self.home is not None:
            return self.home.is_contiguous(self)
        return bool(self.value.flags.c_contiguous)

    def is_complex(self) -> bool:
        """Whether the dtype is complex.

        >>> import adjoint as ad
        >>> ad.is_complex(ad.tensor([1j]))
        True
        """
        return self.dtype.is_complex

    def is_floating_point(self) -> bool:
        """Whether the dtype is floating point.

        >>> import adjoint as ad
        >>> ad.is_floating_point(ad.tensor([1, 2]))
        False
        """
        return self.dtype.is_floating_point

    def is_signed(self) -> bool:
        """Whether the dtype has negative values.

        >>> import adjoint as ad
        >>> ad.is_signed(ad.ones(1)), ad.is_signed(ad.ones(1).byte())
        (True, False)
        """
        return self.dtype.is_signed

    def is_differentiable_dtype(self) -> bool:
        """Whether a tensor of this dtype can require a gradient."""
        if self.home is None:
            return self.value.dtype in DIFFERENTIABLE
        return self.dtype.is_differentiable

    def is_conj(self) -> bool:
        """Always False: conjugation is carried out at once.

        >>> import adjoint as ad
        >>> ad.tensor([1j]).conj().is_conj()
        False
        """
        return False

    def is_neg(self) -> bool:
        """Always False: negation is carried out at once.

        >>> import adjoint as ad
        >>> (-ad.ones(1)).is_neg()
        False
        """
        return False

    def is_inference(self) -> bool:
        """Whether the tensor was made in `inference_mode`, or views one that was."""
        return is_inference(self)

    is_cuda = is_sparse = is_sparse_csr = is_quantized = is_nested = is_mkldnn = False
    is_xpu = is_mps = is_ipu = is_xla = is_mtia = is_maia = is_vulkan = False

    @property
    def is_cpu(self) -> bool:
        return self.device.type == "cpu"

    def sparse_dim(self) -> int:
        """Return the number of sparse dimensions: none."""
        return 0

    def dense_dim(self) -> int:
        """Return the number of dense dimensions: all."""
        return self.ndim

    @property
    def is_meta(self) -> bool:
        return self.device is META

    @property
    def array(self) -> Array:
        """The array behind the tensor; raises for tensors that have none (inside a transform)."""
        return self.value if self.home is None else self.home.array(self)

    # -- numbers and arrays --------------------------------------------------------------------

    def check_leaves(self, what: str) -> None:
        """Raise if `what` would take the value out of a transform that differentiates it."""
        if self.home is None:
            self.check_leaves_tape(what)
        else:
            self.home.check_leaves(self, what)

    def check_leaves_tape(self, what: str) -> None:
        """Like `check_leaves`, on the eager tape."""
        if self.edge is not None:
            now = current()
            if now.recording and now.variables and reaches(self.edge, now.variables):
                raise GradError(leaving(what, "grad"))

    def item(self) -> Any:
        """Return the one element as a Python number."""
        self.check_leaves("item()")
        return self._number("item()")

    def _number(self, what: str) -> Any:
        if self.home is not None:
            self.home.check_numbers(what)
        array = self.array
        if array.size != 1:
            raise ShapeError(
                f"{what}: the tensor has {array.size} elements ({show(self.shape)}), not one"
            )
        number = array.reshape(()).item()
        return float(number) if self.dtype.is_floating_point else number

    def tolist(self) -> Any:
        """Return the elements as nested Python lists."""
        self.check_leaves("tolist()")
        if self.home is not None:
            self.home.check_numbers("tolist()")
        if self.dtype.name == "bfloat16":
            return self.array.astype(np.float32).tolist()
        return self.array.tolist()

    def numpy(self, *, force: bool = False) -> Array:
        """Return the array, sharing memory; `force` allows a tensor that requires a gradient."""
        if self.home is not None:
            self.home.check_numpy("numpy()")
        if self.edge is not None and current().recording and not force:
            raise GradError(
                "numpy() on a tensor that requires a gradient: use detach().numpy() or "
                "numpy(force=True)"
            )
        return self.array

    def __array__(self, dtype: Any = None, copy: bool | None = None) -> Array:
        if self.home is not None:
            self.home.check_numpy("np.asarray(x)")
        if self.edge is not None and current().recording:
            why = (
                "np.asarray(x) of a tensor that requires a gradient: NumPy's arrays have no history"
            )
            raise GradError(no_array(why))
        array = self.numpy()
        if dtype is None or array.dtype == dtype:
            return array.copy() if copy else array
        return array.astype(dtype)

    def __array_ufunc__(self, ufunc: Any, method: str, *inputs: Any, **keywords: Any) -> Any:
        _join_numpy()
        return self.__array_ufunc__(ufunc, method, *inputs, **keywords)

    def __array_function__(self, func: Any, types: Any, args: Any, kwargs: Any) -> Any:
        _join_numpy()
        return self.__array_function__(func, types, args, kwargs)

    def __buffer__(self, flags: int) -> memoryview:
        """The memory of the tensor, for `memoryview(x)` from Python 3.12 on."""
        return self.numpy().data

    def __bool__(self) -> bool:
        if self.numel() != 1:
            raise ValueRangeError(
                f"the truth of a tensor of shape {show(self.shape)} is ambiguous; use any(), "
                "all() or ad.where"
            )
        return bool(self._number("bool()"))

    def __float__(self) -> float:
        self.check_leaves("float()")
        return float(self._number("float()"))

    def __int__(self) -> int:
        return int(self._number("int()"))

    def __complex__(self) -> complex:
        self.check_leaves("complex()")
        return complex(self._number("complex()"))

    def __round__(self, ndigits: int | None = None) -> Tensor:
        return self.round(decimals=ndigits or 0)

    def __divmod__(self, other: Any) -> tuple[Tensor, Tensor]:
        return self // other, self % other

    def __rdivmod__(self, other: Any) -> tuple[Tensor, Tensor]:
        return other // self, other % self

    def __index__(self) -> int:
        if self.dtype.is_differentiable:
            raise TypeError(
                "only integer tensors can be used as an index, or to repeat a list, and this one "
                f"is {self.dtype.name}; for x * [1, 2] write x * ad.tensor([1, 2])"
            )
        return operator.index(self._number("index()"))

    def __len__(self) -> int:
        if not self.shape:
            raise TypeError("len() of a 0-d tensor")
        return self.shape[0]

    def __iter__(self) -> Iterator[Tensor]:
        if not self.shape:
            raise TypeError("iteration over a 0-d tensor")
        return iter(self.unbind(0))

    def __contains__(self, element: Any) -> bool:
        return bool((self == element).any().item())

    __hash__ = object.__hash__

    def __repr__(self) -> str:
        return self._text() if self.home is None else self.home.text(self)

    def _text(self) -> str:
        edge = self.edge
        name = "Invalid" if type(edge) is Refusal else self.grad_fn and self.grad_fn.name()
        return self.titled(
            printing.format_tensor(self.array, self.dtype, self.edge is not None, name)
        )

    def titled(self, text: str) -> str:
        """The text of a tensor; a parameter (nn/parameter.py) puts a title above it."""
        return f"Parameter containing:\n{text}" if "_is_param" in self.__dict__ else text

    def __format__(self, spec: str) -> str:
        if self.ndim == 0 and (spec or self.home is None):
            return format(self._number("format()"), spec)
        return format(str(self), spec)

    # -- gradients -----------------------------------------------------------------------------

    def more(self) -> TensorExtra:
        """Return the extras, made on first use."""
        if self.extra is None:
            self.extra = TensorExtra()
        return self.extra

    @property
    def requires_grad(self) -> bool:
        return self.edge is not None or (self.home is not None and self.home.requires_grad(self))

    @requires_grad.setter
    def requires_grad(self, wanted: bool) -> None:
        self.requires_grad_(wanted)

    def requires_grad_(self, requires_grad: bool = True) -> Tensor:
        """Ask for a gradient of this leaf tensor, or stop asking."""
        if self.home is not None and not self.home.has_leaves(self, requires_grad):
            return self
        if not requires_grad:
            if self.edge is not None and type(self.edge) is not Leaf:
                raise GradError(
                    "requires_grad = False on the result of an operator: use detach() to cut it off"
                )
            self.edge = None
        elif self.edge is None:
            if self.is_inference() and not current().inference:
                raise GradError(
                    "requires_grad = True on a tensor made in inference_mode, outside of it: "
                    "clone() it first"
                )
            if not self.is_differentiable_dtype():
                raise DtypeError(
                    "only floating point and complex tensors can require gradients, this is "
                    f"{self.dtype.name}"
                )
            self.edge = Leaf(self)
        return self

    @property
    def is_leaf(self) -> bool:
        return type(self.edge) is Leaf or not self.requires_grad

    @property
    def grad_fn(self) -> Node | None:
        edge = self.edge
        if type(edge) is Node:
            return edge
        if type(edge) is Refusal:
            raise GradError(edge.message)
        return edge.node if type(edge) is Output else None

    @property
    def output_nr(self) -> int:
        return self.edge.number if type(self.edge) is Output else 0

    @property
    def grad(self) -> Tensor | None:
        found = None if self.extra is None else self.extra.grad
        if found is None and not self.is_leaf and not self.retains_grad:
            warnings.warn(
                ".grad of a tensor that is not a leaf is not kept; call retain_grad() on it "
                "before backward()",
                UserWarning,
                stacklevel=2,
            )
        return found

    @grad.setter
    def grad(self, value: Tensor | None) -> None:
        if value is not None:
            if not isinstance(value, Tensor):
                raise TypeError(f".grad must be a tensor or None, got {type(value).__name__}")
            if value is self:
                raise GradError(".grad of a tensor cannot be the tensor itself")
            if value.shape != self.shape:
                raise ShapeError(
                    f".grad must have the tensor's shape {show(self.shape)}, got "
                    f"{show(value.shape)}"
                )
            if value.dtype is not self.dtype:
                raise DtypeError(
                    f".grad must have the tensor's dtype {self.dtype.name}, got {value.dtype.name}"
                )
        extra = self.extra or self.more()
        extra.grad = value

    @grad.deleter
    def grad(self) -> None:
        self.more().grad = None

    _grad = grad  # PyTorch's name for the same, which programs write to

    @property
    def retains_grad(self) -> bool:
        return self.extra is not None and self.extra.retains_grad

    @property
    def data(self) -> Tensor:
        """The same memory without history; writes through it are not tracked."""
        return data_of(self) if self.home is None else self.home.data(self)

    @data.setter
    def data(self, other: Tensor) -> None:
        if not isinstance(other, Tensor):
            raise TypeError(f".data must be a tensor, got {type(other).__name__}")
        if self.edge is not None and not other.is_differentiable_dtype():
            raise DtypeError(
                f".data of a tensor that requires a gradient must be floating point or complex, "
                f"got {other.dtype.name}"
            )
        if _structure(self) is not _structure(other) or type(self.value) is not type(other.value):
            raise InplaceError(
                f".data of a tensor of {self.dtype} and {self.layout} cannot be one of "
                f"{other.dtype} and {other.layout}, whose values are kept otherwise, here"
            )
        self.value = other.value
        if type(self.edge) is Leaf:
            self.edge.shape, self.edge.dtype = other.value.shape, other.value.dtype

    @property
    def _version(self) -> int:
        if self.is_inference():
            raise GradError("_version: a tensor made in inference_mode does not track versions")
        return self.counter.count

    @property
    def _base(self) -> Tensor | None:
        return None if self.extra is None or self.extra.view is None else self.extra.view.base

    def _is_view(self) -> bool:
        return self._base is not None

    def detach(self) -> Tensor:
        """Return a tensor on the same memory, without history."""
        return alias(self) if self.home is None else self.home.detach(self)

    def detach_(self) -> Tensor:
        """Cut this tensor off its history.

        >>> import adjoint as ad
        >>> x = ad.ones(1, requires_grad=True) * 2
        >>> x.detach_().requires_grad
        False
        """
        if self._is_view():
            raise GradError("detach_() on a view: detach the base instead, or use detach()")
        self.edge = None
        if self.home is not None:
            self.home.after_detach(self)
        return self

    def register_hook(self, hook: Callable[..., Any]) -> Handle:
        """Call `hook(grad)` when the gradient of this tensor is known; a result replaces it."""
        if self.edge is None:
            raise GradError("register_hook: the tensor does not require a gradient")
        _check_callable(hook)
        edge = self.edge
        if type(edge) is Leaf:
            return Handle(edge.more().on_tensor, hook)
        node = edge if type(edge) is Node else edge.node
        return Handle(node.more().tensor_hooks.setdefault(self.output_nr, {}), hook)

    def register_post_accumulate_grad_hook(self, hook: Callable[..., Any]) -> Handle:
        """Call `hook(tensor)` after `.grad` of this leaf was accumulated."""
        if type(self.edge) is not Leaf:
            raise GradError(
                "register_post_accumulate_grad_hook: only leaf tensors that require gradients "
                "have it"
            )
        _check_callable(hook)
        return Handle(self.edge.more().accumulated, hook)

    def retain_grad(self) -> None:
        """Keep the gradient of this non-leaf tensor in `.grad`."""
        if self.edge is None:
            raise GradError("retain_grad: the tensor does not require a gradient")
        if type(self.edge) is Leaf:
            return
        self.more().retains_grad = True
        move(self, self.edge)

    # -- copying -------------------------------------------------------------------------------

    def __reduce__(self) -> Any:
        self.check_leaves("pickle")  # the history of a non-leaf is not pickled, as in PyTorch
        array = self.array
        array = np.ascontiguousarray(array).reshape(array.shape)
        grad = None if self.extra is None else self.extra.grad
        kind, home = type(self), self.home if self.home is not None and self.home.stays else None
        return _rebuild, (array, self.requires_grad, grad, kind, vars(self), home)

    def __copy__(self) -> Tensor:
        if self.home is not None and self.home is not type(self).class_home:
            return self[...]
        made = _of_class(type(self), alias(self, self.edge), None)
        if type(self.edge) is Leaf and not current().variables:  # inside grad it stays a variable
            made.edge = Leaf(made)
        vars(made).update(vars(self))
        return made

    def __deepcopy__(self, memo: dict[int, Any]) -> Tensor:
        if not self.is_leaf:
            raise GradError("only leaf tensors can be deep-copied: detach() first")
        self.check_leaves("deepcopy")
        made = mark_inference(_of_class(type(self), _copied(self.array, memo), self.home))
        memo[id(self)] = made
        if self.edge is not None:
            made.edge = Leaf(made)
        if self.grad is not None:
            made.grad = copy.deepcopy(self.grad, memo)
        vars(made).update(copy.deepcopy(vars(self), memo))
        return made

    # -- operators of the table ----------------------------------------------------------------

    if TYPE_CHECKING:  # attributes set by other modules, for type checkers
        _make_subclass: ClassVar[Any]
        __torch_function__: ClassVar[Any]
        materialize: ClassVar[Any]  # method of parameters without a shape: nn/parameter.py

        def __neg__(self) -> Tensor: ...
        def __add__(self, other: Any, /) -> Tensor: ...
        def __eq__(self, other: Any, /) -> Tensor: ...  # pyright: ignore[reportIncompatibleMethodOverride]
        def __ne__(self, other: Any, /) -> Tensor: ...  # pyright: ignore[reportIncompatibleMethodOverride]
        def __getitem__(self, key: Any, /) -> Tensor: ...
        def __setitem__(self, key: Any, value: Any, /) -> None: ...

        __pos__ = __abs__ = __invert__ = __neg__
        __sub__ = __mul__ = __truediv__ = __floordiv__ = __mod__ = __pow__ = __matmul__ = __add__
        __and__ = __or__ = __xor__ = __lshift__ = __rshift__ = __add__
        __radd__ = __rsub__ = __rmul__ = __rtruediv__ = __rfloordiv__ = __rmod__ = __add__
        __rpow__ = __rmatmul__ = __rand__ = __ror__ = __rxor__ = __add__
        __lt__ = __le__ = __gt__ = __ge__ = __add__

        def __getattr__(self, name: str) -> Any: ...


def _join_numpy() -> None:
    """Let tensors answer NumPy's protocols, by the table of names, when NumPy first asks."""
    protocol = imported("adjoint.doors.numpy.protocol")
    Tensor.__array_ufunc__ = protocol.array_ufunc  # type: ignore[method-assign]
    Tensor.__array_function__ = protocol.array_function  # type: ignore[method-assign]


def leaving(what: str, transform: str) -> str:
    """The message for a value that would silently become a constant."""
    return imported("adjoint.doors.numpy.refusals").of_number(what, transform)


def no_array(why: str) -> str:
    """The message where NumPy asks for an array, and there is none."""
    return imported("adjoint.doors.numpy.refusals").of_array(why)


def make(value: Any, edge: Any = None) -> Tensor:
    """Wrap an array as a tensor, without a copy."""
    tensor = object.__new__(Tensor)
    tensor.value = value
    tensor.edge = edge
    tensor.counter = ZERO
    tensor.extra = None
    tensor.home = None
    return tensor


def is_plain(value: Any) -> bool:
    """Whether a value is a plain tensor: no subclass, no tensor of a home."""
    return type(value) is Tensor and value.home is None


def alias(tensor: Any, edge: Any = None) -> Tensor:
    """Another tensor on the same memory, with the same counter."""
    made = make(tensor.value, edge)
    counter = tensor.counter
    made.counter = own_counter(tensor) if counter is ZERO else counter
    return made


def _copied(array: Array, memo: dict[Any, Any]) -> Tensor:
    """A tensor on a copy of an array's memory, which all tensors of one deep copy share."""
    flat, offset = storage_of(array)
    memory = (address(flat), flat.size, array.dtype)
    if memory not in memo:
        memo[memory] = make(flat.copy())
    made = alias(memo[memory])
    made.value = strided_view(made.value, array.shape, strides_in_elements(array), offset)
    return made


def data_of(tensor: Tensor) -> Tensor:
    """A plain tensor on the same memory, without history and with a counter of its own."""
    return alias(tensor) if tensor.is_inference() else make(tensor.value)


def _check_callable(hook: Any) -> None:
    if not callable(hook):
        raise TypeError(f"a hook must be callable, got {type(hook).__name__}")


def _of_class(kind: type, tensor: Tensor, home: Any) -> Tensor:
    """A new tensor in the user's class `kind`, or a meta tensor if it has no data."""
    if kind.class_home is not None:  # type: ignore[attr-defined]
        return tensor.as_subclass(kind)  # type: ignore[attr-defined]
    tensor.home = home
    return tensor


def _structure(tensor: Tensor) -> Any:
    """The home of sparse, nested and complex32 tensors; None for a tensor that is one array."""
    kind = type(tensor)
    return None if kind.class_home is kind.subclass_home else kind.class_home


def _rebuild(
    array: Array,
    requires_grad: bool,
    grad: Tensor | None,
    kind: type = Tensor,
    attributes: dict[str, Any] | None = None,
    home: Any = None,
) -> Tensor:
    tensor = _of_class(kind, make(array), home)
    vars(tensor).update(attributes or {})
    if requires_grad:
        tensor.edge = Leaf(tensor)
    if grad is not None:
        tensor.grad = grad
    return tensor


def native(array: Array) -> Array:
    """Return the array with a dtype of ours: native byte order, a supported type."""
    array = array if type(array) is np.ndarray else without_subclass(array)
    dtype = of(array.dtype)
    return array if array.dtype is dtype.np or array.dtype == dtype.np else array.astype(dtype.np)


def recording() -> bool:
    """Whether the tape is on in this thread."""
    return current().recording != 0
