"""Jacobians of a function of tensors, three ways: finite differences, reverse mode, forward mode.

Everything is a real matrix, so that complex numbers need no case of their own. An output gives one
row per element, a complex one first the rows of its real parts and then those of its imaginary
parts; an input gives columns in the same way. With the gradient g of Re⟨v, f⟩ in PyTorch's
convention, d Re⟨v, f⟩ = Re⟨g, dz⟩, the row of reverse mode is (Re g, Im g).
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

import adjoint as ad
from adjoint.core import pytrees
from adjoint.core.errors import AdjointError
from adjoint.core.records import record
from adjoint.homes.sparse import SparseTensor
from adjoint.homes.structures import StructuredTensor

Array = np.ndarray[Any, Any]
Jacobians = list[list[Array]]  # [output][input] -> matrix


class GradcheckMisuse(AdjointError, ValueError, AssertionError):
    """A check that cannot be made: of nothing, or of outputs that change their shape."""


def _elements(tensor: ad.Tensor) -> list[ad.Tensor]:
    """The numbers of a result: a sparse one as it would be written out, since which of its elements
    are kept may differ from call to call; the values of another structure.
    """
    if isinstance(tensor, SparseTensor):
        return [tensor.to_dense()]
    return pytrees.flatten(tensor)[0] if isinstance(tensor, StructuredTensor) else [tensor]


@record
class Call:
    """A function with its arguments, some of which are the inputs of its derivative."""

    function: Callable[..., Any]
    arguments: tuple[Any, ...]  # as given: tensors, numbers, lists of tensors
    inputs: tuple[ad.Tensor, ...]  # the tensors among them that require grad, in order

    @staticmethod
    def of(function: Callable[..., Any], arguments: Any) -> Call:
        """Find the tensors in `arguments` that require grad, also inside lists and tuples.

        Of a sparse or nested tensor these are its values.
        """
        given = tuple(arguments) if isinstance(arguments, tuple | list) else (arguments,)
        if any(isinstance(t, StructuredTensor) for t in tensors_in(given)):
            values, tree = pytrees.flatten(given)
            return Call.of(lambda *values: function(*tree.unflatten(list(values))), tuple(values))
        return Call(function, given, tuple(t for t in tensors_in(given) if t.requires_grad))

    def __call__(self, inputs: Sequence[ad.Tensor]) -> list[ad.Tensor]:
        """Return the tensors that the function returns with `inputs` in place of its own."""
        replace = {id(old): new for old, new in zip(self.inputs, inputs, strict=True)}
        result = self.function(*(_replaced(a, replace) for a in self.arguments))
        return [v for t in tensors_in(result) for v in _elements(t)]

    def leaves(self) -> list[ad.Tensor]:
        """Return fresh leaves with the values and layout of the inputs."""
        return [t.detach().requires_grad_() for t in self.inputs]


def tensors_in(value: Any) -> list[ad.Tensor]:
    """Return the tensors in nested lists and tuples, in order."""
    if isinstance(value, ad.Tensor):
        return [value]
    if isinstance(value, list | tuple):
        return [tensor for item in value for tensor in tensors_in(item)]
    return []


def _replaced(value: Any, replace: dict[int, ad.Tensor]) -> Any:
    if isinstance(value, ad.Tensor):
        return replace.get(id(value), value)
    if isinstance(value, list | tuple):
        return type(value)(_replaced(item, replace) for item in value)
    return value


def tensor_of(array: Array, *, requires_grad: bool = False) -> ad.Tensor:
    """Return a tensor that holds `array` (not a copy of it)."""
    tensor = ad.from_numpy(array)
    return tensor.requires_grad_() if requires_grad else tensor


def random_like(array: Array, generator: np.random.Generator) -> Array:
    """Return a random array of the same shape and dtype."""
    values = generator.standard_normal(array.shape)
    if array.dtype.kind == "c":
        values = values + 1j * generator.standard_normal(array.shape)
    return np.asarray(values).astype(array.dtype)


def parts(array: Array) -> Array:
    """Return the elements as float64: real parts, then (of a complex array) imaginary parts."""
    flat = array.reshape(-1)
    if flat.dtype.kind == "c":
        return np.concatenate([flat.real, flat.imag]).astype(np.float64)
    return flat.astype(np.float64)


def unit(like: Array, position: int) -> Array:
    """Return the array of which `parts` is 1 at `position` and 0 elsewhere."""
    direction = np.zeros(like.shape, like.dtype)
    place, imaginary = position % max(like.size, 1), position >= like.size
    direction.reshape(-1)[place] = 1j if imaginary else 1
    return direction


def size(array: Array) -> int:
    """Return the number of rows or columns that `array` takes in a Jacobian."""
    return array.size * (2 if array.dtype.kind == "c" else 1)


def array_of(tensor: ad.Tensor) -> Array:
    """Return the elements of a tensor, without its history; of a sparse one, all."""
    return np.array(tensor.detach().to_dense().numpy())


def numerical(call: Call, wanted: Sequence[int], eps: float) -> Jacobians:
    """Return central differences (f(x + εe) - f(x - εe)) / 2ε of the outputs numbered `wanted`."""
    columns: list[list[list[Array]]] = []  # [input][direction][output]
    for number, tensor in enumerate(call.inputs):
        base = array_of(tensor)
        columns.append(
            [difference(call, {number: unit(base, j)}, wanted, eps) for j in range(size(base))]
        )
    return _matrices(call, columns, wanted)


def _matrices(call: Call, columns: list[list[list[Array]]], wanted: Sequence[int]) -> Jacobians:
    """Put columns, [input][direction][output], side by side."""
    outputs = call(call.leaves())
    rows = [size(array_of(outputs[k])) for k in wanted]
    return [
        [
            np.stack([c[k] for c in column], axis=1) if column else np.zeros((rows[k], 0))
            for column in columns
        ]
        for k in range(len(wanted))
    ]


def difference(
    call: Call, directions: dict[int, Array], wanted: Sequence[int], eps: float
) -> list[Array]:
    """Return the derivative of the outputs `wanted` along `directions`, by a central difference."""
    above = _shifted(call, directions, wanted, eps)
    below = _shifted(call, directions, wanted, -eps)
    for k, a, b in zip(wanted, above, below, strict=True):
        if a.shape != b.shape or a.dtype != b.dtype:
            raise GradcheckMisuse(
                f"gradcheck: output {k} changes its shape or dtype when the inputs are varied by "
                f"eps: {b.shape} {b.dtype}, {a.shape} {a.dtype}; func must return the same for all "
                "values"
            )
    return [(parts(a) - parts(b)) / (2 * eps) for a, b in zip(above, below, strict=True)]


def _shifted(
    call: Call, directions: dict[int, Array], wanted: Sequence[int], step: float
) -> list[Array]:
    leaves: list[ad.Tensor] = []
    for number, tensor in enumerate(call.inputs):
        array = array_of(tensor)
        if number in directions:
            array = np.asarray(array + step * directions[number]).astype(array.dtype)
        leaves.append(tensor_of(array, requires_grad=True))
    outputs = call(leaves)
    return [array_of(outputs[k]) for k in wanted]


def reverse(call: Call, wanted: Sequence[int]) -> Jacobians:
    """Return the Jacobians by one backward pass for each row."""
    leaves = call.leaves()
    outputs = call(leaves)
    return [[*_reverse_rows(outputs[k], leaves)] for k in wanted]


def _reverse_rows(output: ad.Tensor, leaves: list[ad.Tensor]) -> list[Array]:
    like = array_of(output)
    matrices = [np.zeros((size(like), size(array_of(leaf)))) for leaf in leaves]
    for row in range(size(like)):
        cotangent = tensor_of(unit(like, row))
        grads = ad.autograd.grad(
            [output], leaves, [cotangent], retain_graph=True, allow_unused=True
        )
        for matrix, grad in zip(matrices, grads, strict=True):
            if grad is not None:
                matrix[row] = parts(array_of(grad))
    return matrices


def forward(call: Call, wanted: Sequence[int]) -> Jacobians:
    """Return the Jacobians by one forward pass for each column."""
    columns: list[list[list[Array]]] = []  # [input][direction][output]
    for number, x in enumerate(call.inputs):
        base = array_of(x)
        moves = [along(call, number, unit(base, j)) for j in range(size(base))]
        columns.append([tangents(call, move, wanted) for move in moves])
    return _matrices(call, columns, wanted)


def along(call: Call, number: int, direction: Array) -> dict[int, Array]:
    """A tangent of every input: `direction` for one of them, zeros for the others."""
    zeros = {k: np.zeros_like(array_of(t)) for k, t in enumerate(call.inputs)}
    return zeros | {number: direction}


def tangents(call: Call, directions: dict[int, Array], wanted: Sequence[int]) -> list[Array]:
    """Return the tangents of the outputs `wanted`, in parts; inputs without direction have none."""
    forward_ad = ad.autograd.forward_ad
    with forward_ad.dual_level():
        leaves = [t.detach() for t in call.inputs]
        for number, tangent in directions.items():
            leaves[number] = forward_ad.make_dual(leaves[number], tensor_of(tangent))
        outputs = call(leaves)
        result: list[Array] = []
        for k in wanted:
            found = forward_ad.unpack_dual(outputs[k]).tangent
            missing = found is None
            result.append(
                np.zeros(size(array_of(outputs[k]))) if missing else parts(array_of(found))
            )
        return result
