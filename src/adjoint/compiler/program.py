"""A graph as native code (`Code`), and native code with its memory (`Program`).

Code with known sizes has one program. Code with symbolic sizes has one program for each choice of
sizes; these share a lock and an arena as large as the largest of them needs.
"""

from __future__ import annotations

import ctypes
import math
import sys
import weakref
from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import numpy as np

from adjoint.c_kernels.copies import contiguous
from adjoint.compiler import pipeline
from adjoint.compiler.arena import ProgramLayout, arrange, elements
from adjoint.compiler.lower import Choices
from adjoint.compiler.pipeline import Report, Unplanned
from adjoint.compiler.plan import Callback, Strided
from adjoint.compiler.stages import Stages
from adjoint.compiler.symbolic.polynomials import Opened
from adjoint.compiler.targets.c import routines, tapes
from adjoint.compiler.targets.c.addresses import ARENA, LIBRARY, SIZES, STATUS
from adjoint.compiler.targets.c.tapes import CarryTape
from adjoint.compiler.targets.c.target import CPU
from adjoint.compiler.targets.c.writing import CText
from adjoint.core import threads
from adjoint.core.collecting import uncollected
from adjoint.core.errors import TableError
from adjoint.core.promotion import fit_number
from adjoint.core.shapes import Shape, show
from adjoint.core.symbolic_sizes import at
from adjoint.graph import interpret
from adjoint.graph.control.staging import UNKNOWN
from adjoint.graph.ir import Graph, Node, Value
from adjoint.ops.operator import Operator
from adjoint.tensor.tensor import make


def _free(tapes: list[CarryTape]) -> None:
    """Free the memory of tapes."""
    for tape in tapes:
        if tape.data:
            ctypes.CDLL(None).free(ctypes.c_void_p(tape.data))


class Code:
    """A graph as native code, shared by the programs for all choices of symbolic sizes."""

    def __init__(
        self, graph: Graph, report: Report = lambda stage, seconds: None,
        opened: Opened | None = None, symbols: int = 0,
    ) -> None:  # fmt: skip
        """Compile `graph`. For symbolic sizes `opened` is the lowered graph and `symbols` their
        number.
        """
        seconds: dict[str, float] = {}

        def took(stage: str, time: float) -> None:
            seconds[stage] = time
            report(stage, time)

        choices = Choices(CPU)
        program, stages = Unplanned(graph, choices), pipeline.STAGES
        if opened is not None:  # its traces are lowered
            program = Unplanned(opened.graph, choices, opened.definitions, symbols)
            stages = pipeline.after("keep_steps")
        with uncollected():
            made = pipeline.run(program, stages[:-1], took)
        built = pipeline.run(made["write"], stages[-1:], took)["build"]
        written: CText = made["write"]
        self.layout, self.host = written.layout, written.host
        self.plan = self.layout.plan
        self.graph = self.plan.graph
        self.table, self.slots, self.tapes = written.table, written.slots, written.tapes
        self.end, self.segments = written.end, written.segments
        self.constants, self.tables = self.plan.roots.constants, self.plan.roots.tables
        self.made = self.plan.roots.made
        # which result each output is, and results' shapes as returned; None: outputs are put
        # together from results
        self.direct, self.shapes = written.direct() or (None, {})
        self.functions, self.entry_function = built.segments, built.entry
        self.stages = Stages(graph, self.graph, self.layout, written.source, seconds, self.made)
        self.kept = {v: contiguous(t.array) for v, t in self.constants.items()}
        self.busy = busy = ctypes.c_int(0)  # whether the lock's thread runs a program
        self.lock = threads.lock(lambda: setattr(busy, "value", 0))
        self.arena = np.empty(0, np.uint8)
        self.programs: weakref.WeakValueDictionary[tuple[int, ...], Program] = (
            weakref.WeakValueDictionary()
        )

    def program(self, sizes: tuple[int, ...] = ()) -> Program:
        """The program for given sizes."""
        with self.lock:
            found = self.programs.get(sizes)  # weak: whoever runs a program keeps it
            if found is None:
                found = self.programs[sizes] = Program(self, sizes)
            return found

    def room(self, size: int) -> Any:
        """An arena of at least `size` bytes. A larger arena replaces that of all programs."""
        if self.arena.size < size or not self.programs:
            alignment = CPU.threads.alignment
            whole = np.empty(size + alignment, np.uint8)
            start = -whole.ctypes.data % alignment
            before, self.arena = self.arena, whole[start : start + size]
            self.arena[: before.size] = before  # it is in use if a callback asks for a larger one
            for program in self.programs.values():
                program.block[ARENA] = id(self.arena)
        return self.arena


class Program:
    """Native code for given sizes, with its memory."""

    pooled_from = CPU.cache.pooled

    def __init__(self, code: Code, sizes: tuple[int, ...]) -> None:
        self.code, self.sizes = code, sizes
        self.lock, self.busy, self.direct = code.lock, code.busy, code.direct
        self.regions: dict[Node, Node] = {}  # regions that call back, for these sizes
        self.functions, self.kept = code.functions, {**code.kept, **self._tables()}
        elsewhere = {*code.slots, *code.tapes}
        layout = arrange(code.layout, elsewhere, sizes) if sizes else code.layout
        self.offsets = dict(layout.offsets)
        self.is_short = _work(layout, sizes) <= CPU.threads.short
        self.stages = code.stages
        if sizes:
            self.stages = replace(code.stages, counted=code.stages.count(sizes, layout.size))
        self.block = (ctypes.c_void_p * (code.end + len(code.graph.inputs)))()
        self.block[ARENA] = id(code.room(layout.size))
        self.status = ctypes.c_int(0)
        self.block[STATUS] = ctypes.addressof(self.status)
        numbers = code.table.values(sizes)
        self.numbers = (ctypes.c_long * max(len(numbers), 1))(*numbers)
        self.block[SIZES] = ctypes.addressof(self.numbers)
        if used := code.host.routines:
            self.library = routines.addresses(used)  # kept: each of two threads has its own
            self.block[LIBRARY] = ctypes.addressof(self.library)
        for value, array in self.kept.items():
            self.block[code.slots[value]] = id(array)
        self.tapes = {value: CarryTape(bound=tapes.bound()) for value in code.tapes}
        for value, slot in code.tapes.items():
            self.block[slot] = ctypes.addressof(self.tapes[value])
        weakref.finalize(self, _free, list(self.tapes.values()))
        self.inputs = [code.slots[v] for v in code.graph.inputs]
        self.results = [
            (code.slots[v], at(code.shapes.get(v, v.shape), sizes), v.dtype.np, self._bytes(v))
            for v in code.made
        ]
        self.pool: list[Any] = [None] * len(self.results)
        for number, value in enumerate(code.graph.inputs):
            self.block[code.end + number] = id(value.dtype.np)
        self.is_known = False  # whether it has been called
        self.entry: Any = None  # the short way in, once it is made
        self.entry_function = code.entry_function

    def _tables(self) -> dict[Value, Any]:
        """The values that depend on these sizes alone, computed once."""
        found = {}
        for node in dict.fromkeys(self.code.tables.values()):
            results = interpret.evaluate(self._node(node), {})
            found |= {v: contiguous(r.array) for v, r in zip(node.outputs, results, strict=True)}
        return {value: found[value] for value in self.code.tables}

    def _bytes(self, value: Value) -> int:
        return elements(value.shape, self.sizes) * value.dtype.itemsize

    def run(self, arrays: Sequence[Any]) -> list[Any] | None:
        """Run on one contiguous array per input, and return one array per output.

        Returns None if an index is out of range or a matrix has no factor: the eager function then
        raises in its own words. Also returns None if this thread is already running the program,
        which happens when a callback or a signal handler calls it.
        """
        results = [
            np.empty(shape, dtype) if size < self.pooled_from else self.pooled(number, shape, dtype)
            for number, (_, shape, dtype, size) in enumerate(self.results)
        ]
        with self.lock:
            if self.busy.value:
                return None
            self.busy.value = 1
            try:
                return self._run(arrays, results)
            finally:
                self.busy.value = 0

    def _run(self, arrays: Sequence[Any], results: list[Any]) -> list[Any] | None:
        block = self.block
        for slot, array in zip(self.inputs, arrays, strict=True):
            block[slot] = id(array)
        for (slot, *_), array in zip(self.results, results, strict=True):
            block[slot] = id(array)
        if self.direct is not None:
            for function in self.functions:
                function(block)
            if self.status.value:
                self.status.value = 0
                return None
            return [results[i] for i in self.direct]
        return self._with_callbacks(arrays, results)

    def pooled(self, number: int, shape: Any, dtype: Any) -> Any:
        """The last array of a large result if nobody else holds it: fresh memory is slow."""
        array = self.pool[number]
        if array is None or sys.getrefcount(array) > _HELD_HERE:
            array = self.pool[number] = np.empty(shape, dtype)
        return array

    def _with_callbacks(self, arrays: Sequence[Any], results: list[Any]) -> list[Any] | None:
        code = self.code
        known: dict[Value, Any] = {**self.kept, **dict(zip(code.graph.inputs, arrays, strict=True))}
        known |= dict(zip(code.made, results, strict=True))
        for function in self.functions:
            if not isinstance(function, Callback):
                function(self.block)
                if self.status.value:
                    self.status.value = 0
                    return None
                continue
            self._call_back(function, known)
        taken: set[int] = set()
        return [
            self._given(o, v, known, taken)
            for o, v in zip(code.plan.outputs, code.graph.outputs, strict=True)
        ]

    def _given(self, operand: Any, output: Any, known: dict[Value, Any], taken: set[int]) -> Any:
        """An output for the user, which shares memory with no other output or the program."""
        if not isinstance(output, Value):
            return at(output, self.sizes)
        if not isinstance(operand, Strided):
            shape, number = at((output.shape, operand), self.sizes)
            return np.full(shape, fit_number(number, output.dtype), output.dtype.np)
        array = known[operand.value]
        found = self._array(operand, known)
        keeps = operand.value in self.kept or operand.value in self.code.graph.inputs
        if keeps or id(array) in taken:
            return found.copy()
        taken.add(id(array))
        return found

    def _call_back(self, step: Callback, known: dict[Value, Any]) -> None:
        node = self._node(step.node)
        # the program reuses its memory: neither the called kernel nor a result may keep it
        alone = _alone if _is_of_table(node) else np.copy
        arrays = [alone(self._array(o, known)) for o in step.operands]
        tensors = {v: make(a) for v, a in zip(step.values, arrays, strict=True)}
        with np.errstate(all="ignore"):
            results = interpret.evaluate(node, tensors)
        given = [a for a in arrays if a.size] + list(self.kept.values())
        for value, result in zip(node.outputs, results, strict=True):
            array = contiguous(result.array)
            if any(np.may_share_memory(array, a) for a in given):
                array = array.copy()
            _check_type(node, array, value, at(value.shape, self.sizes))
            known[value] = array
            self.block[self.code.slots[value]] = id(array)

    def _node(self, node: Node) -> Node:
        """A node with its numbers for the program's sizes."""
        if not self.sizes:
            return node
        found = self.regions.get(node)
        if found is None:
            graphs = {name: _graph_at(inner, self.sizes) for name, inner in node.graphs.items()}
            found = Node(node.op, at(node.args, self.sizes), graphs)
            found.outputs = node.outputs
            if graphs:
                self.regions[node] = found
        return found

    def _array(self, operand: Strided, known: dict[Value, Any]) -> Any:
        """The array of a row-major operand."""
        value = operand.value
        shape, start = at((operand.shape, operand.offset), self.sizes)
        array = known.get(value)
        if value in self.tapes:
            return self._carries(value)
        if array is None:
            whole = at(value.shape, self.sizes)
            array = np.ndarray(whole, value.dtype.np, self.code.arena, self.offsets[value])
        elif UNKNOWN in shape or (array.shape == shape and not start):
            return array
        return array.reshape(-1)[start : start + math.prod(shape)].reshape(shape)

    def _carries(self, value: Value) -> Any:
        """The contents of a tape as an array, for an eager kernel."""
        tape, (_, *rest) = self.tapes[value], at(value.shape, self.sizes)
        shape = (tape.count, *rest)
        size = math.prod(shape) * value.dtype.itemsize
        if not size:
            return np.empty(shape, value.dtype.np)
        memory: Any = (ctypes.c_ubyte * size).from_address(tape.data)
        return np.ndarray(shape, value.dtype.np, memory)


def _graph_at(graph: Graph, sizes: tuple[int, ...]) -> Graph:
    """A copy of a region's graph, with its numbers for given sizes."""
    made = graph.clone()
    for value in (*made.inputs, *(v for node in made.nodes for v in node.outputs)):
        value.retype(replace(value.type, shape=at(value.shape, sizes)))
    for node in made.nodes:
        node.set_args(at(node.args, sizes))
        node.graphs = {name: _graph_at(inner, sizes) for name, inner in node.graphs.items()}
    return made


def _work(layout: ProgramLayout, sizes: tuple[int, ...]) -> float:
    """The work of a program in additions; infinite if a step is not a loop."""
    if any(number not in layout.programs for number in range(len(layout.steps))):
        return math.inf
    return sum(int(at(k.work, sizes) if sizes else k.work) for k in layout.programs.values())


def _is_of_table(node: Node) -> bool:
    """Whether a node runs a kernel of our own table, which keeps no reference to its arrays. A
    region may run any function, and so may a user's row.
    """
    return isinstance(node.op, Operator) and node.op.row.module is None


def _check_type(node: Node, array: Any, value: Value, shape: Shape) -> None:
    """Raise unless an array has the row's shape and dtype, on which native code relies."""
    said = tuple(n if s == UNKNOWN else s for n, s in zip(array.shape, shape, strict=False))
    if array.shape == said and len(said) == len(shape) and array.dtype == value.dtype.np:
        return
    raise TableError(
        f"{node.name}: its kernel returned an array of {show(array.shape)} and {array.dtype}, and "
        f"its row says {show(shape)} and {value.dtype.name}; correct the row or the kernel"
    )


def _alone(array: Any) -> Any:
    """The same memory without a base, so that `as_strided` cannot reach the arena around it."""
    if array.base is None or not array.size:
        return array
    window = (ctypes.c_ubyte * array.nbytes).from_address(array.ctypes.data)
    return np.ndarray(array.shape, array.dtype, window)


def _held_here() -> int:
    """The reference count of an array that only the pool and the function that looks hold."""
    pool = [np.empty(1)]
    array = pool[0]
    return sys.getrefcount(array)


_HELD_HERE = _held_here()


def compiled(graph: Graph, report: Report = lambda stage, seconds: None) -> Program:
    """Compile a graph for inputs of fixed types."""
    return Code(graph, report).program()
