"""Samples of functions that draw random numbers; the laws set the seed before each call."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import adjoint as ad
from adjoint.testing.samples import Sample, sampler

Samples = Iterator[Sample]


@sampler("rand", "randn")
def sizes(make: Any) -> Samples:
    yield Sample((2, 3), name="plain")
    yield Sample((), dtype=make.dtype, name="0-d")
    yield Sample((2, 0), name="empty")


@sampler("rand.generator", "randn.generator")
def sizes_without_generator(make: Any) -> Samples:
    yield Sample((2, 3), generator=None, name="plain")


@sampler("rand_like", "randn_like")
def likes(make: Any) -> Samples:
    yield Sample(make(2, 3), name="plain")
    yield Sample(make(), name="0-d")
    yield Sample(make(0, 2), dtype=ad.float32, name="empty")


@sampler("rand_like.generator", "randn_like.generator")
def likes_without_generator(make: Any) -> Samples:
    yield Sample(make(2, 3), generator=None, name="plain")


@sampler("randint")
def below(make: Any) -> Samples:
    yield Sample(5, (2, 3), name="plain")
    yield Sample(2, (4,), dtype=ad.bool, name="bool")


@sampler("randint.generator")
def below_without_generator(make: Any) -> Samples:
    yield Sample(5, (2, 3), generator=None, name="plain")


@sampler("randint.low")
def between(make: Any) -> Samples:
    yield Sample(-3, 5, (2, 3), name="plain")
    yield Sample(-3, 5, (), dtype=ad.float32, name="dtype")


@sampler("randint.low_generator")
def between_without_generator(make: Any) -> Samples:
    yield Sample(-3, 5, (2, 3), generator=None, name="plain")


@sampler("randint_like")
def like_below(make: Any) -> Samples:
    yield Sample(make(2, 3), 5, dtype=ad.int64, name="plain")


@sampler("randint_like.generator")
def like_below_without_generator(make: Any) -> Samples:
    yield Sample(make(2, 3), 5, generator=None, dtype=ad.int64, name="plain")


@sampler("randint_like.Tensor")
def like_below_tensor(make: Any) -> Samples:
    yield Sample(make(2, 3), ad.tensor(5), dtype=ad.int64, name="plain")


@sampler("randint_like.Tensor_generator")
def like_below_tensor_without_generator(make: Any) -> Samples:
    yield Sample(make(2, 3), ad.tensor(5), generator=None, dtype=ad.int64, name="plain")


@sampler("randint_like.low_dtype")
def like_between(make: Any) -> Samples:
    yield Sample(make(2, 3), -2, 5, dtype=ad.int64, name="plain")


@sampler("randint_like.low_generator_dtype")
def like_between_without_generator(make: Any) -> Samples:
    yield Sample(make(2, 3), -2, 5, generator=None, dtype=ad.int64, name="plain")


@sampler("randperm")
def permutations(make: Any) -> Samples:
    yield Sample(5, name="plain")
    yield Sample(0, name="empty")


@sampler("randperm.generator")
def permutations_without_generator(make: Any) -> Samples:
    yield Sample(5, generator=None, name="plain")


# A draw has the derivative zero by definition, though its numbers move with the mean.
@sampler("normal.Tensor_float")
def means(make: Any) -> Samples:
    yield Sample(make(2, 3), 0.5, kink=True, name="plain")
    yield Sample(make(), 0.0, kink=True, name="no spread")


@sampler("normal.float_Tensor", real=True)
def spreads(make: Any) -> Samples:
    yield Sample(1.5, make.positive(2, 3), kink=True, name="plain")
    yield Sample(1.5, make.like([0.0, 1.0]), kink=True, name="no spread")


@sampler("normal.Tensor_Tensor", real=True)
def means_and_spreads(make: Any) -> Samples:
    yield Sample(make(2, 1), make.positive(3), kink=True, name="broadcast")
    yield Sample(make(2), make.like([0.0, 1.0]), kink=True, name="no spread")


@sampler("normal.float_float")
def sizes_of_normal(make: Any) -> Samples:
    yield Sample(1.0, 0.5, (2, 3), name="plain")


@sampler("uniform", "normal", "log_normal", "exponential", "cauchy", "random", "bernoulli.float")
def shapes(make: Any) -> Samples:
    yield Sample(make(2, 3), name="plain")
    yield Sample(make(), name="0-d")
    yield Sample(make(0, 2), name="empty")


@sampler("geometric", "bernoulli.p")
def shapes_with_probability(make: Any) -> Samples:
    yield Sample(make(2, 3), 0.3, name="plain")
    yield Sample(make(), 0.3, name="0-d")


@sampler("random.to")
def whole_below(make: Any) -> Samples:
    yield Sample(make(2, 3), 7, name="plain")


@sampler("random.from")
def whole_between(make: Any) -> Samples:
    yield Sample(make(2, 3), -2, 7, name="plain")
    yield Sample(make(2, 3), 2, None, name="open")


@sampler("bernoulli")
def probabilities(make: Any) -> Samples:
    yield Sample(make.probability(2, 3), name="plain")
    yield Sample(make.probability(), name="0-d")
    yield Sample(make.probability(0), name="empty")


@sampler("bernoulli.Tensor")
def tensor_of_probabilities(make: Any) -> Samples:
    yield Sample(make(2, 3), make.probability(3), name="broadcast")


@sampler("poisson")
def rates(make: Any) -> Samples:
    yield Sample(make.positive(2, 3), name="plain")
    yield Sample(make.positive(), name="0-d")


@sampler("multinomial")
def categories(make: Any) -> Samples:
    yield Sample(make.probability(4), 2, name="vector")
    yield Sample(make.probability(2, 4), 6, True, name="with replacement")


# A sampler that rejects is not continuous in its parameters for a given seed: `kink` leaves finite
# differences out; those of the slopes (samples/special.py) and tests/operators/test_random.py have
# them.


@sampler("_standard_gamma")
def gamma_shapes(make: Any) -> Samples:
    yield Sample(make.positive(2, 3), kink=True, name="plain")
    yield Sample(make.positive(), kink=True, name="0-d")
    yield Sample(make.positive(0, 2), kink=True, name="empty")
    yield Sample(make.like([1e-3, 1.0, 7.0, 300.0]), kink=True, name="magnitudes")


@sampler("_standard_von_mises")
def angles(make: Any) -> Samples:
    yield Sample(make.positive(2, 3), kink=True, name="plain")
    yield Sample(make.positive(), kink=True, name="0-d")
    yield Sample(make.positive(0, 2), kink=True, name="empty")
    yield Sample(make.like([1e-3, 1.0, 7.0, 300.0]), kink=True, name="magnitudes")


@sampler("_sample_dirichlet")
def concentrations(make: Any) -> Samples:
    yield Sample(make.positive(2, 3), kink=True, name="plain")
    yield Sample(make.like([0.3, 5.0, 80.0]), kink=True, name="magnitudes")
    yield Sample(make.positive(0, 2), kink=True, name="empty")


@sampler("binomial", real=True)
def counts(make: Any) -> Samples:
    whole = make.like([3.0, 0.0, 7.0]).detach()
    yield Sample(whole, make.probability(3), name="plain")
    yield Sample(make.like(4.0).detach(), make.probability(2, 1), name="broadcast")
