"""The three maps of a convolution by oneDNN, where its library is installed (`adjoint[dnn]`).

`convolve`, `spread` and `correlate` write their result and return True, or False where oneDNN is
not installed, ADJOINT_ONEDNN=0 forbids it, or it has no such convolution. oneDNN's C interface is
called through ctypes. Primitives and memory descriptors for one kind of call are prepared once, as
a `PreparedCall`. oneDNN may want arrays in another order: they are then copied to and from a buffer
that all calls share, so one call runs at a time.
"""

from __future__ import annotations

import ctypes
import os
import warnings
from collections.abc import Callable, Sequence
from functools import lru_cache
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from adjoint.c_kernels.copies import contiguous
from adjoint.checks.convolution import Geometry
from adjoint.core.dtypes import bfloat16
from adjoint.core.lazy import Lazy
from adjoint.core.shapes import Shape, row_major
from adjoint.core.threads import follow, lock

if TYPE_CHECKING:
    from importlib import metadata
else:
    metadata = Lazy("importlib.metadata")

Array = np.ndarray[Any, Any]
Handle = ctypes.c_void_p
PACKAGE = "onednn-cpu-gomp"
FILE = "libdnnl.so.3"
FEW = 8  # channels of an image whose gradient oneDNN computes three times slower than native code

# Numbers of oneDNN's C interface, version 3 (dnnl_types.h).
_CPU, _IN_ORDER, _TRAINING, _DIRECT, _ANY_ORDER = 1, 1, 64, 1, 1
_DTYPES = {np.dtype(np.float32): 3, bfloat16.np: 2}
_LARGE, _WEIGHT, _BIAS, _SMALL = 1, 33, 41, 17  # arguments of a forward convolution
_OF = 128  # the gradient of an argument has its number and this
_DESCRIPTIONS = {_LARGE: 129, _WEIGHT: 131, _SMALL: 133}  # of an argument; of its gradient one more
_FROM, _TO = 1, 17  # arguments of a copy
_KINDS = ("primitive_desc", "memory_desc", "memory", "primitive")


class _ExecArgument(ctypes.Structure):
    """dnnl_exec_arg_t."""

    _fields_ = (("number", ctypes.c_int), ("memory", Handle))


class Refused(Exception):
    """oneDNN answered with a status that is not success."""


class OneDNN:
    """oneDNN's functions, and its engine and stream for the processor."""

    def __init__(self, path: str) -> None:
        self.functions = follow(ctypes.CDLL(path))
        self.functions.dnnl_primitive_desc_query_md.restype = Handle
        self.functions.dnnl_memory_desc_get_size.restype = ctypes.c_size_t
        self.engine = self.made("dnnl_engine_create", _CPU, ctypes.c_size_t(0))
        self.stream = self.made("dnnl_stream_create", self.engine, _IN_ORDER)
        self.lock = lock()
        self.room, self.address = np.empty(0, np.uint8), 0  # the shared buffer

    def call(self, name: str, *arguments: Any) -> None:
        """Call a function that returns a status."""
        status = getattr(self.functions, name)(*arguments)
        if status:
            raise Refused(f"{name} returned status {status}")

    def made(self, name: str, *arguments: Any) -> Handle:
        """The object that a function makes."""
        found = Handle()
        self.call(name, ctypes.byref(found), *arguments)
        return found

    def buffer(self, size: int) -> int:
        """The address of at least `size` bytes, on a line of the cache."""
        if self.room.size < size + 64:
            self.room = np.empty(size + 64, np.uint8)
            self.address = -(-self.room.ctypes.data // 64) * 64
        return self.address

    @property
    def version(self) -> str:
        number = self.functions.dnnl_version
        number.restype = ctypes.POINTER(ctypes.c_int * 3)
        return ".".join(map(str, number().contents))


@lru_cache(maxsize=1)
def library() -> OneDNN | None:
    """oneDNN, or None; decided once for a process."""
    if os.environ.get("ADJOINT_ONEDNN") == "0":
        return None
    try:
        files = metadata.distribution(PACKAGE).files or ()
    except metadata.PackageNotFoundError:
        return None
    path = next((str(f.locate()) for f in files if f.name == FILE), None)
    if path is None:
        return None
    try:
        return OneDNN(path)
    except (OSError, AttributeError, Refused) as error:
        warnings.warn(f"convolutions are computed without oneDNN: {error}", stacklevel=2)
        return None


# -- what is prepared once for a kind of call ------------------------------------------------------


class Descriptor(NamedTuple):
    """An array as oneDNN describes it."""

    shape: tuple[int, ...]
    steps: tuple[int, ...] | None  # between elements; None lets oneDNN choose
    dtype: np.dtype[Any]


def _layout(shape: Shape, strides: Shape, dtype: np.dtype[Any]) -> Descriptor:
    """The descriptor of an array; its strides must be positive, and no two elements may overlap."""
    steps = [stride // dtype.itemsize for stride in strides]
    sound = all(
        t > 0 and t * dtype.itemsize == stride
        for t, stride, size in zip(steps, strides, shape)
        if size > 1
    )
    if not sound:
        raise Refused(f"strides {strides}")
    return Descriptor(shape, tuple(steps), dtype)


def _numbers(values: Sequence[int]) -> Any:
    return (ctypes.c_int64 * len(values))(*values)


class _Objects:
    """Objects of oneDNN that live as long as the plan they are made for."""

    def __init__(self, lib: OneDNN) -> None:
        self.lib = lib
        self.owned: list[tuple[Any, Handle]] = []  # with the functions that end them

    def made(self, name: str, *arguments: Any) -> Handle:
        """The object that a function makes."""
        found = self.lib.made(name, *arguments)
        kind = next(k for k in _KINDS if k in name)
        self.owned.append((getattr(self.lib.functions, f"dnnl_{kind}_destroy"), found))
        return found

    def __del__(self) -> None:
        for destroy, found in reversed(self.owned):
            destroy(found)

    def description(self, layout: Descriptor) -> Handle:
        """The oneDNN descriptor of an array."""
        count, sizes, dtype = len(layout.shape), _numbers(layout.shape), _DTYPES[layout.dtype]
        if layout.steps is None:
            return self.made("dnnl_memory_desc_create_with_tag", count, sizes, dtype, _ANY_ORDER)
        steps = _numbers(layout.steps)
        return self.made("dnnl_memory_desc_create_with_strides", count, sizes, dtype, steps)

    def memory(self, description: Handle) -> Handle:
        """A place that arrays are put into later."""
        return self.made("dnnl_memory_create", description, self.lib.engine, None)

    def runner(
        self, described: Handle, arguments: Sequence[tuple[int, Handle]]
    ) -> Callable[[], None]:
        """Runs a primitive on memories."""
        run = self.made("dnnl_primitive_create", described)
        block = (_ExecArgument * len(arguments))(*(_ExecArgument(n, m) for n, m in arguments))
        execute = self.lib.functions.dnnl_primitive_execute
        count, stream = len(block), self.lib.stream

        def go() -> None:
            status = execute(run, stream, count, block)
            if status:
                raise RuntimeError(f"oneDNN could not run a convolution (status {status})")

        return go


class _Port:
    """One argument of a primitive: the user's array, and a copy of it where oneDNN wants one."""

    def __init__(self, made: _Objects, number: int, layout: Descriptor, described: Handle) -> None:
        self.number, self.made = number, made
        self.given = self.wanted = made.description(layout)
        functions = made.lib.functions
        query = _DESCRIPTIONS.get(number) or _DESCRIPTIONS.get(number - _OF, 0) + 1
        if number != _BIAS:
            self.wanted = Handle(functions.dnnl_primitive_desc_query_md(described, query, 0))
        self.memory = self.inner = made.memory(self.given)
        self.size = 0
        if not functions.dnnl_memory_desc_equal(self.wanted, self.given):
            self.inner = made.memory(self.wanted)
            self.size = -(-functions.dnnl_memory_desc_get_size(self.wanted) // 64) * 64

    def copy(self, *, out: bool) -> Callable[[], None]:
        """Copies the user's array to oneDNN's order, or back."""
        ends = [(self.given, self.memory), (self.wanted, self.inner)]
        (first, source), (second, target) = reversed(ends) if out else ends
        engine = self.made.lib.engine
        name = "dnnl_reorder_primitive_desc_create"
        described = self.made.made(name, first, engine, second, engine, None)
        return self.made.runner(described, ((_FROM, source), (_TO, target)))


class PreparedCall:
    """A prepared call: arrays are put in place, copied in, convolved, copied out."""

    def __init__(
        self, made: _Objects, described: Handle, arguments: dict[int, Descriptor], result: int
    ) -> None:
        self.made = made
        ports = [_Port(made, n, layout, described) for n, layout in arguments.items()]
        moved = [p for p in ports if p.size]
        self.memories = [p.memory for p in ports]
        self.inner = [(p.inner, p.size) for p in moved]
        self.size = sum(size for _, size in self.inner)
        self.place = 0  # address of the shared buffer when it was last used
        self.steps = [
            *(p.copy(out=False) for p in moved if p.number != result),
            made.runner(described, [(p.number, p.inner) for p in ports]),
            *(p.copy(out=True) for p in moved if p.number == result),
        ]

    def __call__(self, *arrays: Array) -> None:
        lib = self.made.lib
        put = lib.functions.dnnl_memory_set_data_handle
        with lib.lock:
            for memory, array in zip(self.memories, arrays, strict=True):
                put(memory, Handle(array.ctypes.data))
            place = lib.buffer(self.size) if self.size else 0
            if place != self.place:
                self.place = place
                for memory, size in self.inner:
                    put(memory, Handle(place))
                    place += size
            for step in self.steps:
                step()
            lib.functions.dnnl_stream_wait(lib.stream)


# -- the three maps --------------------------------------------------------------------------------


def _weight(sizes: Geometry, dtype: np.dtype[Any]) -> Descriptor:
    """The descriptor of row-major weights, with several groups as a dimension in front."""
    groups, (rows, *rest) = sizes.groups, sizes.weight
    shape = (rows, *rest) if groups == 1 else (groups, rows // groups, *rest)
    return Descriptor(shape, row_major(shape), dtype)


def _bias(sizes: Geometry, large: Descriptor) -> Descriptor:
    return Descriptor(sizes.small[1:2], (1,), large.dtype)


def _free(layout: Descriptor) -> Descriptor:
    """The layout that oneDNN computes with: channels last if the array is so, else its choice."""
    return layout if layout.steps and layout.steps[1] == 1 else layout._replace(steps=None)


def _how(sizes: Geometry) -> tuple[Any, ...]:
    """Strides, dilations (0 where neighbours meet) and padding on both sides."""
    after = [
        (n - 1) * s + r + 1 - b - p
        for n, s, r, b, p in zip(
            sizes.small[2:], sizes.stride, sizes.reach, sizes.large[2:], sizes.padding
        )
    ]
    dilation = [d - 1 for d in sizes.dilation]
    return tuple(map(_numbers, (sizes.stride, dilation, sizes.padding, after)))


@lru_cache(maxsize=256)
def _prepared(
    name: str, sizes: Geometry, large: Shape, small: Shape, dtype: np.dtype[Any], biased: bool
) -> PreparedCall | None:
    """The prepared call of a map for images with these strides; None if oneDNN lacks it."""
    lib = library()
    assert lib is not None
    try:
        layouts = _layout(sizes.large, large, dtype), _layout(sizes.small, small, dtype)
        return _MAKERS[name](_Objects(lib), sizes, *layouts, biased)
    except Refused:
        return None


def _forward(
    made: _Objects, sizes: Geometry, large: Descriptor, small: Descriptor, biased: bool
) -> tuple[Handle, tuple[Handle, ...]]:
    """A convolution, and its images and weight as oneDNN may choose to order them."""
    any_weight = _weight(sizes, large.dtype)._replace(steps=None)
    orders = tuple(map(made.description, (_free(large), any_weight, _free(small))))
    bias = made.description(_bias(sizes, large)) if biased else None
    described = made.made(
        "dnnl_convolution_forward_primitive_desc_create", made.lib.engine, _TRAINING, _DIRECT,
        *orders[:2], bias, orders[2], *_how(sizes), None,
    )  # fmt: skip
    return described, orders


def _convolving(
    made: _Objects, sizes: Geometry, large: Descriptor, small: Descriptor, biased: bool
) -> PreparedCall:
    described, _ = _forward(made, sizes, large, small, biased)
    arguments = {_LARGE: large, _WEIGHT: _weight(sizes, large.dtype), _SMALL: small}
    if biased:
        arguments[_BIAS] = _bias(sizes, large)
    return PreparedCall(made, described, arguments, _SMALL)


def _spreading(
    made: _Objects, sizes: Geometry, large: Descriptor, small: Descriptor, biased: bool
) -> PreparedCall:
    forward, orders = _forward(made, sizes, large, small, biased)
    described = made.made(
        "dnnl_convolution_backward_data_primitive_desc_create", made.lib.engine, _DIRECT, *orders,
        *_how(sizes), forward, None,
    )  # fmt: skip
    result, weight = _LARGE + _OF, _weight(sizes, large.dtype)
    return PreparedCall(
        made, described, {_SMALL + _OF: small, _WEIGHT: weight, result: large}, result
    )


def _correlating(
    made: _Objects, sizes: Geometry, large: Descriptor, small: Descriptor, biased: bool
) -> PreparedCall:
    forward, orders = _forward(made, sizes, large, small, biased)
    described = made.made(
        "dnnl_convolution_backward_weights_primitive_desc_create", made.lib.engine, _DIRECT,
        *orders[:2], None, orders[2], *_how(sizes), forward, None,
    )  # fmt: skip
    result, weight = _WEIGHT + _OF, _weight(sizes, large.dtype)
    return PreparedCall(
        made, described, {_LARGE: large, _SMALL + _OF: small, result: weight}, result
    )


_MAKERS = {"convolve": _convolving, "spread": _spreading, "correlate": _correlating}


def _plan_for(
    name: str, sizes: Geometry, large: Array, small: Array, *, biased: bool
) -> PreparedCall | None:
    if library() is None or large.dtype not in _DTYPES or large.ndim > 5:
        return None
    if not (large.size and small.size and large.flags.aligned and small.flags.aligned):
        return None
    return _prepared(name, sizes, large.strides, small.strides, large.dtype, biased)


def convolve(
    large: Array, weight: Array, bias: Array | None, sizes: Geometry, small: Array
) -> bool:
    """Write `small`, with the bias of each channel added; whether oneDNN could."""
    plan = _plan_for("convolve", sizes, large, small, biased=bias is not None)
    if plan is None:
        return False
    plan(large, contiguous(weight), small, *(() if bias is None else (contiguous(bias),)))
    return True


def spread(small: Array, weight: Array, bias: Array | None, sizes: Geometry, large: Array) -> bool:
    """Write `large`, with the bias of each channel added; whether oneDNN could, and fast."""
    if sizes.groups == 1 and sizes.large[1] < FEW:
        return False
    plan = _plan_for("spread", sizes, large, small, biased=False)
    if plan is None:
        return False
    plan(small, contiguous(weight), large)
    if bias is not None:
        large += bias.reshape((-1, *(1,) * (large.ndim - 2)))
    return True


def correlate(large: Array, small: Array, sizes: Geometry, weight: Array) -> bool:
    """Write `weight`; whether oneDNN could."""
    plan = _plan_for("correlate", sizes, large, small, biased=False)
    if plan is None:
        return False
    plan(large, small, weight)
    return True
