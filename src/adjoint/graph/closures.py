"""Functions as graphs of their own: eval_shape, make_graph, closure_convert, linear_transpose.

`stage_function` makes a graph of a function. Tensors from outside through which a derivative may
pass become further inputs of the graph.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from adjoint.calls.methods import as_tensor
from adjoint.core import pytrees
from adjoint.core.errors import GradError
from adjoint.core.pytrees import TreeDef
from adjoint.graph.control.staging import Flat, stage, zeros
from adjoint.graph.differentiate import differentiate
from adjoint.graph.interpret import run_flat
from adjoint.graph.ir import Graph, Type, Value
from adjoint.graph.trace import ShapeDtype, trace
from adjoint.tensor.modes import enable_grad
from adjoint.transforms import arguments
from adjoint.transforms.transformed import Transformed


def eval_shape(fun: Callable[..., Any], /, *args: Any, **keywords: Any) -> Any:
    """Return the shapes and dtypes of what `fun(*args)` returns, without computing it.

    Arguments are tensors, arrays, numbers or `ad.ShapeDtype(shape, dtype)`, in any containers.

    >>> import adjoint as ad
    >>> ad.eval_shape(lambda a, b: {"c": a @ b}, ad.ShapeDtype((2, 3)), ad.ones(3, 5))
    {'c': ShapeDtype((2, 5), ad.float32)}
    """
    graph = trace(fun, *args, **keywords)
    assert graph.signature.outputs is not None
    return pytrees.unflatten(graph.signature.outputs, [_shape(o) for o in graph.outputs])


def _shape(output: Any) -> ShapeDtype:
    found = output if isinstance(output, Value) else as_tensor(output)
    return ShapeDtype(found.shape, found.dtype)


def make_graph(fun: Callable[..., Any], *, return_shape: bool = False) -> Callable[..., Any]:
    """Return a function that gives the graph of `fun` for arguments like those it is called with.

    With `return_shape` it gives the shapes and dtypes of the results, too.

    >>> import adjoint as ad
    >>> print(ad.make_graph(lambda x: 2 * ad.sin(x))(ad.ones(3)).ssa())
    graph f(%x: f32[3]) {
      %sin: f32[3] = sin.default(%x)
      %mul: f32[3] = mul.Scalar(%sin, 2)
      return %mul
    }
    """

    def made(*args: Any, **keywords: Any) -> Any:
        graph = trace(fun, *args, **keywords)
        return (graph, eval_shape(graph, *args, **keywords)) if return_shape else graph

    return Transformed(make_graph, fun, made, return_shape=return_shape)


class OnLists:
    """A function of trees as one of lists of tensors; it knows its last result's structure."""

    def __init__(self, what: str, fun: Callable[..., Any], structure: TreeDef) -> None:
        self.what, self.fun, self.structure = what, fun, structure
        self.out_structure: Any = None

    def __call__(self, values: Flat) -> Flat:
        output = self.fun(*pytrees.unflatten(self.structure, values))
        leaves, self.out_structure = arguments.flatten_output(self.what, output)
        return leaves


def stage_function(function: Callable[[Flat], Flat], examples: Sequence[Any]) -> tuple[Graph, Flat]:
    """(graph of a function of tensors like the examples, tensors that it closes over).

    The tensors that it closes over are the graph's last inputs.
    """
    types = [Type(tuple(t.shape), t.dtype, t.dtype.is_differentiable) for t in examples]
    with enable_grad():  # a no_grad() inside the function is traced, too
        return stage(lambda *values: function(list(values)), types)


def closure_convert(
    fun: Callable[..., Any], *example_args: Any
) -> tuple[Callable[..., Any], list[Any]]:
    """Return `fun` as a function that takes what it closes over as further arguments, and those.

    Only tensors that are being differentiated, mapped or traced are taken out. `fun` is traced with
    arguments like the examples.

    >>> import adjoint as ad
    >>> def derivative(a):
    ...     converted, outside = ad.closure_convert(lambda x: a * x, 1.0)
    ...     return ad.grad(lambda c: converted(3.0, c))(*outside)
    >>> ad.jvp(derivative, (ad.tensor(2.0),), (ad.tensor(1.0),))
    (tensor(3.), tensor(0.))
    """
    tensors, structure = _examples(example_args)
    flat = OnLists("closure_convert", fun, structure)
    graph, outside = stage_function(flat, tensors)
    count = len(example_args)

    def converted(*args: Any) -> Any:
        leaves = arguments.matched("closure_convert", structure, args[:count], "arguments")
        results = run_flat(graph, [as_tensor(v) for v in (*leaves, *args[count:])])
        return pytrees.unflatten(flat.out_structure, results)

    return converted, outside


def _examples(args: tuple[Any, ...]) -> tuple[list[Any], TreeDef]:
    """The arguments as tensors, or as shapes that stand for tensors, and their structure."""
    leaves, structure = pytrees.flatten(args, lambda v: isinstance(v, ShapeDtype))
    return [v if isinstance(v, ShapeDtype) else as_tensor(v) for v in leaves], structure


def linear_transpose(fun: Callable[..., Any], *primals: Any) -> Callable[..., Any]:
    """Return the transpose of a linear function, from a cotangent to a tuple of its arguments'.

    `primals` are arguments or their shapes, `ad.ShapeDtype(shape, dtype)`; values are not used. Of
    a complex matrix it is the transpose, not conjugated.

    >>> import adjoint as ad
    >>> a = ad.tensor([[1.0, 2.0], [0.0, 3.0]])
    >>> ad.linear_transpose(lambda x: a @ x, ad.ShapeDtype(2))(ad.tensor([1.0, 0.0]))
    (tensor([1., 2.]),)
    """
    given, structure = _examples(primals)
    flat, count = OnLists("linear_transpose", fun, structure), len(given)
    graph, outside = stage_function(flat, given)
    pair = differentiate(graph, wrt=range(count), recompute="everything")
    if any(i < count for i in pair.captured_inputs) or pair.captured_outputs:
        raise GradError(
            "linear_transpose: the function is not linear: its derivative depends on its arguments"
        )
    captured = [outside[i - count] for i in pair.captured_inputs]

    def transposed(cotangent: Any) -> Any:
        leaves = arguments.matched("linear_transpose", flat.out_structure, cotangent, "cotangent")
        grads = [conj(as_tensor(leaves[i])) for i in pair.output_grads]
        found = dict(zip(pair.input_grads, run_flat(pair.df, [*grads, *captured]), strict=True))
        results = [conj(found[i]) if i in found else zeros(v) for i, v in enumerate(given)]
        return pytrees.unflatten(structure, results)

    return transposed


def conj(tensor: Any) -> Any:
    """The conjugate of a complex tensor; a real tensor unchanged."""
    return tensor.conj() if tensor.is_complex() else tensor
