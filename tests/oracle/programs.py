"""Random programs of views, writes in place and arithmetic, for PyTorch and adjoint alike.

A program is a list of steps on a pool of tensors, drawn from a seed. Both libraries run the same
steps; a step that raises in one must raise in the other, and leaves the pool as it was. At the end
the values of the pool, the derivatives of the leaves are compared.
"""

from __future__ import annotations

import random
import sys
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

Pool = list[Any]
ORDER = 3  # of derivatives

# What PyTorch refuses and adjoint does, rightly: the program ends there.
MORE = (
    "some elements of the input", "Output ", "created in no_grad mode", "a leaf Variable",
    "view size is not compatible",
    # products of two dtypes, which @ promotes
    "have the same dtype", "have same dtype", "expected scalar type",
)  # fmt: skip

# What adjoint refuses and PyTorch does: to write to (a part of) an expanded tensor.
LESS = ("several elements of the tensor share one place", "memory is read-only")


@dataclass(frozen=True)
class Step:
    """One operation: a name, the pool members it takes, and numbers."""

    name: str
    members: tuple[int, ...]
    numbers: tuple[int, ...]

    def __str__(self) -> str:
        return f"{self.name}({', '.join(f't{m}' for m in self.members)}; {self.numbers})"


def _slice(x: Any, numbers: tuple[int, ...]) -> Any:
    size = x.shape[0]
    start = numbers[0] % (size + 1)
    return x[start : start + 1 + numbers[1] % 3]


def _library(x: Any) -> Any:
    return sys.modules[type(x).__module__.split(".")[0]]


def _reshape(x: Any, numbers: tuple[int, ...]) -> Any:
    shapes = [(-1,), (1, -1), (-1, 1)]
    return x.view(shapes[numbers[0] % 3])


VIEWS: dict[str, Callable[..., Any]] = {
    "slice": _slice,
    "step": lambda x, n: x[:: 1 + n[0] % 2],
    "select": lambda x, n: x[n[0] % x.shape[0]],
    "transpose": lambda x, n: x.transpose(0, -1),
    "view": _reshape,
    "unsqueeze": lambda x, n: x.unsqueeze(n[0] % (x.ndim + 1)),
    "squeeze": lambda x, n: x.squeeze(),
    "diagonal": lambda x, n: x.diagonal(n[0] % 3 - 1),
    "expand": lambda x, n: x.expand(2, *x.shape),
    "narrow": lambda x, n: x.narrow(0, n[0] % 2, 1),
    "split": lambda x, n: x.split(1)[n[0] % x.shape[0]],
    "unbind": lambda x, n: x.unbind(0)[n[0] % x.shape[0]],
    "detach": lambda x, n: x.detach(),
    "view_as": lambda x, n: x.view_as(x),
    "reshape": lambda x, n: x.reshape(-1),
    "movedim": lambda x, n: x.movedim(0, -1),
    "real": lambda x, n: x.real,
    "imag": lambda x, n: x.imag,
    "view_as_real": lambda x, n: _library(x).view_as_real(x),
    "conj": lambda x, n: x.conj().clone(),
}
POINTWISE: dict[str, Callable[..., Any]] = {
    "add": lambda x, y, n: x + y,
    "mul": lambda x, y, n: x * y,
    "sub": lambda x, y, n: x - 0.5 * y,
    "tanh": lambda x, y, n: (x * 0.5).tanh(),
    "sin": lambda x, y, n: x.sin(),
    "exp": lambda x, y, n: (-x * x).exp(),
    "clone": lambda x, y, n: x.clone(),
    "sum": lambda x, y, n: x.sum(n[0] % max(x.ndim, 1)),
    "matmul": lambda x, y, n: (x if x.ndim < 3 else x[0]) @ y,
}
IN_PLACE: dict[str, Callable[..., Any]] = {
    "add_": lambda x, y, n: x.add_(y),
    "mul_": lambda x, y, n: x.mul_(y),
    "mul_number_": lambda x, y, n: x.mul_(0.5 + n[0] % 3),
    "copy_": lambda x, y, n: x.copy_(y),
    "zero_": lambda x, y, n: x.zero_(),
    "fill_": lambda x, y, n: x.fill_(0.25),
    "sin_": lambda x, y, n: x.sin_(),
    "tanh_": lambda x, y, n: x.tanh_(),
    "set_item": lambda x, y, n: x.__setitem__(n[0] % 3, 0.5) or x,
    "set_slice": lambda x, y, n: x.__setitem__(slice(n[0] % 2, None), y) or x,
    "sub_itself_": lambda x, y, n: x.sub_(x * 0.5),
}


def draw(seed: int, length: int) -> list[Step]:
    """Return a random program."""
    generator = random.Random(seed)
    steps = []
    size = 4
    for _ in range(length):
        kind = generator.choices((VIEWS, POINTWISE, IN_PLACE), (4, 3, 3))[0]
        name = generator.choice(list(kind))
        members = (generator.randrange(size), generator.randrange(size))
        steps.append(Step(name, members, (generator.randrange(6), generator.randrange(6))))
        size += kind is not IN_PLACE
    return steps


def start(library: Any, seed: int, shift: Sequence[Any] = (0, 0)) -> tuple[Pool, list[Any]]:
    """Return the pool a program starts with, and its leaves, moved by `shift`."""
    generator = np.random.default_rng(seed)
    arrays = [generator.uniform(-1, 1, (3, 3)) + shift[0], generator.uniform(-1, 1, 3) + shift[1]]
    if seed % 3 == 0:  # every third program is complex
        arrays = [a + 1j * generator.uniform(-1, 1, a.shape) for a in arrays]
    leaves = [library.tensor(a, requires_grad=True) for a in arrays]
    constant = library.tensor(generator.uniform(-1, 1, (3, 3)), dtype=library.float64)
    return [leaves[0] * 1.0, leaves[1] * 2.0, constant, leaves[0]], leaves


def run_step(pool: Pool, step: Step) -> str:
    """Run one step; return "" or the kind of trouble. The pool grows, or a member changes."""
    x = pool[step.members[0] % len(pool)]
    y = pool[step.members[1] % len(pool)]
    try:
        if step.name in VIEWS:
            pool.append(VIEWS[step.name](x, step.numbers))
        elif step.name in POINTWISE:
            pool.append(POINTWISE[step.name](x, y, step.numbers))
        else:
            if y.is_complex() and not x.is_complex():
                raise ValueError("PyTorch would give a real tensor a complex tangent")
            # PyTorch leaves open what happens when both lie in the same memory
            IN_PLACE[step.name](x, y.clone(), step.numbers)
    except (RuntimeError, IndexError, ValueError, TypeError, ZeroDivisionError) as error:
        return f"{type(error).__name__}: {error}"
    return ""


def run(pool: Pool, steps: Sequence[Step]) -> Pool:
    """Run steps, all of which must work; return the pool at the end."""
    for step in steps:
        if trouble := run_step(pool, step):
            raise RuntimeError(f"{step}: {trouble}")
    return pool


def possible(seed: int, attempt: Callable[[list[Step]], Any]) -> list[Step]:
    """The steps of a program that `attempt` takes, after those before them."""
    kept: list[Step] = []
    for step in draw(seed, 12):
        try:
            attempt([*kept, step])
        except RuntimeError:
            continue
        kept.append(step)
    return kept


def total(library: Any, pool: Pool) -> Any:
    """A number that depends on all of the pool that requires a gradient."""
    roots = [t for t in pool if t.requires_grad]
    return sum(((1 + k) * _square(t) for k, t in enumerate(roots)), library.zeros(()))


def _square(tensor: Any) -> Any:
    return (tensor * tensor.conj()).real.sum()


def gradients(library: Any, pool: Pool, leaves: list[Any]) -> list[Any] | str:
    """Derivatives of the total up to third order, or why they are refused."""
    found: list[Any] = []
    try:
        value = total(library, pool)
        for _ in range(ORDER):
            if not value.requires_grad:
                break
            grads = library.autograd.grad(value, leaves, create_graph=True, allow_unused=True)
            found += grads
            value = sum((_square(g) for g in grads if g is not None), library.zeros(()))
    except RuntimeError as error:
        return f"{type(error).__name__}: {error}"
    return found


def slope(library: Any, seed: int, steps: list[Step], direction: list[Any]) -> float:
    """The derivative of the total along `direction`, by a central difference."""
    step, values = 1e-6, []
    for sign in (1, -1):
        pool, _ = start(library, seed, [sign * step * d for d in direction])
        for one in steps:
            run_step(pool, one)
        values.append(total(library, pool).item())
    return (values[0] - values[1]) / (2 * step)


def tangents(library: Any, seed: int, steps: list[Step], direction: list[Any]) -> list[Any]:
    """Run the program on dual tensors; return the tangents of the pool, or errors as text.

    What PyTorch's forward mode cannot do ends the list.
    """
    forward_ad = library.autograd.forward_ad
    results: list[Any] = []
    with library.no_grad(), forward_ad.dual_level():
        pool, leaves = start(library, seed)
        moves = [library.tensor(d, dtype=x.dtype) for d, x in zip(direction, leaves, strict=True)]
        duals = [forward_ad.make_dual(x.detach(), v) for x, v in zip(leaves, moves, strict=True)]
        pool[0], pool[1], pool[3] = duals[0] * 1.0, duals[1] * 2.0, duals[0]
        for step in steps:
            trouble = run_step(pool, step)
            if trouble:
                results.append(trouble)
                continue
            results.append([_tangent(library, forward_ad, t) for t in pool])
    return results


def _tangent(library: Any, forward_ad: Any, tensor: Any) -> Any:
    primal, tangent = forward_ad.unpack_dual(tensor)
    return library.zeros_like(primal) if tangent is None else tangent.clone()
