"""Functions that take functions."""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Any

import numpy as np

from adjoint.core import pytrees
from adjoint.core.errors import ArgumentError
from adjoint.doors.numpy.conversion import Array
from adjoint.doors.numpy.dressing import dressed_like, made_like
from adjoint.doors.numpy.words import dims_of
from adjoint.homes.structures import undressed
from adjoint.tensor.tensor import Tensor
from adjoint.transforms.vectorize import vmap


def apply_along_axis(
    func1d: Callable[..., Any], axis: int, arr: Any, *args: Any, **keywords: Any
) -> Tensor:
    """A function of vectors, of all vectors along a dimension at once."""
    a = Array(arr)
    (d,) = dims_of(axis, a.ndim)
    moved = a.movedim(d, -1)
    left = moved.shape[:-1]
    rows = moved.reshape((-1, moved.shape[-1]))
    found = vmap(lambda row: Array(func1d(dressed_like(arr, row), *args, **keywords)))(rows)
    found = found.reshape((*left, *found.shape[1:]))
    for i in range(found.ndim - len(left)):
        found = found.movedim(len(left) + i, d + i)
    return made_like(arr, found)


def apply_over_axes(func: Callable[..., Any], a: Any, axes: Any) -> Tensor:
    """A function of an array and a dimension, for one dimension after the other."""
    result = Array(a)
    for axis in axes if isinstance(axes, (tuple, list)) else (axes,):
        found = Array(func(dressed_like(a, result), axis))
        result = found if found.ndim == result.ndim else found.unsqueeze(axis)
    return dressed_like(a, result)


def vectorize(
    pyfunc: Callable[..., Any], otypes: Any, doc: Any, excluded: Any, cache: bool, signature: Any
) -> Callable[..., Any]:
    """A function of numbers as one of arrays, which broadcast against one another.

    A signature such as "(n,m),(m)->(n)" makes it one of matrices and vectors.
    """
    kept: frozenset[Any] = frozenset(excluded or ())

    def vectorized(*args: Any, **keywords: Any) -> Any:
        places = [i for i in range(len(args)) if i not in kept]
        arrays = [Array(args[i]) for i in places]
        inner = _inner_dims(signature, len(arrays))
        if any(a.ndim < n for a, n in zip(arrays, inner, strict=True)):
            raise ArgumentError(
                f"vectorize: {signature} needs arrays of at least {inner} dimensions, got "
                f"{[a.ndim for a in arrays]}"
            )
        outer = [tuple(a.shape[: a.ndim - n]) for a, n in zip(arrays, inner, strict=True)]
        shape = np.broadcast_shapes(*outer)

        def of_elements(*elements: Tensor) -> Any:
            given = list(args)
            for i, element in zip(places, elements, strict=True):
                given[i] = dressed_like(args[i], element)
            return pytrees.map(undressed, pyfunc(*given, **keywords))

        if not shape:
            return pytrees.map(lambda v: made_like(args[places[0]], v), of_elements(*arrays))
        tails = [a.shape[a.ndim - n :] for a, n in zip(arrays, inner, strict=True)]
        found = vmap(of_elements)(
            *(a.expand([*shape, *t]).reshape([-1, *t]) for a, t in zip(arrays, tails, strict=True))
        )
        like = args[places[0]]
        return pytrees.map(lambda v: made_like(like, v.reshape((*shape, *v.shape[1:]))), found)

    vectorized.__name__ = getattr(pyfunc, "__name__", "vectorized")
    vectorized.__doc__ = doc or pyfunc.__doc__
    return vectorized


def _inner_dims(signature: str | None, count: int) -> list[int]:
    """How many dimensions of each argument the function itself gets: [2, 1] of "(n,m),(m)->(n)"."""
    if signature is None:
        return [0] * count
    inputs = re.findall(r"\(([^()]*)\)", signature.partition("->")[0])
    if len(inputs) != count:
        raise ArgumentError(f"vectorize: {signature} is of {len(inputs)} arrays, got {count}")
    return [len([name for name in names.split(",") if name.strip()]) for names in inputs]
