"""Types of functions that transforms take and return, for annotations.

`Callable[P, R]` keeps a function's parameters, with their names. The protocols below also name the
types of the first parameters: a function can be called in both ways that a protocol lists, so type
checkers bind all parameters to `P` and the first to `A`.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, ParamSpec, Protocol, TypeVar, TypeVarTuple, overload

if TYPE_CHECKING:
    from collections.abc import Callable

    from adjoint.nn.modules.module import Module
    from adjoint.types import TensorLike

P = ParamSpec("P")  # all parameters of a function
Q = ParamSpec("Q")  # parameters after the chosen ones
R = TypeVar("R")  # its result
X = TypeVar("X")  # its second result, with has_aux=True
T = TypeVar("T")  # a tree
Y = TypeVar("Y")  # another
A = TypeVar("A")  # the first argument, a tree
B = TypeVar("B")  # the second
N = TypeVar("N", bound="TensorLike")  # the first argument, a tensor, array or number
M = TypeVar("M", bound="TensorLike")  # the second
F = TypeVar("F", bound="Callable[..., Any]")  # a function, unchanged
L = TypeVar("L", bound="Module")  # a layer
Ts = TypeVarTuple("Ts")  # arguments by position

_A = TypeVar("_A", contravariant=True)
_B = TypeVar("_B", contravariant=True)
_R = TypeVar("_R", covariant=True)


# basedpyright asks for covariance here, and refuses it in the parameters below.
class First(Protocol[P, _A, Q, _R]):  # pyright: ignore[reportInvalidTypeVarUse]
    """A function with a first argument."""

    @overload
    def __call__(self, *args: P.args, **keywords: P.kwargs) -> _R: ...
    @overload
    def __call__(self, first: _A, /, *args: Q.args, **keywords: Q.kwargs) -> _R: ...
    def __call__(self, *args: Any, **keywords: Any) -> Any: ...


class Second(Protocol[P, _A, _B, Q, _R]):  # pyright: ignore[reportInvalidTypeVarUse]
    """A function with a first and a second argument."""

    @overload
    def __call__(self, *args: P.args, **keywords: P.kwargs) -> _R: ...
    @overload
    def __call__(self, first: _A, second: _B, /, *args: Q.args, **keywords: Q.kwargs) -> _R: ...
    def __call__(self, *args: Any, **keywords: Any) -> Any: ...
