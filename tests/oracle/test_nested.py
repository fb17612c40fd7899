"""Nested tensors give PyTorch's components and gradients, wherever PyTorch has the operator."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

torch = pytest.importorskip("torch")

import adjoint as ad  # noqa: E402

torch.set_num_threads(1)
pytestmark = [pytest.mark.oracle, pytest.mark.filterwarnings("ignore")]

_generator = np.random.default_rng(0)
ROWS = [_generator.standard_normal((n, 4)) for n in (2, 3, 1)]
WEIGHT, SCALE = _generator.standard_normal((4, 4)), _generator.standard_normal(4)
BATCH = _generator.standard_normal((3, 4, 2))
BOTH = ("strided", "jagged")
# name -> the layouts in which PyTorch has it, and the function of a library and a nested tensor
FUNCTIONS: dict[str, tuple[tuple[str, ...], Any]] = {
    "mul": (BOTH, lambda lib, x: x * x),
    "add number": (BOTH, lambda lib, x: 2 * x + 1),
    "sin": (BOTH, lambda lib, x: x.sin()),
    "gelu": (BOTH, lambda lib, x: lib.nn.functional.gelu(x)),
    "relu": (BOTH, lambda lib, x: x.relu()),
    "linear": (
        BOTH,
        lambda lib, x: lib.nn.functional.linear(x, _of(lib, WEIGHT), _of(lib, SCALE)),
    ),
    "softmax last": (BOTH, lambda lib, x: x.softmax(-1)),
    "softmax ragged": (BOTH, lambda lib, x: x.softmax(1)),
    "layer_norm": (
        BOTH,
        lambda lib, x: lib.nn.functional.layer_norm(x, (4,), _of(lib, SCALE), _of(lib, SCALE)),
    ),
    "sum last kept": (BOTH, lambda lib, x: x.sum(-1, keepdim=True)),
    "transpose": (BOTH, lambda lib, x: x.transpose(1, 2)),
    "reshape": (BOTH, lambda lib, x: x.reshape(3, -1, 2, 2)),
    "unsqueeze": (BOTH, lambda lib, x: x.unsqueeze(-1)),
    "pad": (BOTH, lambda lib, x: lib.nested.to_padded_tensor(x, 0.5)),
    "pad larger": (BOTH, lambda lib, x: lib.nested.to_padded_tensor(x, 0.5, (3, 5, 4))),
    "select": (BOTH, lambda lib, x: x[1]),
    "bmm": (BOTH, lambda lib, x: lib.bmm(x, _of(lib, BATCH))),
    "product": (("strided",), lambda lib, x: x @ x.transpose(1, 2)),
    "log_softmax": (("jagged",), lambda lib, x: x.log_softmax(-1)),
    "sum ragged": (("jagged",), lambda lib, x: x.sum(1)),
    "mean ragged": (("jagged",), lambda lib, x: x.mean(1, keepdim=True)),
    "amax ragged": (("jagged",), lambda lib, x: x.amax(1)),
    "sum all": (("jagged",), lambda lib, x: x.sum()),
    "mean all": (("jagged",), lambda lib, x: x.mean()),
    "broadcast": (("jagged",), lambda lib, x: x * _of(lib, SCALE)),
    "rows": (("jagged",), lambda lib, x: x + _of(lib, BATCH[:, :, :1]).transpose(1, 2)),
    "where": (("jagged",), lambda lib, x: lib.where(x > 0, x, -2 * x)),
    "matmul": (("jagged",), lambda lib, x: x @ _of(lib, WEIGHT)),
    "chunk": (("jagged",), lambda lib, x: x.chunk(2, -1)[1]),
    "cat": (("jagged",), lambda lib, x: lib.cat([x, x * x], -1)),
    "attention": (("jagged",), lambda lib, x: _attention(lib, x)),
}
# Where PyTorch has the value and no gradient, or a wrong one.
VALUES_ONLY = {
    ("softmax ragged", "jagged"): "its gradients do not sum to 0 along the ragged dimension",
    ("sum last kept", "jagged"): "not implemented",
    ("log_softmax", "jagged"): "not implemented",
    ("sum ragged", "jagged"): "not implemented",
    ("mean ragged", "jagged"): "sizes must be concrete integers",
}


def _of(lib: Any, array: Any) -> Any:
    return lib.from_numpy(array.copy())


def _attention(lib: Any, x: Any) -> Any:
    heads = x.unflatten(-1, (2, 2)).transpose(1, 2)
    return lib.nn.functional.scaled_dot_product_attention(heads, heads.sin(), heads * heads)


CASES = [(name, layout) for name, (layouts, _) in FUNCTIONS.items() for layout in layouts]


def outcome(lib: Any, name: str, layout: str) -> tuple[list[Any], list[Any]]:
    """The components of the result, and the gradients of a loss in the constituents."""
    given = [_of(lib, row).requires_grad_() for row in ROWS]
    nested = lib.nested.as_nested_tensor(given, layout=getattr(lib, layout))
    result = FUNCTIONS[name][1](lib, nested)
    parts = list(result.unbind()) if result.is_nested else [result]
    if (name, layout) in VALUES_ONLY:
        return [p.detach().numpy() for p in parts], []
    loss = sum((part * (part + i)).sum() for i, part in enumerate(parts))
    loss.backward()
    return [p.detach().numpy() for p in parts], [g.grad.numpy() for g in given]


@pytest.mark.parametrize(("name", "layout"), CASES)
def test_components_and_gradients_are_those_of_pytorch(name: str, layout: str) -> None:
    ours, theirs = outcome(ad, name, layout), outcome(torch, name, layout)
    for a, b in zip(ours, theirs, strict=True):
        assert [x.shape for x in a] == [x.shape for x in b]
        for x, y in zip(a, b, strict=True):
            np.testing.assert_allclose(x, y, rtol=1e-9, atol=1e-11)
