"""Dressing: a function sees NumPy's arrays as arrays and numbers as numbers, not as tensors.

A transform runs its function on tensors. If an argument was given as a NumPy array or as a number,
the function sees its tensor dressed as one (homes/arrays.py, homes/held_numbers.py), and its result
is undressed. Results of the transform are tensors, as for tensors. But if the transform is called
inside a function that sees arrays, its arguments are such arrays, and it returns arrays, too.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from types import MappingProxyType
from typing import Any

import numpy as np

from adjoint.calls.methods import as_tensor, tensor_of
from adjoint.core import pytrees
from adjoint.core.dtypes import complex128, float64
from adjoint.core.errors import AdjointError, GradError
from adjoint.core.importing import imported
from adjoint.core.pytrees import TreeDef
from adjoint.core.storage import is_duck_array
from adjoint.homes.arrays import Memory, array_of, like, ndarray, number_of, result_of
from adjoint.homes.held_numbers import HeldNumber, NumberKind, held_number
from adjoint.homes.structures import DressedTensor, StructuredTensor
from adjoint.tensor.tensor import Tensor

Make = Callable[[Any], Any]  # a tensor -> the dressed tensor that the function sees


def plain(value: Any) -> Any:
    """The tensor in a dressed array or number (numbers stay float64); other values unchanged."""
    if not isinstance(value, DressedTensor):
        return value
    return value.value if type(value) is HeldNumber else value.undressed()


def plain_tree(tree: Any) -> Any:
    """A pytree with tensors in place of arrays and numbers that transforms follow."""
    return pytrees.map(plain, tree)


NONE: Mapping[str, Any] = MappingProxyType({})


def calling(function: Callable[..., Any], args: Any, keywords: Any = NONE) -> Any:
    """Call a function that sees arrays; errors of ours that C code replaced are raised again."""
    try:
        return function(*args, **keywords)
    except (AttributeError, SystemError, ValueError) as error:
        refusal = None if isinstance(error, AdjointError) else _refusal_behind(error)
        if refusal is None:
            raise
        raise refusal from None


class Dress:
    """The form in which the leaves of the arguments were given."""

    __slots__ = ("make_result", "makes")

    def __init__(self, makes: Sequence[Make | None], result: Make | None) -> None:
        self.makes = makes  # for each leaf a function that dresses its tensor; None: no dress
        # Dresses a result for the caller; None: it takes tensors. Only inside a function that
        # itself sees arrays or numbers is it not None.
        self.make_result = result

    def call(self, function: Callable[..., Any], args: Any, keywords: Any = NONE) -> Any:
        """Call the user's function."""
        return calling(function, args, keywords)

    def put_on(self, tensors: Sequence[Any]) -> Sequence[Any]:
        """Dress tensors for the leaves as the function sees them."""
        pairs = zip(tensors, self.makes, strict=True)
        return [t if m is None or not isinstance(t, Tensor) else m(t) for t, m in pairs]

    def part_of(self, tensors: Sequence[Any]) -> Sequence[Any]:
        """Dress parts of the tensors, which have one dimension less, so they may be numbers."""
        pairs = zip(tensors, self.makes, strict=True)
        return [t if m is None else result_of(t) for t, m in pairs]

    def inside(self, function: Callable[..., Any], structure: TreeDef) -> Callable[..., Any]:
        """Turn a function of a pytree of dressed parts into a function of tensors."""

        def of_tensors(tree: Any) -> Any:
            seen = pytrees.unflatten(structure, self.part_of(pytrees.leaves(tree)))
            return plain_tree(function(seen))

        return of_tensors

    def given_back(self, tensors: list[Any], outputs: Sequence[Any]) -> list[Any]:
        """One gradient for each leaf, in the caller's form.

        The gradient of a Python number is float64, unless the outputs are less precise.
        """
        if not self.makes:
            return tensors
        pairs = zip(tensors, self.makes, strict=True)
        tensors = [_as_precise(t, outputs) if type(m) is _AsNumber else t for t, m in pairs]
        return tensors if self.make_result is None else list(self.put_on(tensors))

    def result(self, tree: Any) -> Any:
        """The function's result in the caller's form."""
        return tree if self.make_result is None else _map_tensors(self.make_result, tree)

    def seen(self, tree: Any) -> Any:
        """Outputs of the function or their cotangents, dressed as the function sees them."""
        return tree if not self.makes else _map_tensors(self.make_result or result_of, tree)


class _TensorDress(Dress):
    """The dress of plain tensors: nothing."""

    __slots__ = ()

    def call(self, function: Callable[..., Any], args: Any, keywords: Any = NONE) -> Any:
        return function(*args, **keywords)

    def put_on(self, tensors: Sequence[Any]) -> Sequence[Any]:
        return tensors

    part_of = put_on


PLAIN = _TensorDress((), None)


def _refusal_behind(error: BaseException) -> AdjointError | None:
    """The error of ours that C code of NumPy or SciPy replaced by its own, or None."""
    cause = error.__cause__ or error.__context__
    if isinstance(cause, AdjointError) and (
        isinstance(error, SystemError) or "setting an array element" in str(error)
    ):
        return cause
    if isinstance(error, ValueError) or not isinstance(getattr(error, "obj", None), ndarray):
        return None
    return GradError(  # a solver in C called us while an exception was set
        "a function of a library asked for the numbers of an array that is being differentiated, "
        "and went on when it did not get them; call it outside of the transform"
    )


def result_arrays(tree: Any) -> Any:
    """A pytree with dressed arrays in place of tensors."""
    return _map_tensors(result_of, tree)


def _map_tensors(make: Make, tree: Any) -> Any:
    return pytrees.map(lambda v: make(v) if _is_ordinary(v) else v, tree)


def _is_ordinary(value: Any) -> bool:
    return isinstance(value, Tensor) and not isinstance(value, StructuredTensor)


class _AsNumber:
    """Dresses a tensor as a number of the same kind and precision."""

    __slots__ = ("number",)

    def __init__(self, number: NumberKind) -> None:
        self.number = number

    def __call__(self, tensor: Any) -> Any:
        return held_number(tensor, self.number) if tensor.dtype is self.number.dtype else tensor


def _as_precise(grad: Any, outputs: Sequence[Any]) -> Any:
    """A gradient in the precision of the outputs."""
    known = [o.dtype.to_real() for o in outputs if o.dtype.is_differentiable]
    best = max(known, key=lambda dtype: dtype.itemsize, default=float64)
    if best.itemsize >= grad.dtype.to_real().itemsize:
        return grad
    return grad.to(best.to_complex() if grad.dtype.is_complex else best)


def _number(tensor: Any) -> Any:
    """A float64 tensor dressed as a Python number; other tensors unchanged."""
    if tensor.ndim or tensor.dtype not in _DOUBLES:
        return tensor
    return held_number(tensor, _DOUBLES[tensor.dtype])


_DOUBLES = {float64: NumberKind(float), complex128: NumberKind(complex)}


def argument_of(tensor: Any) -> Any:
    """A tensor dressed as the caller's array: writes to the array go to the tensor."""
    imported("adjoint.doors.numpy.methods")
    made = array_of(tensor)
    Memory(tensor, held=False, fixed=True).join(made, ())
    return made


def dress_of(leaves: Sequence[Any], *, numbers: bool = False) -> Dress:
    """The dress of leaves; with `numbers` Python numbers are followed, too."""
    makes = [_make(leaf, numbers) for leaf in leaves]
    if not any(makes):
        return PLAIN
    imported("adjoint.doors.numpy.methods")  # puts NumPy's methods on arrays
    if any(isinstance(leaf, ndarray) for leaf in leaves):
        return Dress(makes, result_of)
    return Dress(makes, _number if any(type(leaf) is HeldNumber for leaf in leaves) else None)


def _make(leaf: Any, numbers: bool) -> Make | None:
    if isinstance(leaf, Tensor):
        if isinstance(leaf, ndarray):
            return lambda tensor: like(leaf, tensor)
        return _AsNumber(leaf.wrapped) if type(leaf) is HeldNumber else None
    if isinstance(leaf, np.ndarray):
        return array_of
    if isinstance(leaf, np.generic):
        return number_of
    if is_duck_array(leaf):
        return array_of
    if numbers and isinstance(leaf, (int, float, complex)) and not isinstance(leaf, bool):
        return _AsNumber(NumberKind(complex if isinstance(leaf, complex) else float))
    return None


def tensor_under(leaf: Any) -> Any:
    """A leaf as a tensor, if it is an array; a Python number as a double, exactly."""
    if isinstance(leaf, Tensor):
        return plain(leaf)
    if isinstance(leaf, np.ndarray):
        return tensor_of(leaf)
    if isinstance(leaf, bool):
        return as_tensor(leaf)
    if isinstance(leaf, (int, float)) and not isinstance(leaf, np.generic):
        return as_tensor(np.float64(leaf))
    if isinstance(leaf, complex) and not isinstance(leaf, np.generic):
        return as_tensor(np.complex128(leaf))
    return as_tensor(leaf)
