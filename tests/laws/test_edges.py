"""Where derivatives beside a point tend to a finite number, the derivative there is finite too.

The points are edges: zeros of both signs, integers, ends of domains, infinities. Every elementwise
row is differentiated in each argument alone, the others constant, once and twice, in all
compositions of the modes. What its derivatives tend to beside a point is the truth: the limit, or
the one-sided limit at the end of the domain. `edges.txt` holds reasoned exceptions.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterator
from fnmatch import fnmatch
from functools import cache
from typing import Any

import numpy as np
import pytest

import adjoint as ad
from adjoint.core.errors import AdjointError
from adjoint.ops.operator import operator
from adjoint.table import TABLE
from adjoint.table.rows import Row
from adjoint.testing.samples.automatic import NUMBERS
from tests import DATA

Array = np.ndarray[Any, Any]
Function = Callable[[Any], Any]

FAMILIES = ("pointwise", "special", "activation", "loss")
POINTS = (0.0, -0.0, 1.0, -1.0, 0.5, 2.0, -2.0, 3.0, -3.0, 30.0, -30.0, np.inf, -np.inf)
FEW = (0.0, 1.0, -1.0, 0.5, 2.0, np.inf)  # for three arguments
STEPS = (1e-4, 1e-5, 1e-6)
EXCEPTIONS = DATA / "edges.txt"


@cache
def exceptions() -> list[tuple[str, str, str]]:
    """(row, argument, ways) of each line; the fourth part is the reason."""
    lines = EXCEPTIONS.read_text(encoding="utf-8").splitlines()
    parts = [tuple(p.strip() for p in t.split("|")) for t in lines if t and not t.startswith("#")]
    assert all(len(p) == 4 for p in parts), "row | argument | ways | reason"
    return [(p[0], p[1], p[2]) for p in parts]


def is_exception(row: str, argument: str, way: str) -> bool:
    return any(
        fnmatch(row, r) and fnmatch(argument, a) and fnmatch(way, w) for r, a, w in exceptions()
    )


class Subject:
    """A row as a function of one argument at many points, the other arguments constant."""

    def __init__(self, row: Row, argument: str) -> None:
        self.op = operator(row.schema.name, row.schema.overload)
        given = [a.name for a in row.schema.tensors if not a.type.is_optional]
        points = POINTS if len(given) < 3 else FEW
        grid = np.array(list(itertools.product(*[points] * len(given)))).T
        self.points = dict(zip(given, grid, strict=True))
        self.argument = argument
        self.numbers = {
            a.name: 0 if a.name == "reduction" else NUMBERS[a.type.base]
            for a in row.schema.arguments
            if a.type.base in NUMBERS and (not a.has_default or a.name == "reduction")
        }

    @property
    def x(self) -> Array:
        return self.points[self.argument]

    def point(self, k: int) -> dict[str, float]:
        return {name: float(points[k]) for name, points in self.points.items()}

    def at(self, x: Array, repeats: int = 1) -> tuple[Function, Any]:
        """The function for as many points, several for each of the edges, and the argument."""
        constants = {n: ad.from_numpy(np.tile(v, repeats)) for n, v in self.points.items()}

        def function(value: Any) -> Any:
            return self.op(**(constants | {self.argument: value}), **self.numbers)

        return function, ad.from_numpy(np.array(x))


def cases() -> Iterator[Any]:
    """Rows that may be elementwise, by their schema: to run them would cost every collection."""
    for row in TABLE.rows():
        name = row.schema.name
        alias = row.decompose and not row.kernel and row.family != "loss"
        if row.family not in FAMILIES or name.startswith("_") or row.schema.mutates or alias:
            continue
        kinds = [a.type for a in row.schema.tensors]
        one_result = len(row.schema.returns) == 1 and row.schema.returns[0].type.is_tensor
        if not kinds or any(k.is_list for k in kinds) or not one_result:
            continue
        for argument in row.schema.tensors:
            if not argument.type.is_optional and argument.name not in row.refused:
                yield pytest.param(row, argument.name, id=f"{row.full_name}-{argument.name}")


def is_elementwise(row: Row) -> bool:
    """Whether the row makes a float64 of each tuple of float64: no bits, classes or sums."""
    subject = Subject(row, row.schema.tensors[0].name)
    function, x = subject.at(subject.x)
    try:
        value = function(x)
    except AdjointError:
        return False
    return bool(value.shape == x.shape and value.dtype.is_floating_point)


def reverse(function: Function) -> Function:
    return ad.grad(lambda x: function(x).sum())


def forward(function: Function) -> Function:
    return lambda x: ad.jvp(function, (x,), (ad.ones_like(x),))[1]


WAYS: dict[str, Callable[[Function], Function]] = {
    "r": reverse,
    "f": forward,
    "rr": lambda f: reverse(reverse(f)),
    "ff": lambda f: forward(forward(f)),
    "rf": lambda f: reverse(forward(f)),
    "fr": lambda f: forward(reverse(f)),
}


def beside(subject: Subject, order: int) -> tuple[Array, Array]:
    """Where derivatives have a limit, from one side at least; and that limit."""
    x, sides = subject.x, []
    far = np.isinf(x)
    for side in (-1, 1):
        near = [
            np.where(far, np.sign(x) * 1e-2 / h, x + side * h * np.maximum(1, np.abs(x)))
            for h in STEPS
        ]
        sides += [np.where(far & (np.sign(x) == side), np.nan, v) for v in near]
    function, at = subject.at(np.concatenate(sides), len(sides))
    derivative = WAYS["r" * order](function)(at).numpy().reshape(2, len(STEPS), -1)
    a, b, c = derivative[:, 0], derivative[:, 1], derivative[:, 2]
    tolerance = 1e-3 * (1 + np.abs(b))
    tends = np.isfinite(c) & (np.abs(b - c) < tolerance) & (np.abs(a - b) < 10 * tolerance)
    outside = np.isnan(b) & np.isnan(c)
    known = (tends[0] & (tends[1] | outside[1])) | (tends[1] & outside[0])
    return known, np.where(tends[0], c[0], c[1])


@pytest.mark.parametrize(("row", "argument"), list(cases()))
def test_derivatives_are_finite_where_their_limits_are(row: Row, argument: str) -> None:
    if not is_elementwise(row):
        pytest.skip("bits, classes or sums")
    subject = Subject(row, argument)
    function, x = subject.at(subject.x)
    value = function(x).numpy()
    with np.errstate(all="ignore"):
        limits = {order: beside(subject, order) for order in (1, 2)}
    for way, derive in WAYS.items():
        if is_exception(row.full_name, argument, way):
            continue
        known, limit = limits[len(way)]
        found = derive(function)(x).numpy()
        bad = known & np.isfinite(value) & ~np.isfinite(found)
        places = [f"{subject.point(k)}: {found[k]}, limit {limit[k]}" for k in np.flatnonzero(bad)]
        assert not places, f"{row.full_name}, {way} in {argument}:\n" + "\n".join(places[:10])


@pytest.mark.parametrize(("name", "argument", "way"), exceptions())
def test_exceptions_are_of_rows_that_exist(name: str, argument: str, way: str) -> None:
    names = {p.id for p in cases() if is_elementwise(p.values[0])}
    assert any(fnmatch(i, f"{name}-{argument}") for i in names)
    assert any(fnmatch(w, way) for w in WAYS)
