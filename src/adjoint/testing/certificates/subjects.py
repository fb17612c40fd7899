"""Subjects: calls of ours with one real argument, read from `definitions.txt`.

A line of the table with a parameter that has several values is several subjects.
"""

from __future__ import annotations

import hashlib
import itertools
import math
import re
from collections.abc import Iterator, Mapping
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np

from adjoint.core.errors import TableError
from adjoint.core.records import record

_FILE = Path(__file__).with_name("definitions.txt")
_PARAMETER = re.compile(r"^(\w+) = (.+)$")
_CALLED = re.compile(r"(?:(\w+)\.)?(\w+)\(")
PREFIXES = {"special": "special_", "linalg": "linalg_", "F": "", "sc": "sc.", "D": "D."}


@record
class Subject:
    """A function of one real argument with its definition."""

    call: str  # "hypot(x, c)"
    definition: str  # "sqrt(x * x + c * c)"
    family: str  # "pointwise"
    line: int  # of definitions.txt
    low: float  # where the domain begins: -inf
    high: float
    below: float  # the largest magnitude that is tried
    near: tuple[float, ...]  # points to look at closely
    kinks: tuple[float, ...]  # points at which derivatives jump
    parameters: Mapping[str, float]  # {"c": 0.7}
    orders: int  # the highest derivative that is looked at
    rounds: bool  # the call rounds an argument in halves, stack([x, 1 - x]): no other function

    @property
    def name(self) -> str:
        """The call with its parameters filled in: "hypot(x, 0.7)"."""
        return re.sub(
            r"\b(" + "|".join(self.parameters) + r")\b",
            lambda m: f"{self.parameters[m[1]]:g}",
            self.call,
        ) if self.parameters else self.call  # fmt: skip

    @property
    def title(self) -> str:
        """The name; where several subjects share it, with the domain ("lgamma(x) on (-30, 0)") or,
        where that is the same, with its parameters apart ("pow(x, c), c = 3")."""
        same = [other for other in subjects() if other.name == self.name]
        if len(same) == 1:
            return self.name
        if len({(other.low, other.high) for other in same}) == len(same):
            return f"{self.name} on ({self.low:g}, {self.high:g})"
        given = "".join(f", {name} = {value:g}" for name, value in self.parameters.items())
        return self.call + given

    @property
    def operator(self) -> str:
        """The operator that the call is about: "hypot", "special_erfcx", "sc.boxcox"."""
        return operator_of(self.call)

    @property
    def seed(self) -> int:
        return int.from_bytes(hashlib.sha256(self.name.encode()).digest()[:4], "little")

    def parameters_in(self, dtype: Any) -> dict[str, float]:
        """The parameters as numbers of a dtype; both the call and the definition take these."""
        return {name: float(np.asarray(v).astype(dtype)) for name, v in self.parameters.items()}

    def fits(self, dtype: Any) -> bool:
        """Whether the parameters exist in a dtype, and the call hands on what it is given."""
        if self.rounds and np.dtype(dtype).itemsize == 2:
            return False
        found = self.parameters_in(dtype).values()
        return all(math.isfinite(v) and (v != 0) == (w != 0)
                   for v, w in zip(found, self.parameters.values()))  # fmt: skip


def operator_of(call: str) -> str:
    """The operator that is called first.

    >>> operator_of("linalg.vector_norm(x, 1)"), operator_of("sc.boxcox(x, c)")
    ('linalg_vector_norm', 'sc.boxcox')
    """
    match = _CALLED.match(call)
    prefix, name = match.groups() if match else ("", call)
    return PREFIXES.get(prefix or "", "") + name


@cache
def subjects() -> tuple[Subject, ...]:
    """All subjects, in the order of the table."""
    return tuple(_read(_FILE.read_text(encoding="utf-8")))


def _read(text: str) -> Iterator[Subject]:
    family = ""
    for line, content in enumerate(text.splitlines(), 1):
        content = content.strip()
        if content.startswith("["):
            family = content.strip("[]")
        elif content and not content.startswith("#"):
            yield from _subjects(content, family, line)


def _subjects(content: str, family: str, line: int) -> Iterator[Subject]:
    said, *columns = (part.strip() for part in content.split(";"))
    call, _, definition = said.partition(" = ")
    low, high, below, orders = -math.inf, math.inf, math.inf, 3
    near: tuple[float, ...] = ()
    kinks: tuple[float, ...] = ()
    choices: dict[str, list[float]] = {}
    rounds = False
    for column in columns:
        word, _, rest = column.partition(" ")
        if word == "on":
            low, high = map(float, rest.strip("()").split(","))
        elif word == "near":
            near = tuple(map(float, rest.split()))
        elif word == "kinks":
            kinks = tuple(map(float, rest.split()))
        elif word == "below":
            below = float(rest)
        elif word == "orders":
            orders = int(rest)
        elif word == "rounds":
            rounds = True
        elif match := _PARAMETER.match(column):
            choices[match[1]] = list(map(float, match[2].split()))
        else:
            raise TableError(f"{_FILE}:{line}: {column!r} is no column of a definition")
    for chosen in itertools.product(*choices.values()):
        parameters = dict(zip(choices, chosen))
        yield Subject(call, definition, family, line, low, high, below, near, kinks, parameters,
                      orders, rounds)  # fmt: skip


def arguments(subject: Subject, dtype: Any) -> np.ndarray[Any, Any]:
    """The grid of a subject in a dtype: all magnitudes, close to the ends of the domain, to 0 and
    to the points that the table names, and at random between them."""
    rng = np.random.default_rng(subject.seed)
    info = np.finfo(dtype)
    low, high = max(subject.low, -subject.below), min(subject.high, subject.below)
    found = [_magnitudes(rng, info), _neighbours((0.0, 1.0, *subject.near), info)]
    ends = [e for e in (low, high) if math.isfinite(e)]
    found.append(_neighbours((*ends, *subject.kinks), info))
    inner = max(low, -50.0), min(high, 50.0)
    if inner[0] < inner[1]:
        found.append(rng.uniform(*inner, 60))
    with np.errstate(over="ignore"):
        points = np.concatenate(found).astype(dtype)
        points = np.concatenate((points, -points)) if low < 0 < high else points
        inside = (points > low) & (points < high) & np.isfinite(points)
    kinked = np.isin(points, np.array(subject.kinks, dtype=dtype))
    return np.unique(points[inside & ~kinked])


def _magnitudes(rng: Any, info: Any) -> np.ndarray[Any, Any]:
    """Random mantissas over all exponents, closer together where functions bend."""
    least, most = math.log2(info.smallest_subnormal), math.log2(float(info.max))
    exponents = np.concatenate(
        (np.linspace(least, most - 1, 40), np.linspace(-40, 40, 60), np.linspace(-6, 8, 60))
    )
    kept = exponents[(exponents >= least) & (exponents < most)]
    return np.ldexp(rng.uniform(1, 2, kept.size), np.floor(kept).astype(int))


def _neighbours(points: tuple[float, ...], info: Any) -> np.ndarray[Any, Any]:
    """Each point, and points at distances 2⁻ᵏ of it on both sides."""
    steps = 2.0 ** -np.arange(1, info.nmant + 1, 4, dtype=float)
    near = [p + sign * (abs(p) or 1.0) * steps for p in points for sign in (-1, 1)]
    return np.concatenate((np.array(points, dtype=float), *near))
