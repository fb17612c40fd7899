"""vmap: in_dims and out_dims, nesting, randomness, writing in place, and what it refuses."""

from __future__ import annotations

import warnings
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import adjoint as ad
from adjoint.core.errors import AdjointError, DependsOnValues
from adjoint.transforms import batch
from tests.oracle import programs

Function = Callable[..., Any]


def numbers(*shape: int, seed: int = 0) -> ad.Tensor:
    return ad.from_numpy(np.random.default_rng(seed).standard_normal(shape))


def assert_same(got: Any, expected: Any) -> None:
    assert tuple(got.shape) == tuple(expected.shape)
    assert got.dtype is expected.dtype
    np.testing.assert_allclose(got.detach().numpy(), expected.detach().numpy(), rtol=1e-12)


def loop(f: Function, *args: Any, in_dims: tuple[int | None, ...] | None = None) -> Any:
    """What vmap must equal."""
    dims = in_dims or (0,) * len(args)
    size = next(a.shape[d] for a, d in zip(args, dims, strict=True) if d is not None)
    samples = [
        [a if d is None else a.select(d, i) for a, d in zip(args, dims, strict=True)]
        for i in range(size)
    ]
    return ad.stack([f(*s) for s in samples])


def agrees(f: Function, *args: Any, in_dims: tuple[int | None, ...] | None = None) -> None:
    got = ad.vmap(f, in_dims=0 if in_dims is None else in_dims)(*args)
    assert_same(got, loop(f, *args, in_dims=in_dims))


# ---- in_dims and out_dims -----------------------------------------------------------------------


def test_maps_over_the_first_dimension() -> None:
    agrees(lambda x, y: x.dot(y), numbers(3, 4), numbers(3, 4, seed=1))


@pytest.mark.parametrize("dims", [(0, None), (None, 1), (1, -1), (-2, 0)])
def test_in_dims_for_each_argument(dims: tuple[int | None, int | None]) -> None:
    x = numbers(4, 4)
    agrees(lambda a, b: a * 2 + b.flip(0), x, numbers(4, 4, seed=1), in_dims=dims)


def test_in_dims_is_a_pytree() -> None:
    def f(d: dict[str, Any]) -> Any:
        return d["x"] + d["y"] * d["z"][0]

    args = {"x": numbers(5, 3), "y": numbers(3), "z": [numbers(3, 5)]}
    got = ad.vmap(f, in_dims=({"x": 0, "y": None, "z": [1]},))(args)
    assert_same(got, args["x"] + args["y"] * args["z"][0].t())


def test_in_dims_of_a_whole_argument_stands_for_all_its_tensors() -> None:
    pair = (numbers(2, 3), numbers(2, 3, seed=1))
    got = ad.vmap(lambda p, s: p[0] * p[1] * s, in_dims=(1, None))(pair, 2.0)
    assert_same(got, (pair[0] * pair[1] * 2.0).t())


def test_python_numbers_are_passed_as_they_are() -> None:
    seen = []
    ad.vmap(lambda x, n: (seen.append(n), x * n)[1], in_dims=(0, None))(numbers(3), 2)
    assert seen == [2]


@pytest.mark.parametrize("out_dims", [0, 1, -1, 2])
def test_out_dims(out_dims: int) -> None:
    x = numbers(5, 2, 3)
    got = ad.vmap(lambda s: s * 2, out_dims=out_dims)(x)
    assert_same(got, (x * 2).movedim(0, out_dims))


def test_out_dims_is_a_pytree() -> None:
    x = numbers(5, 2, 3)
    a, d = ad.vmap(lambda s: (s, {"b": s + 1, "c": s.sum()}), out_dims=(1, {"b": 2, "c": 0}))(x)
    assert_same(a, x.movedim(0, 1))
    assert_same(d["b"], (x + 1).movedim(0, 2))
    assert_same(d["c"], x.sum((1, 2)))


def test_out_dims_None_returns_what_is_the_same_for_all() -> None:
    x, w = numbers(5, 2), numbers(3)
    a, b = ad.vmap(lambda s: (s, w * 2), out_dims=(0, None))(x)
    assert_same(b, w * 2)
    assert_same(a, x)


def test_result_without_batch_is_repeated() -> None:
    assert ad.vmap(lambda x: ad.ones(2))(numbers(3)).tolist() == [[1.0, 1.0]] * 3


def test_keyword_arguments_are_mapped_over_their_first_dimension() -> None:
    x, y = numbers(3, 2), numbers(3, 2, seed=1)
    assert_same(ad.vmap(lambda a, *, b: a - b)(x, b=y), x - y)


def test_numpy_arrays_are_mapped() -> None:
    x = np.arange(6.0).reshape(3, 2)
    assert ad.vmap(lambda s: s.sum())(x).tolist() == x.sum(1).tolist()


def test_an_empty_batch_gives_an_empty_result() -> None:
    w = numbers(4, 2)
    for f in (
        lambda s: s @ w,
        lambda s: s.sum(),
        lambda s: s.reshape(2, -1),
        lambda s: s[ad.tensor([0, 2])],
    ):
        got = ad.vmap(f)(ad.zeros(0, 4, dtype=ad.float64))
        assert tuple(got.shape) == (0, *f(ad.zeros(4, dtype=ad.float64)).shape)


# ---- nesting, derivatives, chunks ---------------------------------------------------------------


def test_nested_twice_and_thrice() -> None:
    x, y = numbers(3, 5), numbers(4, 5, seed=1)
    pairs = ad.vmap(lambda a: ad.vmap(lambda b: a.dot(b))(y))(x)
    assert_same(pairs, x @ y.t())
    z = numbers(2, 3, 4, 5)
    triple = ad.vmap(ad.vmap(ad.vmap(lambda s: s.cumsum(0) * s.max())))(z)
    assert_same(triple, z.cumsum(3) * z.amax((3,), keepdim=True))


def test_nested_with_different_dimensions() -> None:
    x = numbers(3, 4, 5)
    got = ad.vmap(ad.vmap(lambda s: s.sin().sum(), in_dims=1), in_dims=1)(x)
    assert_same(got, x.sin().sum((0,)))


def test_gradients_flow_through_vmap_on_the_tape() -> None:
    x = numbers(3, 4).requires_grad_()
    w = numbers(4, 4, seed=1).requires_grad_()
    ad.vmap(lambda s: (w @ s).tanh().sum())(x).sum().backward()
    (gx, gw), x.grad, w.grad = (x.grad, w.grad), None, None
    (x @ w.t()).tanh().sum().backward()
    assert_same(gx, x.grad)
    assert_same(gw, w.grad)


def test_all_orders_of_grad_and_vmap() -> None:
    x = numbers(4, 3)

    def f(s: Any) -> Any:
        return (s.sin() * s.prod()).sum()

    hessians = ad.stack([ad.hessian(f)(s) for s in x])
    assert_same(ad.vmap(ad.hessian(f))(x), hessians)
    assert_same(ad.vmap(ad.jacrev(ad.grad(f)))(x), hessians)
    assert_same(ad.vmap(ad.jacfwd(ad.grad(f)))(x), hessians)
    assert_same(ad.grad(lambda x: ad.vmap(f)(x).sum())(x), ad.vmap(ad.grad(f))(x))


@pytest.mark.parametrize("chunk_size", [1, 2, 3, 7])
def test_chunks_give_the_same(chunk_size: int) -> None:
    x, w = numbers(7, 3), numbers(3)
    got = ad.vmap(
        lambda s, w: (s * w, s.sum()), in_dims=(0, None), out_dims=(1, 0), chunk_size=chunk_size
    )(x, w)
    assert_same(got[0], (x * w).t())
    assert_same(got[1], x.sum(1))


# ---- shapes as the user's code sees them --------------------------------------------------------


def test_shapes_are_those_of_one_sample() -> None:
    seen: list[Any] = []

    def f(x: Any) -> Any:
        seen.extend([tuple(x.shape), x.ndim, x.numel(), x.size(-1), len(x)])
        return x

    ad.vmap(f, in_dims=1)(numbers(2, 5, 3))
    assert seen == [(2, 3), 2, 6, 3, 2]


def test_scalars_do_not_decide_the_dtype() -> None:
    scalars, vector = ad.ones(3, dtype=ad.float64), ad.ones(2, dtype=ad.float32)
    assert ad.vmap(lambda s: s * vector)(scalars).dtype is ad.float32
    assert ad.vmap(lambda s: ad.where(s > 0, s, vector))(scalars).dtype is ad.float32
    whole = ad.vmap(lambda s: s + 1.5)(ad.ones(3, dtype=ad.int64))
    assert whole.dtype is ad.float32


# ---- indexing -----------------------------------------------------------------------------------


def test_indexing_with_an_index_for_each_sample() -> None:
    x, i = numbers(5, 4, 3), ad.tensor([0, 3, -1, 2, 1])
    agrees(lambda x, i: x[i], x, i)
    agrees(lambda x, i: x[:, i % 3], x, i)
    agrees(lambda x, i: x[i, ad.tensor([0, 2])], x, i)
    agrees(lambda i: x[0][i], i)
    agrees(lambda i: x[0][1:, i % 3], i)
    agrees(lambda x, i: x[i.reshape(1, 1)], x, i)


def test_indexing_with_the_same_index_for_all_samples() -> None:
    x = numbers(5, 4, 3, 2)
    two = ad.tensor([1, 0])
    for f in (
        lambda x: x[two],
        lambda x: x[:, two],
        lambda x: x[two, :, two],
        lambda x: x[..., two],
        lambda x: x[[0, 2]],
        lambda x: x[ad.tensor([True, False, True, True])],
        lambda x: x[1:, 0, None, two],
        lambda x: x[-1],
        lambda x: x[::2, 1],
    ):
        agrees(f, x)


def test_gather_scatter_and_friends() -> None:
    x, i = numbers(5, 4), ad.tensor([[0, 1], [3, 3], [2, 0], [1, 1], [0, 3]])
    src = numbers(5, 2, seed=1)
    agrees(lambda x, i: x.gather(0, i), x, i)
    agrees(lambda i: x[0].gather(0, i), i)
    agrees(lambda x, i, s: x.scatter_add(0, i, s), x, i, src)
    agrees(lambda i, s: x[0].scatter(0, i, s), i, src)
    agrees(lambda x, i, s: x.index_add(0, i, s), x, i, src)
    agrees(lambda x, i: x.index_select(0, i), x, i)
    agrees(lambda x, i: x.index_fill(0, i, 2.0), x, i)
    agrees(lambda x, i: x.take(i), x, i)
    agrees(lambda x, i, s: x.index_put([i], s, True), x, i, src)


def test_writing_by_a_mask_that_differs() -> None:
    x = numbers(5, 4)

    def f(x: Any) -> Any:
        y = x.clone()
        y[y > 0] = 0
        y[y < -1] = y.sum()
        return y

    agrees(f, x)
    agrees(lambda x: x.masked_fill(x > 0, 1.0), x)
    agrees(lambda x: ad.where(x > 0, x, 0), x)


# ---- writing in place ---------------------------------------------------------------------------


def test_writing_through_views_reaches_the_base() -> None:
    def f(x: Any) -> Any:
        y = x.clone()
        y[0].mul_(2)
        y.t()[1] = y[2, 2]
        y.diagonal().add_(1)
        first, *_ = y.split(1)
        first.zero_()
        y[:, -1:] += 5
        return y

    agrees(f, numbers(5, 3, 3))
    agrees(f, numbers(3, 3, 5), in_dims=(2,))


def test_tensor_made_inside_becomes_batched_through_a_view() -> None:
    def f(x: Any) -> Any:
        made = ad.zeros(4, dtype=ad.float64)
        early, row = made[2:], made.reshape(2, 2)
        made[0] = x[0]
        early[1] = x[1] * 2
        row[0, 1] += x[2]
        return ad.cat([made, early, row.reshape(-1)])

    agrees(f, numbers(5, 3))
    assert_same(
        ad.vmap(ad.vmap(f))(numbers(2, 5, 3)), ad.stack([loop(f, x) for x in numbers(2, 5, 3)])
    )


def test_tensor_made_inside_may_be_of_an_outer_batch() -> None:
    x, y = numbers(2), numbers(3, seed=1)

    def f(a: Any, b: Any) -> Any:
        made = ad.tensor([0.0, 0.0], dtype=ad.float64)
        made[0] = a
        made[1] = b
        return made

    got = ad.vmap(lambda a: ad.vmap(lambda b: f(a, b))(y))(x)
    assert_same(got, ad.stack([ad.stack([f(a, b) for b in y]) for a in x]))


@pytest.mark.parametrize("mode", ["grad", "jvp"])
def test_writing_in_place_is_differentiated(mode: str) -> None:
    def f(x: Any) -> Any:
        made = ad.zeros(3, dtype=ad.float64)
        made[0] = x[0] * x[1]
        made[1:] = x.sin()
        made[0].mul_(x[1])
        return (made * made).sum()

    def jvp(x: Any) -> Any:
        return ad.jvp(f, (x,), (ad.ones_like(x),))[1]

    agrees(ad.grad(f) if mode == "grad" else jvp, numbers(4, 2))
    x = numbers(4, 2)
    assert_same(ad.grad(lambda x: ad.vmap(f)(x).sum())(x), loop(ad.grad(f), x))


def test_a_copy_is_not_tied_to_what_it_was_copied_from() -> None:
    def f(x: Any) -> Any:
        made = ad.zeros(2, 3, dtype=ad.float64)
        copy = made.t().reshape(6)
        copy[0] = x
        return made.sum() + copy.sum()

    agrees(f, numbers(4))


def test_out_of_range_dtype_and_shape_are_checked_on_writing() -> None:
    with pytest.raises(AdjointError):
        ad.vmap(lambda x: x.mul_(1.5))(ad.ones(3, dtype=ad.int64))
    with pytest.raises(ValueError, match="shape"):
        ad.vmap(lambda x: ad.zeros(()).add_(x))(ad.ones(3, 2))


def test_writing_to_a_tensor_from_outside_raises() -> None:
    w = ad.zeros(3)
    with pytest.raises(RuntimeError, match="outside vmap"):
        ad.vmap(lambda x: w.add_(x))(ad.ones(2))


# ---- randomness ---------------------------------------------------------------------------------

DRAWS: dict[str, Function] = {
    "rand": lambda x: ad.rand(3),
    "randn": lambda x: ad.randn(3),
    "randint": lambda x: ad.randint(0, 1000000, (3,)),
    "randperm": lambda x: ad.randperm(12),
    "rand_like": lambda x: ad.rand_like(x),
    "normal_": lambda x: ad.zeros(3).normal_(),
    "bernoulli": lambda x: ad.bernoulli(ad.full((64,), 0.5)),
    "of a batched p": lambda x: ad.bernoulli(x.expand(64) * 0 + 0.5),
    "uniform_": lambda x: x.clone().uniform_(),
    "normal": lambda x: ad.normal(x, 1.0),
    "poisson": lambda x: ad.poisson(x * 0 + 1e6),
    "multinomial": lambda x: ad.multinomial(ad.ones(50) + 0 * x.sum(), 12),
    "outside": lambda x: ad.rand_like(OUTSIDE),
    "exponential": lambda x: x.clone().exponential_(),
    "binomial": lambda x: ad.binomial(x.expand(9) * 0 + 1e6, x.expand(9) * 0 + 0.5),
    "gamma": lambda x: ad._standard_gamma(x + 0.5),
    "dirichlet": lambda x: ad._sample_dirichlet(x.expand(3) + 0.5),
    "dropout": lambda x: ad.nn.functional.dropout(x.expand(64) + 1, 0.5, True),
    "rrelu": lambda x: ad.rrelu(x - 1, training=True),
    "dropout of attention": lambda x: ad.ops.scaled_dot_product_attention(
        x.expand(64, 1), OUTSIDE[:, None], OUTSIDE[:, None] + 1, dropout_p=0.5
    ),
}
OUTSIDE = ad.zeros(3)


@pytest.mark.parametrize("name", DRAWS)
def test_randomness(name: str) -> None:
    f, x = DRAWS[name], ad.zeros(4, 1)
    with pytest.raises(AdjointError, match="randomness="):
        ad.vmap(f)(x)
    same = ad.vmap(f, randomness="same")(x)
    ad.manual_seed(3)
    different = ad.vmap(f, randomness="different")(x)
    ad.manual_seed(3)
    assert bool((ad.vmap(f, randomness="different")(x) == different).all())
    assert same.shape == different.shape
    assert all(bool((row == same[0]).all()) for row in same)
    assert not any(bool((different[i] == different[j]).all()) for i in range(4) for j in range(i))


def test_randperm_gives_permutations() -> None:
    drawn = ad.vmap(lambda x: ad.randperm(6), randomness="different")(ad.zeros(3))
    assert drawn.dtype is ad.int64
    assert [sorted(row) for row in drawn.tolist()] == [list(range(6))] * 3


def test_same_numbers_in_every_chunk() -> None:
    drawn = ad.vmap(lambda x: ad.rand(2), randomness="same", chunk_size=2)(ad.zeros(5))
    assert all(bool((row == drawn[0]).all()) for row in drawn)


def test_randomness_of_nested_vmaps() -> None:
    def f(x: Any) -> Any:
        return ad.vmap(lambda y: ad.rand(()), randomness="same")(ad.zeros(3))

    drawn = ad.vmap(f, randomness="different")(ad.zeros(2)).tolist()
    assert drawn[0][0] == drawn[0][1] == drawn[0][2] != drawn[1][0]


def test_random_numbers_inside_grad_inside_vmap() -> None:
    f = ad.grad(lambda x: (x * ad.rand(3)).sum())
    different = ad.vmap(f, randomness="different")(ad.zeros(4))
    assert len(set(different.tolist())) == 4
    assert len(set(ad.vmap(f, randomness="same")(ad.zeros(4)).tolist())) == 1


# ---- what is refused ----------------------------------------------------------------------------


@pytest.mark.parametrize(
    "f",
    [
        lambda x: x.item(),
        lambda x: x if x > 0 else -x,
        lambda x: float(x),
        lambda x: x.tolist(),
        lambda x: ad.zeros(int(x)),
    ],
)
def test_looking_at_values_raises(f: Function) -> None:
    with pytest.raises(RuntimeError, match=r"inside vmap.*where"):
        ad.vmap(f)(ad.ones(3))


@pytest.mark.parametrize(
    "f",
    [
        lambda x: x.nonzero(),
        lambda x: x[x > 0],
        lambda x: x.masked_select(x > 0),
        lambda x: ad.where(x > 0),
        lambda x: x.argwhere(),
        lambda x: ad.ones(4).repeat_interleave(x.long()),
    ],
)
def test_sizes_that_depend_on_values_raise(f: Function) -> None:
    with pytest.raises(DependsOnValues, match="inside vmap"):
        ad.vmap(f)(numbers(3, 4))


def test_repeat_interleave_and_nonzero_with_a_given_size() -> None:
    repeats = ad.tensor([[1, 0, 2], [0, 3, 0]])
    agrees(lambda r: ad.tensor([5.0, 6.0, 7.0]).repeat_interleave(r, output_size=3), repeats)
    agrees(lambda x: ad.ops.nonzero_static(x, size=5), numbers(4, 2, 3) > 0)


def test_sizes_must_agree() -> None:
    with pytest.raises(ValueError, match=r"must have one size"):
        ad.vmap(lambda a, b: a + b)(ad.ones(2), ad.ones(3))


def test_in_dims_out_of_range() -> None:
    with pytest.raises(ValueError, match=r"in_dims=2"):
        ad.vmap(lambda a: a, in_dims=2)(ad.ones(2, 2))


def test_in_dims_for_something_that_has_no_dimensions() -> None:
    with pytest.raises((ValueError, TypeError), match="vmap"):
        ad.vmap(lambda a, n: a * n, in_dims=(0, 0))(ad.ones(2), 3.0)


def test_in_dims_all_None() -> None:
    with pytest.raises(ValueError, match="no argument is mapped"):
        ad.vmap(lambda a: a, in_dims=(None,))(ad.ones(2))


def test_in_dims_of_another_structure() -> None:
    with pytest.raises(AdjointError, match="in_dims"):
        ad.vmap(lambda a, b: a, in_dims=(0, 0, 0))(ad.ones(2), ad.ones(2))


def test_out_dims_out_of_range() -> None:
    with pytest.raises(ValueError, match="out_dims=3"):
        ad.vmap(lambda a: a, out_dims=3)(ad.ones(2, 2))


def test_out_dims_None_for_a_batched_result() -> None:
    with pytest.raises(ValueError, match="out_dims is None"):
        ad.vmap(lambda a: a, out_dims=None)(ad.ones(2))


def test_out_dims_of_another_structure() -> None:
    with pytest.raises(AdjointError, match="out_dims"):
        ad.vmap(lambda a: (a, a), out_dims=(0, 0, 0))(ad.ones(2))


def test_results_must_be_tensors() -> None:
    with pytest.raises(TypeError, match="must return tensors"):
        ad.vmap(lambda a: "text")(ad.ones(2))


def test_unknown_randomness_and_chunk_size() -> None:
    with pytest.raises(TypeError, match="randomness"):
        ad.vmap(lambda a: a, randomness="some")
    with pytest.raises(TypeError, match="chunk_size"):
        ad.vmap(lambda a: a, chunk_size=0)


def test_called_without_arguments() -> None:
    with pytest.raises(TypeError, match="without arguments"):
        ad.vmap(lambda: 1)()


# ---- the rules ----------------------------------------------------------------------------------


def test_no_row_runs_as_a_loop() -> None:
    rows = list(ad.table.TABLE.rows())
    assert [row.full_name for row in rows if batch.rule_of(row)[0] == "loop"] == []


def test_every_batch_column_names_a_function() -> None:
    for row in ad.table.TABLE.rows():
        kind, rule = batch.rule_of(row)
        if "batch" in row.texts:
            assert kind == "own"
            assert callable(rule)


def test_a_row_without_a_rule_runs_as_a_loop_with_a_warning() -> None:
    row = ad.table.TABLE.row("mm", "")
    op = ad.ops.mm.default
    x = numbers(3, 2, 2)
    given = batch.Batch(op, 3, (True, False), (2, 2))
    with pytest.warns(UserWarning, match="runs as a loop"):
        got = batch.looped(given, x, x[0])
    assert batch.LOOPED.pop(row.full_name) == 1
    assert_same(got, x @ x[0])


def test_rules_give_no_warnings() -> None:
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        agrees(lambda x: (x @ x.t()).sum(0).cumsum(0)[ad.tensor([1, 0])], numbers(3, 2, 2))


# ---- random programs ----------------------------------------------------------------------------


def run_program(a: Any, b: Any, steps: list[programs.Step]) -> Any:
    """Run a program on a pool of which some are batched and some are made inside."""
    made = [ad.zeros(3, 3, dtype=ad.float64), ad.tensor([0.5, -1.0, 2.0], dtype=ad.float64)]
    pool = [a * 1.0, b * 2.0, *made, a.clone()]
    return ad.cat([t.reshape(-1) for t in programs.run(pool, steps)])


@pytest.mark.parametrize("block", range(6))
def test_programs_of_views_and_writes_equal_the_loop(block: int) -> None:
    for seed in range(block * 15, (block + 1) * 15):
        a, b = numbers(4, 3, 3, seed=seed), numbers(4, 3, seed=seed + 1)
        steps = programs.possible(seed, lambda steps, a=a[0], b=b[0]: run_program(a, b, steps))
        check_program(steps, a, b)


def check_program(steps: list[programs.Step], a: Any, b: Any) -> None:
    """vmap(f), vmap(grad(f)) and grad(vmap(f)), unless the tape refuses the gradient."""

    def f(a: Any, b: Any) -> Any:
        return run_program(a, b, steps)

    def slope(a: Any, b: Any) -> Any:
        return ad.grad(lambda a, b: f(a, b).square().sum(), argnums=(0, 1))(a, b)[0]

    agrees(f, a, b)
    try:
        expected = loop(slope, a, b).numpy()
    except RuntimeError:  # of the loop, which does without vmap
        return
    inside = ad.vmap(slope)(a, b)
    outside = ad.grad(lambda a: ad.vmap(f)(a, b).square().sum())(a)
    np.testing.assert_allclose(inside.numpy(), expected, rtol=1e-9, atol=1e-12)
    np.testing.assert_allclose(outside.numpy(), expected, rtol=1e-9, atol=1e-12)
