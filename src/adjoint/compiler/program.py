"""A graph as native code, for inputs of fixed types: memory, native calls, callbacks."""

from __future__ import annotations

import ctypes
import math
import sys
import threading
import time
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from adjoint.compiler import entry, libraries
from adjoint.compiler.c import render
from adjoint.compiler.fuse import fuse
from adjoint.compiler.lower import lower
from adjoint.compiler.memory import ALIGNMENT, lay_out
from adjoint.compiler.plan import Callback, Nested, Operand, Plan
from adjoint.compiler.stages import Stages
from adjoint.core.storage import in_order
from adjoint.elements import functions
from adjoint.graph import interpret
from adjoint.graph.ir import Graph, Value
from adjoint.graph.staging import UNKNOWN
from adjoint.native import build
from adjoint.tensor.tensor import make

POOLED = 1 << 17  # bytes from which the memory of an output is used again when nobody holds it


class Program:
    """A graph as native code."""

    pooled_from = POOLED

    def __init__(
        self,
        graph: Graph,
        report: Callable[[str, float], None] = lambda stage, seconds: None,
        *,
        separate: bool = False,
        join: bool = True,
        small_products: bool = True,
    ) -> None:
        """With `separate`, every value has an array of its own and nothing is built: for sizes that
        stay open (dynamics.py). Without `join`, loops keep no rows to themselves; without
        `small_products`, no loop multiplies matrices.
        """
        seconds: dict[str, float] = {}
        started = time.perf_counter()

        def took(stage: str) -> None:
            seconds[stage] = time.perf_counter() - started - sum(seconds.values())
            report(stage, seconds[stage])

        self.graph = lower(graph, small_products=small_products)
        took("lower")
        self.plan = fuse(self.graph)
        took("fuse")
        self._find_roots()
        self.layout = lay_out(self.plan, set(self.slots), join=join)
        if separate:
            self._separate(join)
        took("plan memory")
        scope = render.Scope(self.layout, "arena")
        scope.places = {v: f"((char *)DATA(p, {slot}))" for v, slot in self.slots.items()}
        text, self.segments = render.segments(self.layout, scope, open_sizes=separate)
        self._see_what_is_direct()
        if self.direct is not None and entry.fields_are_known() and not separate:
            text += entry.text(self.graph.inputs, self.slots, self._end(), self.segments)
        source = functions.prelude(text, build.data_offset()) + text if text else ""
        took("write C")
        self.functions: list[Any] = (
            []
            if separate
            else [s if isinstance(s, Callback) else build.load(source, s) for s in self.segments]
        )
        took("compile C")
        self.stages = Stages(graph, self.graph, self.layout, source, seconds, self.made)
        self.lock = threading.Lock()
        self._allocate()

    def _find_roots(self) -> None:
        """Values in arrays of their own: inputs, constants, results, what callbacks return."""
        plan = self.plan
        self.constants = _all_constants(plan)
        given = [*self.graph.inputs, *self.constants]
        returned = [o.value for o in plan.outputs if isinstance(o, Operand)]
        called = [v for s in plan.steps if isinstance(s, Callback) for v in s.node.outputs]
        self.made = [v for v in dict.fromkeys(returned) if v not in set(given) | set(called)]
        values = dict.fromkeys([*given, *called, *self.made])
        self.slots = {v: i + render.FIRST for i, v in enumerate(values)}

    def _separate(self, join: bool) -> None:
        """Give every value an array of its own."""
        for value in self.layout.written():
            self.slots.setdefault(value, self._end())
        self.layout = lay_out(self.plan, set(self.slots), join=join)

    def _allocate(self) -> None:
        """The block of arguments, with the memory that is kept from call to call."""
        self.block = (ctypes.c_void_p * (self._end() + len(self.graph.inputs)))()
        room = np.empty(self.layout.size + ALIGNMENT, np.uint8)
        start = -room.ctypes.data % ALIGNMENT
        self.arena = room[start : start + self.layout.size]
        self.block[render.ARENA] = id(self.arena)
        self.status = ctypes.c_int(0)
        self.block[render.STATUS] = ctypes.addressof(self.status)
        if used := self.plan.routines():
            self.block[render.LIBRARY] = ctypes.addressof(libraries.addresses(used))
        self.kept = {v: in_order(t.array) for v, t in self.constants.items()}
        for value, array in self.kept.items():
            self.block[self.slots[value]] = id(array)
        self.inputs = [self.slots[v] for v in self.graph.inputs]
        self.results = [(self.slots[v], v.shape, v.dtype.np, _bytes(v)) for v in self.made]
        self.pool: list[Any] = [None] * len(self.results)
        for number, value in enumerate(self.graph.inputs):
            self.block[self._end() + number] = id(value.dtype.np)
        self.entry: Any = None  # the Python function around it, when it was written
        self.entry_function: Any = None
        if "int entry(" in self.stages.source:
            self.entry_function = build.load(self.stages.source, "entry")
            self.entry_function.restype = ctypes.c_int

    def _end(self) -> int:
        """Where in the block the arrays end, and the dtypes of the inputs begin."""
        return len(self.slots) + render.FIRST

    def _see_what_is_direct(self) -> None:
        """Which result each output is, if every output is one of its own."""
        numbers = {v: i for i, v in enumerate(self.made)}
        self.direct: list[int] | None = []
        for operand, output in zip(self.plan.outputs, self.graph.outputs, strict=True):
            whole = isinstance(operand, Operand) and operand.value in numbers
            if not whole or operand.value.shape != output.shape or operand.offset:
                self.direct = None
                break
            self.direct.append(numbers[operand.value])
        if any(isinstance(s, Callback) for s in self.segments):
            self.direct = None
        if self.direct is not None and len(set(self.direct)) < len(self.direct):
            self.direct = None

    def run(self, arrays: Sequence[Any]) -> list[Any]:
        """Run on one contiguous array per input; one array per output."""
        with self.lock:
            return self._run(arrays)

    def _run(self, arrays: Sequence[Any]) -> list[Any]:
        block = self.block
        for slot, array in zip(self.inputs, arrays, strict=True):
            block[slot] = id(array)
        results = []
        for number, (slot, shape, dtype, size) in enumerate(self.results):
            array = np.empty(shape, dtype) if size < POOLED else self.pooled(number, shape, dtype)
            block[slot] = id(array)
            results.append(array)
        if self.direct is not None:
            for function in self.functions:
                function(block)
            if self.status.value:
                return self.eagerly(arrays)
            return [results[i] for i in self.direct]
        return self._with_callbacks(arrays, results)

    def pooled(self, number: int, shape: Any, dtype: Any) -> Any:
        """The last array of a large result, if nobody else holds it: fresh memory is slow."""
        array = self.pool[number]
        if array is None or sys.getrefcount(array) > _HELD_HERE:
            array = self.pool[number] = np.empty(shape, dtype)
        return array

    def eagerly(self, arrays: Sequence[Any]) -> list[Any]:
        """Run the operators one by one: an index out of range, or a matrix without a factor, was
        met, and the eager kernel says so in its own words.
        """
        self.status.value = 0
        results = interpret.run_flat(self.stages.graph, [make(a) for a in arrays])
        return [r.array if hasattr(r, "array") else r for r in results]

    def _with_callbacks(self, arrays: Sequence[Any], results: list[Any]) -> list[Any]:
        known: dict[Value, Any] = {**self.kept, **dict(zip(self.graph.inputs, arrays, strict=True))}
        known |= dict(zip(self.made, results, strict=True))
        for function in self.functions:
            if not isinstance(function, Callback):
                function(self.block)
                if self.status.value:
                    return self.eagerly(arrays)
                continue
            self._call_back(function, known)
        taken: set[int] = set()
        return [
            self._given(o, v, known, taken)
            for o, v in zip(self.plan.outputs, self.graph.outputs, strict=True)
        ]

    def _given(self, operand: Any, output: Any, known: dict[Value, Any], taken: set[int]) -> Any:
        """An output as the user gets it: never memory that another output, or the program, has."""
        if not isinstance(output, Value):
            return output
        if not isinstance(operand, Operand):
            return np.full(output.shape, operand, output.dtype.np)
        array = known[operand.value]
        found = self._array(operand, known)
        keeps = operand.value in self.kept or operand.value in self.graph.inputs
        if keeps or id(array) in taken:
            return found.copy()
        taken.add(id(array))
        return found

    def _call_back(self, step: Callback, known: dict[Value, Any]) -> None:
        node = step.node
        arrays = [_alone(self._array(o, known)) for o in step.operands]
        tensors = {v: make(a) for v, a in zip(step.values, arrays, strict=True)}
        with np.errstate(all="ignore"):
            results = interpret.evaluate(node, tensors)
        # memory of a program is used again: a result must have memory of its own
        given = [a for a in arrays if a.size] + list(self.kept.values())
        for value, result in zip(node.outputs, results, strict=True):
            array = in_order(result.array)
            if any(np.may_share_memory(array, a) for a in given):
                array = array.copy()
            known[value] = array if UNKNOWN in value.shape else array.reshape(value.shape)
            self.block[self.slots[value]] = id(known[value])

    def _array(self, operand: Operand, known: dict[Value, Any]) -> Any:
        """The array of an operand that lies row by row."""
        value = operand.value
        array = known.get(value)
        if array is None:
            offset = self.layout.offsets[value]
            array = np.ndarray(value.shape, value.dtype.np, self.arena, offset)
        elif UNKNOWN in operand.shape or (array.shape == operand.shape and not operand.offset):
            return array
        size = math.prod(operand.shape)
        return array.reshape(-1)[operand.offset : operand.offset + size].reshape(operand.shape)


def _alone(array: Any) -> Any:
    """The same memory, without what lies around it: `as_strided` must not reach the arena."""
    if array.base is None or not array.size:
        return array
    window = (ctypes.c_ubyte * array.nbytes).from_address(array.ctypes.data)
    return np.ndarray(array.shape, array.dtype, window)


def _bytes(value: Value) -> int:
    return math.prod(value.shape) * value.dtype.itemsize


def _held_here() -> int:
    """The references that an array has when only the pool and the function that looks hold it."""
    pool = [np.empty(1)]
    array = pool[0]
    return sys.getrefcount(array)


_HELD_HERE = _held_here()


def _all_constants(plan: Plan) -> dict[Value, Any]:
    """The constants of a plan and of its regions."""
    found = dict(plan.constants)
    for step in plan.steps:
        if isinstance(step, Nested):
            for inner in step.plans.values():
                found |= _all_constants(inner)
    return found
