"""Arguments and results of branches and loops: pytrees of tensors, arrays and numbers, checked."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from adjoint.calls.methods import as_tensor
from adjoint.core import pytrees
from adjoint.core.errors import ArgumentError, InplaceError, ShapeError
from adjoint.core.pytrees import TreeDef
from adjoint.core.source_lines import show_place
from adjoint.graph.control.staging import Flat
from adjoint.homes.arrays import ndarray
from adjoint.homes.held_numbers import HeldNumber
from adjoint.homes.structures import undressed
from adjoint.tensor.nodes import version
from adjoint.tensor.tensor import Tensor
from adjoint.transforms.dressing import PLAIN, Dress, dress_of


def arguments_of(what: str, tree: Any, root: str, *, beside: Any = None) -> tuple[Flat, Any, Dress]:
    """(tensors of the leaves, structure, dress: how the leaves were given).

    If a leaf of `tree`, or of the other argument `beside`, is a NumPy array, Python numbers are
    doubles.
    """
    leaves, structure = pytrees.flatten(tree)
    if not any(map(_is_array, (*leaves, *pytrees.leaves(beside)))):
        return *tensors_of(what, tree, root), PLAIN
    leaves = [np.asarray(v)[()] if isinstance(v, (float, complex)) else v for v in leaves]
    tensors, _ = tensors_of(what, pytrees.unflatten(structure, leaves), root)
    return tensors, structure, dress_of([None if type(v) is HeldNumber else v for v in leaves])


def _is_array(value: Any) -> bool:
    return isinstance(value, (np.ndarray, ndarray))


def tensors_of(what: str, tree: Any, root: str) -> tuple[Flat, Any]:
    """The leaves of a pytree as tensors, and the structure of the pytree."""
    leaves, structure = pytrees.flatten(tree)
    for leaf, path in zip(leaves, pytrees.paths(structure, root), strict=True):
        if not isinstance(leaf, (Tensor, np.ndarray, np.generic, bool, int, float, complex)):
            raise ArgumentError(
                f"{what}: {path} must be a tensor, an array or a number, got {type(leaf).__name__}"
            )
    return [as_tensor(undressed(v)) for v in leaves], structure


def tensors_like(what: str, structure: TreeDef, tree: Any, root: str, told: str) -> Flat:
    """The leaves of a pytree as tensors; the pytree must have the given structure."""
    leaves, got = tensors_of(what, tree, root)
    if got == structure:
        return leaves
    return tensors_of(what, pytrees.like(structure, tree, what=f"{what}: {told}", root=root), root)[
        0
    ]


def fresh(found: Flat, given: Flat) -> Flat:
    """Results with memory of their own, as in a graph: those that share memory are copied."""
    owners = [_owner(g) for g in given]
    return [f.clone() if any(_owner(f) is o for o in owners) else f for f in found]


def _owner(tensor: Any) -> Any:
    """The tensor that owns the memory of a tensor."""
    return tensor if tensor._base is None else tensor._base


def predicate(what: str, value: Any) -> Any:
    """A condition as a single bool."""
    if isinstance(value, (bool, np.bool_, int, float)):
        return as_tensor(bool(value))
    tensor = as_tensor(undressed(value))
    if tensor.numel() != 1:
        raise ShapeError(
            f"{what}: the condition must be one number or bool, got shape {tuple(tensor.shape)}; "
            "use .all() or .any()"
        )
    tensor = tensor.reshape(()) if tensor.ndim else tensor
    return tensor if tensor.dtype.name == "bool" else tensor.ne(0)


def call_pure(what: str, function: Callable[..., Any], given: Flat, *args: Any) -> Any:
    """Call a branch or a body, and raise if it writes to the tensors `given`.

    The next step, the stacked results and the caller still need them, and a graph would not write
    to them.
    """
    before = [version(t) for t in given]
    result = function(*args)
    for tensor, count in zip(given, before, strict=True):
        if version(tensor) != count:
            counter = tensor.counter
            raise InplaceError(
                f"{what}: the function changes its argument in place, by {counter.by} "
                f"({show_place(counter.place)}); clone() it first, or write c = c + x, say, "
                "in place of c += x"
            )
    return result
