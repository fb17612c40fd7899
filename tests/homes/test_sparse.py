"""Sparse tensors: structure, derivatives, arithmetic, gradients of embeddings, and what is refused.

The laws (test_laws.py) check the rows; here is what no row says: tensors as leaves and as arguments
of transforms, layouts of results and gradients, texts, and errors.
"""

from __future__ import annotations

import copy
import pickle
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import adjoint as ad
from adjoint.c_kernels import sparse as native
from adjoint.core.errors import (
    AdjointError,
    ArgumentError,
    DependsOnValues,
    DtypeError,
    IndexOutOfRange,
    InplaceError,
    LinAlgError,
    ShapeError,
    ValueRangeError,
)
from adjoint.kernels import sparse as kernels
from adjoint.ops import binding
from adjoint.table import TABLE

INDICES = [[0, 1, 1, 0], [2, 0, 2, 2]]  # two elements at (0, 2)
VALUES = [3.0, -4.0, 5.0, 1.5]
DENSE = np.array([[0, 0, 4.5], [-4, 0, 5]])
LAYOUTS = ("sparse_coo", "sparse_csr", "sparse_csc", "sparse_bsr", "sparse_bsc")


def matrix(**options: Any) -> Any:
    return ad.sparse_coo_tensor(INDICES, VALUES, (2, 3), dtype=ad.float64, **options)


def in_layout(layout: str) -> Any:
    blocks = {"blocksize": (2, 3)} if layout.startswith("sparse_b") else {}
    return matrix().to_sparse(layout=layout, **blocks)


def right() -> Any:
    return ad.tensor(np.arange(6.0).reshape(3, 2) + 1)


def product(values: Any) -> Any:
    """A function of values that makes a sparse tensor and uses it."""
    return (ad.sparse_coo_tensor(INDICES, values, (2, 3)) @ right()).sin().sum()


def product_densely(values: Any) -> Any:
    """The same without sparse tensors."""
    places = ad.tensor(INDICES)
    dense = ad.zeros(2, 3, dtype=ad.float64).index_put((places[0], places[1]), values, True)
    return (dense @ right()).sin().sum()


# ---- structure ----------------------------------------------------------------------------------


@pytest.mark.parametrize("layout", LAYOUTS)
def test_every_layout_holds_the_same_elements(layout: str) -> None:
    tensor = in_layout(layout)
    assert tensor.layout is getattr(ad, layout)
    assert np.array_equal(tensor.to_dense().numpy(), DENSE)
    assert tensor.is_sparse == (layout == "sparse_coo")
    for other in LAYOUTS:
        blocks = {"blocksize": (1, 3)} if other.startswith("sparse_b") else {}
        again = tensor.to_sparse(layout=other, **blocks)
        assert again.layout == other
        assert np.array_equal(again.to_dense().numpy(), DENSE)


def test_parts_of_a_tensor() -> None:
    rows = matrix().to_sparse_csr()
    assert rows.crow_indices().tolist() == [0, 1, 3]
    assert rows.col_indices().tolist() == [2, 0, 2]
    assert rows.values().tolist() == [4.5, -4, 5]
    columns = matrix().to_sparse_csc()
    assert columns.ccol_indices().tolist() == [0, 1, 1, 3]
    assert columns.row_indices().tolist() == [1, 0, 1]
    once = matrix().coalesce()
    assert once.indices().tolist() == [[0, 1, 1], [2, 0, 2]]
    assert (once._nnz(), once.sparse_dim(), once.dense_dim()) == (3, 2, 0)
    assert not matrix().is_coalesced()
    assert once.is_coalesced()
    assert once.coalesce() is once


def test_dense_dimensions_follow_sparse_ones() -> None:
    tensor = ad.sparse_coo_tensor([[2, 0, 2]], [[1.0, 2.0], [3.0, 4.0], [5.0, 6.0]])
    assert tensor.shape == (3, 2)
    assert (tensor.sparse_dim(), tensor.dense_dim()) == (1, 1)
    assert tensor.to_dense().tolist() == [[3, 4], [0, 0], [6, 8]]
    assert ad.ones(2, 3, 2).to_sparse(1).dense_dim() == 2


def test_a_batch_of_matrices() -> None:
    dense = ad.tensor([[[1.0, 0.0], [0.0, 2.0]], [[0.0, 3.0], [4.0, 0.0]]])
    tensor = dense.to_sparse_csr()
    assert tensor.crow_indices().tolist() == [[0, 1, 2], [0, 1, 2]]
    assert ad.equal(tensor.to_dense(), dense)
    assert ad.equal(tensor @ dense, dense @ dense)


def test_text_is_that_of_pytorch() -> None:
    assert repr(ad.sparse_coo_tensor([[0, 1], [2, 0]], [3.0, 4.0], (2, 3))) == (
        "tensor(indices=tensor([[0, 1],\n"
        "                       [2, 0]]),\n"
        "       values=tensor([3., 4.]),\n"
        "       size=(2, 3), nnz=2, layout=ad.sparse_coo)"
    )
    assert repr(ad.sparse_csr_tensor([0, 1, 2], [0, 1], [1.0, 2.0], requires_grad=True)) == (
        "tensor(crow_indices=tensor([0, 1, 2]),\n"
        "       col_indices=tensor([0, 1]),\n"
        "       values=tensor([1., 2.]), size=(2, 2), nnz=2, layout=ad.sparse_csr,\n"
        "       requires_grad=True)"
    )
    assert "indices=tensor([], size=(2, 0))" in repr(ad.sparse_coo_tensor((2, 3)))


def test_structure_is_safe_from_later_writes() -> None:
    indices = ad.tensor(INDICES)
    tensor = ad.sparse_coo_tensor(indices, VALUES, (2, 3))
    indices.fill_(100)
    assert np.array_equal(tensor.to_dense().numpy(), DENSE.astype(np.float32))
    with ad.no_grad(), pytest.raises(InplaceError, match="read-only"):
        tensor._indices().fill_(100)


BAD: dict[str, tuple[Callable[[], Any], type, str]] = {
    "range": (lambda: ad.sparse_coo_tensor([[0, 5]], [1.0, 2.0], (3,)), IndexOutOfRange, "5"),
    "negative": (lambda: ad.sparse_coo_tensor([[-1]], [1.0], (3,)), IndexOutOfRange, "-1"),
    "count": (lambda: ad.sparse_coo_tensor([[0, 1]], [1.0], (3,)), ShapeError, "2 columns"),
    "dimensions": (lambda: ad.sparse_coo_tensor([[0]], [1.0], (3, 4)), ShapeError, "3×4"),
    "dense sizes": (lambda: ad.sparse_coo_tensor([[0]], [[1.0]], (3, 2)), ShapeError, "dense"),
    "real indices": (lambda: ad.sparse_coo_tensor([[0.5]], [1.0], (3,)), DtypeError, "integers"),
    "not coalesced": (
        lambda: ad.sparse_coo_tensor([[1, 0]], [1.0, 2.0], (3,), is_coalesced=True),
        ValueRangeError, "not sorted",
    ),
    "unsorted": (
        lambda: ad.sparse_csr_tensor([0, 2], [1, 0], [1.0, 2.0], (1, 3)), ValueRangeError, "sorted",
    ),
    "start": (lambda: ad.sparse_csr_tensor([1, 1], [0], [1.0]), ValueRangeError, "start with 0"),
    "end": (lambda: ad.sparse_csr_tensor([0, 2], [0], [1.0]), ValueRangeError, "end with 1"),
    "falls": (
        lambda: ad.sparse_csr_tensor([0, 2, 1, 2], [0, 1], [1.0, 2.0], (3, 2)),
        ValueRangeError, "must grow",
    ),
    "length": (lambda: ad.sparse_csr_tensor([0, 1], [0], [1.0], (2, 2)), ShapeError, "3 entries"),
    "column": (lambda: ad.sparse_csr_tensor([0, 1], [3], [1.0], (1, 3)), IndexOutOfRange, "3"),
    "blocks": (
        lambda: ad.sparse_bsr_tensor([0, 1], [0], [[[1.0, 2.0]]], (1, 3)), ShapeError, "1×2",
    ),
    "two dtypes": (
        lambda: ad.sparse_csr_tensor(ad.tensor([0, 1], dtype=ad.int32), [0], [1.0]),
        DtypeError, "int32",
    ),
    "layout": (
        lambda: ad.sparse_compressed_tensor([0, 1], [0], [1.0], layout=ad.sparse_coo),
        ArgumentError, "sparse_csr",
    ),
    "no blocksize": (lambda: ad.ones(2, 2).to_sparse(layout=ad.sparse_bsr), ArgumentError, "size"),
    "ragged batch": (
        lambda: ad.tensor([[[1.0, 1.0]], [[0.0, 1.0]]]).to_sparse_csr(), ValueRangeError, "equally",
    ),
    "wrong part": (lambda: matrix().crow_indices(), ArgumentError, "sparse_csr"),
    "dense": (lambda: ad.ones(2).indices(), ArgumentError, "to_sparse"),
    "uncoalesced": (lambda: matrix().values(), ValueRangeError, "coalesce"),
    "shapes": (lambda: matrix() @ ad.ones(4, 2), ShapeError, "4 rows"),
    "sum": (lambda: matrix() + ad.sparse_coo_tensor((3, 3)), ShapeError, "must agree"),
    "no rule": (lambda: matrix().cos(), ArgumentError, r"cos: .*to_dense"),
    "singular": (
        lambda: ad.sparse.spsolve(ad.sparse_csr_tensor([0, 1, 1], [0], [1.0], (2, 2)), ad.ones(2)),
        LinAlgError, "singular",
    ),
}  # fmt: skip


@pytest.mark.parametrize("name", BAD)
def test_bad_structure_says_what_is_wrong(name: str) -> None:
    make, kind, words = BAD[name]
    with pytest.raises(kind, match=words):
        make()


def test_numbers_do_not_leave_silently() -> None:
    tensor = matrix()
    for ask in (tensor.numpy, tensor.item, tensor.tolist, lambda: np.asarray(tensor)):
        with pytest.raises(ArgumentError, match="to_dense"):
            ask()


def test_every_rule_for_layouts_exists() -> None:
    words = {"values", "stored", "makes"}
    rows = [row for row in TABLE.rows() if row.texts.get("layouts", "values") not in words]
    assert len(rows) > 20
    for row in rows:
        rule = binding.reference(row.texts["layouts"], "decompositions", row, "layouts")
        assert binding.takes(rule, len(row.schema.arguments)), row.full_name


# ---- derivatives --------------------------------------------------------------------------------


def test_transforms_differentiate_values() -> None:
    v, u = ad.tensor(VALUES, dtype=ad.float64), ad.tensor([1.0, -2.0, 0.5, 3.0], dtype=ad.float64)
    both = ad.stack([v, u])
    pairs = (
        (ad.grad(product)(v), ad.grad(product_densely)(v)),
        (ad.hessian(product)(v), ad.hessian(product_densely)(v)),
        (ad.jvp(product, (v,), (u,))[1], ad.jvp(product_densely, (v,), (u,))[1]),
        (ad.vjp(product, v)[1](u[0])[0], ad.vjp(product_densely, v)[1](u[0])[0]),
        (ad.vmap(ad.grad(product))(both), ad.vmap(ad.grad(product_densely))(both)),
        (ad.trace(product, v)(v), product_densely(v)),
        (ad.compile(ad.grad(product))(v), ad.grad(product_densely)(v)),
    )  # fmt: skip
    for got, expected in pairs:
        assert ad.allclose(got, expected, rtol=1e-12)


def test_indices_may_be_made_inside_a_transform() -> None:
    def f(v: Any) -> Any:
        indices = ad.tensor([[0, 1], [1, 0]])
        return (ad.sparse_coo_tensor(indices, v, (2, 2)) ** 2).sum()

    v = ad.tensor([2.0, 3.0])
    assert ad.grad(f)(v).tolist() == [4, 6]
    assert ad.vmap(ad.grad(f))(v.expand(2, 2)).tolist() == [[4, 6], [4, 6]]
    assert ad.compile(ad.grad(f))(v).tolist() == [4, 6]


@pytest.mark.parametrize("layout", LAYOUTS)
def test_gradient_of_a_sparse_leaf_has_its_pattern(layout: str) -> None:
    tensor = in_layout(layout).requires_grad_()
    assert tensor.is_leaf
    assert tensor.requires_grad
    (tensor @ right()).sum().backward()
    assert tensor.grad.layout is tensor.layout
    assert tensor.grad.companion == (tensor.coalesce() if tensor.is_sparse else tensor).companion
    expected = np.where(DENSE != 0, right().sum(1).numpy(), 0)
    stored = (
        expected if not layout.startswith("sparse_b") else np.tile(right().sum(1).numpy(), (2, 1))
    )
    assert np.allclose(tensor.grad.to_dense().numpy(), stored)
    (found,) = ad.autograd.grad(tensor.to_dense().sum(), tensor)
    assert found.layout is tensor.layout
    (tensor @ right()).sum().backward()
    assert np.allclose(tensor.grad.to_dense().numpy(), 2 * stored)
    tensor.grad = None
    assert tensor.grad is None


def test_second_order_of_a_sparse_leaf() -> None:
    tensor = matrix(requires_grad=True)
    (first,) = ad.autograd.grad((tensor.coalesce() ** 3).sum(), tensor, create_graph=True)
    (second,) = ad.autograd.grad(first.sum(), tensor)
    assert second.values().tolist() == [6 * 4.5, 6 * -4, 6 * 5]


def test_a_sparse_argument_of_a_transform() -> None:
    tensor = matrix()

    def f(s: Any) -> Any:
        return (s @ right()).sin().sum()

    expected = ad.grad(product)(tensor._values())[:3]  # the last is at the place of the first
    gradient = ad.grad(f)(tensor)
    assert gradient.is_coalesced()
    assert ad.allclose(gradient.values(), expected)
    _, slope = ad.jvp(f, (tensor,), (tensor,))
    assert np.isclose(float(slope), float((expected * tensor.coalesce().values()).sum()))
    assert ad.allclose(ad.compile(ad.grad(f))(tensor).values(), expected)
    doubled, pull = ad.vjp(lambda s: s * 2, tensor)
    assert pull(doubled)[0].values().tolist() == [4 * 4.5, 4 * -4, 4 * 5]


def test_compiled_programs_are_for_one_pattern() -> None:
    total = ad.compile(lambda s: s.to_dense() * ad.arange(3))
    one = ad.sparse_coo_tensor([[0, 1]], [5.0, 6.0], (3,))
    other = ad.sparse_coo_tensor([[1, 2]], [5.0, 6.0], (3,))
    assert total(one).tolist() == [0, 6, 0]
    assert total(other).tolist() == [0, 5, 12]
    assert total(one).tolist() == [0, 6, 0]


def test_structure_that_is_not_known_is_refused() -> None:
    indices, values = ad.tensor(INDICES), ad.tensor(VALUES)
    with pytest.raises(AdjointError, match="must be known"):
        ad.trace(lambda i, v: ad.sparse_coo_tensor(i, v, (2, 3)).to_dense(), indices, values)
    with pytest.raises(DependsOnValues, match="must be known"):
        ad.vmap(lambda x: x.to_sparse().to_dense())(ad.ones(2, 3))
    with pytest.raises(DependsOnValues, match="values"):
        ad.vmap(lambda v: ad.sparse_coo_tensor(indices, v, (2, 3)))(values.expand(2, 4))
    with pytest.raises(DependsOnValues, match="values"):
        ad.vmap(lambda s: s.to_dense())(matrix())


def test_dual_tensors_may_be_sparse() -> None:
    forward_ad = ad.autograd.forward_ad
    with forward_ad.dual_level():
        tensor = forward_ad.make_dual(matrix(), ad.ones(2, 3, dtype=ad.float64))
        squared = forward_ad.unpack_dual(tensor * tensor)
        assert squared.tangent is not None
        assert squared.tangent.values().tolist() == [9, -8, 10]
        product = forward_ad.unpack_dual(tensor @ right())
        assert product.tangent is not None
        assert product.tangent.tolist() == [[5, 6], [6, 8]]
        assert forward_ad.unpack_dual(matrix()).tangent is None


def test_hooks_see_sparse_gradients() -> None:
    tensor = matrix(requires_grad=True)
    seen = []

    def hook(grad: Any) -> Any:
        seen.append(grad.layout)
        return grad * 10

    handle = tensor.register_hook(hook)
    (tensor * 2).to_dense().sum().backward()
    assert seen == [ad.sparse_coo]
    assert tensor.grad.values().tolist() == [20] * 3
    handle.remove()
    middle = tensor * 3
    middle.retain_grad()
    middle.to_dense().sum().backward()
    assert middle.grad.values().tolist() == [1] * 3


def test_backward_of_a_sparse_root() -> None:
    tensor = matrix(requires_grad=True)
    (tensor * 2).backward(ad.ones(2, 3, dtype=ad.float64))
    assert tensor.grad.values().tolist() == [2] * 3


def test_copies_keep_structure_and_gradient() -> None:
    tensor = matrix(requires_grad=True)
    tensor.to_dense().sum().backward()
    for made in (copy.deepcopy(tensor), pickle.loads(pickle.dumps(tensor))):
        assert made.requires_grad
        assert made.grad.values().tolist() == [1] * 3
        assert np.array_equal(made.detach().to_dense().numpy(), DENSE)
    assert not tensor.detach().requires_grad
    assert tensor.detach()._values().tolist() == VALUES


def test_values_of_a_tensor_are_differentiable() -> None:
    v = ad.tensor(VALUES, dtype=ad.float64, requires_grad=True)
    tensor = ad.sparse_coo_tensor(INDICES, v, (2, 3))
    assert not tensor.is_leaf
    (tensor.coalesce().values() * ad.tensor([1.0, 2.0, 3.0])).sum().backward()
    assert v.grad is not None
    assert v.grad.tolist() == [1, 2, 3, 1]


# ---- arithmetic ---------------------------------------------------------------------------------


@pytest.mark.parametrize("layout", LAYOUTS)
def test_arithmetic_equals_that_of_dense_tensors(layout: str) -> None:
    tensor, dense = in_layout(layout), ad.tensor(DENSE)
    other = ad.tensor(np.arange(6.0).reshape(2, 3) + 1)
    cases: list[tuple[Any, Any, str]] = [
        (tensor + tensor, dense + dense, layout),
        (tensor - tensor * 3, -2 * dense, layout),
        (2 * tensor / 4, dense / 2, layout),
        (tensor * other, dense * other, layout),
        (other * tensor, dense * other, layout),
        (tensor * tensor, dense * dense, layout),
        (tensor + other, dense + other, "strided"),
        (other - tensor, other - dense, "strided"),
        (tensor @ right(), dense @ right(), "strided"),
        (right() @ tensor, right() @ dense, "strided"),
        (tensor @ ad.ones(3, dtype=ad.float64), dense.sum(1), "strided"),
        (tensor.sum(), dense.sum(), "strided"),
        (-tensor, -dense, layout),
        (tensor.sin(), dense.sin(), layout),
        (tensor**2, dense**2, layout),
        (tensor.to(ad.float32), dense.to(ad.float32), layout),
        (tensor.clone(), dense, layout),
        (ad.zeros_like(tensor), ad.zeros_like(dense), layout),
        (ad.addmm(ad.ones(2, 2), tensor, right(), alpha=3), 1 + 3 * (dense @ right()), "strided"),
    ]  # fmt: skip
    for number, (got, expected, kind) in enumerate(cases):
        assert got.layout == kind, number
        assert got.dtype is expected.dtype, number
        assert np.allclose(got.to_dense().numpy(), expected.numpy()), number


def test_union_of_patterns() -> None:
    other = ad.sparse_coo_tensor([[0, 1], [0, 2]], [7.0, -5.0], (2, 3), dtype=ad.float64)
    found = matrix() + other
    assert np.array_equal(found.to_dense().numpy(), DENSE + other.to_dense().numpy())
    assert (found._nnz(), found.coalesce()._nnz()) == (6, 4)
    rows = matrix().to_sparse_csr() + other.to_sparse_csr()
    assert rows.layout is ad.sparse_csr
    assert rows._nnz() == 4
    common = matrix() * other
    assert common.coalesce().indices().tolist() == [[1], [2]]


def test_products_of_two_sparse_matrices() -> None:
    for tensor in (matrix(), matrix().to_sparse_csr()):
        found = tensor @ tensor.t()
        assert found.layout is tensor.layout
        assert np.allclose(found.to_dense().numpy(), DENSE @ DENSE.T)


def test_dimensions_change_places() -> None:
    assert matrix().to_sparse_csr().t().layout is ad.sparse_csc
    assert in_layout("sparse_bsr").t().layout is ad.sparse_bsc
    for layout in LAYOUTS:
        assert np.array_equal(in_layout(layout).t().to_dense().numpy(), DENSE.T)
        assert np.array_equal(in_layout(layout).transpose(0, 1).to_dense().numpy(), DENSE.T)
    hybrid = ad.sparse_coo_tensor([[2, 0]], ad.ones(2, 3, 4), (3, 3, 4))
    assert hybrid.transpose(1, 2).shape == (3, 4, 3)
    with pytest.raises(ShapeError, match="sparse and dense"):
        hybrid.transpose(0, 1)


def test_parts_and_joins() -> None:
    tensor, dense = matrix(), ad.tensor(DENSE)
    pairs = (
        (tensor[1], dense[1]),
        (tensor.select(1, 2), dense.select(1, 2)),
        (tensor.index_select(1, ad.tensor([2, 0, 2])), dense[:, [2, 0, 2]]),
        (tensor.unsqueeze(1), dense.unsqueeze(1)),
        (ad.cat([tensor, tensor], 1), ad.cat([dense, dense], 1)),
        (ad.stack([tensor, tensor]), ad.stack([dense, dense])),
        (tensor.permute(1, 0), dense.permute(1, 0)),
    )
    for number, (got, expected) in enumerate(pairs):
        assert got.shape == expected.shape, number
        assert np.array_equal(got.to_dense().numpy(), expected.numpy()), number


def test_sums_over_dimensions() -> None:
    for tensor in (matrix(), matrix().to_sparse_csr()):
        for dim in (0, 1, (0, 1), -1):
            found = ad.sparse.sum(tensor, dim)
            assert found.layout == ("strided" if dim == (0, 1) else "sparse_coo")
            assert np.allclose(found.to_dense().numpy(), DENSE.sum(dim))
        kept = tensor.sum(0, keepdim=True)
        assert np.allclose(kept.to_dense().numpy(), DENSE.sum(0, keepdims=True))


@pytest.mark.parametrize("dtype", ["float32", "float64"])
def test_native_products_equal_those_without_native_code(
    dtype: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    draw = np.random.default_rng(0)
    rows, columns = draw.integers(0, 50, 20000), draw.integers(0, 70, 20000)
    values, left, right = (
        draw.standard_normal(shape).astype(dtype) for shape in ((20000,), (50, 33), (70, 33))
    )

    def both() -> list[Any]:
        product = kernels.product(rows, columns, values, right, 50)
        return [product, kernels.sample(rows, columns, left, right)]

    found = both()
    monkeypatch.setattr(native.loading, "ready", lambda *_: None)
    for got, expected in zip(found, both(), strict=True):
        assert got.dtype == expected.dtype == dtype
        assert np.allclose(got, expected, rtol=1e-4 if dtype == "float32" else 1e-12, atol=1e-3)


def test_reductions_of_products() -> None:
    rows = ad.sparse_csr_tensor([0, 2, 2], [0, 2], [-1.0, 2.0], (2, 3))
    dense = ad.tensor([[1.0, 5.0], [0.0, 0.0], [-3.0, 1.0]])
    assert ad.sparse.mm(rows, dense, "amax").tolist() == [[-1, 2], [0, 0]]
    assert ad.sparse.mm(rows, dense, "amin").tolist() == [[-6, -5], [0, 0]]
    assert ad.sparse.mm(rows, dense, "mean").tolist() == [[-3.5, -1.5], [0, 0]]
    assert ad.sparse.mm(rows, dense, "sum").tolist() == [[-7, -3], [0, 0]]
    with pytest.raises(ValueRangeError, match="'amax'"):
        ad.sparse.mm(rows, dense, "max")


def test_writes_in_place() -> None:
    tensor = matrix()
    assert tensor.mul_(2) is tensor
    assert np.array_equal(tensor.to_dense().numpy(), 2 * DENSE)
    tensor.add_(ad.sparse_coo_tensor([[0], [0]], [1.0], (2, 3), dtype=ad.float64))
    assert float(tensor.to_dense()[0, 0]) == 1
    assert tensor.zero_()._nnz() == 0
    dense = ad.zeros(2, 3, dtype=ad.float64)
    dense.add_(matrix(), alpha=-2)
    assert np.array_equal(dense.numpy(), -2 * DENSE)
    with pytest.raises(InplaceError, match="dense"):
        matrix().add_(ad.ones(2, 3, dtype=ad.float64))
    with pytest.raises(InplaceError):
        matrix(requires_grad=True).mul_(2)
    with pytest.raises(InplaceError, match="to_sparse"):
        matrix().data = ad.ones(2, 3, dtype=ad.float64)
    leaf = matrix(requires_grad=True)
    with ad.no_grad():
        leaf.copy_(leaf * 2)
    assert np.array_equal(leaf.detach().to_dense().numpy(), 2 * DENSE)
    leaf.data.mul_(2)
    assert leaf.is_leaf
    assert np.array_equal(leaf.detach().to_dense().numpy(), 4 * DENSE)


def test_resize() -> None:
    tensor = matrix().sparse_resize_((4, 5), 2, 0)
    assert tensor.to_dense().shape == (4, 5)
    with pytest.raises(IndexOutOfRange):
        tensor.sparse_resize_((1, 1), 2, 0)
    assert tensor.shape == (4, 5)
    assert tensor.sparse_resize_and_clear_((2, 2, 2), 1, 2)._nnz() == 0
    assert tensor.shape == (2, 2, 2)


def test_masks_keep_the_pattern_of_the_mask() -> None:
    dense = ad.tensor(np.arange(6.0).reshape(2, 3) + 1, requires_grad=True)
    found = dense.sparse_mask(matrix().coalesce())
    assert found.values().tolist() == [3, 4, 6]
    found.sum().backward()
    assert dense.grad is not None
    assert dense.grad.tolist() == [[0, 0, 1], [1, 0, 1]]


# ---- gradients of embeddings --------------------------------------------------------------------


def embedded(weight: Any, **options: Any) -> Any:
    indices = ad.tensor([[2, 0], [2, 1]])
    return ad.nn.functional.embedding(indices, weight, sparse=True, **options)


def test_embedding_has_sparse_gradients() -> None:
    weight = ad.ones(4, 3, requires_grad=True)
    embedded(weight, padding_idx=1).sum().backward()
    grad: Any = weight.grad
    assert grad.layout is ad.sparse_coo
    assert grad._indices().tolist() == [[2, 0, 2]]
    assert grad.coalesce().indices().tolist() == [[0, 2]]
    embedded(weight).sum().backward()
    assert weight.grad.layout is ad.sparse_coo  # type: ignore[union-attr]
    assert weight.grad.to_dense()[:, 0].tolist() == [2, 1, 4, 0]  # type: ignore[union-attr]
    (weight * 2).sum().backward()
    assert weight.grad.layout is ad.strided  # type: ignore[union-attr]
    assert weight.grad[:, 0].tolist() == [4, 3, 6, 2]  # type: ignore[index]


def test_dense_and_sparse_gradients_of_one_pass_add_up() -> None:
    weight = ad.ones(4, 3, requires_grad=True)
    (embedded(weight).sum() + (weight * 2).sum()).backward()
    assert weight.grad is not None
    assert weight.grad[:, 0].tolist() == [3, 3, 4, 2]


def test_a_gradient_that_goes_on_is_dense() -> None:
    weight = ad.ones(4, 3, requires_grad=True)
    embedded(weight * 2).sum().backward()
    assert weight.grad is not None
    assert weight.grad.layout is ad.strided
    assert weight.grad[:, 0].tolist() == [2, 2, 4, 0]
    assert ad.grad(lambda w: embedded(w).sum())(ad.ones(4, 3)).layout is ad.strided


def test_a_step_along_a_sparse_gradient() -> None:
    weight = ad.ones(4, 3, requires_grad=True)
    embedded(weight).sum().backward()
    with ad.no_grad():
        grad: Any = weight.grad
        weight.add_(grad.coalesce(), alpha=-0.5)
    assert weight[:, 0].tolist() == [0.5, 0.5, 0, 1]


@pytest.mark.parametrize("mode", ["sum", "mean"])
def test_embedding_bag_has_sparse_gradients(mode: str) -> None:
    indices = ad.tensor([[2, 0], [2, 1]])
    dense, sparse = (ad.ones(4, 3, requires_grad=True) for _ in range(2))
    bag = ad.nn.functional.embedding_bag
    bag(indices, dense, mode=mode).sin().sum().backward()
    bag(indices, sparse, mode=mode, sparse=True).sin().sum().backward()
    assert sparse.grad is not None
    assert dense.grad is not None
    assert sparse.grad.layout is ad.sparse_coo
    assert ad.allclose(sparse.grad.to_dense(), dense.grad)


def test_a_sparse_gradient_is_added_to_in_place() -> None:
    layer = ad.nn.Embedding(4, 2, sparse=True)
    layer(ad.tensor([1, 2, 1])).sum().backward()
    held = layer.weight.grad
    layer(ad.tensor([3])).sum().backward()
    assert layer.weight.grad is held
    assert held.to_dense()[:, 0].tolist() == [0.0, 2.0, 1.0, 1.0]


def test_a_module_with_a_sparse_gradient_is_converted() -> None:
    layer = ad.nn.Embedding(4, 2, sparse=True)
    layer(ad.tensor([1])).sum().backward()
    held = layer.weight.grad
    layer.double()
    assert layer.weight.grad is held
    assert held.dtype == held.to_dense().dtype == ad.float64


def test_data_of_a_sparse_tensor_is_another_sparse_one() -> None:
    x = ad.eye(2).to_sparse().requires_grad_()
    x.data = ad.ones(2, 2).to_sparse()
    assert x.requires_grad
    assert x.is_leaf
    assert x.detach().to_dense().tolist() == [[1.0, 1.0], [1.0, 1.0]]
    with pytest.raises(RuntimeError, match="to_sparse"):
        x.data = ad.ones(2, 2)


class Product(ad.autograd.Function):
    @staticmethod
    def forward(ctx: Any, a: Any, x: Any) -> Any:
        ctx.save_for_backward(a)
        return a @ x

    @staticmethod
    def backward(ctx: Any, grad: Any) -> Any:
        return None, ctx.saved_tensors[0].t() @ grad


def test_a_users_function_takes_sparse_tensors_as_constants() -> None:
    a = ad.tensor([[1.0, 0.0], [2.0, 3.0]]).to_sparse()
    x = ad.ones(2, 1, requires_grad=True)
    Product.apply(a, x).sum().backward()
    assert x.grad.tolist() == [[3.0], [3.0]]
    assert ad.grad(lambda x: Product.apply(a, x).sum())(x.detach()).tolist() == [[3.0], [3.0]]
    with pytest.raises(RuntimeError, match="values"):
        Product.apply(a.requires_grad_(), x)


def test_a_users_function_may_return_a_sparse_gradient() -> None:
    class Fixed(ad.autograd.Function):
        @staticmethod
        def forward(ctx: Any, x: Any, grad: Any) -> Any:
            ctx.save_for_backward(grad)
            return x.clone()

        @staticmethod
        def backward(ctx: Any, grad: Any) -> Any:
            return ctx.saved_tensors[0], None

    x, dense = ad.zeros(2, 2, requires_grad=True), ad.ones(2, 2)
    Fixed.apply(x, ad.eye(2).to_sparse()).sum().backward()
    assert x.grad.is_sparse
    Fixed.apply(x, dense).sum().backward()
    assert x.grad.tolist() == [[2.0, 1.0], [1.0, 2.0]]
