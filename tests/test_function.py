"""`ad.autograd.Function`: operators of a user's own, written in Python."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import adjoint as ad

Function = ad.autograd.Function


def leaf(*values: float) -> ad.Tensor:
    return ad.tensor(list(values), dtype=ad.float64, requires_grad=True)


def close(tensor: ad.Tensor | None, expected: object) -> bool:
    assert tensor is not None
    return bool(np.allclose(tensor.detach().numpy(), np.asarray(expected)))


class Cube(Function):
    """With everything in `forward`."""

    @staticmethod
    def forward(ctx: Any, x: ad.Tensor) -> ad.Tensor:
        ctx.save_for_backward(x)
        return x * x * x

    @staticmethod
    def backward(ctx: Any, grad: ad.Tensor) -> ad.Tensor:
        (x,) = ctx.saved_tensors
        return grad * 3 * x * x

    @staticmethod
    def jvp(ctx: Any, x_t: ad.Tensor) -> ad.Tensor:
        return x_t * 3 * ctx.x * ctx.x


class Scale(Function):
    """With `setup_context`, a number and an argument that is not a tensor."""

    @staticmethod
    def forward(x: ad.Tensor, factor: float, word: str) -> ad.Tensor:
        assert isinstance(word, str)
        return x * factor

    @staticmethod
    def setup_context(ctx: Any, inputs: Any, output: Any) -> None:
        x, factor, _ = inputs
        ctx.factor = factor
        ctx.save_for_backward(x, output)

    @staticmethod
    def backward(ctx: Any, grad: ad.Tensor) -> Any:
        return grad * ctx.factor, None, None


def test_function_runs_forward_and_backward() -> None:
    x = leaf(2.0, 3.0)
    y = Cube.apply(x)
    assert close(y, [8.0, 27.0])
    assert not y.is_leaf
    y.sum().backward()
    assert close(x.grad, [12.0, 27.0])


def test_function_is_differentiable_twice_through_saved_tensors() -> None:
    x = leaf(2.0)
    (g,) = ad.autograd.grad(Cube.apply(x).sum(), x, create_graph=True)
    assert close(ad.autograd.grad(g.sum(), x)[0], [12.0])


def test_function_with_setup_context() -> None:
    x = leaf(2.0)
    y = Scale.apply(x, 5.0, "word")
    y.sum().backward()
    assert close(x.grad, [5.0])


def test_forward_does_not_record() -> None:
    seen: list[bool] = []

    class Probe(Function):
        @staticmethod
        def forward(ctx: Any, x: ad.Tensor) -> ad.Tensor:
            seen.extend([ad.is_grad_enabled(), (x * 2).requires_grad])
            return x * 2

        @staticmethod
        def backward(ctx: Any, grad: ad.Tensor) -> ad.Tensor:
            seen.append(ad.is_grad_enabled())
            return grad * 2

    x = leaf(1.0)
    Probe.apply(x).sum().backward()
    assert seen == [False, False, False]
    y = Probe.apply(x)
    ad.autograd.grad(y.sum(), x, create_graph=True)
    assert seen[-1] is True


def test_output_requires_grad_only_if_an_input_does() -> None:
    assert not Cube.apply(ad.tensor([2.0])).requires_grad
    with ad.no_grad():
        assert not Cube.apply(leaf(2.0)).requires_grad


def test_needs_input_grad() -> None:
    seen: list[Any] = []

    class Product(Function):
        @staticmethod
        def forward(ctx: Any, x: ad.Tensor, y: ad.Tensor, n: int) -> ad.Tensor:
            ctx.save_for_backward(x, y)
            return x * y

        @staticmethod
        def backward(ctx: Any, grad: ad.Tensor) -> Any:
            seen.append(ctx.needs_input_grad)
            x, y = ctx.saved_tensors
            return (grad * y if ctx.needs_input_grad[0] else None), grad * x, None

    x, y = leaf(2.0), ad.tensor([3.0], dtype=ad.float64)
    Product.apply(x, y, 4).sum().backward()
    assert tuple(seen[0]) == (True, False, False)
    assert close(x.grad, [3.0])


def test_several_outputs_and_absent_gradients() -> None:
    seen: list[Any] = []

    class Two(Function):
        @staticmethod
        def forward(ctx: Any, x: ad.Tensor) -> Any:
            return x * 2, x * 3

        @staticmethod
        def backward(ctx: Any, a: ad.Tensor, b: ad.Tensor) -> ad.Tensor:
            seen.append((a, b))
            return a * 2 + b * 3

    x = leaf(1.0)
    first, second = Two.apply(x)
    first.sum().backward(retain_graph=True)
    assert close(seen[0][1], [0.0])
    assert close(x.grad, [2.0])
    x.grad = None
    (first + second).sum().backward()
    assert close(x.grad, [5.0])


def test_materialize_grads_can_be_switched_off() -> None:
    seen: list[Any] = []

    class Two(Function):
        @staticmethod
        def forward(ctx: Any, x: ad.Tensor) -> Any:
            ctx.set_materialize_grads(False)
            return x * 2, x * 3

        @staticmethod
        def backward(ctx: Any, a: Any, b: Any) -> Any:
            seen.append((a, b))
            return a * 2

    x = leaf(1.0)
    Two.apply(x)[0].sum().backward()
    assert seen[0][1] is None


def test_mark_non_differentiable() -> None:
    class Largest(Function):
        @staticmethod
        def forward(ctx: Any, x: ad.Tensor) -> Any:
            value, place = x.max(0)
            extra = x * 1
            ctx.mark_non_differentiable(place, extra)
            ctx.save_for_backward(place)
            return value, place, extra

        @staticmethod
        def backward(ctx: Any, grad: ad.Tensor, *_: Any) -> ad.Tensor:
            (place,) = ctx.saved_tensors
            return ad.zeros(3, dtype=ad.float64).scatter(0, place.view(1), grad.view(1))

    x = leaf(3.0, 1.0, 2.0)
    value, place, extra = Largest.apply(x)
    assert value.requires_grad
    assert not place.requires_grad
    assert not extra.requires_grad
    (value * 5).backward()
    assert close(x.grad, [5.0, 0.0, 0.0])


def test_mark_dirty() -> None:
    class Double(Function):
        @staticmethod
        def forward(ctx: Any, x: ad.Tensor) -> ad.Tensor:
            x.mul_(2)
            ctx.mark_dirty(x)
            return x

        @staticmethod
        def backward(ctx: Any, grad: ad.Tensor) -> ad.Tensor:
            return grad * 2

    x = leaf(3.0)
    y = x * 1
    z = Double.apply(y)
    assert z is y
    assert close(y, [6.0])
    y.sum().backward()
    assert close(x.grad, [2.0])


def test_mark_dirty_on_a_leaf_is_refused() -> None:
    class Double(Function):
        @staticmethod
        def forward(ctx: Any, x: ad.Tensor) -> ad.Tensor:
            x.mul_(2)
            ctx.mark_dirty(x)
            return x

        @staticmethod
        def backward(ctx: Any, grad: ad.Tensor) -> ad.Tensor:
            return grad * 2

    with pytest.raises(RuntimeError):
        Double.apply(leaf(3.0))


def test_returned_input_is_not_the_same_tensor() -> None:
    class Identity(Function):
        @staticmethod
        def forward(ctx: Any, x: ad.Tensor) -> ad.Tensor:
            return x

        @staticmethod
        def backward(ctx: Any, grad: ad.Tensor) -> ad.Tensor:
            return grad * 7

    x = leaf(1.0)
    y = Identity.apply(x)
    assert y is not x
    y.sum().backward()
    assert close(x.grad, [7.0])


def test_saved_values_are_guarded_by_versions() -> None:
    x = leaf(2.0)
    w = x * 1
    y = Cube.apply(w)
    w.add_(1)
    with pytest.raises(RuntimeError):
        y.sum().backward()


def test_saved_values_are_freed() -> None:
    x = leaf(2.0)
    y = Cube.apply(x).sum()
    y.backward()
    with pytest.raises(RuntimeError):
        y.backward()


def test_saved_output() -> None:
    class Exp(Function):
        @staticmethod
        def forward(ctx: Any, x: ad.Tensor) -> ad.Tensor:
            result = x.exp()
            ctx.save_for_backward(result)
            return result

        @staticmethod
        def backward(ctx: Any, grad: ad.Tensor) -> ad.Tensor:
            (result,) = ctx.saved_tensors
            return grad * result

    x = leaf(0.5)
    (g,) = ad.autograd.grad(Exp.apply(x).sum(), x, create_graph=True)
    (h,) = ad.autograd.grad(g.sum(), x)
    assert close(h, np.exp([0.5]))


def test_none_may_be_saved_and_passed() -> None:
    class MaybeAdd(Function):
        @staticmethod
        def forward(ctx: Any, x: ad.Tensor, y: ad.Tensor | None) -> ad.Tensor:
            ctx.save_for_backward(x, y)
            return x * 1 if y is None else x + y

        @staticmethod
        def backward(ctx: Any, grad: ad.Tensor) -> Any:
            _, y = ctx.saved_tensors
            return grad, None if y is None else grad

    x = leaf(1.0)
    MaybeAdd.apply(x, None).sum().backward()
    assert close(x.grad, [1.0])


def test_wrong_number_of_gradients_is_an_error() -> None:
    class Wrong(Function):
        @staticmethod
        def forward(ctx: Any, x: ad.Tensor, y: ad.Tensor) -> ad.Tensor:
            return x + y

        @staticmethod
        def backward(ctx: Any, grad: ad.Tensor) -> Any:
            return grad

    with pytest.raises(RuntimeError):
        Wrong.apply(leaf(1.0), leaf(2.0)).sum().backward()


def test_wrong_shape_of_a_gradient_is_an_error() -> None:
    class Wrong(Function):
        @staticmethod
        def forward(ctx: Any, x: ad.Tensor) -> ad.Tensor:
            return x * 1

        @staticmethod
        def backward(ctx: Any, grad: ad.Tensor) -> Any:
            return ad.ones(5, dtype=ad.float64)

    with pytest.raises(RuntimeError):
        Wrong.apply(leaf(1.0, 2.0)).sum().backward()


def test_once_differentiable() -> None:
    class Once(Function):
        @staticmethod
        def forward(ctx: Any, x: ad.Tensor) -> ad.Tensor:
            ctx.save_for_backward(x)
            return x * x

        @staticmethod
        @ad.autograd.function.once_differentiable
        def backward(ctx: Any, grad: ad.Tensor) -> ad.Tensor:
            (x,) = ctx.saved_tensors
            return grad * 2 * x

    x = leaf(3.0)
    Once.apply(x).sum().backward()
    assert close(x.grad, [6.0])
    (g,) = ad.autograd.grad(Once.apply(x).sum(), x, create_graph=True)
    with pytest.raises(RuntimeError):
        g.sum().backward()


def test_backward_that_is_missing() -> None:
    class OnlyForward(Function):
        @staticmethod
        def forward(ctx: Any, x: ad.Tensor) -> ad.Tensor:
            return x * 1

    y = OnlyForward.apply(leaf(1.0))
    with pytest.raises((NotImplementedError, RuntimeError)):
        y.sum().backward()


def test_function_cannot_be_called_as_an_object() -> None:
    with pytest.warns(DeprecationWarning, match="should not be instantiated"):
        made = Cube()
    with pytest.raises(RuntimeError, match="non-static forward"):
        made(leaf(1.0))


def test_error_in_backward_comes_out() -> None:
    class Fails(Function):
        @staticmethod
        def forward(ctx: Any, x: ad.Tensor) -> ad.Tensor:
            return x * 1

        @staticmethod
        def backward(ctx: Any, grad: ad.Tensor) -> Any:
            raise ZeroDivisionError("mine")

    with pytest.raises(ZeroDivisionError, match="mine"):
        Fails.apply(leaf(1.0)).sum().backward()


def test_function_with_jvp_in_forward_mode() -> None:
    class WithJvp(Function):
        @staticmethod
        def forward(ctx: Any, x: ad.Tensor) -> ad.Tensor:
            ctx.x = x
            return x * x * x

        @staticmethod
        def backward(ctx: Any, grad: ad.Tensor) -> ad.Tensor:
            return grad * 3 * ctx.x * ctx.x

        @staticmethod
        def jvp(ctx: Any, x_t: ad.Tensor) -> ad.Tensor:
            return x_t * 3 * ctx.x * ctx.x

    forward_ad = ad.autograd.forward_ad
    with forward_ad.dual_level():
        x = forward_ad.make_dual(leaf(2.0), ad.tensor([1.0], dtype=ad.float64))
        y = forward_ad.unpack_dual(WithJvp.apply(x))
    assert close(y.primal, [8.0])
    assert close(y.tangent, [12.0])


def test_functions_subclass_and_share_helpers() -> None:
    class Base(Function):
        factor = 2.0

        @classmethod
        def name_of(cls) -> str:
            return cls.__name__

        @staticmethod
        def backward(ctx: Any, grad: ad.Tensor) -> ad.Tensor:
            return grad * 2

    class Child(Base):
        @staticmethod
        def forward(ctx: Any, x: ad.Tensor) -> ad.Tensor:
            return x * 2

    x = leaf(1.0)
    y = Child.apply(x)
    assert "Child" in y.grad_fn.name()
    y.sum().backward()
    assert close(x.grad, [2.0])


def test_gradcheck_of_a_function() -> None:
    assert ad.autograd.gradcheck(Cube.apply, leaf(1.0, 2.0))
    assert ad.autograd.gradgradcheck(Cube.apply, leaf(1.0, 2.0))


def test_attributes_of_ctx_are_kept() -> None:
    class Keeps(Function):
        @staticmethod
        def forward(ctx: Any, x: ad.Tensor, shape: tuple[int, ...]) -> ad.Tensor:
            ctx.old = x.shape
            return x.reshape(shape)

        @staticmethod
        def backward(ctx: Any, grad: ad.Tensor) -> Any:
            return grad.reshape(ctx.old), None

    x = leaf(1.0, 2.0)
    Keeps.apply(x, (2, 1)).sum().backward()
    assert close(x.grad, [1.0, 1.0])
