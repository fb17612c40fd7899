"""Backward of a row: its reverse formulas, put together as one function of the node.

There are two: `raw`, on arrays, for a backward pass that nobody differentiates; `general`, on
tensors, for every other one. Both are written as Python text on first use, from the same pieces.
"""

from __future__ import annotations

import ast
from collections.abc import Callable
from functools import partial
from typing import Any

from adjoint.calls import compiled_text
from adjoint.core.dtypes import REDUCED, DType
from adjoint.core.errors import NotDifferentiable
from adjoint.core.float_warnings import NO_MODULE
from adjoint.core.remembering import remembered
from adjoint.homes import derive
from adjoint.loops.formula_loops import FormulaLoops
from adjoint.loops.gate import LARGE
from adjoint.ops import binding
from adjoint.table import TABLE
from adjoint.table.formula import BUILTINS, Formula, methods_used
from adjoint.table.rows import Reverse, Row
from adjoint.tape import backward_passes, narrow, observe, structural_zeros
from adjoint.tape.saving import RESULT, TENSOR, TENSORS, Save, all_saves, grad_names
from adjoint.tensor.nodes import SELECTS, Node, Rule
from adjoint.tensor.tensor import Tensor, make


class RowRule(Rule):
    """The rule of a row's node."""

    __slots__ = ("first_counter", "row", "saves")

    raw: Callable[..., Any] | None

    def __init__(self, row: Row) -> None:
        self.row = row
        derived = not row.reverse
        self.saves = all_saves(row) if derived else narrow.saves(row)
        self.first_counter = _first_counters(self.saves)
        name = "".join(w.capitalize() for w in row.schema.name.strip("_").split("_")) + "Backward0"
        saved_names = tuple(s.name for s in self.saves if not s.narrow)  # narrow ones come last
        if derived:
            super().__init__(name, self._derived, None, saved_names)
        else:
            holds = any(s.kind in (TENSOR, TENSORS, RESULT) for s in self.saves)
            super().__init__(name, self._first_general, self._first_raw, saved_names, holds)
        if row.schema.overload == "Scalar" and "Tensor" in TABLE.overloads(row.schema.name):
            self.numbers = sum(a.type.base == "Scalar" for a in row.schema.arguments[1:2])
        self.unary = (
            row.archetype.promotes
            and len(row.schema.tensors) == len(row.schema.returns) == len(row.differentiable) == 1
        )

        self.zeros = structural_zeros.kind_of(row)
        if self.zeros == SELECTS and self.raw is not None:
            self.raw, self.unmarked = self._marked, self.raw

    def _marked(self, node: Node, grad: Any, needs: Any) -> Any:
        """Like `raw`, with structural zeros marked in the gradients."""
        apply: Any = self.unmarked
        return structural_zeros.moved(apply, node, grad, apply(node, grad, needs))

    def _first_raw(self, node: Node, grad: Any, needs: Any) -> Any:
        function = write(self, raw=True)
        if self.unmarked is None:
            self.raw = function
        else:
            self.unmarked = function
        return function(node, grad, needs)

    def _first_general(self, node: Node, grad: Any, needs: Any, graph: bool) -> Any:
        function = write(self, raw=False)
        mixes = len(self.row.promoted_tensors) > 1 and _is_real_with_its_output(self.row)

        widens = self.row.widens  # rows that widen have one result

        def general(node: Node, grad: Any, needs: Any, graph: bool) -> Any:
            values = observe.unpack(node, self, graph)
            values = self._together(values, grad.dtype) if mixes else values
            if widens and grad.dtype.np in REDUCED and narrow.reverse_formulas(self.row):
                return write(self, raw=False, is_narrow=True)(values, grad, needs)
            return function(values, grad, needs)

        self.general = general
        return general(node, grad, needs, graph)

    def _together(self, values: list[Any], dtype: DType) -> list[Any]:
        """The saved operands in the dtype in which the row computed: see derive._together."""
        promoted = self.row.promoted_tensors
        found: list[Any] = []
        for save, value in zip(self.saves, values, strict=True):
            operand = save.kind == TENSOR and save.source in promoted
            if operand and value is not None and value.dtype is not dtype:
                value = derive.in_dtype(value, dtype)
            found.append(value)
        return found

    def _derived(self, node: Node, grad: Any, needs: Any, graph: bool) -> Any:
        """The transpose of the forward formula."""
        values = observe.unpack(node, self, graph)
        scope = dict(zip((s.name for s in self.saves), values, strict=False))
        return derive.reverse_from_forward(self.row, scope, grad, needs)


def _first_counters(saves: tuple[Save, ...]) -> dict[int, int]:
    """For each saved output, the index of its counter in a node's; for a list, of the first."""
    numbers = sorted({s.number for s in saves if s.kind == RESULT})
    return {number: place for place, number in enumerate(numbers)}


def refuse(message: str) -> None:
    """Raise because an input has no derivative."""
    raise NotDifferentiable(message)


def write(rule: RowRule, *, raw: bool, is_narrow: bool = False) -> Callable[..., Any]:
    """Write the backward function of a row: for arrays or tensors, for narrow dtypes or others."""
    known = _written(rule.row)
    if (raw, is_narrow) not in known:
        name = "raw" if raw else "general"
        title = f"narrow {name}" if is_narrow else name
        known[raw, is_narrow], _ = compiled_text.function(
            name,
            f"<adjoint {rule.row.full_name} backward {title}>",
            lambda: _lines(rule, raw, is_narrow),
            dict(_NAMESPACE),
            lambda formula: _bound(rule, formula, raw),
            rule.row.prepared_key(*title.split()),
        )
    return known[raw, is_narrow]


@remembered
def _written(row: Row) -> dict[tuple[bool, bool], Callable[..., Any]]:
    """The backward functions of a row by (on arrays, for narrow dtypes)."""
    return {}


_NAMESPACE: dict[str, Any] = {
    "_released": observe.check_kept,
    "_check": observe.check_versions,
    "_retains": backward_passes.retains,
    "__builtins__": BUILTINS,
    "__name__": NO_MODULE,
}


def _lines(rule: RowRule, raw: bool, is_narrow: bool) -> list[str]:
    row = rule.row
    others = narrow.reverse_formulas(row)
    lines = _load_raw(rule) if raw else ["def general(_s, _grad, _needs):"]
    if raw and others and not is_narrow:
        lines[1:1] = [
            "    if _node.dtype.itemsize == 2:",
            "        return _narrow(_node, _grad, _needs)",
        ]
    if not raw:
        lines += [f"    {s.name} = _s[{i}]" for i, s in enumerate(rule.saves)]
    lines += _gradients(row)
    offset: list[str] = ["0"]
    returned: list[str] = []
    positions: dict[str, str] = {}
    refused = [a for a in row.schema.tensors if a.name in row.refused]
    for i, argument in enumerate(a for a in (*row.differentiable, *refused) if a.type.is_list):
        lines.append(f"    _n_{argument.name} = _s[{len(rule.saves) + i}]")
    for argument in row.differentiable:
        start = " + ".join(offset)
        if argument.type.is_list:
            positions[argument.name] = f"any(_needs[{start}:{start} + _n_{argument.name}])"
            offset.append(f"_n_{argument.name}")
            returned.append(f"*_g_{argument.name}")
        else:
            positions[argument.name] = f"_needs[{start}]"
            offset.append("1")
            returned.append(f"_g_{argument.name}")
    for number, entry in enumerate(row.reverse):
        if entry.formula is not None:
            if is_narrow and number in others:
                lines += _narrow_entry(rule, entry, number, positions)
            else:
                lines += _entry(rule, entry, number, positions, raw)
    returned += [f"*([_grad] * _n_{a.name})" if a.type.is_list else "_grad" for a in refused]
    return [*lines, f"    return ({', '.join(returned)},)"]


def _bound(rule: RowRule, name: str, raw: bool) -> Callable[..., Any]:
    """The function that a backward text calls `_formula_0`, `_real_0` (for real numbers) or
    `_large_0` (for large arrays).
    """
    if name == "_narrow":
        return lambda *values: write(rule, raw=True, is_narrow=True)(*values)
    _, kind, number = name.split("_")
    row, entry = rule.row, rule.row.reverse[int(number)]
    assert entry.formula is not None
    if kind == "narrow":
        return _bound_narrow(rule, int(number), raw)
    if kind == "large":
        plain, parameters = _bound(rule, f"_formula_{number}", raw), _parameters(rule, entry)
        bind = partial(binding.bind, symbol="part", parameters=parameters, raw=raw)
        return FormulaLoops(entry.formula, parameters, plain, bind)
    formula = entry.formula.without_conj() if kind == "real" else entry.formula
    symbol = f"{row.schema.symbol}_{'_'.join(entry.inputs)}"
    key = row.prepared_key("raw" if raw else "general", name)
    return binding.bind(formula, symbol, _parameters(rule, entry), raw=raw, key=key)


def _bound_narrow(rule: RowRule, number: int, raw: bool) -> Callable[..., Any]:
    """The formula for narrow arrays or tensors: Note [Narrow derivatives] in tape/narrow.py."""
    row = rule.row
    formula, parameters = narrow.reverse_formulas(row)[number], _narrow_parameters(rule, number)
    inputs = "_".join(row.reverse[number].inputs)
    key = row.prepared_key("narrow", "raw" if raw else "general", str(number))
    bound = binding.bind(formula, f"{row.schema.symbol}_{inputs}", parameters, raw=raw, key=key)

    def widened(function: Callable[..., Any]) -> Callable[..., Any]:
        return lambda *values: function(*map(narrow.wide, values))

    if not raw:
        wide = widened(bound)
        return lambda *values: wide(*narrow.with_numbers(row, parameters, values))

    def part(formula: Formula) -> Callable[..., Any]:
        return widened(binding.bind(formula, "part", parameters, raw=True))

    loop = FormulaLoops(formula, parameters, widened(bound), part)
    place = parameters.index("grad") if "grad" in parameters else 0

    def apply(*values: Any) -> Any:
        function = loop if values[place].size >= LARGE else loop.plain
        return function(*narrow.with_numbers(row, parameters, values))

    return apply


def _narrow_parameters(rule: RowRule, number: int) -> tuple[str, ...]:
    return _known_names(rule, narrow.reverse_formulas(rule.row)[number])


def _parameters(rule: RowRule, entry: Reverse) -> tuple[str, ...]:
    """The names in a formula for which a backward function has values."""
    assert entry.formula is not None
    return _known_names(rule, entry.formula)


def _known_names(rule: RowRule, formula: Formula) -> tuple[str, ...]:
    known = {s.name for s in rule.saves} | {"grad_input_mask", "retain_variables"}
    return tuple(sorted(formula.names & (known | grad_names(rule.row).keys())))


def _load_raw(rule: RowRule) -> list[str]:
    lines = [
        "def raw(_node, _grad, _needs):",
        "    _s = _node.saved",
        "    if _s is None:",
        "        _released(_node)",
    ]
    results = {s.number for s in rule.saves if s.kind == RESULT}
    if len(results) == 1 and not rule.row.schema.returns[min(results)].type.is_list:
        lines += ["    if _node.counters[0].count:", "        _check(_node)"]
    elif results:
        lines += ["    for _c in _node.counters:", "        if _c.count:"]
        lines += ["            _check(_node)"]
    for i, save in enumerate(rule.saves):
        lines.append(f"    {save.name} = _s[{i}]")
        if save.kind == TENSOR:
            lines += [
                f"    if {save.name} is not None:",
                f"        if {save.name}.counter.count:",
            ]
            lines += ["            _check(_node)", f"        {save.name} = {save.name}.value"]
        elif save.kind == TENSORS:
            lines += [
                "    _check(_node)",
                f"    {save.name} = {save.name} and [_t if _t is None else _t.value for _t in "
                f"{save.name}]",
            ]
    return lines


def _gradients(row: Row) -> list[str]:
    """Name the output gradients as the formulas do."""
    used = {n for r in row.reverse if r.formula for n in r.formula.names}
    several = len(row.schema.returns) > 1 or any(r.type.is_list for r in row.schema.returns)
    lines = []
    for name, number in grad_names(row).items():
        if name in used:
            part = "_grad" if number < 0 or not several else f"_grad[{number}]"
            lines.append(f"    {name} = {part if several or number >= 0 else '[_grad]'}")
    if "retain_variables" in used:
        lines.append("    retain_variables = _retains()")
    return lines


def _is_real_with_its_output(row: Row) -> bool:
    """Whether all inputs are real if the output is, so that conj() does nothing."""
    promoted = {a.name for a in row.promoted}
    return (
        len(row.schema.returns) == 1
        and row.promote is None
        and row.archetype.promotes
        and all(a.name in promoted for a in row.schema.tensors)
        and not row.shape
    )


def _entry(
    rule: RowRule, entry: Reverse, number: int, needs: dict[str, str], raw: bool
) -> list[str]:
    row, formula = rule.row, entry.formula
    assert formula is not None
    parameters = _parameters(rule, entry)
    function = f"_formula_{number}"
    if raw and _is_real_with_its_output(row) and "conj" in methods_used(formula.tree):
        function = f"({function} if _node.dtype.kind == 'c' else _real_{number})"
    if raw and "grad" in parameters and len(row.schema.returns) == 1:
        arrays = ["_grad"] if row.archetype.promotes else _arrays_of(rule, entry)
        is_large = " or ".join(f"{name}.size >= {LARGE}" for name in arrays)
        function = f"(_large_{number} if {is_large} else {function})" if arrays else function
    call = f"{function}({', '.join(parameters)})"
    lines = []
    if "grad_input_mask" in parameters:
        mask = ", ".join(
            f"{needs[n]} is not None and {needs[n]} is not False" for n in entry.inputs
        )
        lines.append(f"    grad_input_mask = ({mask},)")
    names = [f"_g_{n}" for n in entry.inputs]
    if len(names) == 1:
        is_list = row.schema.argument(entry.inputs[0]).type.is_list
        none = f"[None] * _n_{entry.inputs[0]}" if is_list else "None"
        return [*lines, f"    {names[0]} = {call} if {needs[entry.inputs[0]]} else {none}"]
    wanted = " or ".join(needs[n] for n in entry.inputs)
    return [
        *lines,
        f"    {', '.join(names)} = {call} if {wanted} else ({', '.join(['None'] * len(names))})",
    ]


def _narrow_entry(rule: RowRule, entry: Reverse, number: int, needs: dict[str, str]) -> list[str]:
    """The lines for one formula in the backward function for narrow dtypes."""
    call = f"_narrow_{number}({', '.join(_narrow_parameters(rule, number))})"
    (name,) = entry.inputs
    return [f"    _g_{name} = {call} if {needs[name]} else None"]


def _arrays_of(rule: RowRule, entry: Reverse) -> list[str]:
    """The names of the arrays in a formula that is pure arithmetic, which one loop can compute."""
    assert entry.formula is not None
    if not isinstance(entry.formula.tree.body, ast.BinOp):
        return []
    given = {a.name for a in rule.row.schema.tensors if not (a.type.is_optional or a.type.is_list)}
    saved = [s for s in rule.saves if s.kind == TENSOR and not s.condition and s.source in given]
    return ["_grad", *(s.name for s in saved if s.name in entry.formula.names)]


def as_tensor(value: Any) -> Any:
    """Wrap an array that the engine passes to a general rule."""
    return value if value is None or isinstance(value, Tensor) else make(value)
