"""`ad.signal.windows`: windows of M points as functions of k = 0, …, M - 1.

`sym=True` gives a symmetric window, for filters; `sym=False` the first M points of the symmetric
window of M + 1 points, whose period is M, for spectra. A window of one point is 1.

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

__all__ = [
    "bartlett", "blackman", "cosine", "exponential", "gaussian", "general_cosine",
    "general_hamming", "hamming", "hann", "kaiser", "nuttall",
]  # fmt: skip


def _window(what: str, M: int, sym: bool, formula: Callable[[Any, int], Any], options: Any) -> Any:
    """Return `formula(k, N)` for k < M, computed in float64; N is the length of the full period."""
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


def bartlett(M: int, *, sym: bool = True, **options: Any) -> Any:
    """1 - |2k/(N-1) - 1|: a triangle.

    >>> import adjoint as ad
    >>> ad.signal.windows.bartlett(4)
    tensor([0.0000, 0.6667, 0.6667, 0.0000])
    """
    return _window("bartlett", M, sym, lambda k, N: 1 - (2 * k / (N - 1) - 1).abs(), options)


def cosine(M: int, *, sym: bool = True, **options: Any) -> Any:
    """sin(π (k + 1/2) / N).

    >>> import adjoint as ad
    >>> ad.signal.windows.cosine(4)
    tensor([0.3827, 0.9239, 0.9239, 0.3827])
    """
    return _window("cosine", M, sym, lambda k, N: (math.pi * (k + 0.5) / N).sin(), options)


def exponential(
    M: int, *, center: float | None = None, tau: float = 1.0, sym: bool = True, **options: Any
) -> Any:
    """exp(-|k - center| / τ); the centre of a symmetric window is its middle.

    >>> import adjoint as ad
    >>> ad.signal.windows.exponential(4)
    tensor([0.2231, 0.6065, 0.6065, 0.2231])
    """
    _require_positive("exponential", "tau", tau)
    if sym and center is not None:
        raise ValueRangeError("exponential: a symmetric window has its centre in the middle; "
                              "pass sym=False to choose another.")  # fmt: skip

    def formula(k: Any, N: int) -> Any:
        middle = (N - 1) / 2 if center is None else center
        return (-(k - middle).abs() / tau).exp()

    return _window("exponential", M, sym, formula, options)


def gaussian(M: int, *, std: float = 1.0, sym: bool = True, **options: Any) -> Any:
    """exp(-((k - (N-1)/2) / std)² / 2).

    >>> import adjoint as ad
    >>> ad.signal.windows.gaussian(4, std=1.0)
    tensor([0.3247, 0.8825, 0.8825, 0.3247])
    """
    _require_positive("gaussian", "std", std)

    def formula(k: Any, N: int) -> Any:
        return (-0.5 * ((k - (N - 1) / 2) / std) ** 2).exp()

    return _window("gaussian", M, sym, formula, options)


def kaiser(M: int, *, beta: float = 12.0, sym: bool = True, **options: Any) -> Any:
    """I₀(β √(1 - (2k/(N-1) - 1)²)) / I₀(β).

    >>> import adjoint as ad
    >>> ad.signal.windows.kaiser(4)
    tensor([5.2773e-05, 5.1884e-01, 5.1884e-01, 5.2773e-05])
    """
    if not beta >= 0:
        raise ValueRangeError(f"kaiser: beta must not be negative, got {beta}.")

    def formula(k: Any, N: int) -> Any:
        return ops.kaiser_window(M, N > M, float(beta), dtype=dtypes.float64)

    return _window("kaiser", M, sym, formula, options)


def general_cosine(M: int, *, a: Iterable[float], sym: bool = True, **options: Any) -> Any:
    """Σᵢ (-1)ⁱ aᵢ cos(2π i k / (N-1)).

    >>> import adjoint as ad
    >>> ad.signal.windows.general_cosine(4, a=[0.5, 0.5])
    tensor([0.0000, 0.7500, 0.7500, 0.0000])
    """
    if not isinstance(a, Iterable):
        raise ArgumentError(f"general_cosine: a must be a sequence of numbers, got {a!r}")
    coefficients = list(a)
    if not coefficients:
        raise ValueRangeError("general_cosine: a must hold at least one coefficient.")

    def formula(k: Any, N: int) -> Any:
        angle = 2 * math.pi * k / (N - 1)
        terms = [(-1) ** i * c * (i * angle).cos() for i, c in enumerate(coefficients)]
        return sum(terms[1:], terms[0])

    return _window("general_cosine", M, sym, formula, options)


def general_hamming(M: int, *, alpha: float = 0.54, sym: bool = True, **options: Any) -> Any:
    """α - (1 - α) cos(2π k / (N-1)).

    >>> import adjoint as ad
    >>> ad.signal.windows.general_hamming(4)
    tensor([0.0800, 0.7700, 0.7700, 0.0800])
    """
    return general_cosine(M, a=(alpha, 1 - alpha), sym=sym, **options)


def hamming(M: int, *, sym: bool = True, **options: Any) -> Any:
    """0.54 - 0.46 cos(2π k / (N-1)).

    >>> import adjoint as ad
    >>> ad.signal.windows.hamming(4)
    tensor([0.0800, 0.7700, 0.7700, 0.0800])
    """
    return general_hamming(M, sym=sym, **options)


def hann(M: int, *, sym: bool = True, **options: Any) -> Any:
    """½ - ½ cos(2π k / (N-1)).

    >>> import adjoint as ad
    >>> ad.signal.windows.hann(4)
    tensor([0.0000, 0.7500, 0.7500, 0.0000])
    """
    return general_hamming(M, alpha=0.5, sym=sym, **options)


def blackman(M: int, *, sym: bool = True, **options: Any) -> Any:
    """0.42 - 0.5 cos(2π k / (N-1)) + 0.08 cos(4π k / (N-1)).

    >>> import adjoint as ad
    >>> ad.signal.windows.blackman(4)
    tensor([-1.3878e-17,  6.3000e-01,  6.3000e-01, -1.3878e-17])
    """
    return general_cosine(M, a=(0.42, 0.5, 0.08), sym=sym, **options)


def nuttall(M: int, *, sym: bool = True, **options: Any) -> Any:
    """The minimal four-term window of Nuttall 1981.

    >>> import adjoint as ad
    >>> ad.signal.windows.nuttall(4)
    tensor([3.6280e-04, 5.2923e-01, 5.2923e-01, 3.6280e-04])
    """
    return general_cosine(M, a=(0.3635819, 0.4891775, 0.1365995, 0.0106411), sym=sym, **options)


def __dir__() -> list[str]:
    return sorted(__all__)
