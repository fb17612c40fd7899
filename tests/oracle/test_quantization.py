"""Fake quantisation: values and gradients are PyTorch's, those of learnt grids too."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

torch = pytest.importorskip("torch")

import adjoint as ad  # noqa: E402

pytestmark = pytest.mark.oracle

LOW, HIGH = -8, 7


def drawn(*shape: int) -> Any:
    return (np.random.default_rng(7).standard_normal(shape) * 5).astype(np.float32)


CALLS: dict[str, Any] = {
    "fake_quantize_per_tensor_affine_cachemask": ([drawn(4, 6)], (0.3, 2, LOW, HIGH)),
    "_fake_quantize_learnable_per_tensor_affine": (
        [drawn(4, 6), np.float32([0.7]), np.float32([1.2])], (LOW, HIGH, 0.5)
    ),
    "_fake_quantize_learnable_per_channel_affine": (
        [drawn(4, 6), np.linspace(0.4, 1.3, 6, dtype=np.float32),
         np.linspace(-2, 3, 6, dtype=np.float32)], (1, LOW, HIGH, 0.5)
    ),
}  # fmt: skip


@pytest.mark.parametrize("name", CALLS)
def test_values_and_gradients_are_pytorchs(name: str) -> None:
    arrays, rest = CALLS[name]
    results = []
    for library, ops in ((torch, torch.ops.aten), (ad, ad.ops)):
        tensors = [library.tensor(a).requires_grad_() for a in arrays]
        found = getattr(ops, name)(*tensors, *rest)
        found = found[0] if isinstance(found, (tuple, list)) else found
        (found * found).sum().backward()
        results.append([found.detach().numpy(), *(t.grad.numpy() for t in tensors)])
    for one, other in zip(*results, strict=True):
        np.testing.assert_allclose(other, one, rtol=1e-5, atol=1e-5)


def test_grids_of_tensors_and_of_channels_are_pytorchs() -> None:
    x = drawn(4, 6)
    scales, zeros = np.linspace(0.4, 1.3, 4, dtype=np.float32), np.array([3, 0, -5, 2], np.int32)
    results = []
    for library, ops in ((torch, torch.ops.aten), (ad, ad.ops)):
        given, s, z = (library.tensor(a) for a in (x, scales, zeros))
        given.requires_grad_()
        one, mask = ops.fake_quantize_per_channel_affine_cachemask(given, s, z, 0, LOW, HIGH)
        on = library.tensor([1], dtype=library.int64)
        other, second = ops._fake_quantize_per_tensor_affine_cachemask_tensor_qparams(
            given, s[:1], z[:1], on, LOW, HIGH
        )
        (one * other).sum().backward()
        results.append([t.detach().numpy() for t in (one, mask, other, second, given.grad)])
    for expected, found in zip(*results, strict=True):
        np.testing.assert_allclose(found, expected, rtol=1e-5, atol=1e-5)
