"""The law of rows that select: an element that was not selected has no gradient, not a zero one."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any

import numpy as np

import adjoint as ad
from adjoint.core.errors import DependsOnValues
from adjoint.testing.jacobians import Array, Call, array_of, tensor_of
from adjoint.testing.laws.case import Case, assert_close, depends_on_values, random_like

Function = Callable[..., Any]


def unselected_elements_have_no_gradient(case: Case) -> None:
    """An infinite derivative before an element that is not selected is not seen, in any mode.

    Each input x becomes x + √u − √u₀, with u₀ = 0 at the elements that are not selected and 1 at
    the others, and must differentiate as x + (u−1)/2 − (u−1)²/8 where it is selected, x elsewhere.
    """
    values = [np.array(array_of(t)) for t in Call.of(case.run, case.arguments).inputs]
    outer = _outer(case, values)
    if outer is None:
        return
    grads = _gradients(outer)(*map(tensor_of, values))
    selected = [np.asarray(array_of(g) != 0, x.dtype) for g, x in zip(grads, values, strict=True)]
    points = [tensor_of(s) for s in selected]
    generator = np.random.default_rng(1)
    along = tuple(tensor_of(random_like(x, generator)) for x in values)
    for name, mode in _MODES.items():
        try:
            expected = mode(partial(_inner, outer, values, selected, _smooth), points, along)
            got = mode(partial(_inner, outer, values, selected, _steep), points, along)
        except ad.graph.TraceError:
            assert depends_on_values(case), f"{case.title}: cannot be traced"
            continue
        for number, (a, b) in enumerate(zip(got, expected, strict=True)):
            assert_close(f"{case.title}: {name}, result {number}", array_of(a), array_of(b))


def what_stands_still_has_no_tangent(case: Case) -> None:
    """An infinite derivative after an element that does not move with the inputs is not seen.

    Each result y becomes √(y − y₀ + s), with s = 0 at the elements that do not move with the inputs
    and 1 at the others, and must differentiate as d/2 − d²/8 with d = y − y₀ where it moves.
    """
    values = [np.array(array_of(t)) for t in Call.of(case.run, case.arguments).inputs]
    call = Call.of(case.run, case.arguments)
    start = [tensor_of(x) for x in values]
    outputs = call([t.clone().requires_grad_() for t in start])
    flowing = [k for k, t in enumerate(outputs) if t.requires_grad]
    base = {k: array_of(outputs[k].detach()) for k in flowing}
    if not flowing or any(np.iscomplexobj(y) or not np.isfinite(y).all() for y in base.values()):
        return
    ones = tuple(map(ad.ones_like, start))
    chosen = lambda *given: [call(given)[k] for k in flowing]
    moving = ad.jvp(chosen, tuple(start), ones)[1]
    live = {
        k: np.asarray(array_of(t != 0), base[k].dtype) for k, t in zip(flowing, moving, strict=True)
    }
    generator = np.random.default_rng(1)
    along = tuple(tensor_of(random_like(x, generator)) for x in values)
    seeds = {k: tensor_of(random_like(y, generator)) for k, y in base.items()}

    def through(shift: Function, *points: Any) -> Any:
        found = call(points)
        return sum(
            (
                shift(found[k] - tensor_of(base[k]) + tensor_of(live[k]), tensor_of(live[k]))
                * seeds[k]
            ).sum()
            for k in flowing
        )

    for name, mode in _FORWARD.items():
        try:
            expected = mode(partial(through, _smooth), start, along)
            got = mode(partial(through, _steep), start, along)
        except (ad.graph.TraceError, DependsOnValues):
            assert depends_on_values(case), f"{case.title}: cannot be traced"
            continue
        for number, (a, b) in enumerate(zip(got, expected, strict=True)):
            assert_close(f"{case.title}: {name}, result {number}", array_of(a), array_of(b))


def _outer(case: Case, values: list[Array]) -> Function | None:
    """A random combination of an operator's results, of its inputs; None if no gradient flows."""
    call = Call.of(case.run, case.arguments)
    outputs = call([tensor_of(x).requires_grad_() for x in values])
    flowing = [k for k, t in enumerate(outputs) if t.requires_grad]
    generator = np.random.default_rng(0)
    seeds = {k: tensor_of(random_like(array_of(outputs[k]), generator)) for k in flowing}

    def outer(*given: Any) -> Any:
        found = call(given)
        return sum((found[k] * seed).sum() for k, seed in seeds.items())

    return outer if flowing else None


def _inner(outer: Function, values: Any, selected: Any, shift: Function, *points: Any) -> Any:
    return outer(
        *[
            tensor_of(x) + shift(u, tensor_of(s))
            for x, s, u in zip(values, selected, points, strict=True)
        ]
    )


def _steep(point: Any, selected: Any) -> Any:
    return point.sqrt() - selected


def _smooth(point: Any, selected: Any) -> Any:
    step = point - 1
    return selected * (step / 2 - step * step / 8)


def _gradients(function: Function) -> Function:
    """All gradients of a function of any number of tensors."""
    return lambda *points: ad.grad(function, tuple(range(len(points))))(*points)


def _batched(function: Function, points: Any, along: Any) -> Any:
    return ad.vmap(_gradients(function), randomness="same")(*[ad.stack([p, p]) for p in points])


def _slope(function: Function, along: Any) -> Function:
    """The derivative of a function along a direction, by reverse mode."""
    return lambda *points: sum(
        (g * d).sum() for g, d in zip(_gradients(function)(*points), along, strict=True)
    )


_MODES: dict[str, Function] = {
    "reverse mode": lambda f, points, along: _gradients(f)(*points),
    "vmap of reverse mode": _batched,
    "forward mode": lambda f, points, along: ad.jvp(f, tuple(points), along)[1:],
    "reverse over reverse": lambda f, points, along: _gradients(_slope(f, along))(*points),
    "forward over reverse": lambda f, points, along: ad.jvp(_gradients(f), tuple(points), along)[1],
    "traced reverse mode": lambda f, points, along: ad.trace(_gradients(f), *points)(*points),
}


def _push(function: Function, along: Any) -> Function:
    """The derivative of a function along a direction, by forward mode."""
    return lambda *points: ad.jvp(function, tuple(points), along)[1]


def _pushed_in_a_batch(function: Function, points: Any, along: Any) -> Any:
    push = lambda *directions: ad.jvp(function, tuple(points), directions)[1]
    return [ad.vmap(push, randomness="same")(*[ad.stack([d, 2 * d]) for d in along])]


_FORWARD: dict[str, Function] = {
    "forward mode": lambda f, points, along: [_push(f, along)(*points)],
    "vmap of forward mode": _pushed_in_a_batch,
    "reverse mode": lambda f, points, along: _gradients(f)(*points),
    "forward over forward": lambda f, points, along: [_push(_push(f, along), along)(*points)],
    "reverse over forward": lambda f, points, along: _gradients(_push(f, along))(*points),
    "forward over reverse": lambda f, points, along: ad.jvp(_gradients(f), tuple(points), along)[1],
    "traced forward mode": lambda f, points, along: [ad.trace(_push(f, along), *points)(*points)],
}
