"""Rows joined and triangles kept by C code are what NumPy gives."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import adjoint as ad
from adjoint.c_kernels import conversions, copies, loading
from adjoint.kernels import padding
from adjoint.kernels.shape import copies as kernels_of_copies
from adjoint.loops.gate import LARGE
from adjoint.toolchain import background

pytestmark = pytest.mark.skipif(
    loading.function("copies", "join", np.float32) is None, reason="needs a C compiler"
)


@pytest.fixture(autouse=True)
def small_arrays_too(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(copies, "LARGE", 1)


@pytest.mark.parametrize("dtype", [np.float32, np.float64, np.int64, np.float16, np.bool_])
@pytest.mark.parametrize("dim", [0, 1, -1, -2])
def test_rows_are_joined(dtype: Any, dim: int) -> None:
    parts = [np.arange(3 * n * m).reshape(3, n, m).astype(dtype) for n, m in SIZES[dim]]
    for given in (parts, [*parts, parts[0][:0] if dim == 0 else parts[0]]):
        found = copies.concatenated(given, dim)
        assert found is not None
        np.testing.assert_array_equal(found, np.concatenate(given, dim))


SIZES = {
    0: [(4, 20), (4, 20)],
    1: [(4, 20), (1, 20), (7, 20)],
    -2: [(4, 20), (2, 20)],
    -1: [(4, 20), (4, 1), (4, 33)],
}


@pytest.mark.usefixtures("two_threads")
def test_parts_of_rows_are_joined() -> None:
    x = np.arange(300 * 310.0).reshape(300, 310)
    for widths in ([100, 210], [1, 308, 1], [8, 8, 294]):
        ends = np.cumsum(widths)
        parts = [x[:, end - width : end] for end, width in zip(ends, widths, strict=True)]
        for given in (parts, parts[::-1], [*parts, x[:, :0], x]):
            found = copies.concatenated(given, 1)
            assert found is not None
            np.testing.assert_array_equal(found, np.concatenate(given, 1))


def test_what_does_not_fit_is_left_to_numpy() -> None:
    x = np.ones((30, 20), np.float32)
    for other, dim in ((x[:29], 1), (x[0], 1), (x[None], 1), (x.T, 1), (x, 2), (x, -3)):
        assert copies.concatenated([x, other], dim) is None
    assert copies.concatenated([x, x.astype(np.float64)], 1) is None
    assert copies.triangle(x.T, 0, right=True) is None
    assert copies.triangle(x.astype(np.complex128), 0, right=True) is None


@pytest.mark.usefixtures("two_threads")
@pytest.mark.parametrize("dtype", [np.float32, np.float64, np.int16, np.bool_, np.complex64])
@pytest.mark.parametrize("shape", [(130, 131), (64, 64), (5, 6, 7, 8), (2000, 3), (2, 3, 2, 3, 4)])
def test_arrays_are_moved_however_they_lie(shape: tuple[int, ...], dtype: Any) -> None:
    x = np.random.default_rng(0).integers(0, 100, shape).astype(dtype)
    turned = (x, x.T, np.swapaxes(x, 0, -1), np.moveaxis(x, 0, -1), np.moveaxis(x, -1, 0))
    parts = (x[::-1], x[..., ::-1], x[..., ::2], x[1:, 1:], np.swapaxes(x, -1, -2)[..., ::3])
    for source in (*turned, *parts, np.broadcast_to(x[..., :1], shape)):
        for order in ("C", "K", "F"):
            made = copies.copied(source, order)
            assert made.strides == source.copy(order).strides
            np.testing.assert_array_equal(made, source)
        room = np.zeros((*source.shape, 2), dtype)
        copies.write(room[..., 1], source)
        np.testing.assert_array_equal(room[..., 1], source)
        assert not room[..., 0].any()
    made = copies.zeros(shape, dtype)
    assert not made.any()
    copies.write(made, np.ones((), dtype))
    assert made.all()


@pytest.mark.parametrize("dtype", [np.float32, np.int64])
@pytest.mark.parametrize("shape", [(5, 7), (7, 5), (2, 3, 4, 4), (1, 6), (6, 1)])
def test_triangles(shape: tuple[int, ...], dtype: Any) -> None:
    x = np.arange(1, 1 + np.prod(shape)).reshape(shape).astype(dtype)
    for diagonal in (-100, -7, -2, -1, 0, 1, 3, 7, 100):
        np.testing.assert_array_equal(kernels_of_copies.tril(x, diagonal), np.tril(x, diagonal))
        np.testing.assert_array_equal(kernels_of_copies.triu(x, diagonal), np.triu(x, diagonal))


@pytest.fixture
def two_threads(monkeypatch: pytest.MonkeyPatch, threads_restored: None) -> None:
    monkeypatch.setattr(background, "soon", background.now)
    ad.set_num_threads(2)


@pytest.mark.usefixtures("two_threads")
@pytest.mark.parametrize("dtype", [np.float32, np.int64, np.float16])
def test_large_copies_lie_as_small_ones(dtype: Any) -> None:
    x = np.arange(180 * 110).reshape(180, 110).astype(dtype)
    for source in (x, x.T, x[::-1], x[:, ::-1], x[:, ::2], np.broadcast_to(x[3], (170, 110))):
        made = conversions.astype(source, dtype, "K")
        assert made.strides == source.copy("K").strides
        np.testing.assert_array_equal(made, source)
        room = np.zeros((*source.shape, 2), dtype)
        copies.write(room[..., 1], source)
        np.testing.assert_array_equal(room[..., 1], source)
        assert not room[..., 0].any()
        assert not np.may_share_memory(x, made)
    for shift in (0, 3, -7, 110, 1000):
        for dim in (0, 1):
            rolled = kernels_of_copies.roll(x, (shift,), (dim,))
            np.testing.assert_array_equal(rolled, np.roll(x, shift, dim))


@pytest.mark.usefixtures("two_threads")
@pytest.mark.parametrize("target", ["f2", "f4", "f8", "i8", "i4", "i2", "i1", "u1", "?"])
@pytest.mark.parametrize("source", ["f2", "f4", "f8", "i8", "i4", "i2", "i1", "u1", "?"])
def test_casts_are_numpys(source: str, target: str) -> None:
    numbers = [0.0, -0.0, 1.9, -1.9, 200, -200, 30000, 70000, 2e9, -2e9]
    numbers = numbers if source in ("f4", "f8", "i8", "i4") else numbers[:4]
    if np.dtype(source).kind == "f":
        numbers += [np.nan, np.inf, -np.inf, 1e30, 3e9]
    with np.errstate(all="ignore"):
        x = np.resize(np.array(numbers), LARGE + 3).astype(source)
        np.testing.assert_array_equal(conversions.astype(x, target), x.astype(target))


FRAMES = [
    ((3, 4, 20, 30), (2, 3, 1, 4)), ((3, 4, 20, 30), (-2, 3, 1, -4)), ((4, 20, 30), (2, 3, 1, 4)),
    ((2, 3, 5, 6, 7), (1, 2, 3, 4, 2, 1)), ((2, 3, 50), (49, 5)), ((3, 50), (0, 1)),
    ((2, 1, 5, 6, 7), (0, 0, 0, 0, 0, 0)), ((2, 3, 5, 6), (-1, -1, -2, -2)), ((2, 3, 1), (0, 0)),
]  # fmt: skip


@pytest.mark.parametrize("dtype", ["f4", "f8", "i2", "u1", "c8", "c16"])
@pytest.mark.parametrize(("shape", "widths"), FRAMES)
@pytest.mark.parametrize("mode", ["reflection", "replication"])
def test_frames_are_taken_from_the_edges(
    mode: str, shape: tuple[int, ...], widths: tuple[int, ...], dtype: Any, monkeypatch: Any
) -> None:
    pad = getattr(padding, f"{mode}_pad{len(widths) // 2}d")
    whole = (100 * np.random.default_rng(0).standard_normal(shape)).astype(dtype)
    for x in (
        whole,
        whole[..., ::-1],
        whole.T.copy().T,
        np.moveaxis(np.moveaxis(whole, 1, -1).copy(), -1, 1),
    ):
        found = pad(x, widths)
        with monkeypatch.context() as patch:
            patch.setattr(copies, "LARGE", 1 << 60)
            expected = pad(x, widths)
        assert found.strides == expected.strides
        np.testing.assert_array_equal(found, expected)
