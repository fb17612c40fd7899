"""Derivatives of users' own: custom_vjp, custom_jvp, custom_rule, custom_gradient.

All are `Function`s underneath, so they work under every transform and in eager mode; the mode that
the user did not write is derived from the written one, by transposition.

Note [Closures]: a `Function` sees its arguments only. If the user's function also uses a tensor of
an open transform, or one that requires a gradient, its derivative would be lost silently. So the
function runs on detached arguments with the tape on: any history in its output comes from such a
tensor, and raises.
"""

from __future__ import annotations

import functools
import inspect
from collections.abc import Callable, Sequence
from contextvars import ContextVar
from typing import Any

import numpy as np

from adjoint.calls import dispatch
from adjoint.calls.function import Function
from adjoint.calls.methods import tensor_of
from adjoint.core import pytrees
from adjoint.core.errors import ArgumentError, GradError
from adjoint.core.pytrees import TreeDef
from adjoint.core.remembering import cached_property
from adjoint.homes import levels
from adjoint.homes.arrays import like, ndarray
from adjoint.homes.pullback import pullback
from adjoint.tensor.modes import enable_grad
from adjoint.tensor.tensor import Tensor
from adjoint.transforms import arguments, drawing
from adjoint.transforms.annotations import F, P, R
from adjoint.transforms.dressing import dress_of, plain, plain_tree
from adjoint.transforms.transformed import Wrapper, keeps_signature


class UsesOutsideTensor(GradError):
    """A function with a rule of its own uses a differentiated tensor that is not an argument."""


class UserCall:
    """A call of a user's function, with its tensors taken out and put back later."""

    def __init__(
        self,
        what: str,
        args: tuple[Any, ...],
        keywords: dict[str, Any],
        fixed: frozenset[int] = frozenset(),
    ) -> None:
        leaves, self.structure = pytrees.flatten((args, keywords))
        self.what = what  # "custom_vjp(f)"
        self.fixed = fixed  # positions of the arguments that no rule differentiates
        self.dress = dress_of(leaves)
        self.leaves = [tensor_of(v) if isinstance(v, np.ndarray) else plain(v) for v in leaves]
        self.places = [i for i, v in enumerate(self.leaves) if isinstance(v, Tensor)]
        self.out_structure: Any = None
        self.count = 0  # number of outputs
        self.rest: tuple[Any, list[Any]] = (
            None,
            [],
        )  # structure of the residuals, and the place of each
        self.generators: list[Any] = []  # from which fwd drew; their states are its last results

    @property
    def tensors(self) -> list[Any]:
        return [self.leaves[i] for i in self.places]

    def arguments(self, tensors: Sequence[Any]) -> tuple[tuple[Any, ...], tuple[Any, ...]]:
        """The user's arguments with other tensors in them: (fixed ones, the others)."""
        args, _ = self.rebuild(tensors)
        return (
            tuple([a for i, a in enumerate(args) if i in self.fixed]),
            tuple([a for i, a in enumerate(args) if i not in self.fixed]),
        )

    def refuse_fixed(self, needed: Sequence[bool]) -> None:
        """Raise if a tensor of a fixed argument is differentiated, by the flags `needed`."""
        if not self.fixed:
            return
        wanted = set(pytrees.leaves(self.arguments(range(len(self.places)))[0]))
        if any(need for i, need in enumerate(needed) if i in wanted):
            raise GradError(
                f"{self.what}: an argument of nondiff_argnums is being differentiated; detach() "
                "it, or take it out of nondiff_argnums"
            )

    def is_plain(self) -> bool:
        """Whether no transform and no tape is involved in the call."""
        tensors = self.tensors
        return dispatch.topmost(tensors) is None and all(t.edge is None for t in tensors)

    def forget_tensors(self) -> None:
        """Drop the tensors, and keep their places in the arguments."""
        for place in self.places:
            self.leaves[place] = None

    def rebuild(self, tensors: Sequence[Any]) -> tuple[tuple[Any, ...], dict[str, Any]]:
        """The user's arguments, with other tensors in them."""
        leaves = list(self.leaves)
        for place, tensor in zip(self.places, tensors, strict=True):
            leaves[place] = tensor
        return pytrees.unflatten(self.structure, self.dress.put_on(leaves))

    def run(self, function: Callable[..., Any], tensors: Sequence[Any]) -> tuple[Any, list[Any]]:
        """Run the function; return its result and the detached tensors. See Note [Closures]."""
        given = [t.detach() for t in tensors]
        positional, named = self.rebuild(given)
        with enable_grad(), levels.without_tapes():
            tree = function(*positional, **named)
        height = dispatch.height(given)
        tree = pytrees.map(
            lambda leaf: _carried(leaf, height), tree, is_leaf=lambda v: isinstance(v, Tensor)
        )
        recorded = any(t.edge is not None for t in tensors)
        for leaf in pytrees.leaves(tree):
            if isinstance(leaf, Tensor) and _comes_from_elsewhere(plain(leaf), height, recorded):
                raise UsesOutsideTensor(
                    f"{self.what}: the function uses a tensor that is being differentiated and is "
                    "not one of its arguments; pass it as an argument, or detach() it"
                )
        return tree, given

    def outputs(self, tree: Any) -> tuple[Any, ...]:
        """The leaves of an output as tensors; remembers its structure."""
        leaves, self.out_structure = pytrees.flatten(tree)
        self.count = len(leaves)
        return tuple(plain(v) if isinstance(v, Tensor) else arguments.as_tensor(v) for v in leaves)

    def result(self, outputs: Any) -> Any:
        """Outputs as the user's pytree."""
        return self.dress.result(self._tree(outputs))

    def given_back(self, tree: Any) -> Any:
        """The result of the user's function, in the caller's dress."""
        return tree if self.dress.make_result or not self.dress.makes else plain_tree(tree)

    def seen(self, outputs: Any) -> Any:
        """Outputs or their cotangents, dressed for the user's rule."""
        return self.dress.seen(self._tree(outputs))

    def _tree(self, outputs: Any) -> Any:
        flat = list(outputs) if isinstance(outputs, tuple) else [outputs]
        return pytrees.unflatten(self.out_structure, flat[: self.count])

    def spread(self, tree: Any) -> list[Any]:
        """One gradient for each tensor, from one for each argument (None: nothing)."""
        args = self.structure.children[0].children
        given = tuple(tree) if isinstance(tree, (tuple, list)) else (tree,)
        count = len(args) - len(self.fixed)
        if len(given) != count:
            raise GradError(
                f"{self.what}: the rule returned {len(given)} gradients for {count} arguments"
            )
        grads, found = iter(given), []
        for number, structure in enumerate(args):
            grad = None if number in self.fixed else next(grads)
            nothing = [None] * structure.num_leaves
            root = f"gradient of argument {number}"
            found += nothing if grad is None else self._leaves(structure, grad, root)
        return [found[i] for i in self.places]

    def _leaves(self, structure: TreeDef, tree: Any, root: str) -> list[Any]:
        """One tensor or None for each leaf of a structure, from the result of a rule."""
        found = pytrees.flatten_up_to(structure, tree, what=f"{self.what}: the rule", root=root)
        for value in found:
            if value is not None and not isinstance(value, Tensor) and pytrees.is_container(value):
                raise pytrees.StructureError(
                    f"{self.what}: the rule: {root} should have the structure {structure.show()}, "
                    f"got {pytrees.structure(tree).show()}"
                )
        return [plain(v) for v in found]

    def tangents(self, tree: Any) -> tuple[Any, ...]:
        """One tangent for each output, from the result of a rule."""
        return tuple(self._leaves(self.out_structure, tree, "tangent of the output"))


def _carried(leaf: Any, height: int) -> Any:
    if isinstance(leaf, ndarray):
        return like(leaf, levels.carried(leaf.undressed(), height))
    return levels.carried(leaf, height)


def _comes_from_elsewhere(tensor: Any, height: int, recorded: bool) -> bool:
    """Whether a tensor has a derivative in a tensor that is no argument.

    A trace records operators on constants, which have none.
    """
    if tensor.home is not None and tensor.home.height > height:
        return recorded or not tensor.home.creates
    while levels.on_level(tensor):
        tensor = tensor.value
    return getattr(tensor, "edge", None) is not None  # values of a trace have no edge


def _name(function: Any) -> str:
    return getattr(function, "__name__", "f")


class _WithVjp(Function):
    """A function with fwd and bwd; its outputs are the user's outputs, then the residuals."""

    @staticmethod
    def forward(call: Any, rule: Any, *tensors: Any) -> Any:
        with drawing.watched() as watch:
            returned, given = call.run(rule.run_forward, tensors)
        if not (isinstance(returned, tuple) and len(returned) == 2):
            raise ArgumentError(f"{call.what}: fwd must return (output, residuals)")
        outputs = call.outputs(returned[0])
        call.generators = [generator for generator, _ in watch.found]
        states = [state for _, state in watch.found]
        return (*outputs, *_place_residuals(call, returned[1], given, outputs), *states)

    @staticmethod
    def setup_context(ctx: Any, inputs: tuple[Any, ...], output: Any) -> None:
        ctx.call, ctx.rule = inputs[:2]
        ctx.call.refuse_fixed(ctx.needs_input_grad[2:])
        ctx.set_materialize_grads(False)
        ctx.save_for_backward(*inputs[2:], *output)

    @staticmethod
    def backward(ctx: Any, *grads: Any) -> Any:
        call = ctx.call
        saved = ctx.saved_tensors
        inputs, made = saved[: len(call.places)], saved[len(call.places) :]
        found: list[Any] = [None] * len(inputs)
        if any(g is not None for g in grads[: call.count]):
            cotangents = [
                o.detach().zeros_like() if g is None else g
                for g, o in zip(grads, made[: call.count], strict=False)
            ]
            cotangent = call.seen(tuple(cotangents))
            fixed, _ = call.arguments(inputs)
            found = call.spread(ctx.rule.bwd(*fixed, _residuals(call, inputs, made), cotangent))
        if any(g is not None for g in grads[call.count :]):
            states = made[len(made) - len(call.generators) :]
            more = _pull_residuals(call, ctx.rule.fwd, inputs, states, grads[call.count :])
            found = [
                m if f is None else f if m is None else f + m
                for f, m in zip(found, more, strict=True)
            ]
        return (None, None, *found)


def _place_residuals(
    call: UserCall, residuals: Any, given: list[Any], outputs: tuple[Any, ...]
) -> list[Any]:
    """Note which residuals are inputs, outputs or constants. Return the others."""
    leaves, structure = pytrees.flatten(residuals)
    known = {id(t): ("input", i) for i, t in enumerate(given)} | {
        id(t): ("made", i) for i, t in enumerate(outputs)
    }
    extra: list[Any] = []
    places: list[Any] = []
    for leaf in leaves:
        if not isinstance(leaf, Tensor):
            places.append(("constant", leaf, None))
            continue
        tensor, (make,) = plain(leaf), dress_of([leaf]).makes or (None,)
        if id(tensor) not in known:
            known[id(tensor)] = ("made", len(outputs) + len(extra))
            extra.append(tensor)
        places.append((*known[id(tensor)], make))
    call.rest = (structure, places)
    return extra


def _residuals(call: UserCall, inputs: Sequence[Any], made: Sequence[Any]) -> Any:
    structure, places = call.rest
    sources = {"input": inputs, "made": made}

    def residual(kind: str, place: Any, make: Any) -> Any:
        found = place if kind == "constant" else sources[kind][place]
        return found if make is None else make(found)

    return pytrees.unflatten(structure, [residual(*place) for place in places])


def _pull_residuals(
    call: UserCall,
    fwd: Callable[..., Any],
    inputs: Sequence[Any],
    states: Sequence[Any],
    grads: Sequence[Any],
) -> list[Any]:
    """The gradients through the residuals: the derivative of fwd itself, for second derivatives."""

    def residuals(tensors: list[Any]) -> list[Any]:
        positional, named = call.rebuild(tensors)
        output, rest = fwd(*positional, **named)
        known = {id(plain(t)) for t in (*tensors, *pytrees.leaves(output))}
        return list(
            {
                id(t): t
                for t in map(plain, pytrees.leaves(rest))
                if isinstance(t, Tensor) and id(t) not in known
            }.values()
        )

    def pulled(ended: Callable[[], None], inputs: Sequence[Any], grads: Sequence[Any]) -> Any:
        return pull_some(residuals, inputs, grads, ended)

    made = grads[: len(grads) - len(states)]
    return drawing.rerun(call.generators, states, pulled, list(inputs), list(made))


def pull_some(
    function: Callable[[list[Any]], list[Any]],
    inputs: Sequence[Any],
    grads: Sequence[Any],
    between: Callable[[], None] = lambda: None,
) -> list[Any]:
    """Pull back through a function of a list of tensors, to those that have a derivative; `between`
    is called when it has run.
    """
    places = [i for i, t in enumerate(inputs) if t.is_differentiable_dtype()]

    def run(*variables: Any) -> tuple[list[Any], None]:
        tensors = list(inputs)
        for place, variable in zip(places, variables, strict=True):
            tensors[place] = variable
        return function(tensors), None

    _, pull = pullback(run, [inputs[i] for i in places])
    between()
    found: list[Any] = [None] * len(inputs)
    for place, grad in zip(places, pull.last(list(grads)), strict=True):
        found[place] = grad
    return found


class _WithJvp(Function):
    """A function with a forward rule."""

    @staticmethod
    def forward(call: Any, rule: Any, *tensors: Any) -> Any:
        return call.outputs(call.run(rule.function, tensors)[0])

    @staticmethod
    def setup_context(ctx: Any, inputs: tuple[Any, ...], output: Any) -> None:
        ctx.call, ctx.rule = inputs[:2]
        ctx.call.refuse_fixed(ctx.needs_input_grad[2:])
        ctx.save_for_backward(*inputs[2:], *output)
        ctx.save_for_forward(*inputs[2:], *output)

    @staticmethod
    def jvp(ctx: Any, *tangents: Any) -> Any:
        call = ctx.call
        saved = ctx.saved_tensors
        inputs, made = saved[: len(call.places)], saved[len(call.places) :]
        filled = [
            arguments.zero_tangent(p) if t is None else t
            for p, t in zip(inputs, tangents[2:], strict=True)
        ]
        (fixed, primals), (_, directions) = call.arguments(inputs), call.arguments(filled)
        return call.tangents(ctx.rule.tangent(fixed, primals, call.seen(made), directions))


_IN_FORWARD: ContextVar[frozenset[Any]] = ContextVar("custom_vjp", default=frozenset())


class _Custom(Wrapper[P, R]):
    """A function with its own rule, which leaves out some arguments, by position or name."""

    def __init__(
        self,
        fun: Callable[P, R],
        nondiff_argnums: int | Sequence[int] = (),
        nondiff_argnames: str | Sequence[str] = (),
    ) -> None:
        self.function = fun
        given = (nondiff_argnums,) if isinstance(nondiff_argnums, int) else nondiff_argnums
        names = (nondiff_argnames,) if isinstance(nondiff_argnames, str) else nondiff_argnames
        self.nondiff_argnums = (*given, *map(self._number, names))  # (0,)
        keeps_signature(fun, self, type(self).__name__)

    def _number(self, name: str) -> int:
        known = list(self._signature.parameters) if self._signature else []
        if name not in known:
            raise ArgumentError(
                f"{self.what}: nondiff_argnames: the function has no argument {name!r}"
            )
        return known.index(name)

    def call(self, args: tuple[Any, ...], keywords: dict[str, Any]) -> UserCall:
        """A call with these arguments."""
        given = self._positional(args, keywords)
        fixed = frozenset([number % len(given) for number in self.nondiff_argnums if given])
        return UserCall(self.what, given, {}, fixed)

    def _positional(self, args: tuple[Any, ...], keywords: dict[str, Any]) -> tuple[Any, ...]:
        """Arguments by position, defaults included, as rules get them."""
        signature = self._signature
        if signature is None or (not keywords and len(args) == len(signature.parameters)):
            return args
        bound = signature.bind(*args, **keywords)
        bound.apply_defaults()
        if bound.kwargs:
            raise ArgumentError(
                f"{_name(self.function)}: {', '.join(bound.kwargs)} can only be given by name, "
                "which a rule does not take"
            )
        return bound.args

    @cached_property
    def _signature(self) -> inspect.Signature | None:
        try:
            return inspect.signature(self.function)
        except (TypeError, ValueError):  # builtins may have no signature
            return None

    @property
    def what(self) -> str:
        """The function's name in messages: custom_vjp(f)."""
        return f"{type(self).__name__}({_name(self.function)})"

    def remake(self) -> tuple[Callable[..., Any], tuple[Any, ...]]:
        """The function and its rules, for pickle."""
        held = {name: value for name, value in vars(self).items() if not name.startswith("_")}
        return _with_rules, (type(self), held)


def _with_rules(kind: type[_Custom[..., Any]], held: dict[str, Any]) -> _Custom[..., Any]:
    made = kind(held["function"])
    vars(made).update(held)
    return made


class custom_vjp(_Custom[P, R]):  # noqa: N801 - reads as a decorator
    """Give a function its own reverse derivative; forward mode is derived from it.

    `defvjp(fwd, bwd)`: `fwd(*args)` returns the output and residuals, `bwd(residuals, cotangent)` a
    tuple with the gradient of each argument (None where there is none). Where nothing is
    differentiated the function itself runs. Second derivatives differentiate `bwd`, and `fwd` as
    written. Where `fwd` calls the function itself, that is the
    function without its rule. Arguments `nondiff_argnums`, such as functions and options, come
    first in `bwd`, which returns no gradient for them.

    >>> import adjoint as ad
    >>> @ad.custom_vjp
    ... def clipped(x):
    ...     return x**2
    >>> clipped.defvjp(lambda x: (x**2, x), lambda x, g: (g * (2 * x).clamp(-1, 1),))
    >>> ad.grad(clipped)(3.0)
    tensor(1., dtype=ad.float64)
    """

    fwd: Callable[..., Any] | None = None
    bwd: Callable[..., Any] | None = None

    def defvjp(self, fwd: Callable[..., Any], bwd: Callable[..., Any]) -> None:
        """Set the two halves of the derivative."""
        self.fwd, self.bwd = fwd, bwd

    def run_forward(self, *args: Any) -> Any:
        """Run `fwd`, in which the function runs without its rule."""
        assert self.fwd is not None
        token = _IN_FORWARD.set(_IN_FORWARD.get() | {self})
        try:
            return self.fwd(*args)
        finally:
            _IN_FORWARD.reset(token)

    def __call__(self, *args: P.args, **keywords: P.kwargs) -> R:
        if self in _IN_FORWARD.get():
            return self.function(*args, **keywords)
        if self.fwd is None or self.bwd is None:
            raise GradError(f"{self.what}: no derivative was given; call defvjp(fwd, bwd) first")
        call = self.call(args, keywords)
        if call.is_plain():
            return call.result(call.outputs(call.run(self.function, call.tensors)[0]))
        return call.result(_WithVjp.apply(call, self, *call.tensors))


class custom_jvp(_Custom[P, R]):  # noqa: N801 - reads as a decorator
    """Give a function its own forward derivative; reverse mode is derived from it by transposition.

    `defjvp(rule)`: `rule(primals, tangents)` returns the output and its tangent. Arguments
    `nondiff_argnums`, such as functions and options, come first in the rule, apart from `primals`.

    >>> import adjoint as ad
    >>> @ad.custom_jvp
    ... def f(x):
    ...     return x.sin()
    >>> @f.defjvp
    ... def rule(primals, tangents):
    ...     (x,), (t,) = primals, tangents
    ...     return f(x), x.cos() * t
    >>> ad.grad(f)(0.0)
    tensor(1.)
    """

    rule: Callable[..., Any] | None = None
    rules: tuple[Callable[..., Any] | None, ...] | None = None  # one rule for each argument

    def defjvp(self, rule: F) -> F:
        """Set the rule, and return it, so that this decorates."""
        self.rule, self.rules = rule, None
        return rule

    def defjvps(self, *jvps: Callable[..., Any] | None) -> None:
        """Set a rule for each argument: `jvp(tangent, output, *primals)`; None where it is zero.

        >>> import adjoint as ad
        >>> product = ad.custom_jvp(lambda x, y: x * y)
        >>> product.defjvps(lambda t, output, x, y: t * y, lambda t, output, x, y: x * t)
        >>> ad.grad(product, argnums=(0, 1))(2.0, 3.0)
        (tensor(3., dtype=ad.float64), tensor(2., dtype=ad.float64))
        """
        if self.nondiff_argnums:
            raise ArgumentError(f"{self.what}: with nondiff_argnums use defjvp")
        self.rule, self.rules = None, jvps

    def tangent(self, fixed: tuple[Any, ...], primals: Any, output: Any, tangents: Any) -> Any:
        """The tangent of the output."""
        if self.rules is not None:
            return self._summed(self.rules, primals, output, tangents)
        assert self.rule is not None
        returned = self.rule(*fixed, primals, tangents)
        if not (isinstance(returned, tuple) and len(returned) == 2):
            raise ArgumentError(
                f"{self.what}: the rule must return (output, tangent of the output)"
            )
        return returned[1]

    def _summed(self, rules: Sequence[Any], primals: Any, output: Any, tangents: Any) -> Any:
        if len(rules) != len(primals):
            raise ArgumentError(
                f"{self.what}: defjvps got {len(rules)} rules for {len(primals)} arguments"
            )
        found = [r(t, output, *primals) for r, t in zip(rules, tangents, strict=True) if r]
        if not found:
            return pytrees.map(arguments.zero_tangent, output)
        return functools.reduce(lambda a, b: pytrees.map(lambda s, t: s + t, a, b), found)

    def __call__(self, *args: P.args, **keywords: P.kwargs) -> R:
        if self.rule is None and self.rules is None:
            raise GradError(f"{self.what}: no derivative was given; call defjvp(rule) first")
        call = self.call(args, keywords)
        return call.result(_WithJvp.apply(call, self, *call.tensors))


class _RuleOfOutput(custom_jvp[P, R]):
    """A function with the rule of `custom_rule`, which gets the output."""

    def tangent(self, fixed: tuple[Any, ...], primals: Any, output: Any, tangents: Any) -> Any:
        assert self.rule is not None
        return self.rule(primals, output, tangents)


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
    >>> cube = ad.custom_rule(lambda x: x**3, jvp=lambda p, y, t: 3 * p[0]**2 * t[0])
    >>> ad.grad(cube)(2.0), ad.jvp(cube, (ad.tensor(2.0),), (ad.tensor(1.0),))[1]
    (tensor(12., dtype=ad.float64), tensor(12.))
    """
    if (vjp is None) == (jvp is None):
        raise ArgumentError("custom_rule: give one of vjp= and jvp=; the other is derived")
    if function is None:
        return lambda f: custom_rule(f, vjp=vjp, jvp=jvp)
    if jvp is not None:
        made = _RuleOfOutput(function)
        made.defjvp(jvp)
        return made
    assert vjp is not None
    pair = custom_vjp(function)
    pair.defvjp(functools.partial(_kept, function), functools.partial(_pulled, vjp))
    return pair


def _kept(function: Callable[..., Any], *args: Any) -> Any:
    output = function(*args)
    return output, (args, output)


def _pulled(vjp: Callable[..., Any], residuals: Any, cotangent: Any) -> Any:
    return vjp(*residuals, cotangent)


def custom_gradient(fun: Callable[P, tuple[R, Any]]) -> custom_vjp[P, R]:
    """Give a function its own reverse derivative, which it returns beside its output.

    `fun(*args)` returns the output and a function from the output's cotangent to a tuple with the
    gradient of each argument. That function may use what `fun` has computed: `fun` is run again for
    a backward pass.

    >>> import adjoint as ad
    >>> @ad.custom_gradient
    ... def f(x):
    ...     return x**2, lambda g: (g * x,)
    >>> f(ad.tensor(3.0)), ad.grad(f)(3.0)
    (tensor(9.), tensor(3., dtype=ad.float64))
    """
    made = custom_vjp(functools.update_wrapper(functools.partial(_first, fun), fun))
    made.defvjp(functools.partial(_first_and_args, fun), functools.partial(_second, fun))
    keeps_signature(fun, made, "custom_gradient")
    return made


def _first(fun: Callable[..., Any], *args: Any, **keywords: Any) -> Any:
    return fun(*args, **keywords)[0]


def _first_and_args(fun: Callable[..., Any], *args: Any) -> Any:
    with drawing.watched() as watch:
        output = fun(*args)[0]
    return output, (args, watch.found)


def _second(fun: Callable[..., Any], residuals: Any, cotangent: Any) -> Any:
    args, drawn = residuals

    def pulled(ended: Callable[[], None], args: Any, cotangent: Any) -> Any:
        _, pull = fun(*args)
        ended()
        return pull(cotangent)

    generators, states = [g for g, _ in drawn], [s for _, s in drawn]
    return drawing.rerun(generators, states, pulled, args, cotangent)
