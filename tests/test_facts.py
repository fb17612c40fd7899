"""Facts about operators are columns of the table: code that treats all operators alike names few.

Counted are the string literals of `src/adjoint` that are the name of an operator or of a row
(`add`, `add.Tensor`), outside the table. `python -m tests.test_facts` prints the ranking.
"""

from __future__ import annotations

import ast
from collections import Counter
from collections.abc import Iterator
from pathlib import Path

from adjoint.table import TABLE

SOURCE = Path(__file__).parent.parent / "src" / "adjoint"
# Each rule, sample and function there is about one operator, which its messages name.
OF_ONE_OPERATOR = frozenset((
    "table", "kernels", "formulas", "shapes", "batching", "decompositions", "testing", "nn",
    "masked.py", "signal",
))  # fmt: skip
# Functions that make a node or call an operator: writing `rewriter.call("reshape.default", x)`
# is using an operator, not knowing a fact about it.
CALLS = frozenset(("packet", "operator", "call"))
MOST = 6  # names in a file without a reason of its own

# More names than that, each with its reason.
ALLOWED = {
    "export/numpy_table.py": (149, "NumPy text of operators"),
    "tensor/binding.py": (101, "names of NumPy's functions that a kernel may call"),
    "compiler/definitions.py": (82, "what each operator is to a loop"),
    "tensor/operators.py": (55, "Python's operators: which method `+` calls"),
    "graph/passes/simplify.py": (46, "rules of algebra"),
    "compiler/c/functions.py": (42, "names of C's functions"),
    "compiler/c/texts.py": (13, "names of C's functions that are quick, and of their types"),
    "compiler/c/variants.py": (13, "arguments: the exponent, the mode"),
    "compiler/c/accumulators.py": (11, "words of the column reduces, and of OpenMP"),
    "graph/passes/uniform.py": (31, "fills and moves"),
    "graph/functional.py": (28, "how views are undone"),
    "tensor/eager.py": (14, "Python's types as words of generated text"),
    "compiler/lower.py": (12, "smaller operators for some"),
    "graph/numbers.py": (12, "Python's operators on traced numbers"),
    "graph/statistics.py": (12, "products"),
    "ops/arguments.py": (12, "Python's types as words of schemas"),
    "compiler/c/numbers.py": (11, "names of C's types"),
    "graph/passes/sink_where.py": (11, "linear operators"),
    "tensor/meta.py": (11, "words of the columns like and promote"),
    "core/contraction.py": (10, "the steps of einsum"),
    "graph/passes/parts.py": (8, "rules about slices"),
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
    known = frozenset(n for row in TABLE.rows() for n in (row.name, row.full_name))
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


if __name__ == "__main__":
    for path, count in ranking().most_common():
        if count:
            print(f"{count:4} {path:36} {ALLOWED.get(path, (0, ''))[1]}")
    print(f"{sum(ranking().values()):4} in all")
