"""Kernels of losses on arrays; float16 and bfloat16 are computed in float32."""

from __future__ import annotations

from typing import Any

import numpy as np

from adjoint.c_kernels import alignment, product
from adjoint.c_kernels.copies import zeros
from adjoint.checks import loss
from adjoint.core.errors import IndexOutOfRange, ValueRangeError
from adjoint.kernels.halves import widen

Array = np.ndarray[Any, np.dtype[Any]]
LOWEST_LOG = -100.0  # binary_cross_entropy's logarithms end here, as in PyTorch
SMALLEST_CHANCE = 3.720075976020836e-44  # whose logarithm that is
STEEPEST = 1e12  # the slope where they have ended


# --- classes -------------------------------------------------------------------------------------


def _places(what: str, self: Array, target: Array, ignore_index: int) -> tuple[Array, Array]:
    """Which samples count, and their classes (0 for the others); raises for one out of range."""
    target = target.reshape(loss.without_classes(self.shape))
    count = self.shape[loss.class_dim(self.ndim)]
    plain = target.size and target.dtype == np.int64 and not 0 <= ignore_index < count
    if plain and target.view(np.uint64).max() < count:  # negative ones would be huge
        return np.ones(target.shape, np.bool_), target
    kept = target != ignore_index
    places = np.where(kept, target, 0).astype(np.intp)
    wrong = kept & ((places < 0) | (places >= count))
    if wrong.any():
        raise IndexOutOfRange(
            f"{what}: the target has class {target[wrong].flat[0]}, and there are {count}: 0 to "
            f"{count - 1}, or ignore_index={ignore_index}."
        )
    return kept, places


def _weights(weight: Array | None, kept: Array, places: Array, dtype: np.dtype[Any]) -> Array:
    """The weight of each sample, 0 for ignored ones."""
    if weight is None:
        return kept.astype(dtype)
    return np.where(kept, widen(weight)[places] if weight.size else 0, 0).astype(dtype)


def nll_loss_forward(
    self: Array, target: Array, weight: Array | None, reduction: int, ignore_index: int
) -> tuple[Array, Array]:
    """-weight · x at the class of each sample, and the sum of the weights."""
    loss.check_reduction("nll_loss", reduction)
    loss.check_classes("nll_loss", self, target, weight)
    x, dim = widen(self), loss.class_dim(self.ndim)
    kept, places = _places("nll_loss", self, target, ignore_index)
    weights = _weights(weight, kept, places, x.dtype)
    if self.ndim == 2 and self.shape[1]:
        picked = x[np.arange(len(x)), places]
    elif self.shape[dim]:
        picked = np.take_along_axis(x, np.expand_dims(places, dim), dim).squeeze(dim)
    else:
        picked = np.zeros(places.shape, x.dtype)  # no classes, so that all are ignored
    with np.errstate(invalid="ignore"):
        losses = np.where(kept, -picked * weights, x.dtype.type(0))
        total = weights.sum()
        if reduction == loss.NONE and self.ndim > 1:
            total = np.zeros((), x.dtype)
        elif reduction == loss.MEAN:
            losses = losses.sum() / total
        else:
            losses = losses.sum()
    return np.asarray(losses, self.dtype), np.asarray(total, self.dtype)


def nll_loss_backward(
    grad_output: Array,
    self: Array,
    target: Array,
    weight: Array | None,
    reduction: int,
    ignore_index: int,
    total_weight: Array,
) -> Array:
    """-weight · ḡ at the class of each sample, 0 elsewhere."""
    loss.check_reduction("nll_loss_backward", reduction)
    loss.check_classes("nll_loss_backward", self, target, weight)
    dim = loss.class_dim(self.ndim)
    kept, places = _places("nll_loss_backward", self, target, ignore_index)
    grad = widen(grad_output)
    with np.errstate(invalid="ignore", divide="ignore"):
        if reduction == loss.MEAN:
            grad = grad / widen(total_weight)
        values = np.where(kept, -grad * _weights(weight, kept, places, grad.dtype), 0)
    result = zeros(self.shape, self.dtype)
    if self.ndim == 2 and self.shape[1]:
        result[np.arange(len(result)), places] = values.astype(self.dtype)
    elif self.shape[dim]:
        values = np.expand_dims(values.astype(self.dtype), dim)
        np.put_along_axis(result, np.expand_dims(places, dim), values, dim)
    return result


# --- classes of a linear layer, some samples at a time -------------------------------------------


def linear_cross_entropy(
    input: Array,
    linear_weight: Array,
    target: Array,
    linear_bias: Array | None,
    ignore_index: int,
    samples: int,
) -> Array:
    """log Σ exp z - z at the class, z = x Wᵀ + b; 0 for samples that are ignored."""
    what = "linear_cross_entropy"
    loss.check_linear(what, input, linear_weight, target, linear_bias, samples)
    kept, places = _targets(what, target, len(linear_weight), ignore_index)
    x, w = widen(input), widen(linear_weight)
    losses = np.empty(len(x), x.dtype)
    with np.errstate(all="ignore"):
        for part in _some(len(x), samples):
            logits = _logits(x[part], w, linear_bias)
            logits -= logits.max(1, keepdims=True, initial=-np.inf)
            picked = logits[np.arange(len(logits)), places[part]] if logits.size else 0
            np.exp(logits, out=logits)
            losses[part] = np.log(logits.sum(1)) - picked
    return np.where(kept, losses, 0).astype(input.dtype)


def linear_cross_entropy_backward(
    grad: Array,
    input: Array,
    linear_weight: Array,
    target: Array,
    linear_bias: Array | None,
    ignore_index: int,
    samples: int,
) -> tuple[Array, Array, Array]:
    """Z̄ = ḡ (softmax(z) - 1 at the class),  x̄ = Z̄ W,  W̄ = Z̄ᵀ x,  b̄ = Σ Z̄."""
    what = "linear_cross_entropy"
    loss.check_linear(what, input, linear_weight, target, linear_bias, samples)
    kept, places = _targets(what, target, len(linear_weight), ignore_index)
    x, w = widen(input), widen(linear_weight)
    factor = np.where(kept, widen(grad), 0)
    of_input, of_weight = np.empty(x.shape, x.dtype), np.zeros(w.shape, w.dtype)
    of_bias = np.zeros(len(w), w.dtype)
    with np.errstate(all="ignore"):
        for part in _some(len(x), samples):
            slopes = _logits(x[part], w, linear_bias)
            slopes -= slopes.max(1, keepdims=True, initial=-np.inf)
            np.exp(slopes, out=slopes)
            slopes /= slopes.sum(1, keepdims=True)
            if slopes.size:
                slopes[np.arange(len(slopes)), places[part]] -= 1
            slopes *= factor[part, None]
            slopes[~kept[part]] = 0
            of_input[part] = product.dot(slopes, w)
            of_weight += product.dot(slopes.T, x[part])
            of_bias += slopes.sum(0)
    found = (of_input, of_weight, of_bias)
    kinds = (input, linear_weight, linear_weight)
    of = [a.astype(b.dtype, copy=False) for a, b in zip(found, kinds)]
    return of[0], of[1], of[2]


def _some(count: int, samples: int) -> list[slice]:
    return [slice(i, min(i + samples, count)) for i in range(0, count, samples)]


def _logits(x: Array, weight: Array, bias: Array | None) -> Array:
    logits = product.dot(x, weight.T)
    if bias is not None:
        logits += widen(bias)
    return logits


def _targets(what: str, target: Array, classes: int, ignore_index: int) -> tuple[Array, Array]:
    """Like `_places`, without logits: which samples count, and their classes."""
    return _places(what, np.broadcast_to(np.int8(0), (len(target), classes)), target, ignore_index)


# --- elements ------------------------------------------------------------------------------------


def huber(self: Array, target: Array, delta: float) -> Array:
    """c (d - c/2), c being the difference d cut off at ±delta."""
    difference = self - target
    cut = np.clip(difference, -delta, delta)
    return cut * (difference - cut / 2)


def logistic_loss(self: Array, target: Array) -> Array:
    """log(1 + exp(-|x|)) + t max(-x, 0) + (1 - t) max(x, 0): no term is negative."""
    linear = np.where(self > 0, (1 - target) * self, -target * self)
    return np.log1p(np.exp(-np.abs(self))) + linear


def logistic_loss_slope(self: Array, target: Array) -> Array:
    """(1 - t) σ(x) - t σ(-x), with e = exp(-|x|) as one quotient."""
    x, t, e = self, target, np.exp(-np.abs(self))
    return np.where(x < 0, (1 - t) * e - t, (1 - t) - t * e) / (1 + e)


def binary_cross_entropy_slope(self: Array, target: Array) -> Array:
    """(p - t) / (p (1 - p)), bounded by the largest number."""
    p, t = self, target
    most, one = np.finfo(p.dtype).max, p.dtype.type(1)
    low, high = p <= SMALLEST_CHANCE, p == 1
    hit, miss = np.where(low, one, p), np.where(high, one, 1 - p)
    inner = np.clip((p - t) / hit / miss, -most, most)
    ends = np.where(low, (1 - t) / miss - t * STEEPEST, (1 - t) * STEEPEST - t / hit)
    return np.where(low | high, ends, inner)


def binary_cross_entropy(self: Array, target: Array) -> Array:
    """-(t log p + (1 - t) log(1 - p)), the logarithms at least -100; p must be a probability."""
    if self.size and not ((self >= 0) & (self <= 1) | np.isnan(self)).all():
        raise ValueRangeError(
            "binary_cross_entropy: the input must lie between 0 and 1; apply sigmoid first, or use "
            "binary_cross_entropy_with_logits."
        )
    with np.errstate(divide="ignore"):
        log_p, log_q = (np.maximum(a, LOWEST_LOG) for a in (np.log(self), np.log1p(-self)))
    return target * -log_p + (1 - target) * -log_q


# --- texts of unknown alignment ------------------------------------------------------------------


def _ways(alpha: Array, blocked: Array) -> Array:
    """α of the places from which each place is entered: itself, the one before, two before."""
    ways = np.full((3, *alpha.shape), -np.inf, alpha.dtype)
    ways[0], ways[1, :, 1:] = alpha, alpha[:, :-1]
    ways[2, :, 2:] = np.where(blocked[:, 2:], -np.inf, alpha[:, :-2])
    return ways


def ctc_alphas(emitted: Array, blocked: Array, inputs: Array) -> Array:
    """α after each step; a sample's α does not change after its last step."""
    found = alignment.alphas(emitted, blocked, inputs)
    if found is not None:
        return found
    alphas = widen(emitted).copy()
    alphas[:1, :, 2:] = -np.inf
    for t in range(1, len(alphas)):
        ways = _ways(alphas[t - 1], blocked)
        new = np.logaddexp.reduce(ways, 0) + alphas[t]
        alphas[t] = np.where((inputs > t)[:, None], new, alphas[t - 1])
    return alphas.astype(emitted.dtype, copy=False)


def ctc_alphas_backward(
    grad: Array, emitted: Array, blocked: Array, inputs: Array, alphas: Array
) -> Array:
    """Backward through the steps: a gradient goes to the ways into a place by their shares."""
    found = alignment.alphas_back(grad, emitted, blocked, inputs, alphas)
    if found is not None:
        return found
    result, before = np.zeros(emitted.shape, widen(emitted).dtype), widen(alphas)
    carried = np.zeros_like(result[0]) if len(result) else result
    for t in range(len(result) - 1, 0, -1):
        carried += grad[t]
        active = (inputs > t)[:, None]
        result[t] = np.where(active, carried, 0)
        ways = _ways(before[t - 1], blocked)
        top = ways.max(0)
        powers = np.exp(ways - np.where(np.isneginf(top), 0, top))
        shares = powers / np.where(np.isneginf(top), 1, powers.sum(0)) * result[t]
        carried = np.where(active, shares[0], carried)
        carried[:, :-1] += shares[1, :, 1:]
        carried[:, :-2] += shares[2, :, 2:]
    result[:1, :, :2] = (carried + grad[:1])[..., :2] if len(result) else 0
    return result.astype(emitted.dtype, copy=False)
