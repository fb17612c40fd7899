"""Kinds of arguments in every position: tensors, arrays, NumPy's scalars, Python's numbers.

A case is an operator with several numeric arguments and one value for each, of random kinds and
dtypes. Eager, traced, compiled, vmapped and differentiated calls must give the same dtype and the
same numbers, or all refuse; PyTorch, where it is installed, has the same dtype.
"""

from __future__ import annotations

import random
from collections.abc import Callable, Iterator
from functools import cache
from typing import Any

import ml_dtypes
import numpy as np

import adjoint as ad
from adjoint.core.errors import AdjointError, GradError
from adjoint.graph.trace import TraceError
from adjoint.homes.held_numbers import number_of
from adjoint.table import TABLE
from adjoint.table.rows import Row
from adjoint.table.schema import Argument
from tests.campaigns import campaign

FLOATS = ("float16", "bfloat16", "float32", "float64")
DTYPES = ("bool", "uint8", "int8", "int32", "int64", *FLOATS, "complex64", "complex128")
SCALARS = (
    np.bool_, np.uint8, np.int32, np.int64, np.float16, np.float32, np.float64,
    np.longdouble, np.complex64, np.complex128, ml_dtypes.bfloat16,
)  # fmt: skip
# Rows that write, or whose arguments only the family's own samples know.
_OTHERS = ("copy_", "masked_fill", "clamp", "where", "index_fill", "fill_", "max", "min")
# Functions with steps, where a rounding error makes a whole one.
JUMPS = ("floor_divide", "remainder", "fmod", "heaviside", "div", "divide")
COMPILED_EVERY = 12  # compiling takes a hundred times as long as all the rest


@cache
def names() -> list[str]:
    """The operators with several arguments that are brought to one dtype."""
    found = {r.schema.name for r in TABLE.rows() if _is_numeric(r)}
    return sorted(found | {n for n in _OTHERS if n.rstrip("_") in TABLE})


def _is_numeric(row: Row) -> bool:
    numbers = [a for a in row.promoted if not a.type.is_list]
    public = not row.schema.name.startswith("_") and row.family != "random"
    return len(numbers) > 1 and not row.schema.mutates and public


class Case:
    """One call: the name of an operator and its arguments, with what to vary."""

    def __init__(self, seed: int) -> None:
        self.random = random.Random(seed)
        self.name = self.random.choice(names())
        row = self._row()
        self.positions: list[str] = []
        self.args = [self._value(a) for a in row.schema.arguments if self._is_given(a, row)]
        self.compiles = seed % COMPILED_EVERY == 0

    def _row(self) -> Row:
        name = self.name if self.name in TABLE else self.name.rstrip("_")
        rows = [TABLE.row(name, o) for o in TABLE.overloads(name)]
        wanted = [r for r in rows if _is_numeric(r)] or [
            r for r in rows if len(r.schema.tensors) + len(r.schema.arguments) > 2
        ]
        return self.random.choice(wanted)

    def _is_given(self, argument: Argument, row: Row) -> bool:
        return not argument.keyword_only and (
            argument.type.is_tensor or argument in row.promoted or not argument.has_default
        )

    def _value(self, argument: Argument) -> Any:
        name = argument.name
        self.positions.append(name)
        if name in ("condition", "mask"):
            return ad.tensor([True, False])
        if name == "dim":
            return 0
        if name == "index":
            return ad.tensor([0])
        kinds = ("tensor", "tensor", "0-d", "array", "scalar", "python")
        kind = self.random.choice(kinds if argument.type.is_tensor else kinds[-2:])
        if len(self.positions) == 1 and self.name.endswith("_"):
            kind = "tensor"
        number = self.random.choice((1 / 3, 0.7, 1.5))
        if kind == "python":
            return self.random.choice((True, 1, 2, number, complex(number, 0.5)))
        if kind == "scalar":
            return _cast(number, self.random.choice(SCALARS))[()]
        dtype = getattr(ad, self.random.choice(DTYPES)).np
        if kind == "0-d":
            return ad.from_numpy(np.array(_cast(number, dtype)))
        array = _cast([number, 2.25], dtype)
        return array if kind == "array" else ad.from_numpy(array)

    def call(self, *args: Any) -> Any:
        if self.name.endswith("_"):
            return getattr(args[0].clone(), self.name)(*args[1:])
        return getattr(ad, self.name)(*args)

    def __str__(self) -> str:
        shown = [_shown(a) for a in self.args]
        return f"ad.{self.name}({', '.join(shown)})"


def _cast(value: Any, dtype: Any) -> np.ndarray[Any, Any]:
    return np.asarray(value).astype(dtype)


def _shown(value: Any) -> str:
    if isinstance(value, ad.Tensor):
        return f"ad.tensor({value.tolist()}, dtype={value.dtype})"
    if isinstance(value, np.ndarray):
        return f"np.array({value.tolist()}, {str(value.dtype)!r})"
    return f"np.{type(value).__name__}({value})" if isinstance(value, np.generic) else repr(value)


class Refused:
    """The outcome of a call that raised one of our errors."""

    def __init__(self, error: AdjointError) -> None:
        self.error = error

    def __repr__(self) -> str:
        return f"{type(self.error).__name__}: {self.error}"


def outcome(function: Callable[..., Any], *args: Any) -> Any:
    try:
        return function(*args)
    except AdjointError as error:
        return Refused(error)


def check(seed: int) -> int:
    case = Case(seed)
    if len(case.args) > 2 and not any(isinstance(a, (ad.Tensor, np.ndarray)) for a in case.args):
        return 0
    eager = outcome(case.call, *case.args)
    if not isinstance(eager, (ad.Tensor, Refused)):
        return 0  # max(x, 0) of a dimension
    others: list[tuple[str, Any]] = [("traced", outcome(_traced, case))]
    if case.compiles:
        others.append(("compiled", outcome(ad.compile(case.call), *case.args)))
    if (mapped := _mapped(case)) is not None:
        others.append(("vmapped", mapped))
    others += _differentiated(case, eager)
    for way, result in others:
        if not (isinstance(result, Refused) and _needs_a_value(case, result)):
            _compare(case, way, eager, result)
    return len(others) + _compare_with_torch(case, eager)


def _needs_a_value(case: Case, result: Refused) -> bool:
    """Whether a graph refused a number because an operator takes its value, not a tensor."""
    return isinstance(result.error, TraceError) and any(number_of(a) is not None for a in case.args)


def _traced(case: Case) -> Any:
    return ad.trace(case.call, *case.args)(*case.args)


def _mapped(case: Case) -> Any:
    """The call for a batch of two equal samples, its first one; None if nothing can be mapped."""
    tensors = [isinstance(a, (ad.Tensor, np.ndarray)) for a in case.args]
    if not any(tensors):
        return None
    mapped = [t and case.random.random() < 0.7 for t in tensors]
    mapped[tensors.index(True)] = True
    batches = [
        ad.stack([ad.asarray(a)] * 2) if m else a for a, m in zip(case.args, mapped, strict=True)
    ]
    axes = tuple(0 if m else None for m in mapped)
    found = outcome(ad.vmap(case.call, axes), *batches)
    return found if isinstance(found, Refused) else found[0]


def _differentiated(case: Case, eager: Any) -> list[tuple[str, Any]]:
    """The value of the call inside derivatives in one of its arguments."""
    places = [
        i for i, a in enumerate(case.args) if isinstance(a, ad.Tensor) and a.dtype.is_differentiable
    ]
    if not places or isinstance(eager, Refused) or not eager.dtype.is_differentiable:
        return []
    place = case.random.choice(places)
    x = case.args[place]

    def in_one(value: Any) -> Any:
        return case.call(*case.args[:place], value, *case.args[place + 1 :])

    def real(value: Any) -> Any:
        found = in_one(value)
        return (found.real if found.is_complex() else found).sum()

    try:
        found = [("jvp", ad.jvp(in_one, (x,), (ad.ones_like(x),))[0])]
    except GradError:  # an argument that has no derivative
        return []
    gradient = outcome(ad.grad(real), x)
    again = outcome(lambda v: ad.trace(ad.grad(real), v)(v), x)
    _compare(case, f"gradient in {case.positions[place]}, traced", gradient, again)
    if not isinstance(gradient, Refused):
        assert gradient.dtype is x.dtype, f"{case}: the gradient has {gradient.dtype}"
    return found


def _compare(case: Case, way: str, eager: Any, other: Any) -> None:
    refused = isinstance(eager, Refused), isinstance(other, Refused)
    if all(refused):
        return
    told = f"{case}\n  eager: {eager!r}\n  {way}: {other!r}"
    assert not any(refused), told
    assert eager.dtype is other.dtype, told
    assert eager.shape == other.shape, told
    wide = np.complex128 if eager.is_complex() else np.float64
    if case.name in JUMPS and any(ad.finfo(d).bits < 32 for d in _floats(case, eager)):
        return  # a number is rounded to 16 bits before or after a step
    a, b = (t.detach().numpy().astype(wide) for t in (eager, other))
    rounding = 8 * max((ad.finfo(d).eps for d in _floats(case, eager)), default=0)
    assert np.allclose(a, b, rtol=rounding, atol=rounding, equal_nan=True), told


def _floats(case: Case, result: Any) -> Iterator[Any]:
    """The dtypes with rounding errors among the arguments and the result."""
    for value in (*case.args, result):
        if isinstance(value, (np.generic, np.ndarray)) and value.dtype != np.longdouble:
            value = ad.from_numpy(np.asarray(value))
        if isinstance(value, ad.Tensor) and value.dtype.is_differentiable:
            yield value.dtype


# -- PyTorch ---------------------------------------------------------------------------------------


def _compare_with_torch(case: Case, eager: Any) -> int:
    torch = campaign.torch()
    if torch is None or isinstance(eager, Refused):
        return 0
    if not any(isinstance(a, (ad.Tensor, np.ndarray)) for a in case.args):
        return 0  # PyTorch wants a tensor
    if len(case.args) > 2 and any(isinstance(a, ad.Tensor) and not a.ndim for a in case.args):
        return 0  # beside a number it takes a 0-d tensor for one
    args = [_torch_value(torch, a) for a in case.args]
    try:
        if case.name.endswith("_"):
            expected = getattr(args[0], case.name)(*args[1:])
        else:
            expected = getattr(torch, case.name)(*args)
    except (TypeError, RuntimeError, AttributeError):
        return 0  # a number first, or a dtype that it lacks
    if not isinstance(expected, torch.Tensor) or expected.dtype is torch.complex32:
        return 0
    told = f"{case}\n  eager: {eager!r}\n  PyTorch: {expected!r}"
    assert str(expected.dtype).removeprefix("torch.") == eager.dtype.name, told
    return 1


def _torch_value(torch: Any, value: Any) -> Any:
    if isinstance(value, np.ndarray):
        value = ad.from_numpy(value)
    if isinstance(value, ad.Tensor):
        return torch.tensor(value.tolist(), dtype=getattr(torch, value.dtype.name))
    if isinstance(value, np.generic):
        return complex(value) if value.dtype.kind == "c" else type(value.tolist())(value.tolist())
    return value


if __name__ == "__main__":
    campaign.main(check)
