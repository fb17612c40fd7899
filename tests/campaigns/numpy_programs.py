"""Random NumPy programs, under every transform, against NumPy itself.

Values are those that the same text gives for NumPy's own arrays; derivatives are compared with
differences of these, and the modes with one another. A program whose differences do not settle (a
kink near by, a value that rounding decides) counts by its values alone. Batches and graphs may
refuse what depends on values; `grad`, `jvp` and second order may not.
"""

from __future__ import annotations

import warnings
from collections.abc import Callable
from typing import Any

import numpy as np

import adjoint as ad
import adjoint.numpy as door
from tests.campaigns import campaign
from tests.random_numpy import SIZE, Writer, function_of

COMPILED = 40  # one program in so many is compiled
_LARGEST = 1e6  # of a value that derivatives are compared of


def _of_numpy(function: Callable[[Any], Any], x: Any) -> float | None:
    """What NumPy gives; None where it raises, or gives no finite number."""
    try:
        with warnings.catch_warnings(), np.errstate(all="ignore"):
            warnings.simplefilter("ignore")
            found = float(function(x.copy()))
    except (
        ValueError,
        TypeError,
        IndexError,
        np.linalg.LinAlgError,
        RecursionError,
        OverflowError,
    ):
        return None
    return found if np.isfinite(found) and abs(found) < _LARGEST else None


def _differences(function: Callable[[Any], Any], x: Any, direction: Any) -> float | None:
    """The derivative along a direction, of fourth order; None where two steps disagree."""
    found = []
    for h in (1e-3, 2.3e-4):
        ends = [_of_numpy(function, x + k * h * direction) for k in (-2, -1, 1, 2)]
        if any(e is None for e in ends):
            return None
        far, near, near_above, far_above = ends
        found.append((8 * (near_above - near) - (far_above - far)) / (12 * h))  # type: ignore[operator]
    apart = abs(found[0] - found[1])
    return found[1] if apart < 1e-6 * (1 + abs(found[1])) else None


def _agree(what: str, text: str, found: Any, expected: Any, tolerance: float) -> int:
    found, expected = np.asarray(found), np.asarray(expected)
    size = 1 + float(np.max(np.abs(expected)))
    close = found.shape == expected.shape and np.allclose(
        found, expected, rtol=tolerance, atol=tolerance * size
    )
    assert close, f"{what}: {found!r}, not {expected!r}, of\n{text}"
    return 1


def _run(what: str, text: str, function: Callable[[], Any], *, may_refuse: bool = False) -> Any:
    try:
        with warnings.catch_warnings(), np.errstate(all="ignore"):
            warnings.simplefilter("ignore")
            return function()
    except ad.AdjointError as error:
        if may_refuse:
            return None
        raise AssertionError(f"{what}: {error!r} of\n{text}") from error
    except Exception as error:
        raise AssertionError(f"{what}: {error!r} of\n{text}") from error


def check(seed: int) -> int:
    """Compare one program with NumPy."""
    chosen = np.random.default_rng(seed)
    x, v = chosen.uniform(-2, 2, SIZE).round(3) + 0.0004, chosen.standard_normal(SIZE)
    text = Writer(seed).text(int(chosen.integers(2, 12)))
    function, with_ours = function_of(text), function_of(text, door)
    text = f"x = {x!r}\n{text}"
    value = _of_numpy(function, x)
    if value is None:
        return 0
    given = x.copy()
    got, gradient = _run("grad", text, lambda: ad.value_and_grad(function)(given))
    count = _agree("value", text, got, value, 1e-10)
    assert np.array_equal(given, x), f"the argument was changed by grad of\n{text}"
    got = _run("adjoint.numpy", text, lambda: with_ours(door.array(x)))
    count += _agree("value of adjoint.numpy", text, float(got), value, 1e-10)
    got, tangent = _run("jvp", text, lambda: ad.jvp(function, (given,), (v,)))
    count += _agree("value of jvp", text, got, value, 1e-10)
    expected = _differences(function, x, v)
    if expected is None:
        return count
    slope = gradient.numpy() @ v
    count += _agree("grad", text, slope, expected, 1e-4)
    count += _agree("jvp", text, tangent, slope, 1e-9)
    if seed % 5 == 0:
        of_ours = _run("grad of adjoint.numpy", text, lambda: ad.grad(with_ours)(x))
        count += _agree("grad of adjoint.numpy", text, of_ours, gradient, 1e-10)
    count += _second_order(seed, text, function, x, v)
    count += _others(seed, text, function, x, value, gradient.numpy())
    return count


def _second_order(seed: int, text: str, function: Any, x: Any, v: Any) -> int:
    if seed % 4:
        return 0
    along = _run("hvp", text, lambda: ad.hvp(function, (x,), (v,))).numpy()
    twice = _run("grad of grad", text, lambda: ad.grad(
        lambda y: np.sum(ad.grad(function)(y) * v))(x)).numpy()  # fmt: skip
    return _agree("grad of grad and hvp", text, twice, along, 1e-8)


def _others(seed: int, text: str, function: Any, x: Any, value: float, gradient: Any) -> int:
    """In a batch, as a graph, compiled; these refuse what looks at values."""
    count = 0
    rows = np.stack([x, x])
    if seed % 3 == 1:
        batch = _run("vmap", text, lambda: ad.vmap(function)(rows), may_refuse=True)
        if batch is not None:
            count += _agree("vmap", text, batch, [value, value], 1e-10)
    if seed % 3 and seed % COMPILED:
        return count
    run = ad.compile if seed % COMPILED == 0 else lambda f: ad.trace(f, x)
    found = _run("graph", text, lambda: run(ad.value_and_grad(function))(x), may_refuse=True)
    if found is not None:
        count += _agree("value of the graph", text, found[0], value, 1e-10)
        count += _agree("gradient of the graph", text, found[1], gradient, 1e-9)
    return count


if __name__ == "__main__":
    campaign.main(check)
