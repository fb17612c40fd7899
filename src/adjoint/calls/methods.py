"""Methods and functions that no row can describe: construction, `to`, `backward`, `equal`."""

from __future__ import annotations

from typing import Any

import numpy as np

from adjoint.calls import gradients
from adjoint.core.devices import COUNTS, CPU, META, Device, existing_device
from adjoint.core.dtypes import DType, complex32, complex64, of, to_dtype
from adjoint.core.errors import ArgumentError, GradError, NoData
from adjoint.core.layouts import PRESERVE, format_number
from adjoint.core.state import current
from adjoint.homes.complex32 import chalf
from adjoint.homes.levels import created
from adjoint.homes.meta import meta_tensor
from adjoint.homes.structures import undressed
from adjoint.ops import arguments
from adjoint.ops import operator as operators
from adjoint.ops.runtime import NUMBER_TYPES
from adjoint.tensor import notebook
from adjoint.tensor.construct import common_dtype, is_followed, tensor_from_data
from adjoint.tensor.nodes import mark_inference
from adjoint.tensor.tensor import Offer, Tensor, make, native


def tensor(
    data: Any,
    *,
    dtype: Any = None,
    device: Any = None,
    requires_grad: bool = False,
    pin_memory: bool = False,
) -> Tensor:
    """Make a tensor from numbers, nested lists or an array; the data is copied.

    Memory is never pinned, whatever `pin_memory` says: there is no device to copy it to.

    >>> import adjoint as ad
    >>> ad.tensor([[1.0, 2.0], [3.0, 4.0]])
    tensor([[1., 2.],
            [3., 4.]])
    """
    place = device_of("tensor", device)
    if type(data) in NUMBER_TYPES and isinstance(data, Tensor):
        return as_tensor(data, dtype)
    data = undressed(data)
    wanted = None if dtype is None else to_dtype(dtype)
    if wanted is complex32:
        made = chalf(tensor(data, dtype=complex64, device=device))
        return made.requires_grad_() if requires_grad else made
    array = tensor_from_data(_detached(data), wanted)
    on_meta = place is META
    made = meta_tensor(array.shape, of(array.dtype)) if on_meta else mark_inference(make(array))
    return made.requires_grad_() if requires_grad else created(made)


def _detached(data: Any) -> Any:
    return data.detach() if isinstance(data, Tensor) else data


def as_tensor(data: Any, dtype: Any = None, device: Any = None) -> Tensor:
    """Return `data` as a tensor, sharing memory and history where it is one already, or an
    array. A list of tensors that are differentiated is stacked.

    >>> import adjoint as ad
    >>> ad.as_tensor([1, 2])
    tensor([1, 2])
    """
    keeps = device is None and isinstance(data, Tensor)
    if not keeps and device_of("as_tensor", device) is META:
        return as_tensor(data, dtype, CPU).to(META)
    if type(data) in NUMBER_TYPES and isinstance(data, Tensor):  # a number that a transform follows
        return data.in_dtype(None if dtype is None else to_dtype(dtype))  # type: ignore[attr-defined]
    if isinstance(data, Tensor):
        data = undressed(data)
        return data if dtype is None or data.dtype is to_dtype(dtype) else data.to(to_dtype(dtype))
    if isinstance(data, np.ndarray) and (dtype is None or of(data.dtype) is to_dtype(dtype)):
        return mark_inference(make(native(data)))
    if isinstance(data, (list, tuple)) and is_followed(data):
        return _stacked(data, common_dtype(data, None if dtype is None else to_dtype(dtype)))
    return tensor(data, dtype=dtype)


def _stacked(data: Any, dtype: DType) -> Tensor:
    """Nested lists of tensors and numbers as one tensor, with the history of all of them."""
    if isinstance(data, (list, tuple, range)):
        return operators.packet("stack").function([_stacked(v, dtype) for v in data])
    return as_tensor(data, dtype)


def asarray(
    obj: Any,
    *,
    dtype: Any = None,
    device: Any = None,
    copy: bool | None = None,
    requires_grad: bool = False,
) -> Tensor:
    """Return `obj` as a tensor; `copy=True` always copies, `copy=False` never does.

    >>> import adjoint as ad
    >>> ad.asarray([1.0, 2.0], dtype=ad.float64)
    tensor([1., 2.], dtype=ad.float64)
    """
    shared = as_tensor(obj, dtype, device)
    same = isinstance(obj, Tensor) or (isinstance(obj, np.ndarray) and shared.value is obj)
    if copy is False and not (same and (dtype is None or shared.dtype is to_dtype(dtype))):
        raise ArgumentError("asarray(copy=False): the data cannot be shared without a copy")
    made = shared.clone() if copy and same else shared
    return made.requires_grad_() if requires_grad and made.edge is None else made


def from_numpy(array: Any) -> Tensor:
    """Wrap a NumPy array as a tensor on the same memory.

    >>> import adjoint as ad
    >>> import numpy as np
    >>> array = np.zeros(2)
    >>> x = ad.from_numpy(array)
    >>> array[0] = 5.0
    >>> x
    tensor([5., 0.], dtype=ad.float64)
    """
    if not isinstance(array, np.ndarray):
        raise TypeError(f"from_numpy needs a NumPy array, got {type(array).__name__}")
    return mark_inference(make(native(array)))


def device_of(what: str, device: Any) -> Device:
    """The device of a new tensor, CPU or META: the named one, or the default."""
    chosen = current().default_device if device is None else device
    return META if chosen is not None and existing_device(what, chosen).type == "meta" else CPU


def backward(
    self: Tensor,
    gradient: Any = None,
    retain_graph: bool | None = None,
    create_graph: bool = False,
    inputs: Any = None,
) -> None:
    """Accumulate the gradient of this tensor in the leaves it depends on."""
    if self.home is not None:
        self.home.check_backward()
    gradients.backward(self, gradient, retain_graph, create_graph, inputs)


def to(self: Tensor, *args: Any, **keywords: Any) -> Tensor:
    """Convert to a dtype, a device, those of another tensor, or a memory format.

    The tensor itself where nothing changes, unless `copy` is set.
    """
    keywords = dict(keywords)
    copy = keywords.pop("copy", False)
    keywords.pop("non_blocking", None)
    wanted_format = keywords.pop("memory_format", None)
    dtype, device = keywords.pop("dtype", None), keywords.pop("device", None)
    if keywords:
        raise ArgumentError(f"to() has no argument {next(iter(keywords))!r}")
    for value in args:
        if isinstance(value, Tensor):
            dtype = value.dtype
        elif isinstance(value, bool):
            copy = copy or value
        elif isinstance(value, int) or str(value).partition(":")[0] in COUNTS:
            device = value
        elif value is not None:
            dtype = value
    if device is not None and existing_device("to", device).type == "meta":
        return meta_tensor(self.shape, self.dtype if dtype is None else to_dtype(dtype))
    if device is not None and self.is_meta:
        raise NoData(
            f"to({str(device)!r}): a meta tensor has a shape and no data; make a tensor with "
            "ad.empty_like(x, device='cpu'), or a module with to_empty()"
        )
    wanted = self.dtype if dtype is None else to_dtype(dtype)
    if wanted is complex32 and self.dtype is not wanted:
        return chalf(self, wanted_format)
    number = None if wanted_format is None else format_number("to", wanted_format)
    if wanted is not self.dtype:
        return operators.packet("_to_copy").function(self, dtype=wanted, memory_format=number)
    if number in (None, PRESERVE):
        return self.clone() if copy else self
    wanted_order: Any = number  # it may be the number of a memory format, too
    return (
        self.clone(memory_format=wanted_order)
        if copy
        else self.contiguous(memory_format=wanted_order)
    )


def astype(self: Tensor, dtype: Any, *, copy: bool = True) -> Tensor:
    """Convert to a dtype, under NumPy's name; a copy even if it is the same, unless told."""
    return self.to(to_dtype(dtype), copy=copy)


def copy(self: Tensor) -> Tensor:
    """Return a copy, under NumPy's name for `clone`."""
    return self.clone()


def conjugate(self: Tensor) -> Tensor:
    """Return the complex conjugate, under NumPy's longer name."""
    return self.conj()


def dot(self: Tensor, tensor: Any) -> Tensor:
    """Return the sum of products of two vectors; with more dimensions, NumPy's product.

    >>> import adjoint as ad
    >>> a = ad.tensor([[1.0, 2.0], [3.0, 4.0]])
    >>> a[0].dot(a[1]), a.dot(a[0])
    (tensor(11.), tensor([ 5., 11.]))
    """
    ndim = getattr(tensor, "ndim", 0)
    if self.ndim == ndim == 1:
        return operators.packet("dot").function(self, tensor)
    if not self.ndim or not ndim:
        return self * tensor
    if ndim == 1 or (ndim == 2 and self.ndim <= 2):
        return self @ tensor
    return operators.packet("tensordot").function(self, tensor, [self.ndim - 1], [ndim - 2])


def transpose(self: Tensor, *axes: Any, **keywords: Any) -> Tensor:
    """Exchange two dimensions; with none of them, or with all, NumPy's permutation.

    >>> import adjoint as ad
    >>> x = ad.zeros(2, 3, 4)
    >>> x.transpose(0, 1).shape, x.transpose().shape, x.transpose(1, 2, 0).shape
    ((3, 2, 4), (4, 3, 2), (3, 4, 2))
    """
    if len(axes) == 2 or keywords:
        return operators.packet("transpose").function(self, *axes, **keywords)
    if len(axes) == 1 and isinstance(axes[0], (tuple, list)):
        axes = tuple(axes[0])
    if not axes or axes == (None,):
        axes = tuple(range(self.ndim))[::-1]
    return self.permute(axes)


def new_tensor(
    self: Tensor,
    data: Any,
    *,
    dtype: Any = None,
    device: Any = None,
    requires_grad: bool = False,
    layout: Any = None,
    pin_memory: bool = False,
) -> Tensor:
    """Make a tensor of this one's dtype, on its device, from data."""
    wanted = self.dtype if dtype is None else dtype
    place = self.device if device is None else device
    made = tensor(data, dtype=wanted, device=place, requires_grad=requires_grad)
    return made if self.home is None else self.home.of_class(self, made)


def cpu(self: Tensor, memory_format: Any = None) -> Tensor:
    """Return the tensor itself: it lives on the CPU."""
    return self.to("cpu", memory_format=memory_format)


def cuda(self: Tensor, device: Any = None, non_blocking: bool = False) -> Tensor:
    """Move the tensor to NVIDIA's device, which is not here: says so."""
    return self.to("cuda" if device is None else device)


def xpu(self: Tensor, device: Any = None, non_blocking: bool = False) -> Tensor:
    """Move the tensor to Intel's device, which is not here: says so."""
    return self.to("xpu" if device is None else device)


def get_device(self: Tensor) -> int:
    """Return the number of the device, -1 for the CPU.

    >>> import adjoint as ad
    >>> ad.get_device(ad.ones(2))
    -1
    """
    return -1


def is_same_size(self: Tensor, other: Tensor) -> bool:
    """Whether two tensors have the same shape.

    >>> import adjoint as ad
    >>> ad.is_same_size(ad.ones(2, 3), ad.zeros(2, 3))
    True
    """
    return self.shape == other.shape


def is_nonzero(self: Tensor) -> bool:
    """Whether the one element is not 0.

    >>> import adjoint as ad
    >>> ad.is_nonzero(ad.tensor([2.0]))
    True
    """
    return bool(self)


def is_set_to(self: Tensor, tensor: Tensor) -> bool:
    """Whether two tensors are the same elements of the same memory."""
    return (
        self.data_ptr() == tensor.data_ptr()
        and self.shape == tensor.shape
        and self.stride() == tensor.stride()
    )


def is_pinned(self: Tensor, device: Any = None) -> bool:
    """Whether the memory is pinned for copies to other devices: it never is."""
    return False


def pin_memory(self: Tensor, device: Any = None) -> Tensor:
    """Return the tensor itself: there is no other device to copy it to."""
    return self


def dim_order(self: Tensor) -> tuple[int, ...]:
    """Return the dimensions from the outermost in memory to the innermost."""
    strides = self.stride()
    return tuple(sorted(range(self.ndim), key=lambda i: -strides[i]))


def apply_(self: Tensor, callable: Any) -> Tensor:
    """Replace each element by what a Python function makes of it; slow, and not differentiated."""
    values = [callable(v) for v in self.detach().reshape(-1).tolist()]
    return _overwritten(self, values)


def map_(self: Tensor, tensor: Tensor, callable: Any) -> Tensor:
    """Replace each element by what a Python function makes of it and of one of another tensor."""
    other = tensor.expand(self.shape).reshape(-1).tolist()
    values = list(map(callable, self.detach().reshape(-1).tolist(), other))
    return _overwritten(self, values)


def map2_(self: Tensor, x: Tensor, y: Tensor, callable: Any) -> Tensor:
    """Replace each element by what a Python function makes of it and of two other tensors."""
    others = [t.expand(self.shape).reshape(-1).tolist() for t in (x, y)]
    values = list(map(callable, self.detach().reshape(-1).tolist(), *others))
    return _overwritten(self, values)


def _overwritten(target: Tensor, values: list[Any]) -> Tensor:
    if target.requires_grad:
        raise GradError("a Python function of elements is not differentiated: detach() first")
    made = tensor(values, dtype=target.dtype)
    return target.copy_(made.reshape(target.shape))


def to_sparse_coo(self: Tensor) -> Tensor:
    """Return the tensor as a sparse one of coordinates."""
    return self.to_sparse()


def resize_as_(self: Tensor, the_template: Tensor, *, memory_format: Any = None) -> Tensor:
    """Change the shape to that of another tensor, in place, with more memory if needed.

    >>> import adjoint as ad
    >>> ad.resize_as_(ad.arange(6), ad.ones(2, 2))
    tensor([[0, 1],
            [2, 3]])
    """
    return self.resize_(the_template.shape)


def equal(self: Tensor, other: Tensor) -> bool:
    """Whether two tensors have the same shape and elements.

    >>> import adjoint as ad
    >>> ad.equal(ad.tensor([1, 2]), ad.tensor([1, 2]))
    True
    """
    return self.shape == other.shape and bool((self.detach() == other.detach()).array.all())


def allclose(
    self: Tensor, other: Tensor, rtol: float = 1e-5, atol: float = 1e-8, equal_nan: bool = False
) -> bool:
    """Whether |self - other| <= atol + rtol |other| everywhere.

    >>> import adjoint as ad
    >>> ad.allclose(ad.tensor([1.0]), ad.tensor([1.0 + 1e-7]))
    True
    """
    return bool(operators.packet("isclose")(self, other, rtol, atol, equal_nan).all().item())


def result_type(*operands: Any) -> DType:
    """Return the dtype that an operator on these tensors and numbers would give.

    >>> import adjoint as ad
    >>> ad.result_type(ad.tensor([1, 2]), 1.0)
    ad.float32
    """
    return arguments.common_dtype(operands)


def is_tensor(obj: Any) -> bool:
    """Whether `obj` is a tensor.

    >>> import adjoint as ad
    >>> ad.is_tensor(ad.ones(1)), ad.is_tensor([1.0])
    (True, False)
    """
    return isinstance(obj, Tensor)


def is_inference(tensor: Tensor) -> bool:
    """Whether a tensor was made in `inference_mode`.

    >>> import adjoint as ad
    >>> with ad.inference_mode():
    ...     x = ad.ones(2)
    >>> ad.is_inference(x)
    True
    """
    return tensor.is_inference()


def numel(self: Tensor) -> int:
    """Return the number of elements.

    >>> import adjoint as ad
    >>> ad.numel(ad.ones(2, 3))
    6
    """
    return self.numel()


def tensor_of(value: Any) -> Tensor:
    """Make a tensor of a number or array given where an operator wants a tensor.

    Later writes to an array go unnoticed, so it is copied if the tape or a transform may keep it.
    `as_tensor` and `from_numpy` share memory, as documented.
    """
    if not isinstance(value, np.ndarray):
        return make(np.asarray(tensor_from_data(value)))
    array, now = native(value), current()
    return make(array.copy() if array is value and (now.recording or now.levels) else array)


def directory(self: Tensor) -> list[str]:
    """The attributes of a tensor, operators of the table among them."""
    offered = {n for n, method in vars(Tensor).items() if type(method) is Offer}
    sometimes = (*Tensor.__slots__, "materialize")  # the latter of tensors without a shape
    absent = {name for name in sometimes if not hasattr(self, name)}
    own = set(object.__dir__(self)) - offered - absent
    return sorted(own | {n for n in operators.TABLE.methods() if not n.startswith("_")})


def install() -> None:
    """Put the methods on the tensor class."""
    methods: tuple[Any, ...] = (
        backward, to, astype, conjugate, copy, dot, transpose, new_tensor, equal, allclose,
        cpu, cuda, xpu, get_device, is_pinned, pin_memory,
        is_same_size, is_nonzero, is_set_to, dim_order, apply_, map_, map2_,
        to_sparse_coo, resize_as_,
    )  # fmt: skip
    for method in methods:
        setattr(Tensor, method.__name__, method)
    Tensor.__dir__ = directory  # type: ignore[method-assign]
    Tensor._repr_html_ = notebook.page  # type: ignore[attr-defined]
