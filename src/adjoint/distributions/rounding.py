"""Methods of distributions that compute in float64 and round their result.

For formulas whose derivatives leave the range of narrow dtypes, or cancel, before they come
together: a quantile's third derivative may be a number where its parts are infinite.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from functools import wraps
from typing import Any, TypeVar, cast

from adjoint.core.dtypes import float64
from adjoint.core.promotion import result_type
from adjoint.distributions.distribution import Distribution
from adjoint.tensor.tensor import Tensor

Method = TypeVar("Method", bound=Callable[..., Tensor])


def rounded_once(method: Method) -> Method:
    """A method that takes a value, of the distribution with its parameters in float64."""

    @wraps(method)
    def computed(self: Distribution, value: Tensor) -> Tensor:
        floating = list(_floating((value, self)))
        if not floating or any(tensor.dtype is float64 for tensor in floating):
            return method(self, value)
        return method(_wide(self), _wide(value)).to(result_type(*floating))

    return cast(Method, computed)


def _floating(values: Any) -> Iterator[Tensor]:
    """The floating tensors among values, and those that distributions among them hold."""
    for value in values:
        if isinstance(value, Distribution):
            yield from _floating(vars(value).values())
        elif isinstance(value, Tensor) and value.dtype.is_floating_point:
            yield value


def _wide(value: Any) -> Any:
    """A tensor, or a distribution with what it holds, in float64; other things as they are."""
    if isinstance(value, Distribution):
        new = object.__new__(type(value))
        new.__dict__.update({name: _wide(held) for name, held in vars(value).items()})
        return new
    floating = isinstance(value, Tensor) and value.dtype.is_floating_point
    return value.to(float64) if floating else value
