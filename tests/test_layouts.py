"""Layouts and memory formats: what tensors say of how their elements lie in memory."""

from __future__ import annotations

import copy
import pickle

import pytest

import adjoint as ad

LAYOUTS = (
    ad.strided, ad.sparse_coo, ad.sparse_csr, ad.sparse_csc, ad.sparse_bsr, ad.sparse_bsc,
    ad.jagged,
)  # fmt: skip
FORMATS = (
    ad.contiguous_format, ad.preserve_format, ad.channels_last, ad.channels_last_3d,
)  # fmt: skip


@pytest.mark.parametrize("name", LAYOUTS + FORMATS)
def test_a_layout_stays_itself_when_copied_and_shows_its_name(name):
    assert pickle.loads(pickle.dumps(name)) is name
    assert copy.deepcopy(name) is name
    assert repr(name) == f"ad.{name}"
    assert getattr(ad, str(name)) is name


def test_tensors_are_strided_in_every_transform():
    x = ad.ones(2)
    seen = [x.layout, ad.zeros(2, device="meta").layout]

    def f(x):
        seen.append(x.layout)
        return x.sum()

    ad.grad(f)(x), ad.jvp(f, (x,), (x,)), ad.vmap(f)(ad.ones(2, 3)), ad.trace(f, x)
    ad.vmap(ad.grad(f))(ad.ones(2, 3))
    assert len(seen) == 7
    assert all(s is ad.strided for s in seen)


def test_an_unknown_layout_or_format_is_named_with_the_known_ones():
    with pytest.raises(TypeError, match=r"no layout 'odd'; use one of ad\.strided"):
        ad.zeros(2, layout="odd")
    with pytest.raises(ValueError, match=r"no memory format 'odd'; use one of ad\.contiguous"):
        ad.zeros(2).clone(memory_format="odd")
    with pytest.raises(ValueError, match="no memory format 7"):
        ad.zeros(2).clone(memory_format=7)
