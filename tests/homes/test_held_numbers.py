"""Numbers count as numbers in every position, in every mode, and are never rounded on the way."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import adjoint as ad

THIRD = 1 / 3
BINARY = ("add", "sub", "rsub", "mul", "div", "atan2", "hypot", "maximum", "fmin", "pow", "xlogy")
NUMBERS: dict[str, Any] = {
    "float": THIRD,
    "float64": np.float64(THIRD),
    "float32": np.float32(THIRD),
    "float16": np.float16(THIRD),
    "longdouble": np.longdouble(THIRD),
    "int": 2,
    "int64": np.int64(2),
    "bool": True,
    "bool_": np.bool_(True),
}


def T(values: Any, dtype: Any = ad.float64) -> Any:
    return ad.tensor(values, dtype=dtype)


TENSORS: dict[str, Any] = {
    "float64": T([1.5, 2.0]),
    "float64 scalar": T(1.5),
    "float32 scalar": T(1.5, ad.float32),
    "bfloat16": T([1.5, 2.0], ad.bfloat16),
    "int32": T([1, 2], ad.int32),
}


def same(a: Any, b: Any) -> None:
    assert a.dtype is b.dtype
    assert a.shape == b.shape
    eps = ad.finfo(a.dtype).eps if a.dtype.is_differentiable else 0
    assert np.allclose(a.numpy().astype(float), b.numpy().astype(float), rtol=4 * eps, atol=eps)


# -- positions -------------------------------------------------------------------------------------


@pytest.mark.parametrize("number", NUMBERS)
@pytest.mark.parametrize("tensor", TENSORS)
@pytest.mark.parametrize("name", BINARY)
def test_a_number_may_stand_first(name: str, tensor: str, number: str) -> None:
    """It gives what the 0-d tensor of the common dtype gives."""
    function, x, value = getattr(ad, name), TENSORS[tensor], NUMBERS[number]
    dtype = ad.result_type(value, x)
    same(function(value, x), function(ad.full((), float(value), dtype=dtype), x))


def test_a_number_is_as_precise_as_the_tensor_beside_it() -> None:
    x = T([3.0, 5.0])
    assert ad.mul(THIRD, x)[0].item() == THIRD * 3
    assert ad.div(1e300, x)[0].item() == 1e300 / 3
    assert x.clone().copy_(THIRD)[0].item() == THIRD
    assert ad.where(x > 4, x, THIRD)[0].item() == THIRD
    assert ad.heaviside(T([0.0]), THIRD).item() == THIRD
    assert ad.compile(lambda x: ad.where(x > 4, x, THIRD))(x)[0].item() == THIRD
    assert ad.vmap(lambda v: ad.where(v > 4, v, THIRD))(x)[0].item() == THIRD


def test_a_whole_number_takes_the_dtype_of_the_tensor() -> None:
    x = T([1, 2], ad.uint8)
    assert ad.sub(1, x).tolist() == [0, 255]
    assert ad.sub(1, x).dtype is ad.uint8
    with pytest.raises(ValueError, match="does not fit"):
        ad.clamp_min(1000, x)


def test_a_tensor_is_never_taken_for_a_number_where_it_is_differentiated() -> None:
    """lerp(x, 2, weight) once took the number of the weight, and its gradient was 0."""
    weight = T(0.25).requires_grad_()
    ad.lerp(T([1.0, 3.0]), 2, weight).sum().backward()
    assert weight.grad.item() == 0.0 + (2 - 1) + (2 - 3)
    with pytest.raises(RuntimeError, match="has no derivative"):
        ad.hardtanh_backward(T([1.0]), T([1.0]), weight, 2.0)


# -- modes -----------------------------------------------------------------------------------------

MODES: dict[str, Callable[[Callable[..., Any], Any, Any], Any]] = {
    "compiled": lambda f, x, v: ad.compile(f)(x, v),
    "traced": lambda f, x, v: ad.trace(f, x, v)(x, v),
    "vmapped": lambda f, x, v: ad.vmap(f, (0, None))(ad.stack([x, x]), v)[0],
    "in a jvp": lambda f, x, v: ad.jvp(lambda u: f(u, v), (x,), (x,))[0],
    "in a pytree": lambda f, x, v: ad.compile(lambda d: f(d["x"], d["v"][0]))({"x": x, "v": [v]}),
    "with arithmetic": lambda f, x, v: ad.compile(lambda x, v: f(x, 2 * v - v))(x, v),
}


@pytest.mark.parametrize("mode", MODES)
@pytest.mark.parametrize("number", [n for n in NUMBERS if "float" in n or n == "longdouble"])
@pytest.mark.parametrize("tensor", [t for t in TENSORS if t != "int32"])
def test_a_number_gives_in_every_mode_what_it_gives_eagerly(
    tensor: str, number: str, mode: str
) -> None:
    x, value = TENSORS[tensor], NUMBERS[number]
    same(MODES[mode](ad.mul, x, value), ad.mul(x, value))


@pytest.mark.parametrize(
    "function",
    [
        lambda x: x.clamp(max=1e300),
        lambda x: ad.nn.functional.hardtanh(x, -1e300, 1e300),
        lambda x: ad.nn.functional.threshold(x, 0.0, 1e300),
        lambda x: x.nan_to_num(nan=1e300),
        lambda x: ad.where(x > 0, x, -1e300),
        lambda x: x.masked_fill(x > 0, 65519.0),  # which rounds to the largest number
    ],
)
def test_a_number_beyond_the_range_of_a_dtype_is_infinite_in_every_mode(
    function: Callable[..., Any],
) -> None:
    x = ad.tensor([1.0, 2.0, -3.0, float("nan")], dtype=ad.float16)
    expected = function(x).numpy()
    np.testing.assert_array_equal(ad.compile(function)(x).numpy(), expected)
    np.testing.assert_array_equal(ad.vmap(function)(x).numpy(), expected)


@pytest.mark.parametrize("number", ["float", "float64", "float32", "float16"])
def test_a_number_alone_is_what_as_tensor_makes_of_it(number: str) -> None:
    value = NUMBERS[number]
    dtype = ad.as_tensor(value).dtype
    for function in (ad.sin, ad.compile(ad.sin), ad.grad(ad.sin), ad.compile(ad.grad(ad.sin))):
        assert function(value).dtype is dtype
    assert ad.compile(lambda d: ad.sin(d["a"]))({"a": value}).dtype is dtype


def test_another_number_needs_no_other_program_and_an_array_is_none() -> None:
    compiled = ad.compile(ad.mul)
    x = T(2.0, ad.float32)
    assert compiled(x, 0.5).dtype is compiled(x, 0.25).dtype is ad.float32
    assert len(compiled.programs) == 1
    assert compiled(x, np.array(0.5)).dtype is ad.float64
    assert compiled(x, 0.5).dtype is ad.float32


def test_the_command_line_does_not_round_its_input(tmp_path: Path) -> None:
    file = tmp_path / "f.py"
    file.write_text("def square(x):\n    return (x * x).sum()\n")
    command = [sys.executable, "-m", "adjoint", "grad", f"{file}:square", "--double", "--at", "0.1"]
    text = subprocess.run(command, capture_output=True, text=True, check=True).stdout
    assert f"value     {0.1 * 0.1}" in text


# -- dtypes ----------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("given", "dtype"),
    [
        (float, ad.float64), (complex, ad.complex128), (int, ad.int64), (bool, ad.bool),
        (np.float32, ad.float32), (np.dtype("i2"), ad.int16), (np.dtype(">f8"), ad.float64),
        ("float64", ad.float64), ("f4", ad.float32), ("bfloat16", ad.bfloat16),
        ("float", ad.float64), ("int", ad.int64), ("complex64", ad.complex64),
    ],
)  # fmt: skip
def test_dtypes_may_be_given_as_pythons_and_numpys(given: Any, dtype: Any) -> None:
    assert ad.zeros(2, dtype=given).dtype is dtype
    assert ad.tensor([1, 0], dtype=given).dtype is dtype
    assert ad.ones(2).to(given).dtype is dtype
    assert ad.ones(2).sum(dtype=given).dtype is dtype
    assert ad.full((2,), 1, dtype=given).dtype is dtype


# -- lists of tensors ------------------------------------------------------------------------------


@pytest.mark.parametrize("function", [ad.asarray, ad.as_tensor])
def test_a_list_of_tensors_is_differentiated(function: Callable[..., Any]) -> None:
    x = T([2.0, 3.0])

    def f(v: Any) -> Any:
        return function([[v[0], 1], [v[1] ** 2, THIRD]])

    total = lambda v: f(v).sum()
    assert ad.grad(total)(x).tolist() == [1, 6]
    assert ad.jvp(total, (x,), (ad.ones_like(x),))[1].item() == 7
    assert ad.grad(lambda u: ad.grad(total)(u).sum())(x).tolist() == [0, 2]
    assert ad.compile(ad.grad(total))(x).tolist() == [1, 6]
    assert ad.vmap(ad.grad(total))(ad.stack([x, x]))[1].tolist() == [1, 6]
    leaf = x.clone().requires_grad_()
    total(leaf).backward()
    assert leaf.grad.tolist() == [1, 6]
    assert f(leaf)[1, 1].item() == THIRD


def test_ad_tensor_of_followed_tensors_raises_in_a_transform() -> None:
    x = T([2.0, 3.0])
    for transformed in (
        lambda: ad.jvp(lambda v: ad.tensor([v[0]]), (x,), (x,)),
        lambda: ad.vmap(lambda v: ad.tensor([v]))(x),
        lambda: ad.trace(lambda v: ad.tensor([v[0]]), x),
        lambda: ad.grad(lambda v: ad.tensor([v[0], v[1]]).sum())(x),
    ):
        with pytest.raises(RuntimeError):
            transformed()


# -- arrays ----------------------------------------------------------------------------------------


def misaligned(values: Any) -> Any:
    array = np.asarray(values)
    odd = np.zeros(array.nbytes + 1, np.uint8)[1:].view(array.dtype).reshape(array.shape)
    odd[...] = array
    assert not odd.flags.aligned
    return odd


def test_native_code_sees_no_misaligned_array() -> None:
    """It gets a copy, as a constant too, and the short way in is not for it."""
    x, factor = np.arange(1.0, 7).reshape(2, 3), misaligned(np.arange(3.0))
    factor.flags.writeable = False
    compiled = ad.compile(lambda x: (x.log() * ad.from_numpy(factor)).sum(0))
    expected = compiled.function(ad.asarray(x))
    for argument in (
        x,
        misaligned(x),
        ad.from_numpy(misaligned(x)),
        misaligned(x),
        x.astype(">f8"),
    ):
        same(compiled(argument), expected)


def test_masked_arrays_are_refused() -> None:
    masked = np.ma.array([1.0, 2.0], mask=[True, False])
    for function in (ad.tensor, ad.asarray, ad.from_numpy, ad.sin):
        with pytest.raises(TypeError, match="masked"):
            function(masked)


# -- bad calls that hung or broke ------------------------------------------------------------------


@pytest.mark.parametrize(
    "call",
    [
        lambda: ad.rand(2, generator=3),
        lambda: ad.rand(2, generator=np.random.default_rng(0)),
        lambda: ad.concat([None]),
        lambda: ad.cat([ad.ones(2), None]),
        lambda: ad.histc(ad.ones(3), bins=10**15),
        lambda: ad.polygamma(10**9, ad.ones(2)),
        lambda: ad.mvlgamma(ad.ones(2), 2**31),
        lambda: ad.tril_indices(10**12, 10**12),
        lambda: ad.randperm(2**60),
        lambda: ad.tensor_split(ad.ones(3), 2**40),
        lambda: ad.mul("a", 2.0),
    ],
)
def test_bad_calls_raise_clear_errors(call: Callable[[], Any]) -> None:
    with pytest.raises(ad.AdjointError):
        call()


# -- powers ----------------------------------------------------------------------------------------


def test_derivatives_of_powers_at_their_edges() -> None:
    zero, one = T(0.0), T(1.0)
    assert ad.jvp(lambda y: zero**y, (T(0.5),), (one,))[1].item() == 0
    cube = lambda x: ad.jvp(lambda y: y ** T(3.0), (x,), (one,))[1]
    assert ad.grad(cube)(T(-2.0)).item() == -12
    exponent = ad.tensor(1.5 + 0.5j, dtype=ad.complex128)
    gradient = ad.grad(lambda y: (T(-2.0) ** y).real)(exponent).item()
    value = complex(-2.0) ** exponent.item()
    assert np.isclose(gradient, np.conj(value * np.log(complex(-2.0))))


def test_derivatives_of_incomplete_gamma_functions_at_shape_zero() -> None:
    mpmath = pytest.importorskip("mpmath")
    for x in (0.1, 1.0, 2.0, 7.0):
        slope = ad.grad(lambda a, x=x: ad.igamma(a, T(x)))(T(0.0)).item()
        assert np.isclose(slope, -float(mpmath.e1(x)), rtol=1e-13)
        upper = ad.grad(lambda a, x=x: ad.igammac(a, T(x)))(T(0.0)).item()
        assert upper == -slope
        assert ad.grad(lambda x: ad.igamma(zero_shape(), x))(T(x)).item() == pytest.approx(0)


def zero_shape() -> Any:
    return T(0.0)


def test_a_property_that_fails_stays_a_property(monkeypatch: pytest.MonkeyPatch) -> None:
    """An AttributeError inside one made the class look for an operator of that name, for good."""

    def fails(_: Any) -> Any:
        raise AttributeError("inside")

    monkeypatch.setattr(ad.Tensor, "mT", property(fails))
    with pytest.raises(AttributeError, match="inside"):
        _ = ad.ones(2, 2).mT
    assert isinstance(vars(ad.Tensor)["mT"], property)


def test_a_tensor_times_a_list_says_what_to_write() -> None:
    with pytest.raises(TypeError, match=r"write x \* ad.tensor"):
        ad.ones(2) * [1, 2]
    assert [0] * ad.tensor(3) == [0, 0, 0]
