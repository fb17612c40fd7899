"""Special samples of elementwise operators, beside those that every such row has.

Zeros, ties, infinities and magnitudes at which a careless formula overflows; integers and booleans
for operators that take nothing else; exponents at which a power is smooth at 0 and must be so to
second order.
"""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

import adjoint as ad
from adjoint.testing.samples import Make, Sample, sampler

INFINITY = float("inf")
NAN = float("nan")


def _integers(*values: int) -> ad.Tensor:
    return ad.from_numpy(np.array(values))


# powers ------------------------------------------------------------------------------------------


@sampler("pow.Tensor_Scalar")
def powers(make: Make) -> Iterator[Sample]:
    for exponent in (0, 1, 2, 3, 2.0):
        yield Sample(make.like([0.0, -1.5, 2.0]), exponent, name=f"at 0 to the {exponent}")
    yield Sample(make.like([0.5, -1.5, 2.0]), -2, name="negative exponent")
    yield Sample(make.positive(3), 0.5, name="root")
    yield Sample(make.like([0.0, 1.0]), 0.5, kink=True, name="root of 0")
    yield Sample(make.positive(3), 1.5 - 0.5j, name="complex exponent")


@sampler("pow.Tensor_Tensor")
def powers_of_tensors(make: Make) -> Iterator[Sample]:
    base, whole = [0.0, 0.0, 0.0, 0.0, -2.0, -2.0, -2.0], _integers(0, 1, 2, 3, 0, 1, 3)
    yield Sample(make.like(base), whole, name="whole exponents")
    yield Sample(make.like([0.0, 0.0]), make.like([0.0, 0.5]), kink=True, name="at 0")
    yield Sample(make.like([2.0, 0.5]), make.like([0.0, 0.0]), name="exponent 0")
    yield Sample(make.positive(2, 1), make(3), name="any exponents")


@sampler("pow.Scalar")
def powers_of_a_number(make: Make) -> Iterator[Sample]:
    yield Sample(2, make(3), name="of 2")
    yield Sample(0, make.uniform(0.2, 2.0, 3), name="of 0")
    yield Sample(1.5 - 0.5j, make(3), name="of a complex number")


@sampler("float_power.Tensor_Tensor")
def float_powers(make: Make) -> Iterator[Sample]:
    yield Sample(make.positive(2, 3), make(3), name="broadcast")
    yield Sample(make.like([0.0, -2.0]), _integers(2, 3), name="whole exponents")


@sampler("float_power.Tensor_Scalar")
def float_powers_to_a_number(make: Make) -> Iterator[Sample]:
    yield Sample(make.positive(3), 1.5, name="1.5")
    yield Sample(make.like([0.0, -2.0]), 2, name="2")


@sampler("float_power.Scalar")
def float_powers_of_a_number(make: Make) -> Iterator[Sample]:
    yield Sample(2, make(3), name="of 2")


# lengths, angles, signs --------------------------------------------------------------------------


@sampler("hypot", "atan2", real=True)
def lengths(make: Make) -> Iterator[Sample]:
    yield Sample(make.like([0.0, 0.0, -0.0]), make.like([0.0, -0.0, 0.0]), kink=True, name="origin")
    yield Sample(make.like([0.0, 3.0]), make.like([2.0, 0.0]), name="axes")
    far = 1e30 if make.dtype is ad.float32 else 1e200
    yield Sample(make.like([far, 3.0]), make.like([2 * far, far]), kink=True, name="far away")
    yield Sample(make.like([1 / far]), make.like([2 / far]), kink=True, name="near 0")


@sampler("abs", "sgn", "angle")
def directions(make: Make) -> Iterator[Sample]:
    yield Sample(make.like([0, 1, -2, 1j, -1 - 1j]), kink=True, name="axes and 0")


@sampler("copysign.Tensor", real=True)
def signs(make: Make) -> Iterator[Sample]:
    yield Sample(make.like([2.0, -2.0, 0.0]), make.like([-0.0, 0.0, -1.0]), kink=True, name="zeros")


# exponentials ------------------------------------------------------------------------------------


@sampler("logaddexp", "logaddexp2")
def sums_of_exponentials(make: Make) -> Iterator[Sample]:
    a, b = [1.0, 900.0, -900.0, 0.0], [1.0, 0.0, 0.0, 1e-9]
    yield Sample(make.like(a), make.like(b), name="ties and distance")
    if not make.is_complex:
        a, b = [INFINITY, -INFINITY, INFINITY, -INFINITY], [INFINITY, -INFINITY, 0.0, 0.0]
        yield Sample(make.like(a), make.like(b), kink=True, name="infinities")


@sampler("sigmoid")
def far_exponentials(make: Make) -> Iterator[Sample]:
    yield Sample(make.like([-30.0, -1.0, 0.0, 30.0]), name="both ends")
    yield Sample(make.like([-2000.0, 2000.0]), kink=True, name="beyond overflow")


@sampler("ldexp.Tensor")
def scalings(make: Make) -> Iterator[Sample]:
    yield Sample(make(3), _integers(-2, 0, 5), name="whole exponents")
    yield Sample(make(3), make(3), name="any exponents")


@sampler("frexp.Tensor", reference=lambda self: np.frexp(self), real=True)
def floats_in_parts(make: Make) -> Iterator[Sample]:
    yield Sample(make(2, 3), name="matrix")
    yield Sample(make(), name="0-d")
    yield Sample(make(0, 2), name="empty")
    yield Sample(make.like([0.0, 1.0, -2.0]), kink=True, name="powers of 2")


# division and interpolation ----------------------------------------------------------------------


@sampler("div.Tensor_mode")
def rounded_quotients(make: Make) -> Iterator[Sample]:
    yield Sample(make(2, 3), make(3), rounding_mode=None, name="not rounded")
    if not make.is_complex:
        for mode in ("floor", "trunc"):
            yield Sample(make(2, 3), make(3), rounding_mode=mode, name=mode)
            yield Sample(_integers(7, -7), _integers(2, 2), rounding_mode=mode, name=f"int {mode}")


@sampler("div.Scalar_mode")
def rounded_quotients_by_a_number(make: Make) -> Iterator[Sample]:
    yield Sample(make(3), 0.7, rounding_mode=None, name="not rounded")
    if not make.is_complex:
        for mode in ("floor", "trunc"):
            yield Sample(make(3), -0.7, rounding_mode=mode, name=mode)


@sampler("remainder.Tensor", "fmod.Tensor", real=True)
def remainders(make: Make) -> Iterator[Sample]:
    yield Sample(make.like([5.5, -5.5, 5.5, -5.5]), make.like([2.0, 2.0, -2.0, -2.0]), name="signs")


@sampler("add.Tensor", "sub.Tensor")
def complex_factors(make: Make) -> Iterator[Sample]:
    if make.is_complex:
        yield Sample(make(2, 1), make(3), alpha=1.5 - 0.5j, name="complex alpha")


@sampler("add.Scalar", "sub.Scalar", "rsub.Scalar")
def complex_factors_of_numbers(make: Make) -> Iterator[Sample]:
    if make.is_complex:
        yield Sample(make(3), 0.5 + 1j, 1.5 - 0.5j, name="complex alpha")


@sampler("mul.Scalar", "div.Scalar")
def complex_numbers(make: Make) -> Iterator[Sample]:
    yield Sample(make(3), 1.5 - 0.5j, name="complex number")


@sampler("_over")
def quotients_of_a_number(make: Make) -> Iterator[Sample]:
    yield Sample(2, make.positive(2, 3), name="of 2")
    yield Sample(1.5 - 0.5j, make.positive(3), name="of a complex number")


@sampler("lerp.Scalar")
def interpolations(make: Make) -> Iterator[Sample]:
    for weight in (0.0, 0.3, 0.5, 1.0, 1.5):
        yield Sample(make(2, 3), make(3), weight, name=f"weight {weight}")
    if make.is_complex:
        yield Sample(make(3), make(3), 0.3 - 0.6j, name="complex weight")


@sampler("addcmul", "addcdiv")
def fused(make: Make) -> Iterator[Sample]:
    value = 1.5 - 0.5j if make.is_complex else -1.5
    yield Sample(make(3), make(2, 1), make(3), value=value, name="with a factor")


# limits and choices ------------------------------------------------------------------------------


@sampler("clamp", real=True)
def limits(make: Make) -> Iterator[Sample]:
    yield Sample(make(7), -0.5, 0.7, name="both")
    yield Sample(make(), -0.5, 0.7, name="0-d")
    yield Sample(make(0, 2), -0.5, 0.7, name="empty")
    yield Sample(make(3, 2).t(), -0.5, 0.7, name="transposed")
    yield Sample(make(7), None, 0.7, name="above")
    yield Sample(make(7), 0.7, None, name="below")
    yield Sample(make(3), 1.0, -1.0, name="crossed")
    yield Sample(make.like([-1.0, 0.0, 1.0, NAN]), -1.0, 1.0, kink=True, name="limits and NaN")


@sampler("clamp.Tensor", real=True)
def limits_of_tensors(make: Make) -> Iterator[Sample]:
    yield Sample(make(2, 3), make(3), None, name="below")
    yield Sample(make(2, 3), None, make(2, 1), name="above")
    low, high = make.like([-1.0, 0.5, -1.0]), make.like([1.0, -0.5, -0.5])
    yield Sample(make(3), low, high, name="some crossed")
    yield Sample(make.like([1.0, -1.0, 0.0]), low, high, kink=True, name="at the limits")


@sampler("maximum", "minimum", "fmax", "fmin", real=True)
def ties(make: Make) -> Iterator[Sample]:
    yield Sample(make.like([1.0, 0.0, 2.0]), make.like([1.0, -0.0, 3.0]), kink=True, name="ties")


@sampler("fmax", "fmin", real=True)
def missing_values(make: Make) -> Iterator[Sample]:
    yield Sample(make.like([NAN, 1.0]), make.like([2.0, NAN]), kink=True, name="NaN")


@sampler("nan_to_num")
def not_finite(make: Make) -> Iterator[Sample]:
    values = [NAN, INFINITY, -INFINITY, 1.0]
    yield Sample(make.like(values), kink=True, name="not finite")
    yield Sample(make.like(values), 1.0, 2.0, -3.0, kink=True, name="replaced")


@sampler("heaviside", real=True)
def steps(make: Make) -> Iterator[Sample]:
    yield Sample(make.like([-1.0, 0.0, 2.0]), make.like([0.5, 0.5, 0.5]), kink=True, name="at 0")


@sampler("positive")
def anything(make: Make) -> Iterator[Sample]:
    yield Sample(make(), name="0-d")
    yield Sample(make(3, 2).t(), name="transposed")
    yield Sample(make(0, 2), name="empty")


# integers and booleans ---------------------------------------------------------------------------


@sampler("_is_all_true", reference=lambda self: np.all(self))
@sampler("_is_any_true", reference=lambda self: np.any(self))
def booleans(make: Make) -> Iterator[Sample]:
    yield Sample(make.bool(2, 3), name="matrix")
    yield Sample(make.bool(0), name="empty")


@sampler("bitwise_and.Tensor", "bitwise_or.Tensor", "bitwise_xor.Tensor", "gcd", "lcm")
@sampler("bitwise_left_shift.Tensor", "bitwise_right_shift.Tensor")
def pairs_of_integers(make: Make) -> Iterator[Sample]:
    yield Sample(make.index(9, 2, 3), make.index(9, 3), name="broadcast")
    yield Sample(_integers(0, -6, 6), _integers(0, 4, 3), name="0 and signs")


@sampler("bitwise_and.Scalar", "bitwise_or.Scalar", "bitwise_xor.Scalar")
@sampler("bitwise_left_shift.Tensor_Scalar", "bitwise_right_shift.Tensor_Scalar")
def integers_and_a_number(make: Make) -> Iterator[Sample]:
    yield Sample(make.index(9, 2, 3), 3, name="matrix")


@sampler("bitwise_and.Scalar_Tensor", "bitwise_or.Scalar_Tensor", "bitwise_xor.Scalar_Tensor")
@sampler("bitwise_left_shift.Scalar_Tensor", "bitwise_right_shift.Scalar_Tensor")
def a_number_and_integers(make: Make) -> Iterator[Sample]:
    yield Sample(5, make.index(9, 2, 3), name="matrix")


@sampler("bitwise_not", reference=lambda self: ~self)
def bits(make: Make) -> Iterator[Sample]:
    yield Sample(make.index(9, 2, 3), name="integers")
    yield Sample(make.bool(2, 3), name="booleans")
