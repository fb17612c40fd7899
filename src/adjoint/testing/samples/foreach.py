"""Samples of operators on lists of tensors, beside those that follow from the mapped operator."""

from __future__ import annotations

from collections.abc import Iterator

from adjoint.table import TABLE
from adjoint.testing.samples import Make, Sample, sampler

Samples = Iterator[Sample]


def _names(*operators: str) -> list[str]:
    """The operators on lists, and those in place where there are such."""
    places = [o.partition(".") for o in operators]
    inplace = [f"_foreach_{name}_{dot}{overload}" for name, dot, overload in places]
    return [f"_foreach_{o}" for o in operators] + [
        o for o in inplace if o.partition(".")[0] in TABLE
    ]


@sampler(
    *_names("maximum.Scalar", "minimum.Scalar", "clamp_max.Scalar", "clamp_min.Scalar"), real=True
)
def ties(make: Make) -> Samples:
    yield Sample([make.like([1.0, 0.5, 2.0])], 1.0, kink=True, name="tie")


@sampler(*_names("add.List", "sub.List", "mul.List", "div.List", "copy"))
def broadcast(make: Make) -> Samples:
    yield Sample([make(2, 3)], [make(3)], name="broadcast")


@sampler(*_names("norm.Scalar", "powsum.Scalar"))
def norms(make: Make) -> Samples:
    yield Sample([make(2, 3), make(4), make()], 3, name="third")


@sampler(*_names("mm"))
def matrices(make: Make) -> Samples:
    yield Sample([make(2, 3), make(3, 1)], [make(3, 2), make(1, 4)], name="plain")


@sampler(*_names("addcmul.Tensor", "addcdiv.Tensor"))
def products_with_factors(make: Make) -> Samples:
    lists = [[make(2, 3), make(4), make()] for _ in range(3)]
    yield Sample(*lists, make(3), name="plain")
