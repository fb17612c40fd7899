"""Sparse tensors beside PyTorch's: values, layouts, texts and gradients of the same calls."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

torch = pytest.importorskip("torch")

import adjoint as ad  # noqa: E402

pytestmark = [pytest.mark.oracle, pytest.mark.filterwarnings("ignore")]

Call = Callable[[Any, Any], Any]

INDICES = [[0, 1, 1, 0], [2, 0, 2, 2]]
VALUES = [3.0, -4.0, 5.0, 1.5]


def coo(lib: Any) -> Any:
    values = lib.tensor(VALUES, dtype=lib.float64)
    return lib.sparse_coo_tensor(lib.tensor(INDICES), values, (2, 3))


def csr(lib: Any) -> Any:
    values = lib.tensor([1.0, 2.0, 3.0], dtype=lib.float64)
    return lib.sparse_csr_tensor(lib.tensor([0, 2, 3]), lib.tensor([0, 2, 1]), values, (2, 3))


def csc(lib: Any) -> Any:
    return csr(lib).to_sparse_csc()


def dense(lib: Any) -> Any:
    return lib.arange(6, dtype=lib.float64).reshape(2, 3) + 1


def right(lib: Any) -> Any:
    return lib.arange(6, dtype=lib.float64).reshape(3, 2) + 1


MAKERS = {"coo": coo, "csr": csr, "csc": csc}
# What PyTorch cannot do in a layout is left out of the comparison.
CALLS: dict[str, Call] = {
    "add": lambda lib, s: s + s,
    "sub": lambda lib, s: s - s * 3,
    "mul number": lambda lib, s: 2 * s,
    "mul dense": lambda lib, s: s * dense(lib),
    "div": lambda lib, s: s / 2,
    "dense add": lambda lib, s: dense(lib) + s,
    "mm": lambda lib, s: s @ right(lib),
    "dense mm": lambda lib, s: right(lib) @ s,
    "sparse mm": lambda lib, s: lib.sparse.mm(s, s.t()),
    "mv": lambda lib, s: s.mv(right(lib)[:, 0].contiguous()),
    "addmm": lambda lib, s: lib.sparse.addmm(dense(lib)[:, :2], s, right(lib), beta=2, alpha=3),
    "sum": lambda lib, s: lib.sparse.sum(s),
    "sum 0": lambda lib, s: lib.sparse.sum(s, 0),
    "sum all": lambda lib, s: lib.sparse.sum(s, [0, 1]),
    "softmax": lambda lib, s: lib.sparse.softmax(s, 1),
    "log_softmax": lambda lib, s: lib.sparse.log_softmax(s, 0),
    "t": lambda lib, s: s.t(),
    "transpose": lambda lib, s: s.transpose(0, 1),
    "coalesce": lambda lib, s: s.coalesce(),
    "to": lambda lib, s: s.to(lib.float32),
    "neg": lambda lib, s: -s,
    "abs": lambda lib, s: s.abs(),
    "relu": lambda lib, s: s.relu(),
    "sin": lambda lib, s: s.sin(),
    "sign": lambda lib, s: s.sign(),
    "isnan": lambda lib, s: s.isnan(),
    "pow": lambda lib, s: s.pow(2),
    "unsqueeze": lambda lib, s: s.unsqueeze(1),
    "select": lambda lib, s: s.select(0, 1),
    "index_select": lambda lib, s: s.index_select(1, lib.tensor([2, 0, 2])),
    "cat": lambda lib, s: lib.cat([s, s], 1),
    "stack": lambda lib, s: lib.stack([s, s]),
    "mask": lambda lib, s: dense(lib).sparse_mask(s.coalesce() if s.is_sparse else s),
    "to csr": lambda lib, s: s.to_sparse_csr(),
    "to csc": lambda lib, s: s.to_sparse_csc(),
    "to bsr": lambda lib, s: s.to_sparse_bsr((1, 3)),
    "to bsc": lambda lib, s: s.to_sparse_bsc((2, 1)),
    "to dense": lambda lib, s: s.to_dense(),
    "zeros_like": lambda lib, s: lib.zeros_like(s),
    "mul_": lambda lib, s: s.clone().mul_(3),
    "add_": lambda lib, s: s.clone().add_(s),
    "zero_": lambda lib, s: s.clone().zero_(),
    "dense add_": lambda lib, s: dense(lib).add_(s, alpha=2),
}


def layout_of(tensor: Any) -> str:
    return str(tensor.layout).rpartition(".")[2]


@pytest.mark.parametrize("layout", MAKERS)
def test_sparse_results_are_those_of_pytorch(layout: str) -> None:
    compared = 0
    for name, call in CALLS.items():
        try:
            expected = call(torch, MAKERS[layout](torch))
        except (RuntimeError, NotImplementedError):
            continue
        got = call(ad, MAKERS[layout](ad))
        assert layout_of(got) == layout_of(expected), name
        assert str(got.dtype).rpartition(".")[2] == str(expected.dtype).rpartition(".")[2], name
        assert np.allclose(got.to_dense().numpy(), expected.to_dense().numpy()), name
        compared += 1
    assert compared > (38 if layout == "coo" else 20)


LOSSES: dict[str, Callable[[Any, Any, Any], Any]] = {
    "mm": lambda lib, s, b: (lib.sparse.mm(s, b) ** 2).sum(),
    "addmm": lambda lib, s, b: (lib.sparse.addmm(b[:2], s, b, alpha=2) ** 2).sum(),
    "sum": lambda lib, s, b: lib.sparse.sum(s * 3) + b.sum(),
    "sum dim": lambda lib, s, b: (lib.sparse.sum(s, 0).to_dense() * b[:, 0]).sum(),
    "softmax": lambda lib, s, b: (lib.sparse.softmax(s, 1).to_dense() @ b).sin().sum(),
    "log_softmax": lambda lib, s, b: (lib.sparse.log_softmax(s, 1).to_dense() @ b).sin().sum(),
    "to_dense": lambda lib, s, b: (s.to_dense() @ b).sin().sum(),
    "transpose": lambda lib, s, b: (s.t().to_dense() * b).sin().sum(),
    "values": lambda lib, s, b: (s.coalesce().values() ** 2).sum() + b.sum(),
    "sparse mm": lambda lib, s, b: lib.sparse.sum(lib.sparse.mm(s, b.to_sparse()) * 2),
}


@pytest.mark.parametrize("name", LOSSES)
def test_gradients_of_sparse_leaves_are_those_of_pytorch(name: str) -> None:
    found = []
    for lib in (ad, torch):
        leaf = coo(lib).coalesce().detach().requires_grad_()
        other = right(lib).requires_grad_()
        LOSSES[name](lib, leaf, other).backward()
        found.append((leaf.grad, other.grad))
    (mine, beside), (theirs, wanted) = found
    assert layout_of(mine) == "sparse_coo"
    assert np.allclose(mine.to_dense().numpy(), theirs.to_dense().numpy())
    assert np.allclose(beside.to_dense().numpy(), wanted.to_dense().numpy())


def test_texts_are_those_of_pytorch() -> None:
    for make in (coo, lambda lib: coo(lib).coalesce(), lambda lib: coo(lib).isnan()):
        assert repr(make(ad)) == repr(make(torch)).replace("torch.", "ad.")
    made = [lib.sparse_coo_tensor((2, 3)) for lib in (ad, torch)]
    assert repr(made[0]) == repr(made[1]).replace("torch.", "ad.")
