"""`ad.nn.grad`: the gradients of convolutions, as functions of their own.

They are rows of doors/torch/grad.txt; here are their words.

>>> import adjoint as ad
>>> x, w = ad.ones(1, 1, 5), ad.ones(1, 1, 3)
>>> ad.nn.grad.conv1d_input(x.shape, w, ad.ones(1, 1, 3))
tensor([[[1., 2., 3., 2., 1.]]])
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from adjoint import ops
from adjoint.doors.torch import all_of
from adjoint.tensor.tensor import Tensor

Sizes = int | Sequence[int]


def _of_input(
    dims: int, input_size: Sequence[int], weight: Tensor, grad_output: Tensor, *geometry: Any
) -> Tensor:
    """The gradient of the input, of which only the size matters."""
    input = grad_output.new_empty((1,)).expand(tuple(input_size))
    return _backward(dims, input, weight, grad_output, geometry, (True, False, False))[0]


def _of_weight(
    dims: int, input: Tensor, weight_size: Sequence[int], grad_output: Tensor, *geometry: Any
) -> Tensor:
    """The gradient of the weight, of which only the size matters."""
    weight = grad_output.new_empty((1,)).expand(tuple(weight_size))
    return _backward(dims, input, weight, grad_output, geometry, (False, True, False))[1]


def _backward(
    dims: int,
    input: Tensor,
    weight: Tensor,
    grad_output: Tensor,
    geometry: tuple[Any, ...],
    wanted: tuple[bool, ...],
) -> tuple[Tensor, ...]:
    *sizes, groups = geometry
    stride, padding, dilation = ((n,) * dims if isinstance(n, int) else tuple(n) for n in sizes)
    return ops.convolution_backward(
        grad_output, input, weight, None, stride, padding, dilation, False, (0,) * dims, groups,
        wanted,
    )  # fmt: skip


_WORDS = {"Sizes": Sizes, "of_input": _of_input, "of_weight": _of_weight}

__getattr__, __dir__ = all_of(globals(), "grad.txt", _WORDS)
