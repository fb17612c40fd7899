"""`gradcheck` and `gradgradcheck` find what is wrong and say so."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

import adjoint as ad

gradcheck = ad.autograd.gradcheck
gradgradcheck = ad.autograd.gradgradcheck
Function = ad.autograd.Function


def real(*values: float) -> ad.Tensor:
    return ad.tensor(list(values), dtype=ad.float64, requires_grad=True)


def complex_(*values: complex) -> ad.Tensor:
    return ad.tensor(list(values), dtype=ad.complex128, requires_grad=True)


def wrong(backward: Callable[[Any, ad.Tensor, ad.Tensor], Any]) -> Callable[..., Any]:
    """x² with a derivative of one's own: backward(ctx, grad, x)."""

    class Square(Function):
        @staticmethod
        def forward(ctx: Any, x: ad.Tensor) -> ad.Tensor:
            ctx.save_for_backward(x)
            return x * x

        @staticmethod
        def backward(ctx: Any, grad: ad.Tensor) -> Any:
            return backward(ctx, grad, ctx.saved_tensors[0])

    return Square.apply


def message_of(function: Callable[..., Any], inputs: Any, **options: Any) -> str:
    with pytest.raises(RuntimeError) as caught:
        gradcheck(function, inputs, **options)
    assert not gradcheck(function, inputs, raise_exception=False, **options)
    return str(caught.value)


@pytest.mark.parametrize("fast_mode", [False, True])
def test_right_derivatives_pass(fast_mode: bool) -> None:
    x, y, z = real(0.5, -2.0), real(3.0), complex_(1 + 2j, 0.5 - 1j)
    cases: list[tuple[Callable[..., Any], Any]] = [
        (lambda x: x.sin() * x, x),
        (lambda x, y: (x * y, y.exp(), x.sum()), (x, y)),
        (lambda z: z * z, z),
        (lambda z: z.abs(), z),
        (lambda x, z: x[0] * z.conj(), (x, z)),
        (lambda tensors: tensors[0] * tensors[1], ([x, y],)),
        (lambda x, n: x**n, (x, 3)),
    ]
    for function, inputs in cases:
        assert gradcheck(function, inputs, check_forward_ad=True, fast_mode=fast_mode)
        assert gradgradcheck(function, inputs, check_fwd_over_rev=True, fast_mode=fast_mode)


@pytest.mark.parametrize("fast_mode", [False, True])
def test_wrong_factor_is_found(fast_mode: bool) -> None:
    square = wrong(lambda ctx, grad, x: grad * x * 2.02)
    text = message_of(square, real(1.0, 5.0), fast_mode=fast_mode)
    assert "output 0" in text
    assert "input 0" in text
    assert "output[1]" in text
    assert "10.1" in text


@pytest.mark.parametrize(
    ("backward", "hint"),
    [
        (lambda ctx, grad, x: grad * -2 * x, "opposite sign"),
        (lambda ctx, grad, x: grad * x, "0.5 times"),
        (lambda ctx, grad, x: grad * 0, "zero everywhere"),
        (lambda ctx, grad, x: grad * float("nan"), "not finite"),
    ],
)
def test_hints(backward: Any, hint: str) -> None:
    assert hint in message_of(wrong(backward), real(1.0, 5.0))


def test_missing_conjugate_is_recognised() -> None:
    assert "conjugate" in message_of(wrong(lambda ctx, grad, x: grad * 2 * x), complex_(1 + 2j))
    assert gradcheck(wrong(lambda ctx, grad, x: grad * 2 * x.conj()), complex_(1 + 2j))


def test_wrong_input_is_named() -> None:
    class Product(Function):
        @staticmethod
        def forward(ctx: Any, x: ad.Tensor, y: ad.Tensor) -> ad.Tensor:
            ctx.save_for_backward(x, y)
            return x * y

        @staticmethod
        def backward(ctx: Any, grad: ad.Tensor) -> Any:
            x, y = ctx.saved_tensors
            return grad * y, grad * x * 3

    assert "input 1" in message_of(Product.apply, (real(2.0), real(5.0)))


def test_detached_output_is_found() -> None:
    assert "does not require grad" in message_of(lambda x: x.detach() * 2, real(1.0))


def test_wrong_second_derivative_is_found() -> None:
    square = wrong(lambda ctx, grad, x: grad * 2 * x.detach())
    assert gradcheck(square, real(1.0))
    with pytest.raises(RuntimeError):
        gradgradcheck(square, real(1.0))


def test_wrong_shape_or_dtype_of_gradient_is_found() -> None:
    text = message_of(wrong(lambda ctx, grad, x: grad * 2 * x * (1 + 1e-3)), real(3.0), rtol=1e-5)
    assert "largest difference" in text.lower()


def test_non_determinism_is_found() -> None:
    state = iter(range(1000))
    noisy = wrong(lambda ctx, grad, x: grad * 2 * x + 1e-9 * next(state))
    assert "reproducible" in message_of(noisy, real(1.0))
    assert gradcheck(noisy, real(1.0), nondet_tol=1e-3)


def test_absent_gradients_are_checked() -> None:
    class Two(Function):
        @staticmethod
        def forward(ctx: Any, x: ad.Tensor) -> Any:
            ctx.set_materialize_grads(False)
            return x * 2, x * 3

        @staticmethod
        def backward(ctx: Any, a: Any, b: Any) -> Any:
            return (0 if a is None else a * 2) + (1 if b is None else b * 3)

    with pytest.raises(RuntimeError, match="output"):
        gradcheck(Two.apply, real(1.0, 2.0))


def test_float32_is_warned_of() -> None:
    x = ad.tensor([1.0], dtype=ad.float32, requires_grad=True)
    with pytest.warns(UserWarning, match="float32"):
        gradcheck(lambda x: x * 2, x, atol=1.0)
    assert gradcheck(lambda x: x * x, x, eps=1e-2, atol=1e-2, rtol=1e-2)


def test_expanded_inputs_are_refused() -> None:
    x = ad.ones(1, dtype=ad.float64).expand(3).requires_grad_()
    with pytest.raises(RuntimeError, match="expand|overlap"):
        gradcheck(lambda x: x * 2, x)


def test_nothing_to_check_is_an_error() -> None:
    with pytest.raises(ValueError):
        gradcheck(lambda x: x, ad.ones(1))
    with pytest.raises((ValueError, AssertionError)):
        gradcheck(lambda x: x, real(1.0), check_backward_ad=False)


def test_forward_mode_alone() -> None:
    assert gradcheck(lambda x: x.exp(), real(1.0), check_forward_ad=True, check_backward_ad=False)


def test_given_grad_outputs() -> None:
    x, v = real(1.0, 2.0), real(3.0, 4.0)
    assert gradgradcheck(lambda x: x**3, x, v)
    assert gradgradcheck(lambda x: x**3, x, gen_non_contig_grad_outputs=True)


def test_empty_and_scalar_inputs() -> None:
    assert gradcheck(lambda x: x * 2, ad.ones((0, 3), dtype=ad.float64, requires_grad=True))
    assert gradcheck(lambda x: x * 2, ad.tensor(1.0, dtype=ad.float64, requires_grad=True))


def test_non_contiguous_inputs() -> None:
    x = ad.arange(6.0, dtype=ad.float64).view(2, 3).t().requires_grad_()
    assert gradcheck(lambda x: x.sin(), x)


def test_inputs_may_be_a_list() -> None:
    x, y = real(1.0, 2.0), real(3.0, 4.0)
    assert gradcheck(lambda x, y: x * y, [x, y])
    assert gradgradcheck(lambda x, y: x * y, [x, y], [real(1.0, 1.0)])


@pytest.mark.parametrize("fast_mode", [False, True])
def test_outputs_keep_their_shape_and_dtype(fast_mode: bool) -> None:
    x = real(1.0)
    with pytest.raises(AssertionError):
        gradcheck(lambda x: ad.cat([x, x]) if x >= 1 else x, x, fast_mode=fast_mode)
    with pytest.raises(AssertionError):
        gradcheck(lambda x: x.float() if x >= 1 else x, x, fast_mode=fast_mode)


def test_non_determinism_is_found_in_fast_mode() -> None:
    state = iter(range(1000))
    noisy = wrong(lambda ctx, grad, x: grad * 2 * x * (1 + 1e-9 * next(state)))
    assert "reproducible" in message_of(noisy, real(1.0), fast_mode=True)


def test_a_hook_that_needs_a_gradient_is_found() -> None:
    def function(x: ad.Tensor) -> ad.Tensor:
        y = x.clone()
        y.register_hook(lambda g: g * 1)
        return y

    with (
        pytest.warns(UserWarning, match="check_undefined_grad"),
        pytest.raises(RuntimeError),
    ):
        gradcheck(function, real(1.0))
    assert gradcheck(function, real(1.0), check_undefined_grad=False)


def test_nothing_returned_is_right() -> None:
    assert gradcheck(lambda x: (), real(1.0))


def test_forward_mode_sees_a_tangent_of_every_input_and_no_tape() -> None:
    seen: list[tuple[bool, bool]] = []

    def function(x: ad.Tensor, y: ad.Tensor) -> ad.Tensor:
        tangents = [ad.autograd.forward_ad.unpack_dual(t).tangent for t in (x, y)]
        if tangents[0] is not None:
            seen.append((tangents[1] is not None, x.requires_grad))
        return x * y

    gradcheck(function, (real(1.0), real(2.0)), check_forward_ad=True)
    assert set(seen) == {(True, False)}


def test_batched_gradcheck_of_a_function_that_retains_gradients() -> None:
    def cube(x: ad.Tensor) -> ad.Tensor:
        square = x * x
        square.retain_grad()
        return square * x

    x = ad.tensor([1.0, 2.0], dtype=ad.float64, requires_grad=True)
    assert ad.autograd.gradcheck(cube, (x,), check_batched_grad=True)


@pytest.mark.parametrize("layout", ["coo", "csr", "csc"])
def test_gradcheck_of_a_sparse_matrix_is_that_of_its_values(layout: str) -> None:
    dense = ad.tensor([[0.0, 2.0], [3.0, 0.0]], dtype=ad.float64)
    sparse = getattr(dense, f"to_sparse_{layout}" if layout != "coo" else "to_sparse")()
    vector = ad.tensor([1.0, 2.0], dtype=ad.float64, requires_grad=True)
    given = (sparse.requires_grad_(), vector)
    assert ad.autograd.gradcheck(lambda s, v: s @ v, given, check_batched_grad=True)
    assert ad.autograd.gradcheck(lambda s, v: s * 2, given)  # a sparse result

    class Wrong(ad.autograd.Function):
        @staticmethod
        def forward(ctx: Any, x: Any) -> Any:
            return x * 2

        @staticmethod
        def backward(ctx: Any, grad: Any) -> Any:
            return grad * 3

    with pytest.raises(ad.autograd.GradcheckError, match="disagrees"):
        ad.autograd.gradcheck(lambda s, v: Wrong.apply(s @ v), given)


def test_the_fast_check_leaves_a_domain_by_no_more_than_eps() -> None:
    """A step along a random direction has the length of a step of one entry."""
    base = ad.zeros(200, dtype=ad.float64)
    lengths = []

    def f(x: ad.Tensor) -> ad.Tensor:
        lengths.append(float((x - base).detach().norm()))
        return x.square().sum()

    assert ad.autograd.gradcheck(f, (base.requires_grad_(),), fast_mode=True)
    assert 0 < max(lengths) < 1.001e-6
