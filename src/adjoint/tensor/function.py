"""`Function`: an operator of the user's own, with its derivatives in Python.

Write `forward` and `backward`, `jvp`, or both. If one of the two derivatives is missing it is
derived from the
other by transposition, so a function is differentiable in both modes as soon as it is in one.
"""

from __future__ import annotations

import functools
import weakref
from collections.abc import Callable, Sequence
from typing import Any

from adjoint.core.errors import GradError
from adjoint.core.state import current
from adjoint.tensor import derive, dispatch, forward, levels, observe, views
from adjoint.tensor.modes import no_grad
from adjoint.tensor.tape import Leaf, Node, Output, Rule, Watch, wrote
from adjoint.tensor.tensor import Tensor, make


class FunctionContext:
    """What `forward` leaves for `backward` and `jvp`."""

    def __init__(self) -> None:
        self.needs_input_grad: tuple[bool, ...] = ()
        self.materialize_grads = True
        self.to_save: tuple[Any, ...] = ()
        self.to_save_for_forward: tuple[Any, ...] = ()
        self.dirty: tuple[Tensor, ...] = ()
        self.non_differentiable: tuple[Tensor, ...] = ()
        self._node_reference: Any = None  # weak: the node holds the context
        self._graph = True  # whether saved tensors come with their history

    def save_for_backward(self, *tensors: Tensor | None) -> None:
        """Save inputs or outputs for `backward`; changes in place are then noticed."""
        self.to_save = tensors

    def save_for_forward(self, *tensors: Tensor | None) -> None:
        """Save tensors for `jvp`."""
        self.to_save_for_forward = tensors

    def mark_dirty(self, *tensors: Tensor) -> None:
        """Say which inputs `forward` changed in place; they must be returned."""
        self.dirty = tensors

    def mark_non_differentiable(self, *tensors: Tensor) -> None:
        """Say which outputs have no gradient."""
        self.non_differentiable = tensors

    def set_materialize_grads(self, value: bool) -> None:
        """Whether absent output gradients come as zeros (the default) or as None."""
        self.materialize_grads = value

    @property
    def saved_tensors(self) -> tuple[Any, ...]:
        """What `save_for_backward` saved."""
        node = None if self._node_reference is None else self._node_reference()
        if node is None:
            return self.to_save or self.to_save_for_forward
        if node.saved is None:
            raise GradError(
                "saved_tensors: they were freed by a first backward; use retain_graph=True there"
            )
        return tuple(_unsave(node, s, self._graph) for s in node.saved)


class _Saved:
    """A tensor in a function's node: an input as it is, an output by its value."""

    __slots__ = ("number", "tensor", "value", "watch")

    def __init__(self, tensor: Any, number: int | None) -> None:
        self.number = number  # of the output
        self.tensor = tensor if number is None else None
        self.value = tensor.value
        self.watch = Watch(tensor)


def _unsave(node: Node, saved: Any, graph: bool) -> Any:
    if saved is None:
        return None
    counter = saved.watch.changed()
    if counter is not None:
        observe.raise_changed(node, counter)
    if saved.number is None:
        return saved.tensor if graph or saved.tensor.edge is None else saved.tensor.detach()
    made = make(saved.value)
    made.counter = saved.watch.counters[0]
    if current().recording and graph and made.is_differentiable_dtype():
        made.edge = Output(node, saved.number)
    return made


class _FunctionRule(Rule):
    """The rule of a user's function."""

    __slots__ = ("context", "function", "inputs", "specs")

    def __init__(self, function: type[Function], context: FunctionContext) -> None:
        self.unary = False
        self.name, self.raw, self.saved_names, self.holds = (
            f"{function.__name__}Backward",
            None,
            (),
            True,
        )
        self.function = function
        self.context = context
        self.specs: list[Any] = []  # stand-ins for the outputs: shape and dtype
        self.inputs: list[Any] = []

    def general(self, node: Node, grads: Any, needs: Any, graph: bool) -> tuple[Any, ...]:  # type: ignore[override]
        """Call the user's backward."""
        if node.saved is None:
            raise GradError(
                f"backward a second time through {self.name}; use retain_graph=True the first time"
            )
        grads = [
            _zeros(s) if g is None and self.context.materialize_grads else g
            for g, s in zip(grads, self.specs, strict=True)
        ]
        self.context._graph = graph
        if self.function.has("backward"):
            returned = self.function.backward(self.context, *grads)
        else:
            returned = self.function.transposed_jvp(self.context, self.inputs, grads)
        returned = returned if isinstance(returned, tuple) else (returned,)
        given = len(self.context.needs_input_grad)
        if (len(returned) > given and any(r is not None for r in returned[given:])) or len(
            returned
        ) < given:
            raise GradError(
                f"{self.function.__name__}.backward returned {len(returned)} gradients for "
                f"{given} inputs of forward"
            )
        tensors = [
            r
            for r, is_tensor in zip(returned, node.more().metadata["tensors"], strict=False)
            if is_tensor
        ]
        return tuple(tensors)


def _zeros(spec: Any) -> Tensor:
    return spec.zeros_like()


class Function:
    """Base of users' own differentiable functions; call `apply`.

    >>> import adjoint as ad
    >>> class Cube(ad.autograd.Function):
    ...     @staticmethod
    ...     def forward(ctx, x):
    ...         ctx.save_for_backward(x)
    ...         return x**3
    ...     @staticmethod
    ...     def backward(ctx, grad):
    ...         (x,) = ctx.saved_tensors
    ...         return grad * 3 * x**2
    >>> x = ad.tensor(2.0, requires_grad=True)
    >>> Cube.apply(x).backward(); x.grad
    tensor(12.)
    """

    @staticmethod
    def forward(*args: Any, **keywords: Any) -> Any:
        """Compute the function. Takes the context first, unless `setup_context` is given."""
        raise GradError("a Function needs a forward method")

    @staticmethod
    def setup_context(ctx: Any, inputs: tuple[Any, ...], output: Any) -> None:
        """Save what the derivatives need, apart from `forward`."""
        raise GradError("setup_context is not given")

    @staticmethod
    def backward(ctx: Any, *grads: Any) -> Any:
        """Return the gradient of each input, given that of each output."""
        raise GradError("backward is not given")

    vjp = backward

    @staticmethod
    def jvp(ctx: Any, *tangents: Any) -> Any:
        """Return the tangent of each output, given that of each input."""
        raise GradError("jvp is not given")

    @classmethod
    def has(cls, name: str) -> bool:
        """Whether a method was given by the user."""
        return getattr(cls, name) is not getattr(Function, name)

    @classmethod
    def transposed_jvp(cls, context: Any, inputs: list[Any], grads: list[Any]) -> tuple[Any, ...]:
        """The reverse mode, from `jvp`."""
        if not cls.has("jvp"):
            raise GradError(f"{cls.__name__} has neither backward nor jvp")
        places = [
            i for i, t in enumerate(inputs) if isinstance(t, Tensor) and t.is_differentiable_dtype()
        ]

        def push(*tangents: Any) -> list[Any]:
            full: list[Any] = [None] * len(inputs)
            for place, tangent in zip(places, tangents, strict=True):
                full[place] = tangent
            result = cls.jvp(context, *full)
            return list(result) if isinstance(result, tuple) else [result]

        found = derive.transpose(push, [inputs[i] for i in places], grads)
        full: list[Any] = [None] * len(inputs)
        for place, grad in zip(places, found, strict=True):
            full[place] = grad
        return tuple(full)

    @classmethod
    def apply(cls, *args: Any, **keywords: Any) -> Any:
        """Run the function and record its derivative."""
        top = dispatch.topmost([a for a in args if isinstance(a, Tensor)])
        if isinstance(top, levels.GradLevel):
            return cls.apply_on_level(top, args, keywords)
        if top is not None and top is not forward.FORWARD:
            return top.process_function(cls, args, keywords)
        context = FunctionContext()
        tensors = [isinstance(a, Tensor) for a in args]
        context.needs_input_grad = tuple(isinstance(a, Tensor) and a.edge is not None for a in args)
        primals = [forward.primal(a) for a in args]
        with no_grad():
            output = cls._forward(context, primals, keywords)
        outputs = list(output) if isinstance(output, (tuple, list)) else [output]
        outputs = [cls._fresh(o, args, context) for o in outputs]
        if current().recording and any(context.needs_input_grad):
            cls._record(context, args, tensors, outputs)
        tangents = [forward.tangent_of(a) for a in args]
        if any(t is not None for t in tangents):
            cls._push(context, args, tangents, outputs)
        if isinstance(output, (tuple, list)):
            return tuple(outputs)
        return outputs[0]

    @classmethod
    def apply_on_level(cls, level: Any, args: Sequence[Any], keywords: dict[str, Any]) -> Any:
        """Run inside grad or jvp: the function below, its derivative here."""
        if not cls.has("setup_context"):
            raise GradError(
                f"{cls.__name__} is used inside {level.name}: give it a setup_context(ctx, "
                "inputs, output) apart from "
                "forward(*inputs), so that each transform can set up its own context"
            )
        below = [level.below(a) for a in args]
        context = FunctionContext()
        with level.outside():
            output = cls.apply(*below, **keywords)
            cls.setup_context(context, tuple(below), output)
        outputs = list(output) if isinstance(output, (tuple, list)) else [output]
        outs = [level.lift(o) if isinstance(o, Tensor) else o for o in outputs]
        if isinstance(level, levels.GradLevel):
            cls._record_on_level(level, context, args, outs)
        else:
            cls._push_on_level(level, context, args, outputs, outs)
        return tuple(outs) if isinstance(output, (tuple, list)) else outs[0]

    @classmethod
    def _record_on_level(
        cls, level: Any, context: FunctionContext, args: Sequence[Any], outs: list[Any]
    ) -> None:
        edges = tuple(a.edge if level.owns(a) else None for a in args if isinstance(a, Tensor))
        context.needs_input_grad = tuple(
            isinstance(a, Tensor) and level.owns(a) and a.edge is not None for a in args
        )
        if not current().recording or not any(e is not None for e in edges):
            return
        rule = _FunctionRule(cls, context)
        rule.inputs = [level.below(a) for a in args]
        rule.specs = [level.below(o).detach() for o in outs if isinstance(o, Tensor)]
        node = Node(rule, edges, (), None, None)
        node.home = level
        node.outputs = tuple((o.value.shape, o.value.dtype) for o in outs if isinstance(o, Tensor))
        node.more().metadata["tensors"] = [isinstance(a, Tensor) for a in args]
        for number, out in enumerate(o for o in outs if isinstance(o, Tensor)):
            if out.is_differentiable_dtype() and not any(
                out.value is t for t in context.non_differentiable
            ):
                out.edge = Output(node, number)

    @classmethod
    def _push_on_level(
        cls,
        level: Any,
        context: FunctionContext,
        args: Sequence[Any],
        outputs: list[Any],
        outs: list[Any],
    ) -> None:
        tangents = [level.tangent(a) for a in args]
        if not any(t is not None for t in tangents):
            return
        with level.outside():
            below = [level.below(a) for a in args]
            places = [
                i
                for i, o in enumerate(outputs)
                if isinstance(o, Tensor) and o.is_differentiable_dtype()
            ]
            if cls.has("jvp"):
                given = [
                    derive.materialised(a, t) if isinstance(a, Tensor) else t
                    for a, t in zip(below, tangents, strict=True)
                ]
                found = cls.jvp(context, *given)
                found = list(found) if isinstance(found, tuple) else [found]
            else:
                found = cls._transposed_backward(context, outputs, places, tangents)
            for place, tangent in zip(places, found, strict=False):
                if tangent is not None:
                    outs[place].tangent = forward.fit_tangent(tangent, outputs[place])

    @classmethod
    def apply_on_batch(cls, level: Any, args: Sequence[Any], keywords: dict[str, Any]) -> Any:
        """Run inside vmap: a function of the whole batch, whose parts are this one's under vmap."""
        if not cls.has("setup_context"):
            raise GradError(
                f"{cls.__name__} is used inside vmap: give it a setup_context apart from forward"
            )
        axes = [0 if level.is_batched(a) else None for a in args]
        fronts = [level.front(a) for a in args]

        class Batched(Function):
            """The same function, one level below."""

            @staticmethod
            def forward(*below: Any) -> Any:
                return level.again(lambda *a: cls.forward(*a, **keywords), axes, below)

            @staticmethod
            def setup_context(ctx: Any, inputs: tuple[Any, ...], output: Any) -> None:
                outputs = output if isinstance(output, (tuple, list)) else (output,)
                ctx.count, ctx.several = len(inputs), isinstance(output, (tuple, list))
                ctx.save_for_backward(*[v for v in (*inputs, *outputs) if isinstance(v, Tensor)])
                ctx.rest = [None if isinstance(v, Tensor) else v for v in (*inputs, *outputs)]

            @staticmethod
            def backward(ctx: Any, *grads: Any) -> Any:
                def one(*values: Any) -> Any:
                    context, given = _inner_context(cls, ctx, values)
                    returned = (
                        cls.backward(context, *given)
                        if cls.has("backward")
                        else cls.transposed_jvp(context, list(values[: ctx.count]), list(given))
                    )
                    returned = returned if isinstance(returned, tuple) else (returned,)
                    return tuple(
                        _zero_or(r, v) for r, v in zip(returned, values[: ctx.count], strict=True)
                    )

                found = _run_saved(level, ctx, axes, grads, one)
                return tuple(
                    None if not isinstance(v, Tensor) or g is None else (g if a == 0 else g.sum(0))
                    for g, a, v in zip(found, axes, _saved_values(ctx)[: ctx.count], strict=True)
                )

            @staticmethod
            def jvp(ctx: Any, *tangents: Any) -> Any:
                def one(*values: Any) -> Any:
                    context, given = _inner_context(cls, ctx, values)
                    if cls.has("jvp"):
                        return cls.jvp(context, *given)
                    outputs = list(values[ctx.count : len(ctx.rest)])
                    places = [i for i, o in enumerate(outputs) if o.is_differentiable_dtype()]
                    found = cls._transposed_backward(context, outputs, places, list(given))
                    return tuple(
                        _zero_or(f, outputs[p]) for f, p in zip(found, places, strict=True)
                    )

                spread = [
                    t if a == 0 or t is None else t.expand((level.size, *t.shape))
                    for t, a in zip(tangents, axes, strict=True)
                ]
                return _run_saved(level, ctx, axes, spread, one)

        with level.outside():
            output = Batched.apply(*fronts)
        if isinstance(output, (tuple, list)):
            return tuple(level.lift(o, 0) if isinstance(o, Tensor) else o for o in output)
        return level.lift(output, 0)

    @classmethod
    def _forward(cls, context: FunctionContext, args: list[Any], keywords: dict[str, Any]) -> Any:
        if cls.has("setup_context"):
            output = cls.forward(*args, **keywords)
            cls.setup_context(context, tuple(args), output)
            return output
        return cls.forward(context, *args, **keywords)

    @classmethod
    def _fresh(cls, output: Any, args: tuple[Any, ...], context: FunctionContext) -> Any:
        """An output that is an input, and was not changed, becomes a tensor of its own."""
        if not isinstance(output, Tensor) or any(output is d for d in context.dirty):
            return output
        return (
            make(output.value)
            if any(output is a for a in args) or output.edge is not None
            else output
        )

    @classmethod
    def _record(
        cls,
        context: FunctionContext,
        args: tuple[Any, ...],
        tensors: list[bool],
        outputs: list[Any],
    ) -> None:
        rule = _FunctionRule(cls, context)
        rule.inputs = list(args) if not cls.has("backward") else []
        rule.specs = [
            make(dispatch.meta.dummy(o.shape, o.dtype)) for o in outputs if isinstance(o, Tensor)
        ]
        following = tuple(a.edge for a in args if isinstance(a, Tensor))
        node = Node(rule, following, (), None, None)
        node.outputs = tuple(
            (o.value.shape, o.value.dtype) for o in outputs if isinstance(o, Tensor)
        )
        node.more().metadata["tensors"] = tensors
        context._node_reference = weakref.ref(node)
        numbers = {id(o): i for i, o in enumerate(o for o in outputs if isinstance(o, Tensor))}
        values = {id(o.value): i for i, o in enumerate(o for o in outputs if isinstance(o, Tensor))}
        node.saved = tuple(_save(t, args, numbers, values) for t in context.to_save) or ()
        context.to_save = ()
        for number, output in enumerate(o for o in outputs if isinstance(o, Tensor)):
            if (
                any(output is t for t in context.non_differentiable)
                or not output.is_differentiable_dtype()
            ):
                continue
            if any(output is d for d in context.dirty):
                if type(output.edge) is Leaf:
                    views.check_writable(output, cls.__name__)
                wrote(output, cls.__name__)
                views.rebase(output, Output(node, number))
            else:
                output.edge = Output(node, number)

    @classmethod
    def _push(
        cls,
        context: FunctionContext,
        args: tuple[Any, ...],
        tangents: list[Any],
        outputs: list[Any],
    ) -> None:
        places = [
            i
            for i, o in enumerate(outputs)
            if isinstance(o, Tensor) and o.is_differentiable_dtype()
        ]
        if cls.has("jvp"):
            given = [
                derive.materialised(a, t)
                if context.materialize_grads and isinstance(a, Tensor)
                else t
                for a, t in zip(args, tangents, strict=True)
            ]
            found = cls.jvp(context, *given)
            found = list(found) if isinstance(found, tuple) else [found]
        else:
            found = cls._transposed_backward(context, outputs, places, tangents)
        for place, tangent in zip(places, found, strict=False):
            if tangent is not None:
                forward.dual(outputs[place], forward.fit_tangent(tangent, outputs[place]))

    @classmethod
    def _transposed_backward(
        cls, context: Any, outputs: list[Any], places: list[int], tangents: list[Any]
    ) -> list[Any]:
        def pull(*grads: Any) -> list[Any]:
            full: list[Any] = [None] * len(outputs)
            for place, grad in zip(places, grads, strict=True):
                full[place] = grad
            result = cls.backward(context, *full)
            return list(result) if isinstance(result, tuple) else [result]

        return derive.transpose(pull, [outputs[i] for i in places], tangents)


def _saved_values(ctx: Any) -> list[Any]:
    tensors = iter(ctx.saved_tensors)
    return [next(tensors) if v is None else v for v in ctx.rest]


def _inner_context(
    cls: Any, ctx: Any, values: tuple[Any, ...]
) -> tuple[FunctionContext, tuple[Any, ...]]:
    """The user's context for one sample: inputs, outputs, then gradients or tangents."""
    context = FunctionContext()
    inputs, outputs = values[: ctx.count], values[ctx.count : len(ctx.rest)]
    context.needs_input_grad = (True,) * ctx.count
    cls.setup_context(context, inputs, tuple(outputs) if ctx.several else outputs[0])
    return context, values[len(ctx.rest) :]


def _run_saved(
    level: Any, ctx: Any, axes: list[Any], more: Sequence[Any], one: Callable[..., Any]
) -> Any:
    values = _saved_values(ctx)
    outs = [0 if isinstance(v, Tensor) else None for v in values[ctx.count :]]
    extra = [0 if isinstance(v, Tensor) else None for v in more]
    return level.again(one, [*axes, *outs, *extra], [*values, *more])


def _zero_or(value: Any, like: Any) -> Any:
    if value is not None or not isinstance(like, Tensor) or not like.is_differentiable_dtype():
        return value
    return like.detach().zeros_like()


def _save(
    tensor: Any, args: tuple[Any, ...], numbers: dict[int, int], values: dict[int, int]
) -> Any:
    if tensor is None:
        return None
    for argument in args:
        if isinstance(argument, Tensor) and argument.value is tensor.value:
            return _Saved(argument, None)
    number = numbers.get(id(tensor), values.get(id(tensor.value)))
    return _Saved(tensor, number)


def once_differentiable(backward: Callable[..., Any]) -> Callable[..., Any]:
    """Mark a `backward` that cannot be differentiated again: a second derivative then raises."""

    @functools.wraps(backward)
    def guarded(ctx: Any, *grads: Any) -> Any:
        with no_grad():
            result = backward(ctx, *grads)
        if not current().recording:
            return result
        several = isinstance(result, tuple)
        return tuple(_refusing(r, grads) for r in result) if several else _refusing(result, grads)

    return guarded


def _refuse(node: Node, grad: Any, needs: Any, graph: bool) -> Any:
    raise GradError("this backward is marked @once_differentiable: it has no second derivative")


_ONCE = Rule("OnceDifferentiable", _refuse)


def _refusing(result: Any, grads: tuple[Any, ...]) -> Any:
    if not isinstance(result, Tensor):
        return result
    edges = tuple(g.edge for g in grads if isinstance(g, Tensor))
    return make(result.value, edge=Node(_ONCE, edges, (), result.value.shape, result.value.dtype))
