"""Loops made of other loops: associative_scan and map."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from adjoint.core import pytrees
from adjoint.core.errors import ArgumentError, ShapeError
from adjoint.graph.control.arguments import arguments_of, tensors_like
from adjoint.graph.control.scan import scan
from adjoint.graph.control.staging import Flat
from adjoint.ops import operator as operators
from adjoint.transforms.annotations import R, T
from adjoint.transforms.dressing import Dress
from adjoint.transforms.vectorize import vmap


def associative_scan(fn: Callable[..., Any], elems: T, reverse: bool = False, axis: int = 0) -> T:
    """Return the running results of an associative function along an axis.

    `fn(a, b)` combines trees like `elems` whose tensors have any number of elements along `axis`,
    all of them at once. It is called about 2 log₂ n times for n elements, where a `scan` would take
    n steps.

    >>> import adjoint as ad
    >>> ad.associative_scan(ad.mul, ad.tensor([1.0, 2.0, 3.0, 4.0]))
    tensor([ 1.,  2.,  6., 24.])
    >>> ad.associative_scan(ad.maximum, ad.tensor([1.0, 3.0, 2.0]), reverse=True)
    tensor([3., 3., 2.])
    """
    tensors, structure, dress = arguments_of("associative_scan", elems, "elems")
    dims = [_dim(t, axis) for t in tensors]
    sizes = {int(t.shape[d]) for t, d in zip(tensors, dims, strict=True)}
    if len(sizes) != 1:
        raise ShapeError(
            f"associative_scan: elems must have one length along the axis {axis}, got "
            f"{sorted(sizes) or 'no tensors'}"
        )
    turn = lambda values: [v.flip(d) for v, d in zip(values, dims, strict=True)]
    steps = _PairwiseScan(fn, structure, dims, dress)
    found = turn(steps.run(turn(tensors))) if reverse else steps.run(tensors)
    return dress.result(pytrees.unflatten(structure, found))


def _dim(tensor: Any, axis: int) -> int:
    if not -tensor.ndim <= axis < tensor.ndim:
        raise ShapeError(f"associative_scan: axis={axis} for a tensor of {tensor.ndim} dimensions")
    return axis % tensor.ndim


class _PairwiseScan:
    """The recursion over pairs of neighbours.

    Pairs are combined, and the running results of the pairs are found in the same way: these are
    the results at odd places. The result at each even place combines the result before it with the
    place's own element.
    """

    def __init__(
        self, fn: Callable[..., Any], structure: Any, dims: list[int], dress: Dress
    ) -> None:
        self.fn, self.structure, self.dims, self.dress = fn, structure, dims, dress

    def run(self, elements: Flat) -> Flat:
        """The running results of the elements."""
        size = int(elements[0].shape[self.dims[0]])
        if size < 2:
            return elements
        odd = self.run(
            self._combined(
                self._every_second(elements, 0, size - 1), self._every_second(elements, 1, size)
            )
        )
        before = [o.narrow(d, 0, (size - 1) // 2) for o, d in self._along(odd)]
        later = self._combined(before, self._every_second(elements, 2, size)) if size > 2 else []
        even = [e.narrow(d, 0, 1) for e, d in self._along(elements)]
        if later:
            cat = operators.packet("cat")
            even = [cat([f, e], d) for f, e, d in zip(even, later, self.dims, strict=True)]
        return [self._woven(e, o, d) for e, o, d in zip(even, odd, self.dims, strict=True)]

    def _along(self, values: Flat) -> Any:
        return zip(values, self.dims, strict=True)

    def _every_second(self, values: Flat, start: int, stop: int) -> Flat:
        every = operators.packet("slice")
        return [every(v, d, start, stop, 2) for v, d in self._along(values)]

    def _combined(self, first: Flat, second: Flat) -> Flat:
        given = (self.dress.put_on(values) for values in (first, second))
        one, other = (pytrees.unflatten(self.structure, values) for values in given)
        told = "what the function returns"
        returned = self.fn(one, other)
        results = tensors_like("associative_scan", self.structure, returned, "elems", told)
        for result, value in zip(results, first, strict=True):
            if tuple(result.shape) != tuple(value.shape):
                raise ShapeError(
                    f"associative_scan: the function returned shape {tuple(result.shape)} for "
                    f"elements of shape {tuple(value.shape)}; it must combine them one by one"
                )
        return results

    def _woven(self, even: Any, odd: Any, dim: int) -> Any:
        """even₀, odd₀, even₁, odd₁, …"""
        count = int(odd.shape[dim])
        pairs = operators.packet("stack")([even.narrow(dim, 0, count), odd], dim + 1)
        woven = pairs.flatten(dim, dim + 1)
        if int(even.shape[dim]) == count:
            return woven
        return operators.packet("cat")([woven, even.narrow(dim, count, 1)], dim)


def map(f: Callable[..., R], xs: Any, *, batch_size: int | None = None) -> R:
    """Return `f(x)` for each x along the first dimension of `xs`, stacked.

    One x is computed after the other, in little memory; with `batch_size` so many at once, by
    `vmap`.

    >>> import adjoint as ad
    >>> ad.map(lambda x: (x**2).sum(), ad.tensor([[1.0, 2.0], [3.0, 4.0]]))
    tensor([ 5., 25.])
    """
    if batch_size is None:
        return scan(lambda carry, x: (carry, f(x)), (), xs)[1]
    if batch_size < 1:
        raise ArgumentError(f"map: batch_size must be at least 1, got {batch_size}")
    tensors, structure, dress = arguments_of("map", xs, "xs")
    one = dress.inside(f, structure)
    if not tensors or not all(t.ndim for t in tensors):
        raise ArgumentError("map: xs must hold tensors of at least one dimension")
    size = int(tensors[0].shape[0])
    whole = size // batch_size * batch_size

    def rows(start: int, length: int) -> Flat:
        return [t.narrow(0, start, length) for t in tensors]

    parts = []
    if whole or not size:
        count = whole // batch_size
        cut = [t.reshape((count, batch_size, *t.shape[1:])) for t in rows(0, whole)]
        batches = map(vmap(one), pytrees.unflatten(structure, cut))
        parts.append(pytrees.map(lambda y: y.flatten(0, 1), batches))
    if whole < size:
        parts.append(vmap(one)(pytrees.unflatten(structure, rows(whole, size - whole))))
    cat = operators.packet("cat")
    joined = parts[0] if len(parts) == 1 else pytrees.map(lambda *ys: cat(list(ys), 0), *parts)
    return dress.result(joined)
