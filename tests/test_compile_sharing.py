"""What the bands of a nest share: read once, computed once, with the bits of eager mode."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import adjoint as ad
from adjoint.compiler.loops import Let, Load, Local
from adjoint.graph.ir import Value


def camera(pose: Any, point: Any) -> Any:
    """A pinhole with a turn about one axis, given by a vector, and one term of distortion."""
    size = (pose[0] * pose[0] + pose[1] * pose[1]).sqrt()
    c, s = pose[0] / size, pose[1] / size
    x, z = c * point[0] - s * point[2], s * point[0] + c * point[2]
    u, v = x / z, point[1] / z
    bend = 1 + pose[2] * (u * u + v * v)
    return ad.stack([bend * u, bend * v])


def triangle(a: Any, b: Any) -> Any:
    """Barycentric coordinates of a point: quotients by one area."""
    area = b[0] * a[3] - b[1] * a[2]
    first = (a[0] * a[3] - a[1] * a[2]) / area
    second = (b[0] * a[1] - b[1] * a[0]) / area
    return ad.stack([first, second, 1 - first - second])


PROGRAMS: dict[str, tuple[Callable[..., Any], int, int]] = {
    "camera": (camera, 3, 3),
    "triangle": (triangle, 4, 2),
}  # the function, and how many numbers its arguments are


def arguments(name: str, dtype: Any = np.float64, rows: int = 200) -> list[Any]:
    """Random rows, and some with zeros, infinities, NaN and numbers at the ends of their range."""
    draw = np.random.default_rng(4)
    odd = np.array([0.0, -0.0, np.inf, -np.inf, np.nan, 5e-324, 1e300, -1e-300])
    _, *counts = PROGRAMS[name]
    with np.errstate(all="ignore"):
        found = [draw.normal(size=(rows, n)).astype(dtype) for n in counts]
        for array in found:
            places = draw.integers(0, array.shape[1], rows // 4)
            array[np.arange(rows // 4), places] = draw.choice(odd, rows // 4).astype(dtype)
    return [ad.tensor(a) for a in found]


def jacobian(name: str) -> Callable[..., Any]:
    return ad.vmap(ad.jacrev(PROGRAMS[name][0], (0, 1)))


@pytest.mark.parametrize("dtype", [np.float64, np.float32])
@pytest.mark.parametrize("name", PROGRAMS)
def test_arithmetic_of_shared_values_has_the_bits_of_eager(name: str, dtype: Any) -> None:
    given = arguments(name, dtype)
    for got, want in zip(ad.compile(jacobian(name))(*given), jacobian(name)(*given), strict=True):
        np.testing.assert_array_equal(got.numpy(), want.numpy())
        there = ~np.isnan(want.numpy())
        signs = [np.signbit(x.numpy())[there] for x in (got, want)]
        np.testing.assert_array_equal(*signs)


def last_kernel(name: str) -> Any:
    """The loop program of a Jacobian; before it there may be one of a table of ones and zeros."""
    return list(ad.compile(jacobian(name)).lower(*arguments(name)).layout.kernels.values())[-1]


@pytest.mark.parametrize("name", PROGRAMS)
def test_a_block_of_rows_is_read_in_strides_once(name: str) -> None:
    kernel = last_kernel(name)
    loads = [s.place for s in kernel.statements() if isinstance(s, Load)]
    given = [p for p in loads if isinstance(p.value, Value)]
    strided = Counter(p for p in given if p.address.coefficient(0) > 1)
    assert set(strided.values()) == {1}
    assert any(isinstance(p.value, Local) for p in loads)


def test_a_quotient_of_the_row_is_computed_once() -> None:
    computed = [s for s in last_kernel("camera").statements() if isinstance(s, Let)]
    quotients = [s for s in computed if " / " in s.text]
    forward, backward = 4, 6  # c, s, u, v; their gradients, and those of the root
    assert len(quotients) <= forward + backward
