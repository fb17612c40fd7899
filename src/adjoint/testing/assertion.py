"""`assert_close`: whether two values agree, and if not, where and by how much."""

from __future__ import annotations

import numbers
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np

from adjoint.calls.methods import as_tensor
from adjoint.core.dtypes import DType, of
from adjoint.core.errors import ArgumentError
from adjoint.core.layouts import strided
from adjoint.core.records import record
from adjoint.tensor.tensor import Tensor
from adjoint.testing.closeness import near

Array = np.ndarray[Any, Any]

# Relative and absolute tolerances by dtype, which are PyTorch's; other dtypes must be equal.
TOLERANCES: dict[str, tuple[float, float]] = {
    "float16": (1e-3, 1e-5),
    "bfloat16": (1.6e-2, 1e-5),
    "float32": (1.3e-6, 1e-5),
    "float64": (1e-7, 1e-7),
    "complex32": (1e-3, 1e-5),
    "complex64": (1.3e-6, 1e-5),
    "complex128": (1e-7, 1e-7),
}


@record
class Comparison:
    """The options of one `assert_close`."""

    rtol: float | None
    atol: float | None
    equal_nan: bool
    allow_subclasses: bool
    check_device: bool
    check_dtype: bool
    check_layout: bool
    check_stride: bool
    msg: str | Callable[[str], str] | None

    def tolerances(self, *dtypes: DType) -> tuple[float, float]:
        """Return the tolerances that were given, or the larger ones of these dtypes."""
        if self.rtol is not None and self.atol is not None:
            return self.rtol, self.atol
        found = [TOLERANCES.get(d.name, (0.0, 0.0)) for d in dtypes]
        return max(r for r, _ in found), max(a for _, a in found)

    def fail(self, text: str, where: str) -> AssertionError:
        """The error for a difference, in the user's words if there are some."""
        text = f"{text}\n  in {where}" if where else text
        if callable(self.msg):
            text = self.msg(text)
        elif self.msg is not None:
            text = self.msg
        return AssertionError(text)


def assert_close(
    actual: Any,
    expected: Any,
    *,
    allow_subclasses: bool = True,
    rtol: float | None = None,
    atol: float | None = None,
    equal_nan: bool = False,
    check_device: bool = True,
    check_dtype: bool = True,
    check_layout: bool = True,
    check_stride: bool = False,
    msg: str | Callable[[str], str] | None = None,
) -> None:
    """Raise AssertionError unless |actual - expected| ≤ atol + rtol·|expected| everywhere.

    The values are tensors, arrays, numbers, None, or sequences and dicts of those, of the same
    structure. Without tolerances those of the dtype are taken: (1.3e-6, 1e-5) for float32, (1e-7,
    1e-7) for float64; whole numbers must be equal. `equal_nan` lets NaN agree with NaN. Device,
    dtype, layout and, if asked, strides must agree too. Sparse tensors are compared part by part.
    `msg` replaces the message, or is a function of it.

    >>> import adjoint as ad
    >>> ad.testing.assert_close({"x": ad.ones(3)}, {"x": ad.ones(3) + 1e-7})
    >>> ad.testing.assert_close([ad.zeros(2, 2)], [ad.eye(2)])
    Traceback (most recent call last):
    ...
    AssertionError: 2 of 4 elements differ (50.0 %)
      largest absolute difference: 1 at (0, 0), where 1.13e-05 is allowed: 0.0 and not 1.0
      largest relative difference: 1 at (0, 0): 0.0 and not 1.0
      in [0]
    """
    if (rtol is None) != (atol is None):
        raise ArgumentError(f"assert_close: give both rtol and atol or none, got {rtol} and {atol}")
    comparison = Comparison(
        rtol, atol, equal_nan, allow_subclasses, check_device, check_dtype, check_layout,
        check_stride, msg,
    )  # fmt: skip
    _compare(comparison, actual, expected, "")


def _compare(options: Comparison, actual: Any, expected: Any, where: str) -> None:
    if _is_sequence(actual) and _is_sequence(expected):
        if len(actual) != len(expected):
            lengths = f"{len(actual)} and not {len(expected)}"
            raise options.fail(f"the sequences have different lengths: {lengths}", where)
        for number, (a, e) in enumerate(zip(actual, expected, strict=True)):
            _compare(options, a, e, f"{where}[{number}]")
    elif isinstance(actual, Mapping) and isinstance(expected, Mapping):
        _compare_keys(options, actual, expected, where)
        for key in actual:
            _compare(options, actual[key], expected[key], f"{where}[{key!r}]")
    elif actual is None or expected is None:
        if actual is not expected:
            raise options.fail(f"{_short(actual)} and not {_short(expected)}", where)
    elif isinstance(actual, numbers.Number) and isinstance(expected, numbers.Number):
        _compare_numbers(options, actual, expected, where)
    else:
        a, e = _tensors(options, actual, expected, where)
        _compare_tensors(options, a, e, where)


def _is_sequence(value: Any) -> bool:
    return isinstance(value, Sequence) and not isinstance(value, (str, bytes))


def _short(value: Any) -> str:
    return f"{value!r:.60}"


def _compare_keys(options: Comparison, actual: Any, expected: Any, where: str) -> None:
    missing = [k for k in expected if k not in actual]
    more = [k for k in actual if k not in expected]
    if missing or more:
        raise options.fail(
            f"the dicts have different keys: without {missing}, and with {more} beside", where
        )


def _compare_numbers(options: Comparison, actual: Any, expected: Any, where: str) -> None:
    if options.check_dtype and type(actual) is not type(expected):
        kinds = f"{type(actual).__name__} and not {type(expected).__name__}"
        raise options.fail(f"the numbers have different types: {kinds}", where)
    a, e = as_tensor(np.asarray(actual)), as_tensor(np.asarray(expected))
    rtol, atol = options.tolerances(a.dtype, e.dtype)
    arrays = _widened(a), _widened(e)
    if not _agree(options, *arrays, rtol, atol).all():
        difference = abs(complex(actual) - complex(expected))
        allowed = atol + rtol * abs(expected)
        raise options.fail(
            f"{actual!r} and not {expected!r}: they differ by {difference:.4g}, and {allowed:.4g} "
            "is allowed",
            where,
        )


def _tensors(options: Comparison, actual: Any, expected: Any, where: str) -> tuple[Any, Any]:
    """Return both values as tensors, if they are of one kind."""
    kinds = (type(actual), type(expected))
    related = isinstance(actual, kinds[1]) or isinstance(expected, kinds[0])
    if not related or (kinds[0] is not kinds[1] and not options.allow_subclasses):
        raise ArgumentError(
            f"assert_close: a {kinds[0].__name__} cannot be compared with a {kinds[1].__name__}"
            + (f", in {where}" if where else "")
        )
    if not isinstance(actual, (Tensor, np.ndarray)):
        raise ArgumentError(
            "assert_close: takes tensors, arrays, numbers, None, sequences and dicts of those, "
            f"got a {kinds[0].__name__}" + (f", in {where}" if where else "")
        )
    return tuple([as_tensor(v).detach() for v in (actual, expected)])  # type: ignore[return-value]


def _compare_tensors(options: Comparison, actual: Any, expected: Any, where: str) -> None:
    _compare_facts(options, actual, expected, where)
    if actual.is_meta or expected.is_meta:
        return
    rtol, atol = options.tolerances(actual.dtype, expected.dtype)
    if actual.layout is not expected.layout or actual.is_nested:
        actual, expected = _dense(actual), _dense(expected)
    if actual.layout is strided:
        _compare_arrays(options, _widened(actual), _widened(expected), (rtol, atol), where)
        return
    if actual.is_sparse:
        actual, expected = actual.coalesce(), expected.coalesce()
    for number, (a, e) in enumerate(
        zip(actual.companion.indices, expected.companion.indices, strict=True)
    ):
        if a.shape != e.shape:
            counts = f"{a.shape[-1]} and not {e.shape[-1]}"
            raise options.fail(f"the sparse tensors store other elements: {counts}", where)
        _compare_arrays(options, a, e, (0.0, 0.0), f"{where} indices {number}".strip())
    values = _widened(actual.stored), _widened(expected.stored)
    _compare_arrays(options, *values, (rtol, atol), f"{where} values".strip())


def _dense(tensor: Any) -> Any:
    if tensor.is_nested:
        return tensor.to_padded_tensor(0.0)
    return tensor if tensor.layout is strided else tensor.to_dense()


def _compare_facts(options: Comparison, actual: Any, expected: Any, where: str) -> None:
    facts: list[tuple[str, Any, Any]] = [("shapes", tuple(actual.shape), tuple(expected.shape))]
    if options.check_layout:
        facts.append(("layouts", actual.layout, expected.layout))
    if options.check_device:
        facts.append(("devices", actual.device, expected.device))
    if options.check_dtype:
        facts.append(("dtypes", actual.dtype, expected.dtype))
    if options.check_stride and actual.layout is strided and expected.layout is strided:
        facts.append(("strides", tuple(actual.stride()), tuple(expected.stride())))
    for name, ours, theirs in facts:
        if ours != theirs:
            raise options.fail(f"the {name} differ: {ours!r} and not {theirs!r}", where)


def _widened(tensor: Any) -> Array:
    """The values so that differences neither overflow nor wrap around."""
    array = tensor.array
    dtype = of(array.dtype)
    if dtype.is_complex:
        return array.astype(np.complex128)
    return array.astype(np.float64 if dtype.is_floating_point else np.longdouble)


def _agree(options: Comparison, actual: Array, expected: Array, rtol: float, atol: float) -> Array:
    close = near(actual, expected, rtol, atol)
    close &= ~np.isinf(expected) | (actual == expected)  # an infinite tolerance allows nothing
    return close if options.equal_nan else close & ~np.isnan(actual)


def _compare_arrays(
    options: Comparison, actual: Array, expected: Array, tolerances: tuple[float, float], where: str
) -> None:
    rtol, atol = tolerances
    wrong = ~_agree(options, actual, expected, rtol, atol)
    if not wrong.any():
        return
    with np.errstate(all="ignore"):
        error = np.where(wrong, np.abs(actual - expected), 0)
        relative = np.where(wrong, error / np.abs(expected), 0)
    allowed = atol + rtol * np.abs(expected)
    share = 100 * np.count_nonzero(wrong) / wrong.size
    lines = [f"{np.count_nonzero(wrong)} of {wrong.size} elements differ ({share:.1f} %)"]
    for name, sizes in (("absolute", error), ("relative", relative)):
        place = _largest(sizes)
        bound = f", where {allowed[place]:.4g} is allowed" if name == "absolute" else ""
        at = f" at {tuple(int(p) for p in place)}" if place else ""
        values = f"{actual[place]} and not {expected[place]}"
        lines.append(f"  largest {name} difference: {sizes[place]:.5g}{at}{bound}: {values}")
    raise options.fail("\n".join(lines), where)


def _largest(sizes: Array) -> tuple[Any, ...]:
    """The place of the largest size; NaN is larger than any."""
    return np.unravel_index(int(np.argmax(np.where(np.isnan(sizes), np.inf, sizes))), sizes.shape)
