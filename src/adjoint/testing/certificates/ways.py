"""Ways: how the value and the derivatives of a subject come about.

A way is an implementation (eager: small arrays, NumPy kernels; large: native kernels of large
arrays; compiled; c: exported C) and a mode (reverse or forward mode upon itself): "large forward".
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from functools import cache, lru_cache
from typing import Any

import numpy as np

import adjoint as ad
from adjoint.core.errors import AdjointError
from adjoint.testing.certificates import rivals
from adjoint.testing.certificates.exported import exported
from adjoint.testing.certificates.subjects import Subject

Array = np.ndarray[Any, Any]
Run = Callable[[Array], list[Array]]
Tower = Callable[[Any], tuple[Any, ...]]  # of a tensor: the value and its derivatives
LARGE = 1 << 14  # elements from which native kernels of large arrays run
COMPILED = 1 << 10  # elements of compiled programs
WAYS = ("eager", "large", "compiled", "c")
MODES = ("reverse", "forward")


def letters(way: str) -> str:
    """The modes of a way that mixes them, the innermost first: r reverse, f forward.

    >>> letters("eager rf"), letters("eager value")
    ('rf', '')
    """
    mode = way.split()[1]
    return "" if mode == "value" else mode


def is_asked(way: str, asked: Sequence[str]) -> bool:
    """Whether the means of a way that mixes modes are asked for in all of these.

    >>> is_asked("eager rf", ["eager reverse", "eager forward"])
    True
    >>> is_asked("eager rf", ["eager reverse", "compiled forward"])
    False
    """
    means = way.split()[0]
    names = {"r": "reverse", "f": "forward"}
    return all(f"{means} {names[letter]}" in asked for letter in letters(way) or "r")


def start(
    way: str, subject: Subject, dtype: Any, *, numbers: Mapping[str, float] | None = None
) -> Run:
    """A function of arrays that gives the value and the derivatives by one way."""
    means, mode = way.split()
    if means in rivals.RIVALS:
        return rivals.start(means, subject, dtype)
    given = subject.parameters_in(dtype) if numbers is None else numbers
    if means in _BUILT:
        return _half(means, subject, np.dtype(dtype), given, mode)
    tower = tower_of(function_of(subject, given), mode, subject.orders)
    return _MEANS[means](tower, dtype)


def _half(means: str, subject: Subject, dtype: Any, given: Mapping[str, float], mode: str) -> Run:
    """One mode of a program that computes both: to build it takes most of the time."""
    orders, function = subject.orders, function_of(subject, given)

    def run(x: Array) -> list[Array]:
        try:
            both = _of_both(means, subject.call, orders, dtype, tuple(given.items()))(x)
        except AdjointError:  # one of the modes refuses
            return _MEANS[means](tower_of(function, mode, orders), dtype)(x)
        return both[: orders + 1] if mode == MODES[0] else both[orders + 1 :]

    return run


@lru_cache(maxsize=2)
def _of_both(
    means: str, call: str, orders: int, dtype: Any, given: tuple[tuple[str, float], ...]
) -> Run:
    towers = [tower_of(_called(call, dict(given)), mode, orders) for mode in MODES]
    return _MEANS[means](lambda x: tuple(y for tower in towers for y in tower(x)), dtype)


@cache
def namespace() -> dict[str, Any]:
    """What calls of the table may name."""
    import adjoint.scipy.special as sc

    names = {name: getattr(ad, name) for name in ad.__dir__() if not name.startswith("_")}
    homes = {"special": ad.special, "F": ad.nn.functional, "sc": sc, "D": ad.distributions}
    return {**names, **homes, "inf": math.inf}


def function_of(subject: Subject, numbers: Mapping[str, float]) -> Callable[[Any], Any]:
    """The subject's call as a function of a tensor, its parameters filled in."""
    return _called(subject.call, numbers)


def _called(call: str, numbers: Mapping[str, float]) -> Callable[[Any], Any]:
    code = compile(call, f"<{call}>", "eval")

    def function(x: Any) -> Any:
        given = {name: ad.full_like(x, value) for name, value in numbers.items()}
        return eval(code, namespace(), {"x": x, **given})

    return function


def tower_of(f: Callable[[Any], Any], mode: str, orders: int) -> Tower:
    """The value and derivatives of an elementwise function, by one mode upon itself."""
    chain = [f]
    for _ in range(orders):
        chain.append(slope(chain[-1], mode))
    return lambda x: tuple(g(x) for g in chain)


def slope(g: Callable[[Any], Any], mode: str) -> Callable[[Any], Any]:
    """The derivative of an elementwise function, by one mode."""
    return _reverse(g) if mode == "reverse" else _forward(g)


def _reverse(g: Callable[[Any], Any]) -> Callable[[Any], Any]:
    return ad.grad(lambda x: g(x).sum())


def _forward(g: Callable[[Any], Any]) -> Callable[[Any], Any]:
    return lambda x: ad.jvp(g, (x,), (ad.ones_like(x),))[1]


def _eager(tower: Tower, dtype: Any) -> Run:
    return lambda x: [np.asarray(y.detach().numpy()) for y in tower(ad.tensor(x))]


def _large(tower: Tower, dtype: Any) -> Run:
    small = _eager(tower, dtype)
    return lambda x: [y[: x.size] for y in small(np.resize(x, max(LARGE, x.size)))]


def _compiled(tower: Tower, dtype: Any) -> Run:
    program = ad.compile(tower)

    def run(x: Array) -> list[Array]:
        given = np.resize(x, -(-x.size // COMPILED) * COMPILED)
        return [np.asarray(y.numpy())[: x.size] for y in program(ad.tensor(given))]

    return run


def _exported(tower: Tower, dtype: Any) -> Run:
    return exported(tower, COMPILED, dtype)


_BUILT = ("compiled", "c")
_MEANS: dict[str, Callable[[Tower, Any], Run]] = {
    "eager": _eager, "large": _large, "compiled": _compiled, "c": _exported,
}  # fmt: skip
