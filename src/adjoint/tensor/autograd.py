"""Reverse mode for users: `grad` and `backward`, with PyTorch's arguments."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from adjoint.core.errors import GradError
from adjoint.tensor import engine
from adjoint.tensor.levels import LevelTensor
from adjoint.tensor.tensor import Tensor


def _listed(value: Any) -> list[Any]:
    return list(value) if isinstance(value, (tuple, list)) else [value]


def _paired(what: str, outputs: list[Any], grads: Any) -> list[Any]:
    given = _listed(grads) if grads is not None else [None] * len(outputs)
    if len(given) != len(outputs):
        raise GradError(f"{what}: {len(given)} gradients for {len(outputs)} outputs")
    for output in outputs:
        if not isinstance(output, Tensor):
            raise TypeError(f"{what}: outputs must be tensors, got {type(output).__name__}")
    return [engine.check_grad(what, o, g) for o, g in zip(outputs, given, strict=True)]


def grad(
    outputs: Tensor | Sequence[Tensor],
    inputs: Tensor | Sequence[Tensor],
    grad_outputs: Any = None,
    retain_graph: bool | None = None,
    create_graph: bool = False,
    allow_unused: bool | None = None,
    is_grads_batched: bool = False,
    materialize_grads: bool = False,
) -> tuple[Any, ...]:
    """Return the gradient of the (weighted) sum of `outputs` in each of `inputs`.

    >>> import adjoint as ad
    >>> x = ad.tensor(3.0, requires_grad=True)
    >>> (g,) = ad.autograd.grad(x**2, x, create_graph=True)
    >>> ad.autograd.grad(g, x)
    (tensor(2.),)
    """
    if is_grads_batched:
        return _batched_grad(
            outputs,
            inputs,
            grad_outputs,
            retain_graph,
            create_graph,
            allow_unused,
            materialize_grads,
        )
    if materialize_grads and allow_unused is False:
        raise GradError("grad: materialize_grads=True and allow_unused=False contradict each other")
    roots = _listed(outputs)
    wanted = _listed(inputs)
    for tensor in wanted:
        if not isinstance(tensor, Tensor):
            raise TypeError(f"grad: inputs must be tensors, got {type(tensor).__name__}")
        if isinstance(tensor, LevelTensor):
            raise GradError(
                f"autograd.grad inside {tensor.home.name}: use ad.grad or ad.vjp there in place "
                "of the tape"
            )
        if tensor.edge is None:
            raise GradError(
                "grad: one of the inputs does not require a gradient; call requires_grad_() "
                "before use"
            )
    grads = _paired("grad", roots, grad_outputs)
    keep = create_graph if retain_graph is None else retain_graph
    found = engine.gradients(roots, grads, wanted, create_graph=create_graph, retain_graph=keep)
    if materialize_grads:
        found = [
            t.detach().zeros_like() if g is None else g for t, g in zip(wanted, found, strict=True)
        ]
    elif not allow_unused and any(g is None for g in found):
        which = next(i for i, g in enumerate(found) if g is None)
        raise GradError(
            f"grad: input {which} was not used to compute the outputs. "
            "Pass allow_unused=True to get None for it, or materialize_grads=True to get zeros."
        )
    return tuple(found)


vmap: Any = None  # set by adjoint/__init__.py: the transforms are above this layer


def _batched_grad(outputs: Any, inputs: Any, grads: Any, *options: Any) -> tuple[Any, ...]:
    """The gradients of a batch of cotangents, the batch in front."""
    retain_graph, create_graph, allow_unused, materialize_grads = options
    if grads is None or any(g is None for g in _listed(grads)):
        raise GradError(
            "grad: is_grads_batched=True needs grad_outputs with the batch in front, one for "
            "each output"
        )
    known: list[bool] = []

    def one(*cotangents: Any) -> tuple[Any, ...]:
        found = grad(
            outputs,
            inputs,
            cotangents,
            retain_graph,
            create_graph,
            allow_unused,
            materialize_grads=materialize_grads,
        )
        known[:] = [g is not None for g in found]
        return tuple(g for g in found if g is not None)

    found = iter(vmap(one)(*_listed(grads)))
    return tuple(next(found) if k else None for k in known)


def backward(
    tensors: Tensor | Sequence[Tensor],
    grad_tensors: Any = None,
    retain_graph: bool | None = None,
    create_graph: bool = False,
    inputs: Tensor | Sequence[Tensor] | None = None,
) -> None:
    """Accumulate the gradient of `tensors` in the leaves they depend on, or in `inputs` only."""
    roots = _listed(tensors)
    grads = _paired("backward", roots, grad_tensors)
    keep = create_graph if retain_graph is None else retain_graph
    wanted = None if inputs is None else _listed(inputs)
    if wanted is not None and not wanted:
        raise GradError("backward: inputs is empty; leave it out to reach all leaves")
    for tensor in wanted or ():
        if tensor.edge is None:
            raise GradError("backward: one of the inputs does not require a gradient")
    engine.backward(roots, grads, wanted, create_graph=create_graph, retain_graph=keep)
