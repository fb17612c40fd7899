"""Kernels: arrays in, arrays out, one file for each family; they import core alone of ours.

A row with a decomposition keeps a kernel that is faster or more exact. Of 298 such rows, on samples
of a few elements, the decomposition takes 2.3 times as long in the median: more than 3.9 times for
a quarter of them, less than 1.5 times for another. 37 decompositions are as fast; beside them, some
kernels round once (silu, _tanhshrink), and the others belong to rows with formulas or C text.
"""
