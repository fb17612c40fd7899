"""`adjoint.array_api` has the standard's names and NumPy's values, and every mode goes through."""

from __future__ import annotations

import inspect
import math
import os
import pickle
from collections.abc import Callable
from functools import cache
from typing import Any

import numpy as np
import pytest

import adjoint as ad
from adjoint import array_api as xp
from adjoint.doors import read
from adjoint.doors.array_api.rows import TABLE
from tests import DATA

STANDARD = DATA / "array_api_2024_12.txt"


@cache
def standard() -> dict[str, dict[str, str]]:
    """The standard's signatures by section and name."""
    section: dict[str, str] = {}
    sections = {"": section}
    for line in STANDARD.read_text().splitlines():
        if line.startswith("["):
            section = sections.setdefault(line.strip("[]"), {})
        elif line and not line.startswith("#"):
            name, _, signature = line.partition("(")
            section[name] = signature.removesuffix(")")
    return sections


def place(section: str) -> Any:
    places = {"linalg": xp.linalg, "fft": xp.fft, "array": xp.ones(()), "constants": xp}
    return places.get(section, xp.__array_namespace_info__() if section == "info" else xp)


NAMES = [(section, name) for section, names in standard().items() for name in names]
FUNCTIONS = [(s, n) for s, n in NAMES if s in ("", "linalg", "fft", "info")]


@pytest.mark.parametrize(("section", "name"), NAMES)
def test_every_name_of_the_standard_is_there(section: str, name: str) -> None:
    if name != "__array_namespace_info__":
        assert hasattr(place(section), name)
    assert hasattr(xp, "__array_namespace_info__")


@pytest.mark.parametrize(("section", "name"), FUNCTIONS)
def test_signatures_are_the_standards(section: str, name: str) -> None:
    scope: dict[str, Any] = {}
    exec(f"def stub({standard()[section][name]}): ...", scope)
    function = getattr(xp if name == "__array_namespace_info__" else place(section), name)
    ours, theirs = (
        inspect.signature(function).parameters,
        inspect.signature(scope["stub"]).parameters,
    )
    for wanted in theirs.values():
        if wanted.kind is wanted.POSITIONAL_ONLY:
            assert list(ours)[list(theirs).index(wanted.name)]
            continue
        assert ours[wanted.name].default == wanted.default
        if wanted.kind is not wanted.KEYWORD_ONLY:
            assert ours[wanted.name].kind is wanted.kind


def test_the_table_has_no_other_names() -> None:
    ours = {(s, n) for s, rows in read(TABLE).items() for n in rows}
    assert ours <= set(NAMES)
    more = {"fft", "linalg", "special", "standard_operators"}
    everything = {n for s, n in NAMES if s in ("", "constants", "dtypes")}
    assert everything <= set(dir(xp)) <= everything | more
    assert set(dir(xp.fft)) == set(standard()["fft"])


# -- values ------------------------------------------------------------------------------------

# Calls, run on NumPy's namespace and on ours. x and y are 2×3 of floats, m two 3×3 matrices, s two
# symmetric ones, v a vector, f float32, i and u integers, b truth values, z complex numbers.
CALLS = """
xp.arange(5) | xp.arange(2, 7, 2) | xp.arange(5.0) | xp.arange(5, 1) | xp.arange(5, 1, -2)
xp.arange(3, dtype=xp.uint8) | xp.asarray([1, 2]) | xp.asarray([[1.5, 2], [3, 4]])
xp.asarray(True) | xp.asarray([1j, 2]) | xp.asarray([]) | xp.asarray(x, copy=True)
xp.asarray(x, dtype=xp.float32) | xp.zeros((2, 3)) | xp.zeros(3, dtype=xp.int8) | xp.ones(())
xp.full((2,), 7) | xp.full(2, 1.5) | xp.full((2,), True) | xp.full((2,), 1j) | xp.zeros_like(i)
xp.ones_like(x, dtype=xp.int32) | xp.full_like(x, 3) | xp.eye(3) | xp.eye(2, 3, k=1)
xp.eye(3, 2, k=-1, dtype=xp.int64) | xp.linspace(0, 1, 5) | xp.linspace(1.0, 3.0, 4, endpoint=False)
xp.linspace(0, 1, 1) | xp.linspace(0, 1, 3, dtype=xp.float32) | xp.meshgrid(v, v)[0]
xp.meshgrid(v, v, indexing="ij")[1] | xp.tril(m) | xp.triu(m, k=1) | xp.astype(x, xp.int32)
xp.astype(b, xp.float64) | xp.bitwise_and(i, 6) | xp.bitwise_or(i, u) | xp.bitwise_xor(u, u)
xp.bitwise_invert(i) | xp.bitwise_left_shift(i, 2) | xp.bitwise_right_shift(u, 1)
xp.logical_and(b, ~b) | xp.logical_not(b) | xp.logical_or(b, b) | xp.logical_xor(b, True)
xp.floor_divide(i, 3) | xp.remainder(i, -3) | xp.floor_divide(x, 0.7) | xp.remainder(x, y)
xp.round(10 * x) | xp.sign(x) | xp.sign(i) | xp.ceil(x) | xp.floor(x) | xp.trunc(x) | xp.isnan(x)
xp.isinf(x) | xp.isfinite(i) | xp.signbit(x) | xp.nextafter(x, y) | xp.equal(x, y)
xp.not_equal(x, 1) | xp.less(i, u) | xp.less_equal(x, 0.5) | xp.greater(x, y)
xp.greater_equal(0.5, x) | xp.sin(i) | xp.divide(i, 2) | xp.add(i, u) | xp.add(f, x)
xp.multiply(f, 2) | xp.multiply(i, 2.5) | xp.add(f, xp.asarray(1.5)) | xp.pow(i, 2) | xp.abs(z)
xp.conj(z) | xp.real(z) | xp.imag(z) | xp.exp(z) | xp.sqrt(z) | xp.log(z) | xp.tanh(z)
xp.round(9 * z) | xp.argmax(x) | xp.argmax(x, axis=1, keepdims=True) | xp.argmin(x, axis=0)
xp.count_nonzero(i) | xp.count_nonzero(i, axis=0, keepdims=True) | xp.nonzero(b)[0]
xp.nonzero(i)[-1] | xp.searchsorted(xp.sort(v), y)
xp.searchsorted(xp.sort(v), 0.5 * v, side="right") | xp.searchsorted(v, v, sorter=xp.argsort(v))
xp.argsort(x) | xp.argsort(i, axis=0) | xp.sort(xp.unique_values(i)) | xp.unique_counts(i).counts
xp.unique_inverse(i).inverse_indices | xp.unique_all(i).indices | xp.unique_all(z).values
xp.any(b) | xp.all(xp.astype(i, xp.uint8)) | xp.all(b, axis=0) | xp.all(x)
xp.any(b, axis=(0, 1), keepdims=True) | xp.sum(i) | xp.sum(u) | xp.sum(b) | xp.prod(u, axis=0)
xp.sum(f) | xp.sum(i, dtype=xp.float32) | xp.mean(i) | xp.max(i) | xp.min(u, axis=1) | xp.var(i)
xp.cumulative_sum(u, axis=0) | xp.cumulative_prod(i, axis=1, include_initial=True)
xp.take(i, xp.asarray([1, 0]), axis=1) | xp.repeat(i, 2) | xp.matmul(i, i.T)
xp.result_type(f, x, 1) | xp.can_cast(xp.int8, xp.int16) | xp.can_cast(x, xp.float32)
xp.finfo(xp.complex64).eps | xp.iinfo(xp.uint16).max | xp.isdtype(x.dtype, "real floating")
xp.linalg.matrix_rank(m) | xp.linalg.matrix_rank(m, rtol=2.0) | xp.fft.fftfreq(5)
xp.fft.rfftfreq(6, d=0.5) | xp.linalg.trace(i @ i.T, dtype=xp.float32)
xp.reshape(i, (3, 2), copy=True) | xp.linalg.qr(m).R.shape
"""
# The same, differentiated too.
SMOOTH = """
xp.abs(x) | xp.acos(x / 9) | xp.acosh(1 + x * x) | xp.add(x, y) | xp.asin(x / 9) | xp.asinh(x)
xp.atan(x) | xp.atan2(x, y) | xp.atanh(x / 9) | xp.clip(x, -0.3, 0.8) | xp.clip(x, max=y)
xp.copysign(x, y) | xp.cos(x) | xp.cosh(x) | xp.divide(x, 3) | xp.exp(x) | xp.expm1(x)
xp.hypot(x, y) | xp.log(1 + x * x) | xp.log10(1 + x * x) | xp.log1p(x * x) | xp.log2(1 + x * x)
xp.logaddexp(x, y) | xp.maximum(x, y) | xp.minimum(x, 0.2) | xp.multiply(2, x) | xp.negative(x)
xp.positive(x) | xp.pow(x, 3) | xp.pow(2.0, x) | xp.reciprocal(2 + x * x) | xp.sin(x) | xp.sinh(x)
xp.sqrt(1 + x * x) | xp.square(x) | xp.subtract(x, y) | xp.tan(x / 9) | xp.tanh(x)
xp.where(x > y, x, 2.0) | xp.real(xp.exp(1j * x)) | xp.abs(xp.expm1(1j * x))
xp.imag(xp.tanh(1j * x)) | xp.broadcast_arrays(x, v)[0] | xp.broadcast_to(x, (2, 2, 3))
xp.concat([x, y], axis=1) | xp.concat([x, v], axis=None) | xp.expand_dims(x, axis=1) | xp.flip(x)
xp.flip(x, axis=(0, 1)) | xp.moveaxis(x, 0, 1) | xp.permute_dims(x, (1, 0))
xp.repeat(x, 2, axis=1) | xp.matrix_transpose(x)
xp.repeat(x, xp.asarray([2, 0, 1], dtype=xp.int8), axis=1) | xp.reshape(x, (3, 2)) | xp.roll(x, 1)
xp.roll(x, 1, axis=(0, 1)) | xp.roll(x, (1, 2), axis=(0, 1)) | xp.squeeze(x[:, None], axis=1)
xp.stack([x, y], axis=-1) | xp.tile(x, (2, 1, 2)) | xp.unstack(x, axis=1)[1] | xp.diff(x)
xp.diff(x, n=2, prepend=y) | xp.max(x) | xp.max(x, axis=0) | xp.min(x, axis=(0, 1), keepdims=True)
xp.mean(x, axis=1) | xp.prod(x) | xp.prod(x, axis=(0, 1)) | xp.prod(x, axis=0, keepdims=True)
xp.std(x) | xp.std(x, axis=1, correction=1) | xp.var(x, axis=0, correction=0.5, keepdims=True)
xp.sum(x) | xp.sum(x, axis=()) | xp.sum(x, axis=(0, -1)) | xp.cumulative_sum(x, axis=1)
xp.cumulative_sum(x[0], include_initial=True) | xp.cumulative_prod(x, axis=0) | xp.sort(x, axis=0)
xp.sort(-x) | xp.take(x, xp.asarray([2, 0]), axis=1) | xp.take(x[0], xp.asarray([1]))
xp.take_along_axis(x, xp.argsort(x), axis=-1) | xp.sort(xp.unique_values(x)) | xp.matmul(x, x.T)
xp.tensordot(x, y, axes=((0, 1), (0, 1))) | xp.tensordot(x, y.T, axes=1) | xp.vecdot(x, y)
xp.vecdot(x, y, axis=-2) | xp.linalg.cross(x, v) | xp.linalg.outer(v, x[0])
xp.linalg.vector_norm(x) | xp.linalg.vector_norm(x, axis=1, ord=1)
xp.linalg.vector_norm(x, axis=(0, 1), ord=xp.inf) | xp.linalg.det(m + x[0, 0])
xp.linalg.inv(m + x[0]) | xp.linalg.solve(m + x[0], v) | xp.linalg.solve(m + x[0], x.T)
xp.linalg.cholesky(s * xp.exp(x[0, 0])) | xp.linalg.eigh(s * x[0, 0])[0]
xp.linalg.cholesky(s * xp.exp(x[0, 0]), upper=True) | xp.linalg.eigvalsh(s * x[0, 0])
xp.linalg.matrix_norm(m + x[0]) | xp.linalg.matrix_norm(m + x[0], ord="nuc", keepdims=True)
xp.linalg.matrix_norm(m + x[0], ord=2) | xp.linalg.matrix_power(m + x[0], 3) | xp.linalg.pinv(x)
xp.linalg.slogdet(m + x[0])[1] | xp.linalg.svdvals(x) | xp.linalg.svd(x, full_matrices=False)[1]
xp.linalg.diagonal(m + x[0], offset=1) | xp.linalg.trace(m + x[0], offset=-1)
xp.linalg.matmul(x, m) | xp.abs(xp.fft.fft(x)) | xp.abs(xp.fft.rfft(x, n=4, axis=0))
xp.fft.irfft(x, norm="ortho") | xp.abs(xp.fft.fftn(x)) | xp.abs(xp.fft.ifftn(x, axes=(0,)))
xp.abs(xp.fft.rfftn(x)) | xp.fft.hfft(x) | xp.abs(xp.fft.ihfft(x))
xp.fft.irfftn(x, s=(4,), axes=(1,)) | xp.real(xp.fft.ifft(x, norm="forward")) | xp.fft.fftshift(x)
xp.fft.ifftshift(x, axes=1)
"""


def calls(text: str) -> list[str]:
    return [call.strip() for line in text.strip().splitlines() for call in line.split(" | ")]


def inputs() -> dict[str, Any]:
    rng = np.random.default_rng(5)
    m = rng.normal(size=(2, 3, 3)) + 2 * np.eye(3)
    return {
        "x": rng.normal(size=(2, 3)),
        "y": rng.normal(size=(2, 3)),
        "v": rng.normal(size=3),
        "m": m,
        "s": m @ m.mT + np.eye(3),
        "i": rng.integers(-3, 4, (2, 3)),
        "u": rng.integers(0, 9, (2, 3)).astype(np.uint16),
        "b": rng.integers(0, 2, (2, 3)).astype(np.bool_),
        "f": rng.normal(size=(2, 3)).astype(np.float32),
        "z": rng.normal(size=(2, 3)) + 1j * rng.normal(size=(2, 3)),
    }


def of_x(call: str) -> Callable[[Any], Any]:
    """The call as a function of x, the other inputs being constants."""
    code = compile(call, call, "eval")
    given = {n: ad.tensor(v) for n, v in inputs().items()}
    return lambda x: eval(code, {**given, "x": x, "xp": x.__array_namespace__()})


@pytest.mark.parametrize("call", [*calls(CALLS), *calls(SMOOTH)])
def test_values_and_dtypes_are_numpys(call: str) -> None:
    given = inputs()
    theirs = eval(call, {**given, "xp": np})
    ours = eval(call, {**{n: ad.tensor(v) for n, v in given.items()}, "xp": xp})
    if isinstance(ours, ad.Tensor):
        assert ours.dtype.np == theirs.dtype
        np.testing.assert_allclose(ours.numpy(), theirs, rtol=1e-12, atol=1e-12)
    else:
        assert (ours.np if isinstance(ours, ad.DType) else ours) == theirs


def test_functions_say_what_they_return() -> None:
    x, m = xp.ones((2, 3)), xp.eye(2)
    given = {"meshgrid": (x[0],), "broadcast_arrays": (x, x)}
    for section, rows in read(TABLE).items():
        for name, row in rows.items():
            if row.returns in ("Tensor", "Any"):
                continue
            result = getattr(place(section), name)(*given.get(name, (x,)))
            assert row.returns.startswith(type(result).__name__)
    for name in ("eigh", "qr", "slogdet", "svd"):
        assert read(TABLE)["linalg"][name].returns == "Any"
        assert isinstance(getattr(xp.linalg, name)(m), tuple)
    assert isinstance(xp.sum(x), ad.Tensor)
    assert inspect.signature(xp.sum).return_annotation is ad.Tensor


@pytest.mark.parametrize("call", calls(SMOOTH))
def test_every_mode_goes_through(call: str) -> None:
    f, x = of_x(call), ad.tensor(inputs()["x"])
    direction = ad.tensor(np.random.default_rng(6).normal(size=(2, 3)))

    def total(x: Any) -> Any:
        return (f(x) * ad.arange(1.0, f(x).numel() + 1).reshape(f(x).shape)).sum()

    step = 1e-6
    expected = float(total(x + step * direction) - total(x - step * direction)) / (2 * step)
    scale = 1 + abs(expected)
    assert math.isclose(
        float((ad.grad(total)(x) * direction).sum()), expected, abs_tol=1e-6 * scale
    )
    assert math.isclose(float(ad.jvp(total, (x,), (direction,))[1]), expected, abs_tol=1e-6 * scale)
    if "unique" not in call:  # whose shape depends on the values
        both = ad.vmap(f)(ad.stack([x, direction]))
        np.testing.assert_allclose(both[1].numpy(), f(direction).numpy(), rtol=1e-9, atol=1e-12)
        np.testing.assert_allclose(ad.trace(f, x)(x).numpy(), f(x).numpy(), rtol=1e-9, atol=1e-12)


def test_a_function_of_the_standard_compiles() -> None:
    def loss(x: Any, w: Any) -> Any:
        xp = x.__array_namespace__()
        z = xp.matmul(x, w)
        scores = z - xp.max(z, axis=-1, keepdims=True)
        p = xp.exp(scores) / xp.sum(xp.exp(scores), axis=-1, keepdims=True)
        return -xp.mean(xp.log(p[:, 0])) + 0.1 * xp.linalg.vector_norm(w)

    x, w = ad.tensor(inputs()["m"][0]), ad.tensor(inputs()["x"]).mT
    value, gradient = ad.compile(ad.value_and_grad(loss, argnums=1))(x, w)
    assert math.isclose(float(value), float(loss(x, w)), rel_tol=1e-12)
    expected = ad.grad(loss, argnums=1)(x, w)
    np.testing.assert_allclose(gradient.numpy(), expected.numpy(), rtol=1e-9)


def test_numbers_among_compiled_arguments_are_numbers() -> None:
    x = xp.ones(3, dtype=xp.float32)
    for f in (xp.multiply, lambda x, a: xp.where(x > 0, x, a), lambda x, a: xp.clip(x, -a, a)):
        expected = f(x, 0.5)
        assert expected.dtype is xp.float32
        for result in (ad.compile(f)(x, 0.5), ad.trace(f, x, 0.5)(x, 0.5)):
            assert (result.dtype, result.tolist()) == (expected.dtype, expected.tolist())
    assert ad.compile(lambda x, a: (x, xp.asarray(a)))(x, 0.5)[1].dtype is xp.float64


# -- where the standard says more than NumPy ------------------------------------------------------


def test_arrays_without_dimensions_are_promoted_as_others() -> None:
    x = xp.ones(3, dtype=xp.float32)
    assert xp.multiply(x, xp.asarray(2.0)).dtype is xp.float64
    assert xp.multiply(x, 2.0).dtype is xp.float32
    with pytest.raises(TypeError, match="no common dtype"):
        xp.add(xp.ones(2, dtype=xp.uint64), xp.ones(2, dtype=xp.int64))


def test_operators_are_pytorchs_unless_the_standards_are_asked_for() -> None:
    x, y = xp.ones(3, dtype=xp.float32), xp.asarray(2.0)

    def f(x: Any) -> Any:
        return ((x * y) // xp.asarray([math.inf]) + x).sum()

    assert (x * y).dtype is xp.float32
    assert math.isnan((xp.asarray(math.inf) // y).item())
    with xp.standard_operators():
        assert (x * y).dtype is (y * x).dtype is xp.float64
        assert (y > x).tolist() == [True] * 3
        assert (xp.asarray(math.inf) // y).item() == math.inf
        whole = xp.asarray([7.0, math.inf])
        whole //= y
        assert whole.tolist() == [3.0, math.inf]
        with pytest.raises(TypeError, match="mul_: the result is"):
            x *= y
        assert ad.grad(f)(x).tolist() == [1.0] * 3
        graph = ad.trace(lambda x: x * y, x)
    assert graph(x).dtype is xp.float64


def test_sorting_in_descending_order_keeps_equal_elements_in_order() -> None:
    x = xp.asarray([2, 1, 2, 3])
    assert xp.argsort(x, descending=True).tolist() == [3, 0, 2, 1]
    assert xp.sort(x, descending=True, stable=False).tolist() == [3, 2, 2, 1]
    assert xp.iinfo(x).bits == 64


def test_quotients_of_infinite_numbers_are_rounded_down() -> None:
    x, y = xp.asarray([math.inf, -math.inf, 3.0, -3.0]), xp.asarray([2.0, 2.0, -math.inf, math.inf])
    rounded = xp.floor_divide(x, y)
    assert rounded.tolist() == [math.inf, -math.inf, 0.0, 0.0]
    assert xp.signbit(rounded).tolist() == [False, True, True, True]


@pytest.mark.parametrize(
    ("point", "value"),
    [(complex(-math.inf, math.inf), -1), (complex(math.inf, 0), complex(math.inf, 0)), (0j, 0j)],
)
def test_expm1_of_infinite_complex_numbers(point: complex, value: complex) -> None:
    assert complex(xp.expm1(xp.asarray(point))) == value


ERRORS = {
    "xp.squeeze(x, axis=0)": ValueError,
    "xp.nonzero(xp.ones(()))": ValueError,
    "xp.cumulative_sum(x)": IndexError,
    "xp.take(x, xp.asarray([0]), axis=2)": IndexError,
    "xp.vecdot(x, x[:, :1])": ValueError,
    "xp.isdtype(xp.int8, 'whole')": ValueError,
    "xp.result_type(1, 2.0)": TypeError,
    "xp.reshape(x.T, (6,), copy=False)": ValueError,
    "xp.finfo(xp.int8)": TypeError,
    "xp.asarray([1.0], copy=False)": TypeError,
    "x.__array_namespace__(api_version='2030.12')": ValueError,
    "x.to_device('cuda')": RuntimeError,
    "x.to_device('cpu', stream=1)": ValueError,
    "xp.no_such_name": AttributeError,
}


@pytest.mark.parametrize("call", ERRORS)
def test_errors(call: str) -> None:
    with pytest.raises(ERRORS[call]):
        eval(call, {"x": xp.ones((2, 3)), "xp": xp})


# -- the namespace itself ----------------------------------------------------------------------


def test_tensors_know_their_namespace() -> None:
    x = ad.ones(2, 3)
    assert x.__array_namespace__() is x.__array_namespace__(api_version="2022.12") is xp
    assert xp.__array_api_version__ == "2024.12"
    assert x.to_device(x.device) is x
    assert ad.vmap(lambda row: row.__array_namespace__().sum(row))(x).tolist() == [3.0, 3.0]


def test_inspection_tells_dtypes_by_kind() -> None:
    info = xp.__array_namespace_info__()
    kinds = ["bool", "signed integer", "unsigned integer", "real floating", "complex floating"]
    assert set(info.dtypes()) == set(standard()["dtypes"])
    assert {n for kind in kinds for n in info.dtypes(kind=kind)} == set(info.dtypes())
    assert set(info.dtypes(kind=("bool", "integral"))) == {
        *info.dtypes(kind="bool"), *info.dtypes(kind="integral"),
    }  # fmt: skip
    assert all(xp.isdtype(d, kind) for kind in kinds for d in info.dtypes(kind=kind).values())
    assert info.default_dtypes()["indexing"] is xp.argmax(xp.ones(3)).dtype
    assert info.default_device() in info.devices()


def test_a_text_that_is_no_dtype_equals_none() -> None:
    assert xp.float32 == "float32"
    assert xp.float32 != "one text, and another"


def test_functions_pickle_and_show_their_row() -> None:
    assert pickle.loads(pickle.dumps(xp.linalg.vecdot)) is xp.linalg.vecdot
    assert "linalg_cholesky(x, upper=upper)" in str(xp.linalg.cholesky.__doc__)
    with pytest.raises(ad.errors.ShapeError) as caught:
        xp.matmul(xp.ones((2, 3)), xp.ones((2, 3)))
    files = [(os.path.basename(str(e.path)), e.name) for e in caught.traceback]
    assert ("functions.txt", "matmul") in files


def test_errors_name_the_line_of_the_caller() -> None:
    x = xp.ones(3).requires_grad_()
    y = xp.exp(x)
    y *= 2
    with pytest.raises(ad.errors.InplaceError, match=r"saved at test_array_api\.py:\d+: y = xp"):
        xp.sum(y).backward()
    assert "test_array_api.py" in str(ad.trace(lambda x: xp.exp(x), xp.ones(3)))


def test_scipy_finds_special_functions_in_the_namespace() -> None:
    x = xp.asarray([1.5, 2.5])
    gradient = ad.grad(lambda x: xp.special.gammaln(x).sum())(x)
    np.testing.assert_allclose(gradient.numpy(), ad.digamma(x).numpy(), rtol=1e-12)
    assert getattr(xp.special, "no_such_function", None) is None


# -- consumers ---------------------------------------------------------------------------------


def test_array_api_compat_finds_the_namespace() -> None:
    compat = pytest.importorskip("array_api_compat")
    x = xp.ones((2, 3))
    assert compat.array_namespace(x, x) is xp
    assert compat.is_array_api_obj(x)
    assert compat.size(x) == 6


def test_scikit_learn_is_differentiated(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("SCIPY_ARRAY_API", "1")
    sklearn = pytest.importorskip("sklearn")
    linear_model = pytest.importorskip("sklearn.linear_model")
    x, y = ad.tensor(inputs()["m"]).reshape(6, 3), ad.tensor(inputs()["x"]).reshape(6)

    def loss(x: Any) -> Any:
        return (linear_model.Ridge(alpha=0.5, solver="svd").fit(x, y).coef_ ** 2).sum()

    def closed_form(x: Any) -> Any:
        x, t = x - x.mean(0), y - y.mean()
        return (ad.linalg.solve(x.mT @ x + 0.5 * ad.eye(3), x.mT @ t) ** 2).sum()

    with sklearn.config_context(array_api_dispatch=True):
        gradient = ad.grad(loss)(x)
    np.testing.assert_allclose(gradient.numpy(), ad.grad(closed_form)(x).numpy(), rtol=1e-6)


def test_code_that_writes_in_place_is_differentiated(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("SCIPY_ARRAY_API", "1")
    sklearn = pytest.importorskip("sklearn")
    decomposition = pytest.importorskip("sklearn.decomposition")
    x = ad.tensor(inputs()["m"]).reshape(6, 3)

    def loss(x: Any) -> Any:
        return (decomposition.PCA(2, svd_solver="full").fit(x).explained_variance_ ** 2).sum()

    with (
        sklearn.config_context(array_api_dispatch=True),
        ad.autograd.graph.allow_mutation_on_saved_tensors(),
    ):
        gradient = ad.grad(loss)(x)
    values = ad.grad(lambda x: (ad.linalg.eigvalsh(x.mT.cov())[1:] ** 2).sum())(x)
    np.testing.assert_allclose(gradient.numpy(), values.numpy(), rtol=1e-6, atol=1e-12)


@pytest.mark.parametrize("name", ["uint8", "int8", "int16", "uint32", "int32", "int64", "uint64"])
def test_an_integer_beyond_a_dtype_overflows(name: str) -> None:
    dtype, limits = getattr(xp, name), np.iinfo(name)
    for number in (limits.max + 1, 2 * limits.min - 1, 2**64, -(10**30)):
        if limits.min == 0 and -limits.max <= number < 0:
            continue  # which wraps
        for make in (xp.asarray, lambda n, dtype: xp.full((2,), n, dtype=dtype)):
            with pytest.raises(OverflowError, match="fit"):
                make(number, dtype=dtype)
        with pytest.raises(OverflowError, match="fit"):
            xp.asarray([0, number], dtype=dtype)
    for number in (limits.min, limits.max):
        assert int(xp.asarray(number, dtype=dtype)) == number
