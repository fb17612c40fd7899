"""Samples of operators on lists of tensors: entries of different shapes."""

from __future__ import annotations

from collections.abc import Callable, Iterator

import adjoint as ad
from adjoint.table import TABLE
from adjoint.testing.samples import Make, Sample, sampler

Samples = Iterator[Sample]
Draw = Callable[..., ad.Tensor]


def _list(draw: Draw) -> list[ad.Tensor]:
    return [draw(2, 3), draw(4), draw()]


def _names(*operators: str) -> list[str]:
    """The operators on lists, and those in place where there are such."""
    places = [o.partition(".") for o in operators]
    inplace = [f"_foreach_{name}_{dot}{overload}" for name, dot, overload in places]
    return [f"_foreach_{o}" for o in operators] + [
        o for o in inplace if o.partition(".")[0] in TABLE
    ]


@sampler(*_names(
    "abs", "acos", "asin", "atan", "cos", "cosh", "erf", "erfc", "exp", "expm1", "neg",
    "reciprocal", "sigmoid", "sin", "sinh", "tan", "tanh", "clone", "zero",
))  # fmt: skip
def inside(make: Make) -> Samples:
    yield Sample(_list(make.unit), name="plain")


@sampler(*_names("log", "log10", "log1p", "log2", "rsqrt", "sqrt"))
def positive(make: Make) -> Samples:
    yield Sample(_list(make.positive), name="plain")


@sampler(*_names("ceil", "floor", "frac", "max", "round", "sign", "trunc"))
def ordered(make: Make) -> Samples:
    if not make.is_complex:
        yield Sample(_list(make.unit), name="plain")


@sampler(*_names("lgamma"))
def gamma(make: Make) -> Samples:
    if not make.is_complex:
        yield Sample(_list(make.above_one), name="plain")


@sampler(*_names("add.Scalar", "sub.Scalar", "mul.Scalar", "div.Scalar"))
def with_number(make: Make) -> Samples:
    yield Sample(_list(make), 1.5, name="plain")


@sampler(*_names("maximum.Scalar", "minimum.Scalar", "clamp_max.Scalar", "clamp_min.Scalar"))
def with_limit(make: Make) -> Samples:
    if make.is_complex:
        return
    yield Sample(_list(make), 0.25, name="plain")
    yield Sample([make.like([1.0, 0.5, 2.0])], 1.0, kink=True, name="tie")


@sampler(*_names("add.ScalarList", "sub.ScalarList", "mul.ScalarList", "div.ScalarList"))
def with_numbers(make: Make) -> Samples:
    yield Sample(_list(make), [1.5, -2.0, 3.0], name="plain")


@sampler(*_names(
    "maximum.ScalarList", "minimum.ScalarList", "clamp_max.ScalarList", "clamp_min.ScalarList"
))  # fmt: skip
def with_limits(make: Make) -> Samples:
    if not make.is_complex:
        yield Sample(_list(make), [0.25, -0.5, 0.0], name="plain")


@sampler(*_names("add.List", "sub.List", "mul.List", "div.List", "copy"))
def pairs(make: Make) -> Samples:
    yield Sample(_list(make), _list(make), name="plain")
    yield Sample([make(2, 3)], [make(3)], name="broadcast")


@sampler(*_names("add.List", "sub.List"))
def scaled_pairs(make: Make) -> Samples:
    yield Sample(_list(make), _list(make), alpha=2.5, name="alpha")


@sampler(*_names("maximum.List", "minimum.List", "clamp_max.List", "clamp_min.List"))
def extrema(make: Make) -> Samples:
    if not make.is_complex:
        yield Sample(_list(make), _list(make), name="plain")


@sampler(*_names("add.Tensor", "mul.Tensor", "div.Tensor"))
def with_tensor(make: Make) -> Samples:
    yield Sample(_list(make), make(), name="plain")


@sampler(*_names("addcmul.Scalar", "addcdiv.Scalar"))
def products(make: Make) -> Samples:
    yield Sample(_list(make), _list(make), _list(make), 1.5, name="plain")


@sampler(*_names("addcmul.ScalarList", "addcdiv.ScalarList"))
def products_with_numbers(make: Make) -> Samples:
    yield Sample(_list(make), _list(make), _list(make), [1.5, -2.0, 3.0], name="plain")


@sampler(*_names("lerp.List"))
def between(make: Make) -> Samples:
    yield Sample(_list(make), _list(make), _list(make.unit), name="plain")


@sampler(*_names("lerp.Scalar"))
def between_by_number(make: Make) -> Samples:
    yield Sample(_list(make), _list(make), 0.3, name="plain")


@sampler(*_names("lerp.ScalarList"))
def between_by_numbers(make: Make) -> Samples:
    yield Sample(_list(make), _list(make), [0.3, 0.7, 0.5], name="plain")


@sampler(*_names("pow.List"))
def powers(make: Make) -> Samples:
    yield Sample(_list(make.positive), _list(make), name="plain")


@sampler(*_names("pow.Scalar"))
def powers_by_number(make: Make) -> Samples:
    yield Sample(_list(make.positive), 2.5, name="plain")


@sampler(*_names("pow.ScalarList"))
def powers_by_numbers(make: Make) -> Samples:
    yield Sample(_list(make.positive), [2.0, -1.5, 3.0], name="plain")


@sampler("_foreach_pow.ScalarAndTensor")
def powers_of_number(make: Make) -> Samples:
    yield Sample(1.7, _list(make), name="plain")


@sampler(*_names("norm.Scalar", "powsum.Scalar"))
def norms(make: Make) -> Samples:
    yield Sample(_list(make), name="plain")
    yield Sample(_list(make), 3, name="third")


@sampler(*_names("mm"))
def matrices(make: Make) -> Samples:
    yield Sample([make(2, 3), make(3, 1)], [make(3, 2), make(1, 4)], name="plain")


@sampler(*_names("addcmul.Tensor", "addcdiv.Tensor"))
def products_with_factors(make: Make) -> Samples:
    yield Sample(_list(make), _list(make), _list(make), make(3), name="plain")
