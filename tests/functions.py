"""Twenty functions of six numbers that transforms are tested on."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import adjoint as ad

POINT = [0.31, -0.72, 1.43, 0.55, -1.28, 0.87]


def point() -> ad.Tensor:
    return ad.tensor(POINT, dtype=ad.float64)


def pointwise(x: Any) -> Any:
    return (x.sin() * x.exp() / (1 + x**2)).sum()


def reductions(x: Any) -> Any:
    return x.mean() * (x**3).sum() + x.reshape(2, 3).sum(1).prod()


def indexing(x: Any) -> Any:
    return (
        x[1] * x[::2].prod()
        + x[ad.tensor([0, 0, 3])].pow(3).sum()
        + x[ad.tensor([True, False] * 3)].exp().sum()
    )


def matmul(x: Any) -> Any:
    a = x.reshape(2, 3)
    return (a @ a.t()).tanh().sum() + (a @ x[:3]).sin().sum()


def views(x: Any) -> Any:
    return (
        x.view(2, 3).t().reshape(-1)[1:5].flip(0) * x.unsqueeze(0).expand(2, 6)[1, :4]
    ).sum() ** 2


def in_place(x: Any) -> Any:
    y = x.clone()
    y.mul_(x)
    y[2] = x[0] * x[1]
    y[1:3].add_(x[3:5] ** 2)
    return y.sin_().sum()


def in_place_on_new_memory(x: Any) -> Any:
    y = ad.zeros(4, dtype=ad.float64)
    y[0] = x[0] * x[1]
    y[1:3] = x[2:4] ** 2
    y.mul_(x[5])
    return y.exp().sum()


def where(x: Any) -> Any:
    return ad.where(x > 0.2, x**3, x.sin() * x[0]).sum()


def scans(x: Any) -> Any:
    return x.cumprod(0).sum() + (x.cumsum(0) ** 3).mean()


def norms(x: Any) -> Any:
    return x.norm() * x[0] + ad.linalg.vector_norm(x.reshape(2, 3), 3, dim=1).sum()


def moments(x: Any) -> Any:
    return x.var() * x[0] + x.std()


def einsum(x: Any) -> Any:
    a = x.reshape(2, 3)
    return ad.einsum("ij,kj,k->i", a, a * a, x[:2]).sin().sum()


def gather_and_scatter(x: Any) -> Any:
    index = ad.tensor([0, 2, 2, 5])
    return (
        x.gather(0, index).prod()
        + ad.zeros(6, dtype=ad.float64).scatter_add(0, index, x[:4] ** 2).sin().sum()
    )


def product_with_zero(x: Any) -> Any:
    zero_here = ad.tensor([POINT[0], 0.0, 0.0, 0.0], dtype=ad.float64)
    return (x[:4] - zero_here).prod() * x[4] + (x - x.detach()).prod()


def softmax(x: Any) -> Any:
    return (x - x.logsumexp(-1, keepdim=True)).exp()


def logsumexp(x: Any) -> Any:
    return x.logsumexp(0) ** 2 + (softmax(x.reshape(2, 3)) * x.reshape(2, 3)).sum()


def clamp(x: Any) -> Any:
    return (x.clamp(-1.0, 1.1) * x**2).sum() + x.abs().sum() + x.relu().pow(2).sum()


def complex_numbers(x: Any) -> Any:
    z = ad.complex(x[:3], x[3:])
    return (z * z).abs().sum() + (z.exp() * z.conj()).real.sum()


def joins(x: Any) -> Any:
    first, second = x.split(3)
    return (ad.stack([first, second.exp()]).prod(0) * ad.cat([x[4:], x[:1]])).sum()


def extremes(x: Any) -> Any:
    values, indices = x.reshape(2, 3).max(1)
    return (values**3).sum() * x.min() + x[indices].exp().sum() + x.reshape(2, 3).amin(0).prod()


def attention(x: Any) -> Any:
    q, k = x.reshape(3, 2), x.reshape(2, 3).t()
    return (softmax(q @ k.t()) @ (k * q)).tanh().sum()


FUNCTIONS: list[Callable[[Any], Any]] = [
    pointwise,
    reductions,
    indexing,
    matmul,
    views,
    in_place,
    in_place_on_new_memory,
    where,
    scans,
    norms,
    moments,
    einsum,
    gather_and_scatter,
    product_with_zero,
    logsumexp,
    clamp,
    complex_numbers,
    joins,
    extremes,
    attention,
]
