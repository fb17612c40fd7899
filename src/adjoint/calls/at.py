"""`x.at[key].set(value)`: a tensor with other elements at some places, and the old one as it was.

The names are JAX's. `set`, `apply` and `power` write once to each place; `add`, `multiply`, `min`
and `max` combine all values for a place that an index names more than once.
"""

from __future__ import annotations

from collections.abc import Callable
from math import prod
from typing import Any

from adjoint.calls.methods import as_tensor
from adjoint.ops import operator as operators
from adjoint.tensor.tensor import Tensor


class At:
    """The places of a tensor; `x.at[key]` chooses some of them."""

    __slots__ = ("tensor",)

    def __init__(self, tensor: Tensor) -> None:
        self.tensor = tensor

    def __getitem__(self, key: Any) -> Places:
        return Places(self.tensor, key)

    def __repr__(self) -> str:
        return f"{self.tensor!r}.at"


class Places:
    """Some places of a tensor. Every method but `get` returns a new tensor.

    >>> import adjoint as ad
    >>> x = ad.zeros(3)
    >>> x.at[1].set(5.0), x.at[ad.tensor([0, 0, 2])].add(1.0), x
    (tensor([0., 5., 0.]), tensor([2., 0., 1.]), tensor([0., 0., 0.]))
    >>> ad.grad(lambda v: (x.at[:2].set(v) ** 2).sum())(3.0)
    tensor(12.)
    """

    __slots__ = ("key", "tensor")

    def __init__(self, tensor: Any, key: Any) -> None:
        self.tensor, self.key = tensor, key

    def get(self) -> Any:
        """The elements."""
        return self.tensor[self.key]

    def set(self, values: Any) -> Any:
        """Put values there."""
        made = self.tensor.clone()
        made[self.key] = values
        return made

    def apply(self, func: Callable[[Any], Any]) -> Any:
        """Put a function of the elements there."""
        return self.set(func(self.get()))

    def add(self, values: Any) -> Any:
        """Add values to the elements."""
        return self._combined(values, "sum")

    def subtract(self, values: Any) -> Any:
        """Subtract values from the elements."""
        return self.add(-as_tensor(values))

    def multiply(self, values: Any) -> Any:
        """Multiply the elements by values."""
        return self._combined(values, "prod")

    mul = multiply

    def divide(self, values: Any) -> Any:
        """Divide the elements by values."""
        return self.multiply(1 / as_tensor(values))

    def power(self, values: Any) -> Any:
        """Raise the elements to powers."""
        return self.apply(lambda old: old**values)

    def min(self, values: Any) -> Any:
        """The smaller of the elements and the values."""
        return self._combined(values, "amin")

    def max(self, values: Any) -> Any:
        """The larger of the elements and the values."""
        return self._combined(values, "amax")

    def _combined(self, values: Any, how: str) -> Any:
        """Combine the elements with all values for their place; see `scatter_reduce`."""
        tensor, shape = self.tensor, tuple(self.tensor.shape)
        places = operators.packet("arange")(prod(shape)).reshape(shape)[self.key]
        given = as_tensor(values).to(tensor.dtype).expand(tuple(places.shape)).reshape(-1)
        made = tensor.reshape(-1).scatter_reduce(0, places.reshape(-1), given, how)
        return made.reshape(shape)
