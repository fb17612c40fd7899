"""`ad.autograd.Function`: operators of a user's own, written in Python."""

from __future__ import annotations

import gc
import weakref
from typing import Any

import numpy as np
import pytest

import adjoint as ad
from tests.values import close, leaf

Function = ad.autograd.Function


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


class Exp(Function):
    """Saves its output."""

    @staticmethod
    def forward(ctx: Any, x: ad.Tensor) -> ad.Tensor:
        result = x.exp()
        ctx.save_for_backward(result)
        return result

    @staticmethod
    def backward(ctx: Any, grad: ad.Tensor) -> ad.Tensor:
        (result,) = ctx.saved_tensors
        return grad * result


class Double(Function):
    """Writes to its input."""

    @staticmethod
    def forward(ctx: Any, x: ad.Tensor) -> ad.Tensor:
        x.mul_(2)
        ctx.mark_dirty(x)
        return x

    @staticmethod
    def backward(ctx: Any, grad: ad.Tensor) -> ad.Tensor:
        return grad * 2


class Times(Function):
    """Of two tensors, with `setup_context`."""

    @staticmethod
    def forward(x: ad.Tensor, y: ad.Tensor) -> ad.Tensor:
        return x * y

    @staticmethod
    def setup_context(ctx: Any, inputs: Any, output: Any) -> None:
        ctx.save_for_backward(*inputs)

    @staticmethod
    def backward(ctx: Any, grad: ad.Tensor) -> Any:
        x, y = ctx.saved_tensors
        return grad * y, grad * x


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
    x = leaf(3.0)
    y = x * 1
    z = Double.apply(y)
    assert z is y
    assert close(y, [6.0])
    y.sum().backward()
    assert close(x.grad, [2.0])


def test_mark_dirty_on_a_leaf_is_refused() -> None:
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


# What forward returns


class Several(Function):
    """Tensors among other things; each has its place in backward."""

    seen: list[Any] = []  # noqa: RUF012

    @staticmethod
    def forward(ctx: Any, x: ad.Tensor, scale: float, y: ad.Tensor) -> Any:
        ctx.scale = scale
        ctx.save_for_backward(x, y)
        return scale, x * y * scale, None, "word", x + y

    @staticmethod
    def backward(ctx: Any, *grads: Any) -> Any:
        Several.seen.append(grads)
        x, y = ctx.saved_tensors
        product, total = grads[1], grads[4]
        return product * y * ctx.scale + total, None, product * x * ctx.scale + total


def test_outputs_that_are_not_tensors_have_their_place_in_backward() -> None:
    x, y = leaf(2.0), leaf(3.0)
    Several.seen.clear()
    scale, product, none, word, total = Several.apply(x, 5.0, y)
    assert (scale, none, word) == (5.0, None, "word")
    (product * 2 + total).sum().backward()
    assert [g is None for g in Several.seen[0]] == [True, False, True, True, False]
    assert close(x.grad, [31.0])
    assert close(y.grad, [21.0])


def test_a_tensor_returned_twice_is_one_tensor() -> None:
    class Twice(Function):
        @staticmethod
        def forward(ctx: Any, x: ad.Tensor) -> Any:
            result = x * 2
            return result, result

        @staticmethod
        def backward(ctx: Any, a: ad.Tensor, b: ad.Tensor) -> ad.Tensor:
            return a * 2 + b * 2

    x = leaf(1.0)
    a, b = Twice.apply(x)
    assert a is b
    (a + b).sum().backward()
    assert close(x.grad, [4.0])


class View(Function):
    """Returns a view of its input."""

    @staticmethod
    def forward(ctx: Any, x: ad.Tensor) -> ad.Tensor:
        return x[:1]

    @staticmethod
    def backward(ctx: Any, grad: ad.Tensor) -> ad.Tensor:
        return ad.cat([grad * 10, grad * 0])


@pytest.mark.parametrize("again", [False, True])
def test_a_view_from_a_function_cannot_be_written_to(again: bool) -> None:
    x = leaf(1.0, 2.0)
    base = x * 1
    view = View.apply(base)
    view.sum().backward(retain_graph=True)
    assert close(x.grad, [10.0, 0.0])
    with pytest.raises(RuntimeError, match="View"):
        (view.view(1, 1) if again else view).mul_(2)
    base.mul_(2)  # which writes to the memory of the view
    with pytest.raises(RuntimeError, match="View"):
        view.sum().backward()


def test_a_view_of_a_tensor_made_inside_cannot_be_written_to() -> None:
    class Inside(Function):
        @staticmethod
        def forward(ctx: Any, x: ad.Tensor) -> ad.Tensor:
            made = x.clone()[:1]
            made += 1
            return made

        @staticmethod
        def backward(ctx: Any, grad: ad.Tensor) -> ad.Tensor:
            return ad.cat([grad, grad * 0])

    y = Inside.apply(leaf(1.0, 2.0))
    assert type(y.grad_fn).__name__ == "InsideBackward"
    with pytest.raises(RuntimeError, match="Inside"):
        y.mul_(2)


def test_a_saved_output_that_is_written_to_is_noticed() -> None:
    for write in (lambda y: y.mul_(2), lambda y: y.detach().mul_(2), lambda y: y[:1].mul_(2)):
        y = Exp.apply(leaf(1.0, 2.0))
        write(y)
        with pytest.raises(RuntimeError, match="changed in place"):
            y.sum().backward()


# Dirty inputs


def dirty(forward: Any) -> Any:
    class Dirty(Function):
        @staticmethod
        def backward(ctx: Any, *grads: Any) -> Any:
            return grads[0] * 2

    Dirty.forward = staticmethod(forward)  # type: ignore[method-assign]
    return Dirty


def test_dirty_inputs_must_be_returned_and_be_inputs() -> None:
    def forgets(ctx: Any, x: ad.Tensor) -> ad.Tensor:
        x.mul_(2)
        ctx.mark_dirty(x)
        return x * 1

    with pytest.raises(RuntimeError, match="not returned"):
        dirty(forgets).apply(leaf(1.0) * 1)

    def wrong(ctx: Any, x: ad.Tensor) -> ad.Tensor:
        made = x * 2
        ctx.mark_dirty(made)
        return made

    x = leaf(1.0)
    with pytest.warns(UserWarning, match="not an input"):
        y = dirty(wrong).apply(x)
    y.sum().backward()
    assert close(x.grad, [2.0])


def test_a_dirty_view_must_be_the_only_output() -> None:
    def two(ctx: Any, x: ad.Tensor) -> Any:
        ctx.mark_dirty(x)
        return x.mul_(2), x + 1

    with pytest.raises(RuntimeError, match="view"):
        dirty(two).apply((leaf(1.0, 2.0) * 1)[:1])

    def one(ctx: Any, x: ad.Tensor) -> Any:
        ctx.mark_dirty(x)
        return x.mul_(2)

    x = leaf(1.0, 2.0)
    base = x * 1
    dirty(one).apply(base[:1])
    base.sum().backward()
    assert close(x.grad, [2.0, 1.0])


# ctx and grad_fn


def test_grad_fn_shows_what_ctx_keeps() -> None:
    class Keeps(Function):
        @staticmethod
        def forward(ctx: Any, x: ad.Tensor, n: int) -> ad.Tensor:
            ctx.shape, ctx.note = x.shape, ["forward"]
            ctx.save_for_backward(x, None)
            return x * n

        @staticmethod
        def backward(ctx: Any, grad: ad.Tensor) -> Any:
            ctx.note.append("backward")
            return grad, None

    x = leaf(1.0)
    y = Keeps.apply(x, 3)
    node = y.grad_fn
    assert type(node).__name__ == node.name() == "KeepsBackward"
    assert type(node) is Keeps._backward_cls
    assert node.shape == (1,)
    assert node.needs_input_grad == (True, False)
    assert node.saved_tensors[0] is x
    assert node.saved_tensors[1] is None
    assert len(node._raw_saved_tensors) == 2
    assert node.next_functions[0][0].variable is x
    y.sum().backward()
    assert node.note == ["forward", "backward"]
    with pytest.raises(RuntimeError, match="freed"):
        _ = node.saved_tensors
    with pytest.raises(RuntimeError, match="freed"):
        _ = node._raw_saved_tensors


def test_saved_tensors_can_be_hooked_one_by_one() -> None:
    x = leaf(2.0)
    y = Cube.apply(x)
    (saved,) = y.grad_fn._raw_saved_tensors
    saved.register_hooks(lambda t: t.numpy(force=True) * 10, lambda a: ad.from_numpy(a))
    with pytest.raises(RuntimeError, match="already"):
        saved.register_hooks(lambda t: t, lambda t: t)
    y.sum().backward()
    assert close(x.grad, [1200.0])


def test_saved_tensor_hooks_see_what_a_function_saves() -> None:
    log: list[str] = []
    x = leaf(2.0)
    with ad.autograd.graph.saved_tensors_hooks(
        lambda t: (log.append("pack"), t * 10)[1], lambda t: (log.append("unpack"), t / 10)[1]
    ):
        y = Cube.apply(x)
    y.sum().backward()
    assert log == ["pack", "unpack"]
    assert close(x.grad, [12.0])


BAD_SAVES: dict[str, tuple[Any, type[Exception]]] = {
    "save_for_backward": (lambda ctx: ctx.save_for_backward(3), TypeError),
    "save_for_forward": (lambda ctx: ctx.save_for_forward(3), TypeError),
    "mark_dirty": (lambda ctx: ctx.mark_dirty(3), RuntimeError),
    "mark_non_differentiable": (lambda ctx: ctx.mark_non_differentiable(None), RuntimeError),
}


@pytest.mark.parametrize("name", BAD_SAVES)
def test_ctx_takes_tensors_only(name: str) -> None:
    call, kind = BAD_SAVES[name]

    class Bad(Function):
        @staticmethod
        def forward(ctx: Any, x: ad.Tensor) -> ad.Tensor:
            call(ctx)
            return x * 1

    with pytest.raises(kind, match=name):
        Bad.apply(leaf(1.0))


def test_a_context_that_outlives_its_graph_says_so() -> None:
    kept: list[Any] = []

    class Stashes(Function):
        @staticmethod
        def forward(ctx: Any, x: ad.Tensor) -> ad.Tensor:
            ctx.save_for_backward(x)
            kept.append(ctx)
            return x * 1

        @staticmethod
        def backward(ctx: Any, grad: ad.Tensor) -> ad.Tensor:
            return grad

    y = Stashes.apply(leaf(1.0))
    assert kept[0].name() == "StashesBackward"
    del y
    with pytest.raises(RuntimeError, match="freed"):
        _ = kept[0].saved_tensors


def test_nothing_of_a_function_outlives_its_result() -> None:
    class Holds(Function):
        @staticmethod
        def forward(ctx: Any, x: ad.Tensor, fails: bool) -> ad.Tensor:
            ctx.mark_dirty(x.mul_(2))
            ctx.save_for_backward(x)
            if fails:
                raise ZeroDivisionError
            return x

        @staticmethod
        def backward(ctx: Any, grad: ad.Tensor) -> Any:
            return grad * 2, None

    gc.collect()
    gc.disable()
    try:
        x = leaf(1.0) * 1
        result = weakref.ref(Holds.apply(x, False).value)
        del x
        assert result() is None
        x = leaf(1.0) * 1
        memory = weakref.ref(x.value)
        with pytest.raises(ZeroDivisionError):
            Holds.apply(x, True)
        del x
        assert memory() is None
    finally:
        gc.enable()


# Arguments


def test_defaults_and_keywords_reach_setup_context_and_backward() -> None:
    class Power(Function):
        @staticmethod
        def forward(x: ad.Tensor, exponent: int = 3, *, note: str = "none") -> ad.Tensor:
            assert note
            return x**exponent

        @staticmethod
        def setup_context(ctx: Any, inputs: Any, output: Any) -> None:
            x, ctx.exponent = inputs
            ctx.save_for_backward(x)

        @staticmethod
        def backward(ctx: Any, grad: ad.Tensor) -> Any:
            (x,) = ctx.saved_tensors
            return grad * ctx.exponent * x ** (ctx.exponent - 1), None

    for call, expected in (
        (lambda x: Power.apply(x), 12.0),
        (lambda x: Power.apply(x, exponent=2), 4.0),
        (lambda x: Power.apply(exponent=2, x=x, note="some"), 4.0),
    ):
        x = leaf(2.0)
        call(x).sum().backward()
        assert close(x.grad, [expected])
        assert close(ad.grad(lambda v, call=call: call(v).sum())(x), [expected])


def test_a_differentiated_tensor_by_keyword_alone_is_refused() -> None:
    class Named(Function):
        @staticmethod
        def forward(ctx: Any, x: ad.Tensor, *, y: ad.Tensor) -> ad.Tensor:
            return x * y

        @staticmethod
        def backward(ctx: Any, grad: ad.Tensor) -> ad.Tensor:
            return grad

    with pytest.raises(RuntimeError, match="by name"):
        Named.apply(leaf(1.0), y=leaf(2.0))


def test_forward_may_leave_for_numpy() -> None:
    class ByNumpy(Function):
        @staticmethod
        def forward(ctx: Any, x: ad.Tensor) -> ad.Tensor:
            ctx.save_for_backward(x)
            return ad.from_numpy(np.sin(x.numpy()))

        @staticmethod
        def backward(ctx: Any, grad: ad.Tensor) -> ad.Tensor:
            return grad * ctx.saved_tensors[0].cos()

    x = leaf(0.5)
    ByNumpy.apply(x).sum().backward()
    assert close(x.grad, np.cos([0.5]))
    with pytest.raises(RuntimeError):
        x.numpy()
    with ad.no_grad():
        assert x.numpy() is x.numpy()


# What backward returns


def test_gradients_are_checked() -> None:
    def backward_of(result: Any) -> Any:
        class Returns(Function):
            @staticmethod
            def forward(ctx: Any, x: ad.Tensor, n: int) -> ad.Tensor:
                return x * n

            @staticmethod
            def backward(ctx: Any, grad: ad.Tensor) -> Any:
                return result(grad)

        return lambda: Returns.apply(leaf(1.0, 2.0, 3.0), 2).sum().backward()

    backward_of(lambda g: (g, None, None, None))()  # more than there are, but nothing
    for result in (
        lambda g: g,
        lambda g: (g, None, g),
        lambda g: (3, None),
        lambda g: (g, g),
        lambda g: (ad.ones(2, dtype=ad.float64), None),
    ):
        with pytest.raises(RuntimeError):
            backward_of(result)()


def test_backward_by_two_names_is_refused() -> None:
    class Both(Function):
        @staticmethod
        def forward(ctx: Any, x: ad.Tensor) -> ad.Tensor:
            return x * 1

        @staticmethod
        def backward(ctx: Any, grad: ad.Tensor) -> ad.Tensor:
            return grad

        @staticmethod
        def vjp(ctx: Any, grad: ad.Tensor) -> ad.Tensor:
            return grad

    with pytest.raises(RuntimeError, match="vjp"):
        Both.apply(leaf(1.0)).sum().backward()


def test_vjp_is_another_name_of_backward() -> None:
    class Named(Function):
        @staticmethod
        def forward(ctx: Any, x: ad.Tensor) -> ad.Tensor:
            return x * 1

        @staticmethod
        def vjp(ctx: Any, grad: ad.Tensor) -> ad.Tensor:
            return grad * 7

    x = leaf(1.0)
    Named.apply(x).sum().backward()
    assert close(x.grad, [7.0])


def test_a_second_derivative_of_once_differentiable_never_vanishes_silently() -> None:
    class Once(Function):
        @staticmethod
        def forward(ctx: Any, x: ad.Tensor) -> ad.Tensor:
            ctx.factor = x.detach()  # not saved, so that nothing but the node knows of x
            return x * x

        @staticmethod
        @ad.autograd.function.once_differentiable
        def backward(ctx: Any, grad: ad.Tensor) -> ad.Tensor:
            assert not ad.is_grad_enabled()
            return grad * 2 * ctx.factor

    x = leaf(3.0)
    (g,) = ad.autograd.grad(Once.apply(x).sum(), x, create_graph=True)
    with pytest.raises(RuntimeError, match="once_differentiable"):
        ad.autograd.grad(g.sum(), x, allow_unused=True)


# vmap


class Batch(Times):
    """With a rule for vmap of its own."""

    calls: list[Any] = []  # noqa: RUF012

    @staticmethod
    def vmap(info: Any, in_dims: Any, x: ad.Tensor, y: ad.Tensor) -> Any:
        Batch.calls.append((info.batch_size, info.randomness, in_dims))
        x = x if in_dims[0] is None else x.movedim(in_dims[0], -1)
        y = y if in_dims[1] is None else y.movedim(in_dims[1], -1)
        return Batch.apply(
            *(t if d is not None else t.unsqueeze(-1) for t, d in zip((x, y), in_dims, strict=True))
        ), -1


def test_a_vmap_method_sees_the_batch_where_it_is() -> None:
    x = ad.tensor(np.arange(6.0).reshape(2, 3), dtype=ad.float64)
    y = ad.tensor([1.0, 2.0], dtype=ad.float64)
    Batch.calls.clear()
    found = ad.vmap(Batch.apply, in_dims=(1, None))(x, y)
    assert Batch.calls == [(3, "error", (1, None))]
    assert close(found, (x.numpy() * y.numpy()[:, None]).T)
    grads = ad.vmap(ad.grad(lambda a, b: Batch.apply(a, b).sum()), in_dims=(1, None))(x, y)
    assert close(grads, np.tile(y.numpy(), (3, 1)))


def test_a_vmap_method_and_a_generated_rule_contradict() -> None:
    class Both(Batch):
        generate_vmap_rule = True

    with pytest.raises(RuntimeError, match="generate_vmap_rule"):
        ad.vmap(Both.apply)(ad.ones(2), ad.ones(2))


@pytest.mark.parametrize(
    "returned", [lambda x: x, lambda x: (x, 5), lambda x: ((x, x), (0,)), lambda x: (x, 1)]
)
def test_what_a_vmap_method_returns_is_checked(returned: Any) -> None:
    class Wrong(Batch):
        @staticmethod
        def vmap(info: Any, in_dims: Any, x: ad.Tensor, y: ad.Tensor) -> Any:
            return returned(x * y)

    with pytest.raises(RuntimeError, match="vmap"):
        ad.vmap(Wrong.apply)(ad.ones(2, 3), ad.ones(2, 3))


class Marked(Function):
    """With an output that has no derivative, and one that is no tensor."""

    @staticmethod
    def forward(x: ad.Tensor) -> Any:
        return x.exp(), x * 2, "word"

    @staticmethod
    def setup_context(ctx: Any, inputs: Any, output: Any) -> None:
        ctx.mark_non_differentiable(output[1])
        ctx.save_for_backward(output[0])

    @staticmethod
    def backward(ctx: Any, grad: ad.Tensor, *_: Any) -> ad.Tensor:
        return grad * ctx.saved_tensors[0]


def test_marks_hold_inside_every_transform() -> None:
    x = ad.tensor([0.5, 1.5], dtype=ad.float64)

    def f(x: ad.Tensor) -> ad.Tensor:
        y, constant, word = Marked.apply(x)
        assert word == "word"
        return y * constant

    expected = np.exp(x.numpy()) * 2 * x.numpy()
    assert close(ad.grad(lambda x: f(x).sum())(x), expected)
    assert close(ad.vmap(ad.grad(f))(x), expected)
    assert close(ad.grad(lambda x: ad.vmap(f)(x).sum())(x), expected)
    assert close(ad.jvp(f, (x,), (ad.ones(2, dtype=ad.float64),))[1], expected)
    assert close(ad.jacfwd(f)(x), np.diag(expected))


def test_a_write_to_a_saved_value_is_noticed_inside_transforms() -> None:
    def f(x: ad.Tensor) -> ad.Tensor:
        y = x * 2
        z = Times.apply(x, y)
        y.add_(1)
        return z.sum()

    x = ad.tensor([1.0, 2.0], dtype=ad.float64)
    for run in (lambda: ad.grad(f)(x), lambda: ad.vmap(ad.grad(f))(x)):
        with pytest.raises(RuntimeError, match="changed in place"):
            run()


# Forward mode


def test_tangents_are_checked() -> None:
    def with_jvp(jvp: Any) -> Any:
        class WithJvp(Function):
            @staticmethod
            def forward(ctx: Any, x: ad.Tensor) -> Any:
                constant = x * 0
                ctx.mark_non_differentiable(constant)
                return x * 2, constant, "word"

        WithJvp.jvp = staticmethod(jvp)  # type: ignore[method-assign]
        return WithJvp

    forward_ad = ad.autograd.forward_ad
    with forward_ad.dual_level():
        x = forward_ad.make_dual(leaf(1.0), leaf(1.0).detach())
        out = with_jvp(lambda ctx, t: (t * 2, None, None)).apply(x)[0]
        assert close(forward_ad.unpack_dual(out).tangent, [2.0])
        for jvp in (
            lambda ctx, t: t * 2,
            lambda ctx, t: (t * 2, t, None),
            lambda ctx, t: (t * 2, None, t),
        ):
            with pytest.raises(RuntimeError, match="jvp"):
                with_jvp(jvp).apply(x)


def test_jvp_sees_what_was_saved_for_it() -> None:
    class Square(Function):
        @staticmethod
        def forward(ctx: Any, x: ad.Tensor) -> ad.Tensor:
            ctx.save_for_backward(x, x)
            ctx.save_for_forward(x)
            return x * x

        @staticmethod
        def backward(ctx: Any, grad: ad.Tensor) -> ad.Tensor:
            x, _ = ctx.saved_tensors
            return grad * 2 * x

        @staticmethod
        def jvp(ctx: Any, tangent: ad.Tensor) -> ad.Tensor:
            (x,) = ctx.saved_tensors
            return tangent * 2 * x

    assert ad.autograd.gradcheck(Square.apply, leaf(1.0, 2.0), check_forward_ad=True)


def test_forward_over_reverse_through_a_saved_output() -> None:
    forward_ad = ad.autograd.forward_ad
    with forward_ad.dual_level():
        x = forward_ad.make_dual(leaf(0.5), ad.ones(1, dtype=ad.float64))
        (g,) = ad.autograd.grad(Exp.apply(x).sum(), x)
        assert close(forward_ad.unpack_dual(g).tangent, np.exp([0.5]))


# Graphs


def test_the_rule_of_a_function_is_kept_in_graphs_beside_other_outputs() -> None:
    class Straight(Function):
        """Rounds; its gradient passes as if it did not."""

        @staticmethod
        def forward(x: ad.Tensor) -> Any:
            return "word", x.round(), x * 0

        @staticmethod
        def setup_context(ctx: Any, inputs: Any, output: Any) -> None:
            ctx.mark_non_differentiable(output[2])

        @staticmethod
        def backward(ctx: Any, _: Any, grad: ad.Tensor, __: Any) -> ad.Tensor:
            return grad * 5

    def f(x: ad.Tensor) -> ad.Tensor:
        word, rounded, constant = Straight.apply(x)
        assert word == "word"
        return (rounded * 2 + constant * x).sum()

    x = ad.tensor([0.4, 1.6], dtype=ad.float64)
    expected = [10.0, 10.0]
    assert close(ad.grad(f)(x), expected)
    assert close(ad.compile(ad.grad(f))(x), expected)
    assert close(ad.grad(ad.compile(f))(x), expected)
    assert close(ad.grad(ad.trace(f, x))(x), expected)


def test_names_on_ctx_are_the_users() -> None:
    class Named(Function):
        @staticmethod
        def forward(ctx: Any, x: ad.Tensor) -> ad.Tensor:
            ctx.name, ctx.shape, ctx.saved, ctx.next, ctx.rule = "mine", x.shape, 1, 2, 3
            ctx.save_for_backward(x)
            return x * x

        @staticmethod
        def backward(ctx: Any, grad: ad.Tensor) -> ad.Tensor:
            assert (ctx.name, ctx.saved, ctx.next, ctx.rule) == ("mine", 1, 2, 3)
            (x,) = ctx.saved_tensors
            return grad * 2 * x

    x = leaf(3.0)
    y = Named.apply(x)
    y.sum().backward()
    assert close(x.grad, [6.0])
    with pytest.raises(RuntimeError, match="NamedBackward"):
        y.sum().backward()


@pytest.mark.parametrize("also_given", [True, False])
def test_a_tensor_of_a_transform_that_is_no_argument_is_refused(also_given: bool) -> None:
    def f(w: ad.Tensor) -> ad.Tensor:
        class Closes(Function):
            @staticmethod
            def forward(x: ad.Tensor) -> ad.Tensor:
                return x * w

            @staticmethod
            def setup_context(ctx: Any, inputs: Any, output: Any) -> None:
                pass

            @staticmethod
            def backward(ctx: Any, grad: ad.Tensor) -> ad.Tensor:
                return grad * 7

        return Closes.apply(w * 1 if also_given else ad.tensor(2.0, dtype=ad.float64))

    w = ad.tensor([3.0, 4.0], dtype=ad.float64)
    one = w[0]
    for run in (
        lambda: ad.jvp(f, (one,), (one,)),
        lambda: ad.vmap(f)(w),
        lambda: ad.vmap(ad.grad(f))(w),
        lambda: ad.hessian(f)(one),
        lambda: ad.compile(ad.grad(f))(one),
        lambda: ad.vmap(lambda s: s * ad.grad(f)(one))(w),
        lambda: ad.compile(ad.vmap(lambda s: s * ad.grad(f)(one)))(w),
    ):
        with pytest.raises(RuntimeError):
            run()
