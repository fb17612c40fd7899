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
from adjoint.core.records import record
from adjoint.testing.certificates import definitions
from adjoint.testing.certificates.balls import flint, number, series
from adjoint.testing.certificates.measuring import Cell, Measured, said
from adjoint.testing.certificates.subjects import operator_of
from adjoint.testing.certificates.ways import is_asked, letters, namespace

Array = np.ndarray[Any, Any]
_FILE = Path(__file__).with_name("vectors.txt")
SIZE = 6
BITS, STEP = 700, 200  # of the truth; the condition is a difference over 2⁻²⁰⁰
DTYPES = ("float64", "float32")
JACOBIANS = {"r": ad.jacrev, "f": ad.jacfwd}
WAYS = ("eager rr", "eager ff", "eager rf", "compiled rf")


@record
class Function:
    """A line of `vectors.txt`."""

    call: str  # "logsumexp(x, (0,))"
    definition: str
    wide: bool  # whether it is tried with numbers at the ends of the range
    family: str = "vectors"

    @property
    def title(self) -> str:
        return self.call

    @property
    def operator(self) -> str:
        return operator_of(self.call)

    def ours(self) -> Callable[[Any], Any]:
        code = compile(self.call, f"<{self.call}>", "eval")
        return lambda x: eval(code, namespace(), {"x": x})


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


def measure(function: Function, dtype: str, ways: Sequence[str]) -> Measured | None:
    """The worst error of each way and order over all situations; None for half types."""
    if dtype not in DTYPES:
        return None
    worst: dict[tuple[str, int], Cell] = {}
    refused: dict[str, str] = {}
    asked = [way for way in WAYS if is_asked(way, ways)]
    for situation, x in situations(function, dtype):
        known = truth(function.definition, x)
        for way in asked:
            try:
                results = _ours(function, x, way)
            except Exception as error:
                refused[way] = f"{situation}: {said(error)}"
                continue
            for order, found in enumerate(results):
                cell = _worst(found, known[order], np.finfo(dtype), situation)
                if cell and ((way, order) not in worst or cell.error > worst[way, order].error):
                    worst[way, order] = cell
    return Measured(function.title, f"{dtype} condition", worst, refused, {})


def _ours(function: Function, x: Array, way: str) -> list[Array]:
    chain: list[Any] = [function.ours()]
    for letter in letters(way):
        chain.append(JACOBIANS[letter](chain[-1]))

    def tower(v: Any) -> tuple[Any, ...]:
        return tuple(g(v) for g in chain)

    run = ad.compile(tower) if way.startswith("compiled") else tower
    return [y.detach().numpy() for y in run(ad.tensor(x))]


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


def _worst(found: Array, known: tuple[Array, Array], info: Any, situation: str) -> Cell | None:
    """The largest error in units; infinite for a NaN where the truth is a number of the dtype."""
    value, unit = known
    asked = np.isfinite(value) & (np.abs(value) < float(info.max) / 2)
    if not asked.any():
        return None
    y = found.astype(np.float64)
    with np.errstate(all="ignore"):
        error = np.abs(y - value) / (float(info.eps) * unit + float(info.smallest_normal))
    error = np.where(np.isfinite(y), error, math.inf)
    place = np.unravel_index(np.argmax(np.where(asked, error, -1.0)), error.shape)
    return Cell(float(error[place]), situation, float(y[place]), float(value[place]))
