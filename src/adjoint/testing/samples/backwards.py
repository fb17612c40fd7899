"""Samples of a backward operator: those of its forward, with what the forward returns.

`avg_pool2d_backward(grad_output, self, kernel_size, …)` gets the arguments of `avg_pool2d` that
have its names, and a gradient like the result; `input_sizes` is the shape of `input`, and further
tensors are the forward's further results. The values need no reference: at the same samples, the
laws compare the gradients of the forward with differences.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import suppress
from typing import Any

import adjoint as ad
from adjoint.core.errors import DtypeError
from adjoint.core.records import record
from adjoint.ops import operator as operators
from adjoint.table import TABLE
from adjoint.table.rows import Row
from adjoint.table.schema import Argument
from adjoint.testing import jacobians
from adjoint.testing.samples.arguments import Made
from adjoint.testing.samples.automatic import split

MOST = 5  # samples of a row: its forward has them all
MISSING = object()  # the value of an argument that the forward does not give


def samples(
    row: Row, make: Any, sample: Callable[..., Any], of: Callable[..., Any]
) -> Iterator[tuple[Any, None]]:
    """Yield samples of a backward operator, from those that `of(forward)` gives."""
    for forward in forwards(row):
        found: list[Any] = []
        plain = (each for each, _ in of(forward) if _is_plain(each))
        calls = (_Forward.at(forward, each, number) for number, each in enumerate(plain))
        made = (_backward(row, call, make, sample) for call in calls)
        with suppress(DtypeError):  # the forward takes no complex numbers
            found = [*itertools.islice(filter(None, made), MOST)]
        if found:
            yield from ((each, None) for each in found)
            return


def forwards(row: Row) -> Iterator[Row]:
    """The rows of which a row may be the backward: foo, foo_forward and _foo, of foo_backward; foo
    of foo_input_backward.
    """
    stem, is_backward, _ = row.name.partition("_backward")
    shorter = stem.rpartition("_")[0]
    names = (stem, f"{stem}_forward", f"_{stem}", stem.lstrip("_"), shorter)
    for name in names if is_backward else ():
        if name in TABLE:
            yield from (TABLE.row(name, overload) for overload in TABLE.overloads(name))


def _is_plain(each: Any) -> bool:
    """Whether a sample has no sparse or nested tensors."""
    return not any(isinstance(a, Made) for a in (*each.args, *each.kwargs.values()))


@record
class _Forward:
    """A call of the forward, and its results without history."""

    row: Row
    sample: Any
    values: Mapping[str, Any]  # the arguments by their names
    results: Sequence[ad.Tensor]
    number: int  # of the sample

    @staticmethod
    def at(row: Row, sample: Any, number: int) -> _Forward:
        values = {a.name: a.default for a in row.schema.arguments if a.has_default}
        values |= dict(zip(row.schema.names, sample.args, strict=False)) | sample.kwargs
        with ad.no_grad():
            results = operators.operator(row.name, row.schema.overload)(
                *sample.args, **sample.kwargs
            )
        return _Forward(row, sample, values, jacobians.tensors_in(results), number)

    def result(self, name: str, rest: Iterator[ad.Tensor]) -> Any:
        """The result of a name, or the next of the rest."""
        own = self.row.name.removesuffix("_forward").lstrip("_")
        if name in ("out", "output", "result", own):
            return self.results[0]
        named = dict(zip((r.name for r in self.row.schema.returns), self.results, strict=False))
        return named[name] if name in named else next(rest, MISSING)

    def size(self, name: str) -> Any:
        """The shape that a name means: `input_sizes` that of `input`, `sizes` of the first."""
        owner = self.values.get(name.removesuffix("s").removesuffix("size").removesuffix("_"))
        tensors = jacobians.tensors_in([*self.values.values()])
        owner = owner if isinstance(owner, ad.Tensor) else tensors[0]
        return tuple(owner.shape)


def _backward(row: Row, forward: _Forward, make: Any, sample: Callable[..., Any]) -> Any:
    """A sample of a row at the point of a sample of its forward; None if an argument is missing.

    Differences keep the forward's results while the input moves. Where the derivative goes through
    them they say nothing: the sample is marked as a kink.
    """
    cotangents, further = iter(forward.results), iter(forward.results[1:])
    grads = [a.name for a in row.schema.tensors if a.name.startswith("grad")]
    wanted = _some(len(grads), forward.number)
    values: dict[str, Any] = {}
    saved: list[str] = []
    for argument in row.schema.arguments:
        name = argument.name
        if name in grads:
            like = forward.result(name.removeprefix("grad_"), cotangents)
            is_left_out = argument.type.is_optional and not wanted[grads.index(name)]
            values[name] = None if is_left_out else _cotangent(make, like)
        elif name in forward.values:
            value = forward.values[name]
            values[name] = MISSING if value is None and _is_required(argument) else value
        elif argument.type.is_tensor:
            values[name] = forward.result(name, further)
            saved.append(name)
        else:
            values[name] = _fact(argument, forward)
    if any(value is MISSING for value in values.values()):
        return None
    held = [n for n in saved if not _is_free(row, values, n)]
    args, kwargs = split(row, values)
    kink = forward.sample.kink or forward.sample.order < 2 or bool(held)
    return sample(*args, **kwargs, name=forward.sample.name, kink=kink)


def _fact(argument: Argument, forward: _Forward) -> Any:
    """An argument that is no tensor: a shape, or which gradients are wanted."""
    kind = argument.type
    if kind.base == "bool" and kind.is_list:
        return _some(kind.length or 1, forward.number)
    if kind.base == "int" and kind.is_list and "size" in argument.name:
        return forward.size(argument.name)
    if argument.name == "input_dtype":
        return jacobians.tensors_in([*forward.values.values()])[0].dtype
    return argument.default if argument.has_default else MISSING


def _some(count: int, number: int) -> tuple[bool, ...]:
    """Which gradients a sample has: all, or one alone in every other sample."""
    return tuple(number % 2 == 0 or i == number // 2 % count for i in range(count))


def _is_required(argument: Argument) -> bool:
    return not argument.type.is_optional and not argument.has_default


def _cotangent(make: Any, like: Any) -> Any:
    """A gradient of a result; missing if it has none."""
    if like is MISSING or not like.dtype.is_differentiable:
        return MISSING
    made = make(*like.shape)
    return make.real(made) if make.is_complex and not like.dtype.is_complex else made


def _is_free(row: Row, values: dict[str, Any], name: str) -> bool:
    """Whether an operator has a derivative in a result of its forward, which is one in itself."""
    tensor = values[name]
    if name in row.refused or not tensor.dtype.is_differentiable:
        return True
    values[name] = tensor.clone().requires_grad_()
    args, kwargs = split(row, values)
    found = operators.operator(row.name, row.schema.overload)(*args, **kwargs)
    outputs = [t for t in jacobians.tensors_in(found) if t.requires_grad]
    ones = [ad.ones_like(t) for t in outputs]
    (grad,) = ad.autograd.grad(outputs, [values[name]], ones, allow_unused=True)
    if grad is None:
        values[name] = tensor
    return grad is not None
