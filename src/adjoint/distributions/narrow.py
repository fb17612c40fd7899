"""Densities, distribution functions, entropies, divergences of narrow dtypes: computed in a wider
one, and rounded once.

Their sums and differences would round at every step: Note [Narrow derivatives] in tape/narrow.py.
So where a value or a parameter is of float16 or bfloat16, a function runs on copies of the
distributions whose tensors are of float32. Some methods run in float64, `in_double`, for float32,
too: those whose derivatives leave its range, or cancel, before they come together. The third
derivative of a quantile may be a number where its parts are infinite.
It relies on Note [What a distribution holds].
"""

from __future__ import annotations

import functools
import inspect
from collections.abc import Callable, Mapping, Set
from typing import Any

from adjoint.core.dtypes import HALVES, DType, float32, float64
from adjoint.core.promotion import result_type
from adjoint.tensor.tensor import Tensor

Method = Callable[..., Tensor]
_BELOW: dict[DType, Set[DType]] = {float32: HALVES, float64: HALVES | {float32}}


class Holding:
    """What keeps tensors as attributes, itself or in what it keeps: distributions, transforms."""

    def _held(self) -> Mapping[str, Any]:
        """The attributes that a copy has, too."""
        return vars(self)

    def _changed(self, originals: Mapping[int, Tensor]) -> Mapping[str, Any]:
        """The attributes that are others in a copy, whose tensors have these originals, by id."""
        return {}


def rounded_once(function: Method, wide: DType = float32) -> Method:
    """A function of distributions and values so that narrow dtypes are rounded at its end alone."""
    rounds = getattr(function, "rounds", None)
    if rounds in (wide, float64):
        return function
    if rounds is not None:  # from a narrower dtype
        function = inspect.unwrap(function)
    narrow = _BELOW[wide]

    @functools.wraps(function)
    def rounded(*given: Any, **named: Any) -> Tensor:
        for thing in (*given, *named.values()):
            if _is_among(narrow, thing):
                break
        else:
            return function(*given, **named)
        copies = _Copies(narrow, wide)
        values = {name: copies.of(value) for name, value in named.items()}
        result = function(*map(copies.of, given), **values)
        dtype = result_type(*copies.tensors)
        return result.to(dtype) if dtype in narrow and result.dtype is wide else result

    marked: Any = rounded
    marked.rounds = wide
    return rounded


in_double = functools.partial(rounded_once, wide=float64)


def _is_among(narrow: Set[DType], thing: Any) -> bool:
    """Whether a value, or a parameter of a distribution, is of a narrow dtype."""
    if not isinstance(thing, Holding):
        return isinstance(thing, Tensor) and thing.dtype in narrow
    for value in vars(thing).values():  # a loop: this runs in every call
        if isinstance(value, Tensor) and value.dtype in narrow:
            return True
    return False


class _Copies:
    """Wider copies, one of each object: a cache knows a tensor by its identity."""

    def __init__(self, narrow: Set[DType], wide: DType) -> None:
        self.narrow, self.wide = narrow, wide
        self.known: dict[int, Any] = {}
        self.tensors: list[Tensor] = []  # the originals that have a say in the dtype
        self.originals: dict[int, Tensor] = {}  # by the ids of their copies

    def of(self, thing: Any) -> Any:
        """The copy of a tensor, a distribution or a transform; anything else as it is."""
        if type(thing) in (list, tuple):
            return type(thing)(self.of(each) for each in thing)
        if not isinstance(thing, (Tensor, Holding)):
            return thing
        if id(thing) not in self.known:
            self._copy(thing)
        return self.known[id(thing)]

    def _copy(self, thing: Any) -> None:
        if isinstance(thing, Tensor):
            if thing.dtype.is_differentiable:
                self.tensors.append(thing)
            copy = thing.to(self.wide) if thing.dtype in self.narrow else thing
            self.known[id(thing)], self.originals[id(copy)] = copy, thing
            return
        new = self.known[id(thing)] = object.__new__(type(thing))
        new.__dict__.update({name: self.of(value) for name, value in thing._held().items()})
        new.__dict__.update(thing._changed(self.originals))
