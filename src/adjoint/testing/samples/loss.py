"""Samples of losses: every reduction, ignored classes, both sides of kinks, and far out."""

from __future__ import annotations

import itertools
from collections.abc import Iterator
from typing import Any

import numpy as np

import adjoint as ad
from adjoint.testing.samples import Make, Sample, sampler

Samples = Iterator[Sample]
NONE, MEAN, SUM = range(3)
NAMES = {NONE: "none", MEAN: "mean", SUM: "sum"}


def reduced(losses: Any, reduction: int) -> Any:
    return losses if reduction == NONE else losses.mean() if reduction == MEAN else losses.sum()


def integers(values: Any) -> ad.Tensor:
    return ad.from_numpy(np.array(values, dtype=np.int64))


# --- classes -------------------------------------------------------------------------------------


def nll_reference(
    self: Any,
    target: Any,
    weight: Any = None,
    reduction: int = MEAN,
    ignore_index: int = -100,
) -> Any:
    """Sample by sample."""
    scores = np.moveaxis(np.asarray(self, np.float64), 1 if self.ndim > 1 else 0, -1)
    rows, classes = scores.reshape((-1, scores.shape[-1])), np.asarray(target).reshape(-1)
    weights = np.ones(rows.shape[1]) if weight is None else np.asarray(weight, np.float64)
    kept = [(0.0, 0.0) if c == ignore_index else (-weights[c] * r[c], weights[c])
            for r, c in zip(rows, classes, strict=True)]  # fmt: skip
    losses, used = (np.array([k[i] for k in kept]) for i in (0, 1))
    if reduction == NONE:
        return losses.reshape(np.asarray(target).shape)
    with np.errstate(invalid="ignore"):
        return losses.sum() / used.sum() if reduction == MEAN else losses.sum()


def cross_entropy_reference(self: Any, target: Any, *rest: Any) -> Any:
    """The same of the logarithm of softmax in float64."""
    if target.dtype.kind == "f" or (len(rest) > 3 and rest[3]):
        raise AssertionError("written for classes only")
    x = np.asarray(self, np.float64)
    axis = 1 if x.ndim > 1 else 0
    shifted = x - x.max(axis, keepdims=True)
    return nll_reference(shifted - np.log(np.exp(shifted).sum(axis, keepdims=True)), target, *rest)


@sampler("nll_loss", "nll_loss_nd", reference=nll_reference, real=True)
def likelihoods(make: Make) -> Samples:
    target = integers([2, 0, 1, 2])
    for reduction, name in NAMES.items():
        yield Sample(make(4, 3), target, None, reduction, name=name)
        yield Sample(make(4, 3), target, make.positive(3), reduction, 0, name=f"{name} weighted")
    yield Sample(make(3), integers(1), make.positive(3), name="one sample")
    yield Sample(make(3), integers(1), None, NONE, name="one sample none")
    yield Sample(make(3, 4).t(), target, name="transposed")
    yield Sample(make(0, 3), integers(np.zeros(0)), None, SUM, name="no samples")
    yield Sample(make(2, 3), integers([-100, -100]), None, SUM, name="all ignored")


@sampler("nll_loss_nd", "nll_loss2d", reference=nll_reference, real=True)
def pixel_likelihoods(make: Make) -> Samples:
    target = integers(np.arange(8).reshape(2, 2, 2) % 3)
    for reduction, name in NAMES.items():
        yield Sample(make(2, 3, 2, 2), target, make.positive(3), reduction, 1, name=f"2d {name}")


@sampler("nll_loss_forward", reference=nll_reference, real=True)
def likelihoods_forward(make: Make) -> Samples:
    target = integers([2, 0, 1, -100])
    for reduction, name in NAMES.items():
        yield Sample(make(4, 3), target, make.positive(3), reduction, -100, name=name)
    yield Sample(make(4, 3, 2), make.index(3, 4, 2), None, MEAN, -100, name="three dimensions")
    yield Sample(make(3), integers(1), None, NONE, -100, name="one sample")


@sampler("nll_loss2d_forward", reference=nll_reference, real=True)
def pixel_likelihoods_forward(make: Make) -> Samples:
    target = integers(np.arange(4).reshape(1, 2, 2) % 3)
    for reduction, name in NAMES.items():
        yield Sample(make(1, 3, 2, 2), target, make.positive(3), reduction, 1, name=name)


@sampler("cross_entropy_loss", reference=cross_entropy_reference, real=True)
def cross_entropies(make: Make) -> Samples:
    target = integers([2, 0, 1, 2])
    for reduction, name in NAMES.items():
        yield Sample(make(4, 3), target, None, reduction, name=name)
        yield Sample(make(4, 3), target, make.positive(3), reduction, 0, name=f"{name} weighted")
    yield Sample(make(3), integers(1), name="one sample")
    yield Sample(make(2, 3, 2), integers([[0, 1], [2, 1]]), name="three dimensions")
    yield Sample(make.like([[1e4, -1e4, 0.0]]), integers([0]), name="far out")
    yield Sample(make.like([[1e3, -1e3, 0.0]]), integers([1]), name="far out and wrong")


@sampler("cross_entropy_loss", real=True)
def smoothed_cross_entropies(make: Make) -> Samples:
    target = integers([2, 0, 1, 0])
    for reduction, name in NAMES.items():
        yield Sample(make(4, 3), target, None, reduction, 0, 0.2, name=f"smooth {name}")
        yield Sample(
            make(4, 3), target, make.positive(3), reduction, 0, 0.2, name=f"smooth weighted {name}"
        )
        yield Sample(
            make(4, 3), make.probability(4, 3), make.positive(3), reduction, -100, 0.2,
            name=f"probabilities {name}",
        )  # fmt: skip
    yield Sample(make(3), make.probability(3), name="probabilities of one sample")
    yield Sample(
        make.like([[1.0, 0.5, -np.inf]]), make.like([[0.5, 0.5, 0.0]]),
        name="impossible class", kink=True,
    )  # fmt: skip


# --- differences and probabilities ---------------------------------------------------------------


def elementwise(function: Any) -> Any:
    """A reference from a function of two elements; further arguments come after the reduction."""

    def reference(self: Any, target: Any, reduction: int = MEAN, *rest: Any) -> Any:
        pair = (np.asarray(a, np.float64) for a in (self, target))
        return reduced(function(*pair, *rest), reduction)

    return reference


def huber(x: Any, t: Any, delta: float = 1.0) -> Any:
    d = np.abs(x - t)
    return np.where(d < delta, d * d / 2, delta * (d - delta / 2))


def pairs(make: Make) -> Samples:
    """Every reduction, broadcasting, nothing at all."""
    for reduction, name in NAMES.items():
        yield Sample(make(2, 3), make(2, 3), reduction, name=name)
    yield Sample(make(3, 2).t(), make(2, 3), name="transposed")
    yield Sample(make(), make(), name="0-d")
    yield Sample(make(0, 2), make(0, 2), SUM, name="empty")


def broadcast(make: Make) -> Samples:
    yield Sample(make(2, 1), make(3), name="broadcast")


def real(function: Any) -> Any:
    def samples(make: Make) -> Samples:
        if not make.is_complex:
            yield from function(make)

    return samples


sampler("mse_loss", reference=elementwise(lambda x, t: (x - t) ** 2))(real(pairs))
sampler("mse_loss", reference=elementwise(lambda x, t: (x - t) ** 2))(real(broadcast))
sampler("l1_loss", reference=elementwise(lambda x, t: np.abs(x - t)))(real(pairs))
sampler("l1_loss", reference=elementwise(lambda x, t: np.abs(x - t)))(real(broadcast))
sampler("smooth_l1_loss", "huber_loss", reference=elementwise(huber))(real(pairs))
sampler("soft_margin_loss", reference=elementwise(lambda x, t: np.logaddexp(0, -x * t)))(
    real(pairs)
)


@sampler("huber_loss", reference=elementwise(huber), real=True)
def hubers(make: Make) -> Samples:
    yield Sample(make.like([-3.0, -0.5, 0.2, 4.0]), make.like(np.zeros(4)), NONE, 0.8, name="delta")
    yield Sample(
        make.like([1.0, -1.0, np.inf]), make.like(np.zeros(3)), NONE, 1.0, name="kinks", kink=True
    )


@sampler("smooth_l1_loss", reference=elementwise(lambda x, t, b=1.0: huber(x, t, b) / b), real=True)
def smooth_l1s(make: Make) -> Samples:
    yield Sample(make.like([-3.0, -0.5, 0.2, 4.0]), make.like(np.zeros(4)), NONE, 0.8, name="beta")
    yield Sample(
        make.like([1.0, -1.0, np.inf]), make.like(np.zeros(3)), NONE, 1.0, name="kinks", kink=True
    )


@sampler("smooth_l1_loss", reference=elementwise(lambda x, t, b: np.abs(x - t)), real=True)
def sharp_l1s(make: Make) -> Samples:
    yield Sample(make(2, 3), make(2, 3), MEAN, 0.0, name="beta 0")


@sampler("_multilabel_soft_margin_loss", real=True)
def several_labels(make: Make) -> Samples:
    for reduction, name in NAMES.items():
        target, weight = make.uniform(0.1, 0.9, 2, 3), make.uniform(0.5, 2.0, 3)
        yield Sample(make(2, 3), target, None, reduction, name=name)
        yield Sample(make(2, 3), target, weight, reduction, name=f"weighted {name}")


def bce_reference(self: Any, target: Any, weight: Any = None, reduction: int = MEAN) -> Any:
    p, t = np.asarray(self, np.float64), np.asarray(target, np.float64)
    with np.errstate(divide="ignore"):
        logs = np.maximum(np.log(p), -100), np.maximum(np.log1p(-p), -100)
    losses = -(t * logs[0] + (1 - t) * logs[1])
    return reduced(losses if weight is None else losses * np.asarray(weight, np.float64), reduction)


@sampler("binary_cross_entropy", reference=bce_reference, real=True)
def binary_cross_entropies(make: Make) -> Samples:
    p, t = make.probability(2, 3), make.probability(2, 3)
    for reduction, name in NAMES.items():
        yield Sample(p, t, None, reduction, name=name)
        yield Sample(p, t, make.positive(3), reduction, name=f"{name} weighted")
    yield Sample(make.probability(), make.probability(), name="0-d")
    yield Sample(make.probability(0, 2), make.probability(0, 2), None, SUM, name="empty")


@sampler("binary_cross_entropy", "_binary_cross_entropy", real=True)
def certain(make: Make) -> Samples:
    yield Sample(
        make.like([0.0, 1.0, 0.0, 1.0]), make.like([0.0, 1.0, 1.0, 0.0]), name="certain", kink=True
    )


def logits_reference(
    self: Any, target: Any, weight: Any = None, pos_weight: Any = None, reduction: int = MEAN
) -> Any:
    x, t = np.asarray(self, np.float64), np.asarray(target, np.float64)
    hit = t * np.logaddexp(0, -x) * (1 if pos_weight is None else np.asarray(pos_weight, float))
    losses = hit + (1 - t) * np.logaddexp(0, x)
    return reduced(losses if weight is None else losses * np.asarray(weight, np.float64), reduction)


@sampler("binary_cross_entropy_with_logits", reference=logits_reference, real=True)
def logits(make: Make) -> Samples:
    for reduction, name in NAMES.items():
        yield Sample(make(2, 3), make.probability(2, 3), None, None, reduction, name=name)
    yield Sample(
        make(2, 3), make.probability(2, 3), make.positive(3), make.positive(3), name="both"
    )
    far = make.like([-1e4, -50.0, 50.0, 1e4])
    yield Sample(far, make.like([0.0, 0.0, 1.0, 1.0]), None, None, NONE, name="far out")
    yield Sample(far, make.like([1.0, 1.0, 0.0, 0.0]), None, None, NONE, name="far out and wrong")


@sampler("kl_div", reference=elementwise(lambda x, t: t * (np.log(t) - x)), real=True)
def divergences(make: Make) -> Samples:
    for reduction, name in NAMES.items():
        yield Sample(make(2, 3), make.probability(2, 3), reduction, name=name)


@sampler("kl_div", real=True)
def log_divergences(make: Make) -> Samples:
    yield Sample(make(2, 3), make(2, 3), log_target=True, name="log target")
    yield Sample(
        make.like([-np.inf, -1.0, -2.0]), make.like([0.0, 0.0, 1.0]), SUM, name="zeros", kink=True
    )


@sampler("poisson_nll_loss", real=True)
def poissons(make: Make) -> Samples:
    for reduction, name in NAMES.items():
        t = make.like([[0.0, 0.5, 1.5], [2.0, 3.0, 7.0]])
        yield Sample(make(2, 3), t, True, False, 1e-8, reduction, name=f"log {name}")
        yield Sample(make.positive(2, 3), t, False, False, 1e-8, reduction, name=name)
    t = make.like([[0.0, 0.5, 1.5], [2.0, 3.0, 7.0]])
    yield Sample(make(2, 3), t, True, True, 1e-8, MEAN, name="full")


@sampler("_gaussian_nll_loss", real=True)
def gaussians(make: Make) -> Samples:
    for reduction, name in NAMES.items():
        var = make.uniform(0.5, 2.0, 2, 3)
        yield Sample(make(2, 3), make(2, 3), var, False, 1e-6, reduction, name=name)
    var = make.uniform(0.5, 2.0, 2, 1)
    yield Sample(make(2, 3), make(2, 3), var, True, 1e-6, MEAN, name="full")


# --- margins -------------------------------------------------------------------------------------


def signs(make: Make, *values: float) -> ad.Tensor:
    return make.like(values).detach()


@sampler("hinge_embedding_loss", real=True)
def hinges(make: Make) -> Samples:
    x = make.like([0.3, 2.0, 0.4, 1.5])
    for reduction, name in NAMES.items():
        yield Sample(x, signs(make, 1, -1, -1, 1), 1.0, reduction, name=name)


@sampler("margin_ranking_loss", real=True)
def rankings(make: Make) -> Samples:
    for reduction, name in NAMES.items():
        pair = make.like([0.3, 2.0, 0.4]), make.like([1.0, -1.0, 0.1])
        yield Sample(*pair, signs(make, 1, -1, -1), 0.5, reduction, name=name)


@sampler("cosine_embedding_loss", real=True)
def cosines(make: Make) -> Samples:
    for reduction, name in NAMES.items():
        yield Sample(make(3, 4), make(3, 4), signs(make, 1, -1, 1), 0.1, reduction, name=name)
    yield Sample(make(4), make(4), make.like(1.0).detach(), name="one pair")
    yield Sample(
        make.like(np.zeros((2, 3))), make(2, 3), signs(make, 1, -1), name="zeros", kink=True
    )


@sampler("triplet_margin_loss", real=True)
def triplets(make: Make) -> Samples:
    for reduction, name in NAMES.items():
        yield Sample(
            make(3, 4), make(3, 4), make(3, 4), 5.0, 2.0, 1e-6, False, reduction, name=name
        )
    yield Sample(make(3, 4), make(3, 4), make(3, 4), 5.0, 3.0, 1e-6, True, name="swapped")


@sampler("multi_margin_loss", real=True)
def multi_margins(make: Make) -> Samples:
    target = integers([2, 0, 1])
    for reduction, name in NAMES.items():
        yield Sample(make.distinct(3, 3), target, 1, 0.7, None, reduction, name=name)
        yield Sample(
            make.distinct(3, 3), target, 2, 0.7, make.positive(3), reduction, name=f"{name} 2"
        )
    yield Sample(make.distinct(3), integers(1), name="one sample")
    yield Sample(make(), integers(0), name="0-d")


@sampler("multilabel_margin_loss", "multilabel_margin_loss_forward", real=True)
def multilabel_margins(make: Make) -> Samples:
    target = integers([[3, 0, -1, 1], [1, -1, 1, 2], [-1, 0, 1, 2]])
    for reduction, name in NAMES.items():
        yield Sample(make.distinct(3, 4), target, reduction, name=name)
    yield Sample(make.distinct(4), integers([3, 0, -1, 1]), MEAN, name="one sample")
    yield Sample(make(), integers(0), MEAN, name="0-d")


# --- texts ---------------------------------------------------------------------------------------


def alignments(
    log_probs: Any, targets: Any, inputs: Any, lengths: Any, blank: int = 0
) -> Iterator[dict[tuple[int, ...], float]]:
    """For each sample the probability of each path that reads as its text."""
    for n, (steps, size) in enumerate(zip(inputs, lengths, strict=True)):
        start = sum(int(k) for k in lengths[:n])
        row = targets[n] if targets.ndim == 2 else targets[start : start + int(size)]
        word = [int(c) for c in row[: int(size)]]
        p = np.exp(np.asarray(log_probs, np.float64)[: int(steps), n])
        found = {}
        for path in itertools.product(range(p.shape[1]), repeat=int(steps)):
            read = [c for i, c in enumerate(path) if c != blank and (i == 0 or c != path[i - 1])]
            if read == word:
                found[path] = float(np.prod([p[t, c] for t, c in enumerate(path)]))
        yield found


def ctc_reference(
    log_probs: Any, targets: Any, inputs: Any, lengths: Any, blank: int = 0, *_: Any
) -> Any:
    """The sum over all alignments, one by one."""
    with np.errstate(divide="ignore"):
        found = alignments(log_probs, targets, inputs, lengths, blank)
        return np.array([-np.log(sum(paths.values())) for paths in found])


@sampler("_ctc_loss", reference=ctc_reference, real=True)
def texts(make: Make) -> Samples:
    rows, flat = integers([[1, 2], [2, 2], [1, 1]]), integers([1, 2, 2])
    yield Sample(make(4, 3, 3), rows, (4, 4, 3), (2, 2, 1), name="rows")
    yield Sample(make(4, 2, 3), flat, (4, 3), (2, 1), name="one vector")
    yield Sample(make(4, 2, 3), integers([[0, 1], [1, 0]]), (3, 4), (2, 0), 2, name="blank 2")
    yield Sample(make(1, 2, 3), integers([[1], [2]]), (1, 0), (1, 0), name="short")


@sampler("_ctc_loss", real=True)
def impossible_texts(make: Make) -> Samples:
    rows = integers([[1, 2], [2, 2]])
    yield Sample(make(3, 2, 3), rows, (3, 2), (2, 2), 0, True, name="impossible", kink=True)


BLOCKED = [[True, False, True, False, True], [True, False, True, True, True]]


@sampler("_ctc_alphas", real=True)
def steps_of_texts(make: Make) -> Samples:
    yield Sample(make(4, 2, 2), ad.tensor([[True, False]] * 2), integers([4, 2]), name="plain")
    yield Sample(make(1, 2, 1), ad.tensor([[True], [True]]), integers([1, 0]), name="short")


@sampler("_ctc_alphas_backward", real=True)
def steps_of_texts_back(make: Make) -> Samples:
    given = ad.tensor(BLOCKED), integers([4, 2])
    yield Sample(make(4, 2, 5), make(4, 2, 5), *given, make(4, 2, 5), name="plain")


@sampler("_ctc_loss.Tensor", reference=ctc_reference, real=True)
def texts_of_tensors(make: Make) -> Samples:
    rows = integers([[1, 2], [2, 2]])
    yield Sample(make(4, 2, 3), rows, integers([4, 3]), integers([2, 1]), name="rows")


def with_gradient(
    log_probs: Any, targets: Any, inputs: Any, lengths: Any, blank: int, *_: Any
) -> Any:
    """The loss by all alignments; its gradient by how often each letter stands at each step."""
    losses = ctc_reference(log_probs, targets, inputs, lengths, blank)
    gradient = np.zeros(log_probs.shape)
    for n, paths in enumerate(alignments(log_probs, targets, inputs, lengths, blank)):
        for path, chance in paths.items():
            for t, letter in enumerate(path):
                gradient[t, n, letter] -= chance / sum(paths.values())
    return losses, gradient


@sampler("_cudnn_ctc_loss", reference=with_gradient, real=True)
def texts_with_gradients(make: Make) -> Samples:
    for sample in texts(make):
        yield Sample(*sample.args[:4], *(sample.args[4:] or (0,)), False, False, name=sample.name)


@sampler("_cudnn_ctc_loss.Tensor", reference=with_gradient, real=True)
def texts_of_tensors_with_gradients(make: Make) -> Samples:
    for sample in texts_of_tensors(make):
        yield Sample(*sample.args, 0, False, False, name=sample.name)


@sampler("_cudnn_ctc_loss", real=True)
def impossible_texts_with_gradients(make: Make) -> Samples:
    for sample in impossible_texts(make):
        yield Sample(*sample.args[:4], 0, False, True, name=sample.name, kink=True)


@sampler("ctc_loss.IntList", real=True)
def reduced_texts(make: Make) -> Samples:
    rows = integers([[1, 2], [2, 1]])
    for reduction, name in NAMES.items():
        yield Sample(make(4, 2, 3), rows, (4, 3), (2, 1), 0, reduction, name=name)
    yield Sample(make(4, 3), integers([1, 2]), (4,), (2,), name="no batch")


@sampler("ctc_loss.Tensor", real=True)
def reduced_texts_of_tensors(make: Make) -> Samples:
    rows, lengths = integers([[1, 2], [2, 1]]), (integers([4, 3]), integers([2, 1]))
    for reduction, name in NAMES.items():
        yield Sample(make(4, 2, 3), rows, *lengths, 0, reduction, name=name)


# --- classes of a linear layer -------------------------------------------------------------------


def linear_reference(
    input: Any, weight: Any, target: Any, bias: Any, ignore_index: int, samples: int
) -> Any:
    """Logits by a loop over features, then as for nll_loss."""
    x, w = np.asarray(input, np.float64), np.asarray(weight, np.float64)
    logits = sum(
        (np.outer(x[:, i], w[:, i]) for i in range(x.shape[1])), np.zeros((len(x), len(w)))
    )
    logits = logits if bias is None else logits + np.asarray(bias, np.float64)
    return cross_entropy_reference(logits, target, None, NONE, ignore_index)


@sampler("_linear_cross_entropy", reference=linear_reference, real=True)
def linear_losses(make: Make) -> Samples:
    yield Sample(
        make(3, 2), make(4, 2), integers([1, 0, 3]), make(4), -100, 2, name="two at a time"
    )
    yield Sample(make(3, 2), make(4, 2), integers([1, 2, 3]), None, 2, 5, name="ignored")
    yield Sample(make(0, 2), make(4, 2), integers([]), make(4), 2, 5, name="no samples")
