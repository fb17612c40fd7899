"""Functions of tensors as functions of arrays: arguments are undressed, results dressed.

The functions of the table are written for tensors. Given arrays they return arrays, given tensors
tensors, and arrays where there are only numbers and lists. A result without dimensions is a number,
as in NumPy, unless the row says `Made` (NumPy returns an array there) or `View`, which shares
memory with an argument in NumPy.
"""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any

from adjoint.doors.numpy.conversion import Array
from adjoint.homes.arrays import Operands, array_of, ndarray, result_of
from adjoint.homes.held_numbers import HeldNumber
from adjoint.tensor.tensor import Tensor

# Words for what a row returns: nothing special, what shares memory with an argument in NumPy, what
# NumPy returns as an array even without dimensions, a view that is an array also of a tensor, and
# what does all this itself.
WORDS = ("Tensor", "View", "Made", "Conversion", "Mirror")
FRESH, VIEW, MADE, CONVERSION, MIRROR = WORDS


class Arguments(Operands):
    """The arrays among the arguments of a function of NumPy's, in lists of lists, too."""

    __slots__ = ("plain",)

    def __init__(self) -> None:
        super().__init__()
        self.plain = False  # whether there are tensors that are no arrays

    def tensors(self, values: Any) -> list[Any]:
        return [self.tensor(v) for v in values]

    def tensor(self, value: Any) -> Any:
        """One argument."""
        if isinstance(value, ndarray):
            self.arrays.append(value)
            return value.value
        kind = type(value)
        if kind is list or kind is tuple:
            return kind(self.tensors(value))
        if isinstance(value, Tensor) and kind is not HeldNumber:
            self.plain = True
        return value

    @property
    def are_arrays(self) -> bool:
        """Whether results are arrays."""
        return bool(self.arrays) or not self.plain

    def hold(self) -> None:
        """Note that a tape may keep the values of all arrays: `out` may be one of them."""
        for array in self.arrays:
            array.undressed()

    def dressed(self, found: Any, gives: str = FRESH) -> Any:
        """Results as what NumPy returns: `gives` is what the row says."""
        if not self.are_arrays and gives != CONVERSION:
            return found
        dress = result_of if gives == FRESH else array_of
        return self.arrays_of(found, views=gives in (VIEW, CONVERSION), dress=dress)


def on_arrays(function: Callable[..., Any], gives: str = FRESH) -> Callable[..., Any]:
    """A function of tensors as one of arrays, numbers and tensors."""

    @functools.wraps(function)
    def called(*args: Any, **keywords: Any) -> Any:
        given = Arguments()
        args = tuple(given.tensors(args))
        if keywords:  # what is written to stays an array, which knows what a write means
            keywords = {k: v if k == "out" else given.tensor(v) for k, v in keywords.items()}
            if "out" in keywords:
                given.hold()
        return given.dressed(function(*args, **keywords), gives)

    return called


def on_writable(function: Callable[..., Any]) -> Callable[..., Any]:
    """A function that writes to its first argument, a tensor, as one that writes to an array."""

    @functools.wraps(function)
    def called(target: Any, *args: Any, **keywords: Any) -> None:
        given = Arguments()
        args = tuple(given.tensors(args))
        keywords = {k: given.tensor(v) for k, v in keywords.items()}
        if isinstance(target, ndarray):
            target.write(lambda tensor: function(tensor, *args, **keywords))
        else:
            function(target, *args, **keywords)

    return called


def outermost(value: Any) -> Any:
    """The array that NumPy sees: an array or a tensor itself, anything else converted to one."""
    return value if isinstance(value, Tensor) else array_of(Array(value))


def dressed_like(given: Any, tensor: Any) -> Any:
    """A tensor made of what was given: as an array, unless that is a tensor."""
    plain = isinstance(given, Tensor) and not isinstance(given, ndarray)
    return tensor if plain else result_of(tensor)


def made_like(given: Any, value: Any) -> Any:
    """As `dressed_like`, but an array also where the tensor has no dimensions."""
    if not isinstance(value, Tensor) or dressed_like(given, value) is value:
        return value
    return array_of(value)
