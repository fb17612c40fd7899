"""Checks of a whole row: everything that it names exists, and every derivative is stated.

`check_text` raises one `TableError` with all mistakes of a row, each on a line with
`file:line:column`; `check_functions` then writes and compiles every function of the row. Rows of
users are checked when `ad.library` reads them, ours by `tests/table/test_table.py`, so that a
checked row works as far as its text tells: no misspelt name shows up at the first backward, and no
derivative is zero because nobody wrote it.
"""

from __future__ import annotations

import ast
from collections.abc import Callable, Iterator
from typing import Any

from adjoint.calls import eager, reverse
from adjoint.core.errors import TableError, did_you_mean
from adjoint.ops import arguments, binding
from adjoint.ops import operator as operators
from adjoint.ops.operator import Operator
from adjoint.table import FAMILIES, TABLE
from adjoint.table import formula as language
from adjoint.table.formula import Formula
from adjoint.table.reading import Mistakes
from adjoint.table.rows import ForwardFormula, Row, is_reference
from adjoint.tape.saving import forward_parameters, reverse_parameters


def check_text(row: Row) -> None:
    """Raise `TableError` with every mistake that the text of a row shows."""
    mistakes = Mistakes()
    for part in _PARTS:
        with mistakes.gathered():
            mistakes.found += part(row)
    mistakes.told()


# -- what a row names ------------------------------------------------------------------------------


def _results(row: Row) -> Iterator[str]:
    """Complain of a number among the results, unless the row is ours and has a decomposition."""
    if row.family in FAMILIES and not row.kernel:
        return
    for returned in row.schema.returns:
        if not returned.type.is_tensor:
            kind = str(returned.type)
            place = row.place("name").of(kind)
            yield f"{place}: a result is a Tensor or a Tensor[], not a {kind}"


def _kernel(row: Row) -> Iterator[str]:
    if not row.kernel and not row.decompose:
        yield f"{row.where}: {row.full_name} needs a kernel, or decompose"
    if not row.kernel:
        return
    if row.names_kernel:
        function = binding.reference(row.kernel, "kernels", row, "kernel")
        yield from _takes(row, "kernel", function, len(row.schema.arguments))
    else:
        binding.kernel_expression(row)
    returns = row.schema.returns
    if not returns or (len(returns) > 1 and any(r.type.is_list for r in returns)):
        yield f"{row.place('name')}: a kernel returns tensors, or one list of tensors"


def _numpy(row: Row) -> Iterator[str]:
    """Check the column `numpy`; only our rows may name a function of export/."""
    text = row.texts.get("numpy", "")
    if not text or row.family in FAMILIES:
        return
    if not is_reference(text, row.schema.names):
        binding.kernel_expression(row, "numpy")
    elif text.startswith("xp."):
        function = binding.reference(text, "kernels", row, "numpy")
        yield from _takes(row, "numpy", function, len(row.schema.arguments))
    else:
        yield f"{row.place('numpy')}: numpy: {text} is no function of xp, and no expression"


def _shape(row: Row) -> Iterator[str]:
    if row.shape:
        function = binding.reference(row.shape, "shapes", row, "shape")
        yield from _takes(row, "shape", function, len(row.schema.arguments))


def _batch(row: Row) -> Iterator[str]:
    function = binding.batching(row)
    if function is not None:
        yield from _takes(row, "batch", function, 1 + len(row.schema.arguments))


def _takes(row: Row, column: str, function: Any, count: int) -> Iterator[str]:
    """Complain unless a function takes `count` arguments by position and writes to none."""
    named = row.texts[column]
    if not callable(function):
        yield f"{row.place(column)}: {column}: {named} is a value, not a function"
    elif not binding.takes(function, count):
        yield f"{row.place(column)}: {column}: {named} does not take {count} arguments"


def _decompose(row: Row) -> Iterator[str]:
    if not row.decompose:
        return
    if row.maps:
        try:
            binding.reference(row.decompose, "decompositions", row, "name")
        except TableError:
            hint = did_you_mean(row.maps, TABLE.names())
            yield f"{row.place('name')}: there is no operator {row.maps!r} to map{hint}"
        return
    if row.names_decomposition:
        function = binding.reference(row.decompose, "decompositions", row, "decompose")
        yield from _takes(row, "decompose", function, len(row.schema.arguments))
        return
    formula = language.parse(row.decompose, row.place("decompose"), ())
    yield from _named(row, formula, frozenset(row.schema.names))


def _fan(row: Row) -> Iterator[str]:
    name = row.texts.get("fan")
    if not name:
        return
    if not operators.exists(name):
        hint = did_you_mean(name, TABLE.names())
        yield f"{row.place('fan')}: fan: there is no operator {name!r}{hint}"
    count = len(row.schema.arguments) + len(row.schema.returns) + 1
    if operators.exists(name) and not binding.takes_operator(name, count):
        yield (
            f"{row.place('fan')}: fan: {name} does not take the arguments, the results and a number"
        )
    if len(row.schema.returns) < 2:
        yield f"{row.place('fan')}: fan is for operators with several results"
    if not row.texts.get("clusters"):
        yield f"{row.place('fan')}: fan: the column clusters says where a fan is needed"
        return
    finder = binding.reference(row.texts["clusters"], "kernels", row, "clusters")
    yield from _takes(row, "clusters", finder, count)


def _kink(row: Row) -> Iterator[str]:
    text = row.texts.get("kink")
    if not text:
        return
    tree = language.condition(text, row.place("kink"))
    known = {a.name for a in row.schema.arguments if not a.type.is_tensor}
    yield from _unknown(row, "kink", tree, known)
    if len(row.schema.returns) != 1 or row.schema.returns[0].type.is_list or not row.kernel:
        yield f"{row.place('kink')}: kink is for operators with a kernel and one result"


def _unknown(row: Row, column: str, tree: ast.AST, known: set[str]) -> Iterator[str]:
    for name in sorted(language.free_names(tree) - known):
        where = row.place(column).of(name)
        yield f"{where}: unknown name {name!r} in a condition{did_you_mean(name, known)}"


# -- derivatives -----------------------------------------------------------------------------------


def _formulas(row: Row) -> Iterator[str]:
    for entry in row.reverse:
        if entry.formula is not None:
            yield from _named(row, entry.formula, reverse_parameters(row))
            yield from _conditions(row, entry.formula)
    for item in row.forward:
        if item.formula is not None:
            yield from _named(row, item.formula, forward_parameters(row))


def _named(row: Row, formula: Formula, parameters: frozenset[str]) -> Iterator[str]:
    mistakes = Mistakes()
    with mistakes.gathered():
        binding.check(formula, parameters)
    yield from mistakes.found
    yield from _of_no_tensor(row, formula)


def _of_no_tensor(row: Row, formula: Formula) -> Iterator[str]:
    """Complain of methods and attributes of arguments that are numbers or lists."""
    others = {
        a.name: a.type for a in row.schema.arguments if not a.type.is_tensor or a.type.is_list
    }
    for node in ast.walk(formula.tree):
        if isinstance(node, ast.Attribute) and isinstance(node.value, ast.Name):
            kind = others.get(node.value.id)
            if kind is not None:
                where = formula.where.of(node.attr)
                yield f"{where}: {node.value.id} is a {kind} and has no .{node.attr}"


def _conditions(row: Row, formula: Formula) -> Iterator[str]:
    known = {*row.schema.names, "grad_input_mask"}
    for name, text in formula.conditions.items():
        if name not in row.schema.names:
            where = formula.where.of(name)
            yield f"{where}: wrap_opt_if: {name!r} is no argument of {row.schema.text!r}"
        tree = ast.parse(text, mode="eval")
        for unknown in sorted(language.free_names(tree) - known):
            where = formula.where.of(unknown)
            yield f"{where}: unknown name {unknown!r} in a condition{did_you_mean(unknown, known)}"


def _decided(row: Row) -> Iterator[str]:
    for name in row.undecided:
        yield (
            f"{row.place('name').of(name)}: nothing says how {row.full_name} is differentiated in "
            f"{name}; write a formula, `{name}: zero`, `{name}: non_differentiable`, or "
            f"`{name}: not_implemented('why')`; a row with no derivative at all says "
            "`output_differentiability: [False]`"
        )


def _forward(row: Row) -> Iterator[str]:
    """Check that forward formulas cover every output."""
    if not row.forward:
        return
    served = {f.output for f in row.forward}
    for returned, wanted in zip(row.schema.returns, row.differentiable_outputs, strict=True):
        if wanted and returned.name not in served:
            yield f"{row.where}: there is a forward formula, but none for {returned.name}"
    formulas = [f.formula for f in row.forward if f.formula is not None]
    used = {n for f in formulas for n in f.names}
    if len(formulas) == len(row.forward):
        for name in [a.name for a in row.differentiable if a.name not in row.flat]:
            if f"{name}_t" not in used:
                where = row.place(row.forward[0].output)
                yield f"{where}: no forward formula uses {name}_t"
    for item in row.forward:
        yield from _derivable(row, item)


def _derivable(row: Row, item: ForwardFormula) -> Iterator[str]:
    """Check that an automatic forward formula has the reverse formulas and the row it needs."""
    where = row.place(item.output)
    if not any(e.formula is not None for e in row.reverse):
        if item.automatic:
            yield f"{where}: {item.automatic} needs a reverse formula"
        elif any(a.type.is_list for a in row.differentiable):
            yield f"{where}: a list of tensors needs a reverse formula"
    elif item.automatic and (missing := _MISSING[item.automatic](row)):
        yield f"{where}: {item.automatic} needs {missing}"


def _to_be_linear(row: Row) -> str:
    return "" if len(row.schema.returns) == 1 else "one result"


def _to_be_element_wise(row: Row) -> str:
    if any(a.type.is_list for a in row.differentiable):
        return "tensors, not a list of them"
    several = any(len(e.inputs) > 1 for e in row.reverse if e.formula and e.word != "zero")
    return "one formula for each input" if several else ""


def _to_be_multilinear(row: Row) -> str:
    factors = [a for a in row.differentiable if a.name not in row.flat]
    if len(factors) < 2 and not any(a.type.is_list for a in factors):
        return "two inputs with a derivative, or a list of them"
    return _to_be_linear(row)


def _to_be_gather(row: Row) -> str:
    if len(row.differentiable) != 1 or row.differentiable[0].type.is_list:
        return "one input with a derivative"
    if not any(a.name == "dim" and str(a.type) == "int" for a in row.schema.arguments):
        return "an argument `int dim`"
    return "" if any(r.name == "indices" for r in row.schema.returns) else "a result `indices`"


_MISSING: dict[str, Callable[[Row], str]] = {
    "auto_linear": _to_be_linear,
    "auto_element_wise": _to_be_element_wise,
    "auto_multilinear": _to_be_multilinear,
    "auto_gather": _to_be_gather,
}


# -- columns that must fit the schema --------------------------------------------------------------


def _archetype(row: Row) -> Iterator[str]:
    where, kind = row.place("like"), row.archetype
    promoted = [a for a in row.promoted if a.type.is_tensor]
    tensors = [a for a in row.schema.tensors if not a.type.is_list]
    if kind.promotes and any(a.type.is_optional for a in promoted[:1]):
        yield f"{where}: the first tensor of {kind.name} cannot be absent"
    if kind.shape and (not tensors or tensors[0].type.is_optional):
        yield f"{where}: {kind.name} needs a tensor among its arguments"
    if kind.shape == "reduce" and len(row.schema.returns) != 1:
        yield f"{where}: {kind.name} has one result"
    if kind.shape == "view" and not (row.schema.is_view or row.schema.replaces):
        yield f"{where}: {kind.name} needs a result that shares memory: -> Tensor(a)"
    for column in ("order", "numbers"):
        if row.texts.get(column) and not promoted:
            yield f"{row.place(column)}: {column} is for operators that promote dtypes"


def _facts(row: Row) -> Iterator[str]:
    """Check that the columns read by passes and the compiler name arguments of the right kind."""
    schema = row.schema
    first = schema.arguments[0].type if schema.arguments else None
    tensor = first is not None and first.is_tensor and not (first.is_list or first.is_optional)
    alone = tensor and len(schema.arguments) == 1
    single = len(schema.returns) == 1 and not schema.returns[0].type.is_list
    dims = [a.type for a in schema.arguments if a.name == "dim"]
    needs: dict[str, tuple[bool, str]] = {
        "moves": (tensor, "a tensor as its first argument"),
        "reduces": (tensor and all(t.base == "int" for t in dims), "a tensor, and `dim` if any"),
        "accumulates": (tensor and bool(dims) and not dims[0].is_list, "a tensor, and `int dim`"),
        "fills": (True, "nothing more"),
        "product": (tensor, "a tensor as its first argument"),
        "linear": (row.archetype.promotes or alone, "like: pointwise"),
        "identity": (row.archetype.promotes, "like: pointwise"),
        "undoes": (alone, "one argument, a tensor"),
        "overwrites": (_fits_view(row), "(Tensor self, Tensor src, what the view takes)"),
    }
    for column, (fits, wanted) in needs.items():
        if column in row.texts and not (fits and single):
            yield f"{row.place(column)}: {column} needs {wanted}, and one result"


def _fits_view(row: Row) -> bool:
    """Whether a row takes the arguments of the view that it overwrites, and the new values."""
    name, _, overload = row.overwrites.partition(".")
    if name not in TABLE or overload.replace("default", "") not in TABLE.overloads(name):
        return False
    view = TABLE.row(name, overload).schema.names
    return row.schema.names[:1] + row.schema.names[2:] == view


def _selects(row: Row) -> Iterator[str]:
    if "selects" in row.texts and not any(r.formula for r in row.reverse):
        yield (
            f"{row.place('selects')}: selects is for operators with reverse formulas, which tell "
            "what was selected"
        )


def _writes(row: Row) -> Iterator[str]:
    """Check that a row writes only its result, and only over its first argument."""
    schema = row.schema
    if not schema.mutates or (row.decompose and not schema.replaces):
        return
    first = schema.arguments[0]
    single = len(schema.returns) == 1 and schema.returns[0].writes
    written = [a for a in schema.arguments if a.writes]
    if not single or written != [first] or first.type.is_list or first.type.is_optional:
        yield (
            f"{row.place('name')}: an operator that writes is "
            "name_(Tensor(a!) self, …) -> Tensor(a!), or has a decomposition"
        )


def _defaults(row: Row) -> Iterator[str]:
    for argument in row.schema.arguments:
        if argument.has_default:
            try:
                arguments.convert(row.name, argument, argument.default)
            except Exception as error:  # any error of a converter: it is no valid default
                yield f"{row.place('name').of(argument.name)}: {error}"


_PARTS: tuple[Callable[[Row], Iterator[str]], ...] = (
    _results,
    _kernel,
    _numpy,
    _shape,
    _batch,
    _decompose,
    _fan,
    _kink,
    _formulas,
    _decided,
    _forward,
    _archetype,
    _facts,
    _selects,
    _writes,
    _defaults,
)


# -- writing every function ------------------------------------------------------------------------


def check_functions(row: Row) -> None:
    """Write and compile all functions of a row whose text is right."""
    op = Operator(row)
    if not callable(op.function):
        raise TableError(f"{row.where}: {row.full_name} cannot be called")
    rule = eager.rule_of(op.row)
    if row.kernel and any(e.formula is not None for e in row.reverse):
        for raw in (True, False):
            reverse.write(rule, raw=raw)
    for item in row.forward:
        if item.formula is not None:
            parameters = tuple(sorted(item.formula.names & forward_parameters(row)))
            binding.bind(item.formula, f"{row.schema.symbol}_tangent", parameters, raw=False)
    if row.decompose:
        binding.decomposition(row)
