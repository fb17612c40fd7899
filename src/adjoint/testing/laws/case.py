"""A `Case`: an operator at one sample; and what the laws share: tolerances, comparing, seeds."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

import adjoint as ad
from adjoint.core.dtypes import DType
from adjoint.core.errors import DependsOnValues
from adjoint.core.records import record
from adjoint.homes.meta import meta_tensor
from adjoint.ops import arguments as converting
from adjoint.ops import binding
from adjoint.ops import operator as operators
from adjoint.table.rows import Row
from adjoint.testing import jacobians
from adjoint.testing.closeness import near
from adjoint.testing.jacobians import Array, Call, array_of, random_like, tensor_of
from adjoint.testing.samples import Sample, densely, whole

#              relative, absolute times the largest element (at least 1)
TOLERANCE: dict[str, tuple[float, float]] = {
    "float64": (1e-9, 1e-11), "complex128": (1e-9, 1e-11),
    "float32": (1e-4, 1e-5), "complex64": (1e-4, 1e-5),
    "float16": (1e-2, 4e-3), "bfloat16": (5e-2, 2e-2),
}  # fmt: skip


@record
class Case:
    """An operator at one sample."""

    row: Row
    sample: Sample
    dtype: DType
    reference: Callable[..., Any] | None = None
    number: int = 0  # of the sample among those of its operator

    @property
    def title(self) -> str:
        return f"{self.row.full_name}{self.sample} [{self.sample.name}, {self.dtype.name}]"

    @property
    def reads_memory(self) -> bool:
        """Whether the operator counts elements of the memory itself, so that the layout matters."""
        return any(a.name == "stride" for a in self.row.schema.arguments)

    @property
    def arguments(self) -> tuple[Any, ...]:
        """All arguments as one tuple; those that the row refuses to differentiate are detached."""
        names = [a.name for a in self.row.schema.arguments]
        given = [*zip(names, self.sample.args, strict=False), *self.sample.kwargs.items()]
        refused = self.row.refused
        return tuple(detached(v) if name in refused else v for name, v in given)

    def run(self, *arguments: Any) -> Any:
        """Call the operator; arguments that it would write to are copied before."""
        count = len(self.sample.args)
        args = [whole(a) for a in arguments[:count]]
        kwargs = dict(zip(self.sample.kwargs, arguments[count:], strict=True))
        for position, argument in enumerate(self.row.schema.arguments):
            if argument.writes and position < count:
                args[position] = copied(args[position])
        ad.manual_seed(0)
        op = operators.operator(self.row.schema.name, self.row.schema.overload)
        return densely(op(*args, **kwargs))

    def run_decomposed(self, *arguments: Any) -> Any:
        """Call the decomposition of the operator on the same arguments."""
        schema, count = self.row.schema, len(self.sample.args)
        kwargs = dict(zip(self.sample.kwargs, arguments[count:], strict=True))
        given = dict(zip(schema.names, map(whole, arguments[:count]), strict=False)) | kwargs
        values = [
            converting.convert(
                schema.name, a, given.get(a.name, a.default if a.has_default else None)
            )
            for a in schema.arguments
        ]
        ad.manual_seed(0)
        return densely(binding.decomposition(self.row)(*values))

    def outputs(self) -> list[ad.Tensor]:
        """The tensors that the operator returns at this sample."""
        return jacobians.tensors_in(self.run(*self.arguments))


def copied(value: Any) -> Any:
    """Tensors cloned, also in lists."""
    return [v.clone() for v in value] if isinstance(value, list) else value.clone()


def detached(value: Any) -> Any:
    """Tensors without their history, also in lists."""
    if isinstance(value, ad.Tensor):
        return value.detach()
    if isinstance(value, list | tuple):
        return type(value)(detached(v) for v in value)
    return value


def without_data(value: Any) -> Any:
    """Tensors become meta tensors, also in lists."""
    if isinstance(value, ad.Tensor):
        return meta_tensor(tuple(value.shape), value.dtype)
    if isinstance(value, list | tuple):
        return type(value)(without_data(v) for v in value)
    return value


def depends_on_values(case: Case) -> bool:
    """Whether values say how many elements are read or written: of a mask, or by the shape rule."""
    lists = [jacobians.tensors_in(a) for a in case.arguments if isinstance(a, list)]
    if any(t.dtype.name == "bool" for tensors in lists for t in tensors):
        return True
    try:
        case.run(*map(without_data, case.arguments))
    except DependsOnValues:
        return True
    return False


def with_gradients(case: Case, run: Callable[..., Any]) -> tuple[list[Array], list[Array]]:
    """The results, and the gradient of a random combination of them in each input."""
    call = Call.of(run, case.arguments)
    outputs = jacobians.tensors_in(run(*case.arguments))
    generator = np.random.default_rng(0)
    seeds = [tensor_of(random_like(array_of(t), generator)) for t in outputs]
    recorded = [(t, s) for t, s in zip(outputs, seeds, strict=True) if t.requires_grad]
    grads: Sequence[Any] = [None] * len(call.inputs)
    if recorded:
        roots, cotangents = zip(*recorded, strict=True)
        grads = ad.autograd.grad(list(roots), call.inputs, list(cotangents), allow_unused=True)
    pairs = zip(grads, call.inputs, strict=True)
    filled = [np.zeros_like(array_of(t)) if g is None else array_of(g) for g, t in pairs]
    return [array_of(t) for t in outputs], filled


def assert_close(what: str, got: Array, expected: Array, *, same_dtype: bool = True) -> None:
    """Raise AssertionError, with the first place, unless two arrays are the same up to rounding."""
    assert got.shape == expected.shape, f"{what}: shape {got.shape}, not {expected.shape}"
    if same_dtype:
        assert got.dtype == expected.dtype, f"{what}: dtype {got.dtype}, not {expected.dtype}"
    relative, absolute = TOLERANCE.get(str(got.dtype), (0.0, 0.0))
    wide = np.complex128 if got.dtype.kind == "c" or expected.dtype.kind == "c" else np.float64
    a, b = got.astype(wide), expected.astype(wide)
    scale = max(1.0, float(np.abs(b[np.isfinite(b)]).max(initial=0.0)))
    close = near(a, b, relative, absolute * scale)
    if not close.all():
        place = tuple(int(i) for i in np.argwhere(~close)[0])
        raise AssertionError(
            f"{what}: {int((~close).sum())} of {close.size} elements, first at {place}: "
            f"{got[place]} instead of {expected[place]}"
        )
