"""Errors of our derivatives in ulp, against proven enclosures.

A *way* is how numbers come about: eager (small arrays, NumPy kernels), large (native kernels of
large arrays), compiled, or exported C; each in reverse mode upon itself and in forward mode upon
itself. All ways are asked for the value and three derivatives at every argument of a grid; then
arguments next to the worst ones are tried.

The error of a number is |found - truth| in units of `truths.py`: ulp, but for arguments next to a
zero. A truth beyond the largest number must be found infinite, and one below the smallest
may be found as 0: below the smallest normal number errors count as quarters of that number.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping
from typing import Any

import numpy as np

from adjoint.core.errors import AdjointError
from adjoint.core.records import record
from adjoint.testing.certificates.subjects import Subject, arguments
from adjoint.testing.certificates.truths import Truths, errors, truths
from adjoint.testing.certificates.ways import Run, start

Array = np.ndarray[Any, Any]
ROUNDS, AROUND, SPREAD = 2, 4, 12  # of the search: rounds, worst points, tries at each


@record
class Cell:
    """The worst error of one order, way and dtype."""

    error: float  # in ulp
    at: float | str  # the argument; of vectors and matrices the situation: "one large"
    found: float
    truth: float


@record
class Measured:
    """What was found of one subject in one dtype."""

    subject: str  # "hypot(x, 0.7)"
    dtype: str  # "float64"; "float64 condition" where the unit is ε times the condition
    worst: Mapping[tuple[str, int], Cell]  # by way and order: {("eager reverse", 2): …}
    refused: Mapping[str, str]  # ways that raised: {"c forward": "export.c: there is no C for …"}
    profile: Mapping[int, tuple[tuple[float, float], ...]]  # (argument, error) of each order


def measure(
    subject: Subject, dtype: Any, ways: Iterable[str], *, search: bool = True
) -> Measured | None:
    """The worst cell of each way and order; None if a parameter does not exist in the dtype."""
    if not subject.fits(dtype):
        return None
    trial = _Trial(subject, np.dtype(dtype), ways)
    x = arguments(subject, dtype)
    spots = trial.attempt(x)
    rng = np.random.default_rng(subject.seed + 1)
    for _ in range(ROUNDS if search else 0):
        near = _around(rng, subject, np.array(spots, dtype=dtype))
        if not near.size:
            break
        spots = trial.attempt(near)
    profile = {order: tuple(sorted(points.items())) for order, points in trial.profile.items()}
    return Measured(subject.title, trial.dtype.name, trial.worst, trial.refused, profile)


class _Trial:
    """The ways of one subject in one dtype, and the worst that they have shown."""

    def __init__(self, subject: Subject, dtype: Any, ways: Iterable[str]) -> None:
        self.subject, self.dtype = subject, dtype
        self.runs: dict[str, Run] = {}
        self.refused: dict[str, str] = {}
        self.worst: dict[tuple[str, int], Cell] = {}
        self.profile: dict[int, dict[float, float]] = {}
        for way in ways:
            self._guarded(way, lambda way=way: self.runs.update({way: start(way, subject, dtype)}))

    def _guarded(self, way: str, step: Any) -> Any:
        """The result of a step, or None after it refused or broke, of which the report tells."""
        try:
            return step()
        except Exception as error:
            self.refused[way] = said(error)
            self.runs.pop(way, None)
            return None

    def attempt(self, x: Array) -> list[float]:
        """Run all ways on arguments, keep the worst; returns the arguments with large errors."""
        spots: list[float] = []
        known = truths(self.subject, x)
        for way, run in list(self.runs.items()):
            results = self._guarded(way, lambda run=run: run(x))
            for order, found in enumerate(results or ()):
                spots += self._judge(way, order, x, np.broadcast_to(found, x.shape), known)
        return list(dict.fromkeys(spots))

    def _judge(self, way: str, order: int, x: Array, found: Array, known: Truths) -> list[float]:
        error = errors(found, known, order)
        if np.all(np.isnan(error)):
            return []
        seen = self.profile.setdefault(order, {})
        for point, size in zip(x, error):
            if not math.isnan(size):
                seen[float(point)] = max(seen.get(float(point), 0.0), float(size))
        ranked = np.argsort(np.where(np.isnan(error), -1.0, error))[::-1]
        i = int(ranked[0])
        before = self.worst.get((way, order))
        if before is None or error[i] > before.error:
            cell = Cell(float(error[i]), float(x[i]), float(found[i]), float(known.high[order, i]))
            self.worst[way, order] = cell
        return [float(x[j]) for j in ranked[:AROUND]]


def said(error: Exception) -> str:
    """The first line of an error; with its class where it is none of ours."""
    (line, *_) = str(error).splitlines() or [""]
    return line if isinstance(error, AdjointError) else f"{type(error).__name__}: {line}"


def _around(rng: Any, subject: Subject, spots: Array) -> Array:
    """Arguments within some ulp up to an eighth of each spot."""
    low, high = max(subject.low, -subject.below), min(subject.high, subject.below)
    scale = 2.0 ** -rng.uniform(3, np.finfo(spots.dtype).nmant, (spots.size, SPREAD // 4))
    near = spots[:, None] * (1 + scale * rng.choice((-1, 1), scale.shape))
    with np.errstate(over="ignore"):  # an end of the domain may lie beyond float32
        near = near.astype(spots.dtype).ravel()
        inside = (near > low) & (near < high) & np.isfinite(near)
    kinked = np.isin(near, np.array(subject.kinks, dtype=spots.dtype))
    return np.unique(near[inside & ~kinked])
