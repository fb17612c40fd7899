"""All 65,536 numbers of float16 and of bfloat16, value to second derivative.

The truth is our own result in float64 at the same argument and parameters, whose certificate says
that it has some forty right digits more than are asked for here. The error is in ulp of the half
type, subnormal numbers included; a truth that rounds to infinity must be infinite.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import ml_dtypes
import numpy as np

from adjoint.testing.certificates.measuring import Cell, Measured, said
from adjoint.testing.certificates.subjects import Subject
from adjoint.testing.certificates.ways import start

Array = np.ndarray[Any, Any]
ORDERS = 2
HALVES: dict[str, Any] = {
    "float16": np.dtype(np.float16), "bfloat16": np.dtype(ml_dtypes.bfloat16)
}  # fmt: skip
MEANS = ("eager", "large", "compiled")  # C has no half types
LONGEST = 8192  # elements of small arrays


def measure(subject: Subject, name: str, ways: Iterable[str]) -> Measured | None:
    """The worst of each way and order over all numbers of a half type inside the domain."""
    dtype = HALVES[name]
    if not subject.fits(dtype):
        return None
    x = _numbers(subject, dtype)
    orders = min(subject.orders, ORDERS)
    numbers = subject.parameters_in(dtype)
    worst: dict[tuple[str, int], Cell] = {}
    refused: dict[str, str] = {}
    try:
        known = start("large reverse", subject, np.float64, numbers=numbers)(x.astype(np.float64))
    except Exception as error:
        return Measured(subject.title, name, worst, {"float64": said(error)}, {})
    for way in [w for w in ways if w.split()[0] in MEANS]:
        try:
            run = start(way, subject, dtype, numbers=numbers)
            results = [np.concatenate(parts) for parts in zip(*map(run, _pieces(x, way)))]
        except Exception as error:
            refused[way] = said(error)
            continue
        if results[0].dtype != dtype:  # it gives wider numbers, and is certified at those
            return None
        for order in range(orders + 1):
            error = errors(results[order], known[order])
            i = int(np.argmax(np.where(np.isnan(error), -1.0, error)))
            numbers_there = (float(v[i]) for v in (x, results[order], known[order]))
            worst[way, order] = Cell(float(error[i]), *numbers_there)
    return Measured(subject.title, name, worst, refused, {})


def _numbers(subject: Subject, dtype: Any) -> Array:
    """All finite numbers of a half type inside the domain, without kinks."""
    x = np.arange(1 << 16, dtype=np.uint16).view(dtype)
    with np.errstate(invalid="ignore"):  # there are signalling NaNs among all patterns
        wide = x.astype(np.float64)
    low, high = max(subject.low, -subject.below), min(subject.high, subject.below)
    inside = np.isfinite(wide) & (wide > low) & (wide < high)
    return x[inside & ~np.isin(wide, subject.kinks)]


def _pieces(x: Array, way: str) -> list[Array]:
    """Arrays that are short enough for small kernels, where these are asked for."""
    return np.array_split(x, -(-x.size // LONGEST)) if way.startswith("eager") else [x]


def errors(found: Array, truth: Array) -> Array:
    """Errors in ulp of the half type; NaN where nothing is known."""
    info = ml_dtypes.finfo(found.dtype)
    y, most = found.astype(np.float64), float(info.max)
    with np.errstate(all="ignore"):
        size = np.maximum(np.abs(truth), float(info.smallest_normal))
        unit = float(info.eps) * 2.0 ** np.floor(np.log2(size))
        error = np.abs(y - truth) / unit
        # what lies within one ulp of the largest number may round either way
        beyond = np.abs(truth) > most
        right = (np.abs(y) >= most) & (np.sign(y) == np.sign(truth))
        nearly = np.abs(truth) > most * (1 - float(info.eps))
    error = np.where(beyond & right, 0.0, error)
    error = np.where(np.isinf(y) & ~beyond, np.where(nearly & right, 1.0, np.inf), error)
    error = np.where(np.isnan(y), np.inf, error)
    return np.where(np.isnan(truth), np.nan, error)
