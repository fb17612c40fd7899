"""Derivatives of users' own: custom_vjp, custom_jvp, custom_rule, and checkpoint.

All are `Function`s underneath, so they work under every transform and in eager; the mode that the user did not
write is derived from the one that he did, by transposition.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from adjoint.core import pytrees
from adjoint.core.errors import ArgumentError, GradError
from adjoint.core.generator import fork_rng, get_rng_state, set_rng_state
from adjoint.tensor import levels
from adjoint.tensor.function import Function
from adjoint.tensor.tensor import Tensor
from adjoint.transforms import arguments, forward, reverse


class _Call:
    """A call of a user's function with its tensors taken out, and what is needed to put them back."""

    def __init__(self, args: tuple[Any, ...], keywords: dict[str, Any]) -> None:
        leaves, self.structure = pytrees.flatten((args, keywords))
        self.leaves = [arguments.as_tensor(v) if arguments.np.ndarray is type(v) else v for v in leaves]
        self.places = [i for i, v in enumerate(self.leaves) if isinstance(v, Tensor)]

    @property
    def tensors(self) -> list[Any]:
        return [self.leaves[i] for i in self.places]

    def rebuild(self, tensors: Any) -> tuple[tuple[Any, ...], dict[str, Any]]:
        leaves = list(self.leaves)
        for place, tensor in zip(self.places, tensors, strict=True):
            leaves[place] = tensor
        return pytrees.unflatten(self.structure, leaves)

    def spread(self, tree: Any, what: str) -> list[Any]:
        """One entry for each tensor, from a tuple with one entry for each argument (None: nothing)."""
        args, _ = pytrees.unflatten(self.structure, list(range(len(self.leaves))))
        given = tree if isinstance(tree, tuple) else (tree,)
        if len(given) != len(args):
            raise GradError(f"{what}: {len(given)} gradients for {len(args)} arguments")
        found: dict[int, Any] = {}
        for grads, numbers in zip(given, args, strict=True):
            places = pytrees.leaves(numbers)
            values = [None] * len(places) if grads is None else pytrees.leaves(grads)
            found |= dict(zip(places, values, strict=True))
        return [found.get(i) for i in self.places]


def _apply(call: _Call, body: type[_Rule]) -> Any:
    """Run a rule on the tensors of a call, and give its output back as the user's pytree."""
    kind = type(body.title, (body,), {"call": call})
    outputs = kind.apply(*call.tensors)
    outputs = outputs if isinstance(outputs, tuple) else (outputs,)
    count = kind.out_structure.num_leaves
    return pytrees.unflatten(kind.out_structure, list(outputs[:count]))


class _Rule(Function):
    """A `Function` of the tensors of one call."""

    title = "custom"
    call: _Call
    out_structure: Any = None

    @classmethod
    def outputs(cls, tree: Any) -> tuple[Any, ...]:
        leaves, cls.out_structure = pytrees.flatten(tree)
        return tuple(v if isinstance(v, Tensor) else arguments.as_tensor(v) for v in leaves)


class custom_vjp:  # noqa: N801 - reads as a decorator
    """Give a function its own reverse derivative; forward mode is derived from it.

    `defvjp(fwd, bwd)`: `fwd(*args)` returns the output and residuals, `bwd(residuals, cotangent)` a tuple with the
    gradient of each argument (None where there is none).

    >>> import adjoint as ad
    >>> @ad.custom_vjp
    ... def clipped(x):
    ...     return x**2
    >>> clipped.defvjp(lambda x: (x**2, x), lambda x, g: (g * (2 * x).clamp(-1, 1),))
    >>> ad.grad(clipped)(3.0)
    tensor(1.)
    """

    def __init__(self, function: Callable[..., Any]) -> None:
        self.function = function
        self.fwd: Callable[..., Any] | None = None
        self.bwd: Callable[..., Any] | None = None
        arguments.keeps_signature(function, self, "custom_vjp")

    def defvjp(self, fwd: Callable[..., Any], bwd: Callable[..., Any]) -> None:
        """Set the two halves of the derivative."""
        self.fwd, self.bwd = fwd, bwd

    def __call__(self, *args: Any, **keywords: Any) -> Any:
        fwd, bwd = self.fwd, self.bwd
        if fwd is None or bwd is None:
            raise GradError("custom_vjp: no derivative was given; call defvjp(fwd, bwd) first")

        class Rule(_Rule):
            title = getattr(self.function, "__name__", "custom_vjp")
            rest_structure: Any = None

            @classmethod
            def forward(cls, *tensors: Any) -> Any:
                positional, named = cls.call.rebuild(tensors)
                output, residuals = fwd(*positional, **named)
                outputs = cls.outputs(output)
                rest, cls.rest_structure = pytrees.flatten(residuals)
                return (*outputs, *[arguments.as_tensor(r) for r in rest])

            @classmethod
            def setup_context(cls, ctx: Any, inputs: tuple[Any, ...], output: Any) -> None:
                ctx.save_for_backward(*output[cls.out_structure.num_leaves :])

            @classmethod
            def backward(cls, ctx: Any, *grads: Any) -> Any:
                residuals = pytrees.unflatten(cls.rest_structure, list(ctx.saved_tensors))
                cotangent = pytrees.unflatten(cls.out_structure, list(grads[: cls.out_structure.num_leaves]))
                return tuple(cls.call.spread(bwd(residuals, cotangent), "custom_vjp: bwd returned"))

        return _apply(_Call(args, keywords), Rule)


class custom_jvp:  # noqa: N801 - reads as a decorator
    """Give a function its own forward derivative; reverse mode is derived from it by transposition.

    `defjvp(rule)`: `rule(primals, tangents)` returns the output and its tangent.

    >>> import adjoint as ad
    >>> @ad.custom_jvp
    ... def f(x):
    ...     return x.sin()
    >>> f.defjvp(lambda primals, tangents: (primals[0].sin(), primals[0].cos() * tangents[0]))
    >>> ad.grad(f)(0.0)
    tensor(1.)
    """

    def __init__(self, function: Callable[..., Any]) -> None:
        self.function = function
        self.rule: Callable[..., Any] | None = None
        arguments.keeps_signature(function, self, "custom_jvp")

    def defjvp(self, rule: Callable[..., Any]) -> None:
        """Set the rule."""
        self.rule = rule

    def __call__(self, *args: Any, **keywords: Any) -> Any:
        rule, function = self.rule, self.function
        if rule is None:
            raise GradError("custom_jvp: no derivative was given; call defjvp(rule) first")

        class Rule(_Rule):
            title = getattr(function, "__name__", "custom_jvp")

            @classmethod
            def forward(cls, *tensors: Any) -> Any:
                positional, named = cls.call.rebuild(tensors)
                return cls.outputs(function(*positional, **named))

            @classmethod
            def setup_context(cls, ctx: Any, inputs: tuple[Any, ...], output: Any) -> None:
                ctx.save_for_backward(*inputs)

            @classmethod
            def jvp(cls, ctx: Any, *tangents: Any) -> Any:
                primals, _ = cls.call.rebuild(ctx.saved_tensors)
                filled = [arguments.zero_tangent(p) if t is None else t for p, t in zip(ctx.saved_tensors, tangents, strict=True)]
                directions, _ = cls.call.rebuild(filled)
                _, tangent = rule(primals, directions)
                return tuple(pytrees.leaves(tangent))

        return _apply(_Call(args, keywords), Rule)


def custom_rule(
    function: Callable[..., Any] | None = None,
    *,
    vjp: Callable[..., Any] | None = None,
    jvp: Callable[..., Any] | None = None,
) -> Any:
    """Give a function one derivative, in whichever mode is easier; the other is derived from it.

    `vjp(primals, output, cotangent)` returns a tuple with the gradient of each argument;
    `jvp(primals, output, tangents)` returns the tangent of the output.

    >>> import adjoint as ad
    >>> cube = ad.custom_rule(lambda x: x**3, jvp=lambda primals, y, tangents: 3 * primals[0]**2 * tangents[0])
    >>> ad.grad(cube)(2.0), ad.jvp(cube, (ad.tensor(2.0),), (ad.tensor(1.0),))[1]
    (tensor(12.), tensor(12.))
    """
    if (vjp is None) == (jvp is None):
        raise ArgumentError("custom_rule: give one of vjp= and jvp=; the other is derived")
    if function is None:
        return lambda f: custom_rule(f, vjp=vjp, jvp=jvp)
    if jvp is not None:
        made = custom_jvp(function)

        def rule(primals: Any, tangents: Any) -> Any:
            output = function(*primals)
            return output, jvp(primals, output, tangents)

        made.defjvp(rule)
        return made
    pair = custom_vjp(function)
    assert vjp is not None

    def fwd(*args: Any, **keywords: Any) -> Any:
        output = function(*args, **keywords)
        return output, (args, output)

    pair.defvjp(fwd, lambda residuals, cotangent: vjp(residuals[0], residuals[1], cotangent))
    return pair


def checkpoint(f: Callable[..., Any]) -> Callable[..., Any]:
    """Return `f` without its intermediate values: they are computed again when a derivative needs them.

    Memory for time, in both modes; nests. Random operators repeat the numbers of the first run.

    >>> import adjoint as ad
    >>> ad.grad(ad.checkpoint(lambda x: x.sin().exp()))(0.0)
    tensor(1.)
    """

    def checkpointed(*args: Any, **keywords: Any) -> Any:
        state = get_rng_state()

        def again(positional: Any, named: Any) -> Any:
            with fork_rng():
                set_rng_state(state)
                return f(*positional, **named)

        class Rule(_Rule):
            title = f"checkpoint_{getattr(f, '__name__', 'f')}"

            @classmethod
            def forward(cls, *tensors: Any) -> Any:
                positional, named = cls.call.rebuild(tensors)
                return cls.outputs(f(*positional, **named))

            @classmethod
            def setup_context(cls, ctx: Any, inputs: tuple[Any, ...], output: Any) -> None:
                ctx.save_for_backward(*inputs)

            @classmethod
            def flat(cls, places: list[int], saved: tuple[Any, ...]) -> Callable[..., Any]:
                def run(*variables: Any) -> tuple[list[Any], None]:
                    tensors = list(saved)
                    for place, variable in zip(places, variables, strict=True):
                        tensors[place] = variable
                    return list(cls.outputs(again(*cls.call.rebuild(tensors)))), None

                return run

            @classmethod
            def backward(cls, ctx: Any, *grads: Any) -> Any:
                saved = ctx.saved_tensors
                places = [i for i, t in enumerate(saved) if t.is_differentiable_dtype()]
                _, pull = levels.pullback(cls.flat(places, saved), [saved[i] for i in places])
                found = pull(list(grads), retain=False)
                spread: list[Any] = [None] * len(saved)
                for place, grad in zip(places, found, strict=True):
                    spread[place] = grad
                return tuple(spread)

            @classmethod
            def jvp(cls, ctx: Any, *tangents: Any) -> Any:
                saved = ctx.saved_tensors
                places = [i for i, t in enumerate(saved) if t.is_differentiable_dtype()]
                primals = [saved[i] for i in places]
                directions = [tangents[i] for i in places]
                outputs, found, _ = forward.pushforward(cls.flat(places, saved), primals, directions)
                return tuple(reverse.filled(found, outputs))

        return _apply(_Call(args, keywords), Rule)

    return arguments.keeps_signature(f, checkpointed, "checkpoint")
