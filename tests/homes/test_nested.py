"""Nested tensors: components of different sizes, their operators, derivatives and errors."""

from __future__ import annotations

import copy
import pickle
from typing import Any

import numpy as np
import pytest

import adjoint as ad

F = ad.nn.functional
LAYOUTS = (ad.strided, ad.jagged)


def parts(*shapes: tuple[int, ...], seed: int = 0) -> list[Any]:
    generator = np.random.default_rng(seed)
    return [ad.from_numpy(generator.standard_normal(shape)) for shape in shapes]


ROWS = parts((2, 3), (3, 3), (1, 3))
LISTS: dict[str, list[Any]] = {
    "rows": ROWS,
    "an empty one": parts((2, 3), (0, 3)),
    "vectors": parts((2,), (4,)),
    "heads": parts((2, 3, 2), (1, 3, 2)),
}
FLAT = parts((2, 3), (3, 1), (1, 1))


def nest(components: Any, layout: Any) -> Any:
    return ad.nested.as_nested_tensor(components, layout=layout)


def check(nested: Any, expected: Any) -> None:
    """The components of a nested tensor are these; a dense one is these, stacked."""
    found = list(nested.unbind(0))
    assert len(found) == len(expected)
    for a, b in zip(found, expected, strict=True):
        assert tuple(a.shape) == tuple(b.shape)
        assert a.dtype is b.dtype
        assert ad.allclose(a, b, equal_nan=True)


# --- what they are --------------------------------------------------------------------------------


@pytest.mark.parametrize("layout", LAYOUTS)
@pytest.mark.parametrize("name", LISTS)
def test_a_nested_tensor_holds_its_components(name, layout):
    given = LISTS[name]
    x = nest(given, layout)
    check(x, given)
    assert (x.is_nested, x.layout, len(x), x.size(0)) == (True, layout, len(given), len(given))
    assert x.dim() == x.ndim == given[0].ndim + 1
    assert x.numel() == sum(c.numel() for c in given)
    assert x.dtype is ad.float64
    for i, c in enumerate(given):
        assert x[i].tolist() == x.select(0, i).tolist() == c.tolist()
        assert tuple(x[i - len(given)].shape) == tuple(c.shape)
    assert [tuple(c.shape) for c in x] == [tuple(c.shape) for c in given]


def test_the_shape_has_a_size_that_is_no_number():
    x, y = nest(ROWS, ad.jagged), nest(ROWS, ad.strided)
    assert x.shape[0] == 3
    assert x.shape[2] == x.size(-1) == 3
    assert x.shape == y.shape == (x + 1).shape
    assert x.shape != nest(ROWS[::-1], ad.jagged).shape
    assert repr(x.size(1)).startswith("j")
    for use in (int, range, lambda j: j + 1, lambda j: 2 * j, lambda j: j < 3):
        with pytest.raises(ValueError, match=r"components of a nested tensor differ \(2, 3, 1\)"):
            use(x.size(1))


def test_they_print_as_in_pytorch():
    x = ad.nested.nested_tensor([ad.tensor([[1.0, 2.0]]), ad.tensor([[3.0, 4.0], [5.0, 6.0]])])
    assert repr(x) == (
        "nested_tensor([\n  tensor([[1., 2.]]),\n  tensor([[3., 4.],\n          [5., 6.]])\n])"
    )
    y = ad.nested.nested_tensor(list(x.unbind()), layout=ad.jagged, requires_grad=True)
    size = f"(2, {y.size(1)!r}, 2)"
    text = f"NestedTensor(size={size}, offsets=tensor([0, 1, 3]), contiguous=True"
    assert repr(y) == text + ", requires_grad=True)"
    assert repr(y * 2) == text + ", grad_fn=<MulBackward0>)"
    assert repr(x.requires_grad_()).endswith("\n], requires_grad=True)")


def test_values_offsets_and_lengths():
    x = nest(ROWS, ad.jagged)
    assert x.values().tolist() == np.concatenate([c.numpy() for c in ROWS]).tolist()
    assert x.offsets().tolist() == [0, 2, 5, 6]
    assert x.lengths() is None
    assert nest(ROWS, ad.strided).values().shape == (18,)
    gaps = ad.nested.nested_tensor_from_jagged(
        ad.arange(6.0), ad.tensor([0, 3, 6]), ad.tensor([1, 2])
    )
    assert gaps.lengths().tolist() == [1, 2]
    assert not gaps.is_contiguous()
    assert [c.tolist() for c in gaps] == [[0.0], [3.0, 4.0]]
    assert gaps.contiguous().values().tolist() == [0.0, 3.0, 4.0]
    assert gaps.sum().item() == 7.0


def test_components_that_differ_in_several_dimensions_are_strided():
    x = nest(FLAT, ad.strided)
    check(x, FLAT)
    check(x.sin() * 2 + x, [c.sin() * 2 + c for c in FLAT])
    check(x.softmax(-1), [c.softmax(-1) for c in FLAT])
    check(x.transpose(1, 2), [c.t() for c in FLAT])
    check(x @ x.transpose(1, 2), [c @ c.t() for c in FLAT])
    check(x.sum(1, keepdim=True), [c.sum(0, keepdim=True) for c in FLAT])
    assert x.sum().item() == pytest.approx(sum(c.sum().item() for c in FLAT))
    with pytest.raises(ValueError, match=r"differ in 2 .*layout=ad\.strided"):
        nest(FLAT, ad.jagged)


def test_they_are_copied_and_pickled():
    x = nest(ROWS, ad.jagged)
    for made in (pickle.loads(pickle.dumps(x)), copy.deepcopy(x), copy.copy(x), x.clone()):
        assert made.layout is ad.jagged
        assert made.shape == x.shape
        check(made, ROWS)


# --- operators: as on each component --------------------------------------------------------------

W, B = parts((3, 4), (4,), seed=1)
DENSE = parts((3, 1, 3), (3,), (1, 1, 3), (3, 1, 1), seed=2)
EACH: dict[str, Any] = {
    "sin": lambda x: x.sin(),
    "number": lambda x: 2 * x + 1,
    "both": lambda x: x * x - x / (x * x + 1),
    "silu": F.silu,
    "gelu": F.gelu,
    "compare": lambda x: x > 0,
    "where": lambda x: ad.where(x > 0, x, -x),
    "masked_fill": lambda x: x.masked_fill(x > 0, 0),
    "cast": lambda x: x.to(ad.float32),
    "zeros": ad.zeros_like,
    "linear": lambda x: F.linear(x, W.t(), B),
    "matmul": lambda x: x @ W,
    "matvec": lambda x: x @ W[:, 0],
    "layer_norm": lambda x: F.layer_norm(x, (3,), W[:, 0], W[:, 1]),
    "rms_norm": lambda x: F.rms_norm(x, (3,), W[:, 0]),
    "softmax": lambda x: x.softmax(-1),
    "log_softmax": lambda x: x.log_softmax(-1),
    "cumsum": lambda x: x.cumsum(-1),
    "sum last": lambda x: x.sum(-1),
    "sum last kept": lambda x: x.sum(-1, keepdim=True),
    "max last": lambda x: x.max(-1)[0],
    "sort": lambda x: x.sort(-1)[1],
    "select last": lambda x: x.select(-1, 1),
    "index last": lambda x: x[..., 1:],
    "narrow": lambda x: x.narrow(-1, 0, 2),
    "unsqueeze": lambda x: x.unsqueeze(-1),
    "squeeze": lambda x: x.unsqueeze(-1).squeeze(-1),
    "dropout of nothing": lambda x: F.dropout(x, 0.0),
    "flip": lambda x: x.flip(-1),
    "normalize": lambda x: F.normalize(x, dim=-1),
}  # fmt: skip
ALONG: dict[str, Any] = {  # along dimension 1, in which the components differ
    "softmax": lambda x, d: x.softmax(d),
    "log_softmax": lambda x, d: x.log_softmax(d),
    "cumsum": lambda x, d: x.cumsum(d),
    "sort": lambda x, d: x.sort(d)[0],
    "flip": lambda x, d: x.flip(d),
}
REDUCED: dict[str, Any] = {
    "sum": lambda x, d: x.sum(d),
    "sum kept": lambda x, d: x.sum(d, keepdim=True),
    "mean": lambda x, d: x.mean(d),
    "amax": lambda x, d: x.amax(d),
    "amin kept": lambda x, d: x.amin(d, keepdim=True),
    "prod": lambda x, d: x.prod(d),
    "max": lambda x, d: x.max(d)[1],
    "all": lambda x, d: (x > 0).all(d),
    "argmax": lambda x, d: x.argmax(d),
    "logsumexp": lambda x, d: x.logsumexp(d),
    "var": lambda x, d: (x + x).var(d, correction=0),
}


@pytest.mark.parametrize("layout", LAYOUTS)
@pytest.mark.parametrize("name", EACH)
def test_an_operator_is_that_of_each_component(name, layout):
    function = EACH[name]
    result = function(nest(ROWS, layout))
    check(result, [function(c) for c in ROWS])
    assert result.layout is layout


@pytest.mark.parametrize("layout", LAYOUTS)
@pytest.mark.parametrize("name", ALONG)
def test_an_operator_along_the_ragged_dimension_stays_inside_components(name, layout):
    check(ALONG[name](nest(ROWS, layout), 1), [ALONG[name](c, 0) for c in ROWS])


@pytest.mark.parametrize("name", REDUCED)
def test_a_reduction_of_the_ragged_dimension_is_dense(name):
    result = REDUCED[name](nest(ROWS, ad.jagged), 1)
    assert not result.is_nested
    check(result, [REDUCED[name](c, 0) for c in ROWS])


@pytest.mark.parametrize("name", ["sum", "mean", "prod", "amax", "std", "norm", "any", "all"])
def test_a_reduction_of_everything_is_that_of_the_values(name):
    x = nest(ROWS, ad.jagged)
    values = ad.cat(ROWS)
    assert getattr(x, name)().item() == pytest.approx(getattr(values, name)().item())


@pytest.mark.parametrize("number", range(len(DENSE)))
def test_dense_tensors_broadcast_to_components(number):
    dense, x = DENSE[number], nest(ROWS, ad.jagged)
    whole = dense.expand(3, 1, 3)
    check(x + dense, [c + w for c, w in zip(ROWS, whole, strict=True)])
    check(dense * x, [c * w for c, w in zip(ROWS, whole, strict=True)])


def test_a_dense_tensor_may_be_padded_to_the_longest_component():
    (dense,) = parts((3, 3, 3))
    x = nest(ROWS, ad.jagged)
    check(x + dense, [c + d[: len(c)] for c, d in zip(ROWS, dense, strict=True)])


def test_products_with_batches_and_with_nested_tensors():
    (dense,) = parts((3, 3, 2))
    for layout in LAYOUTS:
        x = nest(ROWS, layout)
        check(x @ dense, [c @ d for c, d in zip(ROWS, dense, strict=True)])
        check(ad.bmm(x, dense), [c @ d for c, d in zip(ROWS, dense, strict=True)])
        check(x @ x.transpose(1, 2), [c @ c.t() for c in ROWS])
        check(ad.bmm(x.transpose(1, 2), x), [c.t() @ c for c in ROWS])
        check(W.t() @ x.transpose(1, 2), [W.t() @ c.t() for c in ROWS])


def test_shapes_beside_the_ragged_dimension():
    x = nest(LISTS["heads"], ad.jagged)
    given = LISTS["heads"]
    check(x.transpose(1, 2), [c.transpose(0, 1) for c in given])
    check(x.transpose(1, 2).transpose(-1, 1), [c.transpose(0, 1).transpose(-1, 0) for c in given])
    check(x.permute(0, 3, 1, 2), [c.permute(2, 0, 1) for c in given])
    check(x.flatten(2), [c.flatten(1) for c in given])
    check(x.reshape(2, -1, 6), [c.flatten(1) for c in given])
    check(x.view(2, x.size(1), 6), [c.flatten(1) for c in given])
    check(x.unflatten(-1, (2, 1)), [c.unflatten(-1, (2, 1)) for c in given])
    check(x.unsqueeze(1), [c.unsqueeze(0) for c in given])
    check(
        x.unsqueeze(-1).expand(2, x.size(1), 3, 2, 4),
        [c.unsqueeze(-1).expand(*c.shape, 4) for c in given],
    )
    check(ad.cat([x, x], -1), [ad.cat([c, c], -1) for c in given])
    check(ad.cat([x, x], 0), given + given)
    check(ad.cat([x, x], 1), [ad.cat([c, c], 0) for c in given])
    check(x.chunk(3, 2)[1], [c.chunk(3, 1)[1] for c in given])
    check(x.transpose(1, 2).sum(1), [c.sum(1) for c in given])
    check(x.transpose(1, 2).contiguous(), [c.transpose(0, 1) for c in given])
    check(x[1:], given[1:])
    check(x[:, 0], [c[0] for c in given])


def test_embedding_of_nested_indices():
    weight = parts((5, 2))[0].requires_grad_()
    index = [ad.tensor([0, 4]), ad.tensor([1, 1, 2])]
    result = F.embedding(nest(index, ad.jagged), weight)
    check(result, [weight[i] for i in index])
    result.sum().backward()
    assert weight.grad[:, 0].tolist() == [1.0, 2.0, 1.0, 0.0, 1.0]


def test_attention_stays_inside_each_sequence():
    q, k, v = (parts((2, 4, 3), (1, 4, 3), (3, 4, 3), seed=s) for s in range(3))
    longer = [parts((n, 4, 3), seed=n)[0] for n in (3, 2, 1)]
    for layout in LAYOUTS:
        nq, nk, nv, nl = (nest(x, layout).transpose(1, 2) for x in (q, k, v, longer))
        for options in ({}, {"is_causal": True}, {"scale": 0.3}):
            found = F.scaled_dot_product_attention(nq, nk, nv, **options)
            check(found, [
                F.scaled_dot_product_attention(*(x.transpose(0, 1) for x in xs), **options)
                for xs in zip(q, k, v, strict=True)
            ])  # fmt: skip
        check(F.scaled_dot_product_attention(nl, nk, nv), [
            F.scaled_dot_product_attention(*(x.transpose(0, 1) for x in xs))
            for xs in zip(longer, k, v, strict=True)
        ])  # fmt: skip
    shared = nest([x[:, :2] for x in k], ad.jagged).transpose(1, 2)
    found = F.scaled_dot_product_attention(nq, shared, shared, enable_gqa=True)
    whole = [F.scaled_dot_product_attention(
        a.transpose(0, 1), b[:, :2].transpose(0, 1), b[:, :2].transpose(0, 1), enable_gqa=True
    ) for a, b in zip(q, k, strict=True)]  # fmt: skip
    check(found, whole)


def test_attention_of_sequences_has_derivatives():
    given = tuple(parts((2, 2, 3), (3, 2, 3), seed=7))

    def attend(a, b):
        x = nest([a, b], ad.jagged).transpose(1, 2)
        return F.scaled_dot_product_attention(x, x.sin(), x * x, is_causal=True).sin().sum()

    def separately(a, b):
        each = (x.transpose(0, 1) for x in (a, b))
        return sum(
            F.scaled_dot_product_attention(x, x.sin(), x * x, is_causal=True).sin().sum()
            for x in each
        )

    for a, b in zip(
        ad.grad(attend, (0, 1))(*given), ad.grad(separately, (0, 1))(*given), strict=True
    ):
        assert ad.allclose(a, b)
    assert ad.allclose(ad.jvp(attend, given, given)[1], ad.jvp(separately, given, given)[1])
    assert ad.allclose(ad.hessian(attend)(*given), ad.hessian(separately)(*given))


def test_random_numbers_and_dropout_are_of_the_same_components():
    x = nest(ROWS, ad.jagged)
    assert ad.randn_like(x).shape == x.shape
    ad.manual_seed(0)
    kept = F.dropout(ad.ones_like(x), 0.5)
    assert kept.shape == x.shape
    assert set(kept.values().flatten().tolist()) == {0.0, 2.0}


def test_writes_in_place_go_to_the_components():
    x = ad.nested.nested_tensor(ROWS, layout=ad.jagged)
    assert x.mul_(2).add_(x.clone()) is x
    check(x, [4 * c for c in ROWS])
    x[1] = 0
    assert x.values()[2:5].abs().sum().item() == 0
    x.zero_()
    assert x.sum().item() == 0


# --- between nested and dense ---------------------------------------------------------------------


@pytest.mark.parametrize("layout", LAYOUTS)
def test_padding_there_and_back(layout):
    x = nest(ROWS, layout)
    padded = ad.nested.to_padded_tensor(x, -1.0)
    assert padded.shape == (3, 3, 3)
    for row, c in zip(padded, ROWS, strict=True):
        assert ad.allclose(row[: len(c)], c)
        assert (row[len(c) :] == -1).all()
    assert x.to_padded_tensor(0.0, (3, 5, 3)).shape == (3, 5, 3)
    assert x.transpose(1, 2).to_padded_tensor(0.0).shape == (3, 3, 3)
    sizes = ad.tensor([[2, 3], [3, 3], [1, 3]])
    check(ad.ops._nested_from_padded(padded, sizes), ROWS)


def test_pieces_of_a_dense_tensor():
    (dense,) = parts((3, 4, 2))
    starts, lengths = ad.tensor([0, 1, 2]), ad.tensor([4, 0, 2])
    expected = [d[a : a + n] for d, a, n in zip(dense, [0, 1, 2], [4, 0, 2], strict=True)]
    for layout in LAYOUTS:
        check(ad.nested.narrow(dense, 1, starts, lengths, layout), expected)
    view = ad.nested.narrow(dense, 1, starts, lengths, ad.jagged)
    check(view + view, [c + c for c in expected])
    check(view * view.contiguous(), [c * c for c in expected])
    check(view + dense[:, :1], [c + d[:1] for c, d in zip(expected, dense, strict=True)])


def test_what_a_mask_selects():
    (dense,) = parts((2, 3))
    mask = ad.tensor([[True, False, True], [False, False, True]])
    check(ad.nested.masked_select(dense, mask), [dense[0][mask[0]], dense[1][mask[1]]])


def test_a_jagged_view_shares_memory_with_its_values():
    values = ad.zeros(4)
    x = ad.nested.nested_tensor_from_jagged(values, lengths=ad.tensor([1, 3]))
    x.add_(1)
    assert values.tolist() == [1.0] * 4


# --- derivatives ----------------------------------------------------------------------------------


def loss(a: Any, b: Any, w: Any) -> Any:
    x = ad.nested.as_nested_tensor([a, b], layout=ad.jagged)
    y = F.layer_norm((x @ w).softmax(1) * x.sum(-1, keepdim=True), (4,))
    return (y.to_padded_tensor(0.5).cumsum(1) ** 2).sum() + (
        x.sin() * x.amax(1, keepdim=True)
    ).sum()


def dense_loss(a: Any, b: Any, w: Any) -> Any:
    total = 0
    size = max(len(a), len(b))
    for x in (a, b):
        y = F.layer_norm((x @ w).softmax(0) * x.sum(-1, keepdim=True), (4,))
        padded = ad.cat([y, y.new_full((size - len(y), 4), 0.5)])
        total = total + (padded.cumsum(0) ** 2).sum() + (x.sin() * x.amax(0, keepdim=True)).sum()
    return total


def test_derivatives_in_the_constituents_in_every_mode():
    given = (ROWS[0], ROWS[1], W)
    tangents = tuple(parts((2, 3), (3, 3), (3, 4), seed=5))
    every = (0, 1, 2)
    assert ad.allclose(loss(*given), dense_loss(*given))
    for a, b in zip(ad.grad(loss, every)(*given), ad.grad(dense_loss, every)(*given), strict=True):
        assert ad.allclose(a, b)
    for f, g in ((loss, dense_loss), (ad.grad(loss), ad.grad(dense_loss))):
        assert ad.allclose(ad.jvp(f, given, tangents)[1], ad.jvp(g, given, tangents)[1])
    assert ad.allclose(ad.hessian(loss)(*given), ad.hessian(dense_loss)(*given))
    leaves = tuple(t.clone().requires_grad_() for t in given)
    assert ad.autograd.gradcheck(loss, leaves)
    assert ad.autograd.gradgradcheck(loss, leaves)


def test_derivatives_are_batched_traced_and_compiled():
    a, b, w = ROWS[0], ROWS[1], W
    batch = ad.stack([a, 2 * a])
    mapped = ad.vmap(lambda a: loss(a, b, w))(batch)
    assert ad.allclose(mapped, ad.stack([loss(a, b, w), loss(2 * a, b, w)]))
    graph = ad.trace(loss, a, b, w)
    assert ad.allclose(graph(a, b, w), loss(a, b, w))
    fast = ad.compile(ad.grad(loss))
    assert ad.allclose(fast(a, b, w), ad.grad(loss)(a, b, w))


def test_nested_tensors_are_arguments_and_results_of_transforms():
    x = ad.nested.nested_tensor(ROWS, layout=ad.jagged)
    f = lambda x: (x.sin() * x).sum()
    expected = [ad.grad(lambda c: (c.sin() * c).sum())(c) for c in ROWS]
    check(ad.grad(f)(x), expected)
    check(ad.compile(ad.grad(f))(x), expected)
    out, pull = ad.vjp(lambda x: x * x, x)
    check(out, [c * c for c in ROWS])
    check(pull(x)[0], [2 * c * c for c in ROWS])
    _, tangent = ad.jvp(lambda x: x * x, (x,), (x,))
    check(tangent, [2 * c * c for c in ROWS])


def test_leaves_and_their_gradients():
    x = ad.nested.nested_tensor(ROWS, requires_grad=True)
    assert x.requires_grad
    assert x.is_leaf
    assert x.grad is None
    y = x * x
    y.retain_grad()
    assert not y.is_leaf
    assert y.grad_fn.name() == "MulBackward0"
    seen = []
    y.register_hook(lambda g: seen.append(g.is_nested))
    y.sum().backward()
    check(x.grad, [2 * c for c in ROWS])
    check(y.grad, [ad.ones_like(c) for c in ROWS])
    assert seen == [True]
    (x * 3).backward(x.detach())
    check(x.grad, [5 * c for c in ROWS])
    (g,) = ad.autograd.grad((x**3).sum(), x, create_graph=True)
    (h,) = ad.autograd.grad(g, x, g.detach())
    check(h, [18 * c**3 for c in ROWS])
    x.grad = None
    assert x.grad is None
    assert not x.detach().requires_grad


def test_gradients_reach_the_constituents():
    given = [c.clone().requires_grad_() for c in ROWS]
    for layout in LAYOUTS:
        nest(given, layout).sum(-1).sin().sum().backward()
    for c in given:
        assert ad.allclose(c.grad, 2 * c.sum(-1, keepdim=True).cos().expand(c.shape))
    made = ad.nested.nested_tensor(given)
    assert not made.requires_grad


# --- errors ---------------------------------------------------------------------------------------


def rows() -> Any:
    return nest(ROWS, ad.jagged)


def jagged(*args: Any, **keywords: Any) -> Any:
    return ad.nested.nested_tensor_from_jagged(*args, **keywords)


def offsets(*numbers: int) -> Any:
    return ad.tensor(numbers)


@pytest.mark.parametrize(
    ("call", "error", "message"),
    [
        (
            lambda: jagged(ad.ones(5), offsets(0, 3, 2, 5)),
            ValueError,
            r"must not fall, and number 2 is 2 after 3; sort",
        ),
        (
            lambda: jagged(ad.ones(5), offsets(1, 5)),
            ValueError,
            "begin with 0, got 1",
        ),
        (
            lambda: jagged(ad.ones(5), offsets(0, 6)),
            IndexError,
            "last offset is 6, and the values have only 5",
        ),
        (
            lambda: jagged(ad.ones(5), offsets(0, 3, 5), offsets(1)),
            ValueError,
            "1 lengths for 2 components",
        ),
        (
            lambda: jagged(ad.ones(5), offsets(0, 3, 5), offsets(1, 3)),
            IndexError,
            "component 1 begins at 3 and has length 3",
        ),
        (
            lambda: jagged(ad.ones(5), lengths=offsets(6, -1)),
            ValueError,
            "must not fall",
        ),
        (
            lambda: jagged(ad.ones(5), ad.tensor([0.0, 5.0])),
            TypeError,
            "whole numbers, got float32",
        ),
        (
            lambda: jagged(ad.ones(5)),
            TypeError,
            "needs offsets, lengths, or both",
        ),
        (
            lambda: jagged(ad.ones(5), offsets(0, 5), jagged_dim=2),
            IndexError,
            "must be 1 to 1, got 2",
        ),
        (
            lambda: ad.nested.nested_tensor([ad.ones(2), ad.ones(2, 2)]),
            ValueError,
            "equally many dimensions, got 2, 2×2",
        ),
        (
            lambda: ad.nested.nested_tensor(ad.ones(2)),
            TypeError,
            "needs a list of tensors",
        ),
        (
            lambda: ad.nested.nested_tensor([ad.ones(2)], layout=ad.sparse_coo),
            TypeError,
            "must be ad.strided or ad.jagged",
        ),
        (
            lambda: rows() + nest(ROWS[::-1], ad.jagged),
            ValueError,
            r"same sizes, got 2×3, 3×3, 1×3 and 1×3, 3×3, 2×3",
        ),
        (
            lambda: rows() + ad.ones(2, 1, 3),
            ValueError,
            "does not broadcast",
        ),
        (
            lambda: rows().sum(0),
            IndexError,
            "dim=.0,. of a nested tensor.*use unbind",
        ),
        (
            lambda: rows().transpose(0, 1),
            IndexError,
            "use unbind",
        ),
        (
            lambda: rows().reshape(3, -1),
            ValueError,
            "the ragged one is -1",
        ),
        (
            lambda: rows().numpy(),
            ValueError,
            "not one array: use values",
        ),
        (
            lambda: rows().transpose(1, 2) @ W,
            ValueError,
            "last 1 dimensions",
        ),
        (
            lambda: rows().repeat(1, 1, 2),
            NotImplementedError,
            "repeat does not take nested tensors; use unbind",
        ),
        (
            lambda: nest(ROWS, ad.strided).to_padded_tensor(0.0, (3, 1, 3)),
            ValueError,
            "3×1×3 does not hold .* 3×3×3",
        ),
        (
            lambda: ad.ones(3, 3, 3).to_padded_tensor(0.0),
            ValueError,
            "needs a nested tensor",
        ),
        (
            lambda: ad.vmap(lambda x: x.sum())(rows()),
            ValueError,
            "vmap cannot take nested tensors apart",
        ),
        (
            lambda: rows()[5],
            IndexError,
            "there are 3 components, and no number 5",
        ),
        (
            lambda: ad.ops._nested_tensor_from_mask(ad.ones(1, 2, 1), ad.tensor([[False, True]])),
            ValueError,
            "all True must come first",
        ),
        (
            lambda: ad.ops._nested_from_padded(ad.ones(1, 2, 1), ad.tensor([[3, 1]])),
            ValueError,
            "3×1 does not lie inside the padded 2×1",
        ),
        (
            lambda: F.scaled_dot_product_attention(rows(), rows(), rows(), ad.ones(3, 3)),
            ValueError,
            "take no attn_mask",
        ),
        (
            lambda: F.scaled_dot_product_attention(rows(), rows(), W),
            ValueError,
            "value must be nested",
        ),
        (
            lambda: ad.ones(2, 3).add_(rows()),
            ValueError,
            "cannot be written to a dense one",
        ),
    ],
)
def test_errors_say_what_is_wrong(call, error, message):
    with pytest.raises(error, match=message):
        call()


def test_a_failed_call_leaves_its_arguments():
    values = ad.arange(5.0)
    with pytest.raises(ValueError, match="must not fall"):
        ad.nested.nested_tensor_from_jagged(values, offsets(0, 3, 2, 5))
    assert values.tolist() == [0.0, 1.0, 2.0, 3.0, 4.0]
