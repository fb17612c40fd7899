"""Sparse tensors: COO, CSR, CSC, BSR and BSC.

A sparse tensor has two parts: a `Pattern`, integers that are known (structures/patterns.py), and
values, an ordinary tensor. So its home stands above all transforms: an operator on a sparse tensor
becomes a few operators on values, which grad, jvp, vmap, trace and the compiler see as any others.
It follows that derivatives of every order and in both modes exist without rules of their own, and
that the gradient of a sparse tensor has its pattern. To transforms it is a container (pytree) of
values.
What an operator does is in the column `layouts:` of its row: a function of decompositions/sparse/,
or a word (below) if it leaves zeros zero and runs on values alone; a row without it runs its
decomposition. The rest says so, and advises to_dense(). Sparse tensors have a class of their own,
since pytrees tell containers by their class, and fast functions tell plain tensors by theirs.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NoReturn

from adjoint.core import pytrees
from adjoint.core.dtypes import of
from adjoint.core.errors import (
    AdjointError,
    ArgumentError,
    DependsOnValues,
    GradError,
    InplaceError,
    ShapeError,
)
from adjoint.core.layouts import Layout, sparse_coo, sparse_csr
from adjoint.core.shapes import show
from adjoint.core.state import current
from adjoint.homes.meta import dummy
from adjoint.homes.structures import StructuredTensor
from adjoint.ops import binding, runtime
from adjoint.ops.operator import Operator, packet
from adjoint.structures import patterns
from adjoint.structures.invariants import names_of
from adjoint.structures.patterns import Pattern
from adjoint.tape import fitting
from adjoint.tensor import printing
from adjoint.tensor.home import Height, Home
from adjoint.tensor.nodes import ZERO
from adjoint.tensor.tensor import Tensor

# Words of the column `layouts`: an operator that maps 0 to 0 runs on the values; if it is linear,
# even on each of several values stored for one place. A third word, `makes`, says that the operator
# takes the names of sparse layouts.
VALUES, STORED = "values", "stored"


class SparseInterpreter(Home):
    """Runs operators on the parts of sparse tensors."""

    height = Height.SPARSE
    name = "sparse tensors"
    sees_all = True
    sums_in_place = True  # every holder of the gradient sees the sum, as with a dense one

    def plain_gradient(self, grad: Tensor) -> Tensor:
        return packet("_to_dense")(grad)

    def process(self, op: Operator, values: list[Any]) -> Any:
        rule = op.row.texts.get("layouts")
        if rule in (VALUES, STORED) and isinstance(values[0], SparseTensor):
            return _on_values(op, values, together=rule == VALUES)
        if rule and "." in rule:
            return binding.reference(rule, "decompositions", op.row, "layouts")(*values)
        if op.row.decompose:
            return binding.decomposition(op.row)(*values)
        raise ArgumentError(
            f"{op.name}: there is no rule for sparse tensors ({_layouts(values)}); convert them "
            "with to_dense()"
        )

    def process_inplace(
        self, op: Operator, functional: Callable[..., Any], values: list[Any], /
    ) -> Any:
        """Write to the values if the pattern stays, else take over the parts of the result."""
        count = op.positional
        target = values[0]
        keywords = dict(zip(op.schema.names[count:], values[count:], strict=True))
        result = functional(*values[:count], **keywords)
        if not isinstance(target, SparseTensor):
            return target.copy_(fitting.dense(result))
        if not isinstance(result, SparseTensor):
            raise InplaceError(
                f"{op.name}: the result is dense, and the tensor written to is {target.layout!r}; "
                f"use {op.name.removesuffix('_')}"
            )
        if tuple(result.shape) != tuple(target.shape):
            raise ShapeError(
                f"{op.name}: the result has shape {show(result.shape)}, but the tensor written to "
                f"has {show(target.shape)}"
            )
        if result.companion == target.companion:
            target.stored.copy_(result.stored)
        elif target.is_leaf and target.requires_grad and current().recording:
            raise InplaceError(
                f"{op.name}: a leaf that requires a gradient is written to; use no_grad()"
            )
        else:
            target.companion, target.stored = result.companion, result.stored.to(target.dtype)
        return target

    # -- what its tensors say --------------------------------------------------------------------

    def layout(self, tensor: Any) -> Layout:
        return tensor.companion.layout

    def array(self, tensor: Tensor) -> NoReturn:
        raise ArgumentError("a sparse tensor is no array; use to_dense(), or look at its values()")

    def strides(self, tensor: Tensor) -> NoReturn:
        raise ArgumentError("stride(): a sparse tensor has none; values().stride() has")

    def storage_offset(self, tensor: Tensor) -> int:
        return 0

    def is_contiguous(self, tensor: Tensor) -> bool:
        return True

    def check_numbers(self, what: str) -> None:
        raise ArgumentError(f"{what} of a sparse tensor: use to_dense() first")

    def check_leaves(self, tensor: Any, what: str) -> None:
        tensor.stored.check_leaves(what)

    def text(self, tensor: Any) -> str:
        return _text(tensor)

    def data(self, tensor: Any) -> Tensor:
        return assemble(tensor.companion, tensor.stored.data)

    def detach(self, tensor: Any) -> Tensor:
        return assemble(tensor.companion, tensor.stored.detach())

    def __reduce__(self) -> str:
        return "SPARSE_TENSORS"


SPARSE_TENSORS = SparseInterpreter()


def _layouts(values: list[Any]) -> str:
    flat = [v for value in values for v in (value if type(value) is list else [value])]
    return ", ".join(
        f"{v.layout!r} of {show(v.shape)}" for v in flat if isinstance(v, SparseTensor)
    )


def _on_values(op: Operator, values: list[Any], *, together: bool) -> Any:
    """Run an operator that maps 0 to 0 on the values of its first argument.

    With `together`, values at one place are added first.
    """
    if any(isinstance(v, SparseTensor) for v in values[1:]):
        raise ArgumentError(
            f"{op.name}: only the first argument may be sparse; convert the others with to_dense()"
        )
    tensor = values[0]
    if together and tensor.companion.is_coo:
        tensor = packet("_coalesce")(tensor)
    return assemble(tensor.companion, op.call([tensor.stored, *values[1:]]))


class SparseTensor(StructuredTensor):
    """A tensor that stores some of its elements, and their places."""

    __slots__ = ("stored",)

    companion: Pattern
    stored: Tensor  # the values, of the shape that the pattern asks for

    class_home = SPARSE_TENSORS

    def holding(self, values: Any) -> Any:
        """A sparse tensor of the same pattern."""
        return assemble(self.companion, values)

    def gradient(self, values: Any) -> Any:
        """The sparse tensor of a gradient of the values.

        Values at one place have one gradient, that of their sum, so the result is coalesced.
        """
        pattern, places = patterns.coalesced(self.companion)
        if pattern is not self.companion:
            chosen = patterns.representatives(places, pattern.nnz)
            values = packet("index_select")(values, 0, runtime.tensor_of(chosen))
        return assemble(pattern, values)

    def fitted(self, grad: Any) -> Any:
        """The gradient of the values, from a sparse or dense gradient of the tensor."""
        return packet("sparse_mask")(grad, self.detach()).stored

    @property
    def is_sparse(self) -> bool:  # type: ignore[override]
        return self.companion.layout is sparse_coo

    @property
    def is_sparse_csr(self) -> bool:  # type: ignore[override]
        return self.companion.layout is sparse_csr

    @property
    def is_meta(self) -> bool:
        return self.stored.is_meta

    @property
    def data(self) -> Tensor:
        """The same memory without history."""
        return SPARSE_TENSORS.data(self)

    @data.setter
    def data(self, other: Any) -> None:
        if not isinstance(other, SparseTensor):
            raise InplaceError(
                f".data of a tensor of {self.layout!r} is another sparse tensor, got a dense one; "
                "convert it with to_sparse()"
            )
        keeps_grad, taken = self.is_leaf and self.requires_grad, other.detach()
        self.companion, self.stored, self.value = other.companion, taken.stored, taken.value
        if keeps_grad:
            self.requires_grad_()

    def is_coalesced(self) -> bool:
        """Whether the coordinates of a COO tensor are sorted and appear once each."""
        if not self.companion.is_coo:
            raise ArgumentError(f"is_coalesced: takes a sparse_coo tensor, got {self.layout!r}")
        return self.companion.is_coalesced

    def sparse_dim(self) -> int:
        """Return the number of sparse dimensions."""
        return self.companion.sparse_dim

    def dense_dim(self) -> int:
        """Return the number of dense dimensions."""
        return self.companion.dense_dim

    def _nnz(self) -> int:
        """Return the number of stored elements, or blocks."""
        return self.companion.nnz

    def sparse_resize_(self, size: Any, sparse_dim: int, dense_dim: int) -> Tensor:
        """Change the shape in place: sizes may grow, and shrink where nothing is stored."""
        if (sparse_dim, dense_dim) != (self.sparse_dim(), self.dense_dim()) and self._nnz():
            raise ShapeError(
                "sparse_resize_: the numbers of sparse and dense dimensions can change only where "
                "nothing is stored; use sparse_resize_and_clear_"
            )
        if not self._nnz():
            return self.sparse_resize_and_clear_(size, sparse_dim, dense_dim)
        made: Any = packet("_sparse_coo_tensor_unsafe")(
            packet("_indices")(self), self.stored, tuple(size)
        )
        self.companion, self.value = made.companion, made.value
        return self

    def sparse_resize_and_clear_(self, size: Any, sparse_dim: int, dense_dim: int) -> Tensor:
        """Change the shape in place, and store nothing."""
        if not self.companion.is_coo:
            raise ArgumentError(f"sparse_resize_: takes a sparse_coo tensor, got {self.layout!r}")
        indices = packet("zeros")((sparse_dim, 0), dtype="int64")
        values = self.stored.new_zeros((0, *tuple(size)[sparse_dim:]))
        made: Any = packet("_sparse_coo_tensor_unsafe")(indices, values, tuple(size))
        if made.dense_dim() != dense_dim:
            raise ShapeError(
                f"sparse_resize_: {show(tuple(size))} has not {sparse_dim} sparse and {dense_dim} "
                "dense dimensions"
            )
        self.companion, self.stored, self.value = made.companion, made.stored, made.value
        return self

    def __reduce__(self) -> Any:
        if not self.is_leaf:
            raise GradError("only leaf tensors can be pickled or deep-copied: detach() first")
        return _again, (self.companion, self.stored.detach(), self.requires_grad, self.grad)

    def __deepcopy__(self, memo: dict[int, Any]) -> Tensor:
        if not self.is_leaf:
            raise GradError("only leaf tensors can be deep-copied: detach() first")
        made = _again(self.companion, self.stored.detach().clone(), self.requires_grad, self.grad)
        memo[id(self)] = made
        return made


def _again(pattern: Pattern, values: Tensor, requires_grad: bool, grad: Any) -> Tensor:
    made = assemble(pattern, values)
    if requires_grad:
        made.requires_grad_()
    if grad is not None:
        made.grad = grad
    return made


def assemble(pattern: Pattern, values: Tensor) -> Any:
    """The sparse tensor of a pattern and of values of the shape that it asks for."""
    if tuple(values.shape) != pattern.values_shape:
        raise AdjointError(
            f"{pattern.layout} of {show(pattern.shape)}: values of {show(values.shape)}, not "
            f"{show(pattern.values_shape)}"
        )
    return _holding(pattern, values, dummy(pattern.shape, values.dtype))


def _holding(pattern: Pattern, values: Any, value: Any) -> Any:
    tensor: Any = object.__new__(SparseTensor)
    tensor.home, tensor.extra, tensor.counter = SPARSE_TENSORS, None, ZERO
    tensor.companion, tensor.stored, tensor.value = pattern, values, value
    return tensor


# ---- sparse tensors in pytrees ------------------------------------------------------------------


def _flatten(tensor: Any) -> tuple[tuple[Any], Pattern]:
    return (tensor.stored,), tensor.companion


def _unflatten(pattern: Pattern, parts: Any) -> Any:
    (values,) = parts
    if not isinstance(values, Tensor):  # an axis of vmap, a specification: said of the values
        return _holding(pattern, values, None)
    if tuple(values.shape) != pattern.values_shape:
        raise DependsOnValues(
            f"a transform changed the shape of the values of a {pattern.layout} tensor from "
            f"{show(pattern.values_shape)} to {show(values.shape)}: vmap and Jacobians take and "
            "return values, from which the function makes the sparse tensor"
        )
    return assemble(pattern, values)


def is_all_coalesced(structure: pytrees.TreeDef) -> bool:
    """Whether no sparse tensor of a pytree has two values at one place."""
    if structure.kind is SparseTensor:
        return structure.data.is_coalesced or not structure.data.is_coo
    return all(c is pytrees.LEAF or is_all_coalesced(c) for c in structure.children)


def with_coalesced(tree: Any) -> Any:
    """The pytree with its sparse tensors coalesced."""

    def once(leaf: Any) -> Any:
        coo = type(leaf) is SparseTensor and leaf.companion.is_coo
        return packet("_coalesce")(leaf) if coo else leaf

    return pytrees.map(once, tree, is_leaf=lambda value: type(value) is SparseTensor)


pytrees.register(SparseTensor, _flatten, _unflatten, names=("values()",))


# ---- text ---------------------------------------------------------------------------------------


def _text(tensor: Any) -> str:
    """As PyTorch writes it: the parts, one below the other."""
    pattern, values = tensor.companion, tensor.stored
    names = ("indices",) if pattern.is_coo else names_of(pattern.layout)
    parts = [(n, i, of(i.dtype)) for n, i in zip(names, pattern.indices, strict=True)]
    if values.home is None:
        parts.append(("values", values.detach().array, values.dtype))
    suffixes = [f"size={tuple(pattern.shape)}", f"nnz={pattern.nnz}"]
    if values.dtype not in printing.obvious():
        suffixes.append(f"dtype={values.dtype}")
    suffixes.append(f"layout={pattern.layout!r}")
    if values.home is not None:
        suffixes.append(f"values inside {values.home.name}")
    elif tensor.grad_fn is not None:
        suffixes.append(f"grad_fn=<{tensor.grad_fn.name()}>")
    elif tensor.requires_grad:
        suffixes.append("requires_grad=True")
    return printing.format_parts(parts, suffixes, below=pattern.is_coo)
