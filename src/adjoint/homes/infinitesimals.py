"""How an operator runs on numbers with an infinitely small part: Note [Kinks] in limits.py.

They are complex numbers, a + iδb, that stand for real ones. An analytic operator runs on them as on
other complex numbers. An operator that is not analytic, or that takes no complex numbers, runs on
a, and pushes b forward: f(a + iδb) = f(a) + iδ f'(a) b.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from adjoint.core import dtypes
from adjoint.core.errors import AdjointError
from adjoint.core.state import changed, current
from adjoint.homes import derive
from adjoint.ops import binding
from adjoint.ops.branches import at_kink
from adjoint.ops.kinks import is_limit
from adjoint.ops.operator import Operator, packet
from adjoint.table.rows import Row
from adjoint.tensor.tensor import Tensor

# The choices at a kink: 0 with a tensor near it, iδ in place of 0, or 0 alone.
LIMIT, NEAR, EXACT, ONCE = 0, 1, 2, 3

# Makes one tensor of a value and the value near it.
Pair = Callable[[Any, Any], Any]


def at_kinks(choice: int) -> changed:
    """A block that computes with iδ in place of 0, or with 0 alone."""
    return changed(at_kinks=choice)


def result_near(op: Operator, pair: Pair, values: list[Any], exact: list[Any]) -> Any:
    """The result of an operator near a kink, of `values` that are near to `exact`."""
    row = op.row
    values = _in_float64(values)
    if _has_formula(op, values):
        with at_kinks(EXACT):
            formula = binding.reference(row.texts["near"], "decompositions", row, "near")
            found = formula(*values, exact=exact)
        return packet("_nearby")(found) if "kink" in row.texts else found
    if row.name == "_to_copy":  # a real dtype would lose the infinitely small part
        return values[0]
    if not _is_analytic(row):
        return _pushed(op, pair, values, exact)
    with at_kinks(NEAR):
        for given in (lambda: values, lambda: _all_complex(values)):
            try:
                return op.call(given())
            except AdjointError:
                continue
    return _pushed(op, pair, values, exact)


def _has_formula(op: Operator, values: list[Any]) -> bool:
    """Whether the row has a formula (column `near`) for numbers with an infinitely small part."""
    if not op.row.texts.get("near") or ("kink" in op.row.texts and not at_kink(op, values)):
        return False
    return any(isinstance(v, Tensor) and v.is_complex() for v in values)


def _in_float64(values: list[Any]) -> list[Any]:
    """The values; narrower real tensors in float64 if they would decide the result's dtype, as next
    to a 0-d complex128.
    """
    tensors = [v for v in values if isinstance(v, Tensor)]
    if not any(t.dtype is dtypes.complex128 and not t.ndim for t in tensors):
        return values
    return _each(lambda v: v.to(dtypes.float64) if _is_narrow(v) else v, values)


def _is_narrow(value: Any) -> bool:
    narrow = (dtypes.float32, *dtypes.HALVES)
    return isinstance(value, Tensor) and value.dtype in narrow


def _all_complex(values: list[Any]) -> list[Any]:
    """All of them as complex numbers, for operators that do not mix dtypes."""
    return _each(_as_complex, values)


def _as_complex(value: Any) -> Any:
    is_number = isinstance(value, Tensor) and value.is_differentiable_dtype()
    return value.to(dtypes.complex128) if is_number else value


def _pushed(op: Operator, pair: Pair, values: list[Any], exact: list[Any]) -> Any:
    """f(a) + b f'(a + b/2), which agrees with f(a) + f'(a) b + f''(a) b²/2: for imaginary b, the
    derivative in b must equal that in a.
    """
    stands = _pairs(_stands_for, values, exact)
    primals = _pairs(lambda v, s: _real(v) if s else v, values, stands)
    tangents = _pairs(lambda v, s: _real(-1j * v) if s else None, values, stands)
    with at_kinks(EXACT):
        results = op.call(primals)
    if current().at_kinks == ONCE:
        return _with_tangents(op, primals, tangents, results, results)
    half = _pairs(lambda p, t: p if t is None else pair(p, _complex(p, 0.5 * t)), primals, tangents)
    with at_kinks(ONCE):
        near = op.call(half)
        return _with_tangents(op, half, tangents, near, results)


def _with_tangents(op: Operator, at: list[Any], tangents: Any, near: Any, results: Any) -> Any:
    """Results with tangents as imaginary parts; `at`, `near`: arguments and results at a + b/2."""
    names = op.schema.names
    several = isinstance(results, (tuple, list))
    scope = dict(zip(names, at, strict=True))
    given = {a.name: tangents[names.index(a.name)] for a in op.row.differentiable}
    per_return = [near] if isinstance(near, list) or not several else list(near)
    found = derive.forward_all(op.row, scope, given, per_return)
    joined = [_shifted(o, t) for o, t in zip(results if several else [results], found, strict=True)]
    return type(results)(joined) if several else joined[0]


def _shifted(value: Any, tangent: Any) -> Any:
    if tangent is None or not value.is_differentiable_dtype() or value.is_complex():
        return value
    if is_limit(tangent):
        tangent = tangent.companion[0]
    return _as_complex(value) + 1j * _as_complex(tangent)


def _real(value: Any) -> Any:
    """The real part, by a conversion: it fuses into loops, while the view `real` does not."""
    return value.to(value.dtype.to_real())


def _complex(real: Any, imaginary: Any) -> Any:
    """a + ib in the precision of the infinitely small."""
    return packet("complex")(real.to(dtypes.float64), imaginary.to(dtypes.float64))


def _stands_for(value: Any, exact: Any) -> bool:
    """Whether complex numbers stand for real ones with an infinitely small part."""
    return isinstance(value, Tensor) and value.is_complex() and not exact.is_complex()


def _is_analytic(row: Row) -> bool:
    """Whether an operator is analytic: its forward mode is derived without conjugates."""
    return bool(row.forward) and all(f.automatic for f in row.forward)


def _each(choose: Callable[[Any], Any], values: list[Any]) -> list[Any]:
    return [_each(choose, v) if type(v) is list else choose(v) for v in values]


def _pairs(choose: Callable[[Any, Any], Any], values: list[Any], others: list[Any]) -> list[Any]:
    return [
        _pairs(choose, v, o) if type(v) is list else choose(v, o)
        for v, o in zip(values, others, strict=True)
    ]
