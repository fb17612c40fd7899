"""Facts about operators are columns of the table: code that treats all operators alike names few.

Counted are the string literals of `src/adjoint` that are the name of an operator or of a row
(`add`, `add.Tensor`), outside the table. `python -m tests.laws.test_facts` prints the ranking.
"""

from __future__ import annotations

import ast
import re
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import adjoint as ad
from adjoint.core import dtypes
from adjoint.core.dtypes import FLOAT
from adjoint.core.errors import AdjointError
from adjoint.graph import typing
from adjoint.graph.ir import Type, Value
from adjoint.table import TABLE
from adjoint.table.rows import KINDS, Row
from adjoint.testing import samples
from tests import SOURCE

# Each rule, sample and function there is about one operator, which its messages name.
OF_ONE_OPERATOR = frozenset((
    "table", "kernels", "formulas", "shapes", "batching", "decompositions", "testing", "nn",
    "checks", "masked.py", "doors", "numpy", "keys.py", "signal", "sparse.py",
))  # fmt: skip
# Functions that make a node or call an operator: writing `rewriter.call("reshape.default", x)`
# is using an operator, not knowing a fact about it.
CALLS = frozenset(("packet", "operator", "call"))
# Operators with the name of a type: in general code the word means the type.
TYPES = frozenset((
    "bool", "int", "float", "complex", "half", "double", "short", "long", "char", "byte",
    "bfloat16", "cfloat", "cdouble",
))  # fmt: skip
MOST = 6  # names in a file without a reason of its own

# More names than that, each with its reason.
ALLOWED = {
    "export/renderers.py": (24, "each function is of one operator, which its messages name"),
    "export/numpy_text.py": (13, "names of NumPy's functions that Python has signs for"),
    "ops/binding.py": (100, "names of NumPy's functions that a kernel may call"),
    "compiler/definitions.py": (29, "a definition for one operator; words of reduces; grids"),
    "calls/operators.py": (55, "Python's operators: which method `+` calls"),
    "graph/passes/products_onto.py": (9, "one rule of algebra: sums, multiples, products"),
    "graph/passes/simplify.py": (21, "rules of algebra about one operator"),
    "expressions/definitions.py": (35, "names of functions that every target has"),
    "expressions/functions.py": (21, "names of C's functions"),
    "expressions/numpy_text.py": (10, "functions that NumPy names otherwise"),
    "expressions/trees.py": (6, "names of C's functions that are quick"),
    "expressions/variants.py": (13, "arguments: the exponent, the mode"),
    "loops/accumulators.py": (7, "words of the column reduces"),
    "loops/joining.py": (9, "words of the column reduces, and of OpenMP"),
    "graph/functionalization.py": (8, "how views are undone"),
    "compiler/lower.py": (12, "smaller operators for some"),
    "compiler/routines.py": (50, "words of the column routine, and arguments"),
    "compiler/program_decompositions.py": (
        9,
        "words of the column routine, and parts of complex numbers",
    ),
    "homes/held_numbers.py": (12, "Python's operators on traced numbers"),
    "homes/nested.py": (10, "words of the columns like and reduces, and of segment_reduce"),
    "distributions/__init__.py": (10, "names of modules of PyTorch"),
    "distributions/constraints.py": (7, "names of constraints"),
    "optim/lbfgs.py": (7, "t, a key of its state"),
    "homes/limits.py": (7, "the operators by which tensors from a kink come and go"),
    "homes/meta.py": (7, "words of the columns like and promote"),
    "graph/strides.py": (7, "a word of the column like; operators that keep a memory format"),
}


def names_in(path: Path, known: frozenset[str]) -> Iterator[str]:
    """The operators that string literals of a file name, but for those it calls."""
    tree = ast.parse(path.read_text())
    called = {
        id(node.args[0])
        for node in ast.walk(tree)
        if isinstance(node, ast.Call) and node.args and _name(node.func) in CALLS
    }
    for node in ast.walk(tree):
        if isinstance(node, ast.Constant) and node.value in known and id(node) not in called:
            yield str(node.value)


def _name(function: ast.expr) -> str:
    if isinstance(function, ast.Name):
        return function.id
    return function.attr if isinstance(function, ast.Attribute) else ""


def ranking() -> Counter[str]:
    """How many operators each file names."""
    known = frozenset(n for row in TABLE.rows() for n in (row.name, row.full_name)) - TYPES
    counts: Counter[str] = Counter()
    for path in SOURCE.rglob("*.py"):
        where = path.relative_to(SOURCE)
        if where.parts[0] not in OF_ONE_OPERATOR:
            counts[str(where)] = sum(1 for _ in names_in(path, known))
    return counts


def test_general_code_names_few_operators() -> None:
    counts = ranking()
    allowed = {path: count for path, (count, _) in ALLOWED.items()}
    above = [
        f"{path} names {count} operators, {allowed.get(path, MOST)} are allowed: a fact about an "
        "operator is a column of its row"
        for path, count in counts.most_common()
        if count > allowed.get(path, MOST)
    ]
    assert above == []


def test_allowances_are_needed() -> None:
    """An allowance that is much larger than the count would let names in again."""
    counts = ranking()
    loose = {p: (c, counts[p]) for p, (c, _) in ALLOWED.items() if c > counts[p] + MOST}
    assert loose == {}


def test_a_name_in_a_set_is_counted_and_a_call_is_not(tmp_path: Path) -> None:
    file = tmp_path / "some.py"
    file.write_text('_VIEWS = {"view", "t"}\ncall("exp")\nif name == "add.Tensor": pass\n')
    known = frozenset(("view", "t", "exp", "add.Tensor"))
    assert sorted(names_in(file, known)) == ["add.Tensor", "t", "view"]


# -- what the columns say is so -------------------------------------------------------------------


def calls(row: Row) -> list[dict[str, Any]]:
    """The arguments of the samples of a row, by name; sparse tensors have facts of their own."""
    found = []
    for sample, _ in samples.for_row(row, ad.float64):
        if any(isinstance(a, samples.Made) for a in sample.args):
            continue
        given = {a.name: a.default for a in row.schema.arguments if a.has_default}
        given |= dict(zip(row.schema.names, sample.args, strict=False)) | sample.kwargs
        found.append(given)
    assert found, f"{row.full_name} has no samples"
    return found


def run(row: Row, given: dict[str, Any]) -> Any:
    packet = getattr(ad.ops, row.name)
    op = getattr(packet, row.schema.overload or "default")
    with ad.no_grad(), np.errstate(all="ignore"):
        return op.call([given.get(n) for n in row.schema.names])


def array(value: Any) -> Any:
    return np.asarray(value.detach().numpy() if isinstance(value, ad.Tensor) else value)


def rows_with(fact: str) -> list[Any]:
    return [pytest.param(row, id=row.full_name) for row in TABLE.rows() if getattr(row, fact)]


@pytest.mark.parametrize("row", rows_with("moves"))
def test_moves(row: Row) -> None:
    for given in calls(row):
        before, after = array(given[row.schema.names[0]]), array(run(row, given))
        if row.moves == "nothing":
            np.testing.assert_array_equal(before, after)
        elif row.keeps_order:
            np.testing.assert_array_equal(before.reshape(-1), after.reshape(-1))
        else:
            assert np.isin(after, before).all()


@pytest.mark.parametrize("row", rows_with("fills"))
def test_fills(row: Row) -> None:
    for given in calls(row):
        number = int(row.fills) if row.fills.isdigit() else given[row.fills]
        result = array(run(row, given))
        np.testing.assert_array_equal(result, np.full_like(result, number))


@pytest.mark.parametrize("row", rows_with("reduces"))
def test_reduces(row: Row) -> None:
    for given in calls(row):
        x, dim = array(given["self"]), given.get("dim")
        axes = None if dim is None or dim in ([], ()) else dim
        if not x.size or (not x.ndim and axes is not None) or (axes is None and dim is not None):
            continue  # what is nothing, or no dimension, is said elsewhere
        axes = tuple(axes) if isinstance(axes, list) else axes
        found = getattr(np, row.reduces)(x, axis=axes, keepdims=bool(given.get("keepdim")))
        np.testing.assert_allclose(array(run(row, given)), found, rtol=1e-6)


@pytest.mark.parametrize("row", rows_with("accumulates"))
def test_accumulates(row: Row) -> None:
    for given in calls(row):
        x = array(given["self"])
        if x.ndim:
            found = getattr(np, f"cum{row.accumulates}")(x, axis=given["dim"])
            np.testing.assert_allclose(array(run(row, given)), found, rtol=1e-6)


@pytest.mark.parametrize("row", rows_with("product"))
def test_product(row: Row) -> None:
    """With the rest of a row's arguments zeros, its result is the product that it names."""
    for given in calls(row):
        left, right = row.product.split(" @ ")
        a = array(given[left.removesuffix(".conj()")])
        b = array(given[right.removesuffix(".mT")])
        a = a.conj() if left.endswith(".conj()") else a
        found = a @ (np.moveaxis(b, -1, 0) if right.endswith(".mT") and b.ndim < 3 else b)
        rest = {
            n: None if given[n] is None else ad.zeros_like(given[n])
            for n in (t.name for t in row.schema.tensors)
            if n not in (left.removesuffix(".conj()"), right.removesuffix(".mT"))
        }
        alpha = given.get("alpha", 1)
        ours = array(run(row, given | rest))
        if ours.ndim < found.ndim:  # addbmm adds the products of a batch
            found = found.sum(0)
        np.testing.assert_allclose(ours, alpha * found, rtol=1e-10, atol=1e-12)


@pytest.mark.parametrize("row", rows_with("overwrites"))
def test_overwrites(row: Row) -> None:
    """The view of the result is what was put there."""
    name, _, overload = row.overwrites.partition(".")
    view = TABLE.row(name, overload)
    for given in calls(row):
        rest = {n: v for n, v in given.items() if n in view.schema.names}
        part = run(view, rest | {view.schema.names[0]: run(row, given)})
        np.testing.assert_array_equal(array(part), array(given[row.schema.names[1]]))


@pytest.mark.parametrize("row", rows_with("identities"))
def test_identities(row: Row) -> None:
    """The other operand comes back, the sign of its zeros included."""
    x = ad.tensor([0.0, -0.0, 1.5, -np.inf, np.nan, 1e-320], dtype=ad.float64)
    for name, number in row.identities.items():
        kind = row.schema.argument(name).type
        value = ad.full((6,), number, dtype=ad.float64) if kind.is_tensor else number
        given = {a.name: a.default for a in row.schema.arguments if a.has_default}
        given |= {a.name: x for a in row.schema.tensors} | {name: value}
        found = array(run(row, given))
        np.testing.assert_array_equal(found, array(x))
        np.testing.assert_array_equal(np.signbit(found), np.signbit(array(x)))


@pytest.mark.parametrize("row", rows_with("linear"))
def test_linear(row: Row) -> None:
    for given in calls(row):
        for name in row.linear:
            twice = array(run(row, given | {name: given[name] * 2 + 1}))
            ones = array(run(row, given | {name: ad.ones_like(given[name])}))
            once = array(run(row, given))
            finite = np.isfinite(once) & np.isfinite(ones)
            sums = np.where(finite, 2 * once + ones, 0)
            np.testing.assert_allclose(np.where(finite, twice, 0), sums, rtol=1e-12, atol=1e-12)


@pytest.mark.parametrize("row", rows_with("undoes_itself"))
def test_undoes_itself(row: Row) -> None:
    for given in calls(row):
        first = row.schema.names[0]
        twice = run(row, {first: run(row, given)})
        np.testing.assert_array_equal(array(twice), array(given[first]))


def of_one_element(row: Row, given: dict[str, Any], dtype: ad.DType) -> dict[str, Any]:
    """A call with tensors of one element, those that are promoted together in a dtype."""
    together = {a.name for a in row.promoted or row.schema.tensors}
    return {
        name: ad.ones((1,) * value.ndim, dtype=dtype if name in together else value.dtype)
        if isinstance(value, ad.Tensor)
        else value
        for name, value in given.items()
    }


def with_small_numbers(row: Row, given: dict[str, Any]) -> dict[str, Any]:
    """A call with 1 for each number, which no dtype refuses."""
    numbers = {a.name for a in row.schema.arguments if a.type.base == "Scalar"}
    return given | {n: 1 for n in numbers if isinstance(given.get(n), (int, float, complex))}


def is_taken(row: Row, given: dict[str, Any]) -> bool:
    try:
        run(row, given)
    except AdjointError:
        return False
    return True


ROWS_OF_ELEMENTS = [
    pytest.param(row, id=row.full_name)
    for row in TABLE.rows()
    if (row.promoted or row.archetype.name == "reduction")
    and (row.kernel and row.dtypes)
    and not (row.schema.replaces or row.random)
]


@pytest.mark.parametrize("row", ROWS_OF_ELEMENTS)
def test_dtypes(row: Row) -> None:
    """A kernel takes the dtypes that the row says, and no others; tracing need not ask it."""
    every = calls(row)
    kinds = KINDS[FLOAT:] if row.archetype.to_float else KINDS
    for kind in kinds:
        of_kind = [d for d in dtypes.ALL if KINDS[d.category] == kind]
        found = [
            is_taken(row, of_one_element(row, with_small_numbers(row, given), dtype))
            for given in every
            for dtype in of_kind
        ]
        assert all(found) == (kind in row.dtypes), (kind, row.dtypes)
    for given in every:
        for dtype in dtypes.ALL:
            for call in (given, with_small_numbers(row, given)):
                values = of_one_element(row, call, dtype)
                args = tuple(_as_values(values.get(n)) for n in row.schema.names)
                assert is_taken(row, values) or not typing.takes(row, args), (dtype, values)


def _as_values(value: Any) -> Any:
    if isinstance(value, ad.Tensor):
        return Value("x", Type(tuple(value.shape), value.dtype))
    return tuple(map(_as_values, value)) if isinstance(value, list) else value


def test_kernels_that_know_no_halves_are_called_by_their_rows_alone() -> None:
    """In the expression of another row nobody would widen for them."""
    names = {row.kernel for row in TABLE.rows() if row.computes_wide}
    expressions = [row.kernel for row in TABLE.rows() if row.kernel and not row.names_kernel]
    assert [(n, e) for n in names for e in expressions if re.search(rf"\b{n}\b", e)] == []


def test_what_draws_is_random_and_nothing_else() -> None:
    """Rows of the families that draw say so, by a generator or by the column; no others do."""
    drawing = {row.full_name for row in TABLE.rows() if row.random}
    known = {row.full_name for row in TABLE.rows() if row.family in ("random", "dropout")}
    without = {"native_dropout_backward.default", "_masked_scale.default"}
    assert known - drawing == without
    others = [row for row in TABLE.rows() if row.full_name in drawing - known]
    assert all(r.name.startswith("rrelu") or "dropout_p" in r.schema.names for r in others)


if __name__ == "__main__":
    for path, count in ranking().most_common():
        if count:
            print(f"{count:4} {path:36} {ALLOWED.get(path, (0, ''))[1]}")
    print(f"{sum(ranking().values()):4} in all")
