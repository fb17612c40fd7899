"""`ad.signal.windows`: windows of M points as functions of k = 0, …, M - 1.

`sym=True` gives a symmetric window, for filters; `sym=False` the first M points of the symmetric
window of M + 1 points, whose period is M, for spectra. A window of one point is 1. The functions
are rows of doors/torch/windows.txt.

    >>> import adjoint as ad
    >>> ad.signal.windows.hann(5)
    tensor([0.0000, 0.5000, 1.0000, 0.5000, 0.0000])
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable
from typing import Any

from adjoint import ops
from adjoint.checks import creation
from adjoint.core import dtypes
from adjoint.core.errors import ArgumentError, DtypeError, ValueRangeError
from adjoint.doors.torch import all_of

Formula = Callable[[Any, int], Any]  # of k and N, the length of the full period


def _window(what: str, M: int, sym: bool, formula: Formula, options: Any) -> Any:
    """Return `formula(k, N)` for k < M, computed in float64."""
    unknown = options.keys() - {"dtype", "layout", "device", "requires_grad"}
    if unknown:
        raise ArgumentError(f"{what}() has no argument {sorted(unknown)[0]!r}")
    dtype = options.get("dtype")
    wanted = dtypes.DEFAULT.dtype if dtype is None else dtypes.to_dtype(dtype)
    creation.window_spec(what, M, wanted)
    if wanted not in (dtypes.float32, dtypes.float64):
        raise DtypeError(
            f"{what}: windows are float32 or float64, got {wanted}; convert the result."
        )
    places = {k: options[k] for k in ("layout", "device") if options.get(k) is not None}
    if M <= 1:
        result = ops.ones((M,), dtype=wanted, **places)
    else:
        k = ops.arange(M, dtype=dtypes.float64, **places)
        result = formula(k, M if sym else M + 1).to(wanted)
    return result.requires_grad_() if options.get("requires_grad") else result


def _require_positive(what: str, name: str, value: float) -> None:
    if not value > 0:
        raise ValueRangeError(f"{what}: {name} must be positive, got {value}.")


def _decay(center: float | None, tau: float, sym: bool) -> Formula:
    """exp(-|k - center| / tau)."""
    _require_positive("exponential", "tau", tau)
    if sym and center is not None:
        raise ValueRangeError("exponential: a symmetric window has its centre in the middle; "
                              "pass sym=False to choose another.")  # fmt: skip
    return lambda k, N: (-(k - ((N - 1) / 2 if center is None else center)).abs() / tau).exp()


def _bell(std: float) -> Formula:
    """exp(-((k - (N-1)/2) / std)² / 2)."""
    _require_positive("gaussian", "std", std)
    return lambda k, N: (-0.5 * ((k - (N - 1) / 2) / std) ** 2).exp()


def _bessel(M: int, beta: float) -> Formula:
    """I₀(β √(1 - (2k/(N-1) - 1)²)) / I₀(β)."""
    if not beta >= 0:
        raise ValueRangeError(f"kaiser: beta must not be negative, got {beta}.")
    return lambda k, N: ops.kaiser_window(M, N > M, float(beta), dtype=dtypes.float64)


def _cosines(M: int, a: Any, sym: bool, options: Any) -> Any:
    """Σᵢ (-1)ⁱ aᵢ cos(2π i k / (N-1))."""
    if not isinstance(a, Iterable):
        raise ArgumentError(f"general_cosine: a must be a sequence of numbers, got {a!r}")
    coefficients: list[float] = list(a)
    if not coefficients:
        raise ValueRangeError("general_cosine: a must hold at least one coefficient.")

    def formula(k: Any, N: int) -> Any:
        angle = 2 * math.pi * k / (N - 1)
        terms = [(-1) ** i * c * (i * angle).cos() for i, c in enumerate(coefficients)]
        return sum(terms[1:], terms[0])

    return _window("general_cosine", M, sym, formula, options)


_WORDS = {
    "Iterable": Iterable,
    "bell": _bell,
    "bessel": _bessel,
    "cosines": _cosines,
    "decay": _decay,
    "pi": math.pi,
    "window": _window,
}

__getattr__, __dir__ = all_of(globals(), "windows.txt", _WORDS)
