"""Decompositions of the shape family.

`rearrange` takes one tensor, `joins` cuts and joins several, `casts` converts.
"""
