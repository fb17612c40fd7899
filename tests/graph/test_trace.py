"""Tracing: a function's graph equals the function, through transforms, writes and views."""

from __future__ import annotations

import random
import weakref
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import adjoint as ad
from adjoint.core.errors import AdjointError, InplaceError
from adjoint.graph import typing
from adjoint.graph.ir import Region

X = np.random.default_rng(0).standard_normal((4, 3))


def check(f: Callable[..., Any], *args: Any, **keywords: Any) -> Any:
    """Trace, verify, run, and compare with the function; return the graph."""
    graph = ad.graph.verify(ad.trace(f, *args, **keywords))
    expected, got = f(*args, **keywords), graph(*args, **keywords)
    left, structure = ad.core.pytrees.flatten(expected)
    right, other = ad.core.pytrees.flatten(got)
    assert structure == other
    for a, b in zip(left, right, strict=True):
        if isinstance(a, ad.Tensor):
            assert (a.shape, a.dtype) == (b.shape, b.dtype)
            assert ad.allclose(a, b, equal_nan=True), f"{graph}"
        else:
            assert a == b
    return graph


def ops(graph: Any) -> list[str]:
    return [n.op.name for n in graph.nodes]


def tensor(requires_grad: bool = False) -> ad.Tensor:
    return ad.tensor(X, requires_grad=requires_grad)


# --- arguments ------------------------------------------------------------------------------------


def test_no_data_is_needed() -> None:
    graph = ad.trace(lambda x: x.exp().sum(0), ad.ShapeDtype((1_000_000, 3), "float16"))
    assert graph.outputs[0].type == ad.graph.Type((3,), ad.float16)


def test_no_kernel_runs_to_learn_dtypes(monkeypatch: pytest.MonkeyPatch) -> None:
    """The rows of an ordinary program say what their kernels take."""

    def program(x: Any) -> Any:
        y = (x @ x.mT + 1).relu().sum(1, keepdim=True) * 0.5 - x.mean(0).exp()
        z = ad.where(y > 0, y.tanh(), y.clamp(min=-1.0)) + ad.arange(3).square()
        return ad.nn.functional.cross_entropy(z, ad.tensor([0, 1, 2])) + z.amax() ** 2

    with monkeypatch.context() as patched:
        patched.setattr(typing, "no_grad", None)  # in which a kernel would be asked
        ad.trace(ad.value_and_grad(program), ad.ones(3, 3))
    with pytest.raises(AdjointError, match="complex numbers have no order"):
        ad.trace(lambda x: x.clamp(max=1), ad.ShapeDtype((3,), ad.complex64))


@pytest.mark.parametrize(
    "example",
    [tensor(), X, ad.ShapeDtype((4, 3), ad.float64), tensor().to("meta"), 2.5, np.float64(2.5)],
    ids=type,
)
def test_examples_of_all_kinds(example: Any) -> None:
    graph = ad.trace(lambda x: x * 2, example)
    assert graph.inputs[0].shape == tuple(getattr(example, "shape", ()))


def test_pytrees_in_and_out() -> None:
    def f(params: Any, x: Any, *, scale: Any) -> Any:
        y = x @ params["w"] + params["b"][0]
        return {"y": y, "parts": [y.sum(), None, (scale, y)]}

    params = {"w": ad.ones(3, 2, dtype=ad.float64), "b": [ad.zeros(2, dtype=ad.float64)]}
    graph = check(f, params, tensor(), scale=tensor())
    assert graph.signature.names == ("params['w']", "params['b'][0]", "x", "scale")
    assert [v.name for v in graph.inputs] == ["params_w", "params_b_0", "x", "scale"]
    got = graph(params, tensor(), scale=tensor())
    assert list(got) == ["y", "parts"]
    assert got["parts"][1] is None
    with pytest.raises(AdjointError, match="lacks the keys"):
        graph({"w": params["w"]}, tensor(), scale=tensor())


def test_whole_numbers_are_part_of_the_graph() -> None:
    def power(x: Any, n: int, flip: bool = False) -> Any:
        for _ in range(n):
            x = x * x
        return -x if flip else x

    graph = check(power, tensor(), 3, flip=True)
    assert ops(graph) == ["mul", "mul", "mul", "neg"]
    with pytest.raises(AdjointError, match="was traced with 3 for its argument"):
        graph(tensor(), 4, flip=True)


def test_wrong_arguments_are_named() -> None:
    graph = ad.trace(lambda first, second: first + second, ad.ShapeDtype(3), ad.ShapeDtype(3))
    with pytest.raises(ValueError, match="second has shape 4, and the graph is for 3"):
        graph(ad.zeros(3), ad.zeros(4))
    with pytest.raises(TypeError, match="first is float64, and the graph is for float32"):
        graph(ad.zeros(3, dtype=ad.float64), ad.zeros(3))
    with pytest.raises(TypeError, match="2 positional arguments, got 1"):
        graph(ad.zeros(3))


def test_closures_become_constants_once() -> None:
    weight = ad.ones(3, dtype=ad.float64)
    graph = check(lambda x: x * weight + weight, tensor())
    assert ops(graph) == ["constant", "mul", "add"]
    weight.add_(1)  # later writes do not reach the graph
    assert ad.allclose(graph(tensor()), tensor() + 1)


def test_constants_that_require_gradients_stay_connected() -> None:
    weight = ad.ones(3, dtype=ad.float64, requires_grad=True)
    graph = ad.trace(lambda x: (x * weight).sum(), tensor())
    graph(tensor()).backward()
    assert ad.allclose(weight.grad, tensor().sum(0))


@pytest.mark.parametrize(
    "f",
    [
        lambda x: (x, x),
        lambda x: x,
        lambda x: [x * 2, 3.0, None, True],
        lambda x: ad.zeros(2),
        lambda x: (),
    ],
    ids=["twice", "input", "numbers", "constant", "nothing"],
)
def test_odd_outputs(f: Any) -> None:
    check(f, tensor())


# --- transforms -----------------------------------------------------------------------------------


def loss(x: Any) -> Any:
    return (x.tanh() * x[1:].sum(0)).exp().sum()


@pytest.mark.parametrize(
    "f",
    [
        ad.grad(loss),
        ad.value_and_grad(loss),
        ad.hessian(loss),
        ad.vmap(lambda x: x.softmax(0) if hasattr(x, "softmax") else x.exp()),
        ad.vmap(ad.grad(lambda x: (x.sin() * x).sum())),
        ad.grad(lambda x: ad.vmap(lambda r: (r * r).sum())(x).exp().sum()),
        ad.jacobian(lambda x: x.sum(0).cos()),
        lambda x: ad.jvp(loss, (x,), (x,)),
        lambda x: ad.vjp(loss, x)[1](ad.tensor(2.0, dtype=ad.float64)),
        ad.grad(lambda x: ad.grad(lambda y: (y**3).sum())(x).sin().sum()),
    ],
    ids=lambda f: f.__name__,
)
def test_transforms_are_traced_through(f: Any) -> None:
    check(f, tensor())


def test_a_graph_runs_under_transforms() -> None:
    graph = ad.trace(loss, tensor())
    assert ad.allclose(ad.grad(graph)(tensor()), ad.grad(loss)(tensor()))
    row = ad.trace(lambda r: (r * r).sum(), ad.ShapeDtype(3, ad.float64))
    assert ad.allclose(ad.vmap(row)(tensor()), (tensor() ** 2).sum(1))
    inner = ad.trace(lambda x: graph(x) * 2, tensor())
    assert ad.allclose(inner(tensor()), loss(tensor()) * 2)


def test_eager_gradients_go_through_a_graph() -> None:
    graph = ad.trace(loss, tensor())
    x, y = tensor(True), tensor(True)
    graph(x).backward()
    loss(y).backward()
    assert ad.allclose(x.grad, y.grad)


def test_requires_grad_follows_the_operators() -> None:
    def f(x: Any, c: Any) -> Any:
        with ad.no_grad():
            scale = x.abs().max()
        return x / scale, x.detach(), c * 2, x > 0

    graph = ad.trace(f, ad.ShapeDtype(3, requires_grad=True), ad.ShapeDtype(3))
    assert [o.type.requires_grad for o in graph.outputs] == [True, False, False, False]
    x = ad.tensor([1.0, -4.0, 2.0], requires_grad=True)
    y = ad.tensor([1.0, -4.0, 2.0], requires_grad=True)
    graph(x, ad.ones(3))[0].sum().backward()
    f(y, ad.ones(3))[0].sum().backward()
    assert ad.allclose(x.grad, y.grad)


def test_values_are_freed_after_their_last_use() -> None:
    made: list[weakref.ref[Any]] = []
    alive: list[bool] = []

    def watch(node: Any, values: Any) -> Any:
        alive.append(bool(made) and made[0]() is not None)
        result = values[0] * 2
        made.append(weakref.ref(result))
        return result

    graph = ad.graph.Graph()
    value = graph.add_input(ad.graph.Type((3,), ad.float32))
    for _ in range(3):
        value = graph.add(Region("watch", watch), (value,), (value.type,)).output
    graph.outputs = [value]
    graph(ad.ones(3))
    assert alive == [False, True, False]


# --- writes in place and views --------------------------------------------------------------------


def write_row(x: Any) -> Any:
    y = x.clone()
    y[0] = 7.0
    y[1:, 0] += y[0, 0]
    return y


def write_through_views(x: Any) -> Any:
    y = x.clone()
    flat, turned = y.view(-1), y.t()
    turned[0].mul_(2)
    flat[5] = 3.0
    y.diagonal().fill_(1)
    return y, flat, turned


def write_parts(x: Any) -> Any:
    y = x * 1
    a, b = y.split(2)
    b.copy_(a)
    y.unbind(1)[2].zero_()
    y.unfold(0, 2, 2).add_(1)
    return y, a, b


def write_mask(x: Any) -> Any:
    y = x.clone()
    y[y > 0] = 0.0
    y[ad.tensor([0, 2])] *= 2
    return y


def reshape_in_place(x: Any) -> Any:
    y = x.clone()
    view = y[0]
    y.unsqueeze_(0).squeeze_(0)
    y.t_()
    y[0] = 5.0
    return y, view


def write_complex(x: Any) -> Any:
    y = ad.complex(x, x * 2)
    y.real.zero_()
    ad.view_as_real(y)[0].mul_(3)
    return y


def fill_a_buffer(x: Any) -> Any:
    out = ad.zeros(4, dtype=ad.float64)
    for i in range(4):
        out[i] = x[i].sum()
    return out


def reshape_copies(x: Any) -> Any:
    y = x.clone()
    y.t().reshape(-1).zero_()  # a copy, so y stays as it was
    y.reshape(2, 6)[0].zero_()  # a view
    return y


def read_strides(x: Any) -> Any:
    return x.as_strided((2, 2), (1, 3)), x[1:].as_strided((2,), (2,)), ad.ones(2) * x.t().stride(0)


WRITES = [
    write_row,
    write_through_views,
    write_parts,
    write_mask,
    reshape_in_place,
    write_complex,
    fill_a_buffer,
    reshape_copies,
    read_strides,
]


@pytest.mark.parametrize("f", WRITES, ids=lambda f: f.__name__)
def test_writes_and_views_are_made_functional(f: Any) -> None:
    graph = check(f, tensor())
    assert not any(n.op.schema.mutates for n in graph.nodes if hasattr(n.op, "schema"))


@pytest.mark.parametrize(
    "f", [write_row, write_through_views, fill_a_buffer], ids=lambda f: f.__name__
)
def test_gradients_of_writes(f: Any) -> None:
    def total(x: Any) -> Any:
        result = f(x)
        return sum(
            (t.sin().sum() for t in (result if isinstance(result, tuple) else (result,))), start=0
        )

    check(ad.grad(total), tensor())


@pytest.mark.parametrize("seed", range(60))
def test_random_programs_of_views_and_writes(seed: int) -> None:
    check(
        lambda x: views_and_writes(x, random.Random(seed)),
        ad.tensor(np.random.default_rng(seed).random((4, 4))),
    )


def views_and_writes(x: Any, choose: random.Random) -> list[Any]:
    pool = [x.clone()]
    views: list[Callable[[Any], Any]] = [
        lambda t: t.select(choose.randrange(t.ndim), 0),
        lambda t: t[::2],
        lambda t: t.unsqueeze(0),
        lambda t: t.transpose(0, -1),
        lambda t: t.split(1)[-1],
        lambda t: t.unbind(0)[0],
        lambda t: t.alias(),
    ]
    writes: list[Callable[[Any], Any]] = [
        lambda t: t.mul_(2),
        lambda t: t.add_(t * 0.5),
        lambda t: t.fill_(choose.random()),
        lambda t: t[0].zero_(),
    ]
    for _ in range(8):
        chosen = choose.choice([t for t in pool if t.ndim])
        if choose.random() < 0.6:
            pool.append(choose.choice(views)(chosen))
        else:
            choose.choice(writes)(chosen)
    return [t * 1 for t in pool]


def test_a_write_to_an_argument_is_warned_of() -> None:
    def f(x: Any) -> Any:
        return x.add_(1)

    with pytest.warns(UserWarning, match="f changes its argument x in place"):
        graph = ad.trace(f, tensor())
    x = tensor()
    assert ad.allclose(graph(x), tensor() + 1)
    assert ad.allclose(x, tensor())


def test_one_copy_of_an_expanded_part_may_be_written_to() -> None:
    def f(x: Any) -> Any:
        v = ad.fft.rfft(x * 1).real
        v.expand(2, *v.shape)[0].neg_()
        return v * v * v

    check(f, tensor())


def test_a_write_to_a_tensor_outside_is_refused() -> None:
    total = ad.zeros(4, 3, dtype=ad.float64)
    with pytest.raises(
        ad.graph.TraceError, match=r"test_trace.py:\d+: add_ changes a tensor from outside"
    ):
        ad.trace(lambda x: total.add_(x), tensor())


# --- what a graph cannot hold ---------------------------------------------------------------------


@pytest.mark.parametrize(
    "f",
    [
        lambda x: x if x.sum() > 0 else -x,
        lambda x: x * float(x.sum()),
        lambda x: x.sum().item(),
        lambda x: x[0].tolist(),
        lambda x: list(range(x.sum().long())),
    ],
    ids=["if", "float", "item", "tolist", "range"],
)
def test_looking_at_values_names_the_line(f: Any) -> None:
    with pytest.raises(
        ad.graph.TraceError,
        match=r"test_trace.py:\d+: a traced tensor has no numbers.*ad.where or ad.cond",
    ):
        ad.trace(f, tensor())


@pytest.mark.parametrize("dtype", ["bfloat16", "float16", "float64", "complex64", "bool", "uint8"])
def test_dtypes_meet_in_any_layout(dtype: str) -> None:
    a = ad.ones(3, 4, dtype=getattr(ad, dtype))
    for other in ("bfloat16", "float32", "complex128", "int64", "int8", "bool"):
        b = ad.ones(4, 3, dtype=getattr(ad, other))
        for f in (lambda a, b: a.mT * b, lambda a, b: ad.where(b.mT != 0, a, b.mT).mT + 1):
            result, expected = ad.trace(f, a, b).outputs[0], f(a, b)
            assert (result.dtype, tuple(result.shape)) == (expected.dtype, tuple(expected.shape))


def test_shapes_that_depend_on_values_are_refused() -> None:
    with pytest.raises(ad.graph.TraceError, match=r"test_trace.py:\d+: .*[^.]\. .*fixed shapes"):
        ad.trace(lambda x: x[x > 0], tensor())
    mask = tensor() > 0
    check(lambda x: x[mask], tensor())  # a mask that is known is fine


def test_backward_inside_a_trace_says_what_to_use() -> None:
    with pytest.raises(ad.graph.TraceError, match=r"use ad.grad"):
        ad.trace(lambda x: x.sum().backward(), tensor())


def test_a_tensor_does_not_outlive_its_trace() -> None:
    kept: list[Any] = []
    ad.trace(lambda x: kept.append(x * 2) or x, tensor())
    with pytest.raises(AdjointError, match="used after it ended"):
        kept[0] + 1


def test_a_trace_that_fails_leaves_nothing_open() -> None:
    with pytest.raises(ZeroDivisionError):
        ad.trace(lambda x: 1 / 0, tensor())
    assert ad.allclose(ad.grad(loss)(tensor()), ad.trace(ad.grad(loss), tensor())(tensor()))


# --- random numbers -------------------------------------------------------------------------------


def test_random_operators_draw_when_the_graph_runs() -> None:
    def noisy(x: Any) -> Any:
        unused = ad.rand(2)
        del unused
        return x + ad.randn(4, 3, dtype=ad.float64) * ad.rand_like(x)

    graph = ad.simplify(ad.trace(noisy, tensor()))
    ad.manual_seed(3)
    expected, other = noisy(tensor()), noisy(tensor())
    ad.manual_seed(3)
    assert ad.allclose(graph(tensor()), expected)
    assert ad.allclose(graph(tensor()), other)


def test_random_numbers_of_a_given_generator() -> None:
    graph = ad.trace(lambda x: x + ad.randn(4, 3, dtype=ad.float64), tensor())
    generator = ad.Generator().manual_seed(5)
    first, second = graph(tensor(), generator=generator), graph(tensor(), generator=generator)
    again = graph(tensor(), generator=generator.manual_seed(5))
    assert ad.allclose(first, again)
    assert not ad.allclose(first, second)


def test_equal_draws_are_not_merged() -> None:
    graph = ad.simplify(ad.trace(lambda: ad.rand(3) - ad.rand(3)))
    assert (graph() != 0).any()


def test_custom_rules_survive_in_the_graph() -> None:
    @ad.custom_vjp
    def clipped(x: Any) -> Any:
        return x**2

    clipped.defvjp(lambda x: (x**2, x), lambda x, g: (g * (2 * x).clamp(-1, 1),))
    graph = ad.simplify(ad.trace(lambda x: clipped(x).sum(), tensor()))
    expected = ad.grad(lambda x: clipped(x).sum())(tensor())
    assert ad.allclose(ad.grad(graph)(tensor()), expected)
    flat = ad.graph.passes.run(
        graph, (ad.graph.passes.inline_functions, ad.graph.passes.eliminate_dead)
    )
    assert all(hasattr(n.op, "schema") for n in flat.nodes)
    assert ad.allclose(flat(tensor()), graph(tensor()))
    again = ad.graph.parse(str(graph))
    assert ad.allclose(again(tensor()), graph(tensor()))


def test_a_view_that_a_graph_has_to_copy_cannot_be_written_to() -> None:
    """Reading it is fine; a write would be lost, so it raises."""

    def rows(x: Any) -> Any:
        return ad.vmap(lambda u: ad.scan(lambda c, s: (c + s, c), u.sum(), u)[1])(x).view(-1)

    x = tensor()
    np.testing.assert_allclose(ad.trace(rows, x)(x), rows(x))
    with pytest.raises(InplaceError, match="is a copy"):
        ad.trace(lambda x: rows(x)[1:].mul_(2), x)


def test_a_view_that_takes_tensors_can_be_viewed_again() -> None:
    """Its imagined memory does not depend on what the other tensors are."""

    def f(x: Any) -> Any:
        view = ad.ops.slice_inverse(x * 1, x * 2, 1)
        return (view.reshape(-1) * 3).sum() + view.transpose(0, 1).reshape(-1).sum()

    x = ad.ones(3, 4)
    assert ad.trace(ad.grad(f), x)(x).tolist() == ad.grad(f)(x).tolist()


KEEP_ORDER: dict[str, Any] = {
    "double": lambda x: x * 2,
    "sum": lambda x: x + ad.ones(4, 1, 3),
    "sum with a constant": lambda x: x[:, :, :1] + ad.ones(3, 2, 4).permute(2, 1, 0),
    "clone": lambda x: x.clone(),
    "contiguous clone": lambda x: x.clone(memory_format=0),
    "cast": lambda x: x.double(),
    "zeros_like": ad.zeros_like,
    "full_like": lambda x: ad.full_like(x, 2.0),
    "where": lambda x: ad.where(x > 0, x, 1.0),
    "a chain": lambda x: (x.sin() * 2).exp().clone(),
    "a view of a double": lambda x: (x * 2).transpose(0, 2)[1:],
    "transpose_": lambda x: (x * 2).transpose_(0, 2),
}
SEEN: dict[str, Any] = {  # of shape (4, 2, 3)
    "permuted": lambda x: x.permute(2, 0, 1),
    "transposed": lambda x: x.reshape(3, 2, 4).permute(2, 1, 0),
    "expanded": lambda x: x[0, 0, :3].expand(4, 2, 3),
    "permuted and expanded": lambda x: x[:, :1].permute(2, 0, 1).expand(4, 2, 3),
    "as given": lambda x: x.reshape(4, 2, 3),
}


@pytest.mark.parametrize("seen", SEEN)
@pytest.mark.parametrize("keep", KEEP_ORDER)
def test_a_traced_reshape_is_a_view_where_an_eager_one_is(keep: str, seen: str) -> None:
    """Results lie in memory as their arguments do, so what flatten() shares is the same."""

    def f(x: Any) -> Any:
        y = KEEP_ORDER[keep](SEEN[seen](x))
        flat = y.flatten()
        flat.copy_(ad.arange(flat.numel()))
        return y, flat

    x = ad.randn(2, 3, 4)
    for got, want in zip(ad.trace(f, x)(x), f(x), strict=True):
        np.testing.assert_array_equal(got, want)


def test_a_trace_of_views_needs_no_memory() -> None:
    """Strides are those of eager mode; of 10¹⁵ elements there is nowhere to lie."""

    def f(x: Any, seen: list[Any]) -> Any:
        a, _, b = x.transpose(1, 2).chunk(3, -1)
        rows = (a * b).transpose(1, 2)
        made = (
            a,
            b[:, ::2, 1:],
            rows.reshape(x.shape[0], -1),
            rows.transpose(1, 2).reshape(x.shape[0], -1),
            a.reshape(-1, a.shape[2]).t(),
            (rows + 1).diagonal(0, 1, 2).unfold(1, 2, 3),
            x.unsqueeze(1).expand(-1, 5, -1, -1).flatten(2),
            ad.slice_scatter(x, x[:, :2], 1, 1, 3, 1)[:, 1].as_strided((3, 4), (7, 1), 5),
        )
        seen.extend((v.stride(), v.storage_offset(), v.is_contiguous()) for v in made)
        return sum(v.sum() for v in made)

    real: list[Any] = []
    traced: list[Any] = []
    x = ad.zeros(4, 6, 9)
    f(x, real)
    ad.trace(lambda x: f(x, traced), x)
    assert traced == real
    large: list[Any] = []
    graph = ad.trace(lambda x: f(x, large), ad.ShapeDtype((10**5, 6 * 10**4, 9 * 10**4)))
    assert large[0] == ((54 * 10**8, 1, 9 * 10**4), 0, False)
    assert len(graph) == len(ad.trace(lambda x: f(x, traced), x))
