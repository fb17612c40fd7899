"""Dropout as a product with a random mask; the mask is a constant to derivatives."""

from __future__ import annotations

from typing import Any

from adjoint import ops
from adjoint.core import dtypes
from adjoint.core.errors import ShapeError, ValueRangeError
from adjoint.core.shapes import show

Tensor = Any

# What selu tends to on the far left, -scale·alpha, without its sign.
SELU_LIMIT = 1.7580993408473766


def _check(what: str, p: float) -> None:
    if not 0 <= p <= 1:
        raise ValueRangeError(f"{what}(p={p}): a probability lies between 0 and 1.")


def _kept(input: Tensor, p: float, generator: Any = None) -> Tensor:
    """1 with probability 1 - p, else 0, for each element."""
    return ops.bernoulli.p(input.detach(), 1 - p, generator=generator)


def _features(what: str, input: Tensor) -> Tensor:
    """One element for each channel of each sample: N×C×1×…"""
    if input.ndim < 2:
        raise ShapeError(
            f"{what}: needs a batch and channels, two dimensions or more, got {show(input.shape)}."
        )
    return input.new_zeros((*input.shape[:2], *(1,) * (input.ndim - 2)))


def _idle(input: Tensor, p: float, train: bool) -> bool:
    return not train or p == 0 or input.numel() == 0


def _scaled(input: Tensor, kept: Tensor, p: float) -> Tensor:
    """The kept elements times 1/(1 - p). With p = 1 none is kept, not even NaN and infinities."""
    return input * 0.0 if p == 1 else input * (kept / (1 - p))


def native_dropout(input: Tensor, p: float, train: bool | None) -> tuple[Tensor, Tensor]:
    """The result, and the mask."""
    _check("native_dropout", p)
    if train is False:
        return input.clone(), ops.ones_like(input.detach(), dtype=dtypes.bool_)
    kept = _kept(input, p)
    return _scaled(input, kept, p), kept.bool()


def fused_dropout(self: Tensor, p: float, generator: Any) -> tuple[Tensor, Tensor]:
    """Keep with probability p, scale by 1/p; the mask is of bytes."""
    _check("_fused_dropout", p)
    kept = _kept(self, 1 - p, generator)
    return _scaled(self, kept, 1 - p), kept.to(dtypes.uint8)


def dropout(input: Tensor, p: float, train: bool) -> Tensor:
    """Each element 0 with probability p, else scaled so that the mean stays."""
    _check("dropout", p)
    return input.clone() if _idle(input, p, train) else _scaled(input, _kept(input, p), p)


def feature_dropout(input: Tensor, p: float, train: bool) -> Tensor:
    """Dropout of whole channels."""
    _check("feature_dropout", p)
    if _idle(input, p, train):
        return input.clone()
    return _scaled(input, _kept(_features("feature_dropout", input), p), p)


def _alpha(input: Tensor, places: Tensor, p: float) -> Tensor:
    """a·(x or -limit) + b: mean 0 and variance 1 stay as they are."""
    if p == 1:
        return input * 0.0
    a = ((SELU_LIMIT**2 * p + 1) * (1 - p)) ** -0.5
    kept = _kept(places, p)
    return input * (kept * a) + ((kept - 1) * (SELU_LIMIT * a) + SELU_LIMIT * a * p)


def alpha_dropout(input: Tensor, p: float, train: bool) -> Tensor:
    """Elements become the far left value of selu with probability p."""
    _check("alpha_dropout", p)
    return input.clone() if _idle(input, p, train) else _alpha(input, input, p)


def feature_alpha_dropout(input: Tensor, p: float, train: bool) -> Tensor:
    """Alpha dropout of whole channels."""
    _check("feature_alpha_dropout", p)
    if _idle(input, p, train):
        return input.clone()
    return _alpha(input, _features("feature_alpha_dropout", input), p)
