"""`ad.compile`: a function as native code, one program for each signature of its arguments."""

from __future__ import annotations

import ctypes
import math
import threading
import time
import warnings
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from adjoint.compiler.c import build, expressions, render
from adjoint.compiler.fuse import Callback, Loop, Plan, all_constants, buffers, fuse
from adjoint.compiler.lower import expand_decompositions
from adjoint.core import pytrees
from adjoint.core.errors import GradError
from adjoint.core.storage import storage_of
from adjoint.graph import interpret, passes
from adjoint.graph.differentiate import Gradient, differentiate
from adjoint.graph.ir import Constant, Graph, Region, Value
from adjoint.graph.passes.prune_scans import prune_scans
from adjoint.graph.trace import ShapeDtype, trace
from adjoint.tensor.function import Function
from adjoint.tensor.methods import as_tensor
from adjoint.tensor.modes import modes
from adjoint.tensor.tensor import Tensor, make
from adjoint.transforms.arguments import keeps_signature


@dataclass
class Stages:
    """What became of a function on the way to native code; `print` shows all of it."""

    graph: Graph
    lowered: Graph
    plan: Plan
    source: str
    seconds: dict[str, float] = field(default_factory=dict)

    def callbacks(self) -> list[str]:
        """The operators that call back to their eager kernels."""
        return [s.node.name for s in self.plan.steps if isinstance(s, Callback)]

    def __str__(self) -> str:
        loops = [s for s in self.plan.steps if isinstance(s, Loop)]
        lines = [str(self.graph), f"# {len(self.lowered)} nodes in {len(loops)} loops"]
        lines += [f"#   {len(s.nodes)} operators over {s.shape}" for s in loops]
        lines += [f"#   calls back: {name}" for name in self.callbacks()]
        return "\n".join(
            [*lines, self.source, *(f"# {k}: {v * 1e3:.1f} ms" for k, v in self.seconds.items())]
        )


class Program:
    """A graph as native code, for inputs of fixed shapes and dtypes."""

    def __init__(self, graph: Graph) -> None:
        seconds: dict[str, float] = {}
        started = time.perf_counter()
        lowered = prune_scans(passes.run(expand_decompositions(passes.run(_inlined(graph)))))
        plan = fuse(lowered)
        seconds["lower and fuse"] = time.perf_counter() - started
        self.graph, self.plan = lowered, plan
        roots = {a.root for a in plan.access.values()}
        stored = dict.fromkeys(
            (*(v for v in _values(lowered) if v in roots), *buffers(plan), *all_constants(plan))
        )
        self.slots = {v: i for i, v in enumerate(stored)}
        source, self.segments = self._segments()
        seconds["write C"] = time.perf_counter() - started - sum(seconds.values())
        self.functions = (
            [None if s is None else build.load(source, s) for s in self.segments] if source else []
        )
        seconds["compile C"] = time.perf_counter() - started - sum(seconds.values())
        self.stages = Stages(graph, lowered, plan, source, seconds)
        self.lock = threading.Lock()
        self._allocate()

    def _segments(self) -> tuple[str, list[Any]]:
        """Runs of loops as C functions, with callbacks (None) between them."""
        names: list[Any] = []
        text: list[str] = []
        run: list[str] = []
        for step in [*self.plan.steps, None]:
            if step is not None and not isinstance(step, Callback):
                run.append(render.step_text(self.plan, step, self.slots))
                continue
            if run:
                names.append(f"segment{len(names)}")
                text.append(
                    f"void {names[-1]}(void **objects) "
                    f"{{\n  void **p = objects;\n{''.join(run)}}}\n"
                )
                run = []
            if step is not None:
                names.append(None)
        return (
            (expressions.prelude("\n".join(text), build.data_offset()) + "\n".join(text), names)
            if text
            else ("", names)
        )

    def _allocate(self) -> None:
        """Buffers of temporaries, kept from call to call; outputs are made anew each time."""
        outputs = {self.plan.access[o].root for o in self.graph.outputs if isinstance(o, Value)}
        made = dict.fromkeys(buffers(self.plan))
        self.kept = {v: np.empty(v.shape, v.dtype.np) for v in made if v not in outputs}
        self.kept |= {v: np.ascontiguousarray(t.array) for v, t in all_constants(self.plan).items()}  # type: ignore[attr-defined]
        self.constants = frozenset(all_constants(self.plan))
        self.block = (ctypes.c_void_p * max(len(self.slots), 1))()
        for value, array in self.kept.items():
            self.block[self.slots[value]] = id(array)
        slots = self.slots
        self.callbacks = [s.node for s in self.plan.steps if isinstance(s, Callback)]
        self.inputs = [(slots.get(v), v) for v in self.graph.inputs]
        self.results = [(slots[v], v, v.shape, v.dtype.np) for v in made if v in outputs]
        numbers = {v: i for i, (_, v, _, _) in enumerate(self.results)}
        direct = [numbers.get(o, -1) if isinstance(o, Value) else -1 for o in self.graph.outputs]
        self.direct = direct if not self.callbacks and min(direct, default=0) >= 0 else None

    def run(self, arrays: Sequence[Any]) -> list[Any]:
        """Run on one contiguous array per input; one array per output."""
        with self.lock:
            return self._run(arrays)

    def _run(self, arrays: Sequence[Any]) -> list[Any]:
        block = self.block
        for (slot, _), array in zip(self.inputs, arrays, strict=True):
            if slot is not None:
                block[slot] = id(array)
        results = []
        for slot, _, shape, dtype in self.results:
            array = np.empty(shape, dtype)
            block[slot] = id(array)
            results.append(array)
        if self.direct is not None:
            for function in self.functions:
                assert function is not None
                function(block)
            return [results[i] for i in self.direct]
        known = dict(self.kept) | dict(zip(self.graph.inputs, arrays, strict=True))
        known |= {v: array for (_, v, _, _), array in zip(self.results, results, strict=True)}
        callbacks = iter(self.callbacks)
        for function in self.functions or [None] * len(self.callbacks):
            if function is not None:
                function(block)
            else:
                self._call_back(next(callbacks), known)
        return [self._given(o, known) if isinstance(o, Value) else o for o in self.graph.outputs]

    def _given(self, value: Value, known: dict[Value, Any]) -> Any:
        """An output as the user gets it: never memory that the program keeps for its next call."""
        array = self._array(value, known)
        return array.copy() if self.plan.access[value].root in self.kept else array

    def _call_back(self, node: Any, known: dict[Value, Any]) -> None:
        tensors = {v: make(self._array(v, known)) for v in node.inputs()}
        with np.errstate(all="ignore"):
            results = interpret.evaluate(node, tensors)
        shares = isinstance(node.op, Region) or node.op.row.schema.is_view  # perhaps kept memory
        for value, result in zip(node.outputs, results, strict=True):
            array = np.array(result.array) if shares else np.ascontiguousarray(result.array)
            known[value] = array.reshape(value.shape)
            if value in self.slots:
                self.block[self.slots[value]] = id(known[value])

    def _array(self, value: Value, known: dict[Value, Any]) -> Any:
        """The array of a value, a view of its buffer where it is one."""
        access = self.plan.access[value]
        root = known[access.root]
        if access.root is value:
            return root
        itemsize = root.itemsize
        strides = tuple(s * itemsize for s in access.strides)
        if not math.prod(value.shape):
            return np.empty(value.shape, root.dtype)
        view = np.ndarray(
            value.shape, root.dtype, storage_of(root)[0], access.offset * itemsize, strides
        )
        return (
            view.copy() if any(s < 0 for s in strides) else view
        )  # tensors have no negative strides


def _inlined(graph: Graph) -> Graph:
    """The graph with custom functions opened: their rules have been used, native code needs
    their insides.
    """
    return passes.inline_functions(graph.clone())


def _values(graph: Graph) -> list[Value]:
    return [*graph.inputs, *(v for n in graph.nodes for v in n.outputs)]


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
