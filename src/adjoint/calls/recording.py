"""The text that records: the node that an operator leaves on the tape.

The formulas determine what a node may save (`saving.py`); the text decides when it runs whether
anything is recorded, and which conditional values are saved.
"""

from __future__ import annotations

from adjoint.calls.computing import Computing, indent, python_name
from adjoint.calls.reverse import RowRule
from adjoint.core.remembering import remembered
from adjoint.homes import fans, limits
from adjoint.table.rows import Row
from adjoint.tape.saving import FACT, RESULT, TENSOR, TENSORS, Save


class FunctionWriter(Computing):
    """Writes the functions of one operator."""

    # -- whole functions -----------------------------------------------------------------------

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
            *indent(body, 2),
            self._fallback(),
        ]

    def composite(self) -> list[str]:
        """The function of a decomposed operator: its parts handle tensors of every home."""
        body = self._normalise()
        return [
            self._signature(),
            f"    if {self._condition(plain=False)}:",
            *indent(body, 2),
            "        try:",
            f"            return {self._named(f'_decomposition({self.call})')}",
            "        except _UNUSUAL as _error:",
            f"            _explain(_op, _error, {self.tuple})",
            self._fallback(),
        ]

    def compute(self) -> list[str]:
        lines = [f"def compute({self.call}):", *indent(self._compute(recover=False))]
        return [*lines, f"    return {self._results()}"]

    def record(self) -> list[str]:
        lines = [f"def record({', '.join([*self.names, '_outs', '_home', '_mode'])}):"]
        lines += indent([f"{self._outs()} = _outs" if self._several() else "_out = _outs"])
        return lines + indent(self._results_of_outs() + self._edges() + self._record(home="_home"))

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

    def _approach_kink(self) -> list[str]:
        after = fans.after_recording if "fan" in self.row.texts else limits.after_recording
        test, found = after(self.row, self.tuple, self._outs())
        return [f"if {test}:", f"    return {self._named(found)}"] if test else []

    # -- where gradients go --------------------------------------------------------------------

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

    # -- the node ------------------------------------------------------------------------------

    def _record_if_wanted(self) -> list[str]:
        if not self._can_have_gradient():
            return []
        return [
            *self._edges(),
            f"if {self._any_edge()}:",
            "    _mode = _state().recording",
            "    if _mode:",
            *indent(self._record(home="None", chosen=self._may_mix()), 2),
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
        lines += self._attach(home)
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
        if save.narrow:
            conditions.append(self._is_narrow())
        return (
            f"{value} if {' and '.join(f'({c})' for c in conditions)} else None"
            if conditions
            else value
        )

    def _is_narrow(self) -> str:
        """The test whether the result is narrow: Note [Narrow derivatives] in tape/narrow.py."""
        return f"{self._result(0)}.dtype.itemsize == 2"

    def _condition_text(self, condition: str) -> str:
        masks = ", ".join(f"_e_{python_name(a.name)} is not None" for a in self.differentiable)
        return condition.replace("grad_input_mask", f"({masks},)")

    def _versions(self, saves: tuple[Save, ...], home: str) -> str:
        """The versions of saved tensors, or None if all are 0: Note [Counters] in nodes.py."""
        tensors = [(python_name(s.source), s.narrow) for s in saves if s.kind == TENSOR]
        if home != "None" or any(s.kind == TENSORS for s in saves):
            return "_versions_of(_rule, _node.saved)"
        if not tensors:
            return "None"
        optional = {python_name(a.name) for a in self.schema.tensors if a.type.is_optional}
        counts = [
            f"(0 if {t} is None else {t}.counter.count)"
            if t in optional
            else f"({t}.counter.count if {self._is_narrow()} else 0)"
            if narrow
            else f"{t}.counter.count"
            for t, narrow in tensors
        ]
        return f"({', '.join(counts)},) if {' or '.join(counts)} else None"

    def _watch(self, saves: tuple[Save, ...], home: str) -> list[str]:
        """Give saved results counters that the node holds: Note [Counters] in nodes.py."""
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
            "if _g is _DUNDERS or _g is _PACKETS:",  # which call for the user
            "    _f = _f.f_back",
            "    _g = _f.f_globals",
            "if _g is _of_user[0]:",
            "    _node.place = (_f.f_code, _f.f_lasti)",
            "else:",
            "    _node.place = _place_of(_f)",
        ]

    def _attach(self, home: str) -> list[str]:
        """Point the differentiable outputs at the node."""
        plain = home == "None"  # results are arrays, and say their dtype without a call
        test = "{1}.dtype in _INEXACT" if plain else "{0}.is_differentiable_dtype()"
        returns = self.schema.returns
        if len(returns) == 1 and not returns[0].type.is_list:
            lines = ["_node.outputs = None", "_node.shape = _r.shape", "_node.dtype = _r.dtype"]
            maybe = any(a.type.base == "ScalarType" for a in self.schema.arguments)
            return [
                *lines,
                *([f"if {test.format('_out', '_r')}:"] if maybe else []),
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
                        f"if {test.format(out, result)}:",
                        f"    {out}.edge = _Output(_node, {count})",
                    ]
                count = str(int(count) + 1)
        return [f"_node.outputs = ({', '.join(flat)},)", "_node.shape = _node.dtype = None", *lines]


@remembered
def rule_of(row: Row) -> RowRule:
    """The rule of a row; an in-place variant shares it."""
    return RowRule(row)


@remembered
def mixed_rule_of(row: Row) -> RowRule:
    """The rule for operands of several dtypes: on tensors only, because NumPy promotes
    differently.
    """
    rule = RowRule(row)
    rule.raw = None
    return rule
