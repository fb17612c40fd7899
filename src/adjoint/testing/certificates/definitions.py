"""Definitions: text to proven numbers.

A definition is a Python expression in `x`, in parameters and in the functions of `functions.py`.
`x0` is the constant term of x, for conditions: `x if x0 > 0 else 0 * x`. Bits are added until the
balls are small.
"""

from __future__ import annotations

import ast
import math
from collections.abc import Callable, Generator, Mapping, Sequence
from contextlib import contextmanager
from functools import cache
from typing import Any

from adjoint.core.errors import ArgumentError, did_you_mean
from adjoint.testing.certificates import functions
from adjoint.testing.certificates.balls import ORDERS, constant, flint, number, series

FIRST_BITS, MOST_BITS = 160, 10_000
ENOUGH = 2.0**-75  # relative radius of a ball that is small enough for float64
_IMPORTED = {"flint", "number", "root", "series", "derivatives"}  # by functions.py, and no words
WORDS: dict[str, Callable[..., Any]] = {
    name: value
    for name, value in vars(functions).items()
    if callable(value) and name[0].islower() and name not in _IMPORTED
}


@cache
def code(text: str) -> Any:
    """A definition, compiled; every number in it becomes an exact ball."""
    tree = ast.parse(text.strip(), mode="eval")
    known = {*WORDS, "x", "x0", "pi", "N", "euler", "len", "zip"}
    for node in ast.walk(tree):
        called = node.func if isinstance(node, ast.Call) else None
        if isinstance(called, ast.Name) and called.id not in known:
            hint = did_you_mean(called.id, known)
            raise ArgumentError(f"the definition {text!r} names {called.id!r}{hint}")
    exact = ast.fix_missing_locations(_Exact().visit(tree))
    return compile(exact, f"<definition {text}>", "eval")


class _Exact(ast.NodeTransformer):
    """0.1 is the double nearest 0.1; 1 / 3 is a third. Exponents stay whole numbers."""

    def visit_Constant(self, node: ast.Constant) -> ast.AST:
        if isinstance(node.value, (int, float)):
            return ast.Call(ast.Name("N", ast.Load()), [node], [])
        return node


def evaluate(text: str, x: Any, parameters: Mapping[str, Any]) -> Any:
    """A definition at a series, in the present precision."""
    pi = flint().arb.pi()
    names = {"x": x, "x0": constant(x), "pi": pi, "euler": flint().arb.const_euler(), "N": number}
    return eval(code(text), {**WORDS, **names, **parameters})


def evaluate_list(text: str, x: Sequence[Any]) -> Any:
    """A definition of a vector's elements, each a series."""
    return eval(code(text), {**WORDS, "x": x, "N": int_or_ball})


def int_or_ball(value: Any) -> Any:
    """Whole numbers are places, exponents and counts; others exact balls."""
    return value if isinstance(value, int) else number(value)


def enclosure(text: str, x: Any, parameters: Mapping[str, float], orders: int) -> list[Any]:
    """Balls of the value and the derivatives at x; a ball that stays wide or infinite is kept.

    >>> [round(float(ball), 3) for ball in enclosure("x * sin(x)", 1.0, {}, 2)]  # doctest: +SKIP
    [0.841, 1.382, 0.239]
    """
    exact = {name: number(value) for name, value in parameters.items()}
    with precision(ORDERS) as ctx:
        while True:
            found = _derivatives(text, number(x), exact, orders)
            if ctx.prec >= MOST_BITS or all(map(small, found)):
                return found
            ctx.prec *= 3


@contextmanager
def precision(orders: int) -> Generator[Any]:
    """Series of so many terms and the first bits, as long as the block runs."""
    ctx = flint().ctx
    before = ctx.prec, ctx.cap
    ctx.prec, ctx.cap = FIRST_BITS, orders
    try:
        yield ctx
    finally:
        ctx.prec, ctx.cap = before


def _derivatives(text: str, x: Any, exact: Mapping[str, Any], orders: int) -> list[Any]:
    taylor = coefficients(text, x, exact, orders)
    return [t * math.factorial(k) for k, t in enumerate(taylor)]


def coefficients(text: str, x: Any, exact: Mapping[str, Any], orders: int) -> list[Any]:
    """Taylor coefficients at a ball in the present precision; balls of everything at a pole."""
    try:
        result = evaluate(text, series([x, 1]), exact)
    except (ValueError, ZeroDivisionError):  # of a series that begins with 0
        return [flint().arb("nan")] * (orders + 1)
    if not isinstance(result, flint().arb_series):
        result = series([result])
    return [result[k] for k in range(orders + 1)]


def sign_of(text: str, x: float, parameters: Mapping[str, float], order: int) -> int:
    """The sign of a derivative at x; 0 where the first bits do not tell."""
    exact = {name: number(value) for name, value in parameters.items()}
    with precision(ORDERS):
        ball = coefficients(text, number(x), exact, order)[order]
    return 1 if ball > 0 else -1 if ball < 0 else 0


def small(ball: Any) -> bool:
    """Whether a ball says all that float64 can ask: a tiny relative radius, exactly 0, or below
    all numbers of float64."""
    if not ball.is_finite():
        return False
    if ball.rad() == 0:
        return True
    size = abs(ball).upper()
    return ball.rad() < abs(ball.mid()) * ENOUGH or size < 2.0**-1074 * ENOUGH
