"""complex32: complex numbers of half precision, on complex64."""

from __future__ import annotations

import copy
import pickle

import numpy as np
import pytest

import adjoint as ad

NUMBERS = [1 + 2j, 0.1 - 3j, 2.5j]


def halves():
    return ad.tensor(NUMBERS, dtype=ad.complex128).chalf()


def test_numbers_are_rounded_to_half_precision():
    z = halves()
    assert (z.dtype, z.dtype.itemsize, z.dtype.to_real()) == (ad.complex32, 4, ad.float16)
    expected = [complex(np.float16(n.real), np.float16(n.imag)) for n in NUMBERS]
    assert z.tolist() == expected
    assert (z * z).tolist() == [
        complex(np.float16(n.real), np.float16(n.imag)) for n in (e * e for e in expected)
    ]
    assert ad.tensor(1e6 + 0j).chalf().item().real == np.inf
    assert repr(z) == (
        "tensor([1.0000+2.0000j, 0.1000-3.0000j, 0.0000+2.5000j], dtype=ad.complex32)"
    )


def test_dtypes_of_results():
    z = halves()
    for same in (z + 1, 2 * z, z * 0.5, z * 1j, z.exp(), z.sum(), z.conj(), z[1:], z @ z, -z):
        assert same.dtype is ad.complex32
    assert (z * ad.ones(3, dtype=ad.float16)).dtype is ad.complex32
    assert (z * ad.ones(3)).dtype is ad.complex64
    assert (z * ad.ones(3, dtype=ad.float64)).dtype is ad.complex128
    assert z.abs().dtype is z.real.dtype is ad.view_as_real(z).dtype is ad.float16
    assert (z == z).all()
    assert z.cfloat().dtype is z.to(ad.complex64).dtype is ad.complex64
    assert ad.ones(2).to(ad.complex32).dtype is ad.ones(2).to(ad.chalf).dtype is ad.complex32
    assert ad.promote_types(ad.complex32, ad.int64) is ad.complex32
    assert ad.promote_types(ad.complex32, ad.bfloat16) is ad.complex64


def test_derivatives_in_every_mode():
    x = ad.tensor(NUMBERS, dtype=ad.complex128, requires_grad=True)
    (g,) = ad.autograd.grad(x.chalf(), x, halves())
    assert g.dtype is ad.complex128
    assert g.tolist() == halves().tolist()
    leaf = halves().requires_grad_()
    (leaf * leaf.conj()).real.sum().backward()
    assert leaf.grad.dtype is ad.complex32
    assert leaf.grad.tolist() == (2 * halves()).tolist()
    f = lambda z: (z * z.conj()).real.float().sum()
    assert ad.grad(f)(halves()).tolist() == (2 * halves()).tolist()
    _, tangent = ad.jvp(lambda z: z * z, (halves(),), (halves(),))
    assert ad.allclose(tangent.cfloat(), 2 * halves().cfloat() ** 2, rtol=1e-2)
    mapped = ad.vmap(lambda a: a.chalf().abs())(x.detach())
    assert mapped.dtype is ad.float16
    with ad.autograd.forward_ad.dual_level():
        dual = ad.autograd.forward_ad.make_dual(halves(), halves())
        primal, along = ad.autograd.forward_ad.unpack_dual(dual * 2)
        assert primal.tolist() == along.tolist() == (2 * halves()).tolist()


def test_writes_copies_and_pickles():
    z = halves()
    assert z.mul_(2) is z
    assert z.tolist() == (halves() * 2).tolist()
    for made in (copy.copy(z), copy.deepcopy(z), pickle.loads(pickle.dumps(z)), z.clone()):
        assert made.dtype is ad.complex32
        assert made.tolist() == z.tolist()


def test_what_numpy_would_have_to_hold_is_refused():
    with pytest.raises(TypeError, match=r"no arrays in NumPy.*chalf\(\)"):
        ad.zeros(2, dtype=ad.complex32)
    with pytest.raises(TypeError, match=r"cfloat\(\)\.numpy\(\)"):
        halves().numpy()


def test_tensors_are_made_of_complex32_at_once() -> None:
    x = ad.tensor([1 + 2j, 0.1], dtype=ad.complex32, requires_grad=True)
    assert x.dtype is ad.complex32
    assert x.requires_grad
    assert ad.equal(x.detach().cfloat(), ad.tensor([1 + 2j, 0.1]).chalf().cfloat())


def test_a_module_is_converted_to_complex32_and_back() -> None:
    layer = ad.nn.Linear(2, 2).to(ad.complex64)
    x = ad.ones(1, 2, dtype=ad.complex64)
    layer(x).abs().sum().backward()
    layer.to(ad.complex32)
    assert {p.dtype for p in layer.parameters()} == {ad.complex32}
    assert layer.weight.grad.dtype == ad.complex32
    assert layer(x.chalf()).dtype == ad.complex32
    layer.to(ad.complex64)
    assert layer(x).dtype == ad.complex64


@pytest.mark.parametrize("other", [ad.ones(2, dtype=ad.complex64).chalf(), ad.ones(2).to_sparse()])
def test_data_of_an_array_is_no_structure(other: ad.Tensor) -> None:
    x = ad.zeros(2)
    with pytest.raises(RuntimeError, match="kept otherwise"):
        x.data = other
    assert x.tolist() == [0.0, 0.0]
