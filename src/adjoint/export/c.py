"""A function as standalone C: one C99 file and a header, no Python, no adjoint, all memory given by
the caller.

It is what `ad.compile` builds, with a plain signature: pointers to the inputs, to the outputs, and
to a piece of work
memory whose size the header tells. A function with operators that have no native code cannot be
exported.
"""

from __future__ import annotations

import math
import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np

from adjoint.compiler.c.expressions import C_TYPES, literal
from adjoint.compiler.program import Program
from adjoint.core.errors import ArgumentError
from adjoint.graph.ir import GraphError, Value
from adjoint.graph.trace import identifier, trace

_ALIGNMENT = 64  # bytes
_HEAD = """#include <math.h>
#include <stddef.h>
#define INF_double HUGE_VAL
#define INF_float HUGE_VALF
#define NAN_double ((double)NAN)
#define NAN_float NAN
#define DATA(objects, slot) ((objects)[slot])
"""


def c(
    function: Callable[..., Any], *examples: Any, path: str | Path, name: str = ""
) -> tuple[Path, Path]:
    """Write `function` as C for arguments like `examples`; returns the paths of the source and the
    header.

    Export a gradient by giving one: `ad.export.c(ad.value_and_grad(f), x, path="f.c")`.
    """
    target = Path(path)
    if target.suffix != ".c":
        raise ArgumentError(f"export.c: path must end in .c, got {str(target)!r}")
    graph = trace(function, *examples)
    program = Program(graph)
    if program.stages.callbacks():
        raise GraphError(
            f"export.c: there is no C for {', '.join(sorted(set(program.stages.callbacks())))}; "
            "write the function with operators that ad.compile turns into loops"
        )
    text, header = _Writer(program, identifier(name or target.stem, "f")).texts()
    target.write_text(f'#include "{target.stem}.h"\n{text}')
    beside = target.with_suffix(".h")
    beside.write_text(header)
    return target, beside


class _Writer:
    """Writes the two files of one program."""

    def __init__(self, program: Program, name: str) -> None:
        self.program, self.name = program, name
        graph = program.graph
        self.inputs = [(f"in_{identifier(v.name)}", v) for v in graph.inputs]
        self.outputs = [(f"out{i}", o) for i, o in enumerate(graph.outputs) if isinstance(o, Value)]
        if len(self.outputs) != len(graph.outputs):
            raise GraphError("export.c: an output is a Python number; leave it out")
        constants = {v for v in program.kept if v in program.constants}
        self.constants = [(f"constant{i}", v) for i, v in enumerate(constants)]
        self.work = [v for v in program.kept if v not in constants]
        self.work += [v for _, v, _, _ in program.results]

    def texts(self) -> tuple[str, str]:
        signature = self._signature()
        body = self.program.stages.source
        body = body[body.index("void segment") :] if "void segment" in body else ""
        body = re.sub(r"^void segment", "static void segment", body, flags=re.M)
        text = "\n".join(
            [_HEAD, *map(self._constant, self.constants), body, self._function(signature)]
        )
        return text, self._header(signature)

    def _signature(self) -> str:
        arguments = [f"const {C_TYPES[v.dtype.name]} *{n}" for n, v in self.inputs]
        arguments += [f"{C_TYPES[v.dtype.name]} *{n}" for n, v in self.outputs]
        return f"void {self.name}({', '.join([*arguments, 'void *work'])})"

    def _header(self, signature: str) -> str:
        guard = f"{self.name.upper()}_H"
        shapes = [f" *   {n}: {v.type}" for n, v in (*self.inputs, *self.outputs)]
        comment = "\n".join(
            [
                "/* Row-major arrays:",
                *shapes,
                " *   work: at least this many bytes, aligned to 64 */",
            ]
        )
        size = f"#define {self.name.upper()}_WORK {self._offsets()[1]}"
        return f"#ifndef {guard}\n#define {guard}\n{comment}\n{size}\n{signature};\n#endif\n"

    def _offsets(self) -> tuple[dict[Value, int], int]:
        """Where each buffer lies in the work memory, and how large that is."""
        offsets, total = {}, 0
        for value in self.work:
            offsets[value] = total
            size = max(math.prod(value.shape), 1) * value.dtype.itemsize
            total += -(-size // _ALIGNMENT) * _ALIGNMENT
        return offsets, max(total, _ALIGNMENT)

    def _constant(self, constant: tuple[str, Value]) -> str:
        name, value = constant
        c_type = C_TYPES[value.dtype.name]
        numbers = ", ".join(literal(n, c_type) for n in np.ravel(self.program.kept[value]).tolist())
        return f"static {c_type} {name}[] = {{{numbers or '0'}}};"

    def _function(self, signature: str) -> str:
        slots, offsets = self.program.slots, self._offsets()[0]
        lines = [f"{signature} {{", f"  void *p[{max(len(slots), 1)}] = {{0}};", "  (void)work;"]
        lines += [f"  p[{slots[v]}] = (void *){n};" for n, v in self.inputs if v in slots]
        lines += [f"  p[{slots[v]}] = {n};" for n, v in self.constants]
        lines += [f"  p[{slots[v]}] = (char *)work + {offset};" for v, offset in offsets.items()]
        lines += [f"  {segment}(p);" for segment in self.program.segments]
        for name, value in self.outputs:
            lines.append(f"  {self._copy_out(name, value)}")
        return "\n".join([*lines, "}", ""])

    def _copy_out(self, name: str, value: Value) -> str:
        access = self.program.plan.access[value]
        source = f"(({C_TYPES[value.dtype.name]} *)p[{self.program.slots[access.root]}])"
        loops, index, here, step = "", [str(access.offset)], [], math.prod(value.shape)
        for d, (size, stride) in enumerate(zip(value.shape, access.strides, strict=True)):
            step //= max(size, 1)
            loops += f"for (long i{d} = 0; i{d} < {size}; i{d}++) "
            index.append(f"i{d} * {stride}")
            here.append(f"i{d} * {step}")
        return f"{loops}{name}[{' + '.join(here) or '0'}] = {source}[{' + '.join(index)}];"
