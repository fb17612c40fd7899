"""grad, value_and_grad, vjp: reverse mode of functions."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from adjoint.core import pytrees
from adjoint.core.errors import ArgumentError, GradError, ShapeError
from adjoint.core.pytrees import LEAF, TreeDef
from adjoint.core.shapes import show
from adjoint.homes.pullback import Pullback, pullback
from adjoint.ops import operator as operators
from adjoint.tensor.tensor import Tensor, make
from adjoint.transforms import arguments
from adjoint.transforms.annotations import T
from adjoint.transforms.arguments import Argnums
from adjoint.transforms.dressing import PLAIN, plain
from adjoint.transforms.transformed import Transformed


def zeros_like(tensor: Any) -> Any:
    """Zeros as the gradient in an argument that the function ignores."""
    return operators.packet("zeros_like")(tensor.detach())


def split_aux(what: str, output: Any, has_aux: bool) -> tuple[Any, Any]:
    """(output, aux) of a function; aux is None without `has_aux`."""
    if not has_aux:
        return output, None
    if not (isinstance(output, tuple) and len(output) == 2):
        raise ArgumentError(f"{what}: with has_aux=True the function must return (output, aux)")
    return output


def run(
    what: str, function: Callable[..., Any], inputs: list[Tensor], has_aux: bool
) -> tuple[list[Any], Any, Any, Pullback]:
    """Run a function of flat inputs; return flat outputs, their structure, aux, and the
    pullback.
    """
    structure: Any = None

    def flat(*variables: Any) -> tuple[list[Any], Any]:
        nonlocal structure
        output, aux = function(*variables), None
        if has_aux:
            output, aux = split_aux(what, output, has_aux)
        leaves, structure = arguments.flatten_output(what, output)
        return leaves, aux

    (outputs, aux), pull = pullback(flat, inputs)
    if not has_aux:
        return outputs, structure, None, pull
    return outputs, structure, pytrees.map(lambda v: pull.outside(plain(v)), aux), pull


def filled(grads: list[Any], inputs: list[Tensor]) -> list[Any]:
    """The gradients, with zeros in place of absent ones."""
    for place, grad in enumerate(grads):
        if grad is None:
            grads[place] = zeros_like(inputs[place])
    return grads


def value_and_grad(
    f: Callable[..., Any],
    argnums: Argnums = 0,
    has_aux: bool = False,
    holomorphic: bool = False,
    allow_int: bool = False,
) -> Callable[..., Any]:
    """Return a function that computes `f` and its gradient in the arguments `argnums`.

    `f` must return a real scalar (with `has_aux`, a pair of it and anything). An argument may be a
    pytree; its gradient has the same structure. Arguments are chosen by position or by name, and
    may be given either way. The gradient of a real function of a complex z is ∂f/∂Re z +
    i ∂f/∂Im z, PyTorch's convention; with `holomorphic=True` a complex f is allowed and the result
    is its complex derivative f′(z). With `allow_int` the argument may hold tensors of whole
    numbers, whose gradient is zeros of their own dtype.

    An argument that `f` ignores has the gradient zero; one that reaches an operator without a
    derivative there raises. A tensor that `f` keeps for later (in a list, say) has no derivative
    afterwards, and asking for it raises: return such values with `has_aux`.

    >>> import adjoint as ad
    >>> ad.value_and_grad(lambda x: (x**2).sum())(ad.tensor([1.0, 2.0]))
    (tensor(5.), tensor([2., 4.]))
    >>> loss = lambda x, w, b: (w * x + b) ** 2
    >>> ad.value_and_grad(loss, argnums=("w", "b"))(3.0, w=2.0, b=1.0)
    (tensor(49., dtype=ad.float64), (tensor(42., dtype=ad.float64), tensor(14., dtype=ad.float64)))
    """
    options = {"has_aux": has_aux, "holomorphic": holomorphic, "allow_int": allow_int}
    compute = _value_and_grad("value_and_grad", f, argnums, **options)
    return Transformed(value_and_grad, f, compute, argnums=argnums, **options)


def _value_and_grad(
    what: str,
    f: Callable[..., Any],
    argnums: Argnums,
    has_aux: bool,
    holomorphic: bool,
    allow_int: bool,
) -> Callable[..., Any]:
    def compute(*args: Any, **keywords: Any) -> Any:
        given, structure, flat, dress = arguments.flat_function(
            what, f, argnums, args, keywords, allow_int
        )
        inputs, flat = _differentiable(given, flat) if allow_int else (given, flat)
        if holomorphic and not all(t.is_complex() for t in inputs):
            raise GradError(f"{what}(f): holomorphic=True needs complex arguments")
        outputs, returned, aux, pull = run(what, flat, inputs, has_aux)
        _check_scalar(what, outputs, returned, holomorphic, one_element=dress is not PLAIN)
        grads = filled(pull.last([_one(outputs[0])]), inputs)
        if holomorphic:
            grads = [g.conj() for g in grads]
        if allow_int:
            rest = iter(grads)
            grads = [next(rest) if t.is_differentiable_dtype() else zeros_like(t) for t in given]
        value = (outputs[0], aux) if has_aux else outputs[0]
        if dress is not PLAIN:
            grads, value = dress.given_back(grads, outputs), dress.result(value)
        return value, grads[0] if structure is LEAF else pytrees.unflatten(structure, grads)

    return compute


def _differentiable(
    given: list[Any], flat: Callable[..., Any]
) -> tuple[list[Any], Callable[..., Any]]:
    """The tensors with a differentiable dtype, and a function that fills in the others."""

    def some(*variables: Any) -> Any:
        rest = iter(variables)
        return flat(*[next(rest) if t.is_differentiable_dtype() else t for t in given])

    return [t for t in given if t.is_differentiable_dtype()], some


def _one(output: Any) -> Any:
    bottom = output.value
    while isinstance(bottom, Tensor):
        bottom = bottom.value
    if isinstance(bottom, np.ndarray):  # one for all samples, without a derivative
        one = np.empty(output.shape, bottom.dtype)
        one.fill(1)
        return make(one)
    return operators.packet("ones_like")(output.detach())


def _check_scalar(
    what: str, outputs: list[Any], structure: TreeDef, holomorphic: bool, *, one_element: bool
) -> None:
    """Raise unless the output is one number; with `one_element` it may have dimensions of size
    1.
    """
    if structure.kind is type(None):
        raise GradError(f"{what}(f): f returned None; a `return` may be missing")
    if len(outputs) != 1:
        raise GradError(
            f"{what}(f): f returned {len(outputs)} tensors, and {what} needs one scalar; use "
            "vjp(f) or has_aux=True."
        )
    output = outputs[0]
    if output.ndim and not (one_element and output.numel() == 1):
        raise GradError(
            f"{what}(f): f returned shape {tuple(output.shape)}, and {what} needs a scalar. Use "
            "jacobian(f), or vjp(f) with a cotangent."
        )
    dtype = output.dtype
    if dtype.is_complex and not holomorphic:
        raise GradError(
            f"{what}(f): f returned a complex number; take a real function of it, or say "
            "holomorphic=True"
        )
    if not (dtype.is_floating_point or dtype.is_complex):
        raise GradError(f"{what}(f): f returned {dtype.name}, which has no derivative")


def grad(
    f: Callable[..., Any],
    argnums: Argnums = 0,
    has_aux: bool = False,
    holomorphic: bool = False,
    allow_int: bool = False,
) -> Callable[..., Any]:
    """Return the gradient function of `f` in the arguments `argnums`. See `value_and_grad`.

    >>> import adjoint as ad
    >>> ad.grad(ad.sin)(0.0), ad.grad(ad.grad(lambda x: x**3))(2.0)
    (tensor(1.), tensor(12., dtype=ad.float64))
    """
    options = {"has_aux": has_aux, "holomorphic": holomorphic, "allow_int": allow_int}
    both = _value_and_grad("grad", f, argnums, **options)

    def compute(*args: Any, **keywords: Any) -> Any:
        value, gradient = both(*args, **keywords)
        return (gradient, value[1]) if has_aux else gradient

    return Transformed(grad, f, compute, argnums=argnums, **options)


def vjp(f: Callable[..., Any], *primals: Any, has_aux: bool = False) -> Any:
    """Return `f(*primals)`, and a function from its cotangent to those of the arguments.

    >>> import adjoint as ad
    >>> y, pull = ad.vjp(ad.sin, ad.tensor(0.0))
    >>> pull(ad.tensor(2.0))
    (tensor(2.),)
    """
    inputs, structure, dress = arguments.flatten("vjp", primals, "primals")
    outputs, out_structure, aux, pull = run(
        "vjp",
        lambda *v: dress.call(f, pytrees.unflatten(structure, dress.put_on(v))),
        inputs,
        has_aux,
    )

    def pullback(*cotangents: Any) -> Any:
        tree = cotangents[0] if len(cotangents) == 1 else cotangents
        given = arguments.matched("vjp: the cotangent", out_structure, tree, "cotangent")
        checked = [_cotangent(c, o) for c, o in zip(given, outputs, strict=True)]
        grads = filled(pull(checked), inputs)
        return pytrees.unflatten(structure, dress.given_back(grads, outputs))

    output = dress.result(pytrees.unflatten(out_structure, outputs))
    return (output, pullback, dress.result(aux)) if has_aux else (output, pullback)


def _cotangent(value: Any, output: Any) -> Any:
    tensor = arguments.tensor_under(value)
    if tuple(tensor.shape) != tuple(output.shape):
        raise ShapeError(
            f"vjp: the cotangent has shape {show(tensor.shape)}, the output {show(output.shape)}"
        )
    return tensor if tensor.dtype is output.dtype else tensor.to(output.dtype)


def stop_gradient(tree: T) -> T:
    """Return the same values, which no derivative passes.

    >>> import adjoint as ad
    >>> ad.grad(lambda x: x * ad.stop_gradient(x))(3.0)
    tensor(3., dtype=ad.float64)
    """
    return pytrees.map(lambda v: v.detach() if isinstance(v, Tensor) else v, tree)
