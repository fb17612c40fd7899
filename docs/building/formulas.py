"""Formulas of the table as MathML, which browsers show without a script.

`grad * self.cos()` becomes z̄ · cos(x). `self` is written x, `other` y, the result z; a bar marks a
gradient, a dot a tangent, a star the conjugate. What has no form in mathematics (a lambda, a text
with values) raises `Unprintable` and stays a line of code.
"""

from __future__ import annotations

import ast
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from html import escape

from adjoint.table import formula as language

# How tightly the outermost operation of a formula binds.
CONDITION, SUM, SIGN, PRODUCT, POWER, ATOM = range(6)


class Unprintable(ValueError):
    """A formula that stays a line of code."""


@dataclass(frozen=True)
class Piece:
    """MathML of a part of a formula."""

    text: str  # "<mi>x</mi>"
    level: int = ATOM  # how tightly its outermost operation binds

    def within(self, level: int) -> str:
        """The text, in parentheses if its operation binds less than that."""
        return self.text if self.level >= level else parentheses(self.text)


# -- elements -------------------------------------------------------------------------------------


def row(*parts: str) -> str:
    return f"<mrow>{''.join(parts)}</mrow>"


def sign(text: str, **attributes: str) -> str:
    given = "".join(f' {key}="{value}"' for key, value in attributes.items())
    return f"<mo{given}>{escape(text)}</mo>"


def letter(text: str) -> str:
    """A variable in italics; a name of several letters stands upright."""
    return f"<mi>{escape(text)}</mi>"


def number(text: str) -> str:
    return f"<mn>{escape(text)}</mn>"


def words(text: str) -> str:
    return f"<mtext>{escape(text)}</mtext>"


def over(base: str, mark: str) -> str:
    return f'<mover accent="true">{base}<mo stretchy="false">{mark}</mo></mover>'


def power(base: str, exponent: str) -> str:
    return f"<msup>{base}{exponent}</msup>"


def below(base: str, index: str) -> str:
    return f"<msub>{base}{index}</msub>"


def fraction(top: str, bottom: str) -> str:
    return f"<mfrac>{top}{bottom}</mfrac>"


def between(left: str, inner: str, right: str) -> str:
    return row(sign(left, form="prefix"), inner, sign(right, form="postfix"))


def parentheses(inner: str) -> str:
    return between("(", inner, ")")


def separated(parts: Sequence[str], mark: str = ",") -> str:
    return row(sign(mark).join(parts))


def cases(branches: Sequence[tuple[str, str]], otherwise: str) -> str:
    """A brace with a line for each condition."""
    lines = [(value, row(words("if\u00a0"), condition)) for value, condition in branches]
    lines.append((otherwise, words("otherwise")))
    cells = (f"<mtr><mtd>{value}</mtd><mtd>{condition}</mtd></mtr>" for value, condition in lines)
    return row(sign("{", form="prefix"), f'<mtable class="cases">{"".join(cells)}</mtable>')


# -- names ----------------------------------------------------------------------------------------

LETTERS = {
    "self": "x", "other": "y", "result": "z", "input": "x", "target": "t", "weight": "w",
    "bias": "b",
    "alpha": "α", "beta": "β", "delta": "δ", "eps": "ε", "epsilon": "ε", "lambd": "λ", "gamma": "γ",
    "theta": "θ", "sigma": "σ", "rho": "ρ", "pi": "π", "inf": "∞", "exponent": "a",
}  # fmt: skip
CONSTANTS = {
    1.1283791670955126: fraction(number("2"), f"<msqrt>{letter('π')}</msqrt>"),
    0.3989422804014327: fraction(number("1"), f"<msqrt>{number('2')}{letter('π')}</msqrt>"),
    0.6931471805599453: row(letter("log"), number("2")),
    2.302585092994046: row(letter("log"), number("10")),
    0.017453292519943295: fraction(letter("π"), number("180")),
    57.29577951308232: fraction(number("180"), letter("π")),
    3.141592653589793: letter("π"),
    0.7071067811865476: fraction(number("1"), f"<msqrt>{number('2')}</msqrt>"),
}


def name(text: str) -> str:
    """A name of the table: `self` is x, `self_t` ẋ, `grad` z̄, `result1` z₁, `mat2` mat₂."""
    if text in ("grad", "grads"):
        return over(letter("z"), "‾")
    if text.startswith("grad_") and text != "grad_input_mask":
        return over(name(text[5:]), "‾")
    if text.endswith("_t"):
        return over(name(text[:-2]), "˙")
    if text.endswith("_p"):
        return name(text[:-2])
    if text in LETTERS:
        return letter(LETTERS[text])
    stem = text.rstrip("0123456789")
    if stem and stem != text:
        return below(name(stem), number(text[len(stem) :]))
    return letter(text) if len(text) == 1 else words(text)


def gradient(of: str) -> str:
    """x̄, the gradient of an argument."""
    return over(name(of), "‾")


# -- functions ------------------------------------------------------------------------------------

Printed = Callable[..., Piece]


def function(shown: str) -> Printed:
    """sin x, with parentheses around what is not one letter."""

    def printed(*arguments: Piece) -> Piece:
        inner = separated([a.text for a in arguments])
        return Piece(row(letter(shown), sign("\u2061"), parentheses(inner)), POWER)

    return printed


def _fenced(left: str, right: str) -> Printed:
    return lambda inner: Piece(between(left, inner.text, right))


def _to(exponent: str) -> Printed:
    return lambda base: Piece(power(base.within(ATOM), exponent), POWER)


def _logarithm_to(base: int) -> Printed:
    head = below(letter("log"), number(str(base)))
    return lambda inner: Piece(row(head, sign("\u2061"), parentheses(inner.text)), POWER)


def _exponential(base: str) -> Printed:
    return lambda inner: Piece(power(base, inner.text), POWER)


def _power(base: Piece, exponent: Piece) -> Piece:
    return Piece(power(base.within(ATOM), exponent.text), POWER)


def _one_over(inner: Piece) -> Piece:
    return Piece(fraction(number("1"), inner.text), POWER)


def _root(inner: Piece) -> Piece:
    return Piece(f"<msqrt>{inner.text}</msqrt>")


def _juxtaposed(left: Piece, right: Piece) -> Piece:
    gap = '<mspace width="0.17em"/>'
    return Piece(row(left.within(SIGN), gap, right.within(PRODUCT)), min(left.level, PRODUCT))


def _sum(inner: Piece, *dims: Piece) -> Piece:
    total = sign("∑", largeop="true", movablelimits="false")
    known = [d.text for d in dims[:1] if d.text != words("none")]
    head = f"<munder>{total}{known[0]}</munder>" if known else total
    return Piece(row(head, inner.within(PRODUCT)), PRODUCT)


def _times(left: Piece, right: Piece) -> Piece:
    shown = row(left.within(SIGN), sign("⋅"), right.within(PRODUCT))
    return Piece(shown, min(left.level, PRODUCT))


def _plus(left: Piece, right: Piece) -> Piece:
    second = right.within(PRODUCT if right.level == SIGN else SUM)
    return Piece(row(left.within(SUM), sign("+"), second), SUM)


def _minus(left: Piece, right: Piece) -> Piece:
    return Piece(row(left.within(SUM), sign("−"), right.within(PRODUCT)), SUM)


def _infix(mark: str, level: int, associates: bool = False) -> Printed:
    right = level if associates else level + 1
    return lambda a, b: Piece(row(a.within(level), sign(mark), b.within(right)), level)


AND, OR = (_infix(mark, CONDITION, associates=True) for mark in "∧∨")


def _negated(inner: Piece) -> Piece:
    return Piece(row(sign("−", form="prefix"), inner.within(PRODUCT)), SIGN)


def _not(inner: Piece) -> Piece:
    return Piece(row(sign("¬", form="prefix"), inner.within(POWER)), SIGN)


def _log1p(inner: Piece) -> Piece:
    return function("log")(Piece(row(number("1"), sign("+"), inner.within(SUM)), SUM))


def _expm1(inner: Piece) -> Piece:
    return Piece(row(power(letter("e"), inner.text), sign("−"), number("1")), SUM)


def _log_gamma(inner: Piece) -> Piece:
    gamma = between("|", function("Γ")(inner).text, "|")
    return Piece(row(letter("log"), sign("\u2061"), gamma), POWER)


def _quotient(top: Piece, bottom: Piece) -> Piece:
    return Piece(fraction(top.text, bottom.text), POWER)


INVERSE = {"asin": "arcsin", "acos": "arccos", "atan": "arctan", "asinh": "arsinh",
           "acosh": "arcosh", "atanh": "artanh"}  # fmt: skip
SHOWN = {
    **{n: n for n in ("sin", "cos", "tan", "sinh", "cosh", "tanh", "log", "erf", "erfc", "sgn")},
    **INVERSE, "sigmoid": "σ", "digamma": "ψ", "sign": "sgn", "real": "Re", "imag": "Im",
    "maximum": "max", "minimum": "min", "angle": "arg", "i0": "I₀", "special_i1": "I₁",
    "special_ndtr": "Φ", "trace": "tr", "diagonal": "diag",
}  # fmt: skip
FUNCTIONS: dict[str, Printed] = {
    **{called: function(shown) for called, shown in SHOWN.items()},
    "abs": _fenced("|", "|"), "floor": _fenced("⌊", "⌋"), "ceil": _fenced("⌈", "⌉"),
    "exp": _exponential(letter("e")), "exp2": _exponential(number("2")), "expm1": _expm1,
    "log2": _logarithm_to(2), "log10": _logarithm_to(10), "log1p": _log1p, "lgamma": _log_gamma,
    "sqrt": _root, "rsqrt": lambda a: _one_over(_root(a)), "reciprocal": _one_over,
    "square": _to(number("2")), "pow": _power, "float_power": _power,
    "mH": _to(letter("H")), "adjoint": _to(letter("H")), "mT": _to(letter("T")),
    "T": _to(letter("T")), "conj": _to(sign("*")), "neg": _negated, "sum": _sum,
    "matmul": _juxtaposed, "mm": _juxtaposed, "bmm": _juxtaposed, "mv": _juxtaposed,
    "mul": _times, "add": _plus, "sub": _minus,
    "div": _quotient, "zeros_like": lambda a: Piece(number("0")),
    "ones_like": lambda a: Piece(number("1")),
    "eq": _infix("=", CONDITION), "ne": _infix("≠", CONDITION), "lt": _infix("<", CONDITION),
    "le": _infix("≤", CONDITION), "gt": _infix(">", CONDITION), "ge": _infix("≥", CONDITION),
}  # fmt: skip
OPERATORS: dict[type[ast.AST], Printed] = {
    ast.Add: _plus, ast.Sub: _minus, ast.Mult: _times,
    ast.MatMult: _juxtaposed, ast.Pow: _power, ast.Div: _quotient,
    ast.Mod: _infix("mod", PRODUCT), ast.BitAnd: AND, ast.BitOr: OR,
    ast.BitXor: _infix("⊕", CONDITION),
    ast.FloorDiv: lambda a, b: Piece(between("⌊", fraction(a.text, b.text), "⌋")),
    ast.USub: _negated, ast.UAdd: lambda a: a, ast.Invert: _not, ast.Not: _not,
    ast.Eq: FUNCTIONS["eq"], ast.NotEq: FUNCTIONS["ne"], ast.Lt: FUNCTIONS["lt"],
    ast.LtE: FUNCTIONS["le"], ast.Gt: FUNCTIONS["gt"], ast.GtE: FUNCTIONS["ge"],
    ast.In: _infix("∈", CONDITION), ast.NotIn: _infix("∉", CONDITION),
    ast.Is: _infix("=", CONDITION), ast.IsNot: _infix("≠", CONDITION),
    ast.And: AND, ast.Or: OR,
}  # fmt: skip


# -- expressions ----------------------------------------------------------------------------------


def expression(text: str) -> str:
    """MathML of a formula.

    >>> expression("grad * self.cos()") == expression("grad * cos(self)")
    True
    >>> expression("2 * n")
    '<mrow><mn>2</mn><mo>⋅</mo><mi>n</mi></mrow>'
    """
    try:
        tree = ast.parse(" ".join(text.split()), mode="eval")
    except SyntaxError as error:
        raise Unprintable(text) from error
    return printed(tree.body).text


def printed(node: ast.expr) -> Piece:
    """MathML of a part of a formula."""
    rule = RULES.get(type(node))
    if rule is None:
        raise Unprintable(ast.unparse(node))
    return rule(node)


def _name(node: ast.Name) -> Piece:
    return Piece(name(node.id))


def _constant(node: ast.Constant) -> Piece:
    value = node.value
    if isinstance(value, float) and value in CONSTANTS:
        return Piece(CONSTANTS[value])
    if isinstance(value, bool) or value is None:
        return Piece(words(str(value).lower()))
    return Piece(words(f"“{value}”") if isinstance(value, str) else number(f"{value:.10g}"))


def _attribute(node: ast.Attribute) -> Piece:
    inner = printed(node.value)
    if node.attr in ("mH", "mT", "T", "real", "imag"):
        return FUNCTIONS[node.attr](inner)
    return Piece(row(words(node.attr), parentheses(inner.text)), POWER)


def _call(node: ast.Call) -> Piece:
    called, given = node.func, list(node.args)
    if isinstance(called, ast.Attribute):
        shown = called.attr
        if not (isinstance(called.value, ast.Name) and called.value.id in language.MODULES):
            given = [called.value, *given]
    elif isinstance(called, ast.Name):
        shown = called.id
    else:
        raise Unprintable(ast.unparse(node))
    if shown in CHOICES and len(given) == 3 and not node.keywords:
        return CHOICES[shown](*given)
    return _applied(shown, [printed(a) for a in given], node.keywords)


def _applied(shown: str, arguments: list[Piece], keywords: list[ast.keyword]) -> Piece:
    rule = FUNCTIONS.get(shown)
    if rule is not None and not keywords:
        try:
            return rule(*arguments)
        except TypeError:  # more arguments than the sign has places for
            rule = None
    named = [row(words(k.arg or ""), sign("="), printed(k.value).text) for k in keywords]
    inner = separated([a.text for a in arguments] + named)
    return Piece(row(words(shown), parentheses(inner)), POWER)


def _choice(condition: ast.expr, value: ast.expr, otherwise: ast.expr) -> Piece:
    """A value where a condition holds; a choice in the other branch adds lines to the brace."""
    branches = [(printed(value).text, printed(condition).text)]
    while (inner := _as_choice(otherwise)) is not None:
        condition, value, otherwise = inner
        branches.append((printed(value).text, printed(condition).text))
    return Piece(cases(branches, printed(otherwise).text), SUM)


def _as_choice(node: ast.expr) -> tuple[ast.expr, ast.expr, ast.expr] | None:
    if isinstance(node, ast.IfExp):
        return node.test, node.body, node.orelse
    if isinstance(node, ast.Call) and isinstance(node.func, ast.Name) and node.func.id == "where":
        return tuple(node.args) if len(node.args) == 3 else None  # type: ignore[return-value]
    return None


CHOICES: dict[str, Callable[..., Piece]] = {
    "where": _choice,
    "masked_fill": lambda tensor, mask, value: _choice(mask, value, tensor),
}


def _binary(node: ast.BinOp) -> Piece:
    rule = OPERATORS.get(type(node.op))
    if rule is None:
        raise Unprintable(ast.unparse(node))
    return rule(printed(node.left), printed(node.right))


def _unary(node: ast.UnaryOp) -> Piece:
    return OPERATORS[type(node.op)](printed(node.operand))


def _boolean(node: ast.BoolOp) -> Piece:
    first, *others = (printed(v) for v in node.values)
    for other in others:
        first = OPERATORS[type(node.op)](first, other)
    return first


def _compared(node: ast.Compare) -> Piece:
    parts, left = [], node.left
    for operator, right in zip(node.ops, node.comparators, strict=True):
        parts.append(OPERATORS[type(operator)](printed(left), printed(right)))
        left = right
    found = parts[0]
    for other in parts[1:]:
        found = OPERATORS[ast.And](found, other)
    return found


def _subscript(node: ast.Subscript) -> Piece:
    index = node.slice
    shown = words(ast.unparse(index)) if isinstance(index, ast.Slice) else printed(index).text
    return Piece(below(printed(node.value).within(ATOM), shown))


def _listed(node: ast.List | ast.Tuple) -> Piece:
    left, right = ("[", "]") if isinstance(node, ast.List) else ("(", ")")
    return Piece(between(left, separated([printed(e).text for e in node.elts]), right))


def _collected(node: ast.ListComp | ast.GeneratorExp) -> Piece:
    ranges: list[str] = []
    for loop in node.generators:
        ranges.append(row(printed(loop.target).text, sign("∈"), printed(loop.iter).text))
        ranges += [printed(condition).text for condition in loop.ifs]
    return Piece(between("[", row(printed(node.elt).text, sign(":"), separated(ranges)), "]"))


def _starred(node: ast.Starred) -> Piece:
    return Piece(row(printed(node.value).text, sign("…")))


RULES: dict[type[ast.AST], Callable[..., Piece]] = {
    ast.Name: _name,
    ast.Constant: _constant,
    ast.Attribute: _attribute,
    ast.Call: _call,
    ast.BinOp: _binary,
    ast.UnaryOp: _unary,
    ast.BoolOp: _boolean,
    ast.Compare: _compared,
    ast.IfExp: lambda node: _choice(node.test, node.body, node.orelse),
    ast.Subscript: _subscript,
    ast.List: _listed,
    ast.Tuple: _listed,
    ast.ListComp: _collected,
    ast.GeneratorExp: _collected,
    ast.Starred: _starred,
}


def equation(left: str, right: str) -> str:
    """A displayed line: left = right, both MathML."""
    return f'<math displaystyle="true">{row(left, sign("="), right)}</math>'
