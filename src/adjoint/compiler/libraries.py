"""Routines of BLAS and LAPACK, called from native code through SciPy's function pointers.

Row-major matrices are column-major ones transposed, so C = A B is computed as Cᵀ = Bᵀ Aᵀ, and an
operand that is a transpose already is passed as it lies, with a flag.
"""

from __future__ import annotations

import ctypes
import importlib
import math
from functools import lru_cache
from typing import Any

from adjoint.compiler.affine import row_major
from adjoint.compiler.plan import Call, Operand
from adjoint.core.shapes import Shape
from adjoint.graph.facts import argument

ROUTINES = ("sgemm", "dgemm", "strsm", "dtrsm", "spotrf", "dpotrf")

_ARGUMENTS = {
    "gemm": "char *, char *, int *, int *, int *, {t} *, {t} *, int *, {t} *, int *, {t} *, {t} *, "
    "int *",
    "trsm": "char *, char *, char *, char *, int *, int *, {t} *, {t} *, int *, {t} *, int *",
    "potrf": "char *, int *, {t} *, int *, int *",
}


@lru_cache(maxsize=1)
def addresses() -> Any:
    """The addresses of `ROUTINES`, as an array that native code reads."""
    cython_blas, cython_lapack = (
        importlib.import_module(f"scipy.linalg.{name}") for name in ("cython_blas", "cython_lapack")
    )
    pointer = ctypes.pythonapi.PyCapsule_GetPointer
    pointer.restype, pointer.argtypes = ctypes.c_void_p, [ctypes.py_object, ctypes.c_char_p]
    name = ctypes.pythonapi.PyCapsule_GetName
    name.restype, name.argtypes = ctypes.c_char_p, [ctypes.py_object]
    found = []
    for routine in ROUTINES:
        module = cython_lapack if routine.endswith("potrf") else cython_blas
        capsule = module.__pyx_capi__[routine]
        found.append(pointer(capsule, name(capsule)))
    return (ctypes.c_void_p * len(found))(*found)


def declarations(used: set[str]) -> str:
    """Types and calls of the routines that a source uses."""
    lines = []
    for routine in sorted(used):
        c_type = "float" if routine[0] == "s" else "double"
        arguments = _ARGUMENTS[routine[1:]].format(t=c_type)
        lines.append(f"typedef void (*{routine}_t)({arguments});")
        lines.append(f"#define {routine} (({routine}_t)library[{ROUTINES.index(routine)}])")
    return "\n".join(lines)


class CallWriter:
    """Writes one call of a library as C text."""

    def __init__(self, call: Call, pointers: list[str], target: str) -> None:
        self.call, self.pointers, self.target = call, pointers, target
        dtype = call.node.outputs[0].dtype
        self.letter = "s" if dtype.name == "float32" else "d"
        self.c_type = "float" if dtype.name == "float32" else "double"

    def text(self) -> tuple[str, str]:
        """The call, and the name of the routine, if it is a library's."""
        write = {
            "gemm": self._gemm,
            "trsm": self._trsm,
            "potrf": self._potrf,
            "join": self._join,
        }[self.call.routine]
        lines = "\n".join(f"  {line}" for line in write())
        routine = "" if self.call.routine == "join" else self.letter + self.call.routine
        return f"{{\n{lines}\n}}\n", routine

    def _join(self) -> list[str]:
        """cat of many: copies of rows."""
        shape = self.call.node.output.shape
        dim = self.call.node.args[1] % len(shape)
        size = self.call.node.output.dtype.itemsize
        row = math.prod(shape[dim:]) * size
        lines, place = [f"for (long n = 0; n < {math.prod(shape[:dim])}; n++) {{"], 0
        for operand, pointer in zip(self.call.operands, self.pointers, strict=True):
            count = math.prod(operand.shape[dim:]) * size
            target = f"(char *){self.target} + n * {row} + {place}"
            if count:
                source = f"(char *){pointer} + n * {count}"
                lines.append(f"  __builtin_memcpy({target}, {source}, {count});")
            place += count
        return [*lines, "}"]

    # -- products ---------------------------------------------------------------------------------

    def _gemm(self) -> list[str]:
        a, b = self.call.operands
        out = self.call.node.output.shape
        a, b, out = _as_matrices(a, b, out)
        batch = out[:-2]
        a, b = _spread(a, batch), _spread(b, batch)
        a, b, out = _flattened(a, b, out)
        batch = out[:-2]
        m, n, k = out[-2], out[-1], a.shape[-1]
        lines, where = _batch_loops(batch)
        flag_a, step_a = _lead(a)
        flag_b, step_b = _lead(b)
        steps = row_major(out)
        lines += [
            f"int m = {n}, n = {m}, k = {k}, lda = {step_b}, ldb = {step_a}, ldc = {n};",
            f"{self.c_type} one = 1, zero = 0;",
            f'{self.letter}gemm("{flag_b}", "{flag_a}", &m, &n, &k, &one, '
            f"{self._at(1, b, where)}, &lda, {self._at(0, a, where)}, &ldb, &zero, "
            f"{self.target}{_offset(steps, where)}, &ldc);",
        ]
        return lines + ["}"] * len(batch)

    def _at(self, number: int, operand: Operand, where: list[str]) -> str:
        return f"{self.pointers[number]}{_offset(operand.strides, where)}"

    # -- triangles --------------------------------------------------------------------------------

    def _trsm(self) -> list[str]:
        """A X = B in place of a copy of B, whose rows are the columns of BLAS: X' A' = B'."""
        node = self.call.node
        a, b = self.call.operands
        upper, left = bool(argument(node, "upper")), argument(node, "left")
        unit = argument(node, "unitriangular")
        batch, (rows, columns) = b.shape[:-2], b.shape[-2:]
        lines, where = _batch_loops(batch)
        flag, step = _lead(a)
        side, diagonal = "R" if left else "L", "U" if unit else "N"
        triangle = "L" if upper == (flag == "N") else "U"  # transposed, an upper one is lower
        steps = row_major(b.shape)
        place = f"{self.target}{_offset(steps, where)}"
        lines += [
            f"{self.c_type} *x = {place}, *b = {self._at(1, b, where)};",
            f"for (long i = 0; i < {rows}; i++) for (long j = 0; j < {columns}; j++)",
            f"  x[i * {columns} + j] = b[i * {b.strides[-2]} + j * {b.strides[-1]}];",
            f"int m = {columns}, n = {rows}, lda = {step}, ldb = {columns};",
            f"{self.c_type} one = 1;",
            f'{self.letter}trsm("{side}", "{triangle}", "{flag}", "{diagonal}", &m, &n, &one, '
            f"{self._at(0, a, where)}, &lda, x, &ldb);",
        ]
        return lines + ["}"] * len(batch)

    def _potrf(self) -> list[str]:
        """The factor in place of a copy of one triangle; the other is 0."""
        node = self.call.node
        (a,) = self.call.operands
        upper = bool(argument(node, "upper"))
        n = a.shape[-1]
        lines, where = _batch_loops(a.shape[:-2])
        steps = row_major(a.shape)
        inside = "j >= i" if upper else "j <= i"
        lines += [
            f"{self.c_type} *x = {self.target}{_offset(steps, where)}, *a = "
            f"{self._at(0, a, where)};",
            f"for (long i = 0; i < {n}; i++) for (long j = 0; j < {n}; j++)",
            f"  x[i * {n} + j] = {inside} ? a[i * {a.strides[-2]} + j * {a.strides[-1]}] : 0;",
            f"int n = {n}, info = 0;",
            f'{self.letter}potrf("{"L" if upper else "U"}", &n, x, &n, &info);',
            "if (info) *status = 1;",
        ]
        return lines + ["}"] * len(a.shape[:-2])


def _as_matrices(a: Operand, b: Operand, out: Shape) -> tuple[Operand, Operand, Shape]:
    """Vectors as matrices of one row or one column."""
    if len(a.shape) == 1:
        a = Operand(a.value, a.offset, (1, *a.shape), (a.shape[0] * a.strides[0], *a.strides))
        out = (*out[:-1], 1, *out[-1:]) if len(b.shape) > 1 else (1, *out)
    if len(b.shape) == 1:
        b = Operand(b.value, b.offset, (*b.shape, 1), (*b.strides, 1))
        out = (*out, 1)
    return a, b, out


def _spread(operand: Operand, batch: Shape) -> Operand:
    """An operand with all the batch's dimensions; those it lacks have stride 0."""
    lead = len(batch) - (len(operand.shape) - 2)
    shape, strides = operand.shape[:-2], operand.strides[:-2]
    steps = [0] * lead + [0 if s == 1 else t for s, t in zip(shape, strides, strict=True)]
    return Operand(
        operand.value,
        operand.offset,
        (*batch, *operand.shape[-2:]),
        (*steps, *operand.strides[-2:]),
    )


def _flattened(a: Operand, b: Operand, out: Shape) -> tuple[Operand, Operand, Shape]:
    """A batch of products with one right-hand matrix is one product, if its rows lie evenly."""
    while len(out) > 2:
        size, rows = out[-3], out[-2]
        even = a.strides[-3] == a.strides[-2] * rows or size == 1
        if any(b.strides[:-2]) or not even or (a.strides[-1] != 1 and a.shape[-1] != 1):
            break
        shape = (*a.shape[:-3], size * rows, a.shape[-1])
        strides = (*a.strides[:-3], a.strides[-2], a.strides[-1])
        a = Operand(a.value, a.offset, shape, strides)
        b = Operand(
            b.value, b.offset, (*b.shape[:-3], *b.shape[-2:]), (*b.strides[:-3], *b.strides[-2:])
        )
        out = (*out[:-3], size * rows, out[-1])
    return a, b, out


def _lead(operand: Operand) -> tuple[str, int]:
    """(flag, step) for a column-major library: "N" and the step from row to row, or "T"."""
    (rows, columns), (row, column) = operand.shape[-2:], operand.strides[-2:]
    if (column == 1 or columns == 1) and (row >= columns or rows == 1):
        return "N", max(row if rows > 1 else columns, columns, 1)
    return "T", max(column if columns > 1 else rows, rows, 1)


def _batch_loops(batch: Shape) -> tuple[list[str], list[str]]:
    names = [f"n{d}" for d in range(len(batch))]
    lines = [
        f"for (long {name} = 0; {name} < {size}; {name}++) {{"
        for name, size in zip(names, batch, strict=True)
    ]
    return lines, names


def _offset(strides: tuple[int, ...], where: list[str]) -> str:
    terms = [f"{n} * {s}" for n, s in zip(where, strides, strict=False) if s]
    return "".join(f" + {t}" for t in terms)


def flops(call: Call) -> int:
    """Arithmetic of a call: 2mnk for a product, n²m for a triangular solve, n³/3 for a factor."""
    shape = call.node.outputs[0].shape
    if call.routine == "join":
        return 0
    inner = call.operands[0].shape[-1]
    return math.prod(shape) * inner * {"gemm": 6, "trsm": 3, "potrf": 1}[call.routine] // 3
