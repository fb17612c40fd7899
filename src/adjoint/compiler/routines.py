"""Our own C routines that programs call on arrays that lie row by row: factors of matrices,
sorting, places that indices choose, Fourier transforms.

A row says `routine: sort`; `find` looks at a node of that row and says which function of which file
of `native/` computes it, and with which numbers. All of these functions take their numbers, their
operands and their results, and return whether they failed; a program that meets a failure runs
eagerly, where a kernel says what is wrong.
"""

from __future__ import annotations

import math
from collections.abc import Callable

from adjoint.compiler.affine import row_major
from adjoint.core.records import record
from adjoint.core.shapes import Shape
from adjoint.graph.facts import argument
from adjoint.graph.ir import Node
from adjoint.native import kernels


@record
class Routine:
    """One of our functions, and what it is called with."""

    file: str  # "factors": native/factors.c
    name: str  # "lu"
    kind: str  # the type in it: "double"
    numbers: tuple[int, ...]
    helpers: tuple[str, ...] = ()  # of LAPACK, whose addresses follow the operands: ("getrf",)

    @property
    def symbols(self) -> tuple[str, ...]:
        """Whose addresses a program needs: "factors:lu:double", "lapack:dgetrf"."""
        letter = "s" if self.kind == "float" else "d"
        return f"{self.file}:{self.name}:{self.kind}", *(
            f"lapack:{letter}{name}" for name in self.helpers
        )


Finder = Callable[[Node], Routine | None]


def find(node: Node) -> Routine | None:
    """The routine that computes a node; None where there is none, or no code can be built."""
    rule = _FINDERS.get(node.op.row.routine)
    found = None if rule is None else rule(node)
    if found is None or kernels.routine(found.file, found.name, found.kind) is None:
        return None
    return found


# -- factors of matrices --------------------------------------------------------------------------

_REALS = {"float32": "float", "float64": "double"}


def _factor(name: str, node: Node, *numbers: int, helpers: tuple[str, ...] = ()) -> Routine | None:
    kind = _REALS.get(next(node.inputs()).dtype.name)
    return None if kind is None else Routine("factors", name, kind, numbers, helpers)


def _matrices(node: Node) -> tuple[int, int, int]:
    """How many matrices there are, their rows and columns."""
    *batch, rows, columns = next(node.inputs()).shape
    return math.prod(batch), rows, columns


def _flag(node: Node, name: str) -> int:
    return int(bool(argument(node, name)))


def _lu(node: Node) -> Routine | None:
    flags = _flag(node, "pivot"), _flag(node, "check_errors")
    return _factor("lu", node, *_matrices(node), *flags, helpers=("getrf",))


def _spread(shape: Shape, batch: Shape) -> list[int]:
    """Steps from matrix to matrix of an operand along a batch, to which it broadcasts."""
    own = shape[:-2]
    steps = [0 if n == 1 else s for n, s in zip(own, row_major(own), strict=True)]
    return [0] * (len(batch) - len(own)) + steps


def _solve(node: Node) -> Routine | None:
    a, b = node.args[:2]
    batch = node.outputs[0].shape[:-2]
    if len(b.shape) < 2 or (0 in batch and 0 not in a.shape[:-2]):
        return None
    numbers = math.prod(batch), a.shape[-1], b.shape[-1], _flag(node, "check_errors"), len(batch)
    places = *batch, *_spread(a.shape, batch), *_spread(b.shape, batch)
    return _factor("solve", node, *numbers, *places, helpers=("gesv",))


def _inverse(node: Node) -> Routine | None:
    count, n, _ = _matrices(node)
    check = _flag(node, "check_errors")
    return _factor("solve", node, count, n, -1, check, 1, count, 1, helpers=("gesv",))


def _cholesky(node: Node) -> Routine | None:
    count, n, _ = _matrices(node)
    flags = _flag(node, "upper"), _flag(node, "check_errors")
    return _factor("cholesky", node, count, n, *flags, helpers=("potrf",))


def _triangle(node: Node) -> Routine | None:
    a, b = node.args[:2]
    *batch, rows, columns = node.output.shape
    flags = (_flag(node, name) for name in ("upper", "left", "unitriangular"))
    places = *batch, *_spread(a.shape, tuple(batch)), *_spread(b.shape, tuple(batch))
    return _factor("triangle", node, math.prod(batch), rows, columns, *flags, len(batch), *places)


def _qr(node: Node) -> Routine | None:
    count, m, n = _matrices(node)
    k = min(m, n)
    sizes = {"reduced": (k, k), "complete": (m, m), "r": (0, k)}.get(argument(node, "mode"))
    if sizes is None:
        return None
    return _factor("qr", node, count, m, n, *sizes, helpers=("geqrf", "orgqr"))


def _eigh(node: Node) -> Routine | None:
    count, n, _ = _matrices(node)
    triangle = argument(node, "UPLO").upper()
    if triangle not in ("L", "U"):
        return None
    vectors = _flag(node, "compute_v")
    return _factor("eigh", node, count, n, int(triangle == "U"), vectors, helpers=("syevd",))


def _svd(node: Node) -> Routine | None:
    vectors = 1 + _flag(node, "full_matrices") if argument(node, "compute_uv") else 0
    return _factor("svd", node, *_matrices(node), vectors, helpers=("gesdd",))


def _ldl(node: Node) -> Routine | None:
    count, n, _ = _matrices(node)
    return _factor("ldl", node, count, n, _flag(node, "check_errors"), helpers=("sytrf",))


def _exponential(node: Node) -> Routine | None:
    count, n, _ = _matrices(node)
    return _factor("exponential", node, count, n, helpers=("gesv",))


def _distinct(node: Node) -> Routine | None:
    *rows, count = node.output.shape
    return _factor("distinct", node, math.prod(rows), count)


def _inverses(node: Node) -> Routine | None:
    values, sizes = node.args[:2]
    if sizes is not None and sizes.shape != values.shape:
        return None
    *rows, count = values.shape
    numbers = 0 if sizes is None else math.prod(sizes.shape)
    return _factor("inverses", node, math.prod(rows), count, numbers)


def _gauge_of_pairs(node: Node) -> Routine | None:
    first, turn, values = node.args
    if turn.shape != (*values.shape, values.shape[-1]):
        return None
    *rows, count = values.shape
    return _factor("gauge_of_pairs", node, math.prod(first.shape), math.prod(rows), count)


_FINDERS: dict[str, Finder] = {
    "lu": _lu,
    "solve": _solve,
    "inverse": _inverse,
    "cholesky": _cholesky,
    "triangular": _triangle,
    "qr": _qr,
    "eigh": _eigh,
    "svd": _svd,
    "ldl": _ldl,
    "exponential": _exponential,
    "distinct": _distinct,
    "inverses": _inverses,
    "gauge_of_pairs": _gauge_of_pairs,
}
