"""Arguments that a traced function writes to: their new values are results of its graph, which the
caller copies back.
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Sequence
from dataclasses import field
from typing import Any

import numpy as np

from adjoint.core import pytrees
from adjoint.core.errors import InplaceError
from adjoint.core.pytrees import TreeDef
from adjoint.core.records import structure
from adjoint.core.shapes import show
from adjoint.core.source_lines import user_line
from adjoint.homes.arrays import ndarray
from adjoint.homes.held_numbers import HeldNumber
from adjoint.tensor.tensor import Tensor


@structure
class Written:
    """The result of a function, with the new values of the arguments that it wrote to."""

    result: Any
    values: list[Any]
    places: tuple[int, ...] = field(metadata={"static": True})  # of these arguments: (0, 2)
    # (leaf of the result, argument) for leaves that are these arguments: ((1, 0),)
    same: tuple[tuple[int, int], ...] = field(metadata={"static": True})

    def put_back(self, tensors: Sequence[Any]) -> Any:
        """Write the new values to the arguments, and return the result."""
        for place, value in zip(self.places, self.values, strict=True):
            tensors[place].copy_(value)
        leaves, structure = pytrees.flatten(self.result)
        for leaf, place in self.same:
            leaves[leaf] = tensors[place]
        return pytrees.unflatten(structure, leaves)


def watched(function: Callable[..., Any]) -> Callable[..., Any]:
    """A function that returns `Written` if it writes to its arguments."""

    def made(*args: Any, **keywords: Any) -> Any:
        leaves = [t for t in pytrees.leaves((args, keywords)) if isinstance(t, Tensor)]
        given = [t.value if isinstance(t, ndarray) else t for t in leaves]
        before = [(t.value, t.shape) for t in given]
        result = function(*args, **keywords)
        places = [
            place
            for place, (t, (value, _)) in enumerate(zip(given, before, strict=True))
            if t.value is not value and type(t) is not HeldNumber
        ]
        if not places:
            return result
        for place in places:
            _check_shape(given[place], before[place][1])
        numbers = {id(leaves[place]): place for place in places}
        same = [(n, numbers.get(id(v))) for n, v in enumerate(pytrees.leaves(result))]
        found = tuple((n, place) for n, place in same if place is not None)
        return Written(result, [given[p] for p in places], tuple(places), found)

    functools.update_wrapper(made, function, updated=())
    made.__name__ = getattr(function, "__name__", "f")
    return made


def _check_shape(tensor: Any, shape: Any) -> None:
    if tuple(tensor.shape) != tuple(shape):
        raise InplaceError(
            f"{user_line()}: an argument of shape {show(shape)} gets the shape "
            f"{show(tensor.shape)} in place, which a compiled function cannot do; return it"
        )


def places_in(outputs: TreeDef) -> tuple[int, ...]:
    """The positions of the arguments that a graph with these outputs writes to."""
    return dict(outputs.data)["places"] if outputs.kind is Written else ()


def share_memory(arrays: Sequence[Any], places: Sequence[int]) -> bool:
    """Whether an array that is written to may share memory with another argument."""
    return any(
        np.may_share_memory(arrays[place], other)
        for place in places
        for number, other in enumerate(arrays)
        if number != place
    )


def check_writable(arrays: Sequence[Any], places: Sequence[int]) -> None:
    """Raise if an array that is to be written is read-only."""
    for place in places:
        if not arrays[place].flags.writeable:
            raise InplaceError(
                "compile: the function changes an argument in place that may only be read; pass "
                "a copy of it"
            )
