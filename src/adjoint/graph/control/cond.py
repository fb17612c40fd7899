"""Branches on data: cond and switch.

On tensors with values a branch is Python's own, and derivatives go through the operators that ran.
Inside `ad.trace` it becomes a node with graphs of its own (cond_region.py). Under `vmap`, if the
condition differs between samples, both branches run, and each sample takes its result.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from adjoint.calls.methods import as_tensor
from adjoint.core import pytrees
from adjoint.core.dtypes import INTEGER
from adjoint.core.errors import ArgumentError
from adjoint.graph.control import cond_region
from adjoint.graph.control.arguments import (
    arguments_of,
    call_pure,
    fresh,
    predicate,
    tensors_like,
    tensors_of,
)
from adjoint.graph.control.staging import Flat
from adjoint.homes.structures import undressed
from adjoint.transforms.annotations import R


def cond(pred: Any, true_fn: Callable[..., R], false_fn: Callable[..., R], *operands: Any) -> R:
    """Return `true_fn(*operands)` if `pred` holds, else `false_fn(*operands)`.

    Both must return the same structure and types. A single tuple or list is one operand, as in JAX;
    where the functions take as many arguments as it has items, it is these, as in PyTorch.

    >>> import adjoint as ad
    >>> safe = lambda x: ad.cond(x > 0, ad.sqrt, ad.zeros_like, x)
    >>> safe(ad.tensor(4.0)), ad.grad(safe)(0.0), ad.vmap(safe)(ad.tensor([-1.0, 9.0]))
    (tensor(2.), tensor(0.), tensor([0., 3.]))
    """
    if len(operands) == 1 and isinstance(operands[0], (tuple, list)):
        operands = _operands_in(operands[0], true_fn, false_fn)
    if isinstance(pred, (bool, np.bool_)):
        return (true_fn if pred else false_fn)(*operands)
    chosen = predicate("cond", pred)
    tensors, structure, dress = arguments_of("cond", operands, "operands")
    returned: list[Any] = []

    def branch(function: Callable[..., Any]) -> Callable[[Flat], Flat]:
        def run(values: Flat) -> Flat:
            given = pytrees.unflatten(structure, dress.put_on(values))
            result = call_pure("cond", function, values, *given)
            if returned:
                told = "the second function must return what the first does; its result"
                return tensors_like("cond", returned[0], result, "result", told)
            leaves, got = tensors_of("cond", result, "result")
            returned.append(got)
            return leaves

        return run

    found = cond_region.cond_flat(
        chosen,
        branch(true_fn),
        branch(false_fn),
        tensors,
        lambda: pytrees.paths(returned[0], "result"),
    )
    return dress.result(pytrees.unflatten(returned[0], fresh(found, tensors)))


def _operands_in(items: Any, *functions: Callable[..., Any]) -> tuple[Any, ...]:
    """The operands in a single tuple or list: its items, if all functions take that many."""
    return tuple(items) if all(_takes(f, len(items)) for f in functions) else (items,)


def _takes(function: Callable[..., Any], count: int) -> bool:
    """Whether a function has exactly `count` positional arguments without a default."""
    try:
        parameters = inspect.signature(function).parameters.values()
    except (TypeError, ValueError):
        return False
    plain = (inspect.Parameter.POSITIONAL_ONLY, inspect.Parameter.POSITIONAL_OR_KEYWORD)
    return count == sum(p.kind in plain and p.default is p.empty for p in parameters)


def switch(index: Any, branches: Sequence[Callable[..., R]], *operands: Any) -> R:
    """Return `branches[index](*operands)`; an index outside is taken as the nearest inside.

    All branches must return the same structure and types.

    >>> import adjoint as ad
    >>> f = lambda i, x: ad.switch(i, (ad.sin, ad.exp, lambda x: x**2), x)
    >>> f(2, ad.tensor(3.0)), ad.grad(f, argnums=1)(ad.tensor(1), 0.0)
    (tensor(9.), tensor(1.))
    >>> ad.vmap(f, in_axes=(0, None))(ad.tensor([-5, 2]), ad.tensor(0.0))
    tensor([0., 0.])
    """
    functions = list(branches)
    if not functions or not all(map(callable, functions)):
        raise ArgumentError("switch: branches must be functions, at least one")
    if isinstance(index, (int, np.integer)) and not isinstance(index, bool):
        return functions[min(max(int(index), 0), len(functions) - 1)](*operands)
    place = as_tensor(undressed(index))
    if place.ndim or place.dtype.category != INTEGER:
        raise ArgumentError(
            f"switch: the index must be one whole number, got {place.dtype.name} of shape "
            f"{tuple(place.shape)}"
        )

    def choose(low: int, high: int) -> Callable[..., Any]:
        """The branch among those from `low` to `high` - 1: halves, so that few are asked for."""
        if high - low == 1:
            return functions[low]
        middle = (low + high) // 2
        return lambda *given: cond(
            place < middle, choose(low, middle), choose(middle, high), *given
        )

    return choose(0, len(functions))(*operands)
