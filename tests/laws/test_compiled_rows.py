"""Law 8 over the table: every operator, compiled, gives on its samples what it gives in eager mode.

Values, shapes and dtypes in float64, float32, int64 and bool, and gradients in float64. Several
operators share one program, since the C compiler is what takes time; where a program fails, each of
its operators is compiled alone, so that a failure names the operator and the sample.

Operators that call back to their eager kernels are listed in `data/callbacks.txt`, with the kernels
and the reason; `python -m tests.laws.test_compiled_rows` writes the list anew.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import cache
from typing import Any

import numpy as np
import pytest

import adjoint as ad
from adjoint.compiler.plan import Callback
from adjoint.compiler.targets.c.target import CPU
from adjoint.core import dtypes
from adjoint.core.dtypes import DType
from adjoint.graph.ir import Region
from adjoint.table import TABLE
from adjoint.table.rows import Row
from adjoint.testing import jacobians, laws
from adjoint.testing.closeness import near
from adjoint.testing.jacobians import random_like
from adjoint.testing.laws import Case
from adjoint.testing.laws.case import depends_on_values, detached
from adjoint.toolchain import build
from tests import DATA
from tests.targets import plan_of

pytestmark = pytest.mark.skipif(build.compiler() is None, reason="needs a C compiler")

LIST = DATA / "callbacks.txt"
TOLERANCE = {"float64": 1e-12, "float32": 2e-6}
FEW = 3  # samples in dtypes other than float64, but for loops in float32
SHARED = 16  # operators in one program
TOGETHER = 8  # cases in one program: the time of a C compiler grows faster than they do

# Where both 0 and -0 are an extremum, either may be the result, and a product with 0 has the sign
# of its other factors, in whatever order they come: these decide one way in their kernel, and
# another way in the operators that they consist of.
EITHER_ZERO = {
    "fmax.default", "fmin.default", "smooth_l1_loss_backward.default", "cross_entropy_loss.default",
    "huber_loss_backward.default", "_binary_cross_entropy.default", "_attention_backward.default",
    "_euclidean_dist_along.default", "_euclidean_dist_backward.default",
}  # fmt: skip

# PyTorch has these, with factors such as the samples', for floating point only. Their kernels are
# laxer than what they consist of.
FOR_FLOATS = {
    "index_add.default",
    "silu_backward.default", "masked_scatter_backward.default", "_linalg_adjugate_tangent.default",
    "_linalg_pinv_tangent.default", "nll_loss.default", "nll_loss_nd.default", "nll_loss2d.default",
    "nll_loss_forward.default", "nll_loss2d_forward.default", "_binary_cross_entropy.default",
    "binary_cross_entropy.default", "addr.default", "_other_factors.default",
    "_reverse_cumsum.default", "_ctc_alphas.default", "_ctc_alphas_backward.default",
}  # fmt: skip


ROWS = [row for row in TABLE.rows() if not row.random]

# Operators that loops of native code compute, beside those whose rows say so.
MOVES = {
    "cat.default", "slice_scatter.default", "select_scatter.default", "diagonal_scatter.default",
    "flip.default", "index.Tensor", "index_put.default", "gather.default", "scatter.src",
    "scatter_add.default", "linalg_solve_triangular.default",
}  # fmt: skip


def is_loop(row: Row) -> bool:
    """Whether an operator is a loop of native code: its results are compared entry by entry."""
    said = row.element or row.reduces or row.accumulates or row.is_product
    return bool(said) or row.full_name in MOVES


@dataclass(frozen=True)
class Piece:
    """A part of a program: a function of tensors, and the tensors."""

    case: Case
    title: str
    function: Callable[[Sequence[Any]], list[Any]]
    tensors: list[ad.Tensor]
    signs: bool = False  # whether 0 and -0 must be where they are in eager mode
    entries: bool = False  # whether each entry has its own tolerance, and not the whole array one


def value_of(case: Case) -> Piece:
    """The results of an operator, as a function of all its tensors."""
    tensors = tuple({id(t): t for t in jacobians.tensors_in(case.arguments)}.values())
    call = jacobians.Call(case.run, case.arguments, tensors)
    signs = case.row.full_name not in EITHER_ZERO
    given = [t.detach() for t in tensors]
    return Piece(case, case.title, call, given, signs, is_loop(case.row))


def gradient_of(case: Case) -> Piece | None:
    """The gradients of a fixed combination of the results; None where there are none."""
    inputs = tuple({id(t): t for t in jacobians.Call.of(case.run, case.arguments).inputs}.values())
    outputs = jacobians.tensors_in(case.run(*case.arguments))
    wanted = [k for k, t in enumerate(outputs) if t.requires_grad]
    if not wanted or not inputs:
        return None
    generator = np.random.default_rng(0)
    seeds = [
        ad.from_numpy(random_like(np.array(outputs[k].detach().numpy()), generator)) for k in wanted
    ]

    def gradients(given: Sequence[Any]) -> list[Any]:
        def chosen(*tensors: Any) -> list[Any]:
            replace = {id(old): new for old, new in zip(inputs, tensors, strict=True)}
            results = jacobians.tensors_in(case.run(*_replaced(case.arguments, replace)))
            return [results[k] for k in wanted]

        _, pull = ad.vjp(chosen, *given)
        return list(pull(list(seeds)))

    return Piece(case, f"gradient of {case.title}", gradients, [t.detach() for t in inputs])


def _replaced(value: Any, replace: dict[int, Any]) -> Any:
    """Tensors in place of others; those that stay lose their history."""
    if isinstance(value, ad.Tensor):
        return replace.get(id(value), detached(value))
    if isinstance(value, (list, tuple)):
        return type(value)(_replaced(v, replace) for v in value)
    return value


def runs(case: Case) -> bool:
    """Whether eager mode takes a case, with results whose shapes do not depend on values."""
    try:
        with ad.no_grad(), np.errstate(all="ignore"):
            case.run(*case.arguments)
        return not depends_on_values(case)
    except Exception:
        return False  # a dtype that the operator does not take


def cases_of(row: Row, dtype: DType) -> list[Case]:
    if row.full_name in FOR_FLOATS and not dtype.is_floating_point:
        return []
    try:
        found = laws.cases(row, dtype)
    except Exception:
        return []  # its samples need another dtype
    if dtype is not dtypes.float64 and not (dtype is dtypes.float32 and is_loop(row)):
        found = found[:FEW]
    return [c for c in found if runs(c)]


# -- comparing ------------------------------------------------------------------------------------


def difference(got: Any, expected: Any, tolerance: float, piece: Piece) -> str:
    """What differs between two tensors; nothing if they are the same."""
    if got.shape != expected.shape or got.dtype is not expected.dtype:
        return f"{got.dtype}{list(got.shape)}, not {expected.dtype}{list(expected.shape)}"
    a, b = np.asarray(got.detach().numpy()), np.asarray(expected.detach().numpy())
    if a.dtype.kind not in "fc":
        same = np.asarray(a.astype(np.int64) == b.astype(np.int64))
        if a.dtype.kind == "b":
            same &= np.ascontiguousarray(a).view(np.uint8).reshape(a.shape) <= 1
    else:
        largest = np.abs(b[np.isfinite(b)]).max(initial=1.0)
        allowed = (tolerance, tolerance) if piece.entries else (0.0, tolerance * largest)
        same = near(a, b, *allowed)
        if piece.signs and a.dtype.kind == "f":
            same &= (a != 0) | (b != 0) | (np.signbit(a) == np.signbit(b))
    if same.all():
        return ""
    place = tuple(int(i) for i in np.argwhere(~same)[0])
    return (
        f"{int((~same).sum())} of {a.size} elements, first at {place}: {a[place]}, not {b[place]}"
    )


def failures(pieces: Sequence[Piece], tolerance: float) -> list[str]:
    """What is wrong with a program of some pieces."""

    def every(values: list[list[Any]]) -> list[list[Any]]:
        return [p.function(v) for p, v in zip(pieces, values, strict=True)]

    given = [p.tensors for p in pieces]
    try:
        results = ad.compile(every)(given)
    except Exception as error:
        if len(pieces) == 1:
            return [f"{pieces[0].title}: {type(error).__name__}: {error}"]
        half = len(pieces) // 2
        return failures(pieces[:half], tolerance) + failures(pieces[half:], tolerance)
    found: list[str] = []
    with np.errstate(all="ignore"):
        expected = every(given)
    for piece, ours, theirs in zip(pieces, results, expected, strict=True):
        for number, (a, b) in enumerate(zip(ours, theirs, strict=True)):
            if a is None or b is None:
                wrong = "" if a is b else "a gradient here, and none there"
            else:
                wrong = difference(a, b, tolerance, piece)
            found += [f"{piece.title}, result {number}: {wrong}"] if wrong else []
    return found


def hold(pieces: Sequence[Piece], tolerance: float) -> None:
    """Fail with one line for each result that differs."""
    parts = (pieces[start : start + TOGETHER] for start in range(0, len(pieces), TOGETHER))
    if found := [line for part in parts for line in failures(part, tolerance)]:
        pytest.fail("\n".join(found), pytrace=False)


def groups(rows: Sequence[Row]) -> list[Any]:
    """Rows that share a program, of one family each, as parameters with names."""
    families: dict[str, list[Row]] = {}
    for row in rows:
        families.setdefault(row.family, []).append(row)
    found = []
    for family, members in families.items():
        for start in range(0, len(members), SHARED):
            group = members[start : start + SHARED]
            first, last = group[0].schema.name, group[-1].schema.name
            found.append(pytest.param(group, id=f"{family}-{first}-to-{last}"))
    return found


# -- the laws -------------------------------------------------------------------------------------


@pytest.mark.parametrize("rows", groups(ROWS))
def test_compiled_values_equal_eager(rows: list[Row]) -> None:
    pieces = [value_of(c) for row in rows for c in cases_of(row, dtypes.float64)]
    hold(pieces, TOLERANCE["float64"])


@pytest.mark.parametrize("rows", groups([row for row in ROWS if row.differentiable]))
def test_compiled_gradients_equal_eager(rows: list[Row]) -> None:
    cases = [c for row in rows for c in cases_of(row, dtypes.float64)]
    pieces = [p for p in map(gradient_of, cases) if p is not None]
    hold(pieces, TOLERANCE["float64"])


# vendors' names are decompositions into other rows, whose dtypes are tried there
@pytest.mark.parametrize("rows", groups([row for row in ROWS if row.family != "vendor"]))
def test_compiled_values_equal_eager_in_other_dtypes(rows: list[Row]) -> None:
    found = [cases_of(row, dtypes.named(d)) for row in rows for d in ("float32", "int64", "bool")]
    pieces = [value_of(case) for cases in found for case in cases]
    hold(pieces, TOLERANCE["float32"])


OF_COMPLEX = [row for row in ROWS if "complex" in row.element or row.family == "fft"]


@pytest.mark.parametrize("rows", groups(OF_COMPLEX))
def test_compiled_complex_values_equal_eager(rows: list[Row]) -> None:
    for name in ("complex128", "complex64"):
        cases = [case for row in rows for case in cases_of(row, dtypes.named(name))]
        hold([value_of(c) for c in cases], TOLERANCE[dtypes.named(name).to_real().name])


# -- callbacks ------------------------------------------------------------------------------------

REASONS = {
    "linalg": "a routine of LAPACK that native code does not call",
    "matmul": "a product that BLAS does not have",
    "sorting": "it sorts",
    "fft": "a Fourier transform",
    "special": "a special function without an expression in C",
    "scan": "a running extremum",
    "indexing": "indices in a form that loops do not take",
}


EMPTY = "an empty tensor"


def calls_back(row: Row) -> dict[str, str]:
    """The kernels that a compiled operator calls on its samples, with reasons."""
    found: dict[str, str] = {}
    for case in cases_of(row, dtypes.float64):
        piece = value_of(case)
        graph = ad.trace(piece.function, piece.tensors)
        for step in plan_of(graph).steps:
            if isinstance(step, Callback) and found.get(step.node.name, EMPTY) == EMPTY:
                found[step.node.name] = _reason(step)
    return found


def _reason(step: Callback) -> str:
    node = step.node
    if isinstance(node.op, Region):
        return "a loop whose body calls back"
    values = [*node.inputs(), *node.outputs]
    if any(not CPU.has(v) for v in values):
        return "a dtype without a C type"
    if any(0 in v.shape for v in values):
        return EMPTY
    return REASONS.get(node.op.row.family, "no native form yet")


@cache
def listed() -> dict[str, str]:
    """The operators that call back, and what they call."""
    found: dict[str, str] = {}
    for line in LIST.read_text(encoding="utf-8").splitlines():
        if line and not line.startswith("#"):
            name, _, why = line.partition("|")
            found[name.strip()] = why.strip()
    return found


def described(called: dict[str, str]) -> str:
    """For example: 'hash_tensor.default: a dtype without a C type; _median.default: it sorts'."""
    return "; ".join(f"{name}: {called[name]}" for name in sorted(called))


@pytest.mark.parametrize("rows", groups(ROWS))
def test_operators_that_call_back_are_listed(rows: list[Row]) -> None:
    found = {row.full_name: described(calls_back(row)) for row in rows}
    names = {row.full_name for row in rows}
    assert {k: v for k, v in found.items() if v} == {
        k: v for k, v in listed().items() if k in names
    }, "run `python -m tests.laws.test_compiled_rows` to write the list anew"


def test_listed_operators_exist() -> None:
    names = {row.full_name for row in ROWS}
    assert listed().keys() <= names
    assert names >= EITHER_ZERO | FOR_FLOATS | MOVES


def main() -> None:
    """Write the list."""
    lines = ["# operator | the kernels that it calls when compiled, each with the reason"]
    for row in ROWS:
        called = described(calls_back(row))
        lines += [f"{row.full_name} | {called}"] if called else []
    LIST.write_text("\n".join(lines) + "\n", encoding="utf-8")
    print(f"{len(lines) - 1} operators call back", file=sys.stderr)


if __name__ == "__main__":
    main()
