"""Writes to saved values: after a write to anything that an operator took or gave, through whatever
tensor on the same memory, a gradient is right or refused.

A case is an operator of the table at one of its samples. Its gradient is computed undisturbed, and
with a write between the forward and the backward pass, which changes no value that the result
depends on. The second must raise `InplaceError`, or equal the first.
"""

from __future__ import annotations

import contextlib
import random
import warnings
from collections.abc import Callable
from functools import cache
from typing import Any

import numpy as np

import adjoint as ad
from adjoint.core import dtypes
from adjoint.core.errors import AdjointError
from adjoint.table import TABLE
from adjoint.testing import laws
from adjoint.testing.jacobians import tensors_in
from adjoint.testing.laws import Case
from tests.campaigns import campaign

Tensor = ad.Tensor
Step = Callable[[Any], Any]

# The way from a tensor to one on the same memory; some change the tensor itself.
ROUTES: dict[str, Step] = {
    "itself": lambda t: t,
    "detach": lambda t: t.detach(),
    "detach_": lambda t: t.detach_(),
    "view": lambda t: t[...],
    "view of a view": lambda t: t.unsqueeze(0).squeeze(0),
    "row": lambda t: t[0],
    "transpose": lambda t: t.transpose(0, -1),
    "flat": lambda t: t.reshape(-1),
    "view of detach": lambda t: t.detach().unsqueeze(-1),
    "diagonal": lambda t: t.diagonal(),
    "unsqueeze_": lambda t: t.unsqueeze_(0),
    "squeeze_": lambda t: t.squeeze_(),
    "t_": lambda t: t.t_(),
    "swapaxes_": lambda t: t.swapaxes_(0, -1),
    "transpose_, then a view": lambda t: t.transpose_(0, -1)[...],
    "detach_, then a view": lambda t: t.detach_()[...],
    "through vjp": lambda t: ad.vjp(lambda v: v[...], t)[0],
    "through checkpoint": lambda t: ad.checkpoint(lambda v: v[...])(t),
    "through NumPy": lambda t: ad.asarray(t.detach()),
    "through compile": lambda t: COMPILED(t),
}

COMPILED = ad.compile(lambda x: x)


def _out(t: Any) -> Any:
    return ad.add(t.detach(), 1, out=t)


def _set(t: Any) -> Any:
    t[...] = 1
    return t


def _set_first(t: Any) -> Any:
    t[0] = t[-1] + 1
    return t


WRITES: dict[str, Step] = {
    "mul_": lambda t: t.mul_(2),
    "add_": lambda t: t.add_(1),
    "fill_": lambda t: t.fill_(1),
    "zero_": lambda t: t.zero_(),
    "copy_": lambda t: t.copy_(ad.ones(t.shape).to(t.dtype)),
    "out=": _out,
    "[...] =": _set,
    "[0] =": _set_first,
    "foreach": lambda t: ad._foreach_add_([t], 1),
    "uniform_": lambda t: t.uniform_(),
    "index_fill_": lambda t: t.index_fill_(0, ad.tensor([0]), 1),
    "masked_fill_": lambda t: t.masked_fill_(ad.tensor(True), 1),
    "shape alone": lambda t: t,
}


@cache
def _cases(number: int) -> list[Case]:
    return laws.cases(ROWS[number], dtypes.float64)


ROWS = [row for row in TABLE.rows() if row.differentiable or row.decompose]


class Program:
    """An operator at a sample, as a function of its differentiable inputs to a number."""

    def __init__(self, case: Case) -> None:
        self.case = case
        leaves = [t for a in case.arguments for t in tensors_in(a)]
        self.inputs = [t.detach() for t in leaves if t.requires_grad]
        self.weights = np.random.default_rng(0)

    def run(self, values: list[Any], disturb: Callable[[list[Any]], None]) -> Any:
        """The sum of all results, weighted; `disturb` is called before it is returned."""
        rest = iter(values)
        made: list[Any] = []

        def own(tensor: Any) -> Any:
            copied = next(rest) * 1 if tensor.requires_grad else tensor.detach().clone()
            made.append(copied)
            return copied

        arguments = [_mapped(own, a) for a in self.case.arguments]
        outs = tensors_in(self.case.run(*arguments))
        generator = np.random.default_rng(1)
        total: Any = 0
        for out in outs:
            if out.is_differentiable_dtype():
                weights = ad.tensor(generator.standard_normal(tuple(out.shape)))
                part = out.real + out.imag if out.is_complex() else out
                total = total + (part * weights).sum()
        disturb([*made, *outs])
        return total


def _mapped(function: Step, value: Any) -> Any:
    if isinstance(value, Tensor):
        return function(value)
    if isinstance(value, list | tuple):
        return type(value)(_mapped(function, v) for v in value)
    return value


def _on_tape(program: Program, disturb: Any) -> list[Any]:
    leaves = [t.clone().requires_grad_() for t in program.inputs]
    total = program.run(leaves, disturb)
    return list(ad.autograd.grad(total, leaves, allow_unused=True))


def _twice(program: Program, disturb: Any) -> list[Any]:
    """The disturbance lies between the first and the second backward pass."""
    leaves = [t.clone().requires_grad_() for t in program.inputs]
    seen: list[Any] = []
    total = program.run(leaves, seen.extend)
    first = ad.autograd.grad(total, leaves, create_graph=True, allow_unused=True)
    parts = [(g * (i + 1.5) + g * g).sum() for i, g in enumerate(first) if g is not None]
    parts = [p.real if p.is_complex() else p for p in parts if p.requires_grad]
    if not parts:
        return []
    disturb([*seen, *(g for g in first if g is not None)])
    return list(ad.autograd.grad(sum(parts), leaves, allow_unused=True))


def _transformed(program: Program, disturb: Any) -> list[Any]:
    places = tuple(range(len(program.inputs)))
    gradient = ad.grad(lambda *v: program.run(list(v), disturb), argnums=places)
    return list(gradient(*program.inputs))


def _mapped_gradient(program: Program, disturb: Any) -> list[Any]:
    places = tuple(range(len(program.inputs)))
    gradient = ad.grad(lambda *v: program.run(list(v), disturb), argnums=places)
    return [g[0] for g in ad.vmap(gradient)(*[t.unsqueeze(0) for t in program.inputs])]


def _traced(program: Program, disturb: Any) -> list[Any]:
    places = tuple(range(len(program.inputs)))
    gradient = ad.grad(lambda *v: program.run(list(v), disturb), argnums=places)
    found = ad.trace(gradient, *program.inputs)(*program.inputs)
    return list(found) if isinstance(found, tuple | list) else [found]


WAYS = (_on_tape, _on_tape, _twice, _transformed, _mapped_gradient, _traced)


def check(seed: int) -> int:
    """One program, disturbed in some ways."""
    chooser = random.Random(seed)
    cases = _cases(chooser.randrange(len(ROWS)))
    if not cases:
        return 0
    program = Program(chooser.choice(cases))
    if not program.inputs or isinstance(program.run(program.inputs, _nothing), int):
        return 0
    way = chooser.choice(WAYS)
    try:
        expected = _quietly(way, program, _nothing)
    except AdjointError:
        return 0  # nothing to disturb: no second derivative, values are looked at in a trace, …
    return sum(_disturbed(chooser, way, program, expected) for _ in range(8))


def _nothing(tensors: list[Any]) -> None:
    """No disturbance."""


def _disturbed(chooser: random.Random, way: Any, program: Program, expected: list[Any]) -> int:
    route, write = chooser.choice(list(ROUTES)), chooser.choice(list(WRITES))
    victim, quiet = chooser.random(), chooser.random() < 0.5

    def disturb(tensors: list[Any]) -> None:
        target = tensors[int(victim * len(tensors))]
        with ad.no_grad() if quiet else contextlib.nullcontext():
            WRITES[write](ROUTES[route](target))

    try:
        got = _quietly(way, program, disturb)
    except (AdjointError, IndexError, TypeError, ValueError):
        return 1  # noticed, or the write itself is not possible there
    what = f"{program.case.title} {way.__name__}: {write} {route}, {victim=:.4f}, {quiet=}"
    for number, (a, b) in enumerate(zip(got, expected, strict=True)):
        assert (a is None) == (b is None), what
        if a is not None:
            x, y = a.detach().numpy(), b.detach().numpy()
            np.testing.assert_allclose(x, y, rtol=1e-9, atol=1e-11, err_msg=f"{what}, {number}")
    return 1


def _quietly(way: Any, program: Program, disturb: Any) -> list[Any]:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # of samples at the edge of a domain
        return way(program, disturb)


if __name__ == "__main__":
    campaign.main(check)
