"""How elements are stored: the layouts of tensors, and memory formats of strided tensors.

Both are names with PyTorch's spelling, as devices are, so `x.layout == "strided"` holds as well as
`x.layout is ad.strided`. Operators take PyTorch's number of a memory format.
"""

from __future__ import annotations

from typing import Any

from adjoint.core.errors import ArgumentError, ValueRangeError


class Layout(str):
    """The layout of a tensor: how its elements are kept.

    >>> strided, strided == "strided", to_layout("to_sparse", "ad.sparse_coo") is sparse_coo
    (ad.strided, True, True)
    """

    __slots__ = ()

    def __repr__(self) -> str:
        return f"ad.{self}"

    def __reduce__(self) -> Any:
        return to_layout, ("unpickling", str(self))


strided = Layout("strided")  # elements at a fixed distance along each dimension
sparse_coo = Layout("sparse_coo")  # elements with their coordinates
sparse_csr = Layout("sparse_csr")
sparse_csc = Layout("sparse_csc")
sparse_bsr = Layout("sparse_bsr")
sparse_bsc = Layout("sparse_bsc")
jagged = Layout("jagged")  # rows of different lengths, one after the other

LAYOUTS: dict[str, Layout] = {
    layout: layout
    for layout in (strided, sparse_coo, sparse_csr, sparse_csc, sparse_bsr, sparse_bsc, jagged)
}


def to_layout(what: str, value: Any) -> Layout:
    """Return the layout that a user means: ours, PyTorch's, or a name."""
    name = str(value).rpartition(".")[2]
    if name not in LAYOUTS:
        known = ", ".join(repr(layout) for layout in LAYOUTS.values())
        raise ArgumentError(f"{what}: there is no layout {value!r}; use one of {known}")
    return LAYOUTS[name]


class MemoryFormat(str):
    """The order in which the elements of a strided tensor lie in memory.

    >>> channels_last, format_number("clone", channels_last), format_number("clone", None)
    (ad.channels_last, 2, 1)
    """

    __slots__ = ()

    def __repr__(self) -> str:
        return f"ad.{self}"

    def __reduce__(self) -> Any:
        return named_format, (str(self),)


contiguous_format = MemoryFormat("contiguous_format")
preserve_format = MemoryFormat("preserve_format")
channels_last = MemoryFormat("channels_last")
channels_last_3d = MemoryFormat("channels_last_3d")

# PyTorch's numbers, and the formats that put the dimensions in another order in memory, outermost
# first.
CONTIGUOUS, PRESERVE, CHANNELS_LAST, CHANNELS_LAST_3D = range(4)
FORMATS: dict[str, MemoryFormat] = {
    form: form for form in (contiguous_format, preserve_format, channels_last, channels_last_3d)
}
NUMBERS: dict[str, int] = {form: number for number, form in enumerate(FORMATS)}
ORDERS: dict[int, tuple[int, ...]] = {
    CHANNELS_LAST: (0, 2, 3, 1),
    CHANNELS_LAST_3D: (0, 2, 3, 4, 1),
}


def named_format(name: str) -> MemoryFormat:
    """Return the memory format called `name`."""
    return FORMATS[name]


def format_number(what: str, memory_format: Any) -> int:
    """Return the number of a memory format: of a number, a name, or None (preserve)."""
    if memory_format is None:
        return PRESERVE
    if type(memory_format) is int:
        number: int | None = memory_format if memory_format in NUMBERS.values() else None
    else:
        number = NUMBERS.get(str(memory_format).rpartition(".")[2])
    if number is None:
        known = ", ".join(repr(form) for form in FORMATS.values())
        raise ValueRangeError(
            f"{what}: there is no memory format {memory_format!r}; use one of {known}."
        )
    return number
