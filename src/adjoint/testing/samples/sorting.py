"""Samples of sorting, ranks, distinct values, searching and counting: ties, NaN, scalars, none."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np

import adjoint as ad
from adjoint.testing.samples import Make, Sample, sampler

NAN = float("nan")
INFINITY = float("inf")


def _sorted(self: Any, dim: int = -1, descending: bool = False, **ignored: Any) -> Any:
    if np.ndim(self) == 0:
        return self, 0
    values = np.sort(self, axis=dim)
    return (np.flip(values, dim) if descending else values,)


def _kth(self: Any, k: int, dim: int = -1, keepdim: bool = False) -> Any:
    if np.ndim(self) == 0:
        return (self,)
    return (np.sort(self, axis=dim).take([k - 1] if keepdim else k - 1, axis=dim),)


# sorting -----------------------------------------------------------------------------------------


@sampler("sort", reference=_sorted, real=True)
@sampler("argsort", real=True)
def orders(make: Make) -> Iterator[Sample]:
    yield Sample(make.distinct(), 0, name="scalar")
    yield Sample(make.distinct(5), name="vector")
    yield Sample(make.distinct(3, 4), 0, True, name="descending")
    yield Sample(make.distinct(2, 3, 4), -2, name="middle")
    yield Sample(make.distinct(4, 3).t(), -1, name="transposed")
    yield Sample(make(0, 3), 0, name="empty")
    yield Sample(make.like([2.0, 1.0, 2.0, 1.0, 2.0]), kink=True, name="ties")
    yield Sample(make.like([2.0, 1.0, 2.0, 1.0]), 0, True, kink=True, name="ties descending")


@sampler("sort", "argsort", real=True)
def orders_with_nan(make: Make) -> Iterator[Sample]:
    yield Sample(make.like([1.0, NAN, -INFINITY, NAN, 0.0]), kink=True, name="nan")
    yield Sample(make.like([1.0, NAN, INFINITY, NAN]), 0, True, kink=True, name="nan first")


@sampler(
    "sort.stable",
    reference=lambda self, stable, dim=-1, descending=False: _sorted(self, dim, descending),
    real=True,
)
def stable_orders(make: Make) -> Iterator[Sample]:
    yield Sample(make.distinct(3, 4), stable=True, name="last")
    yield Sample(make.distinct(), stable=True, dim=0, name="scalar")
    yield Sample(make.distinct(3, 4), stable=False, dim=0, descending=True, name="descending")
    yield Sample(make.like([2.0, 1.0, 2.0, 1.0]), stable=True, kink=True, name="ties")


# selection by rank -------------------------------------------------------------------------------


def _top(self: Any, k: int, dim: int = -1, largest: bool = True, sorted: bool = True) -> Any:
    if np.ndim(self) == 0:
        return (self,)
    values = np.sort(self, axis=dim)
    values = np.flip(values, dim) if largest else values
    return (values.take(range(k), axis=dim),)


@sampler("topk", reference=_top, real=True)
def tops(make: Make) -> Iterator[Sample]:
    yield Sample(make.distinct(), 1, name="scalar")
    yield Sample(make.distinct(5), 2, name="vector")
    yield Sample(make.distinct(3, 4), 3, 0, False, name="smallest")
    yield Sample(make.distinct(2, 40), 3, name="of many")
    yield Sample(make.distinct(40, 2), 3, 0, False, name="smallest of many")
    yield Sample(make.distinct(4, 3).t(), 2, -1, True, False, name="transposed")
    yield Sample(make(3), 0, name="none")
    yield Sample(make.like([1.0, 2.0, 2.0, 2.0, 1.0]), 2, kink=True, name="ties")


@sampler("kthvalue", reference=_kth, real=True)
def kth_values(make: Make) -> Iterator[Sample]:
    yield Sample(make.distinct(), 1, 0, name="scalar")
    yield Sample(make.distinct(5), 2, name="vector")
    yield Sample(make.distinct(3, 4), 3, 0, True, name="kept")
    yield Sample(make.distinct(2, 40), 17, 1, name="of many")
    yield Sample(make.distinct(4, 3).t(), 2, -1, name="transposed")
    yield Sample(make.like([2.0, 1.0, 2.0, 2.0, 1.0]), 4, kink=True, name="ties")
    yield Sample(make(0, 3), 1, 1, name="of no rows")


@sampler("median.dim", "nanmedian.dim", "mode", real=True)
def middles(make: Make) -> Iterator[Sample]:
    yield Sample(make.distinct(), 0, name="scalar")
    yield Sample(make.distinct(5), 0, name="odd")
    yield Sample(make.distinct(3, 4), -1, name="even")
    yield Sample(make.distinct(3, 4), 0, True, name="kept")
    yield Sample(make.distinct(2, 40), 1, name="of many")
    yield Sample(make.distinct(4, 3).t(), 0, name="transposed")
    yield Sample(make(0, 3), 1, name="of no rows")
    yield Sample(make.like([[2.0, 1.0, 2.0, 1.0], [3.0, 3.0, 1.0, 1.0]]), 1, kink=True, name="ties")
    yield Sample(
        make.like([[2.0, NAN, 1.0], [3.0, 1.0, 2.0], [NAN, NAN, NAN]]), 1, kink=True, name="nan"
    )


@sampler("median", reference=lambda self: np.sort(self, axis=None)[(self.size - 1) // 2], real=True)
@sampler("nanmedian", real=True)
def medians(make: Make) -> Iterator[Sample]:
    yield Sample(make.distinct(), name="scalar")
    yield Sample(make.distinct(3, 4), name="matrix")
    yield Sample(make.distinct(5, 1).t(), name="transposed")
    yield Sample(make.distinct(41), name="of many")
    yield Sample(make.like([2.0, 1.0, 2.0, 2.0]), kink=True, name="ties")


@sampler("median", "nanmedian", real=True)
def medians_of_nan(make: Make) -> Iterator[Sample]:
    yield Sample(make.like([2.0, NAN, 1.0, NAN, 3.0]), kink=True, name="nan")


@sampler("_median", real=True)
def medians_over(make: Make) -> Iterator[Sample]:
    yield Sample(make.distinct(3, 4), (0, 1), False, False, name="both")
    yield Sample(make.distinct(2, 3, 4), (0, -1), True, False, name="kept")
    yield Sample(make.distinct(2, 3), (1,), False, True, name="numbers")
    yield Sample(make.distinct(), None, False, False, name="scalar")


def _quantiles(
    self: Any, q: Any, dim: Any = None, keepdim: bool = False, interpolation: Any = "linear"
) -> Any:
    return np.quantile(
        self, q, axis=dim if np.ndim(self) else None, keepdims=keepdim, method=interpolation
    )


@sampler("quantile", "nanquantile", reference=_quantiles, real=True)
def quantiles(make: Make) -> Iterator[Sample]:
    yield Sample(make.distinct(), make.probability(), name="scalar")
    yield Sample(make.distinct(3, 4), make.probability(2), name="all")
    yield Sample(make.distinct(3, 4), make.probability(2), 1, True, name="kept")
    yield Sample(make.distinct(2, 3, 4), make.probability(3), -2, name="middle")
    yield Sample(make.distinct(5), make.probability(), 0, name="one")
    for interpolation in ("lower", "higher", "midpoint", "nearest"):
        yield Sample(
            make.distinct(3, 4),
            make.uniform(0.1, 0.2, 2),
            0,
            interpolation=interpolation,
            name=interpolation,
        )


@sampler("quantile", "nanquantile", real=True)
def quantiles_at_the_edge(make: Make) -> Iterator[Sample]:
    ends = make.like([0.0, 0.5, 1.0])
    yield Sample(make.distinct(3), ends.detach(), 0, kink=True, name="at elements")
    yield Sample(make.like([1.0, NAN, 3.0]), ends.detach(), kink=True, name="nan")
    yield Sample(make.like([-1.0, INFINITY]), ends.detach(), kink=True, name="inf")


@sampler("quantile.scalar", "nanquantile.scalar", reference=_quantiles, real=True)
def quantiles_of_a_number(make: Make) -> Iterator[Sample]:
    yield Sample(make.distinct(3, 4), 0.4, name="all")
    yield Sample(make.distinct(3, 4), 0.7, 0, True, name="kept")
    yield Sample(make.distinct(3, 4), 0.7, 1, interpolation="lower", name="lower")


@sampler("_within", reference=lambda self, low, high, what: self, real=True)
def probabilities(make: Make) -> Iterator[Sample]:
    yield Sample(make.probability(3), 0, 1, "q", name="vector")


# distinct values ---------------------------------------------------------------------------------


@sampler("_distinct", real=True)
def distinct_values(make: Make) -> Iterator[Sample]:
    yield Sample(make.distinct(4), None, False, name="vector")
    yield Sample(make.distinct(2, 3), None, True, name="consecutive")
    yield Sample(make.distinct(3, 2), 0, False, name="slices")
    yield Sample(make.distinct(2, 3, 2), -2, True, name="consecutive slices")
    yield Sample(make.like([2.0, 1.0, 2.0, 3.0]), None, False, kink=True, name="ties")
    yield Sample(
        make.like([[2.0, 1.0], [1.0, 3.0], [2.0, 1.0]]), 0, False, kink=True, name="equal slices"
    )


@sampler(
    "_unique",
    reference=lambda self, sorted=True, return_inverse=False: (np.unique(self),),
    real=True,
)
@sampler("_unique2", reference=lambda self, *options: (np.unique(self),), real=True)
def uniques(make: Make) -> Iterator[Sample]:
    yield Sample(make.distinct(4), name="vector")
    yield Sample(make.distinct(3, 2).t(), True, True, name="inverse")
    yield Sample(make.distinct(), True, True, name="scalar")
    yield Sample(make(0), name="empty")
    yield Sample(make.like([2.0, 1.0, 2.0, 3.0]), True, True, kink=True, name="ties")


@sampler("unique_consecutive", real=True)
def runs(make: Make) -> Iterator[Sample]:
    yield Sample(make.distinct(4), name="vector")
    yield Sample(make.distinct(3, 2), True, True, 0, name="slices")
    yield Sample(make.like([2.0, 2.0, 1.0, 2.0]), True, True, kink=True, name="ties")


@sampler("unique_dim", real=True)
@sampler("unique_dim_consecutive", real=True)
def unique_slices(make: Make) -> Iterator[Sample]:
    yield Sample(make.distinct(3, 2), 0, name="rows")
    yield Sample(make.distinct(3, 2), -1, True, True, name="columns")


# searching and counting --------------------------------------------------------------------------


def _ladder(make: Make, *shape: int) -> ad.Tensor:
    return make.like(np.sort(make.distinct(*shape).detach().numpy().real, axis=-1))


@sampler("searchsorted.Tensor", real=True)
def searches(make: Make) -> Iterator[Sample]:
    yield Sample(_ladder(make, 5), make(2, 3), name="common")
    yield Sample(_ladder(make, 5), make(), right=True, name="scalar")
    yield Sample(_ladder(make, 2, 5), make(2, 3), side="right", name="rows")
    yield Sample(_ladder(make, 2, 5), make(2, 70), out_int32=True, name="long rows")
    yield Sample(make.like([3.0, 1.0, 2.0]), make(4), sorter=ad.tensor([1, 2, 0]), name="sorter")
    yield Sample(make.like([1.0, 2.0, 2.0]), make.like([2.0, 1.0, 3.0]), right=True, name="ties")
    yield Sample(make.like([1.0, 2.0, 3.0]), make.like([NAN, 1.0]), name="nan")
    yield Sample(make.like([]), make(2), name="empty")


@sampler("searchsorted.Scalar", real=True)
def searches_for_a_number(make: Make) -> Iterator[Sample]:
    yield Sample(_ladder(make, 5), 0.3, name="left")
    yield Sample(make.like([1.0, 2.0, 2.0, 3.0]), 2, right=True, name="right")


@sampler("bucketize.Tensor", real=True)
def buckets(make: Make) -> Iterator[Sample]:
    yield Sample(make(2, 3), _ladder(make, 5), name="matrix")
    yield Sample(make.like([1.0, 2.0]), make.like([1.0, 2.0]), right=True, name="ties")


@sampler("bucketize.Scalar", real=True)
def buckets_of_a_number(make: Make) -> Iterator[Sample]:
    yield Sample(0.3, _ladder(make, 5), name="number")


@sampler(
    "isin.Tensor_Tensor",
    reference=lambda elements, test, **options: np.isin(elements, test, **options),
)
def members(make: Make) -> Iterator[Sample]:
    yield Sample(make.like([[1.0, 2.0], [3.0, 4.0]]), make.like([2.0, 3.0]), name="matrix")
    yield Sample(make.like([1.0, 2.0, NAN]), make.like([2.0, NAN]), invert=True, name="inverted")
    yield Sample(make.like(2.0), make.like([[1.0], [2.0]]), name="scalar")
    yield Sample(make(3), make(0), name="in nothing")


@sampler("isin.Tensor_Scalar")
def members_equal_to(make: Make) -> Iterator[Sample]:
    yield Sample(make.like([1.0, 2.0]), 2.0, name="vector")
    yield Sample(make.like([1.0, 2.0]), 2.0, invert=True, name="inverted")


@sampler("isin.Scalar_Tensor")
def member(make: Make) -> Iterator[Sample]:
    yield Sample(2.0, make.like([[1.0], [2.0]]), name="number")
    yield Sample(2.0, make.like([1.0, 2.0]), invert=True, name="inverted")


@sampler(
    "histc",
    reference=lambda self, bins, low, high: np.histogram(self, bins, (low, high))[0],
    real=True,
)
def histograms(make: Make) -> Iterator[Sample]:
    yield Sample(make(3, 4), 5, -1.03, 1.02, name="matrix")
    yield Sample(make.like([0.0, 1.0, 4.0, 9.0]), 4, 0, 4, name="edges")


@sampler("histc", real=True)
def histograms_of_a_range(make: Make) -> Iterator[Sample]:
    yield Sample(make(7), 3, name="range of the elements")
    yield Sample(make.like([2.0, 2.0]), 4, name="one value")
    yield Sample(make(), 2, name="scalar")


@sampler("_histc", real=True)
def histograms_of_rows(make: Make) -> Iterator[Sample]:
    yield Sample(make(3, 4), 5, -1.0, 1.0, name="rows")
    yield Sample(make(2, 3, 4), 2, 0, 0, name="range of each row")


@sampler("histogram.bins_tensor", real=True)
def weighed_histograms(make: Make) -> Iterator[Sample]:
    edges = _ladder(make, 4).detach()
    yield Sample(make.distinct(5), edges, weight=make(5), name="weights")
    yield Sample(
        make.distinct(5).detach(), edges, weight=make.positive(5), density=True, name="density"
    )


@sampler("histogram.bin_ct", real=True)
def histograms_of_parts(make: Make) -> Iterator[Sample]:
    yield Sample(make.distinct(5), 3, range=(-2.0, 2.0), weight=make(5), name="range")
    yield Sample(make.distinct(5).detach(), 4, weight=make(5), name="range of the elements")


@sampler(
    "bincount", reference=lambda self, weights=None, n=0: np.bincount(self, weights, n), real=True
)
def counts(make: Make) -> Iterator[Sample]:
    yield Sample(make.index(4, 6), name="counts")
    yield Sample(make.index(4, 6), make(6), name="weights")
    yield Sample(make.index(2, 3), make(3), 5, name="at least")


@sampler("histogramdd", real=True)
def cells(make: Make) -> Iterator[Sample]:
    points = make.distinct(5, 2).detach()
    yield Sample(points, (2, 3), weight=make(5), name="parts")
    yield Sample(points, (2, 3), (-2.0, 2.0, -1.0, 1.0), make(5), name="range")
    yield Sample(points, (1, 3), None, make.positive(5), True, name="density")


@sampler("histogramdd.int_bins", real=True)
def cells_alike(make: Make) -> Iterator[Sample]:
    yield Sample(make.distinct(5, 2).detach(), 3, weight=make(5), name="parts")


@sampler("histogramdd.TensorList_bins", real=True)
def cells_between_edges(make: Make) -> Iterator[Sample]:
    edges = [_ladder(make, 4).detach(), _ladder(make, 3).detach()]
    yield Sample(make.distinct(5, 2).detach(), edges, weight=make(5), name="edges")
