"""scan: a loop over the items of tensors. In a graph it is one node (scan_region.py)."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from adjoint.core import pytrees
from adjoint.core.errors import ArgumentError, ShapeError
from adjoint.graph.control import scan_region
from adjoint.graph.control.arguments import arguments_of, call_pure, fresh, tensors_like, tensors_of
from adjoint.graph.control.staging import Flat


def scan(
    f: Callable[..., Any],
    init: Any,
    xs: Any = None,
    length: int | None = None,
    reverse: bool = False,
    unroll: int | bool = 1,
) -> tuple[Any, Any]:
    """Run `carry, y = f(carry, x)` for each x of `xs`; return the last carry and all y, stacked.

    `xs` is a pytree of tensors with the same first dimension. With `reverse` the last x comes
    first; each y stays at the place of its x. Without `xs`, `length` says how often. In a graph the
    loop is one node; `unroll` writes so many steps out in each turn, or all if it is True.

    >>> import adjoint as ad
    >>> ad.scan(lambda total, x: (total + x, total * x), 0.0, ad.tensor([1.0, 2.0, 3.0]))
    (tensor(6.), tensor([0., 2., 9.]))
    """
    start, structure, dress = arguments_of("scan", init, "carry", beside=xs)
    scanned, x_structure, x_dress = arguments_of("scan", xs, "xs", beside=init)
    count = _length(scanned, pytrees.paths(x_structure, "xs"), length)
    y_structure: Any = None

    def step(_: Flat, carry: Flat, x: Flat) -> tuple[Flat, Flat]:
        nonlocal y_structure
        args = (
            pytrees.unflatten(structure, dress.put_on(carry)),
            pytrees.unflatten(x_structure, x_dress.part_of(x)),
        )
        returned = call_pure("scan", f, [*carry, *x], *args)
        if not (isinstance(returned, tuple) and len(returned) == 2):
            raise ArgumentError("scan: the function must return a pair (carry, y); y may be None")
        told = "what the function returns beside the carry"
        if y_structure is None:
            y, y_structure = tensors_of("scan", returned[1], "y")
        else:
            y = tensors_like("scan", y_structure, returned[1], "y", told)
        told = "the carry that the function returns"
        return tensors_like("scan", structure, returned[0], "carry", told), y

    paths = lambda: pytrees.paths(structure, "carry")
    found = scan_region.unrolled(
        step, start, scanned, count, reverse, _per_turn(unroll, count), paths
    )
    carry = fresh(found[: len(start)], [*start, *scanned])
    results = (
        pytrees.unflatten(structure, carry),
        pytrees.unflatten(y_structure, found[len(start) :]),
    )
    return (dress if dress.make_result else x_dress).result(results)


def _per_turn(unroll: Any, count: int) -> int:
    """The steps in one iteration of the loop."""
    if unroll is True:
        return max(count, 1)
    if unroll is False:
        return 1
    if not isinstance(unroll, int) or unroll < 1:
        raise ArgumentError(f"scan: unroll must be a number from 1 on or a bool, got {unroll!r}")
    return min(unroll, max(count, 1))


def _length(xs: Flat, paths: list[str], length: int | None) -> int:
    sizes: dict[int, str] = {}
    for x, path in zip(xs, paths, strict=True):
        if not x.ndim:
            raise ShapeError(f"scan: {path} is 0-d, and scan goes along the first dimension")
        sizes.setdefault(int(x.shape[0]), path)
    if length is not None:
        sizes.setdefault(int(length), "length")
    if not sizes:
        raise ArgumentError("scan: give xs, or length= to say how often")
    if len(sizes) > 1:
        shown = ", ".join(
            f"{path} has {size}" if path != "length" else f"length is {size}"
            for size, path in sizes.items()
        )
        raise ShapeError(f"scan: all must have one length: {shown}")
    return next(iter(sizes))
