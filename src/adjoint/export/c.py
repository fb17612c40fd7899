"""A function as standalone C: one C99 file and a header, without Python and without adjoint.

The code is what `ad.compile` builds, with the texts of the C kernels that it calls, and a plain
signature: pointers to the inputs, to the outputs, and to work memory whose size the header tells,
all given by the caller. A function with
operators that have no native code cannot be exported.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np

from adjoint.c_kernels import loading
from adjoint.c_kernels.copies import contiguous
from adjoint.compiler import pipeline
from adjoint.compiler.arena import nbytes
from adjoint.compiler.definitions import RoutineDefinition, define
from adjoint.compiler.lower import Choices
from adjoint.compiler.pipeline import Unplanned
from adjoint.compiler.plan import Callback, Strided
from adjoint.compiler.routines import STRIDED
from adjoint.compiler.targets.c import writing
from adjoint.compiler.targets.c.addresses import ARENA, FIRST, LIBRARY, STATUS
from adjoint.compiler.targets.c.target import CPU
from adjoint.compiler.targets.c.writing import CText
from adjoint.core.c_types import C_TYPES
from adjoint.core.errors import ArgumentError
from adjoint.core.state import changed
from adjoint.expressions.c_numbers import literal
from adjoint.graph.ir import Graph, GraphError, Node, Value
from adjoint.graph.passes.decompose import expand
from adjoint.graph.trace import identifier, trace
from adjoint.ops import binding

_ALIGNMENT = CPU.threads.alignment


def c(
    function: Callable[..., Any], *examples: Any, path: str | Path, name: str = ""
) -> tuple[Path, Path]:
    """Write `function` as C for arguments like `examples`; return the paths of source and header.

    Export a gradient by giving one: `ad.export.c(ad.value_and_grad(f), x, path="f.c")`.
    """
    target = Path(path)
    if target.suffix != ".c":
        raise ArgumentError(f"export.c: path must end in .c, got {str(target)!r}")
    with changed(roots_from=2):
        graph = trace(function, *examples)
    program = _printed(expand(graph, _without_routine))
    missing = {s.node.name for s in program.segments if isinstance(s, Callback)}
    missing |= {symbol for symbol in program.host.routines if not _is_there(symbol)}
    if missing:
        raise GraphError(
            f"export.c: there is no C for {', '.join(sorted(missing))}; "
            "write the function with operators that ad.compile turns into loops"
        )
    if program.tapes:
        raise GraphError(
            "export.c: the gradient of a while_loop keeps all its turns, however many there are, "
            "and exported code has no memory of its own; use scan, or fori_loop with known bounds"
        )
    text, header = _SourceWriter(program, identifier(name or target.stem, "f")).texts()
    target.write_text(f'#include "{target.stem}.h"\n{text}')
    beside = target.with_suffix(".h")
    beside.write_text(header)
    return target, beside


_FILES = {file for file, _ in STRIDED.values()}  # of C kernels that exported code includes
_FOREIGN = "blas:", "lapack:"  # these kernels do without


def _printed(graph: Graph) -> CText:
    """The program of a graph; a call cannot fall back on eager operators."""
    others = len(pipeline.after("order"))
    given, stages = Unplanned(graph, Choices(CPU, alone=True)), pipeline.STAGES[:-others]
    return writing.standalone(pipeline.run(given, stages, lambda *_: None)["order"])


def _is_there(symbol: str) -> bool:
    return symbol.startswith(_FOREIGN) or symbol.partition(":")[0] in _FILES


def _without_routine(node: Node, is_part: bool) -> Callable[..., Any] | None:
    """The decomposition of an operator that would be computed by a routine of our own."""
    found = define(node, CPU) if node.op.row.decompose else None
    is_ours = isinstance(found, RoutineDefinition) and found.ours is not None
    return binding.decomposition(node.op.row) if is_ours else None


def _address(symbol: str) -> str:
    """C text of the address of a routine; 0 for one of BLAS or LAPACK."""
    return "0" if symbol.startswith(_FOREIGN) else "(void *)" + "_".join(symbol.split(":")[1:])


class _SourceWriter:
    """Writes the source and the header of one program."""

    def __init__(self, program: CText, name: str) -> None:
        self.program, self.plan, self.name = program, program.layout.plan, name
        self.made, graph = self.plan.roots.made, self.plan.graph
        self.kept = {v: contiguous(t.array) for v, t in self.plan.roots.constants.items()}
        self.inputs = [(f"in_{identifier(v.name)}", v) for v in graph.inputs]
        self.outputs = [(f"out{i}", o) for i, o in enumerate(graph.outputs) if isinstance(o, Value)]
        if len(self.outputs) != len(graph.outputs):
            raise GraphError("export.c: an output is a Python number; leave it out")
        self.constants = [(f"constant{i}", v) for i, v in enumerate(self.kept)]
        self.work: dict[Value, int] = {}  # results that no output can hold: where they are
        self.size = -(-program.layout.size // _ALIGNMENT) * _ALIGNMENT
        self.given = self._given()
        self.used = program.host.routines

    def _given(self) -> dict[Value, str]:
        """The output whose memory each result uses."""
        found: dict[Value, str] = {}
        for (name, output), operand in zip(self.outputs, self.plan.outputs, strict=True):
            if not isinstance(operand, Strided) or operand.value not in self.made:
                continue
            if not operand.offset and math.prod(output.shape) == math.prod(operand.value.shape):
                found.setdefault(operand.value, name)
        for value in self.made:
            if value not in found:
                self.work[value] = self.size
                self.size += nbytes(value, _ALIGNMENT)
        return found

    def texts(self) -> tuple[str, str]:
        signature = self._signature()
        constants = map(self._constant, self.constants)
        parts = [self.program.source, *constants, self._kernels(), self._function(signature)]
        return "\n".join(parts), self._header(signature)

    def _kernels(self) -> str:
        """The texts of the C kernels that the program calls.

        They come after its own functions, which must not be compiled with their options.
        """
        symbols = (s.split(":") for s in self.used if not s.startswith(_FOREIGN))
        used = {(file, kind) for file, _, kind in symbols}
        return loading.standalone(used) if used else ""

    def _signature(self) -> str:
        arguments = [f"const {C_TYPES[v.dtype.name]} *{n}" for n, v in self.inputs]
        arguments += [f"{C_TYPES[v.dtype.name]} *{n}" for n, v in self.outputs]
        return f"int {self.name}({', '.join([*arguments, 'void *work'])})"

    def _header(self, signature: str) -> str:
        guard = f"{self.name.upper()}_H"
        shapes = [f" *   {n}: {v.type}" for n, v in (*self.inputs, *self.outputs)]
        comment = "\n".join(
            [
                "/* Row-major arrays that do not overlap:",
                *shapes,
                " *   work: at least this many bytes, aligned to 64",
                " * Returns 0; 1 if an index was out of range or a matrix had no factor. */",
            ]
        )
        size = f"#define {self.name.upper()}_WORK {max(self.size, _ALIGNMENT)}"
        return f"#ifndef {guard}\n#define {guard}\n{comment}\n{size}\n{signature};\n#endif\n"

    def _constant(self, constant: tuple[str, Value]) -> str:
        name, value = constant
        c_type = C_TYPES[value.dtype.name]
        numbers = ", ".join(literal(n, c_type) for n in np.ravel(self.kept[value]).tolist())
        return f"static {c_type} {name}[] = {{{numbers or '0'}}};"

    def _function(self, signature: str) -> str:
        slots = self.program.slots
        lines = [f"{signature} {{", f"  void *p[{len(slots) + FIRST}] = {{0}};"]
        lines += ["  int status = 0;", f"  p[{STATUS}] = &status;"]
        lines.append(f"  p[{ARENA}] = work;")
        if self.used:
            table = ", ".join(map(_address, self.used))
            lines.append(f"  void *library[] = {{{table}}};")
            lines.append(f"  p[{LIBRARY}] = library;")
        lines += [f"  p[{slots[v]}] = (void *){n};" for n, v in self.inputs]
        lines += [f"  p[{slots[v]}] = {n};" for n, v in self.constants]
        lines += [f"  p[{slots[v]}] = {n};" for v, n in self.given.items()]
        lines += [f"  p[{slots[v]}] = (char *)work + {at};" for v, at in self.work.items()]
        lines += [f"  {segment}(p);" for segment in self.program.segments]
        for (name, value), operand in zip(self.outputs, self.plan.outputs, strict=True):
            if not isinstance(operand, Strided) or self.given.get(operand.value) != name:
                lines.append(f"  {self._copy_out(name, value, operand)}")
        return "\n".join([*lines, "  return status;", "}", ""])

    def _copy_out(self, name: str, value: Value, operand: Any) -> str:
        c_type = C_TYPES[value.dtype.name]
        source = (
            literal(operand, c_type)
            if not isinstance(operand, Strided)
            else (f"(({c_type} *)p[{self.program.slots[operand.value]}])[{operand.offset} + k]")
        )
        return f"for (long k = 0; k < {math.prod(value.shape)}; k++) {name}[k] = {source};"
