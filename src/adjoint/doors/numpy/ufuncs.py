"""NumPy's ufuncs on tensors: calls with `where=`, `out=`, `dtype=`, and `reduce`, `outer`, `at`, …

What an element becomes is an operator of ours, by the table of names. Which dtypes the operands
are brought to is asked of NumPy's ufunc itself.
"""

from __future__ import annotations

import functools
from collections.abc import Callable
from inspect import Parameter, Signature, signature
from typing import Any, Generic

import numpy as np

from adjoint.core.dtypes import OF, complex64, complex128, float32, float64, int64, uint64
from adjoint.core.errors import ArgumentError, ShapeError
from adjoint.doors import ad
from adjoint.doors.numpy import words
from adjoint.doors.numpy.conversion import NUMBERS, Array, Dtype, Number, Operand, stacked, written
from adjoint.doors.numpy.dressing import Arguments, on_arrays
from adjoint.homes.arrays import ndarray
from adjoint.homes.held_numbers import HeldNumber
from adjoint.tensor.tensor import Tensor
from adjoint.transforms.annotations import R

# What `reduce` and `accumulate` are of operators that have their own: (total, running total).
TOTALS: dict[str, tuple[str | None, str | None]] = {
    "add": ("sum", "cumsum"),
    "multiply": ("prod", "cumprod"),
    "maximum": ("amax", "cummax"),
    "minimum": ("amin", "cummin"),
    "logical_and": ("all", None),
    "logical_or": ("any", None),
    "logaddexp": ("logsumexp", "logcumsumexp"),
}

_DOUBLE = {float32: float64, complex64: complex128}


class Ufunc(Generic[R]):
    """A function of elements, with NumPy's keywords and methods; R is what it returns.

    >>> import adjoint.numpy as np
    >>> np.add([1, 2], 0.5), np.add.reduce([1, 2, 3]), np.multiply.outer([1, 2], [3, 4])[1]
    (array([1.5, 2.5]), array(6), array([6, 8]))
    """

    def __init__(
        self,
        theirs: np.ufunc,
        function: Callable[..., Any],
        *,
        tensors_only: bool = False,
        wide: bool = False,
    ) -> None:
        self.theirs, self.function = theirs, function
        self.tensors_only = tensors_only  # whether the function takes no numbers
        self.wide = wide  # whether it computes in double precision and rounds the result
        self.__name__ = self.__qualname__ = theirs.__name__
        self.__doc__ = f"NumPy's `{theirs.__name__}` of the elements of tensors."
        self.nin, self.nout, self.nargs = theirs.nin, theirs.nout, theirs.nargs
        self.identity, self.signature = theirs.identity, theirs.signature
        self._plans: dict[Any, Any] = {}

    @property
    def __signature__(self) -> Signature:  # pyright: ignore[reportIncompatibleVariableOverride]
        """The documented signature; `__call__` also takes outputs by position."""
        names = ("x",) if self.nin == 1 else tuple(f"x{i + 1}" for i in range(self.nin))
        inputs = [Parameter(name, Parameter.POSITIONAL_ONLY) for name in names]
        keywords = list(signature(Ufunc.__call__).parameters.values())[2:-1]
        return Signature([*inputs, *keywords])

    def __repr__(self) -> str:
        return f"<adjoint.numpy ufunc {self.__name__!r}>"

    def __call__(
        self,
        *inputs: Any,
        out: Any = None,
        where: Any = True,
        dtype: Any = None,
        casting: str = "same_kind",
        order: str = "K",
        subok: bool = True,
        **more: Any,
    ) -> R:
        if len(inputs) != self.nin:
            if self.nin < len(inputs) <= self.nargs and out is None:  # outputs by position
                inputs, out = inputs[: self.nin], inputs[self.nin :]
            else:
                raise ArgumentError(f"{self.__name__}() takes {self.nin} arrays, got {len(inputs)}")
        if isinstance(out, tuple) and all(o is None for o in out):
            out = None
        operands = Arguments()
        inputs = tuple(operands.tensors(inputs))
        if more:
            inputs = self._moved(inputs, **more)
        convert = Operand if operands.are_arrays else Number
        given = [v if type(v) is Tensor else convert(v) for v in inputs]
        if out is not None:
            operands.hold()
        result: Any = self.of(given, Dtype(dtype))
        if where is not True:
            result = self._where(result, operands.tensor(where), operands.tensor(out))
        return operands.dressed(result) if out is None else written(self.__name__, result, out)

    def _moved(self, inputs: tuple[Any, ...], axis: Any = None, **more: Any) -> tuple[Any, ...]:
        """Inputs with their vectors along the last dimension, where `axis` says another."""
        if more or self.signature != "(n),(n)->()":
            name = next(iter(more), "axis")
            raise ArgumentError(
                f"{self.__name__}: there is no {name}= here; move the dimensions with np.moveaxis"
            )
        return tuple(Array(v).movedim(axis, -1) for v in inputs)

    def of(self, inputs: list[Any], dtype: Any = None) -> Any:
        """The function of tensors and numbers, brought to the dtypes that NumPy computes with."""
        parts = [v.__class__ if v.__class__ in NUMBERS else _dtype(v) for v in inputs]
        key = (*parts, dtype)
        plan = self._plans.get(key)
        if plan is None:
            plan = self._plans[key] = self._plan(parts, dtype)
        casts, results = plan
        if casts is not None:
            inputs = [v if c is None else _cast(v, c) for v, c in zip(inputs, casts, strict=True)]
        if self.__name__ in _COMPARISONS and _are_signed_and_unsigned(inputs):
            return _compared(self.__name__, self.function, *inputs)
        result = self.function(*inputs)
        if results is None:
            return result
        if self.nout == 1:
            return result if result.dtype is results[0] else result.to(results[0])
        return tuple(r.to(d) for r, d in zip(result, results, strict=True))

    def _plan(self, parts: list[Any], dtype: Any) -> tuple[Any, Any]:
        """(what each input is cast to, what each result is), None where nothing is to be done."""
        alone = all(isinstance(p, type) for p in parts)  # numbers alone are arrays, as in NumPy
        # a truth value decides no dtype, and is one of NumPy's, which takes no Python type for it
        theirs = [
            np.result_type(p(0)) if alone or p is bool else getattr(p, "np", p) for p in parts
        ]
        wish = (*(None,) * self.nin, *(dtype.np,) * self.nout) if dtype is not None else None
        more: Any = {} if wish is None else {"signature": wish}
        try:
            found = self.theirs.resolve_dtypes((*theirs, *(None,) * self.nout), **more)
        except TypeError as error:
            raise ArgumentError(f"{self.__name__}: {error}") from None
        wanted = [OF[d] for d in found[: self.nin]]
        if self.wide:
            wanted = [_DOUBLE.get(d, d) for d in wanted]
        kept = not alone and not self.tensors_only  # whether numbers stay numbers
        casts = [
            None if part is want or (kept and isinstance(part, type)) else want
            for part, want in zip(parts, wanted, strict=True)
        ]
        results = [OF[d] for d in found[self.nin :]]
        exact = any(c is not None for c in casts) or any(not d.is_differentiable for d in wanted)
        return (casts if any(c is not None for c in casts) else None), results if exact else None

    def _where(self, result: Any, where: Any, out: Any) -> Any:
        """The result where a condition holds; elsewhere what is in `out`, or 0."""
        if self.nout > 1:
            raise ArgumentError(f"{self.__name__}: where= is for ufuncs with one result")
        (kept,) = out if isinstance(out, tuple) else (out,)
        other = 0 if kept is None else Array(kept)
        return ad.where(Array(where), result, other)

    # -- methods -----------------------------------------------------------------------------

    @on_arrays
    def reduce(
        self,
        array: Any,
        axis: Any = 0,
        dtype: Any = None,
        out: Any = None,
        keepdims: bool = False,
        initial: Any = None,
        where: Any = True,
    ) -> Any:
        """Combine the elements along dimensions: `np.add.reduce` is a sum."""
        self._check_binary("reduce")
        a = Array(array) if dtype is None else Array(array).to(Dtype(dtype))
        neutral = self.identity if initial is None else initial
        if where is not True:
            if neutral is None:
                raise ArgumentError(f"{self.__name__}.reduce: where= needs initial=")
            a = ad.where(Array(where), a, neutral)
        total = TOTALS.get(self.__name__, (None, None))[0]
        if total is None:
            result, initial = self._folded(a, axis, keepdims, initial), None
        elif total in ("sum", "prod"):
            result = words.reduced(total, a, axis, keepdims, dtype=words.sum_dtype(a))
        else:
            result = words.reduced(total, a, axis, keepdims)
        if initial is not None:
            result = self.of([Number(initial), result])
        return result if out is None else written(self.__name__, result, out)

    def _folded(self, a: Tensor, axis: Any, keepdims: bool, initial: Any) -> Tensor:
        """Combine slices one after the other, after an initial value if there is one."""
        joined, shape = words.joined(a, axis, keepdims)
        parts = list(joined.unbind(-1)) if joined.shape[-1] else []
        start = initial if parts or initial is not None else self.identity
        if start is not None:
            parts.insert(0, Array(start).to(a.dtype).expand(joined.shape[:-1]))
        elif not parts:
            raise ShapeError(f"{self.__name__}.reduce of no elements has no identity")
        return functools.reduce(lambda left, right: self.of([left, right]), parts).reshape(shape)

    @on_arrays
    def accumulate(self, array: Any, axis: int = 0, dtype: Any = None, out: Any = None) -> Any:
        """Combine each element with those before it: `np.add.accumulate` is a running sum."""
        self._check_binary("accumulate")
        a = Array(array) if dtype is None else Array(array).to(Dtype(dtype))
        running = TOTALS.get(self.__name__, (None, None))[1]
        if running in ("cumsum", "cumprod"):
            a = a.to(words.sum_dtype(a) or a.dtype)
        if running is not None and a.dtype.is_differentiable:
            found = getattr(ad, running)(a, axis)
            result = found if isinstance(found, Tensor) else found[0]
        else:
            parts = list(a.unbind(axis))
            for i in range(1, len(parts)):
                parts[i] = self.of([parts[i - 1], parts[i]])
            result = stacked(parts, axis) if parts else a
        return result if out is None else written(self.__name__, result, out)

    @on_arrays
    def outer(self, A: Any, B: Any, /, **keywords: Any) -> Any:
        """Combine every element of A with every element of B."""
        self._check_binary("outer")
        a, b = Array(A), Array(B)
        return self(a.reshape((*a.shape, *(1,) * b.ndim)), b, **keywords)

    def at(self, a: Any, indices: Any, b: Any = None, /) -> None:
        """Change elements in place, also those that `indices` names several times."""
        if isinstance(a, ndarray):
            return a.write(lambda tensor: self.at(tensor, indices, b))
        if not isinstance(a, Tensor):
            raise ArgumentError(f"{self.__name__}.at changes a tensor, got {type(a).__name__}")
        places = words.places(a.shape, indices)
        values = None if b is None else Array(b).expand(places.shape).reshape(-1)
        places, flat = places.reshape(-1), a.reshape(-1).clone()
        if values is not None and self.__name__ in ("add", "subtract"):
            values = (values if self.__name__ == "add" else -values).to(a.dtype)
            flat = flat.index_put([places], values, True)
        else:
            for i, place in enumerate(places.tolist()):
                more = [] if values is None else [values[i]]
                flat[place] = self.of([flat[place], *more]).to(a.dtype)
        a.copy_(flat.reshape(a.shape))
        return None

    @on_arrays
    def reduceat(self, array: Any, indices: Any, axis: int = 0, dtype: Any = None) -> Any:
        """Combine the elements between consecutive indices."""
        a, starts = Array(array), [int(i) for i in indices]
        ends = [*starts[1:], a.shape[axis]]
        parts = [a.narrow(axis, i, max(j - i, 1)) for i, j in zip(starts, ends, strict=True)]
        return stacked([self.reduce(p, axis, dtype) for p in parts], axis)

    def _check_binary(self, method: str) -> None:
        if self.nin != 2 or self.nout != 1 or self.signature is not None:
            raise ArgumentError(f"{self.__name__}.{method}: only a function of two elements has it")


# Comparisons of int64 with uint64, which have no common dtype: what a negative number is to others.
_COMPARISONS = {
    "equal": (False, False), "not_equal": (True, True), "less": (True, False),
    "less_equal": (True, False), "greater": (False, True), "greater_equal": (False, True),
}  # fmt: skip


def _are_signed_and_unsigned(inputs: list[Any]) -> bool:
    dtypes = {v.dtype for v in inputs if isinstance(v, Tensor)}
    return dtypes == {int64, uint64}


def _compared(name: str, function: Callable[..., Any], x: Tensor, y: Tensor) -> Any:
    """Compare exactly: a negative number is less than every other, the rest are unsigned."""
    left = x.dtype is int64
    signed = x if left else y
    found = function(x.to(uint64), y.to(uint64))
    return ad.where(signed < 0, _COMPARISONS[name][0 if left else 1], found)


def _dtype(value: Any) -> Any:
    """The part of the key of a plan: a dtype, or Python's type of a number that is followed."""
    return value.wrapped.kind if type(value) is HeldNumber else value.dtype


def _cast(value: Any, dtype: Any) -> Any:
    return value.to(dtype) if type(value) is Tensor else Array(value).to(dtype)
