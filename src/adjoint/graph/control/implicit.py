"""Derivatives of solutions from the equations that they solve: custom_linear_solve, custom_root.

A solver runs once, for the value; no derivative goes through its steps. The solution x of F(x, c) =
0 gets the derivative of the equation, J ẋ = -∂F/∂c ċ with J = ∂F/∂x, with respect to all tensors c
that the equation closes over. Each mode solves one more linear equation, with J or its transpose.
That solution gets its derivative in the same way, so all orders follow.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from itertools import chain
from typing import Any

from adjoint.calls.function import Function
from adjoint.core import pytrees
from adjoint.core.errors import GradError, ShapeError
from adjoint.core.pytrees import TreeDef
from adjoint.core.records import record
from adjoint.core.shapes import show
from adjoint.core.state import current
from adjoint.graph.closures import conj, stage_function
from adjoint.graph.control.arguments import arguments_of, tensors_like
from adjoint.graph.control.staging import Flat, cut, pulled_back, pushed_forward, zeros
from adjoint.graph.interpret import run_flat
from adjoint.graph.trace import TraceError
from adjoint.tensor.modes import no_grad
from adjoint.transforms.dressing import Dress, plain_tree
from adjoint.transforms.reverse import split_aux, stop_gradient

FlatMap = Callable[[Flat, Flat], Flat]  # (tensors that A closes over, x) -> A x


@record
class Solver:
    """A user's solver of A x = b that can run on any level."""

    run: Callable[[Flat, Flat, Flat], Flat]  # (tensors that A closes over, b, `outside`) -> x
    outside: Sequence[Any] = ()  # tensors of active transforms that the solver uses


@record
class Linear:
    """A linear equation A x = b: how to apply A, and how to solve with A and its transpose."""

    what: str  # for messages: "custom_linear_solve"
    apply: FlatMap
    apply_transposed: FlatMap
    solver: Solver
    transposed: Solver | None
    symmetric: bool = False

    def more(self) -> Flat:
        """The tensors from outside that both solvers use."""
        return [t for s in (self.solver, self.transposed) if s is not None for t in s.outside]

    def other(self, more: Flat) -> tuple[Linear, Flat]:
        """The transposed equation, and the tensors that its solvers use."""
        if self.symmetric:
            return self, more
        if self.transposed is None:
            raise GradError(f"{self.what}: reverse mode needs transpose_solve, or symmetric=True")
        first, second = cut(more, len(self.solver.outside), len(self.transposed.outside))
        transposed = replace(
            self,
            apply=self.apply_transposed,
            apply_transposed=self.apply,
            solver=self.transposed,
            transposed=self.solver,
        )
        return transposed, [*second, *first]

    def solve(self, outside: Flat, b: Flat, more: Flat) -> Flat:
        """Solve for x, with derivatives with respect to b and the tensors that A closes over."""
        with no_grad():
            fixed, right = stop_gradient((outside, b))
            x = self.solver.run(fixed, right, more[: len(self.solver.outside)])
        return self.solved(x, outside, b, more)

    def solved(self, x: Flat, outside: Flat, b: Flat, more: Flat) -> Flat:
        """A solution x found before, with its derivative."""
        count = len(outside)

        def residual(c: Flat, x: Flat) -> Flat:
            product = self.apply(c[:count], x)
            return [p - r for p, r in zip(product, c[count:], strict=True)]

        equation = Equation(residual, self, len(b), lambda c, x: c[:count])
        return equation.solution(x, [*outside, *b], more)


def _transpose(apply: FlatMap) -> FlatMap:
    def transposed(outside: Flat, x: Flat) -> Flat:
        forwards = lambda values: apply(outside, values)
        found = pulled_back(forwards, x, list(range(len(x))), [conj(v) for v in x])
        return [conj(v) for v in found]

    return transposed


@record
class Equation:
    """F(x, c) = 0, with the linear equation of its derivative with respect to x."""

    residual: Callable[[Flat, Flat], Flat]  # F, as a function of (c, x)
    linear: Linear
    size: int  # number of tensors in x
    outside: Callable[[Flat, Flat], Flat]  # (c, x) -> the tensors that the linear map closes over

    def solution(self, x: Flat, c: Flat, more: Flat) -> Flat:
        """A solution x found before, with its derivative."""
        found = Implicit.apply(self, len(c), *stop_gradient([*x]), *c, *more)
        return list(found)


class Implicit(Function):
    """A solution as a function of the tensors that its equation closes over."""

    @staticmethod
    def forward(equation: Any, count: int, *tensors: Any) -> Any:
        return tuple([x.detach() for x in tensors[: equation.size]])  # one that has a derivative

    @staticmethod
    def setup_context(ctx: Any, inputs: tuple[Any, ...], output: Any) -> None:
        ctx.equation, ctx.count = inputs[:2]
        ctx.set_materialize_grads(False)
        kept = (*output, *inputs[2 + ctx.equation.size :])
        ctx.save_for_backward(*kept)
        ctx.save_for_forward(*kept)

    @staticmethod
    def backward(ctx: Any, *grads: Any) -> Any:
        equation, size = ctx.equation, ctx.equation.size
        x, c, more = cut(list(ctx.saved_tensors), size, ctx.count, len(ctx.saved_tensors))
        found: list[Any] = [None] * len(c)
        places = [
            i
            for i, t in enumerate(c)
            if t.is_differentiable_dtype() and ctx.needs_input_grad[2 + size + i]
        ]
        if places and any(g is not None for g in grads):
            bars = [zeros(v) if g is None else conj(g) for v, g in zip(x, grads, strict=True)]
            linear, transposed = equation.linear.other(more)
            solved = linear.solve(equation.outside(c, x), bars, transposed)
            pulled = pulled_back(
                lambda values: equation.residual(values, x), c, places, [-conj(s) for s in solved]
            )
            for place, grad in zip(places, pulled, strict=True):
                found[place] = grad
        return (None, None, *[None] * size, *found, *[None] * len(more))

    @staticmethod
    def jvp(ctx: Any, *tangents: Any) -> Any:
        equation, size = ctx.equation, ctx.equation.size
        x, c, more = cut(list(ctx.saved_tensors), size, ctx.count, len(ctx.saved_tensors))
        given = tangents[2 + size : 2 + size + len(c)]
        places = [i for i, t in enumerate(given) if t is not None]
        if not places:
            return (None,) * size
        pushed = pushed_forward(
            lambda values: equation.residual(values, x),
            c,
            places,
            [given[i] for i in places],
            list(range(size)),
        )
        right = [-t for t in pushed[size:]]
        return tuple(equation.linear.solve(equation.outside(c, x), right, more))


# --- from users' functions ------------------------------------------------------------------------


@record
class Unknown:
    """The unknown of an equation: a tree of tensors, in the form that the user's functions take."""

    what: str  # for messages: "custom_root"
    structure: TreeDef
    dress: Dress  # how its tensors were given

    def tree(self, values: Flat) -> Any:
        """Tensors as the tree that the user's functions take."""
        return pytrees.unflatten(self.structure, self.dress.put_on(values))

    def flat(self, tree: Any) -> Flat:
        """The tensors of a tree that a user's function took or returned."""
        return tensors_like(self.what, self.structure, tree, "x", "what a function returns")

    def staged(self, fun: Callable[..., Any], x: Flat) -> tuple[FlatMap, Flat]:
        """(flat function of the tensors that `fun` closes over and of x, these tensors)."""
        graph, outside = stage_function(lambda v: self.flat(fun(self.tree(v))), x)
        for value, output in zip(x, graph.outputs, strict=True):
            if tuple(value.shape) != tuple(output.shape):
                raise ShapeError(
                    f"{self.what}: the function takes a tensor of shape {show(value.shape)} to one "
                    f"of shape {show(output.shape)}; there must be one equation for each unknown"
                )
        return (lambda outer, values: run_flat(graph, [*values, *outer])), outside

    def result(self, x: Flat, aux: Any, has_aux: bool) -> Any:
        """The solution for the user, with memory of its own."""
        solution = pytrees.unflatten(self.structure, [value.clone() for value in x])
        return self.dress.result((solution, plain_tree(aux)) if has_aux else solution)

    def on_trees(self, function: FlatMap, outside: Flat) -> Callable[[Any], Any]:
        """A flat function as a function of trees."""
        return lambda tree: self.tree(function(outside, self.flat(tree)))

    def found(self, solve: Callable[..., Any], function: Any, start: Flat, has_aux: bool) -> Any:
        """The solution that a user's solver finds, and its auxiliary output."""
        returned = solve(function, self.tree(start))
        x, aux = split_aux(self.what, returned, has_aux)
        return stop_gradient((self.flat(x), aux))

    def solver(
        self, solve: Callable[..., Any], apply: FlatMap, outside: Flat, b: Flat, has_aux: bool
    ) -> Solver:
        """A user's `solve(matvec, b)`, staged as a graph inside transforms."""
        count = len(outside)

        def run(outer: Flat, right: Flat, _: Flat) -> Flat:
            return self.found(solve, self.on_trees(apply, outer), right, has_aux)[0]

        if not current().levels:
            return Solver(run)
        try:
            graph, captured = stage_function(
                lambda v: run(v[:count], v[count:], []), [*outside, *b]
            )
        except TraceError:  # a Python loop that looks at values: it can use its arguments only
            return Solver(run)
        return Solver(lambda *groups: run_flat(graph, [*chain(*groups)]), captured)


def custom_linear_solve(
    matvec: Callable[..., Any],
    b: Any,
    solve: Callable[..., Any],
    transpose_solve: Callable[..., Any] | None = None,
    symmetric: bool = False,
    has_aux: bool = False,
) -> Any:
    """Return x with `matvec(x) == b`, as `solve(matvec, b)` finds it, with its derivative.

    The derivative is that of the equation, in `b` and in what `matvec` closes over: forward mode
    calls `solve` once more, reverse mode `transpose_solve(vecmat, b)` with the transposed function,
    or `solve` if the map is `symmetric`. No derivative goes through the solvers themselves. With
    `has_aux` a solver returns a pair of x and anything, which comes second.

    >>> import adjoint as ad
    >>> def solution(a, b):
    ...     exact = lambda f, r: ad.linalg.solve(ad.jacobian(f)(r), r)
    ...     return ad.custom_linear_solve(lambda x: a @ x, b, exact, exact)
    >>> a, b = ad.tensor([[2.0, 1.0], [0.0, 4.0]]), ad.tensor([4.0, 4.0])
    >>> solution(a, b), ad.grad(lambda b: solution(a, b).sum())(b)
    (tensor([1.5000, 1.0000]), tensor([0.5000, 0.1250]))
    """
    right, structure, dress = arguments_of("custom_linear_solve", b, "b")
    unknown = Unknown("custom_linear_solve", structure, dress)
    apply, outside = unknown.staged(matvec, right)
    with no_grad():
        fixed = unknown.on_trees(apply, stop_gradient(outside))
        x, aux = unknown.found(solve, fixed, stop_gradient(right), has_aux)
    backwards = _transpose(apply)
    solver = unknown.solver(solve, apply, outside, right, has_aux)
    transposed = (
        None
        if transpose_solve is None
        else unknown.solver(transpose_solve, backwards, outside, right, has_aux)
    )
    linear = Linear("custom_linear_solve", apply, backwards, solver, transposed, symmetric)
    return unknown.result(linear.solved(x, outside, right, linear.more()), aux, has_aux)


def custom_root(
    f: Callable[..., Any],
    initial_guess: Any,
    solve: Callable[..., Any],
    tangent_solve: Callable[..., Any],
    has_aux: bool = False,
) -> Any:
    """Return x with `f(x) == 0`, as `solve(f, initial_guess)` finds it, with its derivative.

    The derivative is that of the equation, in what `f` closes over. `tangent_solve(g, y)` returns x
    with `g(x) == y`, where g is the derivative of `f` at the solution, a linear function, or its
    transpose. No derivative goes through `solve`. With `has_aux` it returns a pair of x and
    anything, which comes second.

    >>> import adjoint as ad
    >>> def square_root(a):
    ...     def newton(f, x):
    ...         far = lambda x: f(x).abs() > 1e-6
    ...         return ad.while_loop(far, lambda x: x - f(x) / ad.grad(f)(x), x)
    ...     return ad.custom_root(lambda x: x**2 - a, 1.0, newton, lambda g, y: y / g(1.0))
    >>> square_root(ad.tensor(9.0)), ad.grad(square_root)(9.0), ad.grad(ad.grad(square_root))(9.0)
    (tensor(3.), tensor(0.1667), tensor(-0.0093))
    """
    guess, structure, dress = arguments_of("custom_root", initial_guess, "initial_guess")
    unknown, size = Unknown("custom_root", structure, dress), len(guess)
    function, outside = unknown.staged(f, guess)
    with no_grad():
        fixed = unknown.on_trees(function, stop_gradient(outside))
        x, aux = unknown.found(solve, fixed, stop_gradient(guess), has_aux)
    every = list(range(size))

    def apply(outer: Flat, v: Flat) -> Flat:
        """∂f/∂x v, where `outer` is x and the tensors that f closes over."""
        run = lambda values: function(outer[size:], values)
        return pushed_forward(run, outer[:size], every, v, every)[size:]

    backwards, around = _transpose(apply), [*x, *outside]
    solvers = [unknown.solver(tangent_solve, a, around, x, False) for a in (apply, backwards)]
    linear = Linear("custom_root", apply, backwards, solvers[0], solvers[1])
    equation = Equation(function, linear, size, lambda c, x: [*x, *c])
    return unknown.result(equation.solution(x, outside, linear.more()), aux, has_aux)
