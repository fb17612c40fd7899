"""Small tensors of tests: leaves of a few numbers, and whether a tensor has certain values."""

from __future__ import annotations

import numpy as np

import adjoint as ad


def leaf(*values: float, dtype: ad.DType = ad.float64) -> ad.Tensor:
    return ad.tensor(list(values), dtype=dtype, requires_grad=True)


def close(tensor: ad.Tensor | None, expected: object) -> bool:
    assert tensor is not None
    return bool(np.allclose(tensor.detach().numpy(), np.asarray(expected)))
