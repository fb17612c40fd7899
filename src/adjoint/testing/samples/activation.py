"""Samples of activation functions: both sides of every kink, the kinks, and far out."""

from __future__ import annotations

from collections.abc import Iterator

import adjoint as ad
from adjoint.testing.samples import Make, Sample, sampler

Samples = Iterator[Sample]
INFINITY = float("inf")
FAR = [-1e4, -40.0, -7.5, -0.25, 0.25, 7.5, 40.0, 1e4]


@sampler("silu", "mish", "gelu", "softplus", "elu", "celu", real=True)
def far_out(make: Make) -> Samples:
    yield Sample(make.like(FAR), name="far out", kink=True)


@sampler("silu_backward", "mish_backward", "gelu_backward", real=True)
def far_out_backward(make: Make) -> Samples:
    yield Sample(make(8), make.like(FAR), name="far out", kink=True)


@sampler("gelu", real=True)
def approximate_gelu(make: Make) -> Samples:
    yield Sample(make(2, 3), approximate="tanh", name="tanh")
    yield Sample(make.like(FAR), approximate="tanh", name="tanh far out", kink=True)


@sampler("gelu_backward", real=True)
def approximate_gelu_backward(make: Make) -> Samples:
    yield Sample(make(2, 3), make(2, 3), approximate="tanh", name="tanh")
    yield Sample(make(8), make.like(FAR), approximate="tanh", name="tanh far out", kink=True)


@sampler("softplus", real=True)
def softplus_limits(make: Make) -> Samples:
    yield Sample(make(3), 2.0, 0.5, name="low threshold")
    yield Sample(make.like(FAR), 1, 1e9, name="no threshold", kink=True)
    yield Sample(make(3), -1.5, 20, name="negative beta")


@sampler("log_sigmoid_forward", "log_sigmoid", real=True)
def log_sigmoids(make: Make) -> Samples:
    yield Sample(make(2, 3), name="plain")
    yield Sample(make(), name="0-d")
    yield Sample(make(0, 2), name="empty")
    yield Sample(make(3, 2).t(), name="transposed")
    yield Sample(make.like(FAR), name="far out", kink=True)


@sampler("log_sigmoid_backward", real=True)
def log_sigmoid_backwards(make: Make) -> Samples:
    yield Sample(make(2, 3), make(2, 3), make.positive(2, 3).detach(), name="plain")


@sampler("elu_backward", real=True)
def elu_backwards(make: Make) -> Samples:
    yield Sample(make(5), 1.5, 2.0, 0.7, False, make(5), name="of the input")
    yield Sample(make(5), 1.5, 2.0, 0.7, True, make.unit(5), name="of the result")
    yield Sample(make(8), 1.0, 1.0, 1.0, False, make.like(FAR), name="far out", kink=True)


@sampler("hardsigmoid", "hardswish", real=True)
def pieces(make: Make) -> Samples:
    yield Sample(make.like([-5.0, -2.5, 0.5, 2.5, 5.0, 7.0]), name="every piece")
    yield Sample(make.like([-3.0, 0.0, 3.0, 6.0]), name="kinks", kink=True)


@sampler("hardsigmoid_backward", "hardswish_backward", real=True)
def pieces_backward(make: Make) -> Samples:
    yield Sample(make(5), make.like([-5.0, -2.5, 0.5, 2.5, 5.0]), name="every piece")
    yield Sample(make(3), make.like([-3.0, 0.0, 3.0]), name="kinks", kink=True)


@sampler("prelu", real=True)
def prelus(make: Make) -> Samples:
    yield Sample(make(2, 3, 4), make.positive(3), name="channels")
    yield Sample(make(2, 3), make.positive(1), name="one weight")
    yield Sample(make(4), make.positive(), name="vector")
    yield Sample(make(), make.positive(1), name="0-d")
    yield Sample(make(0, 3), make.positive(3), name="empty")


@sampler("rrelu", real=True)
def random_slopes(make: Make) -> Samples:
    yield Sample(make(2, 3), name="evaluating")
    yield Sample(make(4, 5), 0.1, 0.4, True, name="training")


@sampler("rrelu_with_noise", "rrelu_with_noise_functional", real=True)
def random_slopes_with_noise(make: Make) -> Samples:
    yield Sample(make(2, 3), make(2, 3).detach(), name="evaluating")
    yield Sample(make(2, 3), make(2, 3).detach(), 0.1, 0.4, True, name="training")


@sampler("rrelu_with_noise_backward", real=True)
def random_slopes_backward(make: Make) -> Samples:
    noise = make.probability(2, 3).detach()
    yield Sample(make(2, 3), make(2, 3), noise, 0.1, 0.4, True, False, name="training")
    noise = make.probability(2, 3).detach()
    yield Sample(make(2, 3), make(2, 3), noise, 0.1, 0.4, False, False, name="evaluating")


@sampler("glu")
def gates(make: Make) -> Samples:
    yield Sample(make(4), name="vector")
    yield Sample(make(4, 3), 0, name="columns")
    yield Sample(make(2, 6), -1, name="rows")
    yield Sample(make(6, 2).t(), 1, name="transposed")
    yield Sample(make(0, 4), 1, name="empty")


@sampler("glu_jvp")
def gates_forward(make: Make) -> Samples:
    yield Sample(make(2, 2), make(2, 4), make(2, 4), -1, name="rows")


@sampler("softmax.int", "log_softmax.int", "_safe_softmax", real=True)
def softmaxes(make: Make) -> Samples:
    yield Sample(make(2, 3), 1, name="rows")
    yield Sample(make(4, 3).t(), -2, name="transposed")
    yield Sample(make(), 0, name="0-d")
    yield Sample(make(2, 3), 0, dtype=ad.float64, name="dtype")
    yield Sample(make.like([[1e4, -1e4, 0.0], [5.0, 5.0, 5.0]]), 1, name="far apart")


@sampler("_softmax", "_log_softmax", real=True)
def plain_softmaxes(make: Make) -> Samples:
    yield Sample(make(2, 3), 1, False, name="rows")
    yield Sample(make(2, 3, 2), 1, False, name="middle")
    yield Sample(make(3, 1), -1, False, name="of one")
    yield Sample(make(4, 3).t(), -2, False, name="transposed")
    yield Sample(make(), 0, False, name="0-d")
    yield Sample(make(0, 3), 1, False, name="no rows")
    yield Sample(make(2, 0), 1, False, name="empty rows")
    yield Sample(make.like([[1e4, -1e4, 0.0], [5.0, 5.0, 5.0]]), 1, False, name="far apart")


@sampler("_softmax", real=True)
def impossible_elements(make: Make) -> Samples:
    yield Sample(make.like([[1.0, -INFINITY, 0.5]]), 1, False, name="with -inf", kink=True)


@sampler("_safe_softmax", real=True)
def nothing_left(make: Make) -> Samples:
    rows = [[-INFINITY] * 3, [1.0, -INFINITY, 0.5]]
    yield Sample(make.like(rows), 1, name="nothing left", kink=True)


@sampler("_softmax_gradient", real=True)
def softmax_gradients(make: Make) -> Samples:
    """Results are shares, none above 1/2: the gradient of such a one is taken from the others."""
    for shape, dim in (((2, 3), 1), ((3, 2), 0)):
        shares = ad.softmax(0.05 * make(*shape).detach(), dim)
        yield Sample(make(*shape), make.like(shares.tolist()), dim, make.dtype, name=f"along {dim}")


@sampler("_log_softmax_gradient", real=True)
def log_softmax_gradients(make: Make) -> Samples:
    for shape, dim in (((2, 3), 1), ((3, 2), 0)):
        x = make.like((0.05 * make(*shape).detach()).tolist())
        shares = make.like(ad.log_softmax(x.detach(), dim).tolist())
        yield Sample(make(*shape), x, shares, dim, make.dtype, name=f"along {dim}")


@sampler("_masked_softmax", real=True)
def masked(make: Make) -> Samples:
    mask = ad.tensor([[False, True, False], [False, False, True]])
    yield Sample(make(2, 3), mask, 1, name="rows")
    yield Sample(make(2, 3), mask, name="last")
    square = ad.tensor([[False, True], [False, False]])
    yield Sample(make(2, 1, 2, 2), square, 3, 0, name="source mask")
    yield Sample(make(2, 1, 2, 2), square, 3, 1, name="padding mask")
