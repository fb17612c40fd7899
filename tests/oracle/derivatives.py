"""The four derivatives of a call, written once for both libraries."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch

from tests.oracle import bridge
from tests.oracle.bridge import Array
from tests.oracle.difference import flatten


class Call:
    """An operator with its arguments, in either library, whose tensors can be exchanged."""

    def __init__(self, library: Any, function: Callable[..., Any], sample: tuple[Any, ...]) -> None:
        self.library = library  # torch, or adjoint
        self.function = function
        self.tensors: list[Any] = []
        self.structure = self._take_out(sample)
        self.wanted = [i for i, t in enumerate(self.tensors) if t.requires_grad]

    def _take_out(self, value: Any) -> Any:
        if isinstance(value, self.library.Tensor):
            self.tensors.append(value)
            return _Hole(len(self.tensors) - 1)
        if isinstance(value, list | tuple):
            return type(value)([self._take_out(item) for item in value])
        if isinstance(value, dict):
            return {key: self._take_out(item) for key, item in value.items()}
        return value

    def leaves(self) -> list[Any]:
        """Return fresh leaves for the inputs whose gradient is wanted."""
        return [self.tensors[i].detach().requires_grad_() for i in self.wanted]

    def __call__(self, leaves: Sequence[Any]) -> list[Any]:
        """Return the flat tensor results with `leaves` as the differentiable inputs."""
        tensors = list(self.tensors)
        for position, leaf in zip(self.wanted, leaves, strict=True):
            tensors[position] = leaf
        first, args, kwargs = _fill(self.structure, tensors)
        result = self.function(first, *args, **kwargs)
        tensors = [leaf for leaf in flatten(result) if isinstance(leaf, self.library.Tensor)]
        return [t if t.layout == self.library.strided else t.to_dense() for t in tensors]


@dataclass(frozen=True)
class _Hole:
    index: int


def _fill(structure: Any, tensors: Sequence[Any]) -> Any:
    if isinstance(structure, _Hole):
        return tensors[structure.index]
    if isinstance(structure, list | tuple):
        return type(structure)([_fill(item, tensors) for item in structure])
    if isinstance(structure, dict):
        return {key: _fill(item, tensors) for key, item in structure.items()}
    return structure


# The four derivatives, written once for both libraries. `seeds` are arrays.

Derivative = Callable[["Call", list[bool], list[Array], list[Array]], list[Any]]


def reverse(call: Call, mask: list[bool], cotangents: list[Array], _: list[Array]) -> list[Any]:
    """Vector-Jacobian product."""
    leaves = call.leaves()
    outputs = masked(call(leaves), mask)
    seeds = [_tensor(call, c) for c in cotangents]
    return list(call.library.autograd.grad(outputs, leaves, seeds, allow_unused=True))


def second(call: Call, mask: list[bool], cotangents: list[Array], tangents: list[Array]) -> Any:
    """Vector-Jacobian product of the vector-Jacobian product, in inputs and cotangents."""
    grad = call.library.autograd.grad
    leaves = call.leaves()
    outputs = masked(call(leaves), mask)
    seeds = [_tensor(call, c).requires_grad_() for c in cotangents]
    first = grad(outputs, leaves, seeds, create_graph=True, allow_unused=True)
    pairs = [(g, t) for g, t in zip(first, tangents, strict=True) if g is not None]
    pairs = [(g, _tensor(call, t)) for g, t in pairs if g.requires_grad]
    if not pairs:
        return [None] * (len(leaves) + len(seeds))
    grads, weights = zip(*pairs, strict=True)
    return list(grad(grads, [*leaves, *seeds], weights, allow_unused=True))


def forward(call: Call, mask: list[bool], _: list[Array], tangents: list[Array]) -> list[Any]:
    """Jacobian-vector product."""
    forward_ad = call.library.autograd.forward_ad
    with forward_ad.dual_level():
        outputs = masked(call(_duals(call, tangents)), mask)
        return [forward_ad.unpack_dual(output).tangent for output in outputs]


def forward_over_reverse(
    call: Call, mask: list[bool], cotangents: list[Array], tangents: list[Array]
) -> list[Any]:
    """Jacobian-vector product of the vector-Jacobian product."""
    forward_ad = call.library.autograd.forward_ad
    with forward_ad.dual_level():
        duals = _duals(call, tangents)
        outputs = masked(call(duals), mask)
        seeds = [_tensor(call, c) for c in cotangents]
        grads = call.library.autograd.grad(
            outputs, duals, seeds, create_graph=True, allow_unused=True
        )
        return [None if g is None else forward_ad.unpack_dual(g).tangent for g in grads]


def masked(outputs: list[Any], mask: list[bool]) -> list[Any]:
    return [output for output, wanted in zip(outputs, mask, strict=True) if wanted]


def _tensor(call: Call, array: Array) -> Any:
    return bridge.to_torch(array) if call.library is torch else bridge.to_adjoint(array)


def _duals(call: Call, tangents: list[Array]) -> list[Any]:
    make_dual = call.library.autograd.forward_ad.make_dual
    return [
        make_dual(leaf, _tensor(call, tangent))
        for leaf, tangent in zip(call.leaves(), tangents, strict=True)
    ]


DERIVATIVES: dict[str, Derivative] = {
    "reverse": reverse,
    "second": second,
    "forward": forward,
    "forward_over_reverse": forward_over_reverse,
}


def random_like(tensor: torch.Tensor, generator: np.random.Generator) -> Array:
    """Return a random array of the shape and dtype of `tensor`."""
    like = bridge.torch_array(tensor)
    values = generator.standard_normal(like.shape)
    if like.dtype.kind == "c":
        values = values + 1j * generator.standard_normal(like.shape)
    return np.asarray(values).astype(like.dtype)
