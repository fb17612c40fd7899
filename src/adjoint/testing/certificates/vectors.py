"""Functions of vectors, value to second derivative: errors over ε times the condition.

An element of a gradient may be small though the numbers that it is made of are large, so an ulp is
no unit here. The unit is ε(|q| + Σ |xₗ ∂q/∂xₗ|) for a result q: as much as q moves when every
argument is rounded. A function that is as good as its problem has an error of a few units.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable, Iterator, Sequence
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np

import adjoint as ad
from adjoint.core.errors import AdjointError
from adjoint.core.records import record
from adjoint.testing.certificates import definitions
from adjoint.testing.certificates.balls import flint, number, series
from adjoint.testing.certificates.ways import namespace

Array = np.ndarray[Any, Any]
_FILE = Path(__file__).with_name("vectors.txt")
SIZE = 6
BITS, STEP = 700, 200  # of the truth; the condition is a difference over 2⁻²⁰⁰
MODES = ("reverse", "forward", "compiled")


@record
class Function:
    """A line of `vectors.txt`."""

    call: str  # "logsumexp(x, (0,))"
    definition: str
    wide: bool  # whether it is tried with numbers at the ends of the range

    def ours(self) -> Callable[[Any], Any]:
        code = compile(self.call, f"<{self.call}>", "eval")
        return lambda x: eval(code, namespace(), {"x": x})


@record
class Error:
    """The largest error of one order over ε times the condition."""

    function: str  # "std(x, 0)"
    situation: str  # "tiny"
    dtype: str  # "float64"
    order: int
    mode: str  # "reverse"
    error: float


@cache
def functions() -> tuple[Function, ...]:
    """All lines of the table."""
    found: list[Function] = []
    for line in _FILE.read_text(encoding="utf-8").splitlines():
        if line and not line.startswith("#"):
            said, _, column = line.partition(";")
            call, _, definition = said.partition(" = ")
            found.append(Function(call.strip(), definition.strip(), column.strip() == "wide"))
    return tuple(found)


def situations(function: Function, dtype: Any) -> Iterator[tuple[str, Array]]:
    """Named vectors: tame, nearly equal, with one large element, at both ends of the range."""
    rng = np.random.default_rng(len(function.call))
    x = rng.normal(size=SIZE)
    info = np.finfo(dtype)
    yield "tame", x.astype(dtype)
    yield "nearly equal", (1 + 64 * float(info.eps) * x).astype(dtype)
    yield "one large", np.where(np.arange(SIZE) == 1, 30.0, x).astype(dtype)
    if function.wide:
        yield "tiny", (x * float(info.smallest_normal) * 64).astype(dtype)
        yield "huge", (x * (float(info.max) / 64)).astype(dtype)


def measure(function: Function, dtype: str) -> Iterator[Error]:
    """The errors of a function in all situations, orders and modes."""
    for situation, x in situations(function, dtype):
        known = truth(function.definition, x)
        for mode in MODES:
            for order, found in enumerate(_ours(function, x, mode)):
                worst = _worst(found, known[order], np.finfo(dtype))
                yield Error(function.call, situation, dtype, order, mode, worst)


def _ours(function: Function, x: Array, mode: str) -> list[Array]:
    f = function.ours()
    slope = ad.jacfwd if mode == "forward" else ad.jacrev
    chain: list[Any] = [f, slope(f), ad.jacfwd(slope(f))]
    if mode == "compiled":
        program = ad.compile(lambda v: tuple(g(v) for g in chain))
        return [y.numpy() for y in program(ad.tensor(x))]
    return [g(ad.tensor(x)).detach().numpy() for g in chain]


# -- truths ----------------------------------------------------------------------------------------


def truth(definition: str, x: Array) -> list[tuple[Array, Array]]:
    """For each order the results and the units by which their errors are divided."""
    at = [float(v) for v in x]
    with definitions.precision(3) as ctx:
        ctx.prec = BITS
        exact = [number(v) for v in at]
        here = _jet(definition, exact)
        step = flint().arb(2) ** -STEP
        moved: list[list[Any]] = [[abs(q) for q in part] for part in here]
        for place in range(len(exact)):
            near = [v * (1 + step) if i == place else v for i, v in enumerate(exact)]
            for part, there, total in zip(here, _jet(definition, near), moved):
                for i, (q, p) in enumerate(zip(part, there)):
                    total[i] += abs(p - q) / step
        shapes = (), (SIZE,), (SIZE, SIZE)
        return [
            tuple(_floats(v).reshape(shape) for v in pair)  # type: ignore[misc]
            for *pair, shape in zip(here, moved, shapes)
        ]


def _floats(balls: Sequence[Any]) -> Array:
    return np.array([float(b.mid()) if b.is_finite() else math.nan for b in balls])


def _jet(definition: str, x: Sequence[Any]) -> list[list[Any]]:
    """Value, gradient and Hessian: of series along the axes and along sums of two of them."""
    n = len(x)
    along = {j: _series(definition, x, (j,)) for j in range(n)}
    second: dict[tuple[int, int], Any] = {(j, j): 2 * along[j][2] for j in range(n)}
    for j, k in itertools.combinations(range(n), 2):
        both = _series(definition, x, (j, k))[2]
        second[j, k] = second[k, j] = both - along[j][2] - along[k][2]
    hessian = [second[j, k] for j in range(n) for k in range(n)]
    return [[along[0][0]], [along[j][1] for j in range(n)], hessian]


def _series(definition: str, x: Sequence[Any], axes: tuple[int, ...]) -> Any:
    moving = [series([v, 1]) if i in axes else series([v]) for i, v in enumerate(x)]
    return series([0]) + definitions.evaluate_list(definition, moving)


def _worst(found: Array, known: tuple[Array, Array], info: Any) -> float:
    """The largest error in units; infinite for a NaN where the truth is a number of the dtype."""
    value, unit = known
    asked = np.isfinite(value) & (np.abs(value) < float(info.max) / 2)
    if not asked.any():
        return 0.0
    y = found.astype(np.float64)
    with np.errstate(all="ignore"):
        error = np.abs(y - value) / (float(info.eps) * unit + float(info.smallest_normal))
    error = np.where(np.isfinite(y), error, math.inf)
    return float(error[asked].max())


def measure_all() -> Iterator[Error]:
    """All functions, in both dtypes; a function that refuses counts as infinite."""
    for function in functions():
        for dtype in ("float64", "float32"):
            try:
                yield from measure(function, dtype)
            except AdjointError as error:
                said = str(error).splitlines()[0]
                yield Error(function.call, said, dtype, 0, "reverse", math.inf)
