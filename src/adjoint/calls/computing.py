"""The text that computes: an operator's signature, its kernel on arrays, and its results.

Everything known beforehand (promotion, conversion, the class of results) is decided here, when the
text is written. `recording.py` adds the node, `eager.py` makes functions of the text.
"""

from __future__ import annotations

import ast
from collections.abc import Sequence

from adjoint.core.errors import TableError
from adjoint.homes import limits
from adjoint.loops import gate, row_loops
from adjoint.ops import binding
from adjoint.ops.operator import Operator
from adjoint.ops.signatures import has_named_results
from adjoint.table import FAMILIES
from adjoint.table.archetypes import NOT_PROMOTED
from adjoint.table.rows import Row
from adjoint.table.schema import RENAMED, Argument


def python_name(name: str) -> str:
    """An argument's name in generated functions: `from` becomes `from_`."""
    return f"{name}_" if name in RENAMED else name


def indent(lines: list[str], depth: int = 1) -> list[str]:
    """The lines, indented `depth` levels."""
    return ["    " * depth + line for line in lines]


class Computing:
    """Writes the part of an operator's functions that computes."""

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

    # -- signature and arguments ---------------------------------------------------------------

    def _signature(self) -> str:
        pieces: list[str] = []
        keyword_only = False
        for argument, name in zip(self.schema.arguments, self.names, strict=True):
            if argument.keyword_only and not keyword_only:
                pieces.append("*_former" if self.row.former else "*")
                keyword_only = True
            default = "_MISSING"
            if argument.has_default or argument.type.is_optional:
                default = f"_default_{name}"
            pieces.append(f"{name}={default}")
        pieces.append("**_extra")
        return f"def {python_name(self.schema.symbol)}({', '.join(pieces)}):"

    def _condition(self, *, plain: bool = True) -> str:
        checks = ["not _former"] if self.row.former else []
        checks += ["not _extra", "not (_SEEING and _state().seen)"]  # Note [Seen calls]
        if self.row.creates or self.row.random:
            checks.append("not _state().levels")  # transforms see tensors created inside them
        for argument, name in zip(self.schema.arguments, self.names, strict=True):
            kind = argument.type
            if kind.is_tensor and kind.is_list:
                checks.append(f"_plain{'_or_none' * kind.holds_none}({name})")
            elif kind.is_tensor:
                test = f"type({name}) is _Tensor" + f" and {name}.home is None" * plain
                checks.append(f"({name} is None or {test})" if kind.is_optional else test)
            elif kind.base in ("Device", "Layout") or name == "pin_memory":
                checks.append(f"{name} is None")  # other values are checked by `slow`
            elif argument.name == self.row.fills:  # a tensor may be the value, with its derivative
                checks.append(f"type({name}) in _NUMBERS")
            elif not argument.has_default and not kind.is_optional:
                checks.append(f"{name} is not _MISSING")
        return " and ".join(checks)

    def _fallback(self) -> str:
        if self.row.former:  # further arguments join the positional ones in a list
            count = sum(not a.keyword_only for a in self.schema.arguments)
            given = f"({''.join(f'{name}, ' for name in self.names[:count])}*_former)"
            return (
                f"    return _in_former_order(_op, {given}, _extra) if _former else "
                f"{self._named(f'_slow(_op, {self.tuple}, _extra)')}"
            )
        return f"    return {self._named(f'_slow(_op, {self.tuple}, _extra)')}"

    def _normalise(self) -> list[str]:
        """Convert arguments to the schema's types; one of the right type costs one check."""
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
            "MemoryFormat": f"type({name}) is int",
        }
        if kind.base not in tests:
            return ""
        test = tests[kind.base]
        if kind.is_list:
            # tuples may hold other things than ints; checking entries costs little
            test = (
                f"type({name}) in _TUPLES and _WHOLE.issuperset(_map(type, {name}))"
                if kind.base == "int"
                else "False"
            )
        return f"{name} is None or ({test})" if kind.is_optional else test

    # -- kernel --------------------------------------------------------------------------------

    def _compute(self, *, recover: bool) -> list[str]:
        lines = []
        for argument, name in zip(self.schema.arguments, self.names, strict=True):
            if argument.type.is_tensor:
                lines.append(f"_v_{name} = {self._value(argument, name)}")
        kernel = [*self._promotion(), *self._order(), *self._run()]
        if self._may_mix():
            lines.append("_chosen = _rule")
        if recover:
            lines += ["try:", *indent(kernel), "except Exception as _error:"]
            lines += [f"    {self._results()} = _recover(_op, _error, {self.tuple})"]
        else:
            lines += kernel
        return lines + self._as_arrays() + limits.after_kernel(self.row)

    def _run(self) -> list[str]:
        """The call of the kernel, or of the large-array kernel if the arrays are large."""
        run = f"{self._results()} = {self._kernel()}"
        if not row_loops.has_text(self.row):
            return [run]
        values = ", ".join(self._values())
        arrays = [f"_v_{python_name(a.name)}" for a in self.schema.tensors]
        is_small = gate.is_small(self.row, arrays)
        return [f"if {is_small} or (_r := _large({values})) is None:", f"    {run}"]

    def _values(self) -> list[str]:
        """The arguments of a kernel."""
        return [
            f"_v_{n}" if a.type.is_tensor else n
            for a, n in zip(self.schema.arguments, self.names, strict=True)
        ]

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
        promoting = [f"{joined} = _promote(({joined}), {to_float})"]
        promoting += ["_chosen = _mixed"] * self._may_mix()
        before: list[str] = []
        if self._widens():
            before, promoting = ["_run = _kernel"], self._widening(promoted, promoting)
        return [*before, f"if {needed}:", *indent(promoting), *self._real_numbers(tensors[0])]

    def _widening(self, promoted: Sequence[Argument], promoting: list[str]) -> list[str]:
        """The promotion, with a separate branch for halves next to wider numbers."""
        halves = " or ".join(f"_v_{a.name}.dtype in _REDUCED" for a in promoted if a.type.is_tensor)
        scalars = [python_name(a.name) for a in promoted if not a.type.is_tensor]
        if not scalars:
            return [*promoting, f"if {halves}:", "    _run = _in_float32"]
        real = " and ".join(f"type({name}) is not complex" for name in scalars)
        wide = [f"{name} = _float32({name})" for name in scalars]
        ours = indent([*wide, "_run = _in_float32"])
        return [f"if ({halves}) and {real}:", *ours, "else:", *indent(promoting)]

    def _widens(self) -> bool:
        """Whether numbers next to halves stay float32 (`numbers: wide`) and the kernel is NumPy's;
        our own kernels do that themselves.
        """
        return (
            self.row.has_wide_numbers
            and self.row.kernel.startswith("xp.")
            and self.row.names_kernel
        )

    def _may_mix(self) -> bool:
        """Whether operands of several dtypes are promoted: their node then needs another rule."""
        return len(self.row.promoted_tensors) > 1 and self._can_have_gradient()

    def _can_have_gradient(self) -> bool:
        outputs = zip(self.schema.returns, self.row.differentiable_outputs, strict=True)
        tensors = any(r.type.is_tensor and d for r, d in outputs)
        return (
            tensors
            and bool(self.differentiable or self.refused)
            and self.row.archetype.result != "bool"
        )

    def _real_numbers(self, tensor: Argument) -> list[str]:
        """Refuse complex numbers with real tensors in arguments that are not promoted."""
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
        """Column `order: needed`: refuse complex numbers, which NumPy would order somehow."""
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
            weak = "_WEAK_AND_WIDE" if self._widens() else "_WEAK"
            known = weak if scalars else "_INEXACT"
            tests.append(f"{first}.dtype not in {known}")
        tests += [f"type({python_name(a.name)}) is complex" for a in scalars]
        return " or ".join(tests)

    def _kernel(self) -> str:
        if not self.row.kernel:
            raise TableError(
                f"{self.row.where}: {self.op.full_name} has neither kernel nor decompose"
            )
        if self.row.names_kernel:
            return f"{self._function()}({', '.join(self._values())})"
        return ast.unparse(binding.kernel_expression(self.row)[0])

    def _function(self) -> str:
        """The kernel that is a function; for halves the one that gives it float32."""
        if self._widens():
            return "_run"
        if not self.row.computes_wide:
            return "_kernel"
        if not self.row.promoted_tensors or self.row.has_wide_numbers:
            return "_wide_kernel"
        first = self.row.promoted_tensors[0]  # all are of its dtype
        return f"(_wide_kernel if _v_{python_name(first)}.dtype in _REDUCED else _kernel)"

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
        """Check the results of a user's kernel: it may return odd dtypes or its own arguments."""
        if self.row.family in FAMILIES:
            return []
        arrays = "".join(
            f"_v_{python_name(a.name)}, " for a in self.schema.arguments if a.type.is_tensor
        )
        names = [self._result(i) for i in range(len(self.schema.returns))]
        return [f"{name} = _own(_op, {name}, ({arrays}))" for name in names]

    # -- results -------------------------------------------------------------------------------

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
        """Several results as a tuple with the schema's names: x.sort().values."""
        return f"_Results(({results}))" if has_named_results(self.schema) else results

    def _wrap(self) -> list[str]:
        lines: list[str] = []
        for i, returned in enumerate(self.schema.returns):
            out, result = self._out(i), self._result(i)
            if not returned.type.is_tensor:
                lines.append(f"{out} = {result}")
            elif returned.type.is_list:
                lines += [f"{out} = []", f"for _v in {result}:"]
                lines += indent(
                    ["_t = _new(_Tensor)", "_t.value = _v", *_fresh("_t"), f"{out}.append(_t)"]
                )
            else:
                lines += [f"{out} = _new(_Tensor)", f"{out}.value = {result}", *_fresh(out)]
            if returned.type.is_tensor and (returned.writes or not returned.alias):
                lines += ["if _INFERENCE:", f"    _mark({out})"]  # Note [Inference] in nodes.py
            elif returned.alias:
                base = next(
                    python_name(a.name) for a in self.schema.arguments if a.alias == returned.alias
                )
                rest = self.tuple.replace(f"{base}, ", "", 1) if len(self.names) > 1 else "()"
                lines.append(f"_view(_op, {base}, {out}, {rest})")
        return lines


def _fresh(name: str) -> list[str]:
    none = [f"{name}.{slot} = None" for slot in ("edge", "extra", "home")]
    return [*none, f"{name}.counter = _ZERO"]
