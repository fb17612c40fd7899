"""Sparse tensors, with PyTorch's names: constructors, and functions of `torch.sparse`.

The functions are rows of doors/torch/sparse.txt, the constructors are `ad`'s.

The indices of a sparse tensor are known, its values are a tensor that may be differentiated:

    >>> import adjoint as ad
    >>> indices, B = ad.tensor([[0, 1, 1], [2, 0, 2]]), ad.ones(3, 2)
    >>> f = lambda v: ad.sparse.mm(ad.sparse_coo_tensor(indices, v, (2, 3)), B).sum()
    >>> ad.grad(f)(ad.tensor([3.0, 4.0, 5.0]))
    tensor([2., 2., 2.])
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from adjoint import ops
from adjoint.calls.methods import as_tensor
from adjoint.core.dtypes import DType, int64, to_dtype
from adjoint.core.errors import ArgumentError, ShapeError
from adjoint.core.layouts import Layout, sparse_bsc, sparse_bsr, sparse_csc, sparse_csr, to_layout
from adjoint.core.shapes import show
from adjoint.doors.torch import all_of
from adjoint.structures.patterns import BLOCKED, BY_COLUMNS
from adjoint.tensor.tensor import Tensor

Size = Sequence[int] | None


class check_sparse_tensor_invariants:  # noqa: N801 - PyTorch spells it so
    """Whether constructors check what they are given. Ours always do, since the structure of a
    sparse tensor is checked once and never again; the switch is PyTorch's.

    >>> import adjoint as ad
    >>> with ad.sparse.check_sparse_tensor_invariants():
    ...     ad.sparse.check_sparse_tensor_invariants.is_enabled()
    True
    """

    def __init__(self, enable: bool = True) -> None:
        """`enable=False` changes nothing."""

    @staticmethod
    def is_enabled() -> bool:
        """Always True."""
        return True

    @staticmethod
    def enable() -> None:
        """Nothing to do: invariants are checked."""

    @staticmethod
    def disable() -> None:
        """Nothing to do: a structure that was not checked could not be trusted."""

    def __enter__(self) -> check_sparse_tensor_invariants:
        return self

    def __exit__(self, *error: object) -> None:
        return None

    def __call__(self, function: Any) -> Any:
        return function


def _made(made: Tensor, requires_grad: bool) -> Tensor:
    return made.detach().requires_grad_() if requires_grad else made


def _values(values: Any, dtype: Any) -> Tensor:
    return as_tensor(values, None if dtype is None else to_dtype(dtype))


def sparse_coo_tensor(
    indices: Any,
    values: Any = None,
    size: Size = None,
    *,
    dtype: Any = None,
    device: Any = None,
    pin_memory: bool = False,
    requires_grad: bool = False,
    check_invariants: bool | None = None,
    is_coalesced: bool | None = None,
) -> Tensor:
    """Make a sparse tensor from coordinates, one column for each element, and values.

    Values at equal coordinates are added up. Without `size` it is the smallest that holds all; with
    a size alone nothing is stored.

    >>> import adjoint as ad
    >>> ad.sparse_coo_tensor([[0, 1, 1], [2, 0, 2]], [3.0, 4.0, 5.0], (2, 3)).to_dense()
    tensor([[0., 0., 3.],
            [4., 0., 5.]])
    """
    if values is None:
        sizes = tuple(indices if size is None else size)
        places, found = ops.zeros((len(sizes), 0), dtype=int64), ops.zeros((0,), dtype=dtype)
        return _made(ops._sparse_coo_tensor_unsafe(places, found, sizes), requires_grad)
    found = _values(values, dtype)
    places = as_tensor(indices)
    places = places.to(int64) if not places.numel() else places
    if places.ndim == 1 and found.ndim == 0:
        places, found = places.unsqueeze(-1), found.unsqueeze(0)
    sizes = _smallest(places, found) if size is None else tuple(size)
    made = ops._sparse_coo_tensor_unsafe(
        places, found, sizes, is_coalesced=is_coalesced, device=device
    )
    return _made(made, requires_grad)


def _smallest(indices: Tensor, values: Tensor) -> tuple[int, ...]:
    if indices.ndim != 2:
        raise ShapeError(f"sparse_coo_tensor: indices must be a matrix, got {show(indices.shape)}")
    array = indices.detach().array
    return (*(int(row.max()) + 1 if row.size else 0 for row in array), *values.shape[1:])


def sparse_compressed_tensor(
    compressed_indices: Any,
    plain_indices: Any,
    values: Any,
    size: Size = None,
    *,
    dtype: Any = None,
    layout: Any = None,
    device: Any = None,
    pin_memory: bool = False,
    requires_grad: bool = False,
    check_invariants: bool | None = None,
) -> Tensor:
    """Make a tensor of a compressed layout: where each row (or column) starts, and what it holds.

    >>> import adjoint as ad
    >>> parts = [0, 1, 3], [1, 0, 1], [1.0, 2.0, 3.0]
    >>> ad.sparse_compressed_tensor(*parts, (2, 2), layout=ad.sparse_csr).to_dense()
    tensor([[0., 1.],
            [2., 3.]])
    """
    if layout is None:
        raise ArgumentError("sparse_compressed_tensor: say which layout=, ad.sparse_csr for one")
    chosen = to_layout("sparse_compressed_tensor", layout)
    first, second = as_tensor(compressed_indices), as_tensor(plain_indices)
    found = _values(values, dtype)
    sizes = _least_size(chosen, first, second, found) if size is None else tuple(size)
    made = ops.sparse_compressed_tensor(first, second, found, sizes, layout=chosen, device=device)
    return _made(made, requires_grad)


def _least_size(
    layout: Layout, compressed: Tensor, plain: Tensor, values: Tensor
) -> tuple[int, ...]:
    """The smallest matrices that hold these indices."""
    batch = compressed.ndim - 1
    blocked = layout in BLOCKED
    height, width = values.shape[batch + 1 : batch + 3] if blocked else (1, 1)
    major = compressed.shape[-1] - 1
    array = plain.detach().array
    minor = int(array.max()) + 1 if array.size else 0
    rows, columns = (minor, major) if layout in BY_COLUMNS else (major, minor)
    dense = values.shape[batch + (3 if blocked else 1) :]
    return (*compressed.shape[:-1], rows * height, columns * width, *dense)


def _compressed(layout: Layout, parts: tuple[Any, ...], options: dict[str, Any]) -> Tensor:
    asked = options.pop("layout", layout)
    if to_layout(f"{layout}_tensor", asked) is not layout:
        raise ArgumentError(f"{layout}_tensor: layout={asked!r} is another one")
    return sparse_compressed_tensor(*parts, layout=layout, **options)


def sparse_csr_tensor(
    crow_indices: Any, col_indices: Any, values: Any, size: Size = None, **options: Any
) -> Tensor:
    """Make a tensor of compressed rows; options as those of `sparse_compressed_tensor`.

    >>> import adjoint as ad
    >>> ad.sparse_csr_tensor([0, 1, 3], [1, 0, 1], [1.0, 2.0, 3.0], (2, 2)).to_dense()
    tensor([[0., 1.],
            [2., 3.]])
    """
    parts = crow_indices, col_indices, values, size
    return _compressed(sparse_csr, parts, options)


def sparse_csc_tensor(
    ccol_indices: Any, row_indices: Any, values: Any, size: Size = None, **options: Any
) -> Tensor:
    """Make a tensor of compressed columns; options as those of `sparse_compressed_tensor`.

    >>> import adjoint as ad
    >>> ad.sparse_csc_tensor([0, 1, 2], [1, 0], [5.0, 6.0], (2, 2)).to_dense()
    tensor([[0., 6.],
            [5., 0.]])
    """
    parts = ccol_indices, row_indices, values, size
    return _compressed(sparse_csc, parts, options)


def sparse_bsr_tensor(
    crow_indices: Any, col_indices: Any, values: Any, size: Size = None, **options: Any
) -> Tensor:
    """Make a tensor of compressed rows of blocks; `values` holds the blocks.

    >>> import adjoint as ad
    >>> ad.sparse_bsr_tensor([0, 1], [0], ad.ones(1, 2, 2), (2, 2)).to_dense()
    tensor([[1., 1.],
            [1., 1.]])
    """
    parts = crow_indices, col_indices, values, size
    return _compressed(sparse_bsr, parts, options)


def sparse_bsc_tensor(
    ccol_indices: Any, row_indices: Any, values: Any, size: Size = None, **options: Any
) -> Tensor:
    """Make a tensor of compressed columns of blocks; `values` holds the blocks.

    >>> import adjoint as ad
    >>> ad.sparse_bsc_tensor([0, 1], [0], ad.ones(1, 2, 2), (2, 2)).to_dense()
    tensor([[1., 1.],
            [1., 1.]])
    """
    parts = ccol_indices, row_indices, values, size
    return _compressed(sparse_bsc, parts, options)


# ---- functions ----------------------------------------------------------------------------------


def spmm(mat1: Tensor, mat2: Tensor) -> Tensor:
    """Multiply a sparse matrix by a dense one, by its old name: `ad.spmm`.

    >>> import adjoint as ad
    >>> ad.spmm(ad.eye(2).to_sparse(), ad.ones(2, 1))
    tensor([[1.],
            [1.]])
    """
    return ops.mm(mat1, mat2)


def _summed(input: Tensor, dim: Any, dtype: DType | None) -> Tensor:
    keywords = {} if dtype is None else {"dtype": dtype}
    return ops._sparse_sum(*([input] if dim is None else [input, dim]), **keywords)


_WORDS = {
    "DType": DType,
    "Layout": Layout,
    "as_tensor": as_tensor,
    "check_sparse_tensor_invariants": check_sparse_tensor_invariants,
    "summed": _summed,
}

__getattr__, __dir__ = all_of(globals(), "sparse.txt", _WORDS)
