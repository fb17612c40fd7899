"""Loops on data: while_loop and fori_loop.

On tensors with values a loop is Python's own, and derivatives go through the operators that ran.
Inside `ad.trace` it becomes a node with graphs of its own (while_region.py). Under `vmap` it runs
until all samples are done.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from adjoint.calls.methods import as_tensor
from adjoint.core import pytrees
from adjoint.core.errors import ArgumentError
from adjoint.graph.control import while_region
from adjoint.graph.control.arguments import arguments_of, call_pure, fresh, predicate, tensors_like
from adjoint.graph.control.scan import scan
from adjoint.graph.control.staging import Flat
from adjoint.homes.structures import undressed
from adjoint.ops import operator as operators


def while_loop(cond_fun: Callable[..., Any], body_fun: Callable[..., Any], init_val: Any) -> Any:
    """Run `carry = body_fun(carry)` as long as `cond_fun(carry)` holds; return the last carry.

    Differentiable in both modes; reverse mode keeps the carry of each step. A compiled gradient
    keeps 256 megabytes of them ($ADJOINT_TAPE says how many bytes), and computes the others again;
    in eager mode `ad.checkpoint(body_fun)` keeps nothing else.

    >>> import adjoint as ad
    >>> def root(a):
    ...     far = lambda x: (x * x - a).abs() > 1e-6
    ...     return ad.while_loop(far, lambda x: (x + a / x) / 2, ad.ones_like(a))
    >>> root(ad.tensor(9.0)), ad.grad(root)(9.0)
    (tensor(3.), tensor(0.1667))
    """
    start, structure, dress = arguments_of("while_loop", init_val, "carry")

    def condition(_: Flat, carry: Flat) -> Any:
        args = pytrees.unflatten(structure, dress.put_on(carry))
        return predicate("while_loop", call_pure("while_loop", cond_fun, carry, args))

    def body(_: Flat, carry: Flat) -> Flat:
        args = pytrees.unflatten(structure, dress.put_on(carry))
        returned = call_pure("while_loop", body_fun, carry, args)
        told = "the carry that body_fun returns"
        return tensors_like("while_loop", structure, returned, "carry", told)

    paths = lambda: pytrees.paths(structure, "carry")
    found = while_region.while_flat(condition, body, [], [], start, False, paths)
    return dress.result(pytrees.unflatten(structure, fresh(found, start)))


def fori_loop(
    lower: Any,
    upper: Any,
    body_fun: Callable[..., Any],
    init_val: Any,
    *,
    unroll: int | bool | None = None,
) -> Any:
    """Run `carry = body_fun(i, carry)` for i from `lower` to `upper` - 1; return the last carry.

    Bounds that are Python numbers give a `scan`, whose `unroll` this is, bounds that are tensors a
    `while_loop`.

    >>> import adjoint as ad
    >>> ad.fori_loop(1, 5, lambda i, x: x * i, 1.0)
    tensor(24.)
    """
    if isinstance(lower, int) and isinstance(upper, int):
        numbers = operators.packet("arange")(lower, max(lower, upper))
        return scan(
            lambda carry, i: (body_fun(i, carry), None), init_val, numbers, unroll=unroll or 1
        )[0]
    if unroll is not None:
        raise ArgumentError("fori_loop: unroll needs bounds that are Python numbers")
    low, high = (as_tensor(undressed(v)) for v in (lower, upper))
    if low.dtype is not high.dtype:
        low, high = (v.to(operators.packet("arange")(1).dtype) for v in (low, high))
    return while_loop(
        lambda state: state[0] < high,
        lambda state: (state[0] + 1, body_fun(state[0], state[1])),
        (low, init_val),
    )[1]
