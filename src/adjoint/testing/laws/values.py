"""Laws 1, 5 and 9: values, shapes without data, arguments left alone, layouts."""

from __future__ import annotations

import warnings
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

import adjoint as ad
from adjoint.core.errors import DependsOnValues, ShapeError
from adjoint.testing import jacobians
from adjoint.testing.jacobians import Array, Call, array_of, random_like, tensor_of
from adjoint.testing.laws.case import (
    Case,
    assert_close,
    without_data,
)
from adjoint.testing.samples import Made, densely, whole


def value_equals_reference(case: Case) -> None:
    """The value equals an independent reference."""
    if case.reference is None:
        return
    args = [_arrays(a) for a in case.sample.args]
    kwargs = {k: _arrays(v) for k, v in case.sample.kwargs.items()}
    with np.errstate(all="ignore"):
        expected = case.reference(*args, **kwargs)
    wanted = expected if isinstance(expected, list | tuple) else [expected]
    got = case.outputs()
    assert len(got) >= len(wanted), f"{case.title}: {len(got)} results, the reference {len(wanted)}"
    for number, (tensor, value) in enumerate(zip(got, wanted, strict=False)):
        assert_close(
            f"{case.title}: result {number} differs from the reference",
            array_of(tensor), np.asarray(value), same_dtype=False,
        )  # fmt: skip


def _arrays(value: Any) -> Any:
    value = densely(whole(value)) if isinstance(value, Made) else value
    if isinstance(value, ad.Tensor):
        return array_of(value)
    if isinstance(value, list | tuple):
        return type(value)(_arrays(v) for v in value)
    return value


def shape_rule_is_right(case: Case) -> None:
    """Shapes and dtypes without data equal the real ones, unless they depend on values."""
    real = case.outputs()
    try:
        claimed = jacobians.tensors_in(case.run(*map(without_data, case.arguments)))
    except DependsOnValues:
        return
    assert len(real) == len(claimed), (
        f"{case.title}: the shape rule gives {len(claimed)} results, not {len(real)}"
    )
    for number, (a, b) in enumerate(zip(claimed, real, strict=True)):
        assert (tuple(a.shape), a.dtype) == (tuple(b.shape), b.dtype), (
            f"{case.title}: result {number}: the shape rule says {tuple(a.shape)} {a.dtype.name}, "
            f"the kernel gives {tuple(b.shape)} {b.dtype.name}"
        )


def inputs_are_untouched(case: Case) -> None:
    """The operator and its derivatives leave their arguments alone."""
    call = Call.of(case.run, case.arguments)
    tensors = jacobians.tensors_in(case.arguments)
    before = [array_of(t).tobytes() for t in tensors]
    outputs = [t for t in case.outputs() if t.requires_grad]
    if outputs:
        seeds = [tensor_of(np.ones_like(array_of(t))) for t in outputs]
        ad.autograd.grad(outputs, call.inputs, seeds, allow_unused=True)
    for number, (tensor, bytes_before) in enumerate(zip(tensors, before, strict=True)):
        assert array_of(tensor).tobytes() == bytes_before, (
            f"{case.title}: the call or its backward changed tensor argument {number}"
        )


def drawing_is_declared(case: Case) -> None:
    """An operator that draws random numbers says so: passes and loops run no such node twice."""
    before = array_of(ad.get_rng_state()).tobytes()
    case.outputs()
    assert case.row.random or array_of(ad.get_rng_state()).tobytes() == before, (
        f"{case.title}: it draws random numbers, and its row does not say `random: True`"
    )


def shared_memory_is_known(case: Case) -> None:
    """Tensors on the same memory share their counter of writes, so that no write goes unnoticed."""
    arguments = case.arguments
    tensors = jacobians.tensors_in(arguments)
    outputs = jacobians.tensors_in(case.run(*arguments))
    for number, output in enumerate(outputs):
        for other in (*tensors, *outputs[:number]):
            shared = np.may_share_memory(output.value, other.value)
            assert not shared or output is other or output.counter is other.counter, (
                f"{case.title}: result {number} lies on the memory of another tensor, which does "
                "not know; copy it, or mark the alias in the schema"
            )


def layout_does_not_matter(case: Case) -> None:
    """Strided, transposed and read-only copies of the inputs give the same values and gradients."""
    expected = _values_and_gradients(case, case.arguments)
    for name, change in LAYOUTS.items():
        try:
            got = _values_and_gradients(case, tuple(_changed(a, change) for a in case.arguments))
        except ShapeError:
            # some views exist for some layouts only, and say so
            assert case.row.schema.is_view, f"{case.title} fails with {name} inputs"
            continue
        assert len(got) == len(expected), f"{case.title}: {name} inputs give other results"
        for number, (a, b) in enumerate(zip(got, expected, strict=True)):
            assert_close(
                f"{case.title}: with {name} inputs, value or gradient {number} differs", a, b
            )


def _values_and_gradients(case: Case, arguments: tuple[Any, ...]) -> list[Array]:
    call = Call.of(case.run, arguments)
    outputs = jacobians.tensors_in(case.run(*arguments))
    recorded = [t for t in outputs if t.requires_grad]
    grads: Sequence[Any] = ()
    if recorded:
        generator = np.random.default_rng(0)
        seeds = [tensor_of(random_like(array_of(t), generator)) for t in recorded]
        grads = ad.autograd.grad(recorded, call.inputs, seeds, allow_unused=True)
    return [array_of(t) for t in (*outputs, *grads) if t is not None]


def _spread_out(array: Array) -> Array:
    """Every second element of a larger array, the dimensions in reverse order in memory."""
    room = np.zeros((*(2 * n for n in reversed(array.shape)),), array.dtype)
    view = room[(..., *((slice(None, None, 2),) * array.ndim))].T  # ... keeps 0-d an array
    view[...] = array
    return view


def _read_only(array: Array) -> Array:
    copy = array.copy()
    copy.flags.writeable = False
    return copy


LAYOUTS: dict[str, Callable[[Array], Array]] = {"strided": _spread_out, "read-only": _read_only}


def _changed(value: Any, change: Callable[[Array], Array]) -> Any:
    if isinstance(value, ad.Tensor):
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # of a read-only array
            return tensor_of(change(array_of(value)), requires_grad=value.requires_grad)
    if isinstance(value, list | tuple):
        return type(value)(_changed(v, change) for v in value)
    return value
