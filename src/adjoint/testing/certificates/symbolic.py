"""Proofs by SymPy: the derivative that a row gives is the derivative of its definition.

The gradient of a call is traced, so that formulas, decompositions and the engine are in one graph;
the graph is run on symbols instead of numbers, and so is the definition. Where the difference
simplifies to 0, the derivative is proven for all arguments on which comparisons come out as they do
at the point that was traced: functions that are analytic there agree everywhere they go on.

Numbers in formulas that stand for irrational ones (2/√π) are recognised by their digits.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Sequence
from functools import cache
from typing import Any

import adjoint as ad
from adjoint.core.errors import AdjointError
from adjoint.core.importing import imported
from adjoint.core.records import record
from adjoint.graph.ir import Constant, Graph, Node, Value
from adjoint.graph.passes.decompose import expand
from adjoint.ops import binding
from adjoint.testing.certificates import definitions
from adjoint.testing.certificates.measuring import Cell, Measured, said
from adjoint.testing.certificates.subjects import Subject
from adjoint.testing.certificates.ways import function_of, slope

POINTS = (-37.5, -2.25, -0.625, -0.125, 0.125, 0.375, 0.625, 0.875, 1.75, 3.25, 41.5)
LONGEST = 400  # operations of a difference that is simplified
SYMBOLS = "symbols"  # instead of a dtype
DIGITS = 150  # with which a difference that does not simplify is computed
MOST = 20_000  # digits that may cancel on the way
SAME = 60  # digits in which both sides then agree
Symbol = Any


class Unknown(AdjointError, ValueError):
    """An operator or a word that has no meaning in symbols."""


@record
class Proof:
    """What is known of a subject's derivative around one point."""

    subject: str  # "tanh(x)"
    order: int  # 1
    at: float  # where comparisons were decided
    outcome: str  # "proof", "digits", "difference", or why nothing is known
    error: float  # of the formula without rounding, in ulp: 0 if proven; NaN if nothing is known


@cache
def sympy() -> Any:
    """The module SymPy."""
    try:
        return imported("sympy")
    except ImportError:
        raise Unknown("proofs need SymPy: pip install 'adjoint[certify]'") from None


def measure(subject: Subject, orders: int = 2) -> Measured | None:
    """The worst outcome of each order; None where a meaning is missing or the domain is small."""
    worst: dict[tuple[str, int], Cell] = {}
    for proof in proofs(subject, min(orders, subject.orders)):
        if math.isnan(proof.error):
            break
        key = next((key for key in worst if key[1] == proof.order), None)
        if key is None or proof.error > worst[key].error:
            worst.pop(key, None) if key else None
            worst[f"symbols {proof.outcome}", proof.order] = Cell(proof.error, proof.at, 0.0, 0.0)
    return Measured(subject.title, SYMBOLS, worst, {}, {}) if worst else None


def proofs(subject: Subject, orders: int = 2) -> Iterator[Proof]:
    """One proof for each order and each way in which comparisons come out."""
    for order in range(orders + 1):
        seen: set[tuple[bool, ...]] = set()
        for at in POINTS:
            if subject.low < at < subject.high and at not in subject.kinks:
                world = World(at)
                try:
                    found = world.derivative(subject, order)
                    wanted = sympy().diff(world.definition(subject), world.x, order)
                except AdjointError as error:  # without a meaning, or not of a single number
                    yield Proof(subject.title, order, at, said(error), math.nan)
                    return
                if tuple(world.decided) not in seen:
                    seen.add(tuple(world.decided))
                    yield Proof(subject.title, order, at, *_compared(found, wanted, world))


def _compared(found: Symbol, wanted: Symbol, world: World) -> tuple[str, float]:
    """How two sides were seen to be the same, and the error in ulp where they are not."""
    s = sympy()
    found, wanted = s.sympify(found), s.sympify(wanted)
    if _simplifies(found - wanted):
        return "proof", 0.0
    points = [world.at * (1 + s.Rational(k, 1000)) for k in range(-2, 3)]
    pairs = [
        [s.N(side.subs(world.x, p), DIGITS, maxn=MOST) for side in (found, wanted)] for p in points
    ]
    worst, size = max(abs(a - b) for a, b in pairs), max(abs(b) for _, b in pairs)
    if worst <= s.Float(10) ** -SAME * size:
        return "digits", 10.0**-SAME * 2**52
    return "difference", float(worst / max(size * s.Float(2) ** -52, s.Float(2) ** -1024))


def _simplifies(difference: Symbol) -> bool:
    """Whether a difference of moderate length becomes 0."""
    s = sympy()
    for form in (difference, difference.rewrite(s.exp)):
        if s.count_ops(form) > LONGEST:
            continue
        numerator = s.fraction(s.together(s.powsimp(form)))[0]
        if s.expand(numerator) == 0 or s.powsimp(s.expand(numerator)) == 0:
            return True
    return False


# -- graphs on symbols -----------------------------------------------------------------------------


class World:
    """A symbol, and the point at which comparisons are decided."""

    def __init__(self, at: float) -> None:
        self.x = sympy().Symbol("x", real=True, positive=at > 0 or None, negative=at < 0 or None)
        self.at = sympy().Rational(at)
        self.decided: list[bool] = []

    def truth(self, relation: Symbol) -> bool:
        """How a comparison comes out at the point."""
        decided = bool(self.near(relation))
        self.decided.append(decided)
        return decided

    def derivative(self, subject: Subject, order: int) -> Symbol:
        """The n-th derivative of a subject's call, run on symbols."""
        f = function_of(subject, subject.parameters_in("float64"))
        for _ in range(order):
            f = slope(f, "reverse")
        graph = expand(ad.trace(f, ad.ShapeDtype((), ad.float64)), _smaller)
        return self.run(graph)

    def run(self, graph: Graph) -> Symbol:
        known: dict[Value, Any] = {graph.inputs[0]: self.x}
        for node in graph.nodes:
            results = self._node(node, known)
            known.update(zip(node.outputs, results))
        (output,) = graph.outputs
        return known[output]

    def _node(self, node: Node, known: dict[Value, Any]) -> Sequence[Any]:
        if isinstance(node.op, Constant):
            return (exact(float(node.op.tensor)),)
        name = node.name.partition(".")[0]
        arguments = [self._argument(a, known) for a in node.args]
        if name in OF_VECTORS:
            found = OF_VECTORS[name](self, *arguments)
            return found if len(node.outputs) > 1 else (found,)
        if name not in MEANINGS:
            raise Unknown(f"{node.name} has no meaning in symbols")
        return (self._each(MEANINGS[name], arguments),)

    def _each(self, meaning: Callable[..., Any], arguments: Sequence[Any]) -> Any:
        """An operator element by element, of numbers and lists of them."""
        sizes = {len(a) for a in arguments if isinstance(a, list)}
        if not sizes:
            return meaning(self, *arguments)
        (size,) = sizes
        spread = [a if isinstance(a, list) else [a] * size for a in arguments]
        return [meaning(self, *element) for element in zip(*spread)]

    def near(self, value: Symbol) -> Symbol:
        """A value at the point."""
        return sympy().sympify(value).subs(self.x, self.at)

    def _argument(self, argument: Any, known: dict[Value, Any]) -> Any:
        if isinstance(argument, Value):
            return known[argument]
        if isinstance(argument, float):
            return exact(argument)
        if isinstance(argument, tuple) and any(isinstance(a, Value) for a in argument):
            return [known[a] for a in argument]
        return argument

    # -- definitions -------------------------------------------------------------------------------

    def definition(self, subject: Subject) -> Symbol:
        """A definition of the table on symbols."""
        s = sympy()
        words = {name: (lambda *a, f=f: f(self, *a)) for name, f in WORDS.items()}
        numbers = {name: exact(value) for name, value in subject.parameters.items()}
        names = {"x": self.x, "x0": Decided(self), "pi": s.pi, "N": exact}
        try:
            return eval(definitions.code(subject.definition), {**words, **names, **numbers})
        except NameError as error:
            raise Unknown(f"{error.name} has no meaning in symbols") from None


class Decided:
    """The argument of a definition's conditions, which are decided at a point."""

    def __init__(self, world: World, change: Symbol = 0) -> None:
        self.world, self.change = world, change

    def __gt__(self, other: Any) -> bool:
        return self.world.truth(self.world.x - self.change > other)

    def __lt__(self, other: Any) -> bool:
        return self.world.truth(self.world.x - self.change < other)

    def __ne__(self, other: object) -> bool:
        return self.world.truth(sympy().Ne(self.world.x - self.change, other))

    def __sub__(self, other: Any) -> Decided:
        return Decided(self.world, self.change + other)

    __hash__ = None  # type: ignore[assignment]


@cache
def exact(value: float) -> Symbol:
    """A number of a formula: the irrational one that it stands for, or itself."""
    if math.isinf(value):
        return sympy().oo if value > 0 else -sympy().oo
    for symbol in _irrational():
        near = float(symbol)
        if value and abs(abs(value) - near) <= 2**-52 * near:
            return symbol if value > 0 else -symbol
    return sympy().Rational(value)


@cache
def _irrational() -> tuple[Symbol, ...]:
    """Irrational numbers that formulas hold as decimals."""
    s = sympy()
    pi, root = s.pi, s.sqrt
    return (
        root(pi), 1 / root(pi), 2 / root(pi), root(2 * pi), 1 / root(2 * pi), root(2), 1 / root(2),
        root(2 / pi), root(pi / 2), root(pi) / 2, pi, 1 / pi, pi / 2, pi / 180, 180 / pi, s.log(2),
        1 / s.log(2), s.log(4) - 1, s.log(10), 1 / s.log(10), s.log(2 * pi) / 2, s.log(pi),
        s.log(2 * pi), s.E,
    )  # fmt: skip


def _sign(world: World, value: Symbol) -> int:
    return 1 if world.truth(value > 0) else -1 if world.truth(value < 0) else 0


def _absolute(world: World, value: Symbol) -> Symbol:
    return _sign(world, value) * value


def _scaled(function: Callable[[Symbol, Symbol], Symbol]) -> Callable[..., Symbol]:
    """a + alpha b and the like."""
    return lambda world, a, b, alpha=1: function(a, alpha * b)


def _plain(name: str) -> Callable[..., Symbol]:
    return lambda world, *args: getattr(sympy(), name)(*args)


def _of(function: Callable[..., Symbol]) -> Callable[..., Symbol]:
    return lambda world, *args: function(*args)


def _compare(function: Callable[[Symbol, Symbol], Symbol]) -> Callable[..., bool]:
    return lambda world, a, b: world.truth(function(a, b))


FUNCTIONS = (
    "exp", "log", "sqrt", "sin", "cos", "tan", "asin", "acos", "atan", "sinh", "cosh", "tanh",
    "asinh", "acosh", "atanh", "erf", "erfc",
)  # fmt: skip
WORDS: dict[str, Callable[..., Any]] = {
    **{name: _plain(name) for name in FUNCTIONS},
    "log1p": _of(lambda v: sympy().log(1 + v)),
    "expm1": _of(lambda v: sympy().exp(v) - 1),
    "sigmoid": _of(lambda v: 1 / (1 + sympy().exp(-v))),
    "softplus": _of(lambda v: sympy().log(1 + sympy().exp(v))),
    "ndtr": _of(lambda v: sympy().erfc(-v / sympy().sqrt(2)) / 2),
    "erfi": _plain("erfi"),
    "power": _of(lambda a, b: a**b),
    "absolute": _absolute,
    "floor": lambda world, v: sympy().floor(world.near(v)),
    "trunc": lambda world, v: sympy().Integer(int(world.near(v))),
    "sin_pi": _of(lambda v: sympy().sin(sympy().pi * v)),
}
MEANINGS: dict[str, Callable[..., Any]] = {
    **{name: _plain(name) for name in FUNCTIONS},
    **{name: WORDS[name] for name in ("log1p", "expm1", "sigmoid")},
    "add": _scaled(lambda a, b: a + b),
    "sub": _scaled(lambda a, b: a - b),
    "rsub": lambda world, a, b, alpha=1: b - alpha * a,
    "mul": _of(lambda a, b: a * b),
    "div": _of(lambda a, b, rounding_mode=None: a / b if rounding_mode is None else _unknown("//")),
    "_over": _of(lambda a, b: a / b),
    "neg": _of(lambda a: -a),
    "reciprocal": _of(lambda a: 1 / a),
    "rsqrt": _of(lambda a: 1 / sympy().sqrt(a)),
    "square": _of(lambda a: a * a),
    "pow": _of(lambda a, b: a**b),
    "exp2": _of(lambda a: 2**a),
    "log2": _of(lambda a: sympy().log(a) / sympy().log(2)),
    "log10": _of(lambda a: sympy().log(a) / sympy().log(10)),
    "hypot": _of(lambda a, b: sympy().sqrt(a * a + b * b)),
    "_hypot_slope": _of(lambda factor, a, b: factor * a / sympy().sqrt(a * a + b * b)),
    "xlogy": _of(lambda a, b: a * sympy().log(b)),
    "special_xlog1py": _of(lambda a, b: a * sympy().log(1 + b)),
    "special_entr": _of(lambda a: -a * sympy().log(a)),
    "special_ndtr": WORDS["ndtr"],
    "logit": _of(lambda a, eps=None: sympy().log(a / (1 - a))),
    "_logit_slope": _of(lambda a, eps=None: 1 / (a * (1 - a))),
    "abs": _absolute,
    "sgn": _sign,
    "sign": _sign,
    "where": _of(lambda condition, yes, no: yes if condition else no),
    "masked_fill": lambda world, a, mask, value: value if mask else a,
    "detach": _of(lambda a: a),
    "clone": _of(lambda a: a),
    "ones_like": _of(lambda a, *_: 1),
    "zeros_like": _of(lambda a, *_: 0),
    "full_like": _of(lambda a, value, *_: exact(value) if isinstance(value, float) else value),
    "full": _of(lambda shape, value, *_: value),
    "gt": _compare(lambda a, b: a > b),
    "ge": _compare(lambda a, b: a >= b),
    "lt": _compare(lambda a, b: a < b),
    "le": _compare(lambda a, b: a <= b),
    "eq": _compare(lambda a, b: sympy().Eq(a, b)),
    "ne": _compare(lambda a, b: sympy().Ne(a, b)),
    "bitwise_and": _of(lambda a, b: a and b),
    "bitwise_or": _of(lambda a, b: a or b),
    "bitwise_not": _of(lambda a: not a),
    "isnan": _of(lambda a: False),
    "positive": _of(lambda a: a),
    "maximum": lambda world, a, b: a if world.truth(a > b) else b,
    "minimum": lambda world, a, b: a if world.truth(a < b) else b,
    "copysign": lambda world, a, b: _absolute(world, a) * (1 if world.truth(b >= 0) else -1),
    "atan2": lambda world, a, b: sympy().atan(a / b) if world.truth(b > 0) else _unknown("atan2"),
    "floor": WORDS["floor"],
    "trunc": WORDS["trunc"],
    "remainder": lambda world, a, b: a - b * sympy().floor(world.near(a / b)),
    "fmod": lambda world, a, b: a - b * sympy().Integer(int(world.near(a / b))),
    "ldexp": _of(lambda a, b: a * 2**b),
    "erfcx": _of(lambda a: sympy().exp(a * a) * sympy().erfc(a)),
    "_to_copy": _of(lambda a, *_: int(a) if isinstance(a, bool) else a),
    "logical_and": _of(lambda a, b: a and b),
    "logical_or": _of(lambda a, b: a or b),
    "logical_not": _of(lambda a: not a),
}


def _summed(world: World, value: Any, *_: Any) -> Symbol:
    return sum(value[1:], start=value[0]) if isinstance(value, list) else value


def _greatest(world: World, value: Any, *_: Any) -> Symbol:
    found, *others = value if isinstance(value, list) else [value]
    for other in others:
        found = other if world.truth(other > found) else found
    return found


def _spread(world: World, value: Any, shape: Sequence[int], *_: Any) -> Any:
    return value if isinstance(value, list) or not shape else [value] * shape[0]


# Operators of short vectors, which are lists; in scalars they do nothing.
OF_VECTORS: dict[str, Callable[..., Any]] = {
    "sum": _summed,
    "amax": _greatest,
    "stack": lambda world, parts, *_: parts,
    "cat": lambda world, parts, *_: [v for part in parts for v in part],
    "unbind": lambda world, value, *_: value,
    "select": lambda world, value, dim, place: value[place],
    "expand": _spread,
    "unsqueeze": lambda world, value, dim: value if isinstance(value, list) else [value],
    "squeeze": lambda world, value, *_: value[0] if isinstance(value, list) else value,
    "_unreduce": lambda world, value, dims, shape, *_: _spread(world, value, shape),
    "view": lambda world, value, shape: value,
    "reshape": lambda world, value, shape: value,
}


def _unknown(name: str) -> Symbol:
    raise Unknown(f"{name} has no meaning in symbols there")


def _smaller(node: Node, is_part: bool) -> Callable[..., Any] | None:
    """The decomposition of an operator that has no meaning here."""
    known = node.name.partition(".")[0] in MEANINGS
    return binding.decomposition(node.op.row) if node.op.row.decompose and not known else None
