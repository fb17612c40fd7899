"""Numbers that depend on sizes: texts that agree but for polynomials."""

from __future__ import annotations

import hashlib
import itertools
import math
import re
from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from adjoint.core.lazy import Lazy
from adjoint.core.records import record
from adjoint.graph.ir import Constant, Graph, Value

if TYPE_CHECKING:
    import fractions
else:
    fractions = Lazy("fractions")  # for open sizes

_NUMBER = re.compile(r"(?<![\w.])\d+(?:\.\d+)?(?:e[+-]?\d+)?(?:f|LL)?(?![\w.])")


class NotUniform(Exception):
    """Programs for different sizes differ in more than numbers."""


@record
class Polynomial:
    """Σ c · nⁱ mʲ, or one over it."""

    terms: tuple[tuple[tuple[int, ...], fractions.Fraction], ...]  # (powers, coefficient)
    inverse: bool = False

    @property
    def is_constant(self) -> bool:
        return not any(any(powers) for powers, _ in self.terms)

    def at(self, sizes: Sequence[int]) -> Any:
        total = sum(
            (
                c * math.prod(s**p for s, p in zip(sizes, powers, strict=False))
                for powers, c in self.terms
            ),
            fractions.Fraction(0),
        )
        if self.inverse:
            return float(1 / total) if total else math.inf
        return int(total) if total.denominator == 1 else float(total)


def fit(points: Sequence[tuple[int, ...]], values: Sequence[Any]) -> Polynomial:
    """The polynomial of degree 3 (2 in each of several sizes) through all points; it must exist."""
    for inverse in (False, True):
        if inverse and not all(values):
            break
        exact = [fractions.Fraction(v) for v in values]
        wanted = [1 / v for v in exact] if inverse else exact
        if inverse:
            wanted = [
                fractions.Fraction(round(v))
                if abs(v - round(v)) < fractions.Fraction(1, 10**6)
                else v
                for v in wanted
            ]
        found = _solve(points, wanted)
        if found is None:
            continue
        polynomial = Polynomial(found, inverse)
        if all(float(polynomial.at(p)) == float(v) for p, v in zip(points, values, strict=True)):
            return polynomial
    known = ", ".join(
        f"{float(v):g} for {' and '.join(map(str, p))}"
        for p, v in zip(points[:3], values[:3], strict=True)
    )
    raise NotUniform(f"a number is {known}, which is no polynomial")


def _solve(points: Any, values: Sequence[fractions.Fraction]) -> Any:
    """Exact elimination with as many points as there are coefficients."""
    count = len(points[0])
    most = 3 if count == 1 else 2
    powers = [p for p in itertools.product(range(most + 1), repeat=count) if sum(p) <= 3]
    rows = [
        [fractions.Fraction(math.prod(s**e for s, e in zip(point, p, strict=True))) for p in powers]
        + [v]
        for point, v in zip(points, values, strict=True)
    ]
    for column in range(len(powers)):
        pivot = next((r for r in range(column, len(rows)) if rows[r][column]), None)
        if pivot is None:
            return None
        rows[column], rows[pivot] = rows[pivot], rows[column]
        for r in range(len(rows)):
            if r != column and rows[r][column]:
                factor = rows[r][column] / rows[column][column]
                rows[r] = [a - factor * b for a, b in zip(rows[r], rows[column], strict=True)]
    if any(row[-1] for row in rows[len(powers) :]):
        return None
    return tuple((p, rows[k][-1] / rows[k][k]) for k, p in enumerate(powers) if rows[k][-1])


def described(graph: Graph) -> str:
    """Everything that a graph computes, as text in which only numbers depend on sizes."""
    names: dict[Value, str] = {}

    def text(argument: Any) -> str:
        if isinstance(argument, Value):
            return names[argument]
        if isinstance(argument, (tuple, list)):
            return f"[{', '.join(map(text, argument))}]"
        return repr(argument)

    def made(value: Value) -> str:
        names[value] = f"v{len(names)}"
        return f"{names[value]}: {value.type}"

    def lines(graph: Graph) -> Iterator[str]:
        yield f"given {', '.join(map(made, graph.inputs))}"
        for node in graph.nodes:
            for name, inner in node.graphs.items():
                yield f"{name}:"
                yield from lines(inner)
            constant = ""
            if isinstance(node.op, Constant):
                constant = _fingerprint(np.asarray(node.op.tensor.array))
            arguments = ", ".join(map(text, node.args))
            yield f"{', '.join(map(made, node.outputs))} = {node.name} {constant} {arguments}"
        yield f"return {text(graph.outputs)}"

    return "\n".join(lines(graph))


def _fingerprint(array: Any) -> str:
    """The same for constants that `_same` takes for one."""
    if array.size and (array == array.flat[0]).all():
        array = array.reshape(-1)[:1]
    return f"h{hashlib.sha256(array.tobytes()).hexdigest()}"


class Pattern:
    """A text whose numbers depend on sizes."""

    def __init__(self, points: Any, texts: Sequence[str]) -> None:
        split = [_NUMBER.split(t) for t in texts]
        if any(p != split[0] for p in split):
            raise NotUniform("the program is another for other sizes")
        self.pieces = split[0]
        numbers = zip(*(_NUMBER.findall(t) for t in texts), strict=True)
        known: dict[tuple[str, ...], Any] = {}
        self.numbers: list[str | tuple[str, Polynomial]] = []  # as it stands; or how it ends, and …
        for tokens in numbers:
            if tokens not in known:
                known[tokens] = tokens[0] if len(set(tokens)) == 1 else _varying(points, tokens)
            self.numbers.append(known[tokens])

    def matches(self, text: str, sizes: tuple[int, ...]) -> bool:
        """Whether a text is the one for some sizes."""
        if _NUMBER.split(text) != self.pieces:
            return False
        for token, known in zip(_NUMBER.findall(text), self.numbers, strict=True):
            if isinstance(known, str):
                if token != known:
                    return False
            elif float(token.rstrip("fL")) != float(known[1].at(sizes)):
                return False
        return True


def _varying(points: Any, tokens: tuple[str, ...]) -> tuple[str, Polynomial]:
    real = any(c in tokens[0] for c in ".e")
    digits = [t.rstrip("fL") for t in tokens]
    values = [fractions.Fraction(float(d)) if real else fractions.Fraction(int(d)) for d in digits]
    return ("f" if tokens[0].endswith("f") else "x") if real else "n", fit(points, values)
