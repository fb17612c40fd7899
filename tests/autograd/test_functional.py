"""`ad.autograd.functional`: values, graphs of results in every mode, and strict checks."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import adjoint as ad

functional = ad.autograd.functional


def vector(*values: float, requires_grad: bool = False) -> ad.Tensor:
    return ad.tensor(list(values), dtype=ad.float64, requires_grad=requires_grad)


X, V = (0.5, 1.5), (2.0, -1.0)


def call(name: str, f: Callable[..., Any], x: ad.Tensor, **options: Any) -> Any:
    """The derivative, without the value."""
    function = getattr(functional, name)
    if name in ("jacobian", "hessian"):
        return function(f, x, **options)
    return function(f, x, vector(*V), **options)[1]


EXPECTED: dict[str, tuple[Callable[..., Any], Any]] = {
    "vjp": (lambda x: x.exp() * x, np.exp(X) * (1 + np.array(X)) * V),
    "jvp": (lambda x: x.exp() * x, np.exp(X) * (1 + np.array(X)) * V),
    "jacobian": (lambda x: x.exp() * x, np.diag(np.exp(X) * (1 + np.array(X)))),
    "hessian": (lambda x: (x**4).sum(), np.diag(12 * np.array(X) ** 2)),
    "hvp": (lambda x: (x**4).sum(), 12 * np.array(X) ** 2 * V),
    "vhp": (lambda x: (x**4).sum(), 12 * np.array(X) ** 2 * V),
}


@pytest.mark.parametrize("mode", [ad.no_grad, ad.enable_grad])
@pytest.mark.parametrize("requires_grad", [True, False])
@pytest.mark.parametrize("name", EXPECTED)
def test_results_have_a_graph_exactly_if_asked(
    name: str, requires_grad: bool, mode: Callable[[], Any]
) -> None:
    f, expected = EXPECTED[name]
    x = vector(*X, requires_grad=requires_grad)
    with mode():
        plain = call(name, f, x)
        linked = call(name, f, x, create_graph=True)
    assert np.allclose(plain.numpy(), expected)
    assert not plain.requires_grad
    assert np.allclose(linked.detach().numpy(), expected)
    assert linked.requires_grad
    if requires_grad:
        (again,) = ad.autograd.grad(linked.sum(), x)
        step = 1e-6
        moved = call(name, f, vector(X[0] + step, X[1])).numpy()
        assert np.allclose(again.numpy()[0], (moved.sum() - plain.numpy().sum()) / step, rtol=1e-3)


STRATEGIES: list[dict[str, Any]] = [
    {},
    {"vectorize": True},
    {"vectorize": True, "strategy": "forward-mode"},
]


@pytest.mark.parametrize("options", STRATEGIES)
def test_jacobian_of_several_inputs_and_outputs(options: dict[str, Any]) -> None:
    def f(x: ad.Tensor, y: ad.Tensor) -> Any:
        return x * y.sum(), y.sin()

    found = functional.jacobian(f, (vector(1.0, 2.0), vector(3.0)), **options)
    assert [[tuple(b.shape) for b in row] for row in found] == [[(2, 2), (2, 1)], [(1, 2), (1, 1)]]
    assert np.allclose(found[0][0].numpy(), 3 * np.eye(2))
    assert np.allclose(found[0][1].numpy(), [[1.0], [2.0]])
    assert np.allclose(found[1][0].numpy(), 0.0)
    assert np.allclose(found[1][1].numpy(), np.cos(3.0))


# What strict=True refuses

CASES: dict[str, tuple[Callable[..., Any], tuple[str, ...]]] = {
    # a function of x and y, and the derivatives that strict=True refuses
    "unused input": (lambda x, y: x.exp(), ("vjp", "jvp", "jacobian")),
    "constant output": (lambda x, y: (x * y).detach(), ("vjp", "jvp", "jacobian")),
    "one of two outputs": (lambda x, y: (x * y, x.detach()), ("vjp", "jvp", "jacobian")),
    "all used": (lambda x, y: x * y.exp(), ()),
    "scalar, unused": (lambda x, y: (x**2).sum(), ("hessian", "hvp", "vhp")),
    "scalar, linear": (lambda x, y: (x * 2 + y).sum(), ("hessian", "hvp", "vhp")),
    "scalar, apart": (lambda x, y: (x**2).sum() + (y**3).sum(), ("hessian",)),
    "scalar, all used": (lambda x, y: (x**2 * y**2).sum(), ()),
    "scalar, bilinear": (lambda x, y: (x * y).sum(), ("hessian",)),
}


_OF_SCALARS = ("hessian", "hvp", "vhp")
_CALLS = [
    (case, name)
    for case in CASES
    for name in (_OF_SCALARS if case.startswith("scalar") else ("vjp", "jvp", "jacobian"))
]


@pytest.mark.parametrize(("case", "name"), _CALLS)
def test_strict_refuses_what_does_not_depend(case: str, name: str) -> None:
    f, refused = CASES[case]
    x, y, v = vector(0.5, 1.5), vector(2.0, 3.0), vector(1.0, 1.0)
    weights: dict[str, Any] = {
        "vjp": (v, v) if case == "one of two outputs" else v,
        "jvp": (v, v),
        "hvp": (v, v),
        "vhp": (v, v),
    }
    args = (f, (x, y), weights[name]) if name in weights else (f, (x, y))
    getattr(functional, name)(*args)
    if name in refused:
        with pytest.raises(RuntimeError, match="strict"):
            getattr(functional, name)(*args, strict=True)
    else:
        getattr(functional, name)(*args, strict=True)


@pytest.mark.parametrize("name", ["vjp", "jvp", "jacobian"])
def test_strict_refuses_a_graph_of_a_constant_derivative(name: str) -> None:
    call(name, lambda x: x * 3, vector(*X), strict=True)
    with pytest.raises(RuntimeError, match="independent"):
        call(name, lambda x: x * 3, vector(*X), strict=True, create_graph=True)


@pytest.mark.parametrize("name", ["hessian", "hvp", "vhp"])
def test_strict_refuses_a_graph_of_a_constant_hessian(name: str) -> None:
    call(name, lambda x: (x * x).sum(), vector(*X), strict=True)
    call(name, lambda x: (x**3).sum(), vector(*X), strict=True, create_graph=True)


@pytest.mark.parametrize("name", ["hvp", "vhp"])
def test_the_value_keeps_its_shape(name: str) -> None:
    value, _ = getattr(functional, name)(lambda x: (x * x).sum().view(1, 1), vector(*X), vector(*V))
    assert tuple(value.shape) == (1, 1)


BAD: dict[str, tuple[Callable[[], Any], type[Exception]]] = {
    "an input that is no tensor": (lambda: functional.jacobian(ad.exp, 3.0), TypeError),
    "an output that is no tensor": (lambda: functional.vjp(lambda x: 3, vector(*X)), TypeError),
    "v left out": (lambda: functional.vjp(ad.exp, vector(*X)), RuntimeError),
    "v of another shape": (lambda: functional.jvp(ad.exp, vector(*X), vector(1.0)), RuntimeError),
    "a strategy": (
        lambda: functional.jacobian(ad.exp, vector(*X), strategy="sideways"),
        TypeError,
    ),
    "a Hessian of a vector": (lambda: functional.hessian(ad.exp, vector(*X)), RuntimeError),
    "strict and vectorize": (
        lambda: functional.jacobian(ad.exp, vector(*X), strict=True, vectorize=True),
        TypeError,
    ),
}


@pytest.mark.parametrize("case", BAD)
def test_bad_calls_are_told(case: str) -> None:
    run, kind = BAD[case]
    with pytest.raises(kind):
        run()
