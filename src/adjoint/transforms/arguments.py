"""Arguments of transforms: choosing by `argnums`, flattening, making tensors of them."""

from __future__ import annotations

import functools
from collections.abc import Callable, Sequence
from operator import index
from typing import Any

import numpy as np

from adjoint.core import pytrees
from adjoint.core.errors import ArgumentError, DtypeError
from adjoint.core.pytrees import LEAF, TreeDef
from adjoint.ops import operator as operators
from adjoint.ops.runtime import NUMBER_TYPES
from adjoint.tensor.methods import as_tensor, tensor_of
from adjoint.tensor.sparse import is_settled, settled
from adjoint.tensor.structures import StructuredTensor
from adjoint.tensor.tensor import Tensor

Argnums = int | Sequence[int]


def chosen(what: str, argnums: Argnums, args: tuple[Any, ...]) -> tuple[list[int], bool]:
    """The positions that `argnums` names, and whether the user gave several."""
    several = isinstance(argnums, Sequence)
    numbers = [index(n) for n in argnums] if isinstance(argnums, Sequence) else [index(argnums)]
    count = len(args)
    for number in numbers:
        if not -count <= number < count:
            raise ArgumentError(
                f"{what}: argnums={argnums} but the function was called with {count} arguments"
            )
    wrapped = [n % count for n in numbers]
    if len(set(wrapped)) != len(wrapped):
        raise ArgumentError(f"{what}: argnums={argnums} names an argument twice")
    return wrapped, several


def to_tensor(what: str, value: Any, path: str) -> Tensor:
    """A leaf of a differentiated argument as a tensor of a dtype that has derivatives."""
    if not isinstance(value, (Tensor, np.ndarray, np.generic, int, float, complex)) or isinstance(
        value, bool
    ):
        raise ArgumentError(
            f"{what}: {path} must be a tensor, an array or a number, got {type(value).__name__}"
        )
    if isinstance(value, np.ndarray):
        tensor = tensor_of(value)
    else:
        tensor = as_tensor(float(value) if isinstance(value, int) else value)
    if not tensor.is_differentiable_dtype():
        raise DtypeError(
            f"{what}: {path} is {tensor.dtype.name}, which has no derivative; convert it to a "
            "floating point dtype"
        )
    return tensor


def is_variable(value: Any) -> bool:
    """Whether this is a tensor that can be differentiated in as it is."""
    return (
        isinstance(value, Tensor)
        and type(value) not in NUMBER_TYPES
        and not isinstance(value, StructuredTensor)
        and value.is_differentiable_dtype()
    )


def flattened(tree: Any) -> tuple[list[Any], TreeDef]:
    """The leaves of a pytree to be differentiated: one value for each place of a sparse tensor."""
    leaves, structure = pytrees.flatten(tree)
    return (leaves, structure) if is_settled(structure) else pytrees.flatten(settled(tree))


def matched(what: str, structure: TreeDef, tree: Any, name: str) -> list[Any]:
    """The leaves of a pytree in the order of a structure that it must have."""
    leaves, got = flattened(tree)
    if got == structure:
        return leaves
    return flattened(pytrees.like(structure, tree, what=what, root=name))[0]


def flatten(what: str, tree: Any, name: str) -> tuple[list[Tensor], TreeDef]:
    """The leaves of a pytree as differentiable tensors, and its structure."""
    if is_variable(tree):
        return [tree], LEAF
    leaves, structure = flattened(tree)
    if not all(map(is_variable, leaves)):
        paths = pytrees.paths(structure, name)
        leaves = [to_tensor(what, v, p) for v, p in zip(leaves, paths, strict=True)]
    return leaves, structure


def flatten_output(what: str, output: Any) -> tuple[list[Any], TreeDef]:
    """The leaves of what a function returned; each must be a tensor or a number."""
    if isinstance(output, Tensor) and not isinstance(output, StructuredTensor):
        return [output], LEAF
    leaves, structure = flattened(output)
    for number, leaf in enumerate(leaves):
        if not isinstance(leaf, (Tensor, np.ndarray, np.generic, int, float, complex)):
            path = pytrees.paths(structure, "output")[number]
            raise ArgumentError(f"{what}: {path} must be a tensor, got {type(leaf).__name__}")
    return [as_tensor(v) for v in leaves], structure


def replaced(args: tuple[Any, ...], positions: list[int], values: Sequence[Any]) -> tuple[Any, ...]:
    """`args` with other values at some positions."""
    new = list(args)
    for position, value in zip(positions, values, strict=True):
        new[position] = value
    return tuple(new)


def keeps_signature(
    function: Callable[..., Any], made: Callable[..., Any], name: str
) -> Callable[..., Any]:
    """Give a transformed function the name and signature of the original."""
    if not callable(function):
        raise ArgumentError(f"{name}: needs a function, got {type(function).__name__}")
    functools.update_wrapper(
        made, function, updated=()
    )  # `inspect.signature` follows `__wrapped__`
    made.__name__ = f"{name}({getattr(function, '__name__', 'f')})"
    return made


def zero_tangent(primal: Any) -> Any:
    """Zeros like a tensor, where a rule wants a tangent that is not there."""
    return operators.packet("zeros_like")(primal.detach()) if isinstance(primal, Tensor) else None
