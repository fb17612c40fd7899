"""Samples of scans, differences and integrals."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

import adjoint as ad
from adjoint.testing.samples import Make, Sample, sampler

INFINITY = float("inf")


@sampler("cumsum", "cumprod", "logcumsumexp", "_reverse_cumsum")
def scans(make: Make) -> Iterator[Sample]:
    yield Sample(make(), 0, name="scalar")
    yield Sample(make(5), 0, name="vector")
    yield Sample(make(3, 4), -1, name="last")
    yield Sample(make(2, 3, 2), 1, name="middle")
    yield Sample(make(4, 3).t(), 0, name="transposed")
    yield Sample(make(0, 3), 0, name="empty")
    yield Sample(make(3, 1), 1, name="of one")


@sampler("cumprod")
def products_with_zeros(make: Make) -> Iterator[Sample]:
    yield Sample(make.like([2.0, 0.0, 3.0, 4.0]), 0, name="one zero")
    yield Sample(make.like([0.0, 2.0, 0.0, 3.0]), 0, name="two zeros")
    yield Sample(make.like([[1.0, 0.0], [0.0, 0.0], [2.0, 3.0]]), 0, name="zeros in columns")


@sampler("logcumsumexp")
def log_sums(make: Make) -> Iterator[Sample]:
    yield Sample(make.like([900.0, 901.0, -900.0]), 0, name="extreme")
    if make.is_complex:
        return
    yield Sample(make.like([-INFINITY, 1.0, -INFINITY, 2.0]), 0, kink=True, name="-inf")
    yield Sample(make.like([1.0, INFINITY, 2.0]), 0, kink=True, name="inf")


@sampler("cummax", "cummin", real=True)
def running_extrema(make: Make) -> Iterator[Sample]:
    yield Sample(make.distinct(), 0, name="scalar")
    yield Sample(make.distinct(5), 0, name="vector")
    yield Sample(make.distinct(3, 4), -1, name="last")
    yield Sample(make.distinct(4, 3).t(), 0, name="transposed")
    yield Sample(make.like([1.0, 1.0, 0.0, 2.0, 2.0]), 0, kink=True, name="ties")


@sampler("_shift")
def shifts(make: Make) -> Iterator[Sample]:
    yield Sample(make(), 0, 1, 2.0, name="scalar")
    yield Sample(make(4), 0, 1, 1.0, name="right")
    yield Sample(make(3, 4), -1, -1, 0.0, name="left")
    yield Sample(make(3, 2), 0, 5, 1.0, name="out")
    yield Sample(make(0, 2), 0, -1, 1.0, name="empty")


@sampler("_linear_recurrence")
def recurrences(make: Make) -> Iterator[Sample]:
    for reverse in (False, True):
        where = "backwards" if reverse else "forwards"
        yield Sample(make(5), make(5), 0, reverse, name=where)
        yield Sample(make(3, 4), make(3, 4), 0, reverse, name=f"columns {where}")
        yield Sample(make(2, 5), make(2, 5), -1, reverse, name=f"rows {where}")
    yield Sample(make.like([2.0, 0.0, 3.0]), make(3), 0, False, name="zeros")
    yield Sample(make(), make(), 0, False, name="scalar")
    yield Sample(make(0), make(0), 0, False, name="empty")


# differences and integrals -----------------------------------------------------------------------


@sampler("diff", reference=lambda self, n=1, dim=-1, prepend=None, append=None: np.diff(
    self, n, dim, *([] if prepend is None else [prepend]),
    **({} if append is None else {"append": append}),
))  # fmt: skip
def differences(make: Make) -> Iterator[Sample]:
    yield Sample(make(5), name="vector")
    yield Sample(make(3, 4), 2, 0, name="second")
    yield Sample(make(2, 3), 4, name="too many")
    yield Sample(make(2, 3), 0, name="none")
    yield Sample(make(2, 3), 1, 1, make(2, 1), make(2, 2), name="ends")
    yield Sample(make(1, 3), 1, 0, name="of one")


@sampler("trapezoid.dx", "trapz.dx", "cumulative_trapezoid.dx")
def integrals(make: Make) -> Iterator[Sample]:
    yield Sample(make(5), name="vector")
    yield Sample(make(3, 4), dx=0.5, dim=0, name="dx")
    yield Sample(make(2, 1), name="of one")


@sampler("trapezoid.x", "trapz.x", "cumulative_trapezoid.x")
def integrals_at_points(make: Make) -> Iterator[Sample]:
    yield Sample(make(5), make(5), name="vector")
    yield Sample(make(3, 4), make(3), dim=0, name="first")
    yield Sample(make(2, 3), make(2, 3), name="each")


@sampler("gradient.scalarint")
def gradients(make: Make) -> Iterator[Sample]:
    yield Sample(make(4), name="vector")
    yield Sample(make(3, 4), spacing=0.5, name="matrix")
    yield Sample(make(4, 2), dim=0, edge_order=2, name="second order")
    yield Sample(make(2), name="two samples")


@sampler("gradient.scalararray")
def gradients_scalararray(make: Make) -> Iterator[Sample]:
    yield Sample(make(3, 4), spacing=2.0, dim=(1, 0), name="swapped")


@sampler("gradient.array")
def gradients_array(make: Make) -> Iterator[Sample]:
    yield Sample(make(3, 4), dim=(1,), edge_order=2, name="last")


@sampler("gradient.scalarrayint")
def gradients_scalarrayint(make: Make) -> Iterator[Sample]:
    yield Sample(make(3, 4), spacing=[2.0, 0.5], name="both")


@sampler("gradient.scalarrayarray")
def gradients_scalarrayarray(make: Make) -> Iterator[Sample]:
    yield Sample(make(3, 4), spacing=[2.0], dim=(1,), name="last")


def _points(make: Make, *steps: float) -> ad.Tensor:
    return make.like(np.cumsum(steps))


@sampler("gradient.tensorarrayint")
def gradients_tensorarrayint(make: Make) -> Iterator[Sample]:
    points = [_points(make, 0, 1, 0.5, 2)]
    yield Sample(make(3, 4), spacing=points, dim=1, name="points")
    yield Sample(make(4), spacing=points, edge_order=2, name="second order")


@sampler("gradient.tensorarray")
def gradients_tensorarray(make: Make) -> Iterator[Sample]:
    points = [_points(make, 0, 1, 0.5, 2), _points(make, 0.5, 1, 1.5)]
    yield Sample(make(3, 4), spacing=points, dim=(1, 0), name="points")
