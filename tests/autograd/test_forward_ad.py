"""Forward mode with dual tensors: `ad.autograd.forward_ad`."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import adjoint as ad
from tests.values import close

fwd = ad.autograd.forward_ad


def real(*values: float, requires_grad: bool = False) -> ad.Tensor:
    return ad.tensor(list(values), dtype=ad.float64, requires_grad=requires_grad)


def test_dual_tensors_carry_tangents() -> None:
    with fwd.dual_level():
        x = fwd.make_dual(real(2.0, 3.0), real(1.0, 10.0))
        y = x * x * 2
        primal, tangent = fwd.unpack_dual(y)
        assert close(primal, [8.0, 18.0])
        assert close(tangent, [8.0, 120.0])


def test_tensor_without_tangent() -> None:
    with fwd.dual_level():
        unpacked = fwd.unpack_dual(real(1.0) * 2)
        assert unpacked.tangent is None
        assert close(unpacked.primal, [2.0])


def test_make_dual_outside_a_level_is_refused() -> None:
    with pytest.raises(RuntimeError):
        fwd.make_dual(real(1.0), real(1.0))


def test_tangents_end_with_the_level() -> None:
    with fwd.dual_level():
        x = fwd.make_dual(real(2.0), real(1.0))
        y = x * x
        assert fwd.unpack_dual(y).tangent is not None
    assert close(y, [4.0])
    with fwd.dual_level():
        assert fwd.unpack_dual(y).tangent is None


def test_tangent_must_fit() -> None:
    with fwd.dual_level():
        with pytest.raises(RuntimeError):
            fwd.make_dual(real(1.0, 2.0), real(1.0))
        with pytest.raises((RuntimeError, ValueError)):
            fwd.make_dual(ad.tensor([1]), ad.tensor([1]))


def test_detach_drops_the_tangent_of_a_clone_keeps_it() -> None:
    with fwd.dual_level():
        x = fwd.make_dual(real(2.0), real(1.0))
        assert fwd.unpack_dual(x.detach()).tangent is None
        assert close(fwd.unpack_dual(x.clone()).tangent, [1.0])


def test_views_carry_tangents() -> None:
    with fwd.dual_level():
        x = fwd.make_dual(ad.ones((2, 3)), ad.arange(6.0).view(2, 3))
        assert close(fwd.unpack_dual(x[1]).tangent, [3.0, 4.0, 5.0])
        assert close(fwd.unpack_dual(x.t()[0]).tangent, [0.0, 3.0])


def test_in_place_updates_the_tangent() -> None:
    with fwd.dual_level():
        x = fwd.make_dual(real(2.0), real(1.0))
        y = x * 1
        y.mul_(3)
        assert close(fwd.unpack_dual(y).tangent, [3.0])
        y.mul_(x)
        assert close(fwd.unpack_dual(y).tangent, [12.0])


def test_write_into_a_plain_tensor_gives_it_a_tangent() -> None:
    with fwd.dual_level():
        x = fwd.make_dual(real(2.0), real(1.0))
        y = ad.zeros(3, dtype=ad.float64)
        y[1:2].copy_(x * x)
        assert close(fwd.unpack_dual(y).primal, [0.0, 4.0, 0.0])
        assert close(fwd.unpack_dual(y).tangent, [0.0, 4.0, 0.0])


def test_only_one_operand_has_a_tangent() -> None:
    with fwd.dual_level():
        x = fwd.make_dual(real(2.0), real(1.0))
        c = real(5.0)
        assert close(fwd.unpack_dual(c * x).tangent, [5.0])
        assert close(fwd.unpack_dual(c - x).tangent, [-1.0])
        assert close(fwd.unpack_dual(ad.cat([c, x])).tangent, [0.0, 1.0])


def test_broadcast_of_tangents() -> None:
    with fwd.dual_level():
        x = fwd.make_dual(real(2.0), real(1.0))
        y = x * ad.ones((2, 3), dtype=ad.float64)
        tangent = fwd.unpack_dual(y).tangent
        assert tangent is not None
        assert tangent.shape == (2, 3)


def test_forward_over_reverse() -> None:
    x = real(0.7, requires_grad=True)
    with fwd.dual_level():
        dual = fwd.make_dual(x, real(1.0))
        (g,) = ad.autograd.grad(dual.sin().sum(), dual, create_graph=True)
        primal, tangent = fwd.unpack_dual(g)
        assert close(primal, np.cos([0.7]))
        assert close(tangent, -np.sin([0.7]))


def test_reverse_over_forward() -> None:
    x = real(0.7, requires_grad=True)
    v = real(2.0, requires_grad=True)
    with fwd.dual_level():
        tangent = fwd.unpack_dual(fwd.make_dual(x, v).sin()).tangent
        assert tangent is not None
        gx, gv = ad.autograd.grad(tangent.sum(), [x, v])
    assert close(gx, -np.sin([0.7]) * 2)
    assert close(gv, np.cos([0.7]))


def test_forward_mode_works_under_no_grad() -> None:
    with ad.no_grad(), fwd.dual_level():
        y = fwd.make_dual(real(2.0), real(1.0)) ** 2
        assert close(fwd.unpack_dual(y).tangent, [4.0])


def test_forward_mode_of_complex_functions() -> None:
    z = ad.tensor([1 + 2j], dtype=ad.complex128)
    t = ad.tensor([1 - 1j], dtype=ad.complex128)
    with fwd.dual_level():
        y = fwd.make_dual(z, t) ** 2
        assert close(fwd.unpack_dual(y).tangent, [2 * (1 + 2j) * (1 - 1j)])
        a = fwd.make_dual(z, t).abs()
        tangent = fwd.unpack_dual(a).tangent
        assert tangent is not None
        assert tangent.dtype == ad.float64
        assert close(tangent, [np.real(np.conj(1 + 2j) * (1 - 1j)) / abs(1 + 2j)])


def test_integer_results_have_no_tangent() -> None:
    with fwd.dual_level():
        x = fwd.make_dual(real(2.0, 1.0), real(1.0, 1.0))
        values, indices = x.max(0)
        assert fwd.unpack_dual(values).tangent is not None
        assert fwd.unpack_dual(indices).tangent is None
        assert fwd.unpack_dual(x > 1).tangent is None


def test_second_order_by_nested_functions() -> None:
    def derivative(x: ad.Tensor) -> ad.Tensor:
        (g,) = ad.autograd.grad((x**3).sum(), x, create_graph=True)
        return g

    x = real(2.0, requires_grad=True)
    with fwd.dual_level():
        dual = fwd.make_dual(x, real(1.0))
        assert close(fwd.unpack_dual(derivative(dual)).tangent, [12.0])


SQUARE = ad.ShapeDtype((3, 3))
INDEX = ad.tensor([[0, 1, 2], [2, 0, 1], [1, 1, 0]])
SEVERAL: dict[str, Callable[..., Any]] = {
    "mul": ad.mul,
    "add": lambda a, b: ad.add(a, b, alpha=2),
    "sub": ad.sub,
    "div": ad.div,
    "lerp": lambda a, b: ad.lerp(a, b, 0.3),
    "lerp of a weight": lambda a, b, c: ad.lerp(a, b, c),
    "where": lambda a, b: ad.where(a > b, a, b),
    "maximum": ad.maximum,
    "clamp": lambda a, b, c: ad.clamp(a, b, c),
    "addcmul": lambda a, b, c: ad.addcmul(a, b, c, value=2),
    "addcdiv": lambda a, b, c: ad.addcdiv(a, b, c, value=2),
    "atan2": ad.atan2,
    "matmul": ad.matmul,
    "einsum": lambda a, b, c: ad.einsum("ij,jk,kl->il", a, b, c),
    "addmm": lambda a, b, c: ad.addmm(a, b, c, beta=2, alpha=3),
    "baddbmm": lambda a, b, c: ad.baddbmm(a[None], b[None], c[None], beta=2),
    "addr": lambda a, b, c: ad.addr(a, b[0], c[0], alpha=3),
    "linear": ad.nn.functional.linear,
    "solve": ad.linalg.solve,
    "solve_triangular": lambda a, b: ad.linalg.solve_triangular(a, b, upper=True),
    "layer_norm": lambda a, b, c: ad.nn.functional.layer_norm(a, (3,), b[0], c[0]),
    "_quotient": ad.ops._quotient,
    "_linear_recurrence": lambda a, b: ad.ops._linear_recurrence(a, b, 0, False),
}


@pytest.mark.parametrize("name", SEVERAL)
def test_absent_tangents_drop_their_term(name: str) -> None:
    """Neither zeros nor a product with them is traced where one argument has a tangent."""
    function = SEVERAL[name]
    count = function.__code__.co_argcount if hasattr(function, "__code__") else 2
    count = 3 if name == "linear" else count

    for place in range(count):

        def pushed(tangent: Any, *primals: Any, place: int = place) -> Any:
            def partial(one: Any) -> Any:
                return function(*primals[:place], one, *primals[place + 1 :])

            return ad.jvp(partial, (primals[place],), (tangent,))[1]

        graph = ad.trace(pushed, SQUARE, *[SQUARE] * count)
        made = [n.op.name for n in graph.nodes if "zeros" in n.op.name]
        assert made == [], f"argument {place}:\n{graph}"


def test_a_source_without_tangent_is_not_added() -> None:
    for function in (
        lambda x, y: x.scatter_add(0, INDEX, y),
        lambda x, y: x.index_add(0, INDEX[0], y),
    ):
        graph = ad.trace(
            lambda x, y, t, function=function: ad.jvp(lambda x: function(x, y), (x,), (t,))[1],
            SQUARE, SQUARE, SQUARE,
        )  # fmt: skip
        assert list(graph.nodes) == []


DRAWS: dict[str, Any] = {
    "bernoulli": ad.bernoulli,
    "poisson": ad.poisson,
    **{
        name: lambda x, name=name: getattr(x.clone(), name)(*([0.5] if "geo" in name else []))
        for name in ("exponential_", "uniform_", "cauchy_", "geometric_", "log_normal_", "normal_")
    },
}


@pytest.mark.parametrize("name", DRAWS)
def test_a_draw_that_does_not_move_has_a_tangent_of_zeros(name: str) -> None:
    forward = ad.autograd.forward_ad
    with forward.dual_level():
        dual = forward.make_dual(ad.full((3,), 0.5), ad.ones(3))
        assert forward.unpack_dual(DRAWS[name](dual)).tangent.tolist() == [0.0] * 3
