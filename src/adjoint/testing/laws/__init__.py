"""The laws: what must hold of every operator, at every sample, in every dtype.

A law is a function of a row, a sample and the reference that came with it. It returns nothing, and
raises `AssertionError` with the operator, the sample and the numbers where the law is broken.
`check("name")` runs all of them on all samples, for built-in and users' own rows alike.
"""

from __future__ import annotations

import warnings
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

import adjoint as ad
from adjoint.core.dtypes import DType, named
from adjoint.core.errors import DependsOnValues, DtypeError, ShapeError
from adjoint.ops import arguments as converting
from adjoint.ops import operator as operators
from adjoint.table import TABLE
from adjoint.table.rows import Row
from adjoint.tensor import binding
from adjoint.tensor.meta import meta_tensor
from adjoint.testing import batches, jacobians, samples
from adjoint.testing.explain import GradcheckError
from adjoint.testing.gradcheck import gradcheck, gradgradcheck
from adjoint.testing.jacobians import Array, Call, array_of, tensor_of
from adjoint.testing.laws.batching import vmap_equals_loop
from adjoint.testing.laws.case import (
    TOLERANCE,
    Case,
    assert_close,
    depends_on_values,
    detached,
    random_like,
    with_gradients,
    without_data,
)
from adjoint.testing.laws.derivatives import (
    jvp_is_adjoint_of_vjp,
    reverse_equals_differences,
    second_order_equals_differences,
)
from adjoint.testing.laws.graphs import decomposition_equals_kernel, has_both, traced_equals_eager
from adjoint.testing.laws.values import (
    inputs_are_untouched,
    layout_does_not_matter,
    shape_rule_is_right,
    shared_memory_is_known,
    value_equals_reference,
)
from adjoint.testing.samples import Sample
from adjoint.transforms import batch

LAWS: dict[str, Callable[[Case], None]] = {
    law.__name__: law
    for law in (
        value_equals_reference,
        reverse_equals_differences,
        second_order_equals_differences,
        jvp_is_adjoint_of_vjp,
        vmap_equals_loop,
        shape_rule_is_right,
        traced_equals_eager,
        decomposition_equals_kernel,
        inputs_are_untouched,
        shared_memory_is_known,
        layout_does_not_matter,
    )
}


def cases(row: Row, dtype: DType) -> list[Case]:
    """Return the cases of a row in a dtype; none if the operator does not take that dtype."""
    found = [
        Case(row, s, dtype, r, number) for number, (s, r) in enumerate(samples.for_row(row, dtype))
    ]
    if found and not _takes(found[0]):
        return []
    return found


def _takes(case: Case) -> bool:
    try:
        with ad.no_grad():
            case.run(*case.arguments)
    except DtypeError:
        return False
    except TypeError as error:
        return "not supported for the input types" not in str(error)
    except Exception:
        return True  # a law will say so
    return True


def laws_of(case: Case) -> Iterator[str]:
    """The names of the laws that say something about a case."""
    if case.reference is not None:
        yield "value_equals_reference"
    derivatives, precise = _derivatives_of(case)
    if derivatives and precise and not case.sample.kink:
        yield "reverse_equals_differences"
        if case.sample.order > 1:
            yield "second_order_equals_differences"
    if derivatives:
        yield "jvp_is_adjoint_of_vjp"
    if case.dtype.name in ("float64", "complex128"):
        yield "vmap_equals_loop"
    yield from ("shape_rule_is_right", "traced_equals_eager")
    yield from ("inputs_are_untouched", "layout_does_not_matter")
    if case.dtype.name == "float64":
        yield "shared_memory_is_known"
    if has_both(case.row):
        yield "decomposition_equals_kernel"


def _derivatives_of(case: Case) -> tuple[bool, bool]:
    """Whether a derivative flows at this sample, and whether finite differences can follow it."""
    if case.dtype.name not in ("float64", "complex128"):
        return False, False
    try:
        flowing = [t for t in case.outputs() if t.requires_grad]
    except Exception:
        return bool(case.row.differentiable), True  # a law will say what is wrong
    return bool(flowing), all(t.dtype.to_real().itemsize >= 8 for t in flowing)


def check(operator: str, dtypes: Sequence[str] = ("float64", "complex128")) -> int:
    """Run every law on every sample of `operator`; return how many held, or raise AssertionError.

    `operator` is a name, with or without overload: "sum", "sum.dim_IntList", or one of your own.
    """
    name, _, overload = operator.partition(".")
    overloads = [overload] if overload else TABLE.overloads(name)
    held, broken = 0, list[str]()
    for row in (TABLE.row(name, o) for o in overloads):
        for dtype in (named(d) for d in dtypes):
            for case in cases(row, dtype):
                for law in laws_of(case):
                    try:
                        LAWS[law](case)
                        held += 1
                    except Exception as error:
                        broken.append(f"{law}: {type(error).__name__}: {error}")
    if broken:
        more = f"\n... and {len(broken) - 5} more" if len(broken) > 5 else ""
        shown = "\n\n".join(broken[:5])
        raise AssertionError(f"{operator}: {len(broken)} laws broken, {held} held\n\n{shown}{more}")
    return held


__all__ = [
    "LAWS",
    "Case",
    "cases",
    "check",
    "laws_of",
    "random_like",
    "value_equals_reference",
    "with_gradients",
    "without_data",
]
