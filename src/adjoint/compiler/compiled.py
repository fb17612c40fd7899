"""`ad.compile`: a function as native code, one program for each signature of its arguments."""

from __future__ import annotations

import time
import warnings
from collections.abc import Callable
from typing import Any

import numpy as np

from adjoint.compiler.c import build
from adjoint.compiler.program import Program, Stages
from adjoint.core import pytrees
from adjoint.core.errors import GradError
from adjoint.graph import interpret
from adjoint.graph.differentiate import Gradient, differentiate
from adjoint.graph.ir import Constant, Graph
from adjoint.graph.trace import ShapeDtype, trace
from adjoint.tensor.function import Function
from adjoint.tensor.methods import as_tensor
from adjoint.tensor.modes import modes
from adjoint.tensor.tensor import Tensor, make
from adjoint.transforms.arguments import keeps_signature


class Compiled:
    """A function that runs as native code; made by `ad.compile`."""

    def __init__(self, function: Callable[..., Any], verbose: bool) -> None:
        self.function = function
        self.verbose = verbose
        self.programs: dict[Any, Any] = {}  # by structure, shapes, dtypes and Python values
        self.plain: dict[Any, Any] = {}  # the same programs, found quicker for tensors alone
        self.pairs: dict[Any, Any] = {}
        keeps_signature(function, self, "compile")

    def __call__(self, *args: Any, **keywords: Any) -> Any:
        if not keywords:
            key = []
            for argument in args:
                if type(argument) is not Tensor or argument.edge is not None:
                    break
                key += (argument.value.shape, argument.value.dtype)
            else:
                found = self.plain.get(tuple(key))
                if found is not None:
                    outputs = found[0].run([_contiguous(t) for t in args])
                    return pytrees.unflatten(
                        found[1], [make(o) if type(o) is np.ndarray else o for o in outputs]
                    )
        return self._general(args, keywords)

    def _general(self, args: tuple[Any, ...], keywords: dict[str, Any]) -> Any:
        leaves, structure = pytrees.flatten((args, keywords))
        tensors = [
            as_tensor(v) if isinstance(v, (np.ndarray, np.generic, float, complex)) else v
            for v in leaves
        ]
        given = [t for t in tensors if isinstance(t, Tensor)]
        if build.compiler() is None or any(t.interpreter is not None for t in given):
            if build.compiler() is None:
                _warn_once()
            return self.function(*args, **keywords)
        key = (structure, *[(t.shape, t.dtype) if isinstance(t, Tensor) else t for t in tensors])
        if modes.recording and any(t.edge is not None for t in given):
            return self._differentiable(key, tensors, structure)
        found = self.programs.get(key) or self._compile(key, tensors, structure)
        closure = _closure_that_wants_a_gradient(found[0].stages.graph)
        if modes.recording:
            _refuse(closure)
        if not keywords and closure is None and all(type(a) is Tensor for a in args):
            self.plain[tuple(p for a in args for p in (a.value.shape, a.value.dtype))] = found
        outputs = found[0].run([_contiguous(t) for t in given])
        return pytrees.unflatten(
            found[1], [make(o) if isinstance(o, np.ndarray) else o for o in outputs]
        )

    def _trace(self, tensors: list[Any], structure: Any, *, marked: bool) -> Graph:
        examples = [
            ShapeDtype(t.shape, t.dtype, marked and t.requires_grad) if isinstance(t, Tensor) else t
            for t in tensors
        ]
        args, keywords = pytrees.unflatten(structure, examples)
        return trace(self.function, *args, **keywords)

    def _compile(self, key: Any, tensors: list[Any], structure: Any) -> Any:
        started = time.perf_counter()
        graph = self._trace(tensors, structure, marked=False)
        traced = time.perf_counter() - started
        program = Program(graph)
        program.stages.seconds = {"trace": traced, **program.stages.seconds}
        if self.verbose:
            for stage, seconds in program.stages.seconds.items():
                print(f"compile {graph.signature.name}: {stage}: {seconds * 1e3:.1f} ms")
        found = self.programs[key] = (program, graph.signature.outputs)
        return found

    def _differentiable(self, key: Any, tensors: list[Any], structure: Any) -> Any:
        """The pair of `differentiate`, compiled, as one node of the tape."""
        marks = tuple(isinstance(t, Tensor) and t.requires_grad for t in tensors)
        found = self.pairs.get((key, marks))
        if found is None:
            graph = self._trace(tensors, structure, marked=True)
            _refuse(_closure_that_wants_a_gradient(graph))
            pair = differentiate(graph)
            found = self.pairs[key, marks] = (pair, Program(pair.f), graph.signature.outputs, {})
        pair, forward, out_structure, backward = found
        assert out_structure is not None
        given = [t for t in tensors if isinstance(t, Tensor)]
        outputs = _PairFunction.apply(pair, forward, backward, *given)
        return pytrees.unflatten(out_structure, list(outputs[: pair.real_outputs]))

    def lower(self, *args: Any, **keywords: Any) -> Stages:
        """Compile for these arguments and return every stage: graph, fused loops, C source,
        times.
        """
        leaves, structure = pytrees.flatten((args, keywords))
        tensors = [
            as_tensor(v) if isinstance(v, (np.ndarray, np.generic, float, complex)) else v
            for v in leaves
        ]
        key = (structure, *[(t.shape, t.dtype) if isinstance(t, Tensor) else t for t in tensors])
        program, _ = self.programs.get(key) or self._compile(key, tensors, structure)
        return program.stages


class _PairFunction(Function):
    """A compiled pair on the eager tape. Second order goes through the graphs, interpreted."""

    @staticmethod
    def forward(
        ctx: Any, pair: Gradient, forward: Program, backward: dict[Any, Program], *inputs: Any
    ) -> Any:
        ctx.set_materialize_grads(False)
        outputs = [make(o) for o in forward.run([_contiguous(t) for t in inputs])]
        ctx.pair, ctx.programs, ctx.count = pair, backward, len(inputs)
        captured = [inputs[i] for i in pair.captured_inputs] + [
            outputs[i] for i in pair.captured_outputs
        ]
        ctx.save_for_backward(*captured)
        ctx.mark_non_differentiable(
            *[o for i, o in enumerate(outputs) if i not in pair.output_grads]
        )
        return tuple(outputs)

    @staticmethod
    def backward(ctx: Any, *grads: Any) -> Any:
        pair: Gradient = ctx.pair
        captured = ctx.saved_tensors
        absent = tuple(n for n, i in enumerate(pair.output_grads) if grads[i] is None)
        given = [grads[i] for i in pair.output_grads if grads[i] is not None]
        if modes.recording or any(g.interpreter is not None for g in given):
            found = interpret.run_flat(pair.specialised(absent), [*given, *captured])
        else:
            program = ctx.programs.get(absent)
            if program is None:
                program = ctx.programs[absent] = Program(pair.specialised(absent))
            arrays = program.run([_contiguous(t) for t in (*given, *captured)])
            found = [None if a is None else make(a) for a in arrays]
        spread: list[Any] = [None] * ctx.count
        for position, grad in zip(pair.input_grads, found, strict=True):
            spread[position] = grad
        return (None, None, None, *spread)


def _contiguous(tensor: Any) -> Any:
    array = tensor.value
    return array if array.flags.c_contiguous else np.ascontiguousarray(array).reshape(array.shape)


def _closure_that_wants_a_gradient(graph: Graph) -> Any:
    """A constant that requires a gradient, which native code would not give it; None if none."""
    constants = (n.op.tensor for n in graph.nodes if isinstance(n.op, Constant))
    return next((t for t in constants if t.requires_grad), None)


def _refuse(closure: Any) -> None:
    if closure is not None:
        raise GradError(
            f"compile: the function uses a tensor of shape {tuple(closure.shape)} from outside "
            "that requires a gradient; pass it as an argument, or detach() it"
        )


_warned: list[bool] = []


def _warn_once() -> None:
    if not _warned:
        _warned.append(True)
        warnings.warn(
            "ad.compile: no C compiler was found; functions run in eager mode", stacklevel=3
        )


def compile(function: Callable[..., Any], *, verbose: bool = False) -> Compiled:
    """Return `function` as native code, compiled when it is first called with arguments of some
    shapes and dtypes.

    Pointwise operators, views and reductions are fused into loops in C; other operators call their
    eager kernels
    (`compiled.lower(*args).callbacks()` names them). Compile the gradient, not its function:
    `ad.compile(ad.grad(f))` shares
    the loops of forward and backward. Whole numbers and other Python values are part of the
    signature. Tensors from outside are constants with the values of the first call.

    >>> import adjoint as ad
    >>> fast = ad.compile(ad.value_and_grad(lambda x: (x.sin() * x).sum()))
    >>> fast(ad.tensor([0.0, 1.0]))
    (tensor(0.8415), tensor([0.0000, 1.3818]))
    """
    return Compiled(function, verbose)
