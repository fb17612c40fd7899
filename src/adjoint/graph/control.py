"""Branches and loops on data: cond, switch, scan, while_loop, fori_loop.

On tensors with values they are Python's own branches and loops, and derivatives go through what was
run. Inside `ad.trace` they become one node with graphs of its own (staging.py). Under `vmap` a
condition that differs from sample to sample runs both branches, or loops until all samples are
done, and chooses.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from adjoint.core import pytrees
from adjoint.core.dtypes import INTEGER
from adjoint.core.errors import ArgumentError, InplaceError, ShapeError
from adjoint.core.places import show_place
from adjoint.core.pytrees import TreeDef
from adjoint.graph import branches, loops, while_loops
from adjoint.graph.staging import Flat
from adjoint.ops import operator as operators
from adjoint.tensor.arrays import ndarray
from adjoint.tensor.methods import as_tensor
from adjoint.tensor.numbers import HeldNumber
from adjoint.tensor.structures import undressed
from adjoint.tensor.tape import version
from adjoint.tensor.tensor import Tensor
from adjoint.transforms.annotations import R
from adjoint.transforms.dressing import PLAIN, Dress, dress_of


def arguments_of(what: str, tree: Any, root: str, *, beside: Any = None) -> tuple[Flat, Any, Dress]:
    """The leaves of an argument as tensors, its structure, and how they were given.

    Where this or what is `beside` it is an array of NumPy's, Python's numbers are doubles.
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
    """The leaves of a pytree as tensors, and its structure."""
    leaves, structure = pytrees.flatten(tree)
    for leaf, path in zip(leaves, pytrees.paths(structure, root), strict=True):
        if not isinstance(leaf, (Tensor, np.ndarray, np.generic, bool, int, float, complex)):
            raise ArgumentError(
                f"{what}: {path} must be a tensor, an array or a number, got {type(leaf).__name__}"
            )
    return [as_tensor(undressed(v)) for v in leaves], structure


def tensors_like(what: str, structure: TreeDef, tree: Any, root: str, told: str) -> Flat:
    """The leaves of a pytree as tensors, in the order of a structure that it must have."""
    leaves, got = tensors_of(what, tree, root)
    if got == structure:
        return leaves
    return tensors_of(what, pytrees.like(structure, tree, what=f"{what}: {told}", root=root), root)[
        0
    ]


def _fresh(found: Flat, given: Flat) -> Flat:
    """Results with memory of their own, as in a graph: what was given and comes back is copied."""
    owners = [_owner(g) for g in given]
    return [f.clone() if any(_owner(f) is o for o in owners) else f for f in found]


def _owner(tensor: Any) -> Any:
    """The tensor whose memory a tensor has."""
    return tensor if tensor._base is None else tensor._base


def _predicate(what: str, value: Any) -> Any:
    """A condition as one bool."""
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


def _call(what: str, function: Callable[..., Any], given: Flat, *args: Any) -> Any:
    """Call a branch or a body with tensors that it must leave as they are: the next step, what is
    stacked, and the caller need them, and a graph would leave them alone.
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
        operands = _spread(operands[0], true_fn, false_fn)
    if isinstance(pred, (bool, np.bool_)):
        return (true_fn if pred else false_fn)(*operands)
    predicate = _predicate("cond", pred)
    tensors, structure, dress = arguments_of("cond", operands, "operands")
    returned: list[Any] = []

    def branch(function: Callable[..., Any]) -> Callable[[Flat], Flat]:
        def run(values: Flat) -> Flat:
            given = pytrees.unflatten(structure, dress.put_on(values))
            result = _call("cond", function, values, *given)
            if returned:
                told = "the second function must return what the first does; its result"
                return tensors_like("cond", returned[0], result, "result", told)
            leaves, got = tensors_of("cond", result, "result")
            returned.append(got)
            return leaves

        return run

    found = branches.cond_flat(
        predicate,
        branch(true_fn),
        branch(false_fn),
        tensors,
        lambda: pytrees.paths(returned[0], "result"),
    )
    return dress.result(pytrees.unflatten(returned[0], _fresh(found, tensors)))


def _spread(items: Any, *functions: Callable[..., Any]) -> tuple[Any, ...]:
    """The operands that a single tuple or list is: its items, if all functions take as many."""
    return tuple(items) if all(_takes(f, len(items)) for f in functions) else (items,)


def _takes(function: Callable[..., Any], count: int) -> bool:
    """Whether a function must be called with so many positional arguments; of those with defaults
    and of `*args` nobody can tell.
    """
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
        returned = _call("scan", f, [*carry, *x], *args)
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
    found = loops.unrolled(step, start, scanned, count, reverse, _turn(unroll, count), paths)
    carry = _fresh(found[: len(start)], [*start, *scanned])
    results = (
        pytrees.unflatten(structure, carry),
        pytrees.unflatten(y_structure, found[len(start) :]),
    )
    return (dress if dress.make_result else x_dress).result(results)


def _turn(unroll: Any, count: int) -> int:
    """How many steps one turn of a loop makes."""
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
        return _predicate("while_loop", _call("while_loop", cond_fun, carry, args))

    def body(_: Flat, carry: Flat) -> Flat:
        args = pytrees.unflatten(structure, dress.put_on(carry))
        returned = _call("while_loop", body_fun, carry, args)
        told = "the carry that body_fun returns"
        return tensors_like("while_loop", structure, returned, "carry", told)

    paths = lambda: pytrees.paths(structure, "carry")
    found = while_loops.while_flat(condition, body, [], [], start, False, paths)
    return dress.result(pytrees.unflatten(structure, _fresh(found, start)))


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
