"""Kernels of the family `reduction`: arrays in, arrays out.

`sums` holds sums, means and products, `extrema` comparisons and counts, `norms` log-sum-exp, norms
and variances, `segments` reductions over pieces of a dimension.
"""
