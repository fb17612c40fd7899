"""The eager interpreter: writes, for each row, a Python function that runs it on plain tensors.

The function checks types once, calls the kernel on the arrays, wraps the result and, if a gradient
is wanted, records a node. Everything known beforehand (promotion, what to save, which inputs
have a derivative) is decided here, when the text is written, so a call runs straight through.
Anything unusual (arrays in place of tensors, `out=`, dual tensors, transforms) goes to
`dispatch.slow`.

`_Writer` holds the pieces of text; `build` puts them together; `print(ad.ops.mul.Tensor.source)`
shows the result.
"""

from __future__ import annotations

import ast
import dataclasses
import keyword
import re
import sys
from collections.abc import Callable
from typing import Any

import numpy as np

from adjoint.core.dtypes import DIFFERENTIABLE, INEXACT, OF, DType, bfloat16
from adjoint.core.errors import DtypeError, TableError
from adjoint.core.generator import Generator
from adjoint.core.places import of_user, place_of
from adjoint.core.promotion import promote, promote_checked, promote_powers
from adjoint.core.quiet import NO_MODULE
from adjoint.core.remembering import remembered
from adjoint.core.returns import results_class
from adjoint.core.state import current, inference_modes
from adjoint.ops import arguments
from adjoint.ops.operator import Operator, operator
from adjoint.table import FAMILIES
from adjoint.table import formula as language
from adjoint.table.archetypes import NOT_PROMOTED
from adjoint.table.formula import BUILTINS
from adjoint.table.rows import Row
from adjoint.table.schema import Argument, parse
from adjoint.tensor import binding, dispatch, inplace, limits, observe, views, written
from adjoint.tensor import operators as dunders
from adjoint.tensor.reverse import RowRule
from adjoint.tensor.saving import FACT, RESULT, TENSOR, TENSORS, Save
from adjoint.tensor.tape import (
    ZERO,
    Counter,
    Node,
    Output,
    Refusal,
    mark_inference,
    next_sequence,
)
from adjoint.tensor.tensor import Tensor

_NAMESPACE: dict[str, Any] = {
    "_Tensor": Tensor,
    "_new": object.__new__,
    "_Node": Node,
    "_Output": Output,
    "_ZERO": ZERO,
    "_Counter": Counter,
    "_state": current,
    "_INFERENCE": inference_modes,
    "_mark": mark_inference,
    "_ndarray": np.ndarray,
    "_asarray": np.asarray,
    "_INEXACT": INEXACT,
    "_DIFFERENTIABLE": DIFFERENTIABLE,
    "_WEAK": INEXACT - {bfloat16.np},
    "_slow": dispatch.slow,
    "_recover": dispatch.recover,
    "_sequence": next_sequence,
    "_frame": sys._getframe,
    "_place_of": place_of,
    "_of_user": of_user,
    "_DUNDERS": vars(dunders),
    "_NUMBERS": arguments.NUMBERS,
    "_DType": DType,
    "_Generator": Generator,
    "_OF": OF,
    "_observe": observe.observe,
    "_view": views.attach,
    "_MISSING": arguments.MISSING,
    "_same": dispatch.same_dtype,
    "_plain": dispatch.all_plain,
    "_plain_or_none": dispatch.all_plain_or_none,
    **limits.NAMESPACE,
    "xp": np,
    "_convert": arguments.convert,
    "_WHOLE": arguments.WHOLE,
    "_map": map,
    "_Refusal": Refusal,
    "_UNUSUAL": dispatch.UNUSUAL,
    "_explain": dispatch.raise_explained,
    "_versions_of": observe.versions_of,
    "_watch": observe.watch,
    "__builtins__": BUILTINS
    | {"type": type, "Exception": Exception, "str": str, "complex": complex},
    "__name__": NO_MODULE,
}

# Column `numbers`: what becomes of a Python number that an integer dtype cannot hold.
_PROMOTIONS = {"wrap": promote, "checked": promote_checked, "powers": promote_powers}


def build(op: Operator) -> Callable[..., Any]:
    """Return the function of an operator."""
    if op.is_derived_inplace:
        return inplace.build(op, operator(op.row.name, op.row.schema.overload).function)
    if op.schema.replaces:
        return inplace.build(op, _functional(op))
    composite = op.row.decompose and not op.row.kernel
    write = _Writer.composite if composite else _Writer.kernel_function
    function = _function(op, "function", _symbol(op), write)
    function.__doc__ = f"{op.schema}\n\n{op.row.doc}".rstrip()
    function.__module__ = "adjoint"
    return function


def _functional(op: Operator) -> Callable[..., Any]:
    """The operator without its write: one in its own right, which any interpreter can run."""
    schema = parse(re.sub(r"\(\w!\)", "", op.schema.text))
    row = dataclasses.replace(op.row, schema=schema)
    vars(row)["prepared_as"] = op.row.prepared_key("functional")
    return Operator(row).function


def build_parts(op: Operator) -> Parts:
    """Return `compute` and `record` of an operator, for interpreters other than the eager one."""
    compute = _function(op, "compute", "compute", _Writer.compute)
    if not op.row.differentiable and not op.row.refused:
        return Parts(compute, None)
    return Parts(compute, _function(op, "record", "record", _Writer.record))


def _function(
    op: Operator, kind: str, symbol: str, write: Callable[[_Writer], list[str]]
) -> Callable[..., Any]:
    """A function of an operator from its text; the text is added to `op.source`."""
    function, text = written.function(
        symbol,
        f"<adjoint {op.full_name} {symbol}>",
        lambda: write(_Writer(op)),
        _NAMESPACE | {"_op": op},
        lambda name: _value(op, name),
        op.row.prepared_key(kind),
    )
    op.source = op.__dict__.get("source", "") + text  # type: ignore[attr-defined]
    return function


def _value(op: Operator, name: str) -> Any:
    """The value of a name in generated text that depends on the operator."""
    if name in _OF_OPERATOR:
        return _OF_OPERATOR[name](op)
    if kernel := language.function_bound(name):
        return binding.reference(kernel, "kernels", op.row, "kernel")
    _, kind, argument = name.split("_", 2)  # _default_dim
    found = next(a for a in op.row.schema.arguments if python_name(a.name) == argument)
    return _OF_ARGUMENT[kind](op, found)


def _symbol(op: Operator) -> str:
    return python_name(op.row.schema.symbol)


class Parts:
    """An operator in two steps: arrays from tensors, and the node."""

    def __init__(self, compute: Callable[..., Any], record: Callable[..., Any] | None) -> None:
        self.compute = compute
        self.record = record


def python_name(name: str) -> str:
    """An argument's name as Python allows it: `from` becomes `from_`."""
    return f"{name}_" if keyword.iskeyword(name) else name


def _indent(lines: list[str], depth: int = 1) -> list[str]:
    return ["    " * depth + line for line in lines]


class _Writer:
    """Writes the functions of one operator."""

    def __init__(self, op: Operator) -> None:
        self.op = op
        self.row: Row = op.row
        self.schema = op.row.schema
        self.names = [python_name(a.name) for a in self.schema.arguments]
        self.call = ", ".join(self.names)
        self.tuple = f"({self.call},)" if self.names else "()"
        row = self.row
        self.differentiable = row.differentiable
        self.refused = [a for a in self.schema.tensors if a.name in row.refused]
        self.through_decomposition = bool(
            row.decompose and row.kernel and not row.reverse and not row.forward
        )

    # -- whole functions ---------------------------------------------------------------------

    def kernel_function(self) -> list[str]:
        body = self._normalise()
        body += self._decomposition_when_recording()
        body += self._compute(recover=True)
        body += self._wrap()
        body += self._record_if_wanted()
        body += self._approach_kink()
        body += [f"return {self._named(self._outs())}"]
        return [
            self._signature(),
            f"    if {self._condition()}:",
            *_indent(body, 2),
            self._fallback(),
        ]

    def composite(self) -> list[str]:
        """Tensors of any home will do: the operators that it is made of see to levels."""
        body = self._normalise()
        return [
            self._signature(),
            f"    if {self._condition(plain=False)}:",
            *_indent(body, 2),
            "        try:",
            f"            return {self._named(f'_decomposition({self.call})')}",
            "        except _UNUSUAL as _error:",
            f"            _explain(_op, _error, {self.tuple})",
            self._fallback(),
        ]

    def compute(self) -> list[str]:
        lines = [f"def compute({self.call}):", *_indent(self._compute(recover=False))]
        return [*lines, f"    return {self._results()}"]

    def record(self) -> list[str]:
        lines = [f"def record({', '.join([*self.names, '_outs', '_home', '_mode'])}):"]
        lines += _indent([f"{self._outs()} = _outs" if self._several() else "_out = _outs"])
        return lines + _indent(self._results_of_outs() + self._edges() + self._record(home="_home"))

    # -- signature and arguments -------------------------------------------------------------

    def _signature(self) -> str:
        pieces: list[str] = []
        keyword_only = False
        for argument, name in zip(self.schema.arguments, self.names, strict=True):
            if argument.keyword_only and not keyword_only:
                pieces.append("*")
                keyword_only = True
            default = "_MISSING"
            if argument.has_default or argument.type.is_optional:
                default = f"_default_{name}"
            pieces.append(f"{name}={default}")
        pieces.append("**_extra")
        return f"def {_symbol(self.op)}({', '.join(pieces)}):"

    def _condition(self, *, plain: bool = True) -> str:
        checks = ["not _extra"]
        if self.row.archetype.name == "creation" or self.row.random or self.schema.name == "clone":
            checks.append(
                "not _state().levels"
            )  # inside a transform, its level sees what is created
        for argument, name in zip(self.schema.arguments, self.names, strict=True):
            kind = argument.type
            if kind.is_tensor and kind.is_list:
                checks.append(f"_plain{'_or_none' * kind.holds_none}({name})")
            elif kind.is_tensor:
                test = f"type({name}) is _Tensor" + f" and {name}.home is None" * plain
                checks.append(f"({name} is None or {test})" if kind.is_optional else test)
            elif kind.base in ("Device", "Layout") or name == "pin_memory":
                checks.append(f"{name} is None")  # anything else is checked on the slow way
            elif not argument.has_default and not kind.is_optional:
                checks.append(f"{name} is not _MISSING")
        return " and ".join(checks)

    def _fallback(self) -> str:
        return f"    return {self._named(f'_slow(_op, {self.tuple}, _extra)')}"

    def _normalise(self) -> list[str]:
        """Convert arguments that are not of the schema's type; a type check each when they are."""
        lines: list[str] = []
        for argument, name in zip(self.schema.arguments, self.names, strict=True):
            test = self._is_normal(argument, name)
            if test:
                lines += [
                    f"if not ({test}):",
                    f"    {name} = _convert({self.schema.name!r}, _arg_{name}, {name})",
                ]
        return lines

    def _is_normal(self, argument: Argument, name: str) -> str:
        kind = argument.type
        tests = {
            "int": f"type({name}) is int",
            "Scalar": f"type({name}) in _NUMBERS",
            "float": f"type({name}) is float",
            "bool": f"type({name}) is bool",
            "ScalarType": f"type({name}) is _DType",
            "str": f"type({name}) is str",
            "Generator": f"type({name}) is _Generator",
            "MemoryFormat": f"type({name}) is int or type({name}) is str",
        }
        if kind.base not in tests:
            return ""
        test = tests[kind.base]
        if kind.is_list:
            # a tuple is trusted to hold ints only after conversion; checking entries costs little
            test = (
                f"type({name}) is tuple and _WHOLE.issuperset(_map(type, {name}))"
                if kind.base == "int"
                else "False"
            )
        return f"{name} is None or ({test})" if kind.is_optional else test

    # -- kernel ------------------------------------------------------------------------------

    def _compute(self, *, recover: bool) -> list[str]:
        lines = []
        for argument, name in zip(self.schema.arguments, self.names, strict=True):
            if argument.type.is_tensor:
                lines.append(f"_v_{name} = {self._value(argument, name)}")
        kernel = [*self._promotion(), *self._order(), f"{self._results()} = {self._kernel()}"]
        if self._may_mix():
            lines.append("_chosen = _rule")
        if recover:
            lines += ["try:", *_indent(kernel), "except Exception as _error:"]
            lines += [f"    {self._results()} = _recover(_op, _error, {self.tuple})"]
        else:
            lines += kernel
        return lines + self._as_arrays() + limits.after_kernel(self.row)

    def _value(self, argument: Argument, name: str) -> str:
        kind = argument.type
        if kind.is_list:
            inner = "None if _t is None else _t.value" if kind.holds_none else "_t.value"
            every = f"[{inner} for _t in {name}]"
            return f"None if {name} is None else {every}" if kind.is_optional else every
        return f"None if {name} is None else {name}.value" if kind.is_optional else f"{name}.value"

    def _promotion(self) -> list[str]:
        promoted = self.row.promoted
        tensors = [a for a in promoted if a.type.is_tensor]
        if not tensors:
            return []
        to_float = self.row.archetype.to_float
        needed = self._promotion_needed(
            tensors, [a for a in promoted if not a.type.is_tensor], to_float
        )
        if not needed:
            return []
        targets = [f"_v_{a.name}" if a.type.is_tensor else python_name(a.name) for a in promoted]
        joined = ", ".join(targets) + ","
        lines = [f"if {needed}:", f"    {joined} = _promote(({joined}), {to_float})"]
        if self._may_mix():
            lines.append("    _chosen = _mixed")
        return lines + self._real_numbers(tensors[0])

    def _may_mix(self) -> bool:
        """Whether operands of several dtypes are brought to one: their node needs another rule."""
        return len(self.row.promoted_tensors) > 1 and self._can_have_gradient()

    def _real_numbers(self, tensor: Argument) -> list[str]:
        """Refuse complex numbers beside real tensors where they do not decide the dtype."""
        lines: list[str] = []
        promoted = {a.name for a in self.row.promoted}
        for argument, name in zip(self.schema.arguments, self.names, strict=True):
            if argument.type.base == "Scalar" and argument.name not in promoted | NOT_PROMOTED:
                lines += [
                    f'if type({name}) is complex and _v_{tensor.name}.dtype.kind != "c":',
                    f"    _must_be_real(_op, {argument.name!r}, {name})",
                ]
        return lines

    def _order(self) -> list[str]:
        """Column `order: needed`: refuse complex numbers, which NumPy would put in some order."""
        if self.row.texts.get("order") != "needed":
            return []
        first = next(a for a in self.row.promoted if a.type.is_tensor)
        return [f'if _v_{first.name}.dtype.kind == "c":', "    _unordered(_op)"]

    def _promotion_needed(
        self, tensors: list[Argument], scalars: list[Argument], to_float: bool
    ) -> str:
        first = f"_v_{tensors[0].name}"
        tests: list[str] = []
        if any(a.type.is_optional for a in tensors) or len(tensors) > 2:
            tests.append(f"not _same(({', '.join(f'_v_{a.name}' for a in tensors)},))")
        elif len(tensors) == 2:
            tests.append(f"{first}.dtype is not _v_{tensors[1].name}.dtype")
        if to_float or scalars:
            # NumPy's weak promotion of Python numbers does not extend to bfloat16
            known = "_WEAK" if scalars else "_INEXACT"
            tests.append(f"{first}.dtype not in {known}")
        tests += [f"type({python_name(a.name)}) is complex" for a in scalars]
        return " or ".join(tests)

    def _kernel(self) -> str:
        text = self.row.kernel
        values = [
            f"_v_{n}" if a.type.is_tensor else n
            for a, n in zip(self.schema.arguments, self.names, strict=True)
        ]
        if not text:
            raise TableError(
                f"{self.row.where}: {self.op.full_name} has neither kernel nor decompose"
            )
        if self.row.names_kernel:
            return f"_kernel({', '.join(values)})"
        return ast.unparse(binding.kernel_expression(self.row)[0])

    def _as_arrays(self) -> list[str]:
        lines: list[str] = []
        for i, returned in enumerate(self.schema.returns):
            name = self._result(i)
            if returned.type.is_tensor and returned.type.is_list:
                lines.append(
                    f"{name} = [_v if type(_v) is _ndarray else _asarray(_v) for _v in {name}]"
                )
            elif returned.type.is_tensor:
                lines += [f"if type({name}) is not _ndarray:", f"    {name} = _asarray({name})"]
        return lines + self._own_results()

    def _own_results(self) -> list[str]:
        """A kernel from outside may return anything: odd dtypes, its own arguments."""
        if self.row.family in FAMILIES:
            return []
        arrays = "".join(
            f"_v_{python_name(a.name)}, " for a in self.schema.arguments if a.type.is_tensor
        )
        names = [self._result(i) for i in range(len(self.schema.returns))]
        return [f"{name} = _own(_op, {name}, ({arrays}))" for name in names]

    def _approach_kink(self) -> list[str]:
        test, found = limits.after_recording(self.row, self.tuple, self._outs())
        return [f"if {test}:", f"    return {self._named(found)}"] if test else []

    # -- results -----------------------------------------------------------------------------

    def _several(self) -> bool:
        return len(self.schema.returns) > 1

    def _result(self, i: int) -> str:
        return f"_r{i}" if self._several() else "_r"

    def _out(self, i: int) -> str:
        return f"_out{i}" if self._several() else "_out"

    def _results(self) -> str:
        return ", ".join(self._result(i) for i in range(len(self.schema.returns))) or "_r"

    def _outs(self) -> str:
        return ", ".join(self._out(i) for i in range(len(self.schema.returns))) or "_r"

    def _named(self, results: str) -> str:
        """Several results under the names that the schema gives them: x.sort().values."""
        names = tuple(r.name for r in self.schema.returns)
        if len(names) < 2 or names == tuple(f"result{i}" for i in range(len(names))):
            return results
        return f"_Results(({results}))"

    def _results_of_outs(self) -> list[str]:
        lines = []
        for i, returned in enumerate(self.schema.returns):
            if not returned.type.is_tensor:
                continue
            out = self._out(i)
            lines.append(
                f"{self._result(i)} = "
                f"{f'[_t.value for _t in {out}]' if returned.type.is_list else f'{out}.value'}"
            )
        return lines

    def _wrap(self) -> list[str]:
        lines: list[str] = []
        for i, returned in enumerate(self.schema.returns):
            out, result = self._out(i), self._result(i)
            if not returned.type.is_tensor:
                lines.append(f"{out} = {result}")
            elif returned.type.is_list:
                lines += [f"{out} = []", f"for _v in {result}:"]
                lines += _indent(
                    ["_t = _new(_Tensor)", "_t.value = _v", *_fresh("_t"), f"{out}.append(_t)"]
                )
            else:
                lines += [f"{out} = _new(_Tensor)", f"{out}.value = {result}", *_fresh(out)]
            if returned.type.is_tensor and (returned.writes or not returned.alias):
                lines += ["if _INFERENCE:", f"    _mark({out})"]  # Note [Inference] in tape.py
            elif returned.alias:
                base = next(
                    python_name(a.name) for a in self.schema.arguments if a.alias == returned.alias
                )
                rest = self.tuple.replace(f"{base}, ", "", 1) if len(self.names) > 1 else "()"
                lines.append(f"_view(_op, {base}, {out}, {rest})")
        return lines

    # -- the tape ----------------------------------------------------------------------------

    def _edges(self) -> list[str]:
        lines = []
        for argument in self.differentiable:
            name = python_name(argument.name)
            if argument.type.is_list:
                entry = "None if _t is None else _t.edge" if argument.type.holds_none else "_t.edge"
                lines.append(f"_e_{name} = [{entry} for _t in {name}]")
            elif argument.type.is_optional:
                lines.append(f"_e_{name} = None if {name} is None else {name}.edge")
            else:
                lines.append(f"_e_{name} = {name}.edge")
        for argument in self.refused:
            name = python_name(argument.name)
            single = "_t" if argument.type.is_list else name
            may_be_none = argument.type.holds_none or argument.type.is_optional
            absent = f"{single} is None or {single}.edge is None"
            if not may_be_none:
                absent = f"{single}.edge is None"
            edge = f"None if {absent} else _Refusal(_refusal_{name}, {single}.edge)"
            if argument.type.is_list:
                edge = f"[{edge} for _t in {name} or ()]"
            lines.append(f"_e_{name} = {edge}")
        return lines

    def _any_edge(self) -> str:
        tests = []
        for argument in (*self.differentiable, *self.refused):
            name = f"_e_{python_name(argument.name)}"
            tests.append(
                f"any(_e is not None for _e in {name})"
                if argument.type.is_list
                else f"{name} is not None"
            )
        return " or ".join(tests)

    def _can_have_gradient(self) -> bool:
        outputs = zip(self.schema.returns, self.row.differentiable_outputs, strict=True)
        tensors = any(r.type.is_tensor and d for r, d in outputs)
        return (
            tensors
            and bool(self.differentiable or self.refused)
            and self.row.archetype.result != "bool"
        )

    def _decomposition_when_recording(self) -> list[str]:
        if not self.through_decomposition:
            return []
        tests = []
        for argument in self.schema.tensors:
            name = python_name(argument.name)
            if argument.type.is_list:
                tests.append(f"any(_t is not None and _t.edge is not None for _t in {name})")
            else:
                tests.append(f"{name} is not None and {name}.edge is not None")
        return [
            f"if _state().recording and ({' or '.join(tests)}):",
            f"    return {self._named(f'_decomposition({self.call})')}",
        ]

    def _record_if_wanted(self) -> list[str]:
        if not self._can_have_gradient():
            return []
        return [
            *self._edges(),
            f"if {self._any_edge()}:",
            "    _mode = _state().recording",
            "    if _mode:",
            *_indent(self._record(home="None", chosen=self._may_mix()), 2),
        ]

    def _record(self, home: str, *, chosen: bool = False) -> list[str]:
        rule = rule_of(self.row)
        edges = []
        for argument in (*self.differentiable, *self.refused):
            name = f"_e_{python_name(argument.name)}"
            edges.append(f"*{name}" if argument.type.is_list else name)
        lines = ["_node = _new(_Node)", f"_node.rule = {'_chosen' if chosen else '_rule'}"]
        lines.append(f"_node.next = ({', '.join(edges)},)")
        values = [self._saved(s) for s in rule.saves]
        lists = [a for a in (*self.differentiable, *self.refused) if a.type.is_list]
        values += [f"len(_e_{python_name(a.name)})" for a in lists]
        lines.append(f"_node.saved = ({', '.join(values)}{',' if values else ''})")
        lines.append(f"_node.versions = {self._versions(rule.saves, home)}")
        lines += self._watch(rule.saves, home)
        lines += [
            "_node.sequence = _sequence()",
            f"_node.home = {home}",
            "_node.extra = None",
            *self._place(),
        ]
        lines += self._attach()
        return [*lines, "if _mode == 2:", "    _observe(_node)"]

    def _saved(self, save: Save) -> str:
        name = python_name(save.source)
        if save.kind == RESULT:
            value = self._result(save.number)
        elif save.kind == FACT:
            fact = save.name.rpartition("__")[2]
            owner = self._out(save.number) if save.number >= 0 else name
            if save.number < 0 and self.schema.argument(save.source).type.is_list:
                return f"[_t.{fact} for _t in {owner}]"
            plain = {"shape": f"{owner}.value.shape", "ndim": f"{owner}.value.ndim"}
            value = plain.get(
                fact, f"{owner}.{fact}" + ("()" if fact not in ("dtype", "device") else "")
            )
            optional = save.number < 0 and self.schema.argument(save.source).type.is_optional
            return f"None if {owner} is None else {value}" if optional else value
        else:
            value = f"list({name})" if save.kind == TENSORS else name
        return self._only_if_used(save, value)

    def _only_if_used(self, save: Save, value: str) -> str:
        """Save a tensor only if an input whose formula uses it needs a gradient."""
        if save.kind not in (TENSOR, TENSORS, RESULT):
            return value
        tests = []
        users = [a for a in self.differentiable if a.name in save.users]
        if len(users) < len(self.differentiable):
            for argument in users:
                name = f"_e_{python_name(argument.name)}"
                tests.append(
                    f"any(_e is not None for _e in {name})"
                    if argument.type.is_list
                    else f"{name} is not None"
                )
        conditions = [" or ".join(tests)] if tests else []
        if save.condition:
            conditions.append(self._condition_text(save.condition))
        return (
            f"{value} if {' and '.join(f'({c})' for c in conditions)} else None"
            if conditions
            else value
        )

    def _condition_text(self, condition: str) -> str:
        masks = ", ".join(f"_e_{python_name(a.name)} is not None" for a in self.differentiable)
        return condition.replace("grad_input_mask", f"({masks},)")

    def _versions(self, saves: tuple[Save, ...], home: str) -> str:
        """The versions of saved tensors, or None where all are 0: Note [Counters] in tape.py."""
        tensors = [python_name(s.source) for s in saves if s.kind == TENSOR]
        if home != "None" or any(s.kind == TENSORS for s in saves):
            return "_versions_of(_rule, _node.saved)"
        if not tensors:
            return "None"
        optional = {python_name(a.name) for a in self.schema.tensors if a.type.is_optional}
        counts = [
            f"(0 if {t} is None else {t}.counter.count)" if t in optional else f"{t}.counter.count"
            for t in tensors
        ]
        return f"({', '.join(counts)},) if {' or '.join(counts)} else None"

    def _watch(self, saves: tuple[Save, ...], home: str) -> list[str]:
        """Give saved results counters that the node holds: Note [Counters] in tape.py."""
        numbers = sorted({s.number for s in saves if s.kind == RESULT})
        if not numbers:
            return []
        lists = any(self.schema.returns[i].type.is_list for i in numbers)
        if home != "None" or lists or self.schema.is_view:
            return [f"_watch(_node, ({', '.join(self._out(i) for i in numbers)},))"]
        lines: list[str] = []
        for i in numbers:
            lines += [f"_c{i} = _new(_Counter)", f"_c{i}.count = 0"]
            lines += [f"{self._out(i)}.counter = _c{i}"]
        return [*lines, f"_node.counters = ({', '.join(f'_c{i}' for i in numbers)},)"]

    def _place(self) -> list[str]:
        return [
            "_f = _frame(1)",
            "_g = _f.f_globals",
            "if _g is _DUNDERS:",
            "    _f = _f.f_back",
            "    _g = _f.f_globals",
            "if _g is _of_user[0]:",
            "    _node.place = (_f.f_code, _f.f_lasti)",
            "else:",
            "    _node.place = _place_of(_f)",
        ]

    def _attach(self) -> list[str]:
        """Point the differentiable outputs at the node."""
        returns = self.schema.returns
        if len(returns) == 1 and not returns[0].type.is_list:
            lines = ["_node.outputs = None", "_node.shape = _r.shape", "_node.dtype = _r.dtype"]
            maybe = any(a.type.base == "ScalarType" for a in self.schema.arguments)
            return [
                *lines,
                *(["if _out.is_differentiable_dtype():"] if maybe else []),
                "    " * maybe + "_out.edge = _node",
            ]
        flat: list[str] = []
        lines = []
        count = "0"
        for i, returned in enumerate(returns):
            if not returned.type.is_tensor:
                continue
            result, out = self._result(i), self._out(i)
            if returned.type.is_list:
                flat.append(f"*[(_v.shape, _v.dtype) for _v in {result}]")
                lines += [f"for _i, _t in enumerate({out}):", "    _t.edge = _Output(_node, _i)"]
            else:
                flat.append(f"({result}.shape, {result}.dtype)")
                if self.row.differentiable_outputs[i]:
                    lines += [
                        f"if {out}.is_differentiable_dtype():",
                        f"    {out}.edge = _Output(_node, {count})",
                    ]
                count = str(int(count) + 1)
        return [f"_node.outputs = ({', '.join(flat)},)", "_node.shape = _node.dtype = None", *lines]


def _fresh(name: str) -> list[str]:
    none = [f"{name}.{slot} = None" for slot in ("edge", "extra", "home")]
    return [*none, f"{name}.counter = _ZERO"]


@remembered
def rule_of(row: Row) -> RowRule:
    """The rule of a row; an in-place variant shares it."""
    return RowRule(row)


@remembered
def mixed_rule_of(row: Row) -> RowRule:
    """The rule for operands of several dtypes: on tensors alone, as NumPy promotes otherwise."""
    rule = RowRule(row)
    rule.raw = None
    return rule


def _must_be_real(op: Operator, name: str, value: complex) -> None:
    raise DtypeError(f"{op.name}: {name} is {value}, and the tensors are real; pass a real number.")


def _own(op: Operator, result: Any, arguments: tuple[Any, ...]) -> Any:
    """The result of a kernel from outside, as an array that tensors can hold.

    It gets memory of its own, unless the schema says that it shares.
    """
    if type(result) is list:
        return [_own(op, r, arguments) for r in result]
    if result.dtype not in OF:
        raise DtypeError(
            f"{op.name}: its kernel returned an array of {result.dtype}, which no tensor can hold; "
            f"see {op.row.where}"
        )
    if op.schema.is_view:
        return result
    given = (b for a in arguments for b in (a if type(a) is list else (a,)) if b is not None)
    return result.copy() if any(np.may_share_memory(result, a) for a in given) else result


def _unordered(op: Operator) -> None:
    raise DtypeError(f"{op.name}: complex numbers have no order; use x.abs() or x.real instead.")


def _refusal(op: Operator, name: str) -> str:
    entry = op.row.refused[name]
    if entry.word == "not_implemented":
        return f"the derivative of {op.full_name} in {name} is not written yet: {entry.reason}"
    return (
        f"{op.full_name} is not differentiable in {name}, and {name} requires a gradient; "
        f"pass {name}.detach() if you mean it as a constant"
    )


def _default(op: Operator, argument: Argument) -> Any:
    """The value of an argument that is not given."""
    return arguments.convert("", argument, argument.default) if argument.has_default else None


_NAMESPACE.update(_must_be_real=_must_be_real, _unordered=_unordered, _own=_own)
# Values that depend on the operator, and on one of its arguments: _default_dim, _arg_dim, …
_OF_OPERATOR: dict[str, Callable[[Operator], Any]] = {
    "_rule": lambda op: rule_of(op.row),
    "_mixed": lambda op: mixed_rule_of(op.row),
    "_promote": lambda op: _PROMOTIONS[op.row.texts.get("numbers", "wrap")],
    "_kernel": lambda op: binding.reference(op.row.kernel, "kernels", op.row, "kernel"),
    "_decomposition": lambda op: binding.decomposition(op.row),
    "_Results": lambda op: results_class(op.row.name, tuple(r.name for r in op.row.schema.returns)),
}
_OF_ARGUMENT: dict[str, Callable[[Operator, Argument], Any]] = {
    "default": _default,
    "arg": lambda op, argument: argument,
    "refusal": lambda op, argument: _refusal(op, argument.name),
}
