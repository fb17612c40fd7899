"""Law 4: `vmap` equals a loop."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

import adjoint as ad
from adjoint.core.errors import DependsOnValues
from adjoint.testing import batches, jacobians
from adjoint.testing.jacobians import Call, array_of, random_like, tensor_of
from adjoint.testing.laws.case import (
    Case,
    assert_close,
    depends_on_values,
)
from adjoint.transforms import batch


def vmap_equals_loop(case: Case) -> None:
    """`vmap` over perturbed copies equals one call for each, and does not run as a loop itself.

    For the first sample of an operator also vmap of vmap, of grad and of jvp.
    """
    looped = batch.LOOPED.total()
    tensors = jacobians.tensors_in(case.arguments)
    values = Call(case.run, case.arguments, tuple(tensors))
    first = case.number == 0 and not case.reads_memory

    def keep(way: batches.Way) -> bool:
        if case.row.schema.mutates and not way.chosen[0]:
            return False  # what is outside of vmap cannot take a value for each sample
        return not case.reads_memory or (way.axis == 0 and all(way.chosen))

    try:
        batches.compare(
            case.title, lambda *t: values(t), tensors, assert_close,
            keep=keep, twice=first and not case.row.schema.mutates, is_view=case.row.schema.is_view,
        )  # fmt: skip
        if first and case.dtype.name == "float64" and not case.sample.kink:
            _vmap_of_derivatives(case, values, tensors, keep)
    except DependsOnValues:
        if not depends_on_values(case):
            raise
    assert batch.LOOPED.total() == looped, f"{case.title} ran as a loop: its row needs a `batch:`"


def _vmap_of_derivatives(
    case: Case, values: Call, tensors: list[ad.Tensor], keep: Callable[[batches.Way], bool]
) -> None:
    places = tuple(k for k, t in enumerate(tensors) if t.requires_grad)
    outputs = values(tensors)
    wanted = [k for k, t in enumerate(outputs) if t.requires_grad]
    if not wanted:
        return
    generator = np.random.default_rng(0)
    v = [tensor_of(random_like(array_of(outputs[k]), generator)) for k in wanted]
    u = [tensor_of(random_like(array_of(tensors[k]), generator)) for k in places]

    def chosen(inputs: Sequence[ad.Tensor]) -> tuple[ad.Tensor, ...]:
        found = values(inputs)
        return tuple(found[k] for k in wanted)

    def reverse(*inputs: ad.Tensor) -> Sequence[ad.Tensor]:
        _, pull = ad.vjp(lambda *x: chosen(_put(inputs, places, x)), *(inputs[k] for k in places))
        return pull(tuple(v))

    def forward(*inputs: ad.Tensor) -> Sequence[ad.Tensor]:
        primals = tuple(inputs[k] for k in places)
        return ad.jvp(lambda *x: chosen(_put(inputs, places, x)), primals, tuple(u))[1]

    for mode in (reverse, forward):
        title = f"{case.title}: {mode.__name__} mode"
        batches.compare(
            title, mode, tensors, assert_close,
            keep=lambda way: way.axis == 0 and keep(way), is_view=case.row.schema.is_view,
        )  # fmt: skip


def _put(values: Sequence[Any], places: Sequence[int], new: Sequence[Any]) -> list[Any]:
    found = list(values)
    for place, value in zip(places, new, strict=True):
        found[place] = value
    return found
