"""Arguments of transforms: choosing by `argnums`, flattening, making tensors of them."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Sequence
from operator import index
from typing import Any

import numpy as np

from adjoint.calls.methods import as_tensor
from adjoint.core import pytrees
from adjoint.core.errors import ArgumentError, DtypeError
from adjoint.core.pytrees import LEAF, TreeDef
from adjoint.core.storage import is_duck_array
from adjoint.homes.sparse import is_all_coalesced, with_coalesced
from adjoint.homes.structures import StructuredTensor
from adjoint.ops import operator as operators
from adjoint.ops.arguments import from_elsewhere
from adjoint.ops.runtime import NUMBER_TYPES
from adjoint.tensor.tensor import Tensor
from adjoint.transforms.dressing import PLAIN, Dress, dress_of, tensor_under

Argnums = int | str | Sequence[int | str]


def chosen(
    what: str,
    f: Callable[..., Any],
    argnums: Argnums,
    args: tuple[Any, ...],
    keywords: dict[str, Any],
) -> tuple[list[int | str], bool]:
    """The arguments that `argnums` names, and whether the user gave a sequence.

    An argument is named by its position, or by its name if it was passed by name.
    """
    several = isinstance(argnums, Sequence) and not isinstance(argnums, str)
    numbers: Any = argnums if several else [argnums]
    found = [_place(f, number, args, keywords) for number in numbers]
    if None in found:
        given = f"{len(args)} arguments"
        if keywords:
            given += f" and {', '.join(keywords)}"
        raise ArgumentError(f"{what}: argnums={argnums!r} but the function was called with {given}")
    places = [p for p in found if p is not None]
    if len(set(places)) != len(places):
        raise ArgumentError(f"{what}: argnums={argnums!r} names an argument twice")
    return places, several


def _place(
    f: Callable[..., Any], number: Any, args: tuple[Any, ...], keywords: dict[str, Any]
) -> int | str | None:
    """The position or the name under which an argument was passed; None if it was not passed."""
    if isinstance(number, str):
        if number in keywords:
            return number
        names = _names(f)[: len(args)]
        return names.index(number) if number in names else None
    number = index(number)
    if -len(args) <= number < len(args):
        return number % len(args)
    name = dict(enumerate(_names(f))).get(number)
    return name if name in keywords else None


def _names(f: Callable[..., Any]) -> list[str]:
    """The names of arguments that may be given by position."""
    kinds = (inspect.Parameter.POSITIONAL_ONLY, inspect.Parameter.POSITIONAL_OR_KEYWORD)
    try:
        return [p.name for p in inspect.signature(f).parameters.values() if p.kind in kinds]
    except (TypeError, ValueError):  # builtins may have no signature
        return []


def to_tensor(what: str, value: Any, path: str, integers: bool = False) -> Tensor:
    """A leaf of a differentiated argument as a tensor with a differentiable dtype.

    With `integers` other dtypes are allowed.
    """
    if not isinstance(value, Tensor) and is_duck_array(value):
        value = np.asarray(value)
    if not isinstance(value, (Tensor, np.ndarray, np.generic, int, float, complex)) or (
        isinstance(value, bool) and not integers
    ):
        raise ArgumentError(
            f"{what}: {path} must be a tensor, an array or a number, got {type(value).__name__}"
            f"{from_elsewhere(value)}"
        )
    tensor = tensor_under(value)
    if not (integers or tensor.is_differentiable_dtype()):
        raise DtypeError(
            f"{what}: {path} is {tensor.dtype.name}, which has no derivative; convert it to a "
            "floating point dtype"
        )
    return tensor


def is_variable(value: Any) -> bool:
    """Whether this is a plain differentiable tensor, usable as a variable without conversion."""
    return (
        isinstance(value, Tensor)
        and type(value) not in NUMBER_TYPES
        and not isinstance(value, StructuredTensor)
        and value.is_differentiable_dtype()
    )


def flattened(tree: Any) -> tuple[list[Any], TreeDef]:
    """The leaves of a pytree to be differentiated: one value for each place of a sparse tensor."""
    leaves, structure = pytrees.flatten(tree)
    return (
        (leaves, structure)
        if is_all_coalesced(structure)
        else pytrees.flatten(with_coalesced(tree))
    )


def matched(what: str, structure: TreeDef, tree: Any, name: str) -> list[Any]:
    """The leaves of a pytree, which must have the given structure, in its order."""
    leaves, got = flattened(tree)
    if got == structure:
        return leaves
    return flattened(pytrees.like(structure, tree, what=what, root=name))[0]


def flatten(
    what: str, tree: Any, name: str, integers: bool = False
) -> tuple[list[Tensor], TreeDef, Dress]:
    """The leaves of a pytree as differentiable tensors, its structure, and how they were given."""
    if is_variable(tree):
        return [tree], LEAF, PLAIN
    leaves, structure = flattened(tree)
    if all(map(is_variable, leaves)):
        return leaves, structure, PLAIN
    paths = pytrees.paths(structure, name)
    tensors = [to_tensor(what, v, p, integers) for v, p in zip(leaves, paths, strict=True)]
    return tensors, structure, dress_of(leaves, numbers=True)


def flatten_output(what: str, output: Any) -> tuple[list[Any], TreeDef]:
    """The leaves of a function's output, each a tensor or a number, and its structure."""
    if isinstance(output, Tensor) and not isinstance(output, StructuredTensor):
        return [output], LEAF
    leaves, structure = flattened(output)
    for number, leaf in enumerate(leaves):
        if not isinstance(leaf, (Tensor, np.ndarray, np.generic, int, float, complex)):
            path = pytrees.paths(structure, "output")[number]
            raise ArgumentError(f"{what}: {path} must be a tensor, got {type(leaf).__name__}")
    return [tensor_under(v) if isinstance(v, Tensor) else as_tensor(v) for v in leaves], structure


def flat_function(
    what: str,
    f: Callable[..., Any],
    argnums: Argnums,
    args: tuple[Any, ...],
    keywords: dict[str, Any],
    integers: bool = False,
) -> tuple[list[Any], TreeDef, Callable[..., Any], Dress]:
    """The chosen arguments as flat tensors, their structure, `f` as a function of these tensors,
    and their dress.
    """
    if argnums == 0 and len(args) == 1 and is_variable(args[0]):  # the most common call
        return [args[0]], LEAF, f if not keywords else lambda x: f(x, **keywords), PLAIN
    places, several = chosen(what, f, argnums, args, keywords)
    trees = tuple([args[p] if isinstance(p, int) else keywords[p] for p in places])
    inputs, structure, dress = flatten(what, trees if several else trees[0], "argument", integers)

    def flat(*variables: Any) -> Any:
        tree = pytrees.unflatten(structure, dress.put_on(variables))
        given, named = list(args), dict(keywords)
        for place, value in zip(places, tree if several else (tree,), strict=True):
            if isinstance(place, int):
                given[place] = value
            else:
                named[place] = value
        return dress.call(f, given, named)

    return inputs, structure, flat, dress


def zero_tangent(primal: Any) -> Any:
    """Zeros like a tensor, for a rule that needs an absent tangent."""
    return operators.packet("zeros_like")(primal.detach()) if isinstance(primal, Tensor) else None
