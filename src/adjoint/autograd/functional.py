"""`ad.autograd.functional`: Jacobians, Hessians and products with them, with PyTorch's signatures.

`inputs` is a tensor or a tuple of tensors, and results have the shape of that. Without
`create_graph` the results have no history; with it they are differentiable in `inputs`.
`strict=True` raises where an output does not depend on an input; otherwise that gives zeros. The
functions are rows of doors/torch/autograd.txt; here are their words.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from adjoint.core.errors import ArgumentError, GradError, ShapeError
from adjoint.core.shapes import show
from adjoint.doors.torch import all_of
from adjoint.ops import operator as operators
from adjoint.tensor.modes import enable_grad, no_grad
from adjoint.tensor.tensor import Tensor
from adjoint.transforms import jacobians, reverse
from adjoint.transforms.dressing import dress_of, plain, plain_tree
from adjoint.transforms.forward import pushforward
from adjoint.transforms.vectorize import vmap

Tensors = Tensor | tuple[Tensor, ...]
_STRATEGIES = ("reverse-mode", "forward-mode")


class _Problem:
    """A function from a tuple of tensors to one; gives results back as the user has them."""

    def __init__(
        self, what: str, func: Callable[..., Any], inputs: Any, create_graph: bool
    ) -> None:
        self.what, self.func, self.create_graph = what, func, create_graph
        self.one_input = isinstance(inputs, Tensor)
        given = (inputs,) if self.one_input else tuple(inputs)
        _check_tensors(what, "input", given)
        self.dress, given = dress_of(given), tuple([plain(t) for t in given])
        self.inputs = [_variable(t) if create_graph else t.detach() for t in given]
        self.mode: Any = enable_grad() if create_graph else no_grad()
        self.one_output = True

    def flat(self, *values: Any) -> tuple[list[Any], None]:
        """The outputs as a list."""
        output = plain_tree(self.func(*self.dress.put_on(values)))
        self.one_output = isinstance(output, Tensor)
        outputs = [output] if self.one_output else list(output)
        _check_tensors(self.what, "output", outputs)
        return outputs, None

    def run(self) -> tuple[list[Any], Any]:
        """Outputs and pullback."""
        outputs, _, _, pull = reverse.run(
            self.what, lambda *v: tuple(self.flat(*v)[0]), self.inputs, has_aux=False
        )
        return outputs, pull

    def as_input(self, values: Any) -> Any:
        return values[0] if self.one_input else tuple(values)

    def as_output(self, values: Any) -> Any:
        return values[0] if self.one_output else tuple(values)

    def value(self, *values: Any) -> Any:
        """The one output of one element, for Hessians."""
        outputs, _ = self.flat(*values)
        if len(outputs) != 1 or not self.one_output or outputs[0].numel() != 1:
            raise GradError(f"{self.what}: the function must return one tensor with one element")
        return outputs[0]

    def scalar(self, *values: Any) -> Any:
        """The output without dimensions."""
        return self.value(*values).reshape(())

    def gradient(self, *values: Any) -> tuple[Any, ...]:
        return reverse.grad(self.scalar, argnums=tuple(range(len(values))))(*values)

    def check_result(self, strict: bool, values: Sequence[Any]) -> None:
        """Raise if a result that is to be differentiated does not depend on the inputs."""
        if not (strict and self.create_graph):
            return
        for number, value in enumerate(values):
            if isinstance(value, Tensor) and not value.requires_grad:
                raise GradError(
                    f"{self.what}: result {number} is independent of the inputs, so that it cannot "
                    "be differentiated as create_graph=True wants, and strict=True"
                )

    def check_strict(self, outputs: list[Any], pull: Any) -> None:
        """Raise unless every output depends on every input."""
        for number, output in enumerate(outputs):
            cotangents = [o.detach().ones_like() if o is output else None for o in outputs]
            for place, found in enumerate(pull(cotangents)):
                if found is None:
                    raise GradError(
                        f"{self.what}: output {number} does not depend on input {place}, and "
                        "strict=True"
                    )

    def check_hessian(self, *, each: bool) -> None:
        """Raise unless each gradient, or some gradient, depends on every input."""
        inner = _Problem(self.what, self.gradient, tuple(self.inputs), create_graph=True)
        outputs, pull = inner.run()
        if each:
            inner.check_strict(outputs, pull)
        for place, found in enumerate(pull([o.detach().ones_like() for o in outputs])):
            if found is None:
                raise GradError(
                    f"{self.what}: no gradient depends on input {place}, and strict=True"
                )


def _check_tensors(what: str, kind: str, values: Sequence[Any]) -> None:
    for number, value in enumerate(values):
        if not isinstance(value, Tensor):
            raise ArgumentError(
                f"{what}: {kind} {number} must be a tensor, got {type(value).__name__}"
            )


def _variable(tensor: Tensor) -> Tensor:
    """A tensor that requires a gradient: results that depend on it then have a history."""
    if tensor.requires_grad or not tensor.is_differentiable_dtype():
        return tensor
    return tensor.detach().requires_grad_()


def _weights(what: str, name: str, v: Any, like: list[Any]) -> list[Any]:
    if v is None:
        if len(like) != 1 or like[0].numel() != 1:
            raise GradError(f"{what}: v can be left out only for a single {name} of one element")
        return [like[0].detach().ones_like()]
    given = [v] if isinstance(v, Tensor) else list(v)
    if len(given) != len(like):
        raise GradError(f"{what}: v has {len(given)} tensors for {len(like)} {name}s")
    for number, (weight, tensor) in enumerate(zip(given, like, strict=True)):
        if tuple(weight.shape) != tuple(tensor.shape):
            raise ShapeError(
                f"{what}: v[{number}] has shape {show(weight.shape)}, {name} {number} has "
                f"{show(tensor.shape)}"
            )
    return given


def _vjp(problem: _Problem, v: Any, strict: bool) -> tuple[Any, Any]:
    with problem.mode:
        outputs, pull = problem.run()
        weights = _weights("vjp", "output", v, outputs)
        if strict:
            problem.check_strict(outputs, pull)
        found = reverse.filled(pull(weights), problem.inputs)
        problem.check_result(strict, found)
    return problem.as_output(outputs), problem.as_input(found)


def _jvp(problem: _Problem, v: Any, strict: bool) -> tuple[Any, Any]:
    with problem.mode:
        weights = _weights("jvp", "input", v, problem.inputs)
        if strict:
            problem.check_strict(*problem.run())
        outputs, found, _ = pushforward(problem.flat, problem.inputs, weights)
        tangents = reverse.filled(found, outputs)
        problem.check_result(strict, tangents)
    return problem.as_output(outputs), problem.as_output(tangents)


def _jacobian(problem: _Problem, strict: bool, vectorize: bool, strategy: str) -> Any:
    _check_strategy(problem.what, strategy, vectorize, strict)
    with problem.mode:
        if strategy == "forward-mode":
            blocks = _forward_blocks(problem)
        else:
            outputs, pull = problem.run()
            if strict:
                problem.check_strict(outputs, pull)
            blocks = _reverse_blocks(problem, outputs, pull, vectorize)
            problem.check_result(strict, [block for row in blocks for block in row])
    return problem.as_output([problem.as_input(row) for row in blocks])


def _check_strategy(what: str, strategy: str, vectorize: bool, strict: bool) -> None:
    if strategy not in _STRATEGIES:
        raise ArgumentError(
            f"{what}: the strategy must be one of {', '.join(_STRATEGIES)}, got {strategy!r}"
        )
    if strategy == "forward-mode" and not vectorize:
        raise ArgumentError(f"{what}: strategy='forward-mode' needs vectorize=True")
    if strict and vectorize:
        raise ArgumentError(f"{what}: strict=True and vectorize=True do not go together")


def _forward_blocks(problem: _Problem) -> Any:
    """∂output/∂input, all columns at once."""
    several = tuple(range(len(problem.inputs)))
    return jacobians.jacfwd(
        lambda *v: tuple(problem.flat(*v)[0]), argnums=several, holomorphic=True
    )(*problem.inputs)


def _reverse_blocks(
    problem: _Problem, outputs: list[Any], pull: Any, vectorize: bool
) -> list[list[Any]]:
    """∂output/∂input; a loop over the rows, or all of them at once."""
    blocks = []
    for number, output in enumerate(outputs):

        def row(cotangent: Any, number: int = number) -> list[Any]:
            given = [cotangent if i == number else None for i in range(len(outputs))]
            return reverse.filled(pull(given), problem.inputs)

        size = output.numel()
        basis = operators.packet("eye")(size, dtype=output.dtype).reshape((size, *output.shape))
        if vectorize:
            rows = vmap(row)(basis)
        else:
            each = [row(basis[i]) for i in range(size)]
            rows = [
                operators.packet("stack")([e[k] for e in each]) for k in range(len(problem.inputs))
            ]
        pairs = zip(rows, problem.inputs, strict=True)
        blocks.append([r.reshape((*output.shape, *t.shape)) for r, t in pairs])
    return blocks


def _hessian(problem: _Problem, strict: bool, vectorize: bool, strategy: str) -> Any:
    _check_strategy(problem.what, strategy, vectorize, strict)
    with problem.mode:
        if strict:
            problem.check_hessian(each=True)
        gradient = _Problem(
            "jacobian", problem.gradient, tuple(problem.inputs), problem.create_graph
        )
        blocks = _jacobian(gradient, False, vectorize, strategy)
        problem.check_result(strict, [block for row in blocks for block in row])
    return problem.as_input([problem.as_input(row) for row in blocks])


def _hvp(problem: _Problem, v: Any, strict: bool) -> tuple[Any, Any]:
    def product(weights: list[Any]) -> list[Any]:
        primals, found, _ = pushforward(
            lambda *x: (list(problem.gradient(*x)), None), problem.inputs, weights
        )
        return reverse.filled(found, primals)

    return _of_hessian(problem, v, strict, product)


def _vhp(problem: _Problem, v: Any, strict: bool) -> tuple[Any, Any]:
    def product(weights: list[Any]) -> list[Any]:
        given = tuple(problem.inputs)
        _, pull = _Problem("vhp", problem.gradient, given, problem.create_graph).run()
        return reverse.filled(pull(weights), problem.inputs)

    return _of_hessian(problem, v, strict, product)


def _of_hessian(
    problem: _Problem, v: Any, strict: bool, product: Callable[[list[Any]], list[Any]]
) -> tuple[Any, Any]:
    """The value of a scalar function, and a product of its Hessian with weights."""
    with problem.mode:
        weights = _weights(problem.what, "input", v, problem.inputs)
        if strict:
            problem.check_hessian(each=False)
        value = problem.value(*problem.inputs)
        found = product(weights)
        problem.check_result(strict, found)
    return value, problem.as_input(found)


_WORDS = {
    "Callable": Callable,
    "Problem": _Problem,
    "Tensors": Tensors,
    **{word.__name__[1:]: word for word in (_hessian, _hvp, _jacobian, _jvp, _vhp, _vjp)},
}

__getattr__, __dir__ = all_of(globals(), "autograd.txt", _WORDS)
