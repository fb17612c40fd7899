"""The text of an element means one thing: eager mode, loops over large arrays and compiled programs
give the same numbers.

For every row with an element (the column), in every kind of numbers, at all combinations of special
values: zeros of both signs, the ends of the range, infinities, NaN, and numbers between them. Other
arguments are those of the row's samples. NaN and infinities stand where eager mode has them, whole
numbers and booleans are equal, zeros keep their signs.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import pytest

import adjoint as ad
from adjoint.core import dtypes
from adjoint.core.dtypes import DType
from adjoint.core.errors import AdjointError
from adjoint.loops.row_loops import RowLoops, has_text
from adjoint.ops.operator import operator
from adjoint.table import TABLE
from adjoint.table.rows import Row
from adjoint.testing import laws
from adjoint.toolchain import background, build
from tests.laws.test_compiled_rows import groups

pytestmark = pytest.mark.skipif(build.compiler() is None, reason="needs a C compiler")

ROWS = [row for row in TABLE.rows() if has_text(row)]
SPECIAL = [
    0.0, -0.0, 0.25, 0.5, -0.5, 1.0, -1.0, 1.5, -1.5, 2.5, 3.0, -3.0, 10.0, -10.0, 1e-5, -1e-5,
    30.0, -30.0, 800.0, -800.0, 1e300, -1e300, np.inf, -np.inf, np.nan,
]  # fmt: skip
PARTS = [0.0, -0.0, 1.0, -1.5, 2.5, np.inf, -np.inf, np.nan]  # of complex numbers
WHOLE = [0, 1, -1, 2, -2, 3, 7, 100, -100]  # and the ends of the dtype
MOST = 700  # combinations of values; of more, a part is drawn
SETTINGS = 3  # of the other arguments
TOGETHER = 12  # calls in one program
TOLERANCE = {"f8": 1e-12, "f4": 3e-6, "c16": 1e-12, "c8": 3e-6}
DTYPES = (
    "float64",
    "float32",
    "complex128",
    "complex64",
    "int64",
    "int32",
    "int8",
    "uint8",
    "bool",
)

# Private rows whose arguments depend on one another: not every combination means something.
DEPENDENT = {
    "_erf_beside": "the second argument is erf of the first",
    "_expit_backward": "the third argument is sigmoid of the second",
}


@dataclass(frozen=True)
class Call:
    """A row with arrays of special values, and with other arguments."""

    row: Row
    tensors: dict[str, ad.Tensor]
    others: dict[str, Any]

    def run(self, tensors: dict[str, ad.Tensor]) -> ad.Tensor:
        """The result for tensors in the place of its own."""
        return operator(self.row.name, self.row.schema.overload)(**tensors, **self.others)

    def values(self) -> list[Any]:
        """All arguments in the order of the schema, tensors as arrays."""
        given = {n: t.numpy() for n, t in self.tensors.items()} | self.others
        return [given.get(a.name, a.default) for a in self.row.schema.arguments]

    @property
    def title(self) -> str:
        dtype = next(iter(self.tensors.values())).dtype
        return f"{self.row.full_name}[{dtype}]({self.others or ''})"


def values_of(dtype: DType) -> Any:
    """The special values of a dtype."""
    if dtype.name == "bool":
        return np.array([False, True])
    if dtype.is_complex:
        pairs = np.empty((len(PARTS), len(PARTS)), dtype.np)
        pairs.real, pairs.imag = np.array(PARTS)[:, None], PARTS
        return pairs.ravel()
    if dtype.is_floating_point:
        with np.errstate(over="ignore"):
            return np.array(SPECIAL).astype(dtype.np)
    limits = np.iinfo(dtype.np)
    few = [v for v in WHOLE if limits.min <= v <= limits.max]
    return np.array([*few, limits.min, limits.max], dtype.np)


def combinations(count: int, dtype: DType) -> list[Any]:
    """Arrays in which every special value meets every other one, or as many as are tried."""
    values = values_of(dtype)
    grids = [g.ravel() for g in np.meshgrid(*[values] * count, indexing="ij")]
    if grids[0].size > MOST:
        chosen = np.random.default_rng(0).choice(grids[0].size, MOST, replace=False)
        grids = [g[chosen] for g in grids]
    return [g.copy() for g in grids]


def calls(row: Row, dtype: DType) -> Iterator[Call]:
    """A row with special values for its tensors, and with the other arguments of its samples."""
    seen: set[str] = set()
    try:
        cases = laws.cases(row, dtype)
    except Exception:
        return  # its samples need another dtype
    for case in cases:
        names = row.schema.names
        given = dict(zip(names, case.sample.args, strict=False)) | case.sample.kwargs
        tensors = [n for n, v in given.items() if isinstance(v, ad.Tensor)]
        others = {n: v for n, v in given.items() if n not in tensors}
        key = repr((tensors, others))
        if key in seen or len(seen) == SETTINGS or not tensors:
            continue
        seen.add(key)
        arrays = combinations(len(tensors), dtype)
        kinds = {n: np.bool_ if n == "condition" else a.dtype for n, a in zip(tensors, arrays)}
        made = {n: ad.tensor(a.astype(kinds[n])) for n, a in zip(tensors, arrays)}
        call = Call(row, made, others)
        try:
            call.run(made)
        except (AdjointError, TypeError):
            continue  # numbers that the operator refuses
        yield call


def conditioning(call: Call, expected: Any) -> Any:
    """How far the result moves when every argument moves by its last digit."""
    dtype = dtypes.of(expected.dtype).to_real()
    moved = np.zeros(expected.shape, dtype.np)
    for to in (-np.inf, np.inf):
        beside = {n: _moved(t, dtype, to) for n, t in call.tensors.items()}
        step = np.abs(call.run(beside).numpy() - expected)
        moved = np.fmax(moved, np.where(np.isfinite(step), step, 0))
    return moved


def _moved(tensor: ad.Tensor, dtype: DType, to: float) -> ad.Tensor:
    """The numbers next to those of a tensor, in the dtype that is computed with."""
    if tensor.dtype.name == "bool":
        return tensor
    if tensor.dtype.is_complex:
        return tensor * (1 + math.copysign(ad.finfo(tensor.dtype).eps, to))
    real = tensor if tensor.dtype.is_floating_point else tensor.to(dtype)
    return ad.nextafter(real, ad.full_like(real, to))


def wrong_elements(call: Call, found: Any, expected: Any) -> Any:
    """Which elements differ by more than rounding, and by more than the last digit of an argument
    changes the result; infinities and NaN stand where eager mode has them.
    """
    same = (found == expected) | (np.isnan(found) & np.isnan(expected))
    if expected.dtype.kind not in "fc" or same.all():
        return ~same
    finite = np.isfinite(expected)
    if expected.dtype.kind == "c":  # the order of steps decides which parts of an infinity are NaN
        same |= ~finite & ~np.isfinite(found)
        if not {"complex", "number", "all"} & call.row.element.keys():  # by its decomposition
            same |= ~np.all([np.isfinite(t.numpy()) for t in call.tensors.values()], 0)
    size = np.abs(np.where(finite, expected, 0))
    allowed = TOLERANCE[expected.dtype.str[1:]] * size + np.finfo(expected.dtype).smallest_subnormal
    near = finite & (np.abs(found - expected) <= allowed + 2 * conditioning(call, expected))
    return ~(same | near)


def wrong_signs(call: Call, found: Any, expected: Any) -> Any:
    """Which zeros have another sign, where an argument is a zero."""
    if expected.dtype.kind != "f":
        return False
    zeros = np.any([t.numpy() == 0 for t in call.tensors.values()], 0) & (found == expected)
    return zeros & (expected == 0) & (np.signbit(found) != np.signbit(expected))


def told(call: Call, found: Any) -> list[str]:
    """What is wrong with the result of a call: the first place and both values."""
    with np.errstate(all="ignore"):
        expected = call.run(call.tensors).numpy()
        if (found.dtype, found.shape) != (expected.dtype, expected.shape):
            return [f"{call.title}: {found.dtype}{found.shape}, not {expected.dtype}"]
        wrong = wrong_elements(call, found, expected) | wrong_signs(call, found, expected)
    if not wrong.any():
        return []
    k = int(np.flatnonzero(wrong)[0])
    given = {n: t.numpy()[k] for n, t in call.tensors.items()}
    return [f"{call.title}: {wrong.sum()} wrong; {found[k]}, not {expected[k]}, of {given}"]


def all_calls(rows: Sequence[Row], dtype: str) -> list[Call]:
    return [
        call
        for row in rows
        if row.name not in DEPENDENT
        for call in calls(row, dtypes.named(dtype))
    ]


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("rows", groups(ROWS))
def test_large_arrays_equal_small_ones(rows: list[Row], dtype: str, monkeypatch: Any) -> None:
    monkeypatch.setattr(background, "soon", background.now)
    wrong: list[str] = []
    for call in all_calls(rows, dtype):
        found = RowLoops(call.row)(*call.values())
        if found is not None:
            wrong += told(call, found)
    if wrong:
        pytest.fail("\n".join(wrong), pytrace=False)


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("rows", groups(ROWS))
def test_compiled_elements_equal_eager(rows: list[Row], dtype: str) -> None:
    wrong: list[str] = []
    whole = all_calls(rows, dtype)
    for part in (whole[k : k + TOGETHER] for k in range(0, len(whole), TOGETHER)):
        program = ad.compile(lambda given, part=part: [c.run(g) for c, g in zip(part, given)])
        results = program([c.tensors for c in part])
        for call, found in zip(part, results, strict=True):
            wrong += told(call, found.numpy())
    if wrong:
        pytest.fail("\n".join(wrong), pytrace=False)


def test_dependent_rows_exist() -> None:
    assert {row.name for row in ROWS} >= DEPENDENT.keys()


@pytest.mark.parametrize("source", ["float64", "float32", "float16", "bfloat16", "complex128"])
def test_numbers_that_a_whole_type_cannot_hold_become_what_they_are_in_eager(source: str) -> None:
    numbers = [-93.4, 138.1, 1118.4, 67388.7, -3e9, 3e9, 2.0**31, -(2.0**31), 1e19, -1e19, 2.0**63]
    x = ad.tensor([*numbers, *SPECIAL], dtype=ad.float64).to(getattr(ad, source))
    wanted = [getattr(ad, name) for name in ("int8", "uint8", "int16", "int32", "int64", "bool")]

    def casts(x: Any) -> list[Any]:  # and back: a compiler that may leave out the first does
        return [t for d in wanted for t in (x.to(d), (x * 1).to(d).double())]

    with np.errstate(all="ignore"):
        expected = casts(x)
    for found, value in zip(ad.compile(casts)(x), expected, strict=True):
        assert found.dtype is value.dtype
        np.testing.assert_array_equal(found.numpy(), value.numpy())


def test_a_bound_that_is_no_number_is_kept() -> None:
    """NaN as a bound is the result, in eager mode, for large arrays and in compiled code."""
    x, bound = ad.ones(20_000), ad.full((20_000,), np.nan)
    limits: list[Callable[..., Any]] = [
        lambda x, b: x.clamp(max=b), lambda x, b: x.clamp(min=b), lambda x, b: x.clamp(b, b + 1),
        lambda x, b: x.clamp(max=np.nan), lambda x, b: ad.nn.functional.hardtanh(x, -1, np.nan),
        lambda x, b: ad.nn.functional.hardtanh(x, np.nan, 1), lambda x, b: ad.clamp_max(x, b),
    ]  # fmt: skip
    for number, f in enumerate(limits):
        for run in (f, ad.compile(f)):
            for count in (3, x.numel()):
                assert bool(run(x[:count], bound[:count]).isnan().all()), number
