"""`ad.autograd.graph`: looking at the tape, and hooks on what it saves."""

from __future__ import annotations

from typing import Any

import numpy as np

from adjoint.tensor.modes import saved_tensors_hooks
from adjoint.tensor.tape import Node
from adjoint.tensor.tensor import Tensor, make

__all__ = ["Node", "get_gradient_edge", "save_on_cpu", "saved_tensors_hooks"]


class save_on_cpu(saved_tensors_hooks):  # noqa: N801 - PyTorch's name
    """Save copies, so that writes in place do not disturb backward."""

    def __init__(self, pin_memory: bool = False) -> None:
        super().__init__(lambda t: np.array(t.array), make)


def get_gradient_edge(tensor: Tensor) -> tuple[Any, int]:
    """Return the node that the gradient of `tensor` goes to, and the number of its output there."""
    return (tensor.grad_fn or tensor.edge, tensor.output_nr)
