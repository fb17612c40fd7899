"""Kernels of the family `sorting`: arrays in, arrays out.

`order` sorts, `select` and `quantiles` choose by rank, `distinct` finds distinct values, `search`
looks up and counts.
"""
