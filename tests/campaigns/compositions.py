"""Random compositions of certified functions against ball arithmetic, to third order.

A composition is a tree of calls of `adjoint/testing/certificates/definitions.txt`, sums, products
and quotients. Its truth is computed in balls that are made wider at every step, by what rounding
may do to a library whose functions are within some ulp: the final balls hold all that may come out.
What lies outside is a finding: a NaN, a silent zero, digits lost where the problem does not lose
them. Arguments lie at all magnitudes; where an intermediate value leaves the range of float64 or
meets a kink, nothing is asked.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from functools import cache
from typing import Any

import numpy as np

import adjoint as ad
from adjoint.testing.certificates import balls, definitions, subjects, ways
from tests.campaigns import campaign

ORDERS = 3
POINTS = 12
ULP = 64.0  # by which every step may be wrong, in units of 2⁻⁵²
FAMILIES = ("pointwise", "activation", "special", "scipy", "loss")
COMPILED = 64  # one composition in so many is compiled, which takes a hundred times as long
LARGEST, SMALLEST = 1e250, 1e-250  # of intermediate values and derivatives
MODES: dict[str, tuple[str, ...]] = {
    "reverse": ("reverse",) * ORDERS,
    "forward": ("forward",) * ORDERS,
    "forward over reverse": ("reverse", "forward", "forward"),
    "reverse over forward": ("forward", "reverse", "reverse"),
}
Ball = Any


class Outside(Exception):
    """Nothing is asked here: a domain, a kink, or the range of float64 is left."""


class Step:
    """One node of a composition: how we compute it and what is true of it."""

    def __init__(self, text: str, ours: Callable[[Any], Any], truth: Callable[[Ball], Ball]):
        self.text, self.ours, self.truth = text, ours, truth


# -- balls that rounding has widened ---------------------------------------------------------------


def widened(exact: Sequence[Ball], sizes: Sequence[Ball]) -> list[Ball]:
    """Coefficients with a radius of ULP units of the sizes of what was added up."""
    arb = balls.flint().arb
    found: list[Ball] = []
    for coefficient, size in zip(exact, sizes):
        radius = abs(size).upper() * (ULP * 2.0**-52)
        found.append(coefficient + arb(0, radius))
    for n, coefficient in enumerate(found):
        if not coefficient.is_finite() or not _in_range(coefficient * math.factorial(n)):
            raise Outside
    return found


def _in_range(ball: Ball) -> bool:
    if ball == 0 and ball.rad() == 0:
        return True
    return bool(abs(ball) < LARGEST) and bool(abs(ball).upper() > SMALLEST)


def product(a: Sequence[Ball], b: Sequence[Ball]) -> list[Ball]:
    return widened(_plain(a, b), _plain(list(map(abs, a)), list(map(abs, b))))


def composed(taylor: Sequence[Ball], inner: Sequence[Ball]) -> list[Ball]:
    """Σ tₙ (u - u₀)ⁿ, and the same of absolute values for what rounding does."""
    zero = taylor[0] * 0
    step, sizes = [zero, *inner[1:]], [zero, *map(abs, inner[1:])]
    value, size = [taylor[-1], *[zero] * ORDERS], [abs(taylor[-1]), *[zero] * ORDERS]
    for t in reversed(taylor[:-1]):
        value = _plain(value, step)
        size = _plain(size, sizes)
        value[0], size[0] = value[0] + t, size[0] + abs(t)
    return widened(value, size)


def _plain(a: Sequence[Ball], b: Sequence[Ball]) -> list[Ball]:
    return [sum((a[i] * b[k - i] for i in range(k + 1)), start=a[0] * 0) for k in range(ORDERS + 1)]


# -- steps -----------------------------------------------------------------------------------------


@cache
def _subjects() -> tuple[subjects.Subject, ...]:
    return tuple(s for s in subjects.subjects() if s.family in FAMILIES and s.orders >= ORDERS)


def call(subject: subjects.Subject) -> Step:
    """A step that applies a subject to a value."""
    numbers = subject.parameters_in(np.float64)
    exact = {name: balls.number(value) for name, value in numbers.items()}

    def truth(inner: Sequence[Ball]) -> list[Ball]:
        a = inner[0]
        if not (a > max(subject.low, -subject.below) and a < min(subject.high, subject.below)):
            raise Outside
        if any(a.contains(balls.number(kink)) for kink in subject.kinks):
            raise Outside
        taylor = definitions.coefficients(subject.definition, a, exact, ORDERS + 1)
        if not all(t.is_finite() for t in taylor):
            raise Outside
        slopes = [(n + 1) * t for n, t in enumerate(taylor[1:])]
        sizes = [abs(t) + abs(a * slope) for t, slope in zip(taylor, slopes)]
        return composed(widened(taylor[:-1], sizes), inner)

    return Step(subject.name, ways.function_of(subject, numbers), truth)


class Tree:
    """A random composition of `depth` levels."""

    def __init__(self, rng: Any, depth: int) -> None:
        self.kind = rng.choice(["call", "call", "call", "sum", "product"]) if depth else "leaf"
        if self.kind == "call":
            self.step = call(_subjects()[rng.integers(len(_subjects()))])
            self.parts = [Tree(rng, depth - 1)]
        elif self.kind != "leaf":
            self.parts = [Tree(rng, depth - 1), Tree(rng, int(rng.integers(depth)))]

    def __str__(self) -> str:
        if self.kind == "leaf":
            return "x"
        if self.kind == "call":
            return f"[{self.step.text}](x={self.parts[0]})"
        return f"({self.parts[0]} {'+' if self.kind == 'sum' else '*'} {self.parts[1]})"

    def ours(self, x: Any) -> Any:
        if self.kind == "leaf":
            return x
        values = [part.ours(x) for part in self.parts]
        if self.kind == "call":
            return self.step.ours(values[0])
        return values[0] + values[1] if self.kind == "sum" else values[0] * values[1]

    def truth(self, x: float) -> list[Ball]:
        if self.kind == "leaf":
            number = balls.number
            return [number(x), number(1), *[number(0)] * (ORDERS - 1)]
        values = [part.truth(x) for part in self.parts]
        if self.kind == "call":
            return self.step.truth(values[0])
        if self.kind == "product":
            return product(*values)
        pairs = list(zip(*values))
        return widened([a + b for a, b in pairs], [abs(a) + abs(b) for a, b in pairs])


# -- the check -------------------------------------------------------------------------------------


def tower(f: Callable[[Any], Any], modes: Sequence[str]) -> list[Callable[[Any], Any]]:
    chain = [f]
    for mode in modes:
        chain.append(ways.slope(chain[-1], mode))
    return chain


def check(seed: int) -> int:
    rng = np.random.default_rng(seed)
    tree = Tree(rng, int(rng.integers(1, 5)))
    wide = rng.choice(["all", "near"], p=[0.4, 0.6])
    exponents = rng.uniform(-300, 300, POINTS) if wide == "all" else rng.uniform(-12, 6, POINTS)
    x = rng.choice((-1, 1), POINTS) * 2.0**exponents
    known = [truth_at(tree, float(point)) for point in x]
    asked = [i for i, balls_there in enumerate(known) if balls_there]
    if not asked:
        return 0
    x, kept = x[asked], [known[i] for i in asked]
    count = 0
    mode = list(MODES)[seed % len(MODES)]
    means = "eager" if seed % COMPILED else "compiled"
    for order, function in enumerate(tower(tree.ours, MODES[mode])):
        run = ad.compile(function) if means == "compiled" else function
        found = run(ad.tensor(x)).numpy()
        for point, value, balls_there in zip(x, np.broadcast_to(found, x.shape), kept):
            ball = balls_there[order] * math.factorial(order)
            right = math.isfinite(value) and ball.contains(balls.number(float(value)))
            assert right, (
                f"{tree}\n  {means}, {mode}, order {order}, at x = {float(point)!r}: "
                f"{float(value)!r}, truth {float(ball.mid())!r} ± {float(ball.rad()):.2g}"
            )
            count += 1
    return count


def truth_at(tree: Tree, x: float) -> list[Ball] | None:
    """Balls of all orders; None where nothing is asked."""
    with definitions.precision(ORDERS + 2):
        try:
            return tree.truth(x)
        except Outside:
            return None


if __name__ == "__main__":
    campaign.main(check)
