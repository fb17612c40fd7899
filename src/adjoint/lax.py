"""`ad.lax`: control flow and a few operators under the names of `jax.lax`.

A table of names; the functions are those of `ad` itself.

>>> import adjoint as ad
>>> from adjoint import lax
>>> lax.scan is ad.scan, lax.rsqrt is ad.rsqrt
(True, True)
"""

from __future__ import annotations

from typing import Any

from adjoint.absent import absent
from adjoint.graph.callbacks import pure_callback
from adjoint.graph.control import cond, fori_loop, scan, switch, while_loop
from adjoint.graph.implicit import custom_linear_solve, custom_root
from adjoint.graph.scans import associative_scan, map
from adjoint.ops import operator as operators
from adjoint.transforms.reverse import stop_gradient

__all__ = [
    "associative_scan",
    "cond",
    "custom_linear_solve",
    "custom_root",
    "fori_loop",
    "map",
    "pure_callback",
    "scan",
    "stop_gradient",
    "switch",
    "while_loop",
]

# Operators that are the same function here: under the same name, and {name in jax.lax: name here}.
_SAME = (
    "abs acos acosh add asin asinh atan atan2 atanh bitwise_and bitwise_not bitwise_or bitwise_xor "
    "ceil cos cosh digamma eq erf erfc exp exp2 expm1 floor ge gt le lgamma log log1p lt mul ne "
    "neg nextafter pow reciprocal rsqrt sign sin sinh sqrt square sub tan tanh"
)
_OTHER = {
    "erf_inv": "erfinv",
    "is_finite": "isfinite",
    "logistic": "sigmoid",
    "max": "maximum",
    "min": "minimum",
    "rem": "fmod",
    "select": "where",
}
_OPERATORS = {**{name: name for name in _SAME.split()}, **_OTHER}


def __getattr__(name: str) -> Any:
    if name not in _OPERATORS:
        raise absent(__name__, name, __dir__())
    return operators.packet(_OPERATORS[name]).function


def __dir__() -> list[str]:
    return sorted({*__all__, *_OPERATORS})
