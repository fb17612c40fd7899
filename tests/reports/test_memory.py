"""What a gradient keeps: to the byte what the tape saves, and what the compiler plans."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import adjoint as ad
from adjoint.core.errors import ArgumentError

F = ad.nn.functional
W, V = ad.linspace(0.1, 1.0, 600).reshape(20, 30), ad.linspace(0.1, 1.0, 150).reshape(30, 5)
FUNCTIONS: dict[str, Callable[[Any], Any]] = {
    "chain": lambda x: x.exp().tanh().sum(),
    "layers": lambda x: ((x @ W).relu() @ V).softmax(1).square().mean(),
    "lengths": lambda x: x.norm(dim=1).sum(),
    "normalised": lambda x: F.layer_norm(x, (20,)).sin().sum(),
    "gelu": lambda x: F.gelu(x * 2).sum(),
    "cross entropy": lambda x: F.cross_entropy(x, ad.arange(10) % 20),
    "views": lambda x: (x.reshape(20, 10).t() * x.exp()).sum(),
    "choice": lambda x: ad.where(x > 0.5, x * 2, x.sin()).sum(),
    "logarithm": lambda x: x.logsumexp(0).sum(),
    "running sum": lambda x: x.cumsum(0).cos().sum(),
    "attention": lambda x: F.scaled_dot_product_attention(x[None], x[None], x[None]).sum(),
    "solve": lambda x: ad.linalg.solve(x[:10, :10] + 5 * ad.eye(10), ad.ones(10)).sum(),
    "without derivative": lambda x: (x.detach().exp() * x).sum(),
    "parts": lambda x: sum(p.exp().sum() for p in x.split(5)),
}


def saved_bytes(f: Callable[[Any], Any], x: Any) -> int:
    """The bytes of the memory that the tape holds for a function, besides what exists anyway."""
    x = x.detach().requires_grad_()
    found: dict[int, Any] = {}

    def pack(tensor: Any) -> Any:
        base = tensor.detach().numpy()
        while base.base is not None:
            base = base.base
        if not any(np.shares_memory(base, t.detach().numpy()) for t in (x, W, V)):
            found[id(base)] = base
        return tensor

    with ad.autograd.graph.saved_tensors_hooks(pack, lambda tensor: tensor):
        f(x)
    return sum(base.nbytes for base in found.values())


@pytest.mark.parametrize("name", FUNCTIONS)
def test_as_many_bytes_as_the_tape_saves(name: str) -> None:
    x = ad.linspace(0.0, 1.0, 200).reshape(10, 20)
    assert ad.memory(FUNCTIONS[name], x).bytes == saved_bytes(FUNCTIONS[name], x)


@pytest.mark.parametrize("name", ["chain", "layers", "attention", "running sum"])
def test_as_many_bytes_as_the_compiler_plans(name: str) -> None:
    x = ad.linspace(0.0, 1.0, 200).reshape(10, 20)
    program = ad.compile(ad.value_and_grad(FUNCTIONS[name])).lower(x)
    assert ad.memory(FUNCTIONS[name], x).compiled == program.layout.size


def test_the_report_says_why_and_where() -> None:
    found = ad.memory(lambda x: x.exp().tanh().sum(), ad.ones(1000))
    (kept,) = found.kept
    assert kept.shape == (1000,)
    assert kept.place.startswith("test_memory.py:")
    assert set(kept.reasons) == {"exp keeps its result"} | set(kept.reasons[1:])
    assert "4 kB kept for the gradient" in str(found)


def test_shapes_alone_suffice() -> None:
    """An array of a terabyte is planned, not made."""
    found = ad.memory(lambda x: x.exp().sum(), ad.ShapeDtype((1 << 20, 1 << 18)))
    assert found.bytes == 1 << 40


def test_other_arguments_have_no_gradient() -> None:
    f = lambda x, y, *, z: (x * y.exp() * z.exp()).sum()
    x = ad.ones(10)
    assert [k.bytes for k in ad.memory(f, x, x, z=x).kept] == [40, 40]
    assert len(ad.memory(f, x, x, z=x, argnums=(0, 1, "z")).kept) == 3
    with pytest.raises(ArgumentError, match="memory: argnums=5"):
        ad.memory(f, x, x, z=x, argnums=5)
