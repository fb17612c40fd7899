"""Samples of reductions: all dimensions, some, none; scalars, nothing; ties, zeros, infinities."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np

import adjoint as ad
from adjoint.testing.samples import Make, Sample, sampler

INFINITY = float("inf")
DIMS: list[tuple[tuple[int, ...], Any, bool, str]] = [
    ((), (), False, "scalar"),
    ((), (0,), True, "scalar with a dimension"),
    ((4,), (0,), False, "vector"),
    ((3, 4), (1,), False, "last"),
    ((3, 4), (-2,), True, "kept"),
    ((2, 3, 4), (0, -1), False, "two"),
    ((2, 3, 2), (), True, "all kept"),
]


def _wide(make: Make) -> ad.DType:
    """The widest dtype of the kind under test."""
    return ad.complex128 if make.is_complex else ad.float64


# sums --------------------------------------------------------------------------------------------


@sampler("sum", "mean")
def whole(make: Make) -> Iterator[Sample]:
    yield Sample(make(), name="scalar")
    yield Sample(make(5), name="vector")
    yield Sample(make(4, 3).t(), name="transposed")
    yield Sample(make(2, 3, 2)[:, ::2], name="strided")


@sampler("sum")
def sums(make: Make) -> Iterator[Sample]:
    yield Sample(make(0, 3), name="empty")
    yield Sample(make(3), dtype=_wide(make), name="dtype")


@sampler("sum.dim_IntList", "mean.dim")
def over_dims(make: Make) -> Iterator[Sample]:
    for shape, dim, keepdim, name in DIMS:
        yield Sample(make(*shape), dim, keepdim, name=name)
    yield Sample(make(4, 3).t(), (0,), name="transposed")
    yield Sample(make(3, 2), None, name="None")
    yield Sample(make(0, 3), (1,), name="empty kept")


@sampler("sum.dim_IntList")
def sums_over_nothing(make: Make) -> Iterator[Sample]:
    yield Sample(make(3, 0), (1,), name="of nothing")
    yield Sample(make(2, 3), (1,), False, dtype=_wide(make), name="dtype")


@sampler("nansum", "nanmean")
def with_nan(make: Make) -> Iterator[Sample]:
    for shape, dim, keepdim, name in DIMS:
        yield Sample(make(*shape), dim, keepdim, name=name)
    if not make.is_complex:
        yield Sample(make.like([[1.0, np.nan, 2.0], [np.nan, 3.0, -1.0]]), (1,), name="nan")


@sampler("prod")
def products(make: Make) -> Iterator[Sample]:
    yield Sample(make(), name="scalar")
    yield Sample(make(0), name="empty")
    yield Sample(make(2, 3), name="matrix")
    yield Sample(make(3, 2).t(), name="transposed")
    yield Sample(make.like([2.0, 0.0, 3.0]), name="one zero")
    yield Sample(make.like([0.0, 2.0, 0.0, 3.0]), name="two zeros")
    yield Sample(make.like([0.0, 0.0, 0.0]), name="only zeros")


@sampler("prod.dim_int")
def products_along(make: Make) -> Iterator[Sample]:
    yield Sample(make(), 0, name="scalar")
    yield Sample(make(3, 4), 1, name="last")
    yield Sample(make(3, 4), -2, True, name="kept")
    yield Sample(make(2, 0), 1, name="of nothing")
    yield Sample(make(4, 1), 1, name="of one")
    yield Sample(make.like([[2.0, 0.0, 3.0], [0.0, 1.0, 0.0], [1.5, 2.0, 3.0]]), 1, name="zeros")


@sampler("_other_factors")
def other_factors(make: Make) -> Iterator[Sample]:
    yield Sample(make(), None, name="scalar")
    yield Sample(make(3, 2), None, name="all")
    yield Sample(make(3, 4), -1, name="last")
    yield Sample(make(0), 0, name="empty")
    yield Sample(make.like([0.0, 2.0, 0.0, 3.0]), 0, name="two zeros")


@sampler("_quotient")
def quotients(make: Make) -> Iterator[Sample]:
    yield Sample(make(3, 4), make(4), name="broadcast")
    yield Sample(make(2), make.like([0.0, 2.0]), kink=True, name="zero")


@sampler("_directed")
def directed(make: Make) -> Iterator[Sample]:
    yield Sample(make(3, 4), make(3, 4), make(4), name="broadcast")
    yield Sample(make(2), make(2), make.like([0.0, 2.0]), kink=True, name="zero")


@sampler("_length_backward", "_std_backward")
def lengths_backward(make: Make) -> Iterator[Sample]:
    yield Sample(make(3), make(3, 4), make(3), (1,), False, name="rows")
    yield Sample(make(1, 4), make(3, 4), make(1, 4), (0,), True, name="kept")
    yield Sample(make(), make(3, 4), make(), None, False, name="all")


@sampler("_direction", real=True)
def directions(make: Make) -> Iterator[Sample]:
    yield Sample(make(3, 4), (1,), 1e-8, name="rows")
    yield Sample(make(3, 2), (0,), 1e-8, name="columns")
    yield Sample(make(3, 2), (1,), 100.0, name="short")
    yield Sample(make(), (0,), 1e-8, name="0-d")


@sampler("_exp_shares")
def shares_of_powers(make: Make) -> Iterator[Sample]:
    for shape, dim, keepdim, kept in (((3, 4), (1,), False, (3,)), ((3, 4), (0, 1), True, (1, 1))):
        yield Sample(make(*shape), make(*kept), dim, keepdim, name=f"over {dim}")
    if not make.is_complex:
        odd = make.like([[-np.inf, -np.inf], [np.inf, np.inf], [1.0, -np.inf]])
        yield Sample(odd, make.like([-np.inf, np.inf, 1.0]), (1,), False, kink=True, name="odd")


@sampler("_unreduce")
def unreduced(make: Make) -> Iterator[Sample]:
    yield Sample(make(), None, (2, 3), False, name="from scalar")
    yield Sample(make(3), (0, 2), (2, 3, 4), False, name="two")
    yield Sample(make(1, 3), (0,), (2, 3), True, name="kept")
    yield Sample(make(3, 2).t(), (1,), (2, 4, 3), False, name="transposed")
    yield Sample(make(), (0,), (), False, name="scalar")


# extrema -----------------------------------------------------------------------------------------


@sampler("amax", "amin", real=True)
def extrema(make: Make) -> Iterator[Sample]:
    for shape, dim, keepdim, name in DIMS:
        yield Sample(make.distinct(*shape), dim, keepdim, name=name)
    yield Sample(make.distinct(4, 3).t(), (0,), name="transposed")
    yield Sample(make.like([[1.0, 2, 2], [1, 1, 2], [0, 0, 0]]), (1,), kink=True, name="ties")


@sampler("max", "min", real=True)
def extrema_of_all(make: Make) -> Iterator[Sample]:
    yield Sample(make.distinct(), name="scalar")
    yield Sample(make.distinct(3, 4), name="matrix")
    yield Sample(make.like([[1.0, 2, 2], [1, 1, 2]]), kink=True, name="ties")


@sampler("max.dim", "min.dim", real=True)
def extrema_along(make: Make) -> Iterator[Sample]:
    yield Sample(make.distinct(), 0, name="scalar")
    yield Sample(make.distinct(5), 0, True, name="vector kept")
    yield Sample(make.distinct(3, 4), -1, name="last")
    yield Sample(make.distinct(4, 3).t(), 0, name="transposed")
    yield Sample(make.like([[1.0, 2, 2], [1, 1, 2]]), 1, kink=True, name="ties")


@sampler("argmax", "argmin", real=True)
def positions(make: Make) -> Iterator[Sample]:
    yield Sample(make.distinct(3, 4), name="all")
    yield Sample(make.distinct(3, 4), 1, True, name="kept")
    yield Sample(make.distinct(), 0, name="scalar")
    yield Sample(make.like([[1.0, 2, 2], [1, 1, 2]]), 1, name="ties")


@sampler("aminmax", real=True)
def both_extrema(make: Make) -> Iterator[Sample]:
    yield Sample(make.distinct(3, 4), name="all")
    yield Sample(make.distinct(3, 4), dim=1, keepdim=True, name="kept")
    yield Sample(make.distinct(), dim=0, name="scalar")


@sampler("_tie_weights")
def ties(make: Make) -> Iterator[Sample]:
    if not make.dtype.is_floating_point:
        return
    data = make.like([[1.0, 2, 2], [1, 1, 2], [0, 0, 0]])
    yield Sample(data, data.amax((1,)), (1,), False, name="rows")
    yield Sample(data, data.amax(), None, False, name="all")


@sampler("value_selecting_reduction_backward")
def selections(make: Make) -> Iterator[Sample]:
    yield Sample(make(3), 1, make.index(4, 3), (3, 4), False, name="last")
    yield Sample(make(1, 4), 0, make.index(3, 1, 4), (3, 4), True, name="kept")


# truth and counting ------------------------------------------------------------------------------


@sampler("any", "all", "count_nonzero")
def truths(make: Make) -> Iterator[Sample]:
    yield Sample(make.like([[0.0, 1.0], [2.0, 0.0]]), name="mixed")
    yield Sample(make(0), name="empty")
    yield Sample(make(), name="scalar")


@sampler("any.dim", "all.dim")
def truths_along(make: Make) -> Iterator[Sample]:
    yield Sample(make.like([[0.0, 1.0], [0.0, 0.0], [2.0, 3.0]]), 1, name="mixed")
    yield Sample(make.like([[0.0, 1.0], [0.0, 0.0], [2.0, 3.0]]), -2, True, name="kept")
    yield Sample(make(2, 0), 1, name="of nothing")


@sampler("any.dims", "all.dims")
def truths_over(make: Make) -> Iterator[Sample]:
    yield Sample(make.like([[0.0, 1.0], [0.0, 0.0], [2.0, 3.0]]), (0, 1), name="both")
    yield Sample(make.like([[0.0, 1.0], [0.0, 0.0], [2.0, 3.0]]), None, True, name="None")
    yield Sample(make.like([0.0, 1.0]), (), name="none of them")


@sampler("count_nonzero.dim_IntList")
def counts(make: Make) -> Iterator[Sample]:
    yield Sample(make.like([[0.0, 1.0], [0.0, 0.0], [2.0, 3.0]]), (0,), name="first")
    yield Sample(make.like([[0.0, 1.0], [0.0, 0.0], [2.0, 3.0]]), (0, -1), name="both")


@sampler("hash_tensor", real=True)
def hashes(make: Make) -> Iterator[Sample]:
    yield Sample(make(3, 4), name="all")
    yield Sample(make(3, 4), (1,), keepdim=True, name="kept")


# logsumexp and norms -----------------------------------------------------------------------------


@sampler("logsumexp")
def log_sums(make: Make) -> Iterator[Sample]:
    for shape, dim, keepdim, name in DIMS:
        if dim:
            yield Sample(make(*shape), dim, keepdim, name=name)
    yield Sample(make.like([[900.0, 901.0], [-900.0, -901.0]]), (1,), name="extreme")
    yield Sample(make.like([[-INFINITY, 1.0, 2.0]]), (1,), name="one -inf")


@sampler("logsumexp", real=True)
def infinite_log_sums(make: Make) -> Iterator[Sample]:
    yield Sample(make.like([-INFINITY, -INFINITY]), (0,), kink=True, name="all -inf")
    yield Sample(make.like([1.0, INFINITY]), (0,), kink=True, name="inf")


@sampler("linalg_vector_norm")
def vector_norms(make: Make) -> Iterator[Sample]:
    for p in (2, 1, 3, 1.5, 0.5, -1, INFINITY, -INFINITY):
        yield Sample(make.distinct(5), p, name=f"p={p}")
        yield Sample(make.distinct(3, 4), p, (1,), True, name=f"p={p} kept")
    yield Sample(make.distinct(2, 3), name="matrix")
    yield Sample(make(), name="scalar")
    yield Sample(make(3, 2).t(), 2, (0,), name="transposed")
    yield Sample(make(0), name="empty")
    yield Sample(make.like([0.0, 2.0, -1.0]), name="one zero")
    yield Sample(make.like([0.0, 2.0, -1.0]), 3, name="one zero p=3")


@sampler("linalg_vector_norm")
def norms_at_kinks(make: Make) -> Iterator[Sample]:
    for p in (0, 1, 1.5, 2, 3, INFINITY, -INFINITY, -1):
        yield Sample(make.like([0.0, 0.0]), p, kink=True, name=f"zero p={p}")
        yield Sample(make.like([0.0, 3.0, -3.0]), p, kink=True, name=f"ties p={p}")


def norms(make: Make) -> Iterator[Sample]:
    yield Sample(make(3, 4), name="default")
    yield Sample(make(4), 3, name="p=3")


@sampler("norm.ScalarOpt_dim")
def norms_along(make: Make) -> Iterator[Sample]:
    yield Sample(make(3, 4), None, (0,), True, name="p=None")
    yield Sample(make(3, 4), 1, (0, 1), name="p=1")


@sampler("norm.ScalarOpt_dtype")
def norms_in_dtype(make: Make) -> Iterator[Sample]:
    yield Sample(make(3), None, dtype=_wide(make))


@sampler("norm.ScalarOpt_dim_dtype")
def norms_along_in_dtype(make: Make) -> Iterator[Sample]:
    yield Sample(make(2, 3), 2, (1,), False, dtype=_wide(make))


@sampler("norm.keywords")
def norms_by_keyword(make: Make) -> Iterator[Sample]:
    yield Sample(make(2, 3), p=3, keepdim=True, name="kept")
    yield Sample(make(2, 3), dim=(1,), name="dim")


@sampler("norm.named")
def norms_by_name(make: Make) -> Iterator[Sample]:
    yield Sample(make(2, 3), "fro", name="fro")
    yield Sample(make(2, 3, 2), "fro", (0, 1), True, name="fro kept")


@sampler("dist")
def distances(make: Make) -> Iterator[Sample]:
    for p in (2, 1, 3, INFINITY):
        yield Sample(make.distinct(3, 4), make.distinct(4), p, name=f"p={p}")
    yield Sample(make(), make(), name="scalars")


@sampler("renorm")
def renormed(make: Make) -> Iterator[Sample]:
    yield Sample(make(3, 4), 2, 0, 1.5, name="p=2")
    yield Sample(make(3, 4), 1, -1, 1.5, name="p=1")
    yield Sample(make(2, 3, 2), 3.0, 1, 1.0, name="three dimensions")
    yield Sample(make.like([[0.0, 0.0], [3.0, 4.0]]), 2, 0, 1.0, name="a zero slice")


# variances ---------------------------------------------------------------------------------------


@sampler("var.correction", "std.correction", "var_mean.correction", "std_mean.correction")
def moments(make: Make) -> Iterator[Sample]:
    yield Sample(make(5), name="vector")
    yield Sample(make(3, 4), (1,), correction=0, keepdim=True, name="kept")
    yield Sample(make(3, 4), (-2,), correction=0.5, name="half")
    yield Sample(make(2, 3, 4), (0, 2), name="two")
    yield Sample(make(4, 3).t(), None, name="transposed")


@sampler("var.dim", "std.dim", "var_mean.dim", "std_mean.dim")
def moments_along(make: Make) -> Iterator[Sample]:
    yield Sample(make(2, 3), (1,), name="unbiased")
    yield Sample(make(2, 3), (0,), False, True, name="biased")


@sampler("std.correction")
def constant(make: Make) -> Iterator[Sample]:
    yield Sample(make.like([2.0, 2.0, 2.0]), kink=True, name="constant")


# segments ----------------------------------------------------------------------------------------


def _ints(*values: Any) -> ad.Tensor:
    return ad.from_numpy(np.array(values))


@sampler("segment_reduce", "_segment_reduce", real=True)
def segments(make: Make) -> Iterator[Sample]:
    for reduce in ("sum", "mean", "max", "min", "prod"):
        data = make.distinct(6, 2)
        yield Sample(data, reduce, lengths=_ints(2, 0, 4), initial=0.5, name=f"{reduce} lengths")
        yield Sample(make.distinct(6), reduce, offsets=_ints(0, 1, 5), name=f"{reduce} offsets")
        data, lengths = make.distinct(2, 4), _ints([1, 3], [2, 2])
        yield Sample(data, reduce, lengths=lengths, axis=1, name=f"{reduce} rows")
    zeros = make.like([2.0, 0.0, 3.0, 0.0, 0.0, 2.0])
    yield Sample(zeros, "prod", lengths=_ints(3, 3), name="prod with zeros")
    ties = make.like([2.0, 2.0, 1.0, 3.0])
    yield Sample(ties, "max", lengths=_ints(3, 1), kink=True, name="ties")


@sampler("_segment_ids")
def segment_ids(make: Make) -> Iterator[Sample]:
    yield Sample(_ints(2, 0, 4), None, 0, (6, 2), name="lengths")
    yield Sample(None, _ints([0, 2, 3], [1, 1, 4]), 1, (2, 4), name="offsets")


@sampler("cov")
def observations(make: Make) -> Iterator[Sample]:
    yield Sample(make(3, 5), name="matrix")
    yield Sample(make(5), correction=0, name="vector")
    weights = ad.tensor([0.5, 1.0, 2.0, 0.3, 1.2], dtype=ad.float64, requires_grad=True)
    counts = ad.tensor([1, 2, 0, 3, 1])
    yield Sample(make(2, 5), fweights=counts, aweights=weights, name="weights")
    yield Sample(make(2, 5), correction=2, fweights=counts, name="counts")


@sampler("corrcoef")
def correlated(make: Make) -> Iterator[Sample]:
    yield Sample(make(3, 5), name="matrix")


@sampler("_nearby", real=True)
def beside_zero(make: Any) -> Iterator[Sample]:
    yield Sample(make(3), name="vector")
    yield Sample(make(2, 3), name="matrix")
