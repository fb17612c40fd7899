"""Writes trees of C functions as Python text that computes all lanes at once.

A variable is *wide* if it may differ from lane to lane, otherwise it is a plain number. A condition
in wide variables splits the lanes if one of its sides returns: the rest becomes a function for each
side (`lanes.branches`). Otherwise it chooses among values that are computed for all lanes. A loop
runs until all lanes are done; lanes that are done earlier take part in further steps, which must
not harm them: their terms no longer count.
"""

from __future__ import annotations

import keyword
from collections.abc import Callable, Iterator, Mapping
from typing import Any

from adjoint.kernels.from_c.tree import (
    CAssign,
    CBinary,
    CBreak,
    CCall,
    CCast,
    CChoice,
    CContinue,
    CDeclare,
    CDo,
    CFor,
    CFunction,
    CIf,
    CIndex,
    CName,
    CNumber,
    CReturn,
    CUnary,
    names_in,
    walk,
)

_COMPARING = frozenset(("==", "!=", "<", ">", "<=", ">="))
_ENDS = {"<": "", "<=": " + 1", ">": "", ">=": " - 1"}  # of a range, by the sign of its condition
_LOGICAL = {"&&": ("and", "_both"), "||": ("or", "_either")}


def write(
    function: CFunction, functions: Mapping[str, CFunction], tables: frozenset[str], *, single: bool
) -> str:
    """The text of a function, which may name `functions` and `tables`. For a `single` element it
    follows the C text literally.
    """
    return _NumpyWriter(function, functions, tables, single=single).text()


def outs(function: CFunction) -> tuple[str, ...]:
    """The parameters that point to a number, which are given it and returned with the result."""
    pointed = {
        each.operand.id
        for each in walk(function.body)
        if isinstance(each, CUnary) and each.sign == "*" and isinstance(each.operand, CName)
    }
    return tuple(p.name for p in function.parameters if p.name in pointed)


class _NumpyWriter:
    def __init__(
        self, function: CFunction, functions: Mapping[str, CFunction], tables: frozenset[str],
        *, single: bool,
    ) -> None:  # fmt: skip
        self.function, self.functions, self.tables = function, functions, tables
        self.outs = outs(function)
        declared = [each for each in walk(function.body) if isinstance(each, CDeclare)]
        self.kinds = {p.name: p.kind for p in function.parameters}
        self.kinds |= {d.name: d.kind for d in declared}
        self.arrays = {p.name for p in function.parameters if p.rank and p.name not in self.outs}
        self.arrays |= {d.name for d in declared if d.sizes}
        self.wide = {p.name for p in function.parameters if p.kind == "double" and not single}
        while self._wider():
            pass
        self.lines: list[str] = []
        self.count = 0  # number of names made up so far
        self.known = {p.name for p in function.parameters}  # variables that exist here
        self.mask = ""  # the condition under which assignments hold
        self.loops = 0  # loops around the statement being written

    def text(self) -> str:
        given = [_python(p.name) for p in self.function.parameters]
        self.line(0, f"def {self.function.name}({', '.join(given)}):")
        self.block(self.function.body, 1)
        if self.function.kind == "void" and self.outs:
            self.line(1, self.returned(None))
        return "\n".join(self.lines) + "\n"

    def line(self, depth: int, text: str) -> None:
        self.lines.append("    " * depth + text)

    def fresh(self, what: str) -> str:
        self.count += 1
        return f"_{what}{self.count}"

    def mistake(self, what: str) -> SyntaxError:
        return SyntaxError(f"{self.function.name}: {what}")

    # -- which variables are wide ------------------------------------------------------------

    def _wider(self) -> bool:
        """Find more wide variables; whether there were some."""
        before = len(self.wide)
        self._spread(self.function.body, False)
        return len(self.wide) > before

    def _spread(self, statements: tuple[Any, ...], inside: bool) -> None:
        """`inside` a condition that is wide, assignments make a variable wide."""
        for each in statements:
            if isinstance(each, CDeclare):
                if self.is_wide(each.start):
                    self.wide.add(each.name)
            elif isinstance(each, CAssign):
                if inside or self.is_wide(each.value) or self.is_wide(_index_of(each.target)):
                    self.wide.add(_base(each.target))
            elif isinstance(each, CIf):
                parted = inside or self.is_wide(each.condition)
                self._spread(each.then, parted)
                self._spread(each.otherwise, parted)
            elif isinstance(each, CFor):
                self._spread((*each.start, *each.step), False)  # all lanes run through a loop
                self._spread(each.body, inside)
            for call in walk(each):
                if isinstance(call, CCall) and any(map(self.is_wide, call.arguments)):
                    self.wide |= {_base(a) for a in call.arguments if self._is_set(a)}

    def _is_set(self, argument: Any) -> bool:
        """Whether a call may write to its argument: an address, or an array."""
        return _is_address(argument) or (
            isinstance(argument, CName) and argument.id in self.arrays | {*self.outs}
        )

    def is_wide(self, part: Any) -> bool:
        return any(isinstance(each, CName) and each.id in self.wide for each in walk(part))

    # -- statements --------------------------------------------------------------------------

    def block(self, statements: tuple[Any, ...], depth: int, mask: str | None = None) -> None:
        """Write statements; `mask` is another condition under which assignments hold."""
        known, outer = set(self.known), self.mask
        self.mask = outer if mask is None else mask
        if not statements:
            self.line(depth, "pass")
        for place, each in enumerate(statements):
            if isinstance(each, CIf) and _returns(each):
                self.parting(each, statements[place + 1 :], depth)
                break
            self.statement(each, depth)
        self.known, self.mask = known, outer

    def parting(self, part: CIf, rest: tuple[Any, ...], depth: int) -> None:
        """Write a choice one side of which returns, and the rest of the function."""
        then = part.then if _ends(part.then) else (*part.then, *rest)
        otherwise = part.otherwise if _ends(part.otherwise) else (*part.otherwise, *rest)
        condition = self.expression(part.condition, depth)
        if not self.is_wide(part.condition):
            self.line(depth, f"if {condition}:")
            self.block(then, depth + 1)
            self.line(depth, "else:")
            self.block(otherwise, depth + 1)
            return
        is_void = self.function.kind == "void"
        if self.mask or self.loops or (is_void and not self.outs):
            raise self.mistake("lanes part within a choice, in a loop, or where arrays are filled")
        given = ", ".join(map(_python, sorted(names_in((then, otherwise)) & self.known)))
        sides = [self.fresh("then"), self.fresh("otherwise")]
        for name, body in zip(sides, (then, otherwise), strict=True):
            self.line(depth, f"def {name}({given}):")
            self.block(body, depth + 1)
            if is_void and not _ends(body):
                self.line(depth + 1, self.returned(None))
        values = f"({given},)" if given else "()"
        self.line(depth, f"return _choose({condition}, {', '.join(sides)}, {values})")

    def statement(self, each: Any, depth: int) -> None:
        writers: dict[type, Callable[..., None]] = {
            CDeclare: self.declare, CAssign: self.assign, CDo: self.do, CIf: self.choice,
            CFor: self.loop, CReturn: self.give_back, CBreak: self.leave, CContinue: self.go_on,
        }  # fmt: skip
        writers[type(each)](each, depth)

    def declare(self, each: CDeclare, depth: int) -> None:
        name, start = _python(each.name), each.start
        if each.sizes:
            text = self.array(each, depth)
        elif start is None or isinstance(start, CNumber):
            number = 0 if start is None else start.value
            text = repr(float(number) if each.kind == "double" else number)
        else:
            text = self.expression(start, depth)
        self.line(depth, f"{name} = {text}")
        self.known.add(each.name)

    def array(self, each: CDeclare, depth: int) -> str:
        start = [e for e in each.start or () if not isinstance(e, tuple) and e != CNumber(0)]
        cells = ", ".join(f"{k}: {self.expression(e, depth)} * 1.0" for k, e in enumerate(start))
        return f"_Cells({{{cells}}}, {len(each.sizes)})"

    def assign(self, each: CAssign, depth: int) -> None:
        value = each.value
        if isinstance(value, CAssign):  # a = b = 0
            self.assign(value, depth)
            value = value.target
        target = self.target(each.target, depth)
        new = self.expression(value, depth)
        if each.sign != "=":
            new = self.expression(CBinary(each.sign[:-1], _pointed(each.target), value), depth)
        if self.mask and self.is_wide(CName(_base(each.target))):
            new = f"_where({self.mask}, {new}, {target})"
        self.line(depth, f"{target} = {new}")

    def target(self, part: Any, depth: int) -> str:
        part = _pointed(part)
        if isinstance(part, CName):
            return _python(part.id)
        return f"{self.target(part.base, depth)}[{self.expression(part.index, depth)}]"

    def do(self, each: CDo, depth: int) -> None:
        text = self.expression(each.expression, depth)
        if text.endswith(")"):  # a call that sets no number
            self.line(depth, text)

    def choice(self, each: CIf, depth: int) -> None:
        condition = self.expression(each.condition, depth)
        if not self.is_wide(each.condition) or _leaves(each):
            wide = self.is_wide(each.condition)
            self.line(depth, f"if {f'_every({condition})' if wide else condition}:")
            self.block(each.then, depth + 1)
            if each.otherwise:
                self.line(depth, "else:")
                self.block(each.otherwise, depth + 1)
            return
        for side, text in ((each.then, condition), (each.otherwise, f"_no({condition})")):
            if side:
                mask = self.fresh("mask")
                self.line(depth, f"{mask} = _both({self.mask or True}, {text})")
                self.block(side, depth, mask)

    def loop(self, each: CFor, depth: int) -> None:
        known = set(self.known)
        self.loops += 1
        counted = self.counted(each)
        for start in each.start[1:] if counted else each.start:
            self.statement(start, depth)
        if counted is None:
            self.line(depth, f"while {self.goes_on(each.condition, depth)}:")
            self.block((*each.body, *each.step), depth + 1)
        else:
            numbers, rest = self.range_of(each, depth), _conjuncts(each.condition)[1]
            self.known.add(counted)
            self.line(depth, f"for {_python(counted)} in {numbers}:")
            if rest is not None:
                self.line(depth + 1, f"if not {self.goes_on(rest, depth)}:")
                self.line(depth + 2, "break")
            self.block((*each.body, *each.step[1:]), depth + 1)
        self.known = known
        self.loops -= 1

    def counted(self, each: CFor) -> str | None:
        """The counter of a loop that counts up or down by 1 and is set by nothing else."""
        if not each.start or not isinstance(each.start[0], CDeclare) or not each.step:
            return None
        name, first = each.start[0].name, _conjuncts(each.condition)[0]
        counts = isinstance(first, CBinary) and first.left == CName(name) and first.sign in _ENDS
        steps = [CAssign(CName(name), sign, CNumber(1)) for sign in ("+=", "-=")]
        plain = counts and not self.is_wide(first) and each.step[0] in steps
        # further steps see the counter after it has counted
        own = name not in names_in(each.step[1:]) and not _sets(each.body, name)
        return name if plain and own else None

    def range_of(self, each: CFor, depth: int) -> str:
        first = _conjuncts(each.condition)[0]
        start, end = (self.expression(e, depth) for e in (each.start[0].start, first.right))
        turn = ", -1" if each.step[0].sign == "-=" else ""
        return f"range({start}, {end}{_ENDS[first.sign]}{turn})"

    def goes_on(self, condition: Any, depth: int) -> str:
        before = len(self.lines)
        text = self.expression(condition, depth)
        if len(self.lines) > before:
            raise self.mistake("a loop's condition calls a function that sets a number")
        return f"_some({text})" if self.is_wide(condition) else text

    def give_back(self, each: CReturn, depth: int) -> None:
        if self.mask:
            raise self.mistake("a return within a choice of lanes")
        value = None if each.value is None else self.expression(each.value, depth)
        self.line(depth, self.returned(value))

    def returned(self, value: str | None) -> str:
        parts = [*([] if value is None else [value]), *map(_python, self.outs)]
        return f"return {', '.join(parts)}" + "," * (len(parts) == 1 and bool(self.outs))

    def leave(self, each: CBreak, depth: int) -> None:
        if self.mask:
            raise self.mistake("a loop is left within a choice of lanes")
        self.line(depth, "break")

    def go_on(self, each: CContinue, depth: int) -> None:
        self.line(depth, "continue")

    # -- expressions -------------------------------------------------------------------------

    def expression(self, part: Any, depth: int) -> str:
        """The text of an expression; calls that set numbers are written before it."""
        writers: dict[type, Callable[..., str]] = {
            CNumber: lambda part, _: repr(part.value), CName: lambda part, _: _python(part.id),
            CUnary: self.unary, CBinary: self.binary, CChoice: self.chosen, CCall: self.call,
            CIndex: self.index, CCast: self.cast,
        }  # fmt: skip
        return writers[type(part)](part, depth)

    def unary(self, part: CUnary, depth: int) -> str:
        operand = self.expression(part.operand, depth)
        if part.sign == "!":
            return f"_no({operand})" if self.is_wide(part) else f"(not {operand})"
        return operand if part.sign in "*&" else f"({part.sign}{operand})"

    def binary(self, part: CBinary, depth: int) -> str:
        left, right = self.expression(part.left, depth), self.expression(part.right, depth)
        if part.sign in _LOGICAL:
            plain, wide = _LOGICAL[part.sign]
            return f"{wide}({left}, {right})" if self.is_wide(part) else f"({left} {plain} {right})"
        whole = part.sign == "/" and self.is_whole(part.left) and self.is_whole(part.right)
        return f"({left} {'//' if whole else part.sign} {right})"

    def is_whole(self, part: Any) -> bool:
        if isinstance(part, CNumber):
            return isinstance(part.value, int)
        if isinstance(part, CName):
            return self.kinds.get(part.id) == "int"
        if isinstance(part, CCast):
            return part.kind == "int"
        if isinstance(part, CBinary):
            both = self.is_whole(part.left) and self.is_whole(part.right)
            return part.sign in _COMPARING or both
        return isinstance(part, CUnary) and self.is_whole(part.operand)

    def chosen(self, part: CChoice, depth: int) -> str:
        parts = (part.condition, part.then, part.otherwise)
        condition, then, otherwise = (self.expression(each, depth) for each in parts)
        if self.is_wide(part.condition):
            return f"_where({condition}, {then}, {otherwise})"
        return f"({then} if {condition} else {otherwise})"

    def cast(self, part: CCast, depth: int) -> str:
        operand = self.expression(part.operand, depth)
        if part.kind == "int":
            return f"_whole({operand})" if not self.is_whole(part.operand) else operand
        return f"({operand} * 1.0)"

    def index(self, part: CIndex, depth: int) -> str:
        indices: list[str] = []
        base: Any = part
        while isinstance(base, CIndex):
            indices.insert(0, self.expression(base.index, depth))
            base = base.base
        if base.id not in self.tables:
            return self.target(part, depth)
        return f"{base.id}[{', '.join(indices)}]"

    def call(self, part: CCall, depth: int) -> str:
        known = self.functions.get(part.function)
        pointed = outs(known) if known else ()
        given: list[Any] = []
        set_here: list[Any] = []
        for place, argument in enumerate(part.arguments):
            is_set = known.parameters[place].name in pointed if known else _is_address(argument)
            if is_set:
                set_here.append(argument)
            if known or not is_set:
                given.append(_pointed(argument))
        if self.mask and any(isinstance(a, CName) and a.id in self.arrays for a in given):
            raise self.mistake(f"{part.function}() is given an array within a choice of lanes")
        texts = [self.expression(a, depth) for a in given]
        if known is not None and self.is_tabulated(known, given):
            others = "".join(f"{text}, " for text in texts[1:-1])
            return f"tabulated_{known.name}({texts[0]}, ({others}), {texts[-1]})"
        call = f"{part.function}({', '.join(texts)})"
        return self.setting(part, known, call, set_here, depth) if set_here else call

    def setting(
        self, part: CCall, known: CFunction | None, call: str, set_here: list[Any], depth: int
    ) -> str:
        """Write a call that sets numbers; its value."""
        if self.mask:
            raise self.mistake(f"{part.function}() sets numbers within a choice of lanes")
        value = [] if known is not None and known.kind == "void" else [self.fresh("value")]
        names = [*value, *(self.target(a, depth) for a in set_here)]
        self.line(depth, f"{', '.join(names)}{',' * (len(names) == 1)} = {call}")
        return value[0] if value else ""

    def is_tabulated(self, known: CFunction, given: list[Any]) -> bool:
        """Whether a function of a wide whole number fills an array."""
        first = known.parameters[0]
        return known.kind == "void" and first.kind == "int" and self.is_wide(given[0])


# -- what statements do ---------------------------------------------------------------------------


def _python(name: str) -> str:
    return f"{name}_" if keyword.iskeyword(name) else name


def _base(part: Any) -> str:
    """The variable that an assignment changes."""
    while not isinstance(part, CName):
        part = part.operand if isinstance(part, CUnary) else part.base
    return part.id


def _pointed(part: Any) -> Any:
    """The target of a pointer; any other part unchanged."""
    return part.operand if isinstance(part, CUnary) and part.sign in "*&" else part


def _is_address(part: Any) -> bool:
    return isinstance(part, CUnary) and part.sign == "&"


def _index_of(part: Any) -> Any:
    return part.index if isinstance(part, CIndex) else None


def _inner(each: Any) -> Iterator[Any]:
    if isinstance(each, CIf):
        yield from (*each.then, *each.otherwise)
    elif isinstance(each, CFor):
        yield from each.body


def _returns(each: Any) -> bool:
    """Whether a statement returns somewhere."""
    return isinstance(each, CReturn) or any(map(_returns, _inner(each)))


def _ends(statements: tuple[Any, ...]) -> bool:
    """Whether nothing comes after statements."""
    if not statements:
        return False
    last = statements[-1]
    if isinstance(last, CIf):
        return _ends(last.then) and _ends(last.otherwise)
    return isinstance(last, CReturn)


def _leaves(each: CIf) -> bool:
    """Whether a choice leaves a loop."""
    return each.then == (CBreak(),) and not each.otherwise


def _conjuncts(condition: Any) -> tuple[Any, Any]:
    """The first part of a condition with && and the rest of it."""
    if not (isinstance(condition, CBinary) and condition.sign == "&&"):
        return condition, None
    first, rest = _conjuncts(condition.left)
    return first, condition.right if rest is None else CBinary("&&", rest, condition.right)


def _sets(statements: tuple[Any, ...], name: str) -> bool:
    return any(isinstance(e, CAssign) and _base(e.target) == name for e in walk(statements))
