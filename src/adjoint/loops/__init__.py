"""Loops over elements: loop programs, their C text, and kernels of one element for large arrays."""
