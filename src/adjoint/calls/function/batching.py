"""A call of a function inside `vmap`: by the user's own rule, or by one that is generated.

The generated rule is a function of the whole batch, `Batched`, one level below. Its parts are the
user's `forward`, `backward` and `jvp`, mapped over the batch; it saves inputs and outputs, from
which the user's `setup_context` makes the context of one sample again.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from itertools import chain
from typing import Any, NamedTuple

from adjoint.calls.function import tangents
from adjoint.calls.function.base import Function
from adjoint.calls.function.context import FunctionContext
from adjoint.calls.function.results import is_among
from adjoint.core.errors import GradError
from adjoint.tensor.tensor import Tensor


class VmapInfo(NamedTuple):
    """The facts about a batch that a user's `vmap` method gets."""

    batch_size: int
    randomness: str


def run(level: Any, function: Any, args: Sequence[Any], keywords: dict[str, Any]) -> Any:
    """Run a function inside vmap."""
    if function.has("vmap"):
        if function.generate_vmap_rule:
            raise GradError(
                f"{function.__name__} has a vmap method and generate_vmap_rule=True, which "
                "contradict each other"
            )
        return _by_rule(level, function, args, keywords)
    if not function.has("setup_context"):
        raise GradError(
            f"{function.__name__} is used inside vmap: give it a setup_context apart from forward, "
            "or a vmap method"
        )
    call = _BatchedCall(level, function, args, keywords)
    with level.outside():
        output = Batched.apply(call, *[level.front(a) for a in args])
    if isinstance(output, tuple):
        return tuple(level.lift(o, 0) if isinstance(o, Tensor) else o for o in output)
    return level.lift(output, 0) if isinstance(output, Tensor) else output


def _by_rule(level: Any, function: Any, args: Sequence[Any], keywords: dict[str, Any]) -> Any:
    """Run the user's `vmap`, which gets the batch axis of each argument."""
    in_dims = tuple(a.companion if level.is_batched(a) else None for a in args)
    info = VmapInfo(level.size, level.randomness)
    with level.outside():
        returned = function.vmap(info, in_dims, *[level.below(a) for a in args], **keywords)
    if not (isinstance(returned, tuple) and len(returned) == 2):
        raise GradError(f"{function.__name__}.vmap must return (output, out_dims)")
    output, out_dims = returned
    if not isinstance(output, (tuple, list)):
        return _lifted(level, function, output, out_dims)
    dims = tuple(out_dims) if isinstance(out_dims, (tuple, list)) else (out_dims,) * len(output)
    if len(dims) != len(output):
        raise GradError(
            f"{function.__name__}.vmap returned {len(dims)} out_dims for {len(output)} outputs"
        )
    return tuple(_lifted(level, function, o, d) for o, d in zip(output, dims, strict=True))


def _lifted(level: Any, function: Any, output: Any, dim: Any) -> Any:
    if not isinstance(output, Tensor):
        return output
    if dim is None:
        return level.lift(output, None)
    if not -output.ndim <= dim < output.ndim or output.shape[dim] != level.size:
        raise GradError(
            f"{function.__name__}.vmap says that the batch of {level.size} is dimension {dim} of "
            f"an output of shape {tuple(output.shape)}"
        )
    return level.lift(output, dim % output.ndim)


class _BatchedCall:
    """A call for a batch, which maps the user's methods over its samples."""

    def __init__(
        self, level: Any, function: Any, args: Sequence[Any], keywords: dict[str, Any]
    ) -> None:
        self.level, self.function, self.keywords = level, function, keywords
        self.axes = [0 if level.is_batched(a) else None for a in args]
        self.several = False  # whether the function returns a tuple

    def forward(self, args: Sequence[Any]) -> Any:
        return self.level.again(
            lambda *sample: self.function.forward(*sample, **self.keywords), self.axes, args
        )

    def context(
        self, inputs: Sequence[Any], outputs: Sequence[Any], needs: tuple[bool, ...]
    ) -> FunctionContext:
        """The user's context for one sample."""
        context = FunctionContext()
        context.needs_input_grad = needs
        output = tuple(outputs) if self.several else outputs[0]
        self.function.setup_context(context, tuple(inputs), output)
        return context

    def map(
        self, one: Callable[..., Any], inputs: Sequence[Any], *batches: Sequence[Any]
    ) -> tuple[Any, ...]:
        """Map `one(inputs, *batches)`; tensors in `batches` have the batch in front."""
        groups = [list(inputs), *(list(b) for b in batches)]
        axes = [list(self.axes), *([_front(v) for v in group] for group in groups[1:])]

        def sample(*values: Any) -> tuple[Any, ...]:
            rest = iter(values)
            return tuple(one(*[[next(rest) for _ in group] for group in groups]))

        return self.level.again(sample, [*chain(*axes)], [*chain(*groups)])


def _front(value: Any) -> int | None:
    return 0 if isinstance(value, Tensor) else None


class Batched(Function):
    """The function of a whole batch, one level below; its first argument is the call."""

    @staticmethod
    def forward(call: _BatchedCall, *args: Any) -> Any:
        return call.forward(args)

    @staticmethod
    def setup_context(ctx: Any, inputs: tuple[Any, ...], output: Any) -> None:
        call, *args = inputs
        call.several = isinstance(output, (tuple, list))
        outputs = list(output) if call.several else [output]
        ctx.call = call
        ctx.inputs = _SavedValues(args)
        ctx.outputs = _SavedValues(outputs)
        kept = [v for v in (*args, *outputs) if isinstance(v, Tensor)]
        ctx.save_for_backward(*kept)
        ctx.save_for_forward(*kept)
        ctx.mark_non_differentiable(*_non_differentiable(call, args, outputs))

    @staticmethod
    def backward(ctx: Any, *grads: Any) -> Any:
        call, function = ctx.call, ctx.call.function
        inputs, outputs = _kept_values(ctx)

        def one(inputs: list[Any], outputs: list[Any], grads: list[Any]) -> tuple[Any, ...]:
            context = call.context(inputs, outputs, ctx.needs_input_grad[1:])
            backward = function.reverse()
            if backward is None:
                returned = tangents.transposed_jvp(function, context, inputs, grads)
            else:
                returned = backward(context, *grads)
            returned = returned if isinstance(returned, tuple) else (returned,)
            return tuple(_zero_or(r, v) for r, v in zip(returned, inputs, strict=True))

        found = call.map(one, inputs, outputs, grads)
        summed = [
            g.sum(0) if isinstance(g, Tensor) and axis is None else g
            for g, axis in zip(found, call.axes, strict=True)
        ]
        return (
            None,
            *(g if isinstance(v, Tensor) else None for g, v in zip(summed, inputs, strict=True)),
        )

    @staticmethod
    def jvp(ctx: Any, *directions: Any) -> Any:
        call, given = ctx.call, directions[1:]
        inputs, outputs = _kept_values(ctx)
        spread = [
            t if a == 0 or t is None else t.expand((call.level.size, *t.shape))
            for t, a in zip(given, call.axes, strict=True)
        ]

        def one(inputs: list[Any], outputs: list[Any], given: list[Any]) -> tuple[Any, ...]:
            context = call.context(inputs, outputs, ctx.needs_input_grad[1:])
            return tuple(tangents.output_tangents(call.function, context, inputs, given, outputs))

        found = call.map(one, inputs, outputs, spread)
        return found if call.several else found[0]


class _SavedValues:
    """A list of values whose tensors are saved by a context."""

    def __init__(self, values: Sequence[Any]) -> None:
        self.rest = [None if isinstance(v, Tensor) else v for v in values]
        self.are_tensors = [isinstance(v, Tensor) for v in values]

    def filled(self, saved: Any) -> list[Any]:
        return [next(saved) if t else v for t, v in zip(self.are_tensors, self.rest, strict=True)]


def _kept_values(ctx: Any) -> tuple[list[Any], list[Any]]:
    saved = iter(ctx.saved_tensors)
    return ctx.inputs.filled(saved), ctx.outputs.filled(saved)


def _non_differentiable(call: _BatchedCall, args: list[Any], outputs: list[Any]) -> list[Any]:
    """The outputs that the user's `setup_context` marks as without a derivative."""
    marked: list[bool] = []

    def one(inputs: list[Any], outputs: list[Any]) -> tuple[Any, ...]:
        context = call.context(inputs, outputs, (False,) * len(inputs))
        if context.dirty_tensors:
            raise GradError(
                f"{call.function.__name__} changes an input in place, which has no generated rule "
                "for vmap; give it a vmap method, or return a new tensor"
            )
        marked.extend(is_among(o, context.non_differentiable) for o in outputs)
        return ()

    call.map(one, args, outputs)
    return [o for o, m in zip(outputs, marked, strict=True) if m]


def _zero_or(value: Any, like: Any) -> Any:
    if value is not None or not isinstance(like, Tensor) or not like.is_differentiable_dtype():
        return value
    return like.detach().zeros_like()
