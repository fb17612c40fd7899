"""Graph texts, mutated: `ad.graph.parse` gives a graph that verifies and prints as it was read, or
raises `ParseError`; it runs nothing, and ends.

    python -m tests.campaigns.graph_texts --seconds 60 --seed 0
"""

from __future__ import annotations

import functools
import random
import re
from typing import Any

import adjoint as ad
from adjoint.graph.parsing import ParseError
from adjoint.table import TABLE
from tests.campaigns import campaign
from tests.watching import limited, watched

_TOKEN = re.compile(r"\w+|[^\w\s]|\s+")
_NUMBERS = ("0", "1", "-1", "2", "7", "1000000", "999999999999", "10**9", "1e400", "0x10", "9" * 30)
_NAMES = ("x", "y", "ad", "constants", "complex", "None", "True", "ad.nan", "ad.float64", "lambda")
_PIECES = (
    "(", ")", "[", "]", "{", "}", ",", ":", ";", "=", "*", "**", "#", "'", '"', "\\", "\n", "    ",
    " ", "  # f32[3]", "  # f32[3]  of sin.default/0  at x.py:1", "import os", "return x", "def g(",
    "@x", "-", "+", "~", ".", "...", "lambda: 0", "__import__('os')", "yield", "await ", "\0", "é",
    "f32[2,3]", "b[", "[-1]", "f32[999999999999999999]", " grad", "(" * 60, "-" * 90, "ad.ops.",
    "ad.graph.region(", "getattr(ad.ops.add, 'Tensor')", "ad.zeros((1000000, 1000000))", "b'x'",
    "ad.tensor([1.0, [2.0]])", "ad.tensor('x')", "constants['x']", "1j", "f'{x}'",
)  # fmt: skip


def _programs() -> list[tuple[Any, tuple[Any, ...]]]:
    vector, matrix = ad.ShapeDtype(3), ad.ShapeDtype((2, 3))
    whole = ad.ShapeDtype(3, ad.int64)
    table = ad.tensor([[1.0, 2.0, 3.0], [4.0, float("inf"), -0.0]])
    large = ad.arange(100)
    return [
        (lambda x: x.sin() * 2 + x, (vector,)),
        (lambda x, y: (x @ y.t()).softmax(1).sum((0, 1), keepdim=True), (matrix, matrix)),
        (lambda p, x: {"a": x * p["w"], "b": (p["v"][0], 3)}, (_parameters(vector), vector)),
        (lambda x: x.sort(1), (matrix,)),
        (lambda x: x.split(1, 1)[0] + x.unbind(1)[2].unsqueeze(1), (matrix,)),
        (lambda x: x * table + large.sum(), (matrix,)),
        (lambda x: x.to(ad.complex128) * (1 + 2j) + complex(0.0, -0.0), (vector,)),
        (lambda x, i: x[i].view(3, 1).expand(3, 2).clamp(min=0, max=2.5), (vector, whole)),
        (lambda x: ad.cond(x.sum() > 0, lambda v: v.sin(), lambda v: v * 2, x), (vector,)),
        (lambda x: ad.scan(lambda c, v: (c + v, c * v), x[0], x), (matrix,)),
        (lambda x: ad.while_loop(lambda v: v.sum() < 9, lambda v: v + 1, x), (vector,)),
        (ad.grad(lambda x: (x.tanh() * x).logsumexp(0)), (vector,)),
        (lambda x: ad.cat([x, x * 2]).cumsum(0).roll(1).masked_fill(x[0] > 0, 0.5), (vector,)),
        (lambda x: ad.nn.functional.pad(x, (1, 1)).std(1, correction=0), (matrix,)),
    ]


def _parameters(spec: Any) -> Any:
    return {"w": spec, "v": [spec]}


@functools.cache
def _corpus() -> list[tuple[str, dict[str, Any]]]:
    found = []
    for function, specs in _programs():
        graph = ad.trace(function, *specs)
        found.append((str(graph), graph.constants))
    return found


def check(seed: int) -> int:
    """Read one mutated text."""
    random_ = random.Random(seed)
    corpus = _corpus()
    text, constants = random_.choice(corpus)
    for _ in range(random_.choice((1, 1, 1, 2, 3, 8))):
        text = random_.choice(_MUTATIONS)(random_, text)
    try:
        with limited(10), watched() as events:
            graph = ad.graph.parse(text, constants)
    except ParseError:
        graph = None
    except Exception as error:
        raise AssertionError(f"{type(error).__name__}: {error}\n{text}") from error
    assert not events, (events, text)
    if graph is None:
        return 1
    _round_trip(graph, text)
    return 2


def _round_trip(graph: Any, text: str) -> None:
    try:
        ad.graph.verify(graph)
        again = ad.graph.parse(str(graph), graph.constants)
    except Exception as error:
        raise AssertionError(f"read, but {error}\n{text}\n--- as\n{graph}") from error
    assert str(again) == str(graph), f"{text}\n--- as\n{graph}\n--- and again\n{again}"


# -- mutations ---------------------------------------------------------------------------------


def _characters(random_: random.Random, text: str) -> str:
    at = random_.randrange(len(text) + 1)
    length = random_.choice((0, 1, 1, 2, 5))
    new = random_.choice(("", *"()[],.:=#'\"-+*_ \n0123456789abfxyé\0"))
    return text[:at] + new + text[at + length :]


def _tokens(random_: random.Random, text: str) -> str:
    tokens = _TOKEN.findall(text)
    if not tokens:
        return text
    at, other = random_.randrange(len(tokens)), random_.randrange(len(tokens))
    change = random_.randrange(4)
    if change == 0:
        tokens[at], tokens[other] = tokens[other], tokens[at]
    elif change == 1:
        tokens[at] = tokens[other]
    elif change == 2:
        del tokens[at]
    else:
        tokens.insert(at, tokens[other])
    return "".join(tokens)


def _words(random_: random.Random, text: str) -> str:
    """A name, a number or an operator by another one of its kind."""
    found = list(re.finditer(r"ad\.ops\.\w+\.\w+|\b\d+\b|\b[a-z]\w*\b", text))
    if not found:
        return text
    match = random_.choice(found)
    word = match[0]
    if word.startswith("ad.ops."):
        name = random_.choice(_operators())
        new = f"ad.ops.{name}.{random_.choice(TABLE.overloads(name)) or 'default'}"
    elif word.isdigit():
        new = random_.choice(_NUMBERS)
    else:
        new = random_.choice((*_NAMES, random_.choice(found)[0]))
    return text[: match.start()] + new + text[match.end() :]


@functools.cache
def _operators() -> list[str]:
    return TABLE.names()


def _lines(random_: random.Random, text: str) -> str:
    lines = text.split("\n")
    at, other = random_.randrange(len(lines)), random_.randrange(len(lines))
    change = random_.randrange(4)
    if change == 0:
        lines[at], lines[other] = lines[other], lines[at]
    elif change == 1:
        lines.insert(at, lines[other])
    elif change == 2:
        del lines[at]
    else:
        foreign = random_.choice(_corpus())[0].split("\n")
        lines.insert(at, random_.choice(foreign))
    return "\n".join(lines)


def _pieces(random_: random.Random, text: str) -> str:
    at = random_.randrange(len(text) + 1)
    return text[:at] + random_.choice(_PIECES) + text[at:]


def _cut(random_: random.Random, text: str) -> str:
    a, b = sorted(random_.randrange(len(text) + 1) for _ in range(2))
    return random_.choice((text[:a], text[a:], text[:a] + text[b:], text[:b] + text[a:]))


def _whole_arguments(random_: random.Random, text: str) -> str:
    """What stands in brackets by something else."""
    found = list(re.finditer(r"\(([^()]*)\)", text))
    if not found:
        return text
    match = random_.choice(found)
    parts = [p.strip() for p in match[1].split(",")]
    pool = [*parts, *_NAMES, *_NUMBERS, "(0, 1)", "[x]", "[]", "'mean'", "dim=0", "dtype=ad.int64"]
    new = random_.sample(pool, random_.randrange(min(4, len(pool))))
    return text[: match.start(1)] + ", ".join(new) + text[match.end(1) :]


_MUTATIONS = (_characters, _tokens, _tokens, _words, _words, _words, _lines, _pieces, _cut,
              _whole_arguments, _whole_arguments)  # fmt: skip


if __name__ == "__main__":
    campaign.main(check)
