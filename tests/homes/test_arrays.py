"""What functions see of NumPy's arrays: `adjoint.numpy.ndarray`, under every transform.

Programs are in `doors/test_numpy_programs.py`; here are the laws of single operators, functions and
methods, what is given back, and what is refused in which words.
"""

from __future__ import annotations

import copy
import inspect
import itertools
import pickle
import warnings
from typing import Any

import numpy as np
import pytest
import scipy.integrate
import scipy.interpolate
import scipy.linalg
import scipy.ndimage
import scipy.optimize
import scipy.sparse
import scipy.stats

import adjoint as ad
import adjoint.numpy as door
from adjoint.core.errors import GradError
from adjoint.doors.numpy import reading
from tests import numpy_idioms
from tests.doors import test_numpy
from tests.doors.test_numpy import ARRAYS, CASES, THEIRS
from tests.numpy_idioms import IDIOMS, X

ndarray = door.ndarray


def _seen(x: Any) -> list[Any]:
    """What a function sees for an argument, under the transforms that call it once."""
    seen: list[Any] = []

    def look(t: Any) -> Any:
        seen.append(t)
        return t * 1.0

    ad.vjp(look, x)
    ad.jvp(look, (x,), (x,))
    ad.linearize(look, x)
    ad.jacrev(look)(x)
    ad.trace(look, x)
    ad.compile(look)(x)
    ad.checkpoint(look)(x)
    ad.custom_rule(look, jvp=lambda p, y, t: t[0])(x)
    ad.cond(ad.tensor(True), look, look, x)
    ad.while_loop(lambda c: (c < 0).any(), look, x)
    return seen


# -- what is seen, and what is given back ----------------------------------------------------------


def test_a_function_sees_arrays_for_arrays_and_tensors_for_tensors() -> None:
    assert {type(t) for t in _seen(np.ones(2))} == {ndarray}
    assert {type(t) for t in _seen(ad.ones(2))} == {ad.Tensor}
    assert {type(t) for t in _seen(door.ones(2))} == {ndarray}
    mapped: list[Any] = []
    ad.vmap(lambda r: (mapped.append(r), r)[1])(np.ones((2, 3)))
    ad.scan(lambda c, t: (mapped.append(t), (c, t))[1], np.zeros(3), np.ones((2, 3)))
    ad.map(lambda t: (mapped.append(t), t)[1], np.ones((2, 3)))
    ad.associative_scan(lambda a, b: (mapped.append(a), a + b)[1], np.ones((2, 3)))
    assert {type(t) for t in mapped} == {ndarray}


def test_what_is_not_differentiated_stays_what_it_is() -> None:
    seen: list[Any] = []
    data = np.arange(3.0)
    ad.grad(lambda x, d: (seen.append(d), (x * d).sum())[1])(np.ones(3), data)
    assert seen[0] is data


@pytest.mark.parametrize("x", [np.array([1.0, 2.0]), np.float64(2.0), np.array(2.0), 2.0, 2])
def test_results_are_tensors_of_doubles(x: Any) -> None:
    f = lambda t: np.sum(t * t)
    found = [
        *ad.value_and_grad(f)(x), *ad.jvp(f, (x,), (x,)), ad.hessian(f)(x), ad.jacfwd(f)(x),
        ad.vjp(f, x)[0], *ad.vjp(f, x)[1](1.0), ad.linearize(f, x)[0], ad.linearize(f, x)[1](x),
        ad.hvp(f, (x,), (x,)), ad.compile(ad.grad(f))(x), *ad.grad(lambda t: (f(t), t),
        has_aux=True)(x),
        ad.checkpoint(f)(np.asarray(x, float)), ad.compile(f)(x * 1.0),
    ]  # fmt: skip
    assert {type(t) for t in found} == {ad.Tensor}
    assert {t.dtype for t in found} == {ad.float64}


def test_arrays_of_ours_give_arrays() -> None:
    x = door.array([1.0, 2.0])
    f = lambda t: np.sum(t**3)
    found = [
        *ad.value_and_grad(f)(x), *ad.jvp(f, (x,), (x,)), ad.hessian(f)(x), ad.vmap(np.sin)(x),
        ad.compile(np.sin)(x), ad.compile(ad.grad(f))(x), *ad.vjp(f, x)[1](1.0),
        ad.scan(lambda c, t: (c + t, c), x[0], x)[1], ad.checkpoint(f)(x),
        ad.custom_rule(lambda t: np.sin(t), jvp=lambda p, y, t: np.cos(p[0]) * t[0])(x),
    ]  # fmt: skip
    assert all(isinstance(t, ndarray) for t in found)
    assert ad.grad(lambda t: np.sum(ad.grad(f)(t) * t))(np.array([1.0, 2.0])).tolist() == [9, 36]


def test_nested_transforms_see_arrays_too() -> None:
    """Newton's method inside a function of arrays; derivatives within keep NumPy's methods."""

    def solved(a: Any) -> Any:
        x = np.ones_like(a)
        residual = lambda x: x**3 - a
        for _ in range(8):
            x -= np.linalg.solve(ad.jacobian(residual)(x), residual(x))
        return x.std()

    a = np.array([2.0, 5.0, 9.0])
    expected = (lambda r: r.std())(np.cbrt(a))
    value, gradient = ad.value_and_grad(solved)(a)
    assert np.isclose(value, expected)
    root = np.cbrt(a)
    slope = (root - root.mean()) / (3 * root.std()) / (3 * root**2)
    np.testing.assert_allclose(gradient, slope, rtol=1e-10)


def test_one_element_is_a_scalar_for_arrays() -> None:
    assert ad.grad(lambda x: x[:1] ** 2)(np.array([3.0, 1.0])).tolist() == [6, 0]
    with pytest.raises(GradError, match=r"shape \(1,\)"):
        ad.grad(lambda x: x[:1] ** 2)(ad.ones(2))
    with pytest.raises(GradError, match="returned None; a `return` may be missing"):
        ad.grad(lambda x: None)(ad.ones(2))


# -- numbers of Python's ---------------------------------------------------------------------------


def test_numbers_of_python_are_doubles_that_rebind() -> None:
    def f(x: Any) -> Any:
        old = x
        x += 1
        y = x
        x *= old
        return x + y * 0.1

    x = 0.3
    assert ad.grad(f)(x).item() == pytest.approx(2 * x + 1 + 0.1, rel=1e-15)
    assert ad.jvp(f, (x,), (1.0,))[0].item() == f(x)
    assert ad.grad(np.sin)(x).item() == np.cos(x)
    assert ad.grad(ad.grad(lambda t: t**3))(x).item() == pytest.approx(6 * x, rel=1e-15)
    assert ad.compile(ad.grad(f))(x).item() == ad.grad(f)(x).item()


def test_numbers_of_python_count_as_numbers_beside_tensors_and_arrays() -> None:
    w = ad.tensor([1.0, 2.0, 4.0])  # float32
    data = np.array([1.0, 2.0, 4.0])
    value, gradient = ad.value_and_grad(lambda a: (a * w).std())(0.3)
    assert value.dtype is gradient.dtype is ad.float32
    assert value.item() == pytest.approx(0.3 * w.std().item())  # PyTorch's, by n - 1
    value, gradient = ad.value_and_grad(lambda a: (a * data).std())(0.3)
    assert gradient.dtype is ad.float64
    assert gradient.item() == pytest.approx(data.std(), rel=1e-14)
    single = data.astype(np.float32)
    for f in (
        lambda a: (a * single).sum(),
        lambda a: (single * a).sum(),
        lambda a: np.sum(single + a),
    ):
        assert ad.value_and_grad(f)(0.3)[0].dtype is ad.float32  # as 0.3 * single is
    assert ad.value_and_grad(lambda a: np.sin(a) * single[0])(0.3)[0].dtype is ad.float64


# -- laws: numbers and arrays, memory, dtypes ------------------------------------------------------


def _leaves(value: Any) -> list[Any]:
    return (
        [v for part in value for v in _leaves(part)]
        if isinstance(value, (tuple, list))
        else [value]
    )


def _arrays() -> dict[str, Any]:
    return {k: door.array(v) for k, v in ARRAYS.items()}


ZERO_D = (
    "where(s > 0, s, 0.0)", "select([s > 0], [s], 0.0)", "squeeze(V[:1])", "reshape(V[:1], ())",
    "copy(z)", "array(s)", "full((), 2.0)", "zeros_like(z)", "tensordot(V, V, 1)", "isin(s, V)",
    "interp(0.3, V, V)", "einsum('i,i', V, V)", "clip(z, 0, 0.2)", "take(V, 0)", "trace(M)",
    "cov(V)", "median(V)", "searchsorted(V, 0.3)", "linalg.det(M)", "transpose(z)", "dot(V, V)",
    "sum(z)", "sin(z)", "linalg.norm(V)", "quantile(V, 0.3)", "max(V)", "average(V)", "ptp(V)",
    "add.reduce(V)", "linalg.tensordot(V, V, axes=1)", "real(z)", "nan_to_num(z)", "round(z, 1)",
    "piecewise(z, [z > 0], [1.0, 2.0])", "real_if_close(z)", "i0(z)", "roll(z, 1)", "vdot(V, V)",
    "apply_along_axis(lambda r: r.sum(), 0, V)", "vectorize(lambda t: t * 2.0)(z)", "inner(V, V)",
)  # fmt: skip
INDICES = ("V[0]", "M[0, 1]", "V[...]", "M[0, 1, ...]", "z[()]", "z[...]", "z + 1", "z * z", "-z",
           "z.copy()", "z.sum()", "V @ V", "z.T", "V.max()", "V.flat[0]", "z.reshape(())",
           "V.mean()",
           "V[np.array(1)]", "z.astype(float)", "abs(z)", "V.dot(V)", "V.take(1)")  # fmt: skip


@pytest.mark.parametrize("text", [*(f"np.{t}" for t in ZERO_D), *INDICES])
def test_what_is_a_number_and_what_an_array_is_as_in_numpy(text: str) -> None:
    """What changes in place, `a += 1`, and what is made anew, hangs on it."""
    theirs = {
        "V": ARRAYS["V"],
        "M": ARRAYS["M"],
        "z": np.array(0.3),
        "s": np.float64(0.3),
        "np": np,
    }
    ours = {
        "V": door.array(ARRAYS["V"]),
        "M": door.array(ARRAYS["M"]),
        "z": door.array(0.3),
        "np": door,
    }
    ours["s"] = ours["V"][0] * 0 + 0.3
    expected, found = eval(text, theirs), eval(text, ours)
    assert isinstance(found, ndarray)
    assert np.allclose(found, expected)
    assert (type(found) is ndarray) == isinstance(expected, np.ndarray)


# NumPy warns of a write, or shares memory that is made of Python's own objects.
_BY_THE_WAY = ("asanyarray", "asarray", "broadcast_arrays", "from_dlpack", "histogram")


@pytest.mark.parametrize("differentiated", [False, True], ids=["plain", "grad"])
def test_what_shares_memory_is_as_in_numpy(differentiated: bool) -> None:
    """A write to a result reaches the arguments exactly if it does in NumPy."""

    def changed(function: Any, sample: str, arrays: dict[str, Any]) -> list[Any]:
        found = [v for v in _leaves(test_numpy._call(function, sample, arrays)) if np.ndim(v)]
        for value in found:
            try:
                value[...] = 1
            except (ValueError, TypeError):  # NumPy's may be read-only
                return [None]
        used = [k for k in arrays if k in sample]
        return [np.array_equal(_plain(arrays[k]), ARRAYS[k], equal_nan=True) for k in used]

    for module, name, sample in CASES:
        row = reading.TABLES[module][name]
        if (
            row.section in ("same", "theirs", "scipy_linalg")
            or reading.is_ufunc(row)
            or row.returns == "None"
        ):
            continue
        if name in _BY_THE_WAY:
            continue
        expected = changed(getattr(THEIRS[module], name), sample, copy.deepcopy(ARRAYS))
        if expected == [None]:
            continue
        found: list[Any] = []
        function = reading.function(module, name)

        def f(x: Any, call: Any = (function, sample), found: list[Any] = found) -> Any:
            found[:] = changed(*call, {**_arrays(), "V": x * 1.0, "A": _arrays()["A"] + x[0] * 0})
            return x.sum()

        if differentiated:
            ad.grad(f)(ARRAYS["V"])
        else:
            f(door.array(ARRAYS["V"]))
        assert found == expected, (name, sample)


def _plain(value: Any) -> Any:
    return ad.as_tensor(value).detach().numpy() if isinstance(value, ad.Tensor) else value


KINDS = (
    "bool",
    "uint8",
    "int8",
    "int32",
    "int64",
    "uint64",
    "float16",
    "float32",
    "float64",
    "complex64",
)
OPERATORS = ("+", "-", "*", "/", "//", "%", "**", "<", "==", "&", "<<")


@pytest.mark.parametrize("operator", OPERATORS)
@pytest.mark.filterwarnings("ignore")
def test_operators_have_numpys_dtypes_and_values(operator: str) -> None:
    """Of arrays and their elements, with numbers of Python's and NumPy's and lists, both ways."""
    for left in KINDS:
        a = np.array([3, 1, 2]).astype(left)
        others = [np.array([1, 2, 2]).astype(k) for k in KINDS]
        others += [o[0] for o in others] + [True, 2, 0.5, 1j, [1, 2, 2], (0.5, 1.0, 2.0)]
        ours = door.array(a)
        for other, element, turned in itertools.product(others, (False, True), (False, True)):
            x, t = (a[1], ours[1]) if element else (a, ours)
            text = f"y {operator} x" if turned else f"x {operator} y"
            kinds = (left, str(np.asarray(other).dtype))
            if operator == "<" and any("complex" in kind for kind in kinds):
                continue  # NumPy puts complex numbers in an order, which is refused
            if left == "bool" and operator == "**" and type(other) is int:
                continue  # NumPy squares truth values as int8
            try:
                expected = eval(text, {"x": x, "y": other})
            except (TypeError, ValueError, OverflowError, np._core._exceptions.UFuncTypeError):
                continue
            found = eval(text, {"x": t, "y": other})
            if type(expected) in (list, tuple):  # np.int64(2) * [1, 2] repeats the list
                assert found == expected
                continue
            got, expected = _plain(found), np.asarray(expected)
            assert isinstance(found, ndarray), (text, left, other)
            assert got.dtype == expected.dtype, (text, x, other, got.dtype, expected.dtype)
            np.testing.assert_allclose(got, expected, rtol=1e-3 if "16" in str(got.dtype) else 1e-6)


def test_in_place_operators_cast_as_numpys() -> None:
    for left, right in itertools.product(("int64", "float32", "float64"), repeat=2):
        theirs, ours = np.ones(2, left), door.ones(2, left)
        for operator in ("+=", "*=", "/=", "//=", "**="):
            text = f"a {operator} b"
            try:
                exec(text, {"a": theirs, "b": np.full(2, 2, right)})
            except TypeError:
                with pytest.raises(TypeError, match="write x = x \\+ y"):
                    exec(text, {"a": ours, "b": door.full(2, 2, right)})
            else:
                exec(text, {"a": ours, "b": door.full(2, 2, right)})
                assert ours.numpy().dtype == theirs.dtype
                np.testing.assert_allclose(ours, theirs)


def test_methods_have_numpys_signatures() -> None:
    for name in reading.METHODS:
        if not hasattr(np.ndarray, name):
            continue  # ptp, of NumPy 1
        try:
            theirs = inspect.signature(getattr(np.ndarray, name))
        except ValueError:
            continue
        ours = inspect.signature(getattr(ndarray, name))
        assert [p for p in ours.parameters if p != "self"][: len(theirs.parameters)], name
    x = door.array([[1.0, 5.0], [2.0, 3.0]])
    assert x.max(dim=0).values.tolist() == [2, 5]  # a keyword of PyTorch's: the tensor's method
    assert x.sum(dim=1, keepdim=True).shape == (2, 1)


def test_keys_are_numpys() -> None:
    a = np.arange(60.0).reshape(3, 4, 5)
    keys: list[Any] = [
        0, -1, (0, 1), (0, 1, 2), slice(1, 3), (slice(None), 1), (..., 0), (None, 0), [0, 2], ([0,
        2],),
        [[0, 1], [1, 0]], (0, slice(None), [1, 2]), (slice(None), 1, [1, 2]), ([0, 1],
        slice(None), [1, 2]),
        (np.array([0, 2]), 1), a[..., 0] > 7, a > 30, (0, a[0] > 5), (a[:, 0, 0] > 3, 1),
        np.array(1),
        np.uint8(2), np.array([0, 1], np.uint8), slice(None, None, -1), (slice(None), slice(None,
        None, -2)),
        (slice(2, 0, -1), [0, 1]), True, (0, None, ..., 1), range(2), (), (np.int64(1),
        np.array([2, 0])),
        (slice(None), [True, False, True, False]), ([0, 1], None, 2), (0, [1, 2], slice(None),
        None),
        np.zeros(0, int), [],
    ]  # fmt: skip
    x = door.array(a)
    for key in keys:
        expected = a[key]
        found = x[key]
        assert found.shape == expected.shape, key
        assert np.array_equal(found, expected), key
        ours, theirs = x.copy(), a.copy()
        ours[key] = 7.0
        theirs[key] = 7.0
        assert np.array_equal(ours, theirs), key
        gradient = ad.grad(lambda t, key=key: (t[key] ** 2).sum())(a)
        counted = np.zeros_like(a)
        np.add.at(counted, key, 2 * expected)
        assert np.allclose(gradient, counted), key


# -- programs of adjoint.numpy ---------------------------------------------------------------------


def _with(module: Any, name: str) -> Any:
    """An idiom whose `np` is another module."""
    function = IDIOMS[name]
    scope = {**vars(numpy_idioms), "np": module}
    made = type(function)(function.__code__, scope, name)
    return made


@pytest.mark.parametrize("name", sorted(IDIOMS))
def test_programs_of_adjoint_numpy(name: str) -> None:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        expected = IDIOMS[name](X.copy())
        function = _with(door, name)
        assert np.isclose(float(function(door.array(X))), expected, rtol=1e-12)
        np.testing.assert_allclose(
            ad.grad(function)(X), ad.grad(IDIOMS[name])(X), rtol=1e-10, atol=1e-12
        )


def test_what_numpy_does_not_hand_on_works_in_adjoint_numpy() -> None:
    np = door

    def f(x: Any) -> Any:
        out = np.zeros(3)
        for i in range(3):
            out[i] = x[i] ** 2
        a = np.array([[x[0], 1.0], [x[1] * x[2], x.sum()]])
        b = np.full(3, x[0]) + np.mean([x[0], x[1]]) + np.r_[x[:2], 4.0] * np.c_[x, x][:, 1]
        return (out * b).sum() + np.linalg.det(a) + np.asarray([x, out]).std()

    x = ad.tensor([0.5, -1.0, 2.0], dtype=ad.float64).numpy()
    step = 1e-6
    differences = [
        (f(x + h).item() - f(x - h).item()) / (2 * step) for h in step * __import__("numpy").eye(3)
    ]
    assert ad.allclose(ad.grad(f)(x), ad.tensor(differences, dtype=ad.float64), 1e-7)


# -- control flow, rules, checkpoints --------------------------------------------------------------


def test_bodies_of_loops_and_branches_are_numpys() -> None:
    x = np.array([0.5, -1.0, 2.0])

    def body(carry: Any, t: Any) -> Any:
        old = carry[0]
        carry[0] += t
        t *= 2
        return carry, (carry.std() * t, old)

    def of_numpy(x: Any) -> Any:
        carry, out = x.copy(), 0.0
        for t in x:
            carry, (y, old) = body(carry, t)
            out += y * old
        return out + carry.var()

    def f(x: Any) -> Any:
        carry, (ys, olds) = ad.scan(body, x, x)
        return np.sum(ys * olds) + carry.var()

    value, gradient = ad.value_and_grad(f)(x)
    assert np.isclose(value, of_numpy(x))
    np.testing.assert_allclose(gradient, ad.grad(of_numpy)(x), rtol=1e-12)
    compiled = ad.compile(ad.value_and_grad(f))(x)
    np.testing.assert_allclose(compiled[1], gradient, rtol=1e-12)
    halved = lambda x: ad.while_loop(lambda c: c.std() > 0.5, lambda c: c * 0.5, x).std()
    assert np.isclose(ad.compile(halved)(x), halved(door.array(x)))
    chosen = lambda x: ad.cond(x[0] > 0, lambda v: v.std(), lambda v: v.var(), x)
    assert np.isclose(ad.grad(chosen)(x) @ x, x.std())
    assert np.isclose(ad.fori_loop(0, 3, lambda i, c: c + c.std() * x[i], x)[0], _fori(x))


def _fori(x: Any) -> float:
    c = x.copy()
    for i in range(3):
        c = c + c.std() * x[i]
    return float(c[0])


def test_numbers_beside_arrays_are_doubles_in_loops() -> None:
    total, _ = ad.scan(lambda c, t: (c + t, None), 0.0, np.array([0.1, 0.2]))
    assert total.dtype is ad.float64
    assert total.item() == 0.1 + 0.2


def test_rules_and_checkpoints_are_numpys() -> None:
    x = np.array([0.5, -1.0, 2.0])

    @ad.custom_vjp
    def spread(x: Any) -> Any:
        y = x * 1.0
        y -= y.mean()
        return y.std()

    def forward(x: Any) -> Any:
        return spread(x), (x, x.mean(), x.std())

    def backward(kept: Any, g: Any) -> Any:
        x, mean, std = kept
        found = (x - mean) / (x.size * std)
        found *= g
        return (found,)

    spread.defvjp(forward, backward)
    plain = lambda x: x.std()
    f = lambda s: lambda x: s(x) * x[0] + s(x * x)
    for transform in (ad.grad, ad.jacfwd, lambda g: ad.compile(ad.grad(g))):
        np.testing.assert_allclose(transform(f(spread))(x), transform(f(plain))(x), rtol=1e-12)
    cube = ad.custom_rule(lambda x: x**3, vjp=lambda p, y, g: (3 * g * y / p[0],))
    assert np.allclose(ad.grad(lambda x: cube(x).var())(x), ad.grad(lambda x: (x**3).var())(x))

    def long(x: Any) -> Any:
        y = x.copy()
        for i in range(1, 3):
            y[i] += y[i - 1] * y[i]
        return y.std()

    expected = ad.grad(long)(x)
    for kept in (ad.checkpoint(long), ad.checkpoint(ad.checkpoint(long))):
        assert np.allclose(ad.grad(kept)(x), expected)
        assert np.allclose(ad.hessian(kept)(x), ad.hessian(long)(x))


def test_autograd_functions_take_arrays() -> None:
    class Square(ad.autograd.Function):
        @staticmethod
        def forward(ctx: Any, x: Any) -> Any:
            assert type(x) is ad.Tensor
            ctx.save_for_backward(x)
            return x * x

        @staticmethod
        def backward(ctx: Any, g: Any) -> Any:
            (x,) = ctx.saved_tensors
            return 2 * g * x

    assert ad.grad(lambda x: Square.apply(x).std())(np.array([1.0, 3.0])).tolist() == [-1, 3]


def test_modules_see_tensors() -> None:
    """A model's forward is PyTorch's, whatever it is given."""

    class Model(ad.nn.Module):
        def forward(self, x: Any) -> Any:
            return x.std() + x.max(dim=0).values.sum()

    x = np.array([1.0, 2.0, 4.0], np.float32)
    found = ad.compile(Model())(x)
    assert found.item() == pytest.approx(x.std(ddof=1) + 4)


# -- writes to the caller's arrays -----------------------------------------------------------------


def test_transforms_leave_the_callers_arrays_alone_and_compiled_functions_write_to_them() -> None:
    def f(x: Any) -> Any:
        x *= 2
        x[0] = 7.0
        return x.sum()

    x = np.array([1.0, 2.0, 3.0])
    for transform in (ad.grad, ad.jacobian, ad.hessian, lambda f: lambda x: ad.jvp(f, (x,), (x,))):
        transform(f)(x)
    ad.vmap(f)(x[None])
    assert x.tolist() == [1, 2, 3]
    expected = x.copy()
    assert ad.compile(f)(x).item() == f(expected)
    assert x.tolist() == expected.tolist()
    views = np.zeros(4)
    ad.compile(lambda a: a.__setitem__(slice(0, 2), 3.0))(views[1:])
    assert views.tolist() == [0, 3, 3, 0]
    ours = door.array([1.0, 2.0, 3.0])
    part = ours[1:]
    ad.compile(f)(ours)
    assert ours.tolist() == [7, 4, 6]
    assert part.tolist() == [4, 6]


def test_programs_for_arrays_and_for_tensors_are_two() -> None:
    f = ad.compile(lambda x: x.std())
    x = np.array([1.0, 2.0, 4.0])
    for _ in range(3):  # the third call takes the short way
        assert f(x).item() == pytest.approx(x.std())
        assert f(ad.tensor(x)).item() == pytest.approx(x.std(ddof=1))
        assert f(door.array(x)).item() == pytest.approx(x.std())


# -- copies, files, texts --------------------------------------------------------------------------


def test_copies_pickles_and_texts() -> None:
    x = door.array([1.0, 2.0, 3.0])
    for made in (copy.copy(x), copy.deepcopy(x), pickle.loads(pickle.dumps(x)), x.copy(), +x):
        assert type(made) is ndarray
        made[0] = 9.0
        assert x[0] == 1
    assert type(pickle.loads(pickle.dumps(x[0]))) is type(x[0])
    assert repr(x) == repr(x.numpy())
    assert str(door.float32(1)) == str(np.float32(1))
    assert f"{x[1]:.2f} {x.sum():g}" == "2.00 6"
    assert isinstance(x, ad.Tensor)
    assert type(ad.as_tensor(x)) is ad.Tensor
    with pytest.raises(TypeError, match="adjoint.numpy.array"):
        ndarray([1.0])


def test_tensors_made_of_arrays_and_arrays_made_of_tensors() -> None:
    t = ad.tensor([1.0, 2.0, 4.0], dtype=ad.float64)
    x = door.array(t)
    x[0] = 5.0
    assert t.tolist() == [1, 2, 4]
    for mixed in (t + x, x * t, np.add(t, x), ad.add(t, x), ad.stack([t, x]), np.stack([x, t])):
        assert type(mixed) is ndarray  # NumPy's, as the more particular
    t += x
    assert type(t) is ad.Tensor
    assert type(ad.tensor([1.0]) * 2) is ad.Tensor


def test_the_tape_takes_arrays() -> None:
    x = door.array([1.0, 2.0, 4.0]).requires_grad_()
    y = x * 1.0
    y[0] *= 3
    y.std().backward()
    expected = ad.grad(lambda x: (x * np.array([3.0, 1.0, 1.0])).std())(np.array([1.0, 2.0, 4.0]))
    assert np.allclose(x.grad, expected)


# -- refusals --------------------------------------------------------------------------------------


TRANSFORMS = {
    "grad": lambda f, x: ad.grad(f)(x),
    "jvp": lambda f, x: ad.jvp(f, (x,), (x,)),
    "vmap": lambda f, x: ad.vmap(f)(x[None]),
    "compile": lambda f, x: ad.compile(f)(x),
    "hessian": lambda f, x: ad.hessian(f)(x),
}


def _into_zeros(x: Any) -> Any:
    out = np.zeros(3)
    for i in range(3):
        out[i] = x[i] ** 2
    return out.sum()


def _into_a_slice(x: Any) -> Any:
    out = np.zeros(3)
    out[:] = x
    return out.sum()


@pytest.mark.parametrize("transform", TRANSFORMS)
@pytest.mark.parametrize("function", [_into_zeros, _into_a_slice])
def test_arrays_of_numpys_own_cannot_hold_what_is_differentiated(
    function: Any, transform: str
) -> None:
    with pytest.raises(ad.AdjointError) as caught:
        TRANSFORMS[transform](function, np.array([1.0, 2.0, 3.0]))
    message = str(caught.value)
    assert "test_arrays.py:" in message
    assert "out[" in message
    for way in ("np.zeros_like(x)", "np.stack", "import adjoint.numpy as np"):
        assert way in message


LISTS = {
    "np.array([x[0], x[1]])": lambda x: np.array([x[0], x[1]]).sum(),
    "np.mean([x[0], x[1]])": lambda x: np.mean([x[0], x[1]]),
    "np.full(3, x[0])": lambda x: np.full(3, x[0]).sum(),
    "np.r_[x, x]": lambda x: np.r_[x, x].sum(),
    "np.asarray(x)": lambda x: np.asarray(x).sum(),
}


@pytest.mark.parametrize("transform", TRANSFORMS)
@pytest.mark.parametrize("text", LISTS)
def test_what_numpy_takes_apart_is_refused_by_what_stands_there(text: str, transform: str) -> None:
    with pytest.raises(ad.AdjointError) as caught:
        TRANSFORMS[transform](LISTS[text], np.array([1.0, 2.0, 3.0]))
    message = str(caught.value)
    assert "test_arrays.py:" in message
    assert text in message
    assert "adjoint.numpy" in message


FUNCTIONS = {
    "scipy.interpolate.CubicSpline": (
        lambda x: scipy.interpolate.CubicSpline(np.arange(3.0), x)(0.5), "np.interp"),
    "scipy.integrate.quad": (
        lambda x: scipy.integrate.quad(lambda t: t * x[0], 0, 1)[0], "ad.scan"),
    "scipy.linalg.expm": (lambda x: scipy.linalg.expm(np.outer(x, x)).sum(),
    "adjoint.scipy.linalg.expm"),
    "scipy.linalg.lu_solve": (
        lambda x: scipy.linalg.lu_solve(scipy.linalg.lu_factor(np.eye(3)), x).sum(), "np.linalg"),
    "scipy.ndimage.gaussian_filter": (lambda x: scipy.ndimage.gaussian_filter(x, 1.0).sum(), "ad."),
    "stats.norm.logpdf": (lambda x: scipy.stats.norm.logpdf(x).sum(), "adjoint.scipy.stats"),
    "scipy.optimize.minimize": (
        lambda x: scipy.optimize.minimize(lambda p: ((p - x) ** 2).sum(), np.zeros(3)).fun,
        "custom_root"),
    "scipy.sparse": (lambda x: (scipy.sparse.csr_matrix(np.eye(3)) @ x).sum(), "ad.sparse"),
}  # fmt: skip


@pytest.mark.parametrize("name", FUNCTIONS)
def test_functions_of_scipy_are_refused_by_name_with_a_way_out(name: str) -> None:
    function, way = FUNCTIONS[name]
    for transform in (ad.grad, ad.jacfwd):
        with pytest.raises(ad.AdjointError) as caught:
            transform(function)(np.array([1.0, 2.0, 3.0]))
        message = str(caught.value)
        assert "test_arrays.py:" in message
        assert name in message
        assert way in message


def test_solvers_in_c_leave_our_error() -> None:
    with pytest.raises(ad.AdjointError):
        ad.grad(lambda x: scipy.optimize.brentq(lambda t: t - x[0], -5, 5))(np.array([1.0, 2.0]))


def test_numbers_cannot_be_written_to() -> None:
    x = door.array([[1.0, 2.0]])
    with pytest.raises(TypeError, match=r"x\[i, j\] = v"):
        x[0][0][...] = 1.0
    with pytest.raises(TypeError):
        iter(x[0, 0])


def test_values_by_which_no_derivative_goes_may_leave() -> None:
    """Places that a function of an array gives index NumPy's own arrays, in every mode."""
    data = np.array([10.0, 20.0, 30.0])
    f = lambda x: (data[np.argsort(x)] * x).sum() + data[x.argmax()] * x[0]
    x = np.array([2.0, 3.0, 1.0])
    expected = [30.0 + 20.0, 10.0, 20.0]
    assert ad.grad(f)(x).tolist() == expected
    assert ad.jacfwd(f)(x).tolist() == expected
    assert not ad.hessian(f)(x).any()


@pytest.mark.parametrize("way", [ad.grad, lambda f: lambda x: ad.jvp(ad.grad(f), (x,), (x,))[0]])
def test_a_part_of_what_came_from_a_kink_is_a_view(way: Any) -> None:
    """|x| is 0 in two places; what is written to a part of it reaches the whole."""

    def f(x: Any) -> Any:
        y = np.abs(x)
        part = y[::2]
        part[0] = x[1]
        y[1:3] -= y[:2] * 0.25
        return np.sum(y * np.arange(1.0, 5.0))

    x = np.array([0.0, -2.0, 0.0, 3.0])
    np.testing.assert_allclose(np.asarray(way(f)(x)), [0.0, 1 - 0.5 - 2 + 0.75, 0.0, 4.0])


def test_an_array_that_is_made_inside_vmap_takes_a_value_for_each_sample() -> None:
    weights = door.array([1.0, 2.0, 3.0])

    def f(t: Any) -> Any:
        y = weights * 1.0
        y[0] = t[0]
        return y.sum()

    assert ad.vmap(f)(np.arange(6.0).reshape(2, 3)).tolist() == [5.0, 8.0]


def test_the_hessian_of_a_process_with_equal_points() -> None:
    """Its diagonal is a copy of a part of what comes from a kink, inside vmap."""

    def f(x: Any) -> Any:
        r = np.abs(x[:, None] - x[None, :])
        kernel = (1 + r) * np.exp(-r) + 0.1 * np.eye(3)
        return np.sum(np.log(np.diag(np.linalg.cholesky(kernel))))

    x, step = np.array([0.3, 0.3, 1.7]), 1e-5
    found = np.asarray(ad.hessian(f)(x))
    gradient = lambda i, sign: np.asarray(ad.grad(f)(x + sign * step * np.eye(3)[i]))
    rows = [(gradient(i, 1) - gradient(i, -1)) / (2 * step) for i in range(3)]
    np.testing.assert_allclose(found, rows, rtol=1e-4, atol=1e-6)
