"""Kernels of the family `sorting`: arrays in, arrays out.

`order` sorts, `select` and `quantiles` choose by rank, `distinct` finds distinct values, `search`
looks up and counts.
"""

from adjoint.kernels.sorting.distinct import distinct, unique2, unique_consecutive
from adjoint.kernels.sorting.order import argsort, sort
from adjoint.kernels.sorting.quantiles import nanquantile, quantile, within
from adjoint.kernels.sorting.search import bincount, histc, isin, searchsorted
from adjoint.kernels.sorting.select import (
    kthvalue,
    median,
    median_over,
    mode,
    nanmedian,
    topk,
)
