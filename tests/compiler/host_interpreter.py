"""An interpreter of host programs, on NumPy's memory. It shows that they are complete: of the
printed C only the functions of loop programs are used, each of which is compiled by itself.

One thread runs everything. Tapes that may be thinned keep every third carry.
"""

from __future__ import annotations

import ctypes
import itertools
import math
from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np

from adjoint.compiler import host
from adjoint.compiler.program import Program
from adjoint.compiler.targets.c import routines
from adjoint.compiler.targets.c.addresses import FIRST, size_names
from adjoint.compiler.targets.c.target import CPU
from adjoint.core.symbolic_sizes import at, is_open
from adjoint.expressions import functions
from adjoint.loops.joining import DECLARED
from adjoint.loops.loop_programs import LoopProgram, Total
from adjoint.loops.printer import printed
from adjoint.toolchain import build

Bytes = np.ndarray[Any, Any]
Place = tuple[Bytes, int]  # memory, and where in it
KEPT = 3  # of a tape that may be thinned every third carry is kept
_JOINS = {
    "sum": np.add, "mean": np.add, "prod": np.multiply, "amax": np.maximum, "amin": np.minimum,
    "any": np.bitwise_or, "all": np.bitwise_and,
}  # fmt: skip


class TapeMemory:
    def __init__(self) -> None:
        self.data, self.count, self.every = np.empty(0, np.uint8), 0, 1

    def grow(self, size: int) -> None:
        if self.data.size < size:
            more = np.empty(2 * size, np.uint8)
            more[: self.data.size] = self.data
            self.data = more


class Interpreter:
    """Runs the host program of a program on arrays of its own."""

    def __init__(self, program: Program) -> None:
        code = program.code
        self.program, self.host, self.sizes = program, code.host, program.sizes
        self.numbers = code.table.values(program.sizes)
        self.arena = _aligned(code.arena.size)
        self.arrays: dict[int, Bytes] = {}
        self.tapes = {slot - FIRST: TapeMemory() for slot in code.tapes.values()}
        self.counters: dict[str, int] = {}
        self.held: dict[str, Place] = {}
        self.own: Place = self.arena, 0  # the memory of the thread of a sweep
        self.kept: Place = self.arena, 0  # the memory of its part
        self.first = 0  # the first row of its part
        self.block = 0, 0  # the rows of a sweep's block: first, end
        self.failed = False
        self.loops = _loops(self.host)

    def run(self, inputs: Sequence[Any]) -> list[Any]:
        """The program's results for some arrays."""
        code = self.program.code
        for slot, array in zip(self.program.inputs, inputs, strict=True):
            self.arrays[slot - FIRST] = _bytes(array)
        for value, array in self.program.kept.items():
            self.arrays[code.slots[value] - FIRST] = _bytes(array)
        for slot, _, _, size in self.program.results:
            self.arrays[slot - FIRST] = _aligned(size)
        for part in self.host.parts:
            assert isinstance(part, tuple), "no program of these tests calls back"
            self.steps(part)
        assert not self.failed
        made = [
            self.arrays[slot - FIRST][:size].view(dtype).reshape(shape)
            for slot, shape, dtype, size in self.program.results
        ]
        assert self.program.direct is not None, "each output is a result of its own"
        return [made[n] for n in self.program.direct]

    def steps(self, statements: Sequence[host.Statement]) -> None:
        for statement in statements:
            getattr(self, f"_{type(statement).__name__}")(statement)

    # -- numbers and memory ------------------------------------------------------------------------

    def number(self, size: Any) -> int:
        if isinstance(size, host.Offset):
            return self.numbers[size.index]
        if isinstance(size, host.RowsOfBlock):
            return self.block[1] - self.block[0]
        if isinstance(size, host.TapeLength):
            return self.tapes[size.tape.number].count
        if isinstance(size, host.TurnCounter):
            return self.counters[size.name]
        return int(at(size, self.sizes))

    def shape(self, sizes: Sequence[Any]) -> tuple[int, ...]:
        return tuple(self.number(size) for size in sizes)

    def place(self, address: host.Address) -> Place:
        match address:
            case host.Array():
                return self.arrays[address.number], 0
            case host.InArena():
                return self.arena, sum(map(self.number, address.offsets))
            case host.Tape():
                return self.tapes[address.number].data, 0
            case host.Held():
                return self.held[address.name]
            case host.RowOf():
                memory, start = self.place(address.start)
                return memory, start + self.number(address.turn) * self.number(address.size)
            case host.InTurns():
                return self.place(address.odd if self.number(address.turn) % 2 else address.even)
            case host.OfThread():
                memory, start = self.own
                return memory, start + address.offset - self.block[0] * address.row
            case host.OfPart():
                memory, start = self.kept
                return memory, start + address.offset
            case host.HostOperand():
                memory, start = self.place(address.address)
                elements = self.number(address.view.offset)
                elements += self.block[0] * self.number(address.row)
                return memory, start + elements * address.dtype.itemsize
        raise AssertionError(f"{address} is no address")

    def pointer(self, operand: host.HostOperand, where: Sequence[int] = ()) -> int:
        memory, start = self.place(operand)
        pairs = zip(where, operand.view.strides, strict=False)
        elements = sum(n * self.number(stride) for n, stride in pairs)
        return memory.ctypes.data + start + elements * operand.dtype.itemsize

    def elements(self, operand: host.HostOperand) -> Bytes:
        """A row-major operand as a vector."""
        memory, start = self.place(operand)
        size = math.prod(self.shape(operand.view.shape)) * operand.dtype.itemsize
        return memory[start : start + size].view(operand.dtype.np)

    def is_true(self, condition: host.HostOperand | bool) -> bool:
        if isinstance(condition, bool):
            return condition
        memory, start = self.place(condition)
        return bool(memory[start])

    # -- launches ----------------------------------------------------------------------------------

    def _Launch(self, launch: host.Launch) -> None:
        run = next(r for r in launch.runs if all(self.number(n) >= 0 for n in r.where))
        made = run.program
        scratch = 0 if run.scratch is None else _pointer(self.place(run.scratch))
        partial = np.empty(max(self.number(made.partial), 1))
        if is_open(made.partial):  # the accumulators come first in the scratch memory
            partial = np.ctypeslib.as_array(
                ctypes.cast(scratch, ctypes.POINTER(ctypes.c_double)), partial.shape
            )
            scratch += partial.nbytes
        self.call(run, 0, self.number(made.rows), partial.ctypes.data, scratch)
        self.join(run, partial.view(np.uint8))

    def call(self, run: host.Run, low: int, high: int, partial: int, scratch: int) -> None:
        """Run a loop program for some rows."""
        made, status = run.program, ctypes.c_int(0)
        given: list[Any] = [ctypes.c_void_p(self.pointer(operand)) for operand in run.operands]
        given += [ctypes.c_long(low), ctypes.c_long(high)]
        if made.partials:
            given.append(ctypes.c_void_p(partial))
        if made.checks:
            given.append(ctypes.byref(status))
        if made.rooms():
            given.append(ctypes.c_void_p(scratch))
        self.loops[id(made)](*given, *map(ctypes.c_long, self.sizes))
        self.failed |= bool(status.value)

    def join(self, run: host.Run, partial: Bytes) -> None:
        """Write the totals of one thread to the results of a loop program."""
        for joined, own in zip(run.joined, self.totals(run.program, partial), strict=True):
            divisor = 1 if joined.divisor is None else at(joined.divisor.value, self.sizes)
            target = self.elements(joined.target)
            target[:] = own if joined.divisor is None else own / divisor

    def totals(self, program: LoopProgram, partial: Bytes) -> Iterator[Bytes]:
        """The accumulators of a loop program, 8 bytes for each."""
        offset = 0
        for total, count in program.partials:
            many, dtype = self.number(count), total.dtype.np
            yield partial[8 * offset :][: many * dtype.itemsize].view(dtype)
            offset += many

    def _Blocks(self, blocks: host.Blocks) -> None:
        self.own = self.place(blocks.memory)
        memory, start = self.place(blocks.kept)
        runs = [s for s in blocks.steps if isinstance(s, host.Run)]
        rows, step = self.number(blocks.rows), self.rows_of_part(blocks)
        whole: dict[int, list[Bytes]] = {id(r): [] for r in runs}
        sums: list[list[Bytes]] = [[] for _ in blocks.sums]
        for part, self.first in enumerate(range(0, rows, step)):
            self.kept = memory, start + part * blocks.part
            for run in runs:
                whole[id(run)].append(memory[self.kept[1] + run.accumulators :])
                self.begin(run.program, whole[id(run)][-1])
            self.blocks_of_part(blocks, min(self.first + step, rows), whole)
            for found, each in zip(sums, blocks.sums, strict=True):
                size = self.elements(each.target).nbytes
                found.append(memory[self.kept[1] + each.offset :][:size])
        self.block = 0, 0
        for run in runs:
            for other in whole[id(run)][1:]:
                self.merge(run.program, whole[id(run)][0], other)
            self.join(run, whole[id(run)][0])
        for found, each in zip(sums, blocks.sums, strict=True):
            target = self.elements(each.target)
            target[:] = 0
            for own in found:
                target += own.view(target.dtype)

    def rows_of_part(self, blocks: host.Blocks) -> int:
        """How many rows a part has: whole blocks, so that no part has too little work."""
        work, threads = self.number(blocks.work), CPU.threads
        sums = sum(math.prod(self.shape(each.target.view.shape)) for each in blocks.sums)
        most = min(threads.parts, work // threads.part, work // (threads.joined * sums + 1))
        count = -(-self.number(blocks.rows) // blocks.width)
        return -(-count // (1 if work < threads.awake else max(2, most))) * blocks.width

    def begin(self, program: LoopProgram, whole: Bytes) -> None:
        """Set the accumulators of a part to their start."""
        for own, (total, _) in zip(self.totals(program, whole), program.partials, strict=True):
            own[:] = total.start.value

    def blocks_of_part(self, blocks: host.Blocks, last: int, whole: dict[int, list[Bytes]]) -> None:
        for low in range(self.first, last, blocks.width):
            self.block = low, min(low + blocks.width, last)
            for step in blocks.steps:
                if isinstance(step, host.CallRoutine):
                    self._CallRoutine(step)
                    continue
                one = np.empty(8 * max(self.number(step.program.partial), 1), np.uint8)
                self.call(step, *self.block, one.ctypes.data, 0)
                self.merge(step.program, whole[id(step)][-1], one)

    def merge(self, program: LoopProgram, whole: Bytes, one: Bytes) -> None:
        """Take the accumulators of a block into those of its part."""
        pairs = zip(self.totals(program, whole), self.totals(program, one), strict=True)
        kinds: list[Total] = [total for total, _ in program.partials]
        for total, (own, new) in zip(kinds, pairs, strict=True):
            own[:] = _JOINS[total.kind](own, new)

    # -- routines and copies -----------------------------------------------------------------------

    def _CallRoutine(self, call: host.CallRoutine) -> None:
        kinds = [ctypes.c_void_p] * (1 + len(call.arguments))
        run = ctypes.CFUNCTYPE(ctypes.c_int, *kinds)(_function(call.symbol))
        sizes = self.shape(call.numbers)
        fields = (ctypes.c_long * max(len(sizes), 1))(*sizes)
        for where in itertools.product(*map(range, self.shape(call.batch))):
            kept: list[Any] = []
            given = [self.argument(each, where, kept) for each in call.arguments]
            self.failed |= bool(run(ctypes.addressof(fields), *given))

    def argument(self, given: Any, where: Sequence[int], kept: list[Any]) -> int | None:
        """The address that an argument of a routine is; `kept` holds its memory."""
        match given:
            case None:
                return None
            case host.Symbol():
                return _function(given)
            case host.AfterFirst():
                return self.pointer(given.operand) if self.block[0] > self.first else None
            case host.PackedArguments():
                found = [self.argument(each, where, kept) or 0 for each in given.addresses]
                reals = np.array([at(real, self.sizes) for real in given.reals], np.float64)
                kept.append(np.concatenate([np.array(found, np.int64).view(np.float64), reals]))
                return kept[-1].ctypes.data
            case _:
                return self.pointer(given, where)

    def _CopyArray(self, copy: host.CopyArray) -> None:
        target = self.elements(copy.target)
        memory, start = self.place(copy.source)
        target[:] = memory[start : start + target.nbytes].view(target.dtype)

    def _FillArray(self, fill: host.FillArray) -> None:
        self.elements(fill.target)[:] = at(fill.number, self.sizes)

    def _JoinRows(self, join: host.JoinRows) -> None:
        rows = self.number(join.rows)
        parts = [self.elements(source).reshape(rows, -1) for source in join.sources]
        assert [part.shape[1] for part in parts] == [self.number(n) for n in join.lengths]
        self.elements(join.target).reshape(rows, -1)[:] = np.concatenate(parts, 1)

    # -- loops and branches ------------------------------------------------------------------------

    def _Enclosed(self, enclosed: host.Enclosed) -> None:
        self.steps(enclosed.body)

    def _Hold(self, hold: host.Hold) -> None:
        if hold.address is not None:
            self.held[hold.held.name] = self.place(hold.address)

    def _Move(self, move: host.Move) -> None:
        self.held |= {held.name: self.place(address) for held, address in move.moves}

    def _Loop(self, loop: host.Loop) -> None:
        count = self.number(loop.count)
        for step in range(count):
            self.counters[loop.step.name] = step
            self.counters[loop.turn.name] = count - 1 - step if loop.backwards else step
            self.steps(loop.body)

    def _WhileLoop(self, loop: host.WhileLoop) -> None:
        for step in itertools.count():
            self.counters[loop.step.name] = step
            self.steps(loop.test)
            if not self.is_true(loop.condition):
                return
            self.steps(loop.body)

    def _Branch(self, branch: host.Branch) -> None:
        self.steps(branch.true if self.is_true(branch.condition) else branch.false)

    # -- tapes -------------------------------------------------------------------------------------

    def _Grow(self, grow: host.Grow) -> None:
        tape = self.tapes[grow.tape.number]
        tape.count = self.number(grow.length)
        tape.grow(tape.count * self.number(grow.tape.row))

    def _Open(self, opened: host.Open) -> None:
        for each in opened.tapes:
            self.tapes[each.number].every = KEPT if opened.thins else 1

    def _Push(self, push: host.Push) -> None:
        turn = self.number(push.turn)
        for each, held in zip(push.tapes, push.carry, strict=True):
            tape, row = self.tapes[each.number], self.number(each.row)
            slot, dropped = divmod(turn, tape.every)
            if not dropped:
                memory, start = self.held[held.name]
                tape.grow((slot + 1) * row)
                tape.data[slot * row : (slot + 1) * row] = memory[start : start + row]

    def _Close(self, closed: host.Close) -> None:
        for each in closed.tapes:
            self.tapes[each.number].count = self.number(closed.turns)

    def _Rewind(self, rewind: host.Rewind) -> None:
        pass  # nothing is recomputed into the tapes here

    def _Pop(self, pop: host.Pop) -> None:
        turn = self.number(pop.turn)
        tapes = [(self.tapes[t.number], self.number(t.row)) for t in pop.tapes]
        slot = turn // tapes[0][0].every
        for held, (tape, row) in zip(pop.carry, tapes, strict=True):
            self.held[held.name] = tape.data, slot * row
        for step in range(slot * tapes[0][0].every, turn):
            self.counters[pop.step.name] = step
            self.steps(pop.body)


def _function(symbol: host.Symbol) -> int:
    return routines.addresses((symbol.name,))[0]


def _pointer(place: Place) -> int:
    return place[0].ctypes.data + place[1]


def _aligned(size: int) -> Bytes:
    memory = np.empty(size + 128, np.uint8)
    start = -memory.ctypes.data % 64
    return memory[start : start + size + 64]


def _bytes(array: Any) -> Bytes:
    return np.ascontiguousarray(array).reshape(-1).view(np.uint8)


def _loops(program: host.HostProgram) -> dict[int, Any]:
    """Each loop program of a host program as a function, compiled by itself."""
    sizes = size_names(program.symbols)
    found = {id(p): p for p in program.loop_programs()}
    texts = [printed(p, f"loop{k}", sizes) for k, p in enumerate(found.values())]
    names = ", ".join(f"(void *)loop{k}" for k in range(len(texts)))
    text = "\n".join([DECLARED, *texts, f"void *const loops[] = {{{names or 0}}};"])
    text += "\nvoid *loop(long k) { return loops[k]; }\n"
    called = sorted({name for p in found.values() for name in p.calls})
    get = build.load(functions.prelude(called, build.data_offset()) + text, "loop")
    get.restype, get.argtypes = ctypes.c_void_p, [ctypes.c_long]
    return {name: ctypes.CFUNCTYPE(None)(get(k)) for k, name in enumerate(found)}
