"""Reverse mode for users: `grad` and `backward`, with PyTorch's arguments."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

import numpy as np

from adjoint.core.errors import GradError, ShapeError, ValueRangeError
from adjoint.core.shapes import show
from adjoint.core.source_lines import warn
from adjoint.homes import structures
from adjoint.homes.levels import on_level
from adjoint.homes.structures import StructuredTensor
from adjoint.tape import engine
from adjoint.tape.backward_passes import request
from adjoint.tape.edges import GradientEdge
from adjoint.tensor.tensor import Tensor, is_plain, make

Source = Tensor | GradientEdge  # an output or an input of a derivative


def _listed(value: Any) -> list[Any]:
    """One tensor, edge or number, any iterable of them, or a dictionary's values, as a list."""
    if type(value) in (tuple, list):  # the common case, without the checks below
        return list(value)
    if isinstance(value, (Tensor, GradientEdge)) or not isinstance(value, Iterable):
        return [value]
    return list(value.values() if isinstance(value, Mapping) else value)


def _check_sources(what: str, role: str, values: list[Any]) -> None:
    for value in values:
        if not isinstance(value, (Tensor, GradientEdge)):
            raise TypeError(f"{what}: {role} must be tensors, got {type(value).__name__}")


def _check_inputs(what: str, inputs: list[Any]) -> None:
    if not inputs:
        raise ValueRangeError(f"{what}: inputs is empty; there is nothing to differentiate in")
    _check_sources(what, "inputs", inputs)
    for tensor in inputs:
        if on_level(tensor):
            raise GradError(
                f"autograd.{what} inside {tensor.home.name}: use ad.grad or ad.vjp there in place "
                "of the tape"
            )
        if tensor.edge is None:
            raise GradError(
                f"{what}: one of the inputs does not require a gradient; call requires_grad_() "
                "before use"
            )


def _paired(what: str, outputs: list[Any], grads: Any) -> list[Any]:
    given = _listed(grads) if grads is not None else [None] * len(outputs)
    if len(given) != len(outputs):
        raise GradError(f"{what}: {len(given)} gradients for {len(outputs)} outputs")
    _check_sources(what, "outputs", outputs)
    return [_cotangent(what, o, g) for o, g in zip(outputs, given, strict=True)]


def _cotangent(what: str, output: Any, grad: Any) -> Any:
    """The gradient that the user gave for an output, or the default one."""
    if output.edge is None:
        raise GradError(
            f"{what}: the tensor does not require a gradient and has no grad_fn; nothing to "
            "differentiate"
        )
    shape, dtype = output.spec if isinstance(output, GradientEdge) else (output.shape, output.dtype)
    if grad is None:
        return _default_cotangent(what, structures.inner(output), shape, dtype)
    if not isinstance(grad, Tensor):
        grad = make(np.asarray(grad))
    if tuple(grad.shape) != tuple(shape):
        raise ShapeError(
            f"{what}: the gradient has shape {show(grad.shape)}, the output {show(shape)}; they "
            "must be equal"
        )
    if grad.is_complex() and not dtype.is_complex:
        raise GradError(f"{what}: a complex gradient for a real output ({dtype.name})")
    return output.fitted(grad) if isinstance(output, StructuredTensor) else grad


def _default_cotangent(what: str, output: Any, shape: tuple[int, ...], dtype: Any) -> Any:
    if any(s != 1 for s in shape):
        raise GradError(
            f"{what}: the output has shape {show(shape)}, and a gradient can be left out only for "
            "a scalar. Pass the gradient of each output, or sum() first."
        )
    if dtype.is_complex:
        raise GradError(
            f"{what}: the output is complex; pass its gradient, or differentiate a real loss"
        )
    if is_plain(output) or isinstance(output, GradientEdge):
        return make(np.ones(shape, dtype.np))
    return output.detach().ones_like()


def grad(
    outputs: Source | Iterable[Source],
    inputs: Source | Iterable[Source] | Mapping[Any, Source],
    grad_outputs: Any = None,
    retain_graph: bool | None = None,
    create_graph: bool = False,
    only_inputs: bool = True,
    allow_unused: bool | None = None,
    is_grads_batched: bool = False,
    materialize_grads: bool = False,
) -> Any:
    """Return the gradient of the (weighted) sum of `outputs` in each of `inputs`.

    They are a tuple, or for a dictionary of inputs a dictionary. `.grad` of other tensors is never
    touched, so `only_inputs` can only be True.

    >>> import adjoint as ad
    >>> x = ad.tensor(3.0, requires_grad=True)
    >>> (g,) = ad.autograd.grad(x**2, x, create_graph=True)
    >>> ad.autograd.grad(g, x)
    (tensor(2.),)
    """
    if materialize_grads and allow_unused is False:
        raise ValueRangeError(
            "grad: materialize_grads=True and allow_unused=False contradict each other"
        )
    if not only_inputs:
        raise ValueRangeError("grad: only_inputs=False: use backward() to fill .grad of all leaves")
    if type(inputs) not in (tuple, list, Tensor) and isinstance(inputs, Mapping):
        rest = (allow_unused, is_grads_batched, materialize_grads)
        options = (retain_graph, create_graph, True, *rest)
        found = grad(outputs, _listed(inputs), grad_outputs, *options)
        return dict(zip(inputs, found, strict=True))
    roots = _listed(outputs)
    wanted = _listed(inputs)
    keep = create_graph if retain_graph is None else retain_graph
    if is_grads_batched:
        options = (keep, create_graph, True, allow_unused, False, materialize_grads)
        return _batched_grad(roots, wanted, _listed(grad_outputs), options)
    _check_inputs("grad", wanted)
    grads = _paired("grad", roots, grad_outputs)
    roots, inputs = [*map(structures.inner, roots)], [*map(structures.inner, wanted)]
    found = engine.gradients(roots, grads, inputs, request(create_graph, keep))
    found = [structures.outer(t, g) for t, g in zip(wanted, found, strict=True)]
    if materialize_grads:
        found = [
            _zeros(t, create_graph) if g is None else g for t, g in zip(wanted, found, strict=True)
        ]
    elif not allow_unused and any(g is None for g in found):
        which = next(i for i, g in enumerate(found) if g is None)
        raise GradError(
            f"grad: input {which} was not used to compute the outputs. "
            "Pass allow_unused=True to get None for it, or materialize_grads=True to get zeros."
        )
    return tuple(found)


def _zeros(source: Any, requires_grad: bool) -> Tensor:
    """Zeros in place of an absent gradient; a variable if gradients are to have a history."""
    if isinstance(source, GradientEdge):
        raise GradError(
            "grad: materialize_grads=True needs tensors as inputs, and an edge of one has no "
            "gradient here; pass allow_unused=True to get None for it"
        )
    zeros = source.detach().zeros_like()
    return zeros.requires_grad_() if requires_grad else zeros


vmap: Any = None  # set by _wiring.py: transforms are above this layer


def _batched_grad(
    outputs: list[Any], inputs: list[Any], grads: list[Any], options: tuple[Any, ...]
) -> tuple[Any, ...]:
    """The gradients for a batch of cotangents; the batch is the first dimension."""
    if any(g is None for g in grads):
        raise GradError(
            "grad: is_grads_batched=True needs grad_outputs with the batch in front, one for "
            "each output"
        )
    known: list[bool] = []

    def one(*cotangents: Any) -> tuple[Any, ...]:
        found = grad(outputs, inputs, cotangents, *options)
        known[:] = [g is not None for g in found]
        return tuple(g for g in found if g is not None)

    found = iter(vmap(one)(*grads))
    return tuple(next(found) if k else None for k in known)


def backward(
    tensors: Source | Iterable[Source],
    grad_tensors: Any = None,
    retain_graph: bool | None = None,
    create_graph: bool = False,
    inputs: Source | Iterable[Source] | Mapping[Any, Source] | None = None,
) -> None:
    """Accumulate the gradient of `tensors` in the leaves they depend on, or in `inputs` only.

    >>> import adjoint as ad
    >>> x = ad.tensor([1.0, 2.0], requires_grad=True)
    >>> ad.autograd.backward([(x**2).sum(), x.sum()])
    >>> x.grad
    tensor([3., 5.])
    """
    roots = _listed(tensors)
    grads = _paired("backward", roots, grad_tensors)
    wanted = None if inputs is None else _listed(inputs)
    if wanted is not None:
        _check_inputs("backward", wanted)
        for tensor in wanted:
            if isinstance(tensor, Tensor):
                tensor.retain_grad()
    if create_graph:
        warn(
            "Using backward() with create_graph=True makes a cycle of a tensor and its gradient, "
            "which only the garbage collector frees. Use autograd.grad(…, create_graph=True), or "
            "set .grad to None when it is no longer needed."
        )
    keep = create_graph if retain_graph is None else retain_graph
    roots, inner = [*map(structures.inner, roots)], wanted and [*map(structures.inner, wanted)]
    engine.backward(roots, grads, inner, request(create_graph, keep))
