"""Points where users of other libraries found wrong derivatives, August and September 2026.

A line is a report: where it was made, the function, the argument, the order and the exact result,
a formula that mpmath evaluates at 60 digits. At these points some library gave 0, inf, nan or a
number far off. Order 0 is the value. From the reports come the function and the argument alone; a
report whose own expression is long stands here with the term that went wrong.

In names "jax-39797" is the issue or pull request 39797 of jax-ml/jax; tf stands for tensorflow, tt
for tenstorrent/tt-metal. A prime is an order of the derivative.

Formulas are closed, as differences of numbers such as 1e-300 would be poor. `first` and `second`
take differences, of rational functions at arguments of ordinary size: good to 40 digits.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import mpmath as mp
import pytest

import adjoint as ad
from adjoint.core.records import record
from adjoint.scipy import special

DIGITS = 60
BOUND = 16  # in eps of the dtype, relative to the exact result
F = ad.nn.functional
f16, f32, f64 = ad.float16, ad.float32, ad.float64
EDGE = 37.42994775023705  # sigmoid rounds to 1
HALF = 0.49999999999999994  # the number below 0.5


@record
class Point:
    """A derivative of a function of one number."""

    name: str  # "jax-39797 i0'"
    function: Callable[[ad.Tensor], ad.Tensor]
    argument: float
    order: int
    exact: Callable[[Any], Any]  # the derivative, in mpmath
    dtype: ad.dtype = f64


@record
class Pullback:
    """A product of a cotangent and the derivative of a function of a vector."""

    name: str  # "torch-195684 softmax"
    function: Callable[[ad.Tensor], ad.Tensor]
    argument: Sequence[float]
    cotangent: Sequence[float] | float  # a number where the result is one
    exact: Callable[..., Any]  # its components, in mpmath
    dtype: ad.dtype = f64


def constants(like: ad.Tensor, *values: float) -> ad.Tensor:
    """A tensor of numbers, of the dtype of another."""
    return ad.tensor(values, dtype=like.dtype)


# Formulas in mpmath.


def first(function: Callable[[Any], Any]) -> Callable[[Any], Any]:
    return lambda x: mp.diff(function, x)


def second(function: Callable[[Any], Any]) -> Callable[[Any], Any]:
    return lambda x: mp.diff(function, x, 2)


def always(number: float) -> Callable[..., Any]:
    return lambda *x: mp.mpf(number)


def one_over_root(shift: int) -> Callable[[Any], Any]:
    """The derivatives of asinh and acosh."""
    return lambda x: 1 / mp.sqrt(x**2 + shift)


def bell(x: Any) -> Any:
    """The derivative of the logistic function, which is even."""
    small = mp.exp(-abs(x))
    return small / (1 + small) ** 2


def bell_slope(x: Any) -> Any:
    return -bell(x) * mp.tanh(x / 2)


def tanh_slope(x: Any) -> Any:
    return mp.sech(x) ** 2


def tanh_curvature(x: Any) -> Any:
    return -2 * mp.tanh(x) * mp.sech(x) ** 2


def silu_slope(x: Any) -> Any:
    return 1 / (1 + mp.exp(-x)) + x * bell(x)


def silu_curvature(x: Any) -> Any:
    return 2 * bell(x) + x * bell_slope(x)


def selu_tail(x: Any) -> Any:
    return selu_scale(x) * mp.mpf("1.6732632423543772848170429916717") * mp.exp(x)


def selu_scale(x: Any) -> Any:
    return mp.mpf("1.0507009873554804934193349852946")


def i1_slope(x: Any) -> Any:
    return mp.besseli(0, x) - mp.besseli(1, x) / x


def normal_tail(x: Any) -> Any:
    return mp.erfc(-x / mp.sqrt(2)) / 2


def sinc_slope(x: Any) -> Any:
    """The derivative of sin(πx)/(πx)."""
    y = mp.pi * x
    return mp.pi * (mp.cos(y) / y - mp.sin(y) / y**2) if x else mp.mpf(0)


def sinc_curvature(x: Any) -> Any:
    if not x:
        return -(mp.pi**2) / 3
    y = mp.pi * x
    return mp.pi**2 * (2 * mp.sin(y) / y**3 - 2 * mp.cos(y) / y**2 - mp.sin(y) / y)


def log_sum_slope(values: Sequence[Any], slopes: Sequence[Any]) -> Any:
    """The derivative of log Σ exp(v) where each v has a slope."""
    weights = [mp.exp(value - max(values)) for value in values]
    return mp.fdot(weights, slopes) / sum(weights)


def two_classes(x: Any, y: Any) -> list[Any]:
    """Of softmax(x, y)[0]: the derivatives are opposite."""
    return [bell(x - y), -bell(x - y)]


def two_losses(x: Any, y: Any) -> list[Any]:
    """Of log softmax(x, y)[0]."""
    other = 1 / (1 + mp.exp(x - y))
    return [other, -other]


def partials(a: Any, *others: Any) -> list[Any]:
    """Of 4000 a b c d, once after b, where the others are 1."""
    return [4000, 0, 4000 * a, 4000 * a]


def direction(*x: Any) -> list[Any]:
    """The gradient of a length."""
    length = mp.sqrt(sum(each**2 for each in x))
    return [each / length for each in x]


def angle_slopes(a: Any, b: Any) -> list[Any]:
    return [b / (a**2 + b**2), -a / (a**2 + b**2)]


# Reports whose function is an expression, on tensors and in mpmath.


def sinc_near_0(t: ad.Tensor) -> ad.Tensor:
    return ad.sinc(2 * t - 1)


def sinc_near_0_slope(t: Any) -> Any:
    return 2 * sinc_slope(2 * t - 1)


def three_sincs(t: ad.Tensor) -> ad.Tensor:
    return (ad.sinc(ad.stack((t, 2 * t + 1, 2 - t / 2))) * constants(t, 2, -3, 5)).sum()


def three_sincs_curvature(t: Any) -> Any:
    terms = zip((t, 2 * t + 1, 2 - t / 2), (1, 4, 0.25), (2, -3, 5))
    return sum(weight * slope * sinc_curvature(x) for x, slope, weight in terms)


def log_sums_of_pairs(t: ad.Tensor) -> ad.Tensor:
    x = ad.stack((t + 2, -2 * t)).reshape(2, 1)
    y = ad.stack((t / 2 - 1, 3 - t, 2 * t + 1)).reshape(1, 3)
    return (ad.logaddexp(x, y) * constants(t, 1, 2, -1, 3, -2, 4).reshape(2, 3)).sum()


def log_sums_of_pairs_curvature(t: Any) -> Any:
    left = ((t + 2, 1), (-2 * t, -2))
    right = ((t / 2 - 1, mp.mpf(0.5)), (3 - t, -1), (2 * t + 1, 2))
    pairs = [(x - y, dx - dy) for x, dx in left for y, dy in right]
    return mp.fdot((1, 2, -1, 3, -2, 4), [bell(gap) * slope**2 for gap, slope in pairs])


def cumulative_log_sums(t: ad.Tensor) -> ad.Tensor:
    x = ad.stack((t, 1 - t, 2 * t + 3, -t, t + 2, 3 * t - 1)).reshape(2, 3)
    weights = constants(t, 1, 2, -1, 3, -2, 4).reshape(2, 3)
    return (ad.logcumsumexp(x, -1) * weights).sum()


def cumulative_log_sums_slope(t: Any) -> Any:
    rows = ((t, 1 - t, 2 * t + 3), (-t, t + 2, 3 * t - 1))
    slopes, weights = ((1, -1, 2), (-1, 1, 3)), ((1, 2, -1), (3, -2, 4))
    prefix = lambda i, n: weights[i][n] * log_sum_slope(rows[i][: n + 1], slopes[i][: n + 1])
    return sum(prefix(i, n) for i in (0, 1) for n in (0, 1, 2))


def saturated_product(v: ad.Tensor) -> ad.Tensor:
    u = -1e8 * v
    return ad.tanh(u) * u * u


def saturated_product_curvature(v: Any) -> Any:
    u = -(10**8) * v
    bend = tanh_curvature(u) * u**2 + 4 * mp.sech(u) ** 2 * u + 2 * mp.tanh(u)
    return 10**16 * bend


def log_sum_with_minus_4(t: ad.Tensor) -> ad.Tensor:
    return ad.logaddexp(t, ad.full_like(t, -4))


def hypotenuse_of_3(t: ad.Tensor) -> ad.Tensor:
    return ad.hypot(2 * t - 1, ad.full_like(t, -3))


def loss_of_1(x: ad.Tensor) -> ad.Tensor:
    return F.binary_cross_entropy_with_logits(x, ad.ones_like(x))


def loss_of_0(x: ad.Tensor) -> ad.Tensor:
    return F.binary_cross_entropy_with_logits(x, ad.zeros_like(x))


def softmax(z: ad.Tensor) -> ad.Tensor:
    return ad.softmax(z, -1)


def log_softmax(z: ad.Tensor) -> ad.Tensor:
    return ad.special.log_softmax(z, -1)


def loss_of_first(z: ad.Tensor) -> ad.Tensor:
    return F.cross_entropy(z.reshape(1, 2), ad.tensor([0]))


def length(*sides: float) -> Callable[[ad.Tensor], ad.Tensor]:
    return lambda t: ad.linalg.norm(t * constants(t, *sides))


def angle(v: ad.Tensor) -> ad.Tensor:
    return ad.atan2(v[0], v[1])


def hypotenuse(v: ad.Tensor) -> ad.Tensor:
    return ad.hypot(v[0], v[1])


def product_slopes(x: ad.Tensor) -> ad.Tensor:
    return ad.grad(lambda y: 4000 * ad.prod(y))(x)


def many_logits(t: ad.Tensor) -> ad.Tensor:
    """One logit and 2¹⁷ - 1 others: 2.5 and -2.5, halves."""
    half = ad.full((2**16,), 2.5, dtype=t.dtype)
    return F.log_softmax(ad.cat((t.reshape(1), half[1:], -half)), 0).sum()


def many_logits_slope(t: Any) -> Any:
    half = 2**16
    total = mp.exp(t) + (half - 1) * mp.exp(2.5) + half * mp.exp(-2.5)
    return 1 - 2 * half * mp.exp(t) / total


def inverse_of_factor(t: ad.Tensor) -> ad.Tensor:
    one = ad.ones_like(t)
    return ad.cholesky_inverse(ad.stack((t + 1, 0 * one, one, 2 * one)).reshape(2, 2)).sum()


def inverse_of_factor_slope(t: Any) -> Any:
    return (t - 4) / (2 * (t + 1) ** 3)


def factor_solution(t: ad.Tensor) -> ad.Tensor:
    one = ad.ones_like(t)
    rows = (2 * one, 0 * one, t, 3 * one, 3 * one, 0 * one, 2 * t + 1, 2 * one)
    b = constants(t, 1, 2, -1, 3).reshape(2, 2)
    weights = constants(t, 1, 2, 3, 4, 2, -1, 4, 3).reshape(2, 2, 2)
    return (ad.cholesky_solve(b, ad.stack(rows).reshape(2, 2, 2)) * weights).sum()


def factor_solution_exact(t: Any) -> Any:
    factors = (mp.matrix([[2, 0], [t, 3]]), mp.matrix([[3, 0], [2 * t + 1, 2]]))
    weights = (((1, 2), (3, 4)), ((2, -1), (4, 3)))
    solutions = [mp.inverse(f * f.T) * mp.matrix([[1, 2], [-1, 3]]) for f in factors]
    return sum(
        weights[k][i][j] * solutions[k][i, j] for k in (0, 1) for i in (0, 1) for j in (0, 1)
    )


def right_solution(t: ad.Tensor) -> ad.Tensor:
    a = ad.stack((t + 2, ad.ones_like(t), ad.zeros_like(t), t + 3)).reshape(2, 2)
    b = ad.stack((t, 2 * t + 1, t + 1, 3 - t)).reshape(2, 2)
    return (ad.linalg.solve(a, b, left=False) * constants(t, 1, 2, -1, 3).reshape(2, 2)).sum()


def right_solution_exact(t: Any) -> Any:
    x, y = t / (t + 2), (t + 1) / (t + 2)  # first column; then substitution
    return x + 2 * (2 * t + 1 - x) / (t + 3) - y + 3 * (3 - t - y) / (t + 3)


def matrix(t: ad.Tensor, *entries: Any) -> ad.Tensor:
    return ad.stack([ad.ones_like(t) * each for each in entries]).reshape(2, 2)


def determinant(t: ad.Tensor) -> ad.Tensor:
    return ad.linalg.det(matrix(t, t + 2, 1, 1, 2 * t + 3))


def moved_determinant(t: ad.Tensor) -> ad.Tensor:
    return ad.linalg.det(matrix(t, 1.3 + t, 0.4, -0.7, 0.9 + t))


def determinant_at_a_tie(t: ad.Tensor) -> ad.Tensor:
    return ad.linalg.det(matrix(t, 1 + t, 0, 0, 1 + t))


def log_determinant(t: ad.Tensor) -> ad.Tensor:
    return ad.linalg.slogdet(matrix(t, t + 2, 1, 1, 3))[1]


def reflection(t: ad.Tensor) -> ad.Tensor:
    vector = ad.stack((ad.ones_like(t), t)).reshape(2, 1)
    return ad.linalg.householder_product(vector, (2 / (1 + t * t)).reshape(1)).sum()


def reflection_exact(t: Any) -> Any:
    return 1 - 2 * (1 + t) / (1 + t**2)


def normalized_row(t: ad.Tensor) -> ad.Tensor:
    row = ad.stack((t, ad.zeros_like(t))).reshape(1, 2)
    return F.layer_norm(row, [2], constants(t, 1, 2), constants(t, 0, 0), 0.25).sum()


def normalized_row_curvature(t: Any) -> Any:
    """Of -t / √(1 + t²)."""
    return 3 * t / mp.sqrt(1 + t**2) ** 5


def normalized_batch(t: ad.Tensor) -> ad.Tensor:
    x = ad.stack([(i + 1) * t + (i % 3 - 1) * t * t + i for i in range(8)]).reshape(2, 2, 2)
    weight, bias = constants(t, 1.5, -0.5), constants(t, 0.25, 1)
    y = F.batch_norm(x, None, None, weight, bias, training=True, eps=0.25)
    return (y * constants(t, *range(1, 9)).reshape(2, 2, 2)).sum()


def normalized_batch_exact(t: Any) -> Any:
    x = [(i + 1) * t + (i % 3 - 1) * t * t + i for i in range(8)]
    channels = ((0, 1, 4, 5), 1.5, 0.25), ((2, 3, 6, 7), -0.5, 1)
    total = mp.mpf(0)
    for places, weight, bias in channels:
        mean = sum(x[i] for i in places) / 4
        deviation = mp.sqrt(sum((x[i] - mean) ** 2 for i in places) / 4 + 0.25)
        total += sum((i + 1) * ((x[i] - mean) / deviation * weight + bias) for i in places)
    return total


def cumulative_products(t: ad.Tensor) -> ad.Tensor:
    x = ad.stack((t, t + 1, 2 - t, t - 1, 2 * t + 1, t + 3)).reshape(2, 3)
    return (ad.cumprod(x, -1) * constants(t, *range(1, 7)).reshape(2, 3)).sum()


def cumulative_products_exact(t: Any) -> Any:
    a, b = t * (t + 1), (t - 1) * (2 * t + 1)
    return t + 2 * a + 3 * a * (2 - t) + 4 * (t - 1) + 5 * b + 6 * b * (t + 3)


# One line a point.
POINTS = (
    Point("jax-39794 torch-192406 paddle-79627 expm1'", ad.expm1, -40, 1, mp.exp),
    Point("jax-39795 paddle-79628 elu'", F.elu, -40, 1, mp.exp),
    Point("jax-39796 paddle-79629 selu'", F.selu, -700, 1, selu_tail),
    Point("jax-39797 i0'", ad.i0, 1e-300, 1, lambda x: mp.besseli(1, x)),
    Point("jax-39798 tf-124835 paddle-79630 silu'", F.silu, -709, 1, silu_slope),
    Point("jax-39799 sqrt'", ad.sqrt, 5e-324, 1, lambda x: 1 / (2 * mp.sqrt(x))),
    Point("jax-39801 tanh''", ad.tanh, 1e-300, 2, tanh_curvature),
    Point("jax-40315 tanh(u)u²''", saturated_product, 1, 2, saturated_product_curvature),
    Point("jax-40342 torch-195527 sigmoid'", ad.sigmoid, 40, 1, bell),
    Point("jax-40342 sigmoid' left", ad.sigmoid, -40, 1, bell),
    Point("torch-195527 sigmoid''", ad.sigmoid, 40, 2, bell_slope),
    Point("jax-40385 torch-195681 tf-126631 sigmoid'", ad.sigmoid, EDGE, 1, bell),
    Point("jax-40343 torch-195527 tf-126524 tanh'", ad.tanh, 20, 1, tanh_slope),
    Point("jax-40343 tf-126524 tanh' left", ad.tanh, -20, 1, tanh_slope),
    Point("torch-195527 tanh''", ad.tanh, 20, 2, tanh_curvature),
    Point("tf-126637 tanh'", ad.tanh, -19.061547465398498, 1, tanh_slope),
    Point("jax-40388 torch-195685 tanh'", ad.tanh, -9.010913848876953, 1, tanh_slope, f32),
    Point("jax-40382 exp2'", ad.exp2, 1024.0000000000002, 1, lambda x: mp.log(2) * 2**x),
    Point("torch-192407 tf-126627 exp2'", ad.exp2, 1024, 1, lambda x: mp.log(2) * 2**x),
    Point("torch-192408 exp2''", ad.exp2, 1024, 2, lambda x: mp.log(2) ** 2 * 2**x),
    Point("jax-40383 tf-126628 logsigmoid''", F.logsigmoid, -EDGE, 2, lambda x: -bell(x)),
    Point("torch-195679 logsigmoid''", F.logsigmoid, EDGE, 2, lambda x: -bell(x)),
    Point("torch-195530 logsigmoid''", F.logsigmoid, 40, 2, lambda x: -bell(x)),
    Point("torch-195530 logsigmoid'' left", F.logsigmoid, -40, 2, lambda x: -bell(x)),
    Point("jax-40387 tf-126635 softplus''", special.softplus, EDGE, 2, bell),
    Point("torch-195682 tf-126632 silu''", F.silu, 40.410841513445845, 2, silu_curvature),
    Point("jax-40409 log_softmax'", many_logits, 2.5, 1, many_logits_slope, f16),
    Point("jax-40627 i0''", lambda t: ad.i0(2 * t - 1), 0.5, 2, always(2)),
    Point("jax-40628 i0'", lambda t: special.i0(2 * t - 1), 0.5, 1, always(0)),
    Point("jax-40640 i0''''", ad.i0, 0, 4, always(0.375)),
    Point("jax-40640 i1'", ad.special.i1, 0, 1, always(0.5)),
    Point("jax-40640 i1'''", ad.special.i1, 0, 3, always(0.375)),
    Point("torch-192291 i0", ad.i0, 713, 0, lambda x: mp.besseli(0, x)),
    Point("torch-192293 i0'", ad.special.i0, 713, 1, lambda x: mp.besseli(1, x)),
    Point("torch-192294 i1", ad.special.i1, 713, 0, lambda x: mp.besseli(1, x)),
    Point("torch-192294 i1'", ad.special.i1, 713, 1, i1_slope),
    Point("jax-40629 sinc'", sinc_near_0, HALF, 1, sinc_near_0_slope),
    Point("torch-196703 sinc''", three_sincs, -0.5, 2, three_sincs_curvature),
    Point("tf-127226 sinc'", lambda t: ad.sinc(2 * t + 1), -0.5, 1, always(0)),
    Point("jax-40634 asinh'", ad.asinh, 1e22, 1, one_over_root(1), f32),
    Point("jax-40634 acosh'", ad.acosh, 1e22, 1, one_over_root(-1), f32),
    Point("tt-55725 asinh'", ad.asinh, 2.0**64, 1, one_over_root(1), f32),
    Point("tt-55725 asinh' largest", ad.asinh, 2.0**126, 1, one_over_root(1), f32),
    Point("tt-55725 acosh'", ad.acosh, 2.0**64, 1, one_over_root(-1), f32),
    Point("tt-52376 k/x'", lambda x: 1e-30 / x, 1e-19, 1, lambda x: -mp.mpf(1e-30) / x**2, f32),
    Point("tt-52376 k/x' large", lambda x: 1e20 / x, 1e20, 1, lambda x: -mp.mpf(1e20) / x**2, f32),
    Point("tinygrad-17852 elu'", F.elu, 300, 1, always(1), f32),
    Point("tinygrad-17852 celu'", F.celu, 300, 1, always(1), f32),
    Point("tinygrad-17852 selu'", F.selu, 300, 1, selu_scale, f32),
    Point("torch-196704 logaddexp''", log_sums_of_pairs, -800, 2, log_sums_of_pairs_curvature),
    Point("tf-127232 logaddexp'", log_sum_with_minus_4, -4, 1, always(0.5)),
    Point("tf-127741 logaddexp''", log_sum_with_minus_4, -4, 2, always(0.25)),
    Point("torch-196705 logcumsumexp'", cumulative_log_sums, -400, 1, cumulative_log_sums_slope),
    Point("tf-127230 hypot''", hypotenuse_of_3, 0.5, 2, lambda t: mp.mpf(4) / 3),
    Point("tf-127244 ldexp'", lambda t: ad.ldexp(t, ad.tensor(3)), 0, 1, always(8)),
    Point("torch-195529 bce", loss_of_0, -40, 0, lambda x: mp.log1p(mp.exp(x))),
    Point("torch-195529 bce'", loss_of_1, 40, 1, lambda x: -1 / (1 + mp.exp(x))),
    Point("torch-195529 bce' left", loss_of_0, -40, 1, lambda x: 1 / (1 + mp.exp(-x))),
    Point("torch-195677 bce'", loss_of_1, EDGE, 1, lambda x: -1 / (1 + mp.exp(x))),
    Point("torch-195677 bce' left", loss_of_0, -EDGE, 1, lambda x: 1 / (1 + mp.exp(-x))),
    Point("torch-192295 ndtr", ad.special.ndtr, -9, 0, normal_tail),
    Point("torch-192295 ndtr far", ad.special.ndtr, -30, 0, normal_tail),
    Point("mindspore-400 digamma", ad.digamma, 1e-100, 0, mp.digamma),
    Point("mindspore-400 lgamma'", ad.lgamma, 1e-100, 1, mp.digamma),
    Point("e3x-32 norm'", length(3000, 4000), 1, 1, always(5000), f16),
    Point("e3x-32 norm' small", length(3e-20, 4e-20), 1, 1, always(5e-20), f32),
    Point("torch-196682 cholesky_inverse'", inverse_of_factor, 0.7, 1, inverse_of_factor_slope),
    Point("torch-196694 cholesky_solve'", factor_solution, -7, 1, first(factor_solution_exact)),
    Point("torch-196695 solve''", right_solution, -0.5, 2, second(right_solution_exact)),
    Point("torch-196696 det''", determinant, 0.7, 2, always(4)),
    Point("torch-192540 det''", moved_determinant, 0, 2, always(2)),
    Point("torch-192521 det'' at a tie", determinant_at_a_tie, 0, 2, always(2)),
    Point("torch-196697 slogdet''", log_determinant, 0.7, 2, lambda t: -9 / (3 * t + 5) ** 2),
    Point("torch-196698 householder''", reflection, 0.7, 2, second(reflection_exact)),
    Point("torch-196699 batch_norm''", normalized_batch, -6, 2, second(normalized_batch_exact)),
    Point("torch-196700 layer_norm''", normalized_row, 0.7, 2, normalized_row_curvature),
    Point("torch-196701 cumprod''", cumulative_products, 1, 2, second(cumulative_products_exact)),
)  # fmt: skip

PULLBACKS = (
    Pullback("torch-195684 jax-40386 tf-126633 softmax", softmax, (EDGE, 0), (1, 0), two_classes),
    Pullback("torch-195531 jax-40344 softmax", softmax, (40, 0), (1, 0), two_classes),
    Pullback("torch-195680 jax-40384 log_softmax", log_softmax, (EDGE, 0), (1, 0), two_losses),
    Pullback("torch-195678 tf-126636 cross_entropy", loss_of_first, (EDGE, 0), -1, two_losses),
    Pullback("torch-195531 jax-40344 cross_entropy", loss_of_first, (40, 0), -1, two_losses),
    Pullback("torch-193006 norm", ad.linalg.norm, (1e20, 1, 1), 1, direction, f32),
    Pullback("torch-193040 atan2", angle, (2e-3, 2e-3), 1, angle_slopes, f16),
    Pullback("torch-193040 atan2 small", angle, (1e-4, 1e-4), 1, angle_slopes, f16),
    Pullback("torch-193040 atan2 large", angle, (200, 200), 1, angle_slopes, f16),
    Pullback("torch-193012 prod''", product_slopes, (0.03, 1, 1, 1), (0, 1, 0, 0), partials, f16),
    Pullback("tt-54551 prod", ad.prod, (2, 0, 4), 1, lambda *x: [0, 8, 0], f32),
    Pullback("tt-53905 hypot", hypotenuse, (3e38, 1e38), 1, direction, f32),
    Pullback("tt-53905 hypot small", hypotenuse, (1e-20, 1e-20), 1, direction, f32),
    Pullback("tt-53905 hypot axis", hypotenuse, (1e20, 0), 1, direction, f32),
)  # fmt: skip


def reverse(function: Any, order: int) -> Any:
    for _ in range(order):
        function = ad.grad(function)
    return function


def forward(function: Any, order: int) -> Any:
    for _ in range(order):
        function = slope(function)
    return function


def slope(function: Any) -> Any:
    return lambda x: ad.jvp(function, (x,), (ad.ones_like(x),))[1]


WAYS: dict[str, Callable[[Any, int], Any]] = {
    "grad": reverse,
    "jvp": forward,
    "compiled grad": lambda function, order: ad.compile(reverse(function, order)),
    "compiled jvp": lambda function, order: ad.compile(forward(function, order)),
}


@pytest.mark.parametrize("way", WAYS)
@pytest.mark.parametrize("point", POINTS, ids=lambda point: point.name)
def test_derivatives_at_reported_points_are_exact_to_rounding(point: Point, way: str) -> None:
    argument = ad.tensor(point.argument, dtype=point.dtype)
    found = WAYS[way](point.function, point.order)(argument)
    with mp.workdps(DIGITS):
        exact = point.exact(mp.mpf(argument.item()))
        assert_near(found, exact, point.dtype)


def pulled(function: Any, x: ad.Tensor, cotangent: ad.Tensor) -> ad.Tensor:
    return ad.vjp(function, x)[1](cotangent)[0]


def pushed(function: Any, x: ad.Tensor, cotangent: ad.Tensor) -> ad.Tensor:
    """The same numbers from forward mode, a unit tangent at a time."""
    units = ad.eye(len(x), dtype=x.dtype)
    return ad.stack([(cotangent * ad.jvp(function, (x,), (unit,))[1]).sum() for unit in units])


PRODUCTS: dict[str, Callable[[Any], Any]] = {
    "vjp": lambda function: lambda x, y: pulled(function, x, y),
    "jvp": lambda function: lambda x, y: pushed(function, x, y),
    "compiled vjp": lambda function: ad.compile(lambda x, y: pulled(function, x, y)),
    "compiled jvp": lambda function: ad.compile(lambda x, y: pushed(function, x, y)),
}


@pytest.mark.parametrize("way", PRODUCTS)
@pytest.mark.parametrize("point", PULLBACKS, ids=lambda point: point.name)
def test_every_component_at_reported_points_is_exact_to_rounding(point: Pullback, way: str) -> None:
    argument = ad.tensor(point.argument, dtype=point.dtype)
    cotangent = ad.tensor(point.cotangent, dtype=point.dtype)
    found = PRODUCTS[way](point.function)(argument, cotangent)
    with mp.workdps(DIGITS):
        exact = point.exact(*map(mp.mpf, argument.tolist()))
        for component, truth in zip(found, exact, strict=True):
            assert_near(component, truth, point.dtype)


def assert_near(found: ad.Tensor, exact: Any, dtype: ad.dtype) -> None:
    assert found.dtype == dtype
    value = found.item()
    assert mp.isfinite(value), (value, mp.nstr(exact, 17))
    error = abs(mp.mpf(value) - exact)
    bound = BOUND * mp.mpf(ad.finfo(dtype).eps) * abs(exact)
    assert error <= bound, (value, mp.nstr(exact, 17))
