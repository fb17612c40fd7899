"""Matrix products: dtypes, errors, NaN, the language of einsum. The laws check derivatives."""

import pytest

import adjoint as ad
from adjoint.checks import einsum as contraction

FLOATS = [ad.float16, ad.bfloat16, ad.float32, ad.float64, ad.complex64, ad.complex128]


def test_matmul_error_says_rows_and_columns() -> None:
    with pytest.raises(ValueError, match=r"matmul\(a, b\): a has 5 columns but b has 4 rows") as e:
        ad.matmul(ad.ones(3, 5), ad.ones(4, 2))
    assert "(a: 3×5, b: 4×2)" in str(e.value)


def test_matmul_does_not_promote() -> None:
    with pytest.raises(TypeError, match=r"matmul\(a, b\): a is float32 and b is float64"):
        ad.matmul(ad.ones(2, 2), ad.ones(2, 2, dtype=ad.float64))
    with pytest.raises(TypeError, match="bool"):
        ad.matmul(ad.ones(2, 2, dtype=ad.bool), ad.ones(2, 2, dtype=ad.bool))


def test_matmul_of_a_scalar_points_to_multiplication() -> None:
    with pytest.raises(RuntimeError, match="multiply by a scalar with"):
        ad.tensor(2.0) @ ad.ones(2)


def test_mm_takes_matrices_only() -> None:
    with pytest.raises(ValueError, match=r"mm\(a, b\): b must be a matrix"):
        ad.mm(ad.ones(2, 2), ad.ones(2))
    with pytest.raises(ValueError, match="Only matmul broadcasts"):
        ad.bmm(ad.ones(1, 2, 2), ad.ones(3, 2, 2))


@pytest.mark.parametrize("dtype", FLOATS, ids=str)
def test_matmul_keeps_the_dtype(dtype: ad.DType) -> None:
    a = ad.ones(2, 3, dtype=dtype)
    assert (a @ a.t()).dtype is dtype
    assert (a @ a.t()).tolist() == [[3, 3], [3, 3]]


def test_float16_accumulates_in_float32() -> None:
    a = ad.full((1, 4096), 1.0, dtype=ad.float16)
    assert (a @ a.t()).item() == 4096  # a running float16 sum would stop at 2048


def test_integers_wrap_around() -> None:
    a = ad.full((2, 2), 200, dtype=ad.uint8)
    assert (a @ a).tolist() == [[128, 128], [128, 128]]


@pytest.mark.parametrize("dtype", FLOATS, ids=str)
def test_beta_0_ignores_nan_in_self(dtype: ad.DType) -> None:
    nan = ad.full((2, 2), float("nan"), dtype=dtype)
    one = ad.ones(2, 2, dtype=dtype)
    assert ad.addmm(nan, one, one, beta=0).tolist() == [[2, 2], [2, 2]]
    assert ad.addmv(nan[0], one, one[0], beta=0).tolist() == [2, 2]
    assert ad.addr(nan, one[0], one[0], beta=0).tolist() == [[1, 1], [1, 1]]
    assert ad.baddbmm(nan, one[None], one[None], beta=0).tolist() == [[[2, 2], [2, 2]]]
    assert ad.addbmm(nan, one[None], one[None], beta=0).tolist() == [[2, 2], [2, 2]]


def test_addmm_of_integers_refuses_a_fraction() -> None:
    a = ad.ones(2, 2, dtype=ad.int64)
    assert ad.addmm(a, a, a, beta=2.0, alpha=3).tolist() == [[8, 8], [8, 8]]
    with pytest.raises(TypeError, match=r"alpha=0.6 with int64"):
        ad.addmm(a, a, a, alpha=0.6)


def test_addmm_does_not_enlarge() -> None:
    with pytest.raises(ValueError, match=r"self .3×2×2. does not broadcast"):
        ad.addmm(ad.ones(3, 2, 2), ad.ones(2, 2), ad.ones(2, 2))


def test_addr_promotes_and_takes_bool() -> None:
    assert ad.addr(ad.ones(2, 2), ad.ones(2), ad.ones(2, dtype=ad.float64)).dtype is ad.float64
    true = ad.ones(2, dtype=ad.bool)
    assert ad.addr(ad.zeros(2, 2, dtype=ad.bool), true, true).tolist() == [[True, True]] * 2


def test_linear_reports_features() -> None:
    with pytest.raises(ValueError, match="features in its last dimension but weight takes 4"):
        ad.ops.linear(ad.ones(2, 3), ad.ones(5, 4))


# -- einsum ----------------------------------------------------------------------------------------


def test_einsum_forms_agree() -> None:
    a, b = ad.randn(2, 3), ad.randn(3, 4)
    expected = (a @ b).tolist()
    assert ad.einsum("ij,jk->ik", a, b).tolist() == expected
    assert ad.einsum("ij,jk", a, b).tolist() == expected
    assert ad.einsum(" i j , j k -> i k ", [a, b]).tolist() == expected
    assert ad.einsum(a, [0, 1], b, [1, 2], [0, 2]).tolist() == expected
    assert ad.einsum(a, [0, 1], b, [1, 2]).tolist() == expected
    assert ad.einsum(a, [..., 1], b, [1, 2], [..., 2]).tolist() == expected


def test_einsum_implicit_output_sorts_capitals_first() -> None:
    a = ad.randn(2, 3)
    assert ad.einsum("aB", a).tolist() == a.t().tolist()
    assert ad.einsum(a, [1, 0]).tolist() == a.t().tolist()


@pytest.mark.parametrize(
    ("equation", "message"),
    [
        ("ij,jk->il", "the output index 'l' is in no operand"),
        ("ij,jk->ii", "'i' stands twice in the output"),
        ("ij", "names 1 operands, got 2"),
        ("i1,jk", "'1' is no index"),
        ("i.j,jk", "'.' is no index"),
        ("...i...,jk", "one ellipsis"),
        ("ij,j", "operand 1 has 2 dimensions and 1 indices"),
        ("ij,ik->jk", "one index has size 3 and, in operand 1 (4×2), size 4"),
        ("ii,jk->i", "operand 0 (3×5) repeats an index over sizes 3 and 5"),
    ],
)
def test_einsum_says_what_is_wrong(equation: str, message: str) -> None:
    with pytest.raises(ValueError) as e:
        ad.einsum(equation, ad.ones(3, 5), ad.ones(4, 2))
    assert message in str(e.value)
    assert equation in str(e.value)


def test_einsum_path_gives_the_same_value() -> None:
    operands = [ad.randn(*s, dtype=ad.float64) for s in ((2, 3), (3, 4), (4, 5))]
    expected = operands[0] @ operands[1] @ operands[2]
    for path in ([0, 1, 0, 1], [1, 2, 0, 1], [0, 2, 0, 1]):
        assert ad.allclose(ad.einsum("ij,jk,kl->il", *operands, path=path), expected)
    with pytest.raises(ValueError, match="does not pair 3 operands"):
        ad.einsum("ij,jk,kl->il", *operands, path=[0, 1])


def test_einsum_only_multiplying_promotes() -> None:
    a = ad.ones(2, requires_grad=True)
    b = ad.ones(3, dtype=ad.float64, requires_grad=True)
    product = ad.einsum("i,j->ij", a, b)
    assert product.dtype is ad.float64
    product.sum().backward()
    assert a.grad.dtype is ad.float32
    assert a.grad.tolist() == [3, 3]
    assert b.grad.tolist() == [2, 2, 2]


def test_einsum_of_a_permutation_is_no_view() -> None:
    a = ad.zeros(2, 3)
    b = ad.einsum("ij->ji", a)
    b += 1
    assert a.sum().item() == 0


def test_einsum_contracts_before_it_makes_outer_products() -> None:
    n = 100
    shapes = ((n,), (n,), (n, n))
    plan = contraction.plan_equation("i,k,ik->", shapes, None)
    assert [(pair.left, pair.right) for pair in plan.pairs] == [(0, 2), (0, 1)]
    assert ad.einsum("i,k,ik->", *(ad.ones(*s) for s in shapes)).item() == n * n


def test_multi_dot_chooses_the_cheap_order() -> None:
    tall, wide = ad.ones(1000, 1), ad.ones(1, 1000)
    result = ad.linalg.multi_dot([tall, wide, tall])
    assert result.shape == (1000, 1)
    assert result[0].item() == 1000


def test_tensordot_errors() -> None:
    with pytest.raises(ValueError, match="names 1 dimensions of a and 2 of b"):
        ad.tensordot(ad.ones(2, 2), ad.ones(2, 2), ([0], [0, 1]))
    with pytest.raises(ValueError, match="named twice"):
        ad.tensordot(ad.ones(2, 2), ad.ones(2, 2), ([0, 0], [0, 1]))


def test_grouped_mm_checks_its_groups() -> None:
    offs = ad.tensor([3, 2], dtype=ad.int32)
    with pytest.raises(ValueError, match="must not decrease"):
        ad.ops._grouped_mm(ad.ones(3, 2), ad.ones(2, 2, 2), offs)
