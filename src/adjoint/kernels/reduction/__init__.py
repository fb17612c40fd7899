"""Kernels of the family `reduction`: arrays in, arrays out.

`sums` holds sums, means and products, `extrema` comparisons and counts, `norms` log-sum-exp, norms
and variances, `segments` reductions over pieces of a dimension.
"""

from adjoint.kernels.reduction.common import unreduce
from adjoint.kernels.reduction.extrema import (
    all_all,
    all_dim,
    all_dims,
    amax,
    amin,
    any_all,
    any_dim,
    any_dims,
    argmax,
    argmin,
    count_nonzero,
    hash_tensor,
    max_all,
    max_dim,
    min_all,
    min_dim,
    tie_weights,
    unselect,
)
from adjoint.kernels.reduction.norms import (
    directed,
    direction,
    exp_difference,
    exp_shares,
    length_backward,
    logsumexp,
    quotient,
    std,
    std_backward,
    var,
    var_mean,
    vector_norm,
)
from adjoint.kernels.reduction.segments import (
    segment_ids,
    segment_reduce,
)
from adjoint.kernels.reduction.sums import (
    mean_all,
    mean_dims,
    nansum,
    other_factors,
    prod_all,
    prod_dim,
    sum_all,
    sum_dims,
)
